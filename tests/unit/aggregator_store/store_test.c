/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what was synced is there after a crash, positions come from the data, captures explain themselves. */
#include "aggregator/store/store_priv.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    tmp_dir_make(dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmp_dir_remove(dir);
    return 0;
}

static struct rs_store *open_store(void)
{
    struct rs_store *store = NULL;
    struct rs_err err = {0};
    const enum rs_status status = rs_store_open(dir, 2000, &store, &err);
    if (status < 0)
        print_error("%s\n", err.text);
    assert_ok(status);
    return store;
}

static void create(struct rs_store *store, const char *id)
{
    struct rs_capture_facts facts = {.world = 2};
    (void)snprintf(facts.id, sizeof facts.id, "%s", id);
    (void)snprintf(facts.run, sizeof facts.run, "r");
    (void)snprintf(facts.state, sizeof facts.state, "collecting");
    assert_ok(rs_store_create_capture(store, &facts, NULL));
}

static struct rs_store_stream *stream_of(struct rs_store *store, uint32_t rank)
{
    struct rs_store_stream *stream = NULL;
    const struct rs_store_key key = {.run = "r", .incarnation = "i", .rank = rank};
    assert_ok(rs_store_stream(store, &key, &stream, NULL));
    return stream;
}

static void append_to(struct rs_store *store, struct rs_store_stream *stream, const char *capture,
                      rs_seq seq, unsigned flags, const void *bytes, size_t length)
{
    const struct rs_store_source source = {.host = "h", .origin = "o", .world = 2};
    union {
        const void *in;
        void *out;
    } lent = {.in = bytes};
    const struct iovec part = {.iov_base = lent.out, .iov_len = length};
    const struct rs_store_chunk chunk = {
        .seq = seq, .flags = flags, .parts = &part, .part_count = 1};
    assert_ok(rs_store_append(store, stream, capture, &source, &chunk, NULL));
}

static void append(struct rs_store *store, uint32_t rank, const char *capture, unsigned flags,
                   const char *text)
{
    const struct rs_store_key key = {
        .run = "r", .incarnation = "i", .rank = rank, .capture = capture};
    const rs_seq newest = stream_of(store, rank)->appended_seq;
    struct rs_store_stream *stream = NULL;
    assert_ok(rs_store_stream(store, &key, &stream, NULL));
    rs_store_stream_from(stream, newest);
    append_to(store, stream, capture, stream->appended_seq + 1, flags, text, strlen(text));
}

static void close_capture(struct rs_store *store, const char *id)
{
    struct rs_capture_facts facts;
    assert_ok(rs_store_find_capture(store, id, &facts, NULL));
    facts.is_closed = true;
    facts.closed_ns = 5;
    (void)snprintf(facts.state, sizeof facts.state, "complete");
    assert_ok(rs_store_close_capture(store, &facts, NULL));
}

static struct rs_stored *open_stored(const struct rs_store *store, const char *id)
{
    struct rs_stored *stored = NULL;
    char *path = rs_store_capture_dir(store, id);
    assert_ok(rs_store_open_capture(path, &stored, NULL));
    rs_mem_free(path);
    return stored;
}

static void nothing_is_durable_before_a_sync(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    assert_int_equal(stream_of(store, 0)->appended_seq, 1);
    assert_int_equal(stream_of(store, 0)->durable_seq, 0);
    assert_ok(rs_store_sync(store, NULL));
    assert_int_equal(stream_of(store, 0)->durable_seq, 1);
    rs_store_close(&store);
}

static void positions_are_found_in_the_segments_after_a_crash(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    for (int i = 0; i < 100; i++) { /* several segments of 2000 bytes */
        append(store, 0, "c1", 0, "some forty bytes of what is a chunk here");
        if (i < 50)
            append(store, 1, "c1", i == 49 ? RS_ENVELOPE_LAST : 0, "another");
    }
    rs_store_close(&store); /* without sync or close: as good as a kill */
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 100);
    assert_false(stream_of(store, 0)->is_ended);
    assert_int_equal(stream_of(store, 1)->durable_seq, 50);
    assert_true(stream_of(store, 1)->is_ended);
    assert_string_equal(stream_of(store, 1)->capture, "c1");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "the last");
    close_capture(store, "c1");
    struct rs_stored *stored = open_stored(store, "c1");
    assert_int_equal(rs_stored_stream_count(stored), 2);
    assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, 101);
    assert_int_equal(rs_stored_stream(stored, 0)->missing_count, 0);
    assert_int_equal(rs_stored_stream(stored, 0)->repeated_count, 0);
    assert_true(rs_stored_stream(stored, 0)->is_ended);
    assert_string_equal(rs_stored_facts(stored)->state, "complete");
    assert_int_equal(rs_stored_damage(stored, NULL), 0);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

static void positions_of_closed_captures_are_in_the_catalogue(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "two");
    close_capture(store, "c1");
    rs_store_close(&store);
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 2);
    assert_true(stream_of(store, 0)->is_ended);
    /* the same incarnation, another capture: numbers go on */
    create(store, "c2");
    append(store, 0, "c2", RS_ENVELOPE_LAST, "three");
    close_capture(store, "c2");
    struct rs_stored *stored = open_stored(store, "c2");
    assert_int_equal(rs_stored_stream(stored, 0)->first_seq, 3);
    assert_int_equal(rs_stored_stream(stored, 0)->missing_count, 0);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

static void a_closed_capture_opens_again_for_late_chunks(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    close_capture(store, "c1");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "late");
    rs_store_close(&store); /* a crash while it is open again */
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 2);
    struct rs_stored *stored = open_stored(store, "c1");
    assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, 2);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

/* The catalogue lost its last writes: it calls a capture open that was closed. Its folder knows better, unless chunks came behind the close, or
 * the close was cut off in the middle. */
static void a_close_that_the_catalogue_lost_is_found_in_the_folder(void **state)
{
    static const struct {
        const char *id, *file;
        int late_s; /* the file was written so long after facts.seg */
        bool is_closed;
    } cases[] = {{"c1", "segments/00000001.seg", -1, true},
                 {"c2", "segments/00000001.seg", 1, false},
                 {"c3", "capture.db", -1, false}};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        char path[400];
        const char *id = cases[i].id;
        struct rs_capture_facts facts;
        struct rs_store *store = open_store();
        create(store, id);
        append(store, i, id, RS_ENVELOPE_LAST, "one");
        assert_ok(rs_store_find_capture(store, id, &facts, NULL));
        close_capture(store, id);
        assert_ok(rs_store_update_capture(store, &facts, NULL)); /* as it was before */
        rs_store_close(&store);
        struct stat info;
        (void)snprintf(path, sizeof path, "%s/captures/%s/facts.seg", dir, id);
        assert_int_equal(stat(path, &info), 0);
        struct timespec times[2] = {info.st_mtim, info.st_mtim};
        times[0].tv_sec = times[1].tv_sec += cases[i].late_s;
        (void)snprintf(path, sizeof path, "%s/captures/%s/%s", dir, id, cases[i].file);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        store = open_store();
        assert_ok(rs_store_find_capture(store, id, &facts, NULL));
        assert_int_equal(facts.is_closed, cases[i].is_closed);
        assert_int_equal(facts.closed_ns, cases[i].is_closed ? 5 : 0);
        assert_int_equal(stream_of(store, i)->durable_seq, 1);
        rs_store_close(&store);
    }
}

static void a_torn_segment_gives_a_prefix_at_every_byte(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    for (int i = 0; i < 3; i++)
        append(store, 0, "c1", 0, "some bytes");
    rs_store_close(&store);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/captures/c1/segments/00000001.seg", dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    rs_seq best = 0;
    for (size_t length = 0; length <= whole.length; length++) {
        assert_ok(rs_file_replace(path, whole.data, length, false, NULL));
        store = open_store();
        const rs_seq found = stream_of(store, 0)->durable_seq;
        assert_true(found >= best && found <= 3);
        best = found;
        append(store, 0, "c1", 0, "some bytes");
        struct rs_stored *stored = open_stored(store, "c1");
        assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, found + 1);
        assert_int_equal(rs_stored_stream(stored, 0)->missing_count, 0);
        rs_stored_close(&stored);
        rs_store_close(&store);
    }
    assert_int_equal(best, 3);
    rs_buf_fini(&whole);
}

static void damage_inside_is_reported_when_the_chunk_is_read(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "aaaaaaaa");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "bbbbbbbb");
    close_capture(store, "c1");
    char path[256];
    (void)snprintf(path, sizeof path, "%s/captures/c1/segments/00000001.seg", dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    uint8_t *found = memmem(whole.data, whole.length, "aaaaaaaa", 8);
    assert_non_null(found);
    found[3] = 'x';
    assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
    struct rs_stored *stored = open_stored(store, "c1");
    struct rs_stored_chunk chunk;
    assert_status(rs_stored_chunk(stored, 0, 0, true, &chunk, NULL), RS_FORMAT);
    assert_ok(rs_stored_chunk(stored, 0, 1, true, &chunk, NULL));
    assert_status(rs_stored_chunk(stored, 0, 2, true, &chunk, NULL), RS_END);
    rs_stored_close(&stored);
    rs_buf_fini(&whole);
    rs_store_close(&store);
}

static void lanes_have_their_own_numbers_and_folders(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "raw one");
    append(store, 0, "c1", 0, "raw two");
    struct rs_store_key key = {
        .run = "r", .incarnation = "i", .lane = RS_STREAM_SUMMARY, .capture = "c1"};
    struct rs_store_stream *summary = NULL;
    assert_ok(rs_store_stream(store, &key, &summary, NULL));
    assert_int_equal(summary->appended_seq, 0);
    append_to(store, summary, "c1", 1, RS_ENVELOPE_LAST, "part", 4);
    rs_store_close(&store); /* a crash */
    store = open_store();
    assert_ok(rs_store_stream(store, &key, &summary, NULL));
    assert_int_equal(summary->durable_seq, 1);
    assert_true(summary->is_ended);
    assert_int_equal(stream_of(store, 0)->durable_seq, 2);
    assert_false(stream_of(store, 0)->is_ended);
    close_capture(store, "c1");
    rs_store_close(&store);
    store = open_store(); /* now from the catalogue */
    assert_ok(rs_store_stream(store, &key, &summary, NULL));
    assert_int_equal(summary->durable_seq, 1);
    char *path = rs_store_capture_dir(store, "c1");
    struct rs_stored *stored = NULL;
    assert_ok(rs_store_open_lane(path, RS_STREAM_SUMMARY, &stored, NULL));
    assert_int_equal(rs_stored_stream_count(stored), 1);
    assert_int_equal(rs_stored_stream(stored, 0)->chunk_count, 1);
    rs_stored_close(&stored);
    rs_mem_free(path);
    rs_store_close(&store);
}

static void captures_of_one_incarnation_have_their_own_positions(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    create(store, "c2");
    struct rs_store_key key = {.run = "r", .incarnation = "i", .capture = "c2"};
    struct rs_store_stream *later = NULL;
    assert_ok(rs_store_stream(store, &key, &later, NULL));
    rs_store_stream_from(later, 100); /* c1 is held back: its numbers 1 to 100 come another day */
    append_to(store, later, "c2", 101, RS_ENVELOPE_LAST, "later", 5);
    key.capture = "c1";
    struct rs_store_stream *earlier = NULL;
    assert_ok(rs_store_stream(store, &key, &earlier, NULL));
    assert_int_equal(earlier->appended_seq, 0);
    append_to(store, earlier, "c1", 1, 0, "first", 5);
    rs_store_close(&store);
    store = open_store();
    assert_ok(rs_store_stream(store, &key, &earlier, NULL));
    assert_int_equal(earlier->durable_seq, 1);
    assert_int_equal(stream_of(store, 0)->durable_seq, 101); /* the newest */
    rs_store_close(&store);
}

static void a_loss_record_explains_its_hole(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    struct rs_store_key key = {.run = "r", .incarnation = "i", .capture = "c1"};
    struct rs_store_stream *stream = NULL;
    assert_ok(rs_store_stream(store, &key, &stream, NULL));
    const struct rs_loss loss = {
        .chunks = 8, .bytes = 800, .first_seq = 2, .cause = RS_LOSS_DAMAGED};
    uint8_t bytes[RS_LOSS_BYTES];
    rs_loss_encode(&loss, bytes);
    append_to(store, stream, "c1", 9, RS_ENVELOPE_LOSS, bytes, sizeof bytes);
    append_to(store, stream, "c1", 10, RS_ENVELOPE_LAST, "ten", 3);
    rs_store_close(&store);
    store = open_store();
    assert_int_equal(stream_of(store, 0)->durable_seq, 10);
    struct rs_stored *stored = open_stored(store, "c1");
    const struct rs_stored_stream *facts = rs_stored_stream(stored, 0);
    assert_int_equal(facts->missing_count, 0);
    assert_int_equal(facts->loss.chunks, 8);
    assert_int_equal(facts->hole_count, 1);
    assert_int_equal(facts->holes[0].first_seq, 2);
    assert_int_equal(facts->holes[0].last_seq, 9);
    assert_int_equal(facts->holes[0].loss.cause, RS_LOSS_DAMAGED);
    rs_stored_close(&stored);
    rs_store_close(&store);
}

/* Every byte of the newest segment is flipped once: what stands behind the damage is neither cut nor forgotten. */
static void a_flipped_byte_takes_one_record_and_no_more(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    for (int i = 0; i < 4; i++)
        append(store, 0, "c1", 0, "some bytes");
    rs_store_close(&store);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/captures/c1/segments/00000001.seg", dir);
    struct rs_buf whole = {0};
    assert_ok(rs_file_read(path, 1 << 20, &whole, NULL));
    /* The file's header (16 bytes) is another matter: without it, it is no log. */
    for (size_t at = 16; at + 64 < whole.length; at++) {
        whole.data[at] ^= 0x40;
        assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
        whole.data[at] ^= 0x40;
        store = open_store();
        struct rs_stored *stored = open_stored(store, "c1");
        uint64_t readable = 0;
        for (uint64_t i = 0; rs_stored_stream_count(stored) && i < 4; i++) {
            struct rs_stored_chunk chunk;
            readable += rs_stored_chunk(stored, 0, i, true, &chunk, NULL) == RS_OK;
        }
        /* The first record says whose chunks they are: without it they belong to nobody, and that is reported. */
        if (rs_stored_stream_count(stored))
            assert_true(readable >= 3);
        else
            assert_true(rs_stored_damage(stored, NULL) > 0);
        rs_stored_close(&stored);
        rs_store_close(&store);
    }
    rs_buf_fini(&whole);
}

static bool count_one(void *self, const struct rs_capture_facts *facts)
{
    size_t *count = self;
    (*count)++;
    assert_string_equal(facts->run, "r");
    return true;
}

struct rank_seen {
    size_t count;
    struct rs_capture_rank rank; /* the last */
};

static bool see_rank(void *self, const struct rs_capture_rank *rank)
{
    struct rank_seen *seen = self;
    seen->count++;
    seen->rank = *rank;
    return true;
}

/* A program that is older than its data says so, and leaves it as it is. */
static void a_newer_catalogue_is_refused_and_left_alone(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    rs_store_close(&store);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/catalogue.db", dir);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=77", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    struct rs_err err = {0};
    assert_int_equal(rs_store_open(dir, 0, &store, &err), RS_REFUSED);
    assert_non_null(strstr(err.text, "newer Rankscope (format 77; this program knows up to 3)"));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=2", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    store = open_store();
    rs_store_close(&store);
}

/* Removed, overwritten with something else, and with a hole in the middle: the captures are there after a start. */
static void a_lost_catalogue_is_made_again_from_the_folders(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "two");
    close_capture(store, "c1");
    create(store, "c2"); /* open */
    append(store, 0, "c2", 0, "three");
    rs_store_close(&store);
    char path[256];
    char wal[256];
    (void)snprintf(path, sizeof path, "%s/catalogue.db", dir);
    (void)snprintf(wal, sizeof wal, "%s/catalogue.db-wal", dir);
    for (int how = 0; how < 3; how++) {
        struct rs_buf whole = {0};
        (void)unlink(wal);
        if (how == 0)
            assert_int_equal(unlink(path), 0);
        if (how == 1)
            assert_ok(rs_file_replace(path, "this is no database", 19, false, NULL));
        if (how == 2) {
            assert_ok(rs_file_read(path, 1 << 24, &whole, NULL));
            memset(whole.data + whole.length / 3, 0xff, whole.length / 3);
            assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
            rs_buf_fini(&whole);
        }
        store = open_store();
        size_t count = 0;
        assert_ok(rs_store_list_captures(store, count_one, &count, NULL));
        assert_int_equal(count, 2);
        struct rs_capture_facts facts;
        assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
        assert_true(facts.is_closed);
        assert_string_equal(facts.state, "complete");
        assert_ok(rs_store_find_capture(store, "c2", &facts, NULL));
        assert_false(facts.is_closed);
        const struct rs_store_key key = {.run = "r", .incarnation = "i", .capture = "c1"};
        struct rs_store_stream *stream = NULL;
        assert_ok(rs_store_stream(store, &key, &stream, NULL));
        assert_int_equal(stream->durable_seq, 2); /* what comes again is known */
        assert_true(stream->is_ended);
        assert_int_equal(stream_of(store, 0)->durable_seq, 3);
        rs_store_close(&store);
    }
}

/* Every place of the file where `text` stands, with another letter in the middle. */
static void garble(const char *path, const char *text)
{
    struct rs_buf whole = {0};
    size_t found = 0;
    const size_t length = strlen(text);
    assert_ok(rs_file_read(path, 1 << 24, &whole, NULL));
    for (size_t at = 0; at + length <= whole.length; at++)
        if (memcmp(whole.data + at, text, length) == 0) {
            whole.data[at + length / 2] ^= 0x15;
            found++;
        }
    assert_true(found > 0);
    assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
    rs_buf_fini(&whole);
}

/* One closed capture and one that goes on; where the catalogue is. */
static void make_two(char path[256])
{
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "one");
    const struct rs_capture_rank rank = {
        .rank = 0, .state = 8, .steps_done = 4, .incarnation = "i", .text = "as it was said"};
    assert_ok(rs_store_put_ranks(store, "c1", &rank, 1, NULL));
    close_capture(store, "c1");
    create(store, "c2");
    append(store, 0, "c2", 0, "two");
    rs_store_close(&store);
    (void)snprintf(path, 256, "%s/catalogue.db", dir);
}

/* A disk without room for a single page, by the limit on files: until it is lifted every commit fails. */
static void fill_disk(bool is_full)
{
    static struct rlimit before;
    if (is_full) {
        (void)signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    }
    const struct rlimit limit = {.rlim_cur = is_full ? 1 : before.rlim_cur,
                                 .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static bool see_state(void *self, const struct rs_capture_rank *rank)
{
    unsigned *sum = self;
    *sum += (unsigned)rank->state;
    return true;
}

/* What a full disk refuses is an error, not half there, and does not stand in the way of what comes when there is room. */
static void what_a_full_disk_refused_can_be_written_later(void **state)
{
    (void)state;
    enum { RANKS = 64 };
    struct rs_capture_rank ranks[RANKS];
    for (size_t i = 0; i < RANKS; i++)
        ranks[i] = (struct rs_capture_rank){
            .rank = (uint32_t)i, .state = 1, .incarnation = "i", .text = "sends"};
    struct rs_store *store = open_store();
    create(store, "c1");
    assert_ok(rs_store_put_ranks(store, "c1", ranks, RANKS, NULL));
    struct rs_capture_facts facts;
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    for (size_t i = 0; i < RANKS; i++)
        ranks[i].state = 3;
    (void)snprintf(facts.state, sizeof facts.state, "summarised");
    fill_disk(true);
    for (int times = 0; times < 3; times++) {
        struct rs_err err = {0};
        const enum rs_status many = rs_store_put_ranks(store, "c1", ranks, RANKS, &err);
        const enum rs_status one = rs_store_update_capture(store, &facts, &err);
        if (many >= 0 || one >= 0 || !strstr(err.text, "catalogue")) {
            fill_disk(false);
            fail_msg("%s, %s: %s", rs_status_text(many), rs_status_text(one), err.text);
        }
    }
    fill_disk(false);
    unsigned sum = 0;
    assert_ok(rs_store_list_ranks(store, "c1", see_state, &sum, NULL));
    assert_int_equal(sum, RANKS);
    assert_ok(rs_store_put_ranks(store, "c1", ranks, RANKS, NULL));
    assert_ok(rs_store_update_capture(store, &facts, NULL));
    rs_store_close(&store);
    store = open_store();
    sum = 0;
    assert_ok(rs_store_list_ranks(store, "c1", see_state, &sum, NULL));
    assert_int_equal(sum, 3 * RANKS);
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    assert_string_equal(facts.state, "summarised");
    rs_store_close(&store);
}

/* SQLite finds nothing wrong with another letter. */
static void garbage_that_sqlite_does_not_see_is_not_shown(void **state)
{
    (void)state;
    char path[256];
    make_two(path);
    static const char *const garbled[] = {"complete", "as it was said", "c1r"};
    for (size_t i = 0; i < sizeof garbled / sizeof garbled[0]; i++) {
        garble(path, garbled[i]);
        struct rs_store *store = open_store();
        struct rs_capture_facts facts;
        struct rank_seen seen = {0};
        assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
        assert_string_equal(facts.state, "complete");
        assert_ok(rs_store_list_ranks(store, "c1", see_rank, &seen, NULL));
        assert_int_equal(seen.count, 1);
        assert_string_equal(seen.rank.text, "as it was said");
        size_t count = 0;
        assert_ok(rs_store_list_captures(store, count_one, &count, NULL));
        assert_int_equal(count, 2);
        rs_store_close(&store);
    }
}

/* A program that sealed nothing is believed, once. */
static void an_older_catalogue_is_sealed_as_it_is(void **state)
{
    (void)state;
    char path[256];
    make_two(path);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DROP TABLE seal; PRAGMA user_version=2; UPDATE capture SET "
                                  "reason = 'of an earlier program' WHERE id = 'c1'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    for (int turn = 0; turn < 2; turn++) {
        struct rs_capture_facts facts;
        struct rs_store *store = open_store();
        assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
        assert_string_equal(facts.reason, turn ? "" : "of an earlier program");
        rs_store_close(&store);
        if (!turn) /* it has a seal now */
            garble(path, "of an earlier program");
    }
}

/* Closed twice, with 1,500 ranks: two records of ranks each time. */
static void close_twice(struct rs_store *store)
{
    create(store, "c1");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "one");
    for (unsigned turn = 0; turn < 2; turn++) {
        struct rs_capture_rank *ranks = rs_mem_calloc(1500, sizeof *ranks);
        assert_non_null(ranks);
        for (uint32_t i = 0; i < 1500; i++) {
            ranks[i] = (struct rs_capture_rank){.rank = i, .state = 3 + turn, .steps_done = -1};
            (void)snprintf(ranks[i].text, sizeof ranks[i].text, "why %u", i);
        }
        assert_ok(rs_store_put_ranks(store, "c1", ranks, 1500, NULL));
        rs_mem_free(ranks);
        struct rs_capture_facts facts;
        assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
        facts.is_closed = true;
        facts.closed_ns = 5 + turn;
        facts.start_step = -1;
        (void)snprintf(facts.state, sizeof facts.state, turn ? "complete" : "partial");
        assert_ok(rs_store_close_capture(store, &facts, NULL));
    }
}

/* Which closing a folder tells: 2, 1, or none. Never a part of one. */
static int closing_of(const struct rs_store *store)
{
    struct rs_stored *stored = open_stored(store, "c1");
    const struct rs_capture_facts *facts = rs_stored_facts(stored);
    const int closing = facts->is_closed ? (int)facts->closed_ns - 4 : 0;
    if (closing) {
        assert_string_equal(facts->state, closing == 2 ? "complete" : "partial");
        assert_string_equal(facts->run, "r");
        assert_int_equal(facts->start_step, -1);
        assert_int_equal(rs_stored_rank_count(stored), 1500);
        const struct rs_capture_rank *rank = rs_stored_rank(stored, 1499);
        assert_int_equal(rank->rank, 1499);
        assert_int_equal(rank->state, 2 + closing);
        assert_int_equal(rank->steps_done, -1);
        assert_string_equal(rank->text, "why 1499");
    } else {
        assert_string_equal(facts->state, "open");
    }
    rs_stored_close(&stored);
    return closing;
}

/* Without capture.db the folder's own record of facts tells; cut or damaged anywhere it tells an earlier closing, or none. */
static void facts_are_whole_or_older_at_every_byte(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_buf whole = {0};
    char path[256];
    close_twice(store);
    (void)snprintf(path, sizeof path, "%s/captures/c1/capture.db", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(closing_of(store), 2);
    (void)snprintf(path, sizeof path, "%s/captures/c1/facts.seg", dir);
    assert_ok(rs_file_read(path, 1 << 24, &whole, NULL));
    int before = 0;
    for (size_t length = 0; length < whole.length; length += length < 200 ? 1 : 97) {
        assert_ok(rs_file_replace(path, whole.data, length, false, NULL));
        const int closing = closing_of(store);
        assert_true(closing == before || closing == before + 1);
        before = closing;
    }
    assert_int_equal(before, 1); /* the last cut is in the second */
    for (size_t at = 0; at < whole.length; at += 211) {
        whole.data[at] ^= 0x20;
        assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
        whole.data[at] ^= 0x20;
        (void)closing_of(store);
    }
    assert_ok(rs_file_replace(path, whole.data, whole.length, false, NULL));
    assert_ok(rs_store_rebuild(store, "c1", NULL));
    assert_int_equal(unlink(path),
                     0); /* now capture.db tells it, and a rebuild writes the record again */
    assert_int_equal(closing_of(store), 2);
    assert_ok(rs_store_rebuild(store, "c1", NULL));
    (void)snprintf(path, sizeof path, "%s/captures/c1/capture.db", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(closing_of(store), 2);
    rs_buf_fini(&whole);
    rs_store_close(&store);
}

static void an_open_capture_is_not_rebuilt(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    append(store, 0, "c1", 0, "one");
    assert_status(rs_store_rebuild(store, "c1", NULL), RS_REFUSED);
    assert_status(rs_store_rebuild(store, "c2", NULL), RS_NOTFOUND);
    assert_status(rs_store_rebuild(store, "../c1", NULL), RS_INVALID);
    struct rs_capture_facts facts;
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    assert_string_equal(facts.state, "collecting");
    rs_store_close(&store);
}

static bool has_path(const char *name)
{
    char path[400];
    (void)snprintf(path, sizeof path, "%s/captures/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void a_removed_capture_is_gone(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_capture_facts facts;
    size_t count = 0;
    create(store, "c1");
    create(store, "c2");
    append(store, 0, "c1", RS_ENVELOPE_LAST, "one");
    append(store, 0, "c2", 0, "two");
    assert_status(rs_store_remove_capture(store, "c1", NULL), RS_REFUSED); /* it goes on */
    assert_true(has_path("c1"));
    close_capture(store, "c1");
    struct rs_stored *reading = open_stored(store, "c1");
    assert_ok(rs_store_remove_capture(store, "c1", NULL));
    assert_false(has_path("c1") || has_path(".removed-c1"));
    assert_status(rs_store_find_capture(store, "c1", &facts, NULL), RS_NOTFOUND);
    assert_status(rs_store_remove_capture(store, "c1", NULL), RS_NOTFOUND);
    assert_status(rs_store_remove_capture(store, "../c2", NULL), RS_NOTFOUND);
    struct rs_stored_chunk chunk; /* who reads it goes on */
    assert_ok(rs_stored_chunk(reading, 0, 0, true, &chunk, NULL));
    assert_memory_equal(chunk.bytes.data, "one", 3);
    rs_stored_close(&reading);
    append(store, 0, "c2", RS_ENVELOPE_LAST, "three"); /* the other is as it was */
    close_capture(store, "c2");
    rs_store_close(&store);
    store = open_store();
    assert_ok(rs_store_list_captures(store, count_one, &count, NULL));
    assert_int_equal(count, 1);
    assert_true(rs_store_was_removed(store, "c1")); /* what collectors still have of it stays out */
    assert_false(rs_store_was_removed(store, "c2"));
    rs_store_close(&store);
}

static struct rs_store *open_without(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
    return open_store();
}

/* With a catalogue that is made again, and a file that is made again; garbage in it is nobody's name. */
static void what_was_removed_stays_removed(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    create(store, "c1");
    close_capture(store, "c1");
    create(store, "c2");
    append(store, 0, "c2", 0, "two");
    assert_ok(rs_store_remove_capture(store, "c1", NULL));
    rs_store_close(&store);
    static const char *const lost[] = {"catalogue.db", "removed", "catalogue.db"};
    for (size_t i = 0; i < 3; i++) {
        store = open_without(lost[i]);
        assert_true(rs_store_was_removed(store, "c1"));
        assert_false(rs_store_was_removed(store, "c2"));
        rs_store_close(&store);
        char path[256];
        struct rs_buf names = {0};
        (void)snprintf(path, sizeof path, "%s/removed", dir);
        assert_ok(rs_file_read(path, 100, &names, NULL));
        rs_buf_string(&names, "/etc\n\xff torn");
        assert_ok(rs_file_replace(path, names.data, names.length, false, NULL));
        rs_buf_fini(&names);
    }
    /* Its last writes are lost: rows of what is gone. A name that was used again is not. */
    struct rs_capture_facts facts = {.id = "c1", .run = "r", .is_closed = true};
    store = open_store();
    assert_ok(rs_store_update_capture(store, &facts, NULL));
    rs_store_close(&store);
    store = open_store();
    assert_status(rs_store_find_capture(store, "c1", &facts, NULL), RS_NOTFOUND);
    create(store, "c1");
    rs_store_close(&store);
    store = open_store();
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    rs_store_close(&store);
}

/* The process ends behind the rename, behind the rows, or in the middle of the files: the next start ends it. */
static void a_removal_that_was_cut_off_is_ended_by_the_next_start(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct rs_store *store = open_store();
        struct rs_capture_facts facts;
        char from[400], to[400], file[500];
        create(store, "c1");
        append(store, 0, "c1", RS_ENVELOPE_LAST, "one");
        close_capture(store, "c1");
        (void)snprintf(from, sizeof from, "%s/captures/c1", dir);
        (void)snprintf(to, sizeof to, "%s/captures/.removed-c1", dir);
        (void)snprintf(file, sizeof file, "%s/captures/.removed-c1/capture.db", dir);
        if (how == 1) { /* the rows are gone, some of the folder is left */
            assert_ok(rs_store_remove_capture(store, "c1", NULL));
            assert_int_equal(mkdir(to, 0750), 0);
            assert_ok(rs_file_replace(file, "rest", 4, false, NULL));
        } else {
            assert_int_equal(rename(from, to), 0);
        }
        if (how == 2)
            assert_int_equal(unlink(file), 0);
        rs_store_close(&store);
        store = open_store();
        assert_false(has_path("c1") || has_path(".removed-c1"));
        assert_status(rs_store_find_capture(store, "c1", &facts, NULL), RS_NOTFOUND);
        rs_store_close(&store);
    }
}

static void an_id_cannot_leave_the_folder(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_capture_facts facts = {.created_ns = 1};
    (void)snprintf(facts.id, sizeof facts.id, "../../x");
    assert_status(rs_store_create_capture(store, &facts, NULL), RS_INVALID);
    rs_store_close(&store);
}

/* Two stores whose captures meet in one database draw names that differ by it. */
static void new_names_end_with_the_tag(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_capture_facts facts = {.created_ns = 1};
    size_t all = 9, open = 9;
    assert_ok(rs_store_create_capture(store, &facts, NULL));
    assert_int_equal(strlen(facts.id), strlen("19700101-000000-a1b2c3"));
    rs_store_tag_names(store, "49a92e45612c7794");
    facts.id[0] = '\0';
    assert_ok(rs_store_create_capture(store, &facts, NULL));
    assert_int_equal(strlen(facts.id), strlen("19700101-000000-a1b2c349a9"));
    assert_string_equal(facts.id + strlen("19700101-000000-a1b2c3"), "49a9");
    facts.is_closed = true;
    assert_ok(rs_store_update_capture(store, &facts, NULL));
    assert_ok(rs_store_count_captures(store, &all, &open, NULL));
    assert_int_equal(all, 2);
    assert_int_equal(open, 1);
    rs_store_close(&store);
}

static void data_has_one_writer(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_store *second = NULL;
    assert_status(rs_store_open(dir, 0, &second, NULL), RS_EXISTS);
    rs_store_close(&store);
}

/* Somebody writes, and the disk takes its time: whoever asks is answered all the same. Else this test would never end. */
static void a_reader_does_not_wait_for_who_writes(void **state)
{
    (void)state;
    struct rs_store *store = open_store();
    struct rs_capture_facts facts;
    size_t count = 0;
    create(store, "c1");
    (void)alarm(60);
    assert_int_equal(pthread_mutex_lock(&store->lock), 0);
    assert_ok(catalogue_begin(store->catalogue, NULL));
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    assert_string_equal(facts.state, "collecting");
    assert_status(rs_store_find_capture(store, "c2", &facts, NULL), RS_NOTFOUND);
    assert_ok(rs_store_list_captures(store, count_one, &count, NULL));
    assert_int_equal(count, 1);
    assert_non_null(stream_of(store, 7));
    catalogue_rollback(store->catalogue);
    assert_int_equal(pthread_mutex_unlock(&store->lock), 0);
    (void)alarm(0);
    /* What was committed is seen at once. */
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    (void)snprintf(facts.state, sizeof facts.state, "partial");
    assert_ok(rs_store_update_capture(store, &facts, NULL));
    assert_ok(rs_store_find_capture(store, "c1", &facts, NULL));
    assert_string_equal(facts.state, "partial");
    rs_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_durable_before_a_sync, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_reader_does_not_wait_for_who_writes, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(positions_are_found_in_the_segments_after_a_crash, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(positions_of_closed_captures_are_in_the_catalogue, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_closed_capture_opens_again_for_late_chunks, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_close_that_the_catalogue_lost_is_found_in_the_folder,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_torn_segment_gives_a_prefix_at_every_byte, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(damage_inside_is_reported_when_the_chunk_is_read, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(new_names_end_with_the_tag, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(lanes_have_their_own_numbers_and_folders, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(captures_of_one_incarnation_have_their_own_positions,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_loss_record_explains_its_hole, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_flipped_byte_takes_one_record_and_no_more, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_newer_catalogue_is_refused_and_left_alone, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(a_lost_catalogue_is_made_again_from_the_folders, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_a_full_disk_refused_can_be_written_later, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(garbage_that_sqlite_does_not_see_is_not_shown, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(an_older_catalogue_is_sealed_as_it_is, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(what_was_removed_stays_removed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(facts_are_whole_or_older_at_every_byte, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(an_open_capture_is_not_rebuilt, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_removed_capture_is_gone, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_removal_that_was_cut_off_is_ended_by_the_next_start,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_id_cannot_leave_the_folder, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(data_has_one_writer, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
