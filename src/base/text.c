/* Text that may hold anything, for lines that may not: see skymem/log.h. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <skymem/log.h>

size_t sky_utf8_bytes(const void *text, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *p = text;
    if (left == 0)
        return 0;
    size_t bytes = p[0] < 0x80       ? 1
                   : p[0] >> 5 == 6  ? 2
                   : p[0] >> 4 == 14 ? 3
                   : p[0] >> 3 == 30 ? 4
                                     : 0;
    if (bytes <= 1)
        return bytes;
    if (bytes > left)
        return 0;
    uint32_t point = p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        point = point << 6 | (p[i] & 0x3fu);
    }
    if (point < least[bytes] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    return bytes;
}

/* The character at `p` as it is shown, in `shown`; returns how many bytes of `p` it is. */
static size_t show_character(const uint8_t *p, size_t left, bool exact, char shown[5]) {
    size_t bytes = sky_utf8_bytes(p, left);
    bool control = p[0] < 0x20 || p[0] == 0x7f || (bytes == 2 && p[0] == 0xc2 && p[1] < 0xa0);
    if (bytes == 0 || control) {
        snprintf(shown, 5, "\\x%02x", p[0]);
        return 1;
    }
    memset(shown, 0, 5);
    memcpy(shown, p, bytes);
    if (exact && p[0] == '\\')
        shown[1] = '\\';
    return bytes;
}

size_t sky_text_escape(const void *text, size_t bytes, bool exact, char *out, size_t out_bytes) {
    const uint8_t *p = text;
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        char shown[5];
        i += show_character(p + i, bytes - i, exact, shown);
        size_t length = strlen(shown);
        if (length >= out_bytes - used)
            break;
        memcpy(out + used, shown, length);
        used += length;
    }
    out[used] = '\0';
    return used;
}
