/* Lease: a payload where memory keeps it, read-only, without a copy.
 *
 * It has the buffer protocol, so memoryviews and arrays can be made from it. The library's lease is
 * returned when end() was called and the last of them is gone: what a view shows never changes. */
#include "core.h"

typedef struct {
    PyObject_HEAD cache_object *cache;
    sky_span span;
    sky_lease lease;
    int exports;
    bool ended;
} lease_object;

static void lease_return(lease_object *lease) {
    if (!lease->lease.id || lease->exports)
        return;
    if (lease->cache->handle)
        (void)sky_release(lease->cache->handle, lease->lease);
    lease->lease.id = 0;
    lease->cache->leases--;
}

/* Of an item whose lease cache->leases counts already. */
PyObject *lease_new(cache_object *cache, const sky_item *item) {
    lease_object *lease = PyObject_GC_New(lease_object, lease_type);
    if (!lease)
        return NULL;
    Py_INCREF(cache);
    lease->cache = cache;
    lease->span = item->view;
    lease->lease = item->lease;
    lease->exports = 0;
    lease->ended = false;
    PyObject_GC_Track((PyObject *)lease);
    return (PyObject *)lease;
}

static int lease_show(PyObject *self, Py_buffer *buffer, int flags) {
    lease_object *lease = (lease_object *)self;
    if (lease->ended) {
        buffer->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the lease has ended; take another one");
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, lease->span.data, (Py_ssize_t)lease->span.bytes, 1, flags))
        return -1;
    lease->exports++;
    return 0;
}

static void lease_hide(PyObject *self, Py_buffer *buffer) {
    (void)buffer;
    lease_object *lease = (lease_object *)self;
    lease->exports--;
    if (lease->ended)
        lease_return(lease);
}

static PyObject *lease_end(PyObject *self, PyObject *unused) {
    (void)unused;
    ((lease_object *)self)->ended = true;
    lease_return((lease_object *)self);
    Py_RETURN_NONE;
}

static int lease_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((lease_object *)self)->cache);
    return 0;
}

static void lease_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    lease_object *lease = (lease_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    lease_return(lease);
    Py_DECREF(lease->cache);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef lease_methods[] = {
    {"end", lease_end, METH_NOARGS, "No more views; it ends with the last that there is."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot lease_slots[] = {{Py_tp_methods, lease_methods},
                                    {Py_tp_dealloc, lease_dealloc},
                                    {Py_tp_traverse, lease_traverse},
                                    {Py_bf_getbuffer, lease_show},
                                    {Py_bf_releasebuffer, lease_hide},
                                    {Py_tp_doc, "A payload where memory keeps it."},
                                    {0, NULL}};
static PyType_Spec lease_spec = {.name = "skymem._core.Lease",
                                 .basicsize = sizeof(lease_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                          Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = lease_slots};

int add_lease(PyObject *module) {
    lease_type = (PyTypeObject *)PyType_FromSpec(&lease_spec);
    return lease_type ? PyModule_AddType(module, lease_type) : -1;
}
