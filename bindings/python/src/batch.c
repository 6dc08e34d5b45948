/* Batches: items and the memory behind them, from submit until they are over.
 *
 *   run    = submit, wait, raise what failed      read = the whole of one payload, as new bytes
 *
 * Waiting is done in slices without the GIL, so that Ctrl-C and the end of the interpreter are
 * noticed; both cancel the batch before anything else. */
#include "core.h"

#include <string.h>

#define SLICE_NS SKY_MS(50)

/* ---- building ---- */

static const char *const op_names[] = {"has",      "get", "put",   "remove",
                                       "prefetch", "pin", "unpin", "lease"};

enum { OP_COUNT = sizeof op_names / sizeof *op_names };

static uint32_t spans_of(PyObject *buffer) {
    return PyTuple_Check(buffer)  ? (uint32_t)PyTuple_Size(buffer)
           : PyList_Check(buffer) ? (uint32_t)PyList_Size(buffer)
                                  : 1;
}

static PyObject *span_at(PyObject *buffer, uint32_t i) {
    return PyTuple_Check(buffer)  ? PyTuple_GetItem(buffer, i)
           : PyList_Check(buffer) ? PyList_GetItem(buffer, i)
                                  : buffer;
}

static int add_span(batch_object *b, PyObject *object, bool writable, sky_span *span) {
    if (writable && PyLong_Check(object)) { /* so many bytes of the payload are passed over */
        *span = (sky_span){NULL, PyLong_AsSize_t(object)};
        return PyErr_Occurred() ? -1 : 0;
    }
    view *v = &b->views[b->view_count];
    if (view_open_whole(object, writable, writable ? "out" : "value", v) < 0)
        return -1;
    b->view_count++;
    *span = (sky_span){v->data, v->bytes};
    return 0;
}

/* buffers: a tuple; each a buffer, or a list or tuple of such. */
static int add_buffers(batch_object *b, PyObject *buffers) {
    size_t total = 0;
    if (PyTuple_Size(buffers) != (Py_ssize_t)b->count) {
        PyErr_Format(PyExc_ValueError, "%zd buffers for %u keys: one for each is wanted",
                     PyTuple_Size(buffers), b->count);
        return -1;
    }
    for (uint32_t i = 0; i < b->count; i++)
        total += spans_of(PyTuple_GetItem(buffers, i));
    b->spans = PyMem_Calloc(total ? total : 1, sizeof *b->spans);
    b->views = PyMem_Calloc(total ? total : 1, sizeof *b->views);
    if (!b->spans || !b->views) {
        PyErr_NoMemory();
        return -1;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        PyObject *buffer = PyTuple_GetItem(buffers, i);
        uint32_t spans = spans_of(buffer);
        if (spans > total - at) { /* opening one before it ran code of the caller's */
            PyErr_SetString(PyExc_ValueError, "a list of buffers changed meanwhile");
            return -1;
        }
        b->items[i].spans = b->spans + at;
        b->items[i].span_count = spans;
        for (uint32_t s = 0; s < spans; s++, at++) {
            PyObject *object = span_at(buffer, s); /* none: the list is shorter by now */
            Py_XINCREF(object);                    /* it may be taken out of the list meanwhile */
            int failed = object ? add_span(b, object, b->op == SKY_OP_GET, &b->spans[at]) : -1;
            Py_XDECREF(object);
            if (failed)
                return -1;
        }
    }
    return 0;
}

static int add_parents(batch_object *b, PyObject *parents) {
    if (PyTuple_Size(parents) != (Py_ssize_t)b->count) {
        PyErr_SetString(PyExc_ValueError, "parents: one for each key is wanted, or None");
        return -1;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        PyObject *parent = PyTuple_GetItem(parents, i);
        if (parent != Py_None && block_key_parse(parent, "parents", &b->items[i].parent) < 0)
            return -1;
    }
    return 0;
}

static batch_object *batch_make(cache_object *cache, sky_op op, PyObject *keys) {
    batch_object *b = PyObject_GC_New(batch_object, batch_type);
    if (!b)
        return NULL;
    memset((char *)b + sizeof(PyObject), 0, sizeof *b - sizeof(PyObject));
    Py_INCREF(cache);
    b->cache = cache;
    b->op = op;
    b->keys = PySequence_Tuple(keys);
    Py_ssize_t count = b->keys ? PyTuple_Size(b->keys) : -1;
    if (count > SKY_BATCH_ITEMS_MAX)
        PyErr_Format(PyExc_ValueError, "%zd keys: a batch takes at most %d", count,
                     SKY_BATCH_ITEMS_MAX);
    else if (count >= 0 && !(b->items = PyMem_Calloc(count ? (size_t)count : 1, sizeof *b->items)))
        PyErr_NoMemory();
    b->count = (uint32_t)count;
    for (uint32_t i = 0; b->items && i < b->count; i++) {
        if (key_parse(cache, PyTuple_GetItem(b->keys, i), &b->items[i]) < 0)
            break;
    }
    PyObject_GC_Track((PyObject *)b);
    if (!PyErr_Occurred())
        return b;
    Py_DECREF(b);
    return NULL;
}

/* ---- under way ---- */

/* The batch is no longer the library's. */
static void batch_end(batch_object *b) {
    if (!b->link)
        return;
    for (uint32_t i = 0; i < b->count; i++)
        b->cache->leases += b->items[i].lease.id != 0;
    *b->link = b->next;
    if (b->next)
        b->next->link = b->link;
    b->link = NULL;
    for (uint32_t i = 0; i < b->view_count; i++)
        view_release(&b->views[i]);
    b->view_count = 0;
}

/* Give back what was leased and nobody took, of a batch that is over: cache->leases counts it. */
static void batch_return(batch_object *b) {
    for (uint32_t i = 0; b->items && i < b->count; i++) {
        if (!b->items[i].lease.id)
            continue;
        if (b->cache->handle)
            (void)sky_release(b->cache->handle, b->items[i].lease);
        b->items[i].lease.id = 0;
        b->cache->leases--;
    }
}

void batch_give_up(batch_object *b) {
    if (!b->link)
        return;
    if (b->cache->handle)
        sky_cancel(b->cache->handle, b->id);
    batch_end(b);
    batch_return(b);
}

/* What is wrong with a call that was not taken, if that can be told. */
static void raise_refusal(const sky_call *call, sky_status status, size_t tiers) {
    bool none = call->tiers && tiers < 32 && !(call->tiers & ((1u << tiers) - 1));
    if (status == SKY_E_PARAM && none)
        raise_status(status, "tiers: of those named the cache has none; its tiers are 0 to %zd",
                     (Py_ssize_t)tiers - 1);
    else if (status == SKY_E_UNSUPPORTED && call->if_version)
        raise_status(status, "if_version: one tier that keeps versions must take part, such as "
                             "sky:; `tiers` names it");
    else
        raise_status(status, "the batch was not started");
}

static int batch_start(batch_object *b, const sky_call *call) {
    cache_object *cache = b->cache;
    if (!cache_enter(cache))
        return -1;
    if (!b->count && (unsigned)b->op < OP_COUNT) { /* of no keys: it is over */
        cache_leave(cache);
        return 0;
    }
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_submit(cache->handle, b->op, b->items, b->count, call, &b->id);
    Py_END_ALLOW_THREADS;
    size_t tiers = sky_tier_count(cache->handle);
    cache_leave(cache);
    if (status != SKY_OK) {
        raise_refusal(call, status, tiers);
        return -1;
    }
    b->next = cache->under_way;
    b->link = &cache->under_way;
    if (b->next)
        b->next->link = &b->next;
    cache->under_way = b;
    return 0;
}

/* 1: over; 0: `until` passed; -1: an exception. */
static int batch_await(batch_object *b, sky_time until) {
    while (b->link) {
        if (!cache_enter(b->cache))
            return -1;
        sky_time now = sky_now();
        sky_time slice = until - SLICE_NS < now ? until : now + SLICE_NS;
        sky_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_wait(b->cache->handle, b->id, slice);
        Py_END_ALLOW_THREADS;
        cache_leave(b->cache);
        if (status == SKY_E_FORKED) { /* the parent's goes on */
            raise_status(status, "the batch");
            return -1;
        }
        if (status != SKY_E_DEADLINE) { /* or somebody else ended it meanwhile */
            batch_end(b);
            return 1;
        }
        if (core_leaving || PyErr_CheckSignals() < 0) {
            batch_give_up(b);
            if (!PyErr_Occurred())
                raise_status(SKY_E_CANCELLED, "the interpreter ends");
            return -1;
        }
        if (slice == until)
            return 0;
    }
    return 1;
}

/* ---- calls ---- */

int time_in(PyObject *seconds, sky_time *out) {
    double s = PyFloat_AsDouble(seconds);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "timeout: seconds or None are wanted, not %R", seconds);
    if (PyErr_Occurred())
        return -1;
    if (!(s >= 0)) {
        PyErr_SetString(PyExc_ValueError, "timeout: seconds, 0 or more");
        return -1;
    }
    *out = s > 1e9 ? SKY_TIME_NEVER : sky_now() + (sky_time)(s * 1e9);
    return 0;
}

/* What submit, run and read take after their own arguments. */
typedef struct {
    PyObject *parents, *timeout;
    long long offset, size, ttl;
    unsigned int tiers;
    int coding, wanted, durable, drop, event_fd, evict;
    long long at_ms;
    unsigned long long if_version;
} options;

static char *option_names[] = {"op",      "keys",  "buffers",  "parents",    "offset",  "size",
                               "timeout", "ttl",   "coding",   "wanted",     "durable", "drop",
                               "tiers",   "at_ms", "event_fd", "if_version", "evict",   NULL};

static int call_of(const options *o, sky_call *call) {
    const char *wrong = o->offset < 0                       ? "offset"
                        : o->size < 0                       ? "size"
                        : o->ttl < 0 || o->ttl > UINT32_MAX ? "ttl"
                                                            : NULL;
    if (wrong) {
        PyErr_Format(PyExc_ValueError, "%s: 0 or more is wanted%s", wrong,
                     wrong[0] == 't' ? ", and below 2**32" : "");
        return -1;
    }
    if (o->evict < SKY_EVICT_NORMAL || o->evict > SKY_EVICT_LAST) {
        PyErr_SetString(PyExc_ValueError, "evict: 0 to 2 is wanted");
        return -1;
    }
    *call = (sky_call){.ttl_s = (uint32_t)o->ttl,
                       .coding = (sky_coding)o->coding,
                       .wanted = (sky_coding)o->wanted,
                       .durable = o->durable,
                       .drop = o->drop,
                       .evict = (uint8_t)o->evict,
                       .tiers = o->tiers,
                       .at_ms = o->at_ms,
                       .event_fd = o->event_fd,
                       .if_version = o->if_version};
    if (o->timeout && o->timeout != Py_None && time_in(o->timeout, &call->deadline_ns) < 0)
        return -1;
    return 0;
}

static batch_object *submit(PyObject *self, PyObject *args, PyObject *kwargs) {
    int op;
    PyObject *keys, *buffers = Py_None;
    options o = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iO|OOLLOLiippILiKi", option_names, &op, &keys,
                                     &buffers, &o.parents, &o.offset, &o.size, &o.timeout, &o.ttl,
                                     &o.coding, &o.wanted, &o.durable, &o.drop, &o.tiers, &o.at_ms,
                                     &o.event_fd, &o.if_version, &o.evict))
        return NULL;
    sky_call call;
    if (call_of(&o, &call) < 0)
        return NULL;
    if (op == SKY_OP_PUT && buffers == Py_None) {
        PyErr_SetString(PyExc_TypeError, "put: values are wanted, one for each key");
        return NULL;
    }
    batch_object *b = batch_make((cache_object *)self, (sky_op)op, keys);
    if (!b)
        return NULL;
    for (uint32_t i = 0; i < b->count; i++)
        b->items[i].range = (sky_range){(uint64_t)o.offset, o.size     ? (uint64_t)o.size
                                                            : o.offset ? SKY_ALL
                                                                       : 0};
    PyObject *tuple = buffers == Py_None ? NULL : PySequence_Tuple(buffers);
    if (tuple)
        (void)add_buffers(b, tuple);
    Py_XDECREF(tuple);
    tuple = PyErr_Occurred() || !o.parents || o.parents == Py_None ? NULL
                                                                   : PySequence_Tuple(o.parents);
    if (tuple)
        (void)add_parents(b, tuple);
    Py_XDECREF(tuple);
    if (PyErr_Occurred() || batch_start(b, &call) < 0) {
        Py_DECREF(b);
        return NULL;
    }
    return b;
}

PyObject *cache_submit(PyObject *self, PyObject *args, PyObject *kwargs) {
    return (PyObject *)submit(self, args, kwargs);
}

/* Tell the exception which version is stored instead. */
static void add_version(uint64_t version) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    PyObject *number = value ? PyLong_FromUnsignedLongLong(version) : NULL;
    if (!number || PyObject_SetAttrString(value, "version", number) < 0)
        PyErr_Clear();
    Py_XDECREF(number);
    PyErr_Restore(kind, value, trace);
}

/* Raise for the first item that failed; a miss is no failure. */
static PyObject *raise_failed(const batch_object *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->items[i].status >= 0)
            continue;
        PyObject *key = PyTuple_GetItem(b->keys, i);
        char hex[2 * SKY_KEY_BYTES + 1];
        sky_key_hex(&b->items[i].key, hex);
        raise_status(b->items[i].status, "%s of %s", op_names[b->op],
                     PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : hex);
        if (b->items[i].status == SKY_E_CONFLICT)
            add_version(b->items[i].version);
        return NULL;
    }
    return NULL;
}

PyObject *cache_run(PyObject *self, PyObject *args, PyObject *kwargs) {
    batch_object *b = submit(self, args, kwargs);
    if (b && batch_await(b, SKY_TIME_NEVER) > 0 && !raise_failed(b) && !PyErr_Occurred())
        return (PyObject *)b;
    Py_XDECREF(b);
    return NULL;
}

/* ---- methods ---- */

static PyObject *batch_wait(PyObject *self, PyObject *seconds) {
    sky_time until = SKY_TIME_NEVER;
    if (seconds != Py_None && time_in(seconds, &until) < 0)
        return NULL;
    int over = batch_await((batch_object *)self, until);
    return over < 0 ? NULL : PyBool_FromLong(over);
}

static PyObject *batch_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    batch_give_up((batch_object *)self);
    Py_RETURN_NONE;
}

static PyObject *batch_check(PyObject *self, PyObject *unused) {
    (void)unused;
    raise_failed((batch_object *)self);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* A list of `count` values; NULL where one could not be made. */
static PyObject *list_of(const batch_object *b, PyObject *(*value)(const sky_item *item)) {
    PyObject *list = PyList_New(b->count);
    for (uint32_t i = 0; list && i < b->count; i++) {
        PyObject *object = value(&b->items[i]);
        if (!object || PyList_SetItem(list, i, object) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *status_of(const sky_item *item) {
    return PyLong_FromLong(item->status);
}

static PyObject *size_of(const sky_item *item) {
    return item->status == SKY_OK ? PyLong_FromUnsignedLongLong(item->bytes) : Py_NewRef(Py_None);
}

static PyObject *found_of(const sky_item *item) {
    return PyBool_FromLong(item->status == SKY_OK);
}

/* bytes, tier, coding, ttl, pinned, version, evict; None for a miss */
static PyObject *detail_of(const sky_item *item) {
    if (item->status != SKY_OK)
        return Py_NewRef(Py_None);
    return Py_BuildValue("(KiiIOKi)", (unsigned long long)item->bytes,
                         item->tier == SKY_TIER_NONE ? -1 : item->tier, item->coding, item->ttl_s,
                         item->pinned ? Py_True : Py_False, (unsigned long long)item->version,
                         item->evict);
}

static PyObject *version_of(const sky_item *item) {
    return PyLong_FromUnsignedLongLong(item->version);
}

static PyObject *batch_statuses(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of((batch_object *)self, status_of);
}

static PyObject *batch_sizes(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of((batch_object *)self, size_of);
}

static PyObject *batch_found(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of((batch_object *)self, found_of);
}

static PyObject *batch_details(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of((batch_object *)self, detail_of);
}

static PyObject *batch_versions(PyObject *self, PyObject *unused) {
    (void)unused;
    return list_of((batch_object *)self, version_of);
}

/* The leases of a batch, which are the caller's from now on. */
static PyObject *batch_leases(PyObject *self, PyObject *unused) {
    (void)unused;
    batch_object *b = (batch_object *)self;
    PyObject *list = PyList_New(b->count);
    for (uint32_t i = 0; list && i < b->count; i++) {
        bool lent = !b->link && b->cache->handle && b->items[i].lease.id;
        PyObject *lease = lent ? lease_new(b->cache, &b->items[i]) : Py_NewRef(Py_None);
        if (lease && lent)
            b->items[i].lease.id = 0;
        if (!lease || PyList_SetItem(list, i, lease) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static int batch_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((batch_object *)self)->cache);
    return 0;
}

static void batch_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    batch_object *b = (batch_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    batch_give_up(b);
    for (uint32_t i = 0; i < b->view_count; i++) /* of one that was never started */
        view_release(&b->views[i]);
    batch_return(b);
    PyMem_Free(b->items);
    PyMem_Free(b->spans);
    PyMem_Free(b->views);
    Py_XDECREF(b->keys);
    Py_XDECREF(b->cache);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef batch_methods[] = {
    {"wait", batch_wait, METH_O, "Wait so many seconds (None: no limit); is it over?"},
    {"cancel", batch_cancel, METH_NOARGS, "Give it up; the buffers are then the caller's."},
    {"check", batch_check, METH_NOARGS, "Raise for the first item that failed."},
    {"statuses", batch_statuses, METH_NOARGS, "The status of each item."},
    {"sizes", batch_sizes, METH_NOARGS, "The bytes of each item, None for a miss."},
    {"found", batch_found, METH_NOARGS, "Was each item there?"},
    {"details", batch_details, METH_NOARGS,
     "(bytes, tier, coding, ttl, pinned, version, evict) of each item."},
    {"versions", batch_versions, METH_NOARGS, "The version of each item, 0 where none is kept."},
    {"leases", batch_leases, METH_NOARGS, "The leases of a batch of them."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot batch_slots[] = {{Py_tp_methods, batch_methods},
                                    {Py_tp_dealloc, batch_dealloc},
                                    {Py_tp_traverse, batch_traverse},
                                    {Py_tp_doc, "Operations under way, or over."},
                                    {0, NULL}};
static PyType_Spec batch_spec = {.name = "skymem._core.Batch",
                                 .basicsize = sizeof(batch_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = batch_slots};

int add_batch(PyObject *module) {
    batch_type = (PyTypeObject *)PyType_FromSpec(&batch_spec);
    for (size_t i = 0; i < OP_COUNT; i++) {
        char name[32];
        (void)PyOS_snprintf(name, sizeof name, "OP_%s", op_names[i]);
        if (PyModule_AddIntConstant(module, name, (long)i) < 0)
            return -1;
    }
    return batch_type ? PyModule_AddType(module, batch_type) : -1;
}

/* ---- read: the whole of one payload ---- */

/* A batch of one key without Python objects for its results. */
static int run_one(batch_object *b, sky_op op, sky_item item, const sky_call *call) {
    b->op = op;
    b->items[0] = item;
    if (batch_start(b, call) < 0 || batch_await(b, SKY_TIME_NEVER) < 0)
        return -1;
    raise_failed(b);
    return PyErr_Occurred() ? -1 : 0;
}

/* One try. NULL without an exception: it changed between the two questions. */
static PyObject *read_once(batch_object *b, const sky_item *blank, sky_range range,
                           const sky_call *call) {
    if (run_one(b, SKY_OP_HAS, *blank, call) < 0)
        return NULL;
    if (b->items[0].status == SKY_MISS)
        return Py_NewRef(Py_None);
    uint64_t bytes = b->items[0].bytes;
    bytes = bytes > range.offset ? bytes - range.offset : 0;
    if (range.bytes && range.bytes < bytes)
        bytes = range.bytes;
    PyObject *out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (!out || !bytes)
        return out;
    sky_span span = {PyBytes_AsString(out), bytes};
    sky_item item = *blank;
    item.spans = &span;
    item.span_count = 1;
    item.range = (sky_range){range.offset, bytes};
    if (range.offset == 0 && !range.bytes)
        item.range = (sky_range){0, 0}; /* all of it, which memory keeps */
    int failed = run_one(b, SKY_OP_GET, item, call);
    b->items[0].spans = NULL;
    sky_status status = b->items[0].status;
    if (!failed && status == SKY_OK && b->items[0].bytes == bytes)
        return out;
    Py_DECREF(out);
    if (failed && (status == SKY_E_DST_SMALL || status == SKY_E_PARAM))
        PyErr_Clear();
    return NULL;
}

PyObject *cache_read(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"key", "offset", "size", "timeout", "wanted", "tiers", NULL};
    PyObject *key;
    options o = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|LLOiI", names, &key, &o.offset, &o.size,
                                     &o.timeout, &o.wanted, &o.tiers))
        return NULL;
    sky_call call;
    PyObject *keys = call_of(&o, &call) < 0 ? NULL : PyTuple_Pack(1, key);
    batch_object *b = keys ? batch_make((cache_object *)self, SKY_OP_HAS, keys) : NULL;
    Py_XDECREF(keys);
    if (!b)
        return NULL;
    sky_item blank = b->items[0];
    PyObject *out = NULL;
    for (int tries = 0; !out && tries < 8 && !PyErr_Occurred(); tries++)
        out = read_once(b, &blank, (sky_range){(uint64_t)o.offset, (uint64_t)o.size}, &call);
    if (!out && !PyErr_Occurred())
        raise_status(SKY_E_BUSY, "get: the value changed while it was read, eight times");
    Py_DECREF(b);
    return out;
}
