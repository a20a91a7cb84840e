/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the Kineto reader: a text as a file, read, its rows at hand.
 */
#ifndef RS_TESTS_KINETO_SUPPORT_H
#define RS_TESTS_KINETO_SUPPORT_H

#include "collector/source/kineto.h"
#include "collector/source/kineto_write.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A row of a batch, kept. */
struct kept_row {
    uint8_t kind, flags, phase;
    const char *category, *name; /* of the stream's table; "" for none */
    size_t name_length;
    struct rs_lane lane;
    rs_ns start, end;
    int64_t correlation, external_id, bytes;
    const char *dims, *types, *inputs;
    bool has_comm;
    struct rs_comm comm;
};

struct kept {
    struct rs_source_stream stream;
    enum rs_status status;
    struct rs_err err;
    struct kept_row *rows;
    size_t count, capacity;
    struct rs_buf text; /* lossless: the document written again */
    struct rs_kineto_writer writer;
    size_t batch_count;
    bool is_bad_batch;
};

static inline const char *text_of(const struct rs_batch *batch, rs_str id)
{
    return rs_strtab_text(batch->strings, id);
}

static inline void keep_row(struct kept *kept, const struct rs_batch *batch, size_t at)
{
    struct kept_row *row = &kept->rows[kept->count++];
    *row = (struct kept_row){
        .kind = batch->kind[at],
        .flags = batch->flags[at],
        .phase = batch->phase[at],
        .category = text_of(batch, batch->category[at]),
        .name = text_of(batch, batch->name[at]),
        .name_length = rs_strtab_length(batch->strings, batch->name[at]),
        .lane = batch->lanes->items[batch->lane[at]],
        .start = batch->start[at],
        .end = batch->end[at],
        .correlation = batch->correlation[at],
        .external_id = batch->external_id[at],
        .bytes = batch->bytes[at],
        .dims = text_of(batch, batch->input_dims[at]),
        .types = text_of(batch, batch->input_types[at]),
        .inputs = text_of(batch, batch->concrete_inputs[at]),
        .has_comm = batch->comm[at] != RS_NO_COMM,
    };
    if (row->has_comm)
        row->comm = batch->comms[batch->comm[at]];
}

static inline enum rs_status keep_batch(void *self, const struct rs_batch *batch,
                                        struct rs_err *err)
{
    struct kept *kept = self;
    kept->batch_count++;
    kept->is_bad_batch |= rs_batch_check(batch, err) != RS_OK;
    if (rs_mem_grow((void **)&kept->rows, &kept->capacity, kept->count + batch->count,
                    sizeof *kept->rows) != RS_OK)
        return RS_NOMEM;
    for (size_t at = 0; at < batch->count; at++)
        keep_row(kept, batch, at);
    rs_kineto_write_rows(&kept->writer, batch);
    return RS_OK;
}

static inline void kept_read(struct kept *kept, const char *path, unsigned flags)
{
    *kept = (struct kept){0};
    kept->status = rs_source_stream_init(&kept->stream);
    if (kept->status != RS_OK)
        return;
    rs_kineto_write_begin(&kept->writer, &kept->text);
    kept->status = rs_kineto_read(path, flags, &kept->stream,
                                  (struct rs_sink){.batch = keep_batch, .self = kept}, &kept->err);
    rs_kineto_write_end(&kept->writer, &kept->stream.info, &kept->stream.strings);
}

static inline void kept_fini(struct kept *kept)
{
    rs_source_stream_fini(&kept->stream);
    rs_mem_free(kept->rows);
    rs_buf_fini(&kept->text);
}

/* Bytes as a file without a name; *fd_p is to be closed. The path is good while it is open. */
static inline void bytes_as_file(const void *bytes, size_t length, int *fd_p, char path_p[64])
{
    *fd_p = memfd_create("trace", MFD_CLOEXEC);
    if (*fd_p < 0 || rs_file_write_all(*fd_p, bytes, length, "memfd", NULL) != RS_OK)
        abort();
    (void)snprintf(path_p, 64, "/proc/self/fd/%d", *fd_p);
}

static inline void kept_read_bytes(struct kept *kept, const void *bytes, size_t length,
                                   unsigned flags)
{
    int fd;
    char path[64];
    bytes_as_file(bytes, length, &fd, path);
    kept_read(kept, path, flags);
    (void)close(fd);
}

static inline void kept_read_text(struct kept *kept, const char *text, unsigned flags)
{
    kept_read_bytes(kept, text, strlen(text), flags);
}

/* The traces that every build of this project is tried on, when they lie beside the repository. */
static const char *const traces[] = {
    "slow-loader/rank0.pt.trace.json.gz",
    "slow-loader/rank2.pt.trace.json.gz",
    "kineto/a100-nccl-rank0of2.json.gz",
    "kineto/cpu-gloo-rank34of300.json.gz",
    "kineto/mi250-minitoy.json.gz",
    "kineto/mi300-resnet-rank0of8.json.gz",
    "kineto/triton-example.json.gz",
    "kineto/v100-ns-resolution.json.gz",
    "kineto/dlrm-8rank/worker0_step_12.1694128201545.pt.trace.json",
    "kineto/dlrm-8rank/worker1_step_12.1694128201556.pt.trace.json",
    "kineto/dlrm-8rank/worker2_step_12.1694128201554.pt.trace.json",
    "kineto/dlrm-8rank/worker3_step_12.1694128201557.pt.trace.json",
    "kineto/dlrm-8rank/worker4_step_12.1694128201547.pt.trace.json",
    "kineto/dlrm-8rank/worker5_step_12.1694128201549.pt.trace.json",
    "kineto/dlrm-8rank/worker6_step_12.1694128201553.pt.trace.json",
    "kineto/dlrm-8rank/worker7_step_12.1694128201553.pt.trace.json",
    "kineto/gloo-ddp-4rank-ondemand/trace_6575.json.gz",
    "kineto/gloo-ddp-4rank-ondemand/trace_6623.json.gz",
    "kineto/gloo-ddp-4rank-ondemand/trace_6624.json.gz",
    "kineto/gloo-ddp-4rank-ondemand/trace_6625.json.gz",
    "kineto/gloo-ddp-4rank-ondemand/trace_6626.json.gz",
    "kineto/gloo-groups-4rank-ondemand/trace_7491.json.gz",
    "kineto/gloo-groups-4rank-ondemand/trace_7539.json.gz",
    "kineto/gloo-groups-4rank-ondemand/trace_7540.json.gz",
    "kineto/gloo-groups-4rank-ondemand/trace_7541.json.gz",
    "kineto/gloo-groups-4rank-ondemand/trace_7542.json.gz",
    "kineto/gloo-ddp-4rank-api/rank0.pt.trace.json.gz",
    "kineto/gloo-ddp-4rank-api/rank1.pt.trace.json.gz",
    "kineto/gloo-ddp-4rank-api/rank2.pt.trace.json.gz",
    "kineto/gloo-ddp-4rank-api/rank3.pt.trace.json.gz",
    "kineto-ipc/head-114171df/trace-3-iterations.json",
    "kineto-ipc/head-114171df/trace-duration-300ms.json",
    "kineto-ipc/head-114171df/trace-exotic-writer.json",
    "kineto-ipc/k2023-170d45a6/trace-duration-100ms.json",
    "kineto-ipc/k2025-04c9e863/trace-duration-100ms.json",
    "kineto-ipc/k2026feb-a087858d/trace-duration-100ms.json",
};
enum { TRACE_COUNT = sizeof traces / sizeof traces[0], BUNDLED_TRACES = 2 };

/* The bundled ones are always there: without one, nothing was tried. */
static inline bool trace_path(const char *name, char path_p[512])
{
    const bool is_bundled = strncmp(name, "slow-loader/", strlen("slow-loader/")) == 0;
    (void)snprintf(path_p, 512, "%s%s", is_bundled ? "docs/examples/" : "../shared/data/", name);
    const bool is_here = access(path_p, R_OK) == 0;
    assert_true(is_here || !is_bundled);
    return is_here;
}

#endif
