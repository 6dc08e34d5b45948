#include "base/bug.h"

#ifdef SKY_BUGS
#include <stdlib.h>
#include <string.h>

bool sky__bug(const char *name, unsigned every) {
    static unsigned asked;
    const char *wanted = getenv("SKYMEM_BUG");
    return wanted && strcmp(wanted, name) == 0 && ++asked % every == 0;
}
#endif
