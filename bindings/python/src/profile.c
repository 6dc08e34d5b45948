/* Profile: what calibration knows of a model. Read from a .skycal, or made by setters and sealed.
 *
 * A sealed profile never changes and is used by calls without the GIL. One that is not sealed is
 * refused by them; `fit` alone changes it without the GIL, and others are refused meanwhile. */
#include "core.h"

#include <string.h>

typedef struct {
    PyObject_HEAD sky_profile *handle;
    bool busy;
} profile_object;

const sky_profile *profile_of(PyObject *object) {
    if (PyObject_TypeCheck(object, profile_type))
        return ((profile_object *)object)->handle;
    PyErr_SetString(PyExc_TypeError, "profile: a skymem.Profile is wanted");
    return NULL;
}

static profile_object *profile_alloc(PyTypeObject *type) {
    return (profile_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

static PyObject *profile_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"data", NULL};
    PyObject *data;
    view v;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &data) ||
        view_open_whole(data, false, "profile", &v) < 0)
        return NULL;
    profile_object *p = profile_alloc(type);
    sky_error error = {0};
    sky_status status = p ? sky_profile_read(v.data, v.bytes, &p->handle, &error) : SKY_OK;
    view_release(&v);
    if (status != SKY_OK) {
        raise_status(status, "%s", error.text);
        Py_CLEAR(p);
    }
    return (PyObject *)p;
}

static void profile_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    sky_profile_destroy(((profile_object *)self)->handle);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- making one ---- */

/* (kind, turns of each pair) */
static int rope_parse(PyObject *tuple, sky_rope *out) {
    int kind;
    PyObject *list;
    size_t count;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "iO;a rope is (kind, turns)", &kind, &list))
        return -1;
    uint32_t *turns = tokens_of(list, &count);
    if (!turns)
        return -1;
    if (count == 0 || count > SKY_ROPE_PAIRS_MAX ||
        (kind != SKY_ROPE_NEOX && kind != SKY_ROPE_INTERLEAVED)) {
        PyErr_Format(PyExc_ValueError, "rope: kind 1 or 2 and 1 to %d pairs are wanted",
                     SKY_ROPE_PAIRS_MAX);
    } else {
        *out = (sky_rope){.kind = (sky_rope_kind)kind, .pair_count = (uint32_t)count};
        for (size_t i = 0; i < count; i++)
            out->turns[i] = turns[i];
    }
    PyMem_Free(turns);
    return PyErr_Occurred() ? -1 : 0;
}

/* (heads, k_dim, v_dim, rope), rope: an index or None */
static int layer_parse(PyObject *tuple, sky_profile_layer *out) {
    PyObject *rope;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "O&O&O&O;a layer is (heads, k_dim, v_dim, rope or None)", read_u32,
                          &out->kv_heads, read_u32, &out->k_dim, read_u32, &out->v_dim, &rope))
        return -1;
    unsigned long index = rope == Py_None ? SKY_ROPE_OF_NONE : PyLong_AsUnsignedLong(rope);
    out->rope = index > SKY_ROPE_OF_NONE ? SKY_ROPE_OF_NONE : (uint32_t)index;
    return PyErr_Occurred() ? -1 : 0;
}

static int make(profile_object *p, const sky_profile_shape *shape, const uint32_t *order,
                size_t order_count) {
    sky_status status = sky_profile_create(shape, &p->handle);
    if (status == SKY_OK && order_count == shape->layer_count)
        status = sky_profile_set_order(p->handle, order);
    else if (status == SKY_OK && order_count)
        status = SKY_E_PARAM;
    if (status != SKY_OK)
        raise_status(status, "a profile of these layers, ropes and order cannot be made");
    return status == SKY_OK ? 0 : -1;
}

static PyObject *profile_make(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *layer_list, *rope_list, *print, *order_list;
    sky_key fingerprint;
    if (!PyArg_ParseTuple(args, "OOOO", &layer_list, &rope_list, &print, &order_list) ||
        block_key_parse(print, "fingerprint", &fingerprint) < 0)
        return NULL;
    PyObject *layers = PySequence_Tuple(layer_list), *ropes = PySequence_Tuple(rope_list);
    size_t layer_count = layers ? (size_t)PyTuple_Size(layers) : 0;
    size_t rope_count = ropes ? (size_t)PyTuple_Size(ropes) : 0, order_count = 0;
    uint32_t *order = PyErr_Occurred() ? NULL : tokens_of(order_list, &order_count);
    sky_profile_layer *l = PyMem_Calloc(layer_count + 1, sizeof *l);
    sky_rope *r = PyMem_Calloc(rope_count + 1, sizeof *r);
    if (order && (!l || !r))
        PyErr_NoMemory();
    if (rope_count > SKY_ROPES_MAX || layer_count > SKY_LAYERS_MAX)
        PyErr_Format(PyExc_ValueError, "at most %d ropes and %d layers", SKY_ROPES_MAX,
                     SKY_LAYERS_MAX);
    for (size_t i = 0; i < layer_count && !PyErr_Occurred(); i++)
        (void)layer_parse(PyTuple_GetItem(layers, (Py_ssize_t)i), &l[i]);
    for (size_t i = 0; i < rope_count && !PyErr_Occurred(); i++)
        (void)rope_parse(PyTuple_GetItem(ropes, (Py_ssize_t)i), &r[i]);
    profile_object *p = PyErr_Occurred() ? NULL : profile_alloc(profile_type);
    sky_profile_shape shape = {.layer_count = (uint32_t)layer_count,
                               .layers = l,
                               .rope_count = (uint32_t)rope_count,
                               .ropes = r};
    memcpy(shape.fingerprint, fingerprint.bytes, sizeof shape.fingerprint);
    if (p && make(p, &shape, order, order_count) < 0)
        Py_CLEAR(p);
    PyMem_Free(order);
    PyMem_Free(l);
    PyMem_Free(r);
    Py_XDECREF(layers);
    Py_XDECREF(ropes);
    return (PyObject *)p;
}

/* ---- setters ---- */

/* Asked last, as other threads run while an array is opened. */
static bool profile_free(const profile_object *p) {
    bool busy = p->busy; /* which may change while the exception is made */
    if (busy)
        raise_status(SKY_E_BUSY, "another thread fits this profile");
    return !busy;
}

/* f32 numbers without gaps, `count` of them; 0: any number */
static int floats_of(PyObject *object, size_t count, const char *what, view *out) {
    if (view_open_whole(object, false, what, out) < 0)
        return -1;
    if (out->kind == 'f' && out->element_bytes == 4 && (!count || out->bytes == count * 4))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: %zu numbers of f32 are wanted; pass a.astype(numpy.float32)",
                 what, count);
    view_release(out);
    return -1;
}

/* Heads and the dim of a stream. Errors: -1 with an exception */
static int stream_size(const profile_object *p, unsigned int layer, int kv, size_t *heads,
                       size_t *dim) {
    sky_profile_layer l;
    if ((kv != SKY_KV_K && kv != SKY_KV_V) ||
        sky_profile_layer_get(p->handle, layer, &l) != SKY_OK) {
        raise_status(SKY_E_PARAM, "the profile has no layer %u, K (0) or V (1): %d", layer, kv);
        return -1;
    }
    *heads = l.kv_heads;
    *dim = kv == SKY_KV_K ? l.k_dim : l.v_dim;
    return 0;
}

static PyObject *said(sky_status status, const char *what) {
    return status == SKY_OK ? Py_NewRef(Py_None) : raise_status(status, "%s", what);
}

typedef sky_status set_floats(sky_profile *profile, uint32_t layer, sky_kv kv, const float *values);

/* A setter of one array, which has a value for each channel of a head, or four for each pair. */
static PyObject *set_array(PyObject *self, PyObject *args, const char *name, const char *what,
                           bool of_pairs, set_floats *set) {
    profile_object *p = (profile_object *)self;
    unsigned int layer;
    int kv;
    size_t heads, dim;
    PyObject *object;
    view values;
    if (!PyArg_ParseTuple(args, "O&iO", read_u32, &layer, &kv, &object) ||
        stream_size(p, layer, kv, &heads, &dim) < 0 ||
        floats_of(object, heads * (of_pairs ? dim / 2 * 4 : dim), what, &values) < 0)
        return NULL;
    bool is_free = profile_free(p);
    sky_status status = SKY_OK;
    if (is_free)
        status = set(p->handle, layer, (sky_kv)kv, (float *)values.data);
    view_release(&values);
    return is_free ? said(status, name) : NULL;
}

static PyObject *set_mean(PyObject *self, PyObject *args) {
    return set_array(self, args, "set_mean", "mean", false, sky_profile_set_mean);
}

static PyObject *set_weights(PyObject *self, PyObject *args) {
    return set_array(self, args, "set_weights", "weights", false, sky_profile_set_weights);
}

static PyObject *set_pairs(PyObject *self, PyObject *args) {
    return set_array(self, args, "set_pairs", "pairs", true, sky_profile_set_pairs);
}

static PyObject *set_klt(PyObject *self, PyObject *args) {
    profile_object *p = (profile_object *)self;
    unsigned int layer;
    int kv;
    size_t heads, dim;
    PyObject *first, *second;
    view f, g;
    if (!PyArg_ParseTuple(args, "O&iOO", read_u32, &layer, &kv, &first, &second) ||
        stream_size(p, layer, kv, &heads, &dim) < 0 ||
        floats_of(first, heads * dim * dim, "f", &f) < 0)
        return NULL;
    if (floats_of(second, heads * dim * dim, "g", &g) < 0) {
        view_release(&f);
        return NULL;
    }
    bool is_free = profile_free(p);
    sky_status status = SKY_OK;
    if (is_free)
        status = sky_profile_set_klt(p->handle, layer, (sky_kv)kv, (float *)f.data,
                                     (float *)g.data);
    view_release(&f);
    view_release(&g);
    return is_free ? said(status, "set_klt") : NULL;
}

static PyObject *set_step(PyObject *self, PyObject *args) {
    profile_object *p = (profile_object *)self;
    unsigned int layer;
    int kv, level, dependent;
    float step;
    if (!PyArg_ParseTuple(args, "O&iipf", read_u32, &layer, &kv, &level, &dependent, &step) ||
        !profile_free(p))
        return NULL;
    return said(
        sky_profile_set_step(p->handle, layer, (sky_kv)kv, (sky_level)level, dependent, step),
        "set_step");
}

static PyObject *fit(PyObject *self, PyObject *args) {
    profile_object *p = (profile_object *)self;
    unsigned int layer, block_tokens;
    int kv;
    size_t heads, dim;
    PyObject *object;
    view rows;
    if (!PyArg_ParseTuple(args, "O&iOO&", read_u32, &layer, &kv, &object, read_u32,
                          &block_tokens) ||
        stream_size(p, layer, kv, &heads, &dim) < 0 || floats_of(object, 0, "rows", &rows) < 0)
        return NULL;
    size_t tokens = rows.bytes / (heads * dim * 4);
    bool whole = rows.bytes % (heads * dim * 4) == 0 && tokens <= UINT32_MAX;
    if (!whole)
        PyErr_Format(PyExc_ValueError, "rows: [tokens, %zu, %zu] are wanted", heads, dim);
    if (!whole || !profile_free(p)) {
        view_release(&rows);
        return NULL;
    }
    sky_status status;
    p->busy = true;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_profile_fit(p->handle, layer, (sky_kv)kv, (float *)rows.data, (uint32_t)tokens,
                             block_tokens);
    Py_END_ALLOW_THREADS;
    p->busy = false;
    view_release(&rows);
    return said(status, "fit");
}

static PyObject *seal(PyObject *self, PyObject *unused) {
    (void)unused;
    profile_object *p = (profile_object *)self;
    return profile_free(p) ? said(sky_profile_seal(p->handle), "seal") : NULL;
}

/* ---- what it says ---- */

static PyObject *data(PyObject *self, PyObject *unused) {
    (void)unused;
    profile_object *p = (profile_object *)self;
    size_t bytes = sky_profile_bytes(p->handle);
    PyObject *out = profile_free(p) ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes) : NULL;
    sky_status status = out ? sky_profile_write(p->handle, PyBytes_AsString(out), bytes) : SKY_OK;
    if (status == SKY_OK)
        return out;
    Py_XDECREF(out);
    return raise_status(status, "only a sealed profile has bytes");
}

static PyObject *profile_id(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(sky_profile_id(((profile_object *)self)->handle));
}

static PyObject *profile_print(PyObject *self, void *unused) {
    (void)unused;
    uint8_t out[32];
    sky_profile_fingerprint(((profile_object *)self)->handle, out);
    return PyBytes_FromStringAndSize((char *)out, sizeof out);
}

/* (heads, k_dim, v_dim, the model's number of the layer) of each */
static PyObject *profile_layers(PyObject *self, void *unused) {
    (void)unused;
    const sky_profile *p = ((profile_object *)self)->handle;
    uint32_t count = sky_profile_layer_count(p);
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        sky_profile_layer l = {0};
        (void)sky_profile_layer_get(p, i, &l);
        PyObject *row = Py_BuildValue("(IIII)", l.kv_heads, l.k_dim, l.v_dim,
                                      sky_profile_model_layer(p, i));
        if (!row || PyList_SetItem(list, i, row) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* (kind, turns of each pair), or None */
static PyObject *rope_tuple(const sky_rope *rope) {
    if (!rope)
        Py_RETURN_NONE;
    PyObject *turns = PyTuple_New(rope->pair_count);
    for (uint32_t i = 0; turns && i < rope->pair_count; i++) {
        PyObject *turn = PyLong_FromUnsignedLong(rope->turns[i]);
        if (!turn || PyTuple_SetItem(turns, i, turn) < 0)
            Py_CLEAR(turns);
    }
    return turns ? Py_BuildValue("(iN)", (int)rope->kind, turns) : NULL;
}

static PyObject *profile_ropes(PyObject *self, void *unused) {
    (void)unused;
    const sky_profile *p = ((profile_object *)self)->handle;
    uint32_t count = sky_profile_layer_count(p);
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *rope = rope_tuple(sky_profile_rope(p, i));
        if (!rope || PyList_SetItem(list, i, rope) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef profile_methods[] = {
    {"set_mean", set_mean, METH_VARARGS, "(layer, kv, mean): f32 [heads, dim]."},
    {"set_weights", set_weights, METH_VARARGS, "(layer, kv, weights): f32 [heads, dim]."},
    {"set_pairs", set_pairs, METH_VARARGS, "(layer, kv, g): f32 [heads, dim / 2, 4]."},
    {"set_klt", set_klt, METH_VARARGS, "(layer, kv, f, g): f32 [heads, dim, dim] each."},
    {"set_step", set_step, METH_VARARGS, "(layer, kv, level, dependent, step)."},
    {"fit", fit, METH_VARARGS, "(layer, kv, rows, block_tokens): f32 [tokens, heads, dim]."},
    {"seal", seal, METH_NOARGS, "It changes no more, and can be used."},
    {"data", data, METH_NOARGS, "The bytes of a .skycal."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef profile_fields[] = {
    {"id", profile_id, NULL, "Names it in streams; 0: not sealed.", NULL},
    {"fingerprint", profile_print, NULL, "Of the model.", NULL},
    {"layers", profile_layers, NULL, "(heads, k_dim, v_dim, model's number) of each.", NULL},
    {"ropes", profile_ropes, NULL, "(kind, turns) of each layer's keys; None: not turned.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot profile_slots[] = {{Py_tp_new, profile_new},
                                      {Py_tp_dealloc, profile_dealloc},
                                      {Py_tp_methods, profile_methods},
                                      {Py_tp_getset, profile_fields},
                                      {Py_tp_doc, "What calibration knows of a model (.skycal)."},
                                      {0, NULL}};
static PyType_Spec profile_spec = {.name = "skymem._core.Profile",
                                   .basicsize = sizeof(profile_object),
                                   .flags = Py_TPFLAGS_DEFAULT,
                                   .slots = profile_slots};

static PyMethodDef functions[] = {
    {"profile_make", profile_make, METH_VARARGS,
     "(layers, ropes, fingerprint, order): a profile that knows no more, not sealed."},
    {NULL, NULL, 0, NULL}};

int add_profile(PyObject *module) {
    profile_type = (PyTypeObject *)PyType_FromSpec(&profile_spec);
    if (!profile_type || PyModule_AddType(module, profile_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
