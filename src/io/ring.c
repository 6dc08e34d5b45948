#include "io/ring.h"

#include <assert.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "io/sync.h"

#define WORD_BYTES      4u
#define ALIGN           8u
#define WITH_DESCRIPTOR 0x80000000u
#define LINE            128u /* what processors fetch together */
#define SPIN_NS         ((sky_time)50000)
#define HALVINGS_MAX    6u     /* of it, after as many looks in vain */
#define TRY_AGAIN       32u    /* of so many one look is as long as the first */
#define LOOKS           16     /* between two looks at the clock */
#define HEARD_MAX       128u   /* messages of the socket at once */
#define SOUGHT_MAX      16384u /* of them until a descriptor is there; a queue holds fewer */

/* One direction. Each word has a line of its own, so that the sides write to different ones. */
struct sky__ring_side {
    _Alignas(LINE) _Atomic uint32_t tail; /* bytes sent, by who sends */
    _Alignas(LINE) _Atomic uint32_t head; /* bytes received, by who receives */
    _Alignas(LINE) _Atomic uint32_t rest; /* how who receives sleeps: sky_ring_rest */
    _Alignas(LINE) _Atomic uint32_t want; /* 1: who sends waits for room */
};
_Static_assert(sizeof(struct sky__ring_side) == 512, "as in docs/formats/ring.md");

/* ---- make, open ---- */

static void ring_over(sky_ring *r, int socket, void *memory, uint32_t inbound) {
    struct sky__ring_side *sides = memory;
    uint8_t *bytes = (uint8_t *)memory + SKY_RING_MEMORY_BYTES - 2 * SKY_RING_BYTES;
    memset(r, 0, sizeof *r);
    r->socket = socket;
    r->memory = memory;
    r->in = &sides[inbound];
    r->out = &sides[!inbound];
    r->in_bytes = bytes + (size_t)inbound * SKY_RING_BYTES;
    r->out_bytes = bytes + (size_t)!inbound * SKY_RING_BYTES;
}

sky_status sky_ring_make(int socket, sky_ring *out, int *fd) {
    void *memory;
    sky_status status = sky_pages_reserve(SKY_RING_MEMORY_BYTES, &memory, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_make(memory, SKY_RING_MEMORY_BYTES, SKY_SHARED_WRITE, fd);
    if (status == SKY_OK)
        ring_over(out, socket, memory, 0);
    else
        sky_pages_release(memory, SKY_RING_MEMORY_BYTES);
    return status;
}

sky_status sky_ring_open(int socket, int fd, sky_ring *out) {
    void *memory;
    sky_status status = sky_pages_reserve(SKY_RING_MEMORY_BYTES, &memory, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_map(fd, memory, SKY_RING_MEMORY_BYTES, SKY_SHARED_WRITE);
    if (status == SKY_OK)
        ring_over(out, socket, memory, 1);
    else
        sky_pages_release(memory, SKY_RING_MEMORY_BYTES);
    return status;
}

void sky_ring_deinit(sky_ring *r) {
    sky_pages_release(r->memory, SKY_RING_MEMORY_BYTES);
    for (uint32_t i = 0; i < r->held_count; i++)
        sky_local_close(r->held[i]);
    *r = (sky_ring){.socket = -1};
}

/* ---- wake-ups ---- */

static void futex_wake(_Atomic uint32_t *word) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Wake the peer, if it sleeps. What it is to see was stored before. That store and this load, and
 * its store of `rest` and its last look, are sequentially consistent: either we see its rest, or it
 * sees what we stored. */
static void ring_wake_peer(sky_ring *r) {
    if (atomic_load(&r->out->rest) == SKY_RING_AWAKE)
        return;
    uint32_t rest = atomic_exchange(&r->out->rest, SKY_RING_AWAKE);
    if (rest == SKY_RING_ON_WORD)
        futex_wake(&r->out->rest);
    else if (rest != SKY_RING_AWAKE)
        (void)sky_local_send(r->socket, "", 1, -1); /* a full socket wakes too; an end is heard */
}

/* Bytes that may be sent; more than there are: the peer's head is wild. */
static uint32_t ring_used(const sky_ring *r) {
    return r->tail - atomic_load(&r->out->head);
}

bool sky_ring_has_work(const sky_ring *r) {
    if (atomic_load(&r->in->tail) != r->head)
        return true;
    return r->blocked && atomic_load(&r->out->want) == 0;
}

bool sky_ring_is_read(const sky_ring *r) {
    return ring_used(r) == 0;
}

bool sky_ring_sleep(sky_ring *r, sky_ring_rest how) {
    atomic_store(&r->in->rest, how);
    if (!sky_ring_has_work(r) && !atomic_load(&r->kicked))
        return true;
    sky_ring_rise(r);
    return false;
}

void sky_ring_rise(sky_ring *r) {
    if (atomic_load_explicit(&r->in->rest, memory_order_relaxed) != SKY_RING_AWAKE)
        atomic_store_explicit(&r->in->rest, SKY_RING_AWAKE, memory_order_relaxed);
}

void sky_ring_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

sky_time sky_spin_ns(const sky_spin *s) {
    static _Atomic uint32_t cpus;
    if (atomic_load_explicit(&cpus, memory_order_relaxed) == 0)
        atomic_store_explicit(&cpus, sky_cpu_count(), memory_order_relaxed);
    if (atomic_load_explicit(&cpus, memory_order_relaxed) == 1)
        return 0;
    uint32_t halvings = s->failures < HALVINGS_MAX ? s->failures : HALVINGS_MAX;
    return s->failures % TRY_AGAIN == 0 ? SPIN_NS : SPIN_NS >> halvings;
}

void sky_spin_done(sky_spin *s, bool came) {
    s->failures = came ? 0 : s->failures + 1;
}

bool sky_ring_look(sky_ring *r, sky_time until) {
    const sky_time end = sky_now() + sky_spin_ns(&r->spin);
    do
        for (int i = 0; i < LOOKS; i++) {
            if (sky_ring_has_work(r)) {
                sky_spin_done(&r->spin, true);
                return true;
            }
            sky_ring_pause();
        }
    while (sky_now() < (end < until ? end : until));
    sky_spin_done(&r->spin, false);
    return false;
}

void sky_ring_wait(sky_ring *r, sky_time until) {
    if (sky_ring_look(r, until) || !sky_ring_sleep(r, SKY_RING_ON_WORD))
        return;
    struct timespec at = {until / 1000000000, until % 1000000000};
    (void)syscall(SYS_futex, &r->in->rest, FUTEX_WAIT_BITSET, SKY_RING_ON_WORD,
                  until == SKY_TIME_NEVER ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
    sky_ring_rise(r);
}

void sky_ring_kick(sky_ring *r) {
    atomic_store(&r->kicked, true);
    atomic_store(&r->in->rest, SKY_RING_AWAKE);
    futex_wake(&r->in->rest);
}

/* ---- messages ---- */

static uint32_t padded_bytes(size_t bytes) {
    return ((uint32_t)bytes + WORD_BYTES + ALIGN - 1) / ALIGN * ALIGN;
}

static void copy_in(uint8_t *ring, uint32_t at, const void *data, size_t bytes) {
    uint32_t from = at % SKY_RING_BYTES;
    size_t first = SKY_RING_BYTES - from < bytes ? SKY_RING_BYTES - from : bytes;
    memcpy(ring + from, data, first);
    memcpy(ring, (const uint8_t *)data + first, bytes - first);
}

static void copy_out(const uint8_t *ring, uint32_t at, void *data, size_t bytes) {
    uint32_t from = at % SKY_RING_BYTES;
    size_t first = SKY_RING_BYTES - from < bytes ? SKY_RING_BYTES - from : bytes;
    memcpy(data, ring + from, first);
    memcpy((uint8_t *)data + first, ring, bytes - first);
}

/* Errors: SKY_E_BUSY, SKY_E_CORRUPT */
static sky_status find_room(sky_ring *r, uint32_t bytes) {
    uint32_t used = ring_used(r);
    if (used <= SKY_RING_BYTES && SKY_RING_BYTES - used < bytes) {
        atomic_store(&r->out->want, 1); /* either it sees this, or we its head */
        used = ring_used(r);
        r->blocked = used <= SKY_RING_BYTES && SKY_RING_BYTES - used < bytes;
        if (r->blocked)
            return SKY_E_BUSY;
    }
    r->blocked = false;
    return used <= SKY_RING_BYTES ? SKY_OK : SKY_E_CORRUPT;
}

sky_status sky_ring_send(sky_ring *r, const void *data, size_t bytes, int passed) {
    assert(bytes > 0 && bytes <= SKY_RING_MESSAGE_BYTES);
    uint32_t word = (uint32_t)bytes | (passed >= 0 ? WITH_DESCRIPTOR : 0);
    sky_status status = find_room(r, padded_bytes(bytes));
    if (status == SKY_OK && passed >= 0) /* before the message, so that who reads that finds it */
        status = sky_local_send(r->socket, "", 1, passed);
    if (status != SKY_OK)
        return status == SKY_E_BUSY && !r->blocked ? SKY_E_FULL : status;
    copy_in(r->out_bytes, r->tail, &word, sizeof word);
    copy_in(r->out_bytes, r->tail + WORD_BYTES, data, bytes);
    r->tail += padded_bytes(bytes);
    atomic_store(&r->out->tail, r->tail);
    ring_wake_peer(r);
    return SKY_OK;
}

/* Take up to `max` messages of the socket, or until one brings a descriptor, if that is sought. */
static sky_status hear_wakeups(sky_ring *r, uint32_t max, bool sought) {
    for (uint32_t n = 0; n < max && !(sought && r->held_count > 0); n++) {
        uint8_t byte;
        size_t bytes;
        int passed;
        sky_status status = sky_local_receive(r->socket, &byte, 1, &bytes, &passed);
        if (status != SKY_OK)
            return status == SKY_MISS ? SKY_OK : status;
        if (passed < 0)
            continue;
        if (r->held_count == SKY_RING_HELD_MAX) {
            sky_local_close(passed);
            return SKY_E_CORRUPT;
        }
        r->held[r->held_count++] = passed;
    }
    return SKY_OK;
}

sky_status sky_ring_hear(sky_ring *r) {
    return hear_wakeups(r, HEARD_MAX, false);
}

/* The descriptor of the message that was just read. Errors: SKY_E_IO, SKY_E_CORRUPT */
static sky_status take_descriptor(sky_ring *r, int *passed) {
    sky_status status = hear_wakeups(r, SOUGHT_MAX, true);
    if (r->held_count == 0)
        return status == SKY_OK ? SKY_E_CORRUPT : status;
    *passed = r->held[0];
    memmove(r->held, r->held + 1, --r->held_count * sizeof *r->held);
    return SKY_OK;
}

sky_status sky_ring_receive(sky_ring *r, void *data, size_t bytes_max, size_t *bytes, int *passed) {
    uint32_t word, there = atomic_load(&r->in->tail) - r->head;
    *passed = -1;
    if (there == 0)
        return SKY_MISS;
    if (there > SKY_RING_BYTES || there < ALIGN || there % ALIGN != 0)
        return SKY_E_CORRUPT;
    copy_out(r->in_bytes, r->head, &word, sizeof word);
    uint32_t size = word & ~WITH_DESCRIPTOR;
    if (size == 0 || size > SKY_RING_MESSAGE_BYTES || size > bytes_max ||
        padded_bytes(size) > there)
        return SKY_E_CORRUPT;
    copy_out(r->in_bytes, r->head + WORD_BYTES, data, size);
    if (word & WITH_DESCRIPTOR) {
        sky_status status = take_descriptor(r, passed);
        if (status != SKY_OK)
            return status;
    }
    *bytes = size;
    r->head += padded_bytes(size);
    atomic_store(&r->in->head, r->head);
    if (atomic_load(&r->in->want) != 0) {
        atomic_store(&r->in->want, 0);
        ring_wake_peer(r);
    }
    return SKY_OK;
}
