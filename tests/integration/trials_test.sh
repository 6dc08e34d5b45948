#!/usr/bin/env bash
# Proves that promises of the headers hold for those who have only the installed library: builds and
# runs each program of tests/trials against it.
. "$(dirname "$0")/installed.sh"
trials=$PWD/tests/trials
chmod 755 "$work"
export LD_LIBRARY_PATH=$prefix/lib
read -ra flags < <(pkg-config --cflags --libs skymem)
examples=$(echo "$prefix"/share/doc/*/examples)

failed=0
for source in "$trials"/*.c; do
    name=$(basename "$source" .c)
    mkdir -m 755 "$work/$name"
    cc -std=gnu17 -O1 -Wall -Wextra -Werror -Wno-unused-function -I "$examples" "$source" \
        "${flags[@]}" -pthread -o "$work/$name/run"
    if (cd "$work/$name" && timeout 600 ./run) >"$work/$name/said" 2>&1; then
        echo "$name: held"
    else
        echo "$name: did not hold (exit $?)"
        sed 's/^/    /' "$work/$name/said"
        failed=1
    fi
done

# The installed example brings a tier of its own; a second process finds what the first one stored.
cc -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE "$examples/own_tier.c" "${flags[@]}" \
    -o "$work/own_tier"
for _ in first second; do
    said=$("$work/own_tier" "$work/values" 2>&1) || failed=1
    [ "$said" = "dir:$work/values: \"a value\", 1 values" ] || { echo "own_tier: $said"; failed=1; }
    said=$("$work/own_tier" "$work/values?max=1" 2>&1) && failed=1
    [[ $said == *"this store has no settings" ]] || { echo "own_tier: $said"; failed=1; }
done

# Two processes share a block that one of them laid out, through the installed daemon.
cc -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE "$examples/share_block.c" "${flags[@]}" \
    -o "$work/share_block"
"$prefix/bin/skymemd" --socket "$work/host" --store mem:64MiB 2>"$work/daemon" &
daemon=$!
until [ -S "$work/host" ] || ! kill -0 "$daemon" 2>/dev/null; do sleep 0.05; done
said=$("$work/share_block" "shm:$work/host" 2>&1) || failed=1
kill "$daemon" && wait "$daemon"
[ "$said" = "$(printf 'layer %s: K %s, V %s\n' 0 a b 1 c d 2 e f 3 g h)" ] ||
    { echo "share_block: $said"; failed=1; }
exit "$failed"
