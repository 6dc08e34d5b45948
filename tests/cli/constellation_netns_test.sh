#!/usr/bin/env bash
# Proves that satellites and ground find each other over a network: they are put into two network
# namespaces, joined by a pair of interfaces. Needs the right to make them (CAP_NET_ADMIN).
. "$(dirname "$0")/common.sh"
skip() {
    echo "skipped: $1"
    exit 77
}
command -v ip >/dev/null || skip "no ip command (iproute2)"
sky=skysat$$ ground=skygnd$$
ip netns add "$sky" 2>/dev/null || skip "no right to make network namespaces (CAP_NET_ADMIN)"
clean() {
    in_sky "$skymem" constellation down "$work/sky.yaml" >/dev/null 2>&1
    ip netns del "$sky" 2>/dev/null
    ip netns del "$ground" 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
in_sky() { ip netns exec "$sky" "$@"; }
in_ground() { ip netns exec "$ground" "$@"; }
ip netns add "$ground" && ip -n "$sky" link add v0 type veth peer name v1 netns "$ground" &&
    ip -n "$sky" addr add 10.77.0.1/24 dev v0 && ip -n "$ground" addr add 10.77.0.2/24 dev v1 &&
    ip -n "$sky" link set v0 up && ip -n "$ground" link set v1 up ||
    skip "no pair of interfaces (veth) here"

export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
cat >"$work/sky.yaml" <<YAML
constellation: {planes: 3, slots: 5}
placement: {strategy: rotation-hop, servers: 9, window: [3, 3]}
satellite: {memory: 4MiB, processing_ms: 0}
links: {ground_mbps: 1000}
time: {start: 2026-01-01T00:00:00Z, rotation_s: 3}
lookup: binary
udp: {base: 10.77.0.1:7600, key: sky.key, tenant: tenant.key}
YAML
expect 0 in_sky "$skymem" constellation up "$work/sky.yaml" --json
holds 'o["running"] == 15'
head -c 1000000 /dev/urandom >"$work/blob"
expect 0 in_ground "$skymem" put k "$work/blob" --store "sky+udp:$work/sky.yaml"
sleep 3 # the sky turns
expect 0 in_ground "$skymem" get k -o "$work/got" --store "sky+udp:$work/sky.yaml"
cmp -s "$work/blob" "$work/got" || fail "other bytes came back"
# Nobody there: an answer in time all the same.
ip -n "$ground" link set v1 down
code=0
timeout 600 ip netns exec "$ground" "$skymem" get k -o "$work/got2" \
    --store "sky+udp:$work/sky.yaml" >/dev/null 2>&1 || code=$?
[ "$code" = 4 ] || fail "get without a network: exit $code"
expect 0 in_sky "$skymem" constellation down "$work/sky.yaml" --json
holds 'o["stopped"] == 15'
finish
