/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of the rows that join_rows wrote into a folder, as text or JSON: what a database's rows say, without a database.
 *
 *     report_rows DIR [--json]
 *
 * Exit 0 complete, 1 partial, 4 it failed.
 */
#include "aggregator/deliver/rows.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct rs_err err = {0};
    struct rs_row_store *store = NULL;
    struct rs_deliver_result result = {.is_partial = false};
    const struct rs_deliver_options how = {
        .report = argc > 2 && strcmp(argv[2], "--json") == 0 ? RS_DELIVER_JSON : RS_DELIVER_TEXT,
        .style = {.width = 96, .has_utf8 = true}};
    enum rs_status status = argc < 2 ? RS_INVALID : RS_OK;
    if (status == RS_OK)
        status = rs_row_store_open(argv[1], RS_ROWS_READ, &store, &err);
    if (status == RS_OK)
        status = rs_deliver_report_of_rows(store, &how, &result, &err);
    if (status == RS_OK)
        (void)fwrite(result.report.data, 1, result.report.length, stdout);
    else
        (void)fprintf(stderr, "report_rows: %s\n", err.text);
    const int code = status != RS_OK ? 4 : result.is_partial;
    rs_row_store_close(&store);
    rs_deliver_result_fini(&result);
    return code;
}
