/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communication: COMMUNICATION_OP has a row per operation of the summary, so that whoever joins ranks finds what our own
 * analysis joined. Names, groups and their hashes are those of the rank's communication.json.
 *
 *     operation of two kernels with a gap      [====]   [=====]      two rows of one name: Communication is the
 *                                                                    union of kernels, and it stays that
 *     kernels that touch                       [====][=====]         one row
 *
 * Hops (native ranks, Ascend ranks) become COMMUNICATION_TASK_INFO with a task each; ends are ranks within the group,
 * as the vendor has them. A link's make that the vendor's enum does not know gets a number from
 * OWN_ENUM_FIRST on; the element type BYTE says that only the size of a message is known.
 */
#include "aggregator/output/rank.h"
#include "ascend/export/export_priv.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_ENUM_FIRST = 60000, BYTE_TYPE = OWN_ENUM_FIRST, OWN_LINKS_MAX = 64, NONE_TYPE = 65534 };
enum { INVALID_TYPE = 65535, LINK_ROCE = 3 };

struct op_name {
    size_t op; /* in the analysis */
    int64_t name, group;
    bool is_named;
};

struct op_ref {
    rs_ns start, end; /* of the epoch */
    int64_t stream;
    uint32_t own;
    int32_t device;
};

struct piece_ref {
    uint32_t own, piece;
    rs_ns start;
};

struct comm_writer {
    struct rs_export_ascend *e;
    struct op_name *names;    /* [op_count] of the analysis' summary */
    uint32_t *joined;         /* [own.op_count] index into them */
    struct op_ref *refs;      /* [own.op_count] by (device, start) */
    struct piece_ref *pieces; /* by (operation, start) */
    size_t piece_count;
    rs_str links[OWN_LINKS_MAX]; /* of own.strings */
    size_t link_count;
    int64_t next_op;
    bool has_bytes; /* BYTE was used */
};

/* ---- names ---- */

static enum rs_status take_name(void *self, const struct rs_output_rank_op *op, struct rs_err *err)
{
    struct comm_writer *w = self;
    const struct rs_analysis *analysis = w->e->options.analysis;
    const struct rs_job_op *job_op = &analysis->ops[op->op_id];
    const struct rs_job_row *row = &analysis->rows[job_op->row_first + (size_t)op->member_no];
    struct op_name *own = &w->names[row->op_index];
    own->op = (size_t)op->op_id;
    own->is_named = true;
    const enum rs_status status = text_id(w->e, SPACE_DEVICE, op->name, &own->name, err);
    return status == RS_OK
               ? text_id(w->e, SPACE_DEVICE, *op->group ? op->group : "N/A", &own->group, err)
               : status;
}

static bool is_one_op(const struct rs_comm_op *a, const struct rs_comm_op *b)
{
    return a->start == b->start && a->end == b->end && a->type == b->type &&
           a->call_start == b->call_start && a->stream == b->stream;
}

/* Operations of this recording among those of the rank, which may have several recordings: both are in
 * order of their calls. */
static void join_ops(struct comm_writer *w)
{
    const struct rs_export_ascend *e = w->e;
    const struct rs_summary *all = e->options.analysis->summaries[e->options.summary];
    size_t at = 0;
    for (size_t i = 0; i < e->own.op_count; i++) {
        size_t next = at;
        while (next < all->op_count && !is_one_op(&e->own.ops[i], &all->ops[next]))
            next++;
        w->joined[i] = next < all->op_count ? (uint32_t)next : UINT32_MAX;
        at = next < all->op_count ? next + 1 : at;
    }
}

static enum rs_status learn_names(struct comm_writer *w, struct rs_err *err)
{
    const struct rs_export_options *options = &w->e->options;
    const struct rs_summary *all = options->analysis->summaries[options->summary];
    w->names = rs_mem_calloc(all->op_count + 1, sizeof *w->names);
    w->joined = rs_mem_calloc(w->e->own.op_count + 1, sizeof *w->joined);
    if (!w->names || !w->joined)
        return no_room(RS_NOMEM, err);
    join_ops(w);
    return rs_output_rank_ops(options->rows, w->e->rank, take_name, w, err);
}

static const struct op_name *name_of(const struct comm_writer *w, uint32_t own)
{
    const uint32_t at = w->joined[own];
    return at != UINT32_MAX && w->names[at].is_named ? &w->names[at] : NULL;
}

static const struct rs_job_op *job_op_of(const struct comm_writer *w, uint32_t own)
{
    const struct op_name *name = name_of(w, own);
    return name ? &w->e->options.analysis->ops[name->op] : NULL;
}

static const struct rs_job_group *group_of(const struct comm_writer *w, uint32_t own)
{
    const struct rs_job_op *op = job_op_of(w, own);
    return op && op->group != RS_NO_GROUP ? &w->e->options.analysis->groups[op->group] : NULL;
}

/* ---- which kernels an operation is made of ---- */

static int by_device_start(const void *a_, const void *b_)
{
    const struct op_ref *a = a_, *b = b_;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->own > b->own) - (a->own < b->own);
}

static int by_op_start(const void *a_, const void *b_)
{
    const struct piece_ref *a = a_, *b = b_;
    if (a->own != b->own)
        return a->own < b->own ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

/* The operation around a kernel: on its stream if there is one, else the latest to start. */
static uint32_t op_around(const struct comm_writer *w, const struct comm_piece *piece, rs_ns start)
{
    enum { LOOK_BACK = 256 };
    size_t low = 0, high = w->e->own.op_count;
    uint32_t found = UINT32_MAX;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct op_ref *ref = &w->refs[middle];
        if (ref->device < piece->device || (ref->device == piece->device && ref->start <= start))
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = 0; i < LOOK_BACK && i < low; i++) {
        const struct op_ref *ref = &w->refs[low - 1 - i];
        if (ref->device != piece->device)
            break;
        if (start > ref->end)
            continue;
        if (ref->stream == piece->stream)
            return ref->own;
        if (found == UINT32_MAX)
            found = ref->own;
    }
    return found;
}

static enum rs_status find_pieces(struct comm_writer *w, struct rs_err *err)
{
    const struct rs_export_ascend *e = w->e;
    w->refs = rs_mem_calloc(e->own.op_count + 1, sizeof *w->refs);
    w->pieces = rs_mem_calloc(e->pieces.count + 1, sizeof *w->pieces);
    if (!w->refs || !w->pieces)
        return no_room(RS_NOMEM, err);
    for (size_t i = 0; i < e->own.op_count; i++) {
        const struct rs_comm_op *op = &e->own.ops[i];
        w->refs[i] = (struct op_ref){op->start, op->end, op->stream, (uint32_t)i, op->device};
    }
    if (e->own.op_count)
        qsort(w->refs, e->own.op_count, sizeof *w->refs, by_device_start);
    for (size_t i = 0; i < e->pieces.count; i++) {
        const rs_ns start = epoch_ns(e, e->pieces.items[i].start);
        const uint32_t own = op_around(w, &e->pieces.items[i], start);
        if (own != UINT32_MAX)
            w->pieces[w->piece_count++] = (struct piece_ref){own, (uint32_t)i, start};
    }
    if (w->piece_count)
        qsort(w->pieces, w->piece_count, sizeof *w->pieces, by_op_start);
    return RS_OK;
}

/* ---- COMMUNICATION_OP ---- */

static int64_t data_type_of(const char *c10)
{
    static const struct {
        const char *name;
        int64_t id;
    } types[] = {{"Char", 0},   {"Short", 1},          {"Int", 2},          {"Half", 3},
                 {"Float", 4},  {"Long", 5},           {"UInt64", 6},       {"Byte", 7},
                 {"UInt16", 8}, {"UInt32", 9},         {"Double", 10},      {"BFloat16", 11},
                 {"Bool", 7},   {"Float8_e4m3fn", 15}, {"Float8_e5m2", 16}, {"Float8_e8m0fnu", 17}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(c10, types[i].name) == 0)
            return types[i].id;
    return -1;
}

/* What HCCL counts of an operation: what a rank gives; what it gets of a reduce_scatter and a receive. */
static bool counts_output(uint8_t type)
{
    return type == RS_OP_REDUCE_SCATTER || type == RS_OP_RECV;
}

/* From the size alone: bytes that a rank gives or gets; -1 unknown. */
static int64_t count_bytes(const struct rs_comm_op *op, int64_t ranks)
{
    if (op->bytes < 0)
        return -1;
    if (op->type == RS_OP_ALL_GATHER || op->type == RS_OP_REDUCE_SCATTER)
        return ranks > 0 && op->bytes % ranks == 0 ? op->bytes / ranks : -1;
    return op->bytes;
}

struct op_row {
    uint32_t own;
    rs_ns start, end;
    int64_t connection, type, count;
};

static void set_message(struct comm_writer *w, struct op_row *row, const struct comm_piece *piece,
                        int64_t ranks)
{
    const struct rs_comm_op *op = &w->e->own.ops[row->own];
    row->type = NONE_TYPE;
    row->count = -1;
    if (piece && piece->dtype != RS_STR_NONE) {
        const int64_t elements = counts_output(op->type) ? piece->out_nelems : piece->in_nelems;
        const int64_t type = data_type_of(text_of(w->e, piece->dtype));
        if (type >= 0 && elements >= 0) {
            row->type = type;
            row->count = elements;
            return;
        }
    }
    row->count = count_bytes(op, ranks);
    if (row->count >= 0) {
        row->type = BYTE_TYPE;
        w->has_bytes = true;
    }
}

/* "hcom_allReduce_" of "hcom_allReduce__586_0_1". */
static enum rs_status op_kind(struct comm_writer *w, const struct op_name *name, int64_t *id_p,
                              struct rs_err *err)
{
    const char *text =
        name ? rs_strtab_text(&w->e->texts[SPACE_DEVICE], (rs_str)name->name) : "hcom_unknown_";
    const char *end = strstr(text, "__");
    return string_id(w->e, SPACE_DEVICE, text, end ? (size_t)(end + 1 - text) : strlen(text), id_p,
                     err);
}

static enum rs_status put_op(struct comm_writer *w, const struct op_row *own, int64_t *id_p,
                             struct rs_err *err)
{
    struct rs_export_ascend *e = w->e;
    const struct op_name *name = name_of(w, own->own);
    const struct rs_job_op *job = job_op_of(w, own->own);
    const struct rs_comm_op *op = &e->own.ops[own->own];
    int64_t kind, none, unnamed;
    enum rs_status status = op_kind(w, name, &kind, err);
    if (status == RS_OK)
        status = text_id(e, SPACE_DEVICE, "N/A", &none, err);
    if (status == RS_OK)
        status = text_id(e, SPACE_DEVICE, "hcom_unknown", &unnamed, err);
    if (status != RS_OK)
        return status;
    *id_p = w->next_op++;
    struct db_row row = db_row_begin(&e->rows, T_COMM_OP);
    db_row_int(&row, name ? name->name : unnamed, true);
    db_row_int(&row, own->start, true);
    db_row_int(&row, own->end, true);
    db_row_int(&row, own->connection >= 0 ? own->connection : RS_EXPORT_NO_CONNECTION, true);
    db_row_int(&row, name ? name->group : none, true);
    db_row_int(&row, *id_p, true);
    db_row_int(&row, 0, true); /* relay, retry */
    db_row_int(&row, 0, true);
    db_row_int(&row, own->type, true);
    db_row_int(&row, none, true); /* algType */
    db_row_int(&row, own->count, own->count >= 0);
    db_row_int(&row, kind, true);
    db_row_int(&row, device_number(op->device), true);
    db_row_int(&row, job ? job->ranks_expected : -1, job && job->ranks_expected > 0);
    e->result.ops++;
    return db_row_end(&e->rows, &row, err);
}

/* The pieces [first, end) of one operation as rows: those that touch are one. */
static enum rs_status put_pieces(struct comm_writer *w, uint32_t own, size_t first, size_t end,
                                 int64_t *id_p, struct rs_err *err)
{
    const struct rs_export_ascend *e = w->e;
    const struct rs_comm_op *op = &e->own.ops[own];
    const struct rs_job_op *job = job_op_of(w, own);
    enum rs_status status = RS_OK;
    bool is_first = true;
    for (size_t i = first, next; i < end && status == RS_OK; i = next) {
        const struct comm_piece *piece = &e->pieces.items[w->pieces[i].piece];
        struct op_row row = {.own = own,
                             .start = w->pieces[i].start,
                             .end = epoch_ns(e, piece->end),
                             .connection = piece->correlation};
        for (next = i + 1; next < end && w->pieces[next].start <= row.end; next++) {
            const rs_ns more = epoch_ns(e, e->pieces.items[w->pieces[next].piece].end);
            row.end = more > row.end ? more : row.end;
        }
        row.end = row.end > op->end ? op->end : row.end; /* an unfinished one */
        set_message(w, &row, piece, job ? job->ranks_expected : -1);
        int64_t id;
        status = put_op(w, &row, &id, err);
        if (status == RS_OK && is_first)
            *id_p = id;
        is_first = false;
    }
    return status;
}

/* ---- COMMUNICATION_TASK_INFO ---- */

static int64_t rank_in_group(const struct rs_job_group *group, int32_t rank)
{
    for (size_t i = 0; group && group->ranks && i < group->rank_count; i++)
        if (group->ranks[i] == rank)
            return (int64_t)i;
    return NO_STRING;
}

struct link {
    int64_t transport, type;
};

static struct link link_of(struct comm_writer *w, rs_str transport)
{
    static const struct {
        const char *name;
        struct link link;
    } known[] = {{"HCCS", {0, 1}},         {"PCIE", {0, 2}}, {"SIO", {0, 4}},
                 {"UB", {3, 7}},           {"UBoE", {3, 8}}, {"RDMA", {1, LINK_ROCE}},
                 {"ROCE", {4, LINK_ROCE}}, {"LOCAL", {2, 0}}};
    const struct link none = {NONE_TYPE, NONE_TYPE};
    if (transport == RS_STR_NONE || transport == RS_STR_EMPTY)
        return none;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(rs_strtab_text(&w->e->own.strings, transport), known[i].name) == 0)
            return known[i].link;
    size_t at = 0;
    while (at < w->link_count && w->links[at] != transport)
        at++;
    if (at == OWN_LINKS_MAX)
        return none;
    w->links[at] = transport;
    w->link_count += at == w->link_count;
    return (struct link){NONE_TYPE, OWN_ENUM_FIRST + (int64_t)at};
}

/* A hop; its ends are ranks within the group. */
struct hop {
    int64_t src, dst, bytes;
    rs_ns start, end; /* of the epoch */
    rs_str transport; /* of own.strings */
    const char *kind; /* "Memcpy": moved bytes; "Notify_Wait": waited for the other end */
};

static enum rs_status put_hop(struct comm_writer *w, uint32_t own, int64_t op_id,
                              const struct hop *hop, struct rs_err *err)
{
    struct rs_export_ascend *e = w->e;
    const struct rs_comm_op *op = &e->own.ops[own];
    const struct op_name *name = name_of(w, own);
    const struct link link = link_of(w, hop->transport);
    const struct task task = {.start = hop->start - e->options.base_ns,
                              .end = hop->end - e->options.base_ns,
                              .device = op->device,
                              .connection = -1,
                              .stream = op->stream,
                              .type = "COMMUNICATION"};
    char rate[32];
    int64_t id, kind;
    enum rs_status status = put_task(e, &task, &id, err);
    if (status == RS_OK)
        status = text_id(e, SPACE_DEVICE, hop->kind, &kind, err);
    if (status != RS_OK || !name)
        return status;
    const rs_dur length = hop->end - hop->start;
    (void)snprintf(rate, sizeof rate, "%.17g",
                   length > 0 ? (double)hop->bytes / (double)length * 1e9 : 0);
    struct db_row row = db_row_begin(&e->rows, T_COMM_TASK);
    db_row_int(&row, name->name, true);
    db_row_int(&row, id, true);
    db_row_int(&row, kind, true);
    db_row_int(&row, 0, true); /* planeId */
    db_row_int(&row, name->group, true);
    db_row_int(&row, INT64_MAX, true); /* notifyId */
    db_row_int(&row, INVALID_TYPE, true);
    db_row_int(&row, hop->src, true);
    db_row_int(&row, hop->dst, true);
    db_row_int(&row, link.transport, true);
    db_row_int(&row, hop->bytes, true);
    db_row_int(&row, NONE_TYPE, true);
    db_row_int(&row, link.type, true);
    db_row_int(&row, op_id, true);
    db_row_int(&row, 1, true); /* isMaster */
    db_row_decimal(&row, rate, hop->bytes >= 0 && length > 0);
    return db_row_end(&e->rows, &row, err);
}

static enum rs_status put_task_hop(struct comm_writer *w, uint32_t own, int64_t op_id,
                                   const struct rs_comm_task *task, struct rs_err *err)
{
    const struct rs_job_group *group = group_of(w, own);
    const struct hop hop = {.src = rank_in_group(group, task->src),
                            .dst = rank_in_group(group, task->dst),
                            .bytes = task->bytes,
                            .start = task->start,
                            .end = task->end,
                            .transport = task->transport,
                            .kind = "Memcpy"};
    return put_hop(w, own, op_id, &hop, err);
}

/* How long the message itself took: the row's transfer, where the analysis knows it. */
static rs_dur transfer_of(const struct comm_writer *w, uint32_t own)
{
    const struct rs_export_options *options = &w->e->options;
    const struct rs_comm_op *op = &w->e->own.ops[own];
    const struct rs_job_op *job = job_op_of(w, own);
    for (size_t r = job ? job->row_first : 0; job && r < job->row_first + job->row_count; r++) {
        const struct rs_job_row *row = &options->analysis->rows[r];
        if (row->summary == options->summary && row->op_index == w->joined[own] && job->has_wait &&
            row->has_transfer)
            return row->transfer;
    }
    return op->end - op->start;
}

/* A send or receive without hops is one itself: its other end is in the tables only so. What it waited for the other end
 * comes first; a waiting task names its own rank as src and the other as dst, whichever way the bytes go. */
static enum rs_status put_message(struct comm_writer *w, uint32_t own, int64_t op_id,
                                  struct rs_err *err)
{
    const struct rs_comm_op *op = &w->e->own.ops[own];
    const struct rs_job_group *group = group_of(w, own);
    const bool is_send = op->type == RS_OP_SEND;
    if ((!is_send && op->type != RS_OP_RECV) || op->task_count || op->peer < 0 || op->bytes <= 0)
        return RS_OK;
    const int64_t me = rank_in_group(group, w->e->rank);
    const int64_t peer =
        op->flags & RS_OP_PEER_IN_GROUP ? op->peer : rank_in_group(group, op->peer);
    if (me == NO_STRING || peer == NO_STRING)
        return RS_OK;
    const rs_ns begin = op->end - transfer_of(w, own);
    const struct hop wait = {.src = me,
                             .dst = peer,
                             .start = op->start,
                             .end = begin,
                             .transport = RS_STR_NONE,
                             .kind = "Notify_Wait"};
    const struct hop hop = {.src = is_send ? me : peer,
                            .dst = is_send ? peer : me,
                            .bytes = op->bytes,
                            .start = begin,
                            .end = op->end,
                            .transport = op->transport,
                            .kind = "Memcpy"};
    const enum rs_status status = put_hop(w, own, op_id, &wait, err);
    return status == RS_OK ? put_hop(w, own, op_id, &hop, err) : status;
}

static enum rs_status put_own_enums(struct comm_writer *w, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (w->has_bytes) {
        struct db_row row = db_row_begin(&w->e->rows, T_DATA_TYPE);
        db_row_int(&row, BYTE_TYPE, true);
        db_row_text(&row, "BYTE");
        status = db_row_end(&w->e->rows, &row, err);
    }
    for (size_t i = 0; i < w->link_count && status == RS_OK; i++) {
        struct db_row row = db_row_begin(&w->e->rows, T_LINK_TYPE);
        db_row_int(&row, OWN_ENUM_FIRST + (int64_t)i, true);
        db_row_text(&row, rs_strtab_text(&w->e->own.strings, w->links[i]));
        status = db_row_end(&w->e->rows, &row, err);
    }
    return status;
}

/* ---- all of it ---- */

static enum rs_status put_whole(struct comm_writer *w, uint32_t own, int64_t *id_p,
                                struct rs_err *err)
{
    const struct rs_comm_op *op = &w->e->own.ops[own];
    const struct rs_job_op *job = job_op_of(w, own);
    struct op_row row = {.own = own, .start = op->start, .end = op->end, .connection = -1};
    set_message(w, &row, NULL, job ? job->ranks_expected : -1);
    return put_op(w, &row, id_p, err);
}

static enum rs_status put_ops(struct comm_writer *w, struct rs_err *err)
{
    const struct rs_summary *own = &w->e->own;
    enum rs_status status = RS_OK;
    size_t at = 0;
    for (uint32_t i = 0; i < own->op_count && status == RS_OK; i++) {
        const size_t first = at;
        int64_t id = 0;
        while (at < w->piece_count && w->pieces[at].own == i)
            at++;
        status = at > first ? put_pieces(w, i, first, at, &id, err) : put_whole(w, i, &id, err);
        const bool has_hops = !rs_comm_op_has_calls_only(own, &own->ops[i]);
        for (uint32_t k = 0; has_hops && k < own->ops[i].task_count && status == RS_OK; k++)
            status = put_task_hop(w, i, id, &own->tasks[own->ops[i].task_first + k], err);
        if (status == RS_OK)
            status = put_message(w, i, id, err);
    }
    return status;
}

enum rs_status comm_write(struct rs_export_ascend *e, struct rs_err *err)
{
    struct comm_writer w = {.e = e, .next_op = 1};
    enum rs_status status = learn_names(&w, err);
    if (status == RS_OK)
        status = find_pieces(&w, err);
    if (status == RS_OK)
        status = put_ops(&w, err);
    if (status == RS_OK)
        status = put_own_enums(&w, err);
    rs_mem_free(w.names);
    rs_mem_free(w.joined);
    rs_mem_free(w.refs);
    rs_mem_free(w.pieces);
    return status;
}

/* ---- groups ---- */

static bool is_world(const struct rs_export_ascend *e, const struct rs_job_group *group)
{
    const int64_t world = e->options.analysis->world_size;
    return world > 0 && (int64_t)group->rank_count == world && group->ranks[0] == 0 &&
           group->ranks[group->rank_count - 1] == world - 1;
}

static void put_group(const struct rs_export_ascend *e, struct rs_json_out *json,
                      const struct rs_job_group *group, const char *description)
{
    rs_json_out_key(json, group->text);
    rs_json_out_object(json);
    rs_json_out_key(json, "group_name");
    rs_json_out_string(json, is_world(e, group) ? "default_group" : description);
    rs_json_out_key(json, "group_rank");
    rs_json_out_int(json, rank_in_group(group, e->rank));
    rs_json_out_key(json, "global_ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < group->rank_count; i++)
        rs_json_out_int(json, group->ranks[i]);
    rs_json_out_end(json);
    rs_json_out_end(json);
}

/* What this rank's own trace calls the group of an operation. */
static const char *description_of(const struct rs_summary *summary, uint32_t op)
{
    const uint32_t group = summary->ops[op].group;
    const rs_str id = group == RS_NO_GROUP ? RS_STR_NONE : summary->groups[group].description;
    return rs_strtab_text(&summary->strings, id);
}

enum rs_status comm_groups(const struct rs_export_ascend *e, struct rs_buf *buf, struct rs_err *err)
{
    const struct rs_analysis *analysis = e->options.analysis;
    const struct rs_summary *summary = analysis->summaries[e->options.summary];
    bool *is_reported = rs_mem_calloc(analysis->group_count + 1, sizeof *is_reported);
    struct rs_json_out json;
    if (!is_reported)
        return no_room(RS_NOMEM, err);
    rs_json_out_init(&json, buf, 0);
    rs_json_out_object(&json);
    for (size_t i = 0; i < analysis->op_count; i++) {
        const struct rs_job_op *op = &analysis->ops[i];
        const struct rs_job_group *group =
            op->group == RS_NO_GROUP ? NULL : &analysis->groups[op->group];
        if (!group || is_reported[op->group] || !group->ranks || !group->rank_count ||
            !*group->text || (group->size >= 0 && group->size != (int64_t)group->rank_count))
            continue;
        for (size_t r = op->row_first; r < op->row_first + op->row_count; r++) {
            if (analysis->rows[r].summary != e->options.summary)
                continue;
            put_group(e, &json, group, description_of(summary, analysis->rows[r].op_index));
            is_reported[op->group] = true;
            break;
        }
    }
    rs_json_out_end(&json);
    rs_mem_free(is_reported);
    return buf->failed ? no_room(RS_NOMEM, err) : RS_OK;
}
