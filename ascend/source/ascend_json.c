/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/source/ascend_json.h"

#include "ascend/source/ascend_trace.h"
#include "collector/source/scan.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JSON_LIMIT_BYTES ((size_t)2 << 30)

struct member {
    struct kineto_span key, value;
};

struct reader {
    struct json_ops *ops;
    struct ascend *a;
    const char *end; /* of the file */
    bool is_cut;
    int64_t step;
    enum rs_status status;
};

/* The member at *at_p of an object (behind its brace, or behind the member before); false at its end. */
static bool next_member(struct reader *reader, const char **at_p, struct member *member)
{
    const char *at = scan_blanks(*at_p);
    bool has_escape = false;
    if (at < reader->end && *at == ',')
        at = scan_blanks(at + 1);
    if (at < reader->end && *at == '}')
        return false;
    const char *quote =
        at < reader->end && *at == '"' ? scan_string_end(at + 1, reader->end, &has_escape) : NULL;
    if (!quote) {
        reader->is_cut = true;
        return false;
    }
    member->key = (struct kineto_span){at + 1, (size_t)(quote - at - 1)};
    at = scan_blanks(quote + 1);
    const char *value = at < reader->end && *at == ':' ? scan_blanks(at + 1) : NULL;
    const char *value_end = value ? text_value_end(value, reader->end) : NULL;
    if (!value_end) {
        reader->is_cut = true;
        return false;
    }
    member->value = (struct kineto_span){value, (size_t)(value_end - value)};
    *at_p = value_end;
    return true;
}

/* Behind the brace of an object; NULL when the value is none. */
static const char *inside(const struct member *member)
{
    return member->value.length >= 2 && *member->value.text == '{' ? member->value.text + 1 : NULL;
}

/* A number of `unit_ns` each, to the nearest ns. */
static bool to_ns(struct kineto_span span, double unit_ns, int64_t *ns_p)
{
    char text[64];
    if (!span.length || span.length >= sizeof text)
        return false;
    memcpy(text, span.text, span.length);
    text[span.length] = '\0';
    char *end;
    const double value = strtod(text, &end);
    if (*end || !isfinite(value) || fabs(value * unit_ns) > 4e18)
        return false;
    *ns_p = (int64_t)llround(value * unit_ns);
    return true;
}

/* us since 1970 as written, in integers: a product of doubles would lose what the file has. */
static bool start_of(struct kineto_span span, rs_ns *start_p)
{
    char text[72] = {0}; /* zeros behind it: the parser loads eight bytes at a time */
    if (!span.length || span.length >= 48)
        return false;
    memcpy(text, span.text, span.length);
    return trace_us(text, start_p) && *start_p > 0;
}

static void take_times(struct reader *reader, const struct member *info, struct json_op *op,
                       bool *is_whole_p)
{
    const char *at = inside(info);
    struct member member;
    rs_dur elapse = -1;
    bool has_start = false;
    while (at && next_member(reader, &at, &member)) {
        if (span_is(member.key, "Start Timestamp(us)"))
            has_start = start_of(member.value, &op->start);
        else if (span_is(member.key, "Elapse Time(ms)") && !to_ns(member.value, 1e6, &elapse))
            elapse = -1;
    }
    *is_whole_p = has_start && elapse >= 0;
    op->end = op->start + (elapse >= 0 ? elapse : 0);
}

static void take_op(struct reader *reader, const struct member *named)
{
    const char *mark = memrchr(named->key.text, '@', named->key.length);
    const char *at = inside(named);
    struct json_op op = {
        .step = reader->step, .step_text = RS_STR_NONE, .group = RS_STR_NONE, .moved = -1};
    struct member member;
    bool is_whole = false;
    if (!mark || !at)
        return; /* "Total Op Info" */
    const size_t hash_length = named->key.length - (size_t)(mark - named->key.text) - 1;
    if (!hash_length || hash_length >= sizeof op.hash)
        return;
    memcpy(op.hash, mark + 1, hash_length);
    while (next_member(reader, &at, &member))
        if (span_is(member.key, "Communication Time Info"))
            take_times(reader, &member, &op, &is_whole);
    if (!is_whole)
        return;
    reader->status =
        ascend_text_bytes(reader->a, named->key.text, (size_t)(mark - named->key.text), &op.name);
    if (reader->status == RS_OK)
        reader->status = rs_mem_grow((void **)&reader->ops->items, &reader->ops->capacity,
                                     reader->ops->count + 1, sizeof *reader->ops->items);
    if (reader->status == RS_OK)
        reader->ops->items[reader->ops->count++] = op;
}

static int64_t step_of(struct kineto_span key)
{
    int64_t number;
    const bool is_step =
        trace_starts_with(key, "step") &&
        text_plain_integer((struct kineto_span){key.text + 4, key.length - 4}, &number);
    return is_step ? number : RS_ASCEND_NO_STEP;
}

/* A level of the document; the innermost members are operations. */
static void walk(struct reader *reader, const char *at, unsigned level)
{
    struct member member;
    while (reader->status == RS_OK && next_member(reader, &at, &member)) {
        if (level == 0)
            reader->step = step_of(member.key);
        if (level == 2)
            take_op(reader, &member);
        else if (inside(&member))
            walk(reader, inside(&member), level + 1);
    }
}

static int by_name(const void *a_, const void *b_)
{
    const struct json_op *a = a_, *b = b_;
    if (a->name != b->name)
        return a->name < b->name ? -1 : 1;
    return (a->start > b->start) - (a->start < b->start);
}

enum rs_status json_ops_read(struct json_ops *ops, struct ascend *a, const char *path,
                             struct rs_err *err)
{
    struct rs_buf buf = {0};
    *ops = (struct json_ops){0};
    enum rs_status status = rs_file_read_regular(path, JSON_LIMIT_BYTES, &buf, err);
    if (status == RS_REFUSED)
        status = RS_FORMAT; /* a pipe, a device: as damaged as a file can be */
    uint8_t *padding = status == RS_OK ? rs_buf_reserve(&buf, SCAN_PADDING) : NULL;
    if (status == RS_OK && !padding)
        status = rs_err_set(err, RS_NOMEM, "%s: out of memory", path);
    if (status != RS_OK) {
        rs_buf_fini(&buf);
        return status;
    }
    memset(padding, 0, SCAN_PADDING);
    struct reader reader = {.ops = ops, .a = a, .end = (const char *)buf.data + buf.length};
    const char *at = scan_blanks((const char *)buf.data);
    if (at < reader.end && *at == '{')
        walk(&reader, at + 1, 0);
    else
        reader.is_cut = true;
    a->stream->info.input_bytes += (int64_t)buf.length;
    rs_buf_fini(&buf);
    if (ops->count)
        qsort(ops->items, ops->count, sizeof *ops->items, by_name);
    if (reader.status != RS_OK)
        return rs_err_set(err, reader.status, "%s: %s", path, rs_status_text(reader.status));
    return reader.is_cut ? rs_err_set(err, RS_PARTIAL, "%s is cut off or damaged", path) : RS_OK;
}

/* "step50" -> 50 */
static int64_t step_of_text(const char *text)
{
    return step_of((struct kineto_span){text, strlen(text)});
}

enum rs_status json_ops_of_vendor(struct json_ops *ops, const struct ascend *a)
{
    enum { PS_PER_NS = 1000 };
    const struct rs_provenance *vendor = a->stream->info.vendor;
    const struct rs_strtab *strings = &a->stream->strings;
    for (size_t i = 0; vendor && i < vendor->comm_count; i++) {
        const struct rs_vendor_comm *comm = &vendor->comms[i];
        const char *hash = rs_strtab_text(strings, comm->group);
        struct json_op op = {.name = comm->name,
                             .start = comm->start,
                             .step_text = comm->step,
                             .group = comm->group,
                             .moved = -1};
        if (comm->is_total || comm->start == RS_VENDOR_UNKNOWN || comm->elapse < 0 || !*hash ||
            strlen(hash) >= sizeof op.hash ||
            __builtin_add_overflow(comm->start, comm->elapse / PS_PER_NS, &op.end))
            continue;
        memcpy(op.hash, hash, strlen(hash));
        op.step = step_of_text(rs_strtab_text(strings, comm->step));
        if (rs_mem_grow((void **)&ops->items, &ops->capacity, ops->count + 1, sizeof *ops->items) !=
            RS_OK)
            return RS_NOMEM;
        ops->items[ops->count++] = op;
    }
    if (ops->count)
        qsort(ops->items, ops->count, sizeof *ops->items, by_name);
    return RS_OK;
}

/* ---- what went over links ---- */

/* MB as the file writes them, in bytes; -1: no number. */
static int64_t bytes_of(const struct ascend *a, rs_str digits)
{
    int64_t bytes;
    if (digits == RS_STR_NONE)
        return -1;
    const char *text = rs_strtab_text(&a->stream->strings, digits);
    return to_ns((struct kineto_span){text, strlen(text)}, 1e6, &bytes) && bytes >= 0 ? bytes : -1;
}

/* SDMA is the sum of what went by HCCS, PCIE and SIO, where the file has it; RDMA is beside it. */
static int64_t moved_by(const struct ascend *a, const struct rs_vendor_band *bands, size_t count)
{
    enum { SDMA, RDMA, PARTS };
    static const char *const names[] = {"SDMA", "RDMA", "HCCS", "PCIE", "SIO"};
    int64_t sums[PARTS + 1] = {-1, -1, -1};
    rs_str last = RS_STR_NONE;
    for (size_t i = 0; i < count;
         i++) { /* a row per package size: the transport's own figures repeat */
        const char *transport = rs_strtab_text(&a->stream->strings, bands[i].transport);
        const int64_t bytes = bytes_of(a, bands[i].fields[0]);
        size_t at = 0;
        while (at < sizeof names / sizeof names[0] && strcmp(names[at], transport) != 0)
            at++;
        if (bands[i].transport == last || at == sizeof names / sizeof names[0] || bytes < 0)
            continue;
        last = bands[i].transport;
        at = at < PARTS ? at : PARTS;
        sums[at] = (sums[at] < 0 ? 0 : sums[at]) + bytes;
    }
    const int64_t inside = sums[SDMA] >= 0 ? sums[SDMA] : sums[PARTS];
    if (inside < 0 && sums[RDMA] < 0)
        return -1;
    return (inside < 0 ? 0 : inside) + (sums[RDMA] < 0 ? 0 : sums[RDMA]);
}

enum rs_status json_ops_moved(struct json_ops *ops, const struct ascend *a)
{
    enum { NEAR_NS = 1000 }; /* one number, read by two readers */
    const struct rs_provenance *vendor = a->stream->info.vendor;
    struct json_ops known = {0};
    size_t band = 0;
    for (size_t i = 0; vendor && i < vendor->comm_count; i++) {
        const struct rs_vendor_comm *comm = &vendor->comms[i];
        const struct json_op op = {.name = comm->name,
                                   .start = comm->start,
                                   .step_text = comm->step,
                                   .group = comm->group,
                                   .moved = moved_by(a, &vendor->bands[band], comm->band_count)};
        band += comm->band_count;
        if (comm->is_total || comm->start == RS_VENDOR_UNKNOWN)
            continue;
        if (rs_mem_grow((void **)&known.items, &known.capacity, known.count + 1,
                        sizeof *known.items) != RS_OK) {
            json_ops_fini(&known);
            return RS_NOMEM;
        }
        known.items[known.count++] = op;
    }
    if (known.count)
        qsort(known.items, known.count, sizeof *known.items, by_name);
    for (size_t i = 0; i < ops->count; i++) {
        struct json_op *found = json_ops_find(&known, ops->items[i].name, ops->items[i].start);
        if (!found || llabs(found->start - ops->items[i].start) > NEAR_NS)
            continue;
        found->is_used = true;
        ops->items[i].moved = found->moved;
        ops->items[i].step_text = found->step_text;
        ops->items[i].group = found->group;
    }
    json_ops_fini(&known);
    return RS_OK;
}

void json_ops_fini(struct json_ops *ops)
{
    rs_mem_free(ops->items);
    *ops = (struct json_ops){0};
}

struct json_op *json_ops_find(const struct json_ops *ops, rs_str name, rs_ns start)
{
    enum { NEIGHBOURS = 8 }; /* of one name: the nearest may be used already */
    struct json_op *best = NULL;
    const struct json_op key = {.name = name, .start = start};
    size_t low = 0, high = ops->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_name(&ops->items[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const size_t first = low > NEIGHBOURS ? low - NEIGHBOURS : 0;
    for (size_t i = first; i < ops->count && i < low + NEIGHBOURS; i++) {
        struct json_op *op = &ops->items[i];
        if (op->name == name && !op->is_used &&
            (!best || llabs(op->start - start) < llabs(best->start - start)))
            best = op;
    }
    return best;
}
