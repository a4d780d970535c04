"""The public Python interface."""

from .llm import LLM
from .params import SamplingParams
from .results import CompletionOutput, Logprob, RequestMetrics, RequestOutput, StreamDelta

__all__ = [
    "LLM",
    "CompletionOutput",
    "Logprob",
    "RequestMetrics",
    "RequestOutput",
    "SamplingParams",
    "StreamDelta",
]
