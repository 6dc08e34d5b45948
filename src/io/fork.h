/* Forks of this process: a child has the memory of its parent but none of its threads, so that what
 * a thread works for cannot be used there. */
#ifndef SKY_IO_FORK_H
#define SKY_IO_FORK_H

#include <skymem/types.h>

/* How many forks lie between this process and the one that first called sky_forks_watch: changes in
 * a child, and never in the parent. A load, so that every call can afford it. */
uint64_t sky_forks(void);

/* Begin to count, once for the process; *out is the count now. Errors: SKY_E_NOMEM */
sky_status sky_forks_watch(uint64_t *out);

/* Children made from now on have /dev/null in place of this socket, once forks are watched, and
 * programs that are started do not get it. So a child that lives longer does not keep a connection
 * of its parent open. There is room for 512; more are left as they are. */
void sky_fork_drop(int fd);
/* Undo it, before it is closed. Fine on one that is not dropped, and on -1. */
void sky_fork_keep(int fd);

#endif
