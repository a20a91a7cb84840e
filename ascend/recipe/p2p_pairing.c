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
    struct frame *part = frame_new(KINDS);
    status = part ? add_rows(part, &list, in->of->rank) : RS_NOMEM;
    pair_list_fini(&list);
    return frame_part(part, status, part_p, err);
}

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct column columns[] = {
        {"rank", 'i', NULL}, {"opName", 't', NULL}, {"opConnectionId", 't', NULL}};
    static const struct table table = {"P2PPairing", "p2p_pairing.csv", columns, 3, 0, false};
    const struct frame *rows = &((const struct frame_state *)run->state)->rows;
    return table_of_frame(run, &table, &(struct frame_rows){rows, NULL, 0, rows->count}, err);
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
