#include "constellation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STOP_NS SKY_SECONDS(5)

sky_satellite constellation_satellite(const constellation *x, uint32_t number) {
    return (sky_satellite){number / x->site.slots + 1, number % x->site.slots + 1};
}

uint32_t constellation_running(const constellation *x) {
    uint32_t running = 0;
    for (size_t i = 0; i < x->process_count; i++)
        running += x->processes[i].running;
    return running;
}

constellation_process *constellation_find(const constellation *x, sky_satellite satellite) {
    for (size_t i = 0; i < x->process_count; i++) {
        constellation_process *p = &x->processes[i];
        if (p->running && p->satellite.plane == satellite.plane &&
            p->satellite.slot == satellite.slot)
            return p;
    }
    return NULL;
}

/* ---- looking ---- */

/* When a process started and the processor time it took, in ticks; false: there is none, or it is
 * dead and only waits to be collected. */
static bool process_stat(pid_t pid, unsigned long long *start, unsigned long *ticks) {
    char path[64], text[1024], state;
    unsigned long user, system;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    size_t bytes = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[bytes] = 0;
    const char *after = strrchr(text, ')'); /* a name may hold anything */
    if (!after ||
        sscanf(after + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu",
               &state, &user, &system, start) != 4)
        return false;
    *ticks = user + system;
    return state != 'Z' && state != 'X';
}

bool constellation_can_look(void) {
    unsigned long long start;
    unsigned long ticks;
    return process_stat(getpid(), &start, &ticks);
}

/* Its own pages, of a process that lets nobody but root look closer. */
static uint64_t private_memory(pid_t pid) {
    char path[64];
    unsigned long long resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "re");
    bool told = f && fscanf(f, "%*u %llu %llu", &resident, &shared) == 2 && shared <= resident;
    if (f)
        fclose(f);
    return told ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t process_memory(pid_t pid) {
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib > 0 ? kib << 10 : private_memory(pid);
}

static void look_at(constellation_process *p) {
    unsigned long long start;
    unsigned long ticks;
    p->running = p->pid > 0 && process_stat(p->pid, &start, &ticks) && start == p->start;
    p->cpu_s = p->running ? (double)ticks / (double)sysconf(_SC_CLK_TCK) : 0;
}

void constellation_look(constellation *x) {
    for (size_t i = 0; i < x->process_count; i++)
        look_at(&x->processes[i]);
}

void constellation_measure(constellation *x) {
    for (size_t i = 0; i < x->process_count; i++)
        if (x->processes[i].running)
            x->processes[i].memory_bytes = process_memory(x->processes[i].pid);
}

/* The command line of a process, its words ended by zeros; how many bytes. */
static size_t read_command(const char *pid, char out[2 * PATH_MAX]) {
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    FILE *f = fopen(path, "re");
    size_t bytes = f ? fread(out, 1, 2 * PATH_MAX, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

/* Whether its last words are these; `end` has its last zero. */
static bool ends_with(const char *text, size_t bytes, const char *end, size_t end_bytes) {
    return bytes >= end_bytes && memcmp(text + bytes - end_bytes, end, end_bytes) == 0;
}

bool constellation_is_satellite(const constellation *x, const constellation_process *p) {
    char pid[16], text[2 * PATH_MAX], wanted[PATH_MAX + 64];
    snprintf(pid, sizeof pid, "%d", (int)p->pid);
    size_t length = (size_t)snprintf(wanted, sizeof wanted, "--satellite%c%u,%u%c--scenario%c%s", 0,
                                     p->satellite.plane, p->satellite.slot, 0, 0, x->scenario) +
                    1;
    return ends_with(text, read_command(pid, text), wanted, length);
}

uint32_t constellation_count_all(const constellation *x, pid_t *one) {
    static const char option[] = "\0--satellite";
    char text[2 * PATH_MAX], wanted[PATH_MAX + 64];
    size_t length = (size_t)snprintf(wanted, sizeof wanted, "%c--scenario%c%s", 0, 0, x->scenario) +
                    1;
    uint32_t count = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        size_t bytes = atoi(e->d_name) > 0 ? read_command(e->d_name, text) : 0;
        if (!ends_with(text, bytes, wanted, length) || !memmem(text, bytes, option, sizeof option))
            continue;
        *one = atoi(e->d_name);
        count++;
    }
    if (d)
        closedir(d);
    return count;
}

/* ---- starting ---- */

/* skymemd stands beside skymem. */
static bool daemon_path(char *out, size_t bytes) {
    ssize_t length = readlink("/proc/self/exe", out, bytes - 2);
    if (length <= 0)
        return false;
    out[length] = 0;
    strcat(out, "d");
    return access(out, X_OK) == 0;
}

/* In the child: it outlives the terminal, is remembered before it is anything, and keeps no folder
 * of the caller busy. What else is open goes with exec: the lock, so that nobody reads the file
 * before the line is there, and what the caller of `up` had open, which nobody would get rid of
 * before `down`. */
static _Noreturn void become_satellite(const constellation *x, sky_satellite s, char *const argv[],
                                       int output) {
    sigset_t none;
    unsigned long long start = 0;
    unsigned long ticks;
    char line[96];
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(x->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    bool told = process_stat(getpid(), &start, &ticks) && chdir("/") == 0;
    /* the line before may lack its end, where the disk was full */
    int length = snprintf(line, sizeof line, "\n%d %llu %u %u\n", (int)getpid(), start, s.plane,
                          s.slot);
    if (nothing < 0 || log < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(log, 2) < 0)
        _exit(127);
    (void)close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    if (told && write(x->state, line, (size_t)length) == length)
        execv(argv[0], argv);
    dprintf(2, "skymemd: %u,%u: %s\n", s.plane, s.slot, strerror(errno));
    _exit(127);
}

int constellation_start(const cli *c, constellation *x, sky_satellite s) {
    char program[PATH_MAX], which[32];
    int ends[2];
    if (!daemon_path(program, sizeof program))
        return cli_failed(c, "skymemd is not beside skymem: install both in one folder");
    constellation_process *p = constellation_add(x);
    if (!p || pipe2(ends, O_CLOEXEC) != 0)
        return cli_failed(c, "a pipe: %s%s", strerror(errno),
                          errno == EMFILE
                              ? "; each satellite that starts needs one: raise the hard limit "
                                "(ulimit -Hn), or call up again for the others"
                              : "");
    snprintf(which, sizeof which, "%u,%u", s.plane, s.slot);
    char *argv[] = {program, "--satellite", which, "--scenario", x->scenario, NULL};
    *p = (constellation_process){.satellite = s, .fresh = true, .ready = ends[0], .pid = fork()};
    if (p->pid == 0)
        become_satellite(x, s, argv, ends[1]);
    close(ends[1]);
    unsigned long ticks;
    p->running = p->pid > 0 && process_stat(p->pid, &p->start, &ticks);
    return p->pid > 0 ? CLI_OK : cli_failed(c, "satellite %s: %s", which, strerror(errno));
}

const char *constellation_last_words(const constellation *x, sky_satellite s,
                                     char out[CONSTELLATION_WORDS_BYTES]) {
    char line[CONSTELLATION_WORDS_BYTES - 16], prefix[48];
    size_t length = (size_t)snprintf(prefix, sizeof prefix, "skymemd: %u,%u: ", s.plane, s.slot);
    FILE *f = fopen(x->log_path, "re");
    out[0] = 0;
    if (f)
        fseek(f, x->log_from, SEEK_SET);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, prefix, length) == 0)
            snprintf(out, CONSTELLATION_WORDS_BYTES, ", saying \"%s\"", line + length);
    }
    if (f)
        fclose(f);
    return out;
}

/* ---- ending ---- */

static uint32_t signal_each(const constellation *x, bool fresh_only, int number) {
    uint32_t count = 0;
    for (size_t i = 0; i < x->process_count; i++) {
        const constellation_process *p = &x->processes[i];
        if (p->running && (p->fresh || !fresh_only)) {
            kill(p->pid, number);
            count++;
        }
    }
    return count;
}

/* How many are left after at most STOP_NS. */
static uint32_t see_them_go(constellation *x, bool fresh_only, int number) {
    uint32_t left = signal_each(x, fresh_only, number);
    for (sky_time until = sky_now() + STOP_NS; left > 0 && sky_now() < until;) {
        poll(NULL, 0, 10);
        constellation_look(x);
        left = signal_each(x, fresh_only, 0);
    }
    return left;
}

uint32_t constellation_end(constellation *x, bool fresh_only) {
    uint32_t persistent = see_them_go(x, fresh_only, SIGTERM);
    if (persistent > 0)
        see_them_go(x, fresh_only, SIGKILL);
    return persistent;
}

/* ---- silence ---- */

void constellation_silence_advice(const char *scenario, const sky_sky_report *r, char *out,
                                  size_t out_bytes) {
    constellation x;
    bool known = constellation_peek(scenario, &x);
    uint32_t running = known ? constellation_running(&x) : 0;
    const char *changed = running > 0 ? constellation_changed(&x) : NULL;
    if (changed)
        snprintf(out, out_bytes,
                 "they were started before %s was changed: 'skymem constellation down %s', then up",
                 changed, scenario);
    else if (running > 0 && running < x.site.satellite_count)
        snprintf(out, out_bytes, "'skymem constellation up %s' starts the %u that died", scenario,
                 x.site.satellite_count - running);
    else if (r->refused_stale > 0)
        snprintf(out, out_bytes,
                 "answers came and were refused: the machines' clocks are more than half a second "
                 "apart");
    else if (r->refused_forged > 0)
        snprintf(out, out_bytes, "answers came and were refused: they were made under another key");
    else if (r->refused_unsupported > 0)
        snprintf(out, out_bytes,
                 "datagrams came and were refused: of another cipher than udp.cipher allows here, "
                 "or of another release");
    else if (running > 0)
        snprintf(
            out, out_bytes,
            "all %u run on this machine: are they stopped or too busy, do their links lose too "
            "much, or is a clock more than 1 s off?",
            running);
    else
        snprintf(
            out, out_bytes,
            "nothing came from them: they do not run ('skymem constellation up %s' starts them "
            "here), or hold another key or scenario, or clocks are more than half a second apart",
            scenario);
    if (known)
        constellation_close(&x);
}

bool constellation_edited(const char *scenario, char *out, size_t out_bytes) {
    constellation x;
    bool known = constellation_peek(scenario, &x);
    const char *changed = known ? constellation_changed(&x) : NULL;
    if (changed)
        snprintf(out, out_bytes,
                 "%s was changed after its satellites were started, and they know nothing of it: "
                 "'skymem constellation down %s', then up",
                 changed, scenario);
    if (known)
        constellation_close(&x);
    return changed != NULL;
}
