"""Options of later work: each is refused by name while it would do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .options import EngineOptions

_RUNNING_DRAFTERS = ("auto", "none", "mtp")


def _choice(option: str, allowed: tuple[str, ...], later: tuple[str, ...]) -> Callable[..., None]:
    def check(value: Any) -> None:
        if value in allowed:
            return
        way_out = f"use {' or '.join(allowed)}"
        if value in later:
            raise OptionError(option, f"{value!r} is not built yet; {way_out}")
        raise OptionError(option, f"{value!r} is unknown; {way_out}")

    return check


def _only(option: str, neutral: Any, reason: str) -> Callable[..., None]:
    def check(value: Any) -> None:
        if value != neutral:
            raise OptionError(option, reason)

    return check


_REFUSALS: dict[str, Callable[[Any], None]] = {
    "dtype": _choice("dtype", ("auto", "float32", "bfloat16"), ("float16",)),
    "enforce_eager": _only(
        "enforce_eager",
        False,
        "graphs are not built yet, so every step runs eagerly already; leave it False",
    ),
    "ssm_state_mode": _choice("ssm_state_mode", ("native",), ("compact", "replay", "auto")),
    "ssm_state_dtype": _choice("ssm_state_dtype", ("float32", "bfloat16"), ()),
    "mtp_mode": _choice("mtp_mode", _RUNNING_DRAFTERS, ("ngram", "dflash", "dflash2", "dspark")),
    "mtp_draft_model_dir": _only(
        "mtp_draft_model_dir",
        None,
        "separate draft models are not built yet; leave it out and use a model with an MTP head",
    ),
    "mtp_dynamic_verify": _only(
        "mtp_dynamic_verify", False, "dynamic verify width is not built yet; leave it False"
    ),
    "mtp_windowed": _only(
        "mtp_windowed",
        False,
        "an MTP head keeps its KV in the target's pages and has no window; leave it False",
    ),
    "mtp_window_size": _only(
        "mtp_window_size", None, "it needs mtp_windowed, which is not built yet; leave it out"
    ),
    "replay_history_len": _only(
        "replay_history_len",
        None,
        "it needs ssm_state_mode='replay', which is not built yet; leave it out",
    ),
    "replay_projection": _only(
        "replay_projection",
        "auto",
        "it needs ssm_state_mode='replay', which is not built yet; leave it 'auto'",
    ),
}


def check_refused(options: EngineOptions) -> None:
    """Raise :class:`OptionError` for the first option whose value does not act in this version."""
    for name, check in _REFUSALS.items():
        check(getattr(options, name))
