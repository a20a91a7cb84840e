/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/source/kineto_write.h"

#include "collector/source/kineto_priv.h"

#include <inttypes.h>

/* One row being written. */
struct row_out {
    struct rs_buf *buf;
    const struct rs_batch *batch;
    size_t at;
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

static void raw_member(struct row_out *out, const char *key, rs_str id)
{
    if (id != RS_STR_NONE && begin_member(out, out->args, key))
        rs_buf_bytes(out->buf, rs_strtab_text(out->batch->strings, id),
                     rs_strtab_length(out->batch->strings, id));
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
    if (batch->bytes[at] != (is_memory ? INT64_MIN : -1))
        integer_member(out, out->args, is_memory ? "Bytes" : "bytes", batch->bytes[at]);
    if (batch->flags[at] & RS_EVENT_UNFINISHED && begin_member(out, out->args, "finished"))
        rs_buf_string(out->buf, "false");
    raw_member(out, "Input Dims", batch->input_dims[at]);
    raw_member(out, "Input type", batch->input_types[at]);
    raw_member(out, "Concrete Inputs", batch->concrete_inputs[at]);
    comm_members(out);
    if (out->args.length)
        rs_buf_printf(out->buf, "%s%.*s", out->has_member ? ", " : "", (int)out->args.length,
                      out->args.text);
    out->has_member = out->has_member || out->args.length;
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

/* What the batch holds of a row stands beside a second member of that name in an unusual shape, as it stood in the file: reading
 * takes the same one of them again. */
static void write_row(struct row_out *out)
{
    const struct kineto_span none = {0};
    const struct rs_batch *batch = out->batch;
    const size_t at = out->at;
    const struct rs_lane *lane = &batch->lanes->items[batch->lane[at]];
    const char phase = (char)batch->phase[at];
    rs_buf_u8(out->buf, '{');
    if (phase && begin_member(out, none, "ph"))
        write_string(out->buf, &phase, 1);
    string_member(out, none, "cat", batch->category[at]);
    if (!(batch->flags[at] & RS_EVENT_NO_NAME))
        string_member(out, none, "name", batch->name[at]);
    id_member(out, "pid", lane->process_text, lane->process);
    id_member(out, "tid", lane->thread_text, lane->thread);
    if (!(batch->flags[at] & RS_EVENT_NO_TIME))
        time_member(out, "ts", batch->start[at]);
    if (!(batch->flags[at] & RS_EVENT_NO_END))
        time_member(out, "dur", batch->end[at] - batch->start[at]);
    if (is_flow(batch->kind[at]) && batch->correlation[at] >= 0)
        integer_member(out, out->others, "id", batch->correlation[at]);
    write_args(out);
    if (out->others.length)
        rs_buf_printf(out->buf, "%s%.*s", out->has_member ? ", " : "", (int)out->others.length,
                      out->others.text);
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
        struct row_out out = {.buf = writer->buf, .batch = batch, .at = at};
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
        writer->has_rows = true;
        write_row(&out);
    }
}

void rs_kineto_write_end(struct rs_kineto_writer *writer, const struct rs_trace_info *info,
                         const struct rs_strtab *strings)
{
    rs_buf_string(writer->buf, "\n]");
    const size_t length = rs_strtab_length(strings, info->metadata);
    if (info->metadata != RS_STR_NONE && length > 2) {
        rs_buf_string(writer->buf, ", ");
        rs_buf_bytes(writer->buf, rs_strtab_text(strings, info->metadata) + 1, length - 1);
        rs_buf_u8(writer->buf, '\n');
    } else {
        rs_buf_string(writer->buf, "}\n");
    }
}
