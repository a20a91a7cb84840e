/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the log of a torch_npu rank, line by line, and as the name of such a log: times and numbers are
 * within their bounds, and a name has a process and a rank.
 */
#include "ascend/adapter/ascend_log.h"
#include "common/base/check.h"
#include "common/base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_lines(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        const size_t stop = end ? (size_t)(end - text) : length;
        struct ascend_line line;
        if (npu_line_parse(text + at, stop - at, &line)) {
            RS_CHECK(line.has_time && line.at >= 0);
            RS_CHECK(line.kind <= ASCEND_LINE_STOPPED);
            RS_CHECK(line.number <= INT64_C(1) << 53 && line.number >= -(INT64_C(1) << 53));
        }
        at = stop + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ascend_log_name name;
    char *text = rs_mem_strndup((const char *)data, size);
    if (!text)
        return 0;
    take_lines(text, size);
    if (npu_log_name_parse(text, &name)) {
        RS_CHECK(name.pid > 0 && name.rank >= -1);
        RS_CHECK(name.dir_length < strlen(text) && name.host_length < strlen(text));
    }
    rs_mem_free(text);
    return 0;
}
