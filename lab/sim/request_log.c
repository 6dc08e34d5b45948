#include "lab/sim/request_log.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "lab/sim/workload.h"
#include "orbit/torus.h"

sky_status sky_request_log_open(sky_request_log *log, const char *path, const sky_frame *frame,
                                uint32_t trip_count, sky_error *error) {
    *log = (sky_request_log){.frame = frame, .trip_count = trip_count};
    sky_status status = text_file_open(&log->file, path, error);
    if (status != SKY_OK || !path)
        return status;
    log->trips = calloc(trip_count, sizeof *log->trips);
    if (!log->trips)
        return sky_fail(error, SKY_E_NOMEM, "memory to write %s with", path);
    text_file_line(&log->file, "%s\n", SKY_REQUEST_LOG_COLUMNS);
    return SKY_OK;
}

sky_status sky_request_log_close(sky_request_log *log, const char *path, sky_error *error) {
    return text_file_close(&log->file, path, error);
}

void sky_request_log_deinit(sky_request_log *log) {
    for (uint32_t i = 0; log->trips && i < log->trip_count; i++)
        free(log->trips[i].asked);
    free(log->trips);
    free(log->file.text);
    log->trips = NULL;
    log->file.text = NULL;
}

void sky_request_log_begin(sky_request_log *log, uint32_t number, sky_time now, uint32_t ground,
                           sky_op op, uint32_t key, uint32_t key_count) {
    if (!log->trips)
        return;
    assert(number < log->trip_count);
    sky_request_trip *t = &log->trips[number];
    uint8_t *asked = t->asked ? t->asked : malloc(log->frame->satellite_count);
    if (asked)
        memset(asked, 0, log->frame->satellite_count);
    *t = (sky_request_trip){.open = true,
                            .op = op,
                            .ground = ground,
                            .key = key,
                            .key_count = key_count,
                            .began = now,
                            .asked = asked};
}

void sky_request_log_drop(sky_request_log *log, uint32_t number) {
    if (log->trips)
        log->trips[number].open = false;
}

/* Steps over the grid from the satellite overhead. */
static uint32_t hops_to(const sky_frame *f, sky_satellite s, sky_time now) {
    sky_satellite overhead = sky_frame_centre(f, sky_turns(&f->turning, now));
    return sky__ring_distance(overhead.plane, s.plane, f->constellation.planes) +
           sky__ring_distance(overhead.slot, s.slot, f->constellation.slots);
}

static void count_message(const sky_frame *f, sky_request_trip *t, sky_satellite to, sky_time now) {
    uint32_t number = sky_frame_number(f, to);
    t->messages++;
    if (!t->asked || t->asked[number])
        return;
    t->asked[number] = 1;
    t->satellites++;
    uint32_t hops = hops_to(f, to, now);
    t->hops = hops > t->hops ? hops : t->hops;
}

void sky_request_log_said(sky_request_log *log, sky_time now, uint32_t ground,
                          const sky_datagram *message) {
    sky_message m;
    if (!log->trips || sky_message_decode(message->data, message->bytes, &m) != SKY_OK)
        return;
    uint32_t key = sky_value_key_number(&m.id.key);
    for (uint32_t i = 0; i < log->trip_count; i++) {
        sky_request_trip *t = &log->trips[i];
        if (t->open && t->ground == ground && key - t->key < t->key_count)
            count_message(log->frame, t, message->to, now);
    }
}

static const char *op_name(sky_op op) {
    switch (op) {
    case SKY_OP_HAS:
        return "has";
    case SKY_OP_GET:
        return "get";
    case SKY_OP_PUT:
        return "put";
    case SKY_OP_REMOVE:
        return "remove";
    case SKY_OP_PREFETCH:
        return "prefetch";
    case SKY_OP_PIN:
        return "pin";
    default:
        return "unpin";
    }
}

/* Milliseconds with every nanosecond, by whole numbers: the same on every machine. */
typedef struct {
    int64_t ms;
    int64_t ns;
} split;

static split in_ms(sky_time ns) {
    return (split){ns / SKY_MS(1), ns % SKY_MS(1)};
}

#define MS         "%" PRId64 ".%06" PRId64
#define MS_ARGS(t) in_ms(t).ms, in_ms(t).ns

void sky_request_log_end(sky_request_log *log, uint32_t number, sky_time now,
                         const sky_result *result, const sky_request_land *land) {
    if (!log->trips)
        return;
    sky_request_trip *t = &log->trips[number];
    const sky_path_time *p = &result->time;
    sky_time asked = t->began - land->up_ns, had = now + land->down_ns;
    assert(t->open);
    t->open = false;
    text_file_line(&log->file,
                   "%" PRId64 ".%09" PRId64 ",%u,%s,%u,%" PRIu64 ",%s," MS ",%u,%u,%u,%u," MS "," MS
                   "," MS "," MS ",%s," MS "\n",
                   asked / SKY_SECONDS(1), asked % SKY_SECONDS(1), t->ground, op_name(t->op),
                   t->key, result->bytes, sky_status_name(result->status), MS_ARGS(had - asked),
                   t->satellites, t->hops, t->messages, p->chunks, MS_ARGS(p->light_ns),
                   MS_ARGS(p->link_ns), MS_ARGS(p->processing_ns), MS_ARGS(p->session_ns),
                   land->user, MS_ARGS(land->up_ns + land->down_ns));
}
