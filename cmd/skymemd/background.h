/* A daemon in the background. */
#ifndef SKYMEMD_BACKGROUND_H
#define SKYMEMD_BACKGROUND_H

/* Go on in a process of its own, without terminal and open files; the one that was started ends
 * when background_ready is called, or with this one's exit code. Returns in the new process, or an
 * exit code. Its log is next to the socket, unless SKYMEM_LOG names another. */
int background_start(const char *socket_path);
void background_ready(void);

#endif
