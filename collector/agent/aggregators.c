/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/aggregators.h"

#include "common/base/lend.h"
#include "common/client/client.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

/* As long as three leases: whoever is not reached for so long, and lives all the same, is not reached from here. */
static const rs_dur unreached_ns = 30 * (rs_dur)RS_NS_PER_S;

enum { ROUNDS = 2 }; /* of the list, before a pause */

static enum rs_status add(struct rs_aggregators *aggregators, const char *text, size_t length,
                          struct rs_err *err)
{
    char one[sizeof aggregators->items[0].address.text];
    struct rs_aggregator *item = &aggregators->items[aggregators->count];
    if (aggregators->count == RS_AGGREGATORS_MAX)
        return rs_err_set(err, RS_INVALID, "--connect names more than %d aggregators",
                          RS_AGGREGATORS_MAX);
    if (length == 0 || length >= sizeof one)
        return rs_err_set(err, RS_INVALID, "--connect has an address that is empty or too long");
    (void)snprintf(one, sizeof one, "%.*s", (int)length, text);
    const enum rs_status status = rs_client_address(one, &item->address, err);
    if (status != RS_OK)
        return status;
    for (size_t i = 0; i < aggregators->count; i++)
        if (strcmp(aggregators->items[i].address.text, item->address.text) == 0)
            return rs_err_set(err, RS_INVALID, "--connect names %s twice", item->address.text);
    aggregators->count++;
    return RS_OK;
}

enum rs_status rs_aggregators_parse(const char *text, struct rs_aggregators *aggregators_p,
                                    struct rs_err *err)
{
    *aggregators_p = (struct rs_aggregators){.count = 0};
    if (!text || !strchr(text, ',')) {
        aggregators_p->count = 1;
        return rs_client_address(text, &aggregators_p->items[0].address, err);
    }
    enum rs_status status = RS_OK;
    for (const char *at = text; status == RS_OK && at;) {
        const size_t length = strcspn(at, ",");
        status = add(aggregators_p, at, length, err);
        at = at[length] ? at + length + 1 : NULL;
    }
    return status;
}

const struct rs_address *rs_aggregators_address(const struct rs_aggregators *aggregators)
{
    return &aggregators->items[aggregators->at].address;
}

void rs_aggregators_hello(struct rs_aggregators *aggregators, Rankscope__Hello *hello, rs_ns now)
{
    if (aggregators->count < 2)
        return;
    for (size_t i = 0; i < aggregators->count; i++) {
        struct rs_aggregator *item = &aggregators->items[i];
        Rankscope__KnownAggregator *message = &aggregators->messages[i];
        rankscope__known_aggregator__init(message);
        message->address = item->address.text;
        message->id = item->id;
        message->is_this = i == aggregators->at;
        message->is_unreached = item->failing_since && now - item->failing_since > unreached_ns;
        aggregators->pointers[i] = message;
    }
    hello->aggregators = aggregators->pointers;
    hello->n_aggregators = aggregators->count;
}

unsigned rs_aggregators_find(const struct rs_aggregators *aggregators, const char *id,
                             const char *address)
{
    for (unsigned i = 0; i < aggregators->count; i++)
        if ((*id && strcmp(aggregators->items[i].id, id) == 0) ||
            (*address && strcmp(aggregators->items[i].address.text, address) == 0))
            return i + 1;
    return 0;
}

static bool go(struct rs_aggregators *aggregators, const char *go_to)
{
    const unsigned found = *go_to ? rs_aggregators_find(aggregators, "", go_to) : 0;
    if (!found || found - 1 == aggregators->at)
        return false;
    aggregators->at = found - 1;
    aggregators->is_sent = true;
    return true;
}

bool rs_aggregators_welcome(struct rs_aggregators *aggregators, const Rankscope__Welcome *welcome)
{
    struct rs_aggregator *item = &aggregators->items[aggregators->at];
    const char *from = item->address.text;
    item->failing_since = 0;
    (void)snprintf(item->id, sizeof item->id, "%.32s", welcome->aggregator);
    if (go(aggregators, welcome->go_to)) {
        rs_log_debug("%s sends us to %s", from, rs_aggregators_address(aggregators)->text);
        return false;
    }
    aggregators->tries = 0;
    if (aggregators->count > 1)
        rs_log_info("the aggregator is %s", from);
    return true;
}

void rs_aggregators_goodbye(struct rs_aggregators *aggregators, const char *go_to)
{
    (void)go(aggregators, go_to);
}

bool rs_aggregators_away(struct rs_aggregators *aggregators, rs_ns now)
{
    struct rs_aggregator *item = &aggregators->items[aggregators->at];
    if (aggregators->count < 2)
        return false;
    if (!aggregators->is_sent) {
        if (!item->failing_since)
            item->failing_since = now;
        aggregators->at = (aggregators->at + 1) % aggregators->count;
    }
    aggregators->is_sent = false;
    if (++aggregators->tries < ROUNDS * aggregators->count)
        return true;
    aggregators->tries = 0;
    return false;
}
