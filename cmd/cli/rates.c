/* A file for each model: see rates.h. What is read is believed within bounds only, and what is
 * measured replaces it, so that a file from anywhere costs a slower load at most. */
#include "rates.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli.h"

#define FILE_BYTES_MAX 16384u
#define ENTRIES_MAX    16u   /* of other CPUs and threads; the oldest go */
#define TOKEN_NS_LEAST 1000u /* no engine is faster; the most is what the number holds */

static bool rate_path(const uint8_t fingerprint[32], char *out, size_t out_bytes) {
    char home[3072], name[65];
    if (!cli_cache_home(home, sizeof home))
        return false;
    for (int i = 0; i < 32; i++)
        snprintf(name + 2 * i, 3, "%02x", fingerprint[i]);
    snprintf(out, out_bytes, "%s/skymem-rates/%s.json", home, name);
    return true;
}

/* As the kernel calls it, else the kind of machine. */
static void cpu_name(char out[128]) {
    struct utsname machine;
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    snprintf(out, 128, "%s", uname(&machine) == 0 ? machine.machine : "unknown");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            const char *name = strchr(line, ':') + 1;
            name += strspn(name, " ");
            snprintf(out, 128, "%.*s", (int)strcspn(name, "\n"), name);
            break;
        }
    if (file)
        fclose(file);
}

/* The list of a file; an empty one where it is none. Owner: the caller releases it. */
static json_t *read_list(const char *path) {
    char text[FILE_BYTES_MAX];
    struct stat st;
    ssize_t bytes = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe would wait */
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_BYTES_MAX)
        bytes = read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    json_t *file = bytes > 0 ? json_loadb(text, (size_t)bytes, 0, NULL) : NULL;
    json_t *list = json_incref(json_object_get(file, "rates"));
    json_decref(file);
    if (json_is_array(list))
        return list;
    json_decref(list);
    return json_array();
}

static uint32_t number_in(const json_t *entry, const char *name) {
    const json_t *value = json_object_get(entry, name);
    json_int_t ns = json_integer_value(value);
    return ns >= TOKEN_NS_LEAST && ns <= UINT32_MAX ? (uint32_t)ns : 0;
}

static bool is_of(const json_t *entry, const char *cpu, uint32_t threads) {
    const char *name = json_string_value(json_object_get(entry, "cpu"));
    return name && strcmp(name, cpu) == 0 &&
           json_integer_value(json_object_get(entry, "threads")) == (json_int_t)threads;
}

static cli_rate rate_in(const json_t *list, const char *cpu, uint32_t threads) {
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) if (is_of(entry, cpu, threads)) return (cli_rate){
        number_in(entry, "token_ns"), number_in(entry, "loading_token_ns")};
    return (cli_rate){0};
}

cli_rate cli_rate_read(const uint8_t fingerprint[32], uint32_t threads) {
    char path[4096], cpu[128];
    if (!rate_path(fingerprint, path, sizeof path))
        return (cli_rate){0};
    cpu_name(cpu);
    json_t *list = read_list(path);
    cli_rate rate = rate_in(list, cpu, threads);
    json_decref(list);
    return rate;
}

/* This one is the last, and the one before of the same CPU and threads is gone. */
static void replace_rate(json_t *list, const char *cpu, uint32_t threads, cli_rate rate) {
    for (size_t i = json_array_size(list); i-- > 0;)
        if (is_of(json_array_get(list, i), cpu, threads))
            json_array_remove(list, i);
    while (json_array_size(list) >= ENTRIES_MAX)
        json_array_remove(list, 0);
    json_array_append_new(list,
                          json_pack("{s:s, s:I, s:I, s:I}", "cpu", cpu, "threads",
                                    (json_int_t)threads, "token_ns", (json_int_t)rate.alone_ns,
                                    "loading_token_ns", (json_int_t)rate.loading_ns));
}

/* Beside the file, and then in its place: who reads it meanwhile has the one before. */
static void write_list(const char *path, json_t *list) {
    char folder[4096], beside[4160], home[3072];
    json_t *file = json_pack("{s:O}", "rates", list);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    (void)mkdir(cli_cache_home(home, sizeof home), 0700);
    (void)mkdir(folder, 0700);
    snprintf(beside, sizeof beside, "%s.new-%d", path, (int)getpid());
    if (json_dump_file(file, beside, JSON_INDENT(1)) != 0 || rename(beside, path) != 0)
        unlink(beside);
    json_decref(file);
}

void cli_rate_keep(const uint8_t fingerprint[32], uint32_t threads, cli_rate rate) {
    char path[4096], cpu[128];
    if ((rate.alone_ns == 0 && rate.loading_ns == 0) || !rate_path(fingerprint, path, sizeof path))
        return;
    cpu_name(cpu);
    json_t *list = read_list(path);
    cli_rate kept = rate_in(list, cpu, threads);
    rate.alone_ns = rate.alone_ns ? rate.alone_ns : kept.alone_ns;
    rate.loading_ns = rate.loading_ns ? rate.loading_ns : kept.loading_ns;
    replace_rate(list, cpu, threads, rate);
    write_list(path, list);
    json_decref(list);
}
