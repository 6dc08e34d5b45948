#!/usr/bin/env bash
# Proves that satellites whose record is gone are named, and what ends them ends all of them; that a
# line that a full disk cut short hides no other; that satellites keep no folder of the caller busy;
# and that `up` says why it has too few descriptors.
. "$(dirname "$0")/common.sh"
have_satellites
port=$(tools/free-ports 10)
scenario=$work/c.yaml
cat >"$scenario" <<YAML
constellation: {planes: 2, slots: 5, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 3, window: [1, 3]}
chunk: 6KiB
satellite: {memory: 16MiB}
links: {isl_gbps: 10, ground_mbps: 1000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 3000}
lookup: binary
udp: {base: 127.0.0.1:$port, key: sky.key, tenant: tenant.key}
YAML

# The folder of the state is removed, as with the session that it belongs to.
expect 0 "$skymem" constellation up "$scenario"
rm -r "$XDG_RUNTIME_DIR/skymem"
for verb in status down; do
    expect 1 "$skymem" constellation $verb "$scenario"
    says "10 satellites run for $scenario without a record in $XDG_RUNTIME_DIR/skymem/"
    says "\"pkill -f -- '--scenario $scenario\$'\" ends them"
done
pkill -f -- "--scenario $scenario\$"
for _ in $(seq 600); do
    "$skymem" constellation down "$scenario" >"$work/out" 2>"$work/err" && break
    sleep 0.1
done
grep -q "^0 satellites stopped" "$work/out" || fail "down: $(cat "$work/out" "$work/err")"

# A line of the record is cut short: here where a file may not grow beyond 2 KiB.
expect 0 "$skymem" constellation up "$scenario"
expect 0 "$skymem" constellation status "$scenario" --json
kill -9 $(python3 -c 'import json, sys
print(*[s["pid"] for s in json.load(open(sys.argv[1]))["list"] if s["plane"] == 2])' "$work/out")
for _ in $(seq 600); do
    expect 0 "$skymem" constellation status "$scenario" --json
    grep -q '"running": *5,' "$work/out" && break
    sleep 0.1
done
state=$(ls "$XDG_RUNTIME_DIR"/skymem/constellation-????????????????)
bytes=$(stat -c %s "$state")
printf '%*s\n' $((2048 - 8 - bytes - 1)) padding >>"$state"
(ulimit -f 2 && exec "$skymem" constellation up "$scenario") >"$work/out" 2>"$work/err" &&
    fail "up without room for the record: $(cat "$work/out")"
[ "$(stat -c %s "$state")" = 2048 ] || fail "nothing was cut short: $(cat "$work/err")"
expect 0 "$skymem" constellation up "$scenario" --json
holds 'o["started"] == 5 and o["running"] == 10'
expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 10'
expect 0 "$skymem" constellation down "$scenario" # and no other is left

# They run in /, whatever folder `up` was called in; who may not look there skips this.
mkdir "$work/folder"
(cd "$work/folder" && exec "$skymem" constellation up "$scenario") >"$work/out" 2>"$work/err" ||
    fail "up in a folder: $(cat "$work/err")"
expect 0 "$skymem" constellation status "$scenario" --json
folders=$(python3 -c 'import json, os, sys
for s in json.load(open(sys.argv[1]))["list"]:
    try:
        print(os.readlink("/proc/%d/cwd" % s["pid"]))
    except PermissionError:
        print("/")' "$work/out" | sort -u)
[ "$folders" = / ] || fail "satellites run in $folders"
expect 0 "$skymem" constellation down "$scenario"

# Too few descriptors for a pipe to each satellite: `up` says so, and again starts more.
(ulimit -n 12 && exec "$skymem" constellation up "$scenario") 3>&- >"$work/out" 2>"$work/err" &&
    fail "up with 12 descriptors: $(cat "$work/out")"
says "a pipe: Too many open files; each satellite that starts needs one: raise the hard limit"
expect 0 "$skymem" constellation up "$scenario" --json
holds '0 < o["started"] < 10 and o["running"] == 10'
expect 0 "$skymem" constellation down "$scenario"
finish
