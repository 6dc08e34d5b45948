#!/usr/bin/env bash
# Proves that a daemon that a service manager starts again has what its arena had, though no store
# below it is on disk: names, pins and times to live, of pools too; that what it read cannot be read
# again, so that a crash afterwards brings nothing old back, whatever the manager still holds; and
# that a start which fails loses nothing.
. "$(dirname "$0")/common.sh"
socket=$work/s
store=shm:$socket
cat >"$work/config.yaml" <<YAML
socket: $socket
store: [mem:300MiB]
pools: [{pool: chat, store: mem:8MiB}]
YAML

# A service manager: it starts the daemon, holds its descriptors, and does what its standard input
# says: start, term, kill, lose (all that it holds), deaf (it forgets nothing any more), patience
# (how often it was asked for more time before the daemon was ready).
cat >"$work/manager.py" <<'PY'
import os, select, signal, socket, sys
daemon, config, notify = sys.argv[1:4]
hub = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
hub.bind(notify)
kept, running, deaf, patience = [], None, False, 0

def hear(seconds):
    """One message, and what it asks for; None: there was none."""
    if not select.select([hub], [], [], seconds)[0]:
        return None
    data, fds, _, _ = socket.recv_fds(hub, 4096, 8)
    words = dict(line.split("=", 1) for line in data.decode().splitlines())
    name = words.get("FDNAME")
    if "FDSTORE" in words:
        kept.append((name, fds.pop()))
    if "FDSTOREREMOVE" in words and not deaf:
        for one in [k for k in kept if k[0] == name]:
            os.close(one[1])
            kept.remove(one)
    for fd in fds:
        os.close(fd)
    return words

def start():
    global running, patience
    def place():
        base = 1000
        os.dup2(2, 1)
        for i, (_, fd) in enumerate(kept):
            os.dup2(fd, base + i)
        for i in range(len(kept)):
            os.dup2(base + i, 3 + i)
            os.close(base + i)
        os.environ.update(NOTIFY_SOCKET=notify, LISTEN_PID=str(os.getpid()),
                          LISTEN_FDS=str(len(kept)), LISTEN_FDNAMES=":".join(k[0] for k in kept))
        for fd in range(3, 3 + len(kept)):
            os.set_inheritable(fd, True)
        os.execv(daemon, [daemon, "--config", config])
    running = os.fork()
    if running == 0:
        place()
    while True: # until it is ready, or has ended
        words = hear(0.2)
        patience += words is not None and "EXTEND_TIMEOUT_USEC" in words
        if words and "READY" in words:
            return
        if words is None and os.waitid(os.P_PID, running, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return

def stop(number):
    os.kill(running, number)  # one that ended by itself was not waited for either
    os.waitpid(running, 0)
    while hear(0):
        pass

for line in sys.stdin:
    word = line.strip()
    if word == "start":
        start()
    elif word in ("term", "kill"):
        stop(signal.SIGTERM if word == "term" else signal.SIGKILL)
    elif word == "deaf":
        deaf = True
    elif word == "lose":
        for _, fd in kept:
            os.close(fd)
        kept.clear()
    names = " ".join(sorted(k[0] for k in kept)) or "none"
    print(patience if word == "patience" else names, flush=True)
PY
mkfifo "$work/in" "$work/out.manager"
python3 "$work/manager.py" "$skymemd" "$work/config.yaml" "$work/notify" \
    <"$work/in" >"$work/out.manager" 2>"$work/err.manager" &
manager=$!
trap 'kill $manager 2>/dev/null; pkill -P $manager 2>/dev/null; rm -rf "$work"' EXIT
exec 8>"$work/in" 9<"$work/out.manager"
tell() { # WORD: what the manager holds afterwards is in $held
    echo "$1" >&8
    read -r -t 60 held <&9 || fail "the manager does not answer: $(cat "$work/err.manager")"
}

head -c 70000000 /dev/urandom >"$work/large"
head -c 3000 /dev/urandom >"$work/small"
printf 'first' >"$work/first"
printf 'second' >"$work/second"
tell start
expect 0 "$skymem" put large "$work/large" --store "$store"
expect 0 "$skymem" put small "$work/small" --ttl 600 --store "$store"
expect 0 "$skymem" put name "$work/first" --store "$store"
expect 0 "$skymem" put gone "$work/first" --store "$store"
expect 0 "$skymem" rm gone --store "$store"
expect 0 "$skymem" pin small --store "$store"
expect 0 "$skymem" put name "$work/second" --store "$store?pool=chat"

again() { # VALUE of name: all but that is there
    expect 0 "$skymem" get large -o "$work/got" --store "$store"
    cmp -s "$work/large" "$work/got" || fail "another large value is there"
    expect 0 "$skymem" get small -o "$work/got" --store "$store"
    cmp -s "$work/small" "$work/got" || fail "another small value is there"
    expect 0 "$skymem" get name -o "$work/got" --store "$store"
    cmp -s "$1" "$work/got" || fail "name is $(cat "$work/got")"
    expect 0 "$skymem" get name -o "$work/got" --store "$store?pool=chat"
    cmp -s "$work/second" "$work/got" || fail "the pool's name is $(cat "$work/got")"
    expect 3 "$skymem" get gone --store "$store"
    expect 0 "$skymem" stat small --json --store "$store"
    holds 'o["pinned"]'
}
again "$work/first"
for _ in 1 2; do
    tell term
    # two segments of the user, one of the pool, and what lies in them
    [ "$(tr ' ' '\n' <<<"$held" | sed 's/.*\.//' | sort | tr '\n' ' ')" = "0 0 1 index index " ] ||
        fail "kept: $held"
    tell start
    [ "$held" = none ] || fail "still kept: $held"
    again "$work/first"
done

tell patience # for each segment, so that a large arena is no failed start
[ "$held" -ge 6 ] || fail "more time was asked for $held times"

# What was kept was forgotten: a crash brings nothing older back.
expect 0 "$skymem" put name "$work/second" --store "$store"
tell kill
tell start
expect 3 "$skymem" get name --store "$store"
expect 3 "$skymem" get large --store "$store"

# A start that fails: what is kept stays with the manager.
expect 0 "$skymem" put name "$work/first" --store "$store"
tell term
before=$held
mv "$work/config.yaml" "$work/right.yaml"
sed 's|store: .mem:300MiB.|store: ["mem:300MiB", "disk:/dev/null/no"]|' "$work/right.yaml" \
    >"$work/config.yaml"
tell start
[ "$held" = "$before" ] || fail "a start that failed left $held of $before"
mv "$work/right.yaml" "$work/config.yaml"
tell start
expect 0 "$skymem" get name -o "$work/got" --store "$store"

# A manager that lost all, and one that forgets nothing.
tell term
tell lose
tell start
expect 3 "$skymem" get name --store "$store"
expect 0 "$skymem" put name "$work/first" --store "$store"
tell term
tell deaf
tell start
expect 0 "$skymem" get name -o "$work/got" --store "$store"
expect 0 "$skymem" put name "$work/second" --store "$store"
tell kill
tell start
expect 3 "$skymem" get name --store "$store"
tell term
exec 8>&-
wait $manager
finish
