/* Calibrations on disk, and files that come along with the program: see profile.h. */
#include "profile.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROFILE_BYTES_MAX (64u << 20)

bool cli_share_find(const char *relative, char *out, size_t out_bytes) {
    static const char *const folders[] = {"../share", "../share/skymem"};
    char below[512];
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(below, sizeof below, "%s/%s", folders[i], relative);
        if (cli_beside_program(below, out, out_bytes))
            return true;
    }
    snprintf(out, out_bytes, "share/%s", relative);
    return access(out, R_OK) == 0;
}

static bool is_of(const sky_profile *profile, const uint8_t fingerprint[32]) {
    uint8_t own[32];
    sky_profile_fingerprint(profile, own);
    return memcmp(own, fingerprint, sizeof own) == 0;
}

int cli_profile_read(const cli *c, const char *path, sky_profile **out) {
    cli_blob file = {0};
    sky_error error = {0};
    int code = cli_blob_read(c, path, PROFILE_BYTES_MAX, &file);
    if (code != CLI_OK)
        return code;
    sky_status status = sky_profile_read(file.data, file.bytes, out, &error);
    cli_blob_free(&file);
    return status == SKY_OK ? CLI_OK
                            : cli_failed(c, "%s: %s; make it again with skymem calibrate", path,
                                         error.text[0] ? error.text : sky_status_text(status));
}

static int read_given(const cli *c, const char *path, const uint8_t fingerprint[32],
                      sky_profile **out) {
    sky_profile *profile = NULL;
    int code = cli_profile_read(c, path, &profile);
    if (code != CLI_OK)
        return code;
    if (!is_of(profile, fingerprint)) {
        sky_profile_destroy(profile);
        return cli_failed(c, "%s: made for another model; see skymem calibrate", path);
    }
    *out = profile;
    return CLI_OK;
}

/* The one of this model among a folder's .skycal files; what cannot be read is passed over. */
static sky_profile *find_in(const cli *c, const uint8_t fingerprint[32], const char *folder) {
    sky_profile *found = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[4096];
        cli_blob file = {0};
        size_t bytes = strlen(e->d_name);
        if (bytes < 8 || strcmp(e->d_name + bytes - 7, ".skycal") != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        struct stat st; /* opening a pipe would wait for its writer */
        if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > PROFILE_BYTES_MAX ||
            access(path, R_OK) != 0 || cli_blob_read(c, path, PROFILE_BYTES_MAX, &file) != CLI_OK)
            continue;
        sky_profile *profile = NULL;
        if (sky_profile_read(file.data, file.bytes, &profile, NULL) == SKY_OK &&
            is_of(profile, fingerprint))
            found = profile;
        else
            sky_profile_destroy(profile);
        cli_blob_free(&file);
    }
    if (d)
        closedir(d);
    return found;
}

int cli_profile_find(const cli *c, const char *given, const uint8_t fingerprint[32],
                     sky_profile **out) {
    char folder[4096], home[3072];
    *out = NULL;
    if (given && strcmp(given, "none") == 0)
        return CLI_OK;
    if (given)
        return read_given(c, given, fingerprint, out);
    if (!cli_cache_home(home, sizeof home))
        return cli_failed(c, "this account has no home to look for a calibration in; set "
                             "XDG_CACHE_HOME to a folder, or say --calibration FILE or none");
    snprintf(folder, sizeof folder, "%s/skymem-calibration", home);
    *out = find_in(c, fingerprint, folder);
    if (!*out && cli_share_find("calibration", folder, sizeof folder))
        *out = find_in(c, fingerprint, folder);
    return CLI_OK;
}
