/* Files of peers from strangers: any bytes are peers with a name that can be written to a log, or
 * are refused with line and reason. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tier/peer/peers_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static sky_peers_file f;
    sky_error error = {0};
    sky_status status = sky_peers_parse((const char *)data, bytes, "fuzz", &f, &error);
    if (status != SKY_OK && (status != SKY_E_SYNTAX || strncmp(error.text, "fuzz:", 5) != 0))
        abort();
    if (status == SKY_OK && (f.count == 0 || f.count > SKY_PEER_HOSTS_MAX))
        abort();
    for (uint32_t i = 0; status == SKY_OK && i < f.count; i++) {
        const sky_peers_entry *e = &f.entries[i];
        if (!strchr(e->name, ':') || (e->plain && e->key[0]) || e->line == 0)
            abort();
        for (const char *c = e->name; *c; c++)
            if (iscntrl((unsigned char)*c) || *c == ' ')
                abort();
    }
    return 0;
}
