/* How fast datagrams, and messages in them, go from one thread to another over loopback.
 *
 *   sender:   message ─ seal? ─► transport ─► socket            receiver:  the same, backwards
 *   bare:     the same datagrams, sent and counted, nothing else
 *   touched:  the same, and every byte written and summed, then summed again
 *
 * Both ends are what a satellite and a ground run; only the node and the session are left out. */
#include "net_measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/clock.h"
#include "io/sync.h"
#include "io/udp.h"
#include "transport/transport.h"

#define CHUNK_BYTES   6144
#define BUFFER_BYTES  (16u << 20)
#define GRACE_NS      SKY_MS(200)
#define SINGLE_ROUNDS 38 /* messages: four runs of datagrams the kernel cuts, as bare sends */

typedef struct {
    sky_net_kind kind;
    uint32_t chunk_bytes; /* not known to the compiler, which would copy word by word */
    sky_frame frame;
    uint8_t key[SKY_SECRET_BYTES];
    sky_time until;
    sky_status status; /* of the receiver */
    uint64_t taken, taken_bytes, datagrams;
    sky_time worked_ns[2]; /* processor time of the two ends */
    sky_time first, last;  /* something taken */
    sky_udp *sockets[2];
    sky_address addresses[2];
    sky_transport_config configs[2];
    sky_transport *transports[2];
    void *memories[2];
    sky_aead *taggers[2], *sealers[2];
    sky_seal *seals[2];
} lab;

static const sky_satellite ends[2] = {{0, 1}, {1, 1}};

static uint32_t datagram_bytes(void) {
    uint32_t message = (uint32_t)sky_message_data_offset(SKY_WIRE_SET) + CHUNK_BYTES +
                       SKY_SEAL_BYTES;
    return SKY_PACKET_HEAD_BYTES + SKY_PACKET_FRAME_BYTES + sky_packet_stride(message) +
           SKY_TAG_BYTES;
}

static void net_note(lab *l, uint64_t bytes, uint64_t datagrams) {
    sky_time now = sky_now();
    l->first = l->taken_bytes ? l->first : now;
    l->last = now;
    l->taken_bytes += bytes;
    l->datagrams += datagrams;
}

/* What a kind is made of. */
static bool is_bare(const lab *l) {
    return l->kind == SKY_NET_BARE || l->kind == SKY_NET_TOUCHED;
}

static bool net_opens(const lab *l) {
    return l->kind == SKY_NET_OPENED || l->kind == SKY_NET_WHOLE;
}

static bool seals_each(const lab *l) {
    return l->kind == SKY_NET_SEALED || l->kind == SKY_NET_WHOLE;
}

/* ---- bare ---- */

static void bare_send(lab *l, const uint8_t *content) {
    uint32_t bytes = datagram_bytes();
    while (sky_now() < l->until) {
        for (uint32_t i = 0; i < 256; i++) {
            uint8_t *room = sky_udp_room(l->sockets[0]);
            if (l->kind == SKY_NET_TOUCHED) {
                memcpy(room + 8, content + i, bytes - 8);
                sky_store_u64(room, sky_checksum(room + 8, bytes - 8, 0));
            } else {
                memset(room, (int)i, 16);
            }
            sky_udp_put(l->sockets[0], &l->addresses[1], room, bytes);
        }
        sky_udp_flush(l->sockets[0]);
    }
}

static void bare_receive(lab *l) {
    int fd = sky_udp_fd(l->sockets[1]);
    while (sky_now() < l->until + GRACE_NS) {
        uint8_t *data;
        size_t bytes;
        uint64_t sum = 0, count = 0;
        const sky_address *from;
        bool touch = l->kind == SKY_NET_TOUCHED;
        if (!sky_udp_receive(l->sockets[1])) {
            sky_poll(&fd, 1, l->until + GRACE_NS);
            continue;
        }
        for (; sky_udp_next(l->sockets[1], &data, &bytes, &from); count++)
            if (!touch || sky_checksum(data + 8, bytes - 8, 0) == sky_load_u64(data))
                sum += bytes;
        net_note(l, sum, count);
    }
}

/* ---- messages ---- */

static void pump_out(lab *l, int end, sky_time now) {
    sky_udp *u = l->sockets[end];
    sky_datagram_row row;
    while (sky_transport_offer(l->transports[end], now, sky_udp_room(u), &row))
        sky_udp_put_row(u, &l->addresses[!end], row.data, row.bytes, row.count);
    sky_udp_flush(u);
}

static bool pump_in(lab *l, int end, sky_time now) {
    uint8_t *data;
    size_t bytes;
    const sky_address *from;
    bool more = sky_udp_receive(l->sockets[end]);
    while (sky_udp_next(l->sockets[end], &data, &bytes, &from)) {
        sky_datagram d = {.data = data, .bytes = bytes};
        sky_transport_input(l->transports[end], now, &d, NULL);
    }
    if (!more && sky_transport_wake(l->transports[end]) <= now)
        sky_transport_input(l->transports[end], now, NULL, NULL);
    return more;
}

/* With the chunk in it, or NULL for one that lies elsewhere, as a session's does. */
static size_t make_chunk(lab *l, uint64_t number, const uint8_t *content, const sky_datagram *m) {
    sky_message set = {.type = SKY_WIRE_SET,
                       .request = number,
                       .id = {.version = number, .number = 1},
                       .facts = {.centre = {1, 1},
                                 .first = {1, 1},
                                 .next = {1, 1},
                                 .chunk_count = 1,
                                 .window_planes = 1,
                                 .window_slots = 1},
                       .data_bytes = l->chunk_bytes};
    set.data = content;
    return sky_message_encode(&set, m->data, m->bytes_max);
}

/* `ready` is one message to send over and over, where sealing is not to be measured. */
static void messages_send(lab *l, const uint8_t *content, const uint8_t *ready,
                          size_t ready_bytes) {
    int fd = sky_udp_fd(l->sockets[0]);
    uint64_t number = 1;
    for (sky_time now; (now = sky_now()) < l->until;) {
        sky_datagram m;
        for (int i = 0; i < SINGLE_ROUNDS && sky_transport_begin(l->transports[0], &m); i++) {
            m.to = ends[1];
            m.bytes = ready_bytes;
            if (ready)
                memcpy(m.data, ready, ready_bytes);
            else
                m.bytes = make_chunk(l, ++number, NULL, &m);
            m.chunk = ready ? NULL : content;
            sky_transport_send_sealed(l->transports[0], now, &m, ready ? NULL : l->seals[0]);
        }
        pump_out(l, 0, now);
        bool room = sky_transport_begin(l->transports[0], &m);
        if (!pump_in(l, 0, now) && !room)
            sky_poll(&fd, 1, sky_transport_wake(l->transports[0]));
    }
}

static void messages_receive(lab *l) {
    int fd = sky_udp_fd(l->sockets[1]);
    for (sky_time now; (now = sky_now()) < l->until + GRACE_NS;) {
        bool more = pump_in(l, 1, now);
        sky_datagram m;
        uint64_t sum = 0;
        while (sky_transport_receive(l->transports[1], &m)) {
            bool good = !l->seals[1] || sky_seal_open(l->seals[1], m.data, &m.bytes) == SKY_OK;
            sum += good ? CHUNK_BYTES : 0;
            l->taken++;
        }
        if (sum > 0)
            net_note(l, sum, 0);
        pump_out(l, 1, now);
        if (!more) {
            sky_time wake = sky_transport_wake(l->transports[1]);
            sky_time end = l->until + GRACE_NS;
            sky_poll(&fd, 1, wake < end ? wake : end);
        }
    }
}

static void *net_receiver(void *context) {
    lab *l = context;
    sky_time began = sky_thread_time();
    if (is_bare(l))
        bare_receive(l);
    else
        messages_receive(l);
    l->worked_ns[1] = sky_thread_time() - began;
    return NULL;
}

static void net_sender(lab *l) {
    uint8_t *content = malloc(CHUNK_BYTES);
    uint8_t *ready = malloc(SKY_PACKET_MESSAGE_MAX);
    sky_time began = sky_thread_time();
    if (content)
        memset(content, 0x5a, CHUNK_BYTES);
    if (content && ready && is_bare(l)) {
        bare_send(l, content);
    } else if (content && ready) {
        sky_datagram m = {.data = ready, .bytes_max = SKY_PACKET_MESSAGE_MAX};
        size_t bytes = make_chunk(l, 1, content, &m);
        if (l->seals[0])
            sky_seal_message(l->seals[0], m.data, m.bytes_max, &bytes);
        messages_send(l, content, seals_each(l) ? NULL : ready, bytes);
    }
    l->worked_ns[0] = sky_thread_time() - began;
    free(content);
    free(ready);
}

/* ---- set up ---- */

static sky_suites suites_of(sky_net_kind kind) {
    if (kind <= SKY_NET_PLAIN)
        return (sky_suites){.own = SKY_SUITE_PLAIN};
    if (kind == SKY_NET_AES || kind == SKY_NET_CHACHA)
        return sky_suites_wanted(kind == SKY_NET_AES ? SKY_SUITE_AES : SKY_SUITE_CHACHA);
    return sky_suites_wanted(SKY_SUITE_PLAIN);
}

static sky_status open_end(lab *l, int end, bool offloads, sky_error *error) {
    sky_udp_options options = {.datagram_bytes_max = SKY_PACKET_BYTES_MAX,
                               .buffer_bytes = BUFFER_BYTES,
                               .no_offloads = !offloads};
    sky_address any;
    sky_address_parse("127.0.0.1:0", &any, NULL);
    sky_status status = sky_udp_open(&any, &options, &l->sockets[end], error);
    if (status == SKY_OK)
        status = sky_aead_create(&l->taggers[end], error);
    if (status != SKY_OK)
        return status;
    l->addresses[end] = sky_udp_address(l->sockets[end]);
    uint32_t window = sky_udp_buffer_bytes(l->sockets[end]) / 2304 / 2;
    l->configs[end] = (sky_transport_config){.frame = &l->frame,
                                             .self = ends[end],
                                             .key = l->key,
                                             .suites = suites_of(l->kind),
                                             .aead = l->taggers[end],
                                             .epoch = (uint64_t)sky_now() << 1 | (uint64_t)end,
                                             .slack_ns = SKY_MS(20),
                                             .deadline_ns = SKY_SECONDS(10),
                                             .age_ns_max = SKY_SECONDS(10),
                                             .skew_ns_max = SKY_SECONDS(1),
                                             .message_bytes_max = CHUNK_BYTES + 512,
                                             .sending_max = 128, /* no more than the caches hold */
                                             .receiving_max = 192,
                                             .window_max = window < 1024 ? window : 1024,
                                             .peers_max = 2,
                                             .relay_max = 1};
    size_t bytes = sky_transport_bytes(&l->configs[end]);
    l->memories[end] = malloc(bytes);
    if (!l->memories[end])
        return sky_fail(error, SKY_E_NOMEM, "a transport");
    l->transports[end] = sky_transport_init(&l->configs[end], sky_now(), l->memories[end], bytes);
    return SKY_OK;
}

static sky_status open_seals(lab *l, sky_error *error) {
    static const uint8_t salt[SKY_SEAL_SALT_BYTES] = "measuring";
    for (int end = 0; end < 2; end++) {
        if (!(net_opens(l) || (seals_each(l) && end == 0)))
            continue;
        sky_status status = sky_aead_create(&l->sealers[end], error);
        if (status != SKY_OK)
            return status;
        l->seals[end] = malloc(sizeof *l->seals[end]);
        if (!l->seals[end])
            return sky_fail(error, SKY_E_NOMEM, "a seal");
        sky_seal_init(l->seals[end], l->sealers[end], suites_of(l->kind), l->key, salt);
    }
    return SKY_OK;
}

static sky_status open_lab(lab *l, bool offloads, sky_error *error) {
    sky_constellation sky = {.planes = 1, .slots = 1, .altitude_km = 550, .light_km_s = 1e15};
    sky_placement placement = {.strategy = SKY_PLACE_ROTATION, .servers = 1};
    sky_turning still = {.rotation_ns = SKY_TIME_NEVER};
    sky_status status = sky_frame_init(&l->frame, &sky, &placement, ends[1], &still, error);
    for (int end = 0; status == SKY_OK && end < 2; end++)
        status = open_end(l, end, offloads, error);
    return status == SKY_OK ? open_seals(l, error) : status;
}

static void close_lab(lab *l) {
    for (int end = 0; end < 2; end++) {
        sky_udp_close(l->sockets[end]);
        free(l->memories[end]);
        free(l->seals[end]);
        sky_aead_destroy(l->taggers[end]);
        sky_aead_destroy(l->sealers[end]);
    }
    sky_frame_deinit(&l->frame);
}

static void net_report(const lab *l, sky_net_result *out) {
    double seconds = (double)(l->last - l->first) / 1e9;
    *out = (sky_net_result){.seconds = seconds,
                            .gigabytes_per_s = seconds > 0 ? (double)l->taken_bytes / seconds / 1e9
                                                           : 0,
                            .datagrams = l->datagrams,
                            .datagram_bytes = datagram_bytes()};
    strcpy(out->offloads, sky_udp_offloads(l->sockets[0]));
    if (!is_bare(l)) {
        sky_transport_stat stat;
        sky_transport_stats(l->transports[1], &stat);
        out->datagrams = stat.datagrams_taken;
        sky_transport_stats(l->transports[0], &stat);
        out->again = stat.pieces_again;
    }
    if (out->datagrams > 0) {
        out->sender_ns = (double)l->worked_ns[0] / (double)out->datagrams;
        out->receiver_ns = (double)l->worked_ns[1] / (double)out->datagrams;
    }
}

sky_status sky_net_measure(sky_net_kind kind, double seconds, bool offloads, sky_net_result *out,
                           sky_error *error) {
    if (kind >= SKY_NET_END || !(seconds > 0 && seconds < 3600))
        return sky_fail(error, SKY_E_PARAM, "no such measurement");
    lab *l = calloc(1, sizeof *l);
    sky_thread thread = {.running = false};
    if (!l)
        return sky_fail(error, SKY_E_NOMEM, "a measurement");
    l->kind = kind;
    l->chunk_bytes = CHUNK_BYTES;
    sky_status status = open_lab(l, offloads, error);
    l->until = sky_now() + (sky_time)(seconds * 1e9);
    if (status == SKY_OK)
        status = sky_thread_start(&thread, "receiver", net_receiver, l);
    if (status == SKY_OK) {
        net_sender(l);
        sky_thread_join(&thread);
        net_report(l, out);
    }
    close_lab(l);
    free(l);
    return status;
}
