#include "peers.h"

#include "daemon.h"

int peers_add_key(daemon_peers *p, const char *path) {
    if (p->options.key_count == SKY_PEER_KEYS_MAX)
        return daemon_say(USAGE, "--peer-key", "at most 16 keys");
    p->keys[p->options.key_count++] = path;
    return DONE;
}

int peers_check(const daemon_peers *p) {
    bool taken = p->options.key_count > 0 || p->options.plain;
    if (!p->options.address)
        return taken || p->options.transport
                   ? daemon_say(USAGE,
                                p->options.plain       ? "--peer-plain"
                                : p->options.key_count ? "--peer-key"
                                                       : "--peer-transport",
                                "goes with --listen ADDRESS:PORT")
                   : DONE;
    return taken ? DONE
                 : daemon_say(USAGE, "--listen",
                              "needs --peer-key FILE, or --peer-plain for neither encryption nor "
                              "authentication");
}

sky_status peers_start(daemon_peers *p, sky_cache *cache, sky_error *error) {
    if (!p->options.address)
        return SKY_OK;
    p->options.struct_bytes = sizeof p->options;
    p->options.key_paths = p->keys;
    return sky_peer_serve(cache, &p->options, &p->server, error);
}

void peers_stop(daemon_peers *p) {
    sky_peer_stop(p->server);
    p->server = NULL;
}

json_t *peers_json(const daemon_peers *p) {
    sky_peer_stat s;
    sky_peer_stats(p->server, &s);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "address",
                     sky_peer_address(p->server), "transport",
                     p->options.transport ? p->options.transport : "tcp", "connections",
                     (json_int_t)s.connections, "accepted", (json_int_t)s.accepted, "denied",
                     (json_int_t)s.denied, "refused", (json_int_t)s.refused, "disconnected",
                     (json_int_t)s.disconnected, "sent_bytes", (json_int_t)s.sent_bytes,
                     "received_bytes", (json_int_t)s.received_bytes);
}
