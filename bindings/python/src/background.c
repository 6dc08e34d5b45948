/* Calls of the library that may take long, and that call Python meanwhile: see core.h.
 *
 *   the caller's thread, with the GIL             a background thread
 *   background_run ── start ───────────────────────►  work: the call of the library
 *      waits 50 ms at a time, without the GIL       …
 *      runs it                      ◄─── ask ────   an engine's function is wanted
 *      ── answered ────────────────────────────►    …
 *      Ctrl-C, the end: give_up, waits on           …
 *      goes on                      ◄─── over ───   done
 *
 * So an engine is called on the thread of its caller, where its context is (torch's modes belong to
 * a thread), and signals are handled on the main thread, where Python has them. */
#include "core.h"

#define SLICE_US 50000

struct background {
    void (*work)(void *context);
    void *context;
    PyThread_type_lock wake;     /* released when `asked` is set, or it is over */
    PyThread_type_lock answered; /* released when what was asked is done */
    void (*asked)(void *context);
    void *asked_context;
};

static void background_thread(void *self) {
    background *e = self;
    e->work(e->context);
    e->asked = NULL;
    PyThread_release_lock(e->wake);
}

void background_ask(background *e, void (*call)(void *context), void *context) {
    if (e) {
        e->asked = call;
        e->asked_context = context;
        PyThread_release_lock(e->wake);
        (void)PyThread_acquire_lock(e->answered, WAIT_LOCK);
        return;
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    call(context);
    PyGILState_Release(gil);
}

/* Until it is over. False: an exception is set, and it was given up for that. */
static bool background_await(background *e, void (*give_up)(void *context)) {
    PyObject *kind = NULL, *value = NULL, *trace = NULL;
    bool given_up = false;
    for (;;) {
        PyLockStatus woken;
        Py_BEGIN_ALLOW_THREADS;
        woken = PyThread_acquire_lock_timed(e->wake, SLICE_US, 0);
        Py_END_ALLOW_THREADS;
        if (woken == PY_LOCK_ACQUIRED && !e->asked)
            break;
        if (woken == PY_LOCK_ACQUIRED) {
            e->asked(e->asked_context);
            PyThread_release_lock(e->answered);
        } else if (given_up) {
            give_up(e->context); /* it may not have been under way before */
        } else if (core_leaving || PyErr_CheckSignals() < 0) {
            if (!PyErr_Occurred())
                raise_status(SKY_E_CANCELLED, "the interpreter ends");
            PyErr_Fetch(&kind, &value, &trace);
            given_up = true;
            give_up(e->context);
        }
    }
    if (given_up)
        PyErr_Restore(kind, value, trace);
    return !given_up;
}

/* A lock that is taken; NULL with an exception. */
static PyThread_type_lock taken_lock(void) {
    PyThread_type_lock lock = PyThread_allocate_lock();
    if (lock)
        (void)PyThread_acquire_lock(lock, WAIT_LOCK);
    else
        PyErr_NoMemory();
    return lock;
}

bool background_run(background **slot, void (*work)(void *), void (*give_up)(void *),
                    void *context) {
    background e = {
        .work = work, .context = context, .wake = taken_lock(), .answered = taken_lock()};
    bool done = false;
    if (e.wake && e.answered) {
        if (slot)
            *slot = &e;
        if (PyThread_start_new_thread(background_thread, &e) == (unsigned long)-1)
            PyErr_SetString(PyExc_RuntimeError, "no thread can be started");
        else
            done = background_await(&e, give_up);
        if (slot)
            *slot = NULL;
    }
    if (e.wake)
        PyThread_free_lock(e.wake);
    if (e.answered)
        PyThread_free_lock(e.answered);
    return done;
}
