/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/model/reads.h"

#include "common/base/check.h"

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

void rs_read_sql(enum rs_read read, struct rs_buf *buf)
{
    const struct rs_read_def *def = rs_read_def(read);
    if (def->sql) {
        rs_buf_string(buf, def->sql);
        return;
    }
    const struct rs_table *table = def->result;
    for (size_t i = 0; i < table->column_count; i++)
        rs_buf_printf(buf, "%s%s", i ? ", " : "SELECT ", table->columns[i].name);
    rs_buf_printf(buf, " FROM %s WHERE capture = :capture ORDER BY ", table->name);
    for (size_t i = 0, keys = 0; i < table->column_count; i++)
        if (table->columns[i].flags & RS_KEY)
            rs_buf_printf(buf, "%s%s", keys++ ? ", " : "", table->columns[i].name);
}
