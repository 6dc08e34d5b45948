/* Scenario files from strangers: any bytes are either a scenario that stands by its own word, or
 * refused with a reason. */
#include <stdint.h>
#include <stdlib.h>

#include "config/scenario.h"
#include "orbit/geometry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_scenario s;
    sky_error error = {0};
    sky_status status = sky_scenario_parse((const char *)data, bytes, "fuzz", &s, &error);
    if (status != SKY_OK) {
        if (status > 0 || error.status != status || !error.text[0])
            abort();
        return 0;
    }
    sky_placement again;
    if (sky_placement_resolve(&s.constellation, &s.placement, &again, NULL) != SKY_OK)
        abort();
    if (s.time.rotation_ns <= 0 || s.until_ns <= 0 || s.chunk_bytes < SKY_CHUNK_BYTES_MIN ||
        s.links.isl_bits_s == 0 || s.links.ground_bits_s == 0)
        abort();
    sky_satellite last = sky_overhead(&s.constellation, s.centre, UINT64_MAX);
    if (!(sky_slant_km(&s.constellation, s.centre, last) >= s.constellation.altitude_km))
        abort();
    return 0;
}
