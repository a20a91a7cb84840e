/* SPDX-License-Identifier: Apache-2.0 */
/* How verbs reach rows in ClickHouse: the options that they share. */
#ifndef RS_CLI_STORE_H
#define RS_CLI_STORE_H

#include "aggregator/store/clickhouse.h"

/* Of options (struct rs_clickhouse_options *) but the address itself. */
#define RS_CLI_STORE_ARGS(options)                                                                 \
    {.name = "store-password",                                                                     \
     .kind = RS_ARG_TEXT,                                                                          \
     .target = &(options)->password_file,                                                          \
     .value = "FILE",                                                                              \
     .help = "the password of the address's user, in a file of mode 0600 (default: "               \
             "RANKSCOPE_STORE_PASSWORD, else none)"},                                              \
        {.name = "store-ca",                                                                       \
         .kind = RS_ARG_TEXT,                                                                      \
         .target = &(options)->ca_file,                                                            \
         .value = "FILE",                                                                          \
         .help = "who the server's certificate is believed from (default: the system's)"},         \
        {.name = "store-cert",                                                                     \
         .kind = RS_ARG_TEXT,                                                                      \
         .target = &(options)->cert_file,                                                          \
         .value = "FILE",                                                                          \
         .help = "our own certificate for the server"},                                            \
    {                                                                                              \
        .name = "store-key", .kind = RS_ARG_TEXT, .target = &(options)->key_file, .value = "FILE", \
        .help = "and its key"                                                                      \
    }

#endif
