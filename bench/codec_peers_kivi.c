/* KIVI's asymmetric groups of 32 in plain C, for codec_peers.py, which compiles this for the
 * machine at hand: compilers make vectors of every loop over channels. Keys are grouped along
 * tokens, values along channels (KIVI, section 3); each group keeps its least value and its step
 * as f16.
 *
 *   keys     for each 32 tokens: least [width], step [width], codes [32 * bits / 8][width]
 *   values   for each token and 32 channels: least, step, codes [4 * bits]
 *
 * A byte of codes holds those of rows, or of channels, that lie 32 * bits / 8 apart. */
#include <stdint.h>
#include <string.h>

#define GROUP     32
#define WIDTH_MAX 4096

typedef _Float16 half;

static size_t put_columns(const half *x, int width, int bits, uint8_t *out) {
    static _Thread_local float least[WIDTH_MAX], scale[WIDTH_MAX];
    half *heads = (half *)(void *)out;
    int lines = GROUP * bits / 8, top = (1 << bits) - 1;
    for (int i = 0; i < width; i++) {
        float low = (float)x[i], high = low;
        for (int t = 1; t < GROUP; t++) {
            float v = (float)x[t * width + i];
            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        heads[i] = (half)low;
        heads[width + i] = (half)((high - low) / (float)top);
        least[i] = (float)heads[i];
        scale[i] = heads[width + i] > 0 ? 1 / (float)heads[width + i] : 0;
    }
    out += 4 * (size_t)width;
    memset(out, 0, (size_t)lines * (size_t)width);
    for (int t = 0; t < GROUP; t++) {
        uint8_t *line = out + t % lines * width;
        for (int i = 0; i < width; i++) {
            int q = (int)(((float)x[t * width + i] - least[i]) * scale[i] + 0.5f);
            q = q < 0 ? 0 : q > top ? top : q;
            line[i] = (uint8_t)(line[i] | q << t / lines * bits);
        }
    }
    return (size_t)width * (size_t)(4 + lines);
}

static size_t get_columns(const uint8_t *in, int width, int bits, half *x) {
    const half *heads = (const half *)(const void *)in;
    int lines = GROUP * bits / 8, top = (1 << bits) - 1;
    for (int t = 0; t < GROUP; t++) {
        const uint8_t *line = in + 4 * width + t % lines * width;
        for (int i = 0; i < width; i++)
            x[t * width + i] = (half)((float)(line[i] >> t / lines * bits & top) *
                                          (float)heads[width + i] +
                                      (float)heads[i]);
    }
    return (size_t)width * (size_t)(4 + lines);
}

static size_t put_group(const half *x, int bits, uint8_t *out) {
    half *heads = (half *)(void *)out;
    int lines = GROUP * bits / 8, top = (1 << bits) - 1;
    float v[GROUP], low, high;
    for (int i = 0; i < GROUP; i++)
        v[i] = (float)x[i];
    low = high = v[0];
    for (int i = 1; i < GROUP; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    heads[0] = (half)low;
    heads[1] = (half)((high - low) / (float)top);
    float least = (float)heads[0], scale = heads[1] > 0 ? 1 / (float)heads[1] : 0;
    uint8_t codes[GROUP];
    for (int i = 0; i < GROUP; i++) {
        int q = (int)((v[i] - least) * scale + 0.5f);
        codes[i] = (uint8_t)(q < 0 ? 0 : q > top ? top : q);
    }
    memset(out + 4, 0, (size_t)lines);
    for (int i = 0; i < GROUP; i++)
        out[4 + i % lines] = (uint8_t)(out[4 + i % lines] | codes[i] << i / lines * bits);
    return (size_t)(4 + lines);
}

static size_t get_group(const uint8_t *in, int bits, half *x) {
    const half *heads = (const half *)(const void *)in;
    int lines = GROUP * bits / 8, top = (1 << bits) - 1;
    float least = (float)heads[0], step = (float)heads[1];
    for (int i = 0; i < GROUP; i++)
        x[i] = (half)((float)(in[4 + i % lines] >> i / lines * bits & top) * step + least);
    return (size_t)(4 + lines);
}

/* Rows of f16 [tokens, width] to bytes, and back; tokens and width are multiples of 32. */
size_t kivi_encode(const half *x, int tokens, int width, int keys, int bits, uint8_t *out) {
    uint8_t *at = out;
    for (int t = 0; keys && t < tokens; t += GROUP)
        at += put_columns(x + t * width, width, bits, at);
    for (int i = 0; !keys && i < tokens * width; i += GROUP)
        at += put_group(x + i, bits, at);
    return (size_t)(at - out);
}

void kivi_decode(const uint8_t *in, int tokens, int width, int keys, int bits, half *x) {
    for (int t = 0; keys && t < tokens; t += GROUP)
        in += get_columns(in, width, bits, x + t * width);
    for (int i = 0; !keys && i < tokens * width; i += GROUP)
        in += get_group(in, bits, x + i);
}
