"""Engine options and the one place that judges them."""

from .errors import OptionError
from .options import EngineOptions
from .validate import Resolved, validate

__all__ = ["EngineOptions", "OptionError", "Resolved", "validate"]
