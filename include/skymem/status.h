/* What a call came to: one list gives the code, its name and its sentence.
 *
 * Zero is success. A positive value is a result that is not an error (a miss, a call still under
 * way). A negative value is an error; the out-parameters of the call are then untouched, unless
 * its header says otherwise.
 *
 * Wrong use, for all of the library: an argument that can be checked (NULL where a value is needed,
 * a number out of range, a flag that is none) ends in SKY_E_PARAM, and in nothing, or a neutral
 * value, where a function returns no status. What cannot be checked is the caller's to keep: the
 * size of a buffer, and that an object lives as long as it is used. */
#ifndef SKYMEM_STATUS_H
#define SKYMEM_STATUS_H

#if defined(__GNUC__)
#define SKY_API __attribute__((visibility("default")))
#else
#define SKY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SKY_STATUS_MAP(X)                                                                          \
    X(SKY_OK, 0, "ok")                                                                             \
    X(SKY_MISS, 1, "not found")                                                                    \
    X(SKY_PENDING, 2, "still under way")                                                           \
    X(SKY_E_PARAM, -1, "an argument is out of range")                                              \
    X(SKY_E_NOMEM, -2, "out of memory")                                                            \
    X(SKY_E_FULL, -3, "no room left")                                                              \
    X(SKY_E_DEADLINE, -4, "the deadline passed")                                                   \
    X(SKY_E_CANCELLED, -5, "cancelled by the caller")                                              \
    X(SKY_E_CORRUPT, -6, "damaged or foreign bytes")                                               \
    X(SKY_E_IO, -7, "a device, file or link failed")                                               \
    X(SKY_E_UNSUPPORTED, -8, "not supported here")                                                 \
    X(SKY_E_DST_SMALL, -9, "the destination is too small")                                         \
    X(SKY_E_BUSY, -10, "in use, try again")                                                        \
    X(SKY_E_DENIED, -11, "permission denied")                                                      \
    X(SKY_E_SYNTAX, -12, "the text does not parse")                                                \
    X(SKY_E_FORKED, -13, "opened before a fork: open it again in this process")                    \
    X(SKY_E_UNAVAILABLE, -14, "what may hold it does not answer")                                  \
    X(SKY_E_CONFLICT, -15, "another version is stored")

/* The codes of the list above. */
typedef enum {
#define SKY_STATUS_ENUM(name, value, sentence) name = (value),
    SKY_STATUS_MAP(SKY_STATUS_ENUM)
#undef SKY_STATUS_ENUM
} sky_status;

/* Name of a status, such as "SKY_E_CORRUPT"; "SKY_E_UNKNOWN" for any other value. Never NULL. */
SKY_API const char *sky_status_name(sky_status status);

/* Sentence of a status, such as "damaged or foreign bytes". Never NULL. */
SKY_API const char *sky_status_text(sky_status status);

/* A failure told to a person: what, where, and what to do. Calls that open or parse fill one in
 * when the caller passes it; on success it is untouched. */
typedef struct {
    sky_status status;
    char text[512];
} sky_error;

#ifdef __cplusplus
}
#endif
#endif
