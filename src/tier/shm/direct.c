/* Answers that need no frame: a block that the index of the arena shows is kept by this process
 * itself (tier/shared_index.h), and the host sleeps on. The host is asked for what is not shown,
 * and for what lies in a segment that was never sent. */
#include "tier/shm/shm_state.h"

static bool key_of(const sky__shm *t, const sky__shm_job *j, size_t i, sky_key *key) {
    const sky_item *item = sky_batches_enter(t->tier.batches, j->batch, i);
    if (!item)
        return false;
    *key = item->key;
    sky_batches_leave(t->tier.batches, j->batch);
    return true;
}

static bool answer_has(sky__shm *t, const sky__shm_job *j, size_t i, const sky_key *key) {
    sky_shared_found found;
    if (!sky_shared_reader_find(&t->link->reader, key, &found))
        return false;
    const sky_shared_block *b = &found.block;
    sky_answer a = {.status = SKY_OK,
                    .bytes = b->bytes,
                    .tier = t->env.index,
                    .coding = b->coding,
                    .evict = b->evict,
                    .pinned = b->pinned};
    sky__count_answer(&t->counts, j->op, &a);
    sky_batches_answer(t->tier.batches, j->batch, i, &a);
    return true;
}

static bool answer_lent(sky__shm *t, const sky__shm_job *j, size_t i, const sky_key *key) {
    sky__shm_link *l = t->link;
    sky_shared_found found;
    uint32_t hazard;
    if (!sky_shared_reader_keep(&l->reader, key, &found, &hazard))
        return false;
    const uint8_t *payload = sky__shm_link_kept(l, &found.block);
    if (!payload) {
        sky_shared_reader_let_go(&l->reader, hazard);
        return false;
    }
    if (!j->call.no_touch && sky_shared_reader_tell(&l->reader, &found))
        sky__shm_call_host(t);
    const sky_shm_result lent = {.status = SKY_OK,
                                 .bytes = found.block.bytes,
                                 .lease = SKY__SHM_DIRECT | hazard,
                                 .coding = found.block.coding,
                                 .evict = found.block.evict};
    l->lease_count++; /* what is mapped stays, whatever comes of the link meanwhile */
    if (sky__shm_take_lent(t, j, i, &lent, payload))
        sky_shared_reader_let_go(&l->reader, hazard);
    sky__shm_link_destroy(sky__shm_link_unlease(t, l));
    return true;
}

size_t sky__shm_direct(sky__shm *t, const sky__shm_job *j) {
    bool lends = j->op == SKY_OP_GET || j->op == SKY_OP_LEASE;
    size_t over = 0;
    if (!lends && j->op != SKY_OP_HAS)
        return 0;
    for (size_t i = 0; i < j->count && t->link && !t->broken; i++) {
        sky_key key;
        if (!t->link->reader.memory)
            return over;
        if (!key_of(t, j, i, &key))
            over++; /* nobody wants it any more */
        else
            over += lends ? answer_lent(t, j, i, &key) : answer_has(t, j, i, &key);
    }
    return over;
}
