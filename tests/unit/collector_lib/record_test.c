/* SPDX-License-Identifier: Apache-2.0 */
/*
 * librankscope against a collector of twenty lines, in one process: what is recorded, what is
 * lost, when recording starts and stops. The threads of the last tests give TSan something to look at.
 */
#include "collector/lib/client_priv.h"
#include "tests/unit/collector_lib/door.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { SLOTS = RS_RING_MIN_BYTES / RS_RING_SLOT_BYTES };

static struct door door;

static int connected_process(void **state)
{
    (void)state;
    door_open(&door);
    struct rankscope_config config = door_config(&door);
    assert_int_equal(rankscope_init(&config), 0);
    door_welcome(&door);
    door_take_rings(
        &door); /* this thread's ring outlives fini, and holds the end of the test before */
    for (size_t i = 0; i < door.ring_count; i++)
        rs_ring_discard(door.rings[i]);
    return 0;
}

static int process_ends(void **state)
{
    (void)state;
    rankscope_fini();
    door_close(&door);
    return 0;
}

/* From the next boundary on, until step 1000. */
static void start_recording(void)
{
    (void)rs_control_request(door.control, RS_LIB_START_NEXT, 999);
    rankscope_step(1);
    assert_true(rankscope_is_recording());
}

static void hello_says_who_it_is(void **state)
{
    (void)state;
    assert_int_equal(door.hello.rank, 3);
    assert_int_equal(door.hello.world_size, 8);
    assert_int_equal(door.hello.dp, -1);
    assert_string_equal(door.hello.run, "test");
    assert_int_equal(door.hello.pid, getpid());
    assert_string_equal(door.hello.program, "unit_collector_lib_record_test");
    assert_true(rankscope_is_connected());
}

static void nothing_is_recorded_without_a_request(void **state)
{
    (void)state;
    uint32_t name = rankscope_name("forward", 0);
    rankscope_step(0);
    rankscope_op_begin(name);
    rankscope_op_end();
    rankscope_step(1);
    door_drain(&door);
    assert_int_equal(door.record_count, 0);
    struct rs_lib_progress progress;
    rs_control_progress(door.control, &progress);
    assert_int_equal(progress.step, 1);
    assert_int_equal(progress.step_count, 2);
    assert_true(progress.heartbeat_ns > 0);
}

static void recording_covers_exactly_the_steps_asked_for(void **state)
{
    (void)state;
    uint32_t name = rankscope_name("work", 0);
    (void)rs_control_request(door.control, 4, 7);
    for (uint64_t step = 0; step < 10; step++) {
        rankscope_step(step);
        assert_int_equal(rankscope_is_recording(), step >= 4 && step < 7);
        rankscope_op_begin(name);
        rankscope_op_end();
    }
    door_drain(&door);
    assert_int_equal(door_count(&door, RS_RECORD_OP), 3);
    assert_int_equal(door_count(&door, RS_RECORD_STEP), 3);
    uint64_t expected = 4;
    for (size_t i = 0; i < door.record_count; i++)
        if (door.records[i].slot.kind == RS_RECORD_STEP)
            assert_int_equal(door.records[i].more.seq, expected++);
    struct rs_lib_progress progress;
    rs_control_progress(door.control, &progress);
    assert_int_equal(progress.capture_state, RS_LIB_CAPTURED);
    assert_int_equal(progress.first_step, 4);
    assert_int_equal(progress.next_step, 7);
    assert_true(progress.mean_step_ns > 0);
}

static void a_request_for_steps_gone_by_is_missed(void **state)
{
    (void)state;
    rankscope_step(20);
    uint64_t seq = rs_control_request(door.control, 4, 7);
    rankscope_step(21);
    struct rs_lib_progress progress;
    rs_control_progress(door.control, &progress);
    assert_int_equal(progress.request_seq, seq);
    assert_int_equal(progress.capture_state, RS_LIB_MISSED);
    assert_false(rankscope_is_recording());
}

static void a_request_to_stop_ends_at_the_next_boundary(void **state)
{
    (void)state;
    start_recording();
    (void)rs_control_request(door.control, RS_LIB_START_NEXT, 0);
    rankscope_mark(rankscope_name("still", 0));
    rankscope_step(2);
    assert_false(rankscope_is_recording());
    door_drain(&door);
    assert_int_equal(door_count(&door, RS_RECORD_MARK), 1);
    struct rs_lib_progress progress;
    rs_control_progress(door.control, &progress);
    assert_int_equal(progress.capture_state, RS_LIB_CAPTURED);
    assert_int_equal(progress.next_step, 2);
}

static void what_was_begun_before_the_recording_leaves_no_trace(void **state)
{
    (void)state;
    uint32_t outer = rankscope_name("outer", 0);
    uint32_t inner = rankscope_name("inner", 0);
    rankscope_range_push(outer);
    start_recording();
    rankscope_op_begin(inner);
    rankscope_op_end();
    rankscope_range_pop();
    rankscope_range_pop(); /* one too many: ignored */
    door_drain(&door);
    assert_int_equal(door.record_count, 1);
    assert_int_equal(door.records[0].slot.name, inner);
    assert_int_equal(door.records[0].slot.depth, 0);
}

static void nested_events_carry_depth_and_order(void **state)
{
    (void)state;
    start_recording();
    uint32_t outer = rankscope_name("outer", 0);
    uint32_t inner = rankscope_name("inner", 0);
    rankscope_range_push(outer);
    rankscope_op_begin(inner);
    rankscope_op_end();
    rankscope_counter(inner, -5);
    rankscope_range_pop();
    door_drain(&door);
    assert_int_equal(door.record_count, 3);
    const struct rs_slot *op = &door.records[0].slot;
    const struct rs_slot *counter = &door.records[1].slot;
    const struct rs_slot *range = &door.records[2].slot;
    assert_int_equal(op->depth, 1);
    assert_int_equal(range->depth, 0);
    assert_int_equal((int64_t)counter->value, -5);
    assert_true(range->start <= op->start && op->start <= op->end && op->end <= range->end);
}

static void leave_early(uint32_t outer, uint32_t inner, bool is_early)
{
    RANKSCOPE_RANGE(outer);
    for (int i = 0; i < 3; i++) {
        RANKSCOPE_OP(inner);
        if (is_early && i == 1)
            return;
    }
    const struct rankscope_comm comm = {.type = RANKSCOPE_BARRIER,
                                        .peer = RANKSCOPE_UNKNOWN,
                                        .sequence = RANKSCOPE_NO_SEQUENCE,
                                        .bytes = RANKSCOPE_NO_BYTES};
    RANKSCOPE_COMM(&comm);
}

static void a_scope_ends_however_it_is_left(void **state)
{
    (void)state;
    start_recording();
    const uint32_t outer = rankscope_name("outer", 0);
    const uint32_t inner = rankscope_name("inner", 0);
    leave_early(outer, inner, true);
    rankscope_op_begin(inner); /* at the bottom again: nothing was left open */
    rankscope_op_end();
    leave_early(outer, inner, false);
    door_drain(&door);
    assert_int_equal(door.record_count, 3 + 1 + 5);
    const uint32_t depths[] = {1, 1, 0, 0, 1, 1, 1, 1, 0};
    for (size_t i = 0; i < door.record_count; i++)
        assert_int_equal(door.records[i].slot.depth, depths[i]);
    assert_int_equal(door.records[2].slot.name, outer);
    assert_int_equal(door_count(&door, RS_RECORD_COMM), 1);
}

static void hops_belong_to_the_innermost_communication(void **state)
{
    (void)state;
    start_recording();
    const int32_t ranks[] = {0, 3, 5};
    struct rankscope_comm comm = {.group = rankscope_group("dp0", ranks, 3),
                                  .sequence = 17,
                                  .bytes = 4096,
                                  .peer = RANKSCOPE_UNKNOWN,
                                  .type = RANKSCOPE_ALL_REDUCE,
                                  .transport = RANKSCOPE_TCP};
    struct rankscope_task out = {.bytes = 100, .peer = 5, .is_send = 1};
    struct rankscope_task in = {.bytes = 200, .peer = 0};
    rankscope_comm_begin(&comm);
    int first = rankscope_task_begin(&out);
    int second = rankscope_task_begin(&in);
    assert_true(first >= 0 && second >= 0 && first != second);
    rankscope_task_end(first); /* hops overlap */
    rankscope_task_end(second);
    rankscope_task_end(second); /* given back already: ignored */
    rankscope_comm_end();
    door_drain(&door);
    assert_int_equal(door.record_count, 3);
    const struct rs_ring_record *send = &door.records[0];
    const struct rs_ring_record *receive = &door.records[1];
    const struct rs_ring_record *whole = &door.records[2];
    assert_int_equal(send->slot.flags & RS_RECORD_IS_SEND, RS_RECORD_IS_SEND);
    assert_int_equal(receive->slot.flags & RS_RECORD_IS_SEND, 0);
    assert_int_equal(send->slot.value, 100);
    assert_int_equal(send->more.peer, 5);
    assert_int_equal(whole->more.seq, 17);
    assert_int_equal(whole->slot.value, 4096);
    assert_true(whole->more.comm != 0 && whole->more.comm == send->more.comm);
    assert_int_equal(whole->more.comm, receive->more.comm);
    assert_ok(rs_control_names(door.control, NULL));
    const struct rs_lib_name *group = rs_control_group(door.control, comm.group);
    assert_non_null(group);
    assert_string_equal(group->text, "dp0");
    assert_int_equal(group->rank_count, 3);
    assert_int_equal(group->ranks[2], 5);
}

static void equal_names_have_one_id(void **state)
{
    (void)state;
    uint32_t a = rankscope_name("a", RANKSCOPE_CPU_TIME);
    uint32_t b = rankscope_name("b", 0);
    const int32_t ranks[] = {0, 1};
    assert_int_equal(rankscope_name("a", 0), a);
    assert_int_not_equal(a, b);
    assert_int_equal(rankscope_group("g", ranks, 2), rankscope_group("g", ranks, 2));
    assert_int_not_equal(rankscope_group("g", ranks, 2), rankscope_group("g", ranks, 1));
    assert_ok(rs_control_names(door.control, NULL));
    assert_string_equal(rs_control_name(door.control, b)->text, "b");
}

static void a_full_name_table_gives_0_and_stays_whole(void **state)
{
    (void)state;
    char text[2048];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    uint32_t count = 0;
    for (int i = 0; i < 400; i++) {
        text[0] = (char)('a' + i / 20);
        text[1] = (char)('a' + i % 20);
        count += rankscope_name(text, 0) != 0 ? 1 : 0;
    }
    assert_in_range(count, 200, 300);
    assert_ok(rs_control_names(door.control, NULL));
    assert_non_null(rs_control_name(door.control, count));
    assert_null(rs_control_name(door.control, count + 1));
}

static void cpu_time_tells_work_from_sleep(void **state)
{
    (void)state;
    start_recording();
    uint32_t name = rankscope_name("timed", RANKSCOPE_CPU_TIME);
    struct timespec nap = {.tv_nsec = 20000000};
    rankscope_op_begin(name);
    nanosleep(&nap, NULL);
    rankscope_op_end();
    door_drain(&door);
    const struct rs_slot *slot = &door.records[0].slot;
    assert_int_equal(slot->flags & RS_RECORD_HAS_CPU, RS_RECORD_HAS_CPU);
    assert_in_range(slot->value, 0, 10000000);
}

static void ring_wraps_many_times_without_loss(void **state)
{
    (void)state;
    start_recording();
    uint32_t name = rankscope_name("tick", 0);
    uint64_t next = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 301; i++)
            rankscope_counter(name, round * 301 + i);
        door.record_count = 0;
        door_drain(&door);
        assert_int_equal(door.record_count, 301);
        for (size_t i = 0; i < door.record_count; i++)
            assert_int_equal(door.records[i].slot.value, next++);
    }
    assert_int_equal(rankscope_lost_count(), 0);
}

static void records_of_two_slots_wrap_too(void **state)
{
    (void)state;
    start_recording();
    struct rankscope_comm comm = {.type = RANKSCOPE_SEND, .peer = 1, .bytes = 8};
    rankscope_mark(0); /* from here on positions are odd */
    door_drain(&door);
    door.record_count = 0;
    for (uint64_t i = 0; i < 5 * SLOTS; i++) {
        comm.sequence = i;
        rankscope_comm_begin(&comm);
        rankscope_comm_end();
        if (i % 500 == 499) {
            door_drain(&door);
            assert_int_equal(door.record_count, 500);
            for (size_t k = 0; k < 500; k++)
                assert_int_equal(door.records[k].more.seq, i - 499 + k);
            door.record_count = 0;
        }
    }
}

static void full_ring_counts_its_losses_and_marks_them(void **state)
{
    (void)state;
    start_recording();
    uint64_t lost_before = rankscope_lost_count(); /* the thread's ring serves all tests */
    uint32_t name = rankscope_name("flood", 0);
    for (int i = 0; i < SLOTS + 100; i++)
        rankscope_counter(name, i);
    door_drain(&door);
    assert_int_equal(door.record_count, SLOTS);
    assert_int_equal(door.records[SLOTS - 1].slot.value, SLOTS - 1);
    assert_int_equal(rankscope_lost_count() - lost_before, 100);
    assert_int_equal(rs_ring_lost(door.rings[0]), rankscope_lost_count());
    door.record_count = 0;
    rankscope_counter(name, 7);
    door_drain(&door);
    assert_int_equal(door.record_count, 2);
    assert_int_equal(door.records[0].slot.kind, RS_RECORD_LOSS);
    assert_int_equal(door.records[0].slot.value, 100);
    assert_true(door.records[0].slot.start < door.records[0].slot.end);
    assert_int_equal(door.records[1].slot.value, 7);
}

static void nesting_beyond_the_table_is_counted_not_kept(void **state)
{
    (void)state;
    start_recording();
    uint64_t lost_before = rankscope_lost_count();
    uint32_t name = rankscope_name("deep", 0);
    for (int i = 0; i < RS_RING_OPEN_DEPTH + 5; i++)
        rankscope_range_push(name);
    for (int i = 0; i < RS_RING_OPEN_DEPTH + 5; i++)
        rankscope_range_pop();
    door_drain(&door);
    assert_int_equal(door_count(&door, RS_RECORD_RANGE), RS_RING_OPEN_DEPTH);
    assert_int_equal(rankscope_lost_count() - lost_before, 5);
}

struct worker {
    uint32_t name;
    int events;
};

static void *work(void *argument)
{
    const struct worker *worker = argument;
    for (int i = 0; i < worker->events; i++) {
        rankscope_op_begin(worker->name);
        rankscope_counter(worker->name, i);
        rankscope_op_end();
    }
    return NULL;
}

/* Each thread's counters, as drained: 0, 1, 2, ... with holes only where losses are reported. */
struct audit {
    uint64_t next;
    uint64_t counters;
    uint64_t lost;
};

static enum rs_status audit_record(void *self, const struct rs_ring_record *record,
                                   struct rs_err *err)
{
    struct audit *audit = self;
    (void)err;
    if (record->slot.kind == RS_RECORD_LOSS)
        audit->lost += record->slot.value;
    if (record->slot.kind != RS_RECORD_COUNTER)
        return RS_OK;
    assert_true(record->slot.value >= audit->next);
    if (audit->lost == 0)
        assert_int_equal(record->slot.value, audit->next);
    audit->next = record->slot.value + 1;
    audit->counters++;
    return RS_OK;
}

static void two_threads_have_two_rings_drained_while_they_run(void **state)
{
    (void)state;
    start_recording();
    struct worker worker = {.name = rankscope_name("threaded", 0), .events = 60000};
    door_drop_rings(&door); /* this thread's own */
    pthread_t threads[2];
    struct audit audits[2] = {{0}, {0}};
    bool is_ended[2] = {false, false};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &worker), 0);
    while (!is_ended[0] || !is_ended[1]) {
        door_take_rings(&door);
        assert_true(door.ring_count <= 2);
        for (size_t i = 0; i < door.ring_count; i++) {
            enum rs_status status = rs_ring_drain(door.rings[i], audit_record, &audits[i], NULL);
            assert_true(status == RS_OK || status == RS_END);
            is_ended[i] = status == RS_END;
        }
        sched_yield();
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    uint64_t lost = 0;
    for (int i = 0; i < 2; i++) {
        /* what was lost at the very end has no marker: the count is in the header */
        uint64_t all_lost = rs_ring_lost(door.rings[i]);
        assert_true(audits[i].lost <= all_lost);
        assert_true(audits[i].counters + all_lost >= (uint64_t)worker.events);
        lost += all_lost;
    }
    assert_true(rankscope_lost_count() >= lost);
}

/* The producer's own mapping, so that TSan watches both ends of every slot. */
static void one_mapping_read_while_it_is_written(void **state)
{
    (void)state;
    start_recording();
    uint32_t name = rankscope_name("shared", 0);
    struct worker worker = {.name = name, .events = 60000};
    struct audit audit = {0};
    struct rs_ring_reader *reader = NULL;
    pthread_t thread;
    enum rs_status status = RS_OK;
    uint32_t before = rankscope_priv_client.ring_count;
    assert_int_equal(pthread_create(&thread, NULL, work, &worker), 0);
    while (status != RS_END) {
        rankscope_priv_lock();
        for (size_t i = 0; i < RS_LIB_MAX_RINGS && reader == NULL; i++) {
            const struct rankscope_priv_slot *slot = &rankscope_priv_client.slots[i];
            if (slot->ring != NULL && slot->number >= before)
                assert_ok(rs_ring_reader_over(slot->ring, slot->bytes, &reader, NULL));
        }
        rankscope_priv_unlock();
        if (reader != NULL)
            status = rs_ring_drain(reader, audit_record, &audit, NULL);
        assert_true(status >= 0);
    }
    pthread_join(thread, NULL);
    assert_true(audit.counters > 0);
    assert_true(audit.counters + rs_ring_lost(reader) >= (uint64_t)worker.events);
    rs_ring_reader_close(&reader);
}

static void rings_of_ended_threads_are_given_back(void **state)
{
    (void)state;
    start_recording();
    struct worker worker = {.name = rankscope_name("short", 0), .events = 3};
    uint64_t step = 2;
    door_drop_rings(&door); /* this thread's own */
    for (int i = 0; i < 2 * RS_LIB_MAX_RINGS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, work, &worker), 0);
        pthread_join(thread, NULL);
        door_take_rings(&door);
        door.record_count = 0;
        for (size_t k = 0; k < door.ring_count; k++)
            assert_true(rs_ring_drain(door.rings[k], door_keep, &door, NULL) >= 0);
        assert_int_equal(door_count(&door, RS_RECORD_COUNTER), 3);
        door_drop_rings(&door);
        if (i % 50 == 49) { /* the sweep comes with a boundary, at most every 100 ms */
            struct timespec nap = {.tv_nsec = 110000000};
            nanosleep(&nap, NULL);
            rankscope_step(step++);
        }
    }
}

static void a_forked_child_is_not_recorded_and_harms_nothing(void **state)
{
    (void)state;
    start_recording();
    uint32_t name = rankscope_name("parent", 0);
    rankscope_mark(name);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool is_quiet = !rankscope_is_recording() && !rankscope_is_connected();
        rankscope_mark(name);
        rankscope_record_mark(name); /* even past the branch */
        rankscope_step(50);
        struct rankscope_config config = door_config(&door);
        config.rank = 4;
        is_quiet = is_quiet && rankscope_init(&config) == 0 && rankscope_is_connected();
        rankscope_fini();
        _exit(is_quiet ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rankscope_mark(name);
    door_drain(&door);
    assert_int_equal(door_count(&door, RS_RECORD_MARK), 2);
}

static void what_a_killed_process_wrote_and_began_is_there(void **state)
{
    (void)state;
    struct door other;
    door_open(&other);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rankscope_config config = door_config(&other);
        if (rankscope_init(&config) != 0)
            _exit(1);
        while (!rankscope_is_recording())
            rankscope_step(0);
        struct rankscope_comm comm = {
            .type = RANKSCOPE_ALL_REDUCE, .sequence = 9, .bytes = 64, .peer = -1};
        rankscope_mark(rankscope_name("alive", 0));
        rankscope_range_push(rankscope_name("outer", 0));
        rankscope_comm_begin(&comm);
        kill(getpid(), SIGKILL);
    }
    door_welcome(&other);
    (void)rs_control_request(other.control, RS_LIB_START_NEXT, 5);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    door_drain(&other);
    assert_int_equal(door_count(&other, RS_RECORD_MARK), 1);
    struct rs_lib_progress progress;
    rs_control_progress(other.control, &progress);
    assert_int_equal(progress.capture_state, RS_LIB_RECORDING);
    assert_true(progress.step_start_ticks != 0);
    other.record_count = 0;
    assert_ok(rs_ring_open_entries(other.rings[0], progress.epoch, door_keep, &other, NULL));
    assert_int_equal(other.record_count, 2);
    assert_int_equal(other.records[0].slot.kind, RS_RECORD_RANGE);
    assert_int_equal(other.records[1].more.seq, 9);
    assert_true(other.records[1].is_open);
    door_close(&other);
}

static void a_collector_that_comes_back_gets_everything_again(void **state)
{
    (void)state;
    start_recording();
    rankscope_mark(rankscope_name("before", 0));
    door_forget(&door);
    struct timespec nap = {.tv_nsec = 150000000};
    nanosleep(&nap, NULL);
    rankscope_step(2); /* notices, and stops recording: nobody drains */
    assert_false(rankscope_is_connected());
    assert_false(rankscope_is_recording());
    nap.tv_nsec = 999999999;
    nanosleep(&nap, NULL);
    rankscope_step(3);
    rankscope_step(4);
    assert_true(rankscope_is_connected());
    door_welcome(&door);
    door_drain(&door);
    assert_int_equal(door.ring_count, 1);
    assert_int_equal(door_count(&door, RS_RECORD_MARK), 1);
}

static void without_a_rank_init_refuses_and_calls_do_nothing(void **state)
{
    (void)state;
    struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    unsetenv("RANK");
    assert_int_equal(rankscope_init(&config), -EINVAL);
    rankscope_step(1);
    assert_int_equal(rankscope_name("x", 0), 0);
    rankscope_fini();
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "2", 1);
    assert_int_equal(rankscope_init(NULL), -EINVAL); /* rank 2 of 2 */
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, connected_process, process_ends)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_rank_init_refuses_and_calls_do_nothing),
        TEST(hello_says_who_it_is),
        TEST(nothing_is_recorded_without_a_request),
        TEST(recording_covers_exactly_the_steps_asked_for),
        TEST(a_request_for_steps_gone_by_is_missed),
        TEST(a_request_to_stop_ends_at_the_next_boundary),
        TEST(what_was_begun_before_the_recording_leaves_no_trace),
        TEST(nested_events_carry_depth_and_order),
        TEST(a_scope_ends_however_it_is_left),
        TEST(hops_belong_to_the_innermost_communication),
        TEST(equal_names_have_one_id),
        TEST(a_full_name_table_gives_0_and_stays_whole),
        TEST(cpu_time_tells_work_from_sleep),
        TEST(ring_wraps_many_times_without_loss),
        TEST(records_of_two_slots_wrap_too),
        TEST(full_ring_counts_its_losses_and_marks_them),
        TEST(nesting_beyond_the_table_is_counted_not_kept),
        TEST(two_threads_have_two_rings_drained_while_they_run),
        TEST(one_mapping_read_while_it_is_written),
        TEST(rings_of_ended_threads_are_given_back),
        TEST(a_forked_child_is_not_recorded_and_harms_nothing),
        TEST(what_a_killed_process_wrote_and_began_is_there),
        TEST(a_collector_that_comes_back_gets_everything_again),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
