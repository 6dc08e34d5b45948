/* Managers and sequences: what manager.c and layers.c share. */
#ifndef SKYMEM_PYTHON_SEQUENCE_H
#define SKYMEM_PYTHON_SEQUENCE_H

#include "core.h"

typedef struct {
    PyObject *object;
    PyObject *kind, *value, *trace; /* what it raised first; NULL: nothing */
    view *views;
    size_t view_count, view_max;
    background *background; /* that the call under way is; NULL: it is on its caller's thread */
} engine;

typedef struct {
    PyObject_HEAD cache_object *cache;
    sky_manager *handle;
    PyObject *profile;
} manager_object;

/* What a begin began and an end has not ended yet: bits. */
enum { UNDER_WAY_LOAD = 1, UNDER_WAY_SAVE = 2, UNDER_WAY_PUSH = 4 };

typedef struct {
    PyObject_HEAD manager_object *manager;
    sky_sequence *handle;
    bool busy; /* a call is under way */
    unsigned under_way;
    engine engine;
} sequence_object;

/* A call of the library, and what came of it. */
typedef struct {
    sky_sequence *handle;
    uint32_t *tokens;
    size_t count;
    sky_time deadline;
    uint32_t layer, first_token;
    sky_lookup lookup;
    uint32_t blocks;
    uint64_t bytes;
    sky_status status;
    bool ran;
    unsigned begins, ends; /* what is under way after it, if it went well; what no longer is */
} trip;

/* Before a call, and after. needs: what must be under way; beside: what else may be.
 * Errors: false, with an exception */
bool sequence_enter(sequence_object *s, unsigned needs, unsigned beside);
/* done: no exception is set. Tensors of the engine are let go, unless it still loads. */
bool sequence_leave(sequence_object *s, bool done, sky_status status, const char *what);
/* Tokens of `list`, when there are any, for `work`, which runs in the background: Ctrl-C cancels
 * it.
 * Errors: false, with an exception */
bool sequence_go(sequence_object *s, PyObject *list, void (*work)(void *), trip *t, unsigned needs,
                 unsigned beside, const char *what);
PyObject *lookup_tuple(const sequence_object *s, const sky_lookup *l);

/* layers.c: methods of Sequence */
PyObject *sequence_load_begin(PyObject *self, PyObject *list);
PyObject *sequence_load_wait(PyObject *self, PyObject *args);
PyObject *sequence_load_end(PyObject *self, PyObject *timeout);
PyObject *sequence_load_give_up(PyObject *self, PyObject *unused);
PyObject *sequence_save_begin(PyObject *self, PyObject *list);
PyObject *sequence_save_layer(PyObject *self, PyObject *args);
PyObject *sequence_save_end(PyObject *self, PyObject *unused);
PyObject *sequence_push_begin(PyObject *self, PyObject *list);
PyObject *sequence_push(PyObject *self, PyObject *tokens);
PyObject *sequence_push_end(PyObject *self, PyObject *unused);
PyObject *sequence_await(PyObject *self, PyObject *args);
PyObject *sequence_fileno(PyObject *self, PyObject *unused);

#endif
