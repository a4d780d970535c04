"""Gated delta rule: the recurrence of a GDN layer, as a verify step and as a prefill."""

from .reference import StepRows, l2norm, prefill, step

__all__ = ["StepRows", "l2norm", "prefill", "step"]
