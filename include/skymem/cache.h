/* The cache: payloads under keys, in tiers from nearest to farthest, used as one.
 *
 *   submit(items) ──► batch id          one eventfd becomes readable when a batch is done;
 *        │                              drain returns the ids of finished batches
 *        ▼
 *   [ memory ] ─miss─► [ disk ] ─miss─► [ sky ]        reads go from tier to tier
 *        └──── written back ────┴───────────┘          the blocking calls wrap all this
 *
 * Two kinds of keys:
 *  - A block's key is the hash of its content's origin (skymem/keys.h); a block never changes. A
 *    put is done when one tier has the block. The other tiers get it by write-back, after the
 *    answer.
 *  - A key with a name (sky_item.name) may get another value. A put is done when every tier that
 *    takes part has the new value, or no value, of that name. So a get never returns a value that
 *    is older than the last acknowledged put, neither in this process nor, after it ended or was
 *    killed, in the next. Only a loss of power may bring the older value back; a durable put
 *    survives that too. A put that fails leaves the old or the new value; one that ends SKY_E_FULL
 *    may leave neither in memory, where the old one may have gone to make room. So may one in a sky
 *    with copies, when satellites took the new value and none of them was heard.
 *
 * When a farther tier answered a get, the payload is copied to the nearest tier and to those in
 * between that lack it. This promotion happens after the answer, and may be given up. But a get of
 * a whole payload, at any level, into spans without gaps leaves it in memory before it ends: the
 * farther tier is read once.
 *
 * Caveats:
 *  - Items and the buffers behind their spans belong to the cache from submit until the batch is
 *    drained, waited for, or cancelled. After that the cache never touches them again, even if a
 *    disk or a satellite answers later.
 *  - The bytes of a get are undefined unless the item's status is SKY_OK.
 *  - A miss is a result. Damaged bytes are never returned: they are dropped, counted as corrupt and
 *    as a miss, and the next tier is asked. When no tier has the payload whole, the item ends
 *    SKY_E_CORRUPT rather than SKY_MISS.
 *  - What another host or real satellites hold is not known while they do not answer. A key that no
 *    other tier has then ends SKY_E_UNAVAILABLE rather than SKY_MISS. So does a removal that did
 *    not reach them, and a put of a name that other tiers took: they may keep an older value.
 *  - Threads: every call is safe from any thread. The blocking calls (sky_run, sky_cache_prefix)
 *    never show up in sky_drain. A batch of sky_submit is handed out once, to the first thread that
 *    drains or waits for it. sky_cache_close must be the last call: no other may be under way or
 *    follow.
 *  - fork: a cache belongs to the process that opened it. In a child of fork() every call returns
 *    SKY_E_FORKED at once (or nothing, where it returns no status) and sky_cache_close does
 *    nothing; the child may open a cache of its own.
 *  - Wrong arguments: what can be checked ends in SKY_E_PARAM and changes nothing. */
#ifndef SKYMEM_CACHE_H
#define SKYMEM_CACHE_H

#include <skymem/types.h>
#include <skymem/version.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SKY_OP_HAS,      /* is the key there? bytes = payload bytes */
    SKY_OP_GET,      /* copy the range of the payload into the spans */
    SKY_OP_PUT,      /* store the spans' bytes under the key, instead of what was there before */
    SKY_OP_REMOVE,   /* drop the key, and every block that only it makes reachable */
    SKY_OP_PREFETCH, /* bring the payload to the nearest tier */
    SKY_OP_PIN,      /* never evict. A key is pinned or not: twice is once. Takes effect after the
                        writes of the key before it. Where a tier takes part whose content outlives
                        the process, SKY_OK means that such a tier holds the key pinned: what only
                        memory has is stored there first. What was put with a time to live ends
                        with it all the same. Real satellites let a pin lapse 168 hours after it
                        was last renewed, by a pin, a put or a get, and do not evict until then
                        what is within its tenant's share */
    SKY_OP_UNPIN,    /* SKY_E_PARAM when it is there and not pinned; in a sky all that is there may
                        be unpinned, as another process may have pinned it */
    SKY_OP_LEASE,    /* read the payload without a copy: fills `view` and `lease`. The lease is of
                        the nearest tier that leases (SKY_TIER_LEASES) and has the payload. If only
                        other tiers have it, it is first copied to the nearest tier; if that does
                        not lease, the result is a miss. SKY_E_UNSUPPORTED when no tier that takes
                        part leases; SKY_E_BUSY when SKY_LEASES_MAX leases are held (of a host
                        16,384, and a GET of what it holds ends so too then) */

    /* Blocks on their way from one program to another (docs/decisions/0052). Farther tiers take
       part that have SKY_TIER_ANNOUNCES. */
    SKY_OP_ANNOUNCE, /* say that the caller makes this block and will put it. It ends with the put;
                        with a WITHDRAW by the same owner (sky_call.owner, 0 too); with the owner
                        (sky_release_owner) or its connection; after ttl_s seconds (0, or more than
                        600: 600). SKY_E_BUSY: too many are announced */
    SKY_OP_AWAIT,    /* has; and if no tier has the block but it is announced: wait for it. SKY_OK
                        when it is stored, SKY_MISS when nobody is to put it any more. Every tier is
                        asked, those that may be slow while the wait is under way. The call needs a
                        deadline, or it is SKY_E_PARAM. SKY_E_BUSY: SKY_AWAITED_MAX wait already */
    SKY_OP_WITHDRAW, /* the caller will not put this block. SKY_OK, announced or not */
    SKY_OP_EXPECT,   /* await; and if nobody has announced the block yet: wait for that too. Ends
                        like an await once it is announced, and with SKY_E_DEADLINE when nobody
                        did. Where farther tiers have SKY_TIER_ANNOUNCES they do the waiting, and
                        the call ends when none of them waits any more */
} sky_op;

typedef struct {
    uint64_t id; /* 0: none */
} sky_batch;

typedef struct {
    uint64_t id; /* 0: none */
} sky_lease;

#define SKY_TIERS_MAX           8
#define SKY_TIER_NONE           UINT8_MAX
#define SKY_BATCH_ITEMS_MAX     65536
#define SKY_BATCHES_MAX         1024
#define SKY_LEASES_MAX          65536
#define SKY_CODINGS_MAX         8
#define SKY_PAYLOAD_BYTES_MAX   4294967295u
#define SKY_ANNOUNCED_MAX       65536      /* in a cache */
#define SKY_ANNOUNCED_OWNER_MAX 16384      /* of one owner */
#define SKY_AWAITED_MAX         512        /* in a cache: items that wait at once */
#define SKY_VERSION_NONE        UINT64_MAX /* of what is not stored: see sky_call.if_version */

/* One key of a batch. Zero what you do not set. */
typedef struct {
    sky_key key;
    /* put, and what may bring a copy nearer (get, prefetch, lease): such a copy gets them too */
    sky_key parent; /* key of the block before, zero for the first; a put of a general key with one
                         is SKY_E_PARAM */
    const char *name; /* the name of a general key, kept for `list`; NULL for blocks */
    size_t name_bytes;
    const sky_span *spans; /* put: what to store; get: where it goes */
    uint32_t span_count;
    sky_range range; /* get: which part of the payload; {0, 0} means all of it */

    sky_status status; /* filled: SKY_PENDING until done */
    uint8_t tier;      /* filled: index of the tier that answered, SKY_TIER_NONE if none did */
    uint64_t bytes;    /* filled: bytes moved; for has, bytes stored */
    sky_coding coding; /* filled by has and get: of what is stored, where the tier tells */
    uint32_t ttl_s;    /* filled by get where the tier tells: seconds it is still kept, 0: no end */
    bool pinned;       /* filled by has: it is pinned in the tier that answered. A sky tells of the
                          pins of this cache */
    uint8_t evict;     /* filled by has, get and lease where the tier tells: its class, as in
                          sky_call.evict. Of a block a disk tells the class of its put, memory
                          the one that it has by the blocks behind it */
    sky_span view;     /* filled by LEASE: the payload, to be read only, valid and unchanged until
                          it is released, whatever becomes of the key; else {0} */
    sky_lease lease;
    uint64_t version; /* filled by get, has and put of a key with a name, where the tier that
                         answered keeps versions (SKY_TIER_VERSIONS): that of the value, which grows
                         with each put. With SKY_E_CONFLICT: of the value that is stored instead,
                         0: none is. Else 0 */
} sky_item;

/* How a batch is to be done; NULL means all zeros.
 *
 * When a put is done:
 *   block                   one tier has it; each other tier has it or has room for it in its queue
 *   block, `drop`           one tier has it
 *   key with a name         all tiers that take part have the new value, or none of that name; and
 *                           one has it whose content outlives the process, if such a one takes part
 *   `durable`, in addition  the tier whose content outlives the process, if such a one takes part,
 *                           has it on stable storage
 * A block for which a tier's queue has no room is written to that tier before the put ends. So a
 * caller that puts more than a tier can take waits for it, up to the deadline. With `drop` that
 * tier goes without, which SKY_METRIC_TIER_DROPPED (skymem/metrics.h) and the next sky_flush tell.
 * The same happens, with or without `drop`, while a tier is being skipped because it fails. */
typedef struct {
    sky_time deadline_ns; /* on sky_now()'s clock; then items end SKY_E_DEADLINE. 0: none, but that
                             a tier that has not answered for 60 s is given up: what it was asked
                             for ends SKY_E_DEADLINE, unless another tier has it; where a
                             host is the nearest tier, sky_run waits 60 s in all */
    uint32_t ttl_s;       /* put: forget after this many seconds; 0: the tier's own rule. Real
                             satellites know of no end: sky+udp refuses it, SKY_E_UNSUPPORTED */
    sky_coding coding;    /* put: of the bytes in the spans */
    sky_coding wanted;    /* Restricts the call to one codec level. 0 (default): get and has use the
                             best stored level; put stores every configured level, and fails the
                             item if one is refused. Otherwise get and has consider only this level
                             (else SKY_MISS), and put stores only it (else SKY_E_UNSUPPORTED). Tiers
                             without levels ignore it */
    bool durable;         /* put: on stable storage when it is done; see above */
    bool drop;            /* put of a block: go without a tier whose queue is full; see above */
    bool no_touch;        /* get: read without a trace: it is no use for the order of eviction, and
                             nothing is promoted. mem and disk keep to it; others count a use */
    uint8_t evict;        /* put: SKY_EVICT_NORMAL, _SOON or _LAST. mem and disk keep to it, of this
                             process or of a host, and copies from one to the other keep it. Skies
                             and drivers know no classes. A block is of no lower class than those
                             behind it. LAST is for at most half of the tier's bytes and entries */
    uint32_t tiers; /* bit i: tier i may take part; 0: all. Bits of no tier say nothing. What is
                             promised of a key holds among the tiers that take part in all of its
                             operations: a value put to some tiers alone is older or newer there
                             than in the others, and a get of all finds the nearest */
    int64_t at_ms;  /* prefetch: wall; move the payload in skies to where it will be overhead
                             then, in every tier that is one; 0: to the nearest tier, now */
    int event_fd;   /* above 0: an eventfd of the caller's, raised when the batch is done. The
                             batch then shows up neither at sky_event_fd nor in sky_drain: sky_wait
                             and sky_cancel take it. It must stay open until one of them did. It is
                             not raised when the deadline passes: look then. SKY_E_PARAM when it is
                             no eventfd */
    uint64_t owner; /* lease, announce, withdraw: its owner, a number that the caller chooses, such
                       as a client's; see sky_release_owner. 0: no owner */
    uint64_t if_version; /* put of keys with a name, and remove: only if the value that is stored
                            has this version (sky_item.version); SKY_VERSION_NONE: only if none is.
                            Else the item ends SKY_E_CONFLICT, and sky_item.version tells which is.
                            Of calls that race, from any process, one wins. SKY_E_UNAVAILABLE: it
                            may have happened. One tier takes part (see `tiers`), and has
                            SKY_TIER_VERSIONS. 0: whatever is stored */
} sky_call;

typedef struct sky_cache sky_cache;

/* Open a hierarchy, nearest tier first.
 *   mem:SIZE[?shared=yes|no]          process memory; shared: as skymemd shows it to others
 *   shm:SOCKET[?user=NAME&pool=NAME&tier=N&evict=normal|soon|last]
 *                                     the store of a host (skymem/host.h), for all processes
 *   skymem://HOST:PORT?key=FILE       the store of another host (skymem/peer.h); or ?plain=yes
 *   skymem://?peers=FILE              those of several hosts, a line each (docs/formats/peer.md)
 *   disk:PATH[?max=SIZE&ttl=S&direct=auto|on|off&create=yes|no&fill=puts|evictions]
 *                                     max: 8GiB if not given
 *   sky:SCENARIO.yaml[?scale=X&seed=N]  a constellation in this process, delayed in real time
 *   sky+udp:SCENARIO.yaml             real satellites, addresses in the file
 * shm:auto is the host of this user: the first that opens it starts skymemd. pool: stores of their
 * own that the host's configuration names, whose sizes are the pool's quota. evict: the class of
 * puts whose sky_call.evict is SKY_EVICT_NORMAL. tier: of the host's
 * own tiers that one alone, its nearest is 0; a get or lease brings payloads to that all the same.
 * Payloads put under shm: stay when this process ends. If the host ends, operations under way end
 * with SKY_E_IO; later operations connect again. Leased payloads stay readable.
 * With create=no a disk's folder must be there, and one where nothing was ever stored is left so.
 * direct=auto (default): a disk writes past the page cache, where the file system can, and reads
 * through it. on: it does both past it. off: both through it.
 * A folder that is removed while it is in use is made again by the next write, but with create=no.
 * Several disks make levels. What a nearer disk is about to evict is copied to the next tier that
 * lacks it (docs/decisions/0054). fill=puts (default): a disk also gets each block that is put.
 * fill=evictions: it gets blocks only as nearer tiers evict them, and values with names, durable
 * puts, and what no other tier took; a nearer tier must be a disk.
 * With level=L (a name as sky_level_parse takes it) every tier but mem keeps blocks coded at that
 * level, once sky_cache_codec_set told how; with level=L,L,… at each of these, so that a get may
 * choose: see sky_call.
 * Owner:  the strings are copied
 * Errors: SKY_E_SYNTAX (a URL), SKY_E_PARAM (none, more than SKY_TIERS_MAX, or one folder twice),
 *         SKY_MISS (a folder that create=no does not make), and what the tier says when it cannot
 *         open; `error` tells which URL and why */
static inline sky_status sky_cache_open(const char *const *urls, size_t url_count, sky_cache **out,
                                        sky_error *error);

/* The same for a program that was compiled with the headers of `version` (SKY_VERSION_NUMBER): what
 * sky_cache_open calls, and bindings of other languages should. Structures may grow from one minor
 * version to the next; a library that does not know those of the program refuses it here, before it
 * reads one.
 * Errors: SKY_E_UNSUPPORTED (headers of another minor version than the library's; `error` names
 *         both), and those of sky_cache_open */
SKY_API sky_status sky_cache_open_version(uint32_t version, const char *const *urls,
                                          size_t url_count, sky_cache **out, sky_error *error);

static inline sky_status sky_cache_open(const char *const *urls, size_t url_count, sky_cache **out,
                                        sky_error *error) {
    return sky_cache_open_version(SKY_VERSION_NUMBER, urls, url_count, out, error);
}

/* Waits for what sky_flush waits for, at most 10 s, then closes. A caller that must know what was
 * not stored calls sky_flush before. Cancels batches still under way, as sky_cancel does. Leases
 * end with it: what they show is gone. No other call on the cache may be under way or follow. NULL
 * is fine. */
SKY_API void sky_cache_close(sky_cache *cache);

/* How blocks (keys without a name) are coded for tiers that keep them so. A coded value tells what
 * it is; what was stored as it came is read as it is. Functions may be called from several threads
 * at once, each with work memory of its own. */
typedef struct {
    void *self;
    uint64_t payload_bytes;   /* of every block that is coded; others are stored as they come */
    uint64_t coded_bytes_max; /* at any level */
    size_t work_bytes;        /* of working memory, aligned to 64 bytes */

    /* Errors: any: the block is then stored as it came */
    sky_status (*encode)(void *self, sky_coding coding, const void *payload, void *dst,
                         uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work);
    /* Code at `coding` what is coded at a higher level. Errors: any: it is then stored as it is */
    sky_status (*lower)(void *self, sky_coding coding, const void *coded, uint64_t bytes, void *dst,
                        uint64_t dst_bytes_max, uint64_t *dst_bytes, void *work);
    /* How many leading bytes of a coded value most likely hold `range` of the payload. */
    uint64_t (*likely_bytes)(void *self, sky_coding coding, sky_range range);
    /* Put `range` of the payload into the spans (data NULL: passed over), from the leading bytes of
     * what is stored, coded or not. `whole`: there are no more than these. When it fails, the spans
     * may have been scribbled on.
     * Errors: SKY_PENDING: *needed leading bytes would do; SKY_MISS: coded in a way that this codec
     *         cannot undo; SKY_E_CORRUPT; SKY_E_PARAM (range); SKY_E_DST_SMALL */
    sky_status (*decode)(void *self, const void *data, uint64_t bytes, bool whole, sky_range range,
                         const sky_span *spans, uint32_t span_count, uint64_t *moved_bytes,
                         uint64_t *needed, void *work);
} sky_block_codec;

/* From now on tiers with a level use this; NULL: none. One without all its functions is ignored.
 * Without a codec coded blocks come as they are stored, and so they do from tiers without a level,
 * always; the manager decodes those. What is under way may still use the one before, until the call
 * returns.
 * Owner:  codec stays the caller's and must stay until it is replaced or the cache is closed */
SKY_API void sky_cache_codec_set(sky_cache *cache, const sky_block_codec *codec);

/* Start a batch. Returns at once: memory copies happen inside the call, nothing else does.
 * Order: operations on one key take effect in the order of their submits: a GET or HAS after a PUT
 * or REMOVE of the same key sees it in every tier, whether that was waited for or not, and a HAS
 * after a PIN or UNPIN. One that was submitted before a write may see what was there before it,
 * what is written, or that the key is being replaced (a miss). Another process's writes are seen by
 * GET and by HAS of a single key where memory does not answer: `mem` goes on with what it has, and
 * a HAS of many, and sky_cache_prefix, may be answered from what a disk's index remembers. A sky
 * answers a HAS of a block, sky_cache_prefix and sky_list from what its ground knows: a block that
 * was evicted or removed by another is missed by the GET.
 * Errors: SKY_E_PARAM (NULL, no items or more than SKY_BATCH_ITEMS_MAX, an unknown op, no tier that
 *         takes part, a level or class that is none, spans or a name
 *         NULL with a count, a named put with a
 *         parent, event_fd, if_version of another op or of a put without a name),
 *         SKY_E_UNSUPPORTED (if_version, and not one tier takes part that has
 *         SKY_TIER_VERSIONS), SKY_E_BUSY (SKY_BATCHES_MAX batches
 *         under way or finished and not yet drained or waited for), SKY_E_NOMEM, SKY_E_FORKED;
 *         nothing was started then */
SKY_API sky_status sky_submit(sky_cache *cache, sky_op op, sky_item *items, size_t item_count,
                              const sky_call *call, sky_batch *out);

/* Readable while a finished batch waits to be drained, or a deadline has passed. Poll it; do not
 * read it. -1 in a child of fork(). */
SKY_API int sky_event_fd(const sky_cache *cache);

/* Ids of finished batches, at most `max`; never blocks. */
SKY_API size_t sky_drain(sky_cache *cache, sky_batch *done, size_t max);

/* Wait for one batch and take it off the drain queue.
 * Errors: SKY_E_DEADLINE when `until` passes first: the batch is still under way, cancel it or wait
 *         again; SKY_E_PARAM for an unknown batch; SKY_E_FORKED */
SKY_API sky_status sky_wait(sky_cache *cache, sky_batch batch, sky_time until);

/* Give a batch up. When this returns the buffers are the caller's; unfinished items end
 * SKY_E_CANCELLED. A put that is cancelled may have reached some tiers, or none. An unknown batch
 * is fine. */
SKY_API void sky_cancel(sky_cache *cache, sky_batch batch);

/* Return a lease whose call named no owner. {0} is fine.
 * Errors: SKY_E_PARAM (no such lease is out: it was returned before), SKY_E_DENIED (it has an
 *         owner), SKY_E_FORKED */
SKY_API sky_status sky_release(sky_cache *cache, sky_lease lease);
/* Return a lease of an owner. {0} is fine.
 * Errors: as sky_release; SKY_E_DENIED when it is another owner's */
SKY_API sky_status sky_release_owned(sky_cache *cache, uint64_t owner, sky_lease lease);
/* Return all leases of an owner that is gone, such as a client that died, and end what it announced
 * to this cache. Its lease calls under way end SKY_E_CANCELLED. *released (NULL: not wanted): how
 * many leases it held. The call reads the whole table of leases, at most SKY_LEASES_MAX.
 * Errors: SKY_E_PARAM (NULL; owner 0, which is nobody), SKY_E_FORKED */
SKY_API sky_status sky_release_owner(sky_cache *cache, uint64_t owner, uint64_t *released);

/* Submit and wait. Returns SKY_OK when the batch ran; each item has its own status. */
SKY_API sky_status sky_run(sky_cache *cache, sky_op op, sky_item *items, size_t item_count,
                           const sky_call *call);

/* How many leading keys are present in some tier, and how large each is. *present is set in any
 * case: when something failed, to what had been found before. There is no limit on key_count: many
 * keys are looked up in several batches. Of none SKY_OK and 0 are the result.
 * Shape:  payload_bytes [key_count] or NULL, filled up to *present
 * Errors: SKY_E_PARAM (NULL, and what sky_submit refuses in `call`), SKY_E_NOMEM, SKY_E_BUSY,
 *         SKY_E_FORKED; else what the lookup of the first key that was not found came to, such as
 *         SKY_E_DEADLINE or SKY_E_IO. A miss is no error */
SKY_API sky_status sky_cache_prefix(sky_cache *cache, const sky_key *keys, size_t key_count,
                                    const sky_call *call, uint64_t *payload_bytes, size_t *present);

/* Wait until everything queued for farther tiers is stored or given up, and promotions are over.
 * Puts that are not done yet are not waited for: wait for their batches first.
 * *dropped (NULL: not wanted): how many writes of acknowledged blocks a farther tier did not store,
 * since the cache was opened or a flush ended in time before. A block that two tiers lack counts
 * twice.
 * Errors: SKY_E_DEADLINE (`until` came first; the next flush counts the same writes too),
 *         SKY_E_FORKED; if writes were dropped, what the tier
 *         said of the last of them, such as SKY_E_IO, SKY_E_DENIED or SKY_E_FULL */
SKY_API sky_status sky_flush(sky_cache *cache, sky_time until, uint64_t *dropped);

typedef struct {
    sky_key key;
    const char *name; /* NULL for a block; else NUL-terminated, any byte before name_bytes */
    size_t name_bytes;
    uint64_t bytes;
    int64_t set_ms;
    uint64_t hits;
    uint8_t tier;
    bool pinned;
    sky_coding coding; /* of what is stored, where the tier tells */
    sky_key parent;    /* of a block: the key of the block before it; zero: it is the first of its
                          prompt, or the tier does not know */
    uint8_t evict;     /* its class, as in sky_call.evict, where the tier tells */
    int64_t used_ms;   /* wall: when it was last put or read; 0: the tier does not keep it */
} sky_entry;

/* Every entry of every tier, in no particular order; the callback returns false to stop. A block
 * that a tier keeps at several levels is an entry for each.
 * Owner:  the entry is borrowed for the call
 * Errors: SKY_E_PARAM, SKY_E_FORKED; the first that a tier said of what it cannot read, such as
 *         SKY_E_IO: the callback has seen everything else */
typedef bool (*sky_entry_fn)(void *context, const sky_entry *entry);
SKY_API sky_status sky_list(sky_cache *cache, sky_entry_fn each, void *context);

typedef struct {
    uint64_t entries;
    uint64_t bytes;
    uint64_t corrupt; /* damaged entries: counted and dropped */
    uint64_t orphans; /* left-overs of interrupted writes, blocks whose parent is gone: dropped */
} sky_verify_report;

/* Read and check every byte of every tier.
 * Errors: SKY_E_PARAM, SKY_E_FORKED, SKY_E_CANCELLED (sky_verify_cancel); the first that a tier
 *         said of what it cannot read, such as SKY_E_IO: everything else is checked, what is
 *         damaged dropped, and *out tells of it */
SKY_API sky_status sky_verify(sky_cache *cache, sky_verify_report *out);
/* End every sky_verify of the cache under way on other threads: each returns SKY_E_CANCELLED after
 * the entry that it reads. What another process checks (shm:, skymem://) it checks to the end.
 * Threads: any */
SKY_API void sky_verify_cancel(sky_cache *cache);

/* What a tier is, in sky_tier_stat.traits; any of them together. */
#define SKY_TIER_LEASES      1u  /* reads without a copy: SKY_OP_LEASE */
#define SKY_TIER_VOLATILE    2u  /* its payloads are lost when this process ends */
#define SKY_TIER_UNLISTED    4u  /* sky_list does not show all its entries */
#define SKY_TIER_SKY         8u  /* satellites keep it: sky_cache_chunks and the like work */
#define SKY_TIER_REMOTE      16u /* other processes answer, over a network */
#define SKY_TIER_SYNCHRONOUS 32u /* answers inside sky_submit: mem */
#define SKY_TIER_WHOLE       64u /* reads all of a value, whatever part of it is asked for */
#define SKY_TIER_VERSIONS                                                                          \
    128u /* tells versions, and knows sky_call.if_version: skies with a
                                    lookup other than index */

#define SKY_TIER_ANNOUNCES 256u /* what is announced there, other processes await: shm, skymem */
#define SKY_TIER_VICTIMS   512u /* blocks come here as a nearer tier evicts them: fill=evictions */

/* What a tier is, and how it is; what it counts is in skymem/metrics.h. */
typedef struct {
    char url[256];
    uint32_t traits; /* SKY_TIER_LEASES and the others */
    bool failing;    /* errors in a row: skipped until it is tried again */
    char note[160];  /* what a person should know: "O_DIRECT refused, using the page cache" */
    sky_coding codings[SKY_CODINGS_MAX]; /* at which it keeps blocks, best first; 0 ends them */
} sky_tier_stat;

/* How many tiers there are, nearest first. */
SKY_API size_t sky_tier_count(const sky_cache *cache);
/* What a tier is: SKY_TIER_LEASES and the others, as in sky_tier_stat, and without asking it. 0: no
 * such tier. */
SKY_API uint32_t sky_tier_traits(const sky_cache *cache, size_t tier);
/* What a tier is, and how it is now.
 * Errors: SKY_E_PARAM: no such tier */
SKY_API sky_status sky_cache_stat(sky_cache *cache, size_t tier, sky_tier_stat *out);

#ifdef __cplusplus
}
#endif
#endif
