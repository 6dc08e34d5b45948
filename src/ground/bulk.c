#include "ground/bulk.h"

#include <stdlib.h>

#include "ground/block_table.h"

#define DROPS_UNHEARD 0.001 /* of all, at most, … */
#define ROUNDS_MAX    2     /* … as far as so many more of each can do */

sky_status sky__bulk_init(sky__bulk *b, sky__core *core) {
    b->core = core;
    b->max = core->config.blocks_max + 1;
    b->ring = calloc(b->max, sizeof *b->ring);
    return b->ring ? SKY_OK : SKY_E_NOMEM;
}

void sky__bulk_deinit(sky__bulk *b) {
    free(b->ring);
}

/* ---- the queue ---- */

static void push_command(sky__bulk *b, const sky__command *command) {
    if (b->count == b->max)
        return;
    if (b->count == 0)
        b->first = 0;
    b->ring[(b->first + b->count++) % b->max] = *command;
}

static sky__command pop_command(sky__bulk *b) {
    sky__command command = b->ring[b->first];
    b->first = (b->first + 1) % b->max;
    b->count--;
    return command;
}

/* More DROPs of the same, by the loss seen lately: what no DROP reached is in the way until the
 * satellite is full, and then something else may go for it. */
static uint32_t rounds_of(const sky__bulk *b) {
    return sky__sends_more(b->core, DROPS_UNHEARD, ROUNDS_MAX);
}

static sky__command command_for(const sky__bulk *b, sky_wire_type type, const sky_chunk_id *id,
                                uint64_t head_version, const sky_block_info *info) {
    return (sky__command){.id = *id,
                          .facts = sky__block_facts(b->core, info, false),
                          .type = type,
                          .head_version = head_version,
                          .server = head_version ? 0 : 1,
                          .rounds = type == SKY_WIRE_DROP ? rounds_of(b) : 0};
}

void sky__bulk_push(sky__bulk *b, sky_wire_type type, const sky_chunk_id *id, uint64_t head_version,
                    const sky_block_info *info, bool pinned) {
    sky__command command = command_for(b, type, id, head_version, info);
    command.facts.pinned = pinned;
    if (info->chunk_count > 0 || head_version)
        push_command(b, &command);
}

void sky__bulk_purge(sky__bulk *b, const sky_chunk_id *id, uint64_t head_version,
                     const sky_block_info *info) {
    if (head_version) {
        sky__command head = command_for(b, SKY_WIRE_DROP, id, head_version, info);
        head.head_only = true;
        push_command(b, &head);
    }
    sky__command command = command_for(b, SKY_WIRE_PURGE, id, head_version, info);
    command.server = 1;
    if (info->chunk_count > 0 && b->core->config.eviction & SKY_EVICT_GOSSIP)
        push_command(b, &command);
}

void sky__bulk_heads(sky__bulk *b, const sky_chunk_id *id, uint64_t head_version, uint32_t copies) {
    for (uint32_t copy = 0; copy < b->core->head_copies; copy++) {
        const sky__command command = {
            .id = *id, .type = SKY_WIRE_SET, .head_version = head_version, .copy = copy};
        if (copies >> copy & 1)
            push_command(b, &command);
    }
}

void sky__bulk_mend(sky__bulk *b, const sky__subject *of, uint32_t server, uint32_t copy) {
    const sky__command command = {
        .id = of->id, .facts = of->facts, .type = SKY_WIRE_MEND, .server = server, .copy = copy};
    push_command(b, &command);
}

/* ---- what goes out ---- */

static sky_satellite place_of(const sky__core *c, const sky__command *command) {
    sky_chunk_facts facts = command->facts;
    sky__facts_of(c, &facts, command->server, command->copy);
    return sky__place_now(c, &facts);
}

static uint32_t last_on(const sky__core *c, const sky__command *command) {
    uint32_t count = command->facts.chunk_count;
    return count - (count - command->server) % c->servers;
}

static void next_mend(sky__bulk *b, sky_message *m, sky_satellite *to) {
    const sky__command command = pop_command(b);
    m->last = last_on(b->core, &command);
    m->stride = b->core->servers;
    *to = place_of(b->core, &command);
    b->core->stat.copies_missed++;
}

/* The blocks of the PURGEs that come next, for as long as they go to the same satellite. */
static uint32_t take_purges(sky__bulk *b, sky_satellite to, uint8_t *data, size_t data_bytes_max) {
    uint32_t bytes = 0;
    while (b->count > 0 && bytes + SKY_LOST_BLOCK_BYTES <= data_bytes_max) {
        const sky__command *next = &b->ring[b->first];
        if (next->type != SKY_WIRE_PURGE || !sky_satellite_equal(place_of(b->core, next), to))
            break;
        const sky_lost_block lost = {next->id.key, next->id.version, next->facts.chunk_count,
                                     b->core->config.gossip_hops};
        sky_lost_block_encode(&lost, data + bytes);
        bytes += SKY_LOST_BLOCK_BYTES;
        (void)pop_command(b);
    }
    return bytes;
}

static void next_purge(sky__bulk *b, sky_message *m, sky_satellite *to, sky_datagram *out) {
    const size_t offset = sky_message_data_offset(SKY_WIRE_PURGE);
    size_t room = out->bytes_max - offset;
    if (room > SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES)
        room = SKY_LOST_BLOCKS_MAX * SKY_LOST_BLOCK_BYTES;
    const sky__command command = pop_command(b);
    *to = place_of(b->core, &command);
    m->facts.chunk_count = command.facts.chunk_count;
    m->hops = b->core->config.gossip_hops;
    m->data = out->data + offset;
    m->data_bytes = take_purges(b, *to, out->data + offset, room);
}

/* As the index has it by now. A satellite that got a newer one meanwhile keeps that. */
static bool next_head(sky__bulk *b, const sky__block_table *blocks, sky_message *m,
                      sky_satellite *to, sky_datagram *out) {
    const sky__command command = pop_command(b);
    uint32_t block = sky_index_find(blocks->index, &command.id.key);
    const sky__block_row *row = block == SKY_BLOCK_NONE ? NULL : &blocks->rows[block];
    if (!row || row->version != command.id.version || row->head_version != command.head_version)
        return false;
    sky_block_info info;
    sky_index_info(blocks->index, block, &info);
    uint8_t *data = out->data + sky_message_data_offset(SKY_WIRE_SET);
    sky_block_head head = sky__head_of(b->core, &info, row->version, &row->before, row->named);
    head.moves = row->moves;
    sky_head_encode(&head, data);
    m->id = (sky_chunk_id){.key = row->key, .version = command.head_version};
    m->facts = sky__block_facts(b->core, &info, row->pinned);
    m->data = data;
    m->data_bytes = SKY_HEAD_BYTES;
    sky__facts_of(b->core, &m->facts, 0, command.copy);
    if (!b->core->config.sealed)
        m->facts.checksum = sky_chunk_checksum(&m->id, data, SKY_HEAD_BYTES);
    *to = sky__place_now(b->core, &m->facts);
    b->core->stat.heads_repaired++;
    return true;
}

/* On to the next place, replica, server. */
static void step_command(const sky__core *c, sky__command *command, bool two) {
    command->second = two && !command->second;
    if (command->second)
        return;
    command->copy++;
    if (command->copy < (command->server > 0 ? c->config.replicas : c->head_copies))
        return;
    command->copy = 0;
    command->server++;
}

static bool is_over(const sky__core *c, const sky__command *command) {
    uint32_t count = command->facts.chunk_count;
    uint32_t servers = count < c->servers ? count : c->servers;
    return command->server > servers || (command->head_only && command->server > 0);
}

/* The first is over; what comes after it goes before it goes once more. */
static void go_again(sky__bulk *b) {
    sky__command command = pop_command(b);
    if (command.rounds-- == 0)
        return;
    command.server = command.head_version ? 0 : 1;
    push_command(b, &command);
}

/* At its place and then where it was before: the chunks may be in both. */
static void next_of_block(sky__bulk *b, sky_message *m, sky_satellite *to) {
    const sky__core *c = b->core;
    const sky_frame *f = c->config.frame;
    sky__command *command = &b->ring[b->first];
    m->facts.pinned = command->facts.pinned;
    m->stride = c->servers;
    m->last = command->server ? last_on(c, command) : 0;
    if (command->server == 0)
        m->id.version = command->head_version;
    sky_chunk_facts facts = command->facts;
    sky__facts_of(c, &facts, command->server, command->copy);
    sky_satellite places[2] = {sky__place_now(c, &facts)};
    bool two = sky_chunk_place_before(&f->constellation, &f->turning, &facts, sky__rotations(c),
                                      &places[1]);
    *to = places[two && command->second];
    step_command(c, command, two);
    if (is_over(c, command))
        go_again(b);
}

bool sky__bulk_next(sky__bulk *b, const sky__block_table *blocks, sky_message *m, sky_satellite *to,
                    sky_datagram *out) {
    const sky__command *command = &b->ring[b->first];
    b->sent = true;
    *m = (sky_message){.type = command->type, .id = command->id};
    m->id.number = command->server;
    if (command->type == SKY_WIRE_SET)
        return next_head(b, blocks, m, to, out);
    if (command->type == SKY_WIRE_PURGE)
        next_purge(b, m, to, out);
    else if (command->type == SKY_WIRE_MEND)
        next_mend(b, m, to);
    else
        next_of_block(b, m, to);
    return true;
}
