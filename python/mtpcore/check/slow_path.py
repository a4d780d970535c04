"""Plain decoding at batch 1 without a cache, and the drafts that the MTP head owes to it.

A text is decoded by guess and verify: one full forward over prompt + guess gives the choice of each
position under the tokens before it, so the guess is plain decoding exactly as far as it equals the
choices, whoever made the guess. Nothing of the guess is trusted beyond that point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtpcore.check.mtp_chain import MtpChain
from mtpcore.check.naive import trunk
from mtpcore.check.sampling import Choice, Sampling, choose
from mtpcore.check.weights import read_config, read_weights

if TYPE_CHECKING:
    from pathlib import Path

Tokens = tuple[int, ...]


@dataclass
class Verified:
    """A text whose output was checked position by position.

    choices[i] is plain decoding's token after prompt + output[:i]; hidden [T, H] are the rows of
    prompt + output.
    """

    prompt: Tokens
    output: Tokens
    choices: list[Choice]
    hidden: Tensor
    drafts: dict[int, list[Choice]] = field(default_factory=dict)

    def first_difference(self) -> int | None:
        """Index of the first output token that is not plain decoding's, or None."""
        for index, token in enumerate(self.output):
            if token != self.choices[index].token:
                return index
        return None


class SlowPath:
    """Own weights, own forward; keeps the longest verified text of each (prompt, sampling)."""

    def __init__(self, directory: Path, dtype: torch.dtype = torch.float32) -> None:
        self.config = read_config(directory)
        self.weights = read_weights(directory, dtype)
        self.has_mtp = "mtp.fc.weight" in self.weights
        self.num_forwards = 0
        self._known: dict[tuple[object, ...], Verified] = {}

    def _logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weights["lm_head.weight"]).double()

    @torch.no_grad()
    def verify(self, prompt: Tokens, output: Tokens, sampling: Sampling) -> Verified:
        """The choice at every position of `output`; one forward, or none if the text is known."""
        key = (prompt, *sampling.distribution())
        known = self._known.get(key)
        if known is not None and known.output[: len(output)] == output:
            return known
        ids = torch.tensor(prompt + output)
        self.num_forwards += 1
        hidden = trunk(ids, self.weights, self.config)
        # One row more than the output has, so that the text may be continued from its end.
        rows = self._logits(hidden[len(prompt) - 1 :]).numpy()
        choices = [choose(row, sampling, position) for position, row in enumerate(rows)]
        fresh = Verified(prompt, output, choices, hidden)
        if known is None or fresh.first_difference() is None:
            self._known[key] = fresh
        return fresh

    def decode(self, prompt: Tokens, sampling: Sampling, guess: Tokens = ()) -> Tokens:
        """Plain decoding of max_tokens tokens (stop ids apply), whatever `guess` holds."""
        output = guess[: sampling.max_tokens]
        while True:
            verified = self.verify(prompt, output, sampling)
            count = verified.first_difference()
            count = len(output) if count is None else count
            output = (*output[:count], verified.choices[count].token)
            end = plain_length(output, sampling)
            if end is not None:
                return output[:end]

    @torch.no_grad()
    def drafts(self, verified: Verified, sampling: Sampling, depth: int) -> dict[int, list[Choice]]:
        """The MTP head's drafts from every position that can start a round.

        Key s is the number of consumed tokens (the token at s is known): the list holds the drafts
        of positions s+1 .. s+depth. Positions run from the prompt's length to the text's end.
        """
        first = len(verified.prompt)
        if verified.drafts and len(next(iter(verified.drafts.values()))) >= depth:
            return verified.drafts
        ids = torch.tensor(verified.prompt + verified.output)
        chain = MtpChain.begin(ids, verified.hidden, self.weights, self.config)
        table: dict[int, list[Choice]] = {s: [] for s in range(first, len(ids))}
        for step in range(depth):
            logits = chain.logits()
            tokens = logits.argmax(-1)
            rows = logits[first - 1 :].double().numpy()
            for s, row in zip(table, rows, strict=True):
                choice = choose(row, sampling, s + 1 + step - first)
                table[s].append(choice)
                tokens[s - 1] = choice.token
            if step + 1 < depth:
                chain.advance(tokens)
        verified.drafts = table
        return table


def plain_length(output: Tokens, sampling: Sampling) -> int | None:
    """Number of tokens at which `output` ends by stop id or max_tokens; None if it goes on."""
    for index, token in enumerate(output):
        if token in sampling.stop_token_ids and index >= sampling.min_tokens:
            return index + 1
    return sampling.max_tokens if len(output) >= sampling.max_tokens else None
