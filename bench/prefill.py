#!/usr/bin/env python3
"""bench/prefill.py BUILD [--rounds N] [--prompt-bytes N] [MODEL...]: one process computes a prompt,
another answers.

Writes bench/results/prefill.jsonl, a line for each run, and prefill.md: the time to the first token
of the process that answers, beside that of a single process, over a host's socket and over TCP on
this machine, asked at three moments; and what smaller blocks are worth. The process that computes
stands still from the moment until the other asks, so that loading the model counts for neither.
Everything is measured twice, N times (3) each. The prompt is the beginning of docs/ARCHITECTURE.md,
8000 bytes of it. Without MODEL: gemma-3-270m. Lines of other models stay in the files.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINES = os.path.join(HOME, "bench", "results", "prefill.jsonl")
TABLE = os.path.join(HOME, "bench", "results", "prefill.md")
REPEATS = 2
PROMPT_BYTES = 8000
BLOCK_TOKENS = 128
MOMENTS = {0.0: "begins", 0.5: "is half through", 1.0: "has ended"}
NOTE = """\
Every process computes with one thread, so that two fit this machine. Medians, in ms, of runs in
two turns. *First token*: from the tokens being known to the first new token; *waited*: of it, for
the blocks; *loaded*: bringing them into the engine; *own*: computing the prompt's last tokens,
which no whole block holds. *Of the single*: the first token, beside that of the single process of
the same turn; in brackets the two turns. All answers are the single process's; the script fails
otherwise."""


def machine():
    """The head of every table of bench/results: command, date, commit, machine."""
    path = os.path.join(HOME, "tools", "bench")
    loader = importlib.machinery.SourceFileLoader("tools_bench", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_bench", loader))
    loader.exec_module(module)
    return "\n".join(module.head("bench/prefill.py build")).strip()


class Bench:
    """The programs of a build, a model, a prompt, and a folder for sockets."""

    def __init__(self, build, model, folder, prompt_bytes):
        self.program = os.path.join(build, "skymem")
        self.folder = folder
        self.daemon = None
        prompt = os.path.join(folder, "prompt")
        with open(os.path.join(HOME, "docs", "ARCHITECTURE.md"), "rb") as text:
            head = text.read(prompt_bytes)
        with open(prompt, "wb") as to:
            to.write(head)
        self.run = [self.program, "run", "--model", model, "--threads", "1", "--predict", "2",
                    "--prompt-file", prompt, "--json"]

    def answer(self, *more):
        """A run of the program, as it says."""
        done = subprocess.run(self.run + list(more), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=True)
        return json.loads(done.stdout)

    def start(self, *more):
        """The same, under way."""
        return subprocess.Popen(self.run + list(more), stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)

    def host(self):
        """A new daemon with nothing in it; its socket."""
        socket = os.path.join(self.folder, "host.sock")
        self.daemon = subprocess.Popen(
            [self.program + "d", "--socket", socket, "--store", "mem:512MiB", "--listen", "0",
             "--peer-plain"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.daemon.stdout.readline() == "ready\n"
        return socket

    def stat(self, socket):
        """What the daemon counts."""
        done = subprocess.run([self.program, "stat", "--store", "shm:" + socket, "--json"],
                              stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def until(self, socket, name, least, process):
        """Until the daemon's cache counts so many of these, or the process has ended."""
        while self.stat(socket)["cache"][name] < least and process.poll() is None:
            time.sleep(0.002)

    def pair(self, far, moment, block_tokens, blocks):
        """Both processes; what each says. moment: the share of the blocks that is pushed."""
        socket = self.host()
        near = ["--block-tokens", str(block_tokens), "--store", "shm:" + socket]
        store = near
        if far:
            address = self.stat(socket)["peers"]["address"]
            store = [*near[:2], "--store", "mem:512MiB", "--store",
                     f"skymem://{address}?plain=yes"]
        computes = self.start(*near, "--prefill-only")
        self.until(socket, "announced", 1, computes)
        if 0 < moment < 1:
            self.until(socket, "announced_stored", int(moment * blocks), computes)
        if moment < 1:
            computes.send_signal(signal.SIGSTOP)
        else:
            computes.wait()
        answers = self.start(*store, "--wait-ms", "600000", "--load-only", "--no-save")
        if moment < 1:
            self.until(socket, "awaited", 1, answers)
            computes.send_signal(signal.SIGCONT)
        answered = json.loads(answers.communicate()[0])
        said = json.loads(computes.communicate()[0])
        self.daemon.terminate()
        self.daemon.wait()
        return said, answered


def cases():
    """(over TCP, moment, tokens of a block) of every row."""
    for far in (False, True):
        for moment in MOMENTS:
            yield far, moment, BLOCK_TOKENS
    for block_tokens in (32, 64, 256):
        yield False, 0.0, block_tokens


def measure(build, model, rounds, prompt_bytes):
    """The lines of a model."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build, model, folder, prompt_bytes)
        for turn in range(REPEATS):
            for _ in range(rounds):
                alone = bench.answer("--store", "mem:512MiB", "--no-load")
                yield {"model": model, "turn": turn, "case": "alone", "machine": machine(),
                       "tokens": alone["prompt_tokens"], "ttft_ms": alone["ttft_ms"]}
            for far, moment, block_tokens in cases():
                for _ in range(rounds):
                    said, got = bench.pair(far, moment, block_tokens,
                                           alone["prompt_tokens"] // block_tokens)
                    assert got["tokens"] == alone["tokens"], "another answer"
                    yield {"model": model, "turn": turn, "case": "tcp" if far else "shm",
                           "moment": moment, "block_tokens": block_tokens,
                           "computes_ms": said["prefill_ms"],
                           "after_ms": got["ttft_ms"] - got["wait_ms"]} | {
                               name: got[name] for name in
                               ("ttft_ms", "wait_ms", "load_ms", "prefill_ms", "awaited_tokens",
                                "awaited_bytes")}


def median(rows, name):
    """Of a member of these."""
    return statistics.median(row[name] for row in rows)


def cell(rows, name):
    """The same in whole ms."""
    return f"{median(rows, name):,.0f}"


def table(lines):
    """The tables of one model."""
    alone = [line for line in lines if line["case"] == "alone"]
    cold = [median([a for a in alone if a["turn"] == turn], "ttft_ms") for turn in range(REPEATS)]

    def rows(far, moment, block_tokens):
        wanted = {"case": "tcp" if far else "shm", "moment": moment, "block_tokens": block_tokens}
        return [line for line in lines if wanted.items() <= line.items()]

    def share(found):
        turns = [median([r for r in found if r["turn"] == turn], "ttft_ms") / cold[turn]
                 for turn in range(REPEATS)]
        return f"{statistics.mean(turns):.2f} ({', '.join(f'{turn:.2f}' for turn in turns)})"

    yield f"## {alone[0]['model']}: a prompt of {alone[0]['tokens']:,} tokens"
    yield ""
    yield alone[0]["machine"]
    yield ""
    yield (f"Blocks of {BLOCK_TOKENS} tokens, {len(alone)} runs of each. A single process: "
           f"{cell(alone, 'ttft_ms')} ms.")
    yield ""
    yield "| over | asked when the other | first token | of the single | waited | loaded | own |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for far in (False, True):
        for moment, name in MOMENTS.items():
            found = rows(far, moment, BLOCK_TOKENS)
            yield (f"| {'skymem://' if far else 'shm:'} | {name} | {cell(found, 'ttft_ms')} "
                   f"| {share(found)} | {cell(found, 'wait_ms')} | {cell(found, 'load_ms')} "
                   f"| {cell(found, 'prefill_ms')} |")
    yield ""
    yield ("Over shm:, asked when the other begins. *After the wait*: from the last block being "
           "there to the first token, with the tokens behind it.")
    yield ""
    yield "| tokens of a block | first token | of the single | waited | after the wait | own |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for block_tokens in (32, 64, BLOCK_TOKENS, 256):
        found = rows(False, 0.0, block_tokens)
        yield (f"| {block_tokens} | {cell(found, 'ttft_ms')} | {share(found)} "
               f"| {cell(found, 'wait_ms')} | {cell(found, 'after_ms')} "
               f"| {cell(found, 'prefill_ms')} |")
    yield ""


def main():
    args = argparse.ArgumentParser()
    args.add_argument("build")
    args.add_argument("models", nargs="*", default=["gemma-3-270m"])
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--prompt-bytes", type=int, default=PROMPT_BYTES)
    args = args.parse_intermixed_args()
    lines = []
    if os.path.exists(LINES):
        with open(LINES, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    for model in args.models:
        lines = [line for line in lines if line["model"] != model]
        for line in measure(os.path.abspath(args.build), model, args.rounds,
                            args.prompt_bytes):
            print(json.dumps(line), file=sys.stderr)
            lines.append(line)
    with open(LINES, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("# A prompt that one process computes and another answers\n\n" + NOTE + "\n\n")
        for model in dict.fromkeys(line["model"] for line in lines):
            file.write("\n".join(table([line for line in lines if line["model"] == model])) + "\n")


if __name__ == "__main__":
    main()
