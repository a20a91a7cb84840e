/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/model/reads.h"

#include "common/base/check.h"

#include <inttypes.h>
#include <string.h>

static const struct rs_read_def defs[RS_READ_COUNT] = {
#define R(code, name, sql, help) [RS_READ_##code] = {#name, &rs_table_##name, sql, help},
#include "aggregator/model/reads.def"
#undef R
};

const struct rs_read_def *rs_read_def(enum rs_read read)
{
    RS_CHECK((unsigned)read < RS_READ_COUNT);
    return &defs[read];
}

bool rs_read_named(const char *name, enum rs_read *read_p)
{
    for (unsigned i = 0; i < RS_READ_COUNT; i++)
        if (strcmp(defs[i].name, name) == 0) {
            *read_p = (enum rs_read)i;
            return true;
        }
    return false;
}

bool rs_read_is_raw(enum rs_read read)
{
    const char *sql = rs_read_def(read)->sql;
    return sql && !*sql;
}

static enum rs_status check_raw(const char *name, const struct rs_read_filter *filter,
                                struct rs_err *err)
{
    if (filter->step_count)
        return rs_err_set(err, RS_INVALID, "rows of %s cannot be chosen by their step", name);
    if (!filter->rank_count || filter->rank_count > RS_READ_RAW_RANKS_MAX)
        return rs_err_set(err, RS_INVALID, "rows of %s are those of named ranks, %d at most", name,
                          (int)RS_READ_RAW_RANKS_MAX);
    if (filter->from_ns < 0 || filter->to_ns < filter->from_ns)
        return rs_err_set(err, RS_INVALID, "rows of %s lie between a begin and an end behind it",
                          name);
    return RS_OK;
}

enum rs_status rs_read_check_filter(enum rs_read read, const struct rs_read_filter *filter,
                                    struct rs_err *err)
{
    const struct rs_read_def *def = rs_read_def(read);
    const struct {
        const char *column;
        size_t count;
    } wanted[] = {{"step", filter->step_count}, {"rank", filter->rank_count}};
    if (rs_read_is_raw(read))
        return check_raw(def->name, filter, err);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct rs_column *column = rs_table_column(def->result, wanted[i].column);
        if (!wanted[i].count)
            continue;
        if (def->sql || !column || column->kind != RS_I64)
            return rs_err_set(err, RS_INVALID, "rows of %s cannot be chosen by their %s", def->name,
                              wanted[i].column);
        if (wanted[i].count > RS_READ_FILTER_MAX)
            return rs_err_set(err, RS_INVALID, "at most %d values of %s can be asked for at once",
                              (int)RS_READ_FILTER_MAX, wanted[i].column);
    }
    return RS_OK;
}

/* Numbers only: nothing in it is anybody's text. */
static void put_filter(const struct rs_read_filter *filter, struct rs_buf *buf)
{
    for (size_t i = 0; i < filter->step_count; i++)
        rs_buf_printf(buf, "%s%" PRId64, i ? ", " : " AND step IN (", filter->steps[i]);
    rs_buf_string(buf, filter->step_count ? ")" : "");
    for (size_t i = 0; i < filter->rank_count; i++)
        rs_buf_printf(buf, "%s%" PRId32, i ? ", " : " AND rank IN (", filter->ranks[i]);
    rs_buf_string(buf, filter->rank_count ? ")" : "");
}

void rs_read_sql(enum rs_read read, const struct rs_read_filter *filter, struct rs_buf *buf)
{
    const struct rs_read_def *def = rs_read_def(read);
    if (def->sql) {
        rs_buf_string(buf, def->sql);
        return;
    }
    const struct rs_table *table = def->result;
    for (size_t i = 0; i < table->column_count; i++)
        rs_buf_printf(buf, "%s%s", i ? ", " : "SELECT ", table->columns[i].name);
    rs_buf_printf(buf, " FROM %s WHERE capture = :capture", table->name);
    put_filter(filter, buf);
    rs_buf_string(buf, " ORDER BY ");
    for (size_t i = 0, keys = 0; i < table->column_count; i++)
        if (table->columns[i].flags & RS_KEY)
            rs_buf_printf(buf, "%s%s", keys++ ? ", " : "", table->columns[i].name);
}
