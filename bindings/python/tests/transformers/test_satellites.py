"""Proves that a block written by one process is read by another from satellites: ten processes of
skymemd that answer encrypted datagrams on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = Path(os.environ.get("SKYMEM_BUILD", "build")) / "skymem"
HERE = Path(__file__).parent


@pytest.fixture
def sky(tmp_path: Path) -> Iterator[Path]:
    if not COMMAND.exists():
        pytest.skip("the command is not built")
    scenario = tmp_path / "sky.yaml"
    port = 20000 + os.getpid() % 400 * 20
    scenario.write_text(f"""
constellation: {{planes: 2, slots: 5, altitude_km: 550, earth_radius_km: 6371}}
placement: {{strategy: rotation-hop, servers: 3, window: [1, 3]}}
chunk: 6KiB
satellite: {{memory: 64MiB, processing_ms: 0.02}}
links: {{isl_gbps: 10, ground_mbps: 1000, loss: 0.005, jitter_ms: 0.1}}
time: {{start: 2026-01-01T00:00:00Z, rotation_s: 60}}
lookup: binary
udp: {{base: "127.0.0.1:{port}", key: sky.key, tenant: tenant.key}}
""")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    subprocess.run([COMMAND, "constellation", "up", scenario], check=True, env=environment,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    yield scenario
    subprocess.run([COMMAND, "constellation", "down", scenario], check=True, env=environment,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def test_another_process_reads_them_from_the_sky(sky: Path) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from test_tiny import *
model = make("gemma3")
with KVCacheBlock(model, store="sky+udp:" + sys.argv[1], block_tokens=16) as kvc:
    cache = kvc.get_cache(tokens(150))
    print(cache.filled, generate(model, [tokens(150)], cache)[0, -6:].tolist())
    kvc.add_blocks(tokens(150))
    kvc.store.flush(60)
"""
    answers = [
        subprocess.run([sys.executable, "-P", "-c", program, sky], check=True, text=True,
                       stdout=subprocess.PIPE).stdout.split(" ", 1)
        for _ in range(2)
    ]  # fmt: skip
    assert [filled for filled, _ in answers] == ["0", "144"]
    assert answers[0][1] == answers[1][1]
