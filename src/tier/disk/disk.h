/* The parts of a disk tier, for its own files.
 *
 *   attempt ─► resident pages ─► the caller's spans, on the caller's thread
 *   submit ─► queues ─wake─► thread ─► jobs ─► I/O engine (aio) ─► file ─► publish, in order
 *                              │
 *                              └─ catalogue, ledger, counters   (also read by stat, list, verify)
 *
 *   disk.c        the tier's functions: open, submit, stat, list, close
 *   work.c   the thread: takes requests, runs jobs, publishes
 *   room.c   what stands in the folder: catalogue, ledger, eviction, dropping, access records
 *   offer.c  telling the hierarchy what goes next
 *   attempt.c     gets that need no disk
 *   verify.c reads everything
 *
 * Concurrency: `queue_mutex` guards the queues and `closing`; `mutex` guards catalogue, counters,
 * ledger and every change of the folder by rename or unlink, so that catalogue and folder change
 * together. The queue mutex is never held over I/O, so submit does not wait for the disk. All else
 * belongs to the thread. */
#ifndef SKY_TIER_DISK_DISK_H
#define SKY_TIER_DISK_DISK_H

#include "io/sync.h"
#include "tier/disk/catalogue.h"
#include "tier/disk/io_engine.h"
#include "tier/tier.h"

/* Items of a batch that still have to be begun. */
typedef struct {
    sky_batch batch;
    sky_op op;
    size_t next;
    size_t count;
    uint32_t ttl_s;
    uint8_t level;
    uint8_t evict;
    bool durable;
    bool no_touch;
} sky_disk_request;

typedef struct {
    sky_disk_request requests[SKY_BATCHES_MAX];
    size_t first;
    size_t count;
} sky_disk_queue;

/* An entry under way: room is reserved for it. Embedded in its job. */
typedef struct sky_disk_claim {
    struct sky_disk_claim *next;
    sky_key key;
    sky_key parent;
    uint64_t file_bytes; /* 0: no claim */
} sky_disk_claim;

typedef struct sky_disk_work sky_disk_work;

typedef struct {
    sky_tier tier;
    sky_tier_env env;
    char url[256];
    uint64_t bytes_max;
    uint32_t ttl_s; /* 0: entries stay until evicted */
    sky_disk_folder folder;
    sky_disk_work *work;
    bool opened;

    sky_mutex queue_mutex;
    sky_disk_queue lookups; /* HAS, GET, PREFETCH: never wait for a write */
    sky_disk_queue changes; /* PUT, REMOVE, PIN, UNPIN: take effect in order */
    bool closing;
    int wake; /* raised when a queue or `closing` changed */

    sky_mutex mutex;
    sky_disk_catalogue *catalogue;
    sky_tier_counts counts;
    uint32_t failures_in_row;
    sky_disk_claim *claims;
    uint64_t bytes_claimed;
    uint64_t ledger_seen;        /* the ledger's count of changes that the catalogue knows of */
    sky_time ledger_avoided;     /* until then it is not waited for */
    uint64_t unrecorded_changes; /* of ours, that did not get into the ledger yet */
    int64_t unrecorded_bytes;
    uint64_t absent;      /* entries found gone: others have taken their places in the folder */
    uint64_t unreadable;  /* entries that stand in the folder, unknown as they cannot be read */
    bool writes;          /* something was stored here, or tried to be */
    bool snapshot_wanted; /* that on disk is older than the catalogue */
    bool offers;          /* sky_disk_offer was called since it was opened */
} sky_disk;

/* work.c */
sky_status sky_disk_work_create(sky_disk *d, sky_disk_work **out);
sky_status sky_disk_work_start(sky_disk_work *w);
/* Ends when nothing is under way; NULL is fine. All batches are over by then. */
void sky_disk_work_destroy(sky_disk_work *w);
const char *sky_disk_work_backend(const sky_disk_work *w);
/* An entry was read: count it, and have the thread record it in time. The caller holds d->mutex. */
void sky_disk_note_use(sky_disk *d, sky_disk_fact *fact);
/* How long an entry will still be kept; 0: without end. */
uint32_t sky_disk_left_s(const sky_disk *d, int64_t expire_ms);

/* room.c; the caller holds d->mutex. */

/* At open, fill the catalogue: from the snapshot if nothing changed since, else from the folder. */
sky_status sky_disk_recall(sky_disk *d);
/* Write the snapshot, at close, unless others changed the folder meanwhile. */
void sky_disk_remember(sky_disk *d);
/* Read the folder anew into catalogue and ledger; *swept: left-overs of dead writers that went. */
sky_status sky_disk_refresh(sky_disk *d, uint64_t *swept);
/* When the folder was removed or replaced under this process: go on with the one that stands at its
 * path now, made anew if there is none. False when it was not, or that fails. Without d->mutex. */
bool sky_disk_revive(sky_disk *d);
/* Reserve room for an entry file: evict until it may be added. The block before it stays, or as
 * much of its chain as stands here; an entry whose parent is neither here nor under way cannot be
 * reached, and evicts nothing. Nothing goes for one that cannot fit. claim: all but `next` set.
 * Errors: SKY_E_FULL, SKY_E_DENIED, SKY_E_IO; nothing is reserved then, and file_bytes is 0 */
sky_status sky_disk_claim_room(sky_disk *d, sky_disk_claim *claim);
/* The entry has its name, or will have none. One without bytes is fine. */
void sky_disk_claim_end(sky_disk *d, sky_disk_claim *claim);
/* The disk is full: evict as much as a claimed file takes, or as many entries as the disk lacks
 * files, whatever the limit says, unless even all that may go would not do. Errors: SKY_E_FULL */
sky_status sky_disk_evict(sky_disk *d, const sky_disk_claim *claim);
/* Give a written entry its name, and the pin of the entry it replaces, and note it. */
sky_status sky_disk_publish(sky_disk *d, sky_disk_temp *temp, const sky_disk_fact *fact);
/* It is synced in its segment now: what it replaced goes. Errors: SKY_E_IO */
sky_status sky_disk_settle(sky_disk *d, const sky_disk_temp *temp, const sky_key *key);
/* It could not be synced in its segment: what it replaced stands again. */
void sky_disk_withdraw(sky_disk *d, const sky_disk_temp *temp, const sky_key *key);
/* Remove an entry and what hangs below it, from folder and catalogue. *count: how many files went.
 * `entry`: what was found wanting; when another replaced it meanwhile, nothing is removed.
 * NULL: whatever stands there.
 * Errors: SKY_MISS, SKY_E_DENIED, SKY_E_IO */
sky_status sky_disk_drop(sky_disk *d, const sky_key *key, const sky_disk_opened *entry,
                         size_t *count);
/* As that, for an entry whose header was found wanting: absent, damaged or expired. It is judged
 * again while no other process changes the folder; SKY_OK: it was stored anew, *header is its. */
sky_status sky_disk_drop_wanting(sky_disk *d, const sky_key *key, sky_disk_header *header,
                                 size_t *count);
/* The fact of a key, read from the folder when the catalogue has none; NULL: *status says why. An
 * expired or damaged entry is dropped. */
sky_disk_fact *sky_disk_look(sky_disk *d, const sky_key *key, sky_status *status);
/* As that, and read from the folder too when another process changed it since the catalogue was the
 * truth. */
sky_disk_fact *sky_disk_look_closely(sky_disk *d, const sky_key *key, sky_status *status);
/* The fact of an entry whose header was just read; NULL when the catalogue has no room for it. */
sky_disk_fact *sky_disk_meet(sky_disk *d, const sky_disk_header *header);
/* The fact that says the same; NULL when it is news. */
sky_disk_fact *sky_disk_known(sky_disk *d, const sky_disk_header *header);
/* The same for a header from a descriptor: its file may be gone or another's by now, so that what
 * is news is asked of the file. */
sky_disk_fact *sky_disk_meet_read(sky_disk *d, const sky_disk_header *header);
bool sky_disk_expired(const sky_disk *d, int64_t expire_ms);
/* Write an entry's uses into its file; they stay unrecorded while another process is at it. */
void sky_disk_record_uses(sky_disk *d, sky_disk_fact *fact);
/* Pin or unpin an entry.
 * Errors: as sky_disk_look; SKY_E_PARAM when unpinning what is not pinned; SKY_E_DENIED in a
 *         read-only folder; SKY_E_BUSY */
sky_status sky_disk_pin(sky_disk *d, const sky_key *key, bool pin);
/* Count what an item came to, and the payload bytes it moved. */
void sky_disk_count(sky_disk *d, sky_op op, sky_status status, uint64_t bytes);
#define SKY_DISK_FAILURES_IN_ROW 3 /* then the disk is said to fail */
int64_t sky_disk_wall_ms(const sky_disk *d);

/* offer.c: offer what will be evicted next to the hierarchy. The caller holds d->mutex. */
void sky_disk_offer(sky_disk *d);

/* attempt.c, verify.c: functions of the tier. */
bool sky_disk_attempt(sky_tier *tier, sky_item *item, const sky_call *call);
sky_status sky_disk_verify(sky_tier *tier, sky_verify_report *out);
/* Of keys with several rows in segments, as a crash leaves them, keep the newest entry that is
 * whole. */
void sky_disk_decide(sky_disk *d);

#endif
