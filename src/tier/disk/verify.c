/* Reads and checks every byte of the folder, on the caller's thread: the tier goes on meanwhile.
 *
 * Entries are looked at one after the other as they stand in the catalogue, so that memory stays
 * bounded whatever the folder holds; one that comes or goes meanwhile may be missed or counted. */
#include <stdlib.h>

#include <skymem/keys.h>

#include "io/file.h"
#include "tier/disk/disk.h"

#define PIECE_BYTES (1u << 20)

/* *entry is left open, if it could be opened.
 * Errors: SKY_MISS when the entry went meanwhile, SKY_E_CORRUPT, SKY_E_DENIED, SKY_E_IO */
static sky_status check_entry(const sky_disk *d, const sky_key *key, sky_disk_opened *entry,
                              uint8_t *buffer) {
    sky_disk_header header;
    sky_status status = sky_disk_entry_open(&d->folder, key, SKY_DISK_TO_VERIFY, entry);
    if (status == SKY_OK)
        status = sky_disk_entry_check(&d->folder, entry, key, buffer, PIECE_BYTES, &header);
    return status;
}

/* Copy the next fact, or false. `reachable`: nothing that leads to it is missing. */
static bool next_fact(sky_disk *d, uint32_t *number, sky_disk_fact *fact, bool *reachable) {
    sky_mutex_lock(&d->mutex);
    const sky_disk_fact *found = sky_disk_catalogue_next(d->catalogue, number);
    if (found) {
        *fact = *found;
        *reachable = sky_disk_catalogue_reachable(d->catalogue, found);
    }
    sky_mutex_unlock(&d->mutex);
    return found != NULL;
}

/* How many files went. */
static size_t entry_drop(sky_disk *d, const sky_key *key, const sky_disk_opened *entry) {
    size_t count;
    sky_mutex_lock(&d->mutex);
    sky_disk_drop(d, key, entry, &count);
    sky_mutex_unlock(&d->mutex);
    return count;
}

static size_t drop_wanting(sky_disk *d, const sky_key *key) {
    sky_disk_header header;
    size_t count;
    sky_mutex_lock(&d->mutex);
    sky_disk_drop_wanting(d, key, &header, &count);
    sky_mutex_unlock(&d->mutex);
    return count;
}

static void note_unreadable(sky_disk *d, const sky_key *key, bool unreadable) {
    sky_mutex_lock(&d->mutex);
    sky_disk_fact *fact = sky_disk_catalogue_find(d->catalogue, key);
    if (fact)
        fact->unreadable = unreadable;
    sky_mutex_unlock(&d->mutex);
}

/* A damaged entry takes along what hangs below it. One that cannot be read is told as damaged and
 * stays: a permission, or a disk that is ill for a while, says nothing about its bytes. */
static void verify_entry(sky_disk *d, const sky_key *key, uint8_t *buffer,
                         sky_verify_report *report) {
    sky_disk_opened entry = {.fd = SKY_FILE_NONE};
    sky_status status = check_entry(d, key, &entry, buffer);
    bool unreadable = status != SKY_OK && status != SKY_MISS && status != SKY_E_CORRUPT;
    note_unreadable(d, key, unreadable);
    report->corrupt += unreadable || status == SKY_E_CORRUPT;
    if (status == SKY_MISS)
        drop_wanting(d, key);
    if (status == SKY_E_CORRUPT) {
        sky_mutex_lock(&d->mutex);
        d->counts.corrupt++;
        sky_mutex_unlock(&d->mutex);
        size_t gone = entry.fd == SKY_FILE_NONE ? drop_wanting(d, key) : entry_drop(d, key, &entry);
        report->orphans += gone > 0 ? gone - 1 : 0;
    }
    sky_file_close(entry.fd);
}

/* The newest row of the key that is whole; each one that is not gives way to the one before it. */
static void decide_key(const sky_disk *d, const sky_key *key, uint8_t *buffer) {
    bool again = true;
    while (again) {
        sky_disk_opened entry = {.fd = SKY_FILE_NONE};
        sky_status status = check_entry(d, key, &entry, buffer);
        sky_file_close(entry.fd);
        again = (status == SKY_OK || status == SKY_E_CORRUPT) &&
                sky_disk_segments_settle(d->folder.segments, key, status == SKY_OK);
    }
}

void sky_disk_decide(sky_disk *d) {
    sky_key key;
    uint32_t cursor = 0;
    uint8_t *buffer = NULL;
    while (sky_disk_folder_writable(&d->folder) &&
           sky_disk_segments_next(d->folder.segments, true, &cursor, &key)) {
        buffer = buffer ? buffer : aligned_alloc(SKY_DISK_ALIGN, PIECE_BYTES);
        if (!buffer)
            return;
        decide_key(d, &key, buffer);
    }
    free(buffer);
}

sky_status sky_disk_verify(sky_tier *tier, sky_verify_report *out) {
    sky_disk *d = (sky_disk *)(void *)tier; /* its first member */
    sky_verify_report report = *out;
    uint64_t swept;
    uint8_t *buffer = aligned_alloc(SKY_DISK_ALIGN, PIECE_BYTES);
    if (!buffer)
        return SKY_E_NOMEM;
    sky_mutex_lock(&d->mutex);
    uint64_t corrupt = d->counts.corrupt;
    sky_status status = sky_disk_refresh(d, &swept);
    report.corrupt += d->counts.corrupt - corrupt + d->unreadable; /* headers it met */
    sky_mutex_unlock(&d->mutex);
    if (status != SKY_OK)
        goto cleanup;
    report.orphans += swept;
    sky_disk_fact fact;
    bool reachable;
    for (uint32_t n = 0; next_fact(d, &n, &fact, &reachable); n++)
        if (!reachable)
            report.orphans += entry_drop(d, &fact.key, NULL);
    bool cancelled = false;
    for (uint32_t n = 0; !cancelled && next_fact(d, &n, &fact, &reachable); n++) {
        verify_entry(d, &fact.key, buffer, &report);
        cancelled = sky_tier_verify_cancelled(&d->env);
    }
    status = cancelled ? SKY_E_CANCELLED : SKY_OK;
    for (uint32_t n = 0; !cancelled && next_fact(d, &n, &fact, &reachable); n++) {
        report.entries += !fact.unreadable;
        report.bytes += fact.unreadable ? 0 : fact.payload_bytes;
    }
    *out = report;
cleanup:
    free(buffer);
    return status;
}
