/* Files and folders: the calls the project makes, each with a sky_status, and a sentence where a
 * person is told.
 *
 * Paths are relative to a `folder` descriptor; SKY_FOLDER_HERE means the working directory (an
 * absolute path needs no folder). Below a descriptor no symbolic link is followed, so that nothing
 * leads out of it: one on the way is SKY_E_CORRUPT. (A kernel before 5.6 follows those in folders'
 * places.) Every descriptor is close-on-exec. Interrupted calls are repeated.
 *
 * One map from errno holds everywhere: absent SKY_MISS; not permitted or read-only SKY_E_DENIED;
 * disk, quota or file-size limit reached SKY_E_FULL; no memory SKY_E_NOMEM; the file system cannot
 * do it SKY_E_UNSUPPORTED; locked by another or there already SKY_E_BUSY; a link where a file
 * should be SKY_E_CORRUPT; anything else SKY_E_IO. errno itself is left for sky_errno_text. */
#ifndef SKY_IO_FILE_H
#define SKY_IO_FILE_H

#include <skymem/types.h>

#define SKY_FOLDER_HERE (-100) /* AT_FDCWD */
#define SKY_FILE_NONE   (-1)

sky_status sky_errno_status(int error);
/* errno of the calling thread's last failure here, in words. Valid until its next one. */
const char *sky_errno_text(void);

/* All bytes of a plain file, and a NUL behind them that is not counted. Never waits for a pipe.
 * Owner:  caller frees *data
 * Errors: SKY_E_PARAM (larger than bytes_max), SKY_E_IO (absent, no plain file), SKY_E_DENIED,
 *         SKY_E_NOMEM;
 *         `error` says which file and why */
sky_status sky_file_read_all(const char *path, size_t bytes_max, char **data, size_t *bytes,
                             sky_error *error);

typedef enum {
    SKY_FILE_READ = 0,
    SKY_FILE_WRITE = 1,   /* read and write */
    SKY_FILE_CREATE = 2,  /* with WRITE: make it when absent */
    SKY_FILE_NEW = 4,     /* with WRITE: make it; SKY_E_BUSY when it exists */
    SKY_FILE_DIRECT = 8,  /* past the page cache: offsets, sizes, memory in multiples of 4096 */
    SKY_FILE_FOLDER = 16, /* a folder; nothing else */
    SKY_FILE_PLAIN = 32,  /* a plain file, else SKY_E_CORRUPT; made for its owner alone */
    SKY_FILE_KNOWN = 64,  /* only if the kernel knows the path without asking the disk, else
                             SKY_E_BUSY; a kernel before 5.12 never does: SKY_E_UNSUPPORTED */
} sky_file_mode;

/* A symbolic link in the last place is not followed. With PLAIN it never waits: without it, the
 * open of a pipe without a writer does. */
sky_status sky_file_open(int folder, const char *path, unsigned mode, int *fd);
void sky_file_close(int fd); /* SKY_FILE_NONE is fine */

/* All of `bytes`, or fewer only at the end of the file: *got tells. */
sky_status sky_file_read_at(int fd, void *data, size_t bytes, uint64_t offset, size_t *got);
/* Read as many bytes as the parts hold, at most SKY_FILE_PARTS_MAX of them, from pages that the
 * kernel holds already. False when it lacks some: the parts are then undefined, and the kernel may
 * have begun to read them. Never waits for the disk. */
#define SKY_FILE_PARTS_MAX 64u
bool sky_file_read_resident(int fd, const sky_span *parts, uint32_t part_count, uint64_t offset);
sky_status sky_file_write_at(int fd, const void *data, size_t bytes, uint64_t offset);
/* Make the file `bytes` long with its blocks taken, so that a full disk shows now. A file system
 * that cannot reserve only sets the length. Errors: SKY_E_FULL */
sky_status sky_file_reserve(int fd, uint64_t bytes);
sky_status sky_file_sync(int fd);   /* data, and what is needed to read it back */
sky_status sky_folder_sync(int fd); /* the names in it too */
/* Give the blocks of a range back: it reads as zeros from then on. Errors: SKY_E_UNSUPPORTED */
sky_status sky_file_punch(int fd, uint64_t offset, uint64_t bytes);
/* Take blocks for a range that lacks some. Errors: SKY_E_FULL, SKY_E_UNSUPPORTED */
sky_status sky_file_fill(int fd, uint64_t offset, uint64_t bytes);

typedef struct {
    uint64_t bytes;
    int64_t modified_ms; /* wall */
    bool regular;        /* a plain file, neither folder nor link */
    bool nameless;       /* removed from its folder since it was opened */
} sky_file_info;
sky_status sky_file_stat(int folder, const char *path, sky_file_info *out);
sky_status sky_file_stat_open(int fd, sky_file_info *out);
/* Nobody but this user and root can have written an open file or folder: it belongs to one of
 * them, no group and no other user may write to it, and a file has no second name. `path` is for
 * `error`, which may be NULL.
 * Errors: SKY_E_DENIED; `error` says what is wrong and what to do. SKY_E_IO */
sky_status sky_file_check_owner(int fd, const char *path, sky_error *error);
/* Open a plain file, and learn its size, unless another user could have written it: SKY_E_CORRUPT
 * then. `mode` and errors otherwise as sky_file_open with PLAIN. */
sky_status sky_file_open_own(int folder, const char *path, unsigned mode, int *fd,
                             sky_file_info *out);
/* Another file than the open one stands at `path` now. */
bool sky_file_replaced(int fd, int folder, const char *path);
/* Make the number `to`, which is open, mean what `from` means; `from` stays open. Errors: SKY_E_IO
 * */
sky_status sky_file_move(int from, int to);
/* A path from the root of the file system, wherever this process goes.
 * Owner: the caller, with free(); NULL: no memory */
char *sky_file_absolute(const char *path);
/* What the file system that holds `fd` still has room for. */
typedef struct {
    uint64_t bytes;
    uint64_t files; /* and folders; UINT64_MAX where they are not counted */
} sky_file_space;
sky_status sky_file_space_left(int fd, sky_file_space *out);

sky_status sky_file_rename(int folder, const char *from, const char *to); /* replaces `to` */
sky_status sky_file_remove(int folder, const char *path);
/* An empty folder. */
sky_status sky_folder_remove(int folder, const char *path);

/* Advisory lock of the open file, dropped when it is closed; when its process dies, as soon as the
 * kernel has let go of the last transfer. Errors: SKY_E_BUSY when another still holds it at `until`
 * (0: now) */
sky_status sky_file_lock(int fd, sky_time until);
void sky_file_unlock(int fd);
/* The same for a part of a file. It neither keeps out nor waits for locks of whole files, and those
 * who share one open file do not keep each other out. Errors: SKY_E_BUSY, SKY_E_UNSUPPORTED */
sky_status sky_file_lock_range(int fd, uint64_t offset, uint64_t bytes, sky_time until);
void sky_file_unlock_range(int fd, uint64_t offset, uint64_t bytes);
/* Another number for an open file, to be closed by itself. Errors: SKY_E_IO */
sky_status sky_file_copy(int fd, int *copy);

/* One folder, for its owner alone; fine when it exists. */
sky_status sky_folder_make(int folder, const char *path);
/* With all above it; `error` says which one failed and why. */
sky_status sky_folder_make_all(const char *path, sky_error *error);

/* Each name of a folder but "." and "..", in no particular order; `each` returns false to stop.
 * `kind`: 'f' plain file, 'd' folder, 'o' other, '?' the file system does not tell. */
typedef bool (*sky_folder_fn)(void *context, const char *name, char kind);
sky_status sky_folder_each(int folder, const char *path, sky_folder_fn each, void *context);

/* This process, and whether a process of that number exists. */
uint32_t sky_process_id(void);
bool sky_process_exists(uint32_t id);

/* An environment variable; NULL when unset or empty. Owner: the environment */
const char *sky_environment(const char *name);

#endif
