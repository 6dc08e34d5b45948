/* Stores of your own as tiers of a cache.
 *
 *   static const sky_tier_driver dir = {.struct_bytes = sizeof dir, .open = …, .read = …, …};
 *   sky_tier_register("dir", &dir);
 *   sky_cache_open((const char *[]){"mem:1GiB", "dir:/somewhere"}, 2, &cache, &error);
 *
 * A driver keeps values under 32-byte keys, by a few functions that may wait. The library does the
 * rest: batches, deadlines, cancelling, threads, ranges, checksums, names, times to live, codec
 * levels (dir:/somewhere?level=4), statistics. docs/writing-a-tier.md walks through an example.
 *
 *   cache ──batch──► worker threads ──► driver->write(key, value)
 *                                          value = | head 128 B | name | payload |
 *
 * What a driver tier does differently from memory and disk:
 *  - SKY_OP_REMOVE removes one key. Blocks below it stay until the driver drops them; a prefix ends
 *    before the removed block, so that they are not found.
 *  - SKY_OP_LEASE ends SKY_E_UNSUPPORTED when there is no `lease`, SKY_OP_PIN and SKY_OP_UNPIN of a
 *    key that is there when there is no `pin`.
 *  - A put whose batch was cancelled, or is past its deadline, may still be stored when the driver
 *    was already writing it. Later operations on the key come after it.
 *
 * A driver is not trusted: a value that is damaged, cut short, too long, or of another key is
 * counted as corrupt, removed, and answered as a miss. A status that its function may not return
 * counts as SKY_E_IO. */
#ifndef SKYMEM_TIER_H
#define SKYMEM_TIER_H

#include <skymem/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_TIER_DRIVERS_MAX        32
#define SKY_TIER_DRIVER_THREADS_MAX 8
#define SKY_TIER_SCHEME_BYTES_MAX   15

/* Called by `list` for each key; false: stop. NULL for a key is passed over. */
typedef bool (*sky_tier_key_fn)(void *context, const sky_key *key);

/* A leased value. */
typedef struct {
    const void *data; /* the whole value, readable and unchanged until it is released */
    uint64_t bytes;
    void *handle; /* what `release` gets; NULL is fine */
} sky_tier_lent;

/* The functions of a store. Zero what you do not set.
 * Threads: operations on one key come one after another, from one thread; only where a caller lists
 *          or verifies, reads and removals come from the caller's, still one after another with
 *          the others of their key. With threads above 1, operations on different keys come at the
 *          same time; with 1 nothing does. */
typedef struct {
    size_t struct_bytes; /* sizeof(sky_tier_driver) of the caller's header */
    uint32_t threads;    /* worker threads, 1 to SKY_TIER_DRIVER_THREADS_MAX; 0: 1 */
    uint32_t traits;     /* SKY_TIER_VOLATILE, SKY_TIER_REMOTE; 0: files of this machine, say */

    /* Open a store; *self is passed to the other functions. `where` is what follows the scheme and
     * its colon, with the query, without level=.
     * Errors: any of skymem/status.h but SKY_PENDING, others count as SKY_E_IO; write a sentence
     *         into *error, which is empty before
     * NULL: `open_with` is there instead, below. */
    sky_status (*open)(const char *where, void **self, sky_error *error);
    /* Copy the bytes [offset, offset + bytes) of a value to `data`, fewer where the value ends
     * before; *value_bytes: the size of the whole value. One call must see one value, never the
     * beginning of one and the end of another.
     * Errors: SKY_MISS, SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM, SKY_E_BUSY, SKY_E_CORRUPT */
    sky_status (*read)(void *self, const sky_key *key, uint64_t offset, void *data, uint64_t bytes,
                       uint64_t *value_bytes);
    /* Store a value under the key, instead of what is there: readers see the old value or the new
     * one. durable: return when it would survive a loss of power.
     * Errors: SKY_E_FULL, SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM, SKY_E_BUSY */
    sky_status (*write)(void *self, const sky_key *key, const void *value, uint64_t bytes,
                        bool durable);
    /* Errors: SKY_MISS (it is not there), SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM, SKY_E_BUSY */
    sky_status (*remove)(void *self, const sky_key *key);
    /* Call `each` for every key, in any order. A key that comes or goes meanwhile may be left out.
     * NULL: it cannot tell; then ls, du and verify do not see what it holds.
     * Errors: SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM, SKY_E_BUSY */
    sky_status (*list)(void *self, sky_tier_key_fn each, void *context);
    /* How many values there are, their bytes, and the most it takes (0: no limit of its own). It is
     * called for statistics, so it should be quick. With threads 1 it is not called while another
     * function runs: statistics then show the last counts. NULL: it does not count.
     * Errors: any; the last counts then stand */
    sky_status (*usage)(void *self, uint64_t *entries, uint64_t *bytes, uint64_t *bytes_max);
    /* No other call is under way or follows. NULL: nothing is to be done. */
    void (*close)(void *self);

    /* Lease a value: no write, removal or eviction changes its bytes until `release`. The library
     * checks the payload before a caller sees it. NULL, with `release` NULL too: no leases.
     * Errors: as of read */
    sky_status (*lease)(void *self, const sky_key *key, sky_tier_lent *out);
    /* Called once for each lease, at the latest before close; from any thread, while other
     * functions run (with threads 1: between them). It should be quick. */
    void (*release)(void *self, const sky_tier_lent *lent);
    /* A pinned value is never evicted; a write under its key leaves it pinned. A second
     * pin changes nothing. NULL, with `pinned` NULL too: no pins.
     * Errors: SKY_MISS, SKY_E_FULL (no more pins), SKY_E_IO, SKY_E_DENIED, SKY_E_NOMEM,
     *         SKY_E_BUSY */
    sky_status (*pin)(void *self, const sky_key *key, bool pinned);
    /* Errors: as of pin */
    sky_status (*pinned)(void *self, const sky_key *key, bool *pinned);

    /* As `open`, and the registration's own context comes along: one function serves several
     * schemes. Either this or `open` is NULL. */
    sky_status (*open_with)(void *context, const char *where, void **self, sky_error *error);
    void *context; /* the caller's, valid until the process ends; NULL is fine */
} sky_tier_driver;

/* Let sky_cache_open know a scheme: letters, digits, '+', '-' and '.', a letter first. It is known
 * to every cache of this process until the process ends.
 * Owner:  scheme and driver are copied
 * Errors: SKY_E_PARAM (NULL, a scheme that is none or is known already, struct_bytes of no version
 *         of this header, a missing function, both of open and open_with, threads, other
 *         traits), SKY_E_FULL
 *         (SKY_TIER_DRIVERS_MAX are registered)
 * Threads: any */
SKY_API sky_status sky_tier_register(const char *scheme, const sky_tier_driver *driver);

#ifdef __cplusplus
}
#endif
#endif
