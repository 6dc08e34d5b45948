/* What the host daemon (main.c) and a satellite (satellite.c) share. */
#ifndef SKYMEMD_DAEMON_H
#define SKYMEMD_DAEMON_H

enum { DONE = 0, FAILED = 1, USAGE = 2 };

/* Print one line to stderr and return the exit code. */
int daemon_say(int code, const char *what, const char *why);
/* Make SIGTERM and SIGINT a descriptor that is readable once they came. Before any thread. */
int daemon_catch_signals(int *fd);
/* Tell a service manager, where there is one; see sd_notify(3). */
void daemon_notify(const char *state);
/* Say "ready" to whoever started us. */
void daemon_ready(void);

/* Be the satellite "P,S" of a scenario until a signal comes; returns the exit code. */
int satellite_main(const char *which, const char *scenario_path, const char *state_path);

#endif
