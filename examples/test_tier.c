/* Runs the suite that every tier passes on the store of tier_dir.c, in a folder that it may empty.
 *
 *   cc -D_GNU_SOURCE test_tier.c -o test_tier $(pkg-config --cflags --libs skymem-conformance)
 *   ./test_tier /tmp/values
 */
#include <skymem/conformance.h>

#include "tier_dir.c"

int main(int argc, char **argv) {
    char url[512];
    snprintf(url, sizeof url, "dir:%s", argc > 1 ? argv[1] : "values");
    const sky_conformance dir = {sizeof dir, .driver = &tier_dir, .url = url};
    return sky_conformance_run(&dir) != 0;
}
