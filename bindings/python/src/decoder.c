/* Bare streams as they arrive, and whose rows some are.
 *
 * A Decoder writes rows into an array of the caller's, which it holds until it is dropped. Feeding
 * lets the GIL go, so `busy` refuses what comes meanwhile. */
#include "core.h"

typedef struct {
    PyObject_HEAD sky_decoder *handle;
    void *memory; /* around the handle, for PyMem_Free */
    view out;
    PyObject *profile;
    sky_status status; /* SKY_PENDING: more is wanted */
    bool busy;
} decoder_object;

static PyTypeObject *decoder_type;

static int decoder_begin(decoder_object *d, PyObject *target, const sky_profile *profile,
                         sky_element wanted, sky_stream_shape *shape, size_t stream_bytes) {
    sky_tensor rows;
    if (rows_open(target, true, wanted, "out", &d->out, &rows) < 0)
        return -1;
    shape->element = rows.element;
    shape->token_count = rows.token_count;
    shape->kv_heads = rows.heads;
    shape->head_dim = rows.dim;
    d->memory = PyMem_Malloc(SKY_DECODER_BYTES + 63);
    if (!d->memory) {
        PyErr_NoMemory();
        return -1;
    }
    void *aligned = (void *)(((uintptr_t)d->memory + 63) & ~(uintptr_t)63);
    d->status = sky_decoder_init(aligned, profile, shape, stream_bytes, rows, &d->handle);
    if (d->status == SKY_OK) {
        d->status = SKY_PENDING;
        return 0;
    }
    raise_status(d->status, "a decoder of this shape, and of %zu bytes", stream_bytes);
    return -1;
}

/* (out, size, layer, kv, profile, element, first_position) */
static PyObject *decoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *target, *object;
    const char *name;
    sky_stream_shape shape = {0};
    Py_ssize_t bytes;
    int kv;
    const sky_profile *profile;
    sky_element wanted;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Decoder takes no named arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OnO&iOzO&", &target, &bytes, read_u32, &shape.layer, &kv, &object,
                          &name, read_u32, &shape.first_position) ||
        profile_parse(object, &profile) < 0 || element_parse(name, &wanted) < 0)
        return NULL;
    if (bytes < 1 || (size_t)bytes > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "size: the bytes of a stream, 1 to %u, not %zd", UINT32_MAX,
                     bytes);
        return NULL;
    }
    shape.kv = (sky_kv)kv;
    decoder_object *d = (decoder_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!d)
        return NULL;
    d->profile = Py_NewRef(object);
    if (decoder_begin(d, target, profile, wanted, &shape, (size_t)bytes) < 0)
        Py_CLEAR(d);
    return (PyObject *)d;
}

static void decoder_dealloc(PyObject *self) {
    decoder_object *d = (decoder_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    view_release(&d->out);
    PyMem_Free(d->memory);
    Py_XDECREF(d->profile);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *decoder_feed(PyObject *self, PyObject *piece) {
    decoder_object *d = (decoder_object *)self;
    view v;
    if (view_open_whole(piece, false, "piece", &v) < 0)
        return NULL;
    if (d->busy || d->status < 0) {
        view_release(&v);
        return d->busy ? raise_status(SKY_E_BUSY, "another thread feeds this decoder")
                       : raise_status(d->status, "feed: an earlier piece failed");
    }
    sky_status status;
    d->busy = true;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_decoder_feed(d->handle, v.data, v.bytes);
    Py_END_ALLOW_THREADS;
    d->busy = false;
    d->status = status;
    view_release(&v);
    return status < 0 ? raise_status(status, "feed") : PyBool_FromLong(status == SKY_OK);
}

static PyObject *decoder_tokens(PyObject *self, void *unused) {
    (void)unused;
    decoder_object *d = (decoder_object *)self;
    if (d->busy)
        return raise_status(SKY_E_BUSY, "another thread feeds this decoder");
    return PyLong_FromUnsignedLong(sky_decoder_tokens(d->handle));
}

static PyMethodDef decoder_methods[] = {
    {"feed", decoder_feed, METH_O, "Take the next piece; are all rows written?"},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef decoder_fields[] = {
    {"tokens", decoder_tokens, NULL, "Of so many leading tokens every row is written.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot decoder_slots[] = {{Py_tp_new, decoder_new},
                                      {Py_tp_dealloc, decoder_dealloc},
                                      {Py_tp_methods, decoder_methods},
                                      {Py_tp_getset, decoder_fields},
                                      {Py_tp_doc, "A bare stream that is decoded as it arrives."},
                                      {0, NULL}};
static PyType_Spec decoder_spec = {.name = "skymem._core.Decoder",
                                   .basicsize = sizeof(decoder_object),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                   .slots = decoder_slots};

/* (profile, layer, rows, element): (nearest or None, distance, own distance) */
static PyObject *profile_match(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object, *rows_object;
    const char *name;
    sky_stream_shape shape = {.kv = SKY_KV_V};
    const sky_profile *profile;
    sky_element wanted;
    view v;
    sky_tensor rows;
    sky_profile_match match = {0};
    if (!PyArg_ParseTuple(args, "OO&Oz", &object, read_u32, &shape.layer, &rows_object, &name) ||
        profile_parse(object, &profile) < 0 || element_parse(name, &wanted) < 0)
        return NULL;
    if (!profile) {
        PyErr_SetString(PyExc_TypeError, "profile: a skymem.Profile is wanted");
        return NULL;
    }
    if (shape.layer >= sky_profile_layer_count(profile))
        return raise_status(SKY_E_PARAM, "match: the profile has no layer %u", shape.layer);
    if (rows_open(rows_object, false, wanted, "rows", &v, &rows) < 0)
        return NULL;
    shape.element = rows.element;
    shape.token_count = rows.token_count;
    shape.kv_heads = rows.heads;
    shape.head_dim = rows.dim;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_profile_match_rows(profile, &shape, rows, &match);
    Py_END_ALLOW_THREADS;
    view_release(&v);
    if (status != SKY_OK)
        return raise_status(status, "match: rows of 1 to %d tokens", SKY_STREAM_TOKENS_MAX);
    PyObject *nearest = match.layer == SKY_LAYER_NONE ? Py_NewRef(Py_None)
                                                      : PyLong_FromUnsignedLong(match.layer);
    return Py_BuildValue("(Ndd)", nearest, match.distance, match.own_distance);
}

static PyMethodDef functions[] = {
    {"profile_match", profile_match, METH_VARARGS, "(profile, layer, rows, element)."},
    {NULL, NULL, 0, NULL}};

int add_decoder(PyObject *module) {
    decoder_type = (PyTypeObject *)PyType_FromSpec(&decoder_spec);
    if (!decoder_type || PyModule_AddType(module, decoder_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
