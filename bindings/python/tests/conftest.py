"""What the tests share: caches that are closed whatever happens, and clean children."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
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


@pytest.fixture
def versions(tmp_path: Path) -> str:
    """The URL of a sky in this process that keeps versions, once its satellites decide."""
    scenario = tmp_path / "sky.yaml"
    scenario.write_text("""
constellation: {planes: 3, slots: 7, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3]}
time: {rotation_s: 3600}
lookup: binary
""")
    return f"sky:{scenario}"


def first_version(cache: skymem.Cache, name: str) -> int:
    """Put what nothing is stored of: satellites that have just started decide after 2 s."""
    for _ in range(600):
        try:
            return cache.put(name, b"one", if_version=0) or 0
        except skymem.UnavailableError:
            time.sleep(0.1)
    raise TimeoutError("no satellite decides")


@contextlib.contextmanager
def daemon(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A daemon that shares memory among processes: its URL, and it."""
    program = os.path.join(os.environ.get("SKYMEM_BUILD", "build"), "skymemd")
    if not os.path.exists(program):
        pytest.skip("the daemon is not built")
    socket = folder / "host.sock"
    process = subprocess.Popen(
        [program, "--store", "mem:64MiB", "--socket", socket], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout and process.stdout.readline()  # it is ready
        yield f"shm:{socket}", process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """The URL of a daemon that shares memory among processes."""
    with daemon(tmp_path) as (url, _):
        yield url


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


@pytest.fixture
def late_store() -> Iterator[tuple[str, threading.Event]]:
    """The URL of a store whose reads and writes wait for the event, or for the end of the test."""
    go = threading.Event()

    class Late:
        def __init__(self, where: str) -> None: ...

        def read(self, key: bytes, offset: int, size: int) -> None:
            go.wait(60)

        def write(self, key: bytes, value: bytes, durable: bool) -> None:
            go.wait(60)

    skymem.register_tier("late", Late)
    yield "late:x", go
    go.set()
