/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/counters.h"

#include "common/base/mem.h"
#include "common/client/client.h"

struct asking {
    struct rs_client_counters *counters;
    bool is_short; /* no memory */
};

static void take_set(struct asking *asking, const Rankscope__CounterSet *from)
{
    struct rs_client_counters *daemons = asking->counters;
    if (rs_mem_grow((void **)&daemons->sets, &daemons->capacity, daemons->count + 1,
                    sizeof *daemons->sets) < 0) {
        asking->is_short = true;
        return;
    }
    struct rs_counter_set *set = &daemons->sets[daemons->count++];
    *set = (struct rs_counter_set){.daemon = rs_mem_strdup(from->daemon),
                                   .node = rs_mem_strdup(from->node),
                                   .instance = rs_mem_strdup(from->instance)};
    asking->is_short |= !set->daemon || !set->node || !set->instance;
    for (size_t i = 0; i < from->n_counters; i++) {
        const enum rs_counter counter = rs_counter_find(from->counters[i]->name);
        daemons->unknown += counter == RS_COUNT_END;
        if (counter == RS_COUNT_END)
            continue;
        set->values[counter] = from->counters[i]->value;
        set->has[counter] = true;
    }
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct asking *asking = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_COUNTERS)
        return false;
    for (size_t i = 0; i < reply->counters->n_daemons && !asking->is_short; i++)
        take_set(asking, reply->counters->daemons[i]);
    return !asking->is_short;
}

enum rs_status rs_client_counters_ask(const struct rs_address *address,
                                      struct rs_client_counters *counters_p, struct rs_err *err)
{
    struct rs_client_counters counters = {.count = 0};
    struct asking asking = {.counters = &counters};
    Rankscope__AskCounters question = RANKSCOPE__ASK_COUNTERS__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_COUNTERS;
    ask.counters = &question;
    enum rs_status status = rs_client_ask(address, &ask, on_reply, &asking, err);
    if (status >= 0 && asking.is_short)
        status = rs_err_set(err, RS_NOMEM, "out of memory");
    if (status >= 0 && !counters.count)
        status = rs_err_set(err, RS_UNREACHABLE, "the aggregator told no counters");
    if (status < 0)
        rs_client_counters_fini(&counters);
    *counters_p = counters;
    return status;
}

void rs_client_counters_fini(struct rs_client_counters *counters)
{
    for (size_t i = 0; i < counters->count; i++) {
        union {
            const char *in;
            void *out;
        } texts[] = {{.in = counters->sets[i].daemon},
                     {.in = counters->sets[i].node},
                     {.in = counters->sets[i].instance}};
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++)
            rs_mem_free(texts[k].out);
    }
    rs_mem_free(counters->sets);
    *counters = (struct rs_client_counters){.count = 0};
}
