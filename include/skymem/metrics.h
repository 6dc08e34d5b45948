/* What a cache counts: one table of metrics, and the numbers of a cache under it.
 *
 *   row of the table ──► SKY_METRIC_… (enum), sky_metric (name, help, unit, kind)
 *                    ──► sky_cache_metric (one number), sky_cache_metrics (all of them)
 *                    ──► `skymem stat`: text, --json, --prometheus (sky_cache_prometheus)
 *
 * Where the time of one request goes is in a trace: with SKYMEM_TRACE=FILE in the environment a
 * process writes one that chrome://tracing and Perfetto open.
 *
 * Numbers begin at 0 when a cache is opened and are those of this process: what another process
 * does with the same folder or the same satellites is counted there. Gauges of what a tier holds
 * (entries, bytes) are of the tier, whichever process put it there.
 *
 * A row is X(id, field, name, label, value, kind, unit, help):
 *   id, field     SKY_METRIC_<id>; the member that counts it, and its name in JSON
 *   name          in Prometheus; rows of one name differ in `value` of `label`
 *   label, value  a label of this row, added to those of its group; "" for none. Of a histogram the
 *                 value is "": each value of the label (an operation, say) has a histogram
 *   kind, unit    COUNTER, GAUGE or HISTOGRAM; "" counts things that the name says
 * A new row goes to the end of its group, so that the numbers of all others stay as they are. */
#ifndef SKYMEM_METRICS_H
#define SKYMEM_METRICS_H

#include <skymem/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
/* Of a cache. */
#define SKY_METRICS_CACHE(X) \
    X(CACHE_HITS, hits, "skymem_cache_hits_total", "", "", COUNTER, "", \
      "Gets of a key that a tier answered.") \
    X(CACHE_MISSES, misses, "skymem_cache_misses_total", "", "", COUNTER, "", \
      "Gets of a key that no tier had, or none had whole.") \
    X(CACHE_PREFIX_QUERIES, prefix_query_tokens, "skymem_prefix_cache_queries_total", "", "", \
      COUNTER, "tokens", "Prompt tokens looked up, as vllm:prefix_cache_queries counts them.") \
    X(CACHE_PREFIX_HITS, prefix_hit_tokens, "skymem_prefix_cache_hits_total", "", "", \
      COUNTER, "tokens", "Prompt tokens loaded, as vllm:prefix_cache_hits counts them.") \
    X(CACHE_PREFIX_BLOCK_QUERIES, prefix_query_blocks, "skymem_prefix_cache_block_queries_total", \
      "", "", COUNTER, "blocks", "Whole blocks of prompts looked up.") \
    X(CACHE_PREFIX_BLOCK_HITS, prefix_hit_blocks, "skymem_prefix_cache_block_hits_total", "", "", \
      COUNTER, "blocks", "Whole blocks of prompts loaded.") \
    X(CACHE_LOOKUPS_HIT, lookups_hit, "skymem_prefix_cache_lookups_total", "verdict", "hit", \
      COUNTER, "", "Prompts looked up, by what came of it.") \
    X(CACHE_LOOKUPS_PARTIAL, lookups_partial, "skymem_prefix_cache_lookups_total", "verdict", \
      "partial", COUNTER, "", "Prompts looked up, by what came of it.") \
    X(CACHE_LOOKUPS_MISS, lookups_miss, "skymem_prefix_cache_lookups_total", "verdict", "miss", \
      COUNTER, "", "Prompts looked up, by what came of it.") \
    X(CACHE_LOOKUPS_RECOMPUTE, lookups_recompute, "skymem_prefix_cache_lookups_total", "verdict", \
      "recompute", COUNTER, "", "Prompts looked up, by what came of it.") \
    X(CACHE_SAVED_BLOCKS, saved_blocks, "skymem_prefix_cache_saved_blocks_total", "", "", \
      COUNTER, "blocks", "Blocks of prompts handed to the tiers.") \
    X(CACHE_PROMOTIONS, promotions, "skymem_promotions_total", "", "", COUNTER, "", \
      "Payloads that were copied to the nearest tier.") \
    X(CACHE_PROMOTIONS_LOST, promotions_lost, "skymem_promotions_lost_total", "", "", COUNTER, "", \
      "Promotions that ended without a copy: no room, lost on the way, outdated by a write.") \
    X(CACHE_PROMOTIONS_ACTIVE, promotions_active, "skymem_promotions_active", "", "", GAUGE, "", \
      "Promotions under way that no caller waits for.") \
    X(CACHE_REQUESTS_ACTIVE, requests_active, "skymem_requests_active", "", "", GAUGE, "", \
      "Batches that were submitted and are not over.") \
    X(CACHE_PRIVATE_BYTES, private_bytes, "skymem_private_bytes", "", "", GAUGE, "bytes", \
      "Memory of copies on their way between tiers.") \
    X(CACHE_LEASES, leases, "skymem_leases", "", "", GAUGE, "", \
      "Payloads lent to callers and not returned yet.") \
    X(CACHE_ANNOUNCED, announced, "skymem_announced_keys", "", "", GAUGE, "", \
      "Keys that are announced and not stored yet.") \
    X(CACHE_ANNOUNCEMENTS_REFUSED, announcements_refused, \
      "skymem_announcements_refused_total", "", "", COUNTER, "", \
      "Announcements refused, as their owner or the cache had too many.") \
    X(CACHE_AWAITS_CAME, awaits_came, "skymem_awaits_total", "result", "came", COUNTER, "", \
      "Waits for announced keys, by how they ended.") \
    X(CACHE_AWAITS_LOST, awaits_lost, "skymem_awaits_total", "result", "lost", COUNTER, "", \
      "Waits for announced keys, by how they ended.") \
    X(CACHE_AWAITED, awaited, "skymem_awaited_keys", "", "", GAUGE, "", \
      "Waits under way for keys that are announced or may be.") \
    X(CACHE_ANNOUNCED_STORED, announced_stored, "skymem_announced_stored_total", "", "", COUNTER, \
      "", "Announced keys that were stored.")

/* Of each tier: labels `tier` (its place, from 0) and `kind` (the scheme of its URL). */
#define SKY_METRICS_TIER(X) \
    X(TIER_ENTRIES, entries, "skymem_tier_entries", "", "", GAUGE, "", \
      "Payloads that the tier holds.") \
    X(TIER_BYTES_USED, bytes_used, "skymem_tier_used_bytes", "", "", GAUGE, "bytes", \
      "Bytes that the tier's payloads take.") \
    X(TIER_BYTES_MAX, bytes_max, "skymem_tier_limit_bytes", "", "", GAUGE, "bytes", \
      "Bytes that the tier may take; 0 when it has no limit of its own.") \
    X(TIER_HITS, hits, "skymem_tier_hits_total", "", "", COUNTER, "", \
      "Gets of a key that the tier answered.") \
    X(TIER_MISSES, misses, "skymem_tier_misses_total", "", "", COUNTER, "", \
      "Gets and leases of a key that the tier did not have, or not whole.") \
    X(TIER_PUTS, puts, "skymem_tier_puts_total", "", "", COUNTER, "", \
      "Payloads that the tier stored.") \
    X(TIER_EVICTIONS, evictions, "skymem_tier_evictions_total", "", "", COUNTER, "", \
      "Payloads that the tier evicted to make room for others.") \
    X(TIER_CORRUPT, corrupt, "skymem_tier_corrupt_total", "", "", COUNTER, "", \
      "Damaged payloads that the tier found and dropped; a get of one is a miss.") \
    X(TIER_DROPPED, dropped, "skymem_tier_dropped_total", "", "", COUNTER, "", \
      "Writes that the tier did not take: see sky_flush.") \
    X(TIER_LATE, late, "skymem_tier_late_total", "", "", COUNTER, "", \
      "Operations that the tier did not end by their deadline.") \
    X(TIER_ERRORS, errors, "skymem_tier_errors_total", "", "", COUNTER, "", \
      "Failures of the tier's medium.") \
    X(TIER_MOVED_BYTES, moved_bytes, "skymem_tier_coded_read_bytes_total", "", "", COUNTER, \
      "bytes", "Coded bytes that gets of blocks read from a tier with a level.") \
    X(TIER_READ_BYTES, read_bytes, "skymem_tier_read_bytes_total", "", "", COUNTER, "bytes", \
      "Payload that gets copied out of the tier.") \
    X(TIER_WRITTEN_BYTES, written_bytes, "skymem_tier_written_bytes_total", "", "", COUNTER, \
      "bytes", "Payload that puts copied into the tier.") \
    X(TIER_WRITE_BACKS, write_backs, "skymem_tier_write_backs_total", "", "", COUNTER, "", \
      "Payloads stored here by write-back, after their put was answered.") \
    X(TIER_WRITE_BACKS_QUEUED, write_backs_queued, "skymem_tier_write_backs_queued", "", "", \
      GAUGE, "", "Payloads that wait to be written back.") \
    X(TIER_WRITE_BACK_BYTES, write_back_bytes, "skymem_tier_write_back_queued_bytes", "", "", \
      GAUGE, "bytes", "Bytes of payloads that wait to be written back.") \
    X(TIER_QUEUED_CALLER, queued, "skymem_tier_queued_requests", "for", "caller", GAUGE, "", \
      "Requests that wait for the tier, for a caller or in the background.") \
    X(TIER_QUEUED_BACKGROUND, queued_background, "skymem_tier_queued_requests", "for", \
      "background", GAUGE, "", \
      "Requests that wait for the tier, for a caller or in the background.") \
    X(TIER_ACTIVE, active, "skymem_tier_active_requests", "", "", GAUGE, "", \
      "Requests that the tier works at.") \
    X(TIER_FAILURES, failures, "skymem_tier_failures_in_a_row", "", "", GAUGE, "", \
      "Requests that failed one after another; from three on the tier is skipped for a while.") \
    X(TIER_LEASES, leases, "skymem_tier_leases_total", "", "", COUNTER, "", \
      "Payloads lent without a copy; a put that is written back lends one.") \
    X(TIER_DEMOTED, demoted, "skymem_tier_demoted_total", "", "", COUNTER, "blocks", \
      "Blocks stored here as a nearer tier was about to evict them.") \
    X(TIER_DEMOTIONS_LOST, demotions_lost, "skymem_tier_demotions_lost_total", "", "", COUNTER, \
      "blocks", "Blocks the tier was about to evict that no farther tier took, or not in time.") \
    X(TIER_MEDIUM_READ_BYTES, medium_read_bytes, "skymem_tier_medium_read_bytes_total", "", "", \
      COUNTER, "bytes", \
      "Bytes of its files that gets of a disk read: the pages of what was asked for, and headers.")

/* Of each tier, in nanoseconds. A tier that answers inside the call (mem) times one call in 256. */
#define SKY_METRICS_TIMES(X) \
    X(TIER_ANSWER, answer, "skymem_tier_answer_seconds", "op", "", HISTOGRAM, "seconds", \
      "Time from asking the tier for a batch to its answer. Of mem, one call in 256 is timed.") \
    X(TIER_QUEUE, queue, "skymem_tier_queue_seconds", "for", "", HISTOGRAM, "seconds", \
      "How long requests waited before the tier was asked.")

/* Of the ground session of each tier that is a sky; labels as a tier's. */
#define SKY_METRICS_SESSION(X) \
    X(SESSION_PUTS, puts, "skymem_session_puts_total", "", "", COUNTER, "blocks", \
      "Blocks stored in the sky.") \
    X(SESSION_HITS, hits, "skymem_session_hits_total", "", "", COUNTER, "blocks", \
      "Blocks that the sky returned whole.") \
    X(SESSION_MISSES, misses, "skymem_session_misses_total", "", "", COUNTER, "blocks", \
      "Blocks asked for that the sky did not have, or not whole.") \
    X(SESSION_EVICTED, evicted, "skymem_session_evicted_total", "", "", COUNTER, "blocks", \
      "Blocks that the session evicted from the sky to make room for others.") \
    X(SESSION_PURGED, purged, "skymem_session_purged_total", "", "", COUNTER, "blocks", \
      "Blocks removed because they, or a block before them in the prefix, lost a chunk.") \
    X(SESSION_CORRUPT, corrupt, "skymem_session_corrupt_chunks_total", "", "", COUNTER, "chunks", \
      "Chunks received with wrong bytes.") \
    X(SESSION_RETRIES, retries, "skymem_session_retries_total", "", "", COUNTER, "", \
      "Attempts to reach a satellite that were not answered in time.") \
    X(SESSION_ECHOES, speculative_retries, "skymem_session_speculative_retries_total", "", "", \
      COUNTER, "", "Extra copies of a retried request, sent at the same time as the retry.") \
    X(SESSION_SECOND_PLACES, second_places, "skymem_session_second_places_total", "", "", \
      COUNTER, "chunks", "Chunks asked for again at another place where they may be.") \
    X(SESSION_OTHER_COPIES, other_copies, "skymem_session_other_copies_total", "", "", COUNTER, \
      "chunks", "Chunks asked for again from another replica.") \
    X(SESSION_REBUILT, rebuilt, "skymem_session_rebuilt_chunks_total", "", "", COUNTER, "chunks", \
      "Chunks computed from the other chunks of their stripe.") \
    X(SESSION_HEALED, repaired_chunks, "skymem_session_repaired_chunks_total", "", "", COUNTER, \
      "chunks", "Chunks that repairs stored at their satellites again.") \
    X(SESSION_LOOKUPS, lookups, "skymem_session_lookups_total", "", "", COUNTER, "", \
      "Keys, or chains of keys, absent from the session's index and looked up in the sky.") \
    X(SESSION_QUESTIONS, questions, "skymem_session_lookup_questions_total", "", "", COUNTER, "", \
      "Questions that lookups asked one after another to find where a prefix ends.") \
    X(SESSION_ADOPTED, adopted, "skymem_session_adopted_total", "", "", COUNTER, "blocks", \
      "Blocks that lookups found in the sky and added to the session's index.") \
    X(SESSION_HEADS_MENDED, heads_repaired, "skymem_session_heads_repaired_total", "", "", \
      COUNTER, "", "Lost copies of head chunks that were stored again.") \
    X(SESSION_MOVED, moved, "skymem_session_moved_chunks_total", "", "", COUNTER, "chunks", \
      "Chunks that a prefetch moved to another epoch's place.") \
    X(SESSION_GONE, given_up, "skymem_session_given_up_total", "", "", COUNTER, "blocks", \
      "Blocks that satellites reported as given up.") \
    X(SESSION_SUSPECTS, suspects, "skymem_session_suspects", "", "", GAUGE, "satellites", \
      "Satellites that answered something wrong at least once.") \
    X(SESSION_MALFORMED, malformed, "skymem_session_malformed_total", "", "", COUNTER, \
      "messages", "Messages received that do not parse.") \
    X(SESSION_STRAY, stray, "skymem_session_stray_total", "", "", COUNTER, "messages", \
      "Answers received that match no open request: late, or a second time.") \
    X(SESSION_BYTES, bytes, "skymem_session_payload_bytes", "", "", GAUGE, "bytes", \
      "Bytes of payloads in the session's index.") \
    X(SESSION_COPIES_MISSED, copies_missed, "skymem_session_copies_missed_total", "", "", COUNTER, \
      "", "Requests to satellites to replace copies that a read found missing.") \
    X(SESSION_EVICTED_OTHERS, evicted_others, "skymem_session_evicted_others_total", "", "", \
      COUNTER, "blocks", \
      "Blocks unknown to the session, such as other processes', that satellites evicted chunks " \
      "of.") \
    X(SESSION_PUTS_SHORT, puts_short, "skymem_session_puts_short_total", "", "", COUNTER, \
      "blocks", \
      "Blocks stored with fewer copies or less parity than asked: a satellite did not answer.")

/* Of the transport of each tier that is a sky; labels as a tier's. Of an embedded sky, all stations
 * together, and 0 where its links carry whole messages. */
#define SKY_METRICS_TRANSPORT(X) \
    X(TRANSPORT_DATAGRAMS_SENT, datagrams_sent, "skymem_transport_sent_datagrams_total", "", "", \
      COUNTER, "datagrams", "Datagrams sent.") \
    X(TRANSPORT_DATAGRAMS_TAKEN, datagrams_taken, "skymem_transport_received_datagrams_total", \
      "", "", COUNTER, "datagrams", "Datagrams received and accepted.") \
    X(TRANSPORT_BYTES_SENT, bytes_sent, "skymem_transport_sent_bytes_total", "", "", COUNTER, \
      "bytes", "Bytes of datagrams sent.") \
    X(TRANSPORT_BYTES_TAKEN, bytes_taken, "skymem_transport_received_bytes_total", "", "", \
      COUNTER, "bytes", "Bytes of datagrams received and accepted.") \
    X(TRANSPORT_MESSAGES_SENT, messages_sent, "skymem_transport_sent_messages_total", "", "", \
      COUNTER, "messages", "Whole messages sent.") \
    X(TRANSPORT_MESSAGES_TAKEN, messages_taken, "skymem_transport_received_messages_total", "", \
      "", COUNTER, "messages", "Whole messages received.") \
    X(TRANSPORT_PIECES_AGAIN, pieces_again, "skymem_transport_retransmitted_total", "", "", \
      COUNTER, "pieces", "Pieces of messages sent more than once.") \
    X(TRANSPORT_SPECULATIVE_RETRIES, speculative_retries, \
      "skymem_transport_speculative_retries_total", "", "", COUNTER, \
      "pieces", "Pieces of messages sent a second time at once, where much is lost.") \
    X(TRANSPORT_TIMEOUTS, timeouts, "skymem_transport_timeouts_total", "", "", COUNTER, "", \
      "Waits for an acknowledgement that ended without one.") \
    X(TRANSPORT_GIVEN_UP, given_up, "skymem_transport_given_up_messages_total", "", "", COUNTER, \
      "messages", "Messages given up before they were acknowledged.") \
    X(TRANSPORT_DUPLICATES, duplicates, "skymem_transport_duplicate_total", "", "", COUNTER, \
      "pieces", "Pieces of messages received more than once.") \
    X(TRANSPORT_RELAYED, relayed, "skymem_transport_relayed_datagrams_total", "", "", COUNTER, \
      "datagrams", "Datagrams for other stations passed on.") \
    X(TRANSPORT_FOREIGN, foreign, "skymem_transport_dropped_datagrams_total", "reason", \
      "foreign", COUNTER, "datagrams", "Datagrams received and dropped, by reason.") \
    X(TRANSPORT_FORGED, forged, "skymem_transport_dropped_datagrams_total", "reason", "forged", \
      COUNTER, "datagrams", "Datagrams received and dropped, by reason.") \
    X(TRANSPORT_REPLAYED, replayed, "skymem_transport_dropped_datagrams_total", "reason", \
      "replayed", COUNTER, "datagrams", "Datagrams received and dropped, by reason.") \
    X(TRANSPORT_STALE, stale, "skymem_transport_dropped_datagrams_total", "reason", "stale", \
      COUNTER, "datagrams", "Datagrams received and dropped, by reason.") \
    X(TRANSPORT_MALFORMED, malformed, "skymem_transport_dropped_datagrams_total", "reason", \
      "malformed", COUNTER, "datagrams", "Datagrams received and dropped, by reason.") \
    X(TRANSPORT_UNDELIVERABLE, undeliverable, "skymem_transport_dropped_datagrams_total", \
      "reason", "undeliverable", COUNTER, "datagrams", \
      "Datagrams received and dropped, by reason.") \
    X(TRANSPORT_OVER_SHARE, over_share, "skymem_transport_over_share_total", "", "", COUNTER, \
      "datagrams", "Undeliverable datagrams of an origin that had its share of the room.") \
    X(TRANSPORT_INCOMPLETE_DROPPED, incomplete_dropped, \
      "skymem_transport_incomplete_dropped_total", "", "", COUNTER, "messages", \
      "Incomplete messages dropped to make room for others, or as too old.") \
    X(TRANSPORT_UNSUPPORTED, unsupported, "skymem_transport_unsupported_total", "", "", COUNTER, \
      "datagrams", "Foreign datagrams of another version, or of a suite that is not accepted here.")

/* Each row's number: groups begin at multiples of 256. */
typedef enum {
#define SKY_METRIC_ENUM(id, ...) SKY_METRIC_##id,
    SKY_METRIC_CACHE_GROUP = 0,
    SKY_METRICS_CACHE(SKY_METRIC_ENUM)
    SKY_METRIC_TIER_GROUP = 256,
    SKY_METRICS_TIER(SKY_METRIC_ENUM)
    SKY_METRIC_TIMES_GROUP = 512,
    SKY_METRICS_TIMES(SKY_METRIC_ENUM)
    SKY_METRIC_SESSION_GROUP = 768,
    SKY_METRICS_SESSION(SKY_METRIC_ENUM)
    SKY_METRIC_TRANSPORT_GROUP = 1024,
    SKY_METRICS_TRANSPORT(SKY_METRIC_ENUM)
#undef SKY_METRIC_ENUM
} sky_metric_id;
/* clang-format on */

/* A counter only grows; a gauge may do both; a histogram counts times by how long they were. */
typedef enum { SKY_METRIC_COUNTER, SKY_METRIC_GAUGE, SKY_METRIC_HISTOGRAM } sky_metric_kind;

/* A row of the table. Later versions may add members. */
typedef struct {
    uint32_t id; /* sky_metric_id, or a later version's */
    sky_metric_kind kind;
    const char *group; /* "cache", "tier", "session" or "transport": what it is counted of */
    const char *field; /* its name in JSON, unique in its group */
    const char *name;
    const char *label; /* "": none */
    const char *value;
    const char *unit; /* base unit, or what is counted; "" where the name says it */
    const char *help;
} sky_metric;

/* The table: how many rows, and row i; NULL beyond the end.
 * Threads: any */
SKY_API size_t sky_metric_count(void);
SKY_API const sky_metric *sky_metric_at(size_t i);

/* Bucket i counts times of at most sky_histogram_bound_ns(i), and more than the bucket before it:
 * bounds are 256 ns, 512 ns, … up to 68.7 s. The last bucket has no bound. */
#define SKY_HISTOGRAM_BUCKETS 30
typedef struct {
    uint64_t buckets[SKY_HISTOGRAM_BUCKETS];
    uint64_t sum_ns;
} sky_histogram;

/* Nanoseconds; UINT64_MAX for the last bucket and beyond. */
SKY_API uint64_t sky_histogram_bound_ns(size_t bucket);
/* How many times it has counted. */
static inline uint64_t sky_histogram_count(const sky_histogram *h) {
    uint64_t count = 0;
    for (size_t i = 0; i < SKY_HISTOGRAM_BUCKETS; i++)
        count += h->buckets[i];
    return count;
}

/* A number of a cache. Later versions may add members. */
typedef struct {
    const sky_metric *metric;
    uint8_t tier;                   /* SKY_TIER_NONE: of the cache itself */
    const char *kind;               /* of the tier, such as "disk"; "" without a tier */
    const char *value;              /* of metric->label: the metric's own, or this histogram's */
    uint64_t number;                /* of a counter or a gauge */
    const sky_histogram *histogram; /* NULL for these */
} sky_metric_sample;

/* Called for each number; false: stop.
 * Owner:  the sample and what it points to are borrowed for the call */
typedef bool (*sky_metric_fn)(void *context, const sky_metric_sample *sample);

/* Every number of a cache, in the order of the table: those of one name follow each other. Only
 * skies have metrics of sessions and transports; a histogram without a value is left out.
 * Errors: SKY_E_PARAM, SKY_E_NOMEM, SKY_E_FORKED
 * Threads: any; the numbers of one tier are read together, those of two tiers one after another */
SKY_API sky_status sky_cache_metrics(sky_cache *cache, sky_metric_fn each, void *context);

/* One number. tier: its place, SKY_TIER_NONE for what is counted of the cache itself. 0 for what is
 * not there: such a tier, a metric of another group, a histogram, a cache opened before a fork.
 * Threads: any */
SKY_API uint64_t sky_cache_metric(sky_cache *cache, size_t tier, sky_metric_id metric);

/* All numbers as Prometheus's text (exposition format 0.0.4), and skymem_tier_info, whose label
 * `where` is the tier's URL without its scheme and query. Of `//user:password@host/path` it shows
 * `//host/path`, or `//` alone where a password cannot be told from the rest.
 * Owner:  text [text_bytes_max] is the caller's; it ends with a NUL. *text_bytes: the length needed
 *         without the NUL, in any case but the other errors
 * Errors: SKY_E_DST_SMALL (what fits is there), SKY_E_PARAM, SKY_E_NOMEM, SKY_E_FORKED
 * Threads: any */
SKY_API sky_status sky_cache_prometheus(sky_cache *cache, char *text, size_t text_bytes_max,
                                        size_t *text_bytes);

#ifdef __cplusplus
}
#endif
#endif
