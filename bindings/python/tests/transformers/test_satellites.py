"""Proves that a block written by one process is read by another from satellites."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


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
