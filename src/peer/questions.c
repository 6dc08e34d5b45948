/* What a client asks of the host itself: its entries, whether they are whole, its counts. */
#include <stdlib.h>
#include <string.h>

#include "cache/cache_internal.h"
#include "cache/listing.h"
#include "peer/server.h"

sky_status sky__peer_take_ask(sky__peer_connection *c) {
    if (c->asked || c->text) {
        c->why = "it asks before it was answered";
        return SKY_E_CORRUPT;
    }
    c->asked = true;
    c->question = c->frame->question;
    c->question_id = c->frame->id;
    return SKY_OK;
}

/* ---- listing ---- */

/* False: others list. */
static bool take_listing(sky__peer_connection *c) {
    _Atomic uint32_t *count = &c->server->listing_count;
    c->lists = atomic_fetch_add(count, 1) < SKY__PEER_LISTINGS_MAX;
    atomic_fetch_sub(count, !c->lists);
    c->waits_to_list = !c->lists;
    return c->lists;
}

void sky__peer_give_listing(sky__peer_connection *c) {
    free(c->text);
    c->text = NULL;
    atomic_fetch_sub(&c->server->listing_count, c->lists);
    c->lists = false;
}

/* ---- verifying: on a thread of its own, as it may take hours ---- */

static void *verify_body(void *argument) {
    sky__peer_connection *c = argument;
    c->verify_status = sky_verify(c->server->cache, &c->report);
    atomic_store(&c->verified, true);
    sky_event_raise(c->event);
    return NULL;
}

/* False: it goes on. */
static bool verify_all(sky__peer_connection *c, sky_peer_frame *told) {
    const sky_verify_report *r = &c->report;
    if (!c->verifier.running) {
        c->report = (sky_verify_report){0};
        atomic_store(&c->verified, false);
        sky_status started = sky_thread_start(&c->verifier, "skymem-verify", verify_body, c);
        if (started == SKY_OK)
            return false;
        c->verify_status = started;
    } else if (!atomic_load(&c->verified)) {
        return false;
    }
    sky_thread_join(&c->verifier);
    told->told = c->verify_status;
    memcpy(told->numbers, (const uint64_t[]){r->entries, r->bytes, r->corrupt, r->orphans},
           sizeof told->numbers);
    return true;
}

/* ---- answers ---- */

/* The entries of all stores, and the bytes of the nearest. */
static void count_all(const sky_peer_server *s, sky_peer_frame *told) {
    for (size_t i = 0; i < sky_tier_count(s->cache); i++) {
        sky_tier_counts counts = {0};
        if (!(s->tiers >> i & 1))
            continue; /* other hosts would ask us, and we them */
        (void)sky__cache_tier_counts(s->cache, i, &counts);
        told->numbers[0] += counts.entries;
        if (i > 0)
            continue;
        told->numbers[1] = counts.bytes_used;
        told->numbers[2] = counts.bytes_max;
    }
}

bool sky__peer_tell(sky__peer_connection *c) {
    sky_peer_frame *f = c->frame;
    size_t text_bytes = 0;
    if (!sky_peer_link_begin(c->link, SKY_PEER_FRAME_BYTES_MAX))
        return false;
    f->told = SKY_OK;
    memset(f->numbers, 0, sizeof f->numbers);
    if (c->question != SKY_PEER_STAT && c->server->has_peers) {
        f->told = SKY_E_UNSUPPORTED; /* it would ask them, and they us */
    } else if (c->question == SKY_PEER_LIST) {
        if (!take_listing(c))
            return false;
        f->told = sky__listing(c->server->cache, 0, &c->text, &text_bytes);
    } else if (c->question == SKY_PEER_VERIFY) {
        if (!verify_all(c, f))
            return false;
    } else {
        count_all(c->server, f);
    }
    f->kind = SKY_PEER_TOLD;
    f->id = c->question_id;
    f->count = 0;
    f->question = c->question;
    f->text_bytes = c->text_bytes = text_bytes;
    c->text_at = 0;
    c->asked = false;
    return sky_peer_link_send(c->link, f);
}

/* A client that goes does not end the verifying of others, which is one and the same to the cache;
 * a server that stops ends all. */
void sky__peer_questions_end(sky__peer_connection *c) {
    sky_peer_server *s = c->server;
    while (c->verifier.running && !atomic_load(&c->verified)) {
        if (sky_poll(&s->stop, 1, 0))
            sky_verify_cancel(s->cache);
        sky_poll(&c->event, 1, sky_now() + SKY__PEER_AGAIN_NS);
    }
    sky_thread_join(&c->verifier);
    sky__peer_give_listing(c);
}
