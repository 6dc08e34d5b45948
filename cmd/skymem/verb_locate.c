/* skymem locate: which satellite holds which server, and what migrates at a rotation. */
#include "locate.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    sky_constellation constellation;
    sky_placement placement;
    sky_satellite centre;
    uint64_t shift;
    uint64_t chunks;
    sky_satellite *servers; /* now */
    sky_move *moves;
    int64_t move_count;
} locate;

/* "A,B" or "AxB" as two whole numbers. */
static bool parse_pair(const char *text, char between, uint32_t *a, uint32_t *b) {
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    unsigned long long first = strtoull(text, &end, 10);
    if (*end != between || end[1] < '0' || end[1] > '9')
        return false;
    unsigned long long second = strtoull(end + 1, &end, 10);
    if (*end || first > UINT32_MAX || second > UINT32_MAX)
        return false;
    *a = (uint32_t)first;
    *b = (uint32_t)second;
    return true;
}

static bool parse_weights(const char *text, double *intra, double *inter) {
    char *end;
    *intra = strtod(text, &end);
    if (end == text || *end != ',')
        return false;
    const char *second = end + 1;
    *inter = strtod(second, &end);
    return end != second && !*end && *intra > 0 && *inter > 0 && *intra < 1e9 && *inter < 1e9;
}

static int read_placement(cli *c, locate *l) {
    sky_placement *p = &l->placement;
    if (cli_given(c, "servers"))
        p->servers = (uint32_t)cli_count(c, "servers");
    if (cli_given(c, "strategy"))
        sky_strategy_parse(cli_text(c, "strategy"), &p->strategy);
    if (cli_given(c, "servers") || cli_given(c, "strategy"))
        p->window_planes = p->window_slots = 0;
    if (cli_given(c, "window") &&
        (!parse_pair(cli_text(c, "window"), 'x', &p->window_planes, &p->window_slots) ||
         p->window_planes == 0 || p->window_slots == 0))
        return cli_usage(c, "--window must be planes x slots, both odd, such as 3x5");
    if (cli_given(c, "weights") && p->strategy == SKY_PLACE_ROTATION)
        return cli_usage(c, "--weights is for the strategies hop and rotation-hop");
    if (cli_given(c, "weights") &&
        !parse_weights(cli_text(c, "weights"), &p->weight_intra, &p->weight_inter))
        return cli_usage(c, "--weights must be two positive numbers, such as 1,1.5");
    return CLI_OK;
}

static int read_flags(cli *c, locate *l) {
    if (!cli_given(c, "scenario") &&
        !(cli_given(c, "planes") && cli_given(c, "slots") && cli_given(c, "center") &&
          cli_given(c, "servers") && cli_given(c, "strategy")))
        return cli_usage(c, "--planes, --slots, --center, --servers and --strategy are needed, or "
                            "--scenario");
    int code = CLI_OK;
    if (cli_given(c, "scenario"))
        code = cli_scenario_read(c, cli_text(c, "scenario"), &l->constellation, &l->placement,
                                 &l->centre);
    if (code != CLI_OK)
        return code;
    bool physical = cli_given(c, "scenario") && l->centre.plane == 0;
    if (cli_given(c, "planes"))
        l->constellation.planes = (uint32_t)cli_count(c, "planes");
    if (cli_given(c, "slots"))
        l->constellation.slots = (uint32_t)cli_count(c, "slots");
    const sky_constellation *k = &l->constellation;
    if (cli_given(c, "center") &&
        (!parse_pair(cli_text(c, "center"), ',', &l->centre.plane, &l->centre.slot) ||
         l->centre.plane < 1 || l->centre.plane > k->planes || l->centre.slot < 1 ||
         l->centre.slot > k->slots))
        return cli_usage(c, "--center %s: must be plane,slot within 1,1 and %u,%u",
                         cli_text(c, "center"), k->planes, k->slots);
    l->shift = cli_count(c, "shift");
    if (physical && (!cli_given(c, "center") || l->shift > 0))
        return cli_usage(c,
                         "%s: in a physical sky orbits say who is overhead: give --center, as "
                         "'skymem orbit overhead' tells it, and no --shift",
                         cli_text(c, "scenario"));
    l->chunks = cli_given(c, "chunks") ? cli_count(c, "chunks") : 0;
    return read_placement(c, l);
}

static int compute_layout(cli *c, locate *l) {
    sky_error error = {0};
    sky_placement resolved;
    if (sky_placement_resolve(&l->constellation, &l->placement, &resolved, &error) != SKY_OK)
        return cli_usage(c, "%s", error.text);
    if (cli_given(c, "window") && resolved.window_planes == 0)
        cli_note(c, "--window %s: %s has no window, so this changes nothing", cli_text(c, "window"),
                 sky_strategy_name(resolved.strategy));
    l->placement = resolved;
    l->servers = calloc(resolved.servers, sizeof *l->servers);
    l->moves = calloc(resolved.servers, sizeof *l->moves);
    if (!l->servers || !l->moves ||
        sky_place(&l->constellation, &l->placement, l->centre, l->servers) != SKY_OK)
        return cli_failed(c, "out of memory");
    for (uint32_t i = 0; i < resolved.servers; i++)
        l->servers[i] = sky_place_shifted(&l->constellation, &l->placement, l->centre,
                                          l->servers[i], l->shift);
    if (l->shift > 0)
        l->move_count = sky_moves(&l->constellation, &l->placement, l->centre, l->shift, l->moves);
    return l->move_count < 0 ? cli_failed(c, "%s", sky_status_text((sky_status)l->move_count))
                             : CLI_OK;
}

static json_t *satellite_json(sky_satellite s) {
    return json_pack("{s:I, s:I}", "plane", (json_int_t)s.plane, "slot", (json_int_t)s.slot);
}

static json_t *chunks_json(const locate *l) {
    json_t *chunks = json_array();
    for (uint64_t i = 0; i < l->chunks; i++) {
        uint64_t server = i % l->placement.servers;
        json_array_append_new(chunks,
                              json_pack("{s:I, s:I, s:I, s:I}", "chunk", (json_int_t)(i + 1),
                                        "server", (json_int_t)(server + 1), "plane",
                                        (json_int_t)l->servers[server].plane, "slot",
                                        (json_int_t)l->servers[server].slot));
    }
    return chunks;
}

static json_t *locate_json(const locate *l) {
    json_t *servers = json_array(), *moves = json_array();
    for (uint32_t i = 0; i < l->placement.servers; i++)
        json_array_append_new(servers, json_pack("{s:I, s:I, s:I}", "server", (json_int_t)(i + 1),
                                                 "plane", (json_int_t)l->servers[i].plane, "slot",
                                                 (json_int_t)l->servers[i].slot));
    for (int64_t i = 0; i < l->move_count; i++)
        json_array_append_new(moves,
                              json_pack("{s:I, s:o, s:o}", "server", (json_int_t)l->moves[i].server,
                                        "from", satellite_json(l->moves[i].from), "to",
                                        satellite_json(l->moves[i].to)));
    json_t *object = json_pack(
        "{s:s, s:{s:I, s:I}, s:o, s:o}", "strategy", sky_strategy_name(l->placement.strategy),
        "window", "planes", (json_int_t)l->placement.window_planes, "slots",
        (json_int_t)l->placement.window_slots, "servers", servers, "moves", moves);
    if (l->chunks)
        json_object_set_new(object, "chunks", chunks_json(l));
    return object;
}

/* Server number per satellite, for small skies; * marks what has just arrived. */
static void draw_window(const locate *l, sky_satellite overhead) {
    const sky_constellation *k = &l->constellation;
    printf("%8s", "");
    for (uint32_t slot = 1; slot <= k->slots; slot++)
        printf("%5u", slot);
    printf("   slot\n");
    for (uint32_t plane = 1; plane <= k->planes; plane++) {
        printf("%8u", plane);
        for (uint32_t slot = 1; slot <= k->slots; slot++) {
            uint32_t server = 0;
            for (uint32_t i = 0; i < l->placement.servers; i++)
                if (l->servers[i].plane == plane && l->servers[i].slot == slot)
                    server = i + 1;
            char cell[16] = ".";
            if (server)
                snprintf(cell, sizeof cell, "%u", server);
            if (overhead.plane == plane && overhead.slot == slot)
                snprintf(cell, sizeof cell, server ? "[%u]" : "[ ]", server);
            printf("%5s", cell);
        }
        printf("%s\n", plane == 1 ? "   plane" : "");
    }
}

static void locate_people(const locate *l) {
    const sky_placement *p = &l->placement;
    sky_satellite overhead = sky_overhead(&l->constellation, l->centre, l->shift);
    printf("%s, %u server%s", sky_strategy_name(p->strategy), p->servers, cli_plural(p->servers));
    if (p->window_planes != 0)
        printf(" in a window of %u plane%s x %u slot%s", p->window_planes,
               cli_plural(p->window_planes), p->window_slots, cli_plural(p->window_slots));
    printf("; overhead [ ] plane %u, slot %u after %llu rotation%s\n\n", overhead.plane,
           overhead.slot, (unsigned long long)l->shift, cli_plural(l->shift));
    if (l->constellation.planes <= 40 && l->constellation.slots <= 30) {
        draw_window(l, overhead);
    } else {
        for (uint32_t i = 0; i < p->servers; i++)
            printf("server %u: plane %u, slot %u\n", i + 1, l->servers[i].plane,
                   l->servers[i].slot);
    }
    if (l->move_count)
        printf("\nmoved by rotation %llu:\n", (unsigned long long)l->shift);
    for (int64_t i = 0; i < l->move_count; i++)
        printf("  server %u: plane %u, slot %u to %u\n", l->moves[i].server, l->moves[i].from.plane,
               l->moves[i].from.slot, l->moves[i].to.slot);
    for (uint64_t i = 0; i < l->chunks; i++)
        printf("%schunk %llu on server %llu\n", i ? "" : "\n", (unsigned long long)i + 1,
               (unsigned long long)(i % p->servers + 1));
}

static int locate_run(cli *c) {
    locate l = {0};
    if (c->argument_count > 0)
        return cli_locate_key(c);
    int code = cli_given(c, "store") && cli_find(c, "store")->origin == CLI_FROM_FLAG
                   ? cli_usage(c, "--store is for a KEY that is looked for")
                   : read_flags(c, &l);
    if (code == CLI_OK)
        code = compute_layout(c, &l);
    if (code == CLI_OK && l.placement.strategy == SKY_PLACE_PREDICTIVE)
        cli_note(c, "predictive places each block by its expected use; these places are those of a "
                    "use now");
    if (code == CLI_OK && c->json)
        code = cli_json_print(c, locate_json(&l));
    else if (code == CLI_OK)
        locate_people(&l);
    free(l.servers);
    free(l.moves);
    return code;
}

const cli_verb cli_verb_locate = {
    .name = "locate",
    .summary = "Show where the sky keeps the chunks of a block",
    .synopsis = "[KEY]",
    .about =
        "With KEY: where the chunks of a value are now, as its satellites say. Without: where a "
        "placement puts chunks, computed and nobody asked.\n"
        "Planes and slots count from 1 and wrap. North is the plane before, south the plane "
        "after, east the slot after, west the slot before; after one rotation the slot to the "
        "west stands overhead. Chunk c is on server ((c-1) mod n)+1.\n"
        "rotation fills a window row by row from its north-west corner; hop goes outward from "
        "the centre, without a window, and never migrates; rotation-hop goes outward inside "
        "the window; predictive does so around where the sky will be at the next use, and stays.",
    .settings = CLI_SET_KEYS,
    .arguments_max = 1,
    .options =
        (const cli_option[]){
            CLI_OPTION_AS,
            {.name = "planes",
             .kind = CLI_COUNT,
             .value = "N",
             .min = 1,
             .max = SKY_PLANES_MAX,
             .help = "orbital planes"},
            {.name = "slots",
             .kind = CLI_COUNT,
             .value = "M",
             .min = 1,
             .max = SKY_SLOTS_MAX,
             .help = "satellites in each plane"},
            {.name = "center",
             .kind = CLI_TEXT,
             .value = "P,S",
             .help = "plane and slot overhead when the block is set"},
            {.name = "servers",
             .kind = CLI_COUNT,
             .value = "n",
             .min = 1,
             .max = SKY_SERVERS_MAX,
             .help = "satellites that chunks are spread over"},
            {.name = "strategy",
             .kind = CLI_CHOICE,
             .value = "rotation|hop|rotation-hop|predictive",
             .help = "the placement"},
            {.name = "window",
             .kind = CLI_TEXT,
             .value = "HxW",
             .help = "planes x slots of the window, both odd",
             .detail = "Default: the smallest window with W-H = 0 or 2 that holds the servers."},
            {.name = "weights",
             .kind = CLI_TEXT,
             .value = "INTRA,INTER",
             .help = "cost of a link within a plane and between planes; default: count hops",
             .detail = "Used by hop and rotation-hop."},
            {.name = "shift",
             .kind = CLI_COUNT,
             .value = "K",
             .fallback = "0",
             .help = "rotations since the block was set"},
            {.name = "chunks",
             .kind = CLI_COUNT,
             .value = "C",
             .min = 1,
             .max = 1u << 20,
             .help = "say for the first C chunks where each is"},
            {.name = "scenario",
             .kind = CLI_SCENARIO,
             .value = "FILE",
             .help = "take constellation, centre and placement from a scenario; flags win"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem locate --planes 5 --slots 19 --center 3,4 --servers 9 --strategy rotation-hop "
             "--shift 1",
             "the paper's figure 6: three servers move"},
            {"skymem locate --scenario demo-hop --chunks 20 --json", "a scenario's sky"},
            {"skymem locate greeting --store sky+udp:constellation",
             "which running satellites hold a value, and how many of its chunks live"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"strategy", "rotation, hop, rotation-hop or predictive"},
            {"window", "{planes, slots}; 0 and 0 for hop, which has none"},
            {"servers", "{server, plane, slot} after K rotations"},
            {"moves", "{server, from, to} of rotation K; empty for K = 0"},
            {"chunks", "with --chunks: {chunk, server, plane, slot}"},
            {"key",
             "with KEY: this and tier, bytes, chunks (how many), live and silent (how many of "
             "them), "
             "rotations since it was put, overhead {plane, slot}, and places: {chunk, copy, plane, "
             "slot, live, silent}"},
            {NULL, NULL},
        },
    .not_found = "no sky has the key",
    .unavailable = true,
    .run = locate_run,
};
