/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/run_delay.h"

#include "common/base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 4096 };

/* The second number of /proc/PID/schedstat. */
rs_dur rs_run_delay(int64_t pid)
{
    char path[64];
    struct rs_buf text = {0};
    uint64_t delay = 0;
    (void)snprintf(path, sizeof path, "/proc/%" PRId64 "/schedstat", pid);
    if (pid > 0 && rs_file_read(path, TEXT_BYTES, &text, NULL) == RS_OK) {
        const char *second = strchr(rs_buf_text(&text), ' ');
        delay = second != NULL ? strtoull(second, NULL, 10) : 0;
    }
    rs_buf_fini(&text);
    return delay <= INT64_MAX ? (rs_dur)delay : 0;
}
