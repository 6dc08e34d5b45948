#!/usr/bin/env python3
"""bench/slot_file.py BUILD: the demo's warm rows beside llama.cpp's own state files.

llama.cpp can save the state of one prompt to a file and read it back (llama_state_seq_save_file,
llama-server --slot-save-path). bench/slot_file.c measures that, `skymem demo` the tiers. Both have
a shared text of 2,048 tokens and a question of 32, the same model, threads and file system. Writes
bench/results/slot-file.md.
"""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def bench_tool():
    """tools/bench, for the head of a result."""
    loader = importlib.machinery.SourceFileLoader("bench", os.path.join(HOME, "tools", "bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module


def llama_prefix(build):
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        return next(l.split("=", 1)[1].strip() for l in cache if l.startswith("SKYMEM_LLAMA:"))


def measure(build, scratch):
    llama = llama_prefix(build)
    model = open(os.path.join(build, "model.path"), encoding="utf-8").read().strip()
    program = os.path.join(scratch, "slot_file")
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", os.path.join(HOME, "bench", "slot_file.c"), "-o",
                    program, f"-I{llama}/include", f"-L{llama}/lib", f"-Wl,-rpath,{llama}/lib",
                    "-lllama", "-lggml", "-lggml-base", "-lggml-cpu"], check=True)
    text = os.path.join(HOME, "share", "texts", "prose.txt")
    state = os.path.join(scratch, "state")
    slot = json.loads(subprocess.run([program, model, text, state], check=True,
                                     stdout=subprocess.PIPE).stdout)
    demo = json.loads(subprocess.run(
        [os.path.join(build, "skymem"), "demo", "--model", model, "--sources", "mem,disk",
         "--json"], check=True, stdout=subprocess.PIPE).stdout)
    return slot, {row["source"]: row for row in demo["rows"]}


def rows(slot, ours):
    def row(what, ms, cold, size):
        return f"| {what} | {ms:,.1f} | {cold / ms:.1f} | {size / (1 << 20):.2f} |"

    size = ours["mem"]["bytes_loaded"]
    yield "| answer from | first token, ms | times sooner | MiB |"
    yield "|---|--:|--:|--:|"
    yield row("llama.cpp, computed", slot["cold_ms"], slot["cold_ms"], 0)
    yield row("llama.cpp, state file in the page cache", slot["page_cache_ms"], slot["cold_ms"],
              slot["file_bytes"])
    yield row("llama.cpp, state file on disk", slot["disk_ms"], slot["cold_ms"], slot["file_bytes"])
    yield row("SkyMemory, computed", ours["cold"]["ttft_ms"], ours["cold"]["ttft_ms"], 0)
    yield row("SkyMemory, memory", ours["mem"]["ttft_ms"], ours["cold"]["ttft_ms"], size)
    yield row("SkyMemory, disk", ours["disk"]["ttft_ms"], ours["cold"]["ttft_ms"], size)


def main():
    build = os.path.abspath(sys.argv[1])
    tool = bench_tool()
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        lines = list(rows(*measure(build, scratch)))
    print("\n".join(lines))
    tool.write(tool.RESULTS, "slot-file.md", ["# Beside llama.cpp's own state files", ""] +
               tool.head("bench/slot_file.py build") + lines)


if __name__ == "__main__":
    main()
