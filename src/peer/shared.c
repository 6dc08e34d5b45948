/* What connections share of their server: its counts, its lines in the log, and memory for puts. */
#include <stdlib.h>

#include "base/log.h"
#include "io/clock.h"
#include "peer/server.h"

#define COMPLAINTS_A_SECOND 10

/* ---- counts, the log ---- */

/* With the mutex held. A flood of bad connections is no flood of lines. */
static void log_complaint(sky_peer_server *s, const sky__peer_connection *c, const char *what,
                          const char *why) {
    sky_time now = sky_now();
    if (now >= s->complain_at) {
        s->complain_at = now + SKY_SECONDS(1);
        s->complaints = 0;
    }
    if (s->complaints++ < COMPLAINTS_A_SECOND)
        sky_log(SKY_LOG_WARNING, "peer %llu (%s) is %s: %s", (unsigned long long)c->number, c->from,
                what, why);
    if (s->complaints == COMPLAINTS_A_SECOND)
        sky_log(SKY_LOG_WARNING, "more peers are disconnected in this second");
}

void sky__peer_note_greeted(sky__peer_connection *c) {
    sky_peer_server *s = c->server;
    sky_mutex_lock(&s->mutex);
    s->stranger_count -= !c->displaced;
    s->stat.accepted++;
    s->stat.connections++;
    c->greeted = true;
    sky_mutex_unlock(&s->mutex);
}

void sky__peer_note_end(sky__peer_connection *c, bool denied, const char *why) {
    sky_peer_server *s = c->server;
    sky_mutex_lock(&s->mutex);
    if (c->greeted)
        s->stat.connections--;
    else if (!c->displaced)
        s->stranger_count--;
    s->stat.denied += denied;
    s->stat.disconnected += !denied && why;
    if (why)
        log_complaint(s, c, denied ? "denied" : "disconnected", why);
    c->over = true;
    sky_mutex_unlock(&s->mutex);
}

uint8_t *sky__peer_staging_take(sky_peer_server *s, uint64_t bytes, uint64_t *room) {
    uint8_t *found = NULL;
    sky_mutex_lock(&s->mutex);
    for (size_t i = 0; i < SKY__PEER_KEPT_MAX && !found; i++) {
        if (s->kept[i].room < bytes)
            continue;
        found = s->kept[i].data;
        *room = s->kept[i].room;
        s->kept[i].data = NULL;
        s->kept[i].room = 0;
    }
    sky_mutex_unlock(&s->mutex);
    if (found)
        return found;
    *room = bytes;
    return malloc(bytes);
}

/* The largest stay. */
void sky__peer_staging_give(sky_peer_server *s, uint8_t *staging, uint64_t room) {
    sky_mutex_lock(&s->mutex);
    for (size_t i = 0; i < SKY__PEER_KEPT_MAX && room <= SKY__PEER_KEPT_BYTES_MAX; i++) {
        if (s->kept[i].room >= room)
            continue;
        uint8_t *smaller = s->kept[i].data;
        uint64_t smaller_room = s->kept[i].room;
        s->kept[i].data = staging;
        s->kept[i].room = room;
        staging = smaller;
        room = smaller_room;
    }
    sky_mutex_unlock(&s->mutex);
    free(staging);
}
