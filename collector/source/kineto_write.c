/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/source/kineto_write.h"

#include "collector/source/kineto_priv.h"
#include "common/base/stretch.h"

#include <inttypes.h>
#include <string.h>

/* One row being written. */
struct row_out {
    struct rs_buf *buf;
    const struct rs_batch *batch;
    size_t at;
    bool fills_in;
    struct kineto_span args;   /* first part of extra: members of args */
    struct kineto_span others; /* second part: members of the row */
    bool has_member;           /* of the object being written */
};

static void write_string(struct rs_buf *buf, const char *text, size_t length)
{
    rs_buf_u8(buf, '"');
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if (byte < ' ')
            rs_buf_printf(buf, "\\u%04x", byte);
        else if (byte == '"' || byte == '\\')
            rs_buf_printf(buf, "\\%c", byte);
        else
            rs_buf_u8(buf, byte);
    }
    rs_buf_u8(buf, '"');
}

/* Is there a member of this name in `members` ("k": v, ...)? Strings in there are well formed: the
 * reader wrote them. */
static bool has_key(struct kineto_span members, const char *key)
{
    const size_t length = strlen(key);
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < members.length; i++) {
        const char byte = members.text[i];
        if (in_string) {
            i += byte == '\\';
            in_string = byte != '"';
        } else if (byte == '"') {
            in_string = true;
            if (!depth && members.length - i > length + 2 &&
                memcmp(members.text + i + 1, key, length) == 0 &&
                memcmp(members.text + i + 1 + length, "\":", 2) == 0)
                return true;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if (byte == '}' || byte == ']') {
            depth--;
        }
    }
    return false;
}

/* False when `extra` has this member: then it is written from there. */
static bool begin_member(struct row_out *out, struct kineto_span extra, const char *key)
{
    if (extra.length && has_key(extra, key))
        return false;
    rs_buf_printf(out->buf, "%s\"%s\": ", out->has_member ? ", " : "", key);
    out->has_member = true;
    return true;
}

static void string_member(struct row_out *out, struct kineto_span extra, const char *key, rs_str id)
{
    if (id == RS_STR_NONE || !begin_member(out, extra, key))
        return;
    write_string(out->buf, rs_strtab_text(out->batch->strings, id),
                 rs_strtab_length(out->batch->strings, id));
}

/* A text in its quotes, with nothing in it that would have to be escaped. */
static bool is_quoted(const char *text, size_t length)
{
    if (length < 2 || text[0] != '"' || text[length - 1] != '"')
        return false;
    for (size_t i = 1; i + 1 < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == '"' || text[i] == '\\')
            return false;
    return true;
}

/* A Chrome trace has these as JSON; other profilers have texts of their own (FLOAT;FLOAT). */
static void raw_member(struct row_out *out, const char *key, rs_str id)
{
    if (id == RS_STR_NONE || !begin_member(out, out->args, key))
        return;
    const char *text = rs_strtab_text(out->batch->strings, id);
    const size_t length = rs_strtab_length(out->batch->strings, id);
    if (out->fills_in && !out->batch->phase[out->at] && !is_quoted(text, length))
        write_string(out->buf, text, length);
    else
        rs_buf_bytes(out->buf, text, length);
}

/* Members as they stood in the file, behind those that were written. */
static void more_members(struct row_out *out, struct kineto_span members)
{
    if (!members.length)
        return;
    rs_buf_string(out->buf, out->has_member ? ", " : "");
    rs_buf_bytes(out->buf, members.text, members.length);
    out->has_member = true;
}

static void integer_member(struct row_out *out, struct kineto_span extra, const char *key,
                           int64_t value)
{
    if (begin_member(out, extra, key))
        rs_buf_printf(out->buf, "%" PRId64, value);
}

/* ns as us; three decimals when there are any. */
static void time_member(struct row_out *out, const char *key, int64_t ns)
{
    (void)begin_member(out, (struct kineto_span){0}, key);
    const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    rs_buf_printf(out->buf, "%s%" PRIu64, ns < 0 ? "-" : "", size / 1000);
    if (size % 1000)
        rs_buf_printf(out->buf, ".%03" PRIu64, size % 1000);
}

static void id_member(struct row_out *out, const char *key, rs_str text, int64_t value)
{
    if (text != RS_STR_NONE)
        string_member(out, (struct kineto_span){0}, key, text);
    else if (value != KINETO_NO_ID)
        integer_member(out, (struct kineto_span){0}, key, value);
}

static void comm_members(struct row_out *out)
{
    if (out->batch->comm[out->at] == RS_NO_COMM)
        return;
    const struct rs_comm *comm = &out->batch->comms[out->batch->comm[out->at]];
    const struct {
        const char *key;
        rs_str id;
    } texts[] = {
        {"Collective name", comm->collective},
        {"dtype", comm->dtype},
        {"Process Group Name", comm->group_name},
        {"Process Group Description", comm->group_description},
        {"Process Group Ranks", comm->group_ranks},
        {"In split size", comm->in_split},
        {"Out split size", comm->out_split},
    };
    const struct {
        const char *key;
        uint32_t has;
        int64_t value;
    } numbers[] = {
        {"In msg nelems", RS_COMM_HAS_IN_NELEMS, comm->in_nelems},
        {"Out msg nelems", RS_COMM_HAS_OUT_NELEMS, comm->out_nelems},
        {"Group size", RS_COMM_HAS_GROUP_SIZE, comm->group_size},
        {"Src Rank", RS_COMM_HAS_SRC, comm->src},
        {"Dst Rank", RS_COMM_HAS_DST, comm->dst},
        {"Rank", RS_COMM_HAS_RANK, comm->rank},
        {"Global rank start", RS_COMM_HAS_GLOBAL_START, comm->global_start},
        {"Global rank stride", RS_COMM_HAS_GLOBAL_STRIDE, comm->global_stride},
        {"Seq", RS_COMM_HAS_SEQ, comm->seq},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        string_member(out, out->args, texts[i].key, texts[i].id);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (comm->has & numbers[i].has)
            integer_member(out, out->args, numbers[i].key, numbers[i].value);
    }
    if (comm->has & RS_COMM_HAS_COMMS_ID && begin_member(out, out->args, "Comms Id"))
        rs_buf_printf(out->buf, "%" PRIu64, comm->comms_id);
}

static bool is_flow(uint8_t kind)
{
    return kind == RS_KIND_FLOW_START || kind == RS_KIND_FLOW_END;
}

static void arg_members(struct row_out *out)
{
    const struct rs_batch *batch = out->batch;
    const size_t at = out->at;
    const bool is_memory = batch->kind[at] == RS_KIND_MEMORY;
    if (batch->external_id[at] >= 0)
        integer_member(out, out->args, "External id", batch->external_id[at]);
    if (batch->correlation[at] >= 0 && !is_flow(batch->kind[at]))
        integer_member(out, out->args, "correlation", batch->correlation[at]);
    const bool is_value = out->fills_in && !batch->phase[at] && batch->kind[at] == RS_KIND_COUNTER;
    if (batch->bytes[at] != (is_memory ? INT64_MIN : -1))
        integer_member(out, out->args,
                       is_memory  ? "Bytes"
                       : is_value ? "value"
                                  : "bytes",
                       batch->bytes[at]);
    if (batch->flags[at] & RS_EVENT_UNFINISHED && begin_member(out, out->args, "finished"))
        rs_buf_string(out->buf, "false");
    raw_member(out, "Input Dims", batch->input_dims[at]);
    raw_member(out, "Input type", batch->input_types[at]);
    raw_member(out, "Concrete Inputs", batch->concrete_inputs[at]);
    comm_members(out);
    more_members(out, out->args);
}

static void write_args(struct row_out *out)
{
    struct rs_buf *buf = out->buf;
    const size_t before = buf->length;
    const bool had_member = out->has_member;
    rs_buf_string(buf, had_member ? ", \"args\": {" : "\"args\": {");
    out->has_member = false;
    arg_members(out);
    if (out->has_member)
        rs_buf_u8(buf, '}');
    else
        buf->length = before;
    out->has_member = had_member || out->has_member;
}

/* Of a row that never stood in a Chrome trace. */
static char phase_of(uint8_t kind)
{
    switch ((enum rs_kind)kind) {
    case RS_KIND_MARK:
    case RS_KIND_INSTANT:
    case RS_KIND_MEMORY:
        return 'i';
    case RS_KIND_COUNTER:
        return 'C';
    case RS_KIND_FLOW_START:
        return 's';
    case RS_KIND_FLOW_END:
        return 'f';
    case RS_KIND_METADATA:
        return 'M';
    case RS_KIND_OTHER:
    case RS_KIND_CPU_OP:
    case RS_KIND_USER_ANNOTATION:
    case RS_KIND_GPU_USER_ANNOTATION:
    case RS_KIND_KERNEL:
    case RS_KIND_MEMCPY:
    case RS_KIND_MEMSET:
    case RS_KIND_RUNTIME:
    case RS_KIND_DRIVER:
    case RS_KIND_SYNC:
    case RS_KIND_DEVICE_EVENT:
    case RS_KIND_PYTHON:
    case RS_KIND_OVERHEAD:
    case RS_KIND_TRACE_SPAN:
    case RS_KIND_STEP:
    case RS_KIND_RANGE:
    case RS_KIND_OP:
    case RS_KIND_COMM:
    case RS_KIND_COMM_TASK:
    case RS_KIND_LOSS:
    case RS_KIND_STEP_WINDOW:
    case RS_KIND_COUNT:
        return 'X';
    }
    return 'X';
}

static void fill_in_texts(struct row_out *out)
{
    const struct kineto_span none = {0};
    const struct rs_batch *batch = out->batch;
    const enum rs_kind kind = batch->kind[out->at];
    const char *word = rs_kind_text(kind);
    if (batch->category[out->at] != RS_STR_NONE)
        string_member(out, none, "cat", batch->category[out->at]);
    else if (begin_member(out, none, "cat"))
        write_string(out->buf, word, strlen(word));
    const char *name = rs_strtab_text(batch->strings, batch->name[out->at]);
    const bool is_named = *name && strcmp(name, word) != 0;
    if (is_named) {
        string_member(out, none, "name", batch->name[out->at]);
    } else if (begin_member(out, none, "name")) {
        /* A step has a number for a name. */
        if (kind == RS_KIND_STEP || kind == RS_KIND_STEP_WINDOW)
            rs_buf_printf(out->buf, "\"%s %" PRId64 "\"", word, batch->correlation[out->at]);
        else
            write_string(out->buf, word, strlen(word));
    }
}

/* What the batch holds of a row stands beside a second member of that name in an unusual shape, as it stood in the file: reading
 * takes the same one of them again. */
static void write_row(struct row_out *out)
{
    const struct kineto_span none = {0};
    const struct rs_batch *batch = out->batch;
    const size_t at = out->at;
    const struct rs_lane *lane = &batch->lanes->items[batch->lane[at]];
    const bool fills_in = out->fills_in && !batch->phase[at];
    char phase = (char)batch->phase[at];
    if (fills_in)
        phase = phase_of(batch->kind[at]);
    rs_buf_u8(out->buf, '{');
    if (phase && begin_member(out, none, "ph"))
        write_string(out->buf, &phase, 1);
    if (fills_in)
        fill_in_texts(out);
    else
        string_member(out, none, "cat", batch->category[at]);
    if (!fills_in && !(batch->flags[at] & RS_EVENT_NO_NAME))
        string_member(out, none, "name", batch->name[at]);
    id_member(out, "pid", lane->process_text, lane->process);
    id_member(out, "tid", lane->thread_text, lane->thread);
    if (!(batch->flags[at] & RS_EVENT_NO_TIME))
        time_member(out, "ts", batch->start[at]);
    if (!(batch->flags[at] & RS_EVENT_NO_END) && (!fills_in || phase == 'X'))
        time_member(out, "dur", rs_stretch_between(batch->start[at], batch->end[at]));
    if (is_flow(batch->kind[at]) && batch->correlation[at] >= 0)
        integer_member(out, out->others, "id", batch->correlation[at]);
    write_args(out);
    more_members(out, out->others);
    rs_buf_u8(out->buf, '}');
}

void rs_kineto_write_begin(struct rs_kineto_writer *writer, struct rs_buf *buf)
{
    *writer = (struct rs_kineto_writer){.buf = buf};
    rs_buf_string(buf, "{\"traceEvents\": [");
}

void rs_kineto_write_rows(struct rs_kineto_writer *writer, const struct rs_batch *batch)
{
    for (size_t at = 0; at < batch->count; at++) {
        if (writer->dropped_rows) {
            writer->dropped_rows += batch->count - at;
            return;
        }
        const size_t before = writer->buf->length;
        struct row_out out = {
            .buf = writer->buf, .batch = batch, .at = at, .fills_in = writer->fills_in};
        const size_t length = batch->extra_length[at];
        if (length) {
            const char *extra = batch->extra + batch->extra_offset[at];
            const char *line = memchr(extra, '\n', length);
            const size_t first = line ? (size_t)(line - extra) : length;
            out.args = (struct kineto_span){.text = extra, .length = first};
            if (line)
                out.others = (struct kineto_span){.text = line + 1, .length = length - first - 1};
        }
        rs_buf_string(writer->buf, writer->has_rows ? ",\n" : "\n");
        write_row(&out);
        const uint64_t bytes = writer->buf->length - before;
        if (writer->limit_bytes && bytes > writer->limit_bytes - writer->row_bytes) {
            writer->buf->length = before;
            writer->dropped_rows++;
            continue;
        }
        writer->row_bytes += bytes;
        writer->has_rows = true;
        writer->has_filled = writer->has_filled || (writer->fills_in && !batch->phase[at]);
    }
}

void rs_kineto_write_end(struct rs_kineto_writer *writer, const struct rs_trace_info *info,
                         const struct rs_strtab *strings)
{
    rs_buf_string(writer->buf, "\n]");
    if (writer->dropped_rows)
        rs_buf_printf(writer->buf, ", \"droppedRows\": %" PRIu64, writer->dropped_rows);
    const size_t length = rs_strtab_length(strings, info->metadata);
    const struct kineto_span own = {.text = length > 2 ? rs_strtab_text(strings, info->metadata) + 1
                                                       : "",
                                    .length = length > 2 ? length - 2 : 0};
    if (writer->has_filled && info->has_time_base && !has_key(own, "baseTimeNanoseconds"))
        rs_buf_printf(writer->buf, ", \"baseTimeNanoseconds\": %" PRId64, info->base_ns);
    if (writer->has_filled && info->rank >= 0 && !has_key(own, "distributedInfo"))
        rs_buf_printf(writer->buf,
                      ", \"distributedInfo\": {\"rank\": %" PRId32 ", \"world_size\": %" PRId32 "}",
                      info->rank, info->world_size);
    if (info->metadata != RS_STR_NONE && length > 2) {
        rs_buf_string(writer->buf, ", ");
        rs_buf_bytes(writer->buf, rs_strtab_text(strings, info->metadata) + 1, length - 1);
        rs_buf_u8(writer->buf, '\n');
    } else {
        rs_buf_string(writer->buf, "}\n");
    }
}
