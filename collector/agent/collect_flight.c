/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/collect_flight.h"

#include "collector/agent/flight_ask.h"
#include "collector/trigger/process.h"
#include "common/base/as_user.h"
#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/flight/pack.h"

#define RS_LOG_TAG "flight"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { QUESTIONS_MAX = 8, PART_BYTES = 1 << 20, LEFT_MAX = 128 };

static const rs_dur left_ns = 600 * (rs_dur)RS_NS_PER_S;

/* A FlightAsk, copied. */
struct question {
    struct question *next;
    char id[64], run[RS_PROCESS_TEXT_BYTES];
    int32_t *ranks;
    size_t rank_count;
    rs_dur limit_ns;
    rs_ns newer_than_ns;
};

/* A Flight that waits for the uplink; or pieces of one, when the dump is large. */
struct answer {
    struct answer *next;
    char id[64];
    bool is_last;
    struct rs_flight_offer offer;
    struct rs_buf dump;
    char text[RS_FLIGHT_WHY_BYTES];
};

/* A dump that a look found, held open: a watchdog ends its process soon after it wrote, and a container's folder goes with it. */
struct left {
    struct rs_flight_offer offer;
    rs_ns seen_at; /* monotonic */
    int fd;
    bool is_alive; /* its process was asked in this round */
};

struct rs_collect_flight {
    struct rs_collect_flight_options options;
    char *run, *host;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct question *questions, **questions_last_p;
    size_t question_count;
    struct answer *answers, **answers_last_p;
    bool must_stop;
    struct left left[LEFT_MAX]; /* of thread rs-flight */
    size_t left_count;
    bool is_full_told;
};

static void free_question(struct question *question)
{
    rs_mem_free(question->ranks);
    rs_mem_free(question);
}

static void free_answer(struct answer *answer)
{
    rs_buf_fini(&answer->dump);
    rs_mem_free(answer);
}

/* --- thread rs-flight --------------------------------------------------------------------------------------------- */

struct asking {
    struct rs_collect_flight *flight;
    const struct question *question;
};

static void put_answer(struct rs_collect_flight *flight, struct answer *answer)
{
    (void)pthread_mutex_lock(&flight->lock);
    *flight->answers_last_p = answer;
    flight->answers_last_p = &answer->next;
    (void)pthread_mutex_unlock(&flight->lock);
    flight->options.wake(flight->options.wake_self);
}

static struct answer *new_answer(const struct question *question)
{
    struct answer *answer = rs_mem_calloc(1, sizeof *answer);
    if (answer)
        memcpy(answer->id, question->id, sizeof answer->id);
    return answer;
}

static void drop_left(struct rs_collect_flight *flight, size_t index)
{
    (void)close(flight->left[index].fd);
    flight->left[index] = flight->left[--flight->left_count];
    flight->is_full_told = false;
}

static struct left *find_left(struct rs_collect_flight *flight, const struct rs_flight_offer *offer)
{
    for (size_t i = 0; i < flight->left_count; i++)
        if (flight->left[i].offer.rank == offer->rank &&
            strcmp(flight->left[i].offer.run, offer->run) == 0)
            return &flight->left[i];
    return NULL;
}

static int open_as_its_user(const struct rs_flight_offer *offer)
{
    struct rs_user user;
    struct rs_as_user scope;
    struct rs_err err = {0};
    int fd = -1;
    rs_user_of_process(offer->pid, offer->uid, &user);
    if (rs_as_user_begin(&user, &scope, &err) == RS_OK) {
        fd = open(offer->file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            (void)rs_err_errno(&err, "cannot open it");
        rs_as_user_end(&scope);
    }
    if (fd < 0)
        rs_log_info("%.300s cannot be held open: %s", offer->file, err.text);
    return fd;
}

static void hold_file(struct rs_collect_flight *flight, const struct rs_flight_offer *offer)
{
    struct left *left = find_left(flight, offer);
    if (left && left->offer.written_ns == offer->written_ns)
        return;
    if (!left && flight->left_count == LEFT_MAX) {
        if (!flight->is_full_told)
            rs_log_warn(
                "%d dumps are held open: that of rank %d of %.100s, and others after it, are "
                "lost if their processes end before they are asked",
                LEFT_MAX, offer->rank, offer->run);
        flight->is_full_told = true;
        return;
    }
    const int fd = open_as_its_user(offer);
    if (fd < 0)
        return;
    if (left)
        (void)close(left->fd);
    else
        left = &flight->left[flight->left_count++];
    *left = (struct left){.offer = *offer, .seen_at = rs_time_monotonic(), .fd = fd};
}

static bool is_asked_for(const struct question *question, const struct rs_flight_offer *offer)
{
    bool is_chosen = !question->ranks;
    for (size_t i = 0; i < question->rank_count; i++)
        is_chosen = is_chosen || question->ranks[i] == offer->rank;
    return is_chosen && (!*question->run || strcmp(question->run, offer->run) == 0);
}

static enum rs_status on_rank(void *self, const struct rs_flight_offer *offer,
                              const struct rs_flight_set *set);

/* Processes that were there when a look found their dumps, and are gone. */
static enum rs_status answer_left(struct asking *asking, size_t *count_p, struct rs_err *err)
{
    struct rs_collect_flight *flight = asking->flight;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < flight->left_count && status >= 0; i++) {
        const struct left *left = &flight->left[i];
        const rs_ns newer_than_ns = asking->question->newer_than_ns;
        struct rs_flight_set set;
        if (left->is_alive || !is_asked_for(asking->question, &left->offer) ||
            (newer_than_ns && left->offer.written_ns <= newer_than_ns))
            continue;
        status = rs_flight_set_init(&set);
        if (status < 0)
            return rs_err_set(err, status, "no memory");
        if (!newer_than_ns)
            status = rs_flight_take_left(left->fd, &left->offer, flight->host, &set, err);
        if (status == RS_OK) {
            status = on_rank(asking, &left->offer, &set);
            ++*count_p;
        } else if (status == RS_AGAIN) {
            status = RS_OK;
        }
        rs_flight_set_fini(&set);
    }
    return status;
}

static void forget_old(struct rs_collect_flight *flight)
{
    for (size_t i = flight->left_count; i-- > 0;)
        if (rs_time_monotonic() - flight->left[i].seen_at > left_ns)
            drop_left(flight, i);
}

static enum rs_status on_rank(void *self, const struct rs_flight_offer *offer,
                              const struct rs_flight_set *set)
{
    const struct asking *asking = self;
    if (asking->question->newer_than_ns && offer->way == RS_FLIGHT_WAY_FILE)
        hold_file(asking->flight, offer);
    struct left *left = find_left(asking->flight, offer);
    if (left)
        left->is_alive = true;
    struct answer *answer = new_answer(asking->question);
    struct rs_err err = {0};
    if (!answer)
        return RS_NOMEM;
    answer->offer = *offer;
    if (!set->dump_count)
        (void)snprintf(answer->text, sizeof answer->text, "%s", offer->why);
    else if (rs_flight_pack(set, &set->dumps[0], &answer->dump, &err) < 0)
        (void)snprintf(answer->text, sizeof answer->text, "%.390s", err.text);
    put_answer(asking->flight, answer);
    return RS_OK;
}

static void answer_question(struct rs_collect_flight *flight, const struct question *question)
{
    struct asking asking = {.flight = flight, .question = question};
    const struct rs_flight_ask_options options = {.run = *question->run ? question->run : NULL,
                                                  .run_default = flight->run,
                                                  .ranks = question->ranks,
                                                  .rank_count = question->rank_count,
                                                  .host = flight->host,
                                                  .limit_ns = question->limit_ns,
                                                  .newer_than_ns = question->newer_than_ns,
                                                  .on_rank = on_rank,
                                                  .self = &asking};
    struct rs_err err = {0};
    size_t count = 0;
    for (size_t i = 0; i < flight->left_count; i++)
        flight->left[i].is_alive = false;
    enum rs_status status = rs_flight_ask_ranks(&options, &count, &err);
    if (status >= 0)
        status = answer_left(&asking, &count, &err);
    forget_old(flight);
    struct answer *last = new_answer(question);
    if (!last) {
        rs_log_error("no memory to answer why a job hangs");
        return;
    }
    last->is_last = true;
    if (status < 0)
        (void)snprintf(last->text, sizeof last->text, "%.390s", err.text);
    if (!question->newer_than_ns)
        rs_log_info("%zu ranks were asked for their flight recorders", count);
    put_answer(flight, last);
}

static void *serve(void *self)
{
    struct rs_collect_flight *flight = self;
    (void)pthread_mutex_lock(&flight->lock);
    while (!flight->must_stop) {
        struct question *question = flight->questions;
        if (!question) {
            (void)pthread_cond_wait(&flight->changed, &flight->lock);
            continue;
        }
        flight->questions = question->next;
        if (!flight->questions)
            flight->questions_last_p = &flight->questions;
        flight->question_count--;
        (void)pthread_mutex_unlock(&flight->lock);
        answer_question(flight, question);
        free_question(question);
        (void)pthread_mutex_lock(&flight->lock);
    }
    (void)pthread_mutex_unlock(&flight->lock);
    return NULL;
}

/* --- thread of the uplink ----------------------------------------------------------------------------------------- */

static struct question *copy_question(const Rankscope__FlightAsk *ask)
{
    struct question *question = rs_mem_calloc(1, sizeof *question);
    if (!question)
        return NULL;
    (void)snprintf(question->id, sizeof question->id, "%s", ask->id);
    (void)snprintf(question->run, sizeof question->run, "%s", ask->run);
    question->limit_ns = ask->limit_ns;
    question->newer_than_ns = ask->newer_than_ns;
    if (!ask->n_ranks)
        return question;
    question->ranks = rs_mem_calloc(ask->n_ranks, sizeof *question->ranks);
    if (!question->ranks) {
        free_question(question);
        return NULL;
    }
    for (size_t i = 0; i < ask->n_ranks; i++)
        question->ranks[question->rank_count++] = (int32_t)(ask->ranks[i] & INT32_MAX);
    return question;
}

void rs_collect_flight_ask(struct rs_collect_flight *flight, const Rankscope__FlightAsk *ask)
{
    struct question *question = copy_question(ask);
    if (!question)
        return;
    (void)pthread_mutex_lock(&flight->lock);
    const bool is_full = flight->question_count >= QUESTIONS_MAX;
    if (!is_full) {
        *flight->questions_last_p = question;
        flight->questions_last_p = &question->next;
        flight->question_count++;
        (void)pthread_cond_signal(&flight->changed);
    }
    (void)pthread_mutex_unlock(&flight->lock);
    if (is_full) {
        rs_log_warn("too many questions for flight recorders at once: one is dropped");
        free_question(question);
    }
}

static void send_answer(struct rs_collect_flight *flight, const struct answer *answer,
                        struct rs_uplink *uplink)
{
    Rankscope__Flight message = RANKSCOPE__FLIGHT__INIT;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_FLIGHT;
    up.flight = &message;
    message.id = rs_lend(answer->id);
    message.is_last = answer->is_last;
    message.text = rs_lend(answer->text);
    if (!answer->is_last) {
        message.run = rs_lend(answer->offer.run);
        message.rank = (uint32_t)answer->offer.rank;
        message.pid = (uint32_t)answer->offer.pid;
        message.host = flight->host;
        message.way = rs_lend(rs_flight_way_text(answer->offer.way));
        message.written_ns = answer->offer.written_ns;
    }
    size_t at = 0;
    do {
        const size_t left = answer->dump.length - at;
        message.part.len = left < PART_BYTES ? left : PART_BYTES;
        message.part.data = message.part.len ? answer->dump.data + at : NULL;
        at += message.part.len;
        message.has_more = at < answer->dump.length;
        rs_uplink_send(uplink, &up);
    } while (at < answer->dump.length);
}

void rs_collect_flight_messages(struct rs_collect_flight *flight, struct rs_uplink *uplink)
{
    (void)pthread_mutex_lock(&flight->lock);
    struct answer *answer = flight->answers;
    flight->answers = NULL;
    flight->answers_last_p = &flight->answers;
    (void)pthread_mutex_unlock(&flight->lock);
    while (answer) {
        struct answer *next = answer->next;
        send_answer(flight, answer, uplink);
        free_answer(answer);
        answer = next;
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void free_flight(struct rs_collect_flight *flight)
{
    while (flight->left_count)
        drop_left(flight, 0);
    while (flight->questions) {
        struct question *next = flight->questions->next;
        free_question(flight->questions);
        flight->questions = next;
    }
    while (flight->answers) {
        struct answer *next = flight->answers->next;
        free_answer(flight->answers);
        flight->answers = next;
    }
    (void)pthread_cond_destroy(&flight->changed);
    (void)pthread_mutex_destroy(&flight->lock);
    rs_mem_free(flight->run);
    rs_mem_free(flight->host);
    rs_mem_free(flight);
}

enum rs_status rs_collect_flight_start(const struct rs_collect_flight_options *options,
                                       struct rs_collect_flight **flight_p, struct rs_err *err)
{
    struct rs_collect_flight *flight = rs_mem_calloc(1, sizeof *flight);
    if (!flight)
        return rs_err_set(err, RS_NOMEM, "no memory for flight recorders");
    flight->options = *options;
    flight->run = rs_mem_strdup(options->run);
    flight->host = rs_mem_strdup(options->host);
    flight->questions_last_p = &flight->questions;
    flight->answers_last_p = &flight->answers;
    (void)pthread_mutex_init(&flight->lock, NULL);
    (void)pthread_cond_init(&flight->changed, NULL);
    enum rs_status status = flight->run && flight->host
                                ? RS_OK
                                : rs_err_set(err, RS_NOMEM, "no memory for flight recorders");
    if (status == RS_OK && pthread_create(&flight->thread, NULL, serve, flight) != 0)
        status = rs_err_set(err, RS_IO, "cannot start the thread for flight recorders");
    if (status < 0) {
        free_flight(flight);
        return status;
    }
    (void)pthread_setname_np(flight->thread, "rs-flight");
    *flight_p = flight;
    return RS_OK;
}

void rs_collect_flight_stop(struct rs_collect_flight **flight_p)
{
    struct rs_collect_flight *flight = *flight_p;
    if (!flight)
        return;
    *flight_p = NULL;
    (void)pthread_mutex_lock(&flight->lock);
    flight->must_stop = true;
    (void)pthread_cond_signal(&flight->changed);
    (void)pthread_mutex_unlock(&flight->lock);
    (void)pthread_join(flight->thread, NULL);
    free_flight(flight);
}
