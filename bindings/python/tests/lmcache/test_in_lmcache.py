"""Proves the plug-in in LMCache itself: LMCache's check and bench of a second level, which compare
every byte; and that a server that was started anew answers from what the one before stored, with
the same bytes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lmcache")

LMCACHE = str(Path(sys.executable).with_name("lmcache"))
ENVIRONMENT = {**os.environ, "LMCACHE_DISABLE_BANNER": "1", "NO_COLOR": "1"}


def level(*stores: str) -> str:
    return json.dumps({
        "type": "native_plugin", "module_path": "skymem.lmcache", "class_name": "SkyMemory",
        "adapter_params": {"stores": stores},
    })  # fmt: skip


def run(*command: Any) -> str:
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          env=ENVIRONMENT, timeout=600, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_lmcaches_own_check(tmp_path: Path) -> None:
    said = run(sys.executable, "-P", "-m", "lmcache.v1.basic_check", "--mode", "test_l2_adapter",
               "--num-keys", 5, "--l2-adapter",
               level("mem:64MiB", f"disk:{tmp_path}/store"))  # fmt: skip
    for line in ("5/5 correctly absent", "5/5 found", "(loaded): 5/5", "(content): 5/5"):
        assert line in said, said


@pytest.mark.parametrize("stores", [["mem:256MiB", "disk:store"], ["disk:store"]])
def test_lmcaches_own_bench(tmp_path: Path, stores: list[str]) -> None:
    urls = [url.replace("disk:", f"disk:{tmp_path}/") for url in stores]
    said = run(LMCACHE, "bench", "l2", "--l2-adapter", level(*urls), "--num-keys", 8,
               "--data-size-kb", 1024, "--rounds", 3, "--no-skip-verify",
               "--lookup-max-hit-rate", 0.5)  # fmt: skip
    assert said.count("success_keys=8/8") == said.count("loaded=8/8") == 4, said  # one to warm up
    assert said.count("found=4/8") == 4 and "All 8 keys data verified OK" in said, said


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def server(log: Path, *stores: str) -> Iterator[tuple[int, int]]:
    """LMCache's server over these stores: its ports."""
    port, http = free_ports(2)
    with open(log, "w") as out:
        process = subprocess.Popen(
            [LMCACHE, "server", "--host", "127.0.0.1", "--port", str(port), "--http-host",
             "127.0.0.1", "--http-port", str(http), "--l1-size-gb", "1", "--eviction-policy", "LRU",
             "--l2-adapter", level(*stores)], stdout=out, stderr=out, env=ENVIRONMENT)  # fmt: skip
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{http}/docs", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield port, http
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def ask(port: int, http: int) -> str:
    """LMCache's own client: looks up, stores what is not there, looks up again, retrieves."""
    return run(LMCACHE, "bench", "server", "--rpc-url", f"tcp://127.0.0.1:{port}", "--url",
               f"http://127.0.0.1:{http}", "--mode", "cpu", "--transfer-mode", "lmcache_driven",
               "--kvcache-shape-spec", "(2,256,16,1,256):bfloat16:18", "--num-blocks", 256,
               "--num-tokens", 1024, "--start", 0, "--end", 3)  # fmt: skip


def test_a_new_server_answers_from_the_store(tmp_path: Path) -> None:
    store = f"disk:{tmp_path}/store"
    with server(tmp_path / "first.log", store) as ports:
        cold = ask(*ports)
        assert re.findall(r"seq \d/cold\] LOOKUP: (\d+)/4", cold) == ["0", "0", "0"], cold
    with server(tmp_path / "second.log", store) as ports:
        warm = ask(*ports)
    assert re.findall(r"seq \d/cold\] LOOKUP: (\d+)/4", warm) == ["4", "4", "4"], warm
    sums = re.findall(r"seq \d/warm\] CHECKSUM: (\w+)", cold)
    assert len(sums) == 3 and re.findall(r"seq \d/warm\] CHECKSUM: (\w+)", warm) == sums
    assert "(0 L1, 4 L2)" in (tmp_path / "second.log").read_text()
