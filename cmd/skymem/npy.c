/* See npy.h. */
#include "npy.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((uint64_t)1 << 36)
#define HEAD_MAX  1024

/* The five numbers of "'shape': (18, 2, 100, 1, 256)". */
static bool parse_shape(const char *head, uint64_t out[5]) {
    const char *p = strstr(head, "'shape'");
    p = p ? strchr(p, '(') : NULL;
    for (int i = 0; p && i < 5; i++) {
        char *end;
        out[i] = strtoull(p + 1, &end, 10);
        if (end == p + 1 || (*end != ',' && *end != ')') || (i < 4 && *end == ')'))
            return false;
        p = end;
    }
    return p && (*p == ')' || (*p == ',' && strspn(p + 1, " ") == strcspn(p + 1, ")")));
}

static bool parse_type(const char *head, sky_element *element) {
    const char *p = strstr(head, "'descr'");
    p = p ? strchr(p, ':') : NULL;
    if (!p)
        return false;
    p += 1 + strspn(p + 1, " ");
    if (strncmp(p, "'<f2'", 5) == 0)
        *element = SKY_ELEMENT_F16;
    else if (strncmp(p, "'<f4'", 5) == 0)
        *element = SKY_ELEMENT_F32;
    else if (strncmp(p, "'<u2'", 5) == 0)
        *element = SKY_ELEMENT_BF16;
    else
        return false;
    return true;
}

/* What is wrong with it; NULL: nothing. */
static const char *take_shape(const uint64_t shape[5], npy_array *out) {
    for (int i = 0; i < 5; i++)
        if (shape[i] == 0 || shape[i] > UINT32_MAX)
            return "a dimension is 0 or above 4294967295";
    if (shape[1] != 2)
        return "the second dimension is not 2: K and V";
    if (shape[0] > SKY_LAYERS_MAX)
        return "more than 1024 layers";
    if (shape[4] > SKY_HEAD_DIM_MAX || shape[3] > SKY_ROW_ELEMENTS_MAX / shape[4])
        return "a head is larger than 512, or all of a token's larger than 65536";
    out->layers = (uint32_t)shape[0];
    out->tokens = (uint32_t)shape[2];
    out->heads = (uint32_t)shape[3];
    out->dim = (uint32_t)shape[4];
    return NULL;
}

/* The text of the header, and what is wrong with it. */
static const char *read_head(npy_array *out, char head[HEAD_MAX], size_t *bytes_after) {
    const uint8_t *in = out->file.data;
    size_t bytes = out->file.bytes, at = 10;
    if (bytes < 12 || memcmp(in, "\x93NUMPY", 6) != 0)
        return "not a .npy file";
    if (in[6] < 1 || in[6] > 3)
        return "a .npy of a version that is not known";
    size_t head_bytes = in[8] | (size_t)in[9] << 8;
    if (in[6] > 1) {
        head_bytes |= (size_t)in[10] << 16 | (size_t)in[11] << 24;
        at = 12;
    }
    if (head_bytes >= HEAD_MAX || head_bytes > bytes - at)
        return "its header is cut short or too long";
    memcpy(head, in + at, head_bytes);
    head[head_bytes] = 0;
    out->data = (uint8_t *)out->file.data + at + head_bytes;
    *bytes_after = bytes - at - head_bytes;
    return NULL;
}

static const char *parse_array(npy_array *out) {
    char head[HEAD_MAX];
    uint64_t shape[5];
    size_t bytes;
    const char *wrong = read_head(out, head, &bytes);
    if (wrong)
        return wrong;
    if (!parse_type(head, &out->element))
        return "elements other than <f2, <f4 or <u2 (bf16)";
    if (!strstr(head, "'fortran_order': False"))
        return "in Fortran's order; numpy.ascontiguousarray puts it right";
    if (!parse_shape(head, shape))
        return "not of five dimensions";
    wrong = take_shape(shape, out);
    if (!wrong && npy_bytes(out) != bytes)
        return "more or fewer bytes than its shape says";
    return wrong;
}

int npy_read(const cli *c, const char *path, npy_array *out) {
    *out = (npy_array){0};
    int code = cli_blob_read(c, path, BYTES_MAX, &out->file);
    if (code != CLI_OK)
        return code;
    const char *wrong = parse_array(out);
    if (!wrong)
        return CLI_OK;
    cli_blob_free(&out->file);
    return cli_failed(c,
                      "%s: %s; a .npy of <f2, <f4 or <u2 (bf16) shaped [layer, 2, token, kv_head, "
                      "dim] is wanted",
                      path, wrong);
}

int npy_write(const cli *c, const char *path, const npy_array *a) {
    static const char *const types[] = {NULL, "<f2", "<f4", "<u2"};
    char text[200];
    int text_bytes = snprintf(
        text, sizeof text,
        "{'descr': '%s', 'fortran_order': False, 'shape': (%u, 2, %u, %u, %u), }",
        types[a->element], a->layers, a->tokens, a->heads, a->dim);
    size_t head = ((size_t)text_bytes + 1 + 10 + 63) / 64 * 64;
    uint8_t *whole = malloc(head + npy_bytes(a));
    if (!whole)
        return cli_failed(c, "out of memory");
    memcpy(whole, "\x93NUMPY\x01\x00", 8);
    whole[8] = (uint8_t)(head - 10);
    whole[9] = (uint8_t)((head - 10) >> 8);
    memset(whole + 10, ' ', head - 10);
    memcpy(whole + 10, text, (size_t)text_bytes);
    whole[head - 1] = '\n';
    memcpy(whole + head, a->data, npy_bytes(a));
    int code = cli_file_write(c, path, whole, head + npy_bytes(a));
    free(whole);
    return code;
}
