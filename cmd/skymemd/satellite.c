/* skymemd --satellite P,S --scenario F: one satellite on a real socket. */
#include "satellite.h"
#include "daemon.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <skymem-sky/skies.h>
#include <skymem/skymem.h>

static void say_ready(void *context) {
    (void)context;
    daemon_ready();
}

static bool parse_satellite(const char *text, sky_satellite *out) {
    char rest;
    unsigned plane, slot;
    if (strspn(text, "0123456789,") != strlen(text) ||
        sscanf(text, "%5u,%5u%c", &plane, &slot, &rest) != 2 || plane < 1 || slot < 1)
        return false;
    *out = (sky_satellite){plane, slot};
    return true;
}

/* Before its key is looked for, which the satellite of a wrong number cannot have. */
static int check_exists(const char *which, const char *scenario_path, const sky_satellite *self) {
    sky_constellation sky;
    sky_placement placement;
    sky_satellite centre;
    sky_error error = {0};
    char why[96];
    if (sky_scenario_read(scenario_path, &sky, &placement, &centre, &error) != SKY_OK)
        return DONE; /* told better by what runs it */
    if (self->plane <= sky.planes && self->slot <= sky.slots)
        return DONE;
    snprintf(why, sizeof why, "the scenario has %u planes of %u slots", sky.planes, sky.slots);
    return daemon_say(USAGE, which, why);
}

int satellite_main(const char *which, const char *scenario_path, const char *state_path) {
    sky_satellite_options options = {
        .scenario_path = scenario_path, .state_path = state_path, .ready = say_ready};
    sky_error error = {0};
    if (!scenario_path)
        return daemon_say(USAGE, "--satellite", "needs --scenario FILE");
    if (!parse_satellite(which, &options.self))
        return daemon_say(USAGE, which, "a satellite is PLANE,SLOT, both from 1, such as 3,4");
    int code = check_exists(which, scenario_path, &options.self);
    if (code == DONE)
        code = daemon_catch_signals(&options.stop_fd);
    if (code != DONE)
        return code;
    sky_status status = sky_satellite_run(&options, &error);
    daemon_notify("STOPPING=1");
    close(options.stop_fd);
    if (status == SKY_OK)
        return DONE;
    bool usage = status == SKY_E_SYNTAX || status == SKY_E_PARAM || status == SKY_E_UNSUPPORTED;
    return daemon_say(usage ? USAGE : FAILED, which,
                      error.text[0] ? error.text : sky_status_text(status));
}
