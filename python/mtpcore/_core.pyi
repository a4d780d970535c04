"""The compiled core: every integer that decides."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypedDict, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "IntegrityError",
    "OutputBatch",
    "PlanError",
    "RejectError",
    "ResultError",
    "Scheduler",
    "StepInfo",
    "__version__",
    "memory_plan",
    "plan_fields",
    "result_fields",
    "state_vectors",
]

__version__: Final[str]

class RejectError(ValueError):
    """A request was refused; nothing was taken. The message is the user's text."""

    reason: str
    """A short code for programs, stable across versions."""

class ResultError(ValueError):
    """A result breaks a law; nothing of it was applied. Names the field, the row and the law."""

class PlanError(RuntimeError):
    """Work waits, nothing runs and nothing fits: a resource leaked."""

class IntegrityError(RuntimeError):
    """An invariant of the core does not hold."""

@final
class StepInfo:
    """What `plan` did; all numbers are 0 unless the status is "run"."""

    @property
    def status(self) -> Literal["run", "idle", "commit_first"]:
        """run: a step was written. idle: nothing to do. commit_first: commit, then plan again."""
    @property
    def step_id(self) -> int:
        """Number of the step; `commit` takes it back."""
    @property
    def num_rows(self) -> int:
        """Rows of the step, one a request."""
    @property
    def num_decode_rows(self) -> int:
        """Decode rows, which come first."""
    @property
    def num_tokens(self) -> int:
        """Decode rows times verify_width, plus prefill tokens."""

@final
class OutputBatch:
    """Deltas since the last take: columns of one length, an entry for each row that emitted or
    ended, in the order of its emission."""

    @property
    def request_id(self) -> NDArray[np.int64]:
        """int64 [n]: the request."""
    @property
    def step_id(self) -> NDArray[np.int32]:
        """int32 [n]: the step that emitted; -1 for an end outside a step."""
    @property
    def row(self) -> NDArray[np.int32]:
        """int32 [n]: the row in that step; -1 for an end outside a step."""
    @property
    def num_tokens(self) -> NDArray[np.int32]:
        """int32 [n]: tokens of the entry."""
    @property
    def finish(self) -> NDArray[np.int32]:
        """int32 [n]: 0 goes on, 1 stop token, 2 length, 3 abort, 4 error, 5 stop string."""
    @property
    def num_cached(self) -> NDArray[np.int32]:
        """int32 [n]: prompt tokens that came from the prefix cache at the first admission."""
    @property
    def stop_bytes(self) -> NDArray[np.int64]:
        """int64 [n]: bytes of output text to keep before a stop string; -1 otherwise."""
    @property
    def tokens_offset(self) -> NDArray[np.int32]:
        """int32 [n]: where the entry's tokens begin in `tokens`."""
    @property
    def tokens(self) -> NDArray[np.int32]:
        """int32 [sum of num_tokens]: all tokens, back to back."""
    def __len__(self) -> int: ...

class _Pool(TypedDict):
    name: str
    total: int
    free: int
    used: int
    cached: int

@final
class Scheduler:
    """All requests of one engine, and all that they hold. One thread at a time."""

    def __new__(cls, config: dict[str, int | bool | str]) -> Scheduler:
        """A scheduler with nothing to do.

        Args:
            config: max_num_seqs, max_num_batched_tokens, page_size, num_pages, num_states,
                num_checkpoints, num_rings, window, max_model_len, vocab_size, mtp_step,
                overlap_depth, enable_prefix_caching, checkpoint_interval, max_queue, state_mode,
                replay_history_len, page_bytes and checkpoint_bytes, all of them. Counts of pools
                are usable entries: the null entry 0 comes on top.

        Raises:
            ValueError: an unknown, missing or bad setting, named first in the message.
        """

    def submit(
        self,
        prompt: NDArray[np.int32],
        *,
        max_tokens: int,
        min_tokens: int,
        temperature: float,
        top_k: int,
        top_p: float,
        seed: int,
        sample_index: int,
        stop_token_ids: Sequence[int],
        stop: Sequence[bytes],
        logprobs: int,
        priority: int,
        salt: bytes,
        read_cache: bool = True,
    ) -> int:
        """Check a request and queue it.

        Args:
            prompt: int32 [n] token ids.
            max_tokens: most tokens to emit; the context limit may end the output before.
            min_tokens: stops are ignored below this output position.
            temperature: 0 is greedy.
            top_k: most probable tokens kept; 0 or -1 keeps all.
            top_p: nucleus mass kept, in (0, 1].
            seed: seed of the request's noise, an unsigned 64-bit integer.
            sample_index: index among the samples of one prompt.
            stop_token_ids: tokens that end the output.
            stop: byte strings that end it; they need `set_vocabulary`.
            logprobs: number a token; -1 none.
            priority: lower runs first.
            salt: separates tenants in the prefix cache.
            read_cache: whether cached tokens may be used.

        Returns:
            The request's identity, never used again.

        Raises:
            RejectError: the request breaks a limit; its message names the field and the way out.
        """

    def abort(self, request_id: int) -> bool:
        """End a request wherever it is. False if it is unknown or has ended."""

    def preempt(self, request_id: int) -> bool:
        """Put a running request back to be recomputed, once no step in flight names it. False if
        it is not running."""

    def set_vocabulary(self, token_bytes: Sequence[bytes]) -> None:
        """Give the bytes of every token, so that stop strings can be found.

        Raises:
            ValueError: there are not exactly vocab_size entries.
        """

    def plan(self, out: NDArray[np.int32]) -> StepInfo:
        """Write the next step into `out`, int32 [length of the plan table], contiguous.

        Raises:
            ValueError: another length or layout; nothing has changed then.
            PlanError: a broken invariant.
        """

    def commit(self, step_id: int, result: NDArray[np.int32]) -> None:
        """Take the result of the oldest step in flight, int32 [length of the result table],
        contiguous.

        Raises:
            ResultError: it breaks a law; nothing has changed then.
            ValueError: another layout.
        """

    def take_outputs(self) -> OutputBatch:
        """The deltas since the last call; the arrays are the caller's."""

    def pools(self) -> list[_Pool]:
        """Usable entries of each pool; free + used + cached = total. Visits every page."""

    def counters(self) -> dict[str, int]:
        """Counts since the start."""

    def check_integrity(self) -> None:
        """Compare every book with what is held; visits everything.

        Raises:
            IntegrityError: the first invariant that does not hold.
        """

    def num_unfinished(self) -> int:
        """Requests without a terminal."""

    def num_waiting(self) -> int:
        """Requests in the queue."""

    def num_running(self) -> int:
        """Requests in slots."""

def plan_fields(config: dict[str, int | bool | str]) -> list[tuple[str, int, int]]:
    """Fields of a plan array: name, offset and capacity in int32 words.

    Raises:
        ValueError: as `Scheduler`.
    """

def result_fields(config: dict[str, int | bool | str]) -> list[tuple[str, int, int]]:
    """Fields of a result array: name, offset and capacity in int32 words.

    Raises:
        ValueError: as `Scheduler`.
    """

def memory_plan(shape: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Size every pool of a model within a budget.

    Args:
        shape: sizes of the model; element sizes and weight_bytes in bytes.
        options: the settings that decide about memory; None stands for one not given.

    Returns:
        budget_bytes, total_bytes, pools [{name, bytes_each, count, bytes}], sizes {num_pages,
        num_states, num_checkpoints, page_bytes, checkpoint_bytes}, limiting_pool,
        limiting_setting, max_requests, pages_per_request, bytes_per_request and
        tokens_until_full. Counts of pools include the null entry, sizes do not.

    Raises:
        ValueError: a key that is unknown, missing or wrong, or the pool that does not fit, with
            the bytes missing and the way out.
    """

def state_vectors() -> str:
    """JSON text with the test vectors of the state and window cursors."""
