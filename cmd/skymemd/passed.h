/* Descriptors that a service manager passes to this process, and holds for the next one:
 * sd_listen_fds_with_names(3), sd_pid_notify_with_fds(3), FileDescriptorStoreMax= in
 * systemd.service(5). */
#ifndef SKYMEMD_PASSED_H
#define SKYMEMD_PASSED_H

#include <stdbool.h>
#include <stddef.h>

#include <skymem/host.h>

#define PASSED_MAX 4096

typedef struct {
    int listener; /* -1: none */
    sky_host_kept kept[PASSED_MAX];
    size_t kept_count;
    char *names; /* what kept[].name points into */
} passed_descriptors;

/* What was passed. Once, before any descriptor is opened. */
void passed_take(passed_descriptors *out);
void passed_free(passed_descriptors *p);

/* As `keep` and `forget` of sky_host_options. */
bool passed_may_keep(void);
void passed_keep(void *context, const char *name, int fd);
void passed_forget(void *context, const char *name);

#endif
