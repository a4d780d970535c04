"""Settings and requests of the core's tests."""

from __future__ import annotations

from typing import Any

import numpy as np

Settings = dict[str, Any]

BASE: Settings = {
    "max_num_seqs": 4,
    "max_num_batched_tokens": 32,
    "page_size": 4,
    "num_pages": 64,
    "num_states": 4,
    "num_checkpoints": 12,
    "num_rings": 0,
    "window": 0,
    "max_model_len": 64,
    "vocab_size": 40,
    "mtp_step": 3,
    "overlap_depth": 1,
    "enable_prefix_caching": True,
    "checkpoint_interval": 0,
    "max_queue": 16,
    "state_mode": "native",
    "replay_history_len": 0,
    "page_bytes": 1024,
    "checkpoint_bytes": 4096,
}

REQUEST: Settings = {
    "max_tokens": 8,
    "min_tokens": 0,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
    "sample_index": 0,
    "stop_token_ids": [],
    "stop": [],
    "logprobs": -1,
    "priority": 0,
    "salt": b"",
}


def settings(**changes: Any) -> Settings:
    """A small valid config with some keys changed."""
    return {**BASE, **changes}


def prompt(length: int, start: int = 0) -> np.ndarray:
    """int32 [length]: counts up from `start` within the vocabulary."""
    return ((np.arange(length) + start) % BASE["vocab_size"]).astype(np.int32)


def vocabulary(size: int) -> list[bytes]:
    """One distinct letter pair a token."""
    return [bytes([97 + token // 10, 48 + token % 10]) for token in range(size)]
