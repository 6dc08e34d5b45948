/* Filling in a sky_error, and sizes as people write them. */
#ifndef SKY_BASE_ERROR_H
#define SKY_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include <skymem/status.h>

/* Set *error (NULL is fine) and return `status`, so that a check is one line:
 *     return sky_fail(error, SKY_E_PARAM, "%s: planes is %d: at least 1", path, planes); */
sky_status sky_fail(sky_error *error, sky_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* It is one of SKY_STATUS_MAP. */
bool sky_status_is_known(sky_status status);

/* "8GiB", "6KiB", "4096", "1.5MiB", "512B": bytes. Errors: SKY_E_SYNTAX */
sky_status sky_size_parse(const char *text, uint64_t *bytes);

#endif
