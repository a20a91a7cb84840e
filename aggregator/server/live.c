/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/live.h"

#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

struct live {
    struct rs_deliver_live facts; /* points into what follows */
    char id[RS_COORD_ID_BYTES], run[RS_COORD_TEXT_BYTES], source[RS_COORD_SOURCE_BYTES];
    struct rs_deliver_absent *absent;
    char **why;
};

void live_free(struct live **live_p)
{
    struct live *live = *live_p;
    if (!live)
        return;
    *live_p = NULL;
    for (size_t i = 0; live->why && i < live->facts.absent_count; i++)
        rs_mem_free(live->why[i]);
    rs_mem_free(live->why);
    rs_mem_free(live->absent);
    rs_mem_free(live);
}

const struct rs_deliver_live *live_facts_of(const struct live *live)
{
    return live ? &live->facts : NULL;
}

/* Of several incarnations of a rank the last one counts. */
static bool is_absent(const struct rs_coord_rank *rank)
{
    return rank->state == RS_PROGRESS_LOST || rank->state == RS_PROGRESS_REFUSED;
}

static enum rs_status copy_absent(const struct rs_coord_capture *capture, struct live *live)
{
    live->absent = rs_mem_calloc(capture->rank_count + 1, sizeof *live->absent);
    live->why = rs_mem_calloc(capture->rank_count + 1, sizeof(char *));
    if (!live->absent || !live->why)
        return RS_NOMEM;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[capture->order[i]];
        if (!is_absent(rank))
            continue;
        char *why = rs_mem_strdup(rank->text);
        if (!why)
            return RS_NOMEM;
        live->why[live->facts.absent_count] = why;
        live->absent[live->facts.absent_count++] =
            (struct rs_deliver_absent){.rank = rank->rank, .why = why};
    }
    live->facts.absent = live->absent;
    return RS_OK;
}

enum rs_status live_of(const struct rs_server *server, const char *id, struct live **live_p)
{
    const struct rs_coord_capture *capture = rs_coord_find(server->coord, id);
    *live_p = NULL;
    if (!capture)
        return RS_OK;
    struct live *live = rs_mem_calloc(1, sizeof *live);
    if (!live)
        return RS_NOMEM;
    (void)snprintf(live->id, sizeof live->id, "%s", capture->id);
    (void)snprintf(live->run, sizeof live->run, "%s", capture->run);
    rs_coord_source(capture, live->source);
    live->facts.id = live->id;
    live->facts.run = live->run;
    live->facts.source = live->source;
    live->facts.is_summarised =
        capture->state == RS_CAPTURE_SUMMARISED || rs_capture_state_is_closed(capture->state);
    live->facts.is_choice = !capture->is_files && capture->counts[RS_PROGRESS_LOST] +
                                                          capture->counts[RS_PROGRESS_REFUSED] +
                                                          capture->counts[RS_PROGRESS_PARTIAL] ==
                                                      0;
    const enum rs_status status = copy_absent(capture, live);
    if (status < 0)
        live_free(&live);
    *live_p = live;
    return status;
}
