/* skymem demo: a real model answers a shared-prefix workload cold, and warm from every tier. */
#include "demo.h"

#include <string.h>
#include <unistd.h>

#ifdef SKYMEM_WITH_LLAMA

static const char *const sky_sources[] = {"sky-rotation", "sky-hop", "sky-rotation-hop"};
#define SKY_SOURCES (sizeof sky_sources / sizeof sky_sources[0])

/* Whether a comma-separated list holds a word; "all" holds every word. */
static bool is_listed(const char *list, const char *word) {
    return strcmp(list, "all") == 0 || cli_has_word(list, ',', word);
}

static int check_sources(cli *c) {
    static const char *const known[] = {"mem",
                                        "shm",
                                        "mem-partial",
                                        "disk",
                                        "disk-8",
                                        "disk-4",
                                        "sky-rotation",
                                        "sky-hop",
                                        "sky-rotation-hop",
                                        "sky-rotation-hop-4",
                                        "sky-slow",
                                        "prefill-shm",
                                        "prefill-peer"};
    size_t found = 0, words = 1;
    const char *list = cli_text(c, "sources");
    for (const char *p = list; *p; p++)
        words += *p == ',';
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        found += is_listed(list, known[i]);
    return found == words || strcmp(list, "all") == 0
               ? CLI_OK
               : cli_usage(c,
                           "--sources %s: each once, of mem, shm, mem-partial, disk, "
                           "disk-8, disk-4, sky-rotation, sky-hop, sky-rotation-hop, "
                           "sky-rotation-hop-4, sky-slow, prefill-shm, prefill-peer",
                           list);
}

static bool find_scenario(const char *strategy, char *path, size_t path_bytes) {
    char name[64];
    snprintf(name, sizeof name, "demo-%s", strategy);
    return cli_scenario_find(name, path, path_bytes);
}

/* The scenario of --scenario, else those of --sources: read now, so that a wrong one costs no
 * wait. */
static int find_scenarios(cli *c, char paths[SKY_SOURCES][4096], size_t *count) {
    sky_constellation constellation;
    sky_placement placement;
    sky_satellite centre;
    bool given = cli_given(c, "scenario");
    int code = CLI_OK;
    for (size_t i = 0; i < (given ? 1 : SKY_SOURCES) && code == CLI_OK; i++) {
        if (given)
            snprintf(paths[0], sizeof paths[0], "%s", cli_text(c, "scenario"));
        else if (!is_listed(cli_text(c, "sources"), sky_sources[i]))
            continue;
        else if (!find_scenario(sky_sources[i] + 4, paths[*count], sizeof paths[0]))
            return cli_failed(c, "%s: not here nor beside the program; name one with --scenario",
                              paths[*count]);
        code = cli_scenario_read(c, paths[(*count)++], &constellation, &placement, &centre);
    }
    return code;
}

/* Blocks that lie coded in their tier: fewer bytes, and perhaps other tokens. */
static int demo_levels(cli *c, demo *d) {
    const char *sources = cli_text(c, "sources");
    char scenario[4096];
    int code = CLI_OK;
    bool sky = is_listed(sources, "sky-rotation-hop-4");
    if (sky || is_listed(sources, "disk-8") || is_listed(sources, "disk-4"))
        demo_tell(d, "The same with a level: so many bits an element, coded by the %s kernels.",
                  sky_codec_kernels_name());
    if (is_listed(sources, "disk-8"))
        code = demo_disk(d, "8");
    if (code == CLI_OK && is_listed(sources, "disk-4"))
        code = demo_disk(d, "4");
    if (code == CLI_OK && sky && find_scenario("rotation-hop", scenario, sizeof scenario))
        code = demo_sky(d, scenario, cli_text(c, "time-scale"), "4");
    return code;
}

/* A link that brings the text about as soon as the model computes it. */
static int demo_meeting(cli *c, demo *d) {
    char scenario[4096];
    if (!find_scenario("slow", scenario, sizeof scenario))
        return cli_failed(c, "%s: not here nor beside the program", scenario);
    demo_tell(d, "Over a link of 30 Mb/s the model computes the beginning while the end comes:");
    return demo_slow(d, scenario, cli_text(c, "time-scale"));
}

/* Another process computes the text, and this one waits and answers: when it is named, as each row
 * takes as long as a cold answer. */
static int demo_prefills(cli *c, demo *d) {
    const char *sources = cli_text(c, "sources");
    if (strcmp(sources, "all") == 0)
        return CLI_OK;
    bool shm = is_listed(sources, "prefill-shm"), peer = is_listed(sources, "prefill-peer");
    int code = CLI_OK;
    if (shm || peer)
        demo_tell(d, "And one process computes the text while another waits for it and answers:");
    if (shm)
        code = demo_prefill(d, "prefill-shm", false);
    if (code == CLI_OK && peer)
        code = demo_prefill(d, "prefill-peer", true);
    return code;
}

static int demo_tiers(cli *c, demo *d, char scenarios[][4096], size_t scenario_count) {
    const char *sources = cli_text(c, "sources");
    int code = demo_fill_memory(d);
    if (code == CLI_OK && is_listed(sources, "mem")) {
        code = demo_warm(d, "mem", d->sequence, 0, CLI_DEMO_QUESTIONS, 3);
        demo_tell_row(d);
    }
    if (code == CLI_OK && is_listed(sources, "shm"))
        code = demo_shm(d);
    if (code == CLI_OK && is_listed(sources, "disk"))
        code = demo_disk(d, NULL);
    if (code == CLI_OK && scenario_count > 0)
        demo_tell(d,
                  "Now the satellites: each message takes as long as light and links need, and "
                  "the sky turns %s times faster.",
                  cli_text(c, "time-scale"));
    for (size_t i = 0; i < scenario_count && code == CLI_OK; i++)
        code = demo_sky(d, scenarios[i], cli_text(c, "time-scale"), NULL);
    if (code == CLI_OK && cli_given(c, "satellites")) {
        demo_tell(d, "And satellites that are processes of their own, over UDP:");
        code = demo_udp(d, cli_text(c, "satellites"));
    }
    if (code == CLI_OK)
        code = demo_levels(c, d);
    if (code == CLI_OK && is_listed(sources, "sky-slow"))
        code = demo_meeting(c, d);
    if (code == CLI_OK && is_listed(sources, "mem-partial")) {
        demo_tell(d, "And a prompt that shares only its first blocks:");
        code = demo_warm(d, "mem-partial", d->sequence, DEMO_PARTIAL, 1, 1);
        demo_tell_row(d);
    }
    return code == CLI_OK ? demo_prefills(c, d) : code;
}

static int check_identical(const cli *c, const demo *d) {
    for (size_t i = 0; i < d->row_count; i++)
        if (!d->rows[i].identical && !d->rows[i].lossy)
            return cli_failed(c, "%s: the answer differs from the cold one", d->rows[i].source);
    return CLI_OK;
}

static int demo_run(cli *c) {
    static demo d;
    static char scenarios[SKY_SOURCES][4096];
    size_t scenario_count = 0;
    d.c = c;
    d.predict = (uint32_t)cli_count(c, "predict");
    d.block_tokens = (uint32_t)cli_count(c, "block-tokens");
    int code = check_sources(c);
    if (code == CLI_OK)
        code = find_scenarios(c, scenarios, &scenario_count);
    if (code == CLI_OK)
        code = demo_prepare(&d);
    if (code == CLI_OK) {
        const char *slash = strrchr(d.model.path, '/');
        demo_tell(&d, "%s, loaded in %.1f s.", slash ? slash + 1 : d.model.path,
                  d.model.load_ms / 1e3);
        demo_tell(&d, "Three questions of %u tokens about the same %u tokens of a handbook.",
                  DEMO_SUFFIX, DEMO_SHARED);
        code = demo_cold(&d);
    }
    if (code == CLI_OK)
        code = demo_tiers(c, &d, scenarios, scenario_count);
    if (code == CLI_OK)
        code = demo_report(&d);
    if (code == CLI_OK)
        code = check_identical(c, &d);
    demo_free(&d);
    return code;
}

#else

static int demo_run(cli *c) {
    return cli_no_model(c);
}

#endif

const cli_verb cli_verb_demo = {
    .name = "demo",
    .summary = "Show a real model cold, and warm from memory, disk and the sky",
    .synopsis = "",
    .about = "Three questions about one text of 2,048 tokens: first computed whole, then with "
             "the state of the text found in each tier. Each row says whether it gave the same "
             "tokens and the same logits as the cold row.\n"
             "The sky is a constellation inside this process. Its links delay each message by "
             "the time of light and of serialisation. It rotates while the blocks are stored in "
             "it, so that they migrate. Rows with a level, such as disk-4, keep the blocks "
             "encoded: their answers may differ.\n"
             "Each row promises a longest time to the first token. mem: 1.25 times llama.cpp's "
             "own restore from memory. shm, disk and sky: 1.5 times that, and for the sky also the "
             "time of light, links and satellites. mem-partial: 1.25 times its share of the cold "
             "time. prefill-shm and prefill-peer: 3 times the cold time, as the other process has "
             "the same processors. sky-slow: 1.05 times the sooner of loading alone and computing "
             "alone. A line "
             "below the tables names each row that is slower. Another says so when "
             "the slowest cold question took more than 4/3 of the time of the fastest.",
    .settings = CLI_SET_ENGINE,
    .options =
        (const cli_option[]){
            {.name = "sources",
             .kind = CLI_TEXT,
             .value = "LIST",
             .fallback = "all",
             .help = "rows to measure, separated by commas; default: all",
             .detail = "The rows are mem, shm, disk, sky-rotation, sky-hop, sky-rotation-hop, "
                       "disk-8, disk-4, sky-rotation-hop-4, sky-slow, mem-partial, prefill-shm and "
                       "prefill-peer. shm is the memory of a skymemd that the demo starts and "
                       "ends. sky-slow is a link of 30 Mb/s, over which the model computes the "
                       "beginning while the end is loaded. Another process computes the text of "
                       "the two prefill rows, while this one waits for it: over the socket of a "
                       "skymemd, or over TCP. Both must be named: all is without them."},
            {.name = "scenario",
             .kind = CLI_SCENARIO,
             .value = "SCENARIO",
             .help = "one sky row, from this scenario; default: demo-rotation and its like"},
            {.name = "satellites",
             .kind = CLI_SCENARIO,
             .value = "SCENARIO",
             .help = "measure also a row from the real satellites of this scenario",
             .detail = "They must run: start them with skymem constellation up SCENARIO."},
            {.name = "time-scale",
             .kind = CLI_NUMBER,
             .value = "X",
             .fallback = "100",
             .help = "turn the sky X times faster; light keeps its speed"},
            {.name = "predict",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "16",
             .min = 1,
             .max = 1024,
             .help = "tokens of each answer"},
            {.name = "prompt",
             .kind = CLI_TEXT,
             .value = "TEXT",
             .help = "another shared text, of at least 2,048 tokens"},
            {.name = "prompt-file",
             .kind = CLI_PATH,
             .value = "FILE",
             .help = "another shared text, from a file"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem demo", "everything, in about a minute"},
            {"skymem demo --sources mem,disk --json", "two rows, for a script"},
            {"skymem demo --sources sky-rotation-hop --time-scale 1000",
             "one sky that turns more than thrice a second"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"model", "the model file"},
            {"prompt_tokens", "tokens of each prompt"},
            {"suffix_tokens", "of which the question"},
            {"rows",
             "per source: source, ttft_ms, speedup (the cold ttft_ms, divided by this one), "
             "hit_tokens, overlapped_tokens (of hit_tokens: computed while the others came), "
             "bytes_loaded, bytes_moved, identical, bare_ms, logits_equal, load_ms, "
             "compute_ms; but for cold also "
             "promised_ms, "
             "the most that ttft_ms may be; of sky-slow also load_alone_ms, with nothing computed "
             "meanwhile, and compute_alone_ms, measured with it; of prefill-shm and prefill-peer "
             "also wait_ms, of ttft_ms for the other process; of a sky also sky: light_ms, "
             "link_ms, processing_ms, session_ms, decode_ms, chunks, servers, rotations, "
             "migrated_chunks, migrated_bytes, purged_blocks"},
            {"cpu", "name of the processor"},
            {"block_tokens", "tokens of a block"},
            {"questions", "how many"},
            {"predict", "tokens of each answer"},
            {"answers", "the first line of each cold answer"},
            {"cold_ms", "the cold time to the first token of each question"},
            {"warnings", "a sentence for each row that is slower than promised, and for cold times "
                         "that differ by more than a third"},
            {NULL, NULL},
        },
    .failed = "an answer without a level differed from the cold one, or something is missing",
    .run = demo_run,
};
