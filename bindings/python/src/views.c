/* Memory of Python objects without copies: the buffer protocol (bytes, bytearray, memoryview,
 * numpy) and DLPack (torch and others), checked before anything is read or written there.
 *
 * Surprises: an array of Python objects has a buffer too, of pointers. Writing there would crash
 * the interpreter, so any format with an 'O' is refused. ctypes gives no strides, although they are
 * asked for: its arrays have no gaps. */
#include "core.h"

#include <string.h>

/* ---- the buffer protocol ---- */

/* Is an element a reference? Names of members stand between colons. */
static bool format_has_objects(const char *format) {
    bool name = false;
    for (; format && *format; format++) {
        if (*format == ':')
            name = !name;
        else if (*format == 'O' && !name)
            return true;
    }
    return false;
}

static char format_kind(const char *format) {
    const uint16_t one = 1;
    bool is_little = *(const uint8_t *)&one == 1;
    char order = format ? *format : '\0', last = order ? format[strlen(format) - 1] : 'B';
    if (order == '<' ? !is_little : (order == '>' || order == '!') && is_little)
        return 'x';
    return last == 'e' || last == 'f' || last == 'd' ? 'f' : '?';
}

/* Say what to do rather than what failed. */
static int refuse_buffer(const char *what, PyObject *object, bool writable) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    Py_buffer probe;
    bool readable = PyObject_GetBuffer(object, &probe, PyBUF_STRIDES) == 0;
    bool read_only = readable && probe.readonly;
    if (readable)
        PyBuffer_Release(&probe);
    else
        PyErr_Clear();
    if (writable && read_only)
        PyErr_Format(PyExc_BufferError,
                     "%s: this memory is read-only; pass a bytearray or a writable array", what);
    else
        PyErr_Format(PyExc_BufferError,
                     "%s: the array does not show its memory (%S); pass an open one, or "
                     "a.view(numpy.uint8) of it",
                     what, value ? value : Py_None);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return -1;
}

static int open_buffer(PyObject *object, bool writable, const char *what, view *out) {
    int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &out->buffer, flags) < 0)
        return refuse_buffer(what, object, writable);
    const Py_buffer *b = &out->buffer;
    if (format_has_objects(b->format) || b->ndim > VIEW_DIMS_MAX) {
        PyErr_Format(PyExc_TypeError,
                     b->ndim > VIEW_DIMS_MAX
                         ? "%s: an array of more than 5 dimensions; pass a.reshape(-1) of it"
                         : "%s: an array of Python objects has no bytes to store; give it a dtype "
                           "of numbers",
                     what);
        PyBuffer_Release(&out->buffer);
        out->buffer.obj = NULL;
        return -1;
    }
    out->data = b->buf;
    out->bytes = (size_t)b->len;
    out->dims = b->ndim;
    out->element_bytes = (size_t)b->itemsize;
    out->kind = format_kind(b->format);
    out->contiguous = PyBuffer_IsContiguous(b, 'C');
    Py_ssize_t packed = b->itemsize;
    for (int d = b->ndim; d-- > 0;) {
        out->shape[d] = b->shape[d];
        out->strides[d] = b->strides ? b->strides[d] : packed;
        packed *= b->shape[d];
    }
    return 0;
}

/* ---- DLPack, as its ABI has it ---- */

typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t dims;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } element;
    int64_t *shape;
    int64_t *strides; /* of elements; NULL: without gaps */
    uint64_t byte_offset;
} dl_tensor;

typedef struct {
    uint32_t major, minor;
    void *context;
    void *deleter;
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11, DL_FLOAT = 2, DL_BFLOAT = 4 };
#define DL_READ_ONLY 1u
#define ADDRESSES    ((int64_t)1 << 56) /* more bytes than a process has */

static PyObject *dlpack_capsule(PyObject *object) {
    PyObject *call = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = call ? PyTuple_New(0) : NULL;
    PyObject *wanted = none ? Py_BuildValue("{s:(ii)}", "max_version", 1, 0) : NULL;
    PyObject *capsule = wanted ? PyObject_Call(call, none, wanted) : NULL;
    if (!capsule && wanted && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear(); /* it knows no versions */
        capsule = PyObject_CallNoArgs(call);
    }
    Py_XDECREF(call);
    Py_XDECREF(none);
    Py_XDECREF(wanted);
    return capsule;
}

/* Nothing when the capsule is none, or its memory may not be written. */
static const dl_tensor *dlpack_tensor(PyObject *capsule, bool writable, const char *what) {
    if (PyCapsule_IsValid(capsule, "dltensor"))
        return PyCapsule_GetPointer(capsule, "dltensor");
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        PyErr_Format(PyExc_TypeError, "%s: __dlpack__ returned no tensor", what);
        return NULL;
    }
    const dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (versioned->major != 1 || (writable && versioned->flags & DL_READ_ONLY)) {
        PyErr_Format(PyExc_BufferError, "%s: this tensor is read-only; pass a copy of it", what);
        return NULL;
    }
    return &versioned->tensor;
}

static int read_tensor(const dl_tensor *t, const char *what, view *out) {
    int device = t->device.type;
    if (device != DL_CPU && device != DL_CUDA_HOST && device != DL_ROCM_HOST) {
        PyErr_Format(PyExc_BufferError, "%s: the tensor is on a device; pass t.cpu()", what);
        return -1;
    }
    size_t bits = (size_t)t->element.bits * t->element.lanes;
    if (t->dims < 0 || t->dims > VIEW_DIMS_MAX || bits % 8 || (t->dims && !t->shape)) {
        PyErr_Format(PyExc_TypeError,
                     "%s: a tensor of more than 5 dimensions, or of parts of bytes; "
                     "pass t.reshape(-1)",
                     what);
        return -1;
    }
    out->data = (uint8_t *)t->data + t->byte_offset;
    out->dims = t->dims;
    out->element_bytes = bits / 8;
    out->kind = t->element.code == DL_FLOAT ? 'f' : t->element.code == DL_BFLOAT ? 'b' : '?';
    out->contiguous = true;
    int64_t packed = (int64_t)out->element_bytes;
    for (int d = t->dims - 1; d >= 0; d--) {
        out->shape[d] = t->shape[d];
        out->strides[d] = t->strides ? t->strides[d] * (int64_t)out->element_bytes : packed;
        if (t->shape[d] > 1 && out->strides[d] != packed)
            out->contiguous = false;
        if (t->shape[d] < 0 || __builtin_mul_overflow(packed, t->shape[d], &packed) ||
            packed > ADDRESSES) {
            PyErr_Format(PyExc_ValueError, "%s: the tensor says a shape that no tensor has", what);
            return -1;
        }
    }
    out->bytes = (size_t)packed;
    return 0;
}

static int open_dlpack(PyObject *object, bool writable, const char *what, view *out) {
    out->capsule = dlpack_capsule(object);
    const dl_tensor *tensor = out->capsule ? dlpack_tensor(out->capsule, writable, what) : NULL;
    if (tensor && read_tensor(tensor, what, out) == 0)
        return 0;
    Py_CLEAR(out->capsule);
    return -1;
}

/* ---- both ---- */

int view_open(PyObject *object, bool writable, const char *what, view *out) {
    memset(out, 0, sizeof *out);
    int status = -1;
    if (PyObject_CheckBuffer(object))
        status = open_buffer(object, writable, what, out);
    else if (PyObject_HasAttrString(object, "__dlpack__"))
        status = open_dlpack(object, writable, what, out);
    else
        PyErr_Format(PyExc_TypeError,
                     "%s: bytes, a memoryview, a numpy array or a tensor is wanted, not %R", what,
                     (PyObject *)Py_TYPE(object));
    if (status < 0 || out->data || !out->bytes)
        return status;
    PyErr_Format(PyExc_BufferError,
                 "%s: this tensor has no memory; pass a real one, such as t.clone()", what);
    view_release(out);
    return -1;
}

int view_open_whole(PyObject *object, bool writable, const char *what, view *out) {
    if (view_open(object, writable, what, out) < 0)
        return -1;
    if (out->contiguous)
        return 0;
    PyErr_Format(PyExc_BufferError,
                 writable ? "%s: the array has gaps in memory; pass one without, and copy from it"
                          : "%s: the array has gaps in memory; pass a contiguous one, such as "
                            "numpy.ascontiguousarray(a) or t.contiguous()",
                 what);
    view_release(out);
    return -1;
}

void view_release(view *v) {
    if (v->buffer.obj)
        PyBuffer_Release(&v->buffer);
    Py_CLEAR(v->capsule); /* its destructor gives the tensor back */
}
