/* The satellites this user started for a scenario, remembered in a file of $XDG_RUNTIME_DIR.
 *
 *   skymem/constellation-<hash of the scenario's path>    one line each: pid start plane slot
 *
 * A pid alone may be another's by now: a process counts as ours only while the kernel says it
 * started when we started it. */
#ifndef SKYMEM_CONSTELLATION_H
#define SKYMEM_CONSTELLATION_H

#include "cli.h"

#include <sys/types.h>

typedef struct {
    pid_t pid;                /* 0: not started */
    unsigned long long start; /* as the kernel counts */
    bool running;
    uint64_t memory_bytes; /* its share of what is shared included */
    double cpu_s;
    int ready; /* end of a pipe until it has said so; -1 */
} constellation_process;

typedef struct {
    char scenario[4096]; /* absolute */
    char state_path[4400];
    char log_path[4410];
    int lock;
    sky_satellite_site site;
    constellation_process *processes; /* [site.satellite_count] */
} constellation;

/* Read the scenario and what was started; holds the lock until close. Says why when it cannot. */
int constellation_open(const cli *c, const char *scenario, constellation *out);
void constellation_close(constellation *x);
/* Write down what runs; removes the file when nothing does. */
int constellation_save(const cli *c, const constellation *x);
/* Bring running, memory and time up to date. */
void constellation_look(constellation *x);
/* Start one; x->processes[number].ready then tells when it listens. */
int constellation_start(const cli *c, constellation *x, uint32_t number);
/* `, saying "LINE"`: the last of the log, why one ended; empty when there is none. */
#define CONSTELLATION_WORDS_BYTES 512
const char *constellation_last_words(const constellation *x, char out[CONSTELLATION_WORDS_BYTES]);
sky_satellite constellation_satellite(const constellation *x, uint32_t number);
uint32_t constellation_running(const constellation *x);

#endif
