/* A server of other hosts takes NULL for nothing, and goes on when a child of fork() cleans up. */
#include "trial.h"

#include <sys/wait.h>

static void server_is_told(sky_cache *cache, sky_peer_options o) {
    const char *const none[] = {NULL};
    sky_peer_server *server = NULL;
    sky_peer_stat stat = {.accepted = 7};
    sky_status status;
    sky_peer_stats(NULL, &stat);
    must(stat.accepted == 0);
    must(strcmp(sky_peer_address(NULL), "") == 0);
    sky_peer_stop(NULL);
    o.key_paths = none;
    o.key_count = 1;
    must(sky_peer_serve(cache, &o, &server, NULL) == SKY_E_PARAM && !server);
    o.key_count = 0;
    o.transport = "fabric:"; /* no provider; a build may be without libfabric */
    status = sky_peer_serve(cache, &o, &server, NULL);
    must((status == SKY_E_SYNTAX || status == SKY_E_UNSUPPORTED) && !server);
    o.transport = "carrier";
    must(sky_peer_serve(cache, &o, &server, NULL) == SKY_E_UNSUPPORTED && !server);
}

static void clean_up(sky_peer_server *server, sky_cache *cache, const sky_peer_options *o) {
    sky_peer_stat stat;
    sky_peer_server *own = NULL;
    alarm(20);
    sky_peer_stats(server, &stat);
    must(stat.accepted == 0);
    must(sky_peer_serve(cache, o, &own, NULL) == SKY_E_FORKED && !own);
    sky_peer_stop(server);
    sky_cache_close(cache);
    _exit(0);
}

int main(void) {
    const char *const own[] = {"mem:16MiB"};
    sky_cache *cache = trial_open(own, 1);
    const sky_peer_options o = {.struct_bytes = sizeof o, .address = "0", .plain = true};
    sky_peer_server *server;
    sky_peer_stat stat;
    char url[128], data[64] = "";
    int how;
    server_is_told(cache, o);
    must(sky_peer_serve(cache, &o, &server, NULL) == SKY_OK);
    sky_peer_stats(server, NULL);
    snprintf(url, sizeof url, "skymem://%s?plain=yes", sky_peer_address(server));
    const char *const urls[] = {url};
    sky_cache *client = trial_open(urls, 1);
    pid_t child = fork();
    if (child == 0)
        clean_up(server, cache, &o);
    must(waitpid(child, &how, 0) == child);
    must(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    must(trial_do(client, SKY_OP_PUT, 1, data, sizeof data, NULL) == SKY_OK);
    sky_peer_stats(server, &stat);
    must(stat.accepted > 0 && stat.disconnected == 0);
    sky_cache_close(client);
    sky_peer_stop(server);
    sky_cache_close(cache);
    return 0;
}
