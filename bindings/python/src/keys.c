/* Keys: of blocks (bytes of 32), of names (str), and of prompts. */
#include "core.h"

#include <string.h>

int block_key_parse(PyObject *key, const char *what, sky_key *out) {
    char *data;
    Py_ssize_t bytes;
    if (!PyBytes_Check(key)) {
        PyErr_Format(PyExc_TypeError, "%s: a block's key is bytes, not %R", what,
                     (PyObject *)Py_TYPE(key));
        return -1;
    }
    if (PyBytes_AsStringAndSize(key, &data, &bytes) < 0)
        return -1;
    if (bytes != SKY_KEY_BYTES) {
        PyErr_Format(PyExc_ValueError, "%s: a block's key has %d bytes, not %zd; a name is a str",
                     what, SKY_KEY_BYTES, bytes);
        return -1;
    }
    memcpy(out->bytes, data, SKY_KEY_BYTES);
    return 0;
}

int key_parse(const cache_object *cache, PyObject *key, sky_item *item) {
    if (!PyUnicode_Check(key))
        return block_key_parse(key, "key", &item->key);
    Py_ssize_t bytes;
    const char *name = PyUnicode_AsUTF8AndSize(key, &bytes);
    if (!name)
        return -1;
    if (sky_name_key(&cache->names, name, (size_t)bytes, &item->key) != SKY_OK) {
        PyErr_Format(PyExc_ValueError, "key: a name has 1 to %d bytes in UTF-8, not %zd",
                     SKY_NAME_BYTES_MAX, bytes);
        return -1;
    }
    item->name = name;
    item->name_bytes = (size_t)bytes;
    return 0;
}

static int namespace_parse(PyObject *bytes, sky_namespace *out) {
    sky_key key;
    if (block_key_parse(bytes, "namespace", &key) < 0)
        return -1;
    memcpy(out->bytes, key.bytes, sizeof out->bytes);
    return 0;
}

int salt_parse(PyObject *salt, uint8_t out[SKY_SALT_BYTES]) {
    if (!PyBytes_Check(salt) || PyBytes_Size(salt) != SKY_SALT_BYTES) {
        PyErr_Format(PyBytes_Check(salt) ? PyExc_ValueError : PyExc_TypeError,
                     "salt: %d secret bytes are wanted", SKY_SALT_BYTES);
        return -1;
    }
    memcpy(out, PyBytes_AsString(salt), SKY_SALT_BYTES);
    return 0;
}

int read_u32(PyObject *object, void *out) {
    PyObject *index = PyNumber_Index(object);
    unsigned long value = index ? PyLong_AsUnsignedLong(index) : 0;
    Py_XDECREF(index);
    bool fits = !PyErr_Occurred() && value <= UINT32_MAX;
    if (fits)
        *(uint32_t *)out = (uint32_t)value;
    else if (index && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_OverflowError)))
        PyErr_Format(PyExc_ValueError, "a number of 0 or more and below 2**32 is wanted, not %R",
                     object);
    return fits;
}

uint32_t *tokens_of(PyObject *object, size_t *count) {
    PyObject *tuple = PySequence_Tuple(object);
    *count = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    uint32_t *tokens = tuple ? PyMem_Calloc(*count + 1, sizeof *tokens) : NULL;
    if (tuple && !tokens)
        PyErr_NoMemory();
    for (size_t i = 0; tokens && i < *count; i++) {
        if (!read_u32(PyTuple_GetItem(tuple, (Py_ssize_t)i), &tokens[i])) {
            PyMem_Free(tokens);
            tokens = NULL;
        }
    }
    Py_XDECREF(tuple);
    return tokens;
}

static PyObject *block_keys(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *space, *object, *after;
    unsigned int block_tokens;
    sky_namespace ns;
    sky_key key;
    size_t count;
    if (!PyArg_ParseTuple(args, "OOO&O", &space, &object, read_u32, &block_tokens, &after) ||
        namespace_parse(space, &ns) < 0 ||
        (after != Py_None && block_key_parse(after, "after", &key) < 0))
        return NULL;
    if (!block_tokens) {
        PyErr_SetString(PyExc_ValueError, "block_tokens: 1 or more, not 0");
        return NULL;
    }
    uint32_t *tokens = tokens_of(object, &count);
    if (!tokens)
        return NULL;
    size_t blocks = count / block_tokens;
    PyObject *list = PyList_New((Py_ssize_t)blocks);
    for (size_t i = 0; list && i < blocks; i++) {
        bool first = i == 0 && after == Py_None;
        sky_block_key(&ns, first ? NULL : &key, tokens + i * block_tokens, block_tokens, &key);
        PyObject *bytes = PyBytes_FromStringAndSize((char *)key.bytes, SKY_KEY_BYTES);
        if (bytes)
            PyList_SetItem(list, (Py_ssize_t)i, bytes);
        else
            Py_CLEAR(list);
    }
    PyMem_Free(tokens);
    return list;
}

static PyObject *digest(PyObject *module, PyObject *pieces) {
    (void)module;
    PyObject *tuple = PySequence_Tuple(pieces);
    Py_ssize_t count = tuple ? PyTuple_Size(tuple) : 0;
    sky_span *spans = PyMem_Calloc((size_t)count + 1, sizeof *spans);
    view *views = PyMem_Calloc((size_t)count + 1, sizeof *views);
    Py_ssize_t opened = 0;
    for (; spans && views && opened < count; opened++) {
        if (view_open_whole(PyTuple_GetItem(tuple, opened), false, "digest", &views[opened]) < 0)
            break;
        spans[opened] = (sky_span){views[opened].data, views[opened].bytes};
    }
    uint8_t out[32];
    if (tuple && opened == count) {
        Py_BEGIN_ALLOW_THREADS;
        sky_digest(spans, (size_t)count, out);
        Py_END_ALLOW_THREADS;
    }
    for (Py_ssize_t i = 0; i < opened; i++)
        view_release(&views[i]);
    PyMem_Free(spans);
    PyMem_Free(views);
    Py_XDECREF(tuple);
    if (PyErr_Occurred())
        return NULL;
    return PyBytes_FromStringAndSize((char *)out, sizeof out);
}

static PyObject *content_hash(PyObject *module, PyObject *object) {
    (void)module;
    view v;
    uint64_t hash;
    if (view_open_whole(object, false, "content_hash", &v) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    hash = sky_content_hash(v.data, v.bytes, 0);
    Py_END_ALLOW_THREADS;
    view_release(&v);
    return PyLong_FromUnsignedLongLong(hash);
}

static PyObject *salted(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *space, *salt;
    sky_namespace ns;
    uint8_t secret[SKY_SALT_BYTES];
    if (!PyArg_ParseTuple(args, "OO", &space, &salt) || namespace_parse(space, &ns) < 0 ||
        salt_parse(salt, secret) < 0)
        return NULL;
    sky_namespace_salt(&ns, secret);
    return PyBytes_FromStringAndSize((char *)ns.bytes, sizeof ns.bytes);
}

static PyObject *salt_read(PyObject *module, PyObject *path) {
    (void)module;
    Py_ssize_t bytes = 0;
    const char *text = PyUnicode_AsUTF8AndSize(path, &bytes);
    uint8_t salt[SKY_SALT_BYTES];
    sky_error error = {0};
    if (text && strlen(text) != (size_t)bytes)
        PyErr_Format(PyExc_ValueError, "salt_read: %R has a NUL, which no path has", path);
    if (PyErr_Occurred())
        return NULL;
    sky_status status = sky_salt_read(text, salt, &error);
    if (status != SKY_OK)
        return raise_status(status, "%s", error.text);
    return PyBytes_FromStringAndSize((char *)salt, sizeof salt);
}

static PyMethodDef functions[] = {
    {"block_keys", block_keys, METH_VARARGS, "(namespace, tokens, block_tokens, after): keys."},
    {"digest", digest, METH_O, "BLAKE2b-256 of pieces."},
    {"content_hash", content_hash, METH_O, "XXH3-64, against accidents, not adversaries."},
    {"namespace_salt", salted, METH_VARARGS, "(namespace, salt): the namespace of a tenant."},
    {"salt_read", salt_read, METH_O, "Read a salt from a file that only its owner can read."},
    {NULL, NULL, 0, NULL}};

int add_keys(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
