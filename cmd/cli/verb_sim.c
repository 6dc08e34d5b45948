/* skymem sim, as help and parsing see it; skymem-lab runs it. */
#include "cli.h"

const cli_verb cli_verb_sim = {
    .name = "sim",
    .summary = "Run a scenario in virtual time and check what came of it",
    .synopsis = "[SCENARIO]",
    .about =
        "The satellites and the ground session are the ones that fly in the sky tier. The same "
        "file and seed give the same trace on every machine. SCENARIO is a file, or a name: skymem "
        "help --scenarios lists those that are found.",
    .options =
        (const cli_option[]){
            {.name = "seed",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "1",
             .max = INT64_MAX,
             .help = "what chance is made from"},
            {.name = "until",
             .kind = CLI_NUMBER,
             .value = "S",
             .from = 0.001,
             .max = 366 * 86400,
             .help = "stop after S seconds of virtual time (default: the scenario's own end)"},
            {.name = "trace",
             .kind = CLI_PATH,
             .value = "OUT",
             .help = "write a line to OUT for each thing that happens to a message or station",
             .detail = "Waiting at the ground link writes no line, so there are fewer lines than "
                       "events."},
            {.name = "csv",
             .kind = CLI_PATH,
             .value = "OUT",
             .help = "write a line to OUT for each request: when, what, its result and its time",
             .detail = "docs/SIMULATION.md says what the columns are."},
            {.name = "figures",
             .kind = CLI_PATH,
             .value = "DIR",
             .help = "write the study to DIR: CSV and SVG"},
            {.name = "redraw",
             .kind = CLI_FLAG,
             .help = "with --figures: draw the SVG files from the CSV files of DIR, without a run"},
            {.name = "swarm",
             .kind = CLI_COUNT,
             .value = "N",
             .min = 1,
             .max = 1000000000,
             .help = "run N random scenarios, of seeds --seed and on, each with its own faults"},
            {.name = "hours",
             .kind = CLI_NUMBER,
             .value = "H",
             .fallback = "1",
             .from = 0.01,
             .max = 24 * 365,
             .help = "how long each sky of a swarm lasts"},
            {.name = "shrink",
             .kind = CLI_FLAG,
             .help = "make a scenario that fails smaller, and print what is left"},
            {.name = "replay",
             .kind = CLI_PATH,
             .value = "TRACE",
             .help = "replay requests of a real service: memory alone against memory and sky",
             .detail =
                 "Each line of the file is an object {timestamp, input_length, hash_ids}. The sky "
                 "is that of SCENARIO."},
            {.name = "proxy",
             .kind = CLI_TEXT,
             .value = "ADDRESS:PORT",
             .help = "relay to SCENARIO's real satellites: late, lost and out of order by --seed",
             .detail = "A ground whose scenario has ADDRESS:PORT as its udp.base, and is else the "
                       "same, reaches satellite i through the i-th port from there. Each datagram "
                       "between ground and satellite takes the time of light and links.jitter_ms; "
                       "links.loss, faults.reorder, faults.duplicate and faults.corrupt are the "
                       "chances that it is lost, held back, doubled or damaged. It runs until "
                       "SIGINT or SIGTERM, and then tells what it did."},
            {.name = "memory-blocks",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "4096",
             .max = 100000000,
             .help = "replay: blocks the memory holds"},
            {.name = "replay-tokens",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "512",
             .min = 1,
             .max = 1000000,
             .help = "replay: tokens of a block"},
            {.name = "prefill",
             .kind = CLI_NUMBER,
             .value = "N",
             .fallback = "10000",
             .min = 1,
             .max = 1000000000,
             .help = "replay: tokens the engine computes a second"},
            {.name = NULL},
        },
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem sim demo-rotation-hop --until 60", "a minute of sky"},
            {"skymem sim storm --seed 7 --trace trace.txt --json", "one seed, and its trace"},
            {"skymem sim --swarm 100 --seed 7", "a hundred skies at random"},
            {"skymem sim constellation --proxy 127.0.0.1:7800", "real satellites, far away"},
            {"skymem sim --figures figures", "the study of the seed authors, as CSV and SVG"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"seed", "the seed"},
            {"trace_hash", "16 hexadecimal digits over all events"},
            {"virtual_s", "time that passed in the sky until no more was asked"},
            {"closing_s", "from then until all was quiet: up to two minutes"},
            {"wall_s", "time that passed here"},
            {"events", "steps of the scheduler: wakes, stages of messages' flights, faults"},
            {"sets", "values stored"},
            {"gets", "values asked for: hits and misses"},
            {"hits", "gets answered"},
            {"misses", "gets not answered"},
            {"wrong_bytes", "answers that were not what was set; must be 0"},
            {"lost_acknowledged", "values acknowledged and gone without a fault or an eviction"},
            {"p50_ms", "median time of a hit"},
            {"p50_ci_ms",
             "where that of all such hits lies, with a probability of 95 %: [from, to], "
             "null: there are too few to say"},
            {"p99_ms", "99th percentile"},
            {"p99_ci_ms", "the same; it takes 368 hits to bound it from above"},
            {"migrated_bytes", "payload that moved from satellite to satellite"},
            {"lookups",
             "keys, or prompts, not all in the ground's index and looked for in the sky"},
            {"questions", "that lookups asked one after another"},
            {"grounds", "a list, the observer's first: name, sets, gets, hits, unanswered, p50_ms, "
                        "p50_ci_ms, p99_ms, p99_ci_ms"},
            {"checks", "an object of true and false by the check's name"},
            {"--swarm", "instead: runs, virtual_h, wall_s, events, sets, gets, hits, failed (the "
                        "seeds whose checks failed)"},
            {"--replay",
             "instead: rows, a list for no cache, memory, memory and sky, memory without end: "
             "case, requests, blocks, hit_ratio, memory_hits, sky_hits, sky_misses, sky_sets, "
             "dropped_sets, evictions, gossip, computed_s, loaded_s, saved_s, ttft_mean_s, "
             "ttft_p50_s, ttft_p99_s, wall_s"},
            {"--proxy", "instead, at its end: datagrams that went up and down, lost, reordered, "
                        "duplicated, corrupted, out_of_sight, overflow, strangers"},
            {"--figures", "instead: folder"},
            {NULL, NULL},
        },
    .failed = "a check failed (its replay command is printed), or a file cannot be read",
};
