"""Small files, one word per idea, nothing that speaks of anything but the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 400
CODE = {".rs", ".py", ".pyi"}
TEXT = CODE | {".md", ".toml", ".sh", ".yml", ".yaml"}

# word -> the project's word for the idea
ONE_WORD = {
    r"block_table": "page_table",
    r"num_speculative_tokens": "mtp_step",
    r"num_spec_tokens": "mtp_step",
    r"draft_len\b": "mtp_step or query_len",
    r"mtp_len\b": "mtp_step or verify_width",
    r"spec_len\b": "query_len",
    r"retract\w*": "preempt",
    r"swap_(in|out)\b": "evict and restore",
    r"acc_len\b": "num_accepted",
    r"kv_blocks?\b": "page",
}
FORBIDDEN = {
    r"\bTODO\b": "finish it or leave it out",
    r"\bFIXME\b": "finish it or leave it out",
    r"\bimport pickle\b|\btorch\.load\(": "nothing is unpickled",
    r"trust_remote_code": "no remote code",
    r"pypi\.org|pythonhosted|crates\.io|registry\.npmjs": "no package registry's host in a file",
    r"/work/|\.\./shared|/tmp/": "no path of one machine",
}


def tracked() -> list[Path]:
    """Files of the checkout that git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    names = [n for n in listing.stdout.splitlines() if n != "Cargo.lock"]
    return [ROOT / n for n in names if (ROOT / n).is_file() and not (ROOT / n).is_symlink()]


def with_suffix(suffixes: set[str]) -> list[Path]:
    here = Path(__file__).resolve()
    files = [p for p in tracked() if p.suffix in suffixes or p.name in ("Makefile", "run")]
    assert len(files) > 20
    return [p for p in files if p.resolve() != here]


def hits(files: list[Path], words: dict[str, str]) -> list[str]:
    found = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, instead in words.items():
                if re.search(pattern, line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {pattern!r}: {instead}")
    return found


def test_no_file_is_longer_than_the_limit() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in with_suffix(CODE)
        if (n := len(p.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"over {MAX_LINES} lines: {long}"


def test_one_word_per_idea() -> None:
    files = [p for p in with_suffix(CODE) if "tests" not in p.relative_to(ROOT).parts]
    assert not hits(files, ONE_WORD)


def test_no_forbidden_words() -> None:
    assert not hits(with_suffix(TEXT), FORBIDDEN)


def test_only_the_lock_file_of_cargo_is_tracked() -> None:
    locks = {p.name for p in tracked() if p.name.endswith((".lock", "lock.json", "lock.yaml"))}
    assert not locks, f"lock files name package hosts: {locks}"


def test_no_shard_is_larger_than_15_mb() -> None:
    large = [p.name for p in tracked() if p.stat().st_size > 15_000_000]
    assert not large
