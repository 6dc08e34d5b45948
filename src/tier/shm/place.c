#include "tier/shm/place.h"

#include <stdio.h>
#include <string.h>

#include <skymem/host.h>

#include "base/error.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/program.h"
#include "tier/url.h"

#define START_NS  SKY_SECONDS(30) /* a large folder is read when the daemon starts */
#define TRIES_MAX 3               /* a daemon may end, as idle, while it is connected to */

/* ---- where it is ---- */

/* A folder for this user alone, which nobody else can have put there. */
static sky_status make_private(const char *folder, sky_error *error) {
    int fd;
    sky_status status = sky_folder_make(SKY_FOLDER_HERE, folder);
    if (status == SKY_OK)
        status = sky_file_open(SKY_FOLDER_HERE, folder, SKY_FILE_FOLDER, &fd);
    if (status != SKY_OK)
        return sky_fail(error, SKY_E_DENIED, "%.200s: %s", folder, sky_errno_text());
    status = sky_file_check_owner(fd, folder, error);
    sky_file_close(fd);
    return status == SKY_OK ? SKY_OK : SKY_E_DENIED;
}

sky_status sky_host_path(char *out, size_t out_bytes, sky_error *error) {
    const char *home = sky_environment("XDG_RUNTIME_DIR");
    char folder[SKY_LOCAL_PATH_BYTES_MAX + 1];
    int bytes = home && home[0] == '/'
                    ? snprintf(folder, sizeof folder, "%s/skymem", home)
                    : snprintf(folder, sizeof folder, "/tmp/skymem-%u", sky_local_user());
    if (!out || (size_t)bytes >= sizeof folder ||
        (size_t)bytes + sizeof "/skymemd.sock" > out_bytes)
        return sky_fail(error, SKY_E_PARAM, "%.200s: too long for a socket", home ? home : "");
    sky_status status = make_private(folder, error);
    if (status == SKY_OK)
        snprintf(out, out_bytes, "%s/skymemd.sock", folder);
    return status;
}

sky_status sky__shm_place_read(const char *text, sky__shm_place *out, sky_error *error) {
    sky_url url;
    sky_status status = sky_url_parse(text, &url, error);
    if (status == SKY_OK)
        status = sky_url_expect(&url, "user pool tier evict", error);
    if (status != SKY_OK)
        return status;
    if (strcmp(url.scheme, "shm") != 0 || url.path[0] == '\0' ||
        strlen(url.path) > SKY_LOCAL_PATH_BYTES_MAX)
        return sky_fail(error, SKY_E_SYNTAX,
                        "%.200s: a host's store is shm:auto or shm:SOCKET, such as "
                        "shm:/run/skymemd.sock, of at most %d bytes",
                        text, SKY_LOCAL_PATH_BYTES_MAX);
    const char *user = sky_url_value(&url, "user"), *tier = sky_url_value(&url, "tier");
    const char *pool = sky_url_value(&url, "pool"), *evict = sky_url_value(&url, "evict");
    *out = (sky__shm_place){.user = sky_local_user(), .automatic = strcmp(url.path, "auto") == 0};
    if (user && !sky_local_find_user(user, &out->user))
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: there is no user %.64s", text, user);
    if (tier && (tier[0] < '0' || tier[0] >= '0' + SKY_TIERS_MAX || tier[1] != '\0'))
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: tier is a number, 0 to %d", text,
                        SKY_TIERS_MAX - 1);
    if (pool && !sky_shm_is_pool(pool))
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: a pool is 1 to %d letters, digits and . _ -",
                        text, (int)SKY_SHM_POOL_BYTES_MAX);
    if (evict && strcmp(evict, "normal") != 0 && strcmp(evict, "soon") != 0 &&
        strcmp(evict, "last") != 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: evict is normal, soon or last", text);
    out->evict = !evict || evict[0] == 'n' ? SKY_EVICT_NORMAL
                 : evict[0] == 's'         ? SKY_EVICT_SOON
                                           : SKY_EVICT_LAST;
    out->part.tier = tier ? (uint32_t)(tier[0] - '0') + 1 : 0;
    strcpy(out->part.pool, pool ? pool : "");
    if (out->automatic)
        return sky_host_path(out->path, sizeof out->path, error);
    strcpy(out->path, url.path);
    return SKY_OK;
}

/* ---- starting it ---- */

/* Several first users may start it at once: one of these daemons has the socket, and the others say
 * that it is in use. So whether it failed shows in whether one can connect. */
static void start_daemon(sky_error *error) {
    const char *named = sky_environment("SKYMEM_DAEMON");
    const char *argv[] = {named ? named : "skymemd", "--auto", NULL};
    char said[200] = "";
    int code = 0;
    sky_status status = sky_program_run(argv, sky_now() + START_NS, said, sizeof said, &code);
    if (status != SKY_OK)
        sky_fail(error, status, "%.100s cannot be started: %s", argv[0],
                 status == SKY_MISS ? "it is not in PATH; SKYMEM_DAEMON may name it"
                                    : sky_status_text(status));
    else if (code != 0)
        sky_fail(error, SKY_E_IO, "%s", said[0] ? said : "skymemd ended at once");
}

static bool is_gone(sky_status status) {
    return status == SKY_MISS || status == SKY_E_IO;
}

sky_status sky__shm_place_open(const sky__shm_place *p, sky_time until, sky__shm_link **out,
                               sky_error *error) {
    sky_status status = sky__shm_link_open(p->path, p->user, &p->part, until, out);
    for (int n = 0; n < TRIES_MAX && p->automatic && is_gone(status); n++) {
        sky_error why = {0};
        start_daemon(&why);
        status = sky__shm_link_open(p->path, p->user, &p->part, sky_now() + START_NS, out);
        if (status != SKY_OK && why.text[0])
            (void)sky_fail(error, status, "%s", why.text);
    }
    return status;
}

const char *sky__shm_place_advice(sky_status status) {
    switch (status) {
    case SKY_MISS:
        return "nobody listens there; start skymemd --socket PATH, or use shm:auto";
    case SKY_E_DEADLINE:
        return "no answer; is it a skymemd, and is it stopped?";
    case SKY_E_DENIED:
        return "it is another user's; ?user=NAME says that it may be";
    case SKY_E_BUSY:
        return "it has as many clients as it takes";
    case SKY_E_UNSUPPORTED:
        return "it is of another version";
    case SKY_E_CORRUPT:
        return "it is no skymemd";
    case SKY_E_PARAM:
        return "it has no such pool or tier";
    default:
        return sky_status_text(status);
    }
}
