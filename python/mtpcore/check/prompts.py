"""Prompts of the cases: real text where the model brings a tokenizer, else seeded token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from mtpcore.check.slow_path import Tokens

# William Shakespeare, Sonnets 18 and 73, in the public domain.
TEXT = """Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimmed,
And every fair from fair sometime declines,
By chance, or nature's changing course untrimmed:
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st,
Nor shall death brag thou wand'rest in his shade,
When in eternal lines to time thou grow'st,
So long as men can breathe, or eyes can see,
So long lives this, and this gives life to thee.

That time of year thou mayst in me behold
When yellow leaves, or none, or few, do hang
Upon those boughs which shake against the cold,
Bare ruined choirs, where late the sweet birds sang.
In me thou seest the twilight of such day
As after sunset fadeth in the west;
Which by and by black night doth take away,
Death's second self, that seals up all in rest.
In me thou seest the glowing of such fire,
That on the ashes of his youth doth lie,
As the death-bed, whereon it must expire,
Consumed with that which it was nourished by.
This thou perceiv'st, which makes thy love more strong,
To love that well, which thou must leave ere long.
"""
CORPUS_TOKENS = 1024


class Corpus:
    """A run of token ids to cut prompts from, and stop ids that occur in such text."""

    def __init__(self, directory: Path, vocab: int) -> None:
        path = directory / "tokenizer.json"
        if path.exists():
            tokenizer = Tokenizer.from_file(str(path))
            ids = [i for i in tokenizer.encode(TEXT).ids if i < vocab]
            self.stop_ids = tuple(tokenizer.encode(",").ids[-1:] + tokenizer.encode("\n").ids[-1:])
        else:
            ids = np.random.default_rng(0).integers(0, vocab, CORPUS_TOKENS).tolist()
            self.stop_ids = (vocab // 3, vocab // 5)
        self._ids = tuple(ids)

    def cut(self, start: int, length: int) -> Tokens:
        """`length` ids from `start` on, around the end of the run."""
        count = len(self._ids)
        return tuple(self._ids[(start + i) % count] for i in range(length))
