/* The codec on arrays: rows in memory of the caller's, read and written where they lie, and
 * containers (.skv) or bare streams as bytes. Rows are [tokens, heads, dim], with any strides that
 * keep a head's elements together. The GIL is let go while rows are coded. */
#include "core.h"

#include <string.h>

/* ---- arrays as tensors ---- */

static sky_element element_of_view(const view *v, sky_element wanted) {
    if (v->kind == 'f')
        return v->element_bytes == 2   ? SKY_ELEMENT_F16
               : v->element_bytes == 4 ? SKY_ELEMENT_F32
                                       : 0;
    bool halves = v->element_bytes == 2 &&
                  (v->kind == 'b' || (wanted == SKY_ELEMENT_BF16 && v->kind != 'x'));
    return halves ? SKY_ELEMENT_BF16 : 0;
}

int tensor_of_view(const view *v, int token_axis, sky_element wanted, sky_tensor *out) {
    sky_element element = element_of_view(v, wanted);
    size_t reach = v->element_bytes;
    if (v->dims != 3 || !element)
        return -1;
    for (int d = 0; d < 3; d++) {
        if (v->shape[d] < 1 || v->shape[d] > INT32_MAX || v->strides[d] < 0)
            return -1;
        reach += (size_t)(v->shape[d] - 1) * (size_t)v->strides[d];
    }
    int head_axis = 1 - token_axis;
    *out = (sky_tensor){.data = v->data,
                        .bytes = reach,
                        .element = element,
                        .heads = (uint32_t)v->shape[head_axis],
                        .dim = (uint32_t)v->shape[2],
                        .token_count = (uint32_t)v->shape[token_axis],
                        .token_bytes = (size_t)v->strides[token_axis],
                        .head_bytes = (size_t)v->strides[head_axis],
                        .element_bytes = (size_t)v->strides[2]};
    return 0;
}

int rows_open(PyObject *object, bool writable, sky_element wanted, const char *what, view *v,
              sky_tensor *out) {
    if (view_open(object, writable, what, v) < 0)
        return -1;
    if (tensor_of_view(v, 0, wanted, out) == 0)
        return 0;
    view_release(v);
    PyErr_Format(PyExc_TypeError,
                 "%s: rows are [tokens, heads, dim], of f16, f32 or bf16 (as uint16 with "
                 "element=\"bf16\") in this machine's byte order, with at least one token and no "
                 "stride below 0",
                 what);
    return -1;
}

/* The arrays of a block: pairs of K and V, layer by layer, in the model's order. */
typedef struct {
    uint32_t layer_count;
    view *views;         /* [2 × layer_count] */
    sky_tensor *tensors; /* [2 × layer_count]; data NULL: not asked for */
} block;

static void block_close(block *b) {
    for (uint32_t i = 0; b->views && i < 2 * b->layer_count; i++)
        view_release(&b->views[i]);
    PyMem_Free(b->views);
    PyMem_Free(b->tensors);
    *b = (block){0};
}

static int pair_open(block *b, uint32_t layer, PyObject *pair, bool writable, sky_element wanted) {
    PyObject *two = PySequence_Tuple(pair);
    if (two && PyTuple_Size(two) != 2)
        PyErr_Format(PyExc_ValueError, "layer %u: a pair of K and V is wanted", layer);
    for (uint32_t kv = 0; kv < 2 && !PyErr_Occurred(); kv++) {
        PyObject *rows = PyTuple_GetItem(two, (Py_ssize_t)kv);
        char what[40];
        (void)PyOS_snprintf(what, sizeof what, "layer %u, %s", layer, kv ? "V" : "K");
        uint32_t i = 2 * layer + kv;
        if (!(writable && rows == Py_None))
            (void)rows_open(rows, writable, wanted, what, &b->views[i], &b->tensors[i]);
    }
    Py_XDECREF(two);
    return PyErr_Occurred() ? -1 : 0;
}

static int block_open(PyObject *layers, bool writable, sky_element wanted, block *out) {
    PyObject *list = PySequence_Tuple(layers);
    size_t count = list ? (size_t)PyTuple_Size(list) : 0;
    *out = (block){0};
    if (list && (count == 0 || count > SKY_LAYERS_MAX))
        PyErr_Format(PyExc_ValueError, "layers: 1 to %d pairs of K and V are wanted, not %zu",
                     SKY_LAYERS_MAX, count);
    if (!PyErr_Occurred()) {
        out->layer_count = (uint32_t)count;
        out->views = PyMem_Calloc(2 * count, sizeof *out->views);
        out->tensors = PyMem_Calloc(2 * count, sizeof *out->tensors);
        if (!out->views || !out->tensors)
            PyErr_NoMemory();
    }
    for (size_t i = 0; i < count && !PyErr_Occurred(); i++)
        (void)pair_open(out, (uint32_t)i, PyTuple_GetItem(list, (Py_ssize_t)i), writable, wanted);
    Py_XDECREF(list);
    if (!PyErr_Occurred())
        return 0;
    block_close(out);
    return -1;
}

/* ---- what the calls take ---- */

typedef struct {
    sky_encode_options how;
    const sky_profile *profile;
    uint32_t first_position;
    sky_element wanted;
} coding;

int element_parse(const char *name, sky_element *out) {
    *out = !name                   ? 0
           : !strcmp(name, "f16")  ? SKY_ELEMENT_F16
           : !strcmp(name, "f32")  ? SKY_ELEMENT_F32
           : !strcmp(name, "bf16") ? SKY_ELEMENT_BF16
                                   : 0;
    if (!name || *out)
        return 0;
    PyErr_Format(PyExc_ValueError, "element: f16, f32 or bf16, not %s", name);
    return -1;
}

int profile_parse(PyObject *object, const sky_profile **out) {
    *out = object == Py_None ? NULL : profile_of(object);
    if (object != Py_None && !*out)
        return -1;
    if (!*out || sky_profile_id(*out))
        return 0;
    PyErr_SetString(PyExc_ValueError, "profile: it is not sealed yet; call seal() first");
    return -1;
}

/* (level, plain, first_token_raw, step_scale, first_position, profile, element) */
static int coding_parse(PyObject *tuple, coding *out) {
    int level, plain, raw;
    PyObject *profile;
    const char *element;
    *out = (coding){0};
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "ippfO&Oz", &level, &plain, &raw, &out->how.step_scale, read_u32,
                          &out->first_position, &profile, &element) ||
        profile_parse(profile, &out->profile) < 0 || element_parse(element, &out->wanted) < 0)
        return -1;
    if (out->how.step_scale == 0) { // in C the same as 1
        PyErr_SetString(PyExc_ValueError, "step_scale: 1e-6 to 1e6, not 0");
        return -1;
    }
    out->how.level = (sky_level)level;
    out->how.plain = plain;
    out->how.first_token_raw = raw;
    return 0;
}

/* Working memory, aligned to 64 bytes. */
typedef struct {
    void *whole, *aligned;
} work;

static int work_open(size_t bytes, work *out) {
    out->whole = PyMem_Malloc(bytes + 63);
    out->aligned = (void *)(((uintptr_t)out->whole + 63) & ~(uintptr_t)63);
    if (!out->whole)
        PyErr_NoMemory();
    return out->whole ? 0 : -1;
}

/* Room for so many encoded bytes, and working memory. Errors: -1 with an exception */
static int room_open(size_t bytes, size_t work_bytes, void **room, work *memory) {
    *room = PyMem_Malloc(bytes);
    if (*room && work_open(work_bytes, memory) == 0)
        return 0;
    PyMem_Free(*room);
    PyErr_NoMemory();
    return -1;
}

static PyObject *bytes_of(sky_status status, void *room, size_t bytes, work *memory) {
    PyObject *out = status == SKY_OK ? PyBytes_FromStringAndSize((char *)room, (Py_ssize_t)bytes)
                                     : NULL;
    PyMem_Free(room);
    PyMem_Free(memory->whole);
    return out;
}

/* ---- containers ---- */

static uint32_t model_layer(const coding *c, uint32_t layer) {
    return c->profile ? sky_profile_model_layer(c->profile, layer) : layer;
}

static int shape_of(const block *b, const coding *c, sky_skv_layer *layers, sky_skv_shape *out) {
    uint32_t known = c->profile ? sky_profile_layer_count(c->profile) : b->layer_count;
    if (known != b->layer_count) {
        PyErr_Format(PyExc_ValueError, "layers: %u pairs where the profile has %u layers",
                     b->layer_count, known);
        return -1;
    }
    *out = (sky_skv_shape){b->tensors->token_count, c->first_position, b->layer_count, layers, {0}};
    for (uint32_t i = 0; i < b->layer_count; i++) {
        const sky_tensor *pair = &b->tensors[2 * model_layer(c, i)];
        for (int kv = 0; kv < 2; kv++) {
            if (pair[kv].token_count == out->token_count && pair[kv].heads == pair->heads)
                continue;
            PyErr_Format(PyExc_ValueError, "layer %u: tokens or heads are not those of the others",
                         model_layer(c, i));
            return -1;
        }
        layers[i] = (sky_skv_layer){pair->heads, pair[0].dim, pair[1].dim, pair[0].element,
                                    pair[1].element};
    }
    if (c->profile)
        sky_profile_fingerprint(c->profile, out->fingerprint);
    return 0;
}

/* Without the GIL. *failed: 2 × the model's layer + kv */
static sky_status encode_all(const block *b, const coding *c, const sky_skv_shape *shape, void *dst,
                             size_t *bytes, void *memory, uint32_t *failed) {
    sky_skv_writer w;
    sky_status status = sky_skv_begin(&w, shape, c->profile, dst, *bytes);
    for (uint32_t i = 0; status == SKY_OK && i < 2 * b->layer_count; i++) {
        *failed = 2 * model_layer(c, i / 2) + i % 2;
        status = sky_skv_put(&w, i / 2, (sky_kv)(i % 2), &c->how, b->tensors[*failed], memory);
    }
    return status == SKY_OK ? sky_skv_end(&w, bytes) : status;
}

static PyObject *encode_block(const block *b, const coding *c, sky_skv_layer *layers) {
    sky_skv_shape shape;
    work memory;
    if (shape_of(b, c, layers, &shape) < 0)
        return NULL;
    size_t bytes = sky_skv_bound(&shape);
    if (!bytes) {
        PyErr_Format(PyExc_ValueError, "a block has 1 to %d tokens, heads of 1 to %d elements",
                     SKY_STREAM_TOKENS_MAX, SKY_HEAD_DIM_MAX);
        return NULL;
    }
    void *dst;
    if (room_open(bytes, SKY_ENCODE_WORK_BYTES, &dst, &memory) < 0)
        return NULL;
    uint32_t failed = 0;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = encode_all(b, c, &shape, dst, &bytes, memory.aligned, &failed);
    Py_END_ALLOW_THREADS;
    if (status != SKY_OK)
        raise_status(status, "encode: layer %u, %s", failed / 2, failed % 2 ? "V" : "K");
    return bytes_of(status, dst, bytes, &memory);
}

static PyObject *skv_encode(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *list, *options;
    coding c;
    block b;
    if (!PyArg_ParseTuple(args, "OO", &list, &options) || coding_parse(options, &c) < 0 ||
        block_open(list, false, c.wanted, &b) < 0)
        return NULL;
    sky_skv_layer *layers = PyMem_Calloc(b.layer_count, sizeof *layers);
    PyObject *out = layers ? encode_block(&b, &c, layers) : PyErr_NoMemory();
    PyMem_Free(layers);
    block_close(&b);
    return out;
}

/* Without the GIL. Both streams of a layer at once, where both are asked for. */
static sky_status decode_all(const sky_skv *skv, const block *b, const coding *c, void *memory,
                             uint32_t *failed) {
    sky_status status = SKY_OK;
    for (uint32_t i = 0; status == SKY_OK && i < skv->layer_count; i++) {
        const sky_tensor *pair = &b->tensors[2 * model_layer(c, i)];
        for (uint32_t kv = 0; kv < 2 && status == SKY_OK; kv++) {
            *failed = 2 * model_layer(c, i) + kv;
            if (pair[kv].data)
                status = sky_skv_decode(skv, c->profile, i, (sky_kv)kv, pair[kv], memory);
        }
    }
    return status;
}

static PyObject *decode_block(const sky_skv *skv, const block *b, const coding *c) {
    uint32_t known = c->profile ? sky_profile_layer_count(c->profile) : skv->layer_count;
    work memory;
    if (skv->layer_count != b->layer_count || known != b->layer_count) {
        PyErr_Format(PyExc_ValueError, "layers: %u pairs; the container has %u layers%s",
                     b->layer_count, skv->layer_count,
                     known == skv->layer_count ? "" : ", and the profile another number");
        return NULL;
    }
    if (work_open(SKY_DECODER_BYTES, &memory) < 0)
        return NULL;
    uint32_t failed = 0;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = decode_all(skv, b, c, memory.aligned, &failed);
    Py_END_ALLOW_THREADS;
    PyMem_Free(memory.whole);
    if (status == SKY_OK)
        Py_RETURN_NONE;
    return raise_status(status, "decode: layer %u, %s", failed / 2, failed % 2 ? "V" : "K");
}

static PyObject *skv_decode(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object, *list, *profile;
    const char *element;
    coding c = {0};
    block b;
    view v;
    sky_skv skv;
    if (!PyArg_ParseTuple(args, "OOOz", &object, &list, &profile, &element) ||
        profile_parse(profile, &c.profile) < 0 || element_parse(element, &c.wanted) < 0 ||
        view_open_whole(object, false, "container", &v) < 0)
        return NULL;
    PyObject *out = NULL;
    sky_status status = sky_skv_open(v.data, v.bytes, &skv);
    if (status != SKY_OK)
        raise_status(status, "decode: no container (.skv)");
    else if (block_open(list, true, c.wanted, &b) == 0) {
        out = decode_block(&skv, &b, &c);
        block_close(&b);
    }
    view_release(&v);
    return out;
}

static PyObject *lower_container(const sky_skv *skv, const coding *c) {
    size_t bytes = sky_skv_lower_bound(skv, c->how.level);
    work memory;
    void *dst;
    if (!bytes)
        return raise_status(SKY_E_PARAM, "lower: no level");
    if (room_open(bytes, sky_skv_lower_bytes(skv), &dst, &memory) < 0)
        return NULL;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_skv_lower(skv, c->profile, &c->how, dst, bytes, &bytes, memory.aligned);
    Py_END_ALLOW_THREADS;
    if (status != SKY_OK)
        raise_status(status, "lower");
    return bytes_of(status, dst, bytes, &memory);
}

static PyObject *skv_lower(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object, *options, *out = NULL;
    coding c;
    view v;
    sky_skv skv;
    if (!PyArg_ParseTuple(args, "OO", &object, &options) || coding_parse(options, &c) < 0 ||
        view_open_whole(object, false, "container", &v) < 0)
        return NULL;
    sky_status status = sky_skv_open(v.data, v.bytes, &skv);
    if (status == SKY_OK)
        out = lower_container(&skv, &c);
    else
        raise_status(status, "lower: no container (.skv)");
    view_release(&v);
    return out;
}

static PyObject *skv_verify(PyObject *module, PyObject *object) {
    (void)module;
    view v;
    sky_skv skv;
    if (view_open_whole(object, false, "container", &v) < 0)
        return NULL;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_skv_open(v.data, v.bytes, &skv);
    if (status == SKY_OK)
        status = sky_skv_verify(&skv);
    Py_END_ALLOW_THREADS;
    view_release(&v);
    return status == SKY_OK ? Py_NewRef(Py_None) : raise_status(status, "verify");
}

static PyObject *level_of_entry(const sky_skv_entry *e) {
    return e->bytes ? PyLong_FromLong(e->level) : Py_NewRef(Py_None);
}

/* (heads, k_dim, v_dim, k_element, v_element, level of K, of V, bytes of K, of V) */
static PyObject *layer_info(const sky_skv *skv, uint32_t layer) {
    static const char *const names[] = {"", "f16", "f32", "bf16"};
    sky_skv_layer l = {0};
    sky_skv_entry k = {0}, v = {0};
    (void)sky_skv_layer_at(skv, layer, &l);
    (void)sky_skv_entry_at(skv, layer, SKY_KV_K, &k);
    (void)sky_skv_entry_at(skv, layer, SKY_KV_V, &v);
    return Py_BuildValue("(IIIssNNKK)", l.kv_heads, l.k_dim, l.v_dim, names[l.k_element],
                         names[l.v_element], level_of_entry(&k), level_of_entry(&v),
                         (unsigned long long)k.bytes, (unsigned long long)v.bytes);
}

/* (tokens, first_position, bytes, profile's id, fingerprint, layers) */
static PyObject *skv_info(PyObject *module, PyObject *object) {
    (void)module;
    view v;
    sky_skv skv;
    size_t header;
    if (view_open_whole(object, false, "container", &v) < 0)
        return NULL;
    sky_status status = sky_skv_open_header(v.data, v.bytes, 0, &skv, &header);
    if (status == SKY_PENDING || (status == SKY_OK && skv.bytes > v.bytes))
        status = SKY_E_CORRUPT; /* cut short */
    PyObject *list = status == SKY_OK ? PyList_New(skv.layer_count) : NULL;
    for (uint32_t i = 0; list && i < skv.layer_count; i++) {
        PyObject *layer = layer_info(&skv, i);
        if (!layer || PyList_SetItem(list, i, layer) < 0)
            Py_CLEAR(list);
    }
    view_release(&v);
    if (status != SKY_OK)
        return raise_status(status, "no container (.skv)");
    return list ? Py_BuildValue("(IIKKy#N)", skv.token_count, skv.first_position,
                                (unsigned long long)skv.bytes, (unsigned long long)skv.profile_id,
                                (char *)skv.fingerprint, (Py_ssize_t)sizeof skv.fingerprint, list)
                : NULL;
}

/* ---- bare streams ---- */

static int stream_shape(const sky_tensor *t, unsigned int layer, int kv, const coding *c,
                        sky_stream_shape *out) {
    *out = (sky_stream_shape){layer,    (sky_kv)kv, t->element,       t->token_count,
                              t->heads, t->dim,     c->first_position};
    if (sky_stream_rows_bytes(out))
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "a stream has 1 to %d tokens, heads of 1 to %d elements, and is K (0) or V (1)",
                 SKY_STREAM_TOKENS_MAX, SKY_HEAD_DIM_MAX);
    return -1;
}

static PyObject *encode_rows(const sky_stream_shape *shape, const coding *c,
                             const sky_tensor *rows) {
    size_t bytes = sky_encode_bound(shape);
    work memory;
    void *dst;
    if (room_open(bytes, SKY_ENCODE_WORK_BYTES, &dst, &memory) < 0)
        return NULL;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_encode(c->profile, shape, &c->how, *rows, dst, bytes, &bytes, memory.aligned);
    Py_END_ALLOW_THREADS;
    if (status != SKY_OK)
        raise_status(status, "encode");
    return bytes_of(status, dst, bytes, &memory);
}

static PyObject *stream_encode(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object, *options;
    unsigned int layer;
    int kv;
    coding c;
    view v;
    sky_tensor rows;
    sky_stream_shape shape;
    if (!PyArg_ParseTuple(args, "OO&iO", &object, read_u32, &layer, &kv, &options) ||
        coding_parse(options, &c) < 0 || rows_open(object, false, c.wanted, "rows", &v, &rows) < 0)
        return NULL;
    PyObject *out = stream_shape(&rows, layer, kv, &c, &shape) < 0 ? NULL
                                                                   : encode_rows(&shape, &c, &rows);
    view_release(&v);
    return out;
}

static PyObject *decode_rows(const view *stream, const sky_stream_shape *shape, const coding *c,
                             const sky_tensor *out) {
    work memory;
    if (work_open(SKY_DECODER_BYTES, &memory) < 0)
        return NULL;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_decode(c->profile, shape, stream->data, stream->bytes, *out, memory.aligned);
    Py_END_ALLOW_THREADS;
    PyMem_Free(memory.whole);
    return status == SKY_OK ? Py_NewRef(Py_None) : raise_status(status, "decode");
}

static PyObject *stream_decode(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object, *target, *options, *out = NULL;
    unsigned int layer;
    int kv;
    coding c;
    view stream, v;
    sky_tensor rows;
    sky_stream_shape shape;
    if (!PyArg_ParseTuple(args, "OOO&iO", &object, &target, read_u32, &layer, &kv, &options) ||
        coding_parse(options, &c) < 0 || view_open_whole(object, false, "stream", &stream) < 0)
        return NULL;
    if (rows_open(target, true, c.wanted, "out", &v, &rows) == 0) {
        if (stream_shape(&rows, layer, kv, &c, &shape) == 0)
            out = decode_rows(&stream, &shape, &c, &rows);
        view_release(&v);
    }
    view_release(&stream);
    return out;
}

/* ---- ropes ---- */

static PyObject *rope_turns(PyObject *module, PyObject *args) {
    (void)module;
    int kind;
    unsigned int dims;
    double base, scale;
    sky_rope rope;
    if (!PyArg_ParseTuple(args, "iO&dd", &kind, read_u32, &dims, &base, &scale))
        return NULL;
    sky_status status = sky_rope_init(&rope, (sky_rope_kind)kind, dims, base, scale, NULL);
    if (status != SKY_OK)
        return raise_status(status, "rope: an even number of dims, base and scale above 0");
    PyObject *list = PyList_New(rope.pair_count);
    for (uint32_t i = 0; list && i < rope.pair_count; i++)
        PyList_SetItem(list, i, PyLong_FromUnsignedLong(rope.turns[i]));
    return list;
}

static PyMethodDef functions[] = {
    {"skv_encode", skv_encode, METH_VARARGS, "(layers, options): a container."},
    {"skv_decode", skv_decode, METH_VARARGS, "(container, layers, profile, element)."},
    {"skv_lower", skv_lower, METH_VARARGS, "(container, options): one at a lower level."},
    {"skv_verify", skv_verify, METH_O, "Are all streams of a container whole?"},
    {"skv_info", skv_info, METH_O,
     "(tokens, first position, bytes, profile's id, fingerprint, layers)."},
    {"stream_encode", stream_encode, METH_VARARGS, "(rows, layer, kv, options): a stream."},
    {"stream_decode", stream_decode, METH_VARARGS, "(stream, out, layer, kv, options)."},
    {"rope_turns", rope_turns, METH_VARARGS, "(kind, dims, base, scale): turns of each pair."},
    {NULL, NULL, 0, NULL}};

int add_codec(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
