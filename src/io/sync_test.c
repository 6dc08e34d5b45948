/* Proves: events wake pollers, alarms fire at their time and not before, conditions time out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/sync.h"

static void an_event_is_readable_from_raise_until_clear(void **state) {
    (void)state;
    int fd;
    assert_int_equal(sky_event_create(&fd), SKY_OK);
    assert_int_equal(sky_poll(&fd, 1, sky_now()), 0);
    sky_event_raise(fd);
    sky_event_raise(fd);
    assert_int_equal(sky_poll(&fd, 1, SKY_TIME_NEVER), 1);
    sky_event_clear(fd);
    assert_int_equal(sky_poll(&fd, 1, sky_now()), 0);
    sky_event_clear(fd); /* clearing what is clear does not block */
    sky_event_close(fd);
}

static void an_alarm_fires_at_its_time_or_for_its_inner_event(void **state) {
    (void)state;
    int inner;
    sky_alarm alarm;
    assert_int_equal(sky_event_create(&inner), SKY_OK);
    assert_int_equal(sky_alarm_create(inner, &alarm), SKY_OK);
    sky_time due = sky_now() + SKY_MS(20);
    sky_alarm_set(&alarm, due);
    assert_int_equal(sky_poll(&alarm.fd, 1, SKY_TIME_NEVER), 1);
    assert_true(sky_now() >= due);
    sky_alarm_set(&alarm, SKY_TIME_NEVER);
    assert_int_equal(sky_poll(&alarm.fd, 1, sky_now() + SKY_MS(5)), 0);
    sky_event_raise(inner);
    assert_int_equal(sky_poll(&alarm.fd, 1, SKY_TIME_NEVER), 1);
    sky_event_clear(inner);
    sky_alarm_set(&alarm, 0); /* in the past: at once */
    assert_int_equal(sky_poll(&alarm.fd, 1, SKY_TIME_NEVER), 1);
    sky_alarm_close(&alarm);
    sky_event_close(inner);
}

static void polling_tells_which_descriptor(void **state) {
    (void)state;
    int fds[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(sky_event_create(&fds[i]), SKY_OK);
    sky_event_raise(fds[0]);
    sky_event_raise(fds[2]);
    assert_int_equal(sky_poll(fds, 3, SKY_TIME_NEVER), 1u | 4u);
    for (int i = 0; i < 3; i++)
        sky_event_close(fds[i]);
}

/* Another thread's change comes at the worst moment: between the clearing and the look. */
typedef struct {
    int event;
    int looks;
    bool change_in_look;
    sky_time until;
} sleeper;

static sky_time look(void *context) {
    sleeper *s = context;
    s->looks++;
    if (s->change_in_look)
        sky_event_raise(s->event);
    return s->until;
}

static void a_change_before_during_or_after_the_look_ends_the_wait(void **state) {
    (void)state;
    sleeper s = {.change_in_look = true, .until = SKY_TIME_NEVER};
    assert_int_equal(sky_event_create(&s.event), SKY_OK);
    assert_true(sky_event_wait(s.event, NULL, 0, look, &s));
    int other;
    assert_int_equal(sky_event_create(&other), SKY_OK);
    sky_event_raise(other);
    s.change_in_look = false;
    assert_true(sky_event_wait(s.event, &other, 1, look, &s));
    assert_int_equal(s.looks, 2);
    assert_int_equal(sky_poll(&s.event, 1, sky_now()), 0); /* it was cleared */
    s.until = SKY_TIME_OVER;
    assert_false(sky_event_wait(s.event, NULL, 0, look, &s));
    sky_event_close(other);
    sky_event_close(s.event);
}

static void there_is_a_processor(void **state) {
    (void)state;
    assert_in_range(sky_cpu_count(), 1, 1u << 16);
}

typedef struct {
    sky_mutex mutex;
    sky_condition changed;
    int value;
} shared_value;

static void *set_value(void *argument) {
    shared_value *shared = argument;
    sky_mutex_lock(&shared->mutex);
    shared->value = 42;
    sky_condition_broadcast(&shared->changed);
    sky_mutex_unlock(&shared->mutex);
    return NULL;
}

static void conditions_time_out_and_wake(void **state) {
    (void)state;
    shared_value shared = {.value = 0};
    sky_mutex_init(&shared.mutex);
    sky_condition_init(&shared.changed);
    sky_mutex_lock(&shared.mutex);
    sky_time until = sky_now() + SKY_MS(10);
    while (sky_condition_wait(&shared.changed, &shared.mutex, until)) {
    }
    assert_true(sky_now() >= until);
    sky_thread thread;
    assert_int_equal(sky_thread_start(&thread, "setter", set_value, &shared), SKY_OK);
    while (shared.value == 0)
        sky_condition_wait(&shared.changed, &shared.mutex, SKY_TIME_NEVER);
    sky_mutex_unlock(&shared.mutex);
    sky_thread_join(&thread);
    sky_thread_join(&thread); /* joined already: nothing happens */
    assert_int_equal(shared.value, 42);
    sky_condition_deinit(&shared.changed);
    sky_mutex_deinit(&shared.mutex);
}

static void the_monotonic_clock_never_goes_back(void **state) {
    (void)state;
    const sky_clock *clock = sky_clock_system();
    sky_time before = clock->now(clock);
    for (int i = 0; i < 1000; i++) {
        sky_time now = clock->now(clock);
        assert_true(now >= before);
        before = now;
    }
    assert_true(clock->wall_ms(clock) > 1700000000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_readable_from_raise_until_clear),
        cmocka_unit_test(an_alarm_fires_at_its_time_or_for_its_inner_event),
        cmocka_unit_test(a_change_before_during_or_after_the_look_ends_the_wait),
        cmocka_unit_test(there_is_a_processor),
        cmocka_unit_test(polling_tells_which_descriptor),
        cmocka_unit_test(conditions_time_out_and_wake),
        cmocka_unit_test(the_monotonic_clock_never_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
