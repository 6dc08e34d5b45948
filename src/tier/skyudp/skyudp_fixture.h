/* For tests of real satellites: a folder with a scenario and keys, its satellites on threads. */
#ifndef SKY_TIER_SKYUDP_SKYUDP_FIXTURE_H
#define SKY_TIER_SKYUDP_SKYUDP_FIXTURE_H

#include <skymem-sky/satellite.h>

#include "io/sync.h"

#define SKY_UDP_SITE_MAX 64

typedef struct {
    char folder[64];
    char path[96];
    char url[128];
    uint32_t planes, slots;
    struct sky_udp_thread {
        sky_thread thread;
        sky_satellite_options options;
        int stop;
        int ready;
        sky_status status;
        sky_error error;
    } satellites[SKY_UDP_SITE_MAX];
} sky_udp_site;

/* `udp` is one more key of that section, `settings` are further lines of the scenario. Nothing runs
 * yet. */
void sky_udp_site_make(sky_udp_site *site, uint32_t planes, uint32_t slots, const char *udp,
                       const char *settings);
/* Higher than 550 km. */
void sky_udp_site_make_at(sky_udp_site *site, uint32_t planes, uint32_t slots, uint32_t altitude_km,
                          const char *udp, const char *settings);
void sky_udp_site_remove(sky_udp_site *site);
/* The URL of the same sky for another tenant, whose key is made here. */
void sky_udp_site_tenant(const sky_udp_site *site, char url[128]);
/* One satellite, by number; and all of them. */
void sky_udp_site_start(sky_udp_site *site, uint32_t number);
void sky_udp_site_stop(sky_udp_site *site, uint32_t number);
void sky_udp_site_start_all(sky_udp_site *site);
void sky_udp_site_stop_all(sky_udp_site *site);

#endif
