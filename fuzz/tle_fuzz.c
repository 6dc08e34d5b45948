/* Two-line elements from strangers: any bytes are satellites that answer for a place, finite or
 * with a reason, or are refused with line and reason; and so are lasers. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "orbit/fleet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void ask(const sky_fleet *f, uint32_t number) {
    static const double minutes[] = {0, 1, -1440, 5e5};
    for (int i = 0; i < 4; i++) {
        sky_motion s;
        if (sky_fleet_state_after(f, number, minutes[i], &s) != SKY_ORBIT_FINE)
            continue;
        if (!isfinite(s.r_km.x + s.r_km.y + s.r_km.z) ||
            !isfinite(s.v_km_s.x + s.v_km_s.y + s.v_km_s.z))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_fleet *f = calloc(1, sizeof *f);
    sky_error error = {0};
    if (!f)
        return 0;
    sky_status status = sky__tle_read((const char *)data, bytes, "fuzz", f, &error);
    if (status != SKY_OK && (status > 0 || error.status != status || !error.text[0]))
        abort();
    for (uint32_t i = 0; i < sky_fleet_count(f) && i < 64; i++)
        ask(f, i);
    if (status == SKY_OK && sky_fleet_count(f) > 0 &&
        sky_fleet_arrange(f, 1795132800000, NULL) == SKY_OK) {
        const sky_constellation *c = sky_fleet_shell(f);
        sky_satellite s = sky_fleet_place(f, sky_fleet_number(f, (sky_satellite){c->planes, 1}));
        if (s.plane != c->planes || s.slot != 1)
            abort();
        status = sky__fleet_isls(f, (const char *)data, bytes, "fuzz", &error);
        if (status != SKY_OK && (status > 0 || error.status != status || !error.text[0]))
            abort();
    }
    sky_fleet_destroy(f);
    return 0;
}
