/* What a host says of itself, for who wants nothing else of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <skymem/host.h>

#include "io/local.h"
#include "io/pages.h"
#include "io/shared.h"
#include "tier/shm/place.h"

static sky_status copy_text(int fd, uint64_t bytes, char **text) {
    void *pages;
    if (bytes == 0 || sky_shared_bytes(fd) < bytes)
        return SKY_E_CORRUPT;
    sky_status status = sky_pages_reserve(bytes, &pages, NULL);
    if (status != SKY_OK)
        return status;
    status = sky_shared_map(fd, pages, bytes, SKY_SHARED_READ);
    char *copy = status == SKY_OK ? malloc(bytes + 1) : NULL;
    if (copy) {
        memcpy(copy, pages, bytes);
        copy[bytes] = '\0';
        *text = copy;
    } else if (status == SKY_OK) {
        status = SKY_E_NOMEM;
    }
    sky_pages_release(pages, bytes);
    return status;
}

sky_status sky_host_text(const char *socket_path, sky_time until, char **text) {
    sky__shm_link *l;
    sky__shm_place place;
    char url[2 * SKY_LOCAL_PATH_BYTES_MAX];
    int passed = -1;
    if (!socket_path || !text)
        return SKY_E_PARAM;
    int url_bytes = snprintf(url, sizeof url, "shm:%s", socket_path);
    if ((size_t)url_bytes >= sizeof url)
        return SKY_E_PARAM;
    sky_status status = sky__shm_place_read(url, &place, NULL);
    if (status != SKY_OK)
        return status == SKY_E_SYNTAX ? SKY_E_PARAM : status;
    status = sky__shm_link_open(place.path, place.user, &place.part, until, &l);
    if (status != SKY_OK)
        return status;
    sky_shm_frame frame = {.kind = SKY_SHM_ASK, .question = SKY_SHM_TEXT};
    status = sky__shm_link_send(l, &frame);
    if (status == SKY_OK)
        status = sky__shm_link_await(l, until, &frame, &passed);
    if (status == SKY_MISS)
        status = SKY_E_DEADLINE;
    if (status == SKY_OK)
        status = frame.kind == SKY_SHM_TOLD ? frame.told : SKY_E_CORRUPT;
    if (status == SKY_OK)
        status = copy_text(passed, frame.text_bytes, text);
    sky_local_close(passed);
    sky__shm_link_destroy(l);
    return status;
}
