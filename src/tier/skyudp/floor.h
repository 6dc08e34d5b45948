/* Up to when a station took datagrams, kept in a file from one start to the next.
 *
 * What was sent before a station started is refused, so that an empty memory does not make old
 * datagrams new. That trusts the clock: if it is set back between two starts, what an adversary
 * kept is of the time after the second. So the file holds a wall time that all datagrams taken so
 * far were sent before; nothing sent before it is taken, and a clock that is behind it is an error.
 */
#ifndef SKY_TIER_SKYUDP_FLOOR_H
#define SKY_TIER_SKYUDP_FLOOR_H

#include <skymem/types.h>

/* A station rewrites the file when its time comes as near to what is kept as this; what it writes
 * is so far ahead. So it is written once a second at most, and a station that starts again at once
 * is deaf for up to two. */
#define SKY_FLOOR_NEAR_MS  1000
#define SKY_FLOOR_AHEAD_MS 2000
/* A clock may be so far behind what was written; the station is deaf until it catches up. */
#define SKY_FLOOR_BEHIND_MS 7000

/* Read what is kept; 0 when there is no file yet.
 * Errors: SKY_E_CORRUPT (something else is in it, or it is no plain file), SKY_E_DENIED (wall_ms is
 *         more than SKY_FLOOR_BEHIND_MS before it: the clock was set back; or another user could
 *         have written it), SKY_E_IO; `error` says what to do */
sky_status sky_floor_read(const char *path, int64_t wall_ms, int64_t *floor_ms, sky_error *error);
/* Replace it, by way of PATH.new, where only what an earlier write left is replaced.
 * Errors: SKY_E_CORRUPT (PATH.new is something else), SKY_E_IO, SKY_E_DENIED, SKY_E_FULL; `error`
 *         says what to do */
sky_status sky_floor_write(const char *path, int64_t floor_ms, sky_error *error);

#endif
