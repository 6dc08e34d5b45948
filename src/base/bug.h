/* Bugs on purpose, for `make check-checkers`: each is one line where it would be made, and false in
 * everything that ships. A build with SKY_BUGS, which that alone makes, has at most one of them,
 * named by the environment's SKYMEM_BUG: every checker must be seen to find what it is for. */
#ifndef SKY_BASE_BUG_H
#define SKY_BASE_BUG_H

#include <stdbool.h>

#ifdef SKY_BUGS
/* Is it the one, and is it one of `every` times that it is asked? */
bool sky__bug(const char *name, unsigned every);
#define SKY_BUG(name, every) sky__bug(name, every)
#else
#define SKY_BUG(name, every) false
#endif

#endif
