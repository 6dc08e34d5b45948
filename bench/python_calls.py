#!/usr/bin/env python3
"""bench/python_calls.py BUILD: what the Python package adds to the library's own time.

Batches of 32 keys beside the same in C (bench/python_calls.c), 8 MiB into a numpy array beside
memcpy (and into a torch tensor, after tools/transformers BUILD), a lease of 8 MiB, the import. Best
of several rounds, so that neighbours of the machine count little. Builds the wheel by tools/wheel.
Writes bench/results/python.md, and its table into docs/python.md.
"""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

INSIDE = r"""
import json, subprocess, sys, time
import numpy as np
import skymem

def best(call, calls, rounds=9):
    least = 1e9
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        least = min(least, (time.perf_counter() - begin) / calls)
    return least * 1e6

def lease():
    with cache.lease(keys[0]):
        pass

cache = skymem.Cache("mem:256MiB")
keys = [bytes([i + 1]) * 32 for i in range(32)]
cache.put_many(keys, [bytes(64)] * 32)
out = [np.zeros(64, np.uint8) for _ in keys]
r = {"has": best(lambda: cache.has_many(keys), 1000)}
r["get"] = best(lambda: cache.get_many(keys, out), 1000)
big = np.random.default_rng(1).integers(0, 255, 8 << 20, np.uint8)
into = np.zeros_like(big)
cache.put(keys[0], big)
pairs = [(best(lambda: cache.get_into(keys[0], into), 20, 1),
          best(lambda: np.copyto(into, big), 20, 1)) for _ in range(9)]
r["big"], r["copy"] = (min(each) for each in zip(*pairs))
try:
    import torch
    tensor = torch.zeros(8 << 20, dtype=torch.uint8)
    torch.set_num_threads(1)
    source = torch.from_numpy(big)
    pairs = [(best(lambda: cache.get_into(keys[0], tensor), 20, 1),
              best(lambda: tensor.copy_(source), 20, 1)) for _ in range(9)]
    r["tensor"], r["tensor_copy"] = (min(each) for each in zip(*pairs))
except ImportError:
    pass
r["lease"] = best(lease, 1000)
code = "import time; t = time.perf_counter(); import skymem; print(time.perf_counter() - t)"
r["import"] = min(float(subprocess.run([sys.executable, "-P", "-c", code], check=True,
                        capture_output=True).stdout) for _ in range(9)) * 1e3
print(json.dumps(r))
"""


def bench_tool():
    """tools/bench, for the head of a result."""
    loader = importlib.machinery.SourceFileLoader("bench", os.path.join(HOME, "tools", "bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module


def keep(name, title, head, lines):
    """Write bench/results/NAME.md, and its tables into docs/NAME.md, between the marks there."""
    tables = "\n".join(lines).strip() + "\n"
    with open(os.path.join(HOME, "bench", "results", name + ".md"), "w", encoding="utf-8") as out:
        out.write("\n".join([title, "", *head, tables]))
    path = os.path.join(HOME, "docs", name + ".md")
    with open(path, encoding="utf-8") as file:
        before, mark, rest = file.read().partition(f"<!-- from bench/results/{name}.md -->\n")
    with open(path, "w", encoding="utf-8") as out:
        out.write(before + mark + tables + rest[rest.index("<!-- end -->"):])
    print(tables)


def in_c(build):
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "python_calls")
        subprocess.run(["cc", "-O2", os.path.join(HOME, "bench", "python_calls.c"), "-o", program,
                        f"-I{HOME}/include", f"-L{build}", f"-Wl,-rpath,{build}", "-lskymem"],
                       check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [int(word) / 1e3 for word in said.split()]


def inside(python):
    said = subprocess.run([python, "-P", "-c", INSIDE], check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def main():
    build = os.path.abspath(sys.argv[1])
    wheel = subprocess.run([os.path.join(HOME, "tools", "wheel"), build], check=True,
                           capture_output=True, text=True).stdout.strip()
    python = os.path.join(build, "python", "venv", "bin", "python")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", wheel],
                   check=True)
    has, get = in_c(build)
    r = inside(python)
    torch = os.path.join(build, "python", "transformers", "bin", "python")
    t = inside(torch) if os.path.exists(torch) else {}
    rows = [
        ("has of 32 keys, µs", r["has"], has, r["has"] - has, "at most 10 more"),
        ("get of 32 keys into 32 arrays of 64 B, µs", r["get"], get, r["get"] - get,
         "at most 10 more"),
        ("8 MiB into a numpy array, µs", r["big"], r["copy"], r["copy"] / r["big"],
         "0.9 of memcpy"),
        *([("8 MiB into a torch tensor, µs", t["tensor"], t["tensor_copy"],
            t["tensor_copy"] / t["tensor"], "0.9 of memcpy")] if t else []),
        ("lease of 8 MiB, taken and returned, µs", r["lease"], None, None, "at most 5"),
        ("import skymem, ms", r["import"], None, None, "at most 50"),
    ]
    head = bench_tool().head(f"bench/python_calls.py {sys.argv[1]}")
    lines = ["| what | Python | C, or memcpy | more, or ratio | wanted |", "|---|--:|--:|--:|---|"]
    for row in rows:
        cells = ["" if v is None else v if isinstance(v, str) else f"{v:,.2f}" for v in row]
        lines.append("| " + " | ".join(cells) + " |")
    keep("python", "# The Python package beside C", head, lines)


if __name__ == "__main__":
    main()
