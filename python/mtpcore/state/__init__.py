"""Recurrent state of a hybrid model: resources, the description of a forward, the modes."""

from .conv_ssm_state import ConvSSMState
from .executor import SSMExecutor, SSMRun
from .forward import AttnForward, AttnSpan, PrefillSpan, SSMForward
from .shape import StateShape

__all__ = [
    "AttnForward",
    "AttnSpan",
    "ConvSSMState",
    "PrefillSpan",
    "SSMExecutor",
    "SSMForward",
    "SSMRun",
    "StateShape",
]
