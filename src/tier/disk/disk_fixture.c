#include "tier/disk/disk_fixture.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/file.h"
#include "tier/disk/segments.h"

char *disk_folder_make(void) {
    const char *base = getenv("TMPDIR");
    char name[256];
    snprintf(name, sizeof name, "%s/skymem-disk-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(name));
    char *folder = strdup(name);
    assert_non_null(folder);
    return folder;
}

static int drop_one(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)st, (void)flag, (void)at;
    return remove(path);
}

void disk_folder_drop(char *folder) {
    nftw(folder, drop_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

sky_tier *disk_open(const char *folder, const char *query) {
    char url[512];
    snprintf(url, sizeof url, "disk:%s%s", folder, query);
    sky_error error = {0};
    sky_tier *tier = NULL;
    if (sky_disk_tier_open(url, &(sky_tier_env){0}, &tier, &error) != SKY_OK)
        fail_msg("%s", error.text);
    return tier;
}

void disk_close(sky_tier *tier) {
    tier->ops->close(tier);
}

void disk_forget_catalogue(const char *folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/.catalogue", folder);
    remove(path);
}

void disk_entry_path(const char *folder, const sky_key *key, char path[256]) {
    char inside[SKY_DISK_PATH_BYTES];
    sky_disk_path(key, inside);
    snprintf(path, 256, "%s/%s", folder, inside);
}

/* The file, and in *base where the entry begins in it. */
static int open_entry(const char *folder, const sky_key *key, uint64_t *base) {
    char path[300];
    sky_disk_segments *s;
    sky_disk_place place = {0};
    int root, fd = -1;
    assert_int_equal(sky_file_open(SKY_FOLDER_HERE, folder, SKY_FILE_FOLDER, &root), SKY_OK);
    assert_int_equal(sky_disk_segments_create(0, &s), SKY_OK);
    sky_disk_segments_load(s, root, true);
    if (sky_disk_segments_find(s, key, false, &place, &fd) != SKY_OK) {
        disk_entry_path(folder, key, path);
        assert_int_equal(sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_WRITE, &fd), SKY_OK);
    }
    sky_disk_segments_destroy(s);
    sky_file_close(root);
    *base = place.base;
    return fd;
}

void disk_entry_damage(const char *folder, const sky_key *key, uint64_t at) {
    uint8_t byte;
    uint64_t base;
    size_t got;
    int fd = open_entry(folder, key, &base);
    assert_int_equal(sky_file_read_at(fd, &byte, 1, base + at, &got), SKY_OK);
    byte ^= 1;
    assert_int_equal(sky_file_write_at(fd, &byte, 1, base + at), SKY_OK);
    sky_file_close(fd);
}

static size_t counted_entries, counted_temps, counted_folders;

static int count_one(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)st;
    const char *name = path + at->base;
    if (flag == FTW_F && strncmp(name, ".tmp-", 5) == 0)
        counted_temps++;
    else if (flag == FTW_F && strlen(name) == 64)
        counted_entries++;
    counted_folders += flag == FTW_D && at->level > 0;
    return 0;
}

size_t disk_count_files(const char *folder, char kind) {
    counted_entries = counted_temps = counted_folders = 0;
    assert_int_equal(nftw(folder, count_one, 16, FTW_PHYS), 0);
    return kind == 'e' ? counted_entries : kind == 't' ? counted_temps : counted_folders;
}
