/* The satellites this user started for a scenario, remembered in a file of $XDG_RUNTIME_DIR, or of
 * /tmp/skymem-UID where that is not set.
 *
 *   skymem/constellation-<hash of the scenario's path>        locked while somebody changes it
 *     of <path>                                       the scenario, absolute
 *     from <digest of the file> <of its key file>     as they were when the first was started
 *     <pid> <start> <plane> <slot>                    one line each, an empty one before it
 *   skymem/constellation-<hash>.log                           what they said last
 *
 * Surprises: a satellite writes its line itself, before it becomes one, so that whatever ends the
 * one who starts them, at whatever moment, each that runs has its line. And a pid alone may be
 * another's by now: a process counts as ours only while the kernel says it started when we started
 * it, and runs the satellite of the line. Any other line is ignored. Lines of those that ended stay
 * until none runs; then the file goes. */
#ifndef SKYMEM_CONSTELLATION_H
#define SKYMEM_CONSTELLATION_H

#include "cli.h"

#include <sys/types.h>

typedef struct {
    sky_satellite satellite;
    pid_t pid;
    unsigned long long start; /* as the kernel counts */
    bool running;
    bool fresh;            /* started by this call */
    int ready;             /* end of a pipe until it has said so; -1 */
    uint64_t memory_bytes; /* its share of what is shared included */
    double cpu_s;
} constellation_process;

/* What satellites are started from. */
typedef struct {
    sky_key file;
    sky_key secret; /* of the constellation's key file */
} constellation_source;

typedef struct {
    char scenario[4096]; /* absolute */
    bool gone;           /* there is no such file */
    char state_path[4400];
    char log_path[4410];
    int state;     /* the open file, locked; -1: there is none, or it is only looked at */
    long log_from; /* where in the log this call begins */
    constellation_source source;
    sky_satellite_site site;          /* of the file as it is now, after constellation_site */
    constellation_process *processes; /* those that run, and those that were started */
    size_t process_count, process_max;
} constellation;

/* constellation_state.c: what is remembered. */

/* Find what was started for a scenario, whatever its file says now, or if it is gone; `make`: it
 * must be there, and something is to be started. Holds the lock until close, which removes the file
 * when nothing runs. Says why when it cannot. */
int constellation_open(const cli *c, const char *scenario, bool make, constellation *out);
void constellation_close(constellation *x);
/* Only look, without waiting for anybody; false: nothing is known. */
bool constellation_peek(const char *scenario, constellation *out);
/* Read the scenario as it is now. */
int constellation_site(const cli *c, constellation *x);
/* Remember from what those are made that are started from now on; nothing may run. */
int constellation_begin(const cli *c, constellation *x);
/* Room for one more; NULL: out of memory. */
constellation_process *constellation_add(constellation *x);
/* Were those that run started from the files as they are now? NULL: yes; else the one that has
 * changed since. After constellation_site. */
const char *constellation_changed(const constellation *x);
/* Name the scenarios of this user that satellites run for, on stderr. */
void constellation_note_others(const cli *c, const constellation *x);

/* constellation.c: processes. */

/* Whether processes can be looked at: else, without /proc or another descriptor, all seem dead. */
bool constellation_can_look(void);
/* Bring running and time up to date; memory, which takes the kernel longer to count. */
void constellation_look(constellation *x);
void constellation_measure(constellation *x);
/* Whether the command line of the process is that of its satellite. Only after its exec: until then
 * it has that of `up`, and the lock. */
bool constellation_is_satellite(const constellation *x, const constellation_process *p);
uint32_t constellation_running(const constellation *x);
/* Processes that are satellites of the scenario, whether or not they are remembered, as after the
 * folder of the state was removed; `one` is the last of them. */
uint32_t constellation_count_all(const constellation *x, pid_t *one);
/* The process of a satellite; NULL: it does not run. */
constellation_process *constellation_find(const constellation *x, sky_satellite satellite);
/* Start one; its `ready` then tells when it listens. */
int constellation_start(const cli *c, constellation *x, sky_satellite satellite);
/* End all, or what this call started; returns how many did not go by themselves. */
uint32_t constellation_end(constellation *x, bool fresh_only);
/* `, saying "WORDS"`: the last of a satellite since this call began; empty when it said nothing. */
#define CONSTELLATION_WORDS_BYTES 512
const char *constellation_last_words(const constellation *x, sky_satellite satellite,
                                     char out[CONSTELLATION_WORDS_BYTES]);
/* Satellite i of the scenario, plane by plane. */
sky_satellite constellation_satellite(const constellation *x, uint32_t number);

/* Why real satellites of a scenario may be silent and what to do, as far as can be told from
 * here. */
void constellation_silence_advice(const char *scenario, const sky_sky_report *report, char *out,
                                  size_t out_bytes);

/* Satellites of a scenario run here that were started before its file, or their key, was changed:
 * what to say then. */
bool constellation_edited(const char *scenario, char *out, size_t out_bytes);

#endif
