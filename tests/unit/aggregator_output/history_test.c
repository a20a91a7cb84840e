/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of many runs as rows of history: who is named, in how many runs, what is unknown. */
#include "aggregator/output/history.h"

#include "aggregator/analysis/rows.h"
#include "aggregator/model/tables.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 4, MS = 1000000 };

/* One finding of a capture, about one place. */
struct planted {
    const char *kind, *confidence, *where_kind, *name;
    int64_t rank, src, dst, stage;
    bool is_not_worth;
};

static void put(struct rs_writer *writer, const struct rs_table *table, const void *row)
{
    struct rs_err err = {0};
    if (rs_writer_put(writer, table, row, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static struct rs_writer *begin(struct rs_row_store *rows, enum rs_unit_kind kind, int64_t a)
{
    struct rs_writer *writer = NULL;
    const struct rs_unit unit = {.capture = RS_ROWS_CAPTURE, .kind = kind, .a = a};
    assert_ok(rs_store_begin(rows, &unit, &writer, NULL));
    return writer;
}

static void put_step(struct rs_writer *writer, int64_t rank, int64_t row_no, int64_t window_ns,
                     bool is_in_means)
{
    struct rs_row_step_device row;
    rs_row_clear(&rs_table_step_device, &row);
    for (size_t i = 0; i < rs_table_step_device.column_count; i++)
        if (!(rs_table_step_device.columns[i].flags & RS_NULLABLE))
            rs_column_set_i64(&rs_table_step_device.columns[i], &row, 0);
    row.capture = RS_ROWS_CAPTURE;
    row.rank = rank;
    row.row_no = row.step = row_no;
    row.window_ns = window_ns;
    row.window_computing_ns = window_ns / 2;
    row.is_in_means = is_in_means;
    put(writer, &rs_table_step_device, &row);
}

/* Ranks 0, 1 on `first`, 2, 3 on `second`; two steps of 10 and 20 ms that count and one that does not. */
static struct rs_row_store *make_rows(const char *first, const char *second, bool has_steps,
                                      const struct planted *planted, size_t count)
{
    struct rs_row_store *rows = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &rows, NULL));
    struct rs_writer *writer = begin(rows, RS_UNIT_CAPTURE, 0);
    for (size_t i = 0; i < count; i++) {
        struct rs_row_finding finding;
        struct rs_row_finding_place place;
        rs_row_clear(&rs_table_finding, &finding);
        rs_row_clear(&rs_table_finding_place, &place);
        finding.capture = place.capture = RS_ROWS_CAPTURE;
        finding.finding_no = place.finding_no = (int64_t)i + 1;
        finding.kind = planted[i].kind;
        finding.confidence = planted[i].confidence;
        finding.is_worth_fixing = !planted[i].is_not_worth;
        finding.cost_ns_per_step = (int64_t)(i + 1) * MS;
        finding.steps_seen = finding.steps_hit = finding.period = finding.phase = 0;
        finding.began = finding.peers = finding.more_steps = 0;
        place.place_no = place.is_also = 0;
        place.where_kind = planted[i].where_kind;
        place.name = planted[i].name;
        place.rank = planted[i].rank;
        place.src = planted[i].src;
        place.dst = planted[i].dst;
        place.stage = planted[i].stage;
        put(writer, &rs_table_finding, &finding);
        put(writer, &rs_table_finding_place, &place);
    }
    assert_ok(rs_writer_commit(&writer, NULL));
    for (int64_t rank = 0; rank < RANKS; rank++) {
        struct rs_row_rank row;
        rs_row_clear(&rs_table_rank, &row);
        row.capture = RS_ROWS_CAPTURE;
        row.rank = rank;
        row.part = row.step_origin = row.takes_part = 0;
        row.ops_last = row.caused_wait_ns = row.own_wait_ns = 0;
        row.host = rank < 2 ? first : second;
        writer = begin(rows, RS_UNIT_RANK, rank);
        put(writer, &rs_table_rank, &row);
        for (int64_t i = 0; has_steps && i < 3; i++)
            put_step(writer, rank, i, (i + 1) * 10 * MS, i < 2);
        assert_ok(rs_writer_commit(&writer, NULL));
    }
    return rows;
}

static const struct planted slow_0 = {.kind = "slow_rank",
                                      .confidence = "exact",
                                      .where_kind = "rank",
                                      .rank = 0,
                                      .src = RS_NULL,
                                      .dst = RS_NULL,
                                      .stage = RS_NULL};
static const struct planted weak_0 = {.kind = "slow_rank",
                                      .confidence = "weak",
                                      .where_kind = "rank",
                                      .rank = 0,
                                      .src = RS_NULL,
                                      .dst = RS_NULL,
                                      .stage = RS_NULL};
static const struct planted link_0_3 = {.kind = "slow_link",
                                        .confidence = "bounded",
                                        .where_kind = "link",
                                        .src = 0,
                                        .dst = 3,
                                        .rank = RS_NULL,
                                        .stage = RS_NULL};

/* Rows of all captures that were given, as CSV. */
static struct rs_buf text;

static int forget_text(void **state)
{
    (void)state;
    rs_buf_fini(&text);
    return 0;
}

static struct rs_history *begin_history(enum rs_history_view view,
                                        const struct rs_history_filter *filter)
{
    static const struct rs_history_filter all = {0};
    struct rs_history *history = NULL;
    struct rs_err err = {0};
    if (rs_history_new(view, filter ? filter : &all, &history, &err) < 0)
        fail_msg("%s", err.text);
    return history;
}

static void put_block(const struct rs_block *block)
{
    for (size_t i = 0; i < block->count; i++)
        rs_csv_row(block->table, rs_block_row(block, i), &text);
}

static void add(struct rs_history *history, const char *id, const char *run, int64_t created_ns,
                struct rs_row_store *rows)
{
    const struct rs_history_capture capture = {.id = id,
                                               .run = run,
                                               .source = "native",
                                               .state = "complete",
                                               .without = rows ? NULL : "archived",
                                               .created_ns = created_ns};
    struct rs_block block = {0};
    struct rs_err err = {0};
    if (rs_history_add(history, &capture, rows, &block, &err) < 0)
        fail_msg("%s", err.text);
    put_block(&block);
    rs_block_fini(&block);
    rs_row_store_close(&rows);
}

static void end(struct rs_history **history)
{
    struct rs_block block = {0};
    assert_ok(rs_history_end(*history, &block, NULL));
    put_block(&block);
    rs_block_fini(&block);
    rs_history_free(history);
}

static void a_host_is_named_in_seven_of_nine_runs(void **state)
{
    (void)state;
    struct rs_history *history = begin_history(RS_HISTORY_HOSTS, NULL);
    char run[16], id[16];
    for (int i = 0; i < 9; i++) {
        /* n1 has other ranks in every other run; in the last two nobody is slow, in one of them it is hinted at */
        const struct planted slow = {.kind = "slow_rank",
                                     .confidence = "exact",
                                     .where_kind = "rank",
                                     .rank = i % 2 ? 2 : 0,
                                     .src = RS_NULL,
                                     .dst = RS_NULL,
                                     .stage = RS_NULL};
        (void)snprintf(run, sizeof run, "run%d", i);
        (void)snprintf(id, sizeof id, "c%d", i);
        add(history, id, run, 100 + i,
            make_rows(i % 2 ? "other" : "n1", i % 2 ? "n1" : "other", true,
                      i == 8 ? &weak_0 : &slow, i != 7));
    }
    end(&history);
    assert_string_equal(rs_buf_text(&text), "n1,9,7,1,9,7,1,100,106,c6,slow_rank,1000000\n"
                                            "other,9,0,0,9,0,0,,,,,\n");
}

static void captures_of_one_run_are_one_run(void **state)
{
    (void)state;
    struct rs_history *history = begin_history(RS_HISTORY_HOSTS, NULL);
    add(history, "a", "r", 1, make_rows("n1", "n2", true, &weak_0, 1));
    add(history, "x", "", 2, make_rows("n1", NULL, true, NULL, 0)); /* of a run that nobody knows */
    add(history, "b", "r", 3, make_rows("n1", "n2", true, &slow_0, 1));
    add(history, "y", "", 4, make_rows("n1", "", true, NULL, 0));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "n1,3,1,0,4,1,1,3,3,b,slow_rank,1000000\n"
                                            "n2,1,0,0,2,0,0,,,,,\n");
}

/* Both ends of a link are; a stage, an imbalance and what is not worth fixing name nobody. */
static void who_is_named(void **state)
{
    (void)state;
    const struct planted planted[] = {
        link_0_3,
        {.kind = "slow_stage",
         .confidence = "exact",
         .where_kind = "stage",
         .rank = RS_NULL,
         .src = RS_NULL,
         .dst = RS_NULL,
         .stage = 1},
        {.kind = "imbalance",
         .confidence = "exact",
         .where_kind = "rank",
         .rank = 1,
         .src = RS_NULL,
         .dst = RS_NULL,
         .stage = RS_NULL},
        {.kind = "slow_rank",
         .confidence = "exact",
         .where_kind = "rank",
         .rank = 2,
         .src = RS_NULL,
         .dst = RS_NULL,
         .stage = RS_NULL,
         .is_not_worth = true},
        {.kind = "slow_host",
         .confidence = "partial",
         .where_kind = "host",
         .name = "n7",
         .rank = RS_NULL,
         .src = RS_NULL,
         .dst = RS_NULL,
         .stage = RS_NULL},
    };
    struct rs_history *history = begin_history(RS_HISTORY_RANKS, NULL);
    add(history, "a", "r", 1, make_rows("n1", "n2", true, planted, 5));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "1,a,r,0,0,n1,2,15000000,7500000,0,0,0,0,0,1,0\n"
                                            "1,a,r,1,0,n1,2,15000000,7500000,0,0,0,0,0,0,0\n"
                                            "1,a,r,2,0,n2,2,15000000,7500000,0,0,0,0,0,0,1\n"
                                            "1,a,r,3,0,n2,2,15000000,7500000,0,0,0,0,0,1,0\n");
    rs_buf_reset(&text);
    history = begin_history(RS_HISTORY_HOSTS, NULL);
    add(history, "a", "r", 1, make_rows("n1", "n2", true, planted, 5));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "n1,1,1,0,1,1,0,1,1,a,slow_link,1000000\n"
                                            "n2,1,1,0,1,1,0,1,1,a,slow_link,1000000\n"
                                            "n7,1,1,0,1,1,0,1,1,a,slow_host,5000000\n");
}

static void what_is_unknown_is_an_empty_cell(void **state)
{
    (void)state;
    struct rs_history *history = begin_history(RS_HISTORY_CAPTURES, NULL);
    add(history, "a", "", 1, NULL);
    add(history, "b", "r", 2, make_rows("n1", NULL, false, NULL, 0)); /* no step is complete */
    add(history, "c", "r", 3, make_rows("n1", "n2", true, &link_0_3, 1));
    end(&history);
    assert_string_equal(rs_buf_text(&text),
                        "1,a,,native,complete,archived,,,,,,,,,,,\n"
                        "2,b,r,native,complete,here,4,1,0,,0,0,,,,,\n"
                        "3,c,r,native,complete,here,4,2,2,15000000,1,0,slow_link,link 0-3,bounded,"
                        "1000000,\n");
    rs_buf_reset(&text);
    history = begin_history(RS_HISTORY_RANKS, NULL);
    add(history, "b", "r", 2, make_rows("n1", NULL, false, NULL, 0));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "2,b,r,0,,n1,0,,,,,,,,0,0\n2,b,r,1,,n1,0,,,,,,,,0,0\n"
                                            "2,b,r,2,,,0,,,,,,,,0,0\n2,b,r,3,,,0,,,,,,,,0,0\n");
    rs_buf_reset(&text);
    history = begin_history(RS_HISTORY_HOSTS,
                            NULL); /* of whom nothing could be found is not told as healthy */
    add(history, "b", "r", 2, make_rows("n1", NULL, false, NULL, 0));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "");
}

static void rows_of_a_host_or_a_rank(void **state)
{
    (void)state;
    static const char *const hosts[] = {"n2"};
    const uint32_t ranks[] = {3};
    const struct rs_history_filter of_host = {.hosts = hosts, .host_count = 1};
    const struct rs_history_filter of_rank = {.ranks = ranks, .rank_count = 1};
    const struct planted planted[] = {link_0_3, slow_0};
    struct rs_history *history = begin_history(RS_HISTORY_FINDINGS, &of_host);
    add(history, "a", "r", 1, make_rows("n1", "n2", true, planted, 2));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "1,a,r,1,0,slow_link,bounded,1,1000000,,0,link,,0,3,,,,"
                                            "n1,n2\n");
    rs_buf_reset(&text);
    history = begin_history(RS_HISTORY_RANKS, &of_rank);
    add(history, "a", "r", 1, make_rows("n1", "n2", true, planted, 2));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "1,a,r,3,0,n2,2,15000000,7500000,0,0,0,0,0,1,0\n");
    rs_buf_reset(&text);
    history = begin_history(RS_HISTORY_CAPTURES, &of_host);
    add(history, "a", "r", 1, make_rows("n1", "n3", true, planted, 2));
    add(history, "b", "r", 2, NULL); /* who was in it is not known */
    end(&history);
    assert_string_equal(rs_buf_text(&text), "");
    history = begin_history(RS_HISTORY_HOSTS, &of_host);
    add(history, "a", "r", 1, make_rows("n1", "n2", true, planted, 2));
    end(&history);
    assert_string_equal(rs_buf_text(&text), "n2,1,1,0,1,1,0,1,1,a,slow_link,1000000\n");
    static const char *const nameless[] = {"n2", ""};
    const struct rs_history_filter of_nobody = {.hosts = nameless, .host_count = 2};
    struct rs_err err = {0};
    assert_status(rs_history_new(RS_HISTORY_HOSTS, &of_rank, &history, &err), RS_INVALID);
    assert_status(rs_history_new(RS_HISTORY_RANKS, &of_nobody, &history, &err), RS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_host_is_named_in_seven_of_nine_runs, forget_text),
        cmocka_unit_test_teardown(captures_of_one_run_are_one_run, forget_text),
        cmocka_unit_test_teardown(who_is_named, forget_text),
        cmocka_unit_test_teardown(what_is_unknown_is_an_empty_cell, forget_text),
        cmocka_unit_test_teardown(rows_of_a_host_or_a_rank, forget_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
