/* Tiers whose store is written in Python: skymem.register_tier("dict", Store).
 *
 * The registration's context is the Python object that makes a store of a URL. A store's methods
 * are called on threads of the library, which take the GIL for the time of a call. What a store
 * raises becomes a status (skymem/tiers.py says which); what is not meant for that is printed too,
 * by sys.unraisablehook. */
#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool core_gone;
_Thread_local int core_in_store;

static PyGILState_STATE enter_python(void) {
    core_in_store++;
    return PyGILState_Ensure();
}

static void leave_python(PyGILState_STATE gil) {
    PyGILState_Release(gil);
    core_in_store--;
}

/* ---- exceptions as statuses ---- */

/* A number of an exception; 0: it has none. */
static long number_of(PyObject *value, const char *name) {
    PyObject *number = PyObject_GetAttrString(value, name);
    long out = number ? PyLong_AsLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return out;
}

/* Of an exception of ours. The class itself, and one that a store derives from it, have none that
 * says what failed. */
static sky_status status_of_error(PyObject *value) {
    long status = number_of(value, "status");
    return status == SKY_MISS || (status < 0 && status > INT16_MIN) ? (sky_status)status : SKY_E_IO;
}

/* Take the exception away; its words go to *error, when that is wanted. */
static sky_status take_exception(PyObject *store, sky_error *error) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    PyObject *errors = PyImport_ImportModule("skymem.errors");
    PyObject *ours = errors ? PyObject_GetAttrString(errors, "Error") : NULL;
    sky_status status = SKY_E_IO;
    bool known = true, interrupted = false;
    if (ours && PyErr_GivenExceptionMatches(value, ours))
        status = status_of_error(value);
    else if (PyErr_GivenExceptionMatches(value, PyExc_KeyError))
        status = SKY_MISS;
    else if (PyErr_GivenExceptionMatches(value, PyExc_PermissionError))
        status = SKY_E_DENIED;
    else if (PyErr_GivenExceptionMatches(value, PyExc_MemoryError))
        status = SKY_E_NOMEM;
    else if (PyErr_GivenExceptionMatches(value, PyExc_OSError))
        status = number_of(value, "errno") == ENOSPC ? SKY_E_FULL : SKY_E_IO;
    else if (PyErr_GivenExceptionMatches(value, PyExc_KeyboardInterrupt))
        interrupted = true;
    else
        known = false;
    Py_XDECREF(ours);
    Py_XDECREF(errors);
    PyErr_Clear();
    PyObject *words = error ? PyObject_Str(value) : NULL;
    const char *text = words ? PyUnicode_AsUTF8AndSize(words, NULL) : NULL;
    if (error)
        (void)PyOS_snprintf(error->text, sizeof error->text, "%s", text ? text : "it does not say");
    Py_XDECREF(words);
    PyErr_Clear();
    if (known || error) {
        Py_XDECREF(kind);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(kind, value, trace);
        PyErr_WriteUnraisable(store);
    }
    if (interrupted)
        PyErr_SetInterrupt(); /* for who called the library; str() before would hear it */
    return status;
}

static sky_status finished(PyObject *store, PyObject *result) {
    sky_status status = result ? SKY_OK : take_exception(store, NULL);
    Py_XDECREF(result);
    return status;
}

/* ---- what the library calls ---- */

static sky_status store_open(void *factory, const char *where, void **self, sky_error *error) {
    if (core_gone)
        return SKY_E_IO;
    PyGILState_STATE gil = enter_python();
    PyObject *store = PyObject_CallFunction(factory, "s", where);
    sky_status status = store ? SKY_OK : take_exception(NULL, error);
    if (status == SKY_OK)
        *self = store;
    leave_python(gil);
    return status == SKY_MISS || status < 0 || status == SKY_OK ? status : SKY_E_IO;
}

/* (piece, size of the whole), or None */
static sky_status take_piece(PyObject *result, void *data, uint64_t bytes, uint64_t *value_bytes) {
    PyObject *object;
    unsigned long long whole;
    view v;
    if (result == Py_None)
        return SKY_MISS;
    if (!PyTuple_Check(result))
        PyErr_SetString(PyExc_TypeError, "read gives (bytes, size of the whole), or None");
    if (PyErr_Occurred() ||
        !PyArg_ParseTuple(result, "OK;read gives (bytes, size of the whole)", &object, &whole) ||
        view_open_whole(object, false, "read", &v) < 0)
        return SKY_E_IO;
    memcpy(data, v.data, v.bytes < bytes ? v.bytes : bytes);
    *value_bytes = whole;
    bool enough = v.bytes >= bytes || v.bytes >= whole;
    view_release(&v);
    return enough ? SKY_OK : SKY_E_CORRUPT; /* less than was asked for, and than there is */
}

static sky_status store_read(void *self, const sky_key *key, uint64_t offset, void *data,
                             uint64_t bytes, uint64_t *value_bytes) {
    if (core_gone)
        return SKY_E_IO;
    PyGILState_STATE gil = enter_python();
    PyObject *result = PyObject_CallMethod(self, "read", "y#KK", (const char *)key->bytes,
                                           (Py_ssize_t)SKY_KEY_BYTES, (unsigned long long)offset,
                                           (unsigned long long)bytes);
    sky_status status = result ? take_piece(result, data, bytes, value_bytes) : SKY_E_IO;
    if (PyErr_Occurred())
        status = take_exception(self, NULL);
    Py_XDECREF(result);
    leave_python(gil);
    return status;
}

static sky_status store_write(void *self, const sky_key *key, const void *value, uint64_t bytes,
                              bool durable) {
    if (core_gone)
        return SKY_E_IO;
    PyGILState_STATE gil = enter_python();
    PyObject *result = PyObject_CallMethod(self, "write", "y#y#O", (const char *)key->bytes,
                                           (Py_ssize_t)SKY_KEY_BYTES, (const char *)value,
                                           (Py_ssize_t)bytes, durable ? Py_True : Py_False);
    sky_status status = finished(self, result);
    leave_python(gil);
    return status == SKY_MISS ? SKY_E_IO : status;
}

static sky_status store_remove(void *self, const sky_key *key) {
    if (core_gone)
        return SKY_E_IO;
    PyGILState_STATE gil = enter_python();
    PyObject *result = PyObject_CallMethod(self, "remove", "y#", (const char *)key->bytes,
                                           (Py_ssize_t)SKY_KEY_BYTES);
    int there = result ? PyObject_IsTrue(result) : -1;
    Py_XDECREF(result);
    sky_status status = there < 0 ? take_exception(self, NULL) : there ? SKY_OK : SKY_MISS;
    leave_python(gil);
    return status;
}

/* All keys first: `each` may call the library, which may call the store. */
static sky_status store_list(void *self, sky_tier_key_fn each, void *context) {
    if (core_gone)
        return SKY_E_IO;
    PyGILState_STATE gil = enter_python();
    PyObject *result = PyObject_CallMethod(self, "keys", NULL);
    PyObject *keys = result ? PySequence_Tuple(result) : NULL;
    Py_ssize_t count = keys ? PyTuple_Size(keys) : 0;
    sky_key *copies = calloc((size_t)count + 1, sizeof *copies);
    for (Py_ssize_t i = 0; copies && i < count && !PyErr_Occurred(); i++)
        (void)block_key_parse(PyTuple_GetItem(keys, i), "keys", &copies[i]);
    sky_status status = PyErr_Occurred() ? take_exception(self, NULL)
                        : copies         ? SKY_OK
                                         : SKY_E_NOMEM;
    Py_XDECREF(keys);
    Py_XDECREF(result);
    leave_python(gil);
    for (Py_ssize_t i = 0; status == SKY_OK && i < count && each(context, &copies[i]); i++)
        continue;
    free(copies);
    return status == SKY_MISS ? SKY_E_IO : status;
}

static sky_status store_usage(void *self, uint64_t *entries, uint64_t *bytes, uint64_t *bytes_max) {
    unsigned long long counts[3];
    if (core_gone)
        return SKY_E_IO;
    PyGILState_STATE gil = enter_python();
    PyObject *result = PyObject_CallMethod(self, "usage", NULL);
    bool right = result && PyTuple_Check(result) &&
                 PyArg_ParseTuple(result, "KKK;usage gives (values, bytes, most bytes)", &counts[0],
                                  &counts[1], &counts[2]);
    sky_status status = right ? SKY_OK : SKY_E_IO;
    if (right) {
        *entries = counts[0];
        *bytes = counts[1];
        *bytes_max = counts[2];
    } else {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
            PyErr_SetInterrupt(); /* for who called the library */
        PyErr_Clear();            /* it does not count, and that is fine */
    }
    Py_XDECREF(result);
    leave_python(gil);
    return status;
}

static void store_close(void *self) {
    if (core_gone)
        return;
    PyGILState_STATE gil = enter_python();
    if (PyObject_HasAttrString(self, "close"))
        (void)finished(self, PyObject_CallMethod(self, "close", NULL));
    Py_DECREF((PyObject *)self);
    leave_python(gil);
}

/* ---- registering ---- */

static PyObject *register_tier(PyObject *module, PyObject *args) {
    (void)module;
    const char *scheme;
    PyObject *factory;
    uint32_t threads;
    int lists, counts, is_volatile, remote;
    if (!PyArg_ParseTuple(args, "sOO&pppp", &scheme, &factory, read_u32, &threads, &lists, &counts,
                          &is_volatile, &remote))
        return NULL;
    uint32_t traits = (is_volatile ? SKY_TIER_VOLATILE : 0u) | (remote ? SKY_TIER_REMOTE : 0u);
    sky_tier_driver driver = {.struct_bytes = sizeof driver,
                              .threads = threads,
                              .traits = traits,
                              .open_with = store_open,
                              .context = factory,
                              .read = store_read,
                              .write = store_write,
                              .remove = store_remove,
                              .list = lists ? store_list : NULL,
                              .usage = counts ? store_usage : NULL,
                              .close = store_close};
    sky_status status = sky_tier_register(scheme, &driver);
    if (status == SKY_E_FULL)
        return raise_status(status, "%d schemes are registered", SKY_TIER_DRIVERS_MAX);
    if (status != SKY_OK)
        return raise_status(
            status, "the scheme %s is none or is taken, or its threads are too many", scheme);
    Py_INCREF(factory); /* until the process ends, as the scheme is */
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"register_tier", register_tier, METH_VARARGS,
     "(scheme, factory, threads, lists, counts, volatile, remote): a store as a tier."},
    {NULL, NULL, 0, NULL}};

int add_driver(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
