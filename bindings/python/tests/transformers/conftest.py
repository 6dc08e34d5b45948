"""What these tests share: ten processes of skymemd that answer encrypted datagrams on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = Path(os.environ.get("SKYMEM_BUILD", "build")) / "skymem"
FREE_PORTS = Path(__file__).parents[4] / "tools" / "free-ports"


@pytest.fixture
def sky(tmp_path: Path) -> Iterator[Path]:
    if not COMMAND.exists():
        pytest.skip("the command is not built")
    scenario = tmp_path / "sky.yaml"
    port = int(subprocess.check_output([FREE_PORTS, "20"]))
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
    done = subprocess.run([COMMAND, "constellation", "up", scenario], env=environment, text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield scenario
    subprocess.run([COMMAND, "constellation", "down", scenario], check=True, env=environment,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
