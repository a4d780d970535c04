"""Drafters."""

from .mtp import MtpHead
from .table import DRAFTERS, Drafter, check_drafter

__all__ = ["DRAFTERS", "Drafter", "MtpHead", "check_drafter"]
