#!/usr/bin/env python3
"""bench/mooncake.py BUILD: 8 MiB values between two processes, compared with Mooncake's store.

Both stores serve from a process of their own, over TCP on loopback, and both clients are Python:
get_into and put_from of memory that Mooncake has registered, Cache.get_into and Cache.put here. The
turns alternate; each row is the median of 200 operations on 32 values. SkyMemory also over the
host's shared memory, which Mooncake does not have. Installs Mooncake from PyPI into
BUILD/python/mooncake. Writes bench/results/mooncake.md.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

from python_calls import HOME, bench_tool

MOONCAKE = "mooncake-transfer-engine-non-cuda==0.3.13.post1"

SERVER = r"""
import signal, sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
failed = store.setup("127.0.0.1:" + sys.argv[1], "P2PHANDSHAKE", 1 << 30, 64 << 20, "tcp", "",
                     "127.0.0.1:" + sys.argv[2])
if failed:
    sys.exit(f"Mooncake's store does not start: {failed}")
print("ready", flush=True)
signal.pause()
"""

CLIENT = r"""
import json, os, sys, time
import numpy as np
import skymem
from mooncake.store import MooncakeDistributedStore

BYTES, VALUES, ROUNDS = 8 << 20, 32, 200
urls = json.loads(sys.argv[3])
source = np.random.default_rng(1).integers(0, 255, BYTES, np.uint8)
into = np.zeros_like(source)
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1:" + sys.argv[1], "P2PHANDSHAKE", 0, 256 << 20, "tcp", "",
                   "127.0.0.1:" + sys.argv[2]) == 0
assert store.register_buffer(source.ctypes.data, BYTES) == 0
assert store.register_buffer(into.ctypes.data, BYTES) == 0
name = [f"block {i}" for i in range(VALUES)]
key = [bytes([i + 1]) * 32 for i in range(VALUES)]

class Mooncake:
    def put(self, i):
        assert store.put_from(name[i], source.ctypes.data, BYTES) == 0
    def remove(self, i):
        while store.remove(name[i]) != 0:  # a value that was read is held for some seconds
            time.sleep(0.2)
    def get(self, i):
        assert store.get_into(name[i], into.ctypes.data, BYTES) == BYTES
    def has(self, i):
        assert store.is_exist(name[i]) == 1

class SkyMemory:
    def __init__(self, url):
        self.cache = skymem.Cache(url)
    def put(self, i):
        self.cache.put(key[i], source)
    def remove(self, i):
        self.cache.remove(key[i])
    def get(self, i):
        assert self.cache.get_into(key[i], into) == BYTES
    def has(self, i):
        assert self.cache.has(key[i])

def timed(call, i):
    begin = time.perf_counter()
    call(i)
    return 1e6 * (time.perf_counter() - begin)

def middle(times):
    times = sorted(times)
    return times[len(times) // 2], times[len(times) * 99 // 100]

sides = {"Mooncake": Mooncake(), **{what: SkyMemory(url) for what, url in urls.items()}}
puts = {what: [] for what in sides}
for turn in range(3):
    for what, side in sides.items():
        for i in range(VALUES):
            puts[what].append(timed(side.put, i))
        if turn < 2:
            for i in range(VALUES):
                side.remove(i)
gets, looks = {what: [] for what in sides}, {what: [] for what in sides}
for i in range(ROUNDS):
    for what, side in sides.items():
        into[:] = 0
        gets[what].append(timed(side.get, i % VALUES))
        assert (into == source).all(), what
        looks[what].append(timed(side.has, i % VALUES))
print(json.dumps({what: [*middle(gets[what]), middle(puts[what])[0], middle(looks[what])[0]]
                  for what in sides}), flush=True)
os._exit(0)  # Mooncake's threads may crash while the process ends
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def prepare(build):
    """A Python with Mooncake and the wheel of BUILD."""
    place = os.path.join(build, "python", "mooncake")
    python = os.path.join(place, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", MOONCAKE, "numpy"], check=True)
    wheel = subprocess.run([os.path.join(HOME, "tools", "wheel"), build], check=True,
                           capture_output=True, text=True).stdout.strip()
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", wheel],
                   check=True)
    return python


def start(processes, log, command, says, **more):
    """Start a server, and wait for its first line that holds `says`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, **more)
    processes.append(process)
    for line in process.stdout:
        if says in line:
            return line
    raise SystemExit(f"mooncake.py: {command[0]} ended before it was ready; see {log.name}")


def start_host(processes, log, build, scratch, *options):
    """skymemd, served to others over TCP: its socket and its port."""
    path, port = os.path.join(scratch, f"{len(processes)}.sock"), free_port()
    start(processes, log, [os.path.join(build, "skymemd"), "--socket", path, "--store", "mem:1GiB",
                           "--listen", str(port), *options], "ready")
    return path, port


def measure(build, python, scratch):
    processes, key = [], os.path.join(scratch, "key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(os.urandom(32).hex())
    binaries = subprocess.run([python, "-P", "-c", "import mooncake; print(mooncake.__path__[0])"],
                              check=True, capture_output=True, text=True).stdout.strip()
    with open(os.path.join(scratch, "log"), "w", encoding="utf-8") as log:
        try:
            master, ours, theirs = free_port(), free_port(), free_port()
            processes.append(subprocess.Popen(
                [os.path.join(binaries, "mooncake_master"), f"--rpc_port={master}"],
                stdout=log, stderr=log, env={**os.environ, "LD_LIBRARY_PATH": binaries}))
            start(processes, log, [python, "-P", "-c", SERVER, str(theirs), str(master)], "ready")
            path, plain = start_host(processes, log, build, scratch, "--peer-plain")
            _, sealed = start_host(processes, log, build, scratch, "--peer-key", key)
            urls = {"SkyMemory, TCP": f"skymem://127.0.0.1:{plain}?plain=yes",
                    "SkyMemory, TCP, encrypted": f"skymem://127.0.0.1:{sealed}?key={key}",
                    "SkyMemory, shared memory": f"shm:{path}"}
            said = subprocess.run([python, "-P", "-c", CLIENT, str(ours), str(master),
                                   json.dumps(urls)], check=True, stdout=subprocess.PIPE,
                                  stderr=log, text=True).stdout
        except subprocess.CalledProcessError:
            with open(log.name, encoding="utf-8", errors="replace") as text:
                sys.stderr.write(text.read()[-4000:])
            raise
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait()
    return json.loads(said.splitlines()[-1])


def main():
    build = os.path.abspath(sys.argv[1])
    python = prepare(build)
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(build, python, scratch)
    theirs = result["Mooncake"]
    lines = ["| 8 MiB, µs | get | … of Mooncake's | get, p99 | put | has |",
             "|---|--:|--:|--:|--:|--:|"]
    for what, (get, late, put, look) in result.items():
        lines.append(f"| {what} | {get:,.0f} | {get / theirs[0]:.2f} | {late:,.0f} | {put:,.0f} "
                     f"| {look:,.0f} |")
    head = bench_tool().head(f"bench/mooncake.py {sys.argv[1]}")
    package = MOONCAKE.replace("==", " ")
    text = "\n".join([f"# Compared with Mooncake's store ({package})", "", *head,
                      *lines]) + "\n"
    with open(os.path.join(HOME, "bench", "results", "mooncake.md"), "w", encoding="utf-8") as out:
        out.write(text)
    print(text)


if __name__ == "__main__":
    main()
