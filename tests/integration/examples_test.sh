#!/usr/bin/env bash
# Proves that the examples of every --help work for who installed the program: those that are cheap
# run, in an empty folder far from the sources; of the others each option and scenario exists.
set -uo pipefail
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
[ -x "$build/skymem" ] || { echo "skipped: $build/skymem is not built"; exit 77; }
if grep -q '^SKYMEM_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    echo "skipped: a program outside cannot link a sanitized library"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/tree" >"$work/log" || { cat "$work/log"; exit 1; }
mkdir "$work/empty" "$work/home"
cd "$work/empty" || exit 1
env -i HOME="$work/home" PATH="$work/tree/bin:/usr/bin:/bin" COLUMNS=100 \
    python3 - "$work/tree" <<'PYTHON'
import os, re, struct, subprocess, sys

# Too long for a test, or in need of a model, a port, a folder of another place, or a download.
COSTLY = re.compile(
    r"^skymem (demo|calibrate|eval|bench|constellation|workload|model pull|plan --model)\b|"
    r"skymem run|--swarm|--figures|--proxy|"
    r"sky\+udp:|disk:[/~]|shm:/|^skymem clear$|\| mandoc|completion \w+ >|\| source")
NEEDS_VALUES = "greeting weights/7 system-prompt a b"
wrong = ran = read = 0


def shell(command):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode(errors="replace")


def fail(sentence):
    global wrong
    wrong += 1
    print(sentence)


def write_inputs():
    for name in ("layer7.bin", "value.bin"):
        open(name, "wb").write(b"value" * 100)
    open("tokens.txt", "w").write(" ".join(map(str, range(40))))
    shape = (4, 2, 128, 1, 64)
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    values = [((i * 2654435761) >> 7) % 1024 / 512 - 1 for i in range(4 * 2 * 128 * 64)]
    open("kv.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                               header.encode() + struct.pack(f"<{len(values)}e", *values))
    open("active.csv", "w").write(
        "OBJECT_NAME,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,"
        "MEAN_ANOMALY,NORAD_CAT_ID,BSTAR\n"
        "ISS,2026-11-19T12:00:00,15.5,.0007,51.64,120.0,30.0,330.0,25544,.0001\n")


def examples(verb):
    text = shell(f"skymem {verb} --help")[1].replace(" \\\n        ", " ")
    return text, re.findall(r"^  \$ (.*)$", text, re.M)


def check_words(verb, text, command):
    """What a command names is there, though it does not run."""
    for option in re.findall(r" (--[a-z-]+)", command):
        of = re.findall(r"skymem (\w+)", command)[-1]
        if option not in (text if of == verb else examples(of)[0]):
            fail(f"{command}: {of} has no {option}")
    for name in re.findall(r"sky(?:\+udp)?:([\w-]+)|constellation \w+ ([\w-]+)", command):
        code, said = shell(f"skymem locate --scenario {''.join(name)}")
        if code:
            fail(f"{command}: {said}")


write_inputs()
for key in NEEDS_VALUES.split():
    shell(f"echo value | skymem put {key}")
shell("skymem codec encode kv.npy -o kv8.skv --level 8")
for verb in shell("skymem help --list")[1].split():
    text, commands = examples(verb)
    if not commands:
        fail(f"{verb} --help has no examples")
    for command in commands:
        if COSTLY.search(command):
            read += 1
            check_words(verb, text, command)
            continue
        ran += 1
        code, said = shell(command)
        if code:
            fail(f"$ {command}\nexits {code} and says\n{said}")

# A scenario is found by its name from anywhere; the user's own is found before the installed one.
names = shell("skymem help --scenarios")[1].split()
installed = sorted(n[:-5] for n in os.listdir(f"{sys.argv[1]}/share/skymem/scenarios")
                   if n.endswith(".yaml"))
if sorted(set(names)) != installed or "seed" not in installed:
    fail(f"skymem help --scenarios: {names}, installed are {installed}")
own = os.path.expanduser("~/.local/share/skymem/scenarios")
os.makedirs(own)
for name in ("seed", "mine"):
    open(f"{own}/{name}.yaml", "w").write("constellation: {planes: 0}\n")
for command in ("locate --scenario seed", "sim mine", "get k --store sky:seed?scale=2"):
    code, said = shell(f"skymem {command}")
    if code != 2 or f"{own}/" not in said:
        fail(f"skymem {command}: not the user's own scenario: {said}")
code, said = shell("skymem put k kv.npy --store sky:sed")
if code != 2 or "seed" not in said:
    fail(f"an absent scenario: exit {code}, {said}")
code, said = shell("skymem sim ./seed.yaml")
if code != 3 and code != 1 or "seed.yaml" not in said:
    fail(f"an absent file: exit {code}, {said}")
print(f"{ran} examples run, {read} read, {wrong} wrong")
sys.exit(wrong != 0 or ran < 20)
PYTHON
