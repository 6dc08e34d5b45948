/* The module: what it is made of, its exceptions, and the end of the interpreter. */
#include "core.h"

#include <skymem-sky/skies.h>
#include <stdarg.h>

PyTypeObject *cache_type, *batch_type, *lease_type, *profile_type;
bool core_leaving;

/* skymem.errors.make(status, name, sentence, where) makes the exception. */
PyObject *raise_status(sky_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyObject *where = PyUnicode_FromFormatV(format, args);
    va_end(args);
    PyObject *errors = where ? PyImport_ImportModule("skymem.errors") : NULL;
    PyObject *exception = errors ? PyObject_CallMethod(errors, "make", "issO", (int)status,
                                                       sky_status_name(status),
                                                       sky_status_text(status), where)
                                 : NULL;
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(errors);
    Py_XDECREF(where);
    return NULL;
}

/* The end of another interpreter of the process is not the end: the library goes on. */
static bool main_interpreter(void) {
    return PyInterpreterState_GetID(PyInterpreterState_Get()) == 0;
}

static PyObject *leave(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    core_leaving = core_leaving || main_interpreter();
    Py_RETURN_NONE;
}

static PyObject *gone(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    core_gone = core_gone || main_interpreter();
    Py_RETURN_NONE;
}

static PyObject *status_list(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return Py_BuildValue("["
#define STATUS_ROW(name, value, sentence) "(sis)"
                         SKY_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
                             "]"
#define STATUS_ROW(name, value, sentence) , #name, value, sentence
                         SKY_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
    );
}

static PyMethodDef module_functions[] = {
    {"leave", leave, METH_NOARGS, "The interpreter is about to end: calls that wait give up."},
    {"gone", gone, METH_NOARGS, "Nothing of the library calls Python from now on."},
    {"status_list", status_list, METH_NOARGS, "(name, value, sentence) of every status."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "skymem._core",
                                        "The library as Python objects.",
                                        -1,
                                        module_functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

static int add_all(PyObject *module) {
    static int (*const add[])(PyObject *) = {add_cache, add_batch,   add_lease,  add_blob,
                                             add_keys,  add_manager, add_driver, add_profile,
                                             add_codec, add_decoder};
    for (size_t i = 0; i < sizeof add / sizeof *add; i++) {
        if (add[i](module) < 0)
            return -1;
    }
    PyObject *levels = PyTuple_New(SKY_LEVEL_COUNT);
    for (int i = 0; levels && i < SKY_LEVEL_COUNT; i++)
        PyTuple_SetItem(levels, i, PyUnicode_FromString(sky_level_name((sky_level)i)));
    if (!levels || PyModule_AddObject(module, "levels", levels) < 0)
        return -1;
    PyObject *bits = PyTuple_New(SKY_LEVEL_COUNT);
    for (int i = 0; bits && i < SKY_LEVEL_COUNT; i++)
        PyTuple_SetItem(bits, i, PyFloat_FromDouble(sky_level_bits_typical((sky_level)i)));
    if (!bits || PyModule_AddObject(module, "level_bits", bits) < 0)
        return -1;
    PyObject *bounds = PyTuple_New(SKY_HISTOGRAM_BUCKETS - 1);
    for (int i = 0; bounds && i < SKY_HISTOGRAM_BUCKETS - 1; i++)
        PyTuple_SetItem(bounds, i, PyLong_FromUnsignedLongLong(sky_histogram_bound_ns((size_t)i)));
    if (!bounds || PyModule_AddObject(module, "bucket_bounds_ns", bounds) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", sky_version()) < 0 ? -1 : 0;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    if (sky_version_number() / 1000 != SKY_VERSION_NUMBER / 1000) {
        PyErr_Format(PyExc_ImportError, "skymem %s was built with headers of another version, %s",
                     sky_version(), SKY_VERSION);
        return NULL;
    }
    if (sky_skies_register() != SKY_OK) {
        PyErr_SetString(PyExc_ImportError, "libskymem-sky is of another version than libskymem");
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module && add_all(module) < 0)
        Py_CLEAR(module);
    return module;
}
