/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture of an aggregator that is lost goes on here.
 *
 *     what that one wrote of it last (the catalogue) --> a capture of ours, with the same name, ranks and request --> its streams are opened
 *
 * As after a restart of our own, but that nothing is stored: collectors have kept what the other one acknowledged (Settled in
 * proto/PROTOCOL.md), and send it again from the first chunk on. What they do not have any more they tell as lost, and the capture is
 * partial for it, and says whom it was taken over from. Rows of the same name are replaced: newer generations win, and units that are not
 * made here go when it is closed.
 *
 * A row may be from anybody who may write into the database: it is read as a stranger's bytes.
 */
#include "aggregator/server/server_priv.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/wire/request_message.h"

#include <stdio.h>
#include <string.h>

static bool fits(const char *text, size_t bytes)
{
    return rs_wire_check_text(text, bytes - 1, "a text", NULL) == RS_OK;
}

static enum rs_status take_ranks(const Rankscope__CaptureInfo *info,
                                 struct rs_coord_capture *capture)
{
    capture->ranks = rs_mem_calloc(info->n_ranks + 1, sizeof *capture->ranks);
    if (!capture->ranks)
        return RS_NOMEM;
    capture->rank_capacity = info->n_ranks + 1;
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *told = info->ranks[i];
        struct rs_coord_rank *rank = &capture->ranks[i];
        if (told->rank > RS_WIRE_RANK_MAX || !fits(told->incarnation, sizeof rank->incarnation) ||
            !fits(told->host, sizeof rank->host) || told->state >= RS_PROGRESS_COUNT)
            return RS_FORMAT;
        rank->rank = told->rank;
        rank->step = -1;
        rank->steps_done = told->steps_done;
        rank->state = (enum rs_progress_state)told->state;
        (void)snprintf(rank->incarnation, sizeof rank->incarnation, "%s", told->incarnation);
        (void)snprintf(rank->host, sizeof rank->host, "%s", told->host);
        (void)snprintf(rank->text, sizeof rank->text, "%.500s", told->text);
        rs_utf8_plain(rank->text);
        capture->rank_count++;
    }
    return RS_OK;
}

static enum rs_status take_request(const Rankscope__CaptureInfo *info,
                                   struct rs_coord_capture *capture, struct rs_err *err)
{
    if (!info->request)
        return RS_OK;
    capture->request = rs_mem_calloc(1, sizeof *capture->request);
    if (!capture->request)
        return RS_NOMEM;
    const enum rs_status status = rs_request_from_message(info->request, capture->request, err);
    if (status < 0) {
        rs_mem_free(capture->request);
        capture->request = NULL;
        return status;
    }
    capture->profile = (struct rs_coord_profile){
        .roundup = capture->request->roundup,
        .timeout_ns = (rs_dur)capture->request->timeout_ms * RS_NS_PER_MS};
    return RS_OK;
}

static enum rs_status take(const Rankscope__CaptureInfo *info, const char *id,
                           struct rs_coord_capture *capture, struct rs_err *err)
{
    if (strcmp(info->id, id) != 0 || !fits(info->run, sizeof capture->run) ||
        !fits(info->owner, sizeof capture->owner) || !fits(info->source, RS_COORD_SOURCE_BYTES) ||
        !fits(info->raw, sizeof capture->raw) || info->n_ranks > RS_COORD_RANKS_MAX ||
        (*info->raw && rs_coord_check_raw(info->raw, NULL) < 0))
        return RS_FORMAT;
    (void)snprintf(capture->id, sizeof capture->id, "%s", info->id);
    (void)snprintf(capture->run, sizeof capture->run, "%s", info->run);
    (void)snprintf(capture->owner, sizeof capture->owner, "%s", info->owner);
    (void)snprintf(capture->raw, sizeof capture->raw, "%s", info->raw);
    rs_coord_set_source(capture, info->source);
    capture->created_ns = info->created_ns;
    capture->start_step = info->start_step;
    capture->steps = info->steps;
    capture->world = info->world;
    capture->duration_ns = info->duration_ns;
    capture->start_time_ns = info->start_time_ns;
    const enum rs_status status = take_request(info, capture, err);
    return status == RS_OK ? take_ranks(info, capture) : status;
}

enum rs_status takeover(struct rs_server *server, const char *id, const struct whose *whose,
                        struct rs_err *err)
{
    Rankscope__CaptureInfo *info = (Rankscope__CaptureInfo *)rs_wire_unpack(
        &rankscope__capture_info__descriptor, whose->info.data, whose->info.length);
    struct rs_coord_capture *capture = rs_mem_calloc(1, sizeof *capture);
    enum rs_status status = info && capture ? take(info, id, capture, err) : RS_FORMAT;
    if (status == RS_OK) {
        capture->claim = whose->claim + 1;
        (void)snprintf(capture->taken_from, sizeof capture->taken_from, "%.300s",
                       whose->member.text);
        status = rs_coord_take_over(server->coord, capture, rs_time_monotonic(), err);
    } else {
        status =
            rs_err_set(err, status, "what the database says of capture %.63s cannot be read", id);
    }
    if (capture)
        rs_coord_capture_fini(capture);
    rs_mem_free(capture);
    if (info)
        rankscope__capture_info__free_unpacked(info, NULL);
    return status;
}
