#include "ground/core.h"

#include "base/clock.h"

#define TURNS_BACK   240  /* an hour: what is left behind for longer is not looked for */
#define LOSS_SAMPLES 256  /* the estimate remembers */
#define ALL_SAMPLES  64   /* and the other; it begins with none lost, so that one loss is little */
#define SILENT_MOST  16   /* requests unheard are not the links', whatever they lose */
#define BY_LOSS      1e-6 /* so seldom all of them are lost */

/* Where chunks have company, heads have it too: as many satellites may go with theirs, as far as
 * the sky is wide. */
uint32_t sky__head_copies(const sky_session_config *c) {
    uint32_t wanted = c->parity + 1 > c->replicas ? c->parity + 1u : c->replicas;
    uint32_t room = sky_frame_heads_max(c->frame);
    return wanted < room ? wanted : room;
}

void sky__core_init(sky__core *c, const sky_session_config *config) {
    *c = (sky__core){.config = *config, .servers = config->frame->placement.servers};
    c->config.replicas = config->replicas ? config->replicas : 1;
    c->head_copies = sky__head_copies(&c->config);
    c->stripes = (sky_stripes){c->servers - config->parity, config->parity};
}

bool sky__block_ended(sky__core *c, uint64_t version) {
    for (uint32_t i = 0; i < SKY__ENDED_MAX; i++) {
        if (c->ended[i] == version)
            return false;
    }
    c->ended[c->ended_next] = version;
    c->ended_next = (c->ended_next + 1) % SKY__ENDED_MAX;
    return true;
}

/* ---- losses ---- */

void sky__loss_note(sky__core *c, bool get, bool lost) {
    sky__loss *l = &c->loss;
    l->all += ((lost ? 1.0 : 0.0) - l->all) / ALL_SAMPLES;
    if (!get)
        return;
    if (l->samples < LOSS_SAMPLES)
        l->samples++;
    l->gets += ((lost ? 1.0 : 0.0) - l->gets) / l->samples;
}

uint32_t sky__silent_requests(const sky__core *c) {
    uint32_t count = 0;
    for (double lost = 1; count < SILENT_MOST && lost > BY_LOSS; count++)
        lost *= c->loss.all;
    return count;
}

uint32_t sky__sends_more(const sky__core *c, double unheard_max, uint32_t more_max) {
    uint32_t more = 0;
    for (double unheard = c->loss.gets; unheard > unheard_max && more < more_max; more++)
        unheard *= c->loss.gets;
    return more;
}

/* ---- chunks ---- */

uint64_t sky__rotations(const sky__core *c) {
    return sky_turns(&c->config.frame->turning, c->now);
}

int64_t sky__calendar_ms(const sky__core *c) {
    return sky_turning_ms(&c->config.frame->turning, c->now);
}

bool sky__version_too_new(const sky__core *c, uint64_t version) {
    return version >> 16 > (uint64_t)sky__calendar_ms(c) + SKY_HEAD_AHEAD_MS;
}

uint32_t sky__data_chunks(const sky__core *c, uint32_t payload_bytes) {
    uint32_t size = c->config.chunk_bytes;
    return payload_bytes / size + (payload_bytes % size != 0);
}

uint32_t sky__chunk_length(const sky__core *c, uint32_t payload_bytes, uint32_t number) {
    if (number == 0)
        return SKY_HEAD_BYTES;
    uint32_t chunks = sky__data_chunks(c, payload_bytes);
    uint32_t data = sky_stripes_data_number(&c->stripes, chunks, number);
    if (data == 0) /* parity is as long as its stripe's first */
        data = sky_stripes_data_number(&c->stripes, chunks,
                                       sky_stripe_of(&c->stripes, chunks, number).first);
    uint64_t begin = (uint64_t)(data - 1) * c->config.chunk_bytes;
    uint64_t left = payload_bytes - begin;
    return left < c->config.chunk_bytes ? (uint32_t)left : c->config.chunk_bytes;
}

uint32_t sky__server_of(const sky__core *c, uint32_t number, uint32_t copy) {
    return sky_frame_server(c->config.frame, number, c->config.replicas, copy);
}

uint32_t sky__chunks_on(const sky__core *c, uint32_t chunks, uint32_t server) {
    return (chunks + c->servers - server) / c->servers;
}

sky_chunk_facts sky__block_facts(const sky__core *c, const sky_block_info *info, bool pinned) {
    const sky_placement *p = &c->config.frame->placement;
    return (sky_chunk_facts){.set_ms = info->set_ms,
                             .centre = {info->centre_plane, info->centre_slot},
                             .chunk_count = info->chunk_count,
                             .window_planes = (uint16_t)p->window_planes,
                             .window_slots = (uint16_t)p->window_slots,
                             .strategy = p->strategy,
                             .pinned = pinned,
                             .copies = c->config.replicas,
                             .spare = c->config.replicas > 1 || c->config.parity > 0};
}

/* The head lies in a window one satellite wide, on whatever is overhead or, a copy, beside it, and
 * that from the start of time: whoever looks for it does not know when its block was set, or for
 * when. */
static void head_facts(const sky_frame *f, sky_chunk_facts *facts, uint32_t copy) {
    facts->set_ms = f->turning.start_ms;
    facts->moves = 0;
    facts->centre = facts->first = facts->next = sky_frame_head(f, copy);
    if (!sky_strategy_row_of(facts->strategy)->windowed)
        return;
    facts->window_planes = facts->window_slots = 1;
    if (!sky_strategy_row_of(facts->strategy)->migrates)
        facts->strategy = SKY_PLACE_ROTATION_HOP; /* heads turn with the sky in any case */
}

void sky__facts_of(const sky__core *c, sky_chunk_facts *facts, uint32_t number, uint32_t copy) {
    const sky_frame *f = c->config.frame;
    if (number == 0) {
        facts->copies = (uint8_t)c->head_copies;
        head_facts(f, facts, copy);
        return;
    }
    uint32_t after = number < facts->chunk_count ? number + 1 : 1;
    facts->first = sky_frame_first(f, facts->centre, sky__server_of(c, number, copy));
    facts->next = sky_frame_first(f, facts->centre, sky__server_of(c, after, copy));
}

static sky_satellite place_at(const sky__core *c, const sky_chunk_facts *facts,
                              uint64_t rotations) {
    const sky_frame *f = c->config.frame;
    return sky_chunk_place(&f->constellation, &f->turning, facts, rotations);
}

static bool place_before(const sky__core *c, const sky_chunk_facts *facts, uint64_t rotations,
                         sky_satellite *out) {
    const sky_frame *f = c->config.frame;
    return sky_chunk_place_before(&f->constellation, &f->turning, facts, rotations, out);
}

sky_satellite sky__place_now(const sky__core *c, const sky_chunk_facts *facts) {
    return place_at(c, facts, sky__rotations(c));
}

static void add_place(sky_satellite places[SKY__PLACES_MAX], uint32_t *count, sky_satellite place) {
    for (uint32_t i = 0; i < *count; i++) {
        if (sky_satellite_equal(places[i], place))
            return;
    }
    places[(*count)++] = place;
}

sky_chunk_facts sky__facts_before(const sky__core *c, const sky_chunk_facts *facts,
                                  const sky__epoch *before, uint32_t server) {
    sky_chunk_facts old = *facts;
    old.set_ms = before->set_ms;
    old.centre = before->centre;
    old.first = sky_frame_first(c->config.frame, before->centre, server);
    return old;
}

/* Where a chunk may be: at its place, if it is on its way still at the place before, where clocks
 * differ it may have left for the next one early; and if the block was moved and the chunk did not
 * hear of it, in its old home. */
uint32_t sky__places(const sky__core *c, const sky_chunk_facts *facts, const sky__epoch *before,
                     uint32_t server, sky_satellite places[SKY__PLACES_MAX]) {
    uint64_t rotations = sky__rotations(c);
    uint32_t count = 0;
    sky_satellite place;
    add_place(places, &count, place_at(c, facts, rotations));
    if (place_before(c, facts, rotations, &place))
        add_place(places, &count, place);
    sky_time rotates_in = sky_turn_begins(&c->config.frame->turning, rotations + 1) - c->now;
    if (rotates_in <= 2 * c->config.skew_ns)
        add_place(places, &count, place_at(c, facts, rotations + 1));
    if (before && before->set_ms) {
        sky_chunk_facts old = sky__facts_before(c, facts, before, server);
        add_place(places, &count, place_at(c, &old, rotations));
        if (place_before(c, &old, rotations, &place))
            add_place(places, &count, place);
    }
    return count;
}

uint64_t sky__turn_back(const sky__core *c, uint32_t steps) {
    uint64_t turn = sky__rotations(c);
    while (steps-- > 0 && sky_turn_before(&c->config.frame->turning, turn, &turn))
        ;
    return turn;
}

void sky__last_places(const sky__core *c, const sky_chunk_facts *facts,
                      sky_satellite places[SKY__PLACES_MAX], uint32_t *count) {
    const sky_frame *f = c->config.frame;
    sky_satellite last[SKY_LAST_STEPS];
    uint32_t found = sky_chunk_last_places(&f->constellation, &f->turning, facts, sky__rotations(c),
                                           last);
    for (uint32_t i = 0; i < found; i++)
        add_place(places, count, last[i]);
}

/* A chunk leaves `from` after this turn, for wherever it belongs then. Did a laser lead there at
 * any time until `last`? */
static bool could_leave(const sky__core *c, const sky_chunk_facts *facts, uint64_t turn,
                        uint64_t last) {
    const sky_frame *f = c->config.frame;
    sky_satellite from = place_at(c, facts, turn);
    for (uint64_t later = turn + 1; later <= last; later++) {
        sky_satellite to = place_at(c, facts, later);
        if (sky_satellite_equal(from, to) || sky_frame_joined(f, from, to, later))
            return true;
    }
    return false;
}

bool sky__may_be_cut_off(const sky__core *c, const sky_chunk_facts *facts) {
    const sky_frame *f = c->config.frame;
    uint64_t set = sky_turns_at_ms(&f->turning, facts->set_ms), now = sky__rotations(c);
    uint64_t last = sky__turn_back(c, SKY_LAST_STEPS);
    if (sky_frame_whole(f) || !sky_strategy_row_of(facts->strategy)->migrates || last < set)
        return false;
    uint64_t first = last > set + TURNS_BACK ? last - TURNS_BACK : set;
    for (uint64_t turn = last; turn-- > first;) { /* the latest is decided soonest */
        sky_satellite at = place_at(c, facts, turn);
        if (!sky_satellite_equal(at, place_at(c, facts, turn + 1)) &&
            !could_leave(c, facts, turn, now - 1))
            return true;
    }
    return false;
}

/* Who looks for a key does not know whether a head of it was set, or when: it may have been at any
 * time. */
bool sky__heads_may_be_cut_off(sky__core *c) {
    const sky_block_info any = {0};
    uint64_t at = sky__rotations(c) + 1;
    if (c->heads_at == at)
        return c->heads_cut_off;
    c->heads_cut_off = false;
    for (uint32_t copy = 0; copy < c->head_copies && !c->heads_cut_off; copy++) {
        sky_chunk_facts facts = sky__block_facts(c, &any, false);
        sky__facts_of(c, &facts, 0, copy);
        c->heads_cut_off = sky__may_be_cut_off(c, &facts);
    }
    c->heads_at = at;
    return c->heads_cut_off;
}

/* A copy of a head stays where it was in a turn when no laser led away from there since. The last
 * such turn, plus 1, goes to hidden[0] when an ordinary question does not reach that satellite, and
 * to hidden[1] when a question to the last places does not either. */
static void note_hidden(sky__core *c, const sky_chunk_facts *facts) {
    const sky_frame *f = c->config.frame;
    uint64_t now = sky__rotations(c), first = now > TURNS_BACK ? now - TURNS_BACK : 0;
    uint64_t traced = sky__turn_back(c, SKY_LAST_STEPS);
    if (!sky_frame_joined(f, SKY_GROUND, place_at(c, facts, now), now))
        c->hidden[0] = c->hidden[1] = now + 1;
    for (uint64_t turn = now; turn-- > first && c->hidden[1] <= turn;) {
        sky_satellite at = place_at(c, facts, turn);
        if (sky_satellite_equal(at, place_at(c, facts, turn + 1)) ||
            could_leave(c, facts, turn, now - 1))
            continue;
        bool asked = turn >= traced && sky_frame_joined(f, SKY_GROUND, at, now);
        c->hidden[0] = c->hidden[0] > turn ? c->hidden[0] : turn + 1;
        c->hidden[1] = asked ? c->hidden[1] : turn + 1;
    }
}

bool sky__newer_head_may_hide(sky__core *c, uint64_t head_version, bool traced) {
    const sky_block_info any = {0};
    const sky_frame *f = c->config.frame;
    uint64_t at = sky__rotations(c) + 1;
    if (sky_frame_whole(f))
        return false;
    if (c->hidden_at != at) {
        c->hidden_at = at;
        c->hidden[0] = c->hidden[1] = 0;
        sky_chunk_facts facts = sky__block_facts(c, &any, false);
        sky__facts_of(c, &facts, 0, 0);
        note_hidden(c, &facts);
    }
    return c->hidden[traced] > sky_turns_at_ms(&f->turning, (int64_t)(head_version >> 16));
}

/* ---- epochs and heads ---- */

sky_block_info sky__info_at(const sky_block_info *info, const sky__epoch *epoch) {
    sky_block_info there = *info;
    there.set_ms = epoch->set_ms;
    there.centre_plane = (uint16_t)epoch->centre.plane;
    there.centre_slot = (uint16_t)epoch->centre.slot;
    return there;
}

sky_block_head sky__head_of(const sky__core *c, const sky_block_info *info, uint64_t version,
                            const sky__epoch *before, bool named) {
    const sky_placement *p = &c->config.frame->placement;
    sky_satellite centre = {info->centre_plane, info->centre_slot};
    return (sky_block_head){.version = version,
                            .set_ms = info->set_ms,
                            .centre = centre,
                            .before_ms = before->set_ms,
                            .before_centre = before->set_ms ? before->centre : centre,
                            .payload_bytes = info->payload_bytes,
                            .chunk_bytes = c->config.chunk_bytes,
                            .chunk_count = info->chunk_count,
                            .servers = c->servers,
                            .window_planes = (uint16_t)p->window_planes,
                            .window_slots = (uint16_t)p->window_slots,
                            .strategy = p->strategy,
                            .replicas = c->config.replicas,
                            .parity = c->config.parity,
                            .level = info->coding,
                            .named = named};
}
