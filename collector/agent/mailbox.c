/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/mailbox.h"

#include "common/base/mem.h"
#include "common/wire/copy.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdlib.h>
#include <string.h>

struct rs_mailbox_item {
    struct rs_mailbox_item *next;
    ProtobufCMessage *message;
};

void rs_mailbox_init(struct rs_mailbox *box)
{
    (void)pthread_mutex_init(&box->lock, NULL);
    box->first = NULL;
    box->last_p = &box->first;
}

void rs_mailbox_fini(struct rs_mailbox *box)
{
    for (ProtobufCMessage *message = rs_mailbox_take(box); message; message = rs_mailbox_take(box))
        protobuf_c_message_free_unpacked(message, NULL);
    (void)pthread_mutex_destroy(&box->lock);
}

void rs_mailbox_put(struct rs_mailbox *box, const ProtobufCMessage *message)
{
    struct rs_mailbox_item *item = rs_mem_calloc(1, sizeof *item);
    if (item)
        item->message = rs_wire_copy(message);
    if (!item || !item->message) {
        rs_log_error("no memory for a message");
        rs_mem_free(item);
        return;
    }
    (void)pthread_mutex_lock(&box->lock);
    *box->last_p = item;
    box->last_p = &item->next;
    (void)pthread_mutex_unlock(&box->lock);
}

ProtobufCMessage *rs_mailbox_take(struct rs_mailbox *box)
{
    (void)pthread_mutex_lock(&box->lock);
    struct rs_mailbox_item *item = box->first;
    if (item) {
        box->first = item->next;
        if (!box->first)
            box->last_p = &box->first;
    }
    (void)pthread_mutex_unlock(&box->lock);
    ProtobufCMessage *message = item ? item->message : NULL;
    rs_mem_free(item);
    return message;
}

void rs_mailbox_put_armed(struct rs_mailbox *box, const char *capture,
                          const Rankscope__ArmedRank *rank)
{
    Rankscope__ArmedRank copy = *rank;
    Rankscope__ArmedRank *ranks[] = {&copy};
    Rankscope__Armed armed = RANKSCOPE__ARMED__INIT;
    armed.capture = rs_const_cast(capture);
    armed.ranks = ranks;
    armed.n_ranks = 1;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_ARMED;
    up.armed = &armed;
    rs_mailbox_put(box, &up.base);
}

void rs_mailbox_put_progress(struct rs_mailbox *box, const char *capture,
                             const Rankscope__RankProgress *rank)
{
    Rankscope__RankProgress copy = *rank;
    Rankscope__RankProgress *ranks[] = {&copy};
    Rankscope__Progress progress = RANKSCOPE__PROGRESS__INIT;
    progress.capture = rs_const_cast(capture);
    progress.ranks = ranks;
    progress.n_ranks = 1;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_PROGRESS;
    up.progress = &progress;
    rs_mailbox_put(box, &up.base);
}

static bool join_armed(Rankscope__Up *up, const Rankscope__Up *next)
{
    if (up->message_case != RANKSCOPE__UP__MESSAGE_ARMED ||
        next->message_case != RANKSCOPE__UP__MESSAGE_ARMED ||
        strcmp(up->armed->capture, next->armed->capture) != 0)
        return false;
    const size_t count = up->armed->n_ranks + next->armed->n_ranks;
    /* protobuf-c's own memory: it frees both messages. */
    Rankscope__ArmedRank **ranks =
        realloc(up->armed->ranks, count * sizeof(Rankscope__ArmedRank *));
    if (!ranks)
        return false;
    memcpy(ranks + up->armed->n_ranks, next->armed->ranks,
           next->armed->n_ranks * sizeof(Rankscope__ArmedRank *));
    up->armed->ranks = ranks;
    up->armed->n_ranks = count;
    next->armed->n_ranks = 0;
    return true;
}

static bool join_progress(Rankscope__Up *up, const Rankscope__Up *next)
{
    if (up->message_case != RANKSCOPE__UP__MESSAGE_PROGRESS ||
        next->message_case != RANKSCOPE__UP__MESSAGE_PROGRESS ||
        strcmp(up->progress->capture, next->progress->capture) != 0)
        return false;
    const size_t count = up->progress->n_ranks + next->progress->n_ranks;
    Rankscope__RankProgress **ranks =
        realloc(up->progress->ranks, count * sizeof(Rankscope__RankProgress *));
    if (!ranks)
        return false;
    memcpy(ranks + up->progress->n_ranks, next->progress->ranks,
           next->progress->n_ranks * sizeof(Rankscope__RankProgress *));
    up->progress->ranks = ranks;
    up->progress->n_ranks = count;
    next->progress->n_ranks = 0;
    return true;
}

bool rs_message_join(Rankscope__Up *up, Rankscope__Up *next)
{
    return join_armed(up, next) || join_progress(up, next);
}
