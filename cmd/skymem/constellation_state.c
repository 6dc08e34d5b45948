/* What is remembered of the satellites that were started: the state file, its lock, and what they
 * were started from. The file is its own lock: who removes it holds it, and who waited for it looks
 * whether it still bears its name. */
#include "constellation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (64u << 20)

/* ---- names ---- */

/* Where this user's satellites are remembered. */
static void folder_name(char *out, size_t bytes) {
    const char *home = getenv("XDG_RUNTIME_DIR");
    if (home && home[0] == '/')
        snprintf(out, bytes, "%.4000s/skymem", home);
    else
        snprintf(out, bytes, "/tmp/skymem-%u", (unsigned)geteuid());
}

/* A folder of our own that nobody else can have put there. */
static bool is_ours(const char *folder) {
    struct stat st;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 077);
}

static int make_folder(const cli *c) {
    char folder[4100];
    folder_name(folder, sizeof folder);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return cli_failed(c, "%s: %s", folder, strerror(errno));
    if (!is_ours(folder))
        return cli_failed(c, "%s: must be a folder of this user alone (mode 0700)", folder);
    return CLI_OK;
}

/* The path that a file has, or had: of a folder that is gone too the name counts as it is given.
 * False: it is too long. */
static bool absolute_path(const char *path, char out[4096], bool *gone) {
    char head[4096], there[4096];
    *gone = !realpath(path, out);
    if (!*gone)
        return true;
    size_t bytes = (size_t)snprintf(head, sizeof head, "%s%s", path[0] == '/' ? "" : "./", path);
    for (char *slash; bytes < sizeof head && (slash = strrchr(head, '/')) != NULL;) {
        *slash = '\0';
        if (!realpath(slash > head ? head : "/", there))
            continue;
        size_t rest_bytes = bytes - (size_t)(slash + 1 - head);
        return (size_t)snprintf(out, 4096, "%s/%s", strcmp(there, "/") == 0 ? "" : there,
                                path + strlen(path) - rest_bytes) < 4096;
    }
    return false;
}

static bool name_files(const char *scenario, constellation *x) {
    char folder[4100];
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: a name, no secret */
    *x = (constellation){.state = -1};
    if (!absolute_path(scenario, x->scenario, &x->gone))
        return false;
    for (const char *at = x->scenario; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    folder_name(folder, sizeof folder);
    snprintf(x->state_path, sizeof x->state_path, "%s/constellation-%016llx", folder,
             (unsigned long long)hash);
    snprintf(x->log_path, sizeof x->log_path, "%s.log", x->state_path);
    return true;
}

/* ---- what satellites are made from ---- */

/* All zero when it cannot be read. */
static sky_key digest_of(const char *path) {
    sky_key key = {{0}};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is not waited for */
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    char *data = NULL;
    size_t bytes = 0, room = 0;
    while (f && bytes < FILE_BYTES_MAX) {
        if (bytes == room) {
            room = room ? 2 * room : 4096;
            char *more = realloc(data, room);
            if (!more)
                break;
            data = more;
        }
        size_t got = fread(data + bytes, 1, room - bytes, f);
        bytes += got;
        if (got == 0) {
            sky_digest(&(sky_span){data, bytes}, 1, key.bytes);
            break;
        }
    }
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    if (data)
        explicit_bzero(data, room);
    free(data);
    return key;
}

static constellation_source source_now(const constellation *x) {
    return (constellation_source){digest_of(x->scenario), digest_of(x->site.key_path)};
}

const char *constellation_changed(const constellation *x) {
    constellation_source now = source_now(x);
    if (constellation_running(x) == 0)
        return NULL;
    if (!sky_key_equal(&now.file, &x->source.file))
        return x->scenario;
    return sky_key_equal(&now.secret, &x->source.secret) ? NULL : x->site.key_path;
}

int constellation_site(const cli *c, constellation *x) {
    sky_error error = {0};
    sky_status status = sky_satellite_site_read(x->scenario, &x->site, &error);
    return status == SKY_OK ? CLI_OK : cli_refused(c, status, &error);
}

/* ---- the file ---- */

constellation_process *constellation_add(constellation *x) {
    if (x->process_count == x->process_max) {
        size_t room = x->process_max ? 2 * x->process_max : 64;
        constellation_process *more = realloc(x->processes, room * sizeof *more);
        if (!more)
            return NULL;
        x->processes = more;
        x->process_max = room;
    }
    constellation_process *p = &x->processes[x->process_count++];
    *p = (constellation_process){.ready = -1};
    return p;
}

static void read_source(const char *line, constellation_source *out) {
    char file[65], secret[65];
    if (sscanf(line, "from %64s %64s", file, secret) == 2) {
        sky_key_parse(file, &out->file);
        sky_key_parse(secret, &out->secret);
    }
}

/* Whether the line is of a process. */
static bool read_process(const char *line, constellation_process *out) {
    int length = 0;
    *out = (constellation_process){.ready = -1};
    return sscanf(line, "%d %llu %u %u%n", &out->pid, &out->start, &out->satellite.plane,
                  &out->satellite.slot, &length) == 4 &&
           out->pid > 0 && strcmp(line + length, "\n") == 0;
}

/* Keep those that run, each once. */
static void forget_others(constellation *x) {
    size_t kept = 0;
    for (size_t i = 0; i < x->process_count; i++) {
        const constellation_process p = x->processes[i];
        bool ours = p.running && constellation_is_satellite(x, &p);
        for (size_t k = 0; k < kept && ours; k++)
            ours = x->processes[k].pid != p.pid;
        if (ours)
            x->processes[kept++] = p;
    }
    x->process_count = kept;
}

/* Those that run; who has ended is forgotten here. False: out of memory. */
static bool read_state(constellation *x) {
    FILE *f = fopen(x->state_path, "re");
    char line[4200];
    bool ok = true;
    while (ok && f && fgets(line, sizeof line, f)) {
        constellation_process read, *p;
        read_source(line, &x->source);
        if (!read_process(line, &read))
            continue;
        p = constellation_add(x);
        ok = p != NULL;
        if (ok)
            *p = read;
    }
    if (f)
        fclose(f);
    constellation_look(x);
    forget_others(x);
    return ok;
}

/* Lock the file, and make sure that it still bears its name: who held the lock may have removed it.
 */
static int lock_state(const cli *c, constellation *x, bool make) {
    struct stat mine, there;
    int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0);
    for (;;) {
        x->state = open(x->state_path, flags, 0600);
        if (x->state < 0 && errno == ENOENT && !make)
            return CLI_OK;
        if (x->state < 0 || flock(x->state, LOCK_EX) != 0 || fstat(x->state, &mine) != 0)
            return cli_failed(c, "%s: %s", x->state_path, strerror(errno));
        if (stat(x->state_path, &there) == 0 && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev)
            return CLI_OK;
        close(x->state);
    }
}

int constellation_open(const cli *c, const char *scenario, bool make, constellation *x) {
    if (!name_files(scenario, x) || (make && x->gone))
        return cli_failed(c, "%s: %s", scenario, strerror(ENOENT));
    int code = make_folder(c);
    if (code == CLI_OK)
        code = lock_state(c, x, make);
    if (code == CLI_OK && !constellation_can_look())
        code = cli_failed(c, "/proc: %s; it tells which satellites run", strerror(errno));
    if (code == CLI_OK && !read_state(x))
        code = cli_failed(c, "out of memory");
    if (code != CLI_OK && x->state >= 0) { /* unread: what it remembers stays */
        close(x->state);
        x->state = -1;
    }
    return code;
}

bool constellation_peek(const char *scenario, constellation *x) {
    char folder[4100];
    sky_error error;
    folder_name(folder, sizeof folder);
    bool known = name_files(scenario, x) && is_ours(folder) && !x->gone &&
                 access(x->state_path, R_OK) == 0 && read_state(x) &&
                 sky_satellite_site_read(x->scenario, &x->site, &error) == SKY_OK;
    if (!known)
        constellation_close(x);
    return known;
}

int constellation_begin(const cli *c, constellation *x) {
    char file[SKY_KEY_BYTES * 2 + 1], secret[SKY_KEY_BYTES * 2 + 1];
    x->source = source_now(x);
    sky_key_hex(&x->source.file, file);
    sky_key_hex(&x->source.secret, secret);
    if (ftruncate(x->state, 0) != 0 ||
        dprintf(x->state, "of %s\nfrom %s %s\n", x->scenario, file, secret) < 0)
        return cli_failed(c, "%s: %s", x->state_path, strerror(errno));
    return CLI_OK;
}

void constellation_close(constellation *x) {
    for (size_t i = 0; i < x->process_count; i++)
        if (x->processes[i].ready >= 0)
            close(x->processes[i].ready);
    if (x->state >= 0) {
        if (constellation_running(x) == 0)
            unlink(x->state_path); /* still locked: who waits for it looks for its name */
        close(x->state);
    }
    free(x->processes);
    x->processes = NULL;
    x->process_count = x->process_max = 0;
    x->state = -1;
}

/* ---- others ---- */

static void note_other(const cli *c, const char *path) {
    constellation other = {.state = -1};
    char line[4200] = "", count[CLI_COUNT_TEXT_BYTES];
    FILE *f = fopen(path, "re");
    bool named = f && fgets(line, sizeof line, f) && strncmp(line, "of /", 4) == 0;
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = 0;
    snprintf(other.state_path, sizeof other.state_path, "%s", path);
    snprintf(other.scenario, sizeof other.scenario, "%.4095s", named ? line + 3 : "");
    if (named && read_state(&other) && other.process_count > 0)
        cli_note(c, "%s for %s",
                 cli_count_text(other.process_count, "satellite runs", "satellites run", count),
                 line + 3);
    constellation_close(&other);
}

void constellation_note_others(const cli *c, const constellation *x) {
    char folder[4100], path[4400];
    folder_name(folder, sizeof folder);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strncmp(e->d_name, "constellation-", 14) == 0 && !strchr(e->d_name, '.') &&
            strcmp(path, x->state_path) != 0)
            note_other(c, path);
    }
    if (d)
        closedir(d);
}
