"""Model files and models: configuration, loading, the schedule of layers."""

from .causal_lm import CausalLM
from .config import ModelConfig, read_config
from .errors import ModelFileError
from .exec_layers import ExecLayer, build_exec_layers
from .generation import GenerationDefaults
from .loader import LoadedModel, load_model

__all__ = [
    "CausalLM",
    "ExecLayer",
    "GenerationDefaults",
    "LoadedModel",
    "ModelConfig",
    "ModelFileError",
    "build_exec_layers",
    "load_model",
    "read_config",
]
