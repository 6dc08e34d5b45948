#!/usr/bin/env bash
# Proves shm:auto: the first use starts one daemon, however many processes are first at once; it is
# found by all, has nothing of the files and signals of who started it, and ends when it is idle;
# what keeps it from starting is said.
. "$(dirname "$0")/common.sh"
export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
mkdir -p "$XDG_CONFIG_HOME/skymem"
settings=$XDG_CONFIG_HOME/skymem/skymemd.yaml
socket=$XDG_RUNTIME_DIR/skymem/skymemd.sock

# pid_of SOCKET: the process that listens there.
pid_of() {
    python3 - "$1" <<'PYTHON'
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
print(struct.unpack("iII", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
PYTHON
}

# until_gone FILE: wait until it is removed, at most 60 s.
until_gone() {
    for _ in $(seq 1200); do
        [ -e "$1" ] || return
        sleep 0.05
    done
    fail "still there: $1"
}

# many first users: with two daemons, some values would be in the memory of the other
echo 'store: mem:64MiB' >"$settings"
for i in $(seq 12); do
    "$skymem" put "k$i" CMakeLists.txt --store shm:auto >/dev/null 2>"$work/err$i" &
done
wait
cat "$work"/err* | grep . && fail "a first user failed"
expect 0 "$skymem" ls --store shm:auto --json
[ "$(wc -l <"$work/out")" = 12 ] || fail "not all of 12 values: $(cat "$work/out")"
expect 0 "$skymem" stat --store shm:auto --json
holds 'o["clients"] == 1 and o["entries"] == 12 and len(o["tiers"]) == 1'
[ "$(stat -c %a "$socket" "$XDG_RUNTIME_DIR/skymem" | tr '\n' ' ')" = "700 700 " ] ||
    fail "open to others: $(ls -la "$XDG_RUNTIME_DIR/skymem")"
expect 1 "$skymemd" --auto
says "in use"

# one that was killed is started again by its next user; the caller's files and signals stay its own
daemon=$(pid_of "$socket")
kill -KILL "$daemon"
(
    trap '' TERM
    exec 7<"$work/run" 8>"$work/held"
    exec "$skymem" put again CMakeLists.txt --store shm:auto
) >/dev/null || fail "it was not started again"
daemon=$(pid_of "$socket")
for fd in 7 8; do
    [ ! -e "/proc/$daemon/fd/$fd" ] || [ "$(readlink "/proc/$daemon/fd/$fd")" != "$work/held" ] ||
        fail "it keeps a file of its starter"
done
[ "$(readlink "/proc/$daemon/cwd")" = / ] || fail "it stays in a folder"
kill -TERM "$daemon"
until_gone "$socket"

# no client: it ends by itself, and the next use starts another
printf 'store: mem:64MiB\nidle: 1\n' >"$settings"
expect 0 "$skymem" put k CMakeLists.txt --store shm:auto
until_gone "$socket"
expect 0 "$skymem" put k CMakeLists.txt --store shm:auto
until_gone "$socket"

# without a file: what skymem keeps elsewhere, as an arena over the cache folder
rm "$settings"
expect 0 "$skymem" put k CMakeLists.txt --store shm:auto
expect 0 "$skymem" stat --store shm:auto --json
holds "o['tiers'][1]['url'] == 'disk:$XDG_CACHE_HOME/skymem?max=8GiB'"
kill -TERM "$(pid_of "$socket")"
until_gone "$socket"
expect 0 "$skymem" get k --store "disk:$XDG_CACHE_HOME/skymem?max=8GiB" --output "$work/back"
cmp -s CMakeLists.txt "$work/back" || fail "SIGTERM lost what was queued"

# without XDG_RUNTIME_DIR: a folder in /tmp, which must be the user's own
expect 0 env -u XDG_RUNTIME_DIR "$skymem" put k CMakeLists.txt --store shm:auto
kill -TERM "$(pid_of "/tmp/skymem-$(id -u)/skymemd.sock")"
until_gone "/tmp/skymem-$(id -u)/skymemd.sock"

# what keeps it from starting
echo 'stoer: mem:64MiB' >"$settings"
expect 1 "$skymem" put k CMakeLists.txt --store shm:auto
says "$settings:1: no such key"
echo "store: disk:$work/held/skymem" >"$settings"
expect 1 "$skymem" put k CMakeLists.txt --store shm:auto
grep -q . "$work/err" || fail "it says nothing"
rm "$settings"
expect 1 env SKYMEM_DAEMON=/nonexistent/skymemd "$skymem" put k CMakeLists.txt --store shm:auto
says "/nonexistent/skymemd cannot be started"
chmod 777 "$XDG_RUNTIME_DIR/skymem"
expect 1 "$skymem" put k CMakeLists.txt --store shm:auto
says "mode 0777 lets other users change it"
expect 1 "$skymem" stat --store shm:auto
chmod 700 "$XDG_RUNTIME_DIR/skymem"
expect 1 "$skymem" stat --store shm:auto # it asks one that is there, and starts none
says "nobody listens there"
expect 2 "$skymem" put k CMakeLists.txt --store "shm:auto?user=nobody-of-this-name"
says "there is no user nobody-of-this-name"
finish
