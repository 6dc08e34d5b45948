#include "push.h"

#ifdef SKYMEM_WITH_LLAMA

#include <stdio.h>
#include <string.h>

static void push_part(void *context, size_t computed_tokens) {
    cli_push *p = context;
    if (p->status == SKY_OK)
        p->status = sky_sequence_push(p->sequence, computed_tokens);
}

int cli_push_compute(cli *c, cli_model *m, cli_push *p, const uint32_t *tokens, size_t first,
                     size_t count) {
    p->status = sky_sequence_push_begin(p->sequence, tokens, count);
    m->computed = push_part;
    m->computed_context = p;
    int code = cli_model_compute(c, m, tokens, first, count);
    m->computed = NULL;
    if (code == CLI_OK)
        push_part(p, count);
    (void)sky_sequence_push_end(p->sequence, &p->blocks, &p->bytes);
    return code;
}

/* Somebody else can announce there. */
static bool takes_announcements(const cli_store *store) {
    bool any = false;
    for (size_t i = 0; i < store->tier_count; i++)
        any |= cli_store_is(store, i, SKY_TIER_ANNOUNCES);
    return any;
}

static const char *end_of(sky_status status, const sky_awaited *awaited) {
    if (status == SKY_OK)
        return "whole";
    if (status == SKY_MISS)
        return "gone";
    return awaited->computing_is_sooner ? "sooner" : "late";
}

static void note_end(const cli *c, const cli_awaited *a, uint64_t patience_ms) {
    uint32_t tokens = a->came.stored_tokens;
    if (strcmp(a->ended, "gone") == 0)
        cli_note(c,
                 "the process that computed the prompt, or the store between, ended after %u "
                 "tokens; computing the rest",
                 tokens);
    else if (strcmp(a->ended, "sooner") == 0)
        cli_note(c, "computing the rest is sooner than waiting for it, after %u tokens", tokens);
    else if (strcmp(a->ended, "late") == 0)
        cli_note(c, "nothing came for %llu ms after %u tokens; computing the rest",
                 (unsigned long long)patience_ms, tokens);
}

int cli_await_blocks(cli *c, const cli_store *store, sky_sequence *sequence, const uint32_t *tokens,
                     size_t count, cli_awaited *out) {
    uint32_t stored;
    if (!cli_given(c, "wait-ms"))
        return CLI_OK;
    if (!takes_announcements(store)) {
        cli_note(c, "not waiting: no other process reaches this store; give shm: or skymem://");
        return CLI_OK;
    }
    uint64_t patience_ms = cli_count(c, "wait-ms");
    cli_progress("waiting for another process to compute %zu tokens", count);
    sky_status status = sky_sequence_await(sequence, tokens, count, SKY_MS(patience_ms), &stored);
    cli_progress(NULL);
    (void)sky_sequence_awaited(sequence, &out->came);
    if (status != SKY_OK && status != SKY_MISS && status != SKY_E_DEADLINE)
        return cli_failed(c, "the wait failed: %s", sky_status_text(status));
    out->ended = end_of(status, &out->came);
    note_end(c, out, patience_ms);
    return CLI_OK;
}

void cli_awaited_json(const cli_awaited *a, const cli_store *store, json_t *to) {
    json_t *tiers = json_object();
    for (size_t i = 0; i < store->tier_count; i++)
        json_object_set_new(tiers, store->names[i],
                            json_integer((json_int_t)a->came.tier_blocks[i]));
    json_object_set_new(to, "wait_ms", json_real(cli_ms(a->came.waited_ns)));
    json_object_set_new(to, "awaited_tokens", json_integer((json_int_t)a->came.stored_tokens));
    json_object_set_new(to, "awaited_blocks", json_integer((json_int_t)a->came.awaited_blocks));
    json_object_set_new(to, "awaited_bytes", json_integer((json_int_t)a->came.bytes));
    json_object_set_new(to, "awaited_tiers", tiers);
    json_object_set_new(to, "wait_ended", a->ended ? json_string(a->ended) : json_null());
}

void cli_awaited_note(const cli *c, const cli_awaited *a, const cli_store *store) {
    char from[160] = "", bytes[24];
    if (!a->ended)
        return;
    for (size_t i = 0; i < store->tier_count; i++)
        if (a->came.tier_blocks[i])
            snprintf(from + strlen(from), sizeof from - strlen(from), "%s%u in %s",
                     from[0] ? ", " : ": ", a->came.tier_blocks[i], store->names[i]);
    cli_note(c, "waited %.0f ms for %u block%s; %u tokens are there, %s%s",
             cli_ms(a->came.waited_ns), a->came.awaited_blocks, cli_plural(a->came.awaited_blocks),
             a->came.stored_tokens, cli_bytes_text(a->came.bytes, bytes), from);
}

#endif
