"""Persistent request buffers on the device, by ``req_idx``; row 0 is null.

They are the truth about every running request: the plan brings bounds, never decode tokens.
All are allocated once, so that their addresses never move.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SEQ_LEN, OUTPUT_LEN, TOKENS_LEFT, MIN_TOKENS, LAST_TOKEN, ACCEPTED, DONE = range(7)
NUM_CURSORS = 7
SEED_LO, SEED_HI, SAMPLE_INDEX, TOP_K = range(4)
TEMPERATURE, TOP_P = range(2)
MAX_STOP_IDS = 8
NO_DRAFT = -1


@dataclass(frozen=True)
class BufferSizes:
    """Sizes that fix every request buffer; pages counts page-table entries of one request."""

    max_num_seqs: int
    max_pages: int
    mtp_step: int
    hidden_size: int
    vocab_size: int

    @property
    def bitmap_words(self) -> int:
        """int32 words of a vocabulary bitmap."""
        return (self.vocab_size + 31) // 32


class RequestBuffers:
    """Device state of the requests.

    Attributes:
        cursors: int64 [R + 1, 7], one column a cursor (SEQ_LEN: tokens consumed; OUTPUT_LEN:
            tokens emitted; TOKENS_LEFT; MIN_TOKENS; LAST_TOKEN: sampled and not yet consumed;
            ACCEPTED: index of the live state in the row's states; DONE: ended on the device).
        dev_*: column views of ``cursors``.
        sampling: int64 [R + 1, 4]; sampling_floats: float32 [R + 1, 2].
        stop_ids: int64 [R + 1, 8], unused -1; stop_bitmap: int32 [R + 1, words].
        dev_drafts: int64 [R + 1, max(mtp_step, 1)], NO_DRAFT where there is none.
        dev_last_hidden: [R + 1, H] model dtype, hidden row of the last consumed token.
        dev_page_table: int64 [R + 1, max_pages].
    """

    def __init__(self, sizes: BufferSizes, dtype: torch.dtype, device: torch.device) -> None:
        rows = sizes.max_num_seqs + 1
        self.sizes = sizes
        self.cursors = torch.zeros(rows, NUM_CURSORS, dtype=torch.int64, device=device)
        self.dev_seq_len = self.cursors[:, SEQ_LEN]
        self.dev_output_len = self.cursors[:, OUTPUT_LEN]
        self.dev_tokens_left = self.cursors[:, TOKENS_LEFT]
        self.dev_min_tokens = self.cursors[:, MIN_TOKENS]
        self.dev_last_token = self.cursors[:, LAST_TOKEN]
        self.dev_accepted = self.cursors[:, ACCEPTED]
        self.dev_done = self.cursors[:, DONE]
        self.sampling = torch.zeros(rows, 4, dtype=torch.int64, device=device)
        self.sampling_floats = torch.zeros(rows, 2, dtype=torch.float32, device=device)
        self.stop_ids = torch.full((rows, MAX_STOP_IDS), -1, dtype=torch.int64, device=device)
        self.stop_bitmap = torch.zeros(rows, sizes.bitmap_words, dtype=torch.int32, device=device)
        self.dev_drafts = torch.full(
            (rows, max(sizes.mtp_step, 1)), NO_DRAFT, dtype=torch.int64, device=device
        )
        self.dev_last_hidden = torch.zeros(rows, sizes.hidden_size, dtype=dtype, device=device)
        self.dev_page_table = torch.zeros(rows, sizes.max_pages, dtype=torch.int64, device=device)

    def storage_bytes(self) -> int:
        """Bytes of every buffer; they count as workspace."""
        tensors: tuple[Tensor, ...] = (
            self.cursors,
            self.sampling,
            self.sampling_floats,
            self.stop_ids,
            self.stop_bitmap,
            self.dev_drafts,
            self.dev_last_hidden,
            self.dev_page_table,
        )
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors)
