#!/usr/bin/env python3
"""bench/eval_tables.py BUILD: write bench/results/eval.md again, a table of each file of lines that
`skymem eval --json` printed. docs/codec-evidence.md says which command measured which lines."""

import os
import subprocess
import sys

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINES = (
    ("eval", "lines of Gemma 3 270M; see docs/codec-evidence.md"),
    ("eval-newest-512", "prefixes of 512 tokens"),
    ("eval-newest-768", "prefixes of 768 tokens"),
    ("eval-newest-1024", "prefixes of 1024 tokens"),
    ("eval-lossless", ""),
    ("eval-qwen2.5-coder-0.5b", "Qwen2.5-Coder 0.5B, the next 128 tokens"),
    ("eval-qwen2.5-coder-0.5b-256", "Qwen2.5-Coder 0.5B, the next 256 tokens"),
    ("eval-qwen2.5-coder-1.5b", "Qwen2.5-Coder 1.5B, the next 128 tokens"),
)


def table(build, name, what):
    lines = f"bench/results/{name}.jsonl"
    command = [os.path.join(build, "skymem"), "eval", "--lines", lines]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=HOME).stdout
    yield f"`skymem eval --lines {lines}`" + (f", {what}" if what else "")
    yield ""
    for line in said.splitlines():
        yield "    " + line.rstrip()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    out = ["# skymem eval"]
    for name, what in LINES:
        out += ["", *table(build, name, what)]
    with open(os.path.join(HOME, "bench/results/eval.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


main()
