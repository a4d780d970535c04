"""Depthwise causal convolution with a window of raw inputs as its state."""

from .reference import ConvRows, prefill, step

__all__ = ["ConvRows", "prefill", "step"]
