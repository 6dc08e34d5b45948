/* What clients ask of the session: the next step of a request, or a request of the session's own.
 *
 * A client does not begin what another one does, nor end a request while its caller still works on
 * it: it notes the step here, and the session takes it when the client has returned. */
#include "ground/session_state.h"

/* What is under way for the request is given up. */
static void step_from_here(sky_session *s, uint32_t request, sky__step step) {
    sky__operations_abandon(&s->scheduler, request);
    sky__requests_stand_down(&s->requests, request);
    sky__requests_step(&s->requests, request, step);
}

void sky__request_finish(sky_session *s, uint32_t request, sky_status status, uint64_t bytes) {
    sky__request *r = &s->requests.rows[request];
    r->result.status = status;
    r->result.bytes = bytes;
    step_from_here(s, request, STEP_END);
}

void sky__work_done(sky_session *s, uint32_t request) {
    sky__request_finish(s, request, SKY_OK, s->requests.rows[request].of.info.payload_bytes);
}

void sky__request_lost(sky_session *s, uint32_t request) {
    step_from_here(s, request, STEP_LOST);
}

void sky__request_found(sky_session *s, uint32_t request) {
    step_from_here(s, request, STEP_FOUND);
}

void sky__request_remove(sky_session *s, uint32_t request) {
    step_from_here(s, request, STEP_REMOVE);
}

void sky__submit_own(sky_session *s, const sky_request *ask) {
    uint32_t request = sky__requests_take(&s->requests, ask, true);
    if (request != SKY__NONE)
        sky__requests_step(&s->requests, request, STEP_BEGIN);
}
