#include "tier/encoded/level_set.h"

#include <stdio.h>
#include <string.h>

#include <skymem/codec.h>
#include <skymem/keys.h>
#include <skymem/stream.h>

#include "base/hash.h"

/* Added to the coding of what lies beside a better level, which is never the best one there is:
 * 2 … 8 become 9 … 15, the most that tiers take. */
#define BESIDE (SKY_LEVEL_COUNT - 1)
_Static_assert(SKY_LEVEL_COUNT + BESIDE <= 15, "codings take four bits");
_Static_assert(SKY_LEVEL_COUNT <= SKY_CODINGS_MAX, "all levels fit a level set");

void sky_level_key(const sky_key *block, sky_coding coding, sky_key *out) {
    static const uint8_t label[] = "skymem level";
    sky_blake2b h;
    sky_key mask = {{0}};
    if (coding != 0) {
        sky_blake2b_init(&h, NULL);
        sky_blake2b_add(&h, label, sizeof label - 1);
        sky_blake2b_add(&h, &coding, 1);
        sky_blake2b_end(&h, mask.bytes);
    }
    for (size_t i = 0; i < SKY_KEY_BYTES; i++)
        out->bytes[i] = block->bytes[i] ^ mask.bytes[i];
}

/* Put a level in its place. */
static sky_status level_set_insert(sky_level_set *l, sky_coding coding) {
    uint32_t at = l->count;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->codings[i] == coding)
            return SKY_E_SYNTAX;
    for (; at > 0 && l->codings[at - 1] > coding; at--)
        l->codings[at] = l->codings[at - 1];
    l->codings[at] = coding;
    l->count++;
    return SKY_OK;
}

sky_status sky_level_set_parse(const char *text, sky_level_set *out) {
    sky_level_set l = {.count = 0};
    for (bool more = true; more;) {
        char name[16];
        sky_level level;
        size_t bytes = strcspn(text, ",");
        if (bytes == 0 || bytes >= sizeof name)
            return SKY_E_SYNTAX;
        memcpy(name, text, bytes);
        name[bytes] = 0;
        if (sky_level_parse(name, &level) != SKY_OK ||
            level_set_insert(&l, (sky_coding)(level + 1)) != SKY_OK)
            return SKY_E_SYNTAX;
        more = text[bytes] == ',';
        text += bytes + more;
    }
    *out = l;
    return SKY_OK;
}

void sky_level_set_text(const sky_level_set *l, char *out, size_t out_bytes) {
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < l->count && used < out_bytes; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", i ? "," : "",
                                 sky_level_name((sky_level)(l->codings[i] - 1)));
}

uint32_t sky_level_set_step(const sky_level_set *l, sky_coding coding) {
    for (uint32_t i = 0; i < l->count; i++)
        if (l->codings[i] == coding)
            return i;
    return 0; /* as if nothing was wanted */
}

sky_key sky_level_set_key(const sky_level_set *l, uint32_t step, const sky_key *block) {
    sky_key key = *block;
    if (step > 0 && !sky_key_is_zero(block))
        sky_level_key(block, l->codings[step], &key);
    return key;
}

sky_coding sky_level_set_coding(const sky_level_set *l, uint32_t step) {
    return (sky_coding)(l->codings[step] + (step > 0 ? BESIDE : 0));
}

sky_coding sky_level_set_unmark(sky_coding told) {
    return told > SKY_LEVEL_COUNT ? (sky_coding)(told - BESIDE) : told;
}

void sky_level_set_entry(sky_entry *entry) {
    sky_coding coding = sky_level_set_unmark(entry->coding);
    if (coding != entry->coding && !entry->name) {
        sky_level_key(&entry->key, coding, &entry->key);
        if (!sky_key_is_zero(&entry->parent))
            sky_level_key(&entry->parent, coding, &entry->parent);
    }
    entry->coding = coding;
}
