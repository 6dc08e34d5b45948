/* Large regions of memory that cost nothing until they are touched. */
#ifndef SKY_IO_PAGES_H
#define SKY_IO_PAGES_H

#include <skymem/types.h>

/* Reserve zeroed memory, aligned to 2 MiB. Huge pages are asked for; *huge (may be NULL) tells
 * whether the kernel agreed to try.
 * Errors: SKY_E_NOMEM */
sky_status sky_pages_reserve(size_t bytes, void **out, bool *huge);
/* NULL is fine. */
void sky_pages_release(void *pages, size_t bytes);

/* The whole pages among `bytes` from `from` on go back to the machine, and read as zeros from now
 * on; what shares a page with others stays. Private memory alone. */
void sky_pages_give_back(void *from, size_t bytes);

/* Bytes of an ordinary page: what is mapped begins and ends at a multiple of it. */
size_t sky_pages_unit(void);

/* Memory this machine has; 0 when it does not tell. */
uint64_t sky_pages_machine_bytes(void);

#endif
