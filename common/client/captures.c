/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/captures.h"

#include "common/base/lend.h"
#include "common/client/client.h"
#include "common/wire/answer_message.h"
#include "common/wire/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Rankscope__CaptureInfo *rs_capture_info_copy(const Rankscope__CaptureInfo *info)
{
    return (Rankscope__CaptureInfo *)rs_wire_copy(&info->base);
}

/* ---- asking about one ----------------------------------------------------------------------------------------- */

/* The three questions that name a capture; each is a message of its own. */
struct about {
    Rankscope__Ask ask;
    Rankscope__AskCapture show;
    Rankscope__AskStop stop;
    Rankscope__AskRemove remove;
};

static void about_init(struct about *q, enum rs_client_about about, const char *id, bool follow)
{
    rankscope__ask__init(&q->ask);
    rankscope__ask_capture__init(&q->show);
    rankscope__ask_stop__init(&q->stop);
    rankscope__ask_remove__init(&q->remove);
    q->show.id = q->stop.id = q->remove.id = rs_lend(id);
    q->show.follow = follow;
    switch (about) {
    case RS_CLIENT_SHOW:
        q->ask.message_case = RANKSCOPE__ASK__MESSAGE_CAPTURE;
        q->ask.capture = &q->show;
        break;
    case RS_CLIENT_STOP:
        q->ask.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
        q->ask.stop = &q->stop;
        break;
    case RS_CLIENT_REMOVE:
        q->ask.message_case = RANKSCOPE__ASK__MESSAGE_REMOVE;
        q->ask.remove = &q->remove;
        break;
    }
}

struct telling {
    Rankscope__CaptureInfo *info;
    bool has_failed;
};

static bool on_info(void *self, const Rankscope__Reply *reply)
{
    struct telling *telling = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        return false;
    telling->info = rs_capture_info_copy(reply->capture);
    telling->has_failed = !telling->info;
    return false;
}

/* How asking ended, and what was told. */
static enum rs_status told(const struct telling *telling, enum rs_status status,
                           Rankscope__CaptureInfo **info_p, struct rs_err *err)
{
    if (status >= 0 && telling->has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for a capture");
    if (status < 0 && telling->info)
        rankscope__capture_info__free_unpacked(telling->info, NULL);
    *info_p = status < 0 ? NULL : telling->info;
    return status;
}

enum rs_status rs_client_capture(const struct rs_address *address, enum rs_client_about about,
                                 const char *id, Rankscope__CaptureInfo **info_p,
                                 struct rs_err *err)
{
    struct about question;
    struct telling telling = {.info = NULL};
    about_init(&question, about, id, false);
    return told(&telling, rs_client_ask(address, &question.ask, on_info, &telling, err), info_p,
                err);
}

/* ---- moving one ------------------------------------------------------------------------------------------------- */

struct moving {
    struct telling telling;
    const struct rs_client_move *move;
};

static bool on_moved(void *self, const Rankscope__Reply *reply)
{
    struct moving *moving = self;
    const struct rs_client_move *move = moving->move;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_ARCHIVE)
        return on_info(&moving->telling, reply);
    move->on_progress(move->self, reply->archive->done_bytes, reply->archive->all_bytes);
    return true;
}

enum rs_status rs_client_capture_move(const struct rs_address *address, const char *id,
                                      const struct rs_client_move *move,
                                      Rankscope__CaptureInfo **info_p, struct rs_err *err)
{
    struct moving moving = {.move = move};
    Rankscope__AskArchive question = RANKSCOPE__ASK_ARCHIVE__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    question.id = rs_lend(id);
    question.restore = move->is_restore;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_ARCHIVE;
    ask.archive = &question;
    return told(&moving.telling, rs_client_ask(address, &ask, on_moved, &moving, err), info_p, err);
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

/* A long list comes in several messages. */
struct listing {
    Rankscope__CaptureList *whole; /* NULL: nothing came */
    bool has_failed;
};

/* Moves what is in `more` behind the whole; false: no memory. */
static bool join_lists(Rankscope__CaptureList *whole, Rankscope__CaptureList *more)
{
    const size_t count = whole->n_captures + more->n_captures;
    Rankscope__CaptureInfo **items =
        realloc(whole->captures, (count + 1) * sizeof(Rankscope__CaptureInfo *));
    if (!items)
        return false;
    for (size_t i = 0; i < more->n_captures; i++)
        items[whole->n_captures + i] = more->captures[i];
    whole->captures = items;
    whole->n_captures = count;
    more->n_captures = 0;
    return true;
}

static bool on_list(void *self, const Rankscope__Reply *reply)
{
    struct listing *listing = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_LIST)
        return false;
    Rankscope__CaptureList *copy = (Rankscope__CaptureList *)rs_wire_copy(&reply->list->base);
    if (!copy) {
        listing->has_failed = true;
    } else if (!listing->whole) {
        listing->whole = copy;
    } else {
        listing->has_failed = !join_lists(listing->whole, copy);
        rankscope__capture_list__free_unpacked(copy, NULL);
    }
    return !listing->has_failed;
}

enum rs_status rs_client_captures(const struct rs_address *address, const char *run,
                                  bool has_no_ranks, Rankscope__CaptureList **list_p,
                                  struct rs_err *err)
{
    struct listing listing = {.whole = NULL};
    Rankscope__AskList question = RANKSCOPE__ASK_LIST__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    question.run = rs_lend(run);
    question.without_ranks = has_no_ranks;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_LIST;
    ask.list = &question;
    enum rs_status status = rs_client_ask(address, &ask, on_list, &listing, err);
    if (status >= 0 && listing.has_failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for the list of captures");
    if (status < 0 && listing.whole)
        rankscope__capture_list__free_unpacked(listing.whole, NULL);
    *list_p = status < 0 ? NULL : listing.whole;
    return status;
}

/* ---- one that is followed -------------------------------------------------------------------------------------- */

static bool on_answer(struct rs_capture_follow *follow, const Rankscope__CaptureAnswer *message)
{
    struct rs_request_answer answer;
    follow->is_answered = true;
    if (rs_answer_from_message(message, &answer, &follow->err) < 0) {
        follow->status = follow->err.status;
        return false;
    }
    if (follow->on_answer)
        follow->on_answer(follow->self, &answer);
    rs_request_answer_fini(&answer);
    follow->status = (enum rs_status)message->status;
    if (follow->status < 0)
        (void)rs_err_set(&follow->err, follow->status, "%.700s", message->text);
    (void)snprintf(follow->id, sizeof follow->id, "%.63s", message->capture);
    return follow->status >= 0 && *follow->id;
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct rs_capture_follow *follow = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_ANSWER)
        return on_answer(follow, reply->answer);
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        return false;
    if (follow->info)
        rankscope__capture_info__free_unpacked(follow->info, NULL);
    follow->info = rs_capture_info_copy(reply->capture); /* the message is lent */
    if (!follow->info)
        return false;
    if (follow->is_start && !follow->is_answered && follow->on_answer)
        follow->on_answer(follow->self, NULL);
    follow->is_answered = true;
    (void)snprintf(follow->id, sizeof follow->id, "%.63s", reply->capture->id);
    return follow->on_progress(follow->self, follow->info);
}

enum rs_status rs_client_capture_start(const struct rs_address *address,
                                       struct rs_capture_question *question,
                                       struct rs_capture_follow *follow, struct rs_err *err)
{
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_START;
    ask.start = rs_capture_question_message(question);
    follow->is_start = true;
    return rs_client_ask(address, &ask, on_reply, follow, err);
}

enum rs_status rs_client_capture_follow(const struct rs_address *address,
                                        enum rs_client_about about, const char *id,
                                        struct rs_capture_follow *follow, struct rs_err *err)
{
    struct about question;
    about_init(&question, about, id, true);
    return rs_client_ask(address, &question.ask, on_reply, follow, err);
}

enum rs_status rs_client_capture_fetch(const struct rs_address *address, const char *id,
                                       const char *ranks, struct rs_capture_follow *follow,
                                       struct rs_err *err)
{
    Rankscope__AskFetch question = RANKSCOPE__ASK_FETCH__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    question.id = rs_lend(id);
    question.ranks = rs_lend(ranks);
    ask.message_case = RANKSCOPE__ASK__MESSAGE_FETCH;
    ask.fetch = &question;
    return rs_client_ask(address, &ask, on_reply, follow, err);
}

void rs_capture_follow_fini(struct rs_capture_follow *follow)
{
    if (follow->info)
        rankscope__capture_info__free_unpacked(follow->info, NULL);
    follow->info = NULL;
}
