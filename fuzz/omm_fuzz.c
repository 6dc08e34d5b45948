/* Orbit messages from strangers, JSON, CSV or KVN: satellites in range, or refused with a
 * reason. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include <skymem-sky/orbit.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    sky_fleet *f = NULL;
    sky_error error = {0};
    sky_status status = sky_fleet_parse((const char *)data, bytes, "fuzz", &f, &error);
    if (status != SKY_OK) {
        if (status > 0 || f || error.status != status || !error.text[0])
            abort();
        return 0;
    }
    char name[SKY_FLEET_NAME_BYTES];
    for (uint32_t i = 0; i < sky_fleet_count(f) && i < 64; i++) {
        sky_motion s;
        if (!sky_fleet_name(f, i, name)[0])
            abort();
        if (sky_fleet_state_after(f, i, 10000, &s) == SKY_ORBIT_FINE &&
            !isfinite(s.r_km.x + s.r_km.y + s.r_km.z + s.v_km_s.x + s.v_km_s.y + s.v_km_s.z))
            abort();
    }
    sky_fleet_destroy(f);
    return 0;
}
