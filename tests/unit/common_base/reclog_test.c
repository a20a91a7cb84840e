/* SPDX-License-Identifier: Apache-2.0 */
/* The record log: what was appended whole is found, what was torn is cut, at every byte. */
#include "common/base/reclog.h"

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <fcntl.h>
#include <sys/stat.h>

static char dir[64];
static char path[128];

static int make_dir(void **state)
{
    (void)state;
    tmp_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/log", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmp_dir_remove(dir);
    return 0;
}

static void append(struct rs_reclog *log, uint64_t seq, const char *text)
{
    union {
        const char *in;
        void *out;
    } bytes = {.in = text};
    const struct iovec parts[] = {{.iov_base = bytes.out, .iov_len = 2},
                                  {.iov_base = (char *)bytes.out + 2, .iov_len = strlen(text) - 2}};
    const struct rs_reclog_record record = {.kind = 2, .flags = 1, .tag = 7, .seq = seq};
    assert_ok(rs_reclog_append(log, &record, parts, 2, NULL, NULL));
}

static void make_log(void)
{
    struct rs_reclog log;
    assert_ok(rs_reclog_create(&log, path, NULL));
    append(&log, 1, "first record");
    append(&log, 2, "second, longer record");
    append(&log, 3, "the third");
    assert_ok(rs_reclog_sync(&log, NULL));
    rs_reclog_close(&log);
}

/* How many records are read, and whether they are the first ones put. */
static uint64_t count_records(void)
{
    static const char *const texts[] = {"first record", "second, longer record", "the third"};
    struct rs_reclog_reader reader;
    struct rs_reclog_record record;
    struct rs_view payload;
    uint64_t count = 0;
    if (rs_reclog_reader_open(&reader, path, NULL) < 0)
        return 0;
    while (rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, NULL) == RS_OK) {
        assert_int_equal(record.seq, ++count);
        assert_int_equal(record.tag, 7);
        assert_int_equal(payload.length, strlen(texts[count - 1]));
        assert_memory_equal(payload.data, texts[count - 1], payload.length);
    }
    rs_reclog_reader_close(&reader);
    return count;
}

static void records_are_read_as_they_were_appended(void **state)
{
    (void)state;
    make_log();
    assert_int_equal(count_records(), 3);
}

static void a_sum_that_was_given_is_what_is_written(void **state)
{
    (void)state;
    struct rs_reclog log;
    struct rs_reclog_reader reader;
    struct rs_reclog_record found;
    struct rs_view payload;
    char text[] = "first record";
    const struct iovec part = {.iov_base = text, .iov_len = strlen(text)};
    struct rs_reclog_record record = {
        .kind = 2, .seq = 1, .has_payload_crc = true, .payload_crc = rs_crc32c(0, text, 12)};
    assert_ok(rs_reclog_create(&log, path, NULL));
    assert_ok(rs_reclog_append(&log, &record, &part, 1, NULL, NULL));
    record.payload_crc ^= 1;
    assert_ok(rs_reclog_append(&log, &record, &part, 1, NULL, NULL));
    rs_reclog_close(&log);
    assert_ok(rs_reclog_reader_open(&reader, path, NULL));
    assert_ok(rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &found, &payload, NULL, NULL));
    assert_status(rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &found, &payload, NULL, NULL),
                  RS_FORMAT);
    rs_reclog_reader_close(&reader);
}

static uint64_t places_of_file(void)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return (uint64_t)found.st_blocks * 512;
}

static uint64_t length_of_file(void)
{
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return (uint64_t)found.st_size;
}

/* Appends records of 200 kB until the log is of so many bytes. */
static void append_long(struct rs_reclog *log, uint64_t until)
{
    static uint8_t bytes[200 * 1000];
    const struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    while (log->length < until) {
        const struct rs_reclog_record record = {.kind = 2, .seq = log->length};
        assert_ok(rs_reclog_append(log, &record, &part, 1, NULL, NULL));
    }
}

static void places_asked_for_ahead_are_given_back(void **state)
{
    (void)state;
    enum { LONG = 6 * 1024 * 1024, SLACK = 300 * 1024 };
    struct rs_reclog log;
    uint64_t cut = 1;
    assert_ok(rs_reclog_create(&log, path, NULL));
    log.is_reserving = true;
    append_long(&log, LONG);
    assert_int_equal(length_of_file(), log.length);
    assert_ok(rs_reclog_sync(&log, NULL));
    /* A file system that has no such call takes the records all the same. */
    const bool has_places = log.reserved != UINT64_MAX;
    assert_true(!has_places || (log.reserved > log.length && places_of_file() >= log.reserved));
    /* as after kill -9 */
    struct rs_reclog again;
    assert_ok(rs_reclog_open(&again, path, &cut, NULL));
    assert_int_equal(cut, 0);
    assert_true(places_of_file() < again.length + SLACK);
    again.is_reserving = true;
    append_long(&again, (uint64_t)2 * LONG);
    assert_true(!has_places || places_of_file() >= again.reserved);
    const uint64_t length = again.length;
    rs_reclog_close(&again);
    assert_int_equal(length_of_file(), length);
    assert_true(places_of_file() < length + SLACK);
    log.reserved = 0; /* the dead one's: it does not come back to cut what was appended since */
    rs_reclog_close(&log);
    assert_int_equal(length_of_file(), length);
}

static void a_log_is_not_created_over_another(void **state)
{
    (void)state;
    struct rs_reclog log;
    make_log();
    assert_status(rs_reclog_create(&log, path, NULL), RS_EXISTS);
    assert_int_equal(count_records(), 3);
}

static void a_tail_torn_at_any_byte_is_cut_and_a_prefix_remains(void **state)
{
    (void)state;
    make_log();
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    for (size_t length = 0; length < whole.length; length++) {
        struct rs_reclog log;
        uint64_t cut = 0;
        assert_ok(rs_file_replace(path, whole.data, length, false, NULL));
        assert_ok(rs_reclog_open(&log, path, &cut, NULL));
        const uint64_t kept = count_records();
        assert_true(kept <= 3);
        append(&log, kept + 1,
               kept == 0   ? "first record"
               : kept == 1 ? "second, longer record"
                           : "the third");
        rs_reclog_close(&log);
        assert_int_equal(count_records(), kept + 1);
    }
    rs_buf_fini(&whole);
}

static void any_flipped_bit_ends_the_log_before_it(void **state)
{
    (void)state;
    make_log();
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    for (size_t at = 0; at < whole.length; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            whole.data[at] = (uint8_t)(whole.data[at] ^ (1u << bit));
            assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
            /* Only the padding behind a payload is covered by nothing, and says nothing. */
            (void)count_records();
            whole.data[at] = (uint8_t)(whole.data[at] ^ (1u << bit));
        }
    }
    whole.data[RS_RECLOG_FILE_HEADER_BYTES + 9] ^= 1;
    assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
    assert_int_equal(count_records(), 0);
    rs_buf_fini(&whole);
}

static void what_is_no_log_is_refused(void **state)
{
    (void)state;
    struct rs_reclog_reader reader;
    assert_ok(rs_file_replace(path, "this is certainly no record log", 31, false, NULL));
    assert_status(rs_reclog_reader_open(&reader, path, NULL), RS_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_are_read_as_they_were_appended, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_sum_that_was_given_is_what_is_written, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(places_asked_for_ahead_are_given_back, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_log_is_not_created_over_another, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_tail_torn_at_any_byte_is_cut_and_a_prefix_remains,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(any_flipped_bit_ends_the_log_before_it, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_no_log_is_refused, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
