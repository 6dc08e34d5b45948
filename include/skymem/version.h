/* Which version these headers are of, and which the library in use. */
#ifndef SKYMEM_VERSION_H
#define SKYMEM_VERSION_H

#include <stdint.h>

#include <skymem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_VERSION_MAJOR 0
#define SKY_VERSION_MINOR 1
#define SKY_VERSION_PATCH 0
/* Grows with each version: major × 1,000,000 + minor × 1,000 + patch. */
#define SKY_VERSION_NUMBER                                                                         \
    (SKY_VERSION_MAJOR * 1000000u + SKY_VERSION_MINOR * 1000u + SKY_VERSION_PATCH)
#define SKY_VERSION "0.1.0"
/* The version of the library in use, such as "0.1.0". From any thread; valid for ever. */
SKY_API const char *sky_version(void);
/* SKY_VERSION_NUMBER of the library in use, which may be newer than that of this header. */
SKY_API uint32_t sky_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
