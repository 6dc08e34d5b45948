/* skymemd --satellite. */
#ifndef SKYMEMD_SATELLITE_H
#define SKYMEMD_SATELLITE_H

/* Be the satellite "P,S" of a scenario until a signal comes; returns the exit code. */
int satellite_main(const char *which, const char *scenario_path, const char *state_path);

#endif
