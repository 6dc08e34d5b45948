/* Decimal numbers out of fixed columns and cells: no locale, no hex, no inf, nothing beside it. */
#ifndef SKY_ORBIT_DECIMAL_H
#define SKY_ORBIT_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [sign] digits [. digits] [E [sign] digits] of exactly `bytes` bytes; blanks around it are
 * skipped. Correctly rounded for up to 15 digits and exponents to ±22. */
bool sky__decimal(const char *text, size_t bytes, double *out);
/* Digits only, blanks around; false above `max`. */
bool sky__whole(const char *text, size_t bytes, uint64_t max, uint64_t *out);
/* Cut blanks off both ends. */
void sky__trim(const char **text, size_t *bytes);

#endif
