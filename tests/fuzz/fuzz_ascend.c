/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's result folder of anyone's bytes. The first byte says which file the rest is (see `files`), and with its high
 * bit that the folder is MindSpore's. A small sound trace stands beside all but the first, so that the others are looked
 * at; its database stands alone, since it is read before the text. The vendor's analysis goes to the cluster's readers as
 * well: pages of a table are read by hand there.
 */
#include "ascend/format/comm.h"
#include "ascend/format/step.h"
#include "ascend/source/ascend.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 12, DATABASE = 3, ANALYSIS = 5 };
#define OUT "ASCEND_PROFILER_OUTPUT/"
static const struct {
    const char *torch, *mindspore; /* NULL: the same */
} files[FILES] = {
    {OUT "trace_view.json", NULL},
    {OUT "communication.json", NULL},
    {OUT "kernel_details.csv", NULL},
    {OUT "ascend_pytorch_profiler_1.db", OUT "ascend_mindspore_profiler_1.db"},
    {"profiler_metadata.json", NULL},
    {OUT "analysis.db", OUT "communication_analyzer.db"},
    {OUT "step_trace_time.csv", NULL},
    {OUT "memory_record.csv", OUT "dataset.csv"},
    {OUT "operator_memory.csv", NULL},
    {OUT "op_statistic.csv", OUT "pcie.csv"},
    {OUT "communication_matrix.json", NULL},
    {"profiler_info_1.json", NULL},
};

static bool is_mindspore;

static const char *name_of(unsigned which)
{
    return is_mindspore && files[which].mindspore ? files[which].mindspore : files[which].torch;
}

static const char sound[] =
    "[{\"ph\":\"X\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,\"ts\":\"1750000000000000.000\",\"dur\":9,"
    "\"cat\":\"cpu_op\"},{\"ph\":\"X\",\"name\":\"hcom_send__606_0_1\",\"pid\":4,\"tid\":0,"
    "\"ts\":\"1750000000000001.000\",\"dur\":2,\"args\":{\"connection_id\":1,\"count\":5}},"
    "{\"ph\":\"X\",\"name\":\"Add\",\"pid\":3,\"tid\":0,\"ts\":\"1750000000000004.000\",\"dur\":2,"
    "\"args\":{\"connection_id\":2,\"Task Type\":\"AI_CORE\"}},"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"Python\"}},"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"tid\":0,\"args\":{\"name\":\"Ascend Hardware\"}},"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4,\"tid\":0,\"args\":{\"name\":\"HCCL\"}},"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":4,\"tid\":0,\"args\":{\"name\":\"Group 0 Communication\"}}]";

/* Of the input, and the rank's inside: ..._ascend_pt or ..._ascend_ms. */
static char root[64], folder[128];

static void put(int directory, const char *name, const void *data, size_t size)
{
    const int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)close(fd);
}

static int open_folder(void)
{
    (void)snprintf(root, sizeof root, "/dev/shm/rs-fuzz-XXXXXX");
    if (!mkdtemp(root))
        abort();
    (void)snprintf(folder, sizeof folder, "%s/n_1_20260102030405006_ascend_%s", root,
                   is_mindspore ? "ms" : "pt");
    (void)mkdir(folder, 0700);
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        abort();
    (void)mkdirat(directory, "ASCEND_PROFILER_OUTPUT", 0700);
    return directory;
}

static void empty_folder(int directory)
{
    for (unsigned i = 0; i < FILES; i++)
        (void)unlinkat(directory, name_of(i), 0);
    (void)unlinkat(directory, "ASCEND_PROFILER_OUTPUT", AT_REMOVEDIR);
    (void)close(directory);
    (void)rmdir(folder);
    (void)rmdir(root);
}

static enum rs_status check(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    (void)self;
    if (rs_batch_check(batch, err) != RS_OK)
        abort();
    return RS_OK;
}

static void read_source(void)
{
    struct rs_ascend_list list;
    const char *path = root;
    if (rs_ascend_discover(&path, 1, &list, NULL) != RS_OK)
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct rs_source_stream stream;
        const struct rs_sink sink = {.batch = check};
        if (rs_source_stream_init(&stream) == RS_OK) {
            (void)!rs_ascend_read(&list.ranks[i], RS_SOURCE_LOSSLESS, &stream, sink, NULL);
            rs_source_stream_fini(&stream);
        }
    }
    rs_ascend_list_fini(&list);
}

static void read_figures(const char *trace)
{
    struct rs_ascend_figures *figures = NULL;
    size_t count;
    if (rs_ascend_text_figures(trace, &figures, &count, NULL) == RS_OK)
        rs_mem_free(figures);
}

/* The tables of an analysis as the cluster reads them; what was read can be told again. */
static void read_analysis(const char *path)
{
    struct rs_ascend_db *db = NULL;
    struct rs_ascend_comm comm;
    struct rs_ascend_steps steps;
    struct rs_buf blob = {0};
    if (rs_ascend_db_open(path, &db, NULL) != RS_OK)
        return;
    if (rs_ascend_steps_read_db(db, &steps, NULL) == RS_OK)
        rs_ascend_steps_fini(&steps);
    if (rs_ascend_comm_init(&comm) == RS_OK) {
        (void)!rs_ascend_comm_read_db(&comm, RS_ASCEND_COMM_OPS, db, NULL);
        (void)!rs_ascend_comm_read_db(&comm, RS_ASCEND_COMM_LINKS, db, NULL);
        if (rs_ascend_comm_encode(&comm, &blob, NULL) == RS_OK) {
            struct rs_ascend_comm again;
            RS_CHECK(rs_ascend_comm_decode(blob.data, blob.length, &again, NULL) == RS_OK);
            RS_CHECK(again.op_count == comm.op_count && again.link_count == comm.link_count);
            rs_ascend_comm_fini(&again);
        }
        rs_ascend_comm_fini(&comm);
    }
    rs_buf_fini(&blob);
    rs_ascend_db_close(&db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    is_mindspore = data[0] & 0x80;
    const unsigned which = (data[0] & 0x7F) % FILES;
    const int directory = open_folder();
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name_of(which));
    put(directory, "profiler_info_1.json", "{\"end_info\": {}}", 16);
    if (which != 0 && which != DATABASE)
        put(directory, name_of(0), sound, sizeof sound - 1);
    put(directory, name_of(which), data + 1, size - 1);
    read_source();
    if (which == 0)
        read_figures(path);
    if (which == ANALYSIS)
        read_analysis(path);
    empty_folder(directory);
    return 0;
}
