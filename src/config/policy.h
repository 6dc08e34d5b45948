/* What a scenario says about lookup, eviction and redundancy, for whoever hosts its satellites and
 * its ground session: the simulator, the embedded sky, real sockets. */
#ifndef SKY_CONFIG_POLICY_H
#define SKY_CONFIG_POLICY_H

#include "config/scenario.h"
#include "ground/session.h"

/* Fill in the fields of the two configurations that the scenario decides; the others stay. */
void sky_policy_node(const sky_scenario *scenario, const sky_frame *frame, sky_node_config *out);
void sky_policy_session(const sky_scenario *scenario, const sky_frame *frame,
                        sky_session_config *out);

#endif
