/* Walks the folder of a disk tier.
 *
 *   ab  ab  …  00 … ff: handed out one after the other to a few threads
 *   └─ cd
 *      └─ abcd…    told      .tmp-…    swept when its writer is gone
 *
 * A folder that nothing is left in goes too: an evicted entry's stays until then, as the next one
 * mostly has use for it.
 *
 * Several threads, because a folder that is not in memory costs a wait for the disk a step: 100,000
 * entries lie in 50,000 folders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "io/clock.h"
#include "io/file.h"
#include "io/sync.h"
#include "tier/disk/folder.h"

#define WALKERS        16
#define TOP_FOLDERS    256
#define YOUNG_MS       10000       /* a file may be between its creation and its lock */
#define SWEEP_PATIENCE SKY_MS(200) /* a walker's, for all locks of dead processes */

typedef struct {
    const sky_disk_folder *folder;
    sky_disk_scan_fn each;
    void *context;
    int64_t now_ms;
    sky_mutex mutex; /* guards the two below */
    unsigned next;   /* top folder to hand out */
    uint64_t swept;
} scan;

typedef struct {
    scan *scan;
    sky_thread thread;
    uint64_t swept;
    sky_time patience; /* until when to wait for locks of the dead; 0: none was met yet */
    bool top_empty;    /* so far: nothing is left in the folder */
    bool empty;
    char path[SKY_DISK_FOLDER_CHARS + 1]; /* "ab", "ab/cd" or "." */
} walker;

static bool is_hex(const char *name, size_t digits) {
    return strlen(name) == digits && strspn(name, "0123456789abcdef") == digits;
}

static bool is_temp(const char *name) {
    return strncmp(name, SKY_DISK_TEMP_PREFIX, strlen(SKY_DISK_TEMP_PREFIX)) == 0;
}

/* Another's file goes only when its writer is gone: no lock, and no such process or an old file. A
 * process that was just killed keeps its locks until the kernel is done with its transfers. */
static bool file_sweep(walker *w, const char *name) {
    char path[SKY_DISK_FOLDER_CHARS + 1 + 256];
    int root = w->scan->folder->root, fd;
    snprintf(path, sizeof path, "%s/%s", w->path, name);
    unsigned long writer = strtoul(name + strlen(SKY_DISK_TEMP_PREFIX), NULL, 10);
    bool dead = !sky_process_exists((uint32_t)writer);
    sky_file_info info;
    if (sky_file_open(root, path, SKY_FILE_PLAIN, &fd) != SKY_OK)
        return false;
    if (dead && w->patience == 0)
        w->patience = sky_now() + SWEEP_PATIENCE;
    bool orphan = sky_file_stat_open(fd, &info) == SKY_OK &&
                  (dead || w->scan->now_ms - info.modified_ms > YOUNG_MS) &&
                  sky_file_lock(fd, dead ? w->patience : 0) == SKY_OK;
    bool swept = orphan && sky_file_remove(root, path) == SKY_OK;
    w->swept += swept;
    sky_file_close(fd);
    return swept;
}

static bool walk_entry(void *context, const char *name, char kind) {
    walker *w = context;
    sky_key key;
    bool file = kind == 'f' || kind == '?', swept = file && is_temp(name) && file_sweep(w, name);
    w->empty &= swept;
    if (file && is_hex(name, 2 * SKY_KEY_BYTES) && name[0] == w->path[0] && name[1] == w->path[1] &&
        name[2] == w->path[3] && name[3] == w->path[4] && sky_key_parse(name, &key) == SKY_OK &&
        sky_disk_folder_settle(w->scan->folder, &key))
        w->scan->each(w->scan->context, &key);
    return true;
}

/* A folder that cannot be read, or went meanwhile, hides its entries and no others. */
static bool walk_inner(void *context, const char *name, char kind) {
    walker *w = context;
    int root = w->scan->folder->root;
    bool ours = is_hex(name, 2) && (kind == 'd' || kind == '?');
    w->empty = ours;
    if (ours) {
        w->path[2] = '/';
        memcpy(w->path + 3, name, 3);
        w->empty = sky_folder_each(root, w->path, walk_entry, w) == SKY_OK && w->empty;
    }
    w->top_empty &= w->empty && sky_folder_remove(root, w->path) == SKY_OK;
    return true;
}

static bool sweep_root(void *context, const char *name, char kind) {
    if (is_temp(name) && (kind == 'f' || kind == '?'))
        file_sweep(context, name);
    return true;
}

static bool next_top(scan *s, unsigned *top) {
    sky_mutex_lock(&s->mutex);
    *top = s->next;
    s->next += s->next < TOP_FOLDERS;
    sky_mutex_unlock(&s->mutex);
    return *top < TOP_FOLDERS;
}

static void *walker_run(void *argument) {
    walker *w = argument;
    scan *s = w->scan;
    unsigned top;
    while (next_top(s, &top)) {
        snprintf(w->path, sizeof w->path, "%02x", top & 0xff);
        w->top_empty = true;
        if (sky_folder_each(s->folder->root, w->path, walk_inner, w) != SKY_OK || !w->top_empty)
            continue;
        w->path[2] = '\0';
        sky_folder_remove(s->folder->root, w->path);
    }
    sky_mutex_lock(&s->mutex);
    s->swept += w->swept;
    sky_mutex_unlock(&s->mutex);
    return NULL;
}

static void tell_segments(const scan *s) {
    sky_key key;
    uint32_t cursor = 0;
    while (sky_disk_segments_next(s->folder->segments, false, &cursor, &key))
        s->each(s->context, &key);
}

/* The caller's thread walks as well, so it works where no thread can be had. */
sky_status sky_disk_folder_scan(const sky_disk_folder *f, sky_disk_scan_fn each, void *context,
                                uint64_t *swept) {
    const sky_clock *clock = sky_clock_system(); /* the file system's, whatever a test pretends */
    scan s = {.folder = f, .each = each, .context = context, .now_ms = clock->wall_ms(clock)};
    walker walkers[WALKERS] = {{.scan = &s, .path = "."}};
    sky_status status = sky_folder_each(f->root, ".", sweep_root, &walkers[0]);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_E_IO : status;
    sky_disk_segments_refresh(f->segments);
    sky_mutex_init(&s.mutex);
    for (size_t i = 1; i < WALKERS; i++) {
        walkers[i].scan = &s;
        if (sky_thread_start(&walkers[i].thread, "skymem-scan", walker_run, &walkers[i]) != SKY_OK)
            break;
    }
    walker_run(&walkers[0]);
    for (size_t i = 1; i < WALKERS; i++)
        sky_thread_join(&walkers[i].thread);
    tell_segments(&s);
    sky_mutex_deinit(&s.mutex);
    *swept = s.swept;
    return SKY_OK;
}
