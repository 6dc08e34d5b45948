/* A daemon in the background, and a socket that it was passed. */
#ifndef SKYMEMD_BACKGROUND_H
#define SKYMEMD_BACKGROUND_H

/* Go on in a process of its own, without terminal and open files; the one that was started ends
 * when background_ready is called, or with this one's exit code. Returns in the new process, or an
 * exit code. Its log is next to the socket, unless SKYMEM_LOG names another. */
int background_start(const char *socket_path);
void background_ready(void);

/* The listening socket of a service manager (sd_listen_fds(3)); -1: none. */
int passed_listener(void);

#endif
