#!/usr/bin/env bash
# Proves that tools/tidy passes a clean tree and fails on a single breach of each of its rules.
set -euo pipefail
tidy=$PWD/tools/tidy
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# A small clean tree: modules, a public header, programs.
plant() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/{src/base,src/io,src/node,include/skymem,cmd/cli,cmd/skymem,lab/node}
    cd "$tree"
    printf 'sky_module(base LINK m)\nsky_module(io NEEDS base)\nsky_module(node NEEDS base)\n'\
'sky_module(index NEEDS base)\nsky_module(lab/node NEEDS node)\n' >CMakeLists.txt
    printf '/* A clock. */\nlong sky_tick(void);\n' >src/base/tick.h
    printf '#include "base/tick.h"\n\nlong sky_tick(void) {\n    return 1;\n}\n' >src/base/tick.c
    printf '/* Proves that it ticks. */\nint main(void) {\n    return 0;\n}\n' >src/base/tick_test.c
    printf '/* Reads. */\n#include "base/tick.h"\n' >src/io/file.h
    printf '/* A node. */\n#include "base/tick.h"\n' >src/node/node.h
    printf '/* The interface. */\n\n/* Now. Units: ns */\nSKY_API long sky_now(void);\n' \
        >include/skymem/time.h
    printf '/* What programs share. */\n' >cmd/cli/cli.h
    printf '/* The program. */\n#include "cli.h"\n#include <skymem/time.h>\n' >cmd/skymem/main.c
    printf '/* Trials. */\n#include "node/node.h"\n' >lab/node/trial.h
    printf '/* The laboratory. */\n#include "cli.h"\n#include "lab/node/trial.h"\n%s\n' \
        '#include <pthread.h>' >lab/main.c
}

# breach RULE FILE: a clean tree with stdin appended to FILE must fail with exactly that one rule.
breach() {
    plant
    mkdir -p "$(dirname "$2")"
    cat >>"$2"
    local said
    if said=$("$tidy" "$tree" 2>/dev/null); then
        echo "not found: $1 in $2"
        failed=1
    elif [ "$(cut -d: -f1,3 <<<"$said" | sort -u)" != "$2: $1" ]; then
        printf 'wrong answer to %s in %s:\n%s\n' "$1" "$2" "$said"
        failed=1
    fi
}

lines() { # lines N TEXT: the text N times
    local i
    for ((i = 0; i < $1; i++)); do echo "$2"; done
}

plant
"$tidy" "$tree" || { echo "a clean tree does not pass"; exit 1; }

printf '/* %0100d */\n' 0 | breach columns src/base/tick.c
printf 'static int tick_a(void) {\n\treturn 1;\n}\n' | breach tab src/base/tick.c
printf '/* TO''DO: later */\n' | breach unfinished src/base/tick.c
printf '<<<<<<''< HEAD\n' | breach conflict README.md
printf 'See /ro''ot/notes.\n' | breach 'machine path' README.md
printf '. "%s/common.sh"\nexpect 0 true\n' tests | breach finish tests/cli/a_test.sh
printf '. "%s/common.sh"\nfinish\nexpect 0 true\nfinish\n' tests | breach finish tests/cli/a_test.sh
lines 800 'extern int sky_tick_count;' | breach 'file length' src/base/tick.c
{ echo 'int a(void) {'; lines 69 '    sky_tick();'; echo '}'; } |
    breach 'function length' src/base/tick.c
printf 'void a(void) {\n    sky_event_clear(1);\n}\n' | breach system src/base/tick.c
printf '/* Ranks. */\nstatic inline int rank(void) {\n    return 1;\n}\n' |
    breach 'bare name' src/index/rank.h
printf 'int tick_a(void) {\n    goto done;\ndone:\n    return 0;\n}\n' | breach goto src/base/tick.c
echo '#include "node/node.h"' | breach dependency src/io/file.h
echo '#include "base/tick.h"' | breach dependency cmd/skymem/main.c
echo '#include <base/tick.h>' | breach dependency cmd/skymem/main.c
echo '#include "lab/node/trial.h"' | breach dependency cmd/skymem/main.c
printf '/* The daemon. */\n#include "cli.h"\n' | breach dependency cmd/skymemd/main.c
echo '#include "lab/node/trial.h"' | breach dependency src/io/file.h
echo '#include "base/tick.h"' | breach dependency lab/node/trial.h
echo '#include <pthread.h>' | breach system lab/node/trial.h
printf '/* Untested. */\n' | breach 'test beside code' lab/node/lonely.c
echo 'sky_module(wire NEEDS sim base)' | breach dependency CMakeLists.txt
printf '/* A new one. */\n' | breach dependency src/extra/new.h
echo '#include <pthread.h>' | breach system src/node/node.h
printf 'static long tick_a(void) {\n    return time(0);\n}\n' | breach system src/base/tick.c
printf 'static int tick_a(void) {\n    return rand();\n}\n' | breach system src/base/tick.c
printf 'static int tick_a(void) {\n    return socket(1, 1, 0);\n}\n' | breach system src/base/tick.c
printf 'static int tick_a(void) {\n    int fd = open("x", 0);\n    return fd;\n}\n' |
    breach system src/base/tick.c
printf 'int a;\n' | breach opening src/node/bare.h
printf '\nSKY_API int sky_bare(void);\n' | breach public include/skymem/time.h
printf '\ntypedef struct {\n    int a;\n} sky_bare;\n' | breach public include/skymem/time.h
printf '/* Untested. */\n' | breach 'test beside code' src/base/lonely.c
printf '/* Proves nothing. */\n' | breach 'test beside code' src/base/ghost_test.c
printf '#include "tick.h"\n' | breach 'include cycle' src/base/tick.h

# The median is a rule on the whole tree: three functions of 16 lines tip it.
plant
for name in a b c; do
    echo "int $name(void) {"
    lines 14 '    sky_tick();'
    echo '}'
done >>src/base/tick.c
if said=$("$tidy" "$tree" 2>/dev/null) || [[ $said != .:1:\ median* ]]; then
    echo "not found: median function"
    failed=1
fi

# What looks like a breach and is none.
plant
cat >>src/base/tick.c <<'C'
/* time(NULL), rand() and goto are only words here: "open(" too. */
static const char *text = "socket(1)";
static long read_tick(const struct ops *ops) {
    return ops->read(text) + sky_time(ops) + read_tick(ops);
}
C
"$tidy" "$tree" || { echo "tidy sees a breach where there is none"; failed=1; }

exit $failed
