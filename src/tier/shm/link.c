#include "tier/shm/link.h"

#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "io/fork.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"

#define ARENA_BYTES_MAX ((uint64_t)1 << 47)
#define RETRY_NS        SKY_MS(20)
#define HEAR_NS         SKY_MS(20) /* a wait for a word hears the end of the host so much later */

/* ---- connect ---- */

/* The host's queue may be full for a moment. */
static sky_status connect_by(const char *path, uint32_t user, sky_time until, int *fd) {
    sky_local_peer peer;
    sky_status status;
    while ((status = sky_local_connect(path, fd, &peer)) == SKY_E_BUSY) {
        if (sky_now() >= until)
            return SKY_E_DEADLINE;
        sky_local_poll(NULL, NULL, NULL, 0, sky_now() + RETRY_NS);
    }
    /* root may read this process anyway */
    if (status == SKY_OK && peer.uid != sky_local_user() && peer.uid != 0 && peer.uid != user) {
        sky_local_close(*fd); /* no business of theirs */
        return SKY_E_DENIED;
    }
    return status;
}

static sky_status take_welcome(sky__shm_link *l, const sky_shm_frame *f, int passed) {
    if (f->kind == SKY_SHM_REFUSED)
        return f->status == SKY_E_DENIED || f->status == SKY_E_BUSY || f->status == SKY_E_PARAM
                   ? f->status
                   : SKY_E_UNSUPPORTED;
    uint64_t segment = f->segment_bytes;
    if (f->kind != SKY_SHM_WELCOME || f->version != SKY_SHM_VERSION || segment < 4096 ||
        (segment & (segment - 1)) != 0 || f->arena_bytes < segment ||
        f->arena_bytes > ARENA_BYTES_MAX || f->arena_bytes % segment != 0 ||
        f->arena_bytes / segment > SKY__SHM_SEGMENTS_MAX || passed < 0)
        return SKY_E_CORRUPT;
    sky_status status = sky_ring_open(l->fd, passed, &l->ring);
    if (status == SKY_OK)
        status = sky_pages_reserve(f->arena_bytes, (void **)&l->arena, NULL);
    if (status != SKY_OK)
        return status;
    l->arena_bytes = f->arena_bytes;
    l->segment_bytes = segment;
    return SKY_OK;
}

/* The host's first frame, by `until`, over the socket. Errors: SKY_E_DEADLINE, SKY_E_IO,
 * SKY_E_CORRUPT */
static sky_status receive_first(sky__shm_link *l, sky_time until, sky_shm_frame *out, int *passed) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes;
    sky_status status;
    while ((status = sky_local_receive(l->fd, data, sizeof data, &bytes, passed)) == SKY_MISS) {
        const bool writes = false;
        bool ready;
        if (sky_now() >= until)
            return SKY_E_DEADLINE;
        sky_local_poll(&l->fd, &writes, &ready, 1, until);
    }
    return status == SKY_OK ? sky_shm_decode(data, bytes, out) : status;
}

static sky_status handshake_host(sky__shm_link *l, const sky__shm_part *part, sky_time until) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    sky_shm_frame frame = {.kind = SKY_SHM_HELLO, .count = part->tier, .version = SKY_SHM_VERSION};
    memcpy(frame.pool, part->pool, sizeof frame.pool);
    int passed = -1;
    sky_status status = sky_local_send(l->fd, data, sky_shm_encode(&frame, data), -1);
    if (status == SKY_OK)
        status = receive_first(l, until, &frame, &passed);
    if (status == SKY_E_IO) /* one that refuses is gone: the error comes first, then what it said */
        status = receive_first(l, until, &frame, &passed);
    if (status == SKY_OK)
        status = take_welcome(l, &frame, passed);
    sky_local_close(passed);
    return status;
}

sky_status sky__shm_link_open(const char *path, uint32_t user, const sky__shm_part *part,
                              sky_time until, sky__shm_link **out) {
    sky__shm_link *l = calloc(1, sizeof *l);
    if (!l)
        return SKY_E_NOMEM;
    l->fd = l->ended_fd = -1;
    sky_status status = connect_by(path, user, until, &l->fd);
    if (status == SKY_OK) {
        sky_fork_drop(l->fd); /* else a child keeps what the host lent to this process */
        status = handshake_host(l, part, until);
    } else {
        l->fd = -1;
    }
    if (status == SKY_OK)
        *out = l;
    else
        sky__shm_link_destroy(l);
    return status;
}

static void drop_stage(sky__shm_link *l) {
    sky_pages_release(l->stage, l->stage_bytes);
    sky_arena_destroy(l->stage_places);
    l->stage = NULL;
    l->stage_places = NULL;
    l->stage_bytes = 0;
}

static void close_socket(int fd) {
    sky_fork_keep(fd);
    sky_local_close(fd);
}

void sky__shm_link_cut(sky__shm_link *l) {
    sky_ring_deinit(&l->ring);
    if (l->fd >= 0 && l->lease_count > 0)
        l->ended_fd = l->fd;
    else
        close_socket(l->fd);
    l->fd = -1;
    drop_stage(l);
    while (l->first) {
        sky__shm_letter *letter = l->first;
        l->first = letter->next;
        free(letter);
    }
}

void sky__shm_link_destroy(sky__shm_link *l) {
    if (!l)
        return;
    sky__shm_link_cut(l);
    close_socket(l->ended_fd);
    sky_shared_reader_unmap(&l->reader);
    sky_pages_release(l->arena, l->arena_bytes);
    free(l);
}

/* ---- frames ---- */

sky_status sky__shm_link_flush(sky__shm_link *l) {
    while (l->first) {
        sky__shm_letter *letter = l->first;
        sky_status status = sky_ring_send(&l->ring, letter->data, letter->bytes, -1);
        if (status != SKY_OK)
            return status == SKY_E_BUSY ? SKY_OK : status;
        l->first = letter->next;
        free(letter);
    }
    return SKY_OK;
}

sky_status sky__shm_link_send(sky__shm_link *l, const sky_shm_frame *frame) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    size_t bytes = sky_shm_encode(frame, data);
    sky_status status = l->first ? SKY_E_BUSY : sky_ring_send(&l->ring, data, bytes, -1);
    if (status != SKY_E_BUSY)
        return status;
    sky__shm_letter *letter = malloc(sizeof *letter + bytes);
    if (!letter)
        return SKY_E_NOMEM;
    letter->next = NULL;
    letter->bytes = bytes;
    memcpy(letter->data, data, bytes);
    *(l->first ? &l->last->next : &l->first) = letter;
    l->last = letter;
    return SKY_OK;
}

sky_status sky__shm_link_pass(sky__shm_link *l, const sky_shm_frame *frame, int fd,
                              sky_time until) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    const size_t bytes = sky_shm_encode(frame, data);
    sky_status status;
    while ((status = sky__shm_link_flush(l)) == SKY_OK) {
        status = l->first ? SKY_E_BUSY : sky_ring_send(&l->ring, data, bytes, fd);
        if (status != SKY_E_BUSY && status != SKY_E_FULL)
            return status;
        if (sky_now() >= until)
            return SKY_E_DEADLINE;
        sky_local_poll(NULL, NULL, NULL, 0, sky_now() + RETRY_NS);
    }
    return status;
}

static sky_status take_segment(sky__shm_link *l, const sky_shm_frame *f, int passed) {
    uint32_t i = f->segment;
    if (!l->arena || i >= l->arena_bytes / l->segment_bytes ||
        (f->kind == SKY_SHM_SEGMENT) != (passed >= 0))
        return SKY_E_CORRUPT;
    uint8_t *at = l->arena + i * l->segment_bytes;
    l->mapped[i] = false;
    if (f->kind == SKY_SHM_RETIRED)
        return sky_shared_unmap(at, l->segment_bytes);
    sky_status status = sky_shared_map(passed, at, l->segment_bytes, SKY_SHARED_READ);
    l->mapped[i] = status == SKY_OK;
    l->generations[i] = f->generation;
    return status;
}

/* A frame that is about memory. SKY_MISS: it is not. */
static sky_status take_memory(sky__shm_link *l, const sky_shm_frame *f, int passed) {
    if (f->kind == SKY_SHM_SEGMENT || f->kind == SKY_SHM_RETIRED)
        return take_segment(l, f, passed);
    if (f->kind == SKY_SHM_INDEX)
        return sky_shared_reader_map_index(&l->reader, passed);
    return f->kind == SKY_SHM_PAGE ? sky_shared_reader_map_page(&l->reader, passed) : SKY_MISS;
}

sky_status sky__shm_link_receive(sky__shm_link *l, sky_shm_frame *out, int *passed) {
    uint8_t data[SKY_SHM_FRAME_BYTES_MAX];
    for (;;) {
        size_t bytes;
        sky_status status = sky_ring_receive(&l->ring, data, sizeof data, &bytes, passed);
        if (status != SKY_OK)
            return status;
        status = sky_shm_decode(data, bytes, out);
        if (status == SKY_OK)
            status = take_memory(l, out, *passed);
        if (status == SKY_MISS)
            return SKY_OK;
        sky_local_close(*passed);
        *passed = -1;
        if (status != SKY_OK)
            return status;
    }
}

sky_status sky__shm_link_await(sky__shm_link *l, sky_time until, sky_shm_frame *out, int *passed) {
    sky_status status;
    while ((status = sky__shm_link_receive(l, out, passed)) == SKY_MISS && sky_now() < until) {
        const sky_time next = sky_now() + HEAR_NS;
        if ((status = sky__shm_link_flush(l)) != SKY_OK)
            return status;
        sky_ring_wait(&l->ring, until < next ? until : next);
        if (!sky_ring_has_work(&l->ring) && (status = sky_ring_hear(&l->ring)) != SKY_OK)
            return status;
    }
    return status;
}

/* ---- memory ---- */

sky_status sky__shm_link_stage(sky__shm_link *l, int fd, uint64_t bytes) {
    uint64_t units = bytes / SKY__SHM_STAGE_UNIT;
    if (units == 0 || units > UINT32_MAX / 2 || bytes > ARENA_BYTES_MAX)
        return SKY_E_CORRUPT;
    drop_stage(l);
    sky_status status = sky_pages_reserve(bytes, (void **)&l->stage, NULL);
    if (status != SKY_OK)
        return status;
    l->stage_bytes = bytes;
    status = sky_shared_map(fd, l->stage, bytes, SKY_SHARED_WRITE);
    uint32_t extents = units < 16384 ? (uint32_t)units : 16384; /* far more than are under way */
    if (status == SKY_OK)
        status = sky_arena_create((uint32_t)units, extents, &l->stage_places);
    if (status != SKY_OK)
        drop_stage(l);
    return status;
}

const uint8_t *sky__shm_link_view(const sky__shm_link *l, uint64_t at, uint64_t bytes) {
    if (at >= l->arena_bytes || bytes > l->arena_bytes - at)
        return NULL;
    uint64_t last = (at + (bytes ? bytes : 1) - 1) / l->segment_bytes;
    for (uint64_t i = at / l->segment_bytes; i <= last; i++)
        if (!l->mapped[i])
            return NULL;
    return l->arena + at;
}

const uint8_t *sky__shm_link_kept(const sky__shm_link *l, const sky_shared_block *b) {
    const uint8_t *view = sky__shm_link_view(l, b->at, b->bytes);
    if (!view)
        return NULL;
    uint64_t last = (b->at + (b->bytes ? b->bytes : 1) - 1) / l->segment_bytes;
    for (uint64_t i = b->at / l->segment_bytes; i <= last; i++)
        if (l->generations[i] != sky_shared_reader_segment(&l->reader, (uint32_t)i))
            return NULL;
    return view;
}
