#!/usr/bin/env bash
# Proves the pools of a skymemd: each has room of its own, evicts its own oldest entries and no
# other's, shows its own numbers, and comes and goes with SIGHUP.
. "$(dirname "$0")/common.sh"
socket=$work/d.sock
chat=(--store "shm:$socket?pool=chat")
batch=(--store "shm:$socket?pool=batch")
plain=(--store "shm:$socket")

cat >"$work/d.yaml" <<YAML
socket: $socket
store: mem:1MiB
pools:
  - pool: chat
    store: [mem:1MiB, "disk:$work/chat?max=1MiB"]
  - pool: batch
    store: mem:512KiB
YAML
expect 0 "$skymemd" --config "$work/d.yaml" --check
start_daemon --config "$work/d.yaml"
[ "$(stat -c %a "$socket")" = 700 ] || fail "the socket is open to others: $(stat -c %a "$socket")"

# each has what was put there, and nothing else
head -c 100000 /dev/urandom >"$work/value"
expect 0 "$skymem" put mine "$work/value" "${chat[@]}"
expect 0 "$skymem" put mine CMakeLists.txt "${plain[@]}"
expect 3 "$skymem" get mine "${batch[@]}" -o "$work/back"
expect 0 "$skymem" get mine "${chat[@]}" -o "$work/back"
cmp "$work/value" "$work/back" || fail "another pool's value"
expect 0 "$skymem" ls "${batch[@]}" --json
[ ! -s "$work/out" ] || fail "another pool's entries: $(cat "$work/out")"

# one that is full evicts its own oldest
for i in $(seq 8); do
    expect 0 "$skymem" put "b$i" "$work/value" "${batch[@]}"
done
expect 0 "$skymem" lookup b4 b5 b6 b7 b8 "${batch[@]}" --json
holds 'o["found"] == 5'
expect 3 "$skymem" lookup b1 b2 b3 "${batch[@]}"
expect 0 "$skymem" stat "${batch[@]}" --json
holds 'o["pool"] == "batch" and o["evictions"] == 3 and o["entries"] == 5'
holds 'o["arena_bytes_max"] == 512 << 10 and o["clients"] == 1'
expect 0 "$skymem" stat "${chat[@]}" --json
holds 'o["pool"] == "chat" and o["evictions"] == 0 and o["entries"] == 2'
expect 0 "$skymem" stat "${plain[@]}" --json
holds 'o["pool"] == "" and o["evictions"] == 0 and o["entries"] == 1'
expect 0 "$skymem" health "${chat[@]}" --json
holds '[t["tier"] for t in o["tiers"]] == ["mem", "disk"]'

# what fits into none of it is refused, and says so
head -c 600000 /dev/urandom >"$work/large"
expect 1 "$skymem" put large "$work/large" "${batch[@]}"
says "pool=batch: no room: the value is larger than the memory of that store or pool; give it"
grep -q "larger" "$work/err" || fail "no sentence: $(cat "$work/err")"

# those that there are not
expect 2 "$skymem" ls --store "shm:$socket?pool=none"
says "no such pool or tier"
expect 2 "$skymem" stat --store "shm:$socket?pool=none"
says "no such pool or tier"
for verb in ls stat; do
    expect 2 "$skymem" $verb --store "shm:$socket?pol=chat"
    says "unknown setting 'pol'; known: user pool"
done
expect 2 "$skymem" ls --store "shm:$socket?pool=a/b"
says "letters, digits"

# SIGHUP: one comes, one goes with what it had
sed -i 's/pool: batch/pool: night/' "$work/d.yaml"
kill -HUP "$daemon"
for _ in $(seq 1200); do
    "$skymem" stat --store "shm:$socket?pool=night" >"$work/out" 2>&1 && break
    sleep 0.05
done
expect 0 "$skymem" put b1 "$work/value" --store "shm:$socket?pool=night"
expect 2 "$skymem" get b8 "${batch[@]}" -o "$work/back"
expect 0 "$skymem" get mine "${chat[@]}" -o "$work/back"
kill "$daemon"
wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"

# what the configuration may not say
wrong() { # TEXT, and what is said
    printf 'pools:\n%s\n' "$1" >"$work/wrong.yaml"
    expect 2 "$skymemd" --config "$work/wrong.yaml" --check
    says "$2"
}
wrong '  - {store: mem:1MiB}' "this needs a pool"
wrong '  - {pool: a}' "a pool needs a store"
wrong '  - {pool: a, store: mem:1MiB}
  - {pool: a, store: mem:1MiB}' "wrong.yaml:3: this pool is there twice"
wrong '  - {pool: a, user: 54321, store: mem:1MiB}' "not in users"
wrong '  - {pool: "a b", store: mem:1MiB}' "letters, digits"
wrong '  a: 1' "pools is a list"
wrong '  - {pool: a, store: mem:1KiB}' "wrong.yaml:2: mem:1KiB: memory is 64KiB to 64TiB"
wrong '  - {pool: a, store: mem:9TiB}' "wrong.yaml:2: mem:9TiB: this machine has"
wrong "  - {pool: a, store: [mem:1MiB, 'disk:$work/p?max=1KiB']}" \
    "wrong.yaml:2: disk:$work/p?max=1KiB: max is at least 8KiB"
wrong "  - {pool: a, store: [mem:1MiB, 'disk:$work/p?mx=1GiB']}" "unknown setting 'mx'"
wrong "  - {pool: a, store: [mem:1MiB, 'disk:$work/p']}
  - {pool: b, store: [mem:1MiB, 'disk:$work/p/?max=1GiB']}" \
    "wrong.yaml:3: disk:$work/p/?max=1GiB: the store of line 2 is in the same folder"
ln -s "$work" "$work/here"
for same in "$work/./p" "$work/here/p" "$work//p"; do
    wrong "  - {pool: a, store: [mem:1MiB, 'disk:$work/p']}
  - {pool: b, store: [mem:1MiB, 'disk:$same']}" \
        "wrong.yaml:3: disk:$same: the store of line 2 is in the same folder"
done
[ ! -e "$work/p" ] || fail "--check made a folder"
mkdir "$work/p" && ln -s p "$work/link"
wrong "  - {pool: a, store: [mem:1MiB, 'disk:$work/p']}
  - {pool: b, store: [mem:1MiB, 'disk:$work/link']}" \
    "wrong.yaml:3: disk:$work/link: the store of line 2"
printf 'users:\n  - {user: 54321, pool: a, store: mem:1MiB}\n' >"$work/wrong.yaml"
expect 2 "$skymemd" --config "$work/wrong.yaml" --check
says "list it in pools"
printf 'users:\n  - {user: 54321, store: mem:1MiB}\npools:
  - {pool: a, user: 54321, store: mem:1MiB}\n  - {pool: a, store: mem:1MiB}\n' \
    >"$work/right.yaml"
expect 0 "$skymemd" --config "$work/right.yaml" --check
finish
