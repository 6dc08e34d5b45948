#!/usr/bin/env bash
# Proves on the objects of the build that no more than two files of src and cmd call each other in a
# circle: each file can be read after those that it calls.
set -euo pipefail
build=${SKYMEM_BUILD:-build}
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
find "$build/CMakeFiles" -path '*.dir/src/*.c.o' -o -path '*/skymem*.dir/cmd/*.c.o' |
    grep -v '_test\.c\.o$\|_fixture\.c\.o$' | sort | xargs nm -A | python3 -c '
import collections, os, re, sys

defined, wanted = {}, collections.defaultdict(set)
for line in sys.stdin:
    path, _, symbol = line.partition(":")
    file = re.search(r"\.dir/(.*)\.o$", path).group(1)
    kind, name = symbol.split()[-2:]
    if not os.path.exists(file):  # an object that an older tree left
        continue
    if kind == "U":
        wanted[file].add(name)
    elif kind in "TDBRVW":
        defined[name] = file
calls = {file: {defined[n] for n in names if n in defined} - {file}
         for file, names in wanted.items()}

def reached(start):
    seen, next_ones = set(), [start]
    while next_ones:
        for file in calls.get(next_ones.pop(), ()):
            if file not in seen:
                seen.add(file)
                next_ones.append(file)
    return seen

reach = {file: reached(file) for file in calls}
circles = {frozenset(other for other in reach[file] if file in reach.get(other, ()))
           for file in calls}
large = [sorted(circle) for circle in circles if len(circle) > 2]
for circle in large:
    print("these call each other in a circle:", ", ".join(circle))
    for file in circle:
        print("   ", file, "calls", ", ".join(sorted(calls[file] & set(circle))))
if len(calls) < 200:
    sys.exit(f"only {len(calls)} objects: the check checks nothing")
sys.exit(bool(large))
'
