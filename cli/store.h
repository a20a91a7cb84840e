/* SPDX-License-Identifier: Apache-2.0 */
/* How verbs reach rows in ClickHouse: the options that they share. */
#ifndef RS_CLI_STORE_H
#define RS_CLI_STORE_H

#include "aggregator/store/clickhouse.h"

/* clang-format off */
/* Of options (struct rs_clickhouse_options *) but the address itself. */
#define RS_CLI_STORE_ARGS(options) \
    RS_OPT_TEXT("store-password", 0, &(options)->password_file, "FILE", "the password of the address's user, in a file of mode 0600 (default: RANKSCOPE_STORE_PASSWORD, else none)"), \
    RS_OPT_TEXT("store-ca", 0, &(options)->ca_file, "FILE", "who the server's certificate is believed from (default: the system's)"), \
    RS_OPT_TEXT("store-cert", 0, &(options)->cert_file, "FILE", "our own certificate for the server"), \
    RS_OPT_TEXT("store-key", 0, &(options)->key_file, "FILE", "and its key")
/* clang-format on */

#endif
