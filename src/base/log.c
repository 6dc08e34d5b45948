#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"error", "warning", "info", "debug"};
static atomic_int threshold = -1;

static int level_at_start(void) {
    const char *wanted = getenv("SKYMEM_LOG");
    for (int i = 0; wanted && i < 4; i++)
        if (strcmp(wanted, names[i]) == 0)
            return i;
    return SKY_LOG_WARNING;
}

void sky_log_level_set(sky_log_level level) {
    atomic_store(&threshold, (int)level);
}

void sky_log(sky_log_level level, const char *format, ...) {
    int most = atomic_load(&threshold);
    if (most < 0) {
        most = level_at_start();
        atomic_store(&threshold, most);
    }
    if ((int)level > most)
        return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "skymem: %s: %s\n", names[level], line);
}
