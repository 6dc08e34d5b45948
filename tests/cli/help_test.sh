#!/usr/bin/env bash
# Proves that every verb teaches itself: help with examples, a man page that lints, and a usage
# error with a suggestion for what is mistyped.
. "$(dirname "$0")/common.sh"

expect 0 "$skymem" help --list
verbs=$(cat "$work/out")
for verb in run demo keys put get ls stat rm pin unpin prefetch verify locate config bench sim \
    help; do
    grep -qx "$verb" <<<"$verbs" || fail "help --list lacks $verb"
done
for verb in $verbs; do
    expect 0 "$skymem" "$verb" --help
    grep -q '^Examples' "$work/out" || fail "$verb --help has no examples"
    grep -q '^Exit status' "$work/out" || fail "$verb --help does not tell its exit status"
    ! grep -q -- --salt-file "$work/out" || grep -q "64 hexadecimal digits" "$work/out" ||
        fail "$verb --help does not tell what a salt file holds"
    grep -q "man skymem-$verb" "$work/out" || fail "$verb --help does not name its man page"
    cp "$work/out" "$work/help"
    expect 0 "$skymem" help "$verb"
    cmp -s "$work/out" "$work/help" || fail "help $verb differs from $verb --help"
    expect 0 "$skymem" help --man "$verb"
    cp "$work/out" "$work/skymem-$verb.1"
    expect 2 "$skymem" "$verb" --no-such-option
    says "--no-such-option"
    silent
done
for scheme in mem: disk: sky: sky+udp:; do
    "$skymem" put --help | tr '\n' ' ' | grep -qF " $scheme" || fail "--store lacks $scheme"
done

# The page is as wide as COLUMNS says, else as the terminal, else 80; an example that goes on behind
# a backslash is still one command; an option takes a few lines, and its details are in the manual.
python3 - "$skymem" $verbs <<'PYTHON' || fail "see above"
import fcntl, os, pty, re, struct, subprocess, sys, termios

skymem, verbs = sys.argv[1], sys.argv[2:]
wrong = 0


def shown(words, columns=None):
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    if columns:
        environment["COLUMNS"] = str(columns)
    return subprocess.run([skymem, *words], stdout=subprocess.PIPE, text=True,
                          env=environment).stdout


def on_terminal(words, columns):
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    child = subprocess.Popen([skymem, *words], stdout=follower, env=environment)
    os.close(follower)
    text = b""
    try:
        while piece := os.read(leader, 65536):
            text += piece
    except OSError:  # the other end is closed
        pass
    child.wait()
    os.close(leader)
    return text.decode().replace("\r\n", "\n")


def check(good, sentence):
    global wrong
    if not good:
        wrong += 1
        print(sentence)


def commands(text):
    return re.findall(r"^  \$ (.*)$", text.replace(" \\\n        ", " "), re.M)


def widest(text):
    return max(map(len, text.split("\n")))


for verb in verbs:
    usual = shown([verb, "--help"])
    check(widest(usual) <= 80, f"{verb} --help is {widest(usual)} columns wide")
    for columns in (60, 100):
        text = shown([verb, "--help"], columns)
        check(widest(text) <= columns, f"COLUMNS={columns}: {verb} --help has {widest(text)}")
        check(commands(text) == commands(usual), f"COLUMNS={columns}: {verb}: other examples")
    options = usual.split("\nOptions\n")[1].split("\n\n")[0]
    for entry in re.split(r"\n(?=  -)", options):
        check(entry.count("\n") < 3, f"{verb} --help explains at length:\n{entry}")
run = on_terminal(["run", "--help"], 66)
check(60 < widest(run) <= 66, f"a terminal of 66 columns shows {widest(run)}")
check("sliding window" not in run, "run --help has the details of --deadline-ms")
check("sliding window" in shown(["help", "--man", "run"]), "the manual lacks those details")
sys.exit(wrong != 0)
PYTHON

expect 0 "$skymem" help --man skymem
cp "$work/out" "$work/skymem.1"
if command -v mandoc >/dev/null; then
    for page in "$work"/*.1; do
        mandoc -T lint -W warning "$page" >"$work/lint" || fail "$(cat "$work/lint")"
    done
fi

expect 2 "$skymem"
silent
expect 0 "$skymem" --help
expect 0 "$skymem" --version
grep -Eq '^skymem [0-9]+\.[0-9]+\.[0-9]+$' "$work/out" || fail "--version: $(cat "$work/out")"
expect 2 "$skymem" lokate
says 'no verb "lokate", did you mean "locate"?'
for word in rx prt stop blargh; do # nothing is close to these
    expect 2 "$skymem" "$word"
    says "no verb \"$word\"; see skymem help"
done
expect 2 "$skymem" help --list --man put
says "--list and --man exclude each other: give one of them"
expect 2 "$skymem" put k --xtl 3
says "no option --xtl;"
expect 2 "$skymem" put k --stor mem:1MiB
says "did you mean --store"
expect 2 "$skymem" put
says "an argument is missing"
expect 2 "$skymem" rm a b
says "one argument too many"
expect 2 "$skymem" get k --store
says "--store needs a value"
expect 2 "$skymem" keys --block-tokens 0
says "--block-tokens 0: must be a whole number from 1 to 4096"
expect 2 "$skymem" config --kv-type q9
says "--kv-type q9: must be one of: f16|"
expect 2 "$skymem" config --model ""
says "--model : must be a path; it is empty"
expect 2 "$skymem" put -x CMakeLists.txt
says "behind --: -- -x"
expect 2 "$skymem" run --level 4bit --prompt x
says "must be one of: lossless"
expect 2 "$skymem" help nonsense
expect 2 "$skymem" help --json
finish
