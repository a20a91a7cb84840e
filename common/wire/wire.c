/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/wire.h"

#include "common/base/mem.h"
#include "common/base/view.h"

#include <string.h>

enum { TAG_CHUNK = (15 << 3) | 2, TAG_HANDLE = 1 << 3, TAG_SEQ = 2 << 3, TAG_FLAGS = 3 << 3 };

const char *rs_rank_state_text(enum rs_rank_state state)
{
    static const char *const texts[RS_RANK_STATE_COUNT] = {"idle", "armed", "recording",
                                                           "gone", "files", "busy"};
    return (unsigned)state < RS_RANK_STATE_COUNT ? texts[state] : "unknown";
}

const char *rs_progress_state_text(enum rs_progress_state state)
{
    static const char *const texts[RS_PROGRESS_COUNT] = {
        "waiting", "armed", "delivered", "recording", "written", "reading",
        "sending", "done",  "partial",   "refused",   "lost"};
    return (unsigned)state < RS_PROGRESS_COUNT ? texts[state] : "unknown";
}

bool rs_progress_is_stored_raw(enum rs_progress_state state, const char *text)
{
    return state == RS_PROGRESS_LOST &&
           strncmp(text, RS_STORED_RAW_TEXT, sizeof RS_STORED_RAW_TEXT - 1) == 0;
}

const char *rs_progress_word(enum rs_progress_state state, const char *text)
{
    return rs_progress_is_stored_raw(state, text) ? "stored raw" : rs_progress_state_text(state);
}

bool rs_progress_is_final(enum rs_progress_state state)
{
    return state >= RS_PROGRESS_DONE;
}

const char *rs_capture_state_text(enum rs_capture_state state)
{
    static const char *const texts[RS_CAPTURE_STATE_COUNT] = {
        "preparing", "recording", "collecting", "complete", "partial",
        "failed",    "queued",    "summarised", "stopped"};
    return (unsigned)state < RS_CAPTURE_STATE_COUNT ? texts[state] : "unknown";
}

bool rs_capture_state_is_closed(enum rs_capture_state state)
{
    return state == RS_CAPTURE_COMPLETE || state == RS_CAPTURE_PARTIAL ||
           state == RS_CAPTURE_FAILED || state == RS_CAPTURE_STOPPED;
}

/* ---- frames --------------------------------------------------------------------------------- */

struct own_frame {
    struct rs_frame base;
    struct iovec part;
    uint8_t bytes[];
};

static void release_own(struct rs_frame *frame)
{
    rs_mem_free(frame);
}

struct rs_frame *rs_frame_of(const void *bytes, size_t length)
{
    struct own_frame *frame = rs_mem_calloc(1, sizeof *frame + length);
    if (!frame)
        return NULL;
    if (length)
        memcpy(frame->bytes, bytes, length);
    frame->part = (struct iovec){.iov_base = frame->bytes, .iov_len = length};
    frame->base = (struct rs_frame){
        .parts = &frame->part, .part_count = 1, .length = length, .release = release_own};
    return &frame->base;
}

void rs_frame_free(struct rs_frame **frame_p)
{
    if (*frame_p)
        (*frame_p)->release(*frame_p);
    *frame_p = NULL;
}

size_t rs_frame_copy(const struct rs_frame *frame, size_t offset, void *to, size_t length)
{
    size_t copied = 0;
    for (size_t i = 0; i < frame->part_count && copied < length; i++) {
        const struct iovec *part = &frame->parts[i];
        if (offset >= part->iov_len) {
            offset -= part->iov_len;
            continue;
        }
        size_t take = part->iov_len - offset;
        if (take > length - copied)
            take = length - copied;
        memcpy((uint8_t *)to + copied, (const uint8_t *)part->iov_base + offset, take);
        copied += take;
        offset = 0;
    }
    return copied;
}

enum rs_status rs_frame_slice(const struct rs_frame *frame, size_t offset, size_t length,
                              struct iovec *parts_p, size_t part_max, size_t *count_p)
{
    if (offset > frame->length || length > frame->length - offset)
        return RS_FORMAT;
    size_t count = 0;
    for (size_t i = 0; i < frame->part_count && length; i++) {
        const struct iovec *part = &frame->parts[i];
        if (offset >= part->iov_len) {
            offset -= part->iov_len;
            continue;
        }
        size_t take = part->iov_len - offset;
        if (take > length)
            take = length;
        if (count == part_max)
            return RS_LIMIT;
        parts_p[count++] =
            (struct iovec){.iov_base = (uint8_t *)part->iov_base + offset, .iov_len = take};
        length -= take;
        offset = 0;
    }
    *count_p = count;
    return RS_OK;
}

/* ---- control messages ------------------------------------------------------------------------- */

void rs_wire_pack(const ProtobufCMessage *message, struct rs_buf *buf)
{
    const size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *to = rs_buf_reserve(buf, size ? size : 1);
    if (!to)
        return;
    rs_buf_commit(buf, protobuf_c_message_pack(message, to));
}

static void *budget_alloc(void *self, size_t size)
{
    struct rs_message *message = self;
    if (size > message->budget_bytes)
        return NULL;
    message->budget_bytes -= size;
    return rs_mem_calloc(1, size);
}

static void budget_free(void *self, void *memory)
{
    (void)self;
    rs_mem_free(memory);
}

enum rs_status rs_message_unpack(struct rs_message *message,
                                 const ProtobufCMessageDescriptor *descriptor,
                                 const struct rs_frame *frame, struct rs_err *err)
{
    *message = (struct rs_message){.budget_bytes = RS_WIRE_UNPACK_MAX_BYTES};
    if (frame->length > RS_WIRE_MESSAGE_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a message of %zu bytes is over the limit of %d",
                          frame->length, RS_WIRE_MESSAGE_MAX_BYTES);
    message->allocator =
        (ProtobufCAllocator){.alloc = budget_alloc, .free = budget_free, .allocator_data = message};
    uint8_t *copy = NULL;
    const uint8_t *bytes = frame->part_count ? frame->parts[0].iov_base : (const uint8_t *)"";
    if (frame->part_count > 1) {
        copy = rs_mem_calloc(frame->length, 1);
        if (!copy)
            return rs_err_set(err, RS_NOMEM, "no memory for a message");
        (void)rs_frame_copy(frame, 0, copy, frame->length);
        bytes = copy;
    }
    message->body =
        protobuf_c_message_unpack(descriptor, &message->allocator, frame->length, bytes);
    rs_mem_free(copy);
    if (!message->body)
        return rs_err_set(err, RS_FORMAT, "%zu bytes are not a message of kind %s", frame->length,
                          descriptor->short_name);
    return RS_OK;
}

ProtobufCMessage *rs_wire_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes,
                                 size_t length)
{
    struct rs_message message = {.budget_bytes = RS_WIRE_UNPACK_MAX_BYTES};
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc, .free = budget_free, .allocator_data = &message};
    return length > RS_WIRE_MESSAGE_MAX_BYTES
               ? NULL
               : protobuf_c_message_unpack(descriptor, &allocator, length, bytes);
}

void rs_message_fini(struct rs_message *message)
{
    if (message->body)
        protobuf_c_message_free_unpacked(message->body, &message->allocator);
    message->body = NULL;
}

void rs_wire_own_version(Rankscope__Version *version)
{
    static char program[] = "rankscope " RS_PROGRAM_VERSION;
    rankscope__version__init(version);
    version->major = RS_WIRE_MAJOR;
    version->minor = RS_WIRE_MINOR;
    version->program = program;
}

enum rs_status rs_wire_check_version(const Rankscope__Version *version, const char *who,
                                     struct rs_err *err)
{
    if (!version)
        return rs_err_set(err, RS_VERSION, "%s did not say its protocol version", who);
    /* A newer peer by one minor version must be let in, too: it knows how to speak to us. */
    if (version->major == RS_WIRE_MAJOR && version->minor >= RS_WIRE_MINOR_OLDEST &&
        version->minor <= RS_WIRE_MINOR + 1)
        return RS_OK;
    return rs_err_set(err, RS_VERSION,
                      "%s (%.80s) speaks protocol %u.%u, this is %d.%d and understands %d.%d to "
                      "%d.%d",
                      who, version->program, version->major, version->minor, RS_WIRE_MAJOR,
                      RS_WIRE_MINOR, RS_WIRE_MAJOR, RS_WIRE_MINOR_OLDEST, RS_WIRE_MAJOR,
                      RS_WIRE_MINOR + 1);
}

enum rs_status rs_wire_check_text(const char *text, size_t max_bytes, const char *what,
                                  struct rs_err *err)
{
    const size_t length = strnlen(text, max_bytes + 1);
    if (length > max_bytes)
        return rs_err_set(err, RS_INVALID, "%s is longer than %zu bytes", what, max_bytes);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return rs_err_set(err, RS_INVALID, "%s holds a control byte", what);
    return RS_OK;
}

bool rs_wire_is_capture_id(const char *id)
{
    const size_t length = strnlen(id, 64);
    return length > 0 && length < 64 && id[0] != '.' &&
           strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
               length;
}

/* ---- chunks ----------------------------------------------------------------------------------- */

static size_t varint_bytes(uint64_t value)
{
    size_t count = 1;
    for (; value >= 0x80; value >>= 7)
        count++;
    return count;
}

void rs_wire_chunk_head(struct rs_buf *buf, uint32_t handle, uint64_t seq, uint32_t flags,
                        size_t payload_length)
{
    const uint32_t payload_tag = (15u << 3) | 2u;
    size_t inside = 1 + varint_bytes(handle) + 1 + varint_bytes(seq) + varint_bytes(payload_tag) +
                    varint_bytes(payload_length) + payload_length;
    if (flags)
        inside += 1 + varint_bytes(flags);
    rs_buf_varint(buf, TAG_CHUNK);
    rs_buf_varint(buf, inside);
    rs_buf_varint(buf, TAG_HANDLE);
    rs_buf_varint(buf, handle);
    rs_buf_varint(buf, TAG_SEQ);
    rs_buf_varint(buf, seq);
    if (flags) {
        rs_buf_varint(buf, TAG_FLAGS);
        rs_buf_varint(buf, flags);
    }
    rs_buf_varint(buf, payload_tag);
    rs_buf_varint(buf, payload_length);
}

bool rs_wire_is_chunk(const struct rs_frame *frame)
{
    uint8_t first = 0;
    return rs_frame_copy(frame, 0, &first, 1) == 1 && first == TAG_CHUNK;
}

enum rs_status rs_wire_chunk_parse(const struct rs_frame *frame, struct rs_chunk_message *message_p,
                                   struct rs_err *err)
{
    uint8_t head[RS_WIRE_CHUNK_HEAD_MAX_BYTES];
    const size_t got = rs_frame_copy(frame, 0, head, sizeof head);
    struct rs_view view = rs_view_of(head, got);
    struct rs_chunk_message message = {0};
    const uint64_t tag = rs_view_varint(&view);
    const uint64_t inside = rs_view_varint(&view);
    const size_t outer = got - view.length;
    if (view.failed || tag != TAG_CHUNK || inside != frame->length - outer)
        return rs_err_set(err, RS_FORMAT, "a chunk message's frame is not right");
    for (;;) {
        const uint64_t field = rs_view_varint(&view);
        const uint64_t value = rs_view_varint(&view);
        if (view.failed)
            return rs_err_set(err, RS_FORMAT, "a chunk message's head is cut off");
        if (field == ((15u << 3) | 2u)) {
            message.payload_offset = got - view.length;
            message.payload_length = (size_t)value;
            break;
        }
        if ((field == TAG_HANDLE || field == TAG_FLAGS) && value > UINT32_MAX)
            return rs_err_set(err, RS_FORMAT, "a chunk message's field does not fit its kind");
        if (field == TAG_HANDLE)
            message.handle = (uint32_t)value;
        else if (field == TAG_SEQ)
            message.seq = value;
        else if (field == TAG_FLAGS)
            message.flags = (uint32_t)value;
        else if ((field & 7) != 0)
            return rs_err_set(err, RS_FORMAT, "a chunk message holds an unknown field");
    }
    if (message.payload_length != frame->length - message.payload_offset)
        return rs_err_set(err, RS_FORMAT, "a chunk message's payload is not its last field");
    if (message.payload_length > RS_WIRE_CHUNK_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "a chunk of %zu bytes is over the limit of %d",
                          message.payload_length, RS_WIRE_CHUNK_MAX_BYTES);
    *message_p = message;
    return RS_OK;
}
