/* skymem codec: rows of a KV cache to .skv and back, without a model. See codec.h. */
#include "codec.h"

#include <stdlib.h>
#include <string.h>

/* ---- levels ---- */

static int run_levels(codec_job *j) {
    cli *c = j->c;
    json_t *list = json_array();
    cli_table t = {.columns = "lr"};
    cli_table_cell(&t, "%s", "LEVEL");
    cli_table_cell(&t, "%s", "BITS");
    for (uint32_t i = 0; i < SKY_LEVEL_COUNT; i++) {
        const char *name = sky_level_name((sky_level)i);
        double bits = sky_level_bits_typical((sky_level)i);
        json_array_append_new(list, json_pack("{s:s, s:f}", "level", name, "bits_typical", bits));
        cli_table_cell(&t, "%s", name);
        cli_table_cell(&t, "%.2f", bits);
    }
    if (!c->json)
        cli_table_print(&t, stdout);
    cli_table_free(&t);
    if (c->json)
        return cli_json_print(c, json_pack("{s:o}", "levels", list));
    json_decref(list);
    return CLI_OK;
}

/* ---- which ---- */

static const struct {
    const char *name;
    const char *options; /* that mean something to it */
    bool reads;          /* a file */
    bool writes;         /* another: the last argument, or --output */
    int (*run)(codec_job *j);
} parts[] = {
    {"levels", "", false, false, run_levels},
    {"encode", "level output layout calibration no-layout plain block-tokens", true, true,
     codec_run_encode},
    {"decode", "output layout calibration layers", true, true, codec_run_decode},
    {"lower", "level output layout calibration no-layout plain", true, true, codec_run_lower},
    {"stat", "", true, false, codec_run_stat},
    {"verify", "layout calibration", true, false, codec_run_verify},
};

static int codec_run(cli *c) {
    const char *name = c->arguments[0];
    size_t i = 0, count = sizeof parts / sizeof *parts;
    while (i < count && strcmp(name, parts[i].name) != 0)
        i++;
    if (i == count)
        return cli_usage(c, "no codec %s: levels, encode, decode, lower, stat or verify", name);
    char what[32];
    snprintf(what, sizeof what, "codec %s", parts[i].name);
    int code = cli_only(c, what, parts[i].options);
    if (code != CLI_OK)
        return code;
    size_t files = c->argument_count - 1, wanted = parts[i].reads;
    wanted += parts[i].writes && !cli_text(c, "output");
    if (files != wanted)
        return cli_usage(c, "codec %s %s", name,
                         !parts[i].reads                ? "takes no file"
                         : !parts[i].writes             ? "takes one file"
                         : files == 0 || files > wanted ? "takes one file, and -o FILE for another"
                                                        : "needs -o FILE, where the result goes");
    codec_job j = {.c = c, .memory = aligned_alloc(64, SKY_DECODER_BYTES)};
    code = j.memory ? parts[i].run(&j) : cli_failed(c, "out of memory");
    sky_profile_destroy(j.profile);
    free(j.memory);
    return code;
}

const cli_verb cli_verb_codec = {
    .name = "codec",
    .summary = "Encode rows of a KV cache to fewer bytes, and back",
    .synopsis = "levels | encode IN.npy | decode IN.skv | lower IN.skv | stat F | verify F",
    .words = "levels|encode|decode|lower|stat|verify",
    .about =
        "encode cuts an array into blocks and writes a container for each of them; decode "
        "joins them. lower takes a file to a lower level. stat shows what a file holds. "
        "verify checks every checksum. levels lists the levels.\n"
        "Arrays are .npy files of f16, f32 or bf16 (as u16), shaped [layer, 2, token, "
        "kv_head, dim], keys first, layers in the model's order, as `skymem run --dump-kv` "
        "writes them. The result goes "
        "to -o FILE, or to the file named last.\n"
        "lower does not need the rows: going from 8 to 4 costs no more than 4 itself. "
        "Streams at that level or below stay as they are. A file that has nothing better "
        "than the new level is refused.\n"
        "A calibration (skymem calibrate) makes the lossy levels smaller at equal quality. "
        "Data encoded with a calibration decodes only with the same one.\n"
        "A layout is JSON: {\"rope\": {\"kind\": \"neox\", \"dims\": 256, \"base\": 10000, "
        "\"frequency_scale\": 1}, \"first_position\": 0}. It says where the first row "
        "stands, and how keys were rotated where no calibration says so. decode and lower "
        "take the calibration or layout that the file was encoded with. Lossless rows "
        "decode without either.\n"
        "lower without that layout would keep the rope in the keys, and they would be "
        "larger and less exact. So lower refuses a file that was made with a layout, and a "
        "file that does not say; encode says that it does so. --no-layout is for keys that no rope "
        "rotated.\n"
        "stat reads the directories only: the content of the layers, the position of the "
        "rows, how they were made, and the bytes of each level. It numbers layers as the file "
        "has them: in the order of the calibration. verify also decodes what "
        "it can: data that was encoded with a calibration or layout is decoded when that "
        "is given.",
    .options =
        (const cli_option[]){
            {.name = "level",
             .kind = CLI_TEXT,
             .value = "L",
             .fallback = "4",
             .help = SKY_LEVEL_NAMES},
            {.name = "output",
             .kind = CLI_PATH,
             .value = "FILE",
             .letter = 'o',
             .help = "where the result goes"},
            {.name = "layout", .kind = CLI_PATH, .value = "F.json", .help = "the rope of the keys"},
            {.name = "no-layout",
             .kind = CLI_FLAG,
             .help = "encode or lower keys as they stand, rope and all"},
            {.name = "calibration", .kind = CLI_PATH, .value = "F.skycal", .help = "of the model"},
            {.name = "layers", .kind = CLI_TEXT, .value = "A-B", .help = "decode these alone"},
            {.name = "plain",
             .kind = CLI_FLAG,
             .help = "encode by rounding: fast, a little larger"},
            {.name = "block-tokens",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "128",
             .min = 1,
             .max = 512,
             .help = "tokens of a container"},
            {.name = NULL},
        },
    .arguments_min = 1,
    .arguments_max = 3,
    .examples =
        (const cli_example[]){
            {"skymem codec encode kv.npy -o kv.skv --level 3", "about a fifth of the bytes"},
            {"skymem codec decode kv.skv -o again.npy --layers 0-3", "four layers, read alone"},
            {"skymem codec lower kv8.skv kv4.skv --level 4", "for a tier farther away"},
            {"skymem codec verify kv.skv", "is it whole, and does it decode?"},
            {NULL, NULL},
        },
    .fields =
        (const cli_field[]){
            {"levels", "levels: each with level and bits_typical; stat: level, streams, bytes"},
            {"level", "encode, lower: the one asked for"},
            {"blocks", "encode, lower, stat: containers in the file"},
            {"lowered", "lower: streams that were above the level"},
            {"kept", "lower: streams that were not, and are as they were"},
            {"bytes_in", "encode: of the array; lower: of the file"},
            {"bytes", "of the file; decode: of the array"},
            {"bits_per_element", "encode: all bytes counted"},
            {"encode_gbps", "encode: GB of array a second"},
            {"decode_gbps", "decode: GB of array a second"},
            {"lower_s", "lower: seconds it took"},
            {"streams", "stat, verify: one for each layer's K and V of a block"},
            {"corrupt", "verify: streams whose checksum or header is wrong, or that do not decode"},
            {"undecoded", "verify: streams checked by checksum alone, without their calibration"},
            {"absent", "stat: streams that were left out: layer, kv (K or V), in how many blocks"},
            {"calibrated", "stat: a calibration or layout is needed to decode"},
            {"tokens", "stat, decode"},
            {"layers", "stat, decode"},
            {"first_position", "stat: of the first block's first token"},
            {"block_tokens", "stat: of the longest block"},
            {"shapes", "stat: for each run of layers that are alike, first_layer, last_layer, "
                       "kv_heads, k_dim and v_dim (of a head), k_element and v_element (f16, f32 "
                       "or bf16)"},
            {"profile", "stat: id of the calibration or layout it was made with, or null; lossless "
                        "rows decode without"},
            {"fingerprint", "stat: of the model, as that calibration has it, or null"},
            {"unlike", "stat: blocks that differ in shapes, profile or fingerprint from the first, "
                       "of which these are told"},
            {NULL, NULL},
        },
    .run = codec_run,
};
