/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kineto reader on any bytes. Promises held here: no crash; batches that keep their invariants; the fast
 * and the lossless reading agree on whether it is a trace; and what was written from the lossless reading of
 * valid JSON is valid JSON and reads as the same rows again.
 */
#include "collector/source/kineto.h"
#include "collector/source/kineto_write.h"
#include "common/base/check.h"

#include <jansson.h>

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct rs_kineto_writer writer;
    bool is_writing;
    int64_t x_rows, rows;
    uint64_t times;
};

static enum rs_status look(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    struct seen *seen = self;
    RS_CHECK(rs_batch_check(batch, err) == RS_OK);
    for (size_t at = 0; at < batch->count; at++) {
        seen->rows++;
        seen->x_rows += batch->phase[at] == 'X';
        seen->times = seen->times * 31 + (uint64_t)batch->start[at] + (uint64_t)batch->end[at];
    }
    if (seen->is_writing)
        rs_kineto_write_rows(&seen->writer, batch);
    return RS_OK;
}

static enum rs_status read_fd(int fd, unsigned flags, struct rs_source_stream *stream,
                              struct seen *seen)
{
    char path[64];
    struct rs_err err = {0};
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RS_CHECK(rs_source_stream_init(stream) == RS_OK);
    const enum rs_status status =
        rs_kineto_read(path, flags, stream, (struct rs_sink){.batch = look, .self = seen}, &err);
    RS_CHECK(status >= 0 || err.text[0]);
    RS_CHECK((status == RS_PARTIAL) == stream->info.is_partial || status < 0);
    return status;
}

/* A file in memory, made once. */
static int file_of(const void *data, size_t size, int *fd_p)
{
    if (*fd_p < 0)
        *fd_p = memfd_create("fuzz", MFD_CLOEXEC);
    RS_CHECK(*fd_p >= 0 && ftruncate(*fd_p, 0) == 0);
    RS_CHECK(pwrite(*fd_p, data, size, 0) == (ssize_t)size);
    return *fd_p;
}

static bool is_json(const void *data, size_t size)
{
    json_t *root = json_loadb(data, size, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    json_decref(root);
    return root != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int input_fd = -1;
    static int written_fd = -1;
    struct rs_source_stream stream;
    struct rs_buf text = {0};
    const int fd = file_of(data, size, &input_fd);
    struct seen fast = {0};
    const enum rs_status fast_status = read_fd(fd, 0, &stream, &fast);
    rs_source_stream_fini(&stream);

    struct seen full = {.is_writing = true};
    rs_kineto_write_begin(&full.writer, &text);
    const enum rs_status status = read_fd(fd, RS_SOURCE_LOSSLESS, &stream, &full);
    rs_kineto_write_end(&full.writer, &stream.info, &stream.strings);
    RS_CHECK((status == RS_NOTFOUND) == (fast_status == RS_NOTFOUND));
    const bool is_clean = status == RS_OK && fast_status == RS_OK && !stream.info.drop_count;
    RS_CHECK(!is_clean || full.x_rows == stream.info.events_read);
    rs_source_stream_fini(&stream);

    if (is_clean && is_json(data, size)) {
        RS_CHECK(is_json(text.data, text.length));
        struct seen again = {0};
        const int second = file_of(text.data, text.length, &written_fd);
        const enum rs_status again_status = read_fd(second, RS_SOURCE_LOSSLESS, &stream, &again);
        RS_CHECK(again_status >= 0);
        RS_CHECK(again.rows == full.rows && again.x_rows == full.x_rows);
        rs_source_stream_fini(&stream);
    }
    rs_buf_fini(&text);
    return 0;
}
