"""What the tests share: caches that are closed whatever happens, and clean children."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import skymem


@pytest.fixture
def cache() -> Iterator[skymem.Cache]:
    with skymem.Cache("mem:64MiB") as one:
        yield one


@pytest.fixture
def tiered(tmp_path: Path) -> Iterator[skymem.Cache]:
    with skymem.Cache(["mem:64MiB", f"disk:{tmp_path}/store"]) as one:
        yield one


Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def script() -> Script:
    """Run a program text in an interpreter of its own; it must end by itself, not by a signal."""

    def run(text: str, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-P", "-X", "faulthandler", "-c", text, *args],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    return run
