/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p_pairing: an id that a send and its receive share: "807_0_1_3" is the fourth transfer from the
 * group's rank 0 to its rank 1 in the group whose hash ends in 807.
 *
 * Peer: ALTERs every input database (COMMUNICATION_OP.opConnectionId). Here the ids are a table
 * of the result, and the inputs stay as they are. Corrected besides: the running number counts per
 * group; the peer lets groups with the same local ranks share it.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RANK, NAME, ID };
#define KINDS "itt"

/* The digits between "__" and the next "_" of a paired operation's name. */
static void print_id(const char *name, const struct pair_op *op, char *text, size_t size)
{
    const char *tag = strstr(name, "__");
    const size_t length = tag ? strspn(tag + 2, "0123456789") : 0;
    (void)snprintf(text, size, "%.*s_%" PRId64 "_%" PRId64 "_%" PRId64, (int)length,
                   tag ? tag + 2 : "", op->src, op->dst, op->number);
}

static enum rs_status add_rows(struct frame *part, const struct pair_list *list, int64_t rank)
{
    for (size_t i = 0; i < list->count; i++) {
        char id[160];
        const char *name = rs_strtab_text(&list->texts, list->ops[i].name);
        union frame_cell *row = frame_add(part);
        if (!row)
            return RS_NOMEM;
        print_id(name, &list->ops[i], id, sizeof id);
        row[RANK].i = rank;
        if (frame_text_id(part, name, &row[NAME].t) != RS_OK ||
            frame_text_id(part, id, &row[ID].t) != RS_OK)
            return RS_NOMEM;
    }
    return RS_OK;
}

static enum rs_status map(struct run *run, const struct inputs *in, void **part_p,
                          struct rs_err *err)
{
    struct pair_list list;
    enum rs_status status = pair_list_read(run, in, &list, err);
    if (status != RS_OK)
        return status;
    struct frame *part = rs_mem_calloc(1, sizeof *part);
    if (!part || frame_init(part, KINDS) != RS_OK || add_rows(part, &list, in->of->rank) != RS_OK) {
        if (part)
            frame_drop(part);
        status = rs_err_set(err, RS_NOMEM, "no memory for sends and receives");
    } else {
        *part_p = part;
    }
    pair_list_fini(&list);
    return status;
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"rank", 'i', NULL}, {"opName", 't', NULL}, {"opConnectionId", 't', NULL}};
    static const struct table table = {"P2PPairing", "p2p_pairing.csv", columns, 3, 0, false};
    const struct frame_state *state = run->state;
    enum rs_status status = table_begin(run, &table, err);
    for (size_t i = 0; i < state->rows.count && status == RS_OK; i++) {
        const union frame_cell *row = frame_row(&state->rows, i);
        const struct cell cells[] = {cell_int(row[RANK].i),
                                     cell_text(frame_text(&state->rows, row[NAME].t)),
                                     cell_text(frame_text(&state->rows, row[ID].t))};
        status = table_row(run, cells, err);
    }
    return status == RS_OK ? table_end(run, err) : status;
}

const struct recipe recipe_p2p_pairing = {
    .info = {"p2p_pairing", "which send belongs to which receive", "P2PPairing"},
    .folder = "P2PPairing",
    .needs = NEED_PROFILER,
    .state_bytes = sizeof(struct frame_state),
    .kinds = KINDS,
    FRAME_RECIPE,
    .map = map,
    .finish = finish,
};
