/* What stands in the folder, as this process sees it.
 *
 * Several processes may share a folder. Each has a catalogue of its own; the ledger tells how many
 * changes there were and how many bytes stand there. As long as the count is the one this process
 * left there, its catalogue is the truth and eviction is exact. Otherwise it reads the folder again
 * before it evicts for want of bytes, and then evicts a little more, so that two writers do not
 * read it for every block. For want of places in the catalogue it does not: an entry that it knows
 * goes for each that comes, so that the folder gets no fuller, whoever else does the same. */
#include <stdlib.h>
#include <string.h>

#include <skymem/keys.h>

#include "io/file.h"
#include "tier/disk/disk.h"
#include "tier/disk/snapshot.h"

#define SHARED_SLACK    16 /* of the limit: how much more goes when others write here too */
#define CLAIMS_MAX      SKY_DISK_JOBS
#define LEDGER_PATIENCE SKY_MS(50)
#define LEDGER_AVOIDED  SKY_SECONDS(2)

int64_t sky_disk_wall_ms(const sky_disk *d) {
    int64_t ms = d->env.clock->wall_ms(d->env.clock);
    const int64_t ms_max = SKY_DISK_MS_MAX / 2; /* leaves room for any ttl */
    return ms < 0 ? 0 : ms > ms_max ? ms_max : ms;
}

bool sky_disk_expired(const sky_disk *d, int64_t expire_ms) {
    return expire_ms != 0 && expire_ms <= sky_disk_wall_ms(d);
}

void sky_disk_count(sky_disk *d, sky_op op, sky_status status, uint64_t bytes) {
    bool get = op == SKY_OP_GET, put = op == SKY_OP_PUT;
    d->counts.hits += get && status == SKY_OK;
    d->counts.misses += get && (status == SKY_MISS || status == SKY_E_CORRUPT);
    d->counts.puts += put && status == SKY_OK;
    d->counts.read_bytes += get && status == SKY_OK ? bytes : 0;
    d->counts.written_bytes += put && status == SKY_OK ? bytes : 0;
    d->counts.dropped += put && status < 0 && status != SKY_E_CANCELLED && status != SKY_E_PARAM &&
                         status != SKY_E_DEADLINE;
    d->counts.corrupt += status == SKY_E_CORRUPT;
    d->counts.errors += status == SKY_E_IO || (put && status == SKY_E_DENIED);
    if (status == SKY_E_IO)
        d->failures_in_row++;
    else if (status == SKY_OK)
        d->failures_in_row = 0;
}

/* ---- ledger ---- */

/* Between enter and leave no other process changes the folder, unless it lost patience. */
typedef struct {
    sky_disk_ledger ledger;
    bool locked;
    bool mended; /* the ledger is to be written even without a change */
} view;

/* What one call took out of the folder, or put there. */
typedef struct {
    uint64_t changes;
    int64_t bytes;
} tally;

/* Whoever holds the ledger for too long, stopped perhaps, is not waited for again for a while. */
static view view_open(sky_disk *d) {
    view v = {0};
    sky_time now = sky_now();
    sky_time until = now < d->ledger_avoided ? 0 : now + LEDGER_PATIENCE;
    v.locked = sky_disk_ledger_begin(&d->folder, until, &v.ledger);
    if (!v.locked && until != 0)
        d->ledger_avoided = sky_now() + LEDGER_AVOIDED;
    return v;
}

static bool view_agrees(const sky_disk *d, const view *v) {
    return v->locked && v->ledger.known && v->ledger.changes == d->ledger_seen;
}

/* Note changes of ours and let go. When the lock was not had they are told at the next chance; a
 * damaged ledger is mended by the next refresh. */
static void view_close(sky_disk *d, view *v, tally t) {
    d->unrecorded_changes += t.changes;
    d->unrecorded_bytes += t.bytes;
    if (!v->locked)
        return;
    bool write = v->ledger.known && (v->mended || d->unrecorded_changes > 0);
    if (write) {
        bool agreed = view_agrees(d, v);
        int64_t used = (int64_t)v->ledger.bytes_used + d->unrecorded_bytes;
        v->ledger.bytes_used = used > 0 ? (uint64_t)used : 0;
        v->ledger.changes += d->unrecorded_changes;
        if (agreed)
            d->ledger_seen = v->ledger.changes;
        d->unrecorded_changes = 0;
        d->unrecorded_bytes = 0;
    }
    sky_disk_ledger_end(&d->folder, write ? &v->ledger : NULL);
}

/* Bytes that stand in the folder: the ledger knows what others added; after a power failure, or in
 * bad hands, it knows less than the catalogue. */
static uint64_t bytes_used(const sky_disk *d, const view *v) {
    uint64_t known = sky_disk_catalogue_bytes(d->catalogue);
    if (!v->locked || !v->ledger.known)
        return known;
    int64_t told = (int64_t)v->ledger.bytes_used + d->unrecorded_bytes;
    return told > (int64_t)known ? (uint64_t)told : known;
}

/* ---- files that go ---- */

static sky_status remove_file(sky_disk *d, const sky_key *key, tally *t) {
    uint64_t freed;
    sky_status status = sky_disk_entry_remove(&d->folder, key, &freed);
    if (status == SKY_OK) {
        t->changes++;
        t->bytes -= (int64_t)freed;
    }
    return status;
}

/* Another process may have pinned it: the file tells, and is held until it is gone. Who holds it
 * now keeps others out, not us. */
static sky_status evict_file(sky_disk *d, sky_disk_fact *fact, tally *t, bool *pinned) {
    sky_disk_hold hold = {.entry.fd = SKY_FILE_NONE};
    sky_status held = sky_disk_entry_hold(&d->folder, &fact->key, 0, &hold);
    sky_status read = held;
    *pinned = false;
    if (held == SKY_MISS)
        return SKY_MISS;
    if (held != SKY_OK)
        read = sky_disk_entry_load(&d->folder, &fact->key, &hold.header);
    *pinned = read == SKY_OK && hold.header.access.pinned;
    if (*pinned)
        sky_disk_catalogue_pin(d->catalogue, fact, true);
    sky_status status = *pinned ? SKY_OK : remove_file(d, &fact->key, t);
    if (held == SKY_OK)
        sky_disk_entry_release(&hold);
    return status;
}

static sky_status evict_one(sky_disk *d, tally *t) {
    sky_disk_fact *victim;
    sky_status status;
    bool pinned;
    do {
        victim = sky_disk_catalogue_victim(d->catalogue);
        if (!victim)
            return SKY_E_FULL;
        status = evict_file(d, victim, t, &pinned);
    } while (pinned);
    if (status != SKY_OK && status != SKY_MISS)
        return status;
    d->counts.evictions += status == SKY_OK;
    d->counts.demotions_lost += status == SKY_OK && !victim->offered && !victim->named;
    if (status == SKY_MISS) {
        d->ledger_seen = UINT64_MAX; /* someone removes files behind our backs: look again */
        d->absent++;
    }
    sky_disk_catalogue_remove(d->catalogue, victim, NULL, NULL);
    return SKY_OK;
}

/* As far as is known: the ledger counts bytes and no entries. */
static bool out_of_places(const sky_disk *d) {
    return sky_disk_catalogue_room(d->catalogue) <= d->absent;
}

/* Evict until `bytes` more are free, `files` have gone and the catalogue has room. The parent of
 * what is to come is a leaf until that has come, and must not make room for its own child. */
static sky_status view_evict(sky_disk *d, uint64_t bytes, uint64_t files, const sky_key *parent,
                             tally *t) {
    sky_disk_fact *kept = sky_disk_catalogue_find(d->catalogue, parent);
    bool held = kept && sky_disk_catalogue_keep(d->catalogue, kept);
    sky_status status = SKY_OK;
    uint64_t before = t->changes;
    while (status == SKY_OK && (t->bytes > -(int64_t)bytes || t->changes - before < files ||
                                sky_disk_catalogue_room(d->catalogue) == 0))
        status = evict_one(d, t);
    if (held)
        sky_disk_catalogue_release(d->catalogue, kept);
    return status;
}

/* Put a fact into the catalogue, at the cost of the oldest when it is full. */
static sky_disk_fact *catalogue_admit(sky_disk *d, const sky_disk_fact *fact, tally *t) {
    sky_status status;
    while ((status = sky_disk_catalogue_put(d->catalogue, fact)) == SKY_E_FULL)
        if (evict_one(d, t) != SKY_OK)
            break;
    return status == SKY_OK ? sky_disk_catalogue_find(d->catalogue, &fact->key) : NULL;
}

/* ---- reading the folder ---- */

typedef struct {
    sky_disk *disk;
    sky_mutex mutex; /* several threads survey; guards what follows, and the counts */
    sky_disk_fact *facts;
    size_t count;
    size_t room;
    uint64_t unreadable; /* and not known */
    bool no_memory;
    tally gone;
} survey;

static void survey_add(survey *s, const sky_disk_fact *fact) {
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 1024;
        sky_disk_fact *grown = realloc(s->facts, room * sizeof *grown);
        if (!grown) {
            s->no_memory = true;
            return;
        }
        s->facts = grown;
        s->room = room;
    }
    s->facts[s->count++] = *fact;
}

/* The file tells, but for uses that were not recorded yet. */
static sky_status survey_read(const sky_disk *d, const sky_key *key, sky_disk_fact *fact) {
    sky_disk_header header;
    sky_status status = sky_disk_entry_load(&d->folder, key, &header);
    const sky_disk_fact *known = sky_disk_catalogue_find(d->catalogue, key);
    if (status == SKY_OK) {
        *fact = sky_disk_fact_of(&header);
        if (known && known->unrecorded && known->hits > fact->hits) {
            fact->hits = known->hits;
            fact->used_ms = known->used_ms > fact->used_ms ? known->used_ms : fact->used_ms;
            fact->unrecorded = true;
        }
    } else if (known && status != SKY_MISS && status != SKY_E_CORRUPT) {
        *fact = *known; /* it stands there, and may be readable again */
        status = SKY_OK;
    }
    return status;
}

static void survey_entry(void *context, const sky_key *key) {
    survey *s = context;
    sky_disk *d = s->disk;
    sky_disk_fact fact;
    sky_status status = survey_read(d, key, &fact);
    bool expired = status == SKY_OK && sky_disk_expired(d, fact.expire_ms);
    sky_mutex_lock(&s->mutex);
    d->counts.corrupt += status == SKY_E_CORRUPT;
    if (status == SKY_E_CORRUPT || expired)
        remove_file(d, key, &s->gone);
    else if (status == SKY_OK)
        survey_add(s, &fact);
    else
        s->unreadable += status != SKY_MISS;
    sky_mutex_unlock(&s->mutex);
}

/* The survey becomes the catalogue, and the ledger says the same. What has no room there goes, but
 * for what is pinned: that stands there unknown. */
static void adopt_survey(sky_disk *d, survey *s, view *v) {
    size_t too_many = sky_disk_catalogue_rebuild(d->catalogue, s->facts, s->count);
    v->ledger.known = v->mended = true;
    v->ledger.bytes_used = sky_disk_catalogue_bytes(d->catalogue);
    d->ledger_seen = v->locked ? v->ledger.changes : UINT64_MAX;
    d->unrecorded_changes = 0;
    d->unrecorded_bytes = 0;
    d->snapshot_wanted = true;
    d->unreadable = s->unreadable;
    d->absent = 0;
    for (size_t i = 0; i < too_many; i++) {
        const sky_disk_fact *fact = &s->facts[i];
        if (fact->pinned)
            v->ledger.bytes_used += sky_disk_fact_bytes(fact);
        else
            d->counts.evictions += remove_file(d, &fact->key, &s->gone) == SKY_OK;
    }
}

/* Read the folder anew. What went is not in the survey, so only the changes count. */
static sky_status view_refresh(sky_disk *d, view *v, uint64_t *swept, tally *t) {
    survey s = {.disk = d};
    sky_mutex_init(&s.mutex);
    sky_status status = sky_disk_folder_scan(&d->folder, survey_entry, &s, swept);
    if (status == SKY_OK && s.no_memory)
        status = SKY_E_NOMEM;
    if (status == SKY_OK) {
        adopt_survey(d, &s, v);
        *t = (tally){.changes = s.gone.changes};
    }
    sky_mutex_deinit(&s.mutex);
    free(s.facts);
    return status;
}

sky_status sky_disk_refresh(sky_disk *d, uint64_t *swept) {
    view v = view_open(d);
    tally t = {0};
    *swept = 0;
    sky_status status = view_refresh(d, &v, swept, &t);
    view_close(d, &v, t);
    return status;
}

sky_status sky_disk_recall(sky_disk *d) {
    view v = view_open(d);
    tally t = {0};
    uint64_t changes = 0, swept;
    sky_status status = SKY_OK;
    bool recalled = sky_disk_snapshot_load(&d->folder, d->catalogue, &changes);
    d->ledger_seen = changes;
    bool same_bytes = v.ledger.bytes_used == sky_disk_catalogue_bytes(d->catalogue);
    if (!recalled || !view_agrees(d, &v) || !same_bytes)
        status = view_refresh(d, &v, &swept, &t);
    view_close(d, &v, t);
    return status;
}

void sky_disk_remember(sky_disk *d) {
    if (!d->snapshot_wanted && !sky_disk_catalogue_changed(d->catalogue))
        return;
    view v = view_open(d);
    if (view_agrees(d, &v) && d->unrecorded_changes == 0)
        sky_disk_snapshot_save(&d->folder, d->catalogue, v.ledger.changes);
    view_close(d, &v, (tally){0});
}

bool sky_disk_revive(sky_disk *d) {
    if (!sky_disk_folder_lost(&d->folder))
        return false;
    sky_mutex_lock(&d->mutex);
    uint64_t swept;
    bool revived = sky_disk_folder_reopen(&d->folder) == SKY_OK &&
                   sky_disk_refresh(d, &swept) == SKY_OK;
    sky_mutex_unlock(&d->mutex);
    return revived;
}

/* ---- room ---- */

/* What stands between an entry and its place on the disk. */
typedef struct {
    sky_disk_amount evictable;
    uint64_t files_missing; /* the disk has too few left, whatever its bytes */
    bool can_fit;           /* evicting could do */
} need;

/* `excess` bytes must go for the limit, and the disk must then have room for the file and the
 * folders it needs. Asked before anything goes, so that what can never fit costs nothing. */
static need need_of(sky_disk *d, uint64_t excess, const sky_disk_claim *claim,
                    const sky_key *kept) {
    need n = {.evictable = sky_disk_catalogue_evictable(d->catalogue, kept)};
    unsigned files = sky_disk_temp_files(&d->folder, &claim->key);
    sky_file_space left;
    if (sky_file_space_left(d->folder.root, &left) != SKY_OK)
        left = (sky_file_space){UINT64_MAX / 2, UINT64_MAX};
    n.files_missing = left.files < files ? files - left.files : 0;
    n.can_fit = excess <= n.evictable.bytes && n.files_missing <= n.evictable.files &&
                claim->file_bytes <= left.bytes + n.evictable.bytes;
    return n;
}

static const sky_disk_claim *claim_of(const sky_disk *d, const sky_key *key) {
    const sky_disk_claim *claim = d->claims;
    while (claim && !sky_key_equal(&claim->key, key))
        claim = claim->next;
    return claim;
}

/* The nearest block before it that stands here, past those that are under way: it must not make
 * room for its own descendant. Zero when there is none to keep. False when the chain is broken. */
static bool find_kept(sky_disk *d, const sky_disk_claim *claim, sky_key *kept) {
    const sky_disk_claim *above = claim;
    sky_status status;
    *kept = claim->parent;
    for (unsigned i = 0; i < CLAIMS_MAX && (above = claim_of(d, kept)) != NULL; i++)
        *kept = above->parent;
    return above || sky_key_is_zero(kept) || sky_disk_look(d, kept, &status);
}

/* Evict what stands in the way of `needed` more bytes. */
static sky_status clear_room(sky_disk *d, view *v, uint64_t needed, const sky_disk_claim *claim,
                             const sky_key *kept, tally *t) {
    uint64_t used = bytes_used(d, v), goal = d->bytes_max, swept;
    sky_status status = SKY_OK;
    if (used + needed > goal && v->locked && !view_agrees(d, v)) {
        status = view_refresh(d, v, &swept, t);
        used = bytes_used(d, v);
        goal -= goal / SHARED_SLACK;
    }
    uint64_t excess = used + needed > goal ? used + needed - goal : 0;
    uint64_t least = used + needed > d->bytes_max ? used + needed - d->bytes_max : 0;
    if (status == SKY_OK && !need_of(d, least, claim, kept).can_fit)
        status = SKY_E_FULL;
    else if (status == SKY_OK)
        status = view_evict(d, excess, out_of_places(d), kept, t);
    bool enough = (int64_t)(used + needed) + t->bytes <= (int64_t)d->bytes_max;
    if (status == SKY_E_FULL && enough && sky_disk_catalogue_room(d->catalogue) > 0)
        status = SKY_OK; /* the slack is a wish */
    return status;
}

static sky_status make_room(sky_disk *d, const sky_disk_claim *claim) {
    uint64_t needed = d->bytes_claimed + claim->file_bytes;
    sky_key kept;
    if (needed > d->bytes_max)
        return SKY_E_FULL;
    bool reachable = find_kept(d, claim, &kept);
    view v = view_open(d);
    tally t = {0};
    sky_status status = SKY_OK;
    if (bytes_used(d, &v) + needed > d->bytes_max || out_of_places(d))
        status = reachable ? clear_room(d, &v, needed, claim, &kept, &t) : SKY_E_FULL;
    bool first = !d->writes;
    d->writes = true;
    t.changes += first;
    view_close(d, &v, t);
    if (first)
        sky_disk_ledger_sync(&d->folder); /* from here on a snapshot on the disk is out of date */
    return status;
}

sky_status sky_disk_claim_room(sky_disk *d, sky_disk_claim *claim) {
    sky_status status = make_room(d, claim);
    if (status != SKY_OK) {
        claim->file_bytes = 0;
        return status;
    }
    d->bytes_claimed += claim->file_bytes;
    claim->next = d->claims;
    d->claims = claim;
    return SKY_OK;
}

void sky_disk_claim_end(sky_disk *d, sky_disk_claim *claim) {
    sky_disk_claim **link = &d->claims;
    if (claim->file_bytes == 0)
        return;
    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    d->bytes_claimed -= claim->file_bytes;
    claim->file_bytes = 0;
}

sky_status sky_disk_evict(sky_disk *d, const sky_disk_claim *claim) {
    sky_key kept;
    if (!find_kept(d, claim, &kept))
        return SKY_E_FULL;
    view v = view_open(d);
    tally t = {0};
    sky_status status = SKY_E_FULL;
    need n = need_of(d, 0, claim, &kept);
    uint64_t bytes = claim->file_bytes, most = n.evictable.bytes;
    if (n.files_missing > 0)
        bytes = 0; /* it is not for want of them */
    if (n.evictable.files > 0 && n.can_fit)
        status = view_evict(d, bytes < most ? bytes : most, n.files_missing, &kept, &t);
    view_close(d, &v, t);
    return status;
}

/* ---- entries that come, go, and are looked at ---- */

/* A pin is the key's, not the file's: what takes the name takes over the pin that stands there,
 * which may have changed since the write began. An old entry that cannot be held or read says
 * nothing; then what this process knows counts. */
static sky_status take_name(sky_disk *d, sky_disk_temp *temp, sky_disk_fact *fact,
                            uint64_t *replaced_bytes) {
    sky_disk_hold old;
    const sky_disk_fact *known = sky_disk_catalogue_find(d->catalogue, &fact->key);
    sky_status held = sky_disk_entry_hold(&d->folder, &fact->key,
                                          sky_now() + SKY_DISK_HOLD_PATIENCE, &old);
    bool written = fact->pinned, pinned = known && known->pinned;
    if (held == SKY_OK || held == SKY_MISS)
        pinned = held == SKY_OK && old.header.access.pinned;
    sky_status status = SKY_OK;
    if (pinned != written) {
        sky_disk_access access = {fact->hits, fact->used_ms, pinned};
        status = sky_disk_temp_record(&d->folder, temp, &fact->key, &access);
    }
    if (status == SKY_OK)
        status = sky_disk_temp_publish(&d->folder, temp, &fact->key, replaced_bytes);
    if (held == SKY_OK)
        sky_disk_entry_release(&old);
    fact->pinned = pinned;
    return status;
}

sky_status sky_disk_publish(sky_disk *d, sky_disk_temp *temp, const sky_disk_fact *written) {
    view v = view_open(d);
    tally t = {0};
    uint64_t replaced_bytes;
    sky_disk_fact fact = *written;
    sky_status status = take_name(d, temp, &fact, &replaced_bytes);
    if (status == SKY_OK) {
        t.changes = 1;
        t.bytes = (int64_t)sky_disk_fact_bytes(&fact) - (int64_t)replaced_bytes;
        sky_disk_fact *kept = catalogue_admit(d, &fact, &t);
        if (kept)
            sky_disk_catalogue_pin(d->catalogue, kept, fact.pinned);
    }
    view_close(d, &v, t);
    return status;
}

/* A file goes while no other process gives another one its name. */
sky_status sky_disk_settle(sky_disk *d, const sky_disk_temp *temp, const sky_key *key) {
    if (!temp->replaced_file)
        return sky_disk_temp_settle(&d->folder, temp, key);
    view v = view_open(d);
    sky_status status = sky_disk_temp_settle(&d->folder, temp, key);
    view_close(d, &v, (tally){0});
    return status;
}

typedef struct {
    sky_disk *disk;
    tally gone;
    sky_status status; /* of the last file, which is that of the key itself */
} dropping;

static void drop_file(void *context, const sky_disk_fact *fact) {
    dropping *drop = context;
    drop->status = remove_file(drop->disk, &fact->key, &drop->gone);
}

static void drop_within(dropping *drop, const sky_key *key) {
    sky_disk *d = drop->disk;
    sky_disk_fact *fact = sky_disk_catalogue_find(d->catalogue, key);
    if (fact) {
        sky_disk_catalogue_remove(d->catalogue, fact, drop_file, drop);
    } else {
        sky_disk_catalogue_remove_orphans(d->catalogue, key, drop_file, drop);
        drop->status = remove_file(d, key, &drop->gone);
    }
}

sky_status sky_disk_drop(sky_disk *d, const sky_key *key, const sky_disk_opened *entry,
                         size_t *count) {
    view v = view_open(d);
    dropping drop = {.disk = d, .status = SKY_MISS};
    if (!entry || !sky_disk_entry_replaced(&d->folder, key, entry))
        drop_within(&drop, key);
    view_close(d, &v, drop.gone);
    *count = (size_t)drop.gone.changes;
    return drop.status;
}

static bool is_wanting(const sky_disk *d, sky_status loaded, const sky_disk_header *header) {
    return loaded == SKY_MISS || loaded == SKY_E_CORRUPT ||
           (loaded == SKY_OK && sky_disk_expired(d, header->expire_ms));
}

sky_status sky_disk_drop_wanting(sky_disk *d, const sky_key *key, sky_disk_header *header,
                                 size_t *count) {
    view v = view_open(d);
    dropping drop = {.disk = d};
    sky_status status = sky_disk_entry_load(&d->folder, key, header);
    if (is_wanting(d, status, header)) {
        drop_within(&drop, key);
        status = status == SKY_OK ? SKY_MISS : status;
    }
    view_close(d, &v, drop.gone);
    *count = (size_t)drop.gone.changes;
    return status;
}

sky_disk_fact *sky_disk_known(sky_disk *d, const sky_disk_header *header) {
    sky_disk_fact *known = sky_disk_catalogue_find(d->catalogue, &header->key);
    bool same = known && known->set_ms == header->set_ms && known->expire_ms == header->expire_ms &&
                known->payload_bytes == header->payload_bytes && known->level == header->level &&
                known->evict == header->evict;
    return same ? known : NULL;
}

sky_disk_fact *sky_disk_meet(sky_disk *d, const sky_disk_header *header) {
    sky_disk_fact fact = sky_disk_fact_of(header);
    sky_disk_fact *known = sky_disk_known(d, header);
    if (known)
        return known;
    view v = view_open(d);
    tally t = {0};
    sky_disk_fact *kept = catalogue_admit(d, &fact, &t);
    view_close(d, &v, t);
    return kept;
}

/* The file tells. */
static sky_disk_fact *look_at_file(sky_disk *d, const sky_key *key, bool known,
                                   sky_status *status) {
    sky_disk_header header;
    size_t dropped;
    *status = sky_disk_entry_load(&d->folder, key, &header);
    bool absent = !known && *status == SKY_MISS;
    if (!absent && is_wanting(d, *status, &header))
        *status = sky_disk_drop_wanting(d, key, &header, &dropped);
    if (*status != SKY_OK)
        return NULL;
    sky_disk_fact *fact = sky_disk_meet(d, &header);
    *status = fact ? SKY_OK : SKY_E_FULL;
    return fact;
}

void sky_disk_withdraw(sky_disk *d, const sky_disk_temp *temp, const sky_key *key) {
    sky_status status;
    const sky_disk_fact *fact = sky_disk_catalogue_find(d->catalogue, key);
    int64_t before = fact ? (int64_t)sky_disk_fact_bytes(fact) : 0;
    sky_disk_segments_withdraw(d->folder.segments, &temp->place);
    fact = look_at_file(d, key, fact != NULL, &status);
    int64_t after = fact ? (int64_t)sky_disk_fact_bytes(fact) : 0;
    view v = view_open(d);
    view_close(d, &v, (tally){.changes = 1, .bytes = after - before});
}

sky_disk_fact *sky_disk_meet_read(sky_disk *d, const sky_disk_header *header) {
    sky_disk_fact *known = sky_disk_known(d, header);
    sky_status status;
    if (known)
        return known;
    bool stale = sky_disk_catalogue_find(d->catalogue, &header->key) != NULL;
    return look_at_file(d, &header->key, stale, &status);
}

sky_disk_fact *sky_disk_look(sky_disk *d, const sky_key *key, sky_status *status) {
    sky_disk_fact *fact = sky_disk_catalogue_find(d->catalogue, key);
    if (!fact || sky_disk_expired(d, fact->expire_ms))
        return look_at_file(d, key, fact != NULL, status);
    *status = SKY_OK;
    return fact;
}

sky_disk_fact *sky_disk_look_closely(sky_disk *d, const sky_key *key, sky_status *status) {
    sky_disk_ledger ledger;
    sky_disk_ledger_peek(&d->folder, &ledger);
    if (ledger.known && ledger.changes == d->ledger_seen)
        return sky_disk_look(d, key, status);
    return look_at_file(d, key, sky_disk_catalogue_find(d->catalogue, key) != NULL, status);
}

void sky_disk_record_uses(sky_disk *d, sky_disk_fact *fact) {
    sky_disk_access access = {.hits = fact->hits, .used_ms = fact->used_ms};
    sky_status status = SKY_E_DENIED;
    if (sky_disk_folder_writable(&d->folder))
        status = sky_disk_entry_record(&d->folder, &fact->key, &access, false);
    fact->unrecorded = status == SKY_E_BUSY; /* the next round has it */
}

/* Write whether it is pinned into its file, for all processes. */
static sky_status record_pin(sky_disk *d, sky_disk_fact *fact, bool pinned) {
    sky_disk_access access = {fact->hits, fact->used_ms, pinned};
    view v = view_open(d);
    sky_status status = sky_disk_entry_record(&d->folder, &fact->key, &access, true);
    fact->unrecorded &= status != SKY_OK;
    view_close(d, &v, (tally){.changes = status == SKY_OK});
    return status;
}

sky_status sky_disk_pin(sky_disk *d, const sky_key *key, bool pin) {
    sky_disk_header header;
    sky_status status;
    size_t dropped;
    sky_disk_fact *fact = sky_disk_look(d, key, &status);
    if (!fact)
        return status;
    if (!sky_disk_folder_writable(&d->folder))
        return SKY_E_DENIED;
    status = sky_disk_entry_load(&d->folder, key, &header);
    if (is_wanting(d, status, &header)) {
        status = sky_disk_drop_wanting(d, key, &header, &dropped);
        fact = status == SKY_OK ? sky_disk_meet(d, &header) : NULL;
    }
    if (status != SKY_OK || !fact)
        return status == SKY_OK ? SKY_E_FULL : status;
    bool pinned = header.access.pinned; /* another may have changed it */
    if (pinned == pin)
        status = pin ? SKY_OK : SKY_E_PARAM;
    else if ((status = record_pin(d, fact, pin)) == SKY_OK)
        pinned = pin;
    sky_disk_catalogue_pin(d->catalogue, fact, pinned);
    return status;
}
