/* The disk tier keeps the promises of every tier, on io_uring and on threads, past the page cache
 * and through it, sealed and in clear, each entry in a file or small ones in segments, and what it
 * stored is there after it was closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/secret.h"
#include "tier/disk/disk_fixture.h"

typedef struct {
    char *folder;
    const char *query;
} place;

static sky_tier *open_in(const place *p, const sky_tier_env *env) {
    char url[512];
    sky_error error;
    sky_tier *tier = NULL;
    snprintf(url, sizeof url, "disk:%s%s", p->folder, p->query);
    if (sky_disk_tier_open(url, env, &tier, &error) != SKY_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return tier;
}

static sky_tier *open_new(void *context, const sky_tier_env *env) {
    place *p = context;
    p->folder = disk_folder_make();
    return open_in(p, env);
}

static void close_and_drop(void *context, sky_tier *tier) {
    place *p = context;
    disk_close(tier);
    disk_folder_drop(p->folder);
}

static sky_tier *open_again(void *context, sky_tier *tier, const sky_tier_env *env) {
    disk_close(tier);
    return open_in(context, env);
}

/* A key file that lasts as long as the process. Owner: the caller, with free() */
static char *make_key(void) {
    char *folder = disk_folder_make(), *path = malloc(300);
    snprintf(path, 300, "%s/key", folder);
    if (sky_secret_make(path, NULL) != SKY_OK)
        abort();
    free(folder);
    return path;
}

static void drop_key(char *path) {
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    free(path);
}

static int conform(const char *name, const char *query, uint64_t capacity_bytes) {
    place p = {NULL, query};
    const sky_tier_fixture disk = {.name = name,
                                   .context = &p,
                                   .open = open_new,
                                   .close = close_and_drop,
                                   .reopen = open_again,
                                   .capacity_bytes = capacity_bytes,
                                   .payload_bytes_max = 3 << 20,
                                   .items_max = 300,
                                   .pins = true,
                                   .ttl = true,
                                   .adopts = true,
                                   .drops_orphans = true};
    return sky_tier_conformance(&disk);
}

int main(void) {
    unsetenv("SKYMEM_IO");
    int failed = conform("disk", "?max=8MiB", 8 << 20);
    setenv("SKYMEM_IO", "threads", 1);
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* where a sync costs nothing */
    failed += conform("disk, threads, page cache", "?max=8MiB&direct=off", 8 << 20);
    sky_fixture_durable = true;
    failed += conform("disk, durable", "?max=16MiB", 16 << 20);
    char *key = make_key(), sealed[400];
    snprintf(sealed, sizeof sealed, "?max=16MiB&direct=off&seal=%s", key);
    failed += conform("disk, sealed, durable", sealed, 16 << 20);
    drop_key(key);
    return failed;
}
