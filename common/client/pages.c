/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/pages.h"

#include "common/client/client.h"

struct paging {
    bool (*on_page)(void *self, const struct rs_client_page *page);
    void *self;
    bool is_there, is_enough;
};

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct paging *paging = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_TABLE)
        return true;
    const Rankscope__TableRows *rows = reply->table;
    const struct rs_client_page page = {.block = rs_view_of(rows->block.data, rows->block.len),
                                        .lines = (const char *const *)rows->lines,
                                        .line_count = rows->n_lines,
                                        .is_partial = rows->is_partial,
                                        .is_provisional = rows->is_provisional};
    paging->is_there = true;
    paging->is_enough = !paging->on_page(paging->self, &page);
    return !paging->is_enough;
}

enum rs_status rs_client_pages_ask(const struct rs_address *address, Rankscope__Ask *ask,
                                   bool (*on_page)(void *self, const struct rs_client_page *page),
                                   void *self, struct rs_err *err)
{
    struct paging paging = {.on_page = on_page, .self = self};
    const enum rs_status status = rs_client_ask(address, ask, on_reply, &paging, err);
    return status == RS_OK && !paging.is_there && !paging.is_enough
               ? rs_err_set(err, RS_FORMAT, "the aggregator answers without a table")
               : status;
}
