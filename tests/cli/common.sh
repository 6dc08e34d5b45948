# What the tests of the programs share: sourced, not run. Settings and caches of the account are
# kept out.
set -uo pipefail
build=$(cd "${SKYMEM_BUILD:-build}" && pwd)
skymem=$build/skymem
skymemd=$build/skymemd
[ -x "$skymem" ] || { echo "skipped: $skymem is not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config HOME=$work/home
for name in $(env | sed -n 's/^\(SKYMEM_[A-Z_]*\)=.*/\1/p'); do
    case $name in SKYMEM_BUILD | SKYMEM_MODEL | SKYMEM_IO) ;; *) unset "$name" ;; esac
done
model=${SKYMEM_MODEL:-}
unset SKYMEM_MODEL
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect CODE COMMAND...: run it, its output in $work/out and $work/err, and check how it exits.
expect() {
    local wanted=$1 code=0
    shift
    "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [ "$code" = "$wanted" ] || fail "exit $code instead of $wanted: $* ($(head -c 300 "$work/err"))"
}

# says TEXT: stderr is one line and contains it.
says() {
    grep -qF -- "$1" "$work/err" || fail "stderr lacks \"$1\": $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "stderr is not one line: $(cat "$work/err")"
}

# link_with_build PROGRAM SOURCE: a program of a test, with the libraries of the build. Of a
# sanitized build it brings the sanitizer's, which has to come first.
link_with_build() {
    local sanitize
    sanitize=$(sed -n 's/^SKYMEM_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
    cc -O1 ${sanitize:+"-fsanitize=$sanitize"} -I include -o "$1" "$2" -L "$build" -lskymem-sky \
        -lskymem -lskymem-codec -Wl,-rpath,"$build"
}

# until_ready FILE: wait for its line "ready", at most a minute.
until_ready() {
    for _ in $(seq 1200); do
        grep -qsx ready "$1" && return
        sleep 0.05
    done
    fail "not ready: $1"
}

# start_daemon ARGUMENT...: a skymemd, which then is ready; $daemon is its process, $work/log its
# standard error.
start_daemon() {
    rm -f "$work/ready"
    "$skymemd" "$@" >"$work/ready" 2>"$work/log" &
    daemon=$!
    until_ready "$work/ready"
}

# patient CODE COMMAND...: expect, but where satellites were said not to answer the command runs
# again, for a minute: on a busy machine they may get no processor time for seconds.
patient() {
    local wanted=$1
    shift
    for _ in $(seq 60); do
        "$@" >"$work/out" 2>"$work/err" </dev/null
        [ $? != "$wanted" ] || return 0
        grep -qE 'do(es)? not answer' "$work/err" || break
        sleep 1
    done
    expect "$wanted" "$@"
}

# while_it_lives FUNCTION: FUNCTION SECONDS puts a value that lives so long, and uses it. When that
# took longer than the value lives, again with a longer life.
while_it_lives() {
    local life
    for life in 2 10 60 600; do
        SECONDS=0
        "$@" "$life" >"$work/out" 2>"$work/err" && return
        [ $SECONDS -ge "$life" ] || break
    done
    fail "$* $life, after $SECONDS s: $(cat "$work/err")"
}

# until_missed COMMAND...: until it exits 3, at most ten minutes.
until_missed() {
    for _ in $(seq 3000); do
        "$@" >"$work/out" 2>"$work/err" </dev/null
        [ $? != 3 ] || return 0
        sleep 0.2
    done
    fail "still there: $*"
}

# silent: nothing on standard output.
silent() {
    [ ! -s "$work/out" ] || fail "standard output is not empty: $(head -c 200 "$work/out")"
}

# holds EXPRESSION: standard output is one JSON object `o`, and the Python expression is true of it.
holds() {
    python3 - "$work/out" "$1" <<'PYTHON' || fail "not true: $1 of $(head -c 600 "$work/out")"
import json, math, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
assert text.endswith("\n") and text.count("\n") == 1, "not one line"
o = json.loads(text)
assert isinstance(o, dict)
sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)
PYTHON
}

# on_terminal COMMAND...: run it with a terminal of its own as outputs; $work/screen is what it got.
on_terminal() {
    python3 - "$work/screen" "$@" <<'PYTHON' || fail "exit $? on a terminal: $*"
import os, pty, sys
with open(sys.argv[1], "wb") as screen:
    def keep(fd):
        data = os.read(fd, 65536)
        screen.write(data)
        return b" " if data else b""
    saved = os.dup(1)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    status = pty.spawn(sys.argv[2:], keep, lambda fd: b"")
sys.exit(os.waitstatus_to_exitcode(status))
PYTHON
}

# excused CODE: standard output is the object that --json has for a failure.
excused() {
    holds "set(o) == {'error', 'exit'} and o['error'] and o['exit'] == $1"
}

# lines_hold EXPRESSION: every line is a JSON object; the expression is true of their list `rows`.
lines_hold() {
    python3 - "$work/out" "$1" <<'PYTHON' || fail "not true: $1 of $(head -c 600 "$work/out")"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)
PYTHON
}

# have_satellites: the test starts some. They note in $work/run that they run, and those of every
# scenario in $work are stopped when the test ends.
have_satellites() {
    export XDG_RUNTIME_DIR=$work/run
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    trap stop_satellites EXIT
}

# chunks: how many the satellites of $scenario hold.
chunks() {
    "$skymem" constellation status "$scenario" --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["chunks"])'
}

# await_chunks COUNT: until they hold so many, as long as they hold more from time to time.
await_chunks() {
    local held most=0 waits=0
    while held=$(chunks) && [ "$held" -lt "$1" ] && [ $waits -lt 300 ]; do
        waits=$((held > most ? 0 : waits + 1))
        most=$((held > most ? held : most))
        sleep 0.1
    done
    [ "$held" -ge "$1" ] || fail "$held of $1 chunks are held, and no more come"
}

stop_satellites() {
    local scenario
    for scenario in "$work"/*.yaml; do
        "$skymem" constellation down "$scenario" >/dev/null 2>&1
    done
    rm -rf "$work"
}

# finish: the last line of a test.
finish() {
    [ "$failures" = 0 ] || { echo "$failures checks failed"; exit 1; }
    exit 0
}

# need_engine: skip when no verb runs models. They compute with one thread: several tests run at
# once, and threads that wait for each other take the time of others. (The verb fails either way,
# and with pipefail a pipe would too.)
need_engine() {
    local said
    export SKYMEM_THREADS=1
    said=$("$skymem" run --prompt x --model /nonexistent.gguf 2>&1) || true
    [[ $said != *"without llama.cpp"* ]] || { echo "skipped: built without llama.cpp"; exit 77; }
}

# need_model: set $model, or skip.
need_model() {
    [ -n "$model" ] || [ ! -r "$build/model.path" ] || model=$(cat "$build/model.path")
    [ -r "$model" ] || { echo "skipped: no model; make demo fetches one"; exit 77; }
    need_engine
}
