#include "tier/peer/peers_file.h"

#include <string.h>

#include "base/error.h"

/* A word of a line: not NUL-terminated. */
typedef struct {
    const char *at;
    size_t bytes;
} word;

typedef struct {
    const char *path;
    uint32_t line;
    sky_error *error;
} place;

static sky_status fail_at(const place *p, const char *what, word w) {
    return sky_fail(p->error, SKY_E_SYNTAX, "%.200s:%u: %s%s%.*s", p->path, p->line, what,
                    w.bytes ? ": " : "", (int)(w.bytes < 100 ? w.bytes : 100), w.at);
}

static bool word_is(word w, const char *text) {
    return w.bytes == strlen(text) && memcmp(w.at, text, w.bytes) == 0;
}

static bool word_begins(word w, const char *text) {
    return w.bytes > strlen(text) && memcmp(w.at, text, strlen(text)) == 0;
}

/* The next word of a line, of no bytes at its end or where a comment begins. */
static word next_word(word *line) {
    while (line->bytes > 0 && (*line->at == ' ' || *line->at == '\t')) {
        line->at++;
        line->bytes--;
    }
    word w = {line->at, 0};
    if (line->bytes > 0 && *line->at == '#')
        return w;
    while (w.bytes < line->bytes && line->at[w.bytes] != ' ' && line->at[w.bytes] != '\t')
        w.bytes++;
    line->at += w.bytes;
    line->bytes -= w.bytes;
    return w;
}

/* What prints, and tabs: names go to logs and terminals. */
static bool is_text(word line) {
    for (size_t i = 0; i < line.bytes; i++)
        if ((unsigned char)line.at[i] < ' ' ? line.at[i] != '\t' : line.at[i] == 0x7f)
            return false;
    return true;
}

static sky_status copy_word(const place *p, word w, char *out, size_t room) {
    if (w.bytes >= room)
        return fail_at(p, "too long", w);
    memcpy(out, w.at, w.bytes);
    out[w.bytes] = '\0';
    return SKY_OK;
}

static sky_status parse_option(const place *p, word w, sky_peers_entry *e) {
    bool once = true;
    if (word_is(w, "read-only")) {
        once = !e->read_only;
        e->read_only = true;
    } else if (word_is(w, "plain")) {
        once = !e->plain;
        e->plain = true;
    } else if (word_begins(w, "key=")) {
        once = !e->key[0];
        sky_status status = copy_word(p, (word){w.at + 4, w.bytes - 4}, e->key, sizeof e->key);
        if (status != SKY_OK)
            return status;
    } else {
        return fail_at(p, "not key=FILE, plain or read-only", w);
    }
    return once ? SKY_OK : fail_at(p, "said twice", w);
}

static sky_status parse_line(const place *p, word line, sky_peers_file *out) {
    if (!is_text(line))
        return fail_at(p, "a character that does not print", (word){"", 0});
    word w = next_word(&line);
    if (w.bytes == 0)
        return SKY_OK;
    if (out->count == SKY_PEER_HOSTS_MAX)
        return fail_at(p, "more than 32 peers", w);
    sky_peers_entry *e = &out->entries[out->count];
    *e = (sky_peers_entry){.line = p->line};
    sky_status status = memchr(w.at, ':', w.bytes) ? copy_word(p, w, e->name, sizeof e->name)
                                                   : fail_at(p, "not HOST:PORT", w);
    for (uint32_t i = 0; i < out->count && status == SKY_OK; i++)
        if (strcmp(out->entries[i].name, e->name) == 0)
            status = fail_at(p, "the same peer as in a line before", w);
    while (status == SKY_OK && (w = next_word(&line)).bytes > 0)
        status = parse_option(p, w, e);
    if (status == SKY_OK && e->plain && e->key[0])
        status = fail_at(p, "a key, or plain", (word){"", 0});
    out->count += status == SKY_OK;
    return status;
}

sky_status sky_peers_parse(const char *data, size_t bytes, const char *path, sky_peers_file *out,
                           sky_error *error) {
    place p = {path, 0, error};
    sky_status status = SKY_OK;
    out->count = 0;
    while (bytes > 0 && status == SKY_OK) {
        const char *end = memchr(data, '\n', bytes);
        size_t length = end ? (size_t)(end - data) : bytes, passed = length + (end != NULL);
        p.line++;
        status = parse_line(&p, (word){data, length - (length > 0 && data[length - 1] == '\r')},
                            out);
        data += passed;
        bytes -= passed;
    }
    if (status == SKY_OK && out->count == 0)
        return sky_fail(error, SKY_E_SYNTAX, "%.200s: names no peer; one a line: HOST:PORT", path);
    return status;
}
