#!/usr/bin/env bash
# Proves with a real model in two processes: one prefills a prompt, another waits for its blocks and
# gives the cold answer, over a host's socket and over TCP; and so it does when the first is killed
# meanwhile, or stands still.
. "$(dirname "$0")/common.sh"
need_model
head -c 5000 docs/ARCHITECTURE.md >"$work/prompt"
run=("$skymem" run --model "$model" --predict 4 --prompt-file "$work/prompt" --json)

# field NAME: of the last answer
field() {
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/out" "$1"
}

# count NAME: what the cache of the daemon at $socket counts
count() {
    "$skymem" stat --store "shm:$socket" --json |
        python3 -c 'import json,sys; print(json.load(sys.stdin)["cache"][sys.argv[1]])' "$1"
}

# until_some NAME: until that is not 0
until_some() {
    for _ in $(seq 1200); do
        [ "$(count "$1")" = 0 ] || return 0
        sleep 0.05
    done
    fail "no $1: $(cat "$work/prefill.err")"
}

# prefill STORE...: a process that computes the prompt begins; $prefill is it
prefill() {
    "${run[@]}" --prefill-only "$@" >"$work/prefill.out" 2>"$work/prefill.err" &
    prefill=$!
    until_some announced
}

# new_daemon NAME ARGUMENT...: with nothing in it
new_daemon() {
    socket=$work/$1.sock
    start_daemon --socket "$socket" --store mem:256MiB "${@:2}"
}

end_daemon() {
    kill -TERM "$daemon"
    wait "$daemon" || fail "exit $? on SIGTERM: $(cat "$work/log")"
}

expect 0 "${run[@]}" --store mem:64MiB
cold=$(field tokens) prompt_tokens=$(field prompt_tokens)
whole=$(((prompt_tokens - 1) / 128 * 128))
[ "$prompt_tokens" -gt 1100 ] || fail "only $prompt_tokens tokens"

# over a host's socket: it has stood still for a while when the other waits already
new_daemon shm
prefill --store "shm:$socket"
kill -STOP "$prefill"
(
    until_some requests_active
    kill -CONT "$prefill"
) &
waker=$!
expect 0 "${run[@]}" --store "shm:$socket" --wait-ms 600000 --no-save
holds "o['tokens'] == $cold and o['hit_tokens'] == $whole == o['awaited_tokens']"
holds 'o["verdict"] == "hit" and 0 < o["wait_ms"] < o["ttft_ms"]'
wait "$waker"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
cp "$work/prefill.out" "$work/out"
holds "o['tokens'] == [] and o['saved_blocks'] == $prompt_tokens // 128"
[ "$(count announced)" = 0 ] || fail "something is announced still"
end_daemon

# killed while the other waits
new_daemon killed
prefill --store "shm:$socket"
kill -STOP "$prefill"
(
    until_some requests_active
    kill -KILL "$prefill"
) &
killer=$!
expect 0 "${run[@]}" --store "shm:$socket" --wait-ms 600000 --no-save
holds "o['tokens'] == $cold and o['awaited_tokens'] < $whole and o['wait_ms'] < 500000"
wait "$killer"
wait "$prefill" 2>/dev/null && fail "the prefill ended before it was killed"
end_daemon

# from another host, with memory before it; the first time it stands still for too long
new_daemon tcp --listen 0 --peer-plain
expect 0 "$skymem" stat --store "shm:$socket" --json
address=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["peers"]["address"])' "$work/out")
far=(--store mem:256MiB --store "skymem://$address?plain=yes")
prefill --store "shm:$socket"
kill -STOP "$prefill"
expect 0 "${run[@]}" "${far[@]}" --wait-ms 100 --no-save
holds "o['tokens'] == $cold and o['awaited_tokens'] < $whole and o['wait_ms'] >= 100"
says 'nothing came for 100 ms'
(
    until_some requests_active
    kill -CONT "$prefill"
) &
waker=$!
expect 0 "${run[@]}" "${far[@]}" --wait-ms 600000 --no-save
holds "o['tokens'] == $cold and o['hit_tokens'] == $whole == o['awaited_tokens']"
wait "$waker"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
end_daemon

# nobody computes it: no wait; and what cannot be meant
expect 0 "${run[@]}" --store mem:64MiB --wait-ms 600000 --no-save
holds "o['tokens'] == $cold and o['awaited_tokens'] == 0 and o['wait_ms'] < 300000"
expect 2 "${run[@]}" --store mem:64MiB --prefill-only --no-save
expect 2 "${run[@]}" --store mem:64MiB --no-load --wait-ms 5
finish
