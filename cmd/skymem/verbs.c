/* The table of verbs: add a file verb_NAME.c and a line here. Those without `run` are rows of
 * cmd/cli. */
#include "verbs.h"

#define VERBS(X)                                                                                   \
    X(demo)                                                                                        \
    X(run)                                                                                         \
    X(put)                                                                                         \
    X(get)                                                                                         \
    X(ls)                                                                                          \
    X(stat)                                                                                        \
    X(lookup)                                                                                      \
    X(health)                                                                                      \
    X(rm)                                                                                          \
    X(pin)                                                                                         \
    X(unpin)                                                                                       \
    X(prefetch)                                                                                    \
    X(move)                                                                                        \
    X(verify)                                                                                      \
    X(du)                                                                                          \
    X(prune)                                                                                       \
    X(clear)                                                                                       \
    X(keys)                                                                                        \
    X(locate)                                                                                      \
    X(orbit)                                                                                       \
    X(sim)                                                                                         \
    X(constellation)                                                                               \
    X(workload)                                                                                    \
    X(plan)                                                                                        \
    X(model)                                                                                       \
    X(codec)                                                                                       \
    X(calibrate)                                                                                   \
    X(eval)                                                                                        \
    X(bench)                                                                                       \
    X(completion)                                                                                  \
    X(config)                                                                                      \
    X(help)

#define DECLARE(name) extern const cli_verb cli_verb_##name;
VERBS(DECLARE)

#define POINT(name) &cli_verb_##name,
const cli_verb *const cli_verbs[] = {VERBS(POINT) NULL};
