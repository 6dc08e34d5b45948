/* skymem run: answer one prompt, loading what is known of it and saving what is new. */
#include "model.h"
#include "prompts.h"
#include "push.h"

#include <stdlib.h>
#include <string.h>

#ifdef SKYMEM_WITH_LLAMA

#define PROMPT_BYTES_MAX (64u << 20)
#define FLUSH_S          60
#define WORDS_BYTES_MAX  60u

typedef struct {
    cli_model model;
    cli_store store;
    sky_manager *manager;
    sky_sequence *sequence;
    cli_blob prompt;
    uint32_t *tokens; /* the prompt, then what was predicted */
    size_t prompt_tokens;
    size_t predict;
    size_t predicted;
    char *text; /* of the predicted tokens */
    size_t text_bytes;
    size_t text_max;
    sky_lookup lookup;
    uint64_t bytes_moved;
    double tokenize_ms, ttft_ms, prefill_ms, total_ms;
    cli_awaited awaited;
    sky_status pushed; /* with --prefill-only */
    uint32_t saved_blocks;
    uint64_t saved_bytes;
} answer;

/* The text comes before the model: a wrong command line should not cost a load. */
static int read_prompt(cli *c, answer *a) {
    const char *text = cli_text(c, "prompt"), *file = cli_text(c, "prompt-file");
    uint8_t salt[SKY_SALT_BYTES]; /* read again when there is a manager to tell it to */
    int code = cli_salt(c, salt);
    if (code != CLI_OK)
        return code;
    if (!text && !file)
        return cli_usage(c, "give the prompt with --prompt TEXT or --prompt-file FILE");
    if ((code = cli_one_of(c, "prompt prompt-file")) != CLI_OK ||
        (code = cli_one_of(c, "no-save keep-words")) != CLI_OK ||
        (code = cli_one_of(c, "no-save prefill-only")) != CLI_OK ||
        (code = cli_one_of(c, "no-load wait-ms")) != CLI_OK)
        return code;
    if (file)
        code = cli_blob_read(c, file, PROMPT_BYTES_MAX, &a->prompt);
    else if ((a->prompt.data = strdup(text)))
        a->prompt.bytes = strlen(text);
    else
        return cli_failed(c, "out of memory");
    if (code == CLI_OK && a->prompt.bytes == 0)
        code = cli_usage(c, "the prompt is empty");
    return code;
}

static int too_long(const cli *c, const char *at_least, size_t tokens, uint32_t most) {
    return cli_failed(c,
                      "the prompt has %s%zu tokens, and the model's context holds %u: shorten it",
                      at_least, tokens, most);
}

static int cut_prompt(cli *c, answer *a) {
    uint32_t most = sky_llama_trained_tokens(a->model.llama);
    size_t over = cli_model_overflow(&a->model, a->prompt.data, a->prompt.bytes, most);
    if (over > 0)
        return too_long(c, "more than ", over, most);
    sky_time start = sky_now();
    int code = cli_model_tokenize(c, &a->model, a->prompt.data, a->prompt.bytes, a->predict,
                                  &a->tokens, &a->prompt_tokens);
    a->tokenize_ms = cli_ms(sky_now() - start);
    if (code == CLI_OK && a->prompt_tokens == 0)
        code = cli_usage(c, "the prompt is empty: it has no tokens");
    return code;
}

/* Room for the prompt and its answer; an answer that does not fit whole is cut. */
static int reserve_tokens(const cli *c, answer *a) {
    sky_error error = {0};
    uint32_t most = sky_llama_trained_tokens(a->model.llama);
    if (a->prompt_tokens >= most)
        return too_long(c, "", a->prompt_tokens, most);
    if (a->predict > most - a->prompt_tokens)
        a->predict = most - a->prompt_tokens;
    sky_status status = sky_llama_reserve(a->model.llama, (uint32_t)(a->prompt_tokens + a->predict),
                                          &error);
    return status == SKY_OK ? CLI_OK : cli_failed(c, "%s", error.text);
}

/* The memory that the user allows. */
static const char *memory_of(cli *c) {
    const cli_value *v = cli_find(c, "store");
    for (size_t i = 0; i < v->count; i++)
        if (strncmp(v->texts[i], "mem:", 4) == 0)
            return v->texts[i];
    return "mem:256MiB";
}

/* A tier that does not open is reported, and the prompt is answered all the same. */
static int open_store(cli *c, answer *a) {
    int code = cli_store_open(c, &a->store);
    if (code != CLI_FAILED)
        return code;
    const char *memory = memory_of(c);
    cli_note(c, "answering with process memory alone");
    return cli_store_open_urls(c, &memory, 1, &a->store);
}

/* Whoever asks for a level expects fewer bytes. */
static void note_uncoded(cli *c, const answer *a) {
    bool coded = false;
    for (size_t i = 0; i < a->store.tier_count; i++) {
        sky_tier_stat stat = {0};
        sky_cache_stat(a->store.cache, i, &stat);
        coded |= stat.codings[0] != 0;
    }
    uint64_t tokens = cli_count(c, "block-tokens");
    if (coded && tokens > SKY_STREAM_TOKENS_MAX)
        cli_note(c,
                 "blocks of %llu tokens are kept as they come, at no level: a level codes at most "
                 "%d tokens; give --block-tokens %d or fewer",
                 (unsigned long long)tokens, SKY_STREAM_TOKENS_MAX, SKY_STREAM_TOKENS_MAX);
}

static int open_manager(cli *c, answer *a) {
    int code = open_store(c, a);
    if (code == CLI_OK)
        note_uncoded(c, a);
    if (code == CLI_OK)
        code = cli_model_manager(c, &a->model, a->store.cache,
                                 (uint32_t)cli_count(c, "block-tokens"), &a->manager, &a->sequence);
    const char *refusal = code == CLI_OK ? sky_manager_refusal(a->manager) : NULL;
    if (refusal)
        cli_note(c, "answering uncached: %s", refusal);
    return code;
}

/* One more token is known: keep it, and show it. */
static bool take_token(const cli *c, answer *a, uint32_t token) {
    char piece[512];
    size_t bytes = sky_llama_piece(a->model.llama, token, piece, sizeof piece);
    a->tokens[a->prompt_tokens + a->predicted++] = token;
    if (a->text_bytes + bytes > a->text_max) {
        size_t more = 2 * (a->text_max + sizeof piece);
        char *text = realloc(a->text, more);
        if (!text)
            return false;
        a->text = text;
        a->text_max = more;
    }
    memcpy(a->text + a->text_bytes, piece, bytes);
    a->text_bytes += bytes;
    if (!c->json) {
        fwrite(piece, 1, bytes, stdout);
        cli_flush();
    }
    return true;
}

/* Whoever asked for nothing lossy gets such blocks all the same where they lie from another time:
 * that the answer may be another one must not go unsaid. */
static void note_lossy(cli *c, const answer *a) {
    char count[CLI_COUNT_TEXT_BYTES];
    uint32_t lossy = 0;
    for (size_t i = 0; i < a->store.tier_count; i++) {
        sky_tier_stat stat = {0};
        sky_cache_stat(a->store.cache, i, &stat);
        for (int n = 0; n < SKY_CODINGS_MAX; n++)
            if (stat.codings[n] > SKY_LEVEL_LOSSLESS + 1)
                return;
    }
    for (int i = SKY_LEVEL_LOSSLESS + 1; i < SKY_LEVEL_COUNT; i++)
        lossy += a->lookup.level_blocks[i + 1];
    if (lossy > 0)
        cli_note(
            c,
            "%s kept at a level that loses something, so the answer may differ from a computed "
            "one; --no-load computes it",
            cli_count_text(lossy, "block was", "blocks were", count));
}

static int load_prefix(cli *c, answer *a, sky_time start) {
    a->lookup.verdict = SKY_VERDICT_MISS;
    if (cli_flag(c, "no-load"))
        return CLI_OK;
    int code = cli_await_blocks(c, &a->store, a->sequence, a->tokens, a->prompt_tokens,
                                &a->awaited);
    if (code != CLI_OK)
        return code;
    sky_time deadline = 0;
    if (cli_given(c, "deadline-ms"))
        deadline = start + (sky_time)(cli_number(c, "deadline-ms") * 1e6);
    sky_status status = sky_sequence_load(a->sequence, a->tokens, a->prompt_tokens, deadline,
                                          &a->lookup);
    if (status != SKY_OK)
        return cli_failed(c, "the lookup failed: %s", sky_status_text(status));
    char count[CLI_COUNT_TEXT_BYTES];
    if (a->lookup.foreign_blocks > 0)
        cli_note(c, "%s of no use, coded with another calibration; computing%s",
                 cli_count_text(a->lookup.foreign_blocks, "block is", "blocks are", count),
                 cli_flag(c, "no-save") ? "" : ", and storing again");
    note_lossy(c, a);
    return CLI_OK;
}

/* A metric of all tiers together. */
static uint64_t tiers_sum(const answer *a, sky_metric_id metric) {
    uint64_t sum = 0;
    for (size_t i = 0; i < a->store.tier_count; i++)
        sum += sky_cache_metric(a->store.cache, i, metric);
    return sum;
}

/* Bytes that came to load the prompt: coded ones as they lie in their tier. */
static uint64_t bytes_moved(const answer *a) {
    uint64_t moved = tiers_sum(a, SKY_METRIC_TIER_MOVED_BYTES);
    return moved > 0 ? moved : a->lookup.bytes_loaded;
}

/* ---- prefill only ---- */

/* Compute the prompt, and put its blocks part by part. */
static int prefill_rest(cli *c, answer *a) {
    cli_push push = {.sequence = a->sequence};
    sky_time start = sky_now();
    cli_progress("loading what is known of %zu tokens", a->prompt_tokens);
    int code = load_prefix(c, a, start);
    sky_time loaded = sky_now();
    a->model.tells_computing = true;
    if (code == CLI_OK)
        code = cli_push_compute(c, &a->model, &push, a->tokens, a->lookup.hit_tokens,
                                a->prompt_tokens);
    a->model.tells_computing = false;
    cli_progress(NULL);
    a->prefill_ms = cli_ms(sky_now() - loaded);
    a->total_ms = a->ttft_ms = cli_ms(sky_now() - start);
    a->bytes_moved = bytes_moved(a);
    a->pushed = push.status;
    a->saved_blocks = push.blocks;
    a->saved_bytes = push.bytes;
    return code;
}

static int predict_tokens(cli *c, answer *a) {
    sky_time start = sky_now();
    cli_progress("loading what is known of %zu tokens", a->prompt_tokens);
    int code = load_prefix(c, a, start);
    sky_time loaded = sky_now();
    a->model.tells_computing = true;
    if (code == CLI_OK)
        code = cli_model_compute(c, &a->model, a->tokens, a->lookup.hit_tokens, a->prompt_tokens);
    a->model.tells_computing = false;
    cli_progress(NULL);
    if (code != CLI_OK)
        return code;
    uint32_t token = sky_llama_greedy(a->model.llama);
    sky_time first = sky_now();
    a->ttft_ms = cli_ms(first - start);
    a->prefill_ms = cli_ms(first - loaded);
    a->bytes_moved = bytes_moved(a);
    while (!sky_llama_is_end(a->model.llama, token)) {
        if (!take_token(c, a, token))
            return cli_failed(c, "out of memory");
        if (a->predicted == a->predict)
            break;
        size_t known = a->prompt_tokens + a->predicted;
        code = cli_model_compute(c, &a->model, a->tokens, known - 1, known);
        if (code != CLI_OK)
            return code;
        token = sky_llama_greedy(a->model.llama);
    }
    a->total_ms = cli_ms(sky_now() - start);
    if (!c->json)
        putchar('\n');
    return CLI_OK;
}

/* The blocks that no tier has yet, or has of no use, which are those that saving stores. Owner: the
 * caller frees. */
static sky_item *find_new_blocks(cli *c, const answer *a, size_t tokens, size_t *count) {
    uint32_t block_tokens = (uint32_t)cli_count(c, "block-tokens");
    size_t blocks = tokens / block_tokens, left = 0;
    if (blocks > SKY_BATCH_ITEMS_MAX) /* nor does the manager save more at once */
        blocks = SKY_BATCH_ITEMS_MAX;
    sky_namespace ns;
    sky_key *keys = malloc((blocks + 1) * sizeof *keys);
    sky_item *items = calloc(blocks + 1, sizeof *items);
    *count = 0;
    if (keys && items && blocks > 0) {
        sky_manager_namespace(a->manager, &ns);
        sky_block_keys(&ns, a->tokens, tokens, block_tokens, keys, blocks);
        for (size_t i = 0; i < blocks; i++)
            items[i] = (sky_item){.key = keys[i], .status = SKY_MISS};
        (void)sky_run(a->store.cache, SKY_OP_HAS, items, blocks, NULL);
        bool spoiled = a->lookup.corrupt_blocks > 0 || a->lookup.foreign_blocks > 0;
        for (size_t i = 0; i < blocks; i++)
            if (items[i].status != SKY_OK || (spoiled && i >= a->lookup.block_count))
                items[left++] = (sky_item){.key = items[i].key};
        *count = left;
    }
    free(keys);
    return items;
}

/* Which blocks a tier has (any for SKY_TIER_NONE); where something failed: at each level that it
 * keeps. Their bytes go to kept; returns how many they are. */
static uint32_t find_kept(const answer *a, sky_item *items, size_t count, size_t tier, bool failed,
                          uint64_t *kept) {
    sky_tier_stat stat = {0};
    sky_call call = {.tiers = tier == SKY_TIER_NONE ? 0 : 1u << tier};
    bool *whole = malloc(count * sizeof *whole);
    uint32_t sum = 0;
    if (tier != SKY_TIER_NONE)
        sky_cache_stat(a->store.cache, tier, &stat);
    bool each = stat.codings[1] &&
                (failed || sky_cache_metric(a->store.cache, tier, SKY_METRIC_TIER_DROPPED) > 0);
    if (whole)
        memset(whole, true, count);
    for (int l = 0; whole && (l == 0 || (each && l < SKY_CODINGS_MAX && stat.codings[l])); l++) {
        call.wanted = each ? stat.codings[l] : 0;
        bool ran = sky_run(a->store.cache, SKY_OP_HAS, items, count, &call) == SKY_OK;
        for (size_t i = 0; i < count; i++)
            whole[i] &= ran && items[i].status == SKY_OK;
    }
    for (size_t i = 0; whole && i < count; i++) {
        sum += whole[i];
        kept[i] = whole[i] ? items[i].bytes : kept[i];
    }
    free(whole);
    return sum;
}

/* A tier that outlives the process has fewer blocks than it should: says so. */
static void note_unkept(const cli *c, const answer *a, size_t tier, sky_status status,
                        uint32_t kept, uint32_t wanted) {
    if (status == SKY_E_DEADLINE)
        cli_note(
            c,
            "%s took nothing more for too long: it has %u of %u new block%s; the next run goes on "
            "where this one ended",
            a->store.names[tier], kept, wanted, cli_plural(wanted));
    else
        cli_note(c, "%s did not keep %u of %u new block%s; is it full, or failing?",
                 a->store.names[tier], wanted - kept, wanted, cli_plural(wanted));
}

/* Memory takes every block and may evict it again, and the write behind it may fail: saved is what
 * is there now, in a tier that outlives the process where there is one, and levels that were added
 * to blocks. Says which of these did not keep all; true when one did not. */
static bool count_kept(const cli *c, answer *a, sky_item *items, size_t count, sky_status status) {
    bool ok = status == SKY_OK;
    uint32_t mended = ok && a->saved_blocks > count ? a->saved_blocks - (uint32_t)count : 0;
    uint32_t wanted = ok                         ? a->saved_blocks - mended
                      : status == SKY_E_DEADLINE ? (uint32_t)count
                                                 : 0;
    uint64_t block_bytes = a->saved_blocks ? a->saved_bytes / a->saved_blocks : 0;
    uint64_t *kept = calloc(count + 1, sizeof *kept);
    bool lost = false, lasts = false;
    for (size_t t = 0; kept && count > 0 && t < a->store.tier_count; t++) {
        if (!cli_store_lasts(&a->store, t))
            continue;
        lasts = true;
        uint32_t here = find_kept(a, items, count, t, !ok, kept);
        if (here < wanted)
            note_unkept(c, a, t, status, here, wanted);
        lost |= here < wanted;
    }
    if (kept && count > 0 && !lasts)
        find_kept(a, items, count, SKY_TIER_NONE, false, kept);
    a->saved_blocks = mended;
    a->saved_bytes = mended * block_bytes;
    for (size_t i = 0; kept && i < count; i++) {
        a->saved_blocks += kept[i] > 0;
        a->saved_bytes += kept[i];
    }
    free(kept);
    return lost;
}

/* Until nothing is on its way to a tier, or nothing arrives any more. */
static sky_status flush_store(const answer *a) {
    for (;;) {
        uint64_t puts = tiers_sum(a, SKY_METRIC_TIER_PUTS);
        sky_status status = sky_flush(a->store.cache, sky_now() + SKY_SECONDS(FLUSH_S), NULL);
        if (status != SKY_E_DEADLINE || tiers_sum(a, SKY_METRIC_TIER_PUTS) == puts)
            return status;
    }
}

/* A sky of this process is gone with it, and the next run finds nothing there. */
static void note_fleeting(const cli *c, const answer *a) {
    bool sky = false;
    for (size_t t = 0; t < a->store.tier_count; t++) {
        if (cli_store_lasts(&a->store, t))
            return;
        sky |= cli_store_is(&a->store, t, SKY_TIER_SKY);
    }
    if (sky && a->saved_blocks > 0)
        cli_note(c, "what was saved is gone with this process, as its sky is; sky+udp: and disk: "
                    "outlive it");
}

/* Bytes of the prompt's first words: whole ones, where they are not too long. */
static size_t words_bytes(const cli_blob *prompt) {
    const char *text = prompt->data;
    size_t most = prompt->bytes < WORDS_BYTES_MAX ? prompt->bytes : WORDS_BYTES_MAX, end = most;
    if (most == prompt->bytes)
        return most;
    while (end > 0 && text[end] != ' ' && text[end] != '\n')
        end--;
    return end > 0 ? end : most;
}

/* What ls tells of the prompt besides its blocks. */
static void keep_record(cli *c, const answer *a) {
    uint32_t block_tokens = (uint32_t)cli_count(c, "block-tokens");
    bool words = cli_flag(c, "keep-words");
    sky_namespace ns;
    sky_key first;
    sky_manager_namespace(a->manager, &ns);
    if ((a->saved_blocks > 0 || words) &&
        sky_block_keys(&ns, a->tokens, a->prompt_tokens + a->predicted, block_tokens, &first, 1))
        cli_record_keep(&a->store, &first, a->model.path, block_tokens,
                        words ? a->prompt.data : NULL, words_bytes(&a->prompt));
}

/* The last predicted token was never computed with, so the engine does not hold it. */
static void save_answer(cli *c, answer *a) {
    size_t held = a->prompt_tokens + (a->predicted == a->predict ? a->predicted - 1 : a->predicted);
    if (cli_flag(c, "no-save") || sky_manager_refusal(a->manager))
        return;
    size_t count;
    sky_item *items = find_new_blocks(c, a, held, &count);
    sky_status status = sky_sequence_save(a->sequence, a->tokens, held, &a->saved_blocks,
                                          &a->saved_bytes);
    cli_progress("saving what is new");
    sky_status flushed = flush_store(
        a); /* what tiers did not take is counted block by block below */
    cli_progress(NULL);
    status = status == SKY_OK && flushed == SKY_E_DEADLINE ? flushed : status;
    if (!count_kept(c, a, items, count, status) && status != SKY_OK) {
        char why[CLI_WHY_BYTES];
        cli_failure_says(&a->store, status, why, sizeof why);
        cli_note(c, "not everything was saved: %s",
                 status == SKY_E_DEADLINE
                     ? "nothing was taken any more; the next run goes on where "
                       "this one ended"
                     : why);
    }
    note_fleeting(c, a);
    keep_record(c, a);
    free(items);
}

/* The blocks are put already; those behind memory may be on their way. */
static void finish_push(cli *c, answer *a) {
    char why[CLI_WHY_BYTES];
    cli_progress("saving what is new");
    sky_status flushed = flush_store(a);
    cli_progress(NULL);
    sky_status status = a->pushed != SKY_OK ? a->pushed : flushed;
    if (status != SKY_OK) {
        cli_failure_says(&a->store, status, why, sizeof why);
        cli_note(c, "not everything was saved: %s", why);
    }
    note_fleeting(c, a);
    keep_record(c, a);
}

static json_t *tiers_json(const answer *a) {
    json_t *tiers = json_object();
    for (size_t i = 0; i < a->store.tier_count; i++)
        json_object_set_new(tiers, a->store.names[i],
                            json_integer((json_int_t)a->lookup.tier_blocks[i]));
    return tiers;
}

/* Levels at which a tier keeps blocks, as a URL names them, or null. */
static json_t *tier_level_json(const answer *a, size_t tier) {
    char text[128] = "";
    sky_tier_stat stat = {0};
    sky_cache_stat(a->store.cache, tier, &stat);
    for (int i = 0; i < SKY_CODINGS_MAX && stat.codings[i]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? "," : "",
                 sky_level_name((sky_level)(stat.codings[i] - 1)));
    return text[0] ? json_string(text) : json_null();
}

/* --level, or null where the URL of a tier beyond memory says otherwise. */
static json_t *level_json(cli *c, const answer *a) {
    const char *level = cli_text(c, "level");
    bool same = true;
    for (size_t i = 0; i < a->store.tier_count; i++) {
        json_t *own = tier_level_json(a, i);
        const char *name = json_is_null(own) ? "lossless" : json_string_value(own);
        same &= cli_store_is(&a->store, i, SKY_TIER_SYNCHRONOUS) || strcmp(name, level) == 0;
        json_decref(own);
    }
    return same ? json_string(level) : json_null();
}

static json_t *tier_levels_json(const answer *a) {
    json_t *levels = json_object();
    for (size_t i = 0; i < a->store.tier_count; i++)
        json_object_set_new(levels, a->store.names[i], tier_level_json(a, i));
    return levels;
}

/* Blocks that came coded, by level. */
static json_t *levels_json(const answer *a) {
    json_t *levels = json_object();
    for (int i = 0; i < SKY_LEVEL_COUNT; i++)
        if (a->lookup.level_blocks[i + 1])
            json_object_set_new(levels, sky_level_name((sky_level)i),
                                json_integer((json_int_t)a->lookup.level_blocks[i + 1]));
    return levels;
}

/* ", 12 blocks at level 8, 4 at level 2"; nothing when none came coded. */
static void levels_text(const answer *a, char *out, size_t out_bytes) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < SKY_LEVEL_COUNT && used < out_bytes; i++)
        if (a->lookup.level_blocks[i + 1])
            used += (size_t)snprintf(out + used, out_bytes - used, ", %u%s at level %s",
                                     a->lookup.level_blocks[i + 1], used ? "" : " blocks",
                                     sky_level_name((sky_level)i));
}

/* Tokens whose state came from the store; the engine may have computed others meanwhile. */
static size_t loaded_tokens(const answer *a) {
    return a->lookup.hit_tokens - a->lookup.computed_tokens;
}

static int report_json(cli *c, const answer *a) {
    sky_namespace ns;
    sky_key shown;
    char hex[2 * SKY_KEY_BYTES + 1];
    sky_manager_namespace(a->manager, &ns);
    memcpy(shown.bytes, ns.bytes, sizeof shown.bytes);
    sky_key_hex(&shown, hex);
    json_t *tokens = json_array();
    for (size_t i = 0; i < a->predicted; i++)
        json_array_append_new(tokens, json_integer((json_int_t)a->tokens[a->prompt_tokens + i]));
    const char *refusal = sky_manager_refusal(a->manager);
    json_t *object = json_pack(
        "{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:f, s:f, s:o, s:o, s:I, s:I, "
        "s:I, "
        "s:s, "
        "s:I}",
        "model", cli_json_text(a->model.path), "namespace", hex, "block_tokens",
        (json_int_t)cli_count(c, "block-tokens"), "prompt_tokens", (json_int_t)a->prompt_tokens,
        "hit_tokens", (json_int_t)loaded_tokens(a), "overlapped_tokens",
        (json_int_t)a->lookup.computed_tokens, "computed_tokens",
        (json_int_t)(a->prompt_tokens - loaded_tokens(a)), "tiers", tiers_json(a), "level",
        level_json(c, a), "ttft_ms", a->ttft_ms, "load_ms", cli_ms(a->lookup.load_ns), "prefill_ms",
        a->prefill_ms, "total_ms", a->total_ms, "tokens", tokens, "text",
        cli_json_utf8(a->text ? a->text : "", a->text_bytes), "bytes_loaded",
        (json_int_t)a->lookup.bytes_loaded, "bytes_saved", (json_int_t)a->saved_bytes,
        "saved_blocks", (json_int_t)a->saved_blocks, "verdict", sky_verdict_name(a->lookup.verdict),
        "corrupt_blocks", (json_int_t)a->lookup.corrupt_blocks);
    json_object_set_new(object, "tier_levels", tier_levels_json(a));
    json_object_set_new(object, "levels", levels_json(a));
    json_object_set_new(object, "bytes_moved", json_integer((json_int_t)a->bytes_moved));
    json_object_set_new(object, "calibrated", json_boolean(a->model.profile != NULL));
    json_object_set_new(object, "model_load_ms", json_real(a->model.load_ms));
    json_object_set_new(object, "tokenize_ms", json_real(a->tokenize_ms));
    cli_awaited_json(&a->awaited, &a->store, object);
    json_object_set_new(object, "refusal", refusal ? json_string(refusal) : json_null());
    return cli_json_print(c, object);
}

static void report_people(cli *c, const answer *a) {
    char from[160] = "", levels[160], loaded[24], moved[48] = "", meanwhile[64] = "", bytes[24];
    for (size_t i = 0; i < a->store.tier_count; i++)
        if (a->lookup.tier_blocks[i])
            snprintf(from + strlen(from), sizeof from - strlen(from), "%s%s",
                     from[0] ? ", " : " from ", a->store.names[i]);
    if (a->bytes_moved != a->lookup.bytes_loaded)
        snprintf(moved, sizeof moved, " (%s moved)", cli_bytes_text(a->bytes_moved, bytes));
    if (a->lookup.computed_tokens > 0)
        snprintf(meanwhile, sizeof meanwhile, " while %u others were computed",
                 a->lookup.computed_tokens);
    levels_text(a, levels, sizeof levels);
    cli_awaited_note(c, &a->awaited, &a->store);
    if (cli_flag(c, "prefill-only")) {
        cli_note(c, "prefilled after %.0f ms: %zu of %zu token%s%s; %u block%s saved", a->total_ms,
                 loaded_tokens(a), a->prompt_tokens, cli_plural(a->prompt_tokens),
                 from[0] ? from : " known", a->saved_blocks, cli_plural(a->saved_blocks));
        return;
    }
    cli_note(c,
             "first token after %.0f ms: %zu of %zu token%s%s%s, %s%s loaded in %.1f ms%s; %u "
             "block%s saved",
             a->ttft_ms, loaded_tokens(a), a->prompt_tokens, cli_plural(a->prompt_tokens),
             from[0] ? from : " known", levels, cli_bytes_text(a->lookup.bytes_loaded, loaded),
             moved, cli_ms(a->lookup.load_ns), meanwhile, a->saved_blocks,
             cli_plural(a->saved_blocks));
}

static int answer_prompt(cli *c, answer *a) {
    int code = read_prompt(c, a);
    if (code == CLI_OK)
        code = cli_model_open(c, &a->model);
    if (code == CLI_OK)
        code = cut_prompt(c, a);
    if (code == CLI_OK)
        code = reserve_tokens(c, a);
    if (code == CLI_OK)
        code = open_manager(c, a);
    bool prefill_only = cli_flag(c, "prefill-only");
    if (code == CLI_OK)
        code = prefill_only ? prefill_rest(c, a) : predict_tokens(c, a);
    if (code != CLI_OK)
        return code;
    if (prefill_only)
        finish_push(c, a);
    else
        save_answer(c, a);
    if (c->json)
        code = report_json(c, a);
    else
        report_people(c, a);
    if (code == CLI_OK && cli_given(c, "dump-kv")) {
        sky_layout layout = {0};
        if (sky_manager_refusal(a->manager))
            return cli_failed(c, "--dump-kv: this model's state cannot be cut into rows");
        sky_manager_layout(a->manager, &layout);
        code = cli_dump_kv(c, &a->model, &layout, (uint32_t)a->prompt_tokens,
                           cli_text(c, "dump-kv"));
    }
    return code;
}

static int run_run(cli *c) {
    answer a = {.predict = cli_count(c, "predict")};
    int code = answer_prompt(c, &a);
    cli_model_manager_close(&a.model, a.manager, a.sequence);
    cli_store_close(&a.store);
    cli_model_close(&a.model);
    cli_blob_free(&a.prompt);
    free(a.tokens);
    free(a.text);
    return code;
}

#else

static int run_run(cli *c) {
    return cli_no_model(c);
}

#endif

const cli_verb cli_verb_run = {
    .name = "run",
    .summary = "Answer a prompt, cached",
    .synopsis = "",
    .about = "The longest prefix of the prompt that some tier holds is loaded, the rest is "
             "computed, and the answer streams to standard output. New blocks are saved, the "
             "answer included, so that the next turn of a conversation finds them. Sampling is "
             "greedy.\n"
             "Blocks that an earlier run stored at a level are loaded whatever --level says: "
             "that is about new blocks. If a loaded block was lossy and --level did not ask for "
             "that, a line on standard error says that the answer may differ.\n"
             "A model whose state cannot be cut into blocks is answered without the cache, and "
             "a line on standard error says why.",
    .settings = CLI_SET_KEYS | CLI_SET_ENGINE,
    .makes_folders = true,
    .options =
        (const cli_option[]){
            {.name = "prompt", .kind = CLI_TEXT, .value = "TEXT", .help = "the prompt"},
            {.name = "prompt-file",
             .kind = CLI_PATH,
             .value = "FILE",
             .help = "the prompt is all of FILE, or of standard input for -"},
            {.name = "predict",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "32",
             .min = 1,
             .max = 1u << 20,
             .help = "new tokens at most"},
            {.name = "no-load", .kind = CLI_FLAG, .help = "compute the whole prompt"},
            {.name = "load-only",
             .kind = CLI_FLAG,
             .help = "load all that is stored, and compute nothing of it meanwhile",
             .detail = "Without it the model computes the beginning while what follows is loaded "
                       "from its end, until they meet. What a tier brings sooner than a block is "
                       "computed is left to the tier. With --deadline-ms it computes "
                       "where the tiers alone would be late."},
            {.name = "no-save", .kind = CLI_FLAG, .help = "store nothing"},
            {.name = "prefill-only",
             .kind = CLI_FLAG,
             .help = "compute the prompt, store its blocks part by part, and answer nothing",
             .detail = "The blocks are announced before they are computed, so that another "
                       "process on the same store (shm:, skymem://) can wait for them with "
                       "--wait-ms. If this process ends early, that one is not kept waiting."},
            {.name = "wait-ms",
             .kind = CLI_COUNT,
             .value = "N",
             .min = 1,
             .max = 600000,
             .help = "wait for blocks that another process computes, as long as the next comes "
                     "within N ms",
             .detail = "Default: no waiting. The wait ends sooner when the other process ends, and "
                       "when computing the rest takes less time: by the rate that is kept of the "
                       "model, and the pace of the blocks. With --load-only the latter is not "
                       "asked. A prompt that nobody announced yet is waited for, too."},
            {.name = "keep-words",
             .kind = CLI_FLAG,
             .help = "keep the prompt's first words beside its blocks on disk, readable, for "
                     "skymem ls"},
            {.name = "dump-kv",
             .kind = CLI_TEXT,
             .value = "FILE.npy",
             .help = "write the prompt's keys and values to a .npy file; use with --no-load",
             .detail = "The array is shaped [layer, 2, token, kv_head, dim], with layers in the "
                       "model's order."},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem run --model gemma.gguf --prompt-file handbook.txt",
             "cold the first time, tens of times sooner the second"},
            {"skymem run --model gemma.gguf --prompt 'Why is the sky blue?' --predict 64 --json",
             "with every number"},
            {"cat question.txt | skymem run --prompt-file - --store disk:/mnt/cache "
             "--deadline-ms 200",
             "load for at most 200 ms, then compute"},
            {"skymem run --prompt-file q.txt --store 'sky+udp:constellation"
             "?level=8,4,2' --deadline-ms 800",
             "each block at the best of three levels that 800 ms allow"},
            {"skymem run --prompt-file q.txt --store shm:auto --prefill-only",
             "one process computes the prompt …"},
            {"skymem run --prompt-file q.txt --store shm:auto --wait-ms 2000",
             "… and another answers it, as its blocks come"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"model", "the model file"},
            {"namespace", "fingerprint of all that would make stored state wrong"},
            {"block_tokens", "tokens of a block"},
            {"prompt_tokens", "tokens of the prompt"},
            {"hit_tokens", "of which were loaded"},
            {"overlapped_tokens", "of those computed: while the others were loaded"},
            {"computed_tokens", "that were computed"},
            {"tiers", "blocks loaded from each tier, by its name"},
            {"level",
             "how new blocks are kept in tiers beyond memory; null where the URL of one says "
             "otherwise"},
            {"tier_levels", "the levels at which each tier keeps them, null: as they come"},
            {"levels", "of the loaded blocks those that came coded, by their level"},
            {"ttft_ms", "from the tokens being known to the first new token being known"},
            {"load_ms", "of which lookup, transfer and restore"},
            {"prefill_ms", "of which computing"},
            {"total_ms", "until the last new token"},
            {"tokens", "the new tokens"},
            {"text", "their text"},
            {"bytes_loaded", "bytes of state that came from the tiers"},
            {"bytes_moved", "bytes that the tiers moved for it: fewer where they keep it coded"},
            {"bytes_saved", "bytes of new blocks that were kept"},
            {"saved_blocks",
             "new blocks that were kept: where a tier outlives this process, by such a tier; and "
             "blocks that got levels they lacked"},
            {"verdict", "hit, partial, miss or recompute"},
            {"corrupt_blocks", "blocks found damaged, and computed instead"},
            {"calibrated", "whether a calibration of the model was found, for lossy levels"},
            {"model_load_ms", "loading the model, apart from ttft_ms"},
            {"tokenize_ms", "cutting the prompt into tokens, apart from ttft_ms"},
            {"wait_ms", "of ttft_ms: waiting for another process, with --wait-ms"},
            {"awaited_tokens", "of so many leading tokens the blocks were there after the wait"},
            {"awaited_blocks", "of their blocks those that came meanwhile"},
            {"awaited_bytes", "of these blocks"},
            {"awaited_tiers", "where they lay, by the tier's name"},
            {"wait_ended", "whole, gone (the other ended), late, sooner (computing is), or null"},
            {"refusal", "why this model is answered uncached, or null"},
            {NULL, NULL},
        },
    .failed =
        "no such model, a prompt longer than the model's context, or the engine failed; a tier "
        "that fails is no reason: the prompt is answered without it",
    .run = run_run,
};
