/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the links of a rank's own figures say of its operations, where no trace has their small tasks.
 *
 * communication_matrix.json (CommAnalyzerMatrix) has, per step, communicator, type and link, the sum over all operations of the
 * type, and up to five of them by name (the fastest, the one in the middle, the slowest three): each of these is what one
 * operation sent over one link. So
 *
 *     named            one transfer of that size and time, which ended when the operation did
 *     all the others   share the rest of the sum equally
 *
 * and of a link the bytes and the time are the file's own to the digit, of its messages only how the rest spreads is not. A
 * send goes to the rank that its link leads to: by name, or where all sends of its communicator in the step lead to one rank.
 */
#include "ascend/source/ascend_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Equal texts have equal ids, so ids order them as well as letters would. */
static int by_type(const struct link_row *a, const struct link_row *b)
{
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    const size_t shorter = a->type_length < b->type_length ? a->type_length : b->type_length;
    const int order = memcmp(a->type, b->type, shorter);
    return order ? order : (a->type_length > b->type_length) - (a->type_length < b->type_length);
}

static int by_link(const void *a_, const void *b_)
{
    const struct link_row *a = a_, *b = b_;
    const int order = by_type(a, b);
    if (order)
        return order;
    if (a->src != b->src)
        return a->src < b->src ? -1 : 1;
    if (a->dst != b->dst)
        return a->dst < b->dst ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

/* Digits of a file times `unit`; -1: none, or below zero. */
static int64_t value_of(const struct text_reader *reader, rs_str digits, double unit)
{
    char *end;
    if (digits == RS_STR_NONE)
        return -1;
    const double value = strtod(rs_strtab_text(&reader->a.stream->strings, digits), &end) * unit;
    return !*end && value >= 0 && value < 4e18 ? (int64_t)llround(value) : -1;
}

static enum rs_status take_link(struct text_reader *reader, const struct rs_vendor_link *link)
{
    const char *kind = rs_strtab_text(&reader->a.stream->strings, link->kind);
    const char *dash = strrchr(kind, '-');
    const bool is_total = dash && strcmp(dash, "-total") == 0;
    struct link_row row = {.step = link->step,
                           .group = link->group,
                           .type = kind,
                           .type_length = dash ? (size_t)(dash - kind) : 0,
                           .src = link->src,
                           .dst = link->dst,
                           .name = is_total ? RS_STR_NONE : link->op_name,
                           .bytes = value_of(reader, link->fields[0], 1e6),
                           .ns = value_of(reader, link->fields[1], 1e6),
                           .transport = link->transport};
    enum rs_status status = RS_OK;
    if (!dash || link->src == link->dst || link->src < 0 || link->dst < 0 || row.bytes < 0 ||
        row.ns < 0 || (!is_total && link->op_name == RS_STR_NONE))
        return RS_OK;
    PUSH(&reader->links, status, row);
    return status;
}

enum rs_status ascend_text_links(struct text_reader *reader, struct rs_err *err)
{
    const struct rs_provenance *vendor = reader->a.stream->info.vendor;
    enum rs_status status = RS_OK;
    for (size_t i = 0; vendor && i < vendor->link_count && status == RS_OK; i++)
        status = take_link(reader, &vendor->links[i]);
    if (reader->links.count)
        qsort(reader->links.items, reader->links.count, sizeof *reader->links.items, by_link);
    size_t kept = 0; /* one operation may be the fastest and the slowest */
    for (size_t i = 0; i < reader->links.count; i++)
        if (!kept || by_link(&reader->links.items[kept - 1], &reader->links.items[i]) != 0)
            reader->links.items[kept++] = reader->links.items[i];
    reader->links.count = kept;
    return ascend_text_fail(reader, status, err);
}

/* ---- of one operation ---- */

/* The vendor's type of an operation: the first of its words, in the name or wherever it begins first. */
static size_t type_of(const char *name, char type[32])
{
    static const char *const words[] = {"send",      "reduce",   "invalid",      "broadcast",
                                        "allreduce", "receive",  "allgather",    "reducescatter",
                                        "scatter",   "alltoall", "batchsendrecv"};
    char lower[256];
    const char *first = NULL;
    size_t length = 0;
    for (size_t i = 0; i < sizeof lower; i++) {
        const char c = name[i];
        lower[i] = c;
        if (c >= 'A' && c <= 'Z')
            lower[i] = (char)(c - 'A' + 'a');
        if (!c)
            break;
    }
    lower[sizeof lower - 1] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = strstr(lower, words[i]);
        if (at &&
            (!first || at < first)) { /* of one place the earlier word, as the vendor tries them */
            first = at;
            length = strlen(words[i]);
        }
    }
    memcpy(type, first ? first : lower, length);
    return length;
}

struct run {
    const struct link_row *rows;
    size_t count;
};

/* The rows of an operation's step, communicator and type. */
static struct run run_of(const struct text_reader *reader, const struct link_row *key)
{
    size_t low = 0, high = reader->links.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_type(&reader->links.items[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct run run = {.rows = reader->links.items + low};
    while (low + run.count < reader->links.count && by_type(&run.rows[run.count], key) == 0)
        run.count++;
    return run;
}

/* What the rows of one link come to. */
struct link_of {
    const struct link_row *total; /* NULL: the file has none */
    const struct link_row *own;   /* of the operation asked for; NULL: not by name */
    int64_t bytes, ns, named;     /* of those by name */
};

static struct link_of next_link(struct run *run, rs_str name)
{
    struct link_of link = {0};
    const struct link_row *first = run->rows;
    while (run->count && run->rows->src == first->src && run->rows->dst == first->dst) {
        if (run->rows->name == RS_STR_NONE) {
            link.total = run->rows;
        } else {
            link.bytes += run->rows->bytes;
            link.ns += run->rows->ns;
            link.named++;
            if (run->rows->name == name)
                link.own = run->rows;
        }
        run->rows++;
        run->count--;
    }
    return link;
}

/* How many operations share the rest of a sum. */
static int64_t count_of(const struct text_reader *reader, const struct link_row *key)
{
    size_t low = 0, high = reader->types.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_link(&reader->types.items[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reader->types.count && by_link(&reader->types.items[low], key) == 0
               ? reader->types.items[low].bytes
               : 0;
}

static bool key_of(const struct text_reader *reader, const struct hccl_op *op, char type[32],
                   struct link_row *key)
{
    const struct json_op *told = op->op.id >= 0 && (size_t)op->op.id < reader->json.count
                                     ? &reader->json.items[op->op.id]
                                     : NULL;
    if (!told || told->group == RS_STR_NONE)
        return false;
    *key = (struct link_row){.step = told->step_text, .group = told->group, .type = type};
    key->type_length = type_of(rs_strtab_text(&reader->a.stream->strings, op->op.name), type);
    return key->type_length > 0;
}

/* Operations per step, communicator and type, for count_of(): their number stands in `bytes`. */
enum rs_status ascend_text_count_types(struct text_reader *reader, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    char type[32];
    struct link_row key;
    for (size_t i = 0; i < reader->ops.count && reader->links.count && status == RS_OK; i++) {
        if (!key_of(reader, &reader->ops.items[i], type, &key))
            continue;
        const struct run run = run_of(reader, &key);
        if (!run.count)
            continue;
        key.type = run.rows->type; /* lives as long as the stream */
        key.bytes = 1;
        PUSH(&reader->types, status, key);
    }
    if (reader->types.count)
        qsort(reader->types.items, reader->types.count, sizeof *reader->types.items, by_link);
    size_t kept = 0;
    for (size_t i = 0; i < reader->types.count; i++) {
        if (kept && by_link(&reader->types.items[kept - 1], &reader->types.items[i]) == 0)
            reader->types.items[kept - 1].bytes++;
        else
            reader->types.items[kept++] = reader->types.items[i];
    }
    reader->types.count = kept;
    return ascend_text_fail(reader, status, err);
}

/* The one rank that all links of the run lead to; -1: several. */
static int32_t only_end(struct run run)
{
    int32_t dst = -1;
    for (size_t i = 0; i < run.count; i++) {
        if (dst >= 0 && run.rows[i].dst != dst)
            return -1;
        dst = run.rows[i].dst;
    }
    return dst;
}

enum rs_status ascend_text_link_hops(struct text_reader *reader, struct hccl_op *op,
                                     struct rs_err *err)
{
    char type[32];
    struct link_row key;
    LIST(struct ascend_task) tasks = {0};
    enum rs_status status = RS_OK;
    if (!reader->links.count || !key_of(reader, op, type, &key))
        return RS_OK;
    struct run run = run_of(reader, &key);
    const bool is_p2p = rs_ascend_is_p2p(op->op.name_text);
    const bool may_share = !is_p2p || only_end(run) >= 0;
    const int64_t ops = count_of(reader, &key);
    while (run.count && status == RS_OK) {
        const struct link_row *first = run.rows;
        const struct link_of link = next_link(&run, op->op.name);
        int64_t bytes = 0, ns = 0;
        if (link.own) {
            bytes = link.own->bytes;
            ns = link.own->ns;
        } else if (link.total && may_share && ops > link.named) {
            bytes = (link.total->bytes - link.bytes) / (ops - link.named);
            ns = (link.total->ns - link.ns) / (ops - link.named);
        }
        const rs_dur room = op->op.end - op->op.start;
        ns = ns < 0 ? 0 : ns > room ? room : ns;
        if (bytes > 0)
            PUSH(&tasks, status,
                 (struct ascend_task){
                     .start = op->op.end - ns,
                     .end = op->op.end,
                     .plane = -1,
                     .src = first->src,
                     .dst = first->dst,
                     .size = bytes,
                     .kind = ASCEND_TASK_COPY,
                     .link = rs_strtab_text(&reader->a.stream->strings, first->transport)});
    }
    status = ascend_text_fail(reader, status, err);
    if (status == RS_OK && tasks.count)
        status = ascend_emit_hops(&reader->a, &op->op, tasks.items, tasks.count, err);
    rs_mem_free(tasks.items);
    return status;
}
