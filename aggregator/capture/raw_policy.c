/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks' raw data a capture wants: all, none, or a list that was made from an expression when it was asked for.
 *
 *   raw wanted       done when the last raw chunk is durable
 *   raw not wanted   done when the last summary chunk is; the raw data stays in the collector's spool until somebody asks for
 *                    it (rs_coord_fetch()), or its room is needed
 *
 * The list is text ("0,3-7"), as it is written beside the capture's segments.
 */
#include "aggregator/capture/coord_priv.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char all_text[] = "all";
static const char none_text[] = "none";

bool rs_coord_wants_raw(const struct rs_coord_capture *capture, uint32_t rank)
{
    if (!*capture->raw || strcmp(capture->raw, all_text) == 0)
        return true;
    if (strcmp(capture->raw, none_text) == 0)
        return false;
    const char *at = capture->raw;
    while (*at) {
        char *end = NULL;
        const unsigned long first = strtoul(at, &end, 10);
        unsigned long last = first;
        if (end == at)
            return true; /* not ours: nothing is held for a text that nobody can read */
        at = end;
        if (*at == '-') {
            last = strtoul(at + 1, &end, 10);
            at = end;
        }
        if (rank >= first && rank <= last)
            return true;
        if (*at && *at != ',')
            return true;
        at += *at == ',';
    }
    return false;
}

/* "ranks EXPR" and EXPR are the same. */
static const char *expression_of(const char *text)
{
    return strncmp(text, "ranks ", 6) == 0 ? text + 6 : text;
}

enum rs_status rs_coord_check_raw(const char *text, struct rs_err *err)
{
    struct rs_rank_expr *expr = NULL;
    text = expression_of(text);
    if (!*text || strcmp(text, none_text) == 0)
        return RS_OK;
    const enum rs_status status = rs_rank_expr_parse(text, strlen(text), &expr, err);
    rs_rank_expr_free(&expr);
    return status;
}

/* The ranks of `rows` that the expression chooses, as a list. */
static enum rs_status choose(const char *text, const struct rs_rank_row *rows, size_t count,
                             struct rs_rank_set *set, struct rs_err *err)
{
    struct rs_rank_expr *expr = NULL;
    enum rs_status status = rs_rank_expr_parse(text, strlen(text), &expr, err);
    if (status == RS_OK)
        status = rs_rank_expr_eval(expr, rows, count, 0, set, err);
    rs_rank_expr_free(&expr);
    return status == RS_PARTIAL ? RS_OK : status;
}

static enum rs_status keep_list(struct rs_coord_capture *capture, const uint32_t *ranks,
                                size_t count, struct rs_err *err)
{
    struct rs_buf list = {0};
    rs_rank_list_print(ranks, count, &list);
    if (list.failed || list.length >= sizeof capture->raw) {
        const bool is_memory = list.failed;
        rs_buf_fini(&list);
        return is_memory ? rs_err_set(err, RS_NOMEM, "no memory for a list of ranks")
                         : rs_err_set(err, RS_LIMIT,
                                      "the list of ranks whose raw data is wanted is too long: say "
                                      "all, none or longer runs");
    }
    (void)snprintf(capture->raw, sizeof capture->raw, "%s", rs_buf_text(&list));
    rs_buf_fini(&list);
    return RS_OK;
}

enum rs_status raw_policy_set(struct rs_coord_capture *capture, const char *text,
                              const struct rs_rank_row *rows, size_t count, struct rs_err *err)
{
    text = expression_of(text ? text : "");
    if (!*text || strcmp(text, all_text) == 0 || strcmp(text, none_text) == 0) {
        (void)snprintf(capture->raw, sizeof capture->raw, "%s", *text ? text : all_text);
        return RS_OK;
    }
    struct rs_rank_set set = {0};
    enum rs_status status = choose(text, rows, count, &set, err);
    if (status == RS_OK)
        status = keep_list(capture, set.ranks, set.count, err);
    rs_rank_set_fini(&set);
    return status;
}

/* ---- fetch ----------------------------------------------------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* What was wanted before, and what is wanted now. */
static enum rs_status widen(struct rs_coord_capture *capture, const struct rs_rank_set *more,
                            struct rs_err *err)
{
    uint32_t *ranks = rs_mem_calloc(capture->rank_count + 1, sizeof *ranks);
    if (!ranks)
        return rs_err_set(err, RS_NOMEM, "no memory for a list of ranks");
    size_t count = 0;
    for (size_t i = 0; i < capture->rank_count; i++) {
        const uint32_t rank = capture->ranks[i].rank;
        if (rs_coord_wants_raw(capture, rank) || rs_rank_set_has(more, rank))
            ranks[count++] = rank;
    }
    qsort(ranks, count, sizeof *ranks, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || ranks[kept - 1] != ranks[i])
            ranks[kept++] = ranks[i];
    const enum rs_status status = keep_list(capture, ranks, kept, err);
    rs_mem_free(ranks);
    return status;
}

enum rs_status rs_coord_fetch(struct rs_coord *coord, const char *id, const char *text, rs_ns now,
                              struct rs_err *err)
{
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    if (!capture || capture->is_closing)
        return rs_err_set(err, RS_NOTFOUND, "capture %.63s is not here", id);
    struct rs_rank_row *rows = rs_mem_calloc(capture->rank_count + 1, sizeof *rows);
    struct rs_rank_set set = {0};
    struct rs_coord_capture before = {0};
    size_t count = 0;
    if (!rows)
        return rs_err_set(err, RS_NOMEM, "no memory for a list of ranks");
    for (size_t i = 0; i < capture->rank_count; i++) {
        const struct rs_coord_rank *rank = &capture->ranks[capture->order[i]];
        if (count && rows[count - 1].rank == rank->rank)
            continue; /* another incarnation */
        rows[count] = (struct rs_rank_row){.rank = rank->rank, .node = rank->host};
        for (size_t role = 0; role < RS_ROLE_COUNT; role++)
            rows[count].role[role] = -1;
        count++;
    }
    memcpy(before.raw, capture->raw, sizeof before.raw);
    text = expression_of(text && *text ? text : all_text);
    enum rs_status status = choose(text, rows, count, &set, err);
    if (status == RS_OK && !set.count)
        status =
            rs_err_set(err, RS_NOTFOUND, "capture %.63s has none of these ranks: %.200s", id, text);
    if (status == RS_OK)
        status = widen(capture, &set, err);
    for (size_t i = 0; i < capture->rank_count && status == RS_OK; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        const bool is_new =
            !rs_coord_wants_raw(&before, rank->rank) && rs_coord_wants_raw(capture, rank->rank);
        if (is_new && (rank->state == RS_PROGRESS_DONE || rank->state == RS_PROGRESS_PARTIAL))
            member_move(capture, rank, RS_PROGRESS_SENDING, "its raw data is fetched", now);
    }
    if (status == RS_OK) {
        capture->is_changed = true;
        capture_save(coord, capture);
    }
    rs_rank_set_fini(&set);
    rs_mem_free(rows);
    return status;
}

/* ---- summaries ------------------------------------------------------------------------------------------- */

/* Every rank's last summary is durable, or it will not come: findings are final, raw data may follow. This is asked with each rank's: it
 * begins with the one that was missing last time, so that thousands of ranks are not looked through for each of them. */
static void see_summarised(const struct rs_coord *coord, struct rs_coord_capture *capture)
{
    if (capture->state != RS_CAPTURE_RECORDING)
        return;
    for (size_t k = 0; k < capture->rank_count; k++) {
        const size_t i = (capture->not_summarised + k) % capture->rank_count;
        if (!capture->ranks[i].is_summarised && !rs_progress_is_final(capture->ranks[i].state)) {
            capture->not_summarised = i;
            return;
        }
    }
    capture->state = RS_CAPTURE_SUMMARISED;
    capture->is_changed = true;
    capture_see_short(coord, capture); /* who waits for findings only must hear of it, too */
}

void rs_coord_summarised(struct rs_coord *coord, const char *id, uint32_t number,
                         const char *incarnation, bool is_partial, rs_ns now)
{
    RS_ON_THREAD(LINKS);
    struct rs_coord_capture *capture = rs_coord_find(coord, id);
    struct rs_coord_rank *rank = capture ? member_find(capture, number, incarnation) : NULL;
    if (!rank)
        return;
    rank->is_summarised = true;
    rank->is_summary_short = rank->is_summary_short || is_partial;
    capture->moved_at = now;
    if (rs_coord_wants_raw(capture, number))
        see_summarised(coord, capture);
    else if (!rs_progress_is_final(rank->state))
        rs_coord_ended(coord, id, number, incarnation, is_partial, now);
}
