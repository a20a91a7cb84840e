/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file written through a megabyte of memory, under a temporary name until it is whole.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum rs_status sink_open(struct sink *sink, const char *dir, const char *name)
{
    char temporary[64];
    (void)snprintf(temporary, sizeof temporary, ".%.40s.part", name);
    *sink = (struct sink){.fd = -1};
    sink->path = rs_file_join(dir, name);
    sink->temporary = rs_file_join(dir, temporary);
    sink->data = rs_mem_calloc(SINK_BYTES + SINK_ROOM, 1);
    if (!sink->path || !sink->temporary || !sink->data) {
        sink->status = rs_err_set(&sink->err, RS_NOMEM, "no memory to write %s", name);
        return sink->status;
    }
    (void)unlink(sink->temporary);
    sink->fd = open(sink->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, RS_FILE_MODE);
    if (sink->fd < 0 || fchmod(sink->fd, RS_FILE_MODE) != 0)
        sink->status = rs_err_errno(&sink->err, "cannot write %s", sink->temporary);
    return sink->status;
}

void sink_flush(struct sink *sink)
{
    if (sink->status == RS_OK)
        sink->status =
            rs_file_write_all(sink->fd, sink->data, sink->length, sink->temporary, &sink->err);
    sink->written += sink->length;
    sink->length = 0;
}

enum rs_status sink_close(struct sink *sink)
{
    if (sink->fd >= 0) {
        sink_flush(sink);
        if (close(sink->fd) != 0 && sink->status == RS_OK)
            sink->status = rs_err_errno(&sink->err, "cannot write %s", sink->path);
        if (sink->status == RS_OK && rename(sink->temporary, sink->path) != 0)
            sink->status = rs_err_errno(&sink->err, "cannot put %s in its place", sink->path);
        if (sink->status != RS_OK)
            (void)unlink(sink->temporary);
    }
    rs_mem_free(sink->data);
    rs_mem_free(sink->path);
    rs_mem_free(sink->temporary);
    sink->data = NULL;
    sink->path = sink->temporary = NULL;
    sink->fd = -1;
    return sink->status;
}

void sink_bytes(struct sink *sink, const char *bytes, size_t length)
{
    while (length) {
        if (sink->length >= SINK_BYTES)
            sink_flush(sink);
        const size_t room = SINK_BYTES + SINK_ROOM - sink->length;
        const size_t part = length < room ? length : room;
        memcpy(sink->data + sink->length, bytes, part);
        sink->length += part;
        bytes += part;
        length -= part;
    }
}

void sink_text(struct sink *sink, const char *text)
{
    sink_bytes(sink, text, strlen(text));
}

void sink_num(struct sink *sink, const struct rs_ascend_num *num)
{
    if (sink->length >= SINK_BYTES)
        sink_flush(sink);
    sink->length += rs_ascend_num_print(num, (char *)sink->data + sink->length);
}

void sink_int(struct sink *sink, int64_t value)
{
    const struct rs_ascend_num num = rs_ascend_num_of_int(value);
    sink_num(sink, &num);
}

/* The code point at *at_p, which moves behind it. The text is UTF-8: its reader has seen to it; from a
 * database it may be anything, and then U+FFFD stands for each byte. */
static uint32_t next_code(const unsigned char *text, size_t length, size_t *at_p)
{
    const size_t at = (*at_p)++;
    const unsigned char c = text[at];
    const size_t more = c < 0x80 ? 0 : c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
    uint32_t code = more == 0 ? c : more == 1 ? c & 0x1FU : more == 2 ? c & 0x0FU : c & 0x07U;
    if (more && (c < 0xC2 || c > 0xF4 || length - at <= more))
        return 0xFFFD;
    for (size_t i = 1; i <= more; i++) {
        if ((text[at + i] & 0xC0) != 0x80)
            return 0xFFFD;
        code = code << 6 | (text[at + i] & 0x3FU);
    }
    *at_p += more;
    return code;
}

static void put_escape(struct sink *sink, uint32_t code)
{
    char text[16];
    if (code >= 0x10000) {
        const uint32_t rest = code - 0x10000;
        (void)snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (rest >> 10),
                       0xDC00 + (rest & 0x3FF));
    } else {
        (void)snprintf(text, sizeof text, "\\u%04x", code);
    }
    sink_text(sink, text);
}

/* As Python's json.dumps: ASCII only. */
void sink_quoted(struct sink *sink, const char *text, size_t length)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t plain = 0, at = 0;
    sink_bytes(sink, "\"", 1);
    while (at < length) {
        const unsigned char c = (unsigned char)text[at];
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            at++;
            continue;
        }
        sink_bytes(sink, text + plain, at - plain);
        const char *found = c ? memchr(from, c, sizeof from - 1) : NULL;
        if (found) {
            const char escape[2] = {'\\', to[found - from]};
            sink_bytes(sink, escape, 2);
            at++;
        } else if (c == 0x7F) {
            sink_bytes(sink, text + at++, 1);
        } else {
            put_escape(sink, next_code((const unsigned char *)text, length, &at));
        }
        plain = at;
    }
    sink_bytes(sink, text + plain, at - plain);
    sink_bytes(sink, "\"", 1);
}
