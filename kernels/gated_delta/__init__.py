"""Gated delta rule: the recurrence of a GDN layer, as a verify step and as a prefill."""

from .reference import StepRows, prefill, qk_l2norm, step

__all__ = ["StepRows", "prefill", "qk_l2norm", "step"]
