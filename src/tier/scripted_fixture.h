/* A tier that does what the test says: it holds its answers back, fails, or hands out damage. It
 * has no thread: what is held is answered when the test says so. */
#ifndef SKY_TIER_SCRIPTED_FIXTURE_H
#define SKY_TIER_SCRIPTED_FIXTURE_H

#include "tier/tier.h"

typedef struct sky_scripted sky_scripted;

/* `place`: its index in the hierarchy. */
sky_scripted *sky_scripted_open(uint8_t place);
sky_tier *sky_scripted_tier(sky_scripted *s);

/* From now on answers wait (true), or come inside submit again, those that wait included. */
void sky_scripted_hold(sky_scripted *s, bool hold);
/* Answer the oldest that waits; false when none does. */
bool sky_scripted_answer_one(sky_scripted *s);
/* Answer all that wait but the oldest. */
void sky_scripted_answer_later(sky_scripted *s);
/* From now on gets of what is there are answered without a submit: `attempted` counts them. */
void sky_scripted_attempt(sky_scripted *s, bool attempt);
size_t sky_scripted_attempted(sky_scripted *s);
/* From now on every answer is `status`; SKY_OK: the truth. SKY_E_CORRUPT concerns reads of what is
 * there. */
void sky_scripted_say(sky_scripted *s, sky_status status);
/* The same, as a tier behind this one says it. */
void sky_scripted_pass_on(sky_scripted *s, sky_status status);
/* The next put of this key ends so, once. */
void sky_scripted_refuse(sky_scripted *s, const sky_key *key, sky_status status);

/* How many items of an op were submitted, and how many answers wait now. */
size_t sky_scripted_count(sky_scripted *s, sky_op op);
/* How many spans those items had together. */
size_t sky_scripted_spans(sky_scripted *s, sky_op op);
size_t sky_scripted_held(sky_scripted *s);
/* Bytes of a key's payload; NULL when it is not there. Valid until the next write. */
const void *sky_scripted_peek(sky_scripted *s, const sky_key *key, size_t *bytes);
bool sky_scripted_pinned(sky_scripted *s, sky_key key);
/* Put it there, or take it away, behind everybody's back. */
void sky_scripted_plant(sky_scripted *s, sky_key key, const void *data, size_t bytes);
void sky_scripted_drop(sky_scripted *s, sky_key key);

#endif
