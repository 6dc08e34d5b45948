/* Replays a corpus through a fuzz target, so that every build tests what the fuzzer once found:
 *
 *     fuzz-NAME FOLDER
 *
 * Runs the empty input and every file of the folder. A folder without files fails: a replay of
 * nothing proves nothing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define INPUT_BYTES_MAX (1u << 20)

static void replay(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    uint8_t *whole = malloc(INPUT_BYTES_MAX);
    size_t bytes = whole ? fread(whole, 1, INPUT_BYTES_MAX, file) : 0;
    fclose(file);
    uint8_t *exact = malloc(bytes ? bytes : 1); /* a read past the end shows under a sanitizer */
    if (!whole || !exact)
        abort();
    memcpy(exact, whole, bytes);
    free(whole);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
}

int main(int argc, char **argv) {
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER (of inputs; give a new target a corpus)\n", argv[0]);
        return 2;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    int replayed = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name) >= (int)sizeof path)
            abort();
        replay(path);
        replayed++;
    }
    closedir(folder);
    printf("%d inputs replayed\n", replayed);
    return replayed > 0 ? 0 : 1;
}
