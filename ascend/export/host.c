/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host did.
 *
 *   operators, annotations, Python frames  -> PYTORCH_API; its connectionId is the profiler's "External id", which
 *                                             launches carry too: CONNECTION_IDS says which they are
 *   runtime and driver calls               -> CANN_API, connectionId = correlation; those that launched device work are
 *                                             "node" calls, as the window of a step asks for them
 *   native ranges and marks                -> MSTX_EVENTS
 */
#include "ascend/export/export_priv.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { API_RUNTIME = 5000, API_NODE = 10000, API_OP = 50001, API_QUEUE = 50002, API_MSTX = 50004 };
#define CONNECTION_MAX (INT64_C(1) << 62)

enum rs_status no_room(enum rs_status status, struct rs_err *err)
{
    return status == RS_OK
               ? RS_OK
               : rs_err_set(err, status, "no memory to export a rank: %s", rs_status_text(status));
}

/* ---- members of extra ---- */

/* Behind a value: the comma or the end that closes it. Strings and brackets hold commas of their own. */
static size_t value_length(const char *text, size_t length)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        in_string = c == '"';
        if (c == '[' || c == '{')
            depth++;
        if ((c == ']' || c == '}') && depth)
            depth--;
        if (!depth && (c == ',' || c == '\n'))
            return i;
    }
    return length;
}

bool extra_find(const struct rs_batch *batch, size_t at, const char *key, const char **value_p,
                size_t *length_p)
{
    const char *text = batch->extra + batch->extra_offset[at];
    size_t left = batch->extra_length[at];
    const size_t key_length = strlen(key);
    while (left) {
        if (strchr(" ,\n\t\r", *text)) { /* a NUL counts too */
            text++;
            left--;
            continue;
        }
        if (left < key_length + 3 || *text != '"')
            break;
        const bool is_key = memcmp(text + 1, key, key_length) == 0 && text[key_length + 1] == '"';
        const size_t member = value_length(text, left);
        if (is_key) {
            const char *colon = memchr(text + key_length + 2, ':', member - key_length - 2);
            if (!colon)
                return false;
            for (colon++; colon < text + member && *colon == ' ';)
                colon++;
            *value_p = colon;
            *length_p = (size_t)(text + member - colon);
            return *length_p > 0;
        }
        text += member;
        left -= member;
    }
    return false;
}

bool extra_int(const struct rs_batch *batch, size_t at, const char *key, int64_t *value_p)
{
    const char *text;
    size_t length;
    char digits[24];
    if (!extra_find(batch, at, key, &text, &length) || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    char *end;
    const long long value = strtoll(digits, &end, 10);
    if (end == digits || (*end && *end != ' '))
        return false;
    *value_p = value;
    return true;
}

bool extra_text(const struct rs_batch *batch, size_t at, const char *key, struct rs_buf *text)
{
    const char *value;
    size_t length;
    rs_buf_reset(text);
    if (!extra_find(batch, at, key, &value, &length) || *value != '"')
        return false;
    json_t *json = json_loadb(value, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const bool is_known = json_is_string(json);
    if (is_known)
        rs_buf_bytes(text, json_string_value(json), json_string_length(json));
    json_decref(json);
    return is_known;
}

/* ---- operators ---- */

int64_t global_tid(const struct rs_export_ascend *e, uint32_t lane)
{
    const struct rs_lane *own = &e->lanes->items[lane];
    const bool has_pid = own->process >= 0 && own->process <= INT32_MAX;
    const bool has_tid = own->thread >= 0 && own->thread <= UINT32_MAX;
    const uint64_t pid = has_pid ? (uint64_t)own->process : 0;
    return (int64_t)(pid << 32 | (has_tid ? (uint64_t)own->thread : lane));
}

/* [[2, 3], [4]] -> "2,3;\r\n4", ["float", "Scalar"] -> "float;\r\nScalar": the vendor's way. */
static void put_inputs(struct rs_buf *buf, const char *json, size_t length)
{
    unsigned depth = 0;
    for (size_t i = 0; i < length; i++) {
        const char c = json[i];
        depth += c == '[';
        depth -= c == ']' && depth;
        if (c == ',' && depth == 1)
            rs_buf_string(buf, ";\r\n");
        else if (!strchr("[]\" ", c))
            rs_buf_u8(buf, (uint8_t)c);
    }
}

static enum rs_status inputs_id(struct rs_export_ascend *e, rs_str json, int64_t *id_p,
                                struct rs_err *err)
{
    struct rs_buf buf = {0};
    *id_p = -1;
    if (json == RS_STR_NONE || json == RS_STR_EMPTY)
        return RS_OK;
    put_inputs(&buf, text_of(e, json), rs_strtab_length(e->strings, json));
    enum rs_status status = buf.failed ? no_room(RS_NOMEM, err) : RS_OK;
    if (status == RS_OK && buf.length)
        status = string_id(e, SPACE_HOST, (const char *)buf.data, buf.length, id_p, err);
    rs_buf_fini(&buf);
    return status;
}

/* As an Ascend profiler wrote them, where the row's own column says nothing. */
static enum rs_status inputs_of_extra(struct rs_export_ascend *e, const struct rs_batch *batch,
                                      size_t at, const char *key, int64_t *id_p, struct rs_err *err)
{
    struct rs_buf text = {0};
    enum rs_status status = RS_OK;
    if (*id_p < 0 && extra_text(batch, at, key, &text))
        status = text.failed
                     ? no_room(RS_NOMEM, err)
                     : string_id(e, SPACE_HOST, (const char *)text.data, text.length, id_p, err);
    rs_buf_fini(&text);
    return status;
}

static enum rs_status chain_of_extra(struct rs_export_ascend *e, const struct rs_batch *batch,
                                     size_t at, int64_t *chain_p, struct rs_err *err)
{
    struct rs_buf text = {0};
    enum rs_status status = RS_OK;
    if (*chain_p < 0 && extra_text(batch, at, "Call stack", &text))
        status = text.failed
                     ? no_room(RS_NOMEM, err)
                     : chains_of_text(e, (const char *)text.data, text.length, chain_p, err);
    rs_buf_fini(&text);
    return status;
}

struct operator_row {
    rs_ns start, end;
    int64_t global_tid, connection, name, sequence, forward, dtypes, shapes, chain, type;
};

static enum rs_status put_operator(struct rs_export_ascend *e, const struct operator_row *own,
                                   struct rs_err *err)
{
    struct db_row row = db_row_begin(&e->rows, T_PYTORCH_API);
    db_row_int(&row, epoch_ns(e, own->start), true);
    db_row_int(&row, epoch_ns(e, own->end), true);
    db_row_int(&row, own->global_tid, true);
    db_row_int(&row, own->connection, own->connection >= 0);
    db_row_int(&row, own->name, true);
    db_row_int(&row, own->sequence, own->type == API_OP);
    db_row_int(&row, own->forward, own->type == API_OP);
    db_row_int(&row, own->dtypes, own->dtypes >= 0);
    db_row_int(&row, own->shapes, own->shapes >= 0);
    db_row_int(&row, own->chain, own->chain >= 0);
    db_row_int(&row, own->type, true);
    e->result.host_rows++;
    return db_row_end(&e->rows, &row, err);
}

static void note_process(struct rs_export_ascend *e, uint32_t lane)
{
    const struct rs_lane *own = &e->lanes->items[lane];
    if (e->main_process < 0 && own->kind == RS_LANE_HOST && own->process > 0 &&
        own->process <= INT32_MAX)
        e->main_process = own->process;
}

enum rs_status host_operator(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                             int64_t type, struct rs_err *err)
{
    struct operator_row row = {.start = batch->start[at],
                               .end = batch->end[at],
                               .global_tid = global_tid(e, batch->lane[at]),
                               .connection = batch->external_id[at],
                               .sequence = -1,
                               .dtypes = -1,
                               .shapes = -1,
                               .chain = -1,
                               .type = type};
    note_process(e, batch->lane[at]);
    if (row.connection < 0)
        (void)extra_int(batch, at, "connectionId", &row.connection);
    (void)extra_int(batch, at, "callchainId", &row.chain);
    (void)extra_int(batch, at, "Sequence number", &row.sequence);
    (void)extra_int(batch, at, "Fwd thread id", &row.forward);
    enum rs_status status = stream_id(e, SPACE_HOST, batch->name[at], &row.name, err);
    if (status == RS_OK)
        status = inputs_id(e, batch->input_types[at], &row.dtypes, err);
    if (status == RS_OK)
        status = inputs_id(e, batch->input_dims[at], &row.shapes, err);
    if (status == RS_OK)
        status = inputs_of_extra(e, batch, at, "Input type", &row.dtypes, err);
    if (status == RS_OK)
        status = inputs_of_extra(e, batch, at, "Input Dims", &row.shapes, err);
    if (status == RS_OK)
        status = chain_of_extra(e, batch, at, &row.chain, err);
    if (status == RS_OK)
        status = put_operator(e, &row, err);
    if (status == RS_OK && type == API_OP && !e->has_device_work) {
        status = no_room(rs_mem_grow((void **)&e->host_ops.items, &e->host_ops.capacity,
                                     e->host_ops.count + 1, sizeof *e->host_ops.items),
                         err);
        if (status == RS_OK)
            e->host_ops.items[e->host_ops.count++] =
                (struct host_op){row.start, row.end, batch->lane[at], batch->name[at]};
    }
    return status;
}

/* Of an Ascend profiler's rows of the framework those that are no operators: calls on their way through its queue. */
enum rs_status host_other(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                          struct rs_err *err)
{
    static const struct {
        const char *category;
        int64_t type;
    } types[] = {
        {"queue", API_QUEUE}, {"enqueue", API_QUEUE}, {"dequeue", API_QUEUE}, {"mstx", API_MSTX}};
    const rs_str category = batch->category[at];
    for (size_t i = 0; i < sizeof types / sizeof types[0] && category != RS_STR_NONE; i++)
        if (strcmp(text_of(e, category), types[i].category) == 0)
            return host_operator(e, batch, at, types[i].type, err);
    return RS_OK;
}

/* A native step has the name that readers look for. */
enum rs_status host_step(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                         struct rs_err *err)
{
    char name[48];
    struct operator_row row = {.start = batch->start[at],
                               .end = batch->end[at],
                               .global_tid = global_tid(e, batch->lane[at]),
                               .connection = -1,
                               .sequence = -1,
                               .dtypes = -1,
                               .shapes = -1,
                               .chain = -1,
                               .type = API_OP};
    note_process(e, batch->lane[at]);
    (void)snprintf(name, sizeof name, "ProfilerStep#%" PRId64, batch->correlation[at]);
    const enum rs_status status = text_id(e, SPACE_HOST, name, &row.name, err);
    return status == RS_OK ? put_operator(e, &row, err) : status;
}

/* ---- API calls ---- */

static enum rs_status put_api(struct rs_export_ascend *e, const struct loose_api *api,
                              int64_t connection, struct rs_err *err)
{
    struct db_row row = db_row_begin(&e->rows, T_CANN_API);
    db_row_int(&row, epoch_ns(e, api->start), true);
    db_row_int(&row, epoch_ns(e, api->end), true);
    db_row_int(&row, api->type, true);
    db_row_int(&row, api->global_tid, true);
    db_row_int(&row, connection, connection >= 0);
    db_row_int(&row, api->name, true);
    return db_row_end(&e->rows, &row, err);
}

/* An Ascend rank's calls keep their layer. */
static int64_t api_type(const char *category)
{
    static const struct {
        const char *name;
        int64_t type;
    } layers[] = {{"node", API_NODE}, {"acl", 20000},          {"model", 15000},
                  {"hccl", 5500},     {"communication", 5500}, {"runtime", API_RUNTIME}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        if (strcasecmp(category, layers[i].name) == 0)
            return layers[i].type;
    return API_RUNTIME;
}

static enum rs_status connect(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                              const struct loose_api *api, struct rs_err *err)
{
    const int64_t connection = batch->correlation[at], op = batch->external_id[at];
    enum rs_status status = RS_OK;
    if (api->type == API_RUNTIME || api->type == API_NODE) {
        status = no_room(rs_mem_grow((void **)&e->launches.items, &e->launches.capacity,
                                     e->launches.count + 1, sizeof *e->launches.items),
                         err);
        if (status == RS_OK)
            e->launches.items[e->launches.count++] =
                (struct launch){connection, api->start, api->end};
    }
    if (status != RS_OK || op < 0)
        return status;
    struct db_row row = db_row_begin(&e->rows, T_CONNECTION_IDS);
    db_row_int(&row, op, true);
    db_row_int(&row, connection, true);
    return db_row_end(&e->rows, &row, err);
}

/* Connections are a key: a second call of one id, or one without, gets a number of its own at the end. */
enum rs_status host_api(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                        struct rs_err *err)
{
    const int64_t connection = batch->correlation[at];
    struct loose_api api = {.start = batch->start[at],
                            .end = batch->end[at],
                            .type = api_type(text_of(e, batch->category[at])),
                            .global_tid = global_tid(e, batch->lane[at])};
    note_process(e, batch->lane[at]);
    e->result.api_rows++;
    enum rs_status status = stream_id(e, SPACE_DEVICE, batch->name[at], &api.name, err);
    if (status == RS_OK && connection >= 0 && connection < CONNECTION_MAX) {
        status = put_api(e, &api, connection, err);
        if (status == RS_OK) {
            if (connection >= e->next_connection)
                e->next_connection = connection + 1;
            return connect(e, batch, at, &api, err);
        }
        if (status == RS_EXISTS)
            status = RS_OK;
    }
    if (status == RS_OK)
        status = no_room(rs_mem_grow((void **)&e->loose.items, &e->loose.capacity,
                                     e->loose.count + 1, sizeof *e->loose.items),
                         err);
    if (status == RS_OK)
        e->loose.items[e->loose.count++] = api;
    return status;
}

enum rs_status host_bound_api(struct rs_export_ascend *e, rs_ns instant, int64_t connection,
                              struct rs_err *err)
{
    struct loose_api api = {.start = instant, .end = instant, .type = API_NODE};
    const enum rs_status status = text_id(e, SPACE_DEVICE, STEP_CALL, &api.name, err);
    return status == RS_OK ? put_api(e, &api, connection, err) : status;
}

/* ---- marks ---- */

enum rs_status host_mark(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                         struct rs_err *err)
{
    struct rs_buf text = {0};
    int64_t message, domain, end_tid = global_tid(e, batch->lane[at]);
    const int64_t tid = end_tid;
    int64_t type = batch->kind[at] == RS_KIND_RANGE ? 1 : 0; /* push/pop, marker */
    int64_t range = NO_STRING, category = NO_STRING, connection = NO_STRING;
    note_process(e, batch->lane[at]);
    (void)extra_int(batch, at, "eventType", &type);
    (void)extra_int(batch, at, "rangeId", &range);
    (void)extra_int(batch, at, "category", &category);
    (void)extra_int(batch, at, "endGlobalTid", &end_tid);
    (void)extra_int(batch, at, "connectionId", &connection);
    enum rs_status status = stream_id(e, SPACE_DEVICE, batch->name[at], &message, err);
    if (status == RS_OK)
        status = text_id(e, SPACE_DEVICE,
                         extra_text(batch, at, "domain", &text) ? rs_buf_text(&text) : "default",
                         &domain, err);
    rs_buf_fini(&text);
    if (status != RS_OK)
        return status;
    struct db_row row = db_row_begin(&e->rows, T_MSTX);
    db_row_int(&row, epoch_ns(e, batch->start[at]), true);
    db_row_int(&row, epoch_ns(e, batch->end[at]), true);
    db_row_int(&row, type, true);
    db_row_int(&row, range, true);
    db_row_int(&row, category, true);
    db_row_int(&row, message, true);
    db_row_int(&row, tid, true);
    db_row_int(&row, end_tid, true);
    db_row_int(&row, domain, true);
    db_row_int(&row, connection, true);
    return db_row_end(&e->rows, &row, err);
}

/* ---- counters ---- */

/* A program's own, and the samples of its host. Each always has a value. What a profiler counted itself has its own tables. */
enum rs_status host_counter(struct rs_export_ascend *e, const struct rs_batch *batch, size_t at,
                            struct rs_err *err)
{
    const rs_str category = batch->category[at];
    const bool is_ours = category == RS_STR_NONE
                             ? !batch->phase[at] && !batch->extra_length[at]
                             : strcmp(rs_strtab_text(batch->strings, category), "host_sys") == 0;
    int64_t name;
    if (!is_ours || batch->flags[at] & RS_EVENT_NO_TIME)
        return RS_OK;
    const enum rs_status status = stream_id(e, SPACE_DEVICE, batch->name[at], &name, err);
    if (status != RS_OK)
        return status;
    struct db_row row = db_row_begin(&e->rows, T_COUNTER);
    db_row_int(&row, name, true);
    db_row_int(&row, epoch_ns(e, batch->start[at]), true);
    db_row_int(&row, batch->bytes[at], true);
    return db_row_end(&e->rows, &row, err);
}

/* ---- the end ---- */

static enum rs_status put_steps(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const struct rs_summary *own = &e->own;
    for (size_t i = 0; i < own->step_count && status == RS_OK; i++) {
        const struct rs_step_row *step = &own->steps[i];
        if (own->step_origin == RS_STEPS_NONE || step->step < 0 ||
            (i && own->steps[i - 1].step == step->step))
            continue;
        struct db_row row = db_row_begin(&e->rows, T_STEP_TIME);
        db_row_int(&row, step->step, true);
        db_row_int(&row, step->host_start, true);
        db_row_int(&row, step->host_end, true);
        status = db_row_end(&e->rows, &row, err);
    }
    return status;
}

enum rs_status host_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = put_steps(e, err);
    for (size_t i = 0; i < e->loose.count && status == RS_OK; i++)
        status = put_api(e, &e->loose.items[i], e->next_connection++, err);
    if (status != RS_OK)
        return status;
    status = db_run(&e->rows,
                    "UPDATE CANN_API SET type = 10000 WHERE type = 5000 AND connectionId IN "
                    "(SELECT connectionId FROM TASK WHERE connectionId <> 4294967295);",
                    err);
    /* the vendor's own also connect operators with each other */
    if (status != RS_OK || kept_has(e, "CONNECTION_IDS"))
        return status;
    return db_run(&e->rows,
                  "DELETE FROM CONNECTION_IDS WHERE connectionId NOT IN "
                  "(SELECT connectionId FROM TASK WHERE connectionId <> 4294967295);"
                  "UPDATE PYTORCH_API SET connectionId = NULL WHERE connectionId IS NOT NULL AND "
                  "connectionId NOT IN (SELECT id FROM CONNECTION_IDS);",
                  err);
}
