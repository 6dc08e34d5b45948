#include "tier/disk/folder.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/file.h"
#include "tier/disk/seal.h"

#define LEDGER_NAME  ".ledger"
#define LEDGER_BYTES 32
#define LEDGER_MAGIC UINT64_C(0x314744454c594b53) /* "SKYLEDG1" */
#define LEDGER_MAX   (UINT64_C(1) << 62)          /* of either number: one beyond was not counted */
#define TEMP_TRIES   4096
#define HOLD_TRIES   16 /* of an entry that is replaced again and again */
#define FOLDER_TRIES 64 /* of a folder that surveys find empty and remove */

/* Unique in this process; names that a dead one of the same number left behind are stepped over. */
static atomic_uint_fast32_t temp_count;

/* In `folder`: the first 5 characters of an entry's path, or "." */
static sky_status open_temp(const sky_disk_folder *f, const char *folder, bool direct,
                            char name[SKY_DISK_TEMP_BYTES], int *fd) {
    unsigned mode = SKY_FILE_PLAIN | SKY_FILE_WRITE | SKY_FILE_NEW | (direct ? SKY_FILE_DIRECT : 0);
    sky_status status = SKY_E_BUSY;
    for (int i = 0; i < TEMP_TRIES && status == SKY_E_BUSY; i++) {
        snprintf(name, SKY_DISK_TEMP_BYTES, "%.5s/" SKY_DISK_TEMP_PREFIX "%u-%u", folder,
                 (unsigned)sky_process_id(), (unsigned)atomic_fetch_add(&temp_count, 1));
        status = sky_file_open(f->root, name, mode, fd);
    }
    return status;
}

/* A folder where a file of ours belongs goes when it is empty, else aside, where it is foreign. */
static sky_status clear_folder(const sky_disk_folder *f, const char *path) {
    char aside[SKY_DISK_PATH_BYTES + 8];
    if (sky_folder_remove(f->root, path) == SKY_OK)
        return SKY_OK;
    snprintf(aside, sizeof aside, "%s.aside", path);
    return sky_file_rename(f->root, path, aside) == SKY_OK ? SKY_OK : SKY_E_CORRUPT;
}

/* ---- opening ---- */

/* Some file systems take O_DIRECT and refuse the write, some folders take no files: one is tried.
 * */
static sky_status try_write(const sky_disk_folder *f, bool direct) {
    char name[SKY_DISK_TEMP_BYTES];
    int fd;
    void *block = aligned_alloc(SKY_DISK_ALIGN, SKY_DISK_ALIGN);
    if (!block)
        return SKY_E_NOMEM;
    memset(block, 0, SKY_DISK_ALIGN);
    sky_status status = open_temp(f, ".", direct, name, &fd);
    if (status == SKY_OK) {
        status = sky_file_lock(fd, 0);
        if (status == SKY_OK)
            status = sky_file_write_at(fd, block, SKY_DISK_ALIGN, 0);
        sky_file_close(fd);
        sky_file_remove(f->root, name);
    }
    free(block);
    return status;
}

static sky_status choose_direct(sky_disk_folder *f, const char *path, sky_disk_direct wanted,
                                sky_error *error) {
    f->direct = wanted != SKY_DISK_DIRECT_OFF;
    f->reads_cached = wanted != SKY_DISK_DIRECT_ON;
    sky_status status = sky_disk_folder_writable(f) ? try_write(f, f->direct) : SKY_E_UNSUPPORTED;
    f->denied = status == SKY_E_DENIED;
    if (!f->direct || status != SKY_E_UNSUPPORTED)
        return SKY_OK; /* a full disk is no reason not to read */
    if (wanted == SKY_DISK_DIRECT_ON)
        return sky_fail(error, status, "%s: O_DIRECT is refused here: use direct=auto", path);
    f->direct = false;
    f->refused = true;
    return SKY_OK;
}

static sky_status open_ledger(const char *path, bool create, sky_disk_folder *f, sky_error *error) {
    unsigned mode = SKY_FILE_PLAIN | SKY_FILE_WRITE | (create ? SKY_FILE_CREATE : 0);
    sky_status status = sky_file_open(f->root, LEDGER_NAME, mode, &f->ledger);
    if (status == SKY_E_DENIED || status == SKY_E_FULL || (status == SKY_MISS && !create))
        return SKY_OK; /* read-only, or as good as */
    if (status == SKY_E_CORRUPT)
        return sky_fail(error, status, "%s/" LEDGER_NAME ": not a plain file; remove it", path);
    if (status != SKY_OK)
        return sky_fail(error, status, "%s/" LEDGER_NAME ": %s", path, sky_errno_text());
    char name[4096 + sizeof LEDGER_NAME];
    snprintf(name, sizeof name, "%s/" LEDGER_NAME, path);
    return sky_file_check_owner(f->ledger, name, error);
}

/* The root and the ledger. */
static sky_status open_both(const char *path, bool create, sky_disk_folder *f, sky_error *error) {
    sky_status status = create ? sky_folder_make_all(path, error) : SKY_OK;
    if (status != SKY_OK)
        return status;
    status = sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_FOLDER, &f->root);
    sky_file_info other;
    if (status == SKY_MISS && !create && sky_file_stat(SKY_FOLDER_HERE, path, &other) == SKY_OK)
        return sky_fail(error, SKY_E_IO, "%s: is not a folder; name one", path);
    if (status == SKY_MISS && !create)
        return sky_fail(error, status, "%s: no such folder; nothing was stored there", path);
    if (status != SKY_OK)
        return sky_fail(error, status == SKY_MISS ? SKY_E_IO : status,
                        "%s: cannot open this folder: %s", path, sky_errno_text());
    status = sky_file_check_owner(f->root, path, error);
    return status == SKY_OK ? open_ledger(path, create, f, error) : status;
}

static void load_segments(const sky_disk_folder *f) {
    sky_disk_segments_load(f->segments, f->root, sky_disk_folder_writable(f));
}

sky_status sky_disk_folder_open(const char *path, sky_disk_direct direct, bool create,
                                uint64_t bytes_max, sky_disk_folder *out, sky_error *error) {
    sky_disk_folder f = {.create = create, .root = SKY_FILE_NONE, .ledger = SKY_FILE_NONE};
    sky_status status = open_both(path, create, &f, error);
    if (status == SKY_OK)
        status = choose_direct(&f, path, direct, error);
    if (status == SKY_OK && (!(f.path = sky_file_absolute(path)) ||
                             sky_disk_segments_create(bytes_max, &f.segments) != SKY_OK))
        status = sky_fail(error, SKY_E_NOMEM, "%s: no memory to open it", path);
    if (status == SKY_OK)
        load_segments(&f);
    if (status == SKY_OK)
        *out = f;
    else
        sky_disk_folder_close(&f);
    return status;
}

bool sky_disk_folder_lost(const sky_disk_folder *f) {
    sky_file_info info;
    return sky_file_stat(SKY_FOLDER_HERE, f->path, &info) == SKY_MISS ||
           sky_file_replaced(f->root, SKY_FOLDER_HERE, f->path);
}

sky_status sky_disk_folder_reopen(sky_disk_folder *f) {
    sky_disk_folder new = {.root = SKY_FILE_NONE, .ledger = SKY_FILE_NONE};
    sky_status status = open_both(f->path, f->create, &new, NULL);
    if (status == SKY_OK && new.ledger == SKY_FILE_NONE)
        status = SKY_E_DENIED;
    if (status == SKY_OK)
        status = sky_file_move(new.root, f->root);
    if (status == SKY_OK)
        status = sky_file_move(new.ledger, f->ledger);
    if (status == SKY_OK)
        status = sky_disk_seal_again(f->seal, f->root);
    load_segments(f);
    sky_disk_folder_close(&new);
    return status;
}

bool sky_disk_folder_same(const char *path, const char *other) {
    int fd, other_fd = SKY_FILE_NONE;
    if (sky_file_open(SKY_FOLDER_HERE, path, SKY_FILE_FOLDER, &fd) != SKY_OK)
        return false;
    bool same = sky_file_open(SKY_FOLDER_HERE, other, SKY_FILE_FOLDER, &other_fd) == SKY_OK &&
                !sky_file_replaced(fd, SKY_FOLDER_HERE, other);
    sky_file_close(other_fd);
    sky_file_close(fd);
    return same;
}

void sky_disk_folder_close(sky_disk_folder *f) {
    sky_disk_seal_close(f->seal);
    f->seal = NULL;
    sky_disk_segments_destroy(f->segments);
    f->segments = NULL;
    sky_file_close(f->ledger);
    sky_file_close(f->root);
    free(f->path);
    f->path = NULL;
    f->ledger = f->root = SKY_FILE_NONE;
}

/* ---- entries ---- */

/* As a file of its own. */
static sky_status open_at(const sky_disk_folder *f, const char *path, unsigned mode,
                          sky_disk_opened *out) {
    sky_disk_opened opened = {0};
    sky_file_info info;
    sky_status status = sky_file_open_own(f->root, path, mode, &opened.fd, &info);
    if (status != SKY_OK)
        return status;
    status = sky_disk_geometry_of_file(info.bytes, &opened.geometry);
    if (status == SKY_OK)
        *out = opened;
    else
        sky_file_close(opened.fd);
    return status;
}

static sky_status open_in_segment(const sky_disk_folder *f, const sky_key *key, bool at_once,
                                  sky_disk_opened *out) {
    sky_disk_opened opened;
    sky_status status = sky_disk_segments_find(f->segments, key, at_once, &opened.place,
                                               &opened.fd);
    if (status != SKY_OK)
        return status;
    uint64_t bytes = (uint64_t)opened.place.unit_count * SKY_SEGMENT_UNIT_BYTES;
    status = sky_disk_geometry_of_file(bytes, &opened.geometry);
    if (status == SKY_OK)
        *out = opened;
    else
        sky_file_close(opened.fd);
    return status;
}

/* What is found nowhere may be in a segment that another process wrote to. A file that stands while
 * segments cannot be read is no older than what was acknowledged there. */
static sky_status open_entry(const sky_disk_folder *f, const sky_key *key, unsigned mode,
                             sky_disk_opened *out) {
    char path[SKY_DISK_PATH_BYTES];
    bool at_once = mode & SKY_FILE_KNOWN;
    sky_status in_segment = open_in_segment(f, key, at_once, out);
    if (in_segment != SKY_MISS && in_segment != SKY_E_IO)
        return in_segment;
    sky_disk_path(key, path);
    sky_status status = open_at(f, path, mode, out);
    if (status == SKY_MISS && !at_once && sky_disk_segments_refresh(f->segments))
        in_segment = open_in_segment(f, key, false, out);
    return status == SKY_MISS ? in_segment : status;
}

sky_status sky_disk_entry_open(const sky_disk_folder *f, const sky_key *key,
                               sky_disk_purpose purpose, sky_disk_opened *out) {
    bool cached = purpose == SKY_DISK_TO_VERIFY ? !f->direct : f->reads_cached;
    unsigned mode = cached ? SKY_FILE_READ : SKY_FILE_DIRECT;
    mode |= purpose == SKY_DISK_AT_ONCE ? SKY_FILE_KNOWN : 0;
    return open_entry(f, key, mode, out);
}

static bool header_decode(const sky_disk_folder *f, const uint8_t *bytes, const sky_key *key,
                          const sky_disk_opened *entry, sky_disk_header *out) {
    return sky_disk_header_decode(bytes, out) == SKY_OK && sky_key_equal(&out->key, key) &&
           sky_disk_geometry_of(out->payload_bytes).padded_bytes == entry->geometry.padded_bytes &&
           (entry->place.checksum == 0 || entry->place.checksum == out->checksum) &&
           sky_disk_seal_read(f->seal, bytes, out);
}

sky_status sky_disk_header_check(const sky_disk_folder *f, const sky_disk_opened *entry,
                                 const sky_key *key, uint8_t bytes[SKY_DISK_HEADER_BYTES],
                                 sky_disk_header *out) {
    if (header_decode(f, bytes, key, entry, out))
        return SKY_OK;
    size_t got;
    sky_status status = sky_file_read_at(entry->fd, bytes, SKY_DISK_HEADER_BYTES, entry->place.base,
                                         &got);
    if (status != SKY_OK)
        return status;
    bool sound = got == SKY_DISK_HEADER_BYTES && header_decode(f, bytes, key, entry, out);
    bool sealed = !f->seal && sky_disk_header_decode(bytes, out) == SKY_OK && out->is_sealed;
    if (!sound && sealed) /* not damaged: the folder's seal is gone, and may come back */
        return SKY_E_DENIED;
    return sound ? SKY_OK : SKY_E_CORRUPT;
}

/* The header as bytes too. */
static sky_status entry_load(const sky_disk_folder *f, const sky_disk_opened *entry,
                             const sky_key *key, uint8_t bytes[SKY_DISK_HEADER_BYTES],
                             sky_disk_header *out) {
    size_t got;
    sky_status status = sky_file_read_at(entry->fd, bytes, SKY_DISK_HEADER_BYTES, entry->place.base,
                                         &got);
    return status == SKY_OK ? sky_disk_header_check(f, entry, key, bytes, out) : status;
}

/* In a segment another entry may have come to its place meanwhile. */
sky_status sky_disk_entry_load(const sky_disk_folder *f, const sky_key *key, sky_disk_header *out) {
    uint8_t bytes[SKY_DISK_HEADER_BYTES];
    sky_status status = SKY_E_CORRUPT;
    bool again = true;
    for (int i = 0; i < HOLD_TRIES && again; i++) {
        sky_disk_opened entry;
        status = open_entry(f, key, SKY_FILE_READ, &entry);
        if (status != SKY_OK)
            return status;
        status = entry_load(f, &entry, key, bytes, out);
        again = status == SKY_E_CORRUPT && sky_disk_in_segment(&entry.place) &&
                sky_disk_entry_replaced(f, key, &entry);
        sky_file_close(entry.fd);
    }
    return status;
}

sky_status sky_disk_entry_check(const sky_disk_folder *f, const sky_disk_opened *entry,
                                const sky_key *key, uint8_t *buffer, size_t buffer_bytes,
                                sky_disk_header *header) {
    sky_disk_pages pages;
    size_t got;
    sky_status status = entry_load(f, entry, key, buffer, header);
    if (status == SKY_OK) {
        sky_disk_pages_begin(&pages, header, 0);
        pages.tag_key = sky_disk_seal_page_key(f->seal);
    }
    const uint64_t padded_bytes = status == SKY_OK ? entry->geometry.padded_bytes : 0;
    for (uint64_t at = 0; status == SKY_OK && at < padded_bytes; at += got) {
        uint64_t left = padded_bytes - at;
        size_t bytes = left < buffer_bytes ? (size_t)left : buffer_bytes;
        status = sky_file_read_at(entry->fd, buffer, bytes,
                                  entry->place.base + SKY_DISK_HEADER_BYTES + at, &got);
        if (status == SKY_OK && (got < bytes || !sky_disk_pages_check(&pages, buffer, got)))
            status = SKY_E_CORRUPT;
    }
    bool moved = status == SKY_E_CORRUPT && sky_disk_in_segment(&entry->place) &&
                 sky_disk_entry_replaced(f, key, entry);
    return moved ? SKY_MISS : status;
}

static bool entry_is_present(const sky_disk_folder *f, const sky_key *key,
                             const sky_disk_opened *entry) {
    char path[SKY_DISK_PATH_BYTES];
    sky_file_info info;
    if (sky_disk_in_segment(&entry->place))
        return sky_disk_segments_stand(f->segments, key, &entry->place);
    sky_disk_path(key, path);
    return sky_file_stat(f->root, path, &info) == SKY_OK &&
           !sky_file_replaced(entry->fd, f->root, path);
}

static sky_status lock_entry(const sky_disk_opened *entry, sky_time until) {
    if (!sky_disk_in_segment(&entry->place))
        return sky_file_lock(entry->fd, until);
    return sky_file_lock_range(entry->fd, entry->place.base, SKY_DISK_HEADER_BYTES, until);
}

/* While it waited for the lock another may have taken the name: then that one is the entry. */
sky_status sky_disk_entry_hold(const sky_disk_folder *f, const sky_key *key, sky_time until,
                               sky_disk_hold *out) {
    for (int i = 0; i < HOLD_TRIES; i++) {
        sky_status status = open_entry(f, key, SKY_FILE_WRITE, &out->entry);
        if (status != SKY_OK)
            return status;
        status = lock_entry(&out->entry, until);
        bool locked = status == SKY_OK, ours = locked && entry_is_present(f, key, &out->entry);
        if (ours)
            status = entry_load(f, &out->entry, key, out->bytes, &out->header);
        if (ours && status == SKY_OK)
            return SKY_OK;
        if (locked)
            sky_disk_entry_release(out);
        else
            sky_file_close(out->entry.fd);
        if (status != SKY_OK)
            return status;
    }
    return SKY_E_BUSY;
}

/* Closing lets a file's lock go, but not that of a part of a segment, which stays open. */
void sky_disk_entry_release(sky_disk_hold *hold) {
    if (sky_disk_in_segment(&hold->entry.place))
        sky_file_unlock_range(hold->entry.fd, hold->entry.place.base, SKY_DISK_HEADER_BYTES);
    sky_file_close(hold->entry.fd);
}

static sky_status write_record(const sky_disk_opened *entry, const sky_disk_access *access,
                               const uint8_t header[SKY_DISK_HEADER_BYTES]) {
    uint8_t record[SKY_DISK_ACCESS_BYTES];
    sky_disk_access_encode(access, header, record);
    return sky_file_write_at(entry->fd, record, sizeof record,
                             entry->place.base + SKY_DISK_ACCESS_OFFSET);
}

sky_status sky_disk_entry_record(const sky_disk_folder *f, const sky_key *key,
                                 const sky_disk_access *access, bool pin) {
    sky_disk_hold hold;
    sky_status status = sky_disk_entry_hold(f, key, pin ? sky_now() + SKY_DISK_HOLD_PATIENCE : 0,
                                            &hold);
    if (status != SKY_OK)
        return status;
    sky_disk_access merged = hold.header.access;
    merged.hits = access->hits > merged.hits ? access->hits : merged.hits;
    merged.used_ms = access->used_ms > merged.used_ms ? access->used_ms : merged.used_ms;
    merged.pinned = pin ? access->pinned : merged.pinned;
    status = write_record(&hold.entry, &merged, hold.bytes);
    sky_disk_entry_release(&hold);
    return status;
}

static sky_status remove_file(const sky_disk_folder *f, const sky_key *key, uint64_t *freed_bytes) {
    char path[SKY_DISK_PATH_BYTES];
    sky_disk_path(key, path);
    sky_file_info info;
    sky_status status = sky_file_stat(f->root, path, &info);
    if (status != SKY_OK)
        return status;
    status = sky_file_remove(f->root, path);
    if (status == SKY_E_IO && !info.regular)
        status = clear_folder(f, path);
    if (status == SKY_OK)
        *freed_bytes = info.regular ? info.bytes : 0;
    return status;
}

/* Both: a file that an entry in a segment replaced would stand for the key again without it. */
sky_status sky_disk_entry_remove(const sky_disk_folder *f, const sky_key *key,
                                 uint64_t *freed_bytes) {
    if (!sky_disk_segments_known(f->segments))
        return SKY_E_IO;
    sky_status status = remove_file(f, key, freed_bytes);
    if (status != SKY_OK && status != SKY_MISS)
        return status;
    sky_status in_segment = sky_disk_segments_remove(f->segments, key, false, freed_bytes);
    return in_segment == SKY_MISS ? status : in_segment;
}

bool sky_disk_entry_replaced(const sky_disk_folder *f, const sky_key *key,
                             const sky_disk_opened *entry) {
    char path[SKY_DISK_PATH_BYTES];
    if (entry->fd == SKY_FILE_NONE)
        return false;
    if (sky_disk_in_segment(&entry->place))
        return !sky_disk_segments_stand(f->segments, key, &entry->place);
    sky_disk_path(key, path);
    return sky_file_replaced(entry->fd, f->root, path);
}

/* ---- entries under way ---- */

static sky_status make_folders(const sky_disk_folder *f, const char *path) {
    char folder[SKY_DISK_FOLDER_CHARS + 1] = {path[0], path[1]};
    sky_status status = sky_folder_make(f->root, folder);
    if (status != SKY_OK)
        return status;
    memcpy(folder, path, SKY_DISK_FOLDER_CHARS);
    return sky_folder_make(f->root, folder);
}

unsigned sky_disk_temp_files(const sky_disk_folder *f, const sky_key *key) {
    static const size_t folders[] = {SKY_DISK_FOLDER_CHARS, 2};
    char path[SKY_DISK_PATH_BYTES];
    sky_disk_path(key, path);
    sky_file_info info;
    unsigned files = 1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        path[folders[i]] = '\0';
        files += sky_file_stat(f->root, path, &info) == SKY_MISS;
    }
    return files;
}

/* A folder lasts once there is a file in it. */
static sky_status open_temp_beside(const sky_disk_folder *f, const char *path,
                                   char name[SKY_DISK_TEMP_BYTES], int *fd) {
    sky_status status = SKY_MISS;
    for (int i = 0; i < FOLDER_TRIES && status == SKY_MISS; i++) {
        status = open_temp(f, path, f->direct, name, fd);
        sky_status made = status == SKY_MISS ? make_folders(f, path) : SKY_OK;
        if (made != SKY_OK && made != SKY_MISS)
            return made;
    }
    return status;
}

static sky_status create_file(sky_disk_folder *f, const sky_key *key, uint64_t file_bytes,
                              char name[SKY_DISK_TEMP_BYTES], int *fd) {
    char path[SKY_DISK_PATH_BYTES];
    sky_disk_path(key, path);
    int opened;
    sky_status status = open_temp_beside(f, path, name, &opened);
    f->denied = status == SKY_E_DENIED;
    if (status != SKY_OK)
        return status == SKY_MISS || status == SKY_E_BUSY ? SKY_E_IO : status;
    status = sky_file_lock(opened, 0);
    if (status == SKY_OK)
        status = sky_file_reserve(opened, file_bytes);
    if (status == SKY_OK) {
        *fd = opened;
        return SKY_OK;
    }
    sky_file_close(opened);
    sky_file_remove(f->root, name);
    return status;
}

/* direct=on: nothing is to stay in the page cache, through which segments are written. */
sky_status sky_disk_temp_create(sky_disk_folder *f, const sky_key *key, uint64_t file_bytes,
                                bool durable, sky_disk_temp *out, sky_disk_opened *entry) {
    sky_disk_temp temp = {.durable = durable};
    sky_status status = SKY_E_UNSUPPORTED;
    if (!sky_disk_segments_known(f->segments))
        return SKY_E_IO;
    if (durable && f->reads_cached)
        status = sky_disk_segments_reserve(f->segments, file_bytes, &temp.place, &entry->fd);
    if (status != SKY_OK && status != SKY_E_IO)
        status = create_file(f, key, file_bytes, temp.name, &entry->fd);
    if (status == SKY_OK) {
        entry->place = temp.place;
        *out = temp;
    }
    return status;
}

sky_status sky_disk_temp_record(const sky_disk_folder *f, const sky_disk_temp *temp,
                                const sky_key *key, const sky_disk_access *access) {
    uint8_t bytes[SKY_DISK_HEADER_BYTES];
    sky_disk_header header;
    sky_disk_opened entry;
    sky_status status = sky_disk_in_segment(&temp->place)
                            ? sky_disk_segments_open(f->segments, &temp->place, &entry.fd)
                            : open_at(f, temp->name, SKY_FILE_WRITE, &entry);
    if (status != SKY_OK)
        return status;
    if (sky_disk_in_segment(&temp->place)) {
        entry.place = temp->place;
        sky_disk_geometry_of_file((uint64_t)temp->place.unit_count * SKY_SEGMENT_UNIT_BYTES,
                                  &entry.geometry);
    }
    status = entry_load(f, &entry, key, bytes, &header);
    if (status == SKY_OK)
        status = write_record(&entry, access, bytes);
    sky_file_close(entry.fd);
    return status;
}

static sky_status publish_file(const sky_disk_folder *f, const sky_disk_temp *temp,
                               const sky_key *key, const char *path, uint64_t *replaced_bytes) {
    sky_file_info info;
    uint64_t freed_bytes;
    bool stood = sky_file_stat(f->root, path, &info) == SKY_OK;
    sky_status status = sky_file_rename(f->root, temp->name, path);
    if (status == SKY_E_IO && stood && !info.regular && clear_folder(f, path) == SKY_OK)
        status = sky_file_rename(f->root, temp->name, path);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_E_IO : status; /* someone removed it under our hands */
    *replaced_bytes = stood && info.regular ? info.bytes : 0;
    status = sky_disk_segments_remove(f->segments, key, temp->durable, &freed_bytes);
    if (status == SKY_OK)
        *replaced_bytes = freed_bytes;
    return status == SKY_MISS ? SKY_OK : status;
}

sky_status sky_disk_temp_publish(const sky_disk_folder *f, sky_disk_temp *temp, const sky_key *key,
                                 uint64_t *replaced_bytes) {
    char path[SKY_DISK_PATH_BYTES];
    sky_disk_path(key, path);
    bool in_segment = sky_disk_in_segment(&temp->place);
    sky_status status = in_segment ? sky_disk_segments_publish(f->segments, key, &temp->place,
                                                               &temp->replaced)
                                   : publish_file(f, temp, key, path, replaced_bytes);
    temp->published = status == SKY_OK;
    if (status != SKY_OK || !in_segment)
        return status;
    sky_file_info info;
    temp->replaced_file = sky_file_stat(f->root, path, &info) == SKY_OK;
    if (sky_disk_in_segment(&temp->replaced))
        *replaced_bytes = (uint64_t)temp->replaced.unit_count * SKY_SEGMENT_UNIT_BYTES;
    else
        *replaced_bytes = temp->replaced_file && info.regular ? info.bytes : 0;
    return SKY_OK;
}

static sky_status sync_folder_of(const sky_disk_folder *f, const sky_key *key) {
    char path[SKY_DISK_PATH_BYTES];
    int fd;
    sky_disk_path(key, path);
    path[SKY_DISK_FOLDER_CHARS] = '\0';
    sky_status status = sky_file_open(f->root, path, SKY_FILE_FOLDER, &fd);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_OK : SKY_E_IO;
    status = sky_folder_sync(fd);
    sky_file_close(fd);
    return status;
}

/* A file that was replaced must not come back after a power failure: its folder is synced. */
sky_status sky_disk_temp_settle(const sky_disk_folder *f, const sky_disk_temp *temp,
                                const sky_key *key) {
    uint64_t freed_bytes;
    if (sky_disk_in_segment(&temp->replaced))
        sky_disk_segments_release(f->segments, &temp->replaced);
    if (!temp->replaced_file || !sky_disk_segments_stand(f->segments, key, &temp->place))
        return SKY_OK;
    sky_status status = remove_file(f, key, &freed_bytes);
    if (status != SKY_OK)
        return status == SKY_MISS ? SKY_OK : SKY_E_IO;
    return sync_folder_of(f, key);
}

static sky_status load_file(const sky_disk_folder *f, const char *path, const sky_key *key,
                            sky_disk_header *out) {
    uint8_t bytes[SKY_DISK_HEADER_BYTES];
    sky_disk_opened entry;
    sky_status status = open_at(f, path, SKY_FILE_READ, &entry);
    if (status != SKY_OK)
        return status;
    status = entry_load(f, &entry, key, bytes, out);
    sky_file_close(entry.fd);
    return status;
}

/* All of it is read: after a power failure a row may stand without some of its entry's bytes. */
static sky_status check_in_segment(const sky_disk_folder *f, const sky_key *key,
                                   sky_disk_header *out) {
    sky_disk_opened entry;
    sky_status status = open_in_segment(f, key, false, &entry);
    if (status != SKY_OK)
        return status;
    const size_t bytes = (size_t)entry.place.unit_count * SKY_SEGMENT_UNIT_BYTES;
    uint8_t *buffer = malloc(bytes);
    status = buffer ? sky_disk_entry_check(f, &entry, key, buffer, bytes, out) : SKY_E_NOMEM;
    free(buffer);
    sky_file_close(entry.fd);
    return status;
}

/* Which is newer was not acknowledged yet when both stood there, so that either may go: the time
 * decides, and nothing when it is the same. */
bool sky_disk_folder_settle(const sky_disk_folder *f, const sky_key *key) {
    char path[SKY_DISK_PATH_BYTES];
    sky_disk_header in_file, in_segment;
    uint64_t freed_bytes;
    sky_status status = check_in_segment(f, key, &in_segment);
    if (status == SKY_MISS || status == SKY_E_IO || status == SKY_E_NOMEM)
        return true;
    sky_disk_path(key, path);
    sky_status of_file = load_file(f, path, key, &in_file);
    if (!sky_disk_folder_writable(f) || of_file == SKY_MISS)
        return false;
    if (status == SKY_E_CORRUPT ||
        (status == SKY_OK && of_file == SKY_OK && in_file.set_ms > in_segment.set_ms))
        return sky_disk_segments_remove(f->segments, key, true, &freed_bytes) == SKY_OK;
    if (status == SKY_OK && (of_file == SKY_E_CORRUPT || in_file.set_ms < in_segment.set_ms) &&
        sky_disk_segments_sync(f->segments, key) == SKY_OK)
        remove_file(f, key, &freed_bytes);
    return false;
}

void sky_disk_temp_remove(const sky_disk_folder *f, sky_disk_temp *temp) {
    if (temp->published)
        return;
    if (temp->name[0])
        sky_file_remove(f->root, temp->name);
    else if (sky_disk_in_segment(&temp->place))
        sky_disk_segments_release(f->segments, &temp->place);
    *temp = (sky_disk_temp){0};
}

void sky_disk_folder_write(const sky_disk_folder *f, const char *name, const void *data,
                           size_t bytes) {
    char temp[SKY_DISK_TEMP_BYTES];
    int fd;
    if (open_temp(f, ".", false, temp, &fd) != SKY_OK)
        return;
    sky_file_info info;
    bool written = sky_file_lock(fd, 0) == SKY_OK &&
                   sky_file_write_at(fd, data, bytes, 0) == SKY_OK;
    if (written && sky_file_stat(f->root, name, &info) == SKY_OK && !info.regular &&
        sky_file_remove(f->root, name) != SKY_OK)
        clear_folder(f, name);
    if (!written || sky_file_rename(f->root, temp, name) != SKY_OK)
        sky_file_remove(f->root, temp);
    sky_file_close(fd);
}

/* ---- ledger ---- */

static uint64_t ledger_checksum(const uint8_t *bytes) {
    return sky_checksum(bytes, LEDGER_BYTES - 8, 0);
}

void sky_disk_ledger_peek(const sky_disk_folder *f, sky_disk_ledger *out) {
    uint8_t bytes[LEDGER_BYTES];
    size_t got;
    sky_disk_ledger ledger = {0};
    if (sky_file_read_at(f->ledger, bytes, sizeof bytes, 0, &got) == SKY_OK &&
        got == sizeof bytes && sky_load_u64(bytes) == LEDGER_MAGIC &&
        sky_load_u64(bytes + 24) == ledger_checksum(bytes))
        ledger = (sky_disk_ledger){true, sky_load_u64(bytes + 8), sky_load_u64(bytes + 16)};
    if (ledger.changes > LEDGER_MAX || ledger.bytes_used > LEDGER_MAX)
        ledger = (sky_disk_ledger){0};
    *out = ledger;
}

bool sky_disk_ledger_begin(const sky_disk_folder *f, sky_time until, sky_disk_ledger *out) {
    if (!sky_disk_folder_writable(f) || sky_file_lock(f->ledger, until) != SKY_OK)
        return false;
    sky_disk_ledger_peek(f, out);
    return true;
}

void sky_disk_ledger_end(const sky_disk_folder *f, const sky_disk_ledger *ledger) {
    if (ledger) {
        uint8_t bytes[LEDGER_BYTES];
        sky_store_u64(bytes, LEDGER_MAGIC);
        sky_store_u64(bytes + 8, ledger->changes);
        sky_store_u64(bytes + 16, ledger->bytes_used);
        sky_store_u64(bytes + 24, ledger_checksum(bytes));
        sky_file_write_at(f->ledger, bytes, sizeof bytes, 0);
    }
    sky_file_unlock(f->ledger);
}

void sky_disk_ledger_sync(const sky_disk_folder *f) {
    sky_file_sync(f->ledger);
}
