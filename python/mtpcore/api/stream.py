"""Deltas of one streamed request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..engine.detokenize import OutputText
from .assemble import ending, request_output
from .results import StreamDelta

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..engine.requests import RequestRecord
    from .inputs import CheckedPrompt
    from .params import SamplingParams


class RequestStream:
    """Turns a record's growth into deltas; the texts of all deltas are the result's text."""

    def __init__(
        self,
        index: int,
        record: RequestRecord,
        prompt: CheckedPrompt,
        params: SamplingParams,
        engine: Engine,
    ) -> None:
        self.record = record
        self._index = index
        self._prompt = prompt
        self._params = params
        self._engine = engine
        self._num_chunks = 0
        self._text: OutputText | None = None
        if engine.tokenizer is not None and params.detokenize:
            longest = max((len(stop.encode("utf-8")) for stop in params.stop_strings()), default=1)
            self._text = OutputText(engine.tokenizer, params.skip_special_tokens, longest - 1)

    def has_news(self) -> bool:
        """Whether tokens or the end have come since the last delta."""
        return len(self.record.chunks) > self._num_chunks or self.record.is_finished

    def take(self) -> StreamDelta:
        """What is new since the last call."""
        record = self.record
        new = record.chunks[self._num_chunks :]
        self._num_chunks = len(record.chunks)
        token_ids = np.concatenate(new).tolist() if new else []
        if not record.is_finished:
            return StreamDelta(self._index, self._grow(token_ids), token_ids, False)
        result = request_output(record, self._prompt, self._params, self._engine)
        text = ""
        if self._text is not None:
            end = ending(record, self._params, result.outputs[0].token_ids, self._engine)
            self._text.push(token_ids[:-1] if end.drops_last else token_ids)
            if end.kept_bytes is not None:
                self._text.cut(end.kept_bytes)
            text = self._text.take(final=True)
        return StreamDelta(self._index, text, token_ids, True, result)

    def _grow(self, token_ids: list[int]) -> str:
        if self._text is None:
            return ""
        self._text.push(token_ids)
        return self._text.take()
