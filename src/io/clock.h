/* The clocks of the operating system. */
#ifndef SKY_IO_CLOCK_H
#define SKY_IO_CLOCK_H

#include "base/clock.h"

/* CLOCK_MONOTONIC and CLOCK_REALTIME; never NULL, lives for ever. */
const sky_clock *sky_clock_system(void);

/* Processor time this thread has had. */
sky_time sky_thread_time(void);

#endif
