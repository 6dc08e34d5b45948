/* Our subset of YAML, by libyaml's events: no tree is built, so there is nothing to expand. */
#include "config/yaml.h"

#include <string.h>

#include <yaml.h>

#include "base/error.h"

typedef struct {
    yaml_parser_t parser;
    yaml_event_t event; /* the one at hand; cleared once deleted */
    const char *path;
    sky_error *error;
    sky_yaml_fn each;
    void *context;
    sky_yaml_entry entry;
} walker;

static int line_of(const walker *w) {
    return (int)w->event.start_mark.line + 1;
}

static sky_status refuse_text(walker *w, const char *reason) {
    return sky_fail(w->error, SKY_E_SYNTAX, "%s:%d: %s", w->path, line_of(w), reason);
}

static bool is_decorated(const yaml_event_t *e) {
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return e->data.scalar.anchor || e->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return e->data.sequence_start.anchor || e->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return e->data.mapping_start.anchor || e->data.mapping_start.tag;
    default:
        return false;
    }
}

/* Step to the next event. */
static sky_status next_event(walker *w) {
    yaml_event_delete(&w->event);
    memset(&w->event, 0, sizeof w->event);
    if (!yaml_parser_parse(&w->parser, &w->event)) {
        if (w->parser.error == YAML_MEMORY_ERROR)
            return sky_fail(w->error, SKY_E_NOMEM, "%s: out of memory", w->path);
        return sky_fail(w->error, SKY_E_SYNTAX, "%s:%d: %s", w->path,
                        (int)w->parser.problem_mark.line + 1,
                        w->parser.problem ? w->parser.problem : "this is not YAML");
    }
    if (w->event.type == YAML_ALIAS_EVENT || is_decorated(&w->event))
        return refuse_text(w, "anchors, aliases and tags are not used here: write the value out");
    return SKY_OK;
}

static sky_status copy_scalar(walker *w, char *out) {
    size_t bytes = w->event.data.scalar.length;
    const char *text = (const char *)w->event.data.scalar.value;
    if (bytes > SKY_YAML_TEXT_BYTES_MAX)
        return refuse_text(w, "a key or value longer than 255 bytes");
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return refuse_text(w, "a control character in a key or value");
    }
    memcpy(out, text, bytes);
    out[bytes] = 0;
    return SKY_OK;
}

/* At the event after a key that is no mapping: gather its value or values, and tell. */
static sky_status read_values(walker *w) {
    sky_yaml_entry *e = &w->entry;
    sky_status status;
    e->value_count = 0;
    e->list = w->event.type == YAML_SEQUENCE_START_EVENT;
    if (!e->list) {
        status = copy_scalar(w, e->values[e->value_count++]);
        return status != SKY_OK ? status : w->each(w->context, e);
    }
    while ((status = next_event(w)) == SKY_OK && w->event.type == YAML_SCALAR_EVENT) {
        if (e->value_count == SKY_YAML_VALUES_MAX)
            return refuse_text(w, "a list of more than 8 values");
        status = copy_scalar(w, e->values[e->value_count++]);
        if (status != SKY_OK)
            return status;
    }
    if (status != SKY_OK)
        return status;
    if (w->event.type != YAML_SEQUENCE_END_EVENT)
        return refuse_text(w, "a list holds plain values only");
    return w->each(w->context, e);
}

/* At the start of a mapping: its keys, up to its end. Nests once. */
static sky_status read_mapping(walker *w, bool top) {
    for (;;) {
        sky_status status = next_event(w);
        if (status != SKY_OK || w->event.type == YAML_MAPPING_END_EVENT)
            return status;
        if (w->event.type != YAML_SCALAR_EVENT)
            return refuse_text(w, "a key must be a plain word");
        w->entry.line = line_of(w);
        status = copy_scalar(w, w->entry.key);
        if (status == SKY_OK && !w->entry.key[0])
            status = refuse_text(w, "an empty key");
        if (status == SKY_OK)
            status = next_event(w);
        if (status != SKY_OK)
            return status;
        if (w->event.type != YAML_MAPPING_START_EVENT) {
            status = read_values(w);
        } else if (!top) {
            status = refuse_text(w,
                                 "nested too deep: sections hold keys with plain values or lists");
        } else {
            memcpy(w->entry.section, w->entry.key, sizeof w->entry.section);
            w->entry.key[0] = 0;
            w->entry.value_count = 0;
            w->entry.list = false;
            status = w->each(w->context, &w->entry);
            if (status == SKY_OK)
                status = read_mapping(w, false);
            w->entry.section[0] = 0;
        }
        if (status != SKY_OK)
            return status;
    }
}

static sky_status read_document(walker *w) {
    sky_status status = next_event(w); /* stream start */
    if (status == SKY_OK)
        status = next_event(w); /* document start, or the end of an empty stream */
    if (status != SKY_OK)
        return status;
    if (w->event.type == YAML_STREAM_END_EVENT)
        return SKY_OK;
    status = next_event(w);
    if (status != SKY_OK)
        return status;
    if (w->event.type != YAML_MAPPING_START_EVENT)
        return refuse_text(w, "expected keys with values, such as `until: 2h`");
    status = read_mapping(w, true);
    if (status == SKY_OK)
        status = next_event(w); /* document end */
    if (status == SKY_OK)
        status = next_event(w);
    if (status == SKY_OK && w->event.type != YAML_STREAM_END_EVENT)
        status = refuse_text(w, "a second document: one file holds one");
    return status;
}

sky_status sky_yaml_walk(const char *text, size_t bytes, const char *path, sky_yaml_fn each,
                         void *context, sky_error *error) {
    walker w = {.path = path, .error = error, .each = each, .context = context};
    if (!yaml_parser_initialize(&w.parser))
        return sky_fail(error, SKY_E_NOMEM, "%s: out of memory", path);
    yaml_parser_set_encoding(&w.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&w.parser, (const unsigned char *)(bytes ? text : ""), bytes);
    sky_status status = read_document(&w);
    yaml_event_delete(&w.event);
    yaml_parser_delete(&w.parser);
    return status;
}
