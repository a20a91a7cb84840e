/* SPDX-License-Identifier: Apache-2.0 */
/* ops.csv (docs/ops-csv.md) into rows. Our own format: a header, commas, no line break within a cell. */
#include "aggregator/analysis/whatif/whatif.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_MAX = 64, ROWS_MAX = 20000000, NUMBER_MAX = 1 << 20 };
#define FILE_MAX      ((size_t)2 << 30)
#define TIME_MAX_NS   4e18
#define NS_PER_SECOND 1e9

enum column { DP, STAGE, STEP, OPTYPE, START, DURATION, RANK, SEQ, COLUMNS };
static const char *const column_text[COLUMNS] = {"dp_rank",  "stage",       "step", "optype",
                                                 "start_ns", "duration_ns", "rank", "seq_id"};

struct reader {
    const char *path;
    size_t line;
    int column[COLUMNS];      /* -1: absent */
    bool is_seconds[COLUMNS]; /* START, DURATION */
    char *cells[CELLS_MAX];
    size_t cell_count, header_count;
    struct rs_err *err;
};

/* Cuts the line up in place. */
static enum rs_status split(struct reader *in, char *line)
{
    in->cell_count = 0;
    for (char *at = line; at;) {
        if (in->cell_count == CELLS_MAX)
            return rs_err_set(in->err, RS_LIMIT, "%s:%zu: more than %d columns", in->path, in->line,
                              CELLS_MAX);
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        while (*at == ' ' || *at == '\t')
            at++;
        size_t length = strlen(at);
        while (length && strchr(" \t\r", at[length - 1]))
            at[--length] = '\0';
        if (length >= 2 && *at == '"' && at[length - 1] == '"') {
            at[length - 1] = '\0';
            at++;
        }
        in->cells[in->cell_count++] = at;
        at = comma ? comma + 1 : NULL;
    }
    return RS_OK;
}

static enum rs_status header(struct reader *in)
{
    static const struct {
        const char *name;
        enum column column;
        bool is_seconds;
    } names[] = {{"dp_rank", DP, false},     {"stage", STAGE, false},
                 {"step", STEP, false},      {"optype", OPTYPE, false},
                 {"start_ns", START, false}, {"duration_ns", DURATION, false},
                 {"start_ts", START, true},  {"duration", DURATION, true},
                 {"rank", RANK, false},      {"seq_id", SEQ, false}};
    for (size_t i = 0; i < COLUMNS; i++)
        in->column[i] = -1;
    for (size_t cell = 0; cell < in->cell_count; cell++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (strcmp(in->cells[cell], names[i].name) != 0)
                continue;
            if (in->column[names[i].column] >= 0)
                return rs_err_set(in->err, RS_FORMAT, "%s:%zu: %s is there twice", in->path,
                                  in->line, column_text[names[i].column]);
            in->column[names[i].column] = (int)cell;
            in->is_seconds[names[i].column] = names[i].is_seconds;
        }
    for (size_t i = 0; i < RANK; i++)
        if (in->column[i] < 0)
            return rs_err_set(in->err, RS_FORMAT,
                              "%s:%zu: the header has no column %s%s (docs/ops-csv.md)", in->path,
                              in->line, column_text[i],
                              i == START      ? " (ns) or start_ts (seconds)"
                              : i == DURATION ? " (ns) or duration (seconds)"
                                              : "");
    in->header_count = in->cell_count;
    return RS_OK;
}

static enum rs_status bad_cell(const struct reader *in, enum column column, const char *expected)
{
    return rs_err_set(in->err, RS_FORMAT, "%s:%zu: %s is \"%.40s\", expected %s", in->path,
                      in->line, column_text[column], in->cells[in->column[column]], expected);
}

static enum rs_status whole(const struct reader *in, enum column column, int64_t min, int64_t max,
                            int64_t *value_p)
{
    const char *text = in->cells[in->column[column]];
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        return bad_cell(in, column, "a whole number within the limits");
    *value_p = value;
    return RS_OK;
}

static enum rs_status instant(const struct reader *in, enum column column, int64_t min,
                              int64_t *value_p)
{
    if (!in->is_seconds[column])
        return whole(in, column, min, (int64_t)TIME_MAX_NS, value_p);
    const char *text = in->cells[in->column[column]];
    char *end = NULL;
    const double value = strtod(text, &end) * NS_PER_SECOND;
    if (end == text || *end || !isfinite(value) || fabs(value) > TIME_MAX_NS || value < (double)min)
        return bad_cell(in, column, "seconds");
    *value_p = (int64_t)llround(value);
    return RS_OK;
}

static enum rs_status row(struct reader *in, struct rs_whatif_op *op)
{
    int64_t dp = 0, stage = 0, rank = -1;
    if (in->cell_count < in->header_count)
        return rs_err_set(in->err, RS_FORMAT, "%s:%zu: %zu cells, the header has %zu", in->path,
                          in->line, in->cell_count, in->header_count);
    enum rs_status status = whole(in, DP, 0, NUMBER_MAX, &dp);
    if (status == RS_OK)
        status = whole(in, STAGE, 0, NUMBER_MAX, &stage);
    if (status == RS_OK)
        status = whole(in, STEP, INT64_MIN, INT64_MAX, &op->step);
    if (status == RS_OK)
        status = instant(in, START, (int64_t)-TIME_MAX_NS, &op->start_ns);
    if (status == RS_OK)
        status = instant(in, DURATION, 0, &op->duration_ns);
    if (status == RS_OK && in->column[RANK] >= 0)
        status = whole(in, RANK, -1, INT32_MAX, &rank);
    op->seq = op->start_ns;
    if (status == RS_OK && in->column[SEQ] >= 0)
        status = whole(in, SEQ, INT64_MIN, INT64_MAX, &op->seq);
    if (status != RS_OK)
        return status;
    op->dp_rank = (int32_t)dp;
    op->stage = (int32_t)stage;
    op->rank = (int32_t)rank;
    const char *name = in->cells[in->column[OPTYPE]];
    for (int type = 0; type < RS_WHATIF_TYPES; type++)
        if (strcmp(name, rs_whatif_type_text((enum rs_whatif_type)type)) == 0) {
            op->type = (enum rs_whatif_type)type;
            return RS_OK;
        }
    return bad_cell(in, OPTYPE, "one of the operation types in docs/ops-csv.md");
}

static enum rs_status rows(struct reader *in, struct rs_buf *text, struct rs_whatif_ops *ops)
{
    char *at = (char *)text->data, *end = at + text->length - 1; /* at the NUL */
    bool has_header = false;
    while (at < end) {
        in->line++;
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        *stop = '\0';
        if (strlen(at) != (size_t)(stop - at))
            return rs_err_set(in->err, RS_FORMAT, "%s:%zu: a zero byte, expected text", in->path,
                              in->line);
        const bool is_empty = !at[strspn(at, " \t\r")];
        enum rs_status status = is_empty ? RS_OK : split(in, at);
        at = stop + 1;
        if (is_empty)
            continue;
        if (status == RS_OK && !has_header) {
            status = header(in);
            has_header = true;
        } else if (status == RS_OK) {
            if (ops->count == ROWS_MAX)
                return rs_err_set(in->err, RS_LIMIT, "%s:%zu: more than %d rows", in->path,
                                  in->line, ROWS_MAX);
            if (rs_mem_grow((void **)&ops->items, &ops->capacity, ops->count + 1,
                            sizeof *ops->items) != RS_OK)
                return rs_err_set(in->err, RS_NOMEM, "no memory for %zu rows", ops->count + 1);
            status = row(in, &ops->items[ops->count]);
            ops->count += status == RS_OK;
        }
        if (status != RS_OK)
            return status;
    }
    if (!ops->count)
        return rs_err_set(in->err, RS_FORMAT, "%s: no operation in it, expected a header and rows",
                          in->path);
    return RS_OK;
}

enum rs_status rs_whatif_read(const char *path, struct rs_whatif_ops *ops, struct rs_err *err)
{
    struct reader in = {.path = path, .err = err};
    struct rs_buf text = {0};
    enum rs_status status = rs_file_read(path, FILE_MAX, &text, err);
    if (status == RS_OK) {
        rs_buf_u8(&text, 0);
        status = text.failed ? rs_err_set(err, RS_NOMEM, "no memory for %s", path)
                             : rows(&in, &text, ops);
    }
    rs_buf_fini(&text);
    return status;
}

void rs_whatif_ops_fini(struct rs_whatif_ops *ops)
{
    rs_mem_free(ops->items);
    *ops = (struct rs_whatif_ops){0};
}
