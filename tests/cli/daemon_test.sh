#!/usr/bin/env bash
# Proves the small daemon: ready, counters over its socket, exit 0 on SIGTERM, no second one on a
# socket, a socket left by a killed one taken over, and other users refused.
. "$(dirname "$0")/common.sh"
socket=$work/d.sock

start() {
    start_daemon --socket "$socket" --store mem:4MiB --store "disk:$work/disk?max=64MiB"
}

expect 0 "$skymem" put k CMakeLists.txt --store "disk:$work/disk?max=64MiB"
start
for _ in 1 2; do
    expect 0 "$skymem" stat --store "shm:$socket" --json
done
holds 'o["connections"] == 2 and o["clients"] == 1 and o["refused"] == 0 and o["leases"] == 0'
holds 'o["entries"] == 1 and o["arena_bytes_max"] == 4 << 20 and o["arena_bytes_used"] == 0'
holds 'o["corrupt"] == 0 and "hits" in o and "misses" in o and len(o["tiers"]) == 2'
expect 0 "$skymem" stat --store "shm:$socket"
grep -q '^clients ' "$work/out" || fail "for people: $(cat "$work/out")"
expect 0 "$skymem" stat k --store "shm:$socket"

# every verb takes it: what one process stores another reads, lists, pins and removes
expect 0 "$skymem" put greeting README.md --store "shm:$socket"
expect 0 "$skymem" get greeting --store "shm:$socket" --output "$work/back"
cmp README.md "$work/back" || fail "another file came back"
expect 0 "$skymem" get k --store "shm:$socket" --output "$work/back" # from the disk below
cmp CMakeLists.txt "$work/back" || fail "another file came back from the disk"
expect 0 "$skymem" ls --store "shm:$socket" --json
grep -q '"greeting"' "$work/out" || fail "not listed: $(cat "$work/out")"
for key in k greeting; do # each is in memory and on the disk below
    grep -q "\"key\":\"$key\"" "$work/out" || fail "$key is not listed: $(cat "$work/out")"
done
[ "$(wc -l <"$work/out")" = 2 ] || fail "not once each: $(cat "$work/out")"
expect 0 "$skymem" pin greeting --store "shm:$socket"
expect 0 "$skymem" verify --store "shm:$socket"
expect 0 "$skymem" du --store "shm:$socket"
expect 0 "$skymem" stat --store "shm:$socket" --json
holds 'o["hits"] == 2 and o["leases"] == 0 and o["arena_bytes_used"] > 0'
holds 'o["arena_bytes_committed"] == 4 << 20'
expect 0 "$skymem" rm greeting --store "shm:$socket"
expect 3 "$skymem" get greeting --store "shm:$socket" --output "$work/back"
expect 0 "$skymem" rm k --store "shm:$socket"
expect 0 "$skymem" stat --store "shm:$socket" --json
holds 'o["entries"] == 0 and o["arena_bytes_used"] == 0 and o["arena_bytes_committed"] == 0'
expect 0 "$skymem" put k CMakeLists.txt --store "shm:$socket"
expect 1 "$skymemd" --socket "$socket" --store mem:1MiB
says "in use"
[ "$(stat -c %a "$socket")" = 700 ] || fail "the socket is open to others: $(stat -c %a "$socket")"
kill -STOP "$daemon"
expect 1 timeout 600 "$skymem" stat --store "shm:$socket"
says "no answer within 3 s"
kill -CONT "$daemon"
kill -TERM "$daemon"
code=0
wait "$daemon" || code=$?
[ "$code" = 0 ] || fail "exit $code on SIGTERM: $(cat "$work/log")"
[ ! -e "$socket" ] || fail "the socket was left"
expect 1 "$skymem" stat --store "shm:$socket"
says "is skymemd"

start
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
[ -S "$socket" ] || fail "the test needs a socket that was left"
start
expect 0 "$skymem" stat --store "shm:$socket" --json
kill -INT "$daemon"
wait "$daemon" || fail "exit $? on SIGINT"

# what took the socket's place is not the daemon's to remove
start
rm "$socket"
echo mine >"$socket"
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM"
[ "$(cat "$socket")" = mine ] || fail "another file was removed"
rm "$socket"
start
first=$daemon
rm "$socket"
# the folder of a store has one daemon, too
expect 1 "$skymemd" --socket "$socket" --store mem:1MiB --store "disk:$work/disk?max=64MiB"
says "$work/disk: in use; is another skymemd running?"
start_daemon --socket "$socket" --store mem:4MiB
kill -TERM "$first"
wait "$first" || fail "exit $? on SIGTERM"
expect 0 "$skymem" stat --store "shm:$socket"
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM"
[ ! -e "$socket" ] || fail "the socket was left"

# another user is refused, even where the file system lets it connect: by the host, which asks the
# kernel, and by the client, which trusts no other user's host
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    other=(setpriv --reuid 54321 --clear-groups --inh-caps +dac_read_search
        --ambient-caps +dac_read_search)
    start
    chmod 711 "$work"
    chmod 777 "$socket"
    expect 0 "${other[@]}" python3 -c '
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(60)
s.connect(sys.argv[1])
refused, denied = 3, -11
answer = s.recv(8192)
assert struct.unpack("<IIIi", answer) == (refused, 0, 0, denied), answer
assert s.recv(8192) == b"", "it goes on"' "$socket"
    grep -q 'of user 54321 is refused' "$work/log" || fail "not logged: $(cat "$work/log")"
    expect 1 "${other[@]}" "$skymem" stat --store "shm:$socket"
    says "permission denied"
    expect 0 "$skymem" stat --store "shm:$socket" --json
    holds 'o["refused"] >= 1 and o["clients"] == 1'
    kill -TERM "$daemon"
    wait "$daemon" || fail "exit $? on SIGTERM"
    chmod 700 "$work"
else
    echo "not tried without root and setpriv: the refusal of another user"
fi

# every tier is there, whatever its URL is made of
odd=$work/$'a\xff'
start_daemon --socket "$socket" --store "disk:$odd?max=64MiB" \
    --store "disk:$work/disk?max=64MiB"
expect 0 "$skymem" stat --store "shm:$socket" --json
holds 'len(o["tiers"]) == 3 and "/a\\xff?max" in o["tiers"][1]["url"]'
holds '"/disk?max" in o["tiers"][2]["url"] and o["tiers"][0]["url"].startswith("mem:256MiB")'
kill -TERM "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM"

# a listener that says nothing, and one whose queue is full
python3 - "$work/mute" "$work/full" >"$work/mutes" <<'PYTHON' &
import socket, sys, time
kind = socket.AF_UNIX, socket.SOCK_SEQPACKET
mute, full = (socket.socket(*kind) for _ in range(2))
for listener, path in ((mute, sys.argv[1]), (full, sys.argv[2])):
    listener.bind(path)
    listener.listen(0)
waiting = []
try:
    while True:
        waiting.append(socket.socket(*kind))
        waiting[-1].setblocking(False)
        waiting[-1].connect(sys.argv[2])
except BlockingIOError:
    print("ready", flush=True)
time.sleep(600)
PYTHON
mutes=$!
until_ready "$work/mutes"
for path in "$work/mute" "$work/full"; do
    expect 1 timeout 600 "$skymem" stat --store "shm:$path"
    says "shm:$path: no answer within 3 s"
done
kill "$mutes"
wait "$mutes" 2>/dev/null

: >"$work/plain"
expect 1 "$skymemd" --socket "$work/plain" --store mem:1MiB
says "no socket"
[ -f "$work/plain" ] || fail "a plain file was removed"

expect 2 "$skymemd"
expect 2 "$skymemd" --socket "$socket" --resp 127.0.0.1:1
says "not in this version"
expect 2 "$skymemd" --socket "$socket" --store nonsense
for wrong in --nope -q --help=x; do
    expect 2 "$skymemd" "$wrong"
    says "skymemd: $wrong: no such option; see skymemd --help"
done
expect 2 "$skymemd" --socket "$socket" --store $'mem:1MiB\nskymemd: ready\e[2J'
says 'mem:1MiB\x0askymemd: ready\x1b[2J'
expect 2 "$skymemd" --socket
says "skymemd: --socket: needs a value"
expect 2 "$skymemd" --satellite 4294967297,1 --scenario scenarios/constellation.yaml
says "a satellite is PLANE,SLOT"
expect 2 "$skymemd" --satellite 99,1 --scenario scenarios/constellation.yaml
says "99,1: the scenario has 5 planes of 19 slots"
expect 2 "$skymemd" --socket "$socket" --state "$work/state"
says "--state: goes with --satellite PLANE,SLOT"
port=$(tools/free-ports 100)
sed "s/127.0.0.1:7600/127.0.0.1:$port/" scenarios/constellation.yaml >"$work/sky.yaml"
(umask 077 && python3 -c 'import secrets; print(secrets.token_hex(32))' >"$work/sky.key")
echo 9999999999999 >"$work/state"
expect 1 "$skymemd" --satellite 3,4 --scenario "$work/sky.yaml" --state "$work/state"
says "behind what this satellite saw before: set it right"
expect 2 env -u HOME "$skymemd" --socket "$socket" --store "disk:~/cache"
says "there is no HOME"
mkdir "$work/home"
HOME=$work/home start_daemon --socket "$socket" --store "disk:~/cache?max=1MiB"
expect 0 "$skymem" stat --store "shm:$socket" --json
holds "o['tiers'][1]['url'] == 'disk:$work/home/cache?max=1MiB'"
kill "$daemon"
wait "$daemon" || fail "a store in the home folder: exit $?"
expect 0 "$skymemd" --help
expect 0 "$skymemd" --version
finish
