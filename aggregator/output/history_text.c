/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of history views as lines for people. */
#include "aggregator/output/history.h"
#include "common/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 200 };

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* Only those that were named, or hinted at. */
void rs_history_hosts_text(const struct rs_block *block, struct rs_history_told *told,
                           struct rs_buf *buf)
{
    for (size_t i = 0; i < block->count; i++) {
        const struct rs_row_history_hosts *row = rs_block_row(block, i);
        if (row->captures_named)
            rs_buf_printf(buf,
                          "host %.*s was named in %" PRId64 " of %" PRId64 " run%s (%" PRId64
                          " of %" PRId64 " capture%s), last in %s: %s\n",
                          TEXT_MAX, row->host, row->runs_named, row->runs, plural(row->runs),
                          row->captures_named, row->captures, plural(row->captures),
                          row->last_capture ? row->last_capture : "-",
                          row->last_kind ? row->last_kind : "-");
        else if (row->captures_hinted)
            rs_buf_printf(buf,
                          "host %.*s was hinted at in %" PRId64 " of %" PRId64
                          " run%s, and never named\n",
                          TEXT_MAX, row->host, row->runs_hinted, row->runs, plural(row->runs));
        else
            told->quiet++;
        told->loud += row->captures_named || row->captures_hinted;
    }
}

static void put_found(const struct rs_row_history_captures *row, struct rs_buf *buf)
{
    if (row->findings == RS_NULL)
        rs_buf_printf(buf, "%s\n",
                      strcmp(row->rows, "archived") == 0 ? "archived, its rows are not at hand"
                                                         : "nothing is known of it");
    else if (row->kind)
        rs_buf_printf(buf, "%s: %.*s (%s)\n", row->kind, TEXT_MAX, row->named ? row->named : "-",
                      row->confidence ? row->confidence : "-");
    else
        rs_buf_printf(buf, "nobody is named\n");
}

void rs_history_captures_text(const struct rs_block *block, struct rs_history_told *told,
                              struct rs_buf *buf)
{
    for (size_t i = 0; i < block->count; i++) {
        const struct rs_row_history_captures *row = rs_block_row(block, i);
        char asked[RS_TIME_TEXT_BYTES], step[32] = "-";
        rs_time_text(row->created_ns, asked);
        if (row->step_ns != RS_NULL)
            (void)snprintf(step, sizeof step, "%.3f ms", (double)row->step_ns / 1e6);
        if (!told->has_begun)
            rs_buf_printf(buf, "%-20s  %-24s  %-28s  %12s  %s\n", "ASKED FOR", "CAPTURE", "RUN",
                          "STEP", "FOUND");
        told->has_begun = true;
        rs_buf_printf(buf, "%-20s  %-24s  %-28.*s  %12s  ", asked, row->capture, TEXT_MAX,
                      row->run ? row->run : "-", step);
        put_found(row, buf);
    }
}
