/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/collect_mail.h"

#include "common/base/mem.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdlib.h>
#include <string.h>

struct rs_mail {
    struct rs_mail *next;
    ProtobufCMessage *letter;
};

void rs_mailbox_init(struct rs_mailbox *box)
{
    (void)pthread_mutex_init(&box->lock, NULL);
    box->first = NULL;
    box->last_p = &box->first;
}

void rs_mailbox_fini(struct rs_mailbox *box)
{
    for (ProtobufCMessage *letter = rs_mailbox_take(box); letter; letter = rs_mailbox_take(box))
        protobuf_c_message_free_unpacked(letter, NULL);
    (void)pthread_mutex_destroy(&box->lock);
}

/* Made by way of its bytes. NULL: no memory. */
static ProtobufCMessage *copy_letter(const ProtobufCMessage *letter)
{
    const size_t bytes = protobuf_c_message_get_packed_size(letter);
    uint8_t *packed = rs_mem_calloc(bytes + 1, 1);
    ProtobufCMessage *copy = NULL;
    if (packed) {
        (void)protobuf_c_message_pack(letter, packed);
        copy = protobuf_c_message_unpack(letter->descriptor, NULL, bytes, packed);
    }
    rs_mem_free(packed);
    return copy;
}

void rs_mailbox_put(struct rs_mailbox *box, const ProtobufCMessage *letter)
{
    struct rs_mail *mail = rs_mem_calloc(1, sizeof *mail);
    if (mail)
        mail->letter = copy_letter(letter);
    if (!mail || !mail->letter) {
        rs_log_error("no memory for a letter");
        rs_mem_free(mail);
        return;
    }
    (void)pthread_mutex_lock(&box->lock);
    *box->last_p = mail;
    box->last_p = &mail->next;
    (void)pthread_mutex_unlock(&box->lock);
}

ProtobufCMessage *rs_mailbox_take(struct rs_mailbox *box)
{
    (void)pthread_mutex_lock(&box->lock);
    struct rs_mail *mail = box->first;
    if (mail) {
        box->first = mail->next;
        if (!box->first)
            box->last_p = &box->first;
    }
    (void)pthread_mutex_unlock(&box->lock);
    ProtobufCMessage *letter = mail ? mail->letter : NULL;
    rs_mem_free(mail);
    return letter;
}

char *rs_letter_lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

void rs_mailbox_put_armed(struct rs_mailbox *box, const char *capture,
                          const Rankscope__ArmedRank *rank)
{
    Rankscope__ArmedRank copy = *rank;
    Rankscope__ArmedRank *ranks[] = {&copy};
    Rankscope__Armed armed = RANKSCOPE__ARMED__INIT;
    armed.capture = rs_letter_lend(capture);
    armed.ranks = ranks;
    armed.n_ranks = 1;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.letter_case = RANKSCOPE__UP__LETTER_ARMED;
    up.armed = &armed;
    rs_mailbox_put(box, &up.base);
}

void rs_mailbox_put_progress(struct rs_mailbox *box, const char *capture,
                             const Rankscope__RankProgress *rank)
{
    Rankscope__RankProgress copy = *rank;
    Rankscope__RankProgress *ranks[] = {&copy};
    Rankscope__Progress progress = RANKSCOPE__PROGRESS__INIT;
    progress.capture = rs_letter_lend(capture);
    progress.ranks = ranks;
    progress.n_ranks = 1;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.letter_case = RANKSCOPE__UP__LETTER_PROGRESS;
    up.progress = &progress;
    rs_mailbox_put(box, &up.base);
}

static bool join_armed(Rankscope__Up *up, const Rankscope__Up *next)
{
    if (up->letter_case != RANKSCOPE__UP__LETTER_ARMED ||
        next->letter_case != RANKSCOPE__UP__LETTER_ARMED ||
        strcmp(up->armed->capture, next->armed->capture) != 0)
        return false;
    const size_t count = up->armed->n_ranks + next->armed->n_ranks;
    /* protobuf-c's own memory: it frees both letters. */
    Rankscope__ArmedRank **ranks = realloc(up->armed->ranks, count * sizeof(*ranks));
    if (!ranks)
        return false;
    memcpy(ranks + up->armed->n_ranks, next->armed->ranks, next->armed->n_ranks * sizeof(*ranks));
    up->armed->ranks = ranks;
    up->armed->n_ranks = count;
    next->armed->n_ranks = 0;
    return true;
}

static bool join_progress(Rankscope__Up *up, const Rankscope__Up *next)
{
    if (up->letter_case != RANKSCOPE__UP__LETTER_PROGRESS ||
        next->letter_case != RANKSCOPE__UP__LETTER_PROGRESS ||
        strcmp(up->progress->capture, next->progress->capture) != 0)
        return false;
    const size_t count = up->progress->n_ranks + next->progress->n_ranks;
    Rankscope__RankProgress **ranks = realloc(up->progress->ranks, count * sizeof(*ranks));
    if (!ranks)
        return false;
    memcpy(ranks + up->progress->n_ranks, next->progress->ranks,
           next->progress->n_ranks * sizeof(*ranks));
    up->progress->ranks = ranks;
    up->progress->n_ranks = count;
    next->progress->n_ranks = 0;
    return true;
}

bool rs_letter_join(Rankscope__Up *up, Rankscope__Up *next)
{
    return join_armed(up, next) || join_progress(up, next);
}
