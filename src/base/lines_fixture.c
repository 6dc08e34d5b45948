#include "base/lines_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

void sky_lines_open(sky_lines *l, const char *path) {
    l->file = fopen(path, "r");
    if (!l->file)
        fail_msg("%s: not there; tests run in the source folder", path);
}

char *sky_lines_next(sky_lines *l) {
    while (fgets(l->text, sizeof l->text, l->file)) {
        l->text[strcspn(l->text, "\n")] = 0;
        if (l->text[0] == '#' || l->text[0] == 0)
            continue;
        print_message("%s\n", l->text);
        return l->text;
    }
    fclose(l->file);
    return NULL;
}
