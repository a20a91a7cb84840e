/* SPDX-License-Identifier: Apache-2.0 */
/* What is answered by pages of rows: a table of a capture (AskTable), history over all of them (AskHistory). */
#ifndef RS_CLIENT_PAGES_H
#define RS_CLIENT_PAGES_H

#include "common/base/view.h"
#include "common/wire/link.h"

/* Lent for the call. */
struct rs_client_page {
    struct rs_view block; /* of rows, as aggregator/model/BLOCK.md has it; may be empty */
    const char *const *lines;
    size_t line_count; /* what is missing, for the user */
    bool is_partial, is_provisional;
};

/* Hands the pages on until the last, or until `on_page` returns false. As rs_client_ask(); RS_FORMAT: it answers without a table. */
RS_MUST_CHECK enum rs_status
rs_client_pages_ask(const struct rs_address *address, Rankscope__Ask *ask,
                    bool (*on_page)(void *self, const struct rs_client_page *page), void *self,
                    struct rs_err *err);

#endif
