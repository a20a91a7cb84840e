/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a capture's folder by one join that nobody disturbs: what a daemon's rows are compared with.
 *
 *     join_rows CAPTURE OUT        OUT (which exists) gets rows.db and members/
 */
#include "aggregator/deliver/deliver.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct rs_deliver_options how = {0};
    struct rs_deliver_result result = {0};
    struct rs_err err = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: join_rows CAPTURE OUT\n");
        return 2;
    }
    enum rs_status status = rs_row_store_open(argv[2], RS_ROWS_WRITE, &how.rows, &err);
    if (status == RS_OK)
        status = rs_deliver_capture(argv[1], &how, NULL, NULL, &result, &err);
    rs_row_store_close(&how.rows);
    rs_deliver_result_fini(&result);
    if (status < 0)
        fprintf(stderr, "join_rows: %s\n", err.text);
    return status < 0;
}
