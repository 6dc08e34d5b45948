/* Puts and removals under the condition of a version: of grounds that race, one wins.
 *
 *   ground 1 ── SET-IF 7 → 8 ──► the satellite of a head's first copy ◄── SET-IF 7 → 9 ── ground 2
 *                                   7 is here: now it is 8
 *            ◄── stored ────────────┤├──────────── another version: 8 ──►
 *
 * There is one satellite at a time that decides about a key: the one on which the first copy of its
 * head belongs. While that head is on its way to the next, neither does. So a decision is made on
 * the newest version that any decision before it left, as long as these hold: clocks are apart by
 * less than the grace, a head is handed over within the grace, and a satellite that starts empty is
 * given its copies within a period of repair. Until then who holds nothing decides nothing: it
 * cannot tell what was never there from what has not come yet. Where a head has one copy, and its
 * satellite dies, the key is gone as any other is, and may be put as new.
 *
 * A ground asks again when no answer came. Each attempt bears the same name, by chance unlike any
 * other's, and what was decided is answered so again, as far as the last names are remembered. */
#include "satellite/node_state.h"

#define GRACE_NS_MAX SKY_SECONDS(2)

typedef struct sky_node_slot slot;

static bool was_decided(const sky_node *n, uint64_t name) {
    for (uint32_t i = 0; i < SKY_NODE_DECISIONS; i++) {
        if (n->decisions[i] == name && name)
            return true;
    }
    return false;
}

static void decision_note(sky_node *n, uint64_t name) {
    n->decisions[n->decision_next] = name;
    n->decision_next = (n->decision_next + 1) % SKY_NODE_DECISIONS;
}

/* What should be here has come, if it is anywhere. */
static bool is_settled(const sky_node *n, const sky_message *m) {
    const sky_node_config *c = n->config;
    sky_time grace = c->mend_grace_ns < GRACE_NS_MAX ? c->mend_grace_ns : GRACE_NS_MAX;
    sky_time given = m->facts.copies > 1 ? c->mend_period_ns : 0;
    bool turned = n->turns == 0 || n->now >= n->turn_began + grace;
    return turned && (n->born == 0 || n->now >= n->born + grace + given);
}

static bool node_decides(const sky_node *n, const sky_message *m, const slot *head) {
    bool moves = head && (head->move == SKY__WAITING || head->move == SKY__SENT || head->doomed);
    return !moves && sky_satellite_equal(sky__node_place(n, &m->facts), n->self);
}

sky_outcome sky__decide(sky_node *n, const sky_message *m, sky_satellite giver,
                        sky_chunk_id *other) {
    slot *head = sky__node_find_head(n, &m->id.key, SKY_VERSION_ANY);
    uint64_t here = head ? head->id.version : 0;
    if (was_decided(n, m->name))
        return SKY_STORED;
    if (!node_decides(n, m, head))
        return SKY_UNDECIDED;
    if (!head && sky__removed_known(n, &(sky_chunk_id){.key = m->id.key}) == SKY__WANTED &&
        (m->expected || !is_settled(n, m)))
        return SKY_UNDECIDED;
    if (here != m->expected) {
        *other = (sky_chunk_id){.version = here};
        return SKY_OTHER_VERSION;
    }
    sky_outcome outcome = SKY_STORED;
    if (m->older) {
        sky__removed_note(n, &(sky_chunk_id){.key = m->id.key, .version = here}, true);
        sky__node_drop(n, head);
    } else {
        sky__removed_forget(n, &m->id.key);
        outcome = sky__node_store(n, m, giver, other);
    }
    if (outcome != SKY_NOT_STORED)
        decision_note(n, m->name);
    return outcome;
}
