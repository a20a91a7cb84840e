/* SPDX-License-Identifier: Apache-2.0 */
/* The spool keeps order, survives, stays under its budget and says what it could not keep. */
#include "collector/spool/spool.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

static char dir[64];
static char spool_dir[128];

static int make_dir(void **state)
{
    (void)state;
    tmp_dir_make(dir);
    (void)snprintf(spool_dir, sizeof spool_dir, "%s/spool", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmp_dir_remove(dir);
    return 0;
}

static const struct rs_spool_options small = {.budget_bytes = 4 * 65536, .segment_bytes = 65536};

static struct rs_spool *open_spool(void)
{
    struct rs_spool *spool = NULL;
    struct rs_err err = {0};
    const enum rs_status status = rs_spool_open(spool_dir, &small, &spool, &err);
    if (status < 0)
        print_error("%s\n", err.text);
    assert_ok(status);
    return spool;
}

static uint32_t declare(struct rs_spool *spool, uint32_t rank, const char *capture)
{
    const struct rs_spool_source source = {.run = "r",
                                           .rank = rank,
                                           .incarnation = "i",
                                           .capture = capture,
                                           .capture_key = "k",
                                           .host = "h",
                                           .origin = "o",
                                           .keeps_sequence = *capture != '\0'};
    uint32_t entry = 0;
    assert_ok(rs_spool_declare(spool, &source, &entry, NULL));
    return entry;
}

static enum rs_status put(struct rs_spool *spool, uint32_t entry, rs_seq seq, unsigned flags,
                          size_t bytes)
{
    static uint8_t zeros[65536];
    return rs_spool_put(spool, entry, seq, flags, rs_view_of(zeros, bytes), NULL);
}

/* The numbers waiting, from the oldest on. */
static size_t waiting(struct rs_spool *spool, uint64_t *seqs, size_t max)
{
    struct rs_spool_chunk chunk;
    uint64_t position = 0;
    size_t count = 0;
    while (count < max && rs_spool_peek(spool, &position, &chunk) == RS_OK) {
        seqs[count++] = chunk.seq;
        position++;
    }
    return count;
}

static void chunks_come_in_order_and_stay_until_acknowledged(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    uint64_t seqs[8];
    for (int i = 0; i < 5; i++)
        assert_ok(put(spool, entry, 0, 0, 100));
    assert_int_equal(waiting(spool, seqs, 8), 5);
    assert_int_equal(seqs[0], 1);
    rs_spool_ack(spool, entry, 3);
    assert_int_equal(waiting(spool, seqs, 8), 2);
    assert_int_equal(seqs[0], 4);
    rs_spool_close(&spool);
}

static void what_was_put_is_found_again(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 3, "");
    uint64_t seqs[8];
    for (int i = 0; i < 4; i++)
        assert_ok(put(spool, entry, 0, i == 3 ? RS_ENVELOPE_LAST : 0, 1000));
    rs_spool_close(&spool);
    spool = open_spool();
    assert_int_equal(waiting(spool, seqs, 8), 4);
    struct rs_spool_entry found;
    assert_ok(rs_spool_entry_of(spool, entry, &found));
    assert_int_equal(found.source.rank, 3);
    assert_true(found.is_ended);
    assert_int_equal(found.last_seq, 4);
    assert_int_equal(declare(spool, 3, ""), entry);
    rs_spool_close(&spool);
}

static void a_torn_segment_gives_a_prefix_at_every_byte(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    for (int i = 0; i < 3; i++)
        assert_ok(put(spool, entry, 0, 0, 40));
    rs_spool_close(&spool);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/00000001.seg", spool_dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    size_t best = 0;
    for (size_t length = 0; length <= whole.length; length++) {
        uint64_t seqs[8];
        assert_ok(rs_file_replace(path, whole.data, length, false, NULL));
        spool = open_spool();
        const size_t count = waiting(spool, seqs, 8);
        assert_true(count >= best && count <= 3);
        best = count;
        for (size_t i = 0; i < count; i++)
            assert_int_equal(seqs[i], i + 1);
        /* and it goes on from there */
        const uint32_t again = declare(spool, 0, "");
        assert_ok(put(spool, again, count + 1, 0, 40));
        assert_int_equal(waiting(spool, seqs, 8), count + 1);
        rs_spool_close(&spool);
    }
    assert_int_equal(best, 3);
    rs_buf_fini(&whole);
}

static void a_chunk_that_was_put_before_falls_through(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    uint64_t seqs[8];
    assert_ok(put(spool, entry, 1, 0, 10));
    assert_ok(put(spool, entry, 2, 0, 10));
    assert_ok(put(spool, entry, 1, 0, 10));
    assert_int_equal(waiting(spool, seqs, 8), 2);
    assert_status(put(spool, entry, 4, 0, 10), RS_INVALID);
    rs_spool_close(&spool);
}

static void the_budget_holds_and_the_loss_is_told_before_the_next_chunk(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    rs_seq last = 0;
    while (put(spool, entry, 0, 0, 30000) == RS_OK)
        last++;
    assert_true(rs_spool_stats(spool).disk_bytes <= small.budget_bytes);
    assert_true(last > 4);
    rs_spool_lost(spool, entry, 30000, 12);
    rs_spool_lost(spool, entry, 30000, 13);
    assert_status(rs_spool_wait(spool, 30000, 0), RS_TIMEOUT);
    rs_spool_ack(spool, entry, last - 1);
    assert_ok(rs_spool_wait(spool, 30000, 0));
    assert_ok(put(spool, entry, 0, 0, 30000));
    struct rs_spool_chunk chunk;
    uint64_t position = 0;
    assert_ok(rs_spool_peek(spool, &position, &chunk));
    assert_int_equal(chunk.seq, last);
    position++;
    assert_ok(rs_spool_peek(spool, &position, &chunk));
    struct rs_loss loss;
    assert_int_equal(chunk.flags, RS_ENVELOPE_LOSS);
    assert_int_equal(chunk.seq, last + 1);
    assert_ok(rs_loss_decode(chunk.bytes.data, chunk.bytes.length, &loss, NULL));
    assert_int_equal(loss.chunks, 2);
    assert_int_equal(loss.events, 25);
    position++;
    assert_ok(rs_spool_peek(spool, &position, &chunk));
    assert_int_equal(chunk.seq, last + 2);
    rs_spool_close(&spool);
}

static void the_last_chunk_may_use_the_reserve(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    while (put(spool, entry, 0, 0, 30000) == RS_OK)
        continue;
    assert_ok(put(spool, entry, 0, RS_ENVELOPE_LAST, 1000));
    rs_spool_close(&spool);
}

static void numbers_go_on_over_captures_restarts_and_empty_spools(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    uint32_t entry = declare(spool, 0, "one");
    uint64_t seqs[8];
    assert_ok(put(spool, entry, 0, 0, 60000));
    assert_ok(put(spool, entry, 0, RS_ENVELOPE_LAST, 60000));
    rs_spool_ack(spool, entry, 2);
    /* another rank's chunks make old segments go */
    const uint32_t other = declare(spool, 1, "");
    for (rs_seq i = 1; i < 20; i++) {
        assert_ok(put(spool, other, 0, 0, 60000));
        rs_spool_ack(spool, other, i);
    }
    rs_spool_close(&spool);
    spool = open_spool();
    entry = declare(spool, 0, "two");
    assert_ok(put(spool, entry, 0, 0, 10));
    /* Acks are not written down: what the other rank had in the newest segment waits again. */
    const size_t count = waiting(spool, seqs, 8);
    assert_true(count >= 1);
    assert_int_equal(seqs[count - 1], 3);
    rs_spool_close(&spool);
}

static void a_spool_has_one_owner(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    struct rs_spool *second = NULL;
    assert_status(rs_spool_open(spool_dir, &small, &second, NULL), RS_EXISTS);
    rs_spool_close(&spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunks_come_in_order_and_stay_until_acknowledged, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_was_put_is_found_again, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_torn_segment_gives_a_prefix_at_every_byte, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_chunk_that_was_put_before_falls_through, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(the_budget_holds_and_the_loss_is_told_before_the_next_chunk,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_last_chunk_may_use_the_reserve, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(numbers_go_on_over_captures_restarts_and_empty_spools,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_spool_has_one_owner, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
