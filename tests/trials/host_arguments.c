/* A host refuses stores and users that are NULL, its own and those of other users. */
#include "trial.h"

int main(void) {
    const char *const none[] = {NULL}, *const own[] = {"mem:16MiB"};
    const sky_host_user user = {.uid = 65533, .urls = none, .url_count = 1};
    sky_host_options o = {.struct_bytes = sizeof o, .socket_path = "host", .url_count = 1};
    o.urls = none;
    must(sky_host_run(&o, NULL) == SKY_E_PARAM);
    o.urls = own;
    o.settings.user_count = 1;
    must(sky_host_run(&o, NULL) == SKY_E_PARAM);
    o.settings.users = &user;
    must(sky_host_run(&o, NULL) == SKY_E_PARAM);
    return 0;
}
