/* See engine_fixture.h. A row of token t is made of the token, its place, and three rows that a
 * model would see from there: the one before, the one in the middle, and the oldest in the window.
 * */
#include "manager/engine_fixture.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/prng.h"
#include "base/tensor.h"

#define POISON 0xee

typedef struct {
    const sky_layer_group *group;
    uint32_t row_bytes;
} row_set;

static row_set row_set_at(const made_up_engine *e, uint32_t index) {
    const sky_layer_group *g = e->layout.groups;
    uint32_t layer = index / 2;
    while (layer >= g->layer_count)
        layer -= g++->layer_count;
    return (row_set){g, index % 2 ? g->v_row_bytes : g->k_row_bytes};
}

static uint32_t smallest_window(const made_up_engine *e) {
    uint32_t smallest = UINT32_MAX;
    for (uint32_t g = 0; g < e->layout.group_count; g++)
        if (e->layout.groups[g].window_tokens && e->layout.groups[g].window_tokens < smallest)
            smallest = e->layout.groups[g].window_tokens;
    return smallest;
}

/* First token that a layer still sees from token_count tokens on. */
static uint32_t seen_from(const sky_layer_group *g, uint32_t token_count) {
    return g->window_tokens && token_count > g->window_tokens ? token_count - g->window_tokens : 0;
}

static void poison_lent(made_up_engine *e) {
    for (uint32_t i = 0; i < e->row_sets; i++)
        memset(e->lent[i], POISON,
               (size_t)LENT_ROWS * e->context_tokens * row_set_at(e, i).row_bytes);
}

void made_up_by_head(const made_up_engine *e, uint32_t set, sky_tensor *t) {
    (void)set;
    t->token_bytes = t->head_bytes;
    t->head_bytes = e->context_tokens * t->token_bytes;
}

void made_up_paged(const made_up_engine *e, uint32_t set, sky_tensor *t) {
    size_t half = t->head_bytes;
    t->data = (uint8_t *)t->data + set % 2 * half;
    t->bytes -= half;
    t->token_bytes = 2 * half;
    t->head_bytes = MADE_UP_PAGE * t->token_bytes;
    t->page_bytes = t->heads * t->head_bytes;
    t->page_tokens = MADE_UP_PAGE;
    t->pages = e->pages;
    t->page_count = e->context_tokens / MADE_UP_PAGE;
    for (uint32_t i = 0; i < t->first_token / MADE_UP_PAGE; i++)
        e->pages[i] = i == 0 ? UINT32_MAX : 0;
    for (uint32_t i = t->first_token / MADE_UP_PAGE; i < t->page_count; i++)
        e->pages[i] = i * 37 % t->page_count; /* 37 divides no number of pages here */
}

static sky_tensor lent_tensor(const made_up_engine *e, uint32_t set, uint32_t first_token,
                              uint32_t token_count) {
    const sky_layer_group *g = row_set_at(e, set).group;
    sky_tensor t = sky_layer_packed(g, set % 2 ? SKY_KV_V : SKY_KV_K, e->lent[set], first_token,
                                    token_count);
    if (e->arrange) {
        t = sky_tensor_packed(t.data, t.element, g->kv_heads, t.dim / g->kv_heads, first_token,
                              token_count);
        t.bytes = (size_t)LENT_ROWS * e->context_tokens * row_set_at(e, set).row_bytes;
        e->arrange(e, set, &t);
    }
    return t;
}

/* What is no row is still as it was. */
static void check_gaps(const made_up_engine *e, uint32_t set) {
    sky_tensor *t = &e->lent_rows[set];
    size_t bytes = (size_t)LENT_ROWS * e->context_tokens * row_set_at(e, set).row_bytes;
    uint8_t *nothing = malloc(t->token_count * sky__tensor_row_bytes(t));
    assert(nothing);
    memset(nothing, POISON, t->token_count * sky__tensor_row_bytes(t));
    sky__tensor_scatter(t, t->first_token, t->token_count, nothing);
    for (size_t i = 0; i < bytes; i++)
        if (e->lent[set][i] != POISON)
            abort();
    free(nothing);
}

static void fingerprint(void *self, uint8_t out[32]) {
    memset(out, ((made_up_engine *)self)->fingerprint, 32);
}

static sky_status layout(void *self, sky_layout *out, sky_error *error) {
    made_up_engine *e = self;
    if (e->unsupported)
        return sky_fail(error, SKY_E_UNSUPPORTED, "this engine is made up");
    *out = e->layout;
    return SKY_OK;
}

/* One token a byte. */
static sky_status tokenize(void *self, const char *text, size_t text_bytes, uint32_t *tokens,
                           size_t token_count_max, size_t *token_count) {
    (void)self;
    *token_count = text_bytes;
    if (text_bytes > token_count_max)
        return SKY_E_DST_SMALL;
    for (size_t i = 0; i < text_bytes; i++)
        tokens[i] = (uint8_t)text[i];
    return SKY_OK;
}

static sky_status extract(void *self, uint32_t first_token, uint32_t token_count, sky_state *out) {
    made_up_engine *e = self;
    e->extract_calls++;
    poison_lent(e);
    uint32_t window = smallest_window(e);
    if (token_count > window || first_token + token_count > e->held_tokens ||
        (window != UINT32_MAX && first_token < e->window_from))
        return SKY_E_PARAM;
    assert(out->tensor_count == e->row_sets);
    for (uint32_t i = 0; i < e->row_sets; i++) {
        uint32_t bytes = row_set_at(e, i).row_bytes;
        out->tensors[i] = lent_tensor(e, i, first_token, token_count);
        sky__tensor_scatter(&out->tensors[i], first_token, token_count,
                            e->rows[i] + (size_t)first_token * bytes);
    }
    if (e->change)
        e->change(e, out);
    return SKY_OK;
}

static sky_status restore_begin(void *self, uint32_t token_count, sky_state *out) {
    made_up_engine *e = self;
    e->restore_calls++;
    e->held_tokens = 0;
    atomic_store(&e->interrupted, false);
    if (token_count > e->context_tokens)
        return SKY_E_FULL;
    poison_lent(e);
    assert(out->tensor_count == e->row_sets);
    for (uint32_t i = 0; i < e->row_sets; i++) {
        uint32_t from = seen_from(row_set_at(e, i).group, token_count);
        out->tensors[i] = lent_tensor(e, i, from, token_count - from);
        e->lent_rows[i] = out->tensors[i];
    }
    e->restoring_tokens = token_count;
    if (e->change)
        e->change(e, out);
    return SKY_OK;
}

static sky_status restore_end(void *self, bool commit) {
    made_up_engine *e = self;
    uint32_t token_count = e->restoring_tokens;
    e->held_tokens = e->window_from = e->restoring_tokens = e->advanced_tokens = 0;
    if (!commit)
        return SKY_OK;
    if (e->refuse_rows) {
        e->refuse_rows = false;
        return SKY_E_CORRUPT;
    }
    for (uint32_t i = 0; i < e->row_sets; i++) {
        uint32_t bytes = row_set_at(e, i).row_bytes, from = e->lent_rows[i].first_token;
        memset(e->rows[i], POISON, (size_t)e->context_tokens * bytes);
        sky__tensor_gather(&e->lent_rows[i], from, token_count - from,
                           e->rows[i] + (size_t)from * bytes);
        if (e->arrange)
            check_gaps(e, i);
        if (from > e->window_from)
            e->window_from = from;
    }
    e->held_tokens = token_count;
    return SKY_OK;
}

static void compute_row(made_up_engine *e, uint32_t set, uint32_t t, uint32_t token) {
    row_set s = row_set_at(e, set);
    uint64_t seed = sky_checksum(&token, sizeof token, ((uint64_t)set << 32) + t);
    if (t > 0) {
        uint32_t from = seen_from(s.group, t);
        const uint32_t looks_at[] = {from, from + (t - from) / 2, t - 1};
        for (size_t i = 0; i < 3; i++)
            seed = sky_checksum(e->rows[set] + (size_t)looks_at[i] * s.row_bytes, s.row_bytes,
                                seed);
    }
    sky_prng random;
    sky_prng_init(&random, seed);
    uint8_t *row = e->rows[set] + (size_t)t * s.row_bytes;
    for (uint32_t i = 0; i < s.row_bytes; i++)
        row[i] = (uint8_t)sky_prng_u64(&random);
    for (uint32_t i = 0; e->tame && i + 2 <= s.row_bytes; i += 2)
        row[i + 1] = (uint8_t)(0x30 + (row[i + 1] & 0x8b));
}

static sky_status prefill(void *self, const uint32_t *tokens, uint32_t first_token,
                          uint32_t token_count) {
    made_up_engine *e = self;
    if (first_token > e->held_tokens)
        return SKY_E_PARAM;
    if (first_token + token_count > e->context_tokens)
        return SKY_E_FULL;
    if (first_token == 0)
        e->window_from = 0;
    for (uint32_t t = first_token; t < first_token + token_count; t++)
        for (uint32_t set = 0; set < e->row_sets; set++)
            compute_row(e, set, t, tokens[t - first_token]);
    e->held_tokens = first_token + token_count;
    e->advanced_tokens = 0;
    e->logits = 0;
    for (uint32_t set = 0; set < e->row_sets; set++) {
        row_set s = row_set_at(e, set);
        uint32_t from = seen_from(s.group, e->held_tokens);
        e->logits = sky_checksum(e->rows[set] + (size_t)from * s.row_bytes,
                                 (size_t)(e->held_tokens - from) * s.row_bytes, e->logits);
    }
    return SKY_OK;
}

static sky_status advance(void *self, const uint32_t *tokens, uint32_t first_token,
                          uint32_t token_count) {
    made_up_engine *e = self;
    sky_status status = e->before_advance ? e->before_advance(e, first_token, token_count) : SKY_OK;
    if (status != SKY_OK || atomic_load(&e->interrupted))
        return status == SKY_OK ? SKY_E_CANCELLED : status;
    if (first_token != e->held_tokens || e->restoring_tokens == 0)
        return SKY_E_PARAM;
    if (first_token + token_count > e->context_tokens)
        return SKY_E_FULL;
    for (uint32_t t = first_token; t < first_token + token_count; t++)
        for (uint32_t set = 0; set < e->row_sets; set++)
            compute_row(e, set, t, tokens[t - first_token]);
    e->held_tokens = e->advanced_tokens = first_token + token_count;
    return SKY_OK;
}

static void interrupt(void *self) {
    atomic_store(&((made_up_engine *)self)->interrupted, true);
}

static sky_status place_advanced(void *self, uint32_t token_count) {
    made_up_engine *e = self;
    if (token_count == 0 || token_count != e->advanced_tokens || token_count > e->restoring_tokens)
        return SKY_E_PARAM;
    bool fails = e->place_fails;
    e->place_fails = false;
    for (uint32_t i = 0; !fails && i < e->row_sets; i++) {
        uint32_t bytes = row_set_at(e, i).row_bytes, from = e->lent_rows[i].first_token;
        if (from < token_count)
            sky__tensor_scatter(&e->lent_rows[i], from, token_count - from,
                                e->rows[i] + (size_t)from * bytes);
    }
    return fails ? SKY_E_NOMEM : SKY_OK;
}

#define OPS                                                                                        \
    .fingerprint = fingerprint, .layout = layout, .tokenize = tokenize, .extract = extract,        \
    .restore_begin = restore_begin, .restore_end = restore_end, .prefill = prefill

static const sky_engine_ops ops = {OPS};
static const sky_engine_ops advancing_ops = {OPS, .advance = advance, .interrupt = interrupt,
                                             .place_advanced = place_advanced};

void made_up_engine_init(made_up_engine *e, const sky_layout *layout_of, uint32_t context_tokens) {
    *e = (made_up_engine){.layout = *layout_of, .context_tokens = context_tokens};
    for (uint32_t g = 0; g < e->layout.group_count; g++)
        e->row_sets += 2 * e->layout.groups[g].layer_count;
    e->rows = calloc(e->row_sets, sizeof *e->rows);
    e->lent = calloc(e->row_sets, sizeof *e->lent);
    e->lent_rows = calloc(e->row_sets, sizeof *e->lent_rows);
    e->pages = calloc(context_tokens, sizeof *e->pages);
    assert(e->rows && e->lent && e->lent_rows && e->pages);
    for (uint32_t i = 0; i < e->row_sets; i++) {
        size_t bytes = (size_t)context_tokens * row_set_at(e, i).row_bytes;
        e->rows[i] = calloc(1, bytes);
        e->lent[i] = calloc(LENT_ROWS, bytes);
        assert(e->rows[i] && e->lent[i]);
    }
}

void made_up_engine_deinit(made_up_engine *e) {
    for (uint32_t i = 0; i < e->row_sets; i++) {
        free(e->rows[i]);
        free(e->lent[i]);
    }
    free(e->rows);
    free(e->lent);
    free(e->lent_rows);
    free(e->pages);
}

sky_engine made_up_engine_ops(made_up_engine *e) {
    return (sky_engine){e->advances ? &advancing_ops : &ops, e};
}

uint64_t made_up_engine_answer(made_up_engine *e, const uint32_t *tokens, uint32_t first_token,
                               uint32_t token_count) {
    sky_status status = prefill(e, tokens + first_token, first_token, token_count - first_token);
    assert(status == SKY_OK);
    (void)status;
    return e->logits;
}

sky_layout made_up_layout(uint32_t full, uint32_t layers, uint32_t window_tokens) {
    sky_layout l = {0};
    if (layers > 0) /* windows first: stored order is not the engine's order */
        l.groups[l.group_count++] = (sky_layer_group){
            SKY_LAYER_WINDOW, window_tokens, layers, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F32, 6, 12};
    if (full > 0)
        l.groups[l.group_count++] = (sky_layer_group){SKY_LAYER_FULL,  0, full, 2, SKY_ELEMENT_F16,
                                                      SKY_ELEMENT_F16, 8, 4};
    return l;
}
