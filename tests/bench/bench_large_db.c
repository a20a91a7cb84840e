/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster_analysis.db of a wanted size, by the code that writes them: SQLite's lock-byte page lies at 1 GiB, where files
 * of an older writer broke.
 *
 *     bench_large_db PATH MIB      prints the number of rows; tests/bench/large_db.sh checks the file
 */
#include "ascend/cluster/bulk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS_AT_ONCE = 20000 };

static void fill(struct bulk_rows *rows, int64_t first)
{
    static const char name[] = "hcom_allReduce__606_0_1", group[] = "17148521525495523210";
    bulk_rows_reset(rows);
    for (int64_t row = first; row < first + ROWS_AT_ONCE; row++) {
        bulk_text(rows, "step50", 6);
        bulk_int(rows, row % 4096);
        bulk_text(rows, name, sizeof name - 1);
        bulk_text(rows, group, sizeof group - 1);
        for (int i = 0; i < 6; i++)
            bulk_real(rows, (double)row / (7 + i));
        bulk_int(rows, 0);
        bulk_int(rows, 0);
        bulk_end_row(rows);
    }
}

int main(int argc, char **argv)
{
    struct bulk bulk;
    struct bulk_table table;
    struct bulk_rows rows = {0};
    struct stat about;
    int64_t count = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: %s PATH MIB\n", argv[0]);
        return 2;
    }
    const long long want = strtoll(argv[2], NULL, 10) << 20;
    enum rs_status status = bulk_open(&bulk, argv[1]);
    bulk_begin(&table, &bulk, "ClusterCommunicationTime", 12);
    do {
        fill(&rows, count);
        bulk_add(&table, &rows);
        count += ROWS_AT_ONCE;
    } while (bulk.status == RS_OK && stat(argv[1], &about) == 0 && about.st_size < want);
    bulk_end(
        &table,
        "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, start_timestamp REAL, "
        "elapsed_time REAL, transit_time REAL, wait_time REAL, synchronization_time REAL, idle_time REAL, "
        "synchronization_time_ratio REAL, wait_time_ratio REAL");
    bulk_rows_fini(&rows);
    status = bulk_close(&bulk);
    if (status != RS_OK) {
        fprintf(stderr, "%s\n", bulk.err.text);
        return 1;
    }
    printf("%" PRId64 "\n", count);
    return 0;
}
