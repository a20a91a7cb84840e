/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/source/inflate.h"

#include "collector/source/unpack.h"
#include "common/base/mem.h"

#include <isa-l/igzip_lib.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMPRESSED_BYTES = 256 * 1024 };

struct input_gzip {
    struct inflate_state state;
    int64_t file_offset; /* of the first byte behind `block` */
    bool is_file_at_end;
    bool is_between; /* a member ended, the next has not begun */
    uint8_t block[COMPRESSED_BYTES];
};

struct input_packed {
    enum unpack_kind kind;
    struct unpack *unpack;
    const uint8_t *at; /* in block */
    size_t count;
    int64_t file_offset; /* of the first byte behind `block` */
    bool is_file_at_end;
    uint8_t block[COMPRESSED_BYTES];
};

static enum rs_status read_some(struct input *input, void *buffer, size_t capacity, size_t *count_p,
                                struct rs_err *err)
{
    ssize_t got;
    do {
        got = read(input->fd, buffer, capacity);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return rs_err_errno(err, "cannot read the trace");
    *count_p = (size_t)got;
    return RS_OK;
}

static enum rs_status open_gzip(struct input *input)
{
    input->gzip = rs_mem_calloc(1, sizeof *input->gzip);
    if (!input->gzip)
        return RS_NOMEM;
    isal_inflate_init(&input->gzip->state);
    input->gzip->state.crc_flag = ISAL_GZIP;
    memcpy(input->gzip->block, input->head, input->head_count);
    input->gzip->state.next_in = input->gzip->block;
    input->gzip->state.avail_in = (uint32_t)input->head_count;
    input->gzip->file_offset = (int64_t)input->head_count;
    input->head_count = 0;
    return RS_OK;
}

static enum rs_status open_packed(struct input *input, enum unpack_kind kind)
{
    input->packed = rs_mem_calloc(1, sizeof *input->packed);
    if (!input->packed)
        return RS_NOMEM;
    input->packed->kind = kind;
    memcpy(input->packed->block, input->head, input->head_count);
    input->packed->at = input->packed->block;
    input->packed->count = input->head_count;
    input->packed->file_offset = (int64_t)input->head_count;
    input->head_count = 0;
    return unpack_new(kind, &input->packed->unpack);
}

static enum rs_status look_at_head(struct input *input, struct rs_err *err)
{
    while (input->head_count < sizeof input->head) {
        size_t got = 0;
        const enum rs_status status = read_some(input, input->head + input->head_count,
                                                sizeof input->head - input->head_count, &got, err);
        if (status != RS_OK)
            return status;
        if (!got)
            break;
        input->head_count += got;
    }
    if (input->head_count >= 2 && input->head[0] == 0x1f && input->head[1] == 0x8b)
        return open_gzip(input);
    const enum unpack_kind kind = unpack_kind_of(input->head, input->head_count);
    return kind == UNPACK_NONE ? RS_OK : open_packed(input, kind);
}

enum rs_status input_open(struct input *input, const char *path, struct rs_err *err)
{
    *input = (struct input){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (input->fd < 0) {
        const bool is_absent = errno == ENOENT || errno == ENOTDIR;
        const enum rs_status status = rs_err_errno(err, "cannot open %s", path);
        return is_absent ? rs_err_set(err, RS_NOTFOUND, "there is no file %s", path) : status;
    }
    struct stat about;
    enum rs_status status = RS_OK;
    if (fstat(input->fd, &about) < 0)
        status = rs_err_errno(err, "cannot look at %s", path);
    else if (!S_ISREG(about.st_mode))
        status = rs_err_set(err, RS_IO, "%s is not a regular file", path);
    else
        status = look_at_head(input, err);
    if (status != RS_OK) {
        input_close(input);
        return status;
    }
    input->file_bytes = about.st_size;
    return RS_OK;
}

void input_close(struct input *input)
{
    if (input->fd > 0)
        (void)close(input->fd);
    rs_mem_free(input->gzip);
    if (input->packed)
        unpack_free(&input->packed->unpack);
    rs_mem_free(input->packed);
    *input = (struct input){.fd = -1};
}

static enum rs_status read_plain(struct input *input, char *buffer, size_t capacity,
                                 size_t *count_p, struct rs_err *err)
{
    size_t count = input->head_count < capacity ? input->head_count : capacity;
    memcpy(buffer, input->head, count);
    memmove(input->head, input->head + count, input->head_count - count);
    input->head_count -= count;
    while (count < capacity) {
        size_t got = 0;
        const enum rs_status status = read_some(input, buffer + count, capacity - count, &got, err);
        if (status != RS_OK)
            return status;
        if (!got)
            break;
        count += got;
    }
    *count_p = count;
    return RS_OK;
}

static void stop_early(struct input *input, const char *what)
{
    const struct input_gzip *gzip = input->gzip;
    (void)snprintf(input->problem, sizeof input->problem,
                   "the gzip data %s at byte %" PRId64 " of the file", what,
                   gzip->file_offset - gzip->state.avail_in);
    input->is_at_end = true;
}

static enum rs_status refill(struct input *input, struct rs_err *err)
{
    struct input_gzip *gzip = input->gzip;
    size_t got = 0;
    const enum rs_status status = read_some(input, gzip->block, sizeof gzip->block, &got, err);
    if (status != RS_OK)
        return status;
    gzip->state.next_in = gzip->block;
    gzip->state.avail_in = (uint32_t)got;
    gzip->file_offset += (int64_t)got;
    gzip->is_file_at_end = got == 0;
    return RS_OK;
}

/* Behind a member: zeros are padding; what else starts like a member is one. False: that was the end. */
static bool next_member(struct input *input)
{
    struct inflate_state *state = &input->gzip->state;
    while (state->avail_in && *state->next_in == 0) {
        state->next_in++;
        state->avail_in--;
    }
    if (!state->avail_in)
        return true;
    if (*state->next_in != 0x1f) {
        stop_early(input, "has other bytes behind its end");
        return false;
    }
    isal_inflate_reset(state);
    state->crc_flag = ISAL_GZIP;
    input->gzip->is_between = false;
    return true;
}

/* One turn of the inflater. */
static void inflate_some(struct input *input)
{
    struct input_gzip *gzip = input->gzip;
    if (gzip->is_between && (!next_member(input) || gzip->is_between))
        return;
    const int code = isal_inflate(&gzip->state);
    if (code < 0 && code != ISAL_END_INPUT) {
        stop_early(input, code == ISAL_INCORRECT_CHECKSUM ? "has a wrong checksum" : "is damaged");
        return;
    }
    if (gzip->state.block_state == ISAL_BLOCK_FINISH)
        gzip->is_between = true;
}

static enum rs_status read_gzip(struct input *input, char *buffer, size_t capacity, size_t *count_p,
                                struct rs_err *err)
{
    struct input_gzip *gzip = input->gzip;
    const size_t room = capacity < UINT32_MAX ? capacity : UINT32_MAX;
    gzip->state.next_out = (uint8_t *)buffer;
    gzip->state.avail_out = (uint32_t)room;
    while (gzip->state.avail_out && !input->is_at_end) {
        if (!gzip->state.avail_in && !gzip->is_file_at_end) {
            const enum rs_status status = refill(input, err);
            if (status != RS_OK)
                return status;
        }
        const uint32_t before_out = gzip->state.avail_out;
        const uint32_t before_in = gzip->state.avail_in;
        inflate_some(input);
        if (input->is_at_end || !gzip->is_file_at_end || gzip->state.avail_out != before_out ||
            gzip->state.avail_in != before_in)
            continue;
        if (gzip->is_between)
            input->is_at_end = true;
        else
            stop_early(input, "ends early");
    }
    *count_p = room - gzip->state.avail_out;
    return RS_OK;
}

static enum rs_status refill_packed(struct input *input, struct rs_err *err)
{
    struct input_packed *packed = input->packed;
    size_t got = 0;
    const enum rs_status status = read_some(input, packed->block, sizeof packed->block, &got, err);
    packed->at = packed->block;
    packed->count = got;
    packed->file_offset += (int64_t)got;
    packed->is_file_at_end = got == 0;
    return status;
}

static void end_packed(struct input *input, const char *what)
{
    const struct input_packed *packed = input->packed;
    (void)snprintf(input->problem, sizeof input->problem,
                   "the %s data %s at byte %" PRId64 " of the file", unpack_name(packed->kind),
                   what, packed->file_offset - (int64_t)packed->count);
    input->is_at_end = true;
}

/* Written through `io`. NOLINTNEXTLINE(readability-non-const-parameter) */
static enum rs_status read_packed(struct input *input, char *buffer, size_t capacity,
                                  size_t *count_p, struct rs_err *err)
{
    struct input_packed *packed = input->packed;
    struct unpack_io io = {.out = (uint8_t *)buffer, .out_count = capacity};
    while (io.out_count && !input->is_at_end) {
        if (!packed->count && !packed->is_file_at_end) {
            const enum rs_status status = refill_packed(input, err);
            if (status != RS_OK)
                return status;
        }
        const size_t before_out = io.out_count, before_in = packed->count;
        io.in = packed->at;
        io.in_count = packed->count;
        io.is_last = packed->is_file_at_end;
        const enum rs_status status = unpack_some(packed->unpack, &io);
        packed->at = io.in;
        packed->count = io.in_count;
        if (status != RS_OK)
            end_packed(input, "is damaged");
        else if (packed->is_file_at_end && io.out_count == before_out &&
                 packed->count == before_in) {
            if (unpack_may_end(packed->unpack))
                input->is_at_end = true;
            else
                end_packed(input, "ends early");
        }
    }
    *count_p = capacity - io.out_count;
    return RS_OK;
}

enum rs_status input_read(struct input *input, char *buffer, size_t capacity, size_t *count_p,
                          struct rs_err *err)
{
    *count_p = 0;
    if (input->is_at_end || !capacity)
        return RS_OK;
    const enum rs_status status = input->packed ? read_packed(input, buffer, capacity, count_p, err)
                                  : input->gzip ? read_gzip(input, buffer, capacity, count_p, err)
                                                : read_plain(input, buffer, capacity, count_p, err);
    if (status != RS_OK)
        return status;
    input->raw_bytes += (int64_t)*count_p;
    if (!*count_p)
        input->is_at_end = true;
    return RS_OK;
}
