/* skymem bench, as help and parsing see it; skymem-lab runs it. */
#include "cli.h"

const cli_verb cli_verb_bench = {
    .name = "bench",
    .summary = "Measure the library against its limits",
    .synopsis = "SUITE",
    .words = "index|mem|shm|peer|disk|net|codec|sim|sky|stream|overlap|policies|all",
    .about = "Each case and its limit are measured in turns in the same run. The table shows "
             "the medians. The suites are index, mem, shm, peer, disk, net, codec, sim, sky, "
             "stream, overlap and policies; all runs each of them but overlap, which needs a "
             "model, and policies, which needs a trace.\n"
             "index: steps through the block index at ten million blocks, against dependent "
             "reads of random cache lines of as much memory.\n"
             "mem: the memory tier against memcpy of the same bytes, and what an idle cache "
             "costs.\n"
             "shm: the store of a skymemd in a process of its own, against memcpy, and against "
             "Redis over its Unix socket where redis-server is installed.\n"
             "peer: another host's store over TCP on loopback, plain and sealed, against iperf3 "
             "where it is installed; gets one after the other, and lookups.\n"
             "disk: the disk tier against fio with the same file system, block size, queue "
             "depth and direct flag. For writes fio syncs every file when it closes it. The "
             "tier does the same before a value counts as stored. Then values of 8 MiB and "
             "64 KiB, one after the other, against plain files (write, fsync, rename; read), and "
             "so are LMDB and RocksDB where they were installed at the build. A first get comes "
             "from the device, a second one from what the kernel kept.\n"
             "net: chunks of 6 KiB over UDP on loopback, authenticated and sealed, against "
             "datagrams of the same length that carry nothing. The table shows the best of five.\n"
             "sim: events a second with every check on, hours of random skies a minute, and the "
             "132 points of the seed authors, computed and flown.\n"
             "sky: a get of 2.9 MiB at losses of 1, 2 and 5 % a datagram against none, in "
             "virtual time.\n"
             "stream: a prefix over shaped sockets, against f16, q8_0 and text; the rows are "
             "the model's own where there is a model and no --quick. Then contexts against "
             "deadlines over traces in virtual time, against CacheGen's loop and an oracle.\n"
             "overlap: the first token of 2,048 stored and 32 new tokens over links of 5 Mb/s to "
             "3 Gb/s, from a disk, from a sky, and at levels 8 and 4 over links of 20 and "
             "100 Mb/s: loaded alone, computed alone, both at once, and for links as skymem plan "
             "predicts it. An answer that is not the cold run's to the last bit fails it, but for "
             "those two levels.\n"
             "policies: what LRU, FIFO, SIEVE, S3-FIFO and GDSF (by the cost of computing again) "
             "find of the requests of --trace, with room for 1, 3, 10 and 30 % of its blocks.\n"
             "codec: encoding and decoding rows of 256 channels, level by level, against memcpy "
             "of the rows, each at its best of fifteen; a few levels on the heads of other "
             "models; and streams divided between two threads.",
    .settings = CLI_SET_MODEL | CLI_SET_THREADS | CLI_SET_CALIBRATION,
    .options =
        (const cli_option[]){
            {.name = "quick", .kind = CLI_FLAG, .help = "smaller and fewer: a look, not a figure"},
            {.name = "folder",
             .kind = CLI_PATH,
             .value = "DIR",
             .help = "where disk and overlap measure (default: $XDG_CACHE_HOME)"},
            {.name = "trace",
             .kind = CLI_PATH,
             .value = "FILE",
             .help = "policies: requests, a JSON object a line with hash_ids, as Mooncake's"},
            {.name = "at",
             .kind = CLI_TEXT,
             .value = "LIST",
             .help = "overlap: these rows alone, separated by commas: equal, a rate in Mb/s, "
                     "level8, level4, disk, sky"},
            {.name = "seed",
             .kind = CLI_COUNT,
             .value = "N",
             .min = 1,
             .help = "stream: only in virtual time, on traces of this seed",
             .detail = "Without it all of the suite runs, with seed 1."},
            {.name = NULL},
        },
    .arguments_min = 1,
    .arguments_max = 1,
    .examples =
        (const cli_example[]){
            {"skymem bench mem", "a table"},
            {"skymem bench all --quick --json", "one line a case"},
            {NULL, NULL},
        },
    .json_lines = true,
    .fields =
        (const cli_field[]){
            {"bench", "the suite"},
            {"case", "what was done"},
            {"value", "how fast, or how much"},
            {"unit", "of value and ref_value"},
            {"ref", "the limit or peer measured in the same run, or null"},
            {"ref_value", "its value"},
            {"ratio", "value / ref_value"},
            {NULL, NULL},
        },
};
