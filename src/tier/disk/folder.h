/* The folder of a disk tier: entries as files, files under way, and the ledger that several
 * processes share.
 *
 *   PATH/.ledger                  how many changes there were, and how many bytes stand here
 *   PATH/.catalogue               what stood here when a tier closed (snapshot.h)
 *   PATH/.seal                    a sealed folder's salt (seal.h)
 *   PATH/.segment-N               small entries that were to be durable (segments.h)
 *   PATH/ab/cd/abcd…64 digits     an entry
 *   PATH/ab/cd/.tmp-PID-N         a file being written, locked by its writer; PATH/.tmp-PID-N too
 *
 * Anything else is foreign and left alone.
 *
 * An entry stands in a segment or in a file of its own. Where a crash left both the segment's
 * counts: a file that takes a key's name removes it there, and an entry that is new in a segment
 * removes the file once it is synced.
 *
 * Publish after commit: an entry's bytes are synced under a temporary name, then the name is
 * changed. After a crash at any moment a key therefore has its old entry, its new one, or (when the
 * folder itself was not synced) none: never a half. A temporary file whose lock is free has no
 * writer left. */
#ifndef SKY_TIER_DISK_FOLDER_H
#define SKY_TIER_DISK_FOLDER_H

#include "tier/disk/seal.h"
#include "tier/disk/segments.h"

typedef enum { SKY_DISK_DIRECT_AUTO, SKY_DISK_DIRECT_ON, SKY_DISK_DIRECT_OFF } sky_disk_direct;

typedef struct {
    char *path; /* from the root of the file system */
    int root;
    int ledger;        /* SKY_FILE_NONE when read-only */
    bool direct;       /* entries are written, and verified, past the page cache */
    bool reads_cached; /* entries are read through it */
    bool refused;      /* that was wanted, and the file system (or a read-only folder) would not */
    sky_disk_seal *seal; /* NULL: entries lie in clear */
    sky_disk_segments *segments;
    bool create;         /* also when the folder is found lost */
    _Atomic bool denied; /* the last file that was to be made here was not permitted */
} sky_disk_folder;

/* With `create` makes the folder when it is absent, and the ledger. A folder that may only be read,
 * or that has no ledger and is not to get one, is fine: nothing is written there.
 * Errors: SKY_MISS (absent, without `create`), SKY_E_DENIED (also when another user may change the
 *         folder or the ledger), SKY_E_IO, SKY_E_UNSUPPORTED (direct=on refused); `error` says what
 *         to do */
sky_status sky_disk_folder_open(const char *path, sky_disk_direct direct, bool create,
                                uint64_t bytes_max, sky_disk_folder *out, sky_error *error);
void sky_disk_folder_close(sky_disk_folder *f);
/* The folder that was opened is no longer the one at its path: it was removed, or replaced. */
bool sky_disk_folder_lost(const sky_disk_folder *f);
/* Open the one that stands at the path now, in place of a lost one; with `create`, made again if
 * there is none. The descriptors keep their numbers, so that threads which use them meanwhile see
 * one or the other.
 * Errors: as sky_disk_folder_open; the lost folder stays in use then */
sky_status sky_disk_folder_reopen(sky_disk_folder *f);
/* Both are there, and are one folder. */
bool sky_disk_folder_same(const char *path, const char *other);
static inline bool sky_disk_folder_writable(const sky_disk_folder *f) {
    return f->ledger >= 0;
}

/* An entry that is open: its bytes begin at place.base of fd. */
typedef struct {
    int fd;
    sky_disk_place place;
    sky_disk_geometry geometry;
} sky_disk_opened;

/* Open an entry for reading its data: as gets do; only when that does not wait for the disk, else
 * SKY_E_BUSY or SKY_E_UNSUPPORTED; or from the disk itself, whatever the page cache holds.
 * Errors: SKY_MISS, SKY_E_CORRUPT (no plain file, one that another user could have written, or
 *         an impossible size), SKY_E_DENIED, SKY_E_IO */
typedef enum { SKY_DISK_TO_GET, SKY_DISK_AT_ONCE, SKY_DISK_TO_VERIFY } sky_disk_purpose;
sky_status sky_disk_entry_open(const sky_disk_folder *f, const sky_key *key,
                               sky_disk_purpose purpose, sky_disk_opened *out);
/* Read and check an entry's header.
 * Errors: SKY_MISS, SKY_E_CORRUPT (another key's or size's too), SKY_E_DENIED, SKY_E_IO */
sky_status sky_disk_entry_load(const sky_disk_folder *f, const sky_key *key, sky_disk_header *out);
/* Decode a header read from `entry`, which must be that of `key`, of the entry's geometry and
 * place, and open its seal. A bad one is read once more into `bytes`: another process may have been
 * changing its access record.
 * Shape:  bytes aligned as the file wants it */
sky_status sky_disk_header_check(const sky_disk_folder *f, const sky_disk_opened *entry,
                                 const sky_key *key, uint8_t bytes[SKY_DISK_HEADER_BYTES],
                                 sky_disk_header *out);
/* Read and check all of an open entry, through a buffer of at least SKY_DISK_HEADER_BYTES, which is
 * aligned as the file wants it.
 * Errors: SKY_MISS (its place was used again meanwhile), SKY_E_CORRUPT, SKY_E_DENIED, SKY_E_IO */
sky_status sky_disk_entry_check(const sky_disk_folder *f, const sky_disk_opened *entry,
                                const sky_key *key, uint8_t *buffer, size_t buffer_bytes,
                                sky_disk_header *header);
/* An entry that is held stays at its name with its access record as it is: whoever writes the
 * record, replaces the entry or evicts it holds it meanwhile. A pin is thus never written into a
 * file that just lost its name, nor overlooked in one that is about to. A removal
 * needs none: it takes the pin along. */
typedef struct {
    sky_disk_opened entry; /* locked */
    sky_disk_header header;
    uint8_t bytes[SKY_DISK_HEADER_BYTES]; /* the same */
} sky_disk_hold;
#define SKY_DISK_HOLD_PATIENCE SKY_MS(100) /* others hold one for a record's time */
/* Errors: SKY_E_BUSY when another still holds it at `until` (0: now), and as sky_disk_entry_load */
sky_status sky_disk_entry_hold(const sky_disk_folder *f, const sky_key *key, sky_time until,
                               sky_disk_hold *out);
void sky_disk_entry_release(sky_disk_hold *hold);

/* Replace the access record of an entry whose header is sound. Other processes record their uses
 * too: uses only grow, and the pin stays as the file has it unless `pin`. The entry is held from
 * the read to the write, which `pin` waits for a little.
 * Errors: SKY_E_BUSY, and as sky_disk_entry_load */
sky_status sky_disk_entry_record(const sky_disk_folder *f, const sky_key *key,
                                 const sky_disk_access *access, bool pin);
/* *freed_bytes: what it took.
 * Errors: SKY_MISS, SKY_E_DENIED, SKY_E_IO, SKY_E_CORRUPT (a folder stands there, and stays) */
sky_status sky_disk_entry_remove(const sky_disk_folder *f, const sky_key *key,
                                 uint64_t *freed_bytes);

/* Another entry than the open one bears the key by now, or none. False when fd is SKY_FILE_NONE. */
bool sky_disk_entry_replaced(const sky_disk_folder *f, const sky_key *key,
                             const sky_disk_opened *entry);

/* An entry under way: a temporary file, or a place in a segment. */
#define SKY_DISK_TEMP_BYTES  40
#define SKY_DISK_TEMP_PREFIX ".tmp-"
typedef struct {
    char name[SKY_DISK_TEMP_BYTES]; /* "": there is no file */
    sky_disk_place place;           /* or there is no place */
    sky_disk_place replaced;        /* published in a segment: by it, until it is settled */
    bool replaced_file;             /* likewise */
    bool published;
    bool durable;
} sky_disk_temp;

/* Open, locked, `file_bytes` long. A small one that is to be durable is made in a segment, if that
 * can be. entry->geometry stays as it is.
 * Errors: SKY_E_FULL, SKY_E_DENIED, SKY_E_IO; there is nothing to remove then */
sky_status sky_disk_temp_create(sky_disk_folder *f, const sky_key *key, uint64_t file_bytes,
                                bool durable, sky_disk_temp *out, sky_disk_opened *entry);
/* How many files and folders that would make, outside of a segment. */
unsigned sky_disk_temp_files(const sky_disk_folder *f, const sky_key *key);
/* Replace the access record of one that is written and has no name yet.
 * Errors: as sky_disk_entry_load */
sky_status sky_disk_temp_record(const sky_disk_folder *f, const sky_disk_temp *temp,
                                const sky_key *key, const sky_disk_access *access);
/* Make it the entry; in a segment its place has the checksum of its header. *replaced_bytes: what
 * stood there took, 0 for none. */
sky_status sky_disk_temp_publish(const sky_disk_folder *f, sky_disk_temp *temp, const sky_key *key,
                                 uint64_t *replaced_bytes);
/* One that was published in a segment is synced now: what it replaced goes, unless it was replaced
 * itself meanwhile. Errors: SKY_E_IO */
sky_status sky_disk_temp_settle(const sky_disk_folder *f, const sky_disk_temp *temp,
                                const sky_key *key);
/* One that was not published goes; of one that was, nothing. */
void sky_disk_temp_remove(const sky_disk_folder *f, sky_disk_temp *temp);

/* A crash, or a process at this moment, left both a file and an entry in a segment: remove the
 * older, if that can be told. True when the file stays and the other does not, or cannot be read.
 */
bool sky_disk_folder_settle(const sky_disk_folder *f, const sky_key *key);

/* Replace a file in the root; no sync. Best effort. */
void sky_disk_folder_write(const sky_disk_folder *f, const char *name, const void *data,
                           size_t bytes);

/* Tell `each` of all entries, from several threads at once, and sweep temporary files without a
 * writer: *swept is how many. Folders found empty go, and files that an entry in a segment
 * replaced.
 * Errors: SKY_E_DENIED, SKY_E_IO: the root cannot be read */
typedef void (*sky_disk_scan_fn)(void *context, const sky_key *key);
sky_status sky_disk_folder_scan(const sky_disk_folder *f, sky_disk_scan_fn each, void *context,
                                uint64_t *swept);

/* Give the folder its seal, from the key file that the URL names (NULL: it names none). A folder
 * without entries becomes a sealed one when `create`. `path`: in what errors say.
 * Errors: as sky_disk_seal_open, SKY_E_PARAM (it holds entries that are not sealed), SKY_E_BUSY */
sky_status sky_disk_folder_seal(sky_disk_folder *f, const char *path, const char *key_path,
                                bool create, sky_error *error);

/* What processes that share the folder tell each other. `known` is false when the file was empty or
 * damaged: scan, then write the truth. */
typedef struct {
    bool known;
    uint64_t changes;
    uint64_t bytes_used;
} sky_disk_ledger;
/* Read it without the lock: not known when another is just writing it. */
void sky_disk_ledger_peek(const sky_disk_folder *f, sky_disk_ledger *out);
/* Lock and read it. False when another still holds it at `until`, or the folder is read-only; *out
 * is untouched then. */
bool sky_disk_ledger_begin(const sky_disk_folder *f, sky_time until, sky_disk_ledger *out);
/* Write it, unless NULL, and unlock. */
void sky_disk_ledger_end(const sky_disk_folder *f, const sky_disk_ledger *ledger);
void sky_disk_ledger_sync(const sky_disk_folder *f);

#endif
