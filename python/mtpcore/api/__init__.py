"""The public Python interface."""

from .bundled import bundled_model_dir
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
    "bundled_model_dir",
]
