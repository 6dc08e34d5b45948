/* Cache: a hierarchy of tiers, open or closed. Its operations are batches (batch.c); what it tells
 * of itself is in report.c. */
#include "core.h"

#include <string.h>

bool cache_enter(cache_object *cache) {
    if (!cache->handle) {
        PyErr_SetString(PyExc_ValueError, "the cache is closed; open another one");
        return false;
    }
    cache->calls++;
    return true;
}

void cache_leave(cache_object *cache) {
    cache->calls--;
}

bool cache_is_ours(const cache_object *cache) {
    return sky_event_fd(cache->handle) >= 0;
}

/* ---- opening ---- */

static const char **strings_of(PyObject *tuple) {
    Py_ssize_t count = PyTuple_Size(tuple);
    const char **strings = PyMem_Calloc((size_t)count + 1, sizeof *strings);
    if (!strings)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; strings && i < count; i++) {
        PyObject *url = PyTuple_GetItem(tuple, i);
        Py_ssize_t bytes = 0;
        if (PyUnicode_Check(url))
            strings[i] = PyUnicode_AsUTF8AndSize(url, &bytes);
        else
            PyErr_Format(PyExc_TypeError, "urls: a str is wanted, such as \"mem:1GiB\", not %R",
                         url);
        if (strings[i] && strlen(strings[i]) != (size_t)bytes) {
            PyErr_Format(PyExc_ValueError, "urls: %R has a NUL, which no URL has", url);
            strings[i] = NULL;
        }
        if (!strings[i]) {
            PyMem_Free(strings);
            return NULL;
        }
    }
    return strings;
}

static int take_salt(cache_object *cache, PyObject *salt) {
    if (salt == Py_None)
        return 0;
    uint8_t secret[SKY_SALT_BYTES];
    if (salt_parse(salt, secret) < 0)
        return -1;
    sky_namespace_salt(&cache->names, secret);
    return 0;
}

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"urls", "salt", NULL};
    PyObject *urls, *salt = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &urls, &salt))
        return NULL;
    PyObject *tuple = PySequence_Tuple(urls);
    const char **strings = tuple ? strings_of(tuple) : NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    cache_object *self = strings ? (cache_object *)allocate(type, 0) : NULL;
    if (self && take_salt(self, salt) == 0) {
        sky_error error = {0};
        sky_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_cache_open(strings, (size_t)PyTuple_Size(tuple), &self->handle, &error);
        Py_END_ALLOW_THREADS;
        if (status != SKY_OK && PyErr_CheckSignals() == 0) /* Ctrl-C in a store of Python's */
            raise_status(status, "%s", error.text);
    }
    PyMem_Free(strings);
    Py_XDECREF(tuple);
    if (PyErr_Occurred())
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* ---- closing ---- */

static void close_later(void *handle) {
    sky_cache_close(handle);
}

/* A thread of the cache cannot wait for its own end: the garbage collector may run there. */
static void close_handle(cache_object *cache) {
    sky_cache *handle = cache->handle;
    cache->handle = NULL;
    if (core_in_store && PyThread_start_new_thread(close_later, handle) != (unsigned long)-1)
        return;
    Py_BEGIN_ALLOW_THREADS;
    sky_cache_close(handle);
    Py_END_ALLOW_THREADS;
}

static PyObject *cache_close(PyObject *self, PyObject *unused) {
    (void)unused;
    cache_object *cache = (cache_object *)self;
    if (!cache->handle)
        Py_RETURN_NONE;
    bool ours = cache_is_ours(cache);
    if (ours && cache->calls)
        return raise_status(SKY_E_BUSY,
                            "close: %d calls are under way on other threads; "
                            "wait for them first",
                            cache->calls);
    if (ours && cache->leases)
        return raise_status(SKY_E_BUSY,
                            "close: %d leases, or arrays made from them, are in use; "
                            "let go of them first",
                            cache->leases);
    if (ours && cache->managers)
        return raise_status(SKY_E_BUSY, "close: %d managers use it; let go of them first",
                            cache->managers);
    while (cache->under_way)
        batch_give_up(cache->under_way);
    close_handle(cache);
    Py_RETURN_NONE;
}

static void cache_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    Py_XDECREF(cache_close(self, NULL)); /* nothing refers to it: no call, no lease */
    PyErr_Restore(kind, value, trace);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *cache_closed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(!((cache_object *)self)->handle);
}

/* ---- other calls that wait ---- */

static PyObject *cache_flush(PyObject *self, PyObject *args) {
    cache_object *cache = (cache_object *)self;
    PyObject *seconds = Py_None;
    sky_time until = SKY_TIME_NEVER;
    if (!PyArg_ParseTuple(args, "|O", &seconds))
        return NULL;
    if (seconds != Py_None && time_in(seconds, &until) < 0)
        return NULL;
    uint64_t dropped = 0;
    for (;;) {
        if (!cache_enter(cache))
            return NULL;
        sky_time now = sky_now();
        sky_time slice = until - SKY_MS(50) < now ? until : now + SKY_MS(50);
        sky_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_flush(cache->handle, slice, &dropped);
        Py_END_ALLOW_THREADS;
        cache_leave(cache);
        if (status == SKY_OK || dropped)
            return status == SKY_OK || status == SKY_E_DEADLINE
                       ? PyLong_FromUnsignedLongLong(dropped)
                       : raise_status(status, "%llu writes were dropped",
                                      (unsigned long long)dropped);
        if (status != SKY_E_DEADLINE || slice == until)
            return raise_status(status, "flush");
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

static PyObject *cache_name_key(PyObject *self, PyObject *name) {
    sky_item item;
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "name_key: a str is wanted");
        return NULL;
    }
    if (key_parse((cache_object *)self, name, &item) < 0)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)item.key.bytes, SKY_KEY_BYTES);
}

#define WITH_WORDS(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef cache_methods[] = {
    {"submit", WITH_WORDS(cache_submit), METH_VARARGS | METH_KEYWORDS, "Start a batch."},
    {"run", WITH_WORDS(cache_run), METH_VARARGS | METH_KEYWORDS,
     "Start a batch, wait, raise what failed."},
    {"read", WITH_WORDS(cache_read), METH_VARARGS | METH_KEYWORDS,
     "A payload as new bytes; None: it is not there."},
    {"flush", cache_flush, METH_VARARGS, "Wait until farther tiers have what was put."},
    {"name_key", cache_name_key, METH_O, "The 32 bytes under which a name is stored."},
    {"close", cache_close, METH_NOARGS, "Write out what is queued and close; twice is fine."},
    {"entries", cache_list, METH_NOARGS, "Every entry of every tier, as tuples."},
    {"tiers", cache_stat, METH_NOARGS, "What each tier is and how it is, as tuples."},
    {"samples", cache_metrics, METH_NOARGS, "Every number, as tuples."},
    {"prometheus", cache_prometheus, METH_NOARGS, "Every number as Prometheus's text."},
    {"check", cache_verify, METH_NOARGS, "Read and check every byte of every tier."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef cache_fields[] = {{"closed", cache_closed, NULL, "Is it closed?", NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot cache_slots[] = {{Py_tp_new, cache_new},
                                    {Py_tp_methods, cache_methods},
                                    {Py_tp_getset, cache_fields},
                                    {Py_tp_dealloc, cache_dealloc},
                                    {Py_tp_doc, "A hierarchy of tiers."},
                                    {0, NULL}};
static PyType_Spec cache_spec = {.name = "skymem._core.Cache",
                                 .basicsize = sizeof(cache_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 .slots = cache_slots};

int add_cache(PyObject *module) {
    cache_type = (PyTypeObject *)PyType_FromSpec(&cache_spec);
    return cache_type ? PyModule_AddType(module, cache_type) : -1;
}
