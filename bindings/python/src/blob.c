/* Blob, Block: blocks in memory of this program's own, shared by the processes of a host without a
 * copy (skymem/blob.h).
 *
 *   Blob ──get──► Block ──view──► BlockBuffer ──► memoryview, arrays
 *        ──map──► Mapping ──view──╯
 *
 * What is used keeps what it lies in: a Blob is not closed while calls on it are under way, blocks
 * of it are open or its memory is shown; a Block or Mapping is released when end() was called and
 * its last buffer and call are gone. All calls but those that only look let the GIL go. */
#include "core.h"

#include <string.h>

#define SLICE_NS     SKY_MS(50)
#define SPANS_MAX    SKY_BLOCK_BUFFERS_MAX /* of one read */
#define LAYOUT_WORDS "a layout is (key, offsets, sizes, shape, layer_axis)"

typedef struct {
    PyObject_HEAD sky_blob *handle; /* NULL: closed */
    size_t bytes;                   /* of its region */
    bool writable;                  /* it may be written to through this object */
    int calls;                      /* under way without the GIL */
    int blocks;                     /* open */
    int exports;                    /* of its memory */
} blob_object;

/* A Block or a Mapping. */
typedef struct {
    PyObject_HEAD blob_object *blob;
    sky_block *handle;    /* NULL: released, or a Mapping */
    sky_mapping *mapping; /* NULL: released, or a Block */
    int uses;             /* buffers, and calls without the GIL */
    bool ended;
} block_object;

typedef struct {
    PyObject_HEAD block_object *block;
    sky_span span;
} block_buffer_object;

static PyTypeObject *blob_type, *block_type, *mapping_type, *block_buffer_type;

static bool blob_enter(blob_object *blob) {
    if (!blob->handle) {
        PyErr_SetString(PyExc_ValueError, "the blob is closed; open another one");
        return false;
    }
    blob->calls++;
    return true;
}

static void blob_leave(blob_object *blob) {
    blob->calls--;
}

/* False in a child of fork(), where what is open belongs to the parent. */
static bool blob_is_ours(blob_object *blob) {
    return sky_blob_take(blob->handle, 0, NULL) != SKY_E_FORKED;
}

/* ---- open, close ---- */

static PyObject *blob_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"url", "size", "fd", NULL};
    const char *url;
    PyObject *size = NULL;
    int fd = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|Oi", names, &url, &size, &fd))
        return NULL;
    sky_blob_options o = {.struct_bytes = sizeof o, .fd = fd};
    o.bytes = size ? PyLong_AsUnsignedLongLong(size) : 0;
    if (PyErr_Occurred())
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    blob_object *self = (blob_object *)allocate(type, 0);
    if (!self)
        return NULL;
    sky_error error = {0};
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_blob_open(url, &o, &self->handle, &error);
    Py_END_ALLOW_THREADS;
    if (status != SKY_OK) {
        raise_status(status, "%s", error.text);
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    self->bytes = (size_t)o.bytes;
    self->writable = fd <= 0; /* who brought it has mapped it, and may have sealed it before */
    return (PyObject *)self;
}

static PyObject *blob_close(PyObject *self, PyObject *unused) {
    (void)unused;
    blob_object *blob = (blob_object *)self;
    const char *what = blob->calls     ? "calls are under way on other threads; wait for them"
                       : blob->blocks  ? "blocks, or arrays made from them, are in use; end them"
                       : blob->exports ? "arrays of its memory are in use; let go of them"
                                       : NULL;
    if (blob->handle && what && blob_is_ours(blob))
        return raise_status(SKY_E_BUSY, "close: %d %s first",
                            blob->calls + blob->blocks + blob->exports, what);
    sky_blob *handle = blob->handle;
    blob->handle = NULL;
    Py_BEGIN_ALLOW_THREADS;
    sky_blob_close(handle);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static void blob_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    Py_XDECREF(blob_close(self, NULL)); /* nothing refers to it: no call, no block */
    PyErr_Restore(kind, value, trace);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *blob_closed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(!((blob_object *)self)->handle);
}

/* ---- memory ---- */

static int blob_show(PyObject *self, Py_buffer *buffer, int flags) {
    blob_object *blob = (blob_object *)self;
    void *memory = blob->handle ? sky_blob_memory(blob->handle) : NULL;
    if (!memory) {
        buffer->obj = NULL;
        PyErr_SetString(PyExc_BufferError, blob->handle ? "the blob has no memory here: open one "
                                                          "with a size in this process"
                                                        : "the blob is closed; open another one");
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, memory, (Py_ssize_t)blob->bytes, !blob->writable, flags))
        return -1;
    blob->exports++;
    return 0;
}

static void blob_hide(PyObject *self, Py_buffer *buffer) {
    (void)buffer;
    ((blob_object *)self)->exports--;
}

static PyObject *blob_take(PyObject *self, PyObject *size) {
    blob_object *blob = (blob_object *)self;
    uint64_t offset = 0, bytes = PyLong_AsUnsignedLongLong(size);
    if (PyErr_Occurred() || !blob_enter(blob))
        return NULL;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_blob_take(blob->handle, bytes, &offset);
    Py_END_ALLOW_THREADS;
    blob_leave(blob);
    return status == SKY_OK ? PyLong_FromUnsignedLongLong(offset)
                            : raise_status(status, "take: %llu bytes of a region of %zu",
                                           (unsigned long long)bytes, blob->bytes);
}

static PyObject *blob_give(PyObject *self, PyObject *at) {
    blob_object *blob = (blob_object *)self;
    const uint64_t offset = PyLong_AsUnsignedLongLong(at);
    if (PyErr_Occurred() || !blob_enter(blob))
        return NULL;
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_blob_give(blob->handle, offset);
    Py_END_ALLOW_THREADS;
    blob_leave(blob);
    if (status != SKY_OK)
        return raise_status(status, "give: %llu was not taken", (unsigned long long)offset);
    Py_RETURN_NONE;
}

/* ---- layouts ---- */

/* Numbers of any sequence, for PyMem_Free. NULL with an exception */
static uint64_t *numbers_of(PyObject *object, const char *what, size_t *count) {
    PyObject *tuple = PySequence_Tuple(object);
    *count = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    if (tuple && (*count == 0 || *count > SKY_BLOCK_BUFFERS_MAX)) {
        PyErr_Format(PyExc_ValueError, "%s: a block has 1 to %u buffers, not %zu", what,
                     SKY_BLOCK_BUFFERS_MAX, *count);
        Py_CLEAR(tuple);
    }
    uint64_t *numbers = tuple ? PyMem_Calloc(*count, sizeof *numbers) : NULL;
    if (tuple && !numbers)
        PyErr_NoMemory();
    for (size_t i = 0; numbers && i < *count && !PyErr_Occurred(); i++) {
        PyObject *index = PyNumber_Index(PyTuple_GetItem(tuple, (Py_ssize_t)i));
        numbers[i] = index ? PyLong_AsUnsignedLongLong(index) : 0;
        Py_XDECREF(index);
    }
    Py_XDECREF(tuple);
    if (PyErr_Occurred()) {
        PyMem_Free(numbers);
        return NULL;
    }
    return numbers;
}

static void layout_free(sky_block_layout *l) {
    PyMem_Free((void *)(uintptr_t)l->offsets);
    PyMem_Free((void *)(uintptr_t)l->sizes);
}

/* Errors: -1 with an exception; freed in any case by layout_free, which takes zeros */
static int layout_parse(PyObject *object, sky_block_layout *out) {
    PyObject *key, *offsets, *sizes;
    size_t offset_count, size_count;
    if (!PyTuple_Check(object)) {
        PyErr_Format(PyExc_TypeError, LAYOUT_WORDS ", not %R", (PyObject *)Py_TYPE(object));
        return -1;
    }
    if (!PyArg_ParseTuple(object, "OOO(O&O&O&)O&;" LAYOUT_WORDS, &key, &offsets, &sizes, read_u32,
                          &out->shape[0], read_u32, &out->shape[1], read_u32, &out->shape[2],
                          read_u32, &out->layer_axis) ||
        block_key_parse(key, "key", &out->key) < 0 ||
        !(out->offsets = numbers_of(offsets, "offsets", &offset_count)) ||
        !(out->sizes = numbers_of(sizes, "sizes", &size_count)))
        return -1;
    uint64_t buffers = 1;
    for (int i = 0; i < 3 && buffers <= SKY_BLOCK_BUFFERS_MAX; i++)
        buffers *= out->shape[i];
    if (offset_count == size_count && size_count == buffers)
        return 0;
    PyErr_Format(PyExc_ValueError, "%zu offsets and %zu sizes for a shape of %u, %u, %u",
                 offset_count, size_count, out->shape[0], out->shape[1], out->shape[2]);
    return -1;
}

static PyObject *layout_tuple(const sky_block_layout *l) {
    const size_t buffers = (size_t)l->shape[0] * l->shape[1] * l->shape[2];
    PyObject *offsets = PyTuple_New((Py_ssize_t)buffers);
    PyObject *sizes = PyTuple_New((Py_ssize_t)buffers);
    for (size_t i = 0; offsets && sizes && i < buffers; i++) {
        PyTuple_SetItem(offsets, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(l->offsets[i]));
        PyTuple_SetItem(sizes, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(l->sizes[i]));
    }
    if (!offsets || !sizes || PyErr_Occurred()) {
        Py_XDECREF(offsets);
        Py_XDECREF(sizes);
        return NULL;
    }
    return Py_BuildValue("y#NN(III)I", (const char *)l->key.bytes, (Py_ssize_t)SKY_KEY_BYTES,
                         offsets, sizes, l->shape[0], l->shape[1], l->shape[2], l->layer_axis);
}

/* ---- put, remove, get ---- */

static PyObject *publish_layouts(blob_object *blob, const sky_block_layout *layouts, size_t count,
                                 sky_time until) {
    size_t done = 0;
    sky_status status;
    if (!blob_enter(blob))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_block_put(blob->handle, layouts, count, until, &done);
    Py_END_ALLOW_THREADS;
    blob_leave(blob);
    if (status != SKY_OK)
        return raise_status(status, "put: %zu of %zu blocks are published", done, count);
    Py_RETURN_NONE;
}

static PyObject *blob_publish(PyObject *self, PyObject *args) {
    PyObject *list, *seconds, *answer = NULL;
    sky_time until;
    if (!PyArg_ParseTuple(args, "OO", &list, &seconds) || time_in(seconds, &until) < 0)
        return NULL;
    PyObject *tuple = PySequence_Tuple(list);
    const size_t count = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    sky_block_layout *layouts = tuple ? PyMem_Calloc(count + 1, sizeof *layouts) : NULL;
    if (tuple && !layouts)
        PyErr_NoMemory();
    for (size_t i = 0; layouts && i < count && !PyErr_Occurred(); i++)
        (void)layout_parse(PyTuple_GetItem(tuple, (Py_ssize_t)i), &layouts[i]);
    if (!PyErr_Occurred())
        answer = publish_layouts((blob_object *)self, layouts, count, until);
    for (size_t i = 0; layouts && i < count; i++)
        layout_free(&layouts[i]);
    PyMem_Free(layouts);
    Py_XDECREF(tuple);
    return answer;
}

/* It waits for readers, so a slice at a time: Ctrl-C is noticed. */
static PyObject *blob_withdraw(PyObject *self, PyObject *args) {
    blob_object *blob = (blob_object *)self;
    PyObject *bytes, *seconds;
    sky_key key;
    sky_time until = SKY_TIME_NEVER;
    bool withdrawn = false;
    if (!PyArg_ParseTuple(args, "OO", &bytes, &seconds) ||
        block_key_parse(bytes, "key", &key) < 0 ||
        (seconds != Py_None && time_in(seconds, &until) < 0))
        return NULL;
    for (;;) {
        const sky_time now = sky_now(), slice = until - SLICE_NS < now ? until : now + SLICE_NS;
        sky_status status;
        if (!blob_enter(blob))
            return NULL;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_block_remove(blob->handle, &key, slice);
        Py_END_ALLOW_THREADS;
        blob_leave(blob);
        if (status == SKY_OK || status == SKY_MISS)
            return PyBool_FromLong(status == SKY_OK || withdrawn);
        if (status != SKY_E_DEADLINE || slice == until)
            return raise_status(status, "remove: somebody has it open, or the host is slow");
        withdrawn = true;
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

static block_object *block_new(blob_object *blob, PyTypeObject *type) {
    block_object *block = PyObject_New(block_object, type);
    if (!block)
        return NULL;
    Py_INCREF((PyObject *)blob);
    block->blob = blob;
    block->handle = NULL;
    block->mapping = NULL;
    block->uses = 0;
    block->ended = false;
    return block;
}

/* What came of an open; None: a miss. Takes the reference. */
static PyObject *block_or_none(block_object *block, sky_status status, const char *why) {
    if (status == SKY_OK)
        return (PyObject *)block;
    Py_DECREF((PyObject *)block);
    if (PyErr_Occurred())
        return NULL;
    if (status != SKY_MISS)
        return raise_status(status, "%s", why);
    Py_RETURN_NONE;
}

static PyObject *blob_open_block(PyObject *self, PyObject *args) {
    blob_object *blob = (blob_object *)self;
    PyObject *bytes, *seconds;
    sky_key key;
    sky_time until;
    if (!PyArg_ParseTuple(args, "OO", &bytes, &seconds) ||
        block_key_parse(bytes, "key", &key) < 0 || time_in(seconds, &until) < 0)
        return NULL;
    block_object *block = block_new(blob, block_type);
    if (!block)
        return NULL;
    sky_status status = SKY_MISS;
    if (blob_enter(blob)) {
        sky_block *handle = NULL;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_block_get(blob->handle, &key, until, &handle);
        Py_END_ALLOW_THREADS;
        block->handle = handle;
        blob->blocks += handle != NULL;
        blob_leave(blob);
    }
    return block_or_none(block, status, "get");
}

/* Errors: NULL with an exception; for PyMem_Free */
static sky_key *keys_of(PyObject *object, size_t *count) {
    PyObject *tuple = PySequence_Tuple(object);
    *count = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    sky_key *keys = tuple ? PyMem_Calloc(*count + 1, sizeof *keys) : NULL;
    if (tuple && !keys)
        PyErr_NoMemory();
    for (size_t i = 0; keys && i < *count && !PyErr_Occurred(); i++)
        (void)block_key_parse(PyTuple_GetItem(tuple, (Py_ssize_t)i), "keys", &keys[i]);
    Py_XDECREF(tuple);
    if (keys && PyErr_Occurred()) {
        PyMem_Free(keys);
        return NULL;
    }
    return keys;
}

static PyObject *blob_open_mapping(PyObject *self, PyObject *args) {
    blob_object *blob = (blob_object *)self;
    PyObject *list, *seconds;
    sky_time until;
    size_t count;
    if (!PyArg_ParseTuple(args, "OO", &list, &seconds) || time_in(seconds, &until) < 0)
        return NULL;
    sky_key *keys = keys_of(list, &count);
    block_object *block = keys ? block_new(blob, mapping_type) : NULL;
    sky_status status = SKY_MISS;
    sky_error error = {0};
    if (block && count > 0 && blob_enter(blob)) {
        sky_mapping *mapping = NULL;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_mapping_open(blob->handle, keys, count, until, &mapping, &error);
        Py_END_ALLOW_THREADS;
        block->mapping = mapping;
        blob->blocks += mapping != NULL;
        blob_leave(blob);
    }
    PyMem_Free(keys);
    return block ? block_or_none(block, status, error.text) : NULL;
}

/* ---- a block ---- */

/* Nobody uses it any more: it goes back to its host. */
static void block_return(block_object *block) {
    sky_block *handle = block->handle;
    sky_mapping *mapping = block->mapping;
    if ((!handle && !mapping) || block->uses)
        return;
    block->handle = NULL;
    block->mapping = NULL;
    Py_BEGIN_ALLOW_THREADS;
    sky_block_release(handle);
    sky_mapping_close(mapping);
    Py_END_ALLOW_THREADS;
    block->blob->blocks--;
}

static bool block_use(block_object *block) {
    if (block->ended) {
        PyErr_SetString(PyExc_ValueError, "the block has ended; get it again");
        return false;
    }
    block->uses++;
    return true;
}

static void block_unuse(block_object *block) {
    block->uses--;
    if (block->ended)
        block_return(block);
}

static PyObject *block_end(PyObject *self, PyObject *unused) {
    (void)unused;
    ((block_object *)self)->ended = true;
    block_return((block_object *)self);
    Py_RETURN_NONE;
}

static void block_dealloc(PyObject *self) {
    block_object *block = (block_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    block_return(block);
    Py_DECREF((PyObject *)block->blob);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *block_layout(PyObject *self, PyObject *unused) {
    (void)unused;
    block_object *block = (block_object *)self;
    if (!block_use(block))
        return NULL;
    PyObject *layout = layout_tuple(sky_block_describe(block->handle));
    block_unuse(block);
    return layout;
}

/* Errors: false, with an exception */
static bool view_buffer(const block_object *block, uint32_t layer, uint32_t kv, uint32_t buffer,
                        sky_span *out) {
    const sky_status status = block->mapping
                                  ? sky_mapping_view(block->mapping, layer, kv, buffer, out)
                                  : sky_block_view(block->handle, layer, kv, buffer, out);
    if (status == SKY_E_PARAM)
        PyErr_Format(PyExc_IndexError, "the block has no buffer of layer %u, %u, %u", layer, kv,
                     buffer);
    else if (status != SKY_OK)
        raise_status(status, "view");
    return status == SKY_OK;
}

static PyObject *block_view(PyObject *self, PyObject *args) {
    block_object *block = (block_object *)self;
    uint32_t layer, kv, buffer;
    if (!PyArg_ParseTuple(args, "O&O&O&", read_u32, &layer, read_u32, &kv, read_u32, &buffer) ||
        !block_use(block))
        return NULL;
    sky_span span;
    block_buffer_object *b = view_buffer(block, layer, kv, buffer, &span)
                                 ? PyObject_New(block_buffer_object, block_buffer_type)
                                 : NULL;
    if (!b) {
        block_unuse(block);
        return NULL;
    }
    Py_INCREF((PyObject *)block);
    b->block = block; /* and its use */
    b->span = span;
    PyObject *memory = PyMemoryView_FromObject((PyObject *)b);
    Py_DECREF((PyObject *)b);
    return memory;
}

/* Bytes of a layer, or of all. Errors: 0 with an exception */
static size_t layer_bytes(const block_object *block, uint32_t layer) {
    const sky_block_layout *l = sky_block_describe(block->handle);
    const uint32_t axis = l->layer_axis, kvs = l->shape[axis == 0 ? 1 : 0];
    const uint32_t buffers = l->shape[axis == 2 ? 1 : 2];
    const uint32_t first = layer == SKY_BLOCK_ALL ? 0 : layer;
    const uint32_t end = layer == SKY_BLOCK_ALL ? l->shape[axis] : layer + 1;
    size_t bytes = 0;
    sky_span span = {NULL, 0};
    for (uint32_t i = first; i < end; i++)
        for (uint32_t kv = 0; kv < kvs; kv++)
            for (uint32_t b = 0; b < buffers; b++, bytes += span.bytes)
                if (!view_buffer(block, i, kv, b, &span))
                    return 0;
    return bytes;
}

/* None: all layers. */
static int layer_parse(PyObject *object, void *out) {
    *(uint32_t *)out = SKY_BLOCK_ALL;
    if (object == Py_None || !read_u32(object, out))
        return object == Py_None;
    if (*(uint32_t *)out == SKY_BLOCK_ALL)
        PyErr_Format(PyExc_IndexError, "no block has a layer %u", SKY_BLOCK_ALL);
    return !PyErr_Occurred();
}

static sky_status read_block(block_object *block, uint32_t layer, const sky_span *spans,
                             uint32_t count) {
    sky_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_block_read(block->handle, layer, spans, count);
    Py_END_ALLOW_THREADS;
    return status;
}

static PyObject *block_read(PyObject *self, PyObject *object) {
    block_object *block = (block_object *)self;
    uint32_t layer;
    if (!layer_parse(object, &layer) || !block_use(block))
        return NULL;
    const size_t bytes = layer_bytes(block, layer);
    PyObject *data = bytes ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes) : NULL;
    if (data) {
        const sky_span span = {PyBytes_AsString(data), bytes};
        const sky_status status = read_block(block, layer, &span, 1);
        if (status != SKY_OK) {
            raise_status(status, "read");
            Py_CLEAR(data);
        }
    }
    block_unuse(block);
    return data;
}

/* Into buffers that follow each other: a tuple. */
static PyObject *block_read_into(PyObject *self, PyObject *args) {
    block_object *block = (block_object *)self;
    PyObject *targets;
    uint32_t layer;
    if (!PyArg_ParseTuple(args, "O&O!", layer_parse, &layer, &PyTuple_Type, &targets))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(targets);
    if (count == 0 || count > SPANS_MAX)
        return PyErr_Format(PyExc_ValueError, "out: 1 to %u buffers are wanted, not %zd", SPANS_MAX,
                            count);
    view *views = PyMem_Calloc((size_t)count, sizeof *views);
    sky_span *spans = PyMem_Calloc((size_t)count, sizeof *spans);
    PyObject *answer = views && spans ? NULL : PyErr_NoMemory();
    Py_ssize_t opened = 0;
    for (; views && spans && opened < count; opened++) {
        if (view_open_whole(PyTuple_GetItem(targets, opened), true, "out", &views[opened]) < 0)
            break;
        spans[opened] = (sky_span){views[opened].data, views[opened].bytes};
    }
    if (!PyErr_Occurred() && block_use(block)) {
        const size_t bytes = layer_bytes(block, layer);
        const sky_status status = bytes ? read_block(block, layer, spans, (uint32_t)count) : SKY_OK;
        if (status != SKY_OK)
            raise_status(status, "read: %zu bytes are wanted", bytes);
        else if (bytes)
            answer = PyLong_FromSize_t(bytes);
        block_unuse(block);
    }
    while (opened > 0)
        view_release(&views[--opened]);
    PyMem_Free(views);
    PyMem_Free(spans);
    return answer;
}

static PyObject *block_check(PyObject *self, PyObject *object) {
    block_object *block = (block_object *)self;
    uint32_t layer;
    if (!layer_parse(object, &layer) || !block_use(block))
        return NULL;
    sky_status status = SKY_E_PARAM;
    if (layer_bytes(block, layer) > 0)
        status = read_block(block, layer, NULL, 0);
    block_unuse(block);
    if (PyErr_Occurred())
        return NULL;
    return status == SKY_OK || status == SKY_E_CORRUPT ? PyBool_FromLong(status == SKY_OK)
                                                       : raise_status(status, "check");
}

/* ---- blocks side by side ---- */

static PyObject *mapping_check(PyObject *self, PyObject *object) {
    block_object *block = (block_object *)self;
    uint32_t layer;
    if (!layer_parse(object, &layer) || !block_use(block))
        return NULL;
    const size_t count = sky_mapping_block_count(block->mapping);
    sky_status status = SKY_OK;
    Py_BEGIN_ALLOW_THREADS;
    for (size_t i = 0; i < count && status == SKY_OK; i++)
        status = sky_block_read(sky_mapping_block(block->mapping, i), layer, NULL, 0);
    Py_END_ALLOW_THREADS;
    block_unuse(block);
    if (status == SKY_OK || status == SKY_E_CORRUPT)
        return PyBool_FromLong(status == SKY_OK);
    if (status == SKY_E_PARAM)
        return PyErr_Format(PyExc_IndexError, "the blocks have no layer %u", layer);
    return raise_status(status, "check");
}

static PyObject *mapping_count(PyObject *self, PyObject *unused) {
    (void)unused;
    block_object *block = (block_object *)self;
    if (!block_use(block))
        return NULL;
    const size_t count = sky_mapping_block_count(block->mapping);
    block_unuse(block);
    return PyLong_FromSize_t(count);
}

/* ---- a buffer of a block ---- */

static int block_buffer_show(PyObject *self, Py_buffer *buffer, int flags) {
    const sky_span *span = &((block_buffer_object *)self)->span;
    return PyBuffer_FillInfo(buffer, self, span->data, (Py_ssize_t)span->bytes, 1, flags);
}

static void block_buffer_dealloc(PyObject *self) {
    block_object *block = ((block_buffer_object *)self)->block;
    PyTypeObject *type = Py_TYPE(self);
    block_unuse(block);
    Py_DECREF((PyObject *)block);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- types ---- */

static PyMethodDef blob_methods[] = {
    {"take", blob_take, METH_O, "Bytes of the region: their offset."},
    {"give", blob_give, METH_O, "Give back what take returned."},
    {"publish", blob_publish, METH_VARARGS, "Publish blocks."},
    {"open_block", blob_open_block, METH_VARARGS, "Open a block; None: it is not there."},
    {"open_mapping", blob_open_mapping, METH_VARARGS, "Map blocks side by side; None: no block."},
    {"withdraw", blob_withdraw, METH_VARARGS, "Withdraw a block; False: it was not published."},
    {"close", blob_close, METH_NOARGS, "Its blocks go; twice is fine."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef blob_fields[] = {{"closed", blob_closed, NULL, "Is it closed?", NULL},
                                    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot blob_slots[] = {{Py_tp_new, blob_new},
                                   {Py_tp_methods, blob_methods},
                                   {Py_tp_getset, blob_fields},
                                   {Py_tp_dealloc, blob_dealloc},
                                   {Py_bf_getbuffer, blob_show},
                                   {Py_bf_releasebuffer, blob_hide},
                                   {Py_tp_doc, "A connection to a host, and perhaps a region."},
                                   {0, NULL}};
static PyType_Spec blob_spec = {.name = "skymem._core.Blob",
                                .basicsize = sizeof(blob_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                .slots = blob_slots};

static PyMethodDef block_methods[] = {
    {"layout", block_layout, METH_NOARGS, "(key, offsets, sizes, shape, layer_axis)."},
    {"view", block_view, METH_VARARGS, "One buffer where it lies."},
    {"read", block_read, METH_O, "A layer, or None: all, as new bytes."},
    {"read_into", block_read_into, METH_VARARGS, "The same into buffers: how many bytes."},
    {"check", block_check, METH_O, "Are the bytes those that were published?"},
    {"end", block_end, METH_NOARGS, "No more views; it ends with the last that there is."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot block_slots[] = {{Py_tp_methods, block_methods},
                                    {Py_tp_dealloc, block_dealloc},
                                    {Py_tp_doc, "A block that is open."},
                                    {0, NULL}};
static PyType_Spec block_spec = {.name = "skymem._core.Block",
                                 .basicsize = sizeof(block_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = block_slots};

static PyMethodDef mapping_methods[] = {
    {"count", mapping_count, METH_NOARGS, "How many blocks: the leading ones of the keys."},
    {"view", block_view, METH_VARARGS, "One buffer of all blocks, one after the other."},
    {"check", mapping_check, METH_O, "Are the bytes those that were published?"},
    {"end", block_end, METH_NOARGS, "No more views; it ends with the last that there is."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot mapping_slots[] = {{Py_tp_methods, mapping_methods},
                                      {Py_tp_dealloc, block_dealloc},
                                      {Py_tp_doc, "Blocks side by side."},
                                      {0, NULL}};
static PyType_Spec mapping_spec = {.name = "skymem._core.Mapping",
                                   .basicsize = sizeof(block_object),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   .slots = mapping_slots};

static PyType_Slot block_buffer_slots[] = {{Py_tp_dealloc, block_buffer_dealloc},
                                           {Py_bf_getbuffer, block_buffer_show},
                                           {Py_tp_doc, "A buffer of a block where it lies."},
                                           {0, NULL}};
static PyType_Spec block_buffer_spec = {.name = "skymem._core.BlockBuffer",
                                        .basicsize = sizeof(block_buffer_object),
                                        .flags = Py_TPFLAGS_DEFAULT |
                                                 Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                        .slots = block_buffer_slots};

int add_blob(PyObject *module) {
    blob_type = (PyTypeObject *)PyType_FromSpec(&blob_spec);
    block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
    mapping_type = (PyTypeObject *)PyType_FromSpec(&mapping_spec);
    block_buffer_type = (PyTypeObject *)PyType_FromSpec(&block_buffer_spec);
    PyTypeObject *const shown[] = {blob_type, block_type, mapping_type};
    bool made = block_buffer_type != NULL;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        made = made && shown[i] && PyModule_AddType(module, shown[i]) == 0;
    return made ? 0 : -1;
}
