/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's result folder of anyone's bytes. The first byte says which file the rest is: 0 trace_view.json, 1
 * communication.json, 2 kernel_details.csv, 3 the database, 4 profiler_metadata.json. A small sound trace stands beside
 * all but the first, so that the others are looked at.
 */
#include "collector/source/ascend.h"
#include "common/base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 5 };
static const char *const names[FILES] = {
    "ASCEND_PROFILER_OUTPUT/trace_view.json", "ASCEND_PROFILER_OUTPUT/communication.json",
    "ASCEND_PROFILER_OUTPUT/kernel_details.csv",
    "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_1.db", "profiler_metadata.json"};

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

static char folder[64];

static void put(int directory, const char *name, const void *data, size_t size)
{
    const int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)close(fd);
}

static int open_folder(void)
{
    if (!folder[0]) {
        (void)snprintf(folder, sizeof folder, "/dev/shm/rs-fuzz-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        abort();
    (void)mkdirat(directory, "ASCEND_PROFILER_OUTPUT", 0700);
    for (int i = 0; i < FILES; i++)
        (void)unlinkat(directory, names[i], 0);
    put(directory, "profiler_info_1.json", "{\"end_info\": {}}", 16);
    return directory;
}

static enum rs_status check(void *self, const struct rs_batch *batch, struct rs_err *err)
{
    (void)self;
    if (rs_batch_check(batch, err) != RS_OK)
        abort();
    return RS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const int directory = open_folder();
    const unsigned which = data[0] % FILES;
    if (which != 0)
        put(directory, names[0], sound, sizeof sound - 1);
    put(directory, names[which], data + 1, size - 1);
    struct rs_vendor_list list;
    const char *path = folder;
    if (rs_vendor_discover(&path, 1, &list, NULL) == RS_OK) {
        for (size_t i = 0; i < list.count; i++) {
            struct rs_source_stream stream;
            const struct rs_sink sink = {.batch = check};
            if (rs_source_stream_init(&stream) == RS_OK) {
                (void)!rs_ascend_read(&list.ranks[i], RS_SOURCE_LOSSLESS, &stream, sink, NULL);
                rs_source_stream_fini(&stream);
            }
        }
        rs_vendor_list_fini(&list);
    }
    if (which == 0) {
        struct rs_ascend_figures *figures = NULL;
        size_t count;
        char trace[128];
        (void)snprintf(trace, sizeof trace, "%s/%s", folder, names[0]);
        if (rs_ascend_text_figures(trace, &figures, &count, NULL) == RS_OK)
            rs_mem_free(figures);
    }
    for (int i = 0; i < FILES; i++)
        (void)unlinkat(directory, names[i], 0);
    (void)close(directory);
    return 0;
}
