/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What report.html carries for its script: the data, bounded and harmless, and the one script that its policy allows.
 */
#include "aggregator/output/report_data.h"

#include "aggregator/output/report.h"
#include "aggregator/output/report_script.h"
#include "tests/support/rs_test.h"
#include "tests/unit/aggregator_output/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static struct fixture job;

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%.4000s", part, text);
}

static struct rs_buf data_of(const struct rs_analysis *analysis)
{
    struct report report;
    struct rs_buf buf = {0};
    assert_ok(report_init(&report, analysis));
    assert_ok(report_put_data(&report, &buf));
    report_fini(&report);
    (void)rs_buf_text(&buf);
    return buf;
}

static int set_up(void **state)
{
    (void)state;
    fixture_init(&job);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_fini(&job);
    return 0;
}

static void a_small_job_is_there_whole(void **state)
{
    (void)state;
    struct rs_buf data = data_of(&job.analysis);
    const char *text = rs_buf_text(&data);
    assert_contains(text, "\"findings\":[{\"order\":1,\"sentence\":\"Rank 1 is slow");
    assert_contains(text, "\"ranks\":{\"rank\":[0,1],\"host\":[null,null]}");
    assert_contains(text,
                    "\"sample\":null,\"link_medians\":null,\"tables\":{\"steps\":{\"columns\":"
                    "{\"rank\":[0,1,1],\"step\":[5,5,6],\"steps\":[1,1,1],"
                    "\"window_ns\":[100000,100000,1000],"
                    "\"window_computing_ns\":[60000,60000,0],");
    assert_contains(text, "\"bubble_ns\":[10000,10000,0],");
    assert_contains(text, "\"is_in_means\":[1,1,0]}}");
    /* rank 0 waited for rank 1 in the collective, rank 1 for rank 0 in the receive */
    assert_contains(text, "\"collectives\":{\"columns\":{\"last_rank\":[1,0],\"rank\":[0,1],"
                          "\"wait_ns\":[3000,1500]}}");
    assert_contains(text, "\"links\":{\"columns\":{\"src\":[0],\"dst\":[1],\"transport\":[\"TCP\"],"
                          "\"messages\":[2],\"bytes\":[7000000],\"busy_ns\":[14000],"
                          "\"median_bytes_per_s\":[500000000],\"fast_bytes_per_s\":[null],"
                          "\"is_estimated\":[0]}}");
    assert_null(strstr(text, "\"cut\""));
    rs_buf_fini(&data);
}

/* Whatever a recording says: in a page it is text. */
static void a_name_cannot_end_the_element_of_the_data(void **state)
{
    (void)state;
    char evil[] = "</script><script>alert(1)</script><!--";
    job.notes[0] = evil;
    job.links[0].transport = evil;
    job.summaries[0].trace.host = fixture_string(&job.summaries[0], evil);
    job.evidence[0].name = evil;
    struct rs_buf data = data_of(&job.analysis);
    assert_null(strchr(rs_buf_text(&data), '<'));
    assert_contains(rs_buf_text(&data), "\"host\":[\"\\u003c/script>\\u003cscript>alert(1)");
    rs_buf_fini(&data);

    struct rs_buf page = {0};
    assert_ok(rs_output_report_html(&job.analysis, &page, NULL));
    const char *text = rs_buf_text(&page);
    size_t scripts = 0, ends = 0;
    for (const char *p = text; (p = strstr(p, "<script")); p++)
        scripts++;
    for (const char *p = text; (p = strstr(p, "</script")); p++)
        ends++;
    assert_int_equal(scripts, report_script.data ? 2 : 1);
    assert_int_equal(ends, scripts);
    assert_null(strstr(text, "<!--"));
    assert_null(strstr(text, "<script>alert"));
    rs_buf_fini(&page);
}

static void the_policy_allows_its_own_script_and_no_other(void **state)
{
    (void)state;
    struct rs_buf page = {0};
    char policy[256];
    assert_ok(rs_output_report_html(&job.analysis, &page, NULL));
    const char *text = rs_buf_text(&page);
    const char *at = strstr(text, "content=\"default-src 'none'; style-src 'unsafe-inline'");
    assert_non_null(at);
    if (report_script.data) {
        assert_true(report_script.size < 700000); /* every report has it */
        assert_int_equal(strlen(report_script.sha256), 44);
        (void)snprintf(policy, sizeof policy, "'unsafe-inline'; script-src 'sha256-%s'\">",
                       report_script.sha256);
        assert_contains(text, policy);
        const char *script = strstr(text, "<script>");
        assert_non_null(script);
        assert_memory_equal(script + 8, report_script.data, report_script.size);
        assert_int_equal(strncmp(script + 8 + report_script.size, "</script>", 9), 0);
    } else {
        assert_contains(text, "style-src 'unsafe-inline'\">"); /* no script at all */
    }
    rs_buf_fini(&page);
}

/* 100 ranks, 200 steps: more rows than a file has. Rank 37 is slow in step 150. */
static void of_many_steps_the_worst_of_every_cell_is_there(void **state)
{
    (void)state;
    enum { RANKS = 100, STEPS = 200 };
    struct rs_summary *summaries = calloc(RANKS, sizeof *summaries);
    const struct rs_summary **lent = calloc(RANKS, sizeof *lent);
    struct rs_job_rank *ranks = calloc(RANKS, sizeof *ranks);
    struct rs_step_row *steps = calloc((size_t)RANKS * STEPS, sizeof *steps);
    assert_true(summaries && lent && ranks && steps);
    for (int32_t r = 0; r < RANKS; r++) {
        rs_trace_info_init(&summaries[r].trace);
        summaries[r].trace.rank = ranks[r].rank = r;
        ranks[r].summary = (uint32_t)r;
        summaries[r].steps = steps + (size_t)r * STEPS;
        summaries[r].step_count = STEPS;
        for (int s = 0; s < STEPS; s++)
            summaries[r].steps[s] = (struct rs_step_row){
                .step = s,
                .window_start = FIXTURE_BASE,
                .window_end = FIXTURE_BASE + 1000,
                .window_computing = r == 37 && s == 150 ? 900 : 500 + r % 2,
                .window_exposed = r == 37 && s == 150 ? 100 : 500 - r % 2,
                .bubble = 2000, /* more than was exposed: of it so much */
            };
        lent[r] = &summaries[r];
    }
    const struct rs_analysis analysis = {
        .summaries = lent, .summary_count = RANKS, .ranks = ranks, .world_size = RANKS};
    struct rs_buf data = data_of(&analysis);
    const char *text = rs_buf_text(&data);
    assert_contains(
        text, "\"sample\":{\"per_rank\":1,\"per_step\":4,\"step_count\":200,\"columns\":[0,4,8,");
    assert_contains(text, ",192,196],\"ranks\":[0,1,2,");
    assert_contains(text, "\"medians\":[[0,501],[4,501],"); /* of steps that rows are of */
    assert_contains(text, "],[148,501],[150,501],[152,501],");
    const char *table = strstr(text, "\"tables\":");
    assert_non_null(table);
    size_t rows = 1;
    for (const char *p = strstr(table, "\"rank\":["); *p != ']'; p++)
        rows += *p == ',';
    assert_int_equal(rows, RANKS * STEPS / 4);
    assert_true(rows <= REPORT_STEP_ROWS_MAX);
    assert_contains(table, ",900,"); /* of its cell of four steps the one that it was slow in */
    assert_contains(table, ",150,");
    const char *means = strstr(text, "\"means\":");
    assert_true(means && means < table);
    assert_contains(means, "\"steps\":[200,200,");
    assert_contains(means, "\"bubble_ns\":[500,499,"); /* bounded by what was exposed */
    rs_buf_fini(&data);
    for (int32_t r = 0; r < RANKS; r++)
        rs_trace_info_fini(&summaries[r].trace);
    free(summaries);
    free(lent);
    free(ranks);
    free(steps);
}

/* 2 ranks: the data of 100,000 steps is about as long as that of 10,000. */
static void a_long_job_makes_no_long_document(void **state)
{
    (void)state;
    enum { RANKS = 2, STEPS = 100000 };
    struct rs_summary summaries[RANKS];
    const struct rs_summary *lent[RANKS];
    struct rs_job_rank ranks[RANKS] = {{.rank = 0}, {.rank = 1, .summary = 1}};
    struct rs_step_row *steps = calloc(STEPS, sizeof *steps);
    size_t lengths[2];
    assert_non_null(steps);
    for (int s = 0; s < STEPS; s++)
        steps[s] = (struct rs_step_row){.step = s,
                                        .window_start = FIXTURE_BASE,
                                        .window_end = FIXTURE_BASE + 1000000,
                                        .window_computing = 600000,
                                        .window_exposed = 400000};
    for (int turn = 0; turn < 2; turn++) {
        for (int32_t r = 0; r < RANKS; r++) {
            summaries[r] = (struct rs_summary){.step_count = turn ? STEPS : STEPS / 10};
            summaries[r].steps = steps;
            rs_trace_info_init(&summaries[r].trace);
            summaries[r].trace.rank = r;
            lent[r] = &summaries[r];
        }
        const struct rs_analysis analysis = {
            .summaries = lent, .summary_count = RANKS, .ranks = ranks, .world_size = RANKS};
        struct rs_buf data = data_of(&analysis);
        lengths[turn] = data.length;
        if (turn)
            assert_contains(rs_buf_text(&data), "\"per_step\":1563,\"step_count\":100000,");
        rs_buf_fini(&data);
        for (int32_t r = 0; r < RANKS; r++)
            rs_trace_info_fini(&summaries[r].trace);
    }
    if (lengths[1] > lengths[0] + lengths[0] / 4)
        fail_msg("%d steps come to %zu bytes, %d to %zu", STEPS / 10, lengths[0], STEPS,
                 lengths[1]);
    free(steps);
}

static void of_many_links_the_slowest_are_there(void **state)
{
    (void)state;
    enum { LINKS = 5000 };
    struct rs_job_link *links = calloc(LINKS, sizeof *links);
    assert_non_null(links);
    for (int32_t i = 0; i < LINKS; i++)
        links[i] = (struct rs_job_link){.src = i,
                                        .dst = i + 1,
                                        .transport = i % 2 ? "RDMA" : "TCP",
                                        .busy = -1,
                                        .median_bytes_per_s = 1e9 - i * 1000.0};
    job.analysis.links = links;
    job.analysis.link_count = LINKS;
    struct rs_buf data = data_of(&job.analysis);
    const char *text = rs_buf_text(&data);
    assert_contains(text, "\"cut\":\"The 4096 slowest of 5000 links are in this file.\"");
    assert_contains(text, "\"src\":[904,905,");
    assert_contains(text, ",4998,4999]");
    /* what they are held against is the median of all, not of the slow ones */
    assert_contains(text, "\"link_medians\":[[\"RDMA\",997501000],[\"TCP\",997502000]]");
    assert_contains(text, "\"busy_ns\":[null,");
    rs_buf_fini(&data);
    free(links);
}

#define EACH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_small_job_is_there_whole),
        EACH(a_name_cannot_end_the_element_of_the_data),
        EACH(the_policy_allows_its_own_script_and_no_other),
        EACH(of_many_steps_the_worst_of_every_cell_is_there),
        EACH(a_long_job_makes_no_long_document),
        EACH(of_many_links_the_slowest_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
