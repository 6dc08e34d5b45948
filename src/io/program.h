/* Programs of the project that a library starts by itself. */
#ifndef SKY_IO_PROGRAM_H
#define SKY_IO_PROGRAM_H

#include <skymem/types.h>

/* Run a program and wait until it ends, or `until`: then it is killed. It has the environment of
 * this process, no standard input, no output, and no signal that is blocked or ignored; what it
 * says on standard error comes back, cut to fit, without the last line break.
 * argv: its name, looked for next to the running program, next to this library and in PATH unless
 * there is a '/' in it, then its arguments, then NULL.
 * Errors: SKY_MISS (there is no such program), SKY_E_DENIED (this process has rights that its user
 *         lacks: it starts nothing that the environment may name), SKY_E_DEADLINE, SKY_E_IO */
sky_status sky_program_run(const char *const *argv, sky_time until, char *said, size_t said_bytes,
                           int *exit_code);

#endif
