/* The file of several hosts that one tier is over: one a line, docs/formats/peer.md.
 *
 *   # the machines of the rack
 *   10.0.0.7:7700 key=/etc/skymem/peer.key
 *   10.0.0.8:7700 key=/etc/skymem/peer.key read-only
 *   [::1]:7700    plain */
#ifndef SKY_TIER_PEER_PEERS_FILE_H
#define SKY_TIER_PEER_PEERS_FILE_H

#include <stddef.h>

#include <skymem/status.h>

#include "tier/peer/choice.h"

#define SKY_PEERS_FILE_BYTES_MAX ((size_t)64 << 10)

typedef struct {
    char name[264]; /* HOST:PORT */
    char key[1024]; /* of a file; "": as the URL says */
    bool plain;
    bool read_only; /* nothing is put, removed or pinned there */
    uint32_t line;
} sky_peers_entry;

typedef struct {
    uint32_t count; /* at least 1 */
    sky_peers_entry entries[SKY_PEER_HOSTS_MAX];
} sky_peers_file;

/* `path` is for messages. Any bytes may be parsed.
 * Errors: SKY_E_SYNTAX; `error` names the line, and says what is wrong there */
sky_status sky_peers_parse(const char *data, size_t bytes, const char *path, sky_peers_file *out,
                           sky_error *error);

#endif
