/* Sequences whose work comes in parts: loads and saves layer by layer, and prompts that one process
 * pushes while another waits for them.
 *
 *   load_begin ─ load_wait(layer) … ─ load_end      the engine's arrays are held until the end
 *                                   ─ load_give_up  … and it takes nothing
 *   save_begin ─ save_layer(layer, k, v) … ─ save_end
 *   push_begin ─ push(tokens) … ─ push_end          await_blocks
 *
 * What is begun and not ended stays with the sequence: calls that do not fit it are refused here,
 * and a sequence that is dropped ends it. */
#include "sequence.h"

/* ---- a load ---- */

static void do_load_begin(void *context) {
    trip *t = context;
    t->status = sky_sequence_load_begin(t->handle, t->tokens, t->count, &t->lookup);
    t->ran = true;
}

static void do_load_end(void *context) {
    trip *t = context;
    t->status = sky_sequence_load_end(t->handle, t->deadline, &t->lookup);
    t->ran = true;
}

static bool load_end(sequence_object *s, sky_time until, trip *t) {
    *t = (trip){.deadline = until, .ends = UNDER_WAY_LOAD};
    return sequence_go(s, NULL, do_load_end, t, UNDER_WAY_LOAD, UNDER_WAY_SAVE, "load_end");
}

/* It began, and the engine raised, or Ctrl-C came: end it, and keep the exception. */
static void load_abandon(sequence_object *s) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    trip t;
    if (!load_end(s, 0, &t))
        PyErr_Clear();
    PyErr_Restore(kind, value, trace);
}

PyObject *sequence_load_begin(PyObject *self, PyObject *list) {
    sequence_object *s = (sequence_object *)self;
    trip t = {.begins = UNDER_WAY_LOAD};
    if (sequence_go(s, list, do_load_begin, &t, 0, UNDER_WAY_SAVE, "load_begin"))
        return lookup_tuple(s, &t.lookup);
    if (t.ran && t.status == SKY_OK)
        load_abandon(s);
    return NULL;
}

/* A slice of waiting at a time, so that Ctrl-C and the end of the interpreter are noticed. */
static sky_status load_await(sequence_object *s, unsigned layer, sky_time until) {
    for (;;) {
        sky_time now = sky_now();
        sky_time slice = until - SKY_MS(50) < now ? until : now + SKY_MS(50);
        sky_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_sequence_load_wait(s->handle, layer, slice);
        Py_END_ALLOW_THREADS;
        if (status != SKY_E_DEADLINE || slice == until)
            return status;
        if (core_leaving || PyErr_CheckSignals() < 0)
            return SKY_E_CANCELLED;
    }
}

PyObject *sequence_load_wait(PyObject *self, PyObject *args) {
    sequence_object *s = (sequence_object *)self;
    PyObject *timeout = Py_None;
    uint32_t layer;
    sky_time until = SKY_TIME_NEVER;
    if (!PyArg_ParseTuple(args, "O&|O", read_u32, &layer, &timeout) ||
        (timeout != Py_None && time_in(timeout, &until) < 0) ||
        !sequence_enter(s, UNDER_WAY_LOAD, UNDER_WAY_SAVE))
        return NULL;
    sky_status status = load_await(s, layer, until);
    bool late = status == SKY_E_DEADLINE;
    char what[40];
    (void)PyOS_snprintf(what, sizeof what, "layer %u of a load", layer);
    if (!sequence_leave(s, !PyErr_Occurred(), late ? SKY_OK : status, what))
        return NULL;
    return PyBool_FromLong(!late);
}

PyObject *sequence_load_end(PyObject *self, PyObject *timeout) {
    sequence_object *s = (sequence_object *)self;
    trip t;
    sky_time until = SKY_TIME_NEVER;
    if ((timeout != Py_None && time_in(timeout, &until) < 0) || !load_end(s, until, &t))
        return NULL;
    return lookup_tuple(s, &t.lookup);
}

PyObject *sequence_load_give_up(PyObject *self, PyObject *unused) {
    (void)unused;
    sequence_object *s = (sequence_object *)self;
    trip t;
    return load_end(s, 0, &t) ? lookup_tuple(s, &t.lookup) : NULL;
}

PyObject *sequence_fileno(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(sky_sequence_event_fd(((sequence_object *)self)->handle));
}

/* ---- a save ---- */

static void do_save_begin(void *context) {
    trip *t = context;
    t->status = sky_sequence_save_begin(t->handle, t->tokens, t->count, &t->first_token);
    t->ran = true;
}

static void do_save_end(void *context) {
    trip *t = context;
    t->status = sky_sequence_save_end(t->handle, &t->blocks, &t->bytes);
    t->ran = true;
}

PyObject *sequence_save_begin(PyObject *self, PyObject *list) {
    trip t = {.begins = UNDER_WAY_SAVE};
    bool began = sequence_go((sequence_object *)self, list, do_save_begin, &t, 0, UNDER_WAY_LOAD,
                             "save_begin");
    return began ? PyLong_FromUnsignedLong(t.first_token) : NULL;
}

/* Rows [heads, tokens, dim]. Errors: -1 with an exception, and nothing is held */
static int layer_rows_open(PyObject *object, const char *what, uint32_t first, view *v,
                           sky_tensor *out) {
    if (view_open(object, false, what, v) < 0)
        return -1;
    out->first_token = 0;
    if (tensor_of_view(v, 1, 0, out) == 0) {
        out->first_token = first;
        return 0;
    }
    view_release(v);
    PyErr_Format(PyExc_TypeError,
                 "%s: rows are [heads, tokens, dim], of f16, f32 or bf16, with at least one token "
                 "and no stride below 0",
                 what);
    return -1;
}

PyObject *sequence_save_layer(PyObject *self, PyObject *args) {
    sequence_object *s = (sequence_object *)self;
    uint32_t layer, first;
    PyObject *keys, *values;
    view views[2];
    sky_tensor k, v;
    if (!PyArg_ParseTuple(args, "O&O&OO", read_u32, &layer, read_u32, &first, &keys, &values) ||
        layer_rows_open(keys, "keys", first, &views[0], &k) < 0)
        return NULL;
    bool entered = false;
    sky_status status = SKY_OK;
    if (layer_rows_open(values, "values", first, &views[1], &v) == 0) {
        entered = sequence_enter(s, UNDER_WAY_SAVE, UNDER_WAY_LOAD);
        if (entered) {
            Py_BEGIN_ALLOW_THREADS;
            status = sky_sequence_save_layer(s->handle, layer, &k, &v);
            Py_END_ALLOW_THREADS;
        }
        view_release(&views[1]);
    }
    view_release(&views[0]);
    char what[160];
    (void)PyOS_snprintf(what, sizeof what,
                        "layer %u: no such layer, or these are not its rows from the first wanted "
                        "token to the end of the last whole block",
                        layer);
    if (!entered || !sequence_leave(s, true, status, status == SKY_E_PARAM ? what : "save_layer"))
        return NULL;
    Py_RETURN_NONE;
}

PyObject *sequence_save_end(PyObject *self, PyObject *unused) {
    (void)unused;
    trip t = {.ends = UNDER_WAY_SAVE};
    bool ended = sequence_go((sequence_object *)self, NULL, do_save_end, &t, UNDER_WAY_SAVE,
                             UNDER_WAY_LOAD, "save_end: layers are missing, or it failed");
    return ended ? Py_BuildValue("(IK)", t.blocks, (unsigned long long)t.bytes) : NULL;
}

/* ---- from one process to another ---- */

static void do_push_begin(void *context) {
    trip *t = context;
    t->status = sky_sequence_push_begin(t->handle, t->tokens, t->count);
    t->ran = true;
}

static void do_push(void *context) {
    trip *t = context;
    t->status = sky_sequence_push(t->handle, t->count);
    t->ran = true;
}

static void do_push_end(void *context) {
    trip *t = context;
    t->status = sky_sequence_push_end(t->handle, &t->blocks, &t->bytes);
    t->ran = true;
}

static void do_await(void *context) {
    trip *t = context;
    t->status = sky_sequence_await(t->handle, t->tokens, t->count, t->deadline, &t->first_token);
    t->ran = true;
    if (t->status == SKY_MISS || t->status == SKY_E_DEADLINE)
        t->status = SKY_OK; /* it ended: how far it came says the number */
}

PyObject *sequence_push_begin(PyObject *self, PyObject *list) {
    trip t = {.begins = UNDER_WAY_PUSH};
    bool began = sequence_go((sequence_object *)self, list, do_push_begin, &t, 0, 0, "push_begin");
    return began ? Py_NewRef(Py_None) : NULL;
}

PyObject *sequence_push(PyObject *self, PyObject *tokens) {
    trip t = {0};
    t.count = PyLong_AsSize_t(tokens);
    if (PyErr_Occurred() ||
        !sequence_go((sequence_object *)self, NULL, do_push, &t, UNDER_WAY_PUSH, 0, "push"))
        return NULL;
    Py_RETURN_NONE;
}

PyObject *sequence_push_end(PyObject *self, PyObject *unused) {
    (void)unused;
    trip t = {.ends = UNDER_WAY_PUSH};
    bool ended = sequence_go((sequence_object *)self, NULL, do_push_end, &t, UNDER_WAY_PUSH, 0,
                             "push_end");
    return ended ? Py_BuildValue("(IK)", t.blocks, (unsigned long long)t.bytes) : NULL;
}

PyObject *sequence_await(PyObject *self, PyObject *args) {
    PyObject *list;
    double patience;
    trip t = {0};
    if (!PyArg_ParseTuple(args, "Od", &list, &patience))
        return NULL;
    if (!(patience > 0 && patience <= (double)SKY_AWAIT_NS_MAX / 1e9)) {
        PyErr_Format(PyExc_ValueError, "patience: seconds, above 0 and at most %d",
                     (int)(SKY_AWAIT_NS_MAX / SKY_SECONDS(1)));
        return NULL;
    }
    t.deadline = (sky_time)(patience * 1e9);
    t.deadline = t.deadline ? t.deadline : 1;
    if (!sequence_go((sequence_object *)self, list, do_await, &t, 0, 0, "await_blocks"))
        return NULL;
    return PyLong_FromUnsignedLong(t.first_token);
}
