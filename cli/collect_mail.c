/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/collect_mail.h"

#include "common/base/mem.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

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
