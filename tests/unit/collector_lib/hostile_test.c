/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hostile job can put into shared memory: the readers refuse it or skip it, and never loop. And what only a job that dies
 * at one instruction leaves there.
 */
#include "tests/unit/collector_lib/door.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { BYTES = RS_RING_HEADER_BYTES + RS_RING_MIN_BYTES, SLOTS = RS_RING_MIN_BYTES / 32 };

struct forged {
    int fd;
    struct rs_ring *ring;
    struct rs_slot *slots;
};

/* A well-formed empty ring, which each test then spoils. */
static struct forged forge(void)
{
    struct forged forged = {.fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    assert_true(forged.fd >= 0);
    assert_int_equal(ftruncate(forged.fd, BYTES), 0);
    assert_int_equal(fcntl(forged.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, forged.fd, 0);
    assert_true(map != MAP_FAILED);
    forged.ring = map;
    forged.slots = (void *)((char *)map + RS_RING_HEADER_BYTES);
    forged.ring->magic = RS_RING_MAGIC;
    forged.ring->version = RS_LAYOUT_VERSION;
    forged.ring->header_bytes = RS_RING_HEADER_BYTES;
    forged.ring->slot_bytes = RS_RING_SLOT_BYTES;
    forged.ring->slot_count = SLOTS;
    return forged;
}

static void drop(struct forged *forged)
{
    munmap(forged->ring, BYTES);
    close(forged->fd);
}

static enum rs_status try_open(const struct forged *forged, uint64_t bytes)
{
    struct rs_ring_reader *reader = NULL;
    struct rs_err err;
    enum rs_status status = rs_ring_reader_open(forged->fd, bytes, &reader, &err);
    rs_ring_reader_close(&reader);
    return status;
}

static enum rs_status count_record(void *self, const struct rs_ring_record *record,
                                   struct rs_err *err)
{
    (void)record;
    (void)err;
    ++*(size_t *)self;
    return RS_OK;
}

static void memory_that_can_shrink_is_refused(void **state)
{
    (void)state;
    int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    struct rs_ring_reader *ring = NULL;
    struct rs_control_reader *control = NULL;
    assert_status(rs_ring_reader_open(fd, BYTES, &ring, NULL), RS_FORMAT);
    assert_int_equal(ftruncate(fd, RS_CONTROL_BYTES), 0);
    assert_status(rs_control_open(fd, RS_CONTROL_BYTES, &control, NULL), RS_FORMAT);
    close(fd);
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_status(rs_ring_reader_open(fd, BYTES, &ring, NULL), RS_FORMAT);
    close(fd);
}

static void sizes_that_do_not_agree_are_refused(void **state)
{
    (void)state;
    struct forged forged = forge();
    assert_ok(try_open(&forged, BYTES));
    assert_status(try_open(&forged, BYTES - 4096), RS_FORMAT);
    assert_status(try_open(&forged, UINT64_MAX), RS_LIMIT);
    assert_status(try_open(&forged, 100), RS_LIMIT);
    static const uint32_t counts[] = {0, 1, SLOTS - 1, SLOTS / 2, SLOTS * 2, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        forged.ring->slot_count = counts[i];
        assert_status(try_open(&forged, BYTES), RS_FORMAT);
    }
    forged.ring->slot_count = SLOTS;
    forged.ring->slot_bytes = 64;
    assert_status(try_open(&forged, BYTES), RS_FORMAT);
    forged.ring->slot_bytes = RS_RING_SLOT_BYTES;
    forged.ring->version = 2;
    assert_status(try_open(&forged, BYTES), RS_VERSION);
    forged.ring->version = RS_LAYOUT_VERSION;
    forged.ring->magic = 0;
    assert_status(try_open(&forged, BYTES), RS_FORMAT);
    drop(&forged);
}

static void a_head_out_of_reach_ends_the_ring(void **state)
{
    (void)state;
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    static const uint64_t heads[] = {SLOTS + 1, UINT64_MAX, UINT64_MAX / 2, (uint64_t)SLOTS << 32};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        atomic_store(&forged.ring->head, heads[i]);
        assert_status(rs_ring_drain(reader, count_record, &count, NULL), RS_FORMAT);
    }
    assert_int_equal(count, 0);
    rs_ring_reader_close(&reader);
    drop(&forged);
}

static void a_head_that_goes_back_ends_the_ring(void **state)
{
    (void)state;
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    for (size_t i = 0; i < 10; i++)
        forged.slots[i] = (struct rs_slot){.kind = RS_RECORD_MARK, .slots = 1};
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    atomic_store(&forged.ring->head, 10);
    assert_ok(rs_ring_drain(reader, count_record, &count, NULL));
    assert_int_equal(count, 10);
    atomic_store(&forged.ring->head, 9);
    assert_status(rs_ring_drain(reader, count_record, &count, NULL), RS_FORMAT);
    rs_ring_reader_close(&reader);
    drop(&forged);
}

static void a_tail_changed_behind_our_back_is_ignored(void **state)
{
    (void)state;
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    for (size_t i = 0; i < 10; i++)
        forged.slots[i] = (struct rs_slot){.kind = RS_RECORD_MARK, .slots = 1};
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    atomic_store(&forged.ring->tail, UINT64_MAX - 3);
    atomic_store(&forged.ring->head, 10);
    assert_ok(rs_ring_drain(reader, count_record, &count, NULL));
    assert_int_equal(count, 10);
    assert_int_equal(atomic_load(&forged.ring->tail), 10);
    rs_ring_reader_close(&reader);
    drop(&forged);
}

static void an_impossible_tail_at_opening_starts_at_the_head(void **state)
{
    (void)state;
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    atomic_store(&forged.ring->tail, 77777);
    atomic_store(&forged.ring->head, 5);
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    assert_ok(rs_ring_drain(reader, count_record, &count, NULL));
    assert_int_equal(count, 0);
    rs_ring_reader_close(&reader);
    drop(&forged);
}

static void garbage_slots_are_skipped_and_counted(void **state)
{
    (void)state;
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    srand(7);
    for (size_t i = 0; i < SLOTS; i++)
        for (size_t k = 0; k < sizeof forged.slots[i]; k++)
            ((uint8_t *)&forged.slots[i])[k] = (uint8_t)rand();
    forged.slots[3] = (struct rs_slot){.kind = RS_RECORD_MARK, .slots = 1};
    /* two slots claimed where one is published */
    forged.slots[SLOTS - 1] = (struct rs_slot){.kind = RS_RECORD_COMM, .slots = 2};
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    atomic_store(&forged.ring->head, SLOTS);
    assert_ok(rs_ring_drain(reader, count_record, &count, NULL));
    assert_true(count >= 1);
    assert_true(rs_ring_bad(reader) >= SLOTS / 2);
    assert_int_equal(atomic_load(&forged.ring->tail), SLOTS);
    rs_ring_reader_close(&reader);
    drop(&forged);
}

static void garbage_open_entries_are_bounded(void **state)
{
    (void)state;
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    memset(forged.ring->open, 0xff, sizeof forged.ring->open);
    memset(forged.ring->tasks, 0xff, sizeof forged.ring->tasks);
    atomic_store(&forged.ring->epoch, 1);
    atomic_store(&forged.ring->open_depth, UINT32_MAX);
    assert_ok(rs_ring_open_entries(reader, 1, count_record, &count, NULL));
    atomic_store(&forged.ring->open_depth, RS_RING_OPEN_DEPTH);
    assert_ok(rs_ring_open_entries(reader, 1, count_record, &count, NULL));
    assert_int_equal(count, 0);
    rs_ring_reader_close(&reader);
    drop(&forged);
}

/* How many entries a dead thread left open: its ring has one record (`more` is its second slot, if it has one). */
static size_t left_open(struct rs_slot record, struct rs_slot_more more, struct rs_open entry)
{
    struct forged forged = forge();
    struct rs_ring_reader *reader = NULL;
    size_t count = 0;
    forged.slots[0] = record;
    memcpy(&forged.slots[1], &more, sizeof more);
    forged.ring->open[0] = entry;
    assert_ok(rs_ring_reader_open(forged.fd, BYTES, &reader, NULL));
    atomic_store(&forged.ring->epoch, 1);
    atomic_store(&forged.ring->open_depth, 1);
    atomic_store(&forged.ring->head, record.slots);
    assert_ok(rs_ring_drain(reader, count_record, &count, NULL));
    assert_int_equal(count, 1);
    assert_ok(rs_ring_open_entries(reader, 1, count_record, &count, NULL));
    rs_ring_reader_close(&reader);
    drop(&forged);
    return count - 1;
}

static void an_operation_that_begins_in_the_tick_of_the_one_before_is_open(void **state)
{
    (void)state;
    const struct rs_slot ended = {.kind = RS_RECORD_COMM, .slots = 2, .start = 40, .end = 40};
    const struct rs_open next = {.kind = RS_RECORD_COMM, .start = 40, .comm = 8};
    assert_int_equal(left_open(ended, (struct rs_slot_more){.comm = 7}, next), 1);
    const struct rs_slot work = {
        .kind = RS_RECORD_OP, .slots = 1, .name = 3, .start = 40, .end = 40};
    const struct rs_open other = {.kind = RS_RECORD_OP, .name = 4, .start = 40};
    assert_int_equal(left_open(work, (struct rs_slot_more){.comm = 0}, other), 1);
}

static void what_was_written_just_before_the_death_is_not_open(void **state)
{
    (void)state;
    const struct rs_slot ended = {.kind = RS_RECORD_COMM, .slots = 2, .start = 40, .end = 90};
    const struct rs_open same = {.kind = RS_RECORD_COMM, .start = 40, .comm = 7};
    assert_int_equal(left_open(ended, (struct rs_slot_more){.comm = 7}, same), 0);
    const struct rs_slot work = {
        .kind = RS_RECORD_OP, .slots = 1, .name = 3, .start = 40, .end = 90};
    const struct rs_open also = {.kind = RS_RECORD_OP, .name = 3, .start = 40};
    assert_int_equal(left_open(work, (struct rs_slot_more){.comm = 0}, also), 0);
}

static void damaged_names_are_refused_and_those_before_stand(void **state)
{
    (void)state;
    int fd = memfd_create("control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, RS_CONTROL_BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    void *map = mmap(NULL, RS_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct rs_control *control = map;
    struct rs_control_reader *reader = NULL;
    assert_status(rs_control_open(fd, RS_CONTROL_BYTES, &reader, NULL), RS_FORMAT);
    control->magic = RS_CONTROL_MAGIC;
    control->version = RS_LAYOUT_VERSION;
    control->header_bytes = RS_CONTROL_HEADER_BYTES;
    control->names_bytes = RS_CONTROL_NAMES_BYTES;
    assert_ok(rs_control_open(fd, RS_CONTROL_BYTES, &reader, NULL));
    struct rs_lib_entry *first = (void *)((char *)map + RS_CONTROL_HEADER_BYTES);
    *first = (struct rs_lib_entry){.entry_bytes = 24, .kind = RS_LIB_ENTRY_NAME, .text_bytes = 3};
    memcpy(first + 1, "abc", 3);
    struct rs_lib_entry *second = (void *)((char *)first + 24);
    static const struct rs_lib_entry bad[] = {
        {.entry_bytes = 0, .kind = RS_LIB_ENTRY_NAME},
        {.entry_bytes = 17, .kind = RS_LIB_ENTRY_NAME},
        {.entry_bytes = 16, .kind = RS_LIB_ENTRY_NAME, .text_bytes = 4000},
        {.entry_bytes = 16, .kind = RS_LIB_ENTRY_NAME, .text_bytes = UINT32_MAX},
        {.entry_bytes = 16, .kind = RS_LIB_ENTRY_GROUP, .rank_count = UINT32_MAX},
        {.entry_bytes = 1 << 20, .kind = RS_LIB_ENTRY_GROUP},
        {.entry_bytes = 16, .kind = 9},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        *second = bad[i];
        atomic_store(&control->names_used, 24 + 4096);
        assert_status(rs_control_names(reader, NULL), RS_FORMAT);
        assert_string_equal(rs_control_name(reader, 1)->text, "abc");
        assert_null(rs_control_name(reader, 2));
    }
    atomic_store(&control->names_used, UINT64_MAX);
    assert_status(rs_control_names(reader, NULL), RS_FORMAT);
    atomic_store(&control->names_used, 0); /* back: nothing to read */
    assert_ok(rs_control_names(reader, NULL));
    atomic_store(&control->mean_step_ns, UINT64_MAX);
    atomic_store(&control->capture_state, UINT32_MAX);
    struct rs_lib_progress progress;
    rs_control_progress(reader, &progress);
    assert_true(progress.mean_step_ns >= 0);
    assert_int_equal(progress.capture_state, RS_LIB_IDLE);
    rs_control_close(&reader);
    munmap(map, RS_CONTROL_BYTES);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_can_shrink_is_refused),
        cmocka_unit_test(sizes_that_do_not_agree_are_refused),
        cmocka_unit_test(a_head_out_of_reach_ends_the_ring),
        cmocka_unit_test(a_head_that_goes_back_ends_the_ring),
        cmocka_unit_test(a_tail_changed_behind_our_back_is_ignored),
        cmocka_unit_test(an_impossible_tail_at_opening_starts_at_the_head),
        cmocka_unit_test(garbage_slots_are_skipped_and_counted),
        cmocka_unit_test(garbage_open_entries_are_bounded),
        cmocka_unit_test(an_operation_that_begins_in_the_tick_of_the_one_before_is_open),
        cmocka_unit_test(what_was_written_just_before_the_death_is_not_open),
        cmocka_unit_test(damaged_names_are_refused_and_those_before_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
