/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication.json and communication_matrix.json, token by token.
 *
 *     { step: { "p2p"|"collective": { op@group:   { time info {..}, bandwidth info { transport {..} } } } } }
 *     { step: { "p2p"|"collective": { kind@group: { "i-j": {..} } } } }
 *
 * Keys come in the same order nearly always, so each is first compared with the one that came
 * after the last. Keys that the format does not name are passed over.
 */
#include "ascend/format/comm.h"
#include "ascend/format/json.h"
#include "common/base/file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT_BYTES ((size_t)4 << 30)

static const char *const time_keys[RS_ASCEND_COMM_TIMES] = {
    "Start Timestamp(us)", "Elapse Time(ms)",           "Transit Time(ms)",
    "Wait Time(ms)",       "Synchronization Time(ms)",  "Idle Time(ms)",
    "Wait Time Ratio",     "Synchronization Time Ratio"};

enum { DISTRIBUTION = RS_ASCEND_COMM_BAND_FIELDS, BAND_KEYS };
static const char *const band_keys[BAND_KEYS] = {"Transit Size(MB)", "Transit Time(ms)",
                                                 "Bandwidth(GB/s)", "Large Packet Ratio",
                                                 "Size Distribution"};

enum { TRANSPORT_TYPE = 3, OP_NAME, OP_NAME_MINDSPORE, LINK_KEYS };
static const char *const link_keys[LINK_KEYS] = {"Transit Size(MB)", "Transit Time(ms)",
                                                 "Bandwidth(GB/s)",  "Transport Type",
                                                 "Op Name",          "op_name"};

struct reader {
    struct rs_vjson json;
    struct rs_ascend_comm *comm;
    struct rs_err *err;
    rs_str step;
    bool is_p2p, is_total;
    uint32_t lacks; /* what some operation or link has not, or no number in it: bits of enum lack */
    bool has_odd_step, has_odd_size;
};

/* Members by their place in time_keys, band_keys and link_keys; LACKS_BANDS: bandwidth as a whole. */
enum lack { LACKS_TIME, LACKS_BAND = 8, LACKS_BANDS = 13, LACKS_LINK, LACKS = LACKS_LINK + 4 };

/* Of `count` numbers, the first of which is `first`. The vendor's own sums have no start, ratio of packets or bandwidth. */
static void note_lacks(struct reader *r, const struct rs_ascend_num *nums, size_t count,
                       enum lack first)
{
    const uint32_t no_sum = 1U << (LACKS_TIME + RS_ASCEND_COMM_START) |
                            1U << (LACKS_BAND + RS_ASCEND_COMM_BANDWIDTH) |
                            1U << (LACKS_BAND + RS_ASCEND_COMM_LARGE_RATIO);
    for (size_t i = 0; i < count; i++)
        if (nums[i].kind == RS_ASCEND_NUM_NONE && !(r->is_total && no_sum >> (first + i) & 1))
            r->lacks |= 1U << (first + i);
}

static enum rs_status add_name(struct reader *r, const char *text, size_t length, rs_str *id_p)
{
    const enum rs_status status = rs_strtab_add(&r->comm->names, text, length, id_p);
    return status == RS_OK
               ? status
               : rs_err_set(r->err, status, "%s: %s", r->json.name, rs_status_text(status));
}

/* Index of the key just read, `count` when unknown; *guess_p is the likely one and moves on. */
static size_t which_key(const struct rs_vjson *json, const char *const *keys, size_t count,
                        size_t *guess_p)
{
    for (size_t i = 0; i < count; i++) {
        const size_t index = (*guess_p + i) % count;
        if (rs_vjson_is(json, keys[index])) {
            *guess_p = index + 1;
            return index;
        }
    }
    return count;
}

/* A number, or null. */
static enum rs_status read_number(struct reader *r, struct rs_ascend_num *num_p)
{
    const enum rs_status status = rs_vjson_next(&r->json, r->err);
    if (status != RS_OK)
        return status;
    if (r->json.token == RS_VJSON_NULL) {
        *num_p = (struct rs_ascend_num){0};
        return RS_OK;
    }
    if (r->json.token != RS_VJSON_NUMBER)
        return rs_vjson_fail(&r->json, "no number", r->err);
    if (rs_ascend_num_parse(r->json.text, r->json.length, num_p) != RS_OK)
        return rs_vjson_fail(&r->json, "a number beyond all measure", r->err);
    return RS_OK;
}

static enum rs_status read_times(struct reader *r, struct rs_ascend_num *times)
{
    size_t guess = 0;
    enum rs_status status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        const size_t key = which_key(&r->json, time_keys, RS_ASCEND_COMM_TIMES, &guess);
        status = key < RS_ASCEND_COMM_TIMES ? read_number(r, &times[key])
                                            : rs_vjson_skip(&r->json, r->err);
    }
    return status;
}

/* "step" of a recording without steps, "step50"; a number of more digits is none of a step. */
enum { STEP_DIGITS_MAX = 18 };
static bool is_step(const struct rs_vjson *json)
{
    static const char word[] = "step";
    const size_t known = sizeof word - 1;
    size_t at = known;
    if (json->length < known || memcmp(json->text, word, known) != 0)
        return false;
    while (at < json->length && isdigit((unsigned char)json->text[at]))
        at++;
    return at == json->length && at <= known + STEP_DIGITS_MAX;
}

/* As Python writes a float that is not below 0: "12.58", "1e-05". */
static bool is_size(const struct rs_vjson *json)
{
    char text[64];
    if (json->length == 0 || json->length >= sizeof text || !isdigit((unsigned char)json->text[0]))
        return false;
    memcpy(text, json->text, json->length);
    text[json->length] = 0;
    if (strspn(text, "0123456789.eE+-") != json->length)
        return false;
    char *end;
    const double size = strtod(text, &end);
    return end == text + json->length && isfinite(size);
}

/* {"12.58": [count, ms], ...} */
static enum rs_status read_packages(struct reader *r, struct rs_ascend_comm_writer *writer)
{
    enum rs_status status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        struct rs_ascend_num count = {0}, duration = {0};
        rs_str size = 0;
        r->has_odd_size |= !is_size(&r->json);
        status = add_name(r, r->json.text, r->json.length, &size);
        if (status == RS_OK)
            status = rs_vjson_want(&r->json, RS_VJSON_ARRAY, r->err);
        if (status == RS_OK)
            status = read_number(r, &count);
        if (status == RS_OK)
            status = read_number(r, &duration);
        if (status == RS_OK)
            status = rs_vjson_want(&r->json, RS_VJSON_ARRAY_END, r->err);
        if (status == RS_OK)
            rs_ascend_comm_add_package(writer, size, &count, &duration);
    }
    return status;
}

/* A value to come back to: the reader as it stood behind the key. */
struct bookmark {
    struct rs_vjson json;
    bool is_set;
};

/* Notes the place and passes over the value. */
static enum rs_status read_later(struct reader *r, struct bookmark *mark)
{
    mark->json = r->json;
    mark->is_set = true;
    return rs_vjson_skip(&r->json, r->err);
}

static void go_to(struct reader *r, const struct rs_vjson *place)
{
    const struct rs_buf scratch = r->json.scratch; /* one buffer, wherever the reader stands */
    r->json = *place;
    r->json.scratch = scratch;
}

/* A transport. Packages that stand before some number are read when the numbers are known. */
static enum rs_status read_band(struct reader *r, rs_str transport,
                                struct rs_ascend_comm_writer *writer)
{
    struct rs_ascend_num fields[RS_ASCEND_COMM_BAND_FIELDS] = {0};
    struct bookmark packages = {.is_set = false};
    size_t guess = 0;
    unsigned seen = 0;
    bool has_begun = false;
    enum rs_status status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        const size_t key = which_key(&r->json, band_keys, BAND_KEYS, &guess);
        if (key < RS_ASCEND_COMM_BAND_FIELDS) {
            seen |= 1U << key;
            status = read_number(r, &fields[key]);
        } else if (key == DISTRIBUTION && seen == (1U << RS_ASCEND_COMM_BAND_FIELDS) - 1) {
            rs_ascend_comm_band_begin(writer, transport, fields);
            has_begun = true;
            status = read_packages(r, writer);
        } else {
            status =
                key == DISTRIBUTION ? read_later(r, &packages) : rs_vjson_skip(&r->json, r->err);
        }
    }
    if (status == RS_OK) {
        note_lacks(r, fields, RS_ASCEND_COMM_BAND_FIELDS, LACKS_BAND);
        if (!has_begun && !packages.is_set)
            r->lacks |= 1U << (LACKS_BAND + DISTRIBUTION);
    }
    if (status != RS_OK || has_begun)
        return status;
    rs_ascend_comm_band_begin(writer, transport, fields);
    if (!packages.is_set)
        return RS_OK;
    const struct rs_vjson behind = r->json;
    go_to(r, &packages.json);
    status = read_packages(r, writer);
    if (status == RS_OK)
        go_to(r, &behind);
    return status;
}

static enum rs_status read_bands(struct reader *r, struct rs_ascend_comm_writer *writer)
{
    enum rs_status status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        rs_str transport = 0;
        status = add_name(r, r->json.text, r->json.length, &transport);
        if (status == RS_OK)
            status = read_band(r, transport, writer);
    }
    return status;
}

/* op@group: both as names; without @ the group is empty. */
static enum rs_status read_names(struct reader *r, rs_str *name_p, rs_str *group_p)
{
    const char *text = r->json.text;
    const size_t length = r->json.length;
    const char *at = memrchr(text, '@', length);
    const size_t name_length = at ? (size_t)(at - text) : length;
    enum rs_status status = add_name(r, text, name_length, name_p);
    if (status == RS_OK)
        status = add_name(r, at ? at + 1 : "", at ? length - name_length - 1 : 0, group_p);
    return status;
}

static bool is_total(const struct rs_vjson *json)
{
    return json->length >= 6 && memcmp(json->text, "Total ", 6) == 0;
}

static enum rs_status finish_op(struct reader *r, struct rs_ascend_comm_writer *writer, rs_str name,
                                rs_str group)
{
    writer->op.name = name;
    writer->op.group = group;
    writer->op.step = r->step;
    writer->op.is_p2p = r->is_p2p;
    const enum rs_status status = rs_ascend_comm_op_end(writer);
    return status == RS_OK
               ? status
               : rs_err_set(r->err, status, "%s: %s", r->json.name, rs_status_text(status));
}

/* Bandwidth stands behind time as a rule, and is read at once then. */
static enum rs_status read_op(struct reader *r)
{
    struct rs_ascend_num times[RS_ASCEND_COMM_TIMES] = {0};
    struct rs_ascend_comm_writer writer;
    struct bookmark bands = {.is_set = false};
    rs_str name = 0, group = 0;
    bool has_times = false, has_begun = false;
    enum rs_status status = read_names(r, &name, &group);
    if (status == RS_OK)
        status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        const bool is_bands = rs_vjson_is(&r->json, "Communication Bandwidth Info");
        if (!has_times && rs_vjson_is(&r->json, "Communication Time Info")) {
            status = read_times(r, times);
            has_times = true;
        } else if (is_bands && has_times && !has_begun) {
            rs_ascend_comm_op_begin(&writer, r->comm, times);
            has_begun = true;
            status = read_bands(r, &writer);
        } else {
            status = is_bands ? read_later(r, &bands) : rs_vjson_skip(&r->json, r->err);
        }
    }
    if (status == RS_OK) {
        note_lacks(r, times, RS_ASCEND_COMM_TIMES, LACKS_TIME);
        if (!has_begun && !bands.is_set)
            r->lacks |= 1U << LACKS_BANDS;
    }
    if (status != RS_OK || has_begun)
        return status == RS_OK ? finish_op(r, &writer, name, group) : status;
    rs_ascend_comm_op_begin(&writer, r->comm, times);
    if (bands.is_set) {
        const struct rs_vjson behind = r->json;
        go_to(r, &bands.json);
        status = read_bands(r, &writer);
        if (status == RS_OK)
            go_to(r, &behind);
    }
    return status == RS_OK ? finish_op(r, &writer, name, group) : status;
}

/* "i-j" */
static bool parse_pair(const struct rs_vjson *json, int32_t *src_p, int32_t *dst_p)
{
    int64_t values[2] = {0, 0};
    size_t which = 0, digits = 0;
    for (size_t i = 0; i < json->length; i++) {
        const char c = json->text[i];
        if (c == '-' && which == 0 && digits) {
            which = 1;
            digits = 0;
            continue;
        }
        if (c < '0' || c > '9' || ++digits > 9)
            return false;
        values[which] = values[which] * 10 + (c - '0');
    }
    *src_p = (int32_t)values[0];
    *dst_p = (int32_t)values[1];
    return which == 1 && digits > 0;
}

static enum rs_status read_text(struct reader *r, rs_str *id_p)
{
    const enum rs_status status = rs_vjson_next(&r->json, r->err);
    if (status != RS_OK || r->json.token == RS_VJSON_NULL)
        return status;
    if (r->json.token != RS_VJSON_STRING)
        return rs_vjson_fail(&r->json, "no text", r->err);
    return add_name(r, r->json.text, r->json.length, id_p);
}

static enum rs_status read_link(struct reader *r, struct rs_ascend_comm_link *link)
{
    struct rs_ascend_num fields[3] = {0};
    size_t guess = TRANSPORT_TYPE;
    if (!parse_pair(&r->json, &link->src, &link->dst))
        return rs_vjson_fail(&r->json, "a link that is not named i-j", r->err);
    link->transport = RS_STR_EMPTY;
    link->op_name = RS_STR_NONE;
    enum rs_status status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        const size_t key = which_key(&r->json, link_keys, LINK_KEYS, &guess);
        if (key < 3)
            status = read_number(r, &fields[key]);
        else if (key == TRANSPORT_TYPE)
            status = read_text(r, &link->transport);
        else if (key < LINK_KEYS)
            status = read_text(r, &link->op_name);
        else
            status = rs_vjson_skip(&r->json, r->err);
    }
    if (status == RS_OK) {
        note_lacks(r, fields, 3, LACKS_LINK);
        if (link->transport == RS_STR_EMPTY)
            r->lacks |= 1U << (LACKS_LINK + TRANSPORT_TYPE);
        status = rs_ascend_comm_add_link(r->comm, link, fields);
    }
    return status;
}

static enum rs_status read_links(struct reader *r)
{
    struct rs_ascend_comm_link link = {.step = r->step, .is_p2p = r->is_p2p};
    enum rs_status status = read_names(r, &link.kind, &link.group);
    if (status == RS_OK)
        status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY)
        status = read_link(r, &link);
    return status;
}

static enum rs_status read_side(struct reader *r, enum rs_ascend_comm_part part)
{
    enum rs_status status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        r->is_total = is_total(&r->json);
        if (r->is_total && !(r->comm->keeps_totals && part == RS_ASCEND_COMM_OPS))
            status = rs_vjson_skip(&r->json, r->err);
        else
            status = part == RS_ASCEND_COMM_OPS ? read_op(r) : read_links(r);
    }
    return status;
}

static enum rs_status read_step(struct reader *r, enum rs_ascend_comm_part part)
{
    r->has_odd_step |= !is_step(&r->json);
    enum rs_status status = add_name(r, r->json.text, r->json.length, &r->step);
    if (status == RS_OK)
        status = rs_vjson_want(&r->json, RS_VJSON_OBJECT, r->err);
    while (status == RS_OK && (status = rs_vjson_next(&r->json, r->err)) == RS_OK &&
           r->json.token == RS_VJSON_KEY) {
        r->is_p2p = rs_vjson_is(&r->json, "p2p");
        if (r->is_p2p || rs_vjson_is(&r->json, "collective"))
            status = read_side(r, part);
        else
            status = rs_vjson_skip(&r->json, r->err);
    }
    return status;
}

static void report_lacks(const struct reader *r)
{
    struct rs_buf *flaws = &r->comm->flaws;
    for (unsigned i = 0; i < LACKS; i++) {
        const char *member = i < LACKS_BAND    ? time_keys[i]
                             : i < LACKS_BANDS ? band_keys[i - LACKS_BAND]
                             : i < LACKS_LINK  ? "Communication Bandwidth Info"
                                               : link_keys[i - LACKS_LINK];
        if (r->lacks >> i & 1)
            rs_buf_printf(flaws, "%s%s: not every %s has a usable \"%s\"",
                          flaws->length ? "; " : "", r->json.name,
                          i < LACKS_LINK ? "operation" : "link", member);
    }
    if (r->has_odd_step)
        rs_buf_printf(flaws, "%s%s: a step is named otherwise than step, or step and a number",
                      flaws->length ? "; " : "", r->json.name);
    if (r->has_odd_size)
        rs_buf_printf(flaws, "%s%s: a size in \"%s\" is no number", flaws->length ? "; " : "",
                      r->json.name, band_keys[DISTRIBUTION]);
}

enum rs_status rs_ascend_comm_parse(struct rs_ascend_comm *comm, enum rs_ascend_comm_part part,
                                    const void *text, size_t length, const char *name,
                                    struct rs_err *err)
{
    struct reader r = {.comm = comm, .err = err};
    const size_t ops = comm->op_count, links = comm->link_count, bytes = comm->bytes.length;
    rs_vjson_init(&r.json, text, length, name);
    enum rs_status status = rs_vjson_want(&r.json, RS_VJSON_OBJECT, err);
    while (status == RS_OK && (status = rs_vjson_next(&r.json, err)) == RS_OK &&
           r.json.token == RS_VJSON_KEY)
        status = read_step(&r, part);
    if (status == RS_OK)
        status = rs_vjson_want(&r.json, RS_VJSON_END, err);
    if (status == RS_OK)
        report_lacks(&r);
    rs_vjson_fini(&r.json);
    if (status != RS_OK) {
        comm->op_count = ops;
        comm->link_count = links;
        comm->bytes.length = bytes;
        comm->bytes.failed = false;
        return status == RS_NOMEM ? rs_err_set(err, RS_NOMEM, "no memory to read %s", name)
                                  : status;
    }
    comm->parts |= (unsigned)part;
    return RS_OK;
}

enum rs_status rs_ascend_comm_read_text(struct rs_ascend_comm *comm, enum rs_ascend_comm_part part,
                                        const char *path, struct rs_buf *scratch,
                                        struct rs_err *err)
{
    rs_buf_reset(scratch);
    const enum rs_status status = rs_file_read_regular(path, FILE_LIMIT_BYTES, scratch, err);
    if (status != RS_OK)
        return status;
    return rs_ascend_comm_parse(comm, part, scratch->data, scratch->length, path, err);
}
