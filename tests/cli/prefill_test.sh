#!/usr/bin/env bash
# Proves with a real model in two processes: one prefills a prompt, another waits for its blocks and
# gives the cold answer, over a host's socket and over TCP, also if it asks first; and so it does
# when the first is killed meanwhile, stands still or is slower than computing, and when the host
# ends. With --load-only a wait does not depend on how fast this machine computes.
. "$(dirname "$0")/common.sh"
need_model
head -c 2800 docs/ARCHITECTURE.md >"$work/prompt"
# with one thread, so that the process that computes can be stopped before the end
run=("$skymem" run --model "$model" --threads 1 --predict 4 --prompt-file "$work/prompt" --json)
answer=("${run[@]}" --load-only --wait-ms 600000 --no-save)

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

# signal_when COUNT SIGNAL PROCESS: meanwhile, when that is not 0; $signaller does it
signal_when() {
    (
        until_some "$1"
        kill "-$2" "$3"
    ) &
    signaller=$!
}

# expect_gone STORE...: the answer is right, though nobody brings the rest any more
expect_gone() {
    expect 0 "${answer[@]}" "$@"
    holds "o['tokens'] == $cold and o['awaited_tokens'] < $whole and o['wait_ended'] == 'gone'"
    wait "$signaller"
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

# nobody can compute it elsewhere: no wait
expect 0 "${run[@]}" --store mem:64MiB --wait-ms 600000 --no-save
holds "o['awaited_tokens'] == 0 and o['wait_ended'] is None"
says 'not waiting'
cold=$(field tokens) prompt_tokens=$(field prompt_tokens)
whole=$(((prompt_tokens - 1) / 128 * 128))
[ "$prompt_tokens" -gt 560 ] || fail "only $prompt_tokens tokens"

# over a host's socket: it has stood still for a while when the other waits already
new_daemon shm
prefill --store "shm:$socket"
kill -STOP "$prefill"
signal_when requests_active CONT "$prefill"
expect 0 "${answer[@]}" --store "shm:$socket"
holds "o['tokens'] == $cold and o['hit_tokens'] == $whole == o['awaited_tokens']"
holds 'o["verdict"] == "hit" and 0 < o["wait_ms"] < o["ttft_ms"] and o["wait_ended"] == "whole"'
holds "o['awaited_tiers'] == {'shm': $whole // 128} and o['awaited_blocks'] == $whole // 128"
# of a model with a window a load takes less of a block than lies there
holds "o['awaited_bytes'] >= o['bytes_loaded'] > 0"
wait "$signaller"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
cp "$work/prefill.out" "$work/out"
holds "o['tokens'] == [] and o['saved_blocks'] == $prompt_tokens // 128"
[ "$(count announced)" = 0 ] || fail "something is announced still"
[ "$(count announced_stored)" = $((prompt_tokens / 128)) ] || fail "not all was pushed"
[ "$(count awaited)" = 0 ] || fail "somebody waits still"
end_daemon

# the other asks first
new_daemon first
(
    until_some awaited
    exec "${run[@]}" --prefill-only --store "shm:$socket" >"$work/prefill.out" 2>"$work/prefill.err"
) &
prefill=$!
expect 0 "${answer[@]}" --store "shm:$socket"
holds "o['tokens'] == $cold and o['hit_tokens'] == $whole == o['awaited_tokens']"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
end_daemon

# a host that ends takes the wait with it; the first goes on, and the next host knows of the rest
new_daemon ended
prefill --store "shm:$socket"
kill -STOP "$prefill"
signal_when awaited KILL "$daemon"
expect_gone --store "shm:$socket"
wait "$daemon" 2>/dev/null && fail "the daemon ended before it was killed"
new_daemon ended
kill -CONT "$prefill"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
[ "$(count announced)" = 0 ] || fail "something is announced still"
end_daemon

# killed while the other waits
new_daemon killed
prefill --store "shm:$socket"
kill -STOP "$prefill"
signal_when requests_active KILL "$prefill"
expect_gone --store "shm:$socket"
wait "$prefill" 2>/dev/null && fail "the prefill ended before it was killed"

# one that stands still is waited for no longer than computing takes, which the cold run has shown
prefill --store "shm:$socket"
kill -STOP "$prefill"
expect 0 "${run[@]}" --store "shm:$socket" --wait-ms 600000 --no-save
holds "o['tokens'] == $cold and o['awaited_tokens'] < $whole and o['wait_ended'] == 'sooner'"
says 'computing the rest is sooner'

# who is killed while it waits is not missed
"${answer[@]}" --store "shm:$socket" >"$work/gone.out" 2>&1 &
gone=$!
until_some awaited
kill -KILL "$gone"
wait "$gone" 2>/dev/null && fail "the answer ended before it was killed"
kill -CONT "$prefill"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
[ "$(count announced)" = 0 ] || fail "something is announced still"
end_daemon

# from another host, with memory before it; the first time it stands still for too long
new_daemon tcp --listen 0 --peer-plain
expect 0 "$skymem" stat --store "shm:$socket" --json
address=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["peers"]["address"])' "$work/out")
far=(--store mem:256MiB --store "skymem://$address?plain=yes")
prefill --store "shm:$socket"
kill -STOP "$prefill"
expect 0 "${run[@]}" "${far[@]}" --load-only --wait-ms 100 --no-save
holds "o['tokens'] == $cold and o['awaited_tokens'] < $whole and o['wait_ms'] >= 100"
holds 'o["wait_ended"] == "late"'
says 'nothing came for 100 ms'
signal_when requests_active CONT "$prefill"
expect 0 "${answer[@]}" "${far[@]}"
holds "o['tokens'] == $cold and o['hit_tokens'] == $whole == o['awaited_tokens']"
wait "$signaller"
wait "$prefill" || fail "exit $? of the prefill: $(cat "$work/prefill.err")"
end_daemon

# what cannot be meant
expect 2 "${run[@]}" --store mem:64MiB --prefill-only --no-save
expect 2 "${run[@]}" --store mem:64MiB --no-load --wait-ms 5
finish
