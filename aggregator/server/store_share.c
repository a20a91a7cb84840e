/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/store_share.h"

#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

void store_shares_fini(struct store_shares *shares)
{
    while (shares->first) {
        struct store_share *next = shares->first->next;
        rs_mem_free(shares->first);
        shares->first = next;
    }
}

struct store_share *store_share_of(struct store_shares *shares, const char *name)
{
    if (!shares->limit_bytes || !*name)
        return NULL;
    struct store_share *share = shares->first;
    while (share && strcmp(share->name, name) != 0)
        share = share->next;
    if (share)
        return share;
    share = rs_mem_calloc(1, sizeof *share);
    if (!share)
        return NULL;
    (void)snprintf(share->name, sizeof share->name, "%s", name);
    share->next = shares->first;
    shares->first = share;
    return share;
}

void store_share_add(struct store_share *share, uint64_t bytes)
{
    if (share)
        share->since_bytes += bytes;
}

enum rs_status store_share_check(const struct store_shares *shares, const struct store_share *share,
                                 struct rs_err *err)
{
    const double mib = 1024 * 1024;
    const uint64_t kept =
        share ? share->measured_bytes + share->before_bytes + share->since_bytes : 0;
    if (!share || kept < shares->limit_bytes)
        return RS_OK;
    return rs_err_set(err, RS_REFUSED,
                      "%s keeps %.1f MiB here, and one may keep %.1f MiB (--keep-bytes-each): "
                      "rankscope rm makes room",
                      share->name, (double)kept / mib, (double)shares->limit_bytes / mib);
}

void store_shares_begin_look(struct store_shares *shares)
{
    for (struct store_share *share = shares->first; share; share = share->next) {
        share->before_bytes += share->since_bytes;
        share->since_bytes = share->counted_bytes = 0;
    }
}

void store_share_count(struct store_share *share, uint64_t bytes)
{
    if (share)
        share->counted_bytes += bytes;
}

void store_shares_end_look(struct store_shares *shares)
{
    for (struct store_share *share = shares->first; share; share = share->next) {
        share->measured_bytes = share->counted_bytes;
        share->before_bytes = share->counted_bytes = 0;
    }
}
