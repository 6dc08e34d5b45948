/* skymem eval, as help and parsing see it; skymem-lab runs it. */
#include "cli.h"

const cli_verb cli_verb_eval = {
    .name = "eval",
    .summary = "Measure what storing a model's cache at a level does to its answers",
    .synopsis = "",
    .about = "The beginning of each text is computed, its cache is stored and loaded, and the "
             "model reads on. Its predictions are compared with those from the cache before. "
             "Bytes are all that would be stored: scales, tables, headers, directories.\n"
             "Levels: 8 6 4 3 2.5 2 archive. With -plain behind it: rounded without the "
             "trellis. With -uncalibrated: without side data. 4-x1.2: steps 1.2 times as "
             "coarse. 4-from-8: lowered from what level 8 kept. 3+8@last: the newest block of "
             "the prefix at level 8; @last2: two blocks; @first: the oldest.\n"
             "The column / LADDER is the divergence over that of the levels at the same bits, "
             "by interpolation.\n"
             "References: f16; noise (f16 moved by its last place: the least difference that "
             "can be seen); q8_0 q5_1 q5_0 q4_0 q4_0-rotated, as in llama.cpp; kivi-4 kivi-2; "
             "cachegen, as it is shipped; cachegen-note, as it is described: differences to "
             "anchor tokens, in bins by thirds of the layers.\n"
             "The weights are first dequantised to F32, once, into the cache folder: kernels "
             "for quantised weights add noise that hides everything finer than q4_0.",
    .settings = CLI_SET_MODEL | CLI_SET_THREADS,
    .options =
        (const cli_option[]){
            {.name = "text",
             .kind = CLI_LIST,
             .value = "F",
             .help = "a text to read, may be repeated (default: those in share/texts)"},
            {.name = "prefix",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "1024",
             .min = 16,
             .max = 131072,
             .help = "tokens whose cache is stored"},
            {.name = "continue",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "256",
             .min = 1,
             .max = 512,
             .help = "tokens after them whose predictions are compared"},
            {.name = "levels",
             .kind = CLI_TEXT,
             .value = "A,B",
             .help = "levels and references (default: all)"},
            {.name = "block-tokens",
             .kind = CLI_COUNT,
             .value = "N",
             .fallback = "128",
             .min = 1,
             .max = SKY_STREAM_TOKENS_MAX,
             .help = "tokens that are coded together"},
            {.name = "calibration",
             .kind = CLI_PATH,
             .value = "F.skycal",
             .help = "side data of this model, or none (default: found by the model's content)"},
            {.name = "facts", .kind = CLI_FLAG, .help = "also ask for facts planted in a text"},
            {.name = "claims",
             .kind = CLI_FLAG,
             .help = "test CacheGen's claims instead: delta, depth or groups",
             .detail = "The result is JSON lines with fields of their own."},
            {.name = "weights",
             .kind = CLI_CHOICE,
             .value = "f32|file",
             .fallback = "f32",
             .help = "dequantise the weights first, or use them as they are"},
            {.name = "kernels",
             .kind = CLI_TEXT,
             .value = "NAME",
             .help = "scalar, avx2, avx512 or neon (default: the best this machine has)"},
            {.name = "lines",
             .kind = CLI_PATH,
             .value = "F",
             .help = "measure nothing: table and plot of lines that earlier runs printed"},
            {.name = "plot", .kind = CLI_PATH, .value = "F.svg", .help = "draw bits against KLD"},
            {.name = NULL},
        },
    .examples =
        (const cli_example[]){
            {"skymem eval --levels 4,q8_0,q4_0", "one level between two that llama.cpp has"},
            {"skymem eval --text book.txt --prefix 4096 --json", "one text, lines for a script"},
            {"skymem eval --levels f16,4,2 --facts", "does it still know what it read?"},
            {NULL, NULL},
        },
    .json_lines = true,
    .fields =
        (const cli_field[]){
            {"level", "the level or reference"},
            {"text", "the text's file name, or planted-facts"},
            {"bits_per_element", "bits stored for one number of the cache"},
            {"bytes", "all bytes stored"},
            {"kld_mean", "Kullback-Leibler divergence from the unchanged model, nats a token"},
            {"kld_p999", "what 99.9 % of the tokens stay below"},
            {"top1", "share of tokens whose likeliest successor is the same"},
            {"ppl_ratio", "perplexity of the text over that of the unchanged model"},
            {"encode_gbps", "f16 rows encoded a second, one thread, GB; null for references"},
            {"decode_gbps", "the same, decoded"},
            {"rms_dp", "root mean square change of the probability of the text's own next token"},
            {"prefix", "tokens whose cache was stored"},
            {"right", "planted facts: answers that are right, else null"},
            {"asked", "of so many"},
            {NULL, NULL},
        },
    .failed = "no such model or text, a text shorter than asked for, or a calibration of another "
              "model",
};
