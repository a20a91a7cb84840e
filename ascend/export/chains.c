/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PYTORCH_CALLCHAINS: the Python frames around an operator, innermost first (depth 0), as with_stack records them.
 *
 * Frames and operators of a thread are walked in the order of their starts, with a stack of the frames that are open. Equal
 * chains are one: a chain is a node of a tree whose path to the root are its frames. Memory grows with different
 * chains, not with operators. Where a recording names the frames of each operator itself ("Call stack" of an Ascend profiler's
 * trace), these are taken, and its frames are not walked.
 */
#include "ascend/export/export_priv.h"
#include "common/base/mem.h"

#include <sqlite3.h>

#include <string.h>

enum { TYPE_OP = 50001, TYPE_FRAME = 50003, NO_NODE = -1, DEPTH_MAX = 4096 };

struct node {
    int64_t parent, name; /* NO_NODE: outermost */
    int64_t chain;        /* -1: no operator has it yet */
    int64_t next;         /* of the same slot */
};

struct chains {
    struct rs_export_ascend *e;
    LIST(struct node) nodes;
    int64_t *slots; /* [slot_count] first node, or NO_NODE */
    size_t slot_count;
    int64_t chain_count;
    struct {
        int64_t end, node;
    } open[DEPTH_MAX];
    size_t depth;
    sqlite3_stmt *update;
};

static size_t slot_of(const struct chains *chains, int64_t parent, int64_t name)
{
    const uint64_t mixed = ((uint64_t)parent * UINT64_C(0x9e3779b97f4a7c15)) ^
                           ((uint64_t)name * UINT64_C(0xc2b2ae3d27d4eb4f));
    return (size_t)(mixed >> 20) & (chains->slot_count - 1);
}

static enum rs_status widen(struct chains *chains)
{
    const size_t count = chains->slot_count ? chains->slot_count * 2 : 1024;
    int64_t *slots = rs_mem_calloc(count, sizeof *slots);
    if (!slots)
        return RS_NOMEM;
    rs_mem_free(chains->slots);
    chains->slots = slots;
    chains->slot_count = count;
    for (size_t i = 0; i < count; i++)
        slots[i] = NO_NODE;
    for (size_t i = 0; i < chains->nodes.count; i++) {
        struct node *node = &chains->nodes.items[i];
        const size_t slot = slot_of(chains, node->parent, node->name);
        node->next = slots[slot];
        slots[slot] = (int64_t)i;
    }
    return RS_OK;
}

/* The node of this frame below `parent`, made when it is new. */
static enum rs_status find_node(struct chains *chains, int64_t parent, int64_t name,
                                int64_t *node_p)
{
    enum rs_status status = RS_OK;
    if (chains->nodes.count * 2 >= chains->slot_count)
        status = widen(chains);
    if (status != RS_OK)
        return status;
    const size_t slot = slot_of(chains, parent, name);
    for (int64_t i = chains->slots[slot]; i != NO_NODE; i = chains->nodes.items[i].next)
        if (chains->nodes.items[i].parent == parent && chains->nodes.items[i].name == name) {
            *node_p = i;
            return RS_OK;
        }
    status = rs_mem_grow((void **)&chains->nodes.items, &chains->nodes.capacity,
                         chains->nodes.count + 1, sizeof *chains->nodes.items);
    if (status != RS_OK)
        return status;
    *node_p = (int64_t)chains->nodes.count;
    chains->nodes.items[chains->nodes.count++] =
        (struct node){parent, name, -1, chains->slots[slot]};
    chains->slots[slot] = *node_p;
    return RS_OK;
}

static enum rs_status put_chain(struct chains *chains, int64_t node, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const int64_t id = chains->nodes.items[node].chain;
    for (int64_t depth = 0; node != NO_NODE && status == RS_OK; depth++) {
        struct db_row row = db_row_begin(&chains->e->rows, T_CALLCHAINS);
        db_row_int(&row, id, true);
        db_row_int(&row, chains->nodes.items[node].name, true);
        db_row_int(&row, depth, true);
        status = db_row_end(&chains->e->rows, &row, err);
        node = chains->nodes.items[node].parent;
    }
    return status;
}

static enum rs_status failed(const struct chains *chains, struct rs_err *err)
{
    return rs_err_set(err, RS_IO, "cannot write %s: %s", chains->e->rows.path,
                      sqlite3_errmsg(chains->e->rows.handle));
}

static enum rs_status take_operator(struct chains *chains, int64_t row, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    struct node *node = &chains->nodes.items[chains->open[chains->depth - 1].node];
    if (node->chain < 0) {
        node->chain = chains->chain_count++;
        status = put_chain(chains, chains->open[chains->depth - 1].node, err);
    }
    if (status != RS_OK)
        return status;
    (void)sqlite3_bind_int64(chains->update, 1, node->chain);
    (void)sqlite3_bind_int64(chains->update, 2, row);
    const bool is_done = sqlite3_step(chains->update) == SQLITE_DONE;
    return sqlite3_reset(chains->update) == SQLITE_OK && is_done ? RS_OK : failed(chains, err);
}

static enum rs_status take_frame(struct chains *chains, int64_t end, int64_t name,
                                 struct rs_err *err)
{
    const int64_t parent = chains->depth ? chains->open[chains->depth - 1].node : NO_NODE;
    int64_t node = NO_NODE;
    if (chains->depth == DEPTH_MAX)
        return RS_OK; /* what is deeper has its outer frames */
    const enum rs_status status = find_node(chains, parent, name, &node);
    if (status != RS_OK)
        return no_room(status, err);
    chains->open[chains->depth].end = end;
    chains->open[chains->depth++].node = node;
    return RS_OK;
}

/* Rows come sorted, so they are all read before the first is updated. */
static enum rs_status walk(struct chains *chains, sqlite3_stmt *rows, struct rs_err *err)
{
    int64_t thread = -1;
    enum rs_status status = RS_OK;
    int code = SQLITE_ROW;
    while (status == RS_OK && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        const int64_t end = sqlite3_column_int64(rows, 2);
        if (sqlite3_column_int64(rows, 1) != thread)
            chains->depth = 0;
        thread = sqlite3_column_int64(rows, 1);
        while (chains->depth && chains->open[chains->depth - 1].end < end)
            chains->depth--;
        if (sqlite3_column_int64(rows, 4) == TYPE_FRAME)
            status = take_frame(chains, end, sqlite3_column_int64(rows, 3), err);
        else if (chains->depth)
            status = take_operator(chains, sqlite3_column_int64(rows, 0), err);
    }
    return status == RS_OK && code != SQLITE_DONE ? failed(chains, err) : status;
}

enum rs_status chains_of_text(struct rs_export_ascend *e, const char *text, size_t length,
                              int64_t *chain_p, struct rs_err *err)
{
    rs_str id;
    enum rs_status status = RS_OK;
    if (!e->has_stacks)
        status = no_room(rs_strtab_init(&e->stacks, 0), err);
    if (status != RS_OK)
        return status;
    e->has_stacks = true;
    const size_t known = e->stacks.count;
    status = no_room(rs_strtab_add(&e->stacks, text, length, &id), err);
    *chain_p = (int64_t)id;
    if (status != RS_OK || e->stacks.count == known)
        return status;
    const char *end = text + length;
    for (int64_t depth = 0; text < end && status == RS_OK; depth++) {
        int64_t frame;
        const char *cut = memchr(text, '\n', (size_t)(end - text));
        const char *behind = cut ? cut : end;
        while (behind > text && strchr(";\r", behind[-1]))
            behind--;
        status = string_id(e, SPACE_HOST, text, (size_t)(behind - text), &frame, err);
        if (status != RS_OK)
            break;
        struct db_row row = db_row_begin(&e->rows, T_CALLCHAINS);
        db_row_int(&row, *chain_p, true);
        db_row_int(&row, frame, true);
        db_row_int(&row, depth, true);
        status = db_row_end(&e->rows, &row, err);
        text = cut ? cut + 1 : end;
    }
    return status;
}

enum rs_status chains_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    sqlite3_stmt *rows = NULL;
    if (!e->has_frames || e->has_stacks || kept_has(e, "PYTORCH_CALLCHAINS"))
        return RS_OK;
    struct chains *chains = rs_mem_calloc(1, sizeof *chains);
    if (!chains)
        return no_room(RS_NOMEM, err);
    chains->e = e;
    enum rs_status status = RS_OK;
    if (sqlite3_prepare_v2(e->rows.handle,
                           "UPDATE PYTORCH_API SET callchainId = ?1 WHERE rowid = ?2", -1,
                           &chains->update, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(e->rows.handle,
                           "SELECT rowid, globalTid, CAST(endNs AS INTEGER), name, type FROM "
                           "PYTORCH_API WHERE type IN (50001, 50003) ORDER BY globalTid, "
                           "CAST(startNs AS INTEGER), CAST(endNs AS INTEGER) DESC, type DESC",
                           -1, &rows, NULL) != SQLITE_OK)
        status = failed(chains, err);
    if (status == RS_OK)
        status = walk(chains, rows, err);
    (void)sqlite3_finalize(rows);
    (void)sqlite3_finalize(chains->update);
    rs_mem_free(chains->nodes.items);
    rs_mem_free(chains->slots);
    rs_mem_free(chains);
    return status;
}
