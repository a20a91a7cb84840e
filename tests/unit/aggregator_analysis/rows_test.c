/* SPDX-License-Identifier: Apache-2.0 */
/* What a diagnosis says comes back from the tables as it went in; what is absent stays absent. */
#include "aggregator/analysis/rows.h"

#include "aggregator/analysis/from_rows.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <string.h>

enum { CAPTURE = 3 };

static char kernel_name[] = "gemm, \"large\"", group_name[] = "tp@0-1", host_name[] = "n1";

static struct rs_place places[] = {
    {.kind = RS_PLACE_RANK,
     .rank = 3,
     .src = -1,
     .dst = -1,
     .stage = -1,
     .dp = -1,
     .group = UINT32_MAX},
    {.kind = RS_PLACE_HOST,
     .rank = -1,
     .src = -1,
     .dst = -1,
     .stage = -1,
     .dp = -1,
     .group = UINT32_MAX,
     .text = host_name},
    {.kind = RS_PLACE_GROUP,
     .rank = -1,
     .src = -1,
     .dst = -1,
     .stage = -1,
     .dp = -1,
     .group = 0,
     .text = group_name},
};

static struct rs_evidence evidence[] = {
    {.what = RS_EVIDENCE_OWN_WORK,
     .figure = RS_FIGURE_COMPUTING,
     .rank = 3,
     .peer = RS_NULL,
     .step = RS_NULL,
     .group = UINT32_MAX,
     .name = kernel_name,
     .value = 2680000,
     .reference = 100000,
     .bound = RS_NULL,
     .bytes = RS_NULL,
     .seen = 4,
     .of = 5,
     .start_ns = RS_NULL,
     .dur_ns = RS_NULL},
};

static struct rs_finding findings[] = {{.kind = RS_FINDING_SLOW_RANK,
                                        .places = places,
                                        .place_count = 1,
                                        .also = places + 1,
                                        .also_count = 1,
                                        .cost_ns_per_step = 2500000,
                                        .cost_low_ns = 2400000,
                                        .cost_high_ns = 2600000,
                                        .share = 0.25,
                                        .confidence = RS_CONFIDENCE_EXACT,
                                        .steps = {.seen = 5, .hit = 4, .first = 12},
                                        .evidence = evidence,
                                        .evidence_count = 1}};
static struct rs_finding small[] = {{.kind = RS_FINDING_SLOW_GROUP,
                                     .places = places + 2,
                                     .place_count = 1,
                                     .confidence = RS_CONFIDENCE_WEAK,
                                     .steps = {.first = RS_NULL}}};
static struct rs_wait_cause causes[] = {{.finding = 0, .caused_ns = 70, .indirect_ns = 7},
                                        {.finding = SIZE_MAX, .caused_ns = 30}};
static struct rs_unjudged unjudged[] = {
    {.rank = 5, .group = UINT32_MAX, .why = RS_UNJUDGED_NO_PEERS}};

static void assert_read(struct rs_row_store *store, enum rs_read read, const char *expected)
{
    struct rs_cursor *cursor = NULL;
    struct rs_block block = {0};
    struct rs_buf buf = {0};
    const struct rs_read_args args = {.capture = CAPTURE};
    assert_ok(rs_read_open(store, read, &args, &cursor, NULL));
    while (rs_cursor_next(cursor, &block, NULL) == RS_OK)
        for (size_t i = 0; i < block.count; i++)
            rs_csv_row(block.table, rs_block_row(&block, i), &buf);
    rs_cursor_close(&cursor);
    rs_block_fini(&block);
    if (!strstr(rs_buf_text(&buf), expected))
        fail_msg("%s is not in: %s", expected, rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void a_diagnosis_comes_back_from_its_tables(void **state)
{
    (void)state;
    struct rs_job_group group = {.text = group_name, .size = 2};
    struct rs_diagnosis diagnosis = {.findings = findings,
                                     .finding_count = 1,
                                     .not_worth_fixing = small,
                                     .not_worth_count = 1,
                                     .unjudged = unjudged,
                                     .unjudged_count = 1,
                                     .undecided = small,
                                     .undecided_count = 1,
                                     .silence = RS_SILENCE_NOTHING};
    diagnosis.waiting.caused = causes;
    diagnosis.waiting.cause_count = 2;
    diagnosis.replay.is_known = true;
    diagnosis.loss.step_ns = 10000000;
    const struct rs_analysis analysis = {
        .groups = &group, .group_count = 1, .diagnosis = &diagnosis};
    struct rs_row_store *store = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &store, NULL));
    for (int round = 0; round < 2; round++) { /* written again, it replaces */
        assert_ok(rs_analysis_rows(&analysis, CAPTURE, store, NULL));
        assert_read(store, RS_READ_FINDINGS, "3,1,slow_rank,exact,1,2500000,2400000,2600000,0.25,");
        assert_read(store, RS_READ_FINDINGS, "3,2,slow_group,weak,0,");
        assert_read(store, RS_READ_FINDING_PLACES, "3,1,0,0,rank,3,,,,,,\n3,1,1,1,host,,,,,,,n1\n");
        assert_read(
            store, RS_READ_EVIDENCE,
            "3,1,0,own_work,computing,3,,,,\"gemm, \"\"large\"\"\",2680000,100000,,,4,5,,\n");
        assert_read(store, RS_READ_UNDECIDED, "3,1,slow_group,weak,1,");
        assert_read(store, RS_READ_UNDECIDED_PLACES, ",group,,,,,,");
        assert_read(store, RS_READ_DIAGNOSIS, "3,silence_nothing,1\n");
        assert_read(store, RS_READ_DIAGNOSIS, "3,loss_step_ns,10000000\n");
        assert_read(store, RS_READ_DIAGNOSIS, "3,waiting_total_ns,\n");
        assert_read(store, RS_READ_WAIT_CAUSES, "3,0,1,70,7\n3,1,,30,0\n");
        assert_read(store, RS_READ_UNJUDGED, "3,0,5,,no_peers\n");
        assert_read(store, RS_READ_COMM_GROUPS, ",tp@0-1,0,,2,0,0\n");
    }
    /* nobody could be judged: unknown, and not 0 */
    diagnosis.replay.is_known = false;
    assert_ok(rs_analysis_rows(&analysis, CAPTURE, store, NULL));
    assert_read(store, RS_READ_DIAGNOSIS, "3,loss_step_ns,\n");
    assert_read(store, RS_READ_DIAGNOSIS, "3,replay_nodes,\n");
    rs_row_store_close(&store);
}

static void add_step(struct rs_summary *summary, int64_t step, rs_ns start, rs_ns end,
                     bool is_partial)
{
    static struct rs_step_row room[2][4];
    summary->steps = room[summary->trace.rank];
    summary->steps[summary->step_count++] = (struct rs_step_row){.step = step,
                                                                 .is_partial = is_partial,
                                                                 .window_start = start,
                                                                 .window_end = end,
                                                                 .cpu_ns = -1,
                                                                 .input_ns = -1};
}

static void steps_are_told_over_all_ranks(void **state)
{
    (void)state;
    struct rs_summary summaries[2];
    const struct rs_summary *list[2] = {&summaries[0], &summaries[1]};
    for (int rank = 0; rank < 2; rank++) {
        assert_ok(rs_summary_init(&summaries[rank]));
        summaries[rank].trace.rank = rank;
        summaries[rank].trace.world_size = 3;
        summaries[rank].trace.has_time_base = true;
    }
    add_step(&summaries[0], 7, 1000, 1400, false);
    add_step(&summaries[0], 8, 1400, 1500, true);
    add_step(&summaries[1], 7, 900, 1500, false);
    const struct rs_analysis_options how = {.assume_common_clock = true};
    struct rs_analysis *analysis = NULL;
    struct rs_row_store *store = NULL;
    assert_ok(rs_analysis_new(list, 2, &how, &analysis, NULL));
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &store, NULL));
    assert_ok(rs_analysis_rows(analysis, CAPTURE, store, NULL));
    assert_read(store, RS_READ_STEPS,
                "3,7,1,2,2,3,2,900,1500,500,600,1\n3,8,0,1,0,3,0,1400,1500,100,100,0\n");
    rs_row_store_close(&store);
    rs_analysis_free(&analysis);
    for (int rank = 0; rank < 2; rank++) {
        summaries[rank].steps = NULL; /* not its own */
        rs_summary_fini(&summaries[rank]);
    }
}

/* ---- and again an analysis --------------------------------------------------------------------------------------- */

/* One row of a table, all absent but for the capture, for a test to fill. */
union any_row {
    struct rs_row_capture capture;
    struct rs_row_rank rank;
    struct rs_row_comm_group group;
    struct rs_row_op op;
    struct rs_row_op_member member;
    struct rs_row_finding finding;
    struct rs_row_finding_place place;
    struct rs_row_evidence evidence;
    struct rs_row_diagnosis figure;
    struct rs_row_wait_cause cause;
    struct rs_row_unjudged unjudged;
    struct rs_row_step_device step;
    struct rs_row_link link;
};

static void put(struct rs_writer *writer, const struct rs_table *table, const union any_row *row)
{
    assert_ok(rs_writer_put(writer, table, row, 1, NULL));
}

static union any_row a_row(const struct rs_table *table)
{
    union any_row row;
    rs_row_clear(table, &row);
    row.capture.capture = CAPTURE; /* each has it first */
    return row;
}

/* A store with two ranks, a group and nothing else but what `more` puts into the unit of the capture, and of step 1. */
struct more {
    const struct rs_table *table;
    union any_row row;
    const struct rs_table *step_table;
    union any_row step_row;
};

static struct rs_writer *begin(struct rs_row_store *store, enum rs_unit_kind kind, int64_t a)
{
    const struct rs_unit unit = {.capture = CAPTURE, .kind = kind, .a = a};
    struct rs_writer *writer = NULL;
    assert_ok(rs_store_begin(store, &unit, &writer, NULL));
    return writer;
}

static void put_the_capture(struct rs_row_store *store, const struct more *more)
{
    struct rs_writer *writer = begin(store, RS_UNIT_CAPTURE, 0);
    union any_row row = a_row(&rs_table_capture);
    row.capture.clock = "one";
    put(writer, &rs_table_capture, &row);
    row = a_row(&rs_table_comm_group);
    row.group.group_id = 77;
    row.group.name = group_name;
    row.group.group_no = 0;
    row.group.is_inferred = row.group.is_ambiguous = 0;
    put(writer, &rs_table_comm_group, &row);
    if (more->table)
        put(writer, more->table, &more->row);
    assert_ok(rs_writer_commit(&writer, NULL));
}

static void put_a_rank(struct rs_row_store *store, int64_t rank)
{
    struct rs_writer *writer = begin(store, RS_UNIT_RANK, rank);
    union any_row row = a_row(&rs_table_rank);
    row.rank.rank = rank;
    row.rank.part = row.rank.step_origin = row.rank.ops_last = 0;
    row.rank.takes_part = 1;
    row.rank.caused_wait_ns = row.rank.own_wait_ns = 5 * rank;
    put(writer, &rs_table_rank, &row);
    assert_ok(rs_writer_commit(&writer, NULL));
}

static struct rs_row_store *store_of(const struct more *more)
{
    struct rs_row_store *store = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &store, NULL));
    put_the_capture(store, more);
    put_a_rank(store, 0);
    put_a_rank(store, 1);
    if (more->step_table) {
        struct rs_writer *writer = begin(store, RS_UNIT_STEP, 1);
        put(writer, more->step_table, &more->step_row);
        assert_ok(rs_writer_commit(&writer, NULL));
    }
    return store;
}

static enum rs_status read_of(const struct more *more, struct rs_analysis **analysis_p)
{
    struct rs_row_store *store = store_of(more);
    const enum rs_status status = rs_analysis_read(store, CAPTURE, analysis_p, NULL);
    rs_row_store_close(&store);
    return status;
}

static union any_row an_op(int64_t group_id)
{
    union any_row row = a_row(&rs_table_op);
    row.op.step = 1;
    row.op.group_id = group_id;
    row.op.op_no = row.op.op = row.op.is_p2p = row.op.is_partial = row.op.has_hops = 0;
    row.op.is_matched = row.op.has_wait = 1;
    row.op.ranks_seen = 2;
    return row;
}

static void rows_are_an_analysis_again(void **state)
{
    (void)state;
    struct rs_analysis *analysis = NULL;
    struct more more = {.table = &rs_table_unjudged, .step_table = &rs_table_op};
    more.row = a_row(&rs_table_unjudged);
    more.row.unjudged.row_no = 0;
    more.row.unjudged.group_id = 77;
    more.row.unjudged.why = "no_peers";
    more.step_row = an_op(77);
    assert_int_equal(read_of(&more, &analysis), RS_OK);
    assert_int_equal(analysis->summary_count, 2);
    assert_true(analysis->one_clock);
    assert_int_equal(analysis->ranks[1].caused_wait, 5);
    assert_int_equal(analysis->op_count, 1);
    assert_int_equal(analysis->ops[0].group, 0);
    assert_int_equal(analysis->ops[0].seq, -1);
    assert_string_equal(analysis->groups[0].text, group_name);
    assert_int_equal(analysis->diagnosis->unjudged_count, 1);
    assert_int_equal(analysis->diagnosis->unjudged[0].group, 0);
    assert_int_equal(analysis->diagnosis->unjudged[0].rank, RS_NULL);
    assert_false(analysis->diagnosis->loss.is_known);
    rs_analysis_free(&analysis);
}

/* A database may hold what anybody wrote into it. */
static void rows_that_contradict_each_other_are_told(void **state)
{
    (void)state;
    struct rs_analysis *analysis = NULL;
    struct more finding = {.table = &rs_table_finding, .row = a_row(&rs_table_finding)};
    finding.row.finding.finding_no = 1;
    finding.row.finding.kind = "slow_everything";
    finding.row.finding.confidence = "exact";
    finding.row.finding.is_worth_fixing = finding.row.finding.steps_seen =
        finding.row.finding.steps_hit = finding.row.finding.period = finding.row.finding.phase =
            finding.row.finding.began = finding.row.finding.peers = finding.row.finding.more_steps =
                0;
    assert_int_equal(read_of(&finding, &analysis), RS_FORMAT);
    finding.row.finding.kind = "slow_rank";
    finding.row.finding.finding_no = 2; /* without a first */
    assert_int_equal(read_of(&finding, &analysis), RS_FORMAT);
    finding.row.finding.finding_no = 1;
    assert_int_equal(read_of(&finding, &analysis), RS_OK);
    rs_analysis_free(&analysis);

    struct more place = {.table = &rs_table_finding_place, .row = a_row(&rs_table_finding_place)};
    place.row.place.finding_no = 99;
    place.row.place.place_no = place.row.place.is_also = 0;
    place.row.place.where_kind = "rank";
    assert_int_equal(read_of(&place, &analysis), RS_FORMAT);

    struct more cause = {.table = &rs_table_wait_cause, .row = a_row(&rs_table_wait_cause)};
    cause.row.cause.cause_no = cause.row.cause.caused_ns = cause.row.cause.indirect_ns = 0;
    cause.row.cause.finding_no = 1;
    assert_int_equal(read_of(&cause, &analysis), RS_FORMAT);

    cause.row.cause.finding_no = RS_NULL;
    cause.row.cause.caused_ns = INT64_MAX; /* no sum can be made of it */
    assert_int_equal(read_of(&cause, &analysis), RS_FORMAT);

    struct more figure = {.table = &rs_table_diagnosis, .row = a_row(&rs_table_diagnosis)};
    figure.row.figure.figure = "waiting_total_ns";
    figure.row.figure.value = 1e308;
    assert_int_equal(read_of(&figure, &analysis), RS_FORMAT);

    struct more unjudged_row = {.table = &rs_table_unjudged, .row = a_row(&rs_table_unjudged)};
    unjudged_row.row.unjudged.row_no = 0;
    unjudged_row.row.unjudged.why = "no_peers"; /* of nobody */
    assert_int_equal(read_of(&unjudged_row, &analysis), RS_FORMAT);

    struct more op = {.step_table = &rs_table_op,
                      .step_row = an_op(78)}; /* there is no such group */
    assert_int_equal(read_of(&op, &analysis), RS_FORMAT);
    op.step_row = an_op(77);
    op.step_row.op.op = 250;
    assert_int_equal(read_of(&op, &analysis), RS_FORMAT);

    op.step_row = an_op(77);
    op.step_row.op.last_rank = INT64_C(1) << 40;
    assert_int_equal(read_of(&op, &analysis), RS_FORMAT);

    struct more link = {.table = &rs_table_link, .row = a_row(&rs_table_link)};
    link.row.link.transport = "TCP";
    link.row.link.src = 0;
    link.row.link.dst = INT64_C(1) << 33; /* cut to 32 bits it would be rank 0 */
    link.row.link.link_no = link.row.link.messages = link.row.link.bytes =
        link.row.link.is_estimated = 0;
    assert_int_equal(read_of(&link, &analysis), RS_FORMAT);

    /* a number of a group that is far beyond their count takes no room for those before it */
    struct more far = {.table = &rs_table_comm_group, .row = a_row(&rs_table_comm_group)};
    far.row.group.group_id = 78;
    far.row.group.name = "far";
    far.row.group.group_no = INT64_MAX;
    far.row.group.is_inferred = far.row.group.is_ambiguous = 0;
    assert_int_equal(read_of(&far, &analysis), RS_OK);
    assert_int_equal(analysis->group_count, 2);
    rs_analysis_free(&analysis);

    struct more member = {.step_table = &rs_table_op_member,
                          .step_row = a_row(&rs_table_op_member)};
    member.step_row.member.step = 1;
    member.step_row.member.group_id = 77;
    member.step_row.member.op_no = member.step_row.member.rank = member.step_row.member.member_no =
        member.step_row.member.op = member.step_row.member.stream =
            member.step_row.member.call_order = member.step_row.member.call_ns =
                member.step_row.member.start_ns = member.step_row.member.end_ns =
                    member.step_row.member.is_partial = 0;
    assert_int_equal(read_of(&member, &analysis), RS_FORMAT); /* of no operation */
    assert_null(analysis);
}

static void without_ranks_there_is_no_report(void **state)
{
    (void)state;
    struct rs_row_store *store = NULL;
    struct rs_analysis *analysis = NULL;
    assert_ok(rs_row_store_open(NULL, RS_ROWS_PRIVATE, &store, NULL));
    assert_int_equal(rs_analysis_read(store, CAPTURE, &analysis, NULL), RS_NOTFOUND);
    rs_row_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_diagnosis_comes_back_from_its_tables),
        cmocka_unit_test(steps_are_told_over_all_ranks),
        cmocka_unit_test(rows_are_an_analysis_again),
        cmocka_unit_test(rows_that_contradict_each_other_are_told),
        cmocka_unit_test(without_ranks_there_is_no_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
