#!/usr/bin/env bash
# Proves: a daemon serves other hosts over TCP, sealed by a key by default and plain only when asked
# for by name; a wrong key, a key open to others and a missing one are refused with a reason; a
# client whose server is killed in the middle of a get says so, and finds the next one; and one that
# is killed in the middle of a put leaves nothing behind.
. "$(dirname "$0")/common.sh"
socket=$work/d.sock
key=$work/key
other=$work/other
umask 077
for file in "$key" "$other"; do
    head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n' >"$file"
done

# start_peer ARGUMENT...: a daemon that serves peers; $port is where
start_peer() {
    start_daemon --socket "$socket" --store mem:256MiB "$@"
    expect 0 "$skymem" stat --store "shm:$socket" --json
    port=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["peers"]["address"].rsplit(":", 1)[1])' "$work/out")
}

stop_peer() {
    kill -TERM "$daemon"
    wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
}

expect 2 "$skymemd" --socket "$socket" --listen 0
says "key"
chmod 644 "$other"
expect 1 "$skymemd" --socket "$socket" --listen 0 --peer-key "$other"
says "chmod 600"
chmod 600 "$other"

start_peer --listen 0 --peer-key "$key"
url="skymem://127.0.0.1:$port?key=$key"
expect 0 "$skymem" put greeting README.md --store "$url"
expect 0 "$skymem" get greeting --store "$url" --output "$work/back"
cmp README.md "$work/back" || fail "another file came back"
expect 0 "$skymem" get greeting --store "shm:$socket" --output "$work/back" # the same store
cmp README.md "$work/back" || fail "another file came back on the host"
expect 0 "$skymem" ls --store "$url" --json
grep -q '"greeting"' "$work/out" || fail "not listed: $(cat "$work/out")"
expect 0 "$skymem" verify --store "$url"
expect 0 "$skymem" stat --store "$url"
expect 0 "$skymem" rm greeting --store "$url"
expect 3 "$skymem" get greeting --store "$url" --output "$work/back"

expect 1 "$skymem" ls --store "skymem://127.0.0.1:$port?key=$other"
says "another key"
expect 1 "$skymem" ls --store "skymem://127.0.0.1:$port?plain=yes"
says "no plain connections; name its key"
expect 2 "$skymem" ls --store "skymem://127.0.0.1:$port"
says "key=FILE"
expect 0 "$skymem" stat --store "shm:$socket" --json
grep -q 'is denied: it has another key, or none' "$work/log" || fail "$(cat "$work/log")"
holds 'o["peers"]["denied"] == 2 and o["peers"]["accepted"] >= 6 and o["leases"] == 0'
holds 'o["peers"]["connections"] == 0 and o["peers"]["sent_bytes"] > 0'

# killed in the middle of a get: all of the file or none, and an error; the next one answers again
head -c 100000000 /dev/urandom >"$work/large"
expect 0 "$skymem" put large "$work/large" --store "$url"
"$skymem" get large --store "$url" --output "$work/got" >"$work/out" 2>"$work/err" &
getter=$!
sleep 0.05
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null || true
code=0
wait "$getter" || code=$?
case $code in
0) cmp "$work/large" "$work/got" || fail "another file came back" ;;
4) [ ! -e "$work/got" ] || fail "a file that came in part was left" ;;
*) fail "exit $code after the server was killed: $(cat "$work/err")" ;;
esac
expect 1 "$skymem" get large --store "$url" --output "$work/never"
says "nobody listens"
rm -f "$socket"
start_peer --listen "$port" --peer-key "$key"
expect 0 "$skymem" put greeting README.md --store "$url"
expect 1 "$skymemd" --socket "$work/second.sock" --listen "$port" --peer-key "$key"
says "in use"

# a client killed in the middle of a put: all of it or nothing is stored, and the room is free
head -c 25000000 "$work/large" >"$work/part"
for wait_s in 0.02 0.04 0.06 0.08; do
    "$skymem" put part "$work/part" --store "$url" >"$work/out" 2>"$work/err" &
    putter=$!
    sleep $wait_s
    kill -KILL "$putter" 2>/dev/null || true
    wait "$putter" 2>/dev/null || true
    for _ in $(seq 200); do
        expect 0 "$skymem" stat --store "shm:$socket" --json
        ! grep -q '"connections": *0' "$work/out" || break
        sleep 0.05
    done
    holds 'o["peers"]["connections"] == 0'
    code=0
    "$skymem" get part --store "$url" --output "$work/back" 2>"$work/err" || code=$?
    case $code in
    0) cmp "$work/part" "$work/back" || fail "another file was stored" ;;
    3) # again: the numbers of one stat are of different moments
        expect 0 "$skymem" stat --store "shm:$socket" --json
        holds 'o["tiers"][0]["bytes_used"] < 1000000' ;;
    *) fail "exit $code after a client was killed: $(cat "$work/err")" ;;
    esac
    expect 0 "$skymem" verify --store "shm:$socket"
    "$skymem" rm part --store "$url" >"$work/out" 2>&1 || true
done
stop_peer

# two that have each other: the first starts though the second is not there yet, and finds it then
expect 1 "$skymemd" --socket "$socket" --store mem:8MiB --store "$url"
says "nobody listens there"
expect 2 "$skymem" ls --store "$url&away=perhaps"
says "away is yes, no or later"
there=$url there_port=$port
start_peer --listen 0 --peer-key "$key" --store "$there&away=yes"
first=$daemon first_socket=$socket first_port=$port
socket=$work/second.sock
start_peer --listen "$there_port" --peer-key "$key" \
    --store "skymem://127.0.0.1:$first_port?key=$key&away=yes"
found=3
for _ in $(seq 200); do
    expect 0 "$skymem" put ours README.md --store "shm:$first_socket"
    "$skymem" get ours --store "$there" --output "$work/ours" 2>/dev/null && found=0 && break
    sleep 0.1
done
[ "$found" = 0 ] && cmp README.md "$work/ours" ||
    fail "the second was not found: $(cat "$work/log")"
stop_peer
daemon=$first
socket=$first_socket
stop_peer

start_peer --listen 0 --peer-plain
expect 0 "$skymem" put greeting README.md --store "skymem://localhost:$port?plain=yes&connections=1"
expect 1 "$skymem" ls --store "skymem://127.0.0.1:$port?key=$key"
says "another key"
stop_peer

# over libfabric, by the provider that is named, and by no other
expect 2 "$skymemd" --socket "$socket" --peer-transport fabric:tcp
says "goes with --listen"
expect 2 "$skymemd" --socket "$socket" --listen 0 --peer-plain --peer-transport pigeon
says "no transport pigeon in this build, but: tcp"
expect 2 "$skymem" ls --store "skymem://127.0.0.1:1?plain=yes&transport=pigeon"
says "no transport pigeon in this build, but: tcp"
expect 2 "$skymem" ls --store "skymem://127.0.0.1:1?plain=yes&provider=tcp"
says "provider tcp belongs to transport fabric"
code=0
nobody="skymem://127.0.0.1:1?plain=yes&transport=fabric"
"$skymem" ls --store "$nobody&provider=tcp" 2>"$work/err" || code=$?
if [ "$code" = 1 ]; then
    says "nobody listens"
    expect 2 "$skymem" ls --store "$nobody"
    says "needs the name of a provider; libfabric has here: "
    expect 2 "$skymem" ls --store "$nobody&provider=pigeon"
    says "no provider pigeon with message endpoints"
    expect 2 "$skymemd" --socket "$socket" --listen 0 --peer-plain --peer-transport fabric:pigeon
    says "no provider pigeon with message endpoints"
    start_peer --listen 0 --peer-key "$key" --peer-transport fabric:tcp
    holds 'o["peers"]["transport"] == "fabric:tcp"'
    url="skymem://127.0.0.1:$port?key=$key&transport=fabric&provider=tcp"
    expect 0 "$skymem" put large "$work/large" --store "$url"
    expect 0 "$skymem" get large --store "$url" --output "$work/got"
    cmp "$work/large" "$work/got" || fail "another file came back over libfabric"
    expect 0 "$skymem" ls --store "$url"
    expect 1 "$skymem" ls --store "skymem://127.0.0.1:$port?key=$key" # over TCP: another language
    expect 1 "$skymemd" --socket "$work/second.sock" --listen "$port" --peer-plain \
        --peer-transport fabric:tcp
    says "in use"
    stop_peer # providers' libraries may have taken SIGTERM over
else
    says "fabric" # this build or this machine is without it, and says so
fi
finish
