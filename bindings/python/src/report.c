/* What a cache tells of itself: entries, tiers, numbers. The library calls back for each; such a
 * call takes the GIL that its caller let go. */
#include "core.h"

/* Makes a list on the thread that called the library. */
typedef struct {
    PyThreadState *thread;
    PyObject *list; /* NULL: an exception is set */
} collector;

/* Append a new reference; false: stop. */
static bool collect(collector *c, PyObject *object) {
    if (!object || PyList_Append(c->list, object) < 0)
        Py_CLEAR(c->list);
    Py_XDECREF(object);
    return c->list != NULL;
}

static PyObject *text_of(const char *text, size_t bytes) {
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "surrogateescape");
}

/* (key, name or None, bytes, set_ms, used_ms, hits, tier, pinned, coding, parent) */
static bool take_entry(void *context, const sky_entry *e) {
    collector *c = context;
    PyEval_RestoreThread(c->thread);
    PyObject *name = e->name ? text_of(e->name, e->name_bytes) : Py_NewRef(Py_None);
    bool more = collect(c, name ? Py_BuildValue("(y#NKLLKiOiy#)", e->key.bytes,
                                                (Py_ssize_t)SKY_KEY_BYTES, name,
                                                (unsigned long long)e->bytes, (long long)e->set_ms,
                                                (long long)e->used_ms, (unsigned long long)e->hits,
                                                e->tier, e->pinned ? Py_True : Py_False, e->coding,
                                                e->parent.bytes, (Py_ssize_t)SKY_KEY_BYTES)
                                : NULL);
    c->thread = PyEval_SaveThread();
    return more;
}

/* (name, kind, tier, tier's kind, label, value, unit, number or None, buckets or None, sum_ns) */
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
        c, Py_BuildValue("(ssissssNNK)", s->metric->name, kinds[s->metric->kind],
                         s->tier == SKY_TIER_NONE ? -1 : s->tier, s->kind, s->metric->label,
                         s->value, s->metric->unit, number, buckets,
                         s->histogram ? (unsigned long long)s->histogram->sum_ns : 0ull));
    c->thread = PyEval_SaveThread();
    return more;
}

static sky_status walk_entries(sky_cache *cache, collector *c) {
    return sky_list(cache, take_entry, c);
}

static sky_status walk_samples(sky_cache *cache, collector *c) {
    return sky_cache_metrics(cache, take_sample, c);
}

static PyObject *collect_all(PyObject *self, sky_status (*walk)(sky_cache *, collector *),
                             const char *what) {
    cache_object *cache = (cache_object *)self;
    if (!cache_enter(cache))
        return NULL;
    collector c = {.list = PyList_New(0)};
    sky_status status = SKY_OK;
    if (c.list) {
        c.thread = PyEval_SaveThread();
        status = walk(cache->handle, &c);
        PyEval_RestoreThread(c.thread);
    }
    cache_leave(cache);
    if (!c.list || status == SKY_OK)
        return c.list;
    Py_DECREF(c.list);
    return raise_status(status, "%s", what);
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
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < sky_tier_count(cache->handle); i++) {
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

/* (entries, bytes, corrupt, orphans) */
PyObject *cache_verify(PyObject *self, PyObject *unused) {
    (void)unused;
    cache_object *cache = (cache_object *)self;
    sky_verify_report report;
    sky_status status;
    if (!cache_enter(cache))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = sky_verify(cache->handle, &report);
    Py_END_ALLOW_THREADS;
    cache_leave(cache);
    if (PyErr_CheckSignals() < 0)
        return NULL;
    if (status != SKY_OK)
        return raise_status(status, "verify");
    return Py_BuildValue("(KKKK)", (unsigned long long)report.entries,
                         (unsigned long long)report.bytes, (unsigned long long)report.corrupt,
                         (unsigned long long)report.orphans);
}
