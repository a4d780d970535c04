"""From target logits to accepted tokens and committed states, on device tensors."""

from .sample import SamplingRows, sample_rows
from .state_acceptance import StateAcceptance, StateCommitBatch

__all__ = ["SamplingRows", "StateAcceptance", "StateCommitBatch", "sample_rows"]
