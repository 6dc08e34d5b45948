#!/usr/bin/env bash
# Proves real satellites: ten come up, then 95, with little memory and no idle processor time; blobs
# are put by one process and got by another while the sky turns; some are killed, which costs misses
# or the deadline and never a wrong byte or a hang; `up` revives them; only those that were started
# are ended.
. "$(dirname "$0")/common.sh"
have_satellites
scenario=$work/sky.yaml

# sky FILE PLANES SLOTS PORT
sky() {
    cat >"$1" <<YAML
constellation: {planes: $2, slots: $3, altitude_km: 550, earth_radius_km: 6371}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3]}
chunk: 6KiB
satellite: {memory: 16MiB, processing_ms: 0.02}
links: {isl_gbps: 10, ground_mbps: 1000, loss: 0.005, jitter_ms: 0.1}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 5}
lookup: binary
udp: {base: 127.0.0.1:$4, key: sky.key, tenant: tenant.key}
YAML
}
port=$(tools/free-ports 110)
sky "$work/small.yaml" 2 5 $((port + 95)) # one after the other: the ports are shared
sed -i 's/servers: 9, window: \[3, 3\]/servers: 3, window: [1, 3]/' "$work/small.yaml"
sky "$scenario" 5 19 "$port"

expect 0 "$skymem" constellation up "$work/small.yaml" --json
holds 'o["satellites"] == 10 and o["started"] == 10 and o["running"] == 10'
[ "$(stat -c %a "$work/sky.key" "$work/tenant.key" | tr '\n' ' ')" = "600 600 " ] ||
    fail "keys are open"
expect 0 "$skymem" put one CMakeLists.txt --store "sky+udp:$work/small.yaml"
expect 0 "$skymem" get one -o "$work/one" --store "sky+udp:$work/small.yaml"
cmp -s CMakeLists.txt "$work/one" || fail "another process read other bytes"

# Every verb knows what get returns, or says that it does not.
small=sky+udp:$work/small.yaml
expect 0 "$skymem" stat one --store "$small" --json
holds "o['key'] == 'one' and o['tier'] == 'sky+udp' and o['bytes'] == $(stat -c %s CMakeLists.txt)"
holds 'o["chunks"] == o["live"] >= 1 and o["rotations"] >= 0'
expect 0 "$skymem" pin one --store "$small"
expect 0 "$skymem" stat one --store "$small" --json
holds 'o["pinned"] is None'
expect 0 "$skymem" stat one --store "$small"
grep -q "not known" "$work/out" || fail "stat of another process's pin: $(cat "$work/out")"
expect 0 "$skymem" unpin one --store "$small"
expect 3 "$skymem" stat two --store "$small"
says "two: not found in any tier"
expect 0 "$skymem" stat one --store "$small"
grep -Eq "^sky\+udp: ([0-9]+) of \1 chunks? live, [0-9]+ rotations? since" "$work/out" ||
    fail "stat does not tell of chunks: $(cat "$work/out")"
expect 0 "$skymem" locate one --store "$small" --json
holds 'o["chunks"] == o["live"] == len(o["places"]) and o["silent"] == 0 and o["tier"] == "sky+udp"'
holds 'all(p["live"] and 1 <= p["plane"] <= 2 and 1 <= p["slot"] <= 5 for p in o["places"])'
holds "o['bytes'] == $(stat -c %s CMakeLists.txt) and o['chunks'] == -(-o['bytes'] // 6144)"
expect 0 "$skymem" locate one --store "$small"
grep -q "^PLANE  *SLOT" <(sed 's/^ *//' "$work/out") || fail "locate for people: $(cat "$work/out")"
expect 0 "$skymem" verify one --store "$small"
grep -Eq "^sky\+udp: sound, .*; ([0-9]+) of \1 chunks? live" "$work/out" ||
    fail "verify does not tell of chunks: $(cat "$work/out")"
expect 3 "$skymem" locate two --store "$small"
says "two: not found in any tier"
for verb in "clear --yes" "prune --older-than 0s"; do
    # shellcheck disable=SC2086
    expect 1 "$skymem" $verb --store "$small"
    says "satellites cannot be listed"
done
expect 0 "$skymem" pin one --store "$small"
expect 0 "$skymem" unpin one --store "$small"
for verb in ls verify; do
    expect 0 "$skymem" "$verb" --store "$small"
    says "satellites cannot be listed"
done
expect 0 "$skymem" stat --store "$small" --json
holds '"migrated" not in o["tiers"][0]["note"]'

# What satellites refuse is counted, and one says once that datagrams of another version came.
python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(20):
    s.sendto(b"SKMP" + bytes(96), ("127.0.0.1", int(sys.argv[1])))' $((port + 95))
expect 0 "$skymem" constellation status "$work/small.yaml" --json
holds 'o["refused_datagrams"] >= 20 and o["list"][0]["foreign"] == 20'
holds 'o["list"][0]["malformed"] == 0'
expect 0 "$skymem" stat --satellites --store "$small" --json
holds 'o["satellites"][0]["foreign"] == 20'
[ "$(cat "$XDG_RUNTIME_DIR"/skymem/*.log | grep -c 'another version than')" = 1 ] ||
    fail "the log of satellites: $(cat "$XDG_RUNTIME_DIR"/skymem/*.log)"
expect 0 env SKYMEM_LOG=info "$skymem" get one --store "$small" -o "$work/one"
grep -Eq 'sends by (aes|chacha), takes both' "$work/err" || fail "no cipher: $(cat "$work/err")"
# A ground that takes another cipher than they send by says so.
other=aes
! grep -q 'sends by aes' "$work/err" || other=chacha
sed "s/key: sky.key/key: sky.key, cipher: $other/" "$work/small.yaml" >"$work/other.yaml"
expect 4 "$skymem" get one --store "sky+udp:$work/other.yaml" -o "$work/one"
grep -q "datagrams came and were refused: of another cipher than udp.cipher allows here" \
    "$work/err" || fail "another cipher: $(cat "$work/err")"
expect 0 "$skymem" constellation down "$work/small.yaml" --json
holds 'o["stopped"] == 10 and o["killed"] == 0'

# Why one does not start stands in the message: here its port is taken.
python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", int(sys.argv[1])))
print("bound", flush=True)
time.sleep(60)' $((port + 97)) >"$work/bound" &
holder=$!
for _ in $(seq 100); do [ -s "$work/bound" ] || sleep 0.1; done
expect 1 "$skymem" constellation up "$work/small.yaml"
grep -q ", saying \".*127.0.0.1:$((port + 97)): in use.*\"; see .*log" "$work/err" ||
    fail "a port that is taken: $(cat "$work/err")"
kill "$holder"
expect 0 "$skymem" constellation down "$work/small.yaml"

# … more than the usual number of descriptors, were they fewer
(ulimit -Sn 60 && exec "$skymem" constellation up "$scenario" --json) >"$work/out" 2>"$work/err" ||
    fail "up: $(cat "$work/err")"
holds 'o["running"] == 95'
[[ $(ldd "$skymem") =~ lib[at]san ]] || # their shadows count too
    holds 'o["memory_bytes"] < 95 * 4 * 2**20'
expect 0 "$skymem" constellation up "$scenario" --json
holds 'o["started"] == 0 and o["running"] == 95'
for i in 1 2 3 4 5 6; do
    head -c $((200000 * i)) /dev/urandom >"$work/blob$i"
    expect 0 "$skymem" put "blob$i" "$work/blob$i" --store "sky+udp:$scenario"
done
sleep 5 # the sky turns at least once
for i in 1 2 3 4 5 6; do
    expect 0 "$skymem" get "blob$i" -o "$work/got" --store "sky+udp:$scenario"
    cmp -s "$work/blob$i" "$work/got" || fail "blob$i came back as something else"
done
expect 0 "$skymem" stat --satellites --store "sky+udp:$scenario" --json
holds 'len(o["satellites"]) == 95 and all(s["answered"] for s in o["satellites"])'
holds 'sum(s["chunks"] for s in o["satellites"]) >= 693'
expect 0 "$skymem" constellation status "$scenario" --json
holds 'o["answered"] == 95 and o["chunks"] >= 693 and o["migrated"] > 0 and o["cpu_s"] < 20'

# One in four dies at once.
victims=$(python3 -c 'import json, sys
print(*[s["pid"] for s in json.load(open(sys.argv[1]))["list"]
        if s["slot"] % 4 == 0 and s["running"]])' "$work/out")
kill -9 $victims
for i in 1 2 3 4 5 6; do
    code=0
    timeout 600 "$skymem" get "blob$i" -o "$work/got" --store "sky+udp:$scenario" \
        >/dev/null 2>"$work/err" || code=$?
    case $code in
    0) cmp -s "$work/blob$i" "$work/got" || fail "blob$i: wrong bytes after kills" ;;
    3 | 4) ;;
    *) fail "get after kills: exit $code: $(cat "$work/err")" ;;
    esac
done
expect 0 "$skymem" constellation status "$scenario" --json
holds 'o["running"] < 95 and o["answered"] == o["running"]'
expect 0 "$skymem" stat --satellites --store "sky+udp:$scenario" --json
holds '0 < sum(s["answered"] for s in o["satellites"]) < 95 and len(o["satellites"]) == 95'
expect 0 "$skymem" constellation up "$scenario" --json
holds 'o["running"] == 95 and o["started"] > 0'
patient 0 "$skymem" put again "$work/blob1" --store "sky+udp:$scenario"
patient 0 "$skymem" get again -o "$work/got" --store "sky+udp:$scenario"
cmp -s "$work/blob1" "$work/got" || fail "after the revival: wrong bytes"

# What is put on the dead fails as what is got from them does, and says who they are; how soon,
# session_silence_test counts in virtual time.
expect 0 "$skymem" constellation status "$scenario" --json
kill -9 $(python3 -c 'import json, sys
print(*[s["pid"] for s in json.load(open(sys.argv[1]))["list"]
        if s["plane"] == 3 and s["running"]])' "$work/out")
named=' (satellites do not answer, such as 3,[0-9]+|satellite 3,[0-9]+ does not answer);'
for verb in "4 get again -o $work/got" "1 put late $work/blob1"; do
    for _ in 1 2 3 4 5; do # on a busy machine the living may be late, and named instead
        expect "${verb%% *}" timeout 600 "$skymem" ${verb#* } --store "sky+udp:$scenario"
        ! grep -qE "$named" "$work/err" || break
    done
    says "'skymem constellation up $scenario' starts the 19 that died"
    grep -qE "$named" "$work/err" || fail "not who is silent: $(cat "$work/err")"
done
expect 0 "$skymem" constellation up "$scenario" --json
patient 0 "$skymem" put again "$work/blob1" --store "sky+udp:$scenario"

# To another tenant the key is one that nobody used; a key open to others is refused.
cp "$work/tenant.key" "$work/ours"
python3 -c 'import secrets; print(secrets.token_hex(32))' >"$work/tenant.key"
patient 3 timeout 600 "$skymem" get never -o "$work/got2" --store "sky+udp:$scenario"
sed s/never/again/g "$work/err" >"$work/unused"
patient 3 timeout 600 "$skymem" get again -o "$work/got2" --store "sky+udp:$scenario"
cmp -s "$work/err" "$work/unused" || fail "another tenant's key and an unused one differ"
[ ! -e "$work/got2" ] || fail "another tenant read it"
cp "$work/ours" "$work/tenant.key"
chmod 644 "$work/sky.key"
expect 1 "$skymem" get again -o "$work/got" --store "sky+udp:$scenario"
says "chmod 600"
expect 1 "$skymemd" --satellite 1,1 --scenario "$scenario"
says "chmod 600"
chmod 600 "$work/sky.key"
expect 1 "$skymemd" --satellite 1,1 --scenario "$scenario"
says "in use"

expect 0 "$skymem" constellation down "$scenario" --json
holds 'o["stopped"] == 95'
# Of two tiers the one that failed is named, and what to do.
expect 4 "$skymem" get nosuch --store "disk:$work/disk?create=yes" --store "sky+udp:$scenario"
says "nosuch: sky+udp:$scenario: "
expect 1 "$skymem" constellation status "$scenario" --json
holds 'o["running"] == 0'
says "no satellite of $scenario runs here; 'skymem constellation up $scenario' starts them"
expect 2 "$skymem" constellation sideways "$scenario"
expect 2 "$skymem" constellation up scenarios/seed.yaml
says "udp"
expect 2 "$skymemd" --satellite 6,1 --scenario "$scenario"
expect 2 "$skymemd" --satellite 1 --scenario "$scenario"
expect 2 "$skymemd" --satellite 1,1
expect 2 "$skymemd" --scenario "$scenario"
finish
