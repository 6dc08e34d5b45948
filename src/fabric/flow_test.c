/* Proves: a greeting keeps its bytes, and no other is taken; a message is sent only into a buffer
 * that the other end has, whatever the order in which buffers come back; at most two messages that
 * only return buffers are under way; and a head that the other end may not send is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "fabric/flow.h"

static sky_fabric_flow greeted(void) {
    sky_fabric_flow f;
    uint8_t greeting[SKY_FABRIC_GREETING_BYTES];
    sky_fabric_flow_init(&f);
    sky_fabric_flow_greet(greeting);
    assert_int_equal(sky_fabric_flow_room(&f), 0);
    assert_int_equal(sky_fabric_flow_meet(&f, greeting, sizeof greeting), SKY_OK);
    return f;
}

static void greetings_keep_their_bytes(void **state) {
    static const uint8_t golden[] = {0x89, 'S', 'K', 'F', 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0};
    uint8_t greeting[SKY_FABRIC_GREETING_BYTES + 40] = {0};
    sky_fabric_flow f = {0};
    (void)state;
    sky_fabric_flow_greet(greeting);
    assert_memory_equal(greeting, golden, sizeof golden);
    assert_int_equal(sky_fabric_flow_meet(&f, greeting, sizeof greeting), SKY_OK); /* padded */
    assert_int_equal(sky_fabric_flow_meet(&f, greeting, sizeof golden - 1), SKY_E_CORRUPT);
    greeting[4] = 2;
    assert_int_equal(sky_fabric_flow_meet(&f, greeting, sizeof golden), SKY_E_UNSUPPORTED);
    greeting[4] = 1;
    greeting[0] = 0x88;
    assert_int_equal(sky_fabric_flow_meet(&f, greeting, sizeof golden), SKY_E_CORRUPT);
}

static void greetings_are_bounded(void **state) {
    static const struct {
        uint32_t buffers, bytes;
        sky_status status;
    } cases[] = {{2, 64, SKY_OK},        {4096, UINT32_MAX, SKY_OK}, {0, 64, SKY_E_CORRUPT},
                 {3, 64, SKY_E_CORRUPT}, {4098, 64, SKY_E_CORRUPT},  {2, 63, SKY_E_CORRUPT}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t greeting[SKY_FABRIC_GREETING_BYTES];
        sky_fabric_flow f;
        sky_fabric_flow_init(&f);
        sky_fabric_flow_greet(greeting);
        sky_store_u32(greeting + 8, cases[i].buffers);
        sky_store_u32(greeting + 12, cases[i].bytes);
        assert_int_equal(sky_fabric_flow_meet(&f, greeting, sizeof greeting), cases[i].status);
        uint32_t most = cases[i].bytes < SKY_FABRIC_BUFFER_BYTES ? cases[i].bytes
                                                                 : SKY_FABRIC_BUFFER_BYTES;
        assert_int_equal(sky_fabric_flow_room(&f),
                         cases[i].status == SKY_OK ? most - SKY_FABRIC_HEAD_BYTES : 0);
    }
}

/* Two ends; messages under way in a queue each way, read at random. */
typedef struct {
    sky_fabric_flow flow;
    uint32_t unread; /* messages with bytes that came, and are not freed */
    uint8_t under_way[SKY_FABRIC_BUFFERS + SKY_FABRIC_SPARE][SKY_FABRIC_HEAD_BYTES + 1];
    uint32_t count; /* towards this end */
} end;

static void send_to(end *from, end *to, uint32_t bytes) {
    assert_true(to->count + to->unread < SKY_FABRIC_BUFFERS + SKY_FABRIC_SPARE);
    sky_fabric_flow_send(&from->flow, bytes, to->under_way[to->count++]);
}

static void take_next(end *e) {
    size_t bytes;
    uint32_t length = sky_load_u32(e->under_way[0] + 4);
    assert_int_equal(
        sky_fabric_flow_take(&e->flow, e->under_way[0], SKY_FABRIC_HEAD_BYTES + length, &bytes),
        SKY_OK);
    assert_int_equal(bytes, length);
    e->unread += bytes > 0;
    memmove(e->under_way, e->under_way + 1, --e->count * sizeof *e->under_way);
}

static void buffers_are_never_too_few(void **state) {
    end ends[2] = {{.flow = greeted()}, {.flow = greeted()}};
    uint32_t chance = 7, taken = 0;
    (void)state;
    for (int n = 0; n < 200000; n++) {
        chance = chance * 1664525u + 1013904223u;
        end *e = &ends[chance >> 31], *other = &ends[!(chance >> 31)];
        switch (chance >> 28 & 3) {
        case 0:
        case 1:
            if (sky_fabric_flow_room(&e->flow) > 0)
                send_to(e, other, 1);
            break;
        case 2:
            taken += e->count > 0;
            if (e->count > 0)
                take_next(e);
            break;
        default:
            if (e->unread > 0 && e->unread-- && sky_fabric_flow_free(&e->flow))
                send_to(e, other, 0);
        }
    }
    assert_true(taken > 10000);
}

/* An end that does not read stops the other for good. */
static void who_does_not_read_is_not_sent_to(void **state) {
    sky_fabric_flow f = greeted();
    uint8_t head[SKY_FABRIC_HEAD_BYTES];
    uint32_t sent = 0;
    (void)state;
    for (; sky_fabric_flow_room(&f) > 0; sent++)
        sky_fabric_flow_send(&f, 1, head);
    assert_int_equal(sent, SKY_FABRIC_BUFFERS);
}

static void wrong_heads_are_refused(void **state) {
    uint8_t head[SKY_FABRIC_HEAD_BYTES + 10] = {0};
    size_t bytes;
    (void)state;
    sky_fabric_flow f = greeted(), silent;
    sky_fabric_flow_init(&silent);
    head[4] = 10;
    assert_int_equal(sky_fabric_flow_take(&silent, head, sizeof head, &bytes), SKY_E_CORRUPT);
    assert_int_equal(sky_fabric_flow_take(&f, head, sizeof head - 1, &bytes), SKY_E_CORRUPT);
    assert_int_equal(sky_fabric_flow_take(&f, head, SKY_FABRIC_HEAD_BYTES - 1, &bytes),
                     SKY_E_CORRUPT);
    head[0] = 1; /* it returns what it was not sent */
    assert_int_equal(sky_fabric_flow_take(&f, head, sizeof head, &bytes), SKY_E_CORRUPT);
    head[0] = 0;
    for (uint32_t n = 0; n < SKY_FABRIC_BUFFERS; n++)
        assert_int_equal(sky_fabric_flow_take(&f, head, sizeof head, &bytes), SKY_OK);
    assert_int_equal(sky_fabric_flow_take(&f, head, sizeof head, &bytes), SKY_E_CORRUPT);
    head[4] = 0; /* and neither bytes nor half of the buffers */
    assert_int_equal(sky_fabric_flow_take(&f, head, SKY_FABRIC_HEAD_BYTES, &bytes), SKY_E_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings_keep_their_bytes),
        cmocka_unit_test(greetings_are_bounded),
        cmocka_unit_test(buffers_are_never_too_few),
        cmocka_unit_test(who_does_not_read_is_not_sent_to),
        cmocka_unit_test(wrong_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
