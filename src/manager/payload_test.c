/* Proves: payload headers are the bytes that docs/formats/block.md says, any other byte is refused,
 * sections fill the payload without gaps, full-attention groups first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <skymem/cache.h>
#include <skymem/keys.h>

#include "manager/payload.h"

static sky_layout gemma(void) {
    return (sky_layout){
        .group_count = 2,
        .groups = {{SKY_LAYER_FULL, 0, 3, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 512, 512},
                   {SKY_LAYER_WINDOW, 512, 15, 1, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 512, 512}}};
}

/* ---- golden vectors ---- */

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t bytes = 0;
    unsigned value;
    for (; sscanf(hex, "%2x", &value) == 1; hex += 2)
        out[bytes++] = (uint8_t)value;
    return bytes;
}

static bool layouts_equal(const sky_layout *a, const sky_layout *b) {
    if (a->group_count != b->group_count)
        return false;
    for (uint32_t i = 0; i < a->group_count; i++) {
        const sky_layer_group *x = &a->groups[i], *y = &b->groups[i];
        if (x->kind != y->kind || x->window_tokens != y->window_tokens ||
            x->layer_count != y->layer_count || x->kv_heads != y->kv_heads ||
            x->k_element != y->k_element || x->v_element != y->v_element ||
            x->k_row_bytes != y->k_row_bytes || x->v_row_bytes != y->v_row_bytes)
            return false;
    }
    return true;
}

static void parse_groups(const char *text, sky_layout *layout) {
    int used;
    for (unsigned kind, k, v; *text; text += used + (text[used] == ';')) {
        sky_layer_group *g = &layout->groups[layout->group_count++];
        used = 0;
        sscanf(text, "%u,%u,%u,%u,%u,%u,%u,%u%n", &kind, &g->window_tokens, &g->layer_count,
               &g->kv_heads, &k, &v, &g->k_row_bytes, &g->v_row_bytes, &used);
        assert_true(used > 0);
        g->kind = (sky_layer_kind)kind;
        g->k_element = (sky_element)k;
        g->v_element = (sky_element)v;
    }
}

static void expect_accepted(const char *line, const uint8_t *bytes, size_t byte_count) {
    char name[64], groups[256];
    unsigned tokens, first, payload_bytes;
    assert_int_equal(
        sscanf(line, "accept %63s %u %u %u %255s", name, &tokens, &first, &payload_bytes, groups),
        5);
    sky_layout layout = {0};
    parse_groups(groups, &layout);
    sky_payload payload, read;
    assert_int_equal(sky_payload_init(&payload, &layout, tokens), SKY_OK);
    assert_int_equal(payload.payload_bytes, payload_bytes);
    assert_int_equal(payload.header_bytes, byte_count);
    uint8_t *written = malloc(byte_count);
    sky_payload_header_write(&payload, first, written);
    assert_memory_equal(written, bytes, byte_count);
    free(written);

    uint32_t read_first;
    assert_int_equal(sky_payload_header_read(bytes, byte_count, &read, &read_first), SKY_OK);
    assert_int_equal(read_first, first);
    assert_int_equal(read.token_count, tokens);
    assert_true(layouts_equal(&read.layout, &layout));
    assert_int_equal(sky_payload_header_check(&payload, first, bytes), SKY_OK);
    assert_int_equal(sky_payload_header_check(&payload, first + 1, bytes), SKY_E_CORRUPT);
}

static void expect_rejected(const char *line, const uint8_t *bytes, size_t byte_count) {
    char name[64], status[32];
    assert_int_equal(sscanf(line, "reject %63s %31s", name, status), 2);
    sky_payload payload;
    uint32_t first;
    sky_status got = sky_payload_header_read(bytes, byte_count, &payload, &first);
    if (strcmp(sky_status_name(got), status) != 0)
        fail_msg("%s: %s instead of %s", name, sky_status_name(got), status);
}

static void golden_vectors_hold(void **state) {
    (void)state;
    FILE *f = fopen("tests/golden/payload.txt", "r");
    assert_non_null(f);
    char line[8192];
    int accepted = 0, rejected = 0;
    while (fgets(line, sizeof line, f)) {
        const char *hex = strstr(line, " =");
        if (line[0] == '#' || !hex)
            continue;
        uint8_t bytes[4096];
        size_t byte_count = from_hex(hex + 3, bytes);
        uint8_t *exact = malloc(byte_count + 1); /* a read past the end shows under a sanitizer */
        memcpy(exact + 1, bytes, byte_count);
        if (strncmp(line, "accept", 6) == 0) {
            expect_accepted(line, exact + 1, byte_count);
            accepted++;
        } else {
            expect_rejected(line, exact + 1, byte_count);
            rejected++;
        }
        free(exact);
    }
    fclose(f);
    assert_int_equal(accepted, 5);
    assert_int_equal(rejected, 31);
}

/* ---- every byte counts ---- */

static void every_flipped_bit_is_refused(void **state) {
    (void)state;
    sky_layout layout = gemma();
    sky_payload payload, read;
    assert_int_equal(sky_payload_init(&payload, &layout, 128), SKY_OK);
    uint8_t header[1024];
    assert_true(payload.header_bytes <= sizeof header);
    sky_payload_header_write(&payload, 256, header);
    uint32_t first;
    for (uint32_t bit = 0; bit < payload.header_bytes * 8; bit++) {
        header[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(sky_payload_header_read(header, sizeof header, &read, &first), SKY_OK);
        assert_int_equal(sky_payload_header_check(&payload, 256, header), SKY_E_CORRUPT);
        header[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(sky_payload_header_read(header, sizeof header, &read, &first), SKY_OK);
}

static void sections_fill_the_payload_in_stored_order(void **state) {
    (void)state;
    sky_layout layout = {
        .group_count = 3,
        .groups = {{SKY_LAYER_WINDOW, 100, 2, 2, SKY_ELEMENT_BF16, SKY_ELEMENT_F16, 16, 6},
                   {SKY_LAYER_FULL, 0, 3, 4, SKY_ELEMENT_F16, SKY_ELEMENT_F16, 32, 64},
                   {SKY_LAYER_WINDOW, 7, 1, 0, SKY_ELEMENT_F32, SKY_ELEMENT_F32, 4, 8}}};
    sky_payload payload;
    assert_int_equal(sky_payload_init(&payload, &layout, 48), SKY_OK);
    uint32_t at = payload.header_bytes, seen = 0;
    bool windows = false;
    for (uint32_t i = 0; i < payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&payload, i);
        assert_int_equal(s.offset, at);
        assert_int_equal(s.bytes, s.row_bytes * 48);
        windows |= layout.groups[s.group].kind == SKY_LAYER_WINDOW;
        assert_true(!windows || layout.groups[s.group].kind == SKY_LAYER_WINDOW);
        assert_true(s.row_set < payload.row_sets && !(seen >> s.row_set & 1));
        seen |= 1u << s.row_set;
        at += s.bytes;
    }
    assert_int_equal(at, payload.payload_bytes);
    /* Row sets count in the layout's order: the first section is group 1, layer 0, K. */
    assert_int_equal(sky_payload_section_at(&payload, 0).row_set, 4);
    assert_int_equal(sky_payload_section_at(&payload, 6).row_set, 0);
}

static void a_block_of_gemma_is_as_large_as_its_rows(void **state) {
    (void)state;
    sky_layout layout = gemma();
    sky_payload payload;
    assert_int_equal(sky_payload_init(&payload, &layout, 128), SKY_OK);
    assert_int_equal(payload.payload_bytes - payload.header_bytes, 18 * 2 * 512 * 128);
    assert_int_equal(payload.group_offset[1] - payload.header_bytes, 3 * 2 * 512 * 128);
}

/* What lies behind the last group is nobody's. */
static void only_groups_that_count_have_windows(void **state) {
    (void)state;
    sky_layout layout = gemma();
    sky_payload payload;
    assert_int_equal(sky_payload_init(&payload, &layout, 128), SKY_OK);
    payload.layout.groups[2].window_tokens = 4096;
    payload.group_offset[2] = 1;
    assert_int_equal(sky_payload_window_tokens(&payload), 512);
    assert_int_equal(sky_payload_lead_bytes(&payload), payload.group_offset[1]);
    payload.layout.group_count = 1; /* the one without a window */
    assert_int_equal(sky_payload_window_tokens(&payload), 0);
    assert_int_equal(sky_payload_lead_bytes(&payload), payload.payload_bytes);
}

static void layouts_that_mean_nothing_are_refused(void **state) {
    (void)state;
    sky_payload payload;
    sky_layout layout = gemma();
    assert_int_equal(sky_payload_init(&payload, &layout, 0), SKY_E_PARAM);
    assert_int_equal(sky_payload_init(&payload, &layout, SKY_BLOCK_TOKENS_MAX + 1), SKY_E_PARAM);
    layout.groups[0].k_row_bytes = 511;
    assert_int_equal(sky_payload_init(&payload, &layout, 128), SKY_E_PARAM);
    layout = gemma();
    layout.groups[1].layer_count = SKY_LAYERS_MAX - 2;
    assert_int_equal(sky_payload_init(&payload, &layout, 1), SKY_E_PARAM);
    layout = gemma();
    layout.groups[0].k_row_bytes = layout.groups[0].v_row_bytes = SKY_ROW_BYTES_MAX;
    layout.groups[0].layer_count = 512; /* 4 GiB and a little */
    assert_int_equal(sky_payload_init(&payload, &layout, 4), SKY_E_PARAM);
    assert_int_equal(sky_payload_init(&payload, &layout, 3), SKY_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors_hold),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(sections_fill_the_payload_in_stored_order),
        cmocka_unit_test(a_block_of_gemma_is_as_large_as_its_rows),
        cmocka_unit_test(only_groups_that_count_have_windows),
        cmocka_unit_test(layouts_that_mean_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
