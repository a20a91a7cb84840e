/* SPDX-License-Identifier: Apache-2.0 */
/* One description, every form: what each value looks like in CSV, JSON, SQL and blocks, absent and extremes too. */
#include "aggregator/model/columns.h"

#include "aggregator/model/tables.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *colour_text(int64_t code)
{
    return code == 0 ? "red" : code == 1 ? "light, \"blue\"" : NULL;
}

#define C RS_FIELD
struct row {
#include "tests/unit/aggregator_model/sample.def"
};
#undef C
#define C      RS_COLUMN
#define RS_ROW row
static const struct rs_column columns[] = {
#include "tests/unit/aggregator_model/sample.def"
};
#undef C
static const struct rs_table table = {"sample", columns, sizeof columns / sizeof columns[0],
                                      sizeof(struct row)};

static const struct row full = {.key = 7,
                                .number = -12,
                                .real = 0.1,
                                .text = "plain",
                                .digits = "1.50",
                                .us = 1234567,
                                .ms = 1500000,
                                .mb = 4096000,
                                .colour = 0};

static struct row absent(void)
{
    struct row row;
    rs_row_clear(&table, &row);
    row.key = 1;
    return row;
}

static void assert_text(struct rs_buf *buf, const char *expected)
{
    assert_string_equal(rs_buf_text(buf), expected);
    rs_buf_fini(buf);
}

static void csv_has_titles_units_and_empty_cells(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_csv_head(&table, &buf);
    rs_csv_row(&table, &full, &buf);
    const struct row none = absent();
    rs_csv_row(&table, &none, &buf);
    assert_text(&buf, "key,\"Number, of things\",real,text,digits,us,ms,mb,colour\n"
                      "7,-12,0.1,plain,1.50,1234.567,1.5,4.096,red\n"
                      "1,,,,,,,,\n");
}

static void csv_quotes_what_would_break_a_line(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct row row = absent();
    row.text = "a,\"b\"\r\nc";
    row.colour = 1;
    rs_csv_row(&table, &row, &buf);
    assert_text(&buf, "1,,,\"a,\"\"b\"\"\r\nc\",,,,,\"light, \"\"blue\"\"\"\n");
}

static void an_empty_text_is_not_absent_in_json(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct row row = absent();
    row.text = "";
    row.colour = 99; /* a code without a word */
    rs_json_row(&table, &row, &buf);
    assert_text(&buf, "{\"key\":1,\"number\":null,\"real\":null,\"text\":\"\",\"digits\":null,"
                      "\"us\":null,\"ms\":null,\"mb\":null,\"colour\":\"unknown\"}");
}

static void json_prints_units_as_numbers_and_escapes(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct row row = full;
    row.text = "\"\n\xff";
    rs_json_row(&table, &row, &buf);
    assert_text(&buf, "{\"key\":7,\"number\":-12,\"real\":0.1,\"text\":\"\\\"\\n\xef\xbf\xbd\","
                      "\"digits\":1.50,\"us\":1234.567,\"ms\":1.5,\"mb\":4.096,"
                      "\"colour\":\"red\"}");
}

static void digits_that_are_no_json_number_stay_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {"nan", "+1", "01", ".5", "1.", "1e", "", "1 ", "-", "0x1"};
    static const char *const numbers[] = {"0", "-0", "10", "0.50", "1e5", "-1.25E-3"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] + sizeof numbers / sizeof numbers[0];
         i++) {
        const bool is_number = i >= sizeof texts / sizeof texts[0];
        const char *digits = is_number ? numbers[i - sizeof texts / sizeof texts[0]] : texts[i];
        char expected[64];
        struct rs_buf buf = {0};
        struct row row = absent();
        row.digits = digits;
        rs_json_row(&table, &row, &buf);
        (void)snprintf(expected, sizeof expected,
                       is_number ? "\"digits\":%s," : "\"digits\":\"%s\",", digits);
        if (!strstr(rs_buf_text(&buf), expected))
            fail_msg("%s is not in %s", expected, rs_buf_text(&buf));
        rs_buf_fini(&buf);
    }
}

static void extremes_keep_every_digit(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct row row = full;
    row.number = INT64_MAX;
    row.us = INT64_MAX;
    row.ms = INT64_MIN + 1;
    row.mb = -1;
    row.real = DBL_MAX;
    rs_csv_row(&table, &row, &buf);
    assert_text(&buf, "7,9223372036854775807,1.7976931348623157e+308,plain,1.50,"
                      "9223372036854775.807,-9223372036854.775807,-0.000001,red\n");
    row.us = -1;
    row.ms = 0;
    row.mb = 1000000;
    rs_csv_row(&table, &row, &buf);
    assert_non_null(strstr(rs_buf_text(&buf), ",-0.001,0,1,red\n"));
    rs_buf_fini(&buf);
}

static void a_double_in_a_unit_is_the_nearest_to_its_text(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        const int64_t value = (int64_t)(seed >> (i % 60));
        char text[RS_UNIT_TEXT_BYTES];
        rs_unit_us(text, value);
        assert_true(rs_unit_double(value, 3) == strtod(text, NULL));
        rs_unit_ms(text, value);
        assert_true(rs_unit_double(value, 6) == strtod(text, NULL));
    }
}

static void creates_are_what_the_engines_take(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_sql_create(&rs_table_note, RS_SQLITE, &buf);
    assert_text(
        &buf,
        "CREATE TABLE note (capture INTEGER NOT NULL, note_no INTEGER NOT NULL, "
        "is_of_input INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (capture, note_no)) WITHOUT ROWID");
    rs_sql_create(&rs_table_note, RS_CLICKHOUSE, &buf);
    assert_text(&buf,
                "CREATE TABLE note (capture Int64, note_no Int64, is_of_input Int64, text String, "
                "generation Int64) ENGINE = MergeTree PARTITION BY capture "
                "ORDER BY (capture, note_no)");
    rs_sql_create(&rs_table_write_unit, RS_CLICKHOUSE, &buf); /* its generation is its own */
    assert_text(&buf, "CREATE TABLE write_unit (capture Int64, unit_kind Int64, a Int64, b Int64, "
                      "generation Int64, rows Int64, members Int64) ENGINE = MergeTree "
                      "PARTITION BY capture ORDER BY (capture, unit_kind, a, b)");
    rs_sql_create(&table, RS_SQLITE, &buf);
    assert_text(&buf, "CREATE TABLE sample (key INTEGER PRIMARY KEY, number INTEGER, real REAL, "
                      "text TEXT, digits NUMERIC, us NUMERIC, ms INTEGER, mb INTEGER, "
                      "colour INTEGER)");
    rs_sql_insert(&rs_table_note, RS_SQLITE, &buf);
    assert_text(&buf, "INSERT INTO note (capture, note_no, is_of_input, text) VALUES (?, ?, ?, ?)");
    rs_sql_insert(&rs_table_note, RS_CLICKHOUSE, &buf);
    assert_text(&buf, "INSERT INTO note (capture, note_no, is_of_input, text, generation) "
                      "FORMAT RowBinary");
    rs_sql_insert(&rs_table_write_unit, RS_CLICKHOUSE, &buf);
    assert_text(&buf,
                "INSERT INTO write_unit (capture, unit_kind, a, b, generation, rows, members) "
                "FORMAT RowBinary");
}

static void the_schema_names_type_unit_and_meaning(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    rs_json_schema(&table, &buf);
    const char *text = rs_buf_text(&buf);
    assert_non_null(strstr(text, "\"sample\""));
    assert_non_null(strstr(text, "\"us\""));
    assert_non_null(strstr(text, "a length"));
    assert_non_null(strstr(text, "\"additionalProperties\""));
    rs_buf_fini(&buf);
}

/* --- blocks ---------------------------------------------------------------------------------------- */

static void assert_rows_equal(const struct row *rows, const struct rs_block *block)
{
    for (size_t i = 0; i < block->count; i++) {
        struct rs_buf a = {0}, b = {0};
        rs_json_row(&table, &rows[i], &a);
        rs_json_row(&table, rs_block_row(block, i), &b);
        assert_string_equal(rs_buf_text(&a), rs_buf_text(&b));
        rs_buf_fini(&a);
        rs_buf_fini(&b);
    }
}

static struct row *sample_rows(size_t count)
{
    static const char *const texts[] = {"", "one", "one", NULL, "a longer text, of a kernel"};
    struct row *rows = rs_mem_calloc(count + 1, sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < count; i++) {
        rows[i] = i % 7 == 3 ? absent() : full;
        rows[i].key = (int64_t)i * INT64_C(1000000007);
        rows[i].text = texts[i % 5];
        rows[i].number = i % 2 ? INT64_MAX - (int64_t)i : -INT64_MAX + (int64_t)i;
        rows[i].mb = RS_NULL; /* a column that nobody knows */
    }
    return rows;
}

static void blocks_come_back_as_they_went(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 7, 8, 9, 1000, RS_BLOCK_ROWS_MAX};
    struct rs_block block = {0};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct rs_buf buf = {0};
        struct row *rows = sample_rows(counts[i]);
        rs_block_put(&table, rows, counts[i], &buf);
        assert_ok(rs_block_take(&table, rs_view_of(buf.data, buf.length), &block, NULL));
        assert_int_equal(block.count, counts[i]);
        assert_rows_equal(rows, &block);
        rs_buf_fini(&buf);
        rs_mem_free(rows);
    }
    rs_block_fini(&block);
}

/* Cut anywhere, one byte changed anywhere: refused, or rows that can be printed; never out of bounds (the
 * sanitizers see to that). */
static void a_damaged_block_is_refused_or_harmless(void **state)
{
    (void)state;
    struct rs_buf buf = {0}, out = {0};
    struct rs_block block = {0};
    struct row *rows = sample_rows(21);
    rs_block_put(&table, rows, 21, &buf);
    for (size_t cut = 0; cut < buf.length; cut++)
        assert_status(rs_block_take(&table, rs_view_of(buf.data, cut), &block, NULL), RS_FORMAT);
    rs_buf_u8(&buf, 0);
    assert_status(rs_block_take(&table, rs_view_of(buf.data, buf.length), &block, NULL), RS_FORMAT);
    buf.length--;
    for (size_t at = 0; at < buf.length; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            buf.data[at] ^= (uint8_t)(1u << bit);
            const enum rs_status status =
                rs_block_take(&table, rs_view_of(buf.data, buf.length), &block, NULL);
            if (status == RS_OK) {
                for (size_t i = 0; i < block.count; i++)
                    rs_csv_row(&table, rs_block_row(&block, i), &out);
            } else {
                assert_int_equal(block.count, 0);
            }
            rs_buf_reset(&out);
            buf.data[at] ^= (uint8_t)(1u << bit);
        }
    rs_buf_fini(&buf);
    rs_buf_fini(&out);
    rs_block_fini(&block);
    rs_mem_free(rows);
}

static void another_table_is_refused(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_block block = {0};
    struct rs_err err = {0};
    rs_block_put(&table, &full, 1, &buf);
    assert_status(rs_block_take(&rs_table_note, rs_view_of(buf.data, buf.length), &block, &err),
                  RS_FORMAT);
    assert_non_null(strstr(err.text, "note"));
    /* More rows than a block may have: refused before memory is asked for. */
    buf.data[4] = buf.data[5] = buf.data[6] = buf.data[7] = 0xff;
    assert_status(rs_block_take(&table, rs_view_of(buf.data, buf.length), &block, &err), RS_LIMIT);
    rs_buf_fini(&buf);
    rs_block_fini(&block);
}

/* --- every table of the model --------------------------------------------------------------------- */

static void every_table_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; rs_tables[i]; i++) {
        const struct rs_table *one = rs_tables[i];
        size_t keys = 0, units = 0;
        assert_ptr_equal(rs_table_named(one->name), one);
        for (size_t c = 0; c < one->column_count; c++) {
            const struct rs_column *column = &one->columns[c];
            assert_ptr_equal(rs_table_column(one, column->name), column);
            assert_true(column->help && *column->help);
            assert_true((column->unit == RS_ENUM) == (column->text != NULL));
            assert_true(column->offset + 8u <= one->row_bytes);
            assert_false((column->flags & RS_KEY) && (column->flags & RS_NULLABLE));
            keys += (column->flags & RS_KEY) != 0;
            units += (column->flags & RS_UNIT) != 0;
        }
        assert_true(keys > 0 && units <= 2);
        assert_string_equal(one->columns[0].name, "capture");
    }
    assert_null(rs_table_named("nothing"));
}

static void words_of_codes_bear_any_code(void **state)
{
    (void)state;
    static const int64_t codes[] = {INT64_MIN, -1, 0, 1, 2, 3, 4, 100, INT64_MAX};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_non_null(rs_op_text(codes[i]));
        assert_non_null(rs_coverage_text(codes[i]));
        assert_non_null(rs_unit_kind_text(codes[i]));
        assert_non_null(rs_step_origin_name(codes[i]));
        assert_non_null(rs_work_class_name(codes[i]));
    }
    assert_string_equal(rs_op_text(1), "all_reduce");
    assert_string_equal(rs_coverage_text(1), "partial");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_has_titles_units_and_empty_cells),
        cmocka_unit_test(csv_quotes_what_would_break_a_line),
        cmocka_unit_test(an_empty_text_is_not_absent_in_json),
        cmocka_unit_test(json_prints_units_as_numbers_and_escapes),
        cmocka_unit_test(digits_that_are_no_json_number_stay_texts),
        cmocka_unit_test(extremes_keep_every_digit),
        cmocka_unit_test(a_double_in_a_unit_is_the_nearest_to_its_text),
        cmocka_unit_test(creates_are_what_the_engines_take),
        cmocka_unit_test(the_schema_names_type_unit_and_meaning),
        cmocka_unit_test(blocks_come_back_as_they_went),
        cmocka_unit_test(a_damaged_block_is_refused_or_harmless),
        cmocka_unit_test(another_table_is_refused),
        cmocka_unit_test(every_table_is_whole),
        cmocka_unit_test(words_of_codes_bear_any_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
