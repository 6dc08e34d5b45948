/* What every file of skymemd may call: words on stderr, signals, and "ready". */
#ifndef SKYMEMD_DAEMON_H
#define SKYMEMD_DAEMON_H

#include <signal.h>
#include <stdbool.h>

enum { DONE = 0, FAILED = 1, USAGE = 2 };

/* Print one line to stderr and return the exit code. */
int daemon_say(int code, const char *what, const char *why);
/* Make signals a descriptor that is readable once one came. Before any thread. */
int daemon_catch_set(const sigset_t *set, int *fd);
/* The same of SIGTERM and SIGINT; SIGPIPE is ignored. */
int daemon_catch_signals(int *fd);
/* Tell a service manager, where there is one; see sd_notify(3). */
void daemon_notify(const char *state);
/* The same with a descriptor, which stays the caller's; -1: none. False: there is no manager, or it
 * let the message wait for seconds. */
bool daemon_notify_with(const char *state, int passed);
/* Say "ready" to the program that started this one. */
void daemon_ready(void);

#endif
