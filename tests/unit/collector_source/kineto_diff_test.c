/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader against jansson: the same events, and the same document after reading and writing.
 *
 * Two inputs: traces that a generator here makes up (always), and real ones, when they lie beside the repository.
 * jansson reads times as doubles, so times are compared as decimal text of the document before: what the reader says in ns must
 * print as the same double.
 */
#include "tests/support/rs_test.h"
/**/
#include "collector/source/inflate.h"
#include "tests/unit/collector_source/kineto_support.h"

#include <jansson.h>

#include <math.h>

static bool read_all(const char *path, struct rs_buf *text)
{
    struct input input;
    if (input_open(&input, path, NULL) != RS_OK)
        return false;
    for (;;) {
        uint8_t *room = rs_buf_reserve(text, 1 << 20);
        size_t count;
        if (!room || input_read(&input, (char *)room, 1 << 20, &count, NULL) != RS_OK || !count)
            break;
        rs_buf_commit(text, count);
    }
    const bool is_whole = input.problem[0] == '\0';
    input_close(&input);
    return is_whole && !text->failed;
}

static bool same(const json_t *a, const json_t *b);

static bool same_object(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        if (!same(value, json_object_get(b, key)))
            return false;
    }
    return true;
}

/* As values: 5, 5.0 and 5.000 are one number. */
static bool same(const json_t *a, const json_t *b)
{
    if (!a || !b)
        return false;
    if (json_is_number(a) && json_is_number(b)) {
        if (json_is_integer(a) && json_is_integer(b))
            return json_integer_value(a) == json_integer_value(b);
        return fabs(json_number_value(a) - json_number_value(b)) <= 0;
    }
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_object(a))
        return same_object(a, b);
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        for (size_t i = 0; i < json_array_size(a); i++) {
            if (!same(json_array_get(a, i), json_array_get(b, i)))
                return false;
        }
        return true;
    }
    return json_equal(a, b) != 0;
}

/* jansson has no integers over INT64_MAX: as reals (JSON_DECODE_INT_AS_REAL would make all so). */
static json_t *load(const struct rs_buf *text, json_error_t *error)
{
    json_t *root = json_loadb((const char *)text->data, text->length, JSON_ALLOW_NUL, error);
    if (!root && strstr(error->text, "too big integer"))
        root = json_loadb((const char *)text->data, text->length,
                          JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, error);
    return root;
}

static void report(const char *what, size_t index, const json_t *a, const json_t *b)
{
    char *one = a ? json_dumps(a, JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
    char *two = b ? json_dumps(b, JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
    print_error("%s %zu\n  was %s\n  is  %s\n", what, index, one ? one : "-", two ? two : "-");
    free(one);
    free(two);
}

static void compare_documents(const char *name, const json_t *was, const json_t *is)
{
    const json_t *rows = json_object_get(was, "traceEvents");
    const json_t *written = json_object_get(is, "traceEvents");
    assert_int_equal(json_array_size(rows), json_array_size(written));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (!same(json_array_get(rows, i), json_array_get(written, i))) {
            report(name, i, json_array_get(rows, i), json_array_get(written, i));
            fail();
        }
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)was, key, value)
    {
        if (strcmp(key, "traceEvents") != 0 && !same(value, json_object_get(is, key))) {
            report(key, 0, value, json_object_get(is, key));
            fail();
        }
    }
    assert_int_equal(json_object_size(was), json_object_size(is));
}

static bool is_unit_ns; /* of the trace being compared */

static bool same_micros(const json_t *number, rs_ns ns)
{
    char text[64];
    if (is_unit_ns)
        return json_integer_value(number) == ns;
    (void)snprintf(text, sizeof text, "%lld.%03lld", (long long)(ns / 1000),
                   (long long)(ns % 1000));
    return fabs(strtod(text, NULL) - json_number_value(number)) <= 0;
}

static bool same_id(const json_t *id, int64_t value)
{
    if (json_is_integer(id))
        return json_integer_value(id) == value;
    if (json_is_real(id))
        return fabs(json_real_value(id) - (double)value) <= 0;
    return json_is_string(id);
}

static bool is_skipped(const json_t *row)
{
    const char *category = json_string_value(json_object_get(row, "cat"));
    const char *phase = json_string_value(json_object_get(row, "ph"));
    return strcmp(phase, "X") != 0 || (category && (strcmp(category, "python_function") == 0 ||
                                                    strcmp(category, "cuda_event") == 0));
}

static bool same_event(const json_t *row, const struct kept_row *kept)
{
    const json_t *args = json_object_get(row, "args");
    const json_t *correlation = json_object_get(args, "correlation");
    const double value = json_is_number(correlation) ? json_number_value(correlation) : -1;
    const bool has_correlation = value >= 0 && floor(value) >= value;
    const bool reads_args = kept->kind != RS_KIND_CPU_OP &&
                            kept->kind != RS_KIND_GPU_USER_ANNOTATION &&
                            kept->kind != RS_KIND_OVERHEAD && kept->kind != RS_KIND_TRACE_SPAN;
    return strcmp(json_string_value(json_object_get(row, "name")), kept->name) == 0 &&
           same_micros(json_object_get(row, "ts"), kept->start) &&
           same_micros(json_object_get(row, "dur"), kept->end - kept->start) &&
           same_id(json_object_get(row, "pid"), kept->lane.process) &&
           same_id(json_object_get(row, "tid"), kept->lane.thread) &&
           (!reads_args || kept->correlation ==
                               (has_correlation ? (int64_t)json_number_value(correlation) : -1)) &&
           json_is_false(json_object_get(args, "finished")) ==
               ((kept->flags & RS_EVENT_UNFINISHED) != 0);
}

/* The fast mode: every X row that the reduction wants, in order, and no other. */
static void compare_events(const char *name, const json_t *root, const struct kept *kept)
{
    const json_t *rows = json_object_get(root, "traceEvents");
    size_t at = 0;
    int64_t x_rows = 0;
    is_unit_ns = strstr(rs_strtab_text(&kept->stream.strings, kept->stream.info.generation),
                        "integer ns") != NULL;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        x_rows += strcmp(json_string_value(json_object_get(row, "ph")), "X") == 0;
        if (is_skipped(row))
            continue;
        if (at >= kept->count || !same_event(row, &kept->rows[at])) {
            report(name, i, row, NULL);
            fail();
        }
        at++;
    }
    assert_int_equal(at, kept->count);
    assert_int_equal(x_rows, kept->stream.info.events_read);
    assert_int_equal(json_array_size(rows), kept->stream.info.rows_read);
}

static bool is_count(const json_t *value)
{
    const double number = json_is_number(value) ? json_number_value(value) : -1;
    return number >= 0 && floor(number) >= number;
}

/* A span of a category that nobody knows, that may be a launch, an operator or a collective. */
static bool may_matter(const json_t *row)
{
    static const char *const unknown[] = {"new_thing", "ac2g", "cpu_instant_event"};
    const char *category = json_string_value(json_object_get(row, "cat"));
    const json_t *args = json_object_get(row, "args");
    bool is_unknown = false;
    for (size_t k = 0; category && k < 3; k++)
        is_unknown |= strcmp(category, unknown[k]) == 0;
    return is_unknown && strcmp(json_string_value(json_object_get(row, "ph")), "X") == 0 &&
           (is_count(json_object_get(args, "correlation")) ||
            is_count(json_object_get(args, "External id")) ||
            json_object_get(args, "Collective name") ||
            json_object_get(args, "Process Group Name"));
}

/* Spans of a device or a host that do not say where: "Spans" is no number of a process, thread, device or stream. */
static bool has_flaw(const json_t *root)
{
    static const char *const placed[] = {"kernel", "gpu_memcpy", "cpu_op", "cuda_runtime",
                                         "user_annotation"};
    const json_t *rows = json_object_get(root, "traceEvents");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *category = json_string_value(json_object_get(row, "cat"));
        const char *pid = json_string_value(json_object_get(row, "pid"));
        const char *tid = json_string_value(json_object_get(row, "tid"));
        if (may_matter(row))
            return true;
        const bool is_lost = (pid && strcmp(pid, "Spans") == 0) || (tid && !strcmp(tid, "Spans"));
        for (size_t k = 0; is_lost && !is_skipped(row) && category && k < 5; k++) {
            if (strcmp(category, placed[k]) == 0)
                return true;
        }
    }
    return false;
}

static void compare(const char *name, const char *path, const struct rs_buf *text)
{
    json_error_t error;
    json_t *was = load(text, &error);
    if (!was) {
        print_error("%s: jansson: %s, line %d\n", name, error.text, error.line);
        fail();
    }
    struct kept kept;
    kept_read(&kept, path, RS_SOURCE_LOSSLESS);
    const enum rs_status expected = has_flaw(was) ? RS_PARTIAL : RS_OK;
    assert_status(kept.status, expected);
    assert_false(kept.is_bad_batch);
    json_t *is = load(&kept.text, &error);
    if (!is) {
        print_error("%s: written: %s, line %d\n", name, error.text, error.line);
        fail();
    }
    compare_documents(name, was, is);
    json_decref(is);
    kept_fini(&kept);
    kept_read(&kept, path, 0);
    assert_status(kept.status, expected);
    compare_events(name, was, &kept);
    kept_fini(&kept);
    json_decref(was);
}

static void real_traces_are_read_as_jansson_reads_them(void **state)
{
    (void)state;
    size_t count = 0;
    for (size_t i = 0; i < TRACE_COUNT; i++) {
        char path[512];
        if (!trace_path(traces[i], path))
            continue;
        struct rs_buf text = {0};
        assert_true(read_all(path, &text));
        compare(traces[i], path, &text);
        rs_buf_fini(&text);
        count++;
    }
    print_message("%zu traces compared\n", count);
    assert_true(count >= BUNDLED_TRACES);
}

/* xorshift: the same traces in every run. */
static uint64_t seed = 88172645463325252U;
static uint64_t random_of(uint64_t limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % limit;
}

static void blanks(struct rs_buf *text)
{
    static const char *const kinds[] = {"", "", " ", " ", "\n    ", "\t", "\r\n", "  "};
    rs_buf_string(text, kinds[random_of(8)]);
}

static void random_string(struct rs_buf *text)
{
    static const char *const parts[] = {"a",        "kernel<",
                                        "}",        "{",
                                        "[",        "]",
                                        ",",        ":",
                                        " ",        "\\\"",
                                        "\\\\",     "\\n",
                                        "::",       "\\u00e9",
                                        "\xc3\xa9", "finished",
                                        "\\/",      "x, \\\"pid\\\": 1",
                                        "0x1",      "\\ud83d\\ude00"};
    rs_buf_u8(text, '"');
    for (uint64_t i = random_of(random_of(10) ? 12 : 120); i > 0; i--)
        rs_buf_string(text, parts[random_of(20)]);
    rs_buf_u8(text, '"');
}

static void random_value(struct rs_buf *text, unsigned depth)
{
    switch (random_of(depth ? 8 : 6)) {
    case 0:
        random_string(text);
        break;
    case 1:
        rs_buf_printf(text, "%llu", (unsigned long long)random_of(1000000));
        break;
    case 2:
        rs_buf_printf(text, "-%llu", (unsigned long long)random_of(1000));
        break;
    case 3:
        rs_buf_printf(text, "%llu.%llu", (unsigned long long)random_of(1000),
                      (unsigned long long)random_of(100000));
        break;
    case 4:
        rs_buf_string(text, random_of(2) ? "true" : "false");
        break;
    case 5:
        rs_buf_string(text, "null");
        break;
    default: {
        const bool is_object = random_of(2);
        rs_buf_u8(text, is_object ? '{' : '[');
        for (uint64_t i = 0, count = random_of(4); i < count; i++) {
            if (i)
                rs_buf_u8(text, ',');
            blanks(text);
            if (is_object)
                rs_buf_printf(text, "\"k%llu\":", (unsigned long long)i);
            random_value(text, depth - 1);
        }
        blanks(text);
        rs_buf_u8(text, is_object ? '}' : ']');
    }
    }
}

static void key(struct rs_buf *text, bool *is_first, const char *name)
{
    if (!*is_first)
        rs_buf_u8(text, ',');
    *is_first = false;
    blanks(text);
    rs_buf_printf(text, "\"%s\"", name);
    rs_buf_string(text, random_of(8) ? "" : " ");
    rs_buf_u8(text, ':');
    blanks(text);
}

static void random_args(struct rs_buf *text)
{
    static const char *const names[] = {"External id",
                                        "correlation",
                                        "bytes",
                                        "Bytes",
                                        "finished",
                                        "Input Dims",
                                        "Input type",
                                        "Concrete Inputs",
                                        "Collective name",
                                        "dtype",
                                        "In msg nelems",
                                        "Out msg nelems",
                                        "Group size",
                                        "Process Group Name",
                                        "Process Group Ranks",
                                        "Seq",
                                        "Comms Id",
                                        "Rank",
                                        "Src Rank",
                                        "stream",
                                        "grid",
                                        "est. achieved occupancy %",
                                        "memory bandwidth (GB/s)",
                                        "Global rank start"};
    bool is_first = true;
    rs_buf_u8(text, '{');
    const uint64_t step = 1 + random_of(6);
    for (uint64_t i = random_of(6); i < 24; i += step) {
        key(text, &is_first, names[i]);
        if (random_of(3))
            rs_buf_printf(text, "%llu", (unsigned long long)random_of(100000));
        else
            random_value(text, 2);
    }
    blanks(text);
    rs_buf_u8(text, '}');
}

static void random_id(struct rs_buf *text)
{
    if (random_of(6))
        rs_buf_printf(text, "%llu", (unsigned long long)random_of(5));
    else
        rs_buf_string(text, random_of(2) ? "\"stream 7\"" : "\"Spans\"");
}

static void random_row(struct rs_buf *text)
{
    static const char *const categories[] = {
        "kernel",          "cpu_op", "cuda_runtime", "user_annotation",   "gpu_memcpy",
        "python_function", "ac2g",   "new_thing",    "cpu_instant_event", "Trace"};
    static const char phases[] = "XXXXXXsfiMC";
    const char phase = phases[random_of(11)];
    bool is_first = true;
    rs_buf_u8(text, '{');
    const unsigned rotation = (unsigned)random_of(9);
    for (unsigned i = 0; i < 9; i++) {
        switch ((i + rotation) % 9) {
        case 0:
            key(text, &is_first, "ph");
            rs_buf_printf(text, "\"%c\"", phase);
            break;
        case 1:
            if (phase != 'X' && random_of(2))
                break;
            key(text, &is_first, "cat");
            rs_buf_printf(text, "\"%s\"", categories[random_of(10)]);
            break;
        case 2:
            key(text, &is_first, "name");
            random_string(text);
            break;
        case 3:
            key(text, &is_first, "pid");
            random_id(text);
            break;
        case 4:
            key(text, &is_first, "tid");
            random_id(text);
            break;
        case 5:
            key(text, &is_first, "ts");
            rs_buf_printf(text, "%llu.%03llu",
                          (unsigned long long)(4000000000000 + random_of(1000000000)),
                          (unsigned long long)random_of(1000));
            break;
        case 6:
            if (phase != 'X')
                break;
            key(text, &is_first, "dur");
            rs_buf_printf(text, "%llu.%03llu", (unsigned long long)random_of(100000),
                          (unsigned long long)random_of(1000));
            break;
        case 7:
            if (!random_of(4))
                break;
            key(text, &is_first, "args");
            random_args(text);
            break;
        default:
            if (phase != 's' && phase != 'f' && random_of(4))
                break;
            key(text, &is_first, "id");
            rs_buf_printf(text, "%llu", (unsigned long long)random_of(1000));
            if (random_of(2)) {
                key(text, &is_first, "bp");
                rs_buf_string(text, "\"e\"");
            }
        }
    }
    blanks(text);
    rs_buf_u8(text, '}');
}

static void made_up_traces_are_read_as_jansson_reads_them(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        struct rs_buf text = {0};
        bool is_first = true;
        rs_buf_u8(&text, '{');
        key(&text, &is_first, "schemaVersion");
        rs_buf_u8(&text, '1');
        key(&text, &is_first, "odd one");
        random_value(&text, 4);
        key(&text, &is_first, "traceEvents");
        rs_buf_u8(&text, '[');
        for (uint64_t i = 0, count = random_of(round % 20 ? 40 : 4000); i < count; i++) {
            if (i)
                rs_buf_u8(&text, ',');
            blanks(&text);
            random_row(&text);
            blanks(&text);
        }
        rs_buf_u8(&text, ']');
        key(&text, &is_first, "tail");
        random_value(&text, 3);
        blanks(&text);
        rs_buf_u8(&text, '}');
        int fd;
        char path[64];
        bytes_as_file(text.data, text.length, &fd, path);
        compare("made up", path, &text);
        (void)close(fd);
        rs_buf_fini(&text);
    }
}

/* What a truncated trace gives is a prefix of what the whole one gives. One thread reads: the thread sanitizer, ten times as slow, has nothing to
 * find in more of them. */
#ifdef RS_TSAN
enum { CUTS = 4 };
#else
enum { CUTS = 20 };
#endif

static void cut_traces_give_a_prefix(void **state)
{
    (void)state;
    size_t count = 0;
    for (size_t i = 0; i < TRACE_COUNT; i++) {
        char path[512];
        if (!trace_path(traces[i], path))
            continue;
        count++;
        struct rs_buf bytes = {0};
        assert_ok(rs_file_read(path, 1 << 30, &bytes, NULL));
        struct kept whole;
        kept_read(&whole, path, 0);
        for (unsigned cut = 0; cut < CUTS; cut++) {
            const size_t length = random_of(bytes.length);
            struct kept kept;
            kept_read_bytes(&kept, bytes.data, length, cut % 4 ? 0 : RS_SOURCE_LOSSLESS);
            assert_status(kept.status, RS_PARTIAL);
            assert_true(kept.stream.info.is_partial);
            assert_true(kept.stream.info.events_read <= whole.stream.info.events_read);
            for (size_t at = 0; cut % 4 && at < kept.count; at++) {
                assert_int_equal(kept.rows[at].start, whole.rows[at].start);
                assert_int_equal(kept.rows[at].correlation, whole.rows[at].correlation);
                assert_string_equal(kept.rows[at].name, whole.rows[at].name);
            }
            kept_fini(&kept);
        }
        kept_fini(&whole);
        rs_buf_fini(&bytes);
    }
    assert_true(count >= BUNDLED_TRACES);
}

/* A name with quotes that older writers did not escape: every row comes, the name is as it was meant, and what is written is valid. */
static void expect_quoted(const char *path, size_t want)
{
    struct kept kept;
    kept_read(&kept, path, RS_SOURCE_LOSSLESS);
    assert_status(kept.status, RS_OK);
    assert_int_equal(kept.stream.info.drop_count, 0);
    size_t quoted = 0;
    for (size_t at = 0; at < kept.count; at++)
        quoted += strstr(kept.rows[at].name, "\"quoted\" back/slash") != NULL;
    assert_true(want ? quoted == want : quoted > 0);
    json_error_t error;
    json_t *written = load(&kept.text, &error);
    if (!written)
        print_error("%s: %s\n", path, error.text);
    assert_non_null(written);
    json_decref(written);
    kept_fini(&kept);
}

/* The bundled trace, with the names of its operators written as those writers did. */
static void an_unescaped_name_loses_nothing(void **state)
{
    (void)state;
    static const char was[] = "\"name\": \"aten::addmm\"",
                      is[] = "\"name\": \"aten::addmm \"quoted\" back/slash\"";
    char path[512];
    struct rs_buf text = {0}, made = {0};
    assert_true(trace_path(traces[0], path));
    assert_true(read_all(path, &text));
    rs_buf_bytes(&text, "", 1);
    const char *at = (const char *)text.data;
    size_t count = 0;
    for (const char *next; (next = strstr(at, was)); at = next + strlen(was), count++) {
        rs_buf_bytes(&made, at, (size_t)(next - at));
        rs_buf_bytes(&made, is, strlen(is));
    }
    rs_buf_bytes(&made, at, strlen(at));
    assert_true(count > 0);
    int fd;
    bytes_as_file(made.data, made.length, &fd, path);
    expect_quoted(path, count);
    (void)close(fd);
    rs_buf_fini(&made);
    rs_buf_fini(&text);
}

static void invalid_traces_lose_nothing(void **state)
{
    static const char *const names[] = {
        "kineto-ipc/k2023-170d45a6/trace-exotic-writer.INVALID.json",
        "kineto-ipc/k2025-04c9e863/trace-exotic-writer.INVALID.json"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        if (trace_path(names[i], path))
            expect_quoted(path, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_up_traces_are_read_as_jansson_reads_them),
        cmocka_unit_test(real_traces_are_read_as_jansson_reads_them),
        cmocka_unit_test(cut_traces_give_a_prefix),
        cmocka_unit_test(an_unescaped_name_loses_nothing),
        cmocka_unit_test(invalid_traces_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
