/* Managers and sequences, with engines written in Python.
 *
 *   Manager(cache, engine) ── Sequence(manager, engine) ── load ──► engine.restore(count)
 *                                                      └── save ──► engine.extract(first, count)
 *
 * An engine is any object with fingerprint, layout, extract, restore and restored; what they return
 * is said in skymem/manager.py. It is called on the thread of who called load or save, which waits
 * meanwhile (background.c), so that Ctrl-C ends both. What the object raises ends the call, and is
 * raised again from there. Tensors that it hands out are held until the next of its calls, or the
 * end of the sequence's. */
#include "sequence.h"

#include <string.h>

PyTypeObject *manager_type, *sequence_type;

/* ---- what an engine says ---- */

static void engine_let_go(engine *e) {
    for (size_t i = 0; i < e->view_count; i++)
        view_release(&e->views[i]);
    e->view_count = 0;
}

static sky_status engine_failed(engine *e) {
    if (PyErr_Occurred() && !e->kind)
        PyErr_Fetch(&e->kind, &e->value, &e->trace);
    PyErr_Clear();
    return SKY_E_IO;
}

/* Raise what it raised, if it did. */
static bool engine_raise(engine *e) {
    if (!e->kind)
        return false;
    PyErr_Restore(e->kind, e->value, e->trace);
    e->kind = e->value = e->trace = NULL;
    return true;
}

static void engine_forget(engine *e) {
    Py_CLEAR(e->kind);
    Py_CLEAR(e->value);
    Py_CLEAR(e->trace);
}

static void ask_fingerprint(void *self, uint8_t out[32]) {
    engine *e = self;
    PyGILState_STATE gil = PyGILState_Ensure();
    sky_key key = {{0}};
    PyObject *bytes = PyObject_CallMethod(e->object, "fingerprint", NULL);
    if (!bytes || block_key_parse(bytes, "fingerprint", &key) < 0)
        (void)engine_failed(e);
    Py_XDECREF(bytes);
    memcpy(out, key.bytes, sizeof key.bytes);
    PyGILState_Release(gil);
}

/* (window, layers, heads, k_dim, v_dim, element) */
static int group_of(PyObject *tuple, sky_layer_group *out) {
    uint32_t window, layers, heads, k_dim, v_dim;
    const char *name;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple,
                          "O&O&O&O&O&s;layout: a group is (window, layers, heads, k_dim, v_dim, "
                          "element)",
                          read_u32, &window, read_u32, &layers, read_u32, &heads, read_u32, &k_dim,
                          read_u32, &v_dim, &name))
        return -1;
    sky_element element = !strcmp(name, "f16")    ? SKY_ELEMENT_F16
                          : !strcmp(name, "f32")  ? SKY_ELEMENT_F32
                          : !strcmp(name, "bf16") ? SKY_ELEMENT_BF16
                                                  : 0;
    if (!element || heads > SKY_ROW_BYTES_MAX || k_dim > SKY_ROW_BYTES_MAX ||
        v_dim > SKY_ROW_BYTES_MAX || (uint64_t)heads * k_dim * 4 > SKY_ROW_BYTES_MAX ||
        (uint64_t)heads * v_dim * 4 > SKY_ROW_BYTES_MAX) {
        PyErr_Format(PyExc_ValueError,
                     "layout: elements are f16, f32 or bf16, not %s, and a row "
                     "has at most a mebibyte",
                     name);
        return -1;
    }
    *out = (sky_layer_group){.kind = window ? SKY_LAYER_WINDOW : SKY_LAYER_FULL,
                             .window_tokens = window,
                             .layer_count = layers,
                             .kv_heads = heads,
                             .k_element = element,
                             .v_element = element,
                             .k_row_bytes = heads * k_dim * sky_element_bytes(element),
                             .v_row_bytes = heads * v_dim * sky_element_bytes(element)};
    return 0;
}

static sky_status ask_layout(void *self, sky_layout *out, sky_error *error) {
    engine *e = self;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *list = PyObject_CallMethod(e->object, "layout", NULL);
    PyObject *groups = list ? PySequence_Tuple(list) : NULL;
    Py_ssize_t count = groups ? PyTuple_Size(groups) : 0;
    if (count > SKY_LAYER_GROUPS_MAX)
        PyErr_Format(PyExc_ValueError, "layout: at most %d groups", SKY_LAYER_GROUPS_MAX);
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++)
        (void)group_of(PyTuple_GetItem(groups, i), &out->groups[i]);
    out->group_count = (uint32_t)count;
    Py_XDECREF(list);
    Py_XDECREF(groups);
    sky_status status = PyErr_Occurred() ? engine_failed(e) : SKY_OK;
    PyGILState_Release(gil);
    (void)error;
    return status;
}

/* (first_token, tensor [heads, tokens, dim]) */
static int tensor_of(engine *e, PyObject *pair, bool writable, sky_tensor *out) {
    uint32_t first;
    PyObject *object;
    if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "O&O;an engine gives (first_token, tensor)",
                                                  read_u32, &first, &object))
        return -1;
    view *v = &e->views[e->view_count];
    if (view_open(object, writable, "engine", v) < 0)
        return -1;
    e->view_count++;
    if (tensor_of_view(v, 1, 0, out) < 0) {
        PyErr_SetString(PyExc_TypeError, "engine: tensors are [heads, tokens, dim], of f16, f32 or "
                                         "bf16, with at least one token and no stride below 0");
        return -1;
    }
    out->first_token = first;
    return 0;
}

static sky_status take_tensors(engine *e, PyObject *list, bool writable, sky_state *out) {
    PyObject *pairs = list ? PySequence_Tuple(list) : NULL;
    size_t count = pairs ? (size_t)PyTuple_Size(pairs) : 0;
    if (pairs && count != out->tensor_count)
        PyErr_Format(PyExc_ValueError, "engine: %zu tensors where the layout has %zu", count,
                     out->tensor_count);
    if (count > e->view_max && !PyErr_Occurred()) {
        view *more = PyMem_Realloc(e->views, count * sizeof *more);
        if (more) {
            e->views = more;
            e->view_max = count;
        } else {
            PyErr_NoMemory();
        }
    }
    for (size_t i = 0; i < count && !PyErr_Occurred(); i++)
        (void)tensor_of(e, PyTuple_GetItem(pairs, (Py_ssize_t)i), writable, &out->tensors[i]);
    Py_XDECREF(pairs);
    Py_XDECREF(list);
    return PyErr_Occurred() ? engine_failed(e) : SKY_OK;
}

/* A question to an engine, and its answer. */
typedef struct {
    engine *engine;
    uint32_t first, count;
    bool commit;
    sky_state *out;
    sky_status status;
} question;

static void do_extract(void *context) {
    question *q = context;
    engine_let_go(q->engine);
    PyObject *list = PyObject_CallMethod(q->engine->object, "extract", "II", q->first, q->count);
    q->status = take_tensors(q->engine, list, false, q->out);
}

static sky_status ask_extract(void *self, uint32_t first, uint32_t count, sky_state *out) {
    engine *e = self;
    question q = {.engine = e, .first = first, .count = count, .out = out};
    background_ask(e->background, do_extract, &q);
    return q.status;
}

static void do_restore(void *context) {
    question *q = context;
    engine_let_go(q->engine);
    PyObject *list = PyObject_CallMethod(q->engine->object, "restore", "I", q->count);
    q->status = take_tensors(q->engine, list, true, q->out);
}

static sky_status ask_restore(void *self, uint32_t count, sky_state *out) {
    engine *e = self;
    question q = {.engine = e, .count = count, .out = out};
    background_ask(e->background, do_restore, &q);
    return q.status;
}

static void do_restored(void *context) {
    question *q = context;
    engine_let_go(q->engine);
    PyObject *none = PyObject_CallMethod(q->engine->object, "restored", "O",
                                         q->commit ? Py_True : Py_False);
    q->status = none ? SKY_OK : engine_failed(q->engine);
    Py_XDECREF(none);
}

static sky_status tell_restored(void *self, bool commit) {
    engine *e = self;
    question q = {.engine = e, .commit = commit};
    background_ask(e->background, do_restored, &q);
    return q.status;
}

/* Tokens are the caller's, and so is computing. */
static sky_status no_tokenizer(void *self, const char *text, size_t bytes, uint32_t *tokens,
                               size_t max, size_t *count) {
    (void)self, (void)text, (void)bytes, (void)tokens, (void)max, (void)count;
    return SKY_E_UNSUPPORTED;
}

static sky_status no_prefill(void *self, const uint32_t *tokens, uint32_t first, uint32_t count) {
    (void)self, (void)tokens, (void)first, (void)count;
    return SKY_E_UNSUPPORTED;
}

static const sky_engine_ops engine_ops = {.fingerprint = ask_fingerprint,
                                          .layout = ask_layout,
                                          .tokenize = no_tokenizer,
                                          .extract = ask_extract,
                                          .restore_begin = ask_restore,
                                          .restore_end = tell_restored,
                                          .prefill = no_prefill};

/* ---- managers ---- */

/* As cache_enter, and not in a child of fork(). */
static bool manager_enter(cache_object *cache, const char *what) {
    if (!cache_enter(cache))
        return false;
    if (cache_is_ours(cache))
        return true;
    cache_leave(cache);
    raise_status(SKY_E_FORKED, "%s", what);
    return false;
}

static int manager_open(manager_object *m, PyObject *object, sky_manager_options *options) {
    engine e = {.object = object};
    sky_engine engine = {&engine_ops, &e};
    sky_error error = {0};
    sky_status status;
    if (!manager_enter(m->cache, "a manager"))
        return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_manager_create(m->cache->handle, &engine, options, &m->handle, &error);
    Py_END_ALLOW_THREADS;
    cache_leave(m->cache);
    if (m->handle)
        m->cache->managers++;
    if (!engine_raise(&e) && status != SKY_OK)
        raise_status(status, "%s", error.text);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *manager_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"cache", "engine", "block_tokens", "drop", "salt", "profile", NULL};
    PyObject *cache, *object, *salt = Py_None, *profile = Py_None;
    sky_manager_options options = {0};
    int drop = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O&pOO", names, cache_type, &cache, &object,
                                     read_u32, &options.block_tokens, &drop, &salt, &profile))
        return NULL;
    options.drop = drop;
    if (salt != Py_None && salt_parse(salt, options.salt) < 0)
        return NULL;
    if (profile != Py_None && !(options.profile = profile_of(profile)))
        return NULL;
    manager_object *m = (manager_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!m)
        return NULL;
    m->cache = (cache_object *)Py_NewRef(cache);
    m->profile = Py_NewRef(profile);
    if (manager_open(m, object, &options) < 0)
        Py_CLEAR(m);
    return (PyObject *)m;
}

static int manager_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((manager_object *)self)->cache);
    Py_VISIT(((manager_object *)self)->profile);
    return 0;
}

static void manager_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    manager_object *m = (manager_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (m->handle) {
        if (m->cache->handle && cache_is_ours(m->cache))
            sky_manager_destroy(m->handle);
        m->cache->managers--;
    }
    Py_XDECREF(m->profile);
    Py_XDECREF(m->cache);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *manager_refusal(PyObject *self, void *unused) {
    (void)unused;
    const char *text = sky_manager_refusal(((manager_object *)self)->handle);
    return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

static PyObject *manager_namespace(PyObject *self, void *unused) {
    (void)unused;
    sky_namespace ns;
    sky_manager_namespace(((manager_object *)self)->handle, &ns);
    return PyBytes_FromStringAndSize((char *)ns.bytes, sizeof ns.bytes);
}

static PyGetSetDef manager_fields[] = {
    {"refusal", manager_refusal, NULL, "Why this model is not cached; None: it is.", NULL},
    {"namespace", manager_namespace, NULL, "Of all keys of this manager.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot manager_slots[] = {{Py_tp_new, manager_new},
                                      {Py_tp_dealloc, manager_dealloc},
                                      {Py_tp_traverse, manager_traverse},
                                      {Py_tp_getset, manager_fields},
                                      {Py_tp_doc, "The prefix cache of a model."},
                                      {0, NULL}};
static PyType_Spec manager_spec = {.name = "skymem._core.Manager",
                                   .basicsize = sizeof(manager_object),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                            Py_TPFLAGS_BASETYPE,
                                   .slots = manager_slots};

/* ---- sequences ---- */

static PyObject *sequence_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"manager", "engine", NULL};
    PyObject *manager, *object;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O", names, manager_type, &manager, &object))
        return NULL;
    cache_object *cache = ((manager_object *)manager)->cache;
    if (!manager_enter(cache, "a sequence"))
        return NULL;
    sequence_object *s = (sequence_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (s) {
        s->manager = (manager_object *)Py_NewRef(manager);
        s->engine.object = Py_NewRef(object);
        sky_engine engine = {&engine_ops, &s->engine};
        sky_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_sequence_open(s->manager->handle, &engine, &s->handle);
        Py_END_ALLOW_THREADS;
        if (!engine_raise(&s->engine) && status != SKY_OK)
            raise_status(status, "an engine of another model, or of another layout");
        if (PyErr_Occurred())
            Py_CLEAR(s);
    }
    cache_leave(cache);
    return (PyObject *)s;
}

static int sequence_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((sequence_object *)self)->manager);
    Py_VISIT(((sequence_object *)self)->engine.object);
    return 0;
}

static void sequence_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    sequence_object *s = (sequence_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (s->handle && s->manager->cache->handle && cache_is_ours(s->manager->cache)) {
        Py_BEGIN_ALLOW_THREADS; /* what is under way ends first, and may call Python */
        sky_sequence_close(s->handle);
        Py_END_ALLOW_THREADS;
    }
    engine_forget(&s->engine);
    engine_let_go(&s->engine);
    PyMem_Free(s->engine.views);
    Py_XDECREF(s->engine.object);
    Py_XDECREF(s->manager);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

bool sequence_enter(sequence_object *s, unsigned needs, unsigned beside) {
    static const char *const names[] = {"", "load", "save", "", "push"};
    unsigned odd = s->under_way & ~(needs | beside), lacks = needs & ~s->under_way;
    if (s->busy)
        PyErr_SetString(PyExc_RuntimeError, "the sequence is in use on another thread; open one "
                                            "for each");
    else if (odd)
        PyErr_Format(PyExc_RuntimeError, "a %s is under way on this sequence; end it first",
                     names[odd & -odd]);
    else if (lacks)
        PyErr_Format(PyExc_RuntimeError, "no %s is under way on this sequence; begin one first",
                     names[lacks]);
    else
        s->busy = manager_enter(s->manager->cache, "the sequence");
    return !PyErr_Occurred();
}

bool sequence_leave(sequence_object *s, bool done, sky_status status, const char *what) {
    if (!(s->under_way & UNDER_WAY_LOAD))
        engine_let_go(&s->engine);
    cache_leave(s->manager->cache);
    s->busy = false;
    if (!done)
        engine_forget(&s->engine);
    else if (!engine_raise(&s->engine) && status != SKY_OK)
        raise_status(status, "%s", what);
    return !PyErr_Occurred();
}

static PyObject *tuple_of(const uint32_t *numbers, size_t count) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple && i < count; i++)
        PyTuple_SetItem(tuple, (Py_ssize_t)i, PyLong_FromUnsignedLong(numbers[i]));
    return tuple;
}

/* (verdict, prompt_tokens, hit_tokens, blocks of each tier, corrupt, foreign, bytes, ns, of it,
 * blocks of each coding) */
PyObject *lookup_tuple(const sequence_object *s, const sky_lookup *l) {
    size_t tiers = sky_tier_count(s->manager->cache->handle);
    return Py_BuildValue("(sIINIIKLLN)", sky_verdict_name(l->verdict), l->prompt_tokens,
                         l->hit_tokens, tuple_of(l->tier_blocks, tiers), l->corrupt_blocks,
                         l->foreign_blocks, (unsigned long long)l->bytes_loaded,
                         (long long)l->load_ns, (long long)l->transfer_ns,
                         tuple_of(l->level_blocks, SKY_CODINGS_MAX + 1));
}

static void do_load(void *context) {
    trip *t = context;
    t->status = sky_sequence_load(t->handle, t->tokens, t->count, t->deadline, &t->lookup);
}

static void do_save(void *context) {
    trip *t = context;
    t->status = sky_sequence_save(t->handle, t->tokens, t->count, &t->blocks, &t->bytes);
}

static void do_give_up(void *context) {
    sky_sequence_cancel(((trip *)context)->handle);
}

bool sequence_go(sequence_object *s, PyObject *list, void (*work)(void *), trip *t, unsigned needs,
                 unsigned beside, const char *what) {
    /* before anything is entered, as it may run code of the caller's */
    if (list && !(t->tokens = tokens_of(list, &t->count)))
        return false;
    bool entered = sequence_enter(s, needs, beside);
    if (entered) {
        t->handle = s->handle;
        bool done = background_run(&s->engine.background, work, do_give_up, t);
        s->under_way |= t->ran && t->status == SKY_OK ? t->begins : 0;
        s->under_way &= t->ran ? ~t->ends : ~0u;
        (void)sequence_leave(s, done, t->status, what);
    }
    PyMem_Free(t->tokens);
    return !PyErr_Occurred();
}

static PyObject *sequence_load(PyObject *self, PyObject *args) {
    sequence_object *s = (sequence_object *)self;
    PyObject *list, *timeout = Py_None;
    trip t = {0};
    if (!PyArg_ParseTuple(args, "O|O", &list, &timeout) ||
        (timeout != Py_None && time_in(timeout, &t.deadline) < 0) ||
        !sequence_go(s, list, do_load, &t, 0, 0, "load"))
        return NULL;
    return lookup_tuple(s, &t.lookup);
}

static PyObject *sequence_save(PyObject *self, PyObject *list) {
    trip t = {0};
    if (!sequence_go((sequence_object *)self, list, do_save, &t, 0, 0, "save"))
        return NULL;
    return Py_BuildValue("(IK)", t.blocks, (unsigned long long)t.bytes);
}

static PyObject *sequence_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    sequence_object *s = (sequence_object *)self;
    if (s->manager->cache->handle && cache_is_ours(s->manager->cache))
        sky_sequence_cancel(s->handle);
    Py_RETURN_NONE;
}

static PyMethodDef sequence_methods[] = {
    {"load", sequence_load, METH_VARARGS, "Put the longest stored prefix into the engine."},
    {"save", sequence_save, METH_O, "Store whole blocks that no tier has: (blocks, bytes)."},
    {"cancel", sequence_cancel, METH_NOARGS, "Give the request up, from any thread."},
    {"load_begin", sequence_load_begin, METH_O, "Begin to load, layer by layer: as load."},
    {"load_wait", sequence_load_wait, METH_VARARGS, "(layer, seconds): is the layer there?"},
    {"load_end", sequence_load_end, METH_O, "Wait so many seconds for the rest: as load."},
    {"load_give_up", sequence_load_give_up, METH_NOARGS, "End it, and take nothing: as load."},
    {"save_begin", sequence_save_begin, METH_O, "Begin to save; the first token that is wanted."},
    {"save_layer", sequence_save_layer, METH_VARARGS, "(layer, first token, keys, values)."},
    {"save_end", sequence_save_end, METH_NOARGS, "Store the blocks: (blocks, bytes)."},
    {"push_begin", sequence_push_begin, METH_O, "Announce the blocks that no tier has."},
    {"push", sequence_push, METH_O, "Store the blocks of so many computed tokens."},
    {"push_end", sequence_push_end, METH_NOARGS, "Withdraw the rest: (blocks, bytes)."},
    {"await_blocks", sequence_await, METH_VARARGS, "(tokens, patience): how many are stored."},
    {"fileno", sequence_fileno, METH_NOARGS, "Readable when rows of a load may have come."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot sequence_slots[] = {{Py_tp_new, sequence_new},
                                       {Py_tp_dealloc, sequence_dealloc},
                                       {Py_tp_traverse, sequence_traverse},
                                       {Py_tp_methods, sequence_methods},
                                       {Py_tp_doc, "One request on an engine."},
                                       {0, NULL}};
static PyType_Spec sequence_spec = {.name = "skymem._core.Sequence",
                                    .basicsize = sizeof(sequence_object),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                             Py_TPFLAGS_BASETYPE,
                                    .slots = sequence_slots};

int add_manager(PyObject *module) {
    manager_type = (PyTypeObject *)PyType_FromSpec(&manager_spec);
    sequence_type = (PyTypeObject *)PyType_FromSpec(&sequence_spec);
    if (!manager_type || !sequence_type || PyModule_AddType(module, manager_type) < 0)
        return -1;
    return PyModule_AddType(module, sequence_type);
}
