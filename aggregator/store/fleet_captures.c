/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows go and come as RowBinary: a message of the wire is bytes, and what people wrote may be anything.
 *
 *     version, is_removed, created_ns, closed_ns, world, ranks, rows    Int64
 *     id, aggregator, mark, run, owner, state, reason, source,
 *     notes, head, info                                                  LEB128 length, then its bytes
 *
 * A text that was read is moved over the last byte of its length, so that there is room for a zero behind it: nothing is copied.
 */
#include "aggregator/store/fleet_captures_priv.h"
#include "aggregator/store/row_place_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS "version, is_removed, created_ns, closed_ns, world, ranks, rows"
#define TEXTS   "id, aggregator, mark, run, owner, state, reason, source"

static const char create_sql[] =
    "CREATE TABLE IF NOT EXISTS catalogue (version Int64, is_removed Int64, created_ns Int64, "
    "closed_ns Int64, world Int64, ranks Int64, rows Int64, id String, aggregator String, "
    "mark String, run String, owner String, state String, reason String, source String, "
    "notes String, head String, info String) "
    "ENGINE = ReplacingMergeTree(version) ORDER BY (id, aggregator)";

static const char insert_sql[] =
    "INSERT INTO catalogue (" NUMBERS ", " TEXTS ", notes, head, info) FORMAT RowBinary";

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the catalogue");
}

void rs_fleet_captures_fini(struct rs_fleet_captures *captures)
{
    rs_mem_free(captures->items);
    rs_buf_fini(&captures->bytes);
    *captures = (struct rs_fleet_captures){.count = 0};
}

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

static void put_bytes(const void *bytes, size_t length, struct rs_buf *buf)
{
    rs_buf_varint(buf, length);
    if (length)
        rs_buf_bytes(buf, bytes, length);
}

void fleet_captures_put(const struct rs_fleet_capture *capture, struct rs_buf *buf)
{
    const int64_t numbers[] = {capture->version,      capture->is_removed, capture->created_ns,
                               capture->closed_ns,    capture->world,      capture->rank_count,
                               (int64_t)capture->rows};
    const char *const texts[] = {capture->id,     capture->aggregator, capture->mark,
                                 capture->run,    capture->owner,      capture->state,
                                 capture->reason, capture->source,     capture->notes};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        rs_buf_u64(buf, (uint64_t)numbers[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        put_bytes(texts[i] ? texts[i] : "", texts[i] ? strlen(texts[i]) : 0, buf);
    put_bytes(capture->head.data, capture->head.length, buf);
    put_bytes(capture->info.data, capture->info.length, buf);
}

static enum rs_status send_rows(void *self, struct clickhouse_link *link, struct rs_err *err)
{
    const struct rs_buf *rows = self;
    struct rs_err why = {0};
    enum rs_status status = clickhouse_run(link, insert_sql, rows, true, NULL, &why);
    if (status == RS_NOTFOUND) {
        status = clickhouse_run(link, create_sql, NULL, true, NULL, &why);
        if (status == RS_OK)
            status = clickhouse_run(link, insert_sql, rows, true, NULL, &why);
    }
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "%s", why.text);
}

enum rs_status rs_fleet_put_captures(struct rs_row_place *place,
                                     const struct rs_fleet_capture *captures, size_t count,
                                     struct rs_err *err)
{
    struct rs_buf rows = {0};
    for (size_t i = 0; i < count; i++)
        fleet_captures_put(&captures[i], &rows);
    enum rs_status status = rows.failed ? no_memory(err) : RS_OK;
    if (status == RS_OK && count)
        status = row_place_use(place, send_rows, &rows, err);
    rs_buf_fini(&rows);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

/* At *at_p of the bytes, which it goes on behind. False: there is no whole one. */
static bool take_number(const struct rs_buf *bytes, size_t *at_p, int64_t *number_p)
{
    struct rs_view view = rs_view_of(bytes->data + *at_p, bytes->length - *at_p);
    const uint64_t number = rs_view_u64(&view);
    *number_p = (int64_t)number;
    *at_p = bytes->length - view.length;
    return !view.failed;
}

static bool take_bytes(struct rs_buf *bytes, size_t *at_p, struct rs_view *text_p)
{
    struct rs_view view = rs_view_of(bytes->data + *at_p, bytes->length - *at_p);
    const uint64_t length = rs_view_varint(&view);
    if (view.failed || length > view.length)
        return false;
    uint8_t *begin = bytes->data + (bytes->length - view.length);
    memmove(begin - 1, begin, (size_t)length);
    begin[(ptrdiff_t)length - 1] = '\0';
    *text_p = rs_view_of(begin - 1, (size_t)length);
    *at_p = bytes->length - view.length + (size_t)length;
    return true;
}

static bool take_text(struct rs_buf *bytes, size_t *at_p, const char **text_p)
{
    struct rs_view text;
    if (!take_bytes(bytes, at_p, &text))
        return false;
    *text_p = (const char *)text.data;
    return true;
}

static bool take_row(struct rs_buf *bytes, size_t *at_p, struct rs_fleet_capture *capture)
{
    int64_t is_removed = 0, rows = 0;
    *capture = (struct rs_fleet_capture){.id = ""};
    const bool is_whole =
        take_number(bytes, at_p, &capture->version) && take_number(bytes, at_p, &is_removed) &&
        take_number(bytes, at_p, &capture->created_ns) &&
        take_number(bytes, at_p, &capture->closed_ns) &&
        take_number(bytes, at_p, &capture->world) &&
        take_number(bytes, at_p, &capture->rank_count) && take_number(bytes, at_p, &rows) &&
        take_text(bytes, at_p, &capture->id) && take_text(bytes, at_p, &capture->aggregator) &&
        take_text(bytes, at_p, &capture->mark) && take_text(bytes, at_p, &capture->run) &&
        take_text(bytes, at_p, &capture->owner) && take_text(bytes, at_p, &capture->state) &&
        take_text(bytes, at_p, &capture->reason) && take_text(bytes, at_p, &capture->source) &&
        take_text(bytes, at_p, &capture->notes) && take_bytes(bytes, at_p, &capture->head) &&
        take_bytes(bytes, at_p, &capture->info);
    capture->is_removed = is_removed != 0;
    capture->rows = rows == RS_FLEET_ROWS_WHOLE    ? RS_FLEET_ROWS_WHOLE
                    : rows == RS_FLEET_ROWS_SO_FAR ? RS_FLEET_ROWS_SO_FAR
                                                   : RS_FLEET_ROWS_NONE;
    return is_whole;
}

enum rs_status fleet_captures_take(struct rs_fleet_captures *captures, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t at = 0; status == RS_OK && at < captures->bytes.length;) {
        if (rs_mem_grow((void **)&captures->items, &captures->capacity, captures->count + 1,
                        sizeof *captures->items) < 0)
            status = no_memory(err);
        else if (take_row(&captures->bytes, &at, &captures->items[captures->count]))
            captures->count++;
        else
            status = rs_err_set(err, RS_FORMAT,
                                "the table catalogue answers with something else than captures");
    }
    return status;
}

struct question {
    const struct rs_buf *sql;
    struct rs_buf *answer;
};

static enum rs_status ask(void *self, struct clickhouse_link *link, struct rs_err *err)
{
    const struct question *question = self;
    struct rs_err why = {0};
    const enum rs_status status =
        clickhouse_run(link, (const char *)question->sql->data, NULL, true, question->answer, &why);
    if (status == RS_NOTFOUND) { /* nobody has written yet */
        rs_buf_reset(question->answer);
        return RS_OK;
    }
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "%s", why.text);
}

/* The newest row of each capture that `where` chooses; `texts` are the columns behind the numbers. */
static enum rs_status read_rows(struct rs_row_place *place, const char *columns, const char *where,
                                struct rs_fleet_captures *captures_p, struct rs_err *err)
{
    struct rs_fleet_captures captures = {.count = 0};
    struct rs_buf sql = {0};
    const struct question question = {&sql, &captures.bytes};
    rs_buf_printf(&sql,
                  "SELECT %s FROM catalogue WHERE %s AND (id, aggregator, version) IN "
                  "(SELECT id, aggregator, max(version) FROM catalogue WHERE %s "
                  "GROUP BY id, aggregator) ORDER BY created_ns, id, aggregator "
                  "LIMIT 1 BY id, aggregator FORMAT RowBinary",
                  columns, where, where);
    (void)rs_buf_text(&sql);
    union {
        const struct question *in;
        void *out;
    } self = {.in = &question};
    enum rs_status status = sql.failed ? no_memory(err) : RS_OK;
    if (status == RS_OK)
        status = row_place_use(place, ask, self.out, err);
    rs_buf_fini(&sql);
    if (status == RS_OK)
        status = fleet_captures_take(&captures, err);
    if (status == RS_OK)
        *captures_p = captures;
    else
        rs_fleet_captures_fini(&captures);
    return status;
}

enum rs_status rs_fleet_marks(struct rs_row_place *place, const char *aggregator,
                              struct rs_fleet_captures *captures_p, struct rs_err *err)
{
    char where[96];
    (void)snprintf(where, sizeof where, "aggregator = '%.16s'", aggregator);
    return read_rows(place,
                     NUMBERS ", id, aggregator, mark, '' AS run_, '' AS owner_, '' AS state_, "
                             "'' AS reason_, '' AS source_, '' AS notes_, '' AS head_, "
                             "'' AS info_",
                     where, captures_p, err);
}

static void leave_removed_out(struct rs_fleet_captures *captures)
{
    size_t kept = 0;
    for (size_t i = 0; i < captures->count; i++)
        if (!captures->items[i].is_removed)
            captures->items[kept++] = captures->items[i];
    captures->count = kept;
}

enum rs_status rs_fleet_heads(struct rs_row_place *place, const char *aggregator,
                              struct rs_fleet_captures *captures_p, struct rs_err *err)
{
    char where[96];
    (void)snprintf(where, sizeof where, "aggregator != '%.16s'", aggregator);
    const enum rs_status status = read_rows(
        place, NUMBERS ", " TEXTS ", '' AS notes_, head, '' AS info_", where, captures_p, err);
    if (status == RS_OK)
        leave_removed_out(captures_p);
    return status;
}

enum rs_status rs_fleet_find_all(struct rs_row_place *place, const char *id, const char *aggregator,
                                 struct rs_fleet_captures *captures_p, struct rs_err *err)
{
    char where[192];
    /* A name of a capture has nothing that means something between quotes (rs_wire_is_capture_id()): the caller has looked. */
    (void)snprintf(where, sizeof where, "aggregator != '%.16s' AND id = '%.63s'", aggregator, id);
    return read_rows(place, NUMBERS ", " TEXTS ", notes, head, info", where, captures_p, err);
}

enum rs_status rs_fleet_find(struct rs_row_place *place, const char *id, const char *aggregator,
                             struct rs_fleet_captures *captures_p, struct rs_err *err)
{
    const enum rs_status status = rs_fleet_find_all(place, id, aggregator, captures_p, err);
    if (status != RS_OK)
        return status;
    leave_removed_out(captures_p);
    if (captures_p->count)
        return RS_OK;
    rs_fleet_captures_fini(captures_p);
    return rs_err_set(err, RS_NOTFOUND, "no aggregator has a capture %.63s", id);
}
