/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of captures in ClickHouse: behind struct rs_row_store, the same units, the same reads, the same rows.
 *
 * One database holds the captures of a fleet, each under a number that is a hash of its name, in tables of the model's columns with a
 * generation behind them (aggregator/model/columns.h), partitioned by capture. Whoever asks it by himself sees rows of every
 * generation: those that count are named by write_unit (clickhouse.c).
 */
#ifndef RS_STORE_CLICKHOUSE_H
#define RS_STORE_CLICKHOUSE_H

#include "aggregator/store/row_store.h"
#include "common/base/time.h"

struct rs_clickhouse_options {
    const char *url; /* clickhouse_http.h */
    const char *password_file;
    const char *ca_file;              /* NULL: the system's */
    const char *cert_file, *key_file; /* our own certificate; NULL: none */
    rs_dur retry_ns;                  /* before the second try; 0: 500 ms */
    unsigned connect_s, stall_s; /* how long it may take to connect, and to go on; 0: 10, 300 */
    struct rs_clickhouse_known
        *known; /* to write: keeps a pointer to it; NULL: every unit is sent */
};

/* What a process has written of one capture, unit by unit, so that a unit that is as it was is not sent again. Of one store that is
 * open at a time; what somebody else has written meanwhile empties it. NULL: no memory. */
struct rs_clickhouse_known *rs_clickhouse_known_new(void);
void rs_clickhouse_known_free(struct rs_clickhouse_known **known_p);

/* Rows of the capture of that name; reads and units number it RS_ROWS_CAPTURE's 1, as in a folder of its own. To write, tables
 * that lack are made; one process writes a capture at a time. RS_NOTFOUND: to read, and nothing was written. RS_VERSION: tables of
 * another version. Else as clickhouse_link_open() and clickhouse_run(). */
RS_MUST_CHECK enum rs_status rs_clickhouse_open(const struct rs_clickhouse_options *options,
                                                const char *capture, enum rs_row_mode mode,
                                                struct rs_row_store **store_p, struct rs_err *err);
/* All rows of a capture go, by its partitions. RS_OK also when there were none. */
RS_MUST_CHECK enum rs_status rs_clickhouse_remove(const struct rs_clickhouse_options *options,
                                                  const char *capture, struct rs_err *err);
/* Whether `text` is an address of a ClickHouse server. */
bool rs_clickhouse_is_url(const char *text);

#endif
