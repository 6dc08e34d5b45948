/* Calibrations on disk, and files that come along with the program. */
#ifndef SKYMEM_CLI_PROFILE_H
#define SKYMEM_CLI_PROFILE_H

#include "cli.h"

#include <skymem/codec.h>

/* A file or folder below share/ of the source tree or the installation; false: not there. */
bool cli_share_find(const char *relative, char *out, size_t out_bytes);

/* A calibration from a file, of whichever model.
 * Owner:  *out is the caller's
 * Returns an exit code, having said why. */
int cli_profile_read(const cli *c, const char *path, sky_profile **out);

/* The calibration of a model: the file `given`, none if that is "none", else the one whose
 * fingerprint is the model's in $XDG_CACHE_HOME/skymem-calibration or share/calibration.
 * Owner:  *out is the caller's, NULL when there is none
 * Returns an exit code, having said why: a file given that is damaged or another model's. */
int cli_profile_find(const cli *c, const char *given, const uint8_t fingerprint[32],
                     sky_profile **out);

#endif
