#!/usr/bin/env bash
# Proves the daemon's configuration file: what it says, what is wrong in it with its line, that
# --check opens nothing, that SIGHUP changes users and nothing else, and that a file with a fault
# changes nothing; and a socket that a service manager passes.
. "$(dirname "$0")/common.sh"
socket=$work/d.sock
file=$work/skymemd.yaml

# until_says TEXT: wait until the daemon's log has it, at most 20 s.
until_says() {
    for _ in $(seq 400); do
        grep -qF -- "$1" "$work/log" && return
        sleep 0.05
    done
    fail "the log lacks \"$1\": $(cat "$work/log")"
}

stop() {
    kill -TERM "$daemon"
    wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
}

cat >"$file" <<YAML
# comment
socket: $socket
store: [mem:8MiB, "disk:$work/disk?max=64MiB"]
idle: 86400
YAML
expect 0 "$skymemd" --config "$file" --check
silent
expect 0 "$skymemd" --config "$file" --check --store mem:1MiB --store skymem://127.0.0.1:1?plain=yes
[ ! -e "$work/disk" ] && [ ! -e "$socket" ] || fail "--check opened something"
head -c 66000 /dev/zero | tr '\0' '[' >"$work/deep.yaml"
expect 1 "$skymemd" --config "$work/deep.yaml" --check
says "too large for a configuration"
start_daemon --config "$file"
expect 0 "$skymem" stat --store "shm:$socket" --json
holds 'o["arena_bytes_max"] == 8 << 20 and len(o["tiers"]) == 2'
stop

# the command line goes before the file
start_daemon --config "$file" --store mem:4MiB --socket "$work/other.sock"
expect 0 "$skymem" stat --store "shm:$work/other.sock" --json
holds 'o["arena_bytes_max"] == 4 << 20 and len(o["tiers"]) == 1'
stop

# wrong TEXT LINE WHY: a file of this text is refused, its line and the reason named.
wrong() {
    printf '%b' "$1" >"$work/wrong.yaml"
    expect 2 "$skymemd" --config "$work/wrong.yaml" --check
    says "wrong.yaml:$2: $3"
}
wrong 'socket: a\nsockett: b\n' 2 'no such key'
wrong 'socket: a\nidle: 1\nsocket: b\n' 3 'is there twice'
wrong 'socket: [a]\n' 1 'socket is a path'
wrong 'socket: a\nstore: []\n' 2 'store is an empty list'
wrong 'store:\n - mem:1MiB\n - {a: b}\n' 3 'a store is an URL'
wrong '- a\n' 1 'must be a mapping'
wrong 'socket: a\n---\nsocket: b\n' 3 'a second document'
wrong 'socket: "a\n' 2 ''
wrong 'socket: a\nusers: 5\n' 2 'users is a list'
wrong 'users:\n - user: root-of-no-machine\n   store: mem:1MiB\n' 2 'there is no such user'
wrong 'users:\n - store: mem:1MiB\n' 2 'a user needs user and store'
one=' - {user: 54321, store: mem:1MiB}\n'
wrong "users:\n$one$one" 3 'this user is there twice'
wrong "users:\n - {user: $(id -u), store: mem:1MiB}\n" 2 "this is the daemon's own user"
wrong 'socket: a\nidle: -1\n' 2 'idle: must be whole seconds'
wrong 'socket: a\nstore:\n - mem:1MiB\n - dsk:/x\n' 4 'dsk:/x: no such store'
wrong 'socket: a\nstore: mem:lots\n' 2 'mem:lots: '
wrong 'users:\n - user: 54321\n   store: dsk:/x\n' 3 'dsk:/x: no such store'
host='skymem://127.0.0.1:1'
wrong "socket: a\nstore: $host\n" 2 "$host: needs key=FILE, or plain=yes"
wrong "socket: a\nstore: $host?plain=yes&away=maybe\n" 2 "$host?plain=yes&away=maybe: away is"
wrong "socket: a\nstore: $host?plain=yes&awai=yes\n" 2 "$host: unknown setting 'awai'"
wrong "socket: a\nstore: $host?key=$work/none.key\n" 2 \
    "$host?key=$work/none.key: $work/none.key: No such file"
wrong "socket: a\nstore: skymem://?peers=$work/none.txt\n" \
    2 "skymem://?peers=$work/none.txt: $work/none.txt: No such file"
(umask 077 && printf '%064d' 1 >"$work/key")
# every kind of store is known; a file without a socket is for a passed one, or for shm:auto
cat >"$work/all.yaml" <<YAML
store: [mem:1MiB, "disk:/x", "shm:/x", "$host?away=yes&key=$work/key", "sky:seed", "sky+udp:/x"]
YAML
expect 0 "$skymemd" --config "$work/all.yaml" --check
silent
expect 2 "$skymemd" --config "$work/all.yaml"
says "no --config FILE has a socket"
expect 1 "$skymemd" --config "$work/none.yaml" --check
says "No such file"
expect 1 "$skymemd" --config "$work" --check
says "no plain file"
expect 2 "$skymemd" --check
says "--socket: is missing"
expect 2 "$skymemd" --socket a --idle soon
says "--idle: must be whole seconds"

# SIGHUP: users come and go; a fault, or another store, changes nothing that is served
export SKYMEM_LOG=info
start_daemon --config "$file"
cat >>"$file" <<YAML
users:
  - user: 54321
    store: mem:4MiB
YAML
kill -HUP "$daemon"
until_says "settings were read again: 2 users and pools"
echo 'stoer: mem:1MiB' >"$work/wrong.yaml"
cp "$file" "$work/good.yaml"
cp "$work/wrong.yaml" "$file"
kill -HUP "$daemon"
until_says "no such key"
until_says "nothing was changed: the settings from before stay in force"
cp "$work/good.yaml" "$file"
sed -i 's/mem:4MiB/mem:6MiB/; s/mem:8MiB/mem:9MiB/' "$file"
kill -HUP "$daemon"
until_says "the stores of user 54321 changed"
until_says "socket and store: changed"
expect 0 "$skymem" stat --store "shm:$socket" --json
holds 'o["arena_bytes_max"] == 8 << 20'
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 711 "$work"
    other=(setpriv --reuid 54321 --clear-groups --inh-caps=-all env HOME=/nonexistent)
    "${other[@]}" "$skymem" put k CMakeLists.txt --store "shm:$socket" >"$work/out" 2>&1 ||
        fail "another user is not served: $(cat "$work/out")"
    expect 0 "$skymem" stat --store "shm:$socket" --json
    holds 'o["entries"] == 0' # of this user
    # a third one connects again and again: few lines say so
    setpriv --reuid 54322 --clear-groups --inh-caps +dac_read_search \
        --ambient-caps +dac_read_search python3 - "$socket" >"$work/out" <<'PYTHON'
import socket, sys, time
begun = time.monotonic()
for _ in range(500):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    s.recv(8192)
    s.close()
print(int(time.monotonic() - begun))
PYTHON
    lines=$(grep -c 'of user 54322 is refused' "$work/log")
    [ "$lines" -ge 1 ] && [ "$lines" -le $((10 * ($(cat "$work/out") + 2))) ] ||
        fail "$lines lines for 500 refused connections in $(cat "$work/out") s"
    chmod 700 "$work"
fi
stop
unset SKYMEM_LOG

# A socket that is passed: descriptor 3, of a listener that was made before. It is served, and its
# file is the manager's.
passed() {
    rm -f "$work/ready"
    python3 - "$skymemd" "$@" >"$work/ready" 2>"$work/log" <<'PYTHON' &
import os, socket, sys
kind = getattr(socket, sys.argv[2])
s = socket.socket(socket.AF_UNIX, kind)
s.bind(sys.argv[3])
if kind != socket.SOCK_DGRAM:
    s.listen(16)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)  # where it was 3 already
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[1], ["skymemd", "--store", "mem:4MiB"])
PYTHON
    daemon=$!
}
passed SOCK_SEQPACKET "$work/passed.sock"
until_ready "$work/ready"
expect 0 "$skymem" put k CMakeLists.txt --store "shm:$work/passed.sock"
stop
[ -S "$work/passed.sock" ] || fail "the manager's socket was removed"
for kind in SOCK_STREAM SOCK_DGRAM; do
    rm -f "$work/passed.sock"
    passed "$kind" "$work/passed.sock"
    code=0
    wait "$daemon" || code=$?
    [ "$code" = 2 ] || fail "exit $code for a passed $kind"
    grep -q 'no Unix socket that listens' "$work/log" || fail "$kind: $(cat "$work/log")"
done
expect 2 env LISTEN_PID=1 LISTEN_FDS=1 "$skymemd" --store mem:4MiB
says "--socket: is missing"

# the units name options that there are
cp share/systemd/skymemd.service share/systemd/skymemd.socket "$work"
if command -v systemd-analyze >/dev/null; then
    for unit in "$work/skymemd.service" "$work/skymemd.socket"; do
        XDG_RUNTIME_DIR=$work expect 0 systemd-analyze --user --man=no verify "$unit"
        [ ! -s "$work/err" ] || fail "$unit: $(cat "$work/err")"
    done
fi
grep -q '^ListenSequentialPacket=%t/skymem/skymemd.sock$' share/systemd/skymemd.socket ||
    fail "the unit's socket is not that of shm:auto"
finish
