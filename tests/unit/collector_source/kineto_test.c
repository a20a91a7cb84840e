/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rs_test.h"
/**/
#include "tests/unit/collector_source/kineto_support.h"

#define ROW(name_text, ts_text, dur_text)                                                          \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" name_text                                  \
    "\", \"pid\": 1, \"tid\": 2, \"ts\": " ts_text ", \"dur\": " dur_text "}"
#define TRACE(rows) "{\"schemaVersion\": 1, \"traceEvents\": [" rows "], \"traceName\": \"t\"}"

static bool has_generation(const struct kept *kept, const char *text)
{
    const struct rs_trace_info *info = &kept->stream.info;
    return strcmp(rs_strtab_text(&kept->stream.strings, info->generation), text) == 0;
}

static int64_t dropped(const struct kept *kept)
{
    int64_t sum = 0;
    for (size_t i = 0; i < kept->stream.info.drop_count; i++)
        sum += kept->stream.info.drops[i].count;
    return sum;
}

static void relative_times_count_from_a_base_at_the_head(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept,
                   "{\"schemaVersion\": 1,\n  \"baseTimeNanoseconds\": 1790857026000000000,\n"
                   "  \"traceEvents\": [\n  {\n    \"ph\": \"X\",\n    \"cat\": \"kernel\",\n"
                   "    \"name\": \"k(int)\",\n    \"pid\": 3,\n    \"tid\": 7,\n"
                   "    \"ts\": 4409464522167.103,\n    \"dur\": 5.007\n    ,\n    \"args\": {\n"
                   "      \"External id\": 9,\"correlation\": 11, \"stream\": 7\n    }\n  }\n  ]}",
                   0);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.count, 1);
    const struct kept_row *row = &kept.rows[0];
    assert_int_equal(row->kind, RS_KIND_KERNEL);
    assert_string_equal(row->name, "k(int)");
    assert_int_equal(row->start, 4409464522167103);
    assert_int_equal(row->end - row->start, 5007);
    assert_int_equal(row->correlation, 11);
    assert_int_equal(row->external_id, 9);
    assert_int_equal(row->lane.kind, RS_LANE_DEVICE);
    assert_int_equal(row->lane.device, 3);
    assert_int_equal(row->lane.thread, 7);
    assert_true(kept.stream.info.has_time_base);
    assert_int_equal(kept.stream.info.base_ns, 1790857026000000000);
    assert_true(has_generation(&kept, "kineto, us.nnn, base at head"));
    kept_fini(&kept);
}

static void a_base_at_the_tail_counts_too(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [" ROW(
            "a", "12.5",
            "1.25") "],\"traceName\": \"x\",\"displayTimeUnit\": \"ms\",\"baseTimeNanoseconds\": 99}",
        0);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.rows[0].start, 12500);
    assert_int_equal(kept.rows[0].end, 13750);
    assert_int_equal(kept.stream.info.base_ns, 99);
    assert_true(has_generation(&kept, "kineto, us.nnn, base at tail"));
    kept_fini(&kept);
}

static void absolute_times_need_no_base(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept, TRACE(ROW("a", "1694128201426556", "7")), 0);
    assert_int_equal(kept.rows[0].start, 1694128201426556000);
    assert_true(kept.stream.info.has_time_base);
    assert_int_equal(kept.stream.info.base_ns, 0);
    assert_true(has_generation(&kept, "kineto, integer us, absolute"));
    kept_fini(&kept);
    kept_read_text(&kept, TRACE(ROW("a", "1712195495519689.047", "0.5")), 0);
    assert_int_equal(kept.rows[0].start, 1712195495519689047);
    assert_true(has_generation(&kept, "kineto, us.nnn, absolute"));
    kept_fini(&kept);
}

static void a_base_beside_absolute_times_is_not_added(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept,
                   "{\"baseTimeNanoseconds\": 1711964646000000000, \"traceEvents\": [" ROW(
                       "a", "1712195495519689.047", "0.5") "]}",
                   0);
    assert_int_equal(kept.stream.info.base_ns, 0);
    kept_fini(&kept);
}

static void integers_that_overflow_as_us_are_ns(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept, TRACE(ROW("a", "1795221605769490956", "9000000")), RS_SOURCE_LOSSLESS);
    assert_int_equal(kept.rows[0].start, 1795221605769490956);
    assert_int_equal(kept.rows[0].end - kept.rows[0].start, 9000000);
    assert_true(has_generation(&kept, "kineto, integer ns, absolute"));
    assert_non_null(strstr(rs_buf_text(&kept.text), "\"ts\": 1795221605769490956"));
    kept_fini(&kept);
}

static void numbers_are_exact_or_cut_never_rounded(void **state)
{
    static const struct {
        const char *ts;
        int64_t ns;
    } cases[] = {
        {"0", 0},
        {"7", 7000},
        {"0.001", 1},
        {"4409464522167.9999", 4409464522167999},
        {"4409464522167.1", 4409464522167100},
        {"4409464522167.12", 4409464522167120},
        {"12345678.5", 12345678500},
        {"1234567.25", 1234567250},
        {"1.7121954958948495e12", 1712195495894849},
        {"1.5e3", 1500000},
        {"25e-2", 250},
        {"-3.5", -3500},
        {"\"12.5\"", 12500},
        {"9007199254740993.001", 9007199254740993001},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "{\"traceEvents\": [{\"ph\":\"X\",\"name\":\"a\",\"ts\":%s,\"dur\":1}]}",
                       cases[i].ts);
        struct kept kept;
        kept_read_text(&kept, text, 0);
        assert_int_equal(kept.count, 1);
        if (kept.rows[0].start != cases[i].ns)
            print_error("%s\n", cases[i].ts);
        assert_int_equal(kept.rows[0].start, cases[i].ns);
        kept_fini(&kept);
    }
}

static void durations_may_be_missing_or_negative(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept,
                   TRACE("{\"ph\":\"X\",\"name\":\"a\",\"ts\":5}," ROW("b", "6", "-2") "," ROW(
                       "c", "7", "\"3\"")),
                   RS_SOURCE_LOSSLESS);
    assert_int_equal(kept.count, 3);
    assert_int_equal(kept.rows[0].end, 5000);
    assert_int_equal(kept.rows[0].flags, RS_EVENT_NO_END);
    assert_int_equal(kept.rows[1].end, 6000);
    assert_int_equal(kept.rows[1].flags, RS_EVENT_DURATION_CLAMPED);
    assert_int_equal(kept.rows[2].end, 10000);
    assert_non_null(strstr(rs_buf_text(&kept.text), "\"dur\": -2"));
    assert_non_null(strstr(rs_buf_text(&kept.text), "\"dur\": \"3\""));
    kept_fini(&kept);
}

static void old_names_and_text_ids_mean_the_same(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        TRACE("{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":1,\"tid\":\"stream 7\","
              "\"ts\":1,\"dur\":2,\"args\":{\"correlation\":4}},"
              "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"o\",\"pid\":24572,"
              "\"tid\":\"24610 (python)\",\"ts\":1,\"dur\":2},"
              "{\"ph\":\"X\",\"cat\":\"Runtime\",\"name\":\"r\",\"pid\":24572,"
              "\"tid\":\"24610\",\"ts\":1,\"dur\":2,\"args\":{\"correlation\":4}}"),
        0);
    assert_int_equal(kept.count, 3);
    assert_int_equal(kept.rows[0].kind, RS_KIND_KERNEL);
    assert_int_equal(kept.rows[0].lane.kind, RS_LANE_DEVICE);
    assert_int_equal(kept.rows[0].lane.thread, 7);
    assert_int_equal(kept.rows[1].kind, RS_KIND_CPU_OP);
    assert_int_equal(kept.rows[1].lane.thread, 24610);
    assert_int_equal(kept.rows[2].kind, RS_KIND_RUNTIME);
    assert_int_equal(kept.rows[2].lane.thread, 24610);
    assert_int_equal(kept.rows[2].correlation, 4);
    assert_true(
        has_generation(&kept, "kineto, integer us, from a moment of its own, old category names"));
    assert_true(kept.stream.info.has_time_base); /* whole: nothing was lost */
    kept_fini(&kept);
}

static void keys_come_in_any_order_and_any_blanks(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\":[{\"args\":{\"stream\":1,\"correlation\":12},\"dur\":2,\"ts\":1,"
        "\"tid\":7,\"pid\":0,\"name\":\"k\",\"cat\":\"kernel\",\"ph\":\"X\"},\r\n\t"
        "{\t\"ts\"\n:\n3 , \"ph\" : \"X\" ,\"unknown\" : [ {\"a\":\"}\"} ] , \"dur\" : 4 ,"
        " \"name\":\"z\" , \"cat\" : \"cpu_op\" , \"tid\":1 , \"pid\" : 2 } ] }",
        0);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.rows[0].correlation, 12);
    assert_string_equal(kept.rows[0].name, "k");
    assert_int_equal(kept.rows[1].start, 3000);
    assert_int_equal(kept.rows[1].end, 7000);
    assert_int_equal(kept.rows[1].lane.process, 2);
    kept_fini(&kept);
}

static void assert_same_rows(const struct kept *a, const struct kept *b)
{
    assert_status(a->status, b->status);
    assert_int_equal(dropped(a), dropped(b));
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct kept_row *x = &a->rows[i];
        const struct kept_row *y = &b->rows[i];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->flags, y->flags);
        assert_int_equal(x->phase, y->phase);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->lane.process, y->lane.process);
        assert_int_equal(x->lane.thread, y->lane.thread);
        assert_int_equal(x->start, y->start);
        assert_int_equal(x->end, y->end);
        assert_int_equal(x->correlation, y->correlation);
        assert_int_equal(x->external_id, y->external_id);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->has_comm, y->has_comm);
        assert_int_equal(x->comm.in_nelems, y->comm.in_nelems);
        assert_int_equal(x->comm.has, y->comm.has);
    }
}

/* Kineto's own layout is read on a short way. One member of a row is odd, in turn; the same with a blank more, which is not that
 * layout, has to give the same rows. */
static void kinetos_own_layout_gives_what_any_other_gives(void **state)
{
    (void)state;
    static const char *const usual[] = {
        "\"ph\": \"X\"",
        "\"cat\": \"kernel\"",
        "\"name\": \"k<1, 2>\"",
        "\"pid\": 3",
        "\"tid\": 7",
        "\"ts\": 4409464522167.103",
        "\"dur\": 5.007",
        "\"args\": {\n      \"External id\": 9,\"correlation\": 11\n    }"};
    static const char *const odd[] = {
        "\"ph\": \"s\"",
        "\"ph\": \"XX\"",
        "\"ph\" : \"X\"",
        "\"ph\": 5",
        "\"cat\": \"python_function\"",
        "\"cat\": \"\"",
        "\"cat\": 7",
        "\"cat\":\"cpu_op\"",
        "\"name\": \"a \\\"b\\\" c\"",
        "\"name\": 1",
        "\"name\": \"f(\"x\")\"",
        "\"pid\": \"3\"",
        "\"pid\":  3",
        "\"pid\": -3",
        "\"tid\": \"stream 7\"",
        "\"tid\": 7.5",
        "\"ts\": \"4409464522167.103\"",
        "\"ts\": 4409464522167",
        "\"ts\": 44094645221670123456789.5",
        "\"ts\": nan",
        "\"ts\": 1.5e12",
        "\"ts\": 4409464522167.1",
        "\"ts\": 12345678.25",
        "\"dur\": -1",
        "\"dur\": 0.0005",
        "\"dur\": ",
        "\"dur\": 5.007\n    ",
        "\"id\": 4",
        "\"args\": {}",
        "\"args\": 5",
        "\"args\": {\"correlation\": 1, \"a\": [1, 2], \"b\": {\"correlation\": 2}, \"External id\": 3}",
        "\"args\": {\"a\": 1 \"correlation\": 2, \"External id\": 3}",
        "\"args\": {\"a\": \"x, \\\"correlation\\\": 2\", \"External id\": 3}",
        "\"args\": {\"a\": \"correlation\", \"correlation\" : 4,\n\n \"External id\":3 }",
        "\"args\": {\"a\": , \"b\", \"correlation\": , \"External id\": 3.0, \"bytes\": \"12\"}",
        "\"args\": {\"a\": 5, x, \"correlation\": 6, [ \"bytes\": 7, \"External id\": 8}",
        "\"args\": {\"a\": [1, \"bytes\": 2, \"correlation\": 3}",
        "\"args\": {\"In msg nelems\": 12, \"dtype\": \"Float\", \"Collective name\": \"allreduce\", \"x\": 1}",
    };
    enum { MEMBERS = sizeof usual / sizeof *usual, ODD = sizeof odd / sizeof *odd };
    for (size_t i = 0; i < (size_t)ODD * MEMBERS * 2; i++) {
        const size_t place = i / 2 % MEMBERS;
        const char *odd_one = odd[i / 2 / MEMBERS];
        char rows[2][4096];
        for (size_t way = 0; way < 2; way++) {
            size_t length = 0;
            for (size_t row = 0; row < 3; row++) {
                const char *head = way ? "{ \n    " : "{\n    ";
                for (size_t member = 0; member < MEMBERS; member++) {
                    const bool is_line = i % 2 || member == 5 || member == 7;
                    length +=
                        (size_t)snprintf(rows[way] + length, sizeof rows[way] - length, "%s%s",
                                         member    ? is_line ? ",\n    " : ", "
                                         : row > 0 ? way ? ", { \n    " : ", {\n    "
                                                   : head,
                                         row == 1 && member == place ? odd_one : usual[member]);
                }
                length += (size_t)snprintf(rows[way] + length, sizeof rows[way] - length, "\n  }");
            }
        }
        for (unsigned flags = 0; flags <= RS_SOURCE_LOSSLESS; flags++) {
            char text[4096 + 64];
            struct kept kept[2];
            for (size_t way = 0; way < 2; way++) {
                (void)snprintf(text, sizeof text, TRACE("%s"), rows[way]);
                kept_read_text(&kept[way], text, flags);
            }
            assert_same_rows(&kept[0], &kept[1]);
            assert_true(kept[0].count >= 2);
            kept_fini(&kept[0]);
            kept_fini(&kept[1]);
        }
    }
}

/* Arguments are walked by marks where figures are all that is wanted, and member by member where all is kept. */
static void arguments_give_the_same_columns_in_either_reading(void **state)
{
    (void)state;
    static const char *const parts[] = {"\"correlation\": 11",
                                        "\"External id\": 9",
                                        "\"bytes\": 4096",
                                        "\"x\": 1.5",
                                        "\"grid\": [2048, 1, 1]",
                                        "\"a\": \"text, text\"",
                                        "\"b\": {\"correlation\": 5}",
                                        "\"c\": [\"correlation\", {\"bytes\": 1}]",
                                        "\"correlation\" : 12",
                                        "\"bytes\":",
                                        "\"External id\": \"7\"",
                                        "\"e\": true",
                                        "\"est. achieved occupancy %\": 100",
                                        "\"In msg nelems\": 77",
                                        "\"quote\": \"\\\"\"",
                                        "\"odd\"",
                                        "5",
                                        "\"f\": 1 \"bytes\": 2",
                                        "\"g\": [1"};
    uint64_t seed = 1;
    for (unsigned round = 0; round < 3000; round++) {
        char args[2048];
        size_t length = 0;
        const unsigned count = 1 + round % 24;
        for (unsigned i = 0; i < count; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            const unsigned blanks = (unsigned)(seed >> 60) % 7;
            length += (size_t)snprintf(args + length, sizeof args - length, "%s%.*s%s",
                                       i ? "," : "", (int)blanks, "\n      ",
                                       parts[(seed >> 33) % (sizeof parts / sizeof *parts)]);
        }
        char text[4096];
        struct kept fast, whole;
        (void)snprintf(
            text, sizeof text,
            TRACE("{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 1, \"tid\": 2, "
                  "\"ts\": 5, \"dur\": 1, \"args\": {%s}}, " ROW("after", "9", "1")),
            args);
        kept_read_text(&fast, text, 0);
        kept_read_text(&whole, text, RS_SOURCE_LOSSLESS);
        assert_same_rows(&fast, &whole);
        kept_fini(&fast);
        kept_fini(&whole);
    }
}

static void unescaped_quotes_in_names_are_kept_and_cost_no_neighbour(void **state)
{
    static const char *const names[] = {"f \"quoted\" g", "odd \" one", "ends with \\", "a\", b",
                                        "brace \"}",      "\"",         "x\",\"y"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[1024];
        (void)snprintf(
            text, sizeof text,
            "{\"traceEvents\": [\n  %s,\n  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", "
            "\"name\": \"%s\", \"pid\": 1, \"tid\": 2,\n    \"ts\": 3, \"dur\": 4,\n"
            "    \"args\": {\n      \"External id\": 5\n    }\n  },\n  %s\n  ],\n"
            "  \"traceName\": \"x\"}",
            ROW("before", "1", "1"), names[i], ROW("after", "9", "1"));
        struct kept kept;
        kept_read_text(&kept, text, 0);
        if (kept.count != 3 || strcmp(kept.rows[1].name, names[i]) != 0)
            print_error("%s: %zu rows, %s\n", names[i], kept.count, kept.rows[1].name);
        assert_status(kept.status, RS_OK);
        assert_int_equal(kept.count, 3);
        assert_string_equal(kept.rows[1].name, names[i]);
        assert_int_equal(kept.rows[1].start, 3000);
        assert_int_equal(kept.rows[1].end, 7000);
        assert_int_equal(kept.rows[1].external_id, 5);
        assert_string_equal(kept.rows[2].name, "after");
        kept_fini(&kept);
    }
}

static void a_line_break_inside_an_argument_costs_no_column(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [\n  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, "
        "\"tid\": 7, \"ts\": 1, \"dur\": 2, \"args\": {\"note\": \"two\nlines\", \"correlation\": "
        "5}}\n  ]}",
        RS_SOURCE_LOSSLESS);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.rows[0].correlation, 5);
    assert_non_null(strstr(rs_buf_text(&kept.text), "\"note\": \"two lines\""));
    kept_fini(&kept);
}

static void an_unwanted_row_with_an_odd_quote_costs_no_neighbour(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [\n  {\n    \"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 1,\n"
        "    \"args\": {\n      \"name\": \"odd \" one\"\n    }\n  },\n  {\n    \"ph\": \"X\", "
        "\"cat\": \"python_function\", \"name\": \"p\"q\", \"pid\": 1, \"tid\": 2,\n"
        "    \"ts\": 3, \"dur\": 4\n  },\n  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", "
        "\"name\": \"kept\", \"pid\": 1, \"tid\": 2,\n    \"ts\": 3, \"dur\": 4\n  }\n  ]}",
        0);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.stream.info.rows_read, 3);
    assert_string_equal(kept.rows[kept.count - 1].name, "kept");
    kept_fini(&kept);
}

static void a_row_that_cannot_be_read_is_counted_and_stepped_over(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [" ROW("a", "1", "1") ",\n{\"ph\": \"X\", \"name\": oops, \"ts\": 1},\n" ROW(
            "b", "2", "1") ",\n{\"ph\": \"X\", \"name\": \"no time\"},\n" ROW("c", "3", "1") "]}",
        0);
    assert_status(kept.status, RS_PARTIAL);
    assert_int_equal(kept.count, 3);
    assert_string_equal(kept.rows[1].name, "b");
    assert_string_equal(kept.rows[2].name, "c");
    assert_int_equal(dropped(&kept), 2);
    kept_fini(&kept);
}

static void missing_argument_values_are_passed_over(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        TRACE("{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel\", \"pid\": 0, "
              "\"tid\": 7, \"ts\": 1, \"dur\": 2, \"args\": {\n \"Collective name\": "
              "\"allreduce\", \"Process Group Description\": , \"In msg nelems\": 8, "
              "\"dtype\": \"Float\", \"Seq\": 3, \"Comms Id\": 12345678901234567890, "
              "\"Group size\": 2, \"correlation\": 5, \"Process Group Name\": \n}}"),
        RS_SOURCE_LOSSLESS);
    assert_status(kept.status, RS_OK);
    const struct kept_row *row = &kept.rows[0];
    assert_true(row->has_comm);
    assert_int_equal(row->comm.group_description, RS_STR_NONE);
    assert_int_equal(row->comm.in_nelems, 8);
    assert_int_equal(row->comm.seq, 3);
    assert_true(row->comm.comms_id == 12345678901234567890U);
    assert_int_equal(row->comm.has, RS_COMM_HAS_IN_NELEMS | RS_COMM_HAS_SEQ | RS_COMM_HAS_COMMS_ID |
                                        RS_COMM_HAS_GROUP_SIZE);
    assert_int_equal(row->correlation, 5);
    kept_fini(&kept);
}

static void an_unfinished_row_is_flagged_whatever_it_is(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags <= RS_SOURCE_LOSSLESS; flags++) {
        struct kept kept;
        kept_read_text(
            &kept,
            TRACE("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":2,"
                  "\"ts\":1,\"dur\":2,\"args\":{\"External id\": 4,\"finished\": false}}," ROW(
                      "b", "1", "1")),
            flags);
        assert_int_equal(kept.rows[0].flags, RS_EVENT_UNFINISHED);
        assert_int_equal(kept.rows[1].flags, 0);
        kept_fini(&kept);
    }
}

static void escapes_become_utf8(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept, TRACE(ROW("a\\u00e9\\n\\\"\\\\\\/\\ud83d\\ude00\\ud800x\\q", "1", "1")),
                   0);
    assert_string_equal(kept.rows[0].name, "a\xc3\xa9\n\"\\/\xf0\x9f\x98\x80\xef\xbf\xbdx\\q");
    kept_fini(&kept);
}

static void ranks_of_groups_are_a_list_or_a_text(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [], \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, "
        "\"world_size\": 4, \"pg_count\": 2, \"pg_config\": [{\"pg_name\": \"0\", \"pg_desc\": "
        "\"default_pg\", \"pg_size\": 4, \"ranks\": \"[0, 1, 2, 3]\"}, {\"pg_name\": \"7\", "
        "\"pg_size\": 2, \"ranks\": [1, 3]}]}, \"host_name\": \"h\", \"trace_id\": \"T\"}",
        0);
    const struct rs_trace_info *info = &kept.stream.info;
    assert_int_equal(info->rank, 1);
    assert_int_equal(info->rank_source, RS_RANK_METADATA);
    assert_int_equal(info->world_size, 4);
    assert_int_equal(info->group_count, 2);
    assert_int_equal(info->groups[0].rank_count, 4);
    assert_int_equal(info->groups[0].ranks[3], 3);
    assert_int_equal(info->groups[1].rank_count, 2);
    assert_int_equal(info->groups[1].ranks[1], 3);
    assert_string_equal(rs_strtab_text(&kept.stream.strings, info->groups[1].name), "7");
    assert_string_equal(rs_strtab_text(&kept.stream.strings, info->host), "h");
    assert_string_equal(rs_strtab_text(&kept.stream.strings, info->trace_id), "T");
    kept_fini(&kept);
}

static void an_empty_rank_is_no_rank(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [" ROW(
            "a", "1", "1") "], \"distributedInfo\": {\"backend\": \"nccl\", "
                           "\"rank\": , \"world_size\": 2, \"pg_count\": 0}, \"traceName\": \"t\"}",
        0);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.stream.info.rank, -1);
    assert_int_equal(kept.stream.info.world_size, 2);
    kept_fini(&kept);
}

static void log_lines_without_quotes_do_not_hide_what_follows(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(
        &kept,
        "{\"traceEvents\": [" ROW(
            "a", "1",
            "1") "],\n  \"INFO\": [INFO:2024-05-22 17:15:23 a.cpp:1] "
                 "Record \"x, \"y\" 1],\n  \"distributedInfo\": {\"rank\": 3},\n  \"baseTimeNanoseconds\": "
                 "77\n}\n",
        0);
    assert_int_equal(kept.stream.info.rank, 3);
    assert_int_equal(kept.stream.info.base_ns, 77);
    assert_int_equal(kept.count, 1);
    kept_fini(&kept);
}

static void a_truncated_trace_gives_what_is_whole(void **state)
{
    (void)state;
    static const char text[] = "{\"schemaVersion\": 1, \"traceEvents\": [" ROW(
        "a", "1", "1") "," ROW("b", "2", "1") "], \"baseTimeNanoseconds\": 5}";
    const size_t after_a = (size_t)(strstr(text, "\"b\"") - text);
    for (size_t length = 1; length < sizeof text - 1; length++) {
        struct kept kept;
        kept_read_bytes(&kept, text, length, 0);
        assert_status(kept.status, RS_PARTIAL);
        assert_true(kept.stream.info.is_partial);
        assert_int_not_equal(kept.stream.info.partial_reason, RS_STR_NONE);
        assert_true(kept.count <= 2);
        if (length == after_a)
            assert_int_equal(kept.count, 1);
        assert_false(kept.stream.info.has_time_base); /* a number at the very end may be cut */
        kept_fini(&kept);
    }
}

static void what_is_no_trace_is_not_found(void **state)
{
    static const char *const texts[] = {"{\"trace_1.json\": 0, \"trace_2.json\": null}", "[1, 2]",
                                        "INFO: something", "{}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct kept kept;
        kept_read_text(&kept, texts[i], 0);
        assert_status(kept.status, RS_NOTFOUND);
        assert_int_equal(kept.count, 0);
        kept_fini(&kept);
    }
}

static void an_empty_file_is_an_empty_recording(void **state)
{
    (void)state;
    struct kept kept;
    kept_read_text(&kept, "", 0);
    assert_status(kept.status, RS_PARTIAL);
    assert_int_equal(kept.stream.info.events_read, 0);
    kept_fini(&kept);
}

static void a_row_over_the_limit_is_dropped_alone(void **state)
{
    (void)state;
    struct rs_buf text = {0};
    rs_buf_string(&text,
                  "{\"traceEvents\": [" ROW("a", "1", "1") ",\n{\"ph\": \"X\", \"name\": \"");
    for (int i = 0; i < 6 * 1024 * 1024; i++)
        rs_buf_u8(&text, 'x');
    rs_buf_string(&text, "\", \"ts\": 1},\n" ROW("b", "2", "1") "]}");
    struct kept kept;
    kept_read_bytes(&kept, text.data, text.length, 0);
    assert_status(kept.status, RS_PARTIAL);
    assert_int_equal(kept.count, 2);
    assert_string_equal(kept.rows[1].name, "b");
    assert_int_equal(dropped(&kept), 1);
    kept_fini(&kept);
    rs_buf_fini(&text);
}

static void rows_are_whole_wherever_the_window_ends(void **state)
{
    (void)state;
    struct rs_buf text = {0};
    enum { ROWS = 30000 };
    rs_buf_string(&text, "{\"traceEvents\": [");
    for (int i = 0; i < ROWS; i++)
        rs_buf_printf(
            &text,
            "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"n%d\", \"pid\": 1, \"tid\": %d, "
            "\"ts\": %d.%03d, \"dur\": 2, \"args\": {\"External id\": %d, \"x\": \"%*s\"}}",
            i ? "," : "", i % 1000, i % 50, i, i % 1000, i, i % 91, "}{\\\"");
    rs_buf_string(&text, "]}");
    struct kept kept;
    kept_read_bytes(&kept, text.data, text.length, RS_SOURCE_LOSSLESS);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.count, ROWS);
    assert_false(kept.is_bad_batch);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(kept.rows[i].start, i * 1000 + i % 1000);
        assert_int_equal(kept.rows[i].external_id, i);
        assert_int_equal(strtol(kept.rows[i].name + 1, NULL, 10), i % 1000);
    }
    kept_fini(&kept);
    rs_buf_fini(&text);
}

/* Each costs a look at the next 16 KiB, not at 4 MiB. */
static void many_rows_without_an_end_are_stepped_over_in_time(void **state)
{
    (void)state;
    struct rs_buf text = {0};
    enum { ROWS = 5000 };
    rs_buf_string(&text, "{\"traceEvents\": [" ROW("a", "1", "1"));
    for (int i = 0; i < ROWS; i++)
        rs_buf_string(
            &text,
            ",{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"x\", \"ts\": 1, \"args\": {{{{}");
    rs_buf_string(&text, "," ROW("b", "2", "1") "]}");
    struct kept kept;
    kept_read_bytes(&kept, text.data, text.length, 0);
    assert_status(kept.status, RS_PARTIAL);
    assert_string_equal(kept.rows[0].name, "a");
    assert_string_equal(kept.rows[kept.count - 1].name, "b");
    kept_fini(&kept);
    rs_buf_fini(&text);
}

static enum rs_status refuse(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    (void)self;
    (void)batch;
    return rs_err_set(err, RS_REFUSED, "no");
}

static void a_sink_that_refuses_ends_the_reading(void **state)
{
    (void)state;
    static const char text[] = TRACE(ROW("a", "1", "1"));
    int fd;
    char path[64];
    bytes_as_file(text, sizeof text - 1, &fd, path);
    struct rs_source_stream stream;
    assert_ok(rs_source_stream_init(&stream));
    struct rs_err err = {0};
    assert_status(rs_kineto_read(path, 0, &stream, (struct rs_sink){.batch = refuse}, &err),
                  RS_REFUSED);
    assert_string_equal(err.text, "no");
    rs_source_stream_fini(&stream);
    (void)close(fd);
}

static long allocations_left;
static bool count_down(void)
{
    return allocations_left-- > 0;
}

static void without_memory_it_says_so_and_leaks_nothing(void **state)
{
    (void)state;
    static const char text[] =
        "{\"distributedInfo\": {\"rank\": 1, \"pg_config\": [{\"pg_name\": \"a\", \"ranks\": "
        "[1,2]}]}, \"traceEvents\": [" ROW("a", "1", "1") "], \"traceName\": \"t\"}";
    int fd;
    char path[64];
    bytes_as_file(text, sizeof text - 1, &fd, path);
    for (long k = 0;; k++) {
        struct rs_source_stream stream;
        struct rs_err err = {0};
        struct kept kept = {0};
        assert_ok(rs_source_stream_init(&stream));
        rs_kineto_write_begin(&kept.writer, &kept.text);
        allocations_left = k;
        rs_mem_set_gate(count_down);
        const enum rs_status status =
            rs_kineto_read(path, RS_SOURCE_LOSSLESS, &stream,
                           (struct rs_sink){.batch = keep_batch, .self = &kept}, &err);
        rs_mem_set_gate(NULL);
        rs_source_stream_fini(&stream);
        rs_mem_free(kept.rows);
        rs_buf_fini(&kept.text);
        if (status == RS_OK)
            break;
        assert_status(status, RS_NOMEM);
        assert_true(k < 1000);
    }
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relative_times_count_from_a_base_at_the_head),
        cmocka_unit_test(a_base_at_the_tail_counts_too),
        cmocka_unit_test(absolute_times_need_no_base),
        cmocka_unit_test(a_base_beside_absolute_times_is_not_added),
        cmocka_unit_test(integers_that_overflow_as_us_are_ns),
        cmocka_unit_test(numbers_are_exact_or_cut_never_rounded),
        cmocka_unit_test(durations_may_be_missing_or_negative),
        cmocka_unit_test(old_names_and_text_ids_mean_the_same),
        cmocka_unit_test(keys_come_in_any_order_and_any_blanks),
        cmocka_unit_test(kinetos_own_layout_gives_what_any_other_gives),
        cmocka_unit_test(arguments_give_the_same_columns_in_either_reading),
        cmocka_unit_test(unescaped_quotes_in_names_are_kept_and_cost_no_neighbour),
        cmocka_unit_test(a_line_break_inside_an_argument_costs_no_column),
        cmocka_unit_test(an_unwanted_row_with_an_odd_quote_costs_no_neighbour),
        cmocka_unit_test(a_row_that_cannot_be_read_is_counted_and_stepped_over),
        cmocka_unit_test(missing_argument_values_are_passed_over),
        cmocka_unit_test(an_unfinished_row_is_flagged_whatever_it_is),
        cmocka_unit_test(escapes_become_utf8),
        cmocka_unit_test(ranks_of_groups_are_a_list_or_a_text),
        cmocka_unit_test(an_empty_rank_is_no_rank),
        cmocka_unit_test(log_lines_without_quotes_do_not_hide_what_follows),
        cmocka_unit_test(a_truncated_trace_gives_what_is_whole),
        cmocka_unit_test(what_is_no_trace_is_not_found),
        cmocka_unit_test(an_empty_file_is_an_empty_recording),
        cmocka_unit_test(a_row_over_the_limit_is_dropped_alone),
        cmocka_unit_test(rows_are_whole_wherever_the_window_ends),
        cmocka_unit_test(many_rows_without_an_end_are_stepped_over_in_time),
        cmocka_unit_test(a_sink_that_refuses_ends_the_reading),
        cmocka_unit_test(without_memory_it_says_so_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
