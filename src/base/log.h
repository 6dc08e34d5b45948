/* One line to whoever listens; by default warnings and errors go to stderr. */
#ifndef SKY_BASE_LOG_H
#define SKY_BASE_LOG_H

typedef enum { SKY_LOG_ERROR, SKY_LOG_WARNING, SKY_LOG_INFO, SKY_LOG_DEBUG } sky_log_level;

/* Thread-safe. The message says what, where, and what to do. */
void sky_log(sky_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Most talkative level written to stderr (default SKY_LOG_WARNING; SKYMEM_LOG=debug changes it at
 * start). */
void sky_log_level_set(sky_log_level level);

#endif
