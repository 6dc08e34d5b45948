#include "io/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static size_t round_up(size_t bytes) {
    return (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

sky_status sky_pages_reserve(size_t bytes, void **out, bool *huge) {
    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return SKY_E_NOMEM;
    /* One huge page more than asked for, so that an aligned start lies inside; the rest goes
     * back. */
    size_t wanted = round_up(bytes), mapped = wanted + HUGE_PAGE;
    uint8_t *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return SKY_E_NOMEM;
    size_t head = round_up((uintptr_t)map) - (uintptr_t)map;
    if (head > 0)
        munmap(map, head);
    munmap(map + head + wanted, mapped - head - wanted);
    /* What is smaller than a huge page would only take more of the machine's memory by one. */
    bool agreed = bytes < HUGE_PAGE || madvise(map + head, wanted, MADV_HUGEPAGE) == 0;
    if (huge)
        *huge = agreed;
    *out = map + head;
    return SKY_OK;
}

void sky_pages_release(void *pages, size_t bytes) {
    if (pages)
        munmap(pages, round_up(bytes));
}

void sky_pages_give_back(void *from, size_t bytes) {
    uintptr_t mask = sky_pages_unit() - 1;
    uintptr_t begin = ((uintptr_t)from + mask) & ~mask, end = ((uintptr_t)from + bytes) & ~mask;
    if (begin < end)
        (void)madvise((uint8_t *)from + (begin - (uintptr_t)from), end - begin, MADV_DONTNEED);
}

size_t sky_pages_unit(void) {
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : HUGE_PAGE;
}

uint64_t sky_pages_machine_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}
