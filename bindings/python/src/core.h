/* skymem._core: the library as Python objects, no more than must be C. What callers see is made of
 * it in skymem/ (Python).
 *
 *   Cache ──submit──► Batch ──lease──► Lease          memory of a caller ◄── view (views.c)
 *
 * What keeps a process from crashing:
 *  - A Batch holds its cache, its names and the memory behind its spans. One that is dropped while
 *    it is under way is cancelled first.
 *  - A Cache is closed only when no call on it is under way and nothing leased from it is in use.
 *  - The GIL guards every field here; it is let go around calls that may wait or copy.
 *
 * Objects here refer to each other in one direction only, so each cycle goes through an object of
 * Python's, which the garbage collector clears: what refers to another has a traverse, none a
 * clear. */
#ifndef SKYMEM_PYTHON_CORE_H
#define SKYMEM_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <skymem/skymem.h>

#define VIEW_DIMS_MAX 5

/* Memory of a Python object, by the buffer protocol or DLPack. Held until view_release. */
typedef struct {
    Py_buffer buffer;  /* buffer.obj NULL: not by this protocol */
    PyObject *capsule; /* DLPack's, or NULL */
    uint8_t *data;
    size_t bytes; /* of all elements */
    int dims;
    int64_t shape[VIEW_DIMS_MAX];
    int64_t strides[VIEW_DIMS_MAX]; /* bytes */
    size_t element_bytes;
    char kind; /* 'f': IEEE floats, 'b': bfloat16, 'x': any number whose bytes are the
                  other way round than this machine's, '?': others */
    bool contiguous;
} view;

/* Errors: -1 with an exception that names `what`: no memory to see, read-only, objects, a device */
int view_open(PyObject *object, bool writable, const char *what, view *out);
/* The same, of memory without gaps. */
int view_open_whole(PyObject *object, bool writable, const char *what, view *out);
void view_release(view *v);

typedef struct batch_object batch_object;

typedef struct {
    PyObject_HEAD sky_cache *handle; /* NULL: closed */
    sky_namespace names;             /* of str keys */
    int calls;                       /* under way without the GIL */
    int leases;
    int managers;
    batch_object *under_way; /* a list, without references */
} cache_object;

struct batch_object {
    PyObject_HEAD cache_object *cache;
    batch_object *next, **link; /* in cache->under_way; link NULL: it is over */
    PyObject *keys;             /* a tuple */
    sky_op op;
    sky_batch id;
    uint32_t count;
    uint32_t view_count;
    sky_item *items;
    sky_span *spans;
    view *views;
};

extern PyTypeObject *cache_type, *batch_type, *lease_type, *profile_type;

/* Set when the interpreter is about to end: calls that wait give up. */
extern bool core_leaving;
/* Set when no cache can be open any more: nothing calls Python. */
extern bool core_gone;
/* Above 0 on a thread that is in a method of a store written in Python: it is one of the cache's,
 * and so cannot close that cache. */
extern _Thread_local int core_in_store;

/* Set the exception that belongs to a status. NULL, for callers to return. */
PyObject *raise_status(sky_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Before a call that lets the GIL go, and after. Errors: false, with an exception: it is closed */
bool cache_enter(cache_object *cache);
void cache_leave(cache_object *cache);
/* False in a child of fork(): what is there belongs to the parent, and its locks may be held. */
bool cache_is_ours(const cache_object *cache);

/* Errors: -1 with an exception */
/* For "O&" of PyArg_ParseTuple, whose "I" drops the bits above: a uint32_t. */
int read_u32(PyObject *object, void *out);
int key_parse(const cache_object *cache, PyObject *key, sky_item *item);
int block_key_parse(PyObject *key, const char *what, sky_key *out);
int salt_parse(PyObject *salt, uint8_t out[SKY_SALT_BYTES]);

/* Tokens of any sequence of whole numbers, for PyMem_Free. NULL with an exception */
uint32_t *tokens_of(PyObject *object, size_t *count);
/* A number of seconds from now. Errors: -1 with an exception */
int time_in(PyObject *seconds, sky_time *out);
/* A view as a tensor; the other of axes 0 and 1 counts heads. wanted: bf16 where it says uint16.
 * Errors: -1, without an exception: it has no three dimensions of f16, f32 or bf16 */
int tensor_of_view(const view *v, int token_axis, sky_element wanted, sky_tensor *out);
/* Rows [tokens, heads, dim] of an object. Errors: -1 with an exception, and the view is released */
int rows_open(PyObject *object, bool writable, sky_element wanted, const char *what, view *v,
              sky_tensor *out);
/* "f16", "f32", "bf16", or NULL: 0. Errors: -1 with an exception */
int element_parse(const char *name, sky_element *out);
/* A sealed profile, or None: NULL. Errors: -1 with an exception */
int profile_parse(PyObject *object, const sky_profile **out);
/* NULL with an exception: it is none */
const sky_profile *profile_of(PyObject *object);

/* background.c: a call of the library that calls Python meanwhile, and that Ctrl-C and the end of
 * the interpreter stop. It runs `work` without the GIL on a thread of its own; `give_up` is to make
 * it return soon, and is called until it does. *slot is the call while it runs; NULL: not wanted.
 * Errors: false, with an exception: it was given up, or never ran */
typedef struct background background;
bool background_run(background **slot, void (*work)(void *), void (*give_up)(void *),
                    void *context);
/* From `work`, on its thread: run `call` with the GIL on the thread that called background_run, and
 * wait for it. NULL: on this thread. */
void background_ask(background *e, void (*call)(void *), void *context);

/* Cancel a batch, if it is under way. */
void batch_give_up(batch_object *batch);
PyObject *cache_submit(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *cache_run(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *cache_read(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *lease_new(cache_object *cache, const sky_item *item);

/* report.c: methods of Cache */
PyObject *cache_list(PyObject *self, PyObject *unused);
PyObject *cache_stat(PyObject *self, PyObject *unused);
PyObject *cache_metrics(PyObject *self, PyObject *unused);
PyObject *cache_prometheus(PyObject *self, PyObject *unused);
PyObject *cache_verify(PyObject *self, PyObject *unused);

/* What each file adds to the module. Errors: -1 with an exception */
int add_cache(PyObject *module);
int add_batch(PyObject *module);
int add_lease(PyObject *module);
int add_blob(PyObject *module);
int add_keys(PyObject *module);
int add_manager(PyObject *module);
int add_driver(PyObject *module);
int add_profile(PyObject *module);
int add_codec(PyObject *module);
int add_decoder(PyObject *module);

#endif
