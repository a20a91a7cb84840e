/* SPDX-License-Identifier: Apache-2.0 */
/* The spool keeps order, survives, stays under its budget and says what it could not keep. */
#include "collector/spool/spool.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/reclog.h"
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

/* The numbers waiting of all entries, in order of entries. */
static size_t waiting(struct rs_spool *spool, uint64_t *seqs, size_t max)
{
    struct rs_spool_entry entry;
    struct rs_spool_chunk chunk;
    size_t count = 0;
    for (uint32_t after = 0; rs_spool_next_entry(spool, after, &entry) == RS_OK; after = entry.id)
        for (rs_seq seq = 0; count < max && rs_spool_peek(spool, entry.id, seq, &chunk) == RS_OK;
             seq = chunk.seq + 1)
            seqs[count++] = chunk.seq;
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

/* A spool of its own, "NAME", with one raw folder that holds these bytes. */
static void make_raw(const char *name, uint32_t entry, const void *bytes, size_t length)
{
    char path[256];
    (void)snprintf(spool_dir, sizeof spool_dir, "%s/%s", dir, name);
    (void)snprintf(path, sizeof path, "%s/raw/%08u", spool_dir, entry);
    assert_ok(rs_file_make_dirs(path, 0750, NULL));
    (void)snprintf(path, sizeof path, "%s/raw/%08u/00000001.seg", spool_dir, entry);
    assert_ok(rs_file_replace(path, bytes, length, false, NULL));
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
    (void)snprintf(path, sizeof path, "%s/raw/00000001/00000001.seg", spool_dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    size_t best = 0;
    for (size_t length = 0; length <= whole.length; length++) {
        uint64_t seqs[8];
        char name[32];
        (void)snprintf(name, sizeof name, "torn-%zu", length);
        make_raw(name, 1, whole.data, length);
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

/* Whether DIR/damaged holds something. */
static bool is_kept_aside(const char *name)
{
    char path[256];
    struct rs_buf bytes = {0};
    (void)snprintf(path, sizeof path, "%s/damaged/%s", spool_dir, name);
    const bool is_there = rs_file_read(path, 1 << 20, &bytes, NULL) == RS_OK;
    rs_buf_fini(&bytes);
    return is_there;
}

static void a_flipped_byte_takes_one_chunk_of_one_stream(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    for (int i = 0; i < 3; i++)
        assert_ok(put(spool, entry, 0, i == 2 ? RS_ENVELOPE_LAST : 0, 40));
    rs_spool_close(&spool);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/raw/00000001/00000001.seg", spool_dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    for (size_t at = 0; at < whole.length; at += 3) {
        uint64_t seqs[8];
        char name[32];
        (void)snprintf(name, sizeof name, "flip-%zu", at);
        whole.data[at] ^= 0x10;
        make_raw(name, 1, whole.data, whole.length);
        whole.data[at] ^= 0x10;
        spool = open_spool();
        const uint32_t other = declare(spool, 1, ""); /* another stream never notices */
        assert_ok(put(spool, other, 0, 0, 40));
        const size_t count = waiting(spool, seqs, 8);
        if (at < 16) {
            assert_int_equal(count, 1); /* the file's header: it is no log any more */
            assert_true(is_kept_aside("00000001-00000001.seg"));
        } else {
            assert_true(count >= 3); /* two of three, and the other's */
        }
        rs_spool_close(&spool);
    }
    rs_buf_fini(&whole);
}

static void damage_is_named_and_kept_aside(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    for (int i = 0; i < 4; i++)
        assert_ok(put(spool, entry, 0, 0, 1000));
    rs_spool_close(&spool);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/raw/00000001/00000001.seg", spool_dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    /* In the middle of the second of four: entries (twice), then records of 1,040 bytes. */
    whole.data[whole.length - 3 * 1040 + 500] ^= 1;
    assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
    spool = open_spool();
    struct rs_spool_chunk chunk;
    assert_ok(rs_spool_peek(spool, entry, 1, &chunk));
    assert_int_equal(chunk.seq, 1);
    assert_ok(rs_spool_peek(spool, entry, 2, &chunk));
    assert_int_equal(chunk.seq, 3); /* 2 is not there any more, and the reader sees it */
    assert_int_equal(chunk.skipped_bytes, 1040);
    assert_int_equal(rs_spool_stats(spool).damaged_segments, 1);
    assert_true(is_kept_aside("00000001-00000001.seg"));
    rs_spool_close(&spool);
    rs_buf_fini(&whole);
}

static uint32_t declare_lane(struct rs_spool *spool, uint32_t rank, enum rs_stream_lane lane,
                             const char *capture)
{
    const struct rs_spool_source source = {.run = "r",
                                           .rank = rank,
                                           .incarnation = "i",
                                           .capture = capture,
                                           .capture_key = "",
                                           .host = "h",
                                           .origin = "o",
                                           .lane = lane};
    uint32_t entry = 0;
    assert_ok(rs_spool_declare(spool, &source, &entry, NULL));
    return entry;
}

static void a_summary_fits_when_raw_data_fills_the_spool(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t raw = declare_lane(spool, 0, RS_STREAM_RAW, "c");
    const uint32_t summary = declare_lane(spool, 0, RS_STREAM_SUMMARY, "c");
    while (put(spool, raw, 0, 0, 20000) == RS_OK)
        continue;
    assert_ok(put(spool, summary, 0, RS_ENVELOPE_LAST, 9000));
    assert_true(rs_spool_stats(spool).disk_bytes <= small.budget_bytes);
    struct rs_spool_entry entry;
    assert_ok(rs_spool_entry_of(spool, summary, &entry));
    assert_int_equal(entry.last_seq, 1); /* numbers of its own */
    rs_spool_close(&spool);
    spool = open_spool();
    assert_ok(rs_spool_entry_of(spool, summary, &entry));
    assert_int_equal(entry.source.lane, RS_STREAM_SUMMARY);
    assert_true(entry.is_ended);
    rs_spool_close(&spool);
}

static void what_is_held_goes_first_and_says_so(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t first = declare_lane(spool, 0, RS_STREAM_RAW, "one");
    for (int i = 0; i < 3; i++)
        assert_ok(put(spool, first, 0, i == 2 ? RS_ENVELOPE_LAST : 0, 30000));
    rs_spool_hold(spool, first, true);
    const uint32_t second = declare_lane(spool, 0, RS_STREAM_RAW, "two");
    rs_seq last = 3;
    while (put(spool, second, 0, 0, 30000) == RS_OK)
        last++;
    assert_true(last > 7); /* more than would have fitted beside it */
    assert_int_equal(rs_spool_stats(spool).evicted_entries, 1);
    assert_true(rs_spool_was_lost(spool, first));
    for (int reopened = 0; reopened < 2; reopened++) {
        struct rs_spool_entry entry;
        struct rs_spool_chunk chunk;
        struct rs_loss loss;
        assert_ok(rs_spool_entry_of(spool, first, &entry));
        assert_true(entry.is_evicted && entry.is_ended);
        assert_ok(rs_spool_peek(spool, first, 1, &chunk));
        assert_int_equal(chunk.seq, 3);
        assert_int_equal(chunk.flags, RS_ENVELOPE_LOSS | RS_ENVELOPE_LAST | RS_ENVELOPE_PARTIAL);
        assert_ok(rs_loss_decode(chunk.bytes.data, chunk.bytes.length, &loss, NULL));
        assert_int_equal(loss.cause, RS_LOSS_EVICTED);
        assert_int_equal(loss.first_seq, 1);
        assert_int_equal(loss.chunks, 3);
        assert_int_equal(loss.bytes, 90000);
        rs_spool_close(&spool);
        spool = open_spool();
    }
    rs_spool_close(&spool);
}

static void what_is_held_too_long_goes(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t held = declare_lane(spool, 0, RS_STREAM_RAW, "one");
    const uint32_t wanted = declare_lane(spool, 1, RS_STREAM_RAW, "one");
    assert_ok(put(spool, held, 0, RS_ENVELOPE_LAST, 100));
    assert_ok(put(spool, wanted, 0, RS_ENVELOPE_LAST, 100));
    rs_spool_hold(spool, held, true);
    rs_spool_expire(spool, rs_time_realtime());
    assert_int_equal(rs_spool_stats(spool).evicted_entries, 0);
    rs_spool_expire(spool, rs_time_realtime() + 25 * 3600 * (rs_dur)RS_NS_PER_S);
    assert_int_equal(rs_spool_stats(spool).evicted_entries, 1);
    assert_false(rs_spool_was_lost(spool, wanted));
    rs_spool_close(&spool);
}

static void what_is_stored_is_kept_and_not_waited_for(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "c1");
    struct rs_spool_entry found;
    uint64_t seqs[8];
    for (int i = 0; i < 3; i++)
        assert_ok(put(spool, entry, 0, i == 2 ? RS_ENVELOPE_LAST : 0, 100));
    rs_spool_stored(spool, entry, 3);
    assert_int_equal(rs_spool_stats(spool).waiting_chunks, 0);
    assert_int_equal(rs_spool_stats(spool).acked_chunks, 3);
    assert_int_equal(rs_spool_stats(spool).kept_bytes, 300);
    assert_ok(rs_spool_entry_of(spool, entry, &found));
    assert_int_equal(found.acked_seq, 3);
    assert_int_equal(found.settled_seq, 0);
    /* Another aggregator has none of it: all of it waits again. */
    rs_spool_stored(spool, entry, 0);
    assert_int_equal(rs_spool_stats(spool).waiting_chunks, 3);
    assert_int_equal(waiting(spool, seqs, 8), 3);
    assert_int_equal(seqs[0], 1);
    rs_spool_stored(spool, entry, 2);
    rs_spool_ack(spool, entry, 2);
    assert_int_equal(waiting(spool, seqs, 8), 1);
    assert_int_equal(rs_spool_stats(spool).kept_bytes, 0);
    rs_spool_close(&spool);
    spool = open_spool();
    assert_int_equal(waiting(spool, seqs, 8) > 0, 1);
    assert_int_equal(seqs[waiting(spool, seqs, 8) - 1], 3);
    rs_spool_close(&spool);
}

static void what_is_kept_goes_before_anything_is_refused(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t first = declare(spool, 0, "c1");
    const uint32_t second = declare(spool, 1, "c1");
    struct rs_spool_entry found;
    unsigned count = 0;
    for (; put(spool, first, 0, 0, 30000) == RS_OK; count++)
        ;
    assert_true(count > 3);
    rs_spool_stored(spool, first, count - 1);
    for (unsigned i = 0; i < 2; i++)
        assert_ok(put(spool, second, 0, 0, 30000));
    assert_int_equal(rs_spool_stats(spool).lost_chunks, 0);
    assert_int_equal(rs_spool_stats(spool).evicted_entries, 0);
    assert_ok(rs_spool_entry_of(spool, first, &found));
    assert_int_equal(found.settled_seq, count - 1);
    assert_int_equal(found.acked_seq, count - 1);
    /* What waits is not touched by it. */
    struct rs_spool_chunk chunk;
    assert_ok(rs_spool_peek(spool, first, 0, &chunk));
    assert_int_equal(chunk.seq, count);
    rs_spool_close(&spool);
}

static void a_source_that_waits_for_room_gets_what_was_kept(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    unsigned count = 0;
    for (; put(spool, entry, 0, 0, 30000) == RS_OK; count++)
        ;
    assert_int_equal(rs_spool_wait(spool, entry, 30000, rs_time_monotonic()), RS_TIMEOUT);
    rs_spool_stored(spool, entry, count);
    assert_ok(rs_spool_wait(spool, entry, 30000, rs_time_monotonic()));
    rs_spool_close(&spool);
}

static void what_is_kept_too_long_goes(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t entry = declare(spool, 0, "");
    assert_ok(put(spool, entry, 0, RS_ENVELOPE_LAST, 100));
    rs_spool_stored(spool, entry, 1);
    rs_spool_expire(spool, rs_time_realtime());
    assert_int_equal(rs_spool_stats(spool).kept_bytes, 100);
    rs_spool_expire(spool, rs_time_realtime() + 25 * 3600 * (rs_dur)RS_NS_PER_S);
    assert_int_equal(rs_spool_stats(spool).kept_bytes, 0);
    struct rs_spool_entry found;
    assert_int_equal(rs_spool_entry_of(spool, entry, &found), RS_NOTFOUND);
    rs_spool_close(&spool);
}

static void put_text(struct rs_buf *buf, const char *text)
{
    rs_buf_varint(buf, strlen(text));
    rs_buf_bytes(buf, text, strlen(text));
}

/* As an earlier program wrote it: one log for all, no lanes. */
static void a_spool_of_an_earlier_program_is_drained(void **state)
{
    (void)state;
    char path[256];
    assert_ok(rs_file_make_dirs(spool_dir, 0750, NULL));
    (void)snprintf(path, sizeof path, "%s/00000003.seg", spool_dir);
    struct rs_reclog log;
    assert_ok(rs_reclog_create(&log, path, NULL));
    struct rs_buf buf = {0};
    rs_buf_u32(&buf, 5);   /* rank */
    rs_buf_u32(&buf, 8);   /* world */
    rs_buf_u64(&buf, 0);   /* settle */
    rs_buf_u64(&buf, 104); /* last of the incarnation */
    rs_buf_u64(&buf, 102); /* acknowledged */
    rs_buf_u64(&buf, 104); /* of the entry */
    rs_buf_u64(&buf, 4);   /* put */
    put_text(&buf, "r");
    put_text(&buf, "i");
    put_text(&buf, "cap");
    put_text(&buf, "");
    put_text(&buf, "h");
    put_text(&buf, "native");
    const struct iovec entry_part = {.iov_base = buf.data, .iov_len = buf.length};
    assert_ok(rs_reclog_append(&log, &(struct rs_reclog_record){.kind = 1, .flags = 2, .tag = 9},
                               &entry_part, 1, NULL, NULL));
    uint8_t bytes[100] = {0};
    const struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    for (uint64_t seq = 105; seq <= 107; seq++)
        assert_ok(rs_reclog_append(&log,
                                   &(struct rs_reclog_record){.kind = 2, .tag = 9, .seq = seq},
                                   &part, 1, NULL, NULL));
    rs_reclog_close(&log);
    rs_buf_fini(&buf);
    struct rs_spool *spool = open_spool();
    struct rs_spool_entry entry;
    uint64_t seqs[8];
    assert_ok(rs_spool_entry_of(spool, 9, &entry));
    assert_int_equal(entry.source.rank, 5);
    assert_int_equal(entry.source.lane, RS_STREAM_RAW);
    assert_int_equal(waiting(spool, seqs, 8), 3);
    assert_int_equal(seqs[0], 105);
    assert_ok(put(spool, 9, 0, RS_ENVELOPE_LAST, 10)); /* it may be ended */
    assert_int_equal(declare(spool, 6, "new"), 10);
    rs_spool_forget(spool, "r", 5, "i");
    rs_spool_ack(spool, 9, 108);
    assert_status(rs_spool_entry_of(spool, 9, &entry), RS_NOTFOUND);
    struct rs_buf gone = {0};
    assert_true(rs_file_read(path, 1 << 20, &gone, NULL) < 0); /* and its files are gone */
    rs_spool_close(&spool);
}

static uint32_t declare_of(struct rs_spool *spool, uint32_t rank, int64_t user)
{
    uint32_t entry = 0;
    const struct rs_spool_source source = {.run = user == 2 ? "hers" : "his",
                                           .rank = rank,
                                           .incarnation = "i",
                                           .capture = "c",
                                           .capture_key = "",
                                           .host = "h",
                                           .origin = "o",
                                           .user = user};
    assert_ok(rs_spool_declare(spool, &source, &entry, NULL));
    return entry;
}

static void who_fills_the_spool_leaves_room_for_others(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t greedy = declare_of(spool, 0, 1);
    /* Alone, all of it: but for the eighth that is the summaries'. */
    while (put(spool, greedy, 0, 0, 10000) == RS_OK)
        ;
    assert_true(rs_spool_stats(spool).disk_bytes + 20000 >
                small.budget_bytes - small.budget_bytes / 8);
    rs_spool_close(&spool);
    /* Beside another, and after a restart as before it. */
    spool = open_spool();
    const uint32_t kept = declare_of(spool, 1, 1), other = declare_of(spool, 2, 2);
    rs_spool_ack(spool, greedy, 7);
    while (put(spool, kept, 0, 0, 10000) == RS_OK)
        ;
    assert_status(rs_spool_wait(spool, kept, 10000, 0), RS_TIMEOUT);
    assert_true(rs_spool_stats(spool).over_share_chunks > 0);
    assert_ok(rs_spool_wait(spool, other, 10000, 0));
    for (int i = 0; i < 5; i++)
        assert_ok(put(spool, other, 0, 0, 10000));
    assert_ok(put(spool, kept, 0, RS_ENVELOPE_LAST, 10)); /* a stream may always be ended */
    rs_spool_close(&spool);
}

static void what_is_held_of_the_greedy_goes_first(void **state)
{
    (void)state;
    struct rs_spool *spool = open_spool();
    const uint32_t first = declare_of(spool, 0, 2), greedy = declare_of(spool, 1, 1),
                   again = declare_of(spool, 2, 2);
    assert_ok(put(spool, first, 0, RS_ENVELOPE_LAST, 30000));
    rs_spool_hold(spool, first, true);
    for (rs_seq seq = 1; put(spool, greedy, seq, 0, 30000) == RS_OK; seq++)
        ;
    assert_ok(put(spool, greedy, 0, RS_ENVELOPE_LAST, 10));
    rs_spool_hold(spool, greedy, true);
    /* Hers, the older one, stays as long as his is there. */
    for (int i = 0; i < 8 && !rs_spool_was_lost(spool, greedy); i++)
        assert_ok(put(spool, again, 0, 0, 30000));
    assert_true(rs_spool_was_lost(spool, greedy));
    assert_false(rs_spool_was_lost(spool, first));
    rs_spool_close(&spool);
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

static void the_budget_holds_and_the_loss_is_reported_before_the_next_chunk(void **state)
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
    assert_status(rs_spool_wait(spool, entry, 30000, 0), RS_TIMEOUT);
    rs_spool_ack(spool, entry, last - 1);
    assert_ok(rs_spool_wait(spool, entry, 30000, 0));
    assert_ok(put(spool, entry, 0, 0, 30000));
    struct rs_spool_chunk chunk;
    assert_ok(rs_spool_peek(spool, entry, 0, &chunk));
    assert_int_equal(chunk.seq, last);
    assert_ok(rs_spool_peek(spool, entry, last + 1, &chunk));
    struct rs_loss loss;
    assert_int_equal(chunk.flags, RS_ENVELOPE_LOSS);
    assert_int_equal(chunk.seq, last + 1);
    assert_ok(rs_loss_decode(chunk.bytes.data, chunk.bytes.length, &loss, NULL));
    assert_int_equal(loss.chunks, 2);
    assert_int_equal(loss.events, 25);
    assert_int_equal(loss.cause, RS_LOSS_FULL);
    assert_ok(rs_spool_peek(spool, entry, last + 2, &chunk));
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
        cmocka_unit_test_setup_teardown(who_fills_the_spool_leaves_room_for_others, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_held_of_the_greedy_goes_first, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_torn_segment_gives_a_prefix_at_every_byte, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_flipped_byte_takes_one_chunk_of_one_stream, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(damage_is_named_and_kept_aside, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_summary_fits_when_raw_data_fills_the_spool, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_held_goes_first_and_says_so, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_held_too_long_goes, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_is_stored_is_kept_and_not_waited_for, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_kept_goes_before_anything_is_refused, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_source_that_waits_for_room_gets_what_was_kept, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_is_kept_too_long_goes, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_spool_of_an_earlier_program_is_drained, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_chunk_that_was_put_before_falls_through, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(
            the_budget_holds_and_the_loss_is_reported_before_the_next_chunk, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_last_chunk_may_use_the_reserve, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(numbers_go_on_over_captures_restarts_and_empty_spools,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_spool_has_one_owner, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
