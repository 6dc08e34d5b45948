/* What a cache tells of itself: entries, tiers, numbers. Listings and checks may take minutes, so
 * they run in the background (background.c): Ctrl-C ends them between two entries. The library
 * calls back for each entry, on its thread; such a call takes the GIL. */
#include "core.h"

#include <stdatomic.h>

/* Makes a list on the thread that calls the library. */
typedef struct {
    sky_cache *cache;
    sky_status (*walk)(sky_cache *cache, void *collector);
    sky_status status;
    PyThreadState *thread;
    PyObject *list; /* NULL: what failed is in `kind` and the others */
    PyObject *kind, *value, *trace;
    atomic_bool stop;
} collector;

/* Append a new reference; false: stop. */
static bool collect(collector *c, PyObject *object) {
    if (!object || PyList_Append(c->list, object) < 0) {
        PyErr_Fetch(&c->kind, &c->value, &c->trace);
        Py_CLEAR(c->list);
    }
    Py_XDECREF(object);
    return c->list && !atomic_load(&c->stop);
}

static PyObject *text_of(const char *text, size_t bytes) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "surrogateescape");
}

/* (key, name or None, bytes, set_ms, used_ms, hits, tier, pinned, coding, parent, evict) */
static bool take_entry(void *context, const sky_entry *e) {
    collector *c = context;
    PyEval_RestoreThread(c->thread);
    PyObject *name = e->name ? text_of(e->name, e->name_bytes) : Py_NewRef(Py_None);
    bool more = collect(
        c, name ? Py_BuildValue("(y#NKLLKiOiy#i)", e->key.bytes, (Py_ssize_t)SKY_KEY_BYTES, name,
                                (unsigned long long)e->bytes, (long long)e->set_ms,
                                (long long)e->used_ms, (unsigned long long)e->hits, e->tier,
                                e->pinned ? Py_True : Py_False, e->coding, e->parent.bytes,
                                (Py_ssize_t)SKY_KEY_BYTES, e->evict)
                : NULL);
    c->thread = PyEval_SaveThread();
    return more;
}

/* (name, kind, tier, tier's kind, label, value, unit, help, number or None, buckets or None,
 * sum_ns) */
static bool take_sample(void *context, const sky_metric_sample *s) {
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    collector *c = context;
    PyEval_RestoreThread(c->thread);
    PyObject *number = s->histogram ? Py_NewRef(Py_None)
                                    : PyLong_FromUnsignedLongLong((unsigned long long)s->number);
    PyObject *buckets = s->histogram ? PyTuple_New(SKY_HISTOGRAM_BUCKETS) : Py_NewRef(Py_None);
    for (int i = 0; s->histogram && buckets && i < SKY_HISTOGRAM_BUCKETS; i++)
        PyTuple_SetItem(buckets, i, PyLong_FromUnsignedLongLong(s->histogram->buckets[i]));
    bool more = collect(
        c, Py_BuildValue("(ssisssssNNK)", s->metric->name, kinds[s->metric->kind],
                         s->tier == SKY_TIER_NONE ? -1 : s->tier, s->kind, s->metric->label,
                         s->value, s->metric->unit, s->metric->help, number, buckets,
                         s->histogram ? (unsigned long long)s->histogram->sum_ns : 0ull));
    c->thread = PyEval_SaveThread();
    return more;
}

static sky_status walk_entries(sky_cache *cache, void *c) {
    return sky_list(cache, take_entry, c);
}

static sky_status walk_samples(sky_cache *cache, void *c) {
    return sky_cache_metrics(cache, take_sample, c);
}

static void do_collect(void *context) {
    collector *c = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    c->thread = PyEval_SaveThread();
    c->status = c->walk(c->cache, c);
    PyEval_RestoreThread(c->thread);
    PyGILState_Release(gil);
}

static void stop_collecting(void *context) {
    atomic_store(&((collector *)context)->stop, true);
}

static PyObject *collect_all(PyObject *self, sky_status (*walk)(sky_cache *, void *),
                             const char *what) {
    cache_object *cache = (cache_object *)self;
    if (!cache_enter(cache))
        return NULL;
    collector c = {.cache = cache->handle, .walk = walk, .list = PyList_New(0)};
    bool done = c.list && background_run(NULL, do_collect, stop_collecting, &c);
    cache_leave(cache);
    if (done && !c.list)
        PyErr_Restore(c.kind, c.value, c.trace);
    else if (done && c.status != SKY_OK)
        raise_status(c.status, "%s", what);
    if (!PyErr_Occurred())
        return c.list;
    Py_XDECREF(c.list);
    return NULL;
}

PyObject *cache_list(PyObject *self, PyObject *unused) {
    (void)unused;
    return collect_all(self, walk_entries, "list");
}

PyObject *cache_metrics(PyObject *self, PyObject *unused) {
    (void)unused;
    return collect_all(self, walk_samples, "metrics");
}

/* (url, traits, failing, note, codings) */
PyObject *cache_stat(PyObject *self, PyObject *unused) {
    (void)unused;
    cache_object *cache = (cache_object *)self;
    if (!cache_enter(cache))
        return NULL;
    size_t tiers = sky_tier_count(cache->handle); /* none in a child of fork() */
    PyObject *list = tiers ? PyList_New(0) : raise_status(SKY_E_FORKED, "stat");
    for (size_t i = 0; list && i < tiers; i++) {
        sky_tier_stat t;
        sky_status status;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_cache_stat(cache->handle, i, &t);
        Py_END_ALLOW_THREADS;
        size_t codings = 0;
        while (status == SKY_OK && codings < SKY_CODINGS_MAX && t.codings[codings])
            codings++;
        PyObject *tuple = status == SKY_OK ? Py_BuildValue("(sIOsy#)", t.url, t.traits,
                                                           t.failing ? Py_True : Py_False, t.note,
                                                           t.codings, (Py_ssize_t)codings)
                                           : raise_status(status, "stat of tier %zu", i);
        if (!tuple || PyList_Append(list, tuple) < 0)
            Py_CLEAR(list);
        Py_XDECREF(tuple);
    }
    cache_leave(cache);
    return list;
}

PyObject *cache_prometheus(PyObject *self, PyObject *unused) {
    (void)unused;
    cache_object *cache = (cache_object *)self;
    size_t bytes = 65536;
    char *text = NULL;
    sky_status status = SKY_E_DST_SMALL;
    if (!cache_enter(cache))
        return NULL;
    while (status == SKY_E_DST_SMALL) {
        size_t room = bytes + 4096;
        char *more = PyMem_Realloc(text, room);
        if (!more)
            break;
        text = more;
        Py_BEGIN_ALLOW_THREADS;
        status = sky_cache_prometheus(cache->handle, text, room, &bytes);
        Py_END_ALLOW_THREADS;
    }
    cache_leave(cache);
    PyObject *out = status == SKY_OK            ? text_of(text, bytes)
                    : status == SKY_E_DST_SMALL ? PyErr_NoMemory()
                                                : raise_status(status, "prometheus");
    PyMem_Free(text);
    return out;
}

typedef struct {
    sky_cache *cache;
    sky_verify_report report;
    sky_status status;
} check;

static void do_check(void *context) {
    check *c = context;
    c->status = sky_verify(c->cache, &c->report);
}

static void stop_checking(void *context) {
    sky_verify_cancel(((check *)context)->cache);
}

/* (entries, bytes, corrupt, orphans) */
PyObject *cache_verify(PyObject *self, PyObject *unused) {
    (void)unused;
    cache_object *cache = (cache_object *)self;
    if (!cache_enter(cache))
        return NULL;
    check c = {.cache = cache->handle};
    bool done = background_run(NULL, do_check, stop_checking, &c);
    cache_leave(cache);
    if (done && c.status != SKY_OK)
        raise_status(c.status, "verify");
    if (PyErr_Occurred())
        return NULL;
    return Py_BuildValue("(KKKK)", (unsigned long long)c.report.entries,
                         (unsigned long long)c.report.bytes, (unsigned long long)c.report.corrupt,
                         (unsigned long long)c.report.orphans);
}
