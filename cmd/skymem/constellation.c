#include "constellation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

sky_satellite constellation_satellite(const constellation *x, uint32_t number) {
    return (sky_satellite){number / x->site.slots + 1, number % x->site.slots + 1};
}

uint32_t constellation_running(const constellation *x) {
    uint32_t running = 0;
    for (uint32_t i = 0; i < x->site.satellite_count; i++)
        running += x->processes[i].running;
    return running;
}

/* ---- processes ---- */

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
    return kib << 10;
}

static void look_at(constellation_process *p) {
    unsigned long long start;
    unsigned long ticks;
    p->running = p->pid > 0 && process_stat(p->pid, &start, &ticks) && start == p->start;
    if (!p->running)
        return;
    p->memory_bytes = process_memory(p->pid);
    p->cpu_s = (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

void constellation_look(constellation *x) {
    for (uint32_t i = 0; i < x->site.satellite_count; i++)
        look_at(&x->processes[i]);
}

/* skymemd stands beside skymem. */
static bool daemon_path(char *out, size_t bytes) {
    ssize_t length = readlink("/proc/self/exe", out, bytes - 2);
    if (length <= 0)
        return false;
    out[length] = 0;
    strcat(out, "d");
    return access(out, X_OK) == 0;
}

const char *constellation_last_words(const constellation *x, char out[CONSTELLATION_WORDS_BYTES]) {
    char line[CONSTELLATION_WORDS_BYTES - 16];
    FILE *f = fopen(x->log_path, "re");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0])
            snprintf(out, CONSTELLATION_WORDS_BYTES, ", saying \"%s\"", line);
    }
    if (f)
        fclose(f);
    return out;
}

int constellation_start(const cli *c, constellation *x, uint32_t number) {
    char program[PATH_MAX], which[32];
    sky_satellite s = constellation_satellite(x, number);
    constellation_process *p = &x->processes[number];
    int ends[2];
    if (!daemon_path(program, sizeof program))
        return cli_failed(c, "skymemd is not beside skymem: install both in one folder");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cli_failed(c, "a pipe: %s", strerror(errno));
    snprintf(which, sizeof which, "%u,%u", s.plane, s.slot);
    char *argv[] = {program, "--satellite", which, "--scenario", x->scenario, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    posix_spawn_file_actions_addopen(&files, 2, x->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID); /* it outlives the terminal */
    int failure = posix_spawn(&p->pid, program, &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    p->ready = ends[0];
    unsigned long ticks;
    if (failure != 0 || !process_stat(p->pid, &p->start, &ticks)) {
        char words[CONSTELLATION_WORDS_BYTES];
        close(ends[0]);
        *p = (constellation_process){.ready = -1};
        return cli_failed(c, "satellite %s did not start: %s%s; see %s", which,
                          failure ? strerror(failure) : "it ended at once",
                          constellation_last_words(x, words), x->log_path);
    }
    p->running = true;
    return CLI_OK;
}

/* ---- the file ---- */

/* A folder of our own that nobody else can have put there. */
static int state_folder(const cli *c, char *out, size_t bytes) {
    const char *home = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (home && home[0] == '/')
        snprintf(out, bytes, "%.4000s/skymem", home);
    else
        snprintf(out, bytes, "/tmp/skymem-%u", (unsigned)geteuid());
    if (mkdir(out, 0700) != 0 && errno != EEXIST)
        return cli_failed(c, "%s: %s", out, strerror(errno));
    if (lstat(out, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return cli_failed(c, "%s: must be a folder of this user alone (mode 0700)", out);
    return CLI_OK;
}

static int name_files(const cli *c, constellation *x) {
    char folder[4100];
    int code = state_folder(c, folder, sizeof folder);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: a name, no secret */
    for (const char *at = x->scenario; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    snprintf(x->state_path, sizeof x->state_path, "%s/constellation-%016llx", folder,
             (unsigned long long)hash);
    snprintf(x->log_path, sizeof x->log_path, "%s.log", x->state_path);
    return code;
}

static void read_state(constellation *x) {
    FILE *f = fopen(x->state_path, "re");
    char line[128];
    while (f && fgets(line, sizeof line, f)) {
        int pid;
        unsigned plane, slot;
        unsigned long long start;
        if (sscanf(line, "%d %llu %u %u", &pid, &start, &plane, &slot) != 4 || plane < 1 ||
            slot < 1 || slot > x->site.slots || pid < 1)
            continue;
        uint32_t number = (plane - 1) * x->site.slots + slot - 1;
        if (number < x->site.satellite_count) {
            x->processes[number].pid = pid;
            x->processes[number].start = start;
        }
    }
    if (f)
        fclose(f);
    constellation_look(x);
}

int constellation_open(const cli *c, const char *scenario, constellation *x) {
    sky_error error;
    *x = (constellation){.lock = -1};
    if (!realpath(scenario, x->scenario))
        return cli_failed(c, "%s: %s", scenario, strerror(errno));
    sky_status status = sky_satellite_site_read(x->scenario, &x->site, &error);
    if (status != SKY_OK)
        return cli_refused(c, status, &error);
    if (!x->site.base[0] || !x->site.key_path[0])
        return cli_usage(c,
                         "%s: has no section such as udp: {base: 127.0.0.1:7600, key: sky.key, "
                         "tenant: tenant.key}",
                         scenario);
    int code = name_files(c, x);
    if (code != CLI_OK)
        return code;
    char lock_path[4500];
    snprintf(lock_path, sizeof lock_path, "%s.lock", x->state_path);
    x->lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (x->lock < 0 || flock(x->lock, LOCK_EX) != 0)
        return cli_failed(c, "%s: %s", lock_path, strerror(errno));
    x->processes = calloc(x->site.satellite_count, sizeof *x->processes);
    if (!x->processes)
        return cli_failed(c, "out of memory");
    for (uint32_t i = 0; i < x->site.satellite_count; i++)
        x->processes[i].ready = -1;
    read_state(x);
    return CLI_OK;
}

int constellation_save(const cli *c, const constellation *x) {
    if (constellation_running(x) == 0) {
        unlink(x->state_path);
        return CLI_OK;
    }
    char temporary[4500];
    snprintf(temporary, sizeof temporary, "%s.new", x->state_path);
    FILE *f = fopen(temporary, "we");
    if (!f)
        return cli_failed(c, "%s: %s", temporary, strerror(errno));
    for (uint32_t i = 0; i < x->site.satellite_count; i++) {
        const constellation_process *p = &x->processes[i];
        sky_satellite s = constellation_satellite(x, i);
        if (p->running)
            fprintf(f, "%d %llu %u %u\n", (int)p->pid, p->start, s.plane, s.slot);
    }
    bool bad = ferror(f) != 0;
    bad = fclose(f) != 0 || bad;
    if (bad || rename(temporary, x->state_path) != 0)
        return cli_failed(c, "%s: cannot be written", x->state_path);
    return CLI_OK;
}

void constellation_close(constellation *x) {
    for (uint32_t i = 0; x->processes && i < x->site.satellite_count; i++)
        if (x->processes[i].ready >= 0)
            close(x->processes[i].ready);
    free(x->processes);
    x->processes = NULL;
    if (x->lock >= 0)
        close(x->lock);
    x->lock = -1;
}
