/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator: two phases, one start step, deadlines, and who is named when something is missing. */
#include "aggregator/capture/coordinator.h"

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "tests/support/rs_test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the coordinator asked for, in words. */
static char said[4096];
static unsigned ids;
/* Messages go in the order of links' addresses: two objects would stand where the compiler puts them. */
static const char two_links[2] = {'a', 'b'};
static const char *const link_a = &two_links[0], *const link_b = &two_links[1];
static const char link_c[1] = "c";
static bool is_mute; /* many ranks: nobody reads that */

static void say(const char *word, const void *link, const uint32_t *ranks, size_t count)
{
    const size_t used = strlen(said);
    if (is_mute)
        return;
    int at = snprintf(said + used, sizeof said - used, "%s %s", word, link == link_a ? "A" : "B");
    for (size_t i = 0; i < count; i++)
        at += snprintf(said + used + at, sizeof said - used - (size_t)at, " %u", ranks[i]);
    (void)snprintf(said + used + at, sizeof said - used - (size_t)at, "; ");
}

static void prepare(void *self, const void *link, const struct rs_coord_capture *capture,
                    const struct rs_adapter *adapter, const uint32_t *ranks, size_t count)
{
    (void)self;
    (void)capture;
    (void)adapter;
    say("prepare", link, ranks, count);
}

static void commit(void *self, const void *link, const struct rs_coord_capture *capture,
                   const struct rs_adapter *adapter, const uint32_t *ranks, size_t count)
{
    (void)self;
    (void)capture;
    (void)adapter;
    say("commit", link, ranks, count);
}

static void cancel(void *self, const void *link, const struct rs_coord_capture *capture,
                   const char *reason)
{
    (void)self;
    (void)capture;
    (void)reason;
    say("cancel", link, NULL, 0);
}

static void cancel_elsewhere(void *self, const struct rs_coord_capture *capture, const char *reason)
{
    (void)self;
    const size_t used = strlen(said);
    (void)snprintf(said + used, sizeof said - used, "cancel elsewhere %s: %s; ", capture->id,
                   reason);
}

static enum rs_status create(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    (void)self;
    (void)err;
    if (!*capture->id)
        (void)snprintf(capture->id, sizeof capture->id, "c%u", ++ids);
    return RS_OK;
}

static bool save(void *self, struct rs_coord_capture *capture, bool must)
{
    (void)self;
    (void)capture;
    (void)must;
    return true;
}

static void close_it(void *self, struct rs_coord_capture *capture)
{
    (void)self;
    (void)capture;
    const size_t used = strlen(said);
    (void)snprintf(said + used, sizeof said - used, "close; ");
}

static const struct rs_coord_ops ops = {.prepare = prepare,
                                        .commit = commit,
                                        .cancel = cancel,
                                        .cancel_elsewhere = cancel_elsewhere,
                                        .create = create,
                                        .save = save,
                                        .close = close_it};

static const rs_ns second = RS_NS_PER_S;

static struct rs_adapter adapter_of(enum rs_profiler profiler)
{
    struct rs_adapter adapter;
    assert_true(rs_adapter_known(profiler, &adapter));
    return adapter;
}

static int64_t start_of(const struct rs_coord_capture *capture, enum rs_profiler profiler)
{
    const struct rs_adapter adapter = adapter_of(profiler);
    return rs_coord_start_step(capture, &adapter);
}

/* With half a second of lead, unless the options say how much. */
static struct rs_coord *new_coord_with(const struct rs_coord_options *options)
{
    struct rs_coord *coord = NULL;
    struct rs_coord_options own = *options;
    own.lead_ns = own.lead_ns ? own.lead_ns : second / 2;
    said[0] = '\0';
    ids = 0;
    assert_ok(rs_coord_new(&own, &coord, NULL));
    return coord;
}

static struct rs_coord *new_coord(void)
{
    const struct rs_coord_options options = {.ops = &ops};
    return new_coord_with(&options);
}

static void see_at(struct rs_coord *coord, const char *run, uint32_t rank, const void *link,
                   int64_t step, rs_dur duration, rs_ns now)
{
    struct rs_coord_seen seen = {.rank = rank,
                                 .world = 4,
                                 .step = step,
                                 .step_duration_ns = duration,
                                 .can_capture = true,
                                 .adapter = adapter_of(RS_PROFILER_NATIVE),
                                 .role = {-1, -1, -1, -1, -1},
                                 .link = link};
    (void)snprintf(seen.run, sizeof seen.run, "%s", run);
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i%u", rank);
    assert_ok(rs_coord_see(coord, &seen, now));
}

static void see(struct rs_coord *coord, const char *run, uint32_t rank, const void *link,
                int64_t step, rs_dur duration)
{
    see_at(coord, run, rank, link, step, duration, 0);
}

/* "ranks=0-3;schedule.active=5" onto a fresh request. */
static void make_request(struct rs_capture_request *request, const char *words)
{
    char text[512];
    char *rest = NULL;
    struct rs_request_notes notes = {0};
    assert_ok(rs_request_init(request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    assert_ok(rs_request_set(request, "schedule.active", "5", &notes));
    (void)snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok_r(text, ";", &rest); word; word = strtok_r(NULL, ";", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        if (rs_request_set(request, word, value, &notes) != RS_OK)
            fail_msg("%s: %s", word, notes.items[0].text);
    }
    rs_request_notes_fini(&notes);
}

struct asked {
    enum rs_status status;
    struct rs_coord_capture *capture;
    struct rs_err err;
    size_t decision_count[RS_DECISION_REFUSED + 1];
};

static struct asked ask_as(struct rs_coord *coord, const char *words, const char *user,
                           const char *file, rs_ns now)
{
    struct asked asked = {.capture = NULL};
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    make_request(&request, words);
    const struct rs_coord_ask ask = {.request = &request, .origin_file = file, .user = user};
    asked.status = rs_coord_start(coord, &ask, now, &answer, &asked.capture, &asked.err);
    memcpy(asked.decision_count, answer.decision_count, sizeof asked.decision_count);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
    return asked;
}

static struct asked ask_from(struct rs_coord *coord, const char *words, const char *file, rs_ns now)
{
    return ask_as(coord, words, NULL, file, now);
}

static struct asked ask(struct rs_coord *coord, const char *words)
{
    return ask_from(coord, words, NULL, 0);
}

static struct rs_coord_capture *start(struct rs_coord *coord, const char *ranks)
{
    char words[300];
    (void)snprintf(words, sizeof words, "ranks=%s", ranks);
    const struct asked asked = ask(coord, words);
    assert_true(asked.status == RS_OK || asked.status == RS_PARTIAL);
    return asked.capture;
}

static void arm_at(struct rs_coord *coord, uint32_t rank, int64_t step, rs_dur duration,
                   const char *refused, rs_ns now)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    const struct rs_coord_armed armed = {.rank = rank,
                                         .incarnation = incarnation,
                                         .step = step,
                                         .step_duration_ns = duration,
                                         .refused = refused};
    rs_coord_armed(coord, "c1", &armed, now);
}

static void arm(struct rs_coord *coord, uint32_t rank, int64_t step, rs_dur duration,
                const char *refused)
{
    arm_at(coord, rank, step, duration, refused, second);
}

static void end(struct rs_coord *coord, uint32_t rank, bool is_partial)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    rs_coord_ended(coord, "c1", rank, incarnation, is_partial, 2 * second);
}

static void every_rank_starts_at_one_step_beyond_the_foremost(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 100 * RS_NS_PER_MS);
    see(coord, "r", 1, link_b, 12, 50 * RS_NS_PER_MS);
    struct rs_coord_capture *capture = start(coord, "all");
    assert_string_equal(said, "prepare A 0; prepare B 1; ");
    arm(coord, 0, 11, 100 * RS_NS_PER_MS, "");
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    arm(coord, 1, 13, 50 * RS_NS_PER_MS, "");
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    /* half a second of lead is ten steps of 50 ms, and two for good measure */
    assert_int_equal(capture->start_step, 13 + 2 + 10);
    assert_non_null(strstr(said, "commit A 0; commit B 1; "));
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    assert_non_null(strstr(said, "close; "));
    rs_coord_free(&coord);
}

static void a_collectors_word_makes_nobody_done(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    const struct rs_coord_report reported = {
        .rank = 0, .steps_done = 5, .state = RS_PROGRESS_DONE, .text = ""};
    rs_coord_progress(coord, "c1", &reported, second);
    assert_int_equal(capture->ranks[0].state, RS_PROGRESS_SENDING);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    rs_coord_free(&coord);
}

static void who_does_not_answer_is_lost_and_the_others_record(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    assert_true(rs_coord_tick(coord, 4 * second) <= 5 * second);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    see_at(coord, "r", 0, link_a, 1, 0, 4 * second); /* both are there: heartbeats come */
    see_at(coord, "r", 1, link_b, 1, 0, 4 * second);
    (void)rs_coord_tick(coord, 5 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_LOST);
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->reason, "lost: rank 1");
    rs_coord_free(&coord);
}

/* Neither an answer nor a heartbeat: all are to begin together, so the others wait, and are asked again meanwhile. */
static void who_is_out_of_reach_is_waited_for_before_it_begins(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    for (int64_t at = 1; at <= 300; at++) {
        see_at(coord, "r", 0, link_a, at, 0, at * second);
        if (at == 20) /* gRPC's own watch */
            rs_coord_link_gone(coord, link_b, true, 20 * second);
        if (at == 60)
            said[0] = '\0';
        (void)rs_coord_tick(coord, at * second);
        assert_int_equal(capture->state, RS_CAPTURE_ARMING);
        if (at == 64)
            assert_string_equal(said, "prepare A 0; ");
    }
    assert_non_null(strstr(capture->ranks[1].text, "has not answered since"));
    said[0] = '\0';
    see_at(coord, "r", 0, link_a, 301, 0, 301 * second);
    see_at(coord, "r", 1, link_b, 1, 0, 301 * second);
    (void)rs_coord_tick(coord, 301 * second);
    assert_non_null(strstr(said, "prepare B 1; "));
    arm(coord, 1, 1, 0, "");
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

static const rs_dur ms = RS_NS_PER_MS;

static void report(struct rs_coord *coord, uint32_t rank, enum rs_progress_state state,
                   const char *text, rs_ns now)
{
    const struct rs_coord_report reported = {.rank = rank, .state = state, .text = text};
    rs_coord_progress(coord, "c1", &reported, now);
}

/* Two ranks of 50 ms steps that were told to begin at 23 ms, with half a second of lead. */
static struct rs_coord *committed(struct rs_coord_capture **capture_p)
{
    const struct rs_coord_options options = {.ops = &ops, .heartbeat_ns = second / 2};
    struct rs_coord *coord = new_coord_with(&options);
    see(coord, "r", 0, link_a, 10, 50 * ms);
    see(coord, "r", 1, link_b, 10, 50 * ms);
    *capture_p = start(coord, "all");
    arm_at(coord, 0, 10, 50 * ms, "", 20 * ms);
    arm_at(coord, 1, 10, 50 * ms, "", 23 * ms);
    assert_int_equal((*capture_p)->state, RS_CAPTURE_RECORDING);
    assert_int_equal((*capture_p)->start_step, 10 + 2 + 10);
    report(coord, 0, RS_PROGRESS_ARMED, "", 25 * ms);
    said[0] = '\0';
    return coord;
}

/* COMMIT was lost: the link was believed when it was written, and nothing has come of it since. */
static void a_start_that_somebody_did_not_hear_of_is_taken_back(void **state)
{
    (void)state;
    struct rs_coord_capture *capture = NULL;
    struct rs_coord *coord = committed(&capture);
    see_at(coord, "r", 0, link_a, 14, 50 * ms, 200 * ms);
    assert_int_equal(rs_coord_tick(coord, 30 * ms), 273 * ms);
    assert_string_equal(said, "");
    (void)rs_coord_tick(coord, 273 * ms);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    assert_non_null(strstr(said, "cancel A; ")); /* in any order */
    assert_non_null(strstr(said, "cancel B; "));
    assert_non_null(strstr(said, "prepare A 0; prepare B 1; "));
    /* what they say to that is no answer */
    report(coord, 0, RS_PROGRESS_LOST, "its start was moved", 274 * ms);
    assert_int_equal(capture->ranks[0].state, RS_PROGRESS_WAITING);
    arm_at(coord, 0, 15, 50 * ms, "", 276 * ms);
    for (int64_t at = 1; at <= 9; at++) { /* it stands still: all are to begin together */
        see_at(coord, "r", 0, link_a, 15 + 20 * at, 50 * ms, at * second);
        (void)rs_coord_tick(coord, at * second);
        assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    }
    assert_null(strstr(said, "commit"));
    /* It comes back, and reads it all in turn: the start that has passed, that this was taken back, the question. */
    see_at(coord, "r", 1, link_b, 190, 50 * ms, 9500 * ms);
    report(coord, 1, RS_PROGRESS_REFUSED, "it was past the last step already", 9500 * ms);
    (void)rs_coord_tick(coord, 9501 * ms);
    arm_at(coord, 1, 190, 50 * ms, "", 9502 * ms);
    arm_at(coord, 0, 190, 50 * ms, "", 9503 * ms);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_true(capture->start_step >= 190 + 2 + 10);
    assert_non_null(strstr(said, "commit A 0; commit B 1; "));
    report(coord, 0, RS_PROGRESS_ARMED, "", 9510 * ms);
    report(coord, 1, RS_PROGRESS_ARMED, "", 9510 * ms);
    (void)rs_coord_tick(coord, 9800 * ms);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

/* As below; it was given up before it came back, and the others recorded without it. */
static void who_began_alone_and_was_given_up_is_partial(void **state)
{
    (void)state;
    struct rs_coord_capture *capture = NULL;
    struct rs_coord *coord = committed(&capture);
    see_at(coord, "r", 0, link_a, 14, 50 * ms, 200 * ms);
    (void)rs_coord_tick(coord, 273 * ms);
    arm_at(coord, 0, 15, 50 * ms, "", 276 * ms);
    for (rs_ns at = second; at < 8 * second; at += second / 2) {
        see_at(coord, "r", 0, link_a, 15, 50 * ms, at);
        see_at(coord, "r", 1, link_b, 30, 50 * ms, at);
        (void)rs_coord_tick(coord, at);
    }
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_LOST);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    end(coord, 1, false);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_PARTIAL);
    assert_non_null(strstr(capture->ranks[1].text, "it began alone"));
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    rs_coord_free(&coord);
}

/* COMMIT came, and the word that it came was lost: the node recorded by itself. That is not what the others record. */
static void who_did_not_hear_that_its_start_was_taken_back_is_partial(void **state)
{
    (void)state;
    for (int has_refused = 0; has_refused < 2; has_refused++) {
        struct rs_coord_capture *capture = NULL;
        struct rs_coord *coord = committed(&capture);
        see_at(coord, "r", 0, link_a, 14, 50 * ms, 200 * ms);
        (void)rs_coord_tick(coord, 273 * ms);
        assert_int_equal(capture->state, RS_CAPTURE_ARMING);
        arm_at(coord, 0, 15, 50 * ms, "", 276 * ms);
        see_at(coord, "r", 1, link_b, 30, 50 * ms, second);
        if (has_refused)
            arm_at(coord, 1, 30, 50 * ms, "it began alone at step 22", second);
        end(coord, 1, false);
        assert_int_equal(capture->ranks[1].state, RS_PROGRESS_PARTIAL);
        assert_non_null(strstr(capture->ranks[1].text, "it began alone"));
        assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
        end(coord, 0, false);
        assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
        rs_coord_free(&coord);
    }
}

/* COMMIT died with the old link. The new one is there before anybody looks, or a second later: it is asked as soon as it is there. */
static void who_comes_back_soon_is_asked_at_once(void **state)
{
    (void)state;
    static const int64_t back_ms[] = {130, 1300};
    for (size_t i = 0; i < 2; i++) {
        struct rs_coord_capture *capture = NULL;
        struct rs_coord *coord = committed(&capture);
        const rs_ns back = back_ms[i] * ms;
        rs_coord_link_gone(coord, link_b, true, 30 * ms);
        if (back < 273 * ms)
            see_at(coord, "r", 1, link_b, 12, 50 * ms, back);
        (void)rs_coord_tick(coord, 273 * ms);
        assert_int_equal(capture->state, RS_CAPTURE_ARMING);
        assert_int_equal(strstr(said, "prepare B 1; ") != NULL, back < 273 * ms);
        said[0] = '\0';
        if (back > 273 * ms) {
            see_at(coord, "r", 1, link_b, 30, 50 * ms, back);
            (void)rs_coord_tick(coord, back);
            assert_non_null(strstr(said, "prepare B 1; "));
        }
        for (uint32_t rank = 0; rank < 2; rank++)
            see_at(coord, "r", rank, rank ? link_b : link_a, 110, 50 * ms, back + 4400 * ms);
        (void)rs_coord_tick(coord, back + 4400 * ms); /* 5 s from there on, as everybody */
        assert_int_equal(capture->ranks[1].state, RS_PROGRESS_WAITING);
        arm_at(coord, 0, 112, 50 * ms, "", back + 4500 * ms);
        arm_at(coord, 1, 112, 50 * ms, "", back + 4500 * ms);
        assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
        rs_coord_free(&coord);
    }
}

/* One whose link lives is only slow; where one has begun, or all were told, nothing is moved. */
static void a_start_is_not_taken_back_from_who_is_slow_or_has_begun(void **state)
{
    (void)state;
    struct rs_coord_capture *capture = NULL;
    struct rs_coord *coord = committed(&capture);
    see_at(coord, "r", 1, link_b, 11, 50 * ms, 100 * ms);
    (void)rs_coord_tick(coord, 273 * ms);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    rs_coord_link_gone(coord, link_b, true, 300 * ms);
    (void)rs_coord_tick(coord, 323 * ms); /* there is time still */
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    rs_coord_free(&coord);

    coord = committed(&capture);
    (void)rs_coord_tick(coord, 450 * ms); /* this process was late itself */
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    rs_coord_free(&coord);

    coord = committed(&capture);
    report(coord, 0, RS_PROGRESS_RECORDING, "", 270 * ms);
    (void)rs_coord_tick(coord, 273 * ms);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    rs_coord_free(&coord);

    coord = committed(&capture);
    report(coord, 1, RS_PROGRESS_ARMED, "", 30 * ms);
    (void)rs_coord_tick(coord, 273 * ms);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_string_equal(said, "");
    rs_coord_free(&coord);
}

/* Whoever answers slowly hears of the start slowly. */
static void slow_answers_make_the_lead_longer(void **state)
{
    (void)state;
    const struct rs_coord_options options = {.ops = &ops, .heartbeat_ns = second / 2};
    struct rs_coord *coord = new_coord_with(&options);
    see(coord, "r", 0, link_a, 10, 50 * ms);
    const struct rs_coord_capture *capture = ask_from(coord, "ranks=all", NULL, second).capture;
    arm_at(coord, 0, 10, 50 * ms, "", 1200 * ms);
    assert_int_equal(capture->start_step, 10 + 2 + 8 * 200 / 50);
    rs_coord_free(&coord);
}

/* One quick answer of a crowded node says little of the next: where nothing else is said, a second. */
static void quick_answers_make_the_lead_no_shorter_than_a_second(void **state)
{
    (void)state;
    const struct rs_coord_options options = {.ops = &ops, .heartbeat_ns = second / 2};
    struct rs_coord *coord = NULL;
    ids = 0;
    assert_ok(rs_coord_new(&options, &coord, NULL));
    see(coord, "r", 0, link_a, 10, 50 * ms);
    const struct rs_coord_capture *capture = ask_from(coord, "ranks=all", NULL, second).capture;
    arm_at(coord, 0, 10, 50 * ms, "", 1001 * ms);
    assert_int_equal(capture->start_step, 10 + 2 + 1000 / 50);
    rs_coord_free(&coord);
}

/* Nor does it where heartbeats came late: so late a start may come. Not for ever, and a silence is none. On a node on which nothing
 * changes they come less often, and say so: that is not late. */
static void late_heartbeats_make_the_lead_longer(void **state)
{
    (void)state;
    static const struct {
        rs_dur promised_ns; /* the first said that the second follows within that; 0: nothing */
        rs_dur gap_ns;
        rs_ns asked_ns;
        rs_dur lead_ns;
    } cases[] = {
        {0, 2200 * ms, 5 * second, 6800 * ms},
        {0, 1200 * ms, 5 * second,
         4 * second}, /* it is new: it may come later than it did so far */
        {0, 1200 * ms, 22 * second - 400 * ms, 2800 * ms},
        {0, 600 * ms, 22 * second - 400 * ms, second}, /* a second is longer */
        {0, 1200 * ms, 26 * second, second},           /* it was long ago */
        {0, 3500 * ms, 6 * second, 4 * second},
        {0, 3500 * ms, 26 * second, second},
        {2 * second, 2 * second, 5 * second, 4 * second}, /* as of any new one */
        {2 * second, 2 * second, 22 * second, second},
        {2 * second, 3200 * ms, 5 * second, 4800 * ms},
        {0, 2 * second, 5 * second, 6 * second},             /* every half second was promised */
        {3600 * second, 2 * second, 5 * second, 6 * second}, /* nobody promises that */
        {-second, 2 * second, 5 * second, 6 * second},
    };
    const struct rs_coord_options options = {.ops = &ops, .heartbeat_ns = second / 2};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rs_coord *coord = NULL;
        const rs_ns asked = cases[i].asked_ns;
        ids = 0;
        assert_ok(rs_coord_new(&options, &coord, NULL));
        rs_coord_see_link(coord, link_a, cases[i].promised_ns, second);
        for (rs_ns at = second + cases[i].gap_ns; at < asked; at += second / 2)
            rs_coord_see_link(coord, link_a, 0, at);
        see_at(coord, "r", 0, link_a, 10, 50 * ms, asked);
        const struct rs_coord_capture *capture = ask_from(coord, "ranks=all", NULL, asked).capture;
        arm_at(coord, 0, 10, 50 * ms, "", asked + ms);
        assert_int_equal(capture->start_step, 10 + 2 + cases[i].lead_ns / (50 * ms));
        rs_coord_free(&coord);
    }
}

/* Its process has ended, and its collector, which is heard, does not name it any more: a job that was just started again. */
static void who_is_not_named_any_more_is_not_out_of_reach(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    const struct rs_coord_capture *capture = start(coord, "all");
    for (int64_t at = 1; at <= 5; at++) {
        assert_int_equal(capture->state, RS_CAPTURE_ARMING);
        rs_coord_see_link(coord, link_a, 0, at * second);
        (void)rs_coord_tick(coord, at * second);
    }
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_string_equal(capture->ranks[0].text, "it did not answer in time");
    rs_coord_free(&coord);
}

/* Not for ever; and who comes back and does not answer has 5 s, as everybody. */
static void who_is_out_of_reach_before_it_begins_is_given_up_in_the_end(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    (void)rs_coord_tick(coord, 6 * second);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    see_at(coord, "r", 0, link_a, 1, 0, 1199 * second);
    (void)rs_coord_tick(coord, 1199 * second);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    see_at(coord, "r", 1, link_b, 1, 0, 1199 * second);
    (void)rs_coord_tick(coord, 1199 * second);
    see_at(coord, "r", 0, link_a, 1, 0, 1203 * second);
    see_at(coord, "r", 1, link_b, 1, 0, 1203 * second);
    (void)rs_coord_tick(coord, 1203 * second);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    (void)rs_coord_tick(coord, 1204 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_LOST);
    assert_string_equal(capture->ranks[1].text, "it did not answer in time");
    rs_coord_free(&coord);

    coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    see_at(coord, "r", 0, link_a, 1, 0, 1200 * second);
    (void)rs_coord_tick(coord, 1200 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_LOST);
    rs_coord_free(&coord);
}

/* As the aggregator before this one told of it last. */
static struct rs_coord_capture *take_over(struct rs_coord *coord)
{
    struct rs_coord_rank ranks[] = {
        {.rank = 0, .incarnation = "i0", .state = RS_PROGRESS_DONE, .steps_done = 5},
        {.rank = 1, .incarnation = "i1", .state = RS_PROGRESS_RECORDING}};
    struct rs_coord_capture row = {.id = "c7",
                                   .run = "r",
                                   .state = RS_CAPTURE_RECORDING,
                                   .steps = 5,
                                   .world = 2,
                                   .claim = 1,
                                   .taken_from = "aggregator f00",
                                   .ranks = ranks,
                                   .rank_count = 2};
    rs_coord_set_source(&row, "native");
    assert_ok(rs_coord_take_over(coord, &row, 0, NULL));
    struct rs_coord_capture *capture = rs_coord_find(coord, "c7");
    assert_non_null(capture);
    return capture;
}

static void what_was_sent_elsewhere_has_to_come_again(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    const struct rs_coord_capture *capture = take_over(coord);
    assert_int_equal(capture->ranks[0].state, RS_PROGRESS_SENDING);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_RECORDING);
    rs_coord_ended(coord, "c7", 1, "i1", false, second);
    assert_null(strstr(said, "close"));
    rs_coord_ended(coord, "c7", 0, "i0", false, second);
    assert_non_null(strstr(said, "close"));
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    assert_string_equal(capture->reason, "");
    rs_coord_free(&coord);
}

static void what_does_not_come_again_names_who_was_lost(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    const struct rs_coord_capture *capture = take_over(coord);
    rs_coord_lost(coord, "c7", 0, "i0", 3);
    rs_coord_ended(coord, "c7", 0, "i0", false, second);
    rs_coord_ended(coord, "c7", 1, "i1", false, second);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_non_null(strstr(capture->reason, "taken over from aggregator f00"));
    assert_non_null(strstr(capture->ranks[0].text, "3 chunks of it were lost"));
    rs_coord_free(&coord);
}

static void what_was_given_up_is_closed_and_says_to_whom(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = take_over(coord);
    rs_coord_give_up(coord, "c7", "beef", "aggregator beef on h", second);
    assert_non_null(strstr(said, "close"));
    assert_string_equal(capture->given_up_to, "beef");
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(capture->reason, "taken over by aggregator beef on h"));
    rs_coord_give_up(coord, "unknown", "beef", "aggregator beef on h", second);
    /* That one is lost, too: who was recording may still be. */
    struct rs_coord *after = new_coord();
    struct rs_coord_capture back = *capture;
    back.given_up_to[0] = '\0';
    assert_ok(rs_coord_load(after, &back, 2 * second, NULL));
    const struct rs_coord_capture *taken = rs_coord_find(after, "c7");
    assert_int_equal(taken->state, RS_CAPTURE_RECORDING);
    (void)rs_coord_tick(after, 3 * second);
    assert_string_equal(said, ""); /* nobody is called back, and it is not closed */
    rs_coord_free(&after);
    rs_coord_free(&coord);
}

static void a_collector_is_idle_when_no_rank_of_it_is_in_a_capture(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    assert_true(rs_coord_is_idle(coord, link_a));
    (void)start(coord, "0");
    assert_false(rs_coord_is_idle(coord, link_a));
    assert_true(rs_coord_is_idle(coord, link_b));
    assert_true(rs_coord_is_idle(coord, link_c));
    rs_coord_free(&coord);
}

/* A folder was made and its row was not: the next start finds it. */
static void a_capture_of_nothing_says_so(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture left = {
        .id = "c1", .is_files = true, .state = RS_CAPTURE_COLLECTING, .start_step = -1};
    assert_ok(rs_coord_load(coord, &left, 0, NULL));
    const struct rs_coord_capture *capture = rs_coord_find(coord, "c1");
    (void)rs_coord_tick(coord, 100 * second);
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(capture->reason, "nothing of it is stored"));
    rs_coord_free(&coord);
}

/* All steps may be in its summary: what was asked for is not all there all the same. */
static void a_lost_chunk_makes_a_rank_partial(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    rs_coord_lost(coord, "c1", 1, "i1", 2);
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_PARTIAL);
    assert_string_equal(capture->ranks[1].text,
                        "2 chunks of it were lost: rankscope verify says which");
    rs_coord_free(&coord);
}

/* Raw results that the vendor's tool has yet to parse are not lost: they are where the reason says. */
static void what_is_stored_raw_is_not_called_lost(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    see(coord, "r", 2, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    for (uint32_t rank = 0; rank < 3; rank++)
        arm(coord, rank, 1, 0, "");
    report(coord, 1, RS_PROGRESS_LOST, RS_STORED_RAW_TEXT " by the vendor's tool yet", 2 * ms);
    report(coord, 2, RS_PROGRESS_LOST, "its process ended", 2 * ms);
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->reason, "lost: rank 2; stored raw: rank 1");
    rs_coord_free(&coord);
}

/* Each rank's offset is as old as what was told of it last: of a host the newest counts for all of its ranks. */
static void ranks_of_one_host_have_one_clock(void **state)
{
    (void)state;
    static const char *const hosts[] = {"a", "a", "b", "a"};
    static const rs_dur offsets[] = {1000, 5000, 7, 0};
    struct rs_coord *coord = new_coord();
    for (uint32_t rank = 0; rank < 4; rank++)
        see(coord, "r", rank, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    for (uint32_t rank = 0; rank < 4; rank++)
        arm(coord, rank, 1, 0, "");
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct rs_coord_seen seen = *rs_coord_seen(coord, rank);
        (void)snprintf(seen.host, sizeof seen.host, "%s", hosts[rank]);
        seen.clock_offset_ns = offsets[rank];
        seen.clock_bound_ns =
            rank == 3 ? 0 : 100; /* rank 3 was told of before anything was measured */
        assert_ok(rs_coord_see(coord, &seen, (rs_ns)(rank + 1) * second));
    }
    for (uint32_t rank = 0; rank < 4; rank++)
        end(coord, rank, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(capture->ranks[rank].clock_offset_ns, rank == 2 ? 7 : 5000);
    rs_coord_free(&coord);
}

/* Whoever has the findings and goes must have heard that one rank is not in them; raw data is on its way yet. */
static void who_recorded_another_time_is_said_with_the_findings(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    for (uint32_t rank = 0; rank < 3; rank++)
        see(coord, "r", rank, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    for (uint32_t rank = 0; rank < 3; rank++)
        arm(coord, rank, 1, 0, "");
    capture->capabilities |= RS_CAP_STEP_ROUNDUP;
    for (uint32_t rank = 0; rank < 3; rank++) {
        const rs_ns from = rank == 1 ? second : 9 * second;
        const struct rs_coord_report reported = {.rank = rank,
                                                 .state = RS_PROGRESS_SENDING,
                                                 .text = "",
                                                 .window_start_ns = from,
                                                 .window_end_ns = from + second};
        char incarnation[16];
        (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
        capture->ranks[rank].adapter.capabilities |= RS_CAP_STEP_ROUNDUP;
        rs_coord_progress(coord, "c1", &reported, 2 * second);
        assert_string_equal(capture->reason, "");
        rs_coord_summarised(coord, "c1", rank, incarnation, false, 2 * second);
    }
    assert_int_equal(capture->state, RS_CAPTURE_SUMMARISED);
    assert_non_null(strstr(capture->reason, "not the same time: rank 1 recorded 8.0 s earlier"));
    rs_coord_free(&coord);
}

/* Who waits for findings only hears of a rank that recorded too little, while its raw data is on the way. */
static void short_ranks_are_said_with_the_findings(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    for (uint32_t rank = 0; rank < 2; rank++)
        arm(coord, rank, 1, 0, "");
    for (uint32_t rank = 0; rank < 2; rank++) {
        char incarnation[16];
        (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
        report(coord, rank, RS_PROGRESS_SENDING, rank ? "events were lost" : "", 2 * ms);
        rs_coord_summarised(coord, "c1", rank, incarnation, rank == 1, 2 * second);
    }
    assert_int_equal(capture->state, RS_CAPTURE_SUMMARISED);
    assert_string_equal(capture->reason, "less than was asked: rank 1 (events were lost)");
    rs_coord_free(&coord);
}

/* A collector that was stopped has said so, however long it had nothing to tell. */
static void a_link_closed_in_order_is_not_waited_for(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    end(coord, 0, false);
    rs_coord_link_gone(coord, link_b, false, 20 * second);
    (void)rs_coord_tick(coord, 36 * second);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->ranks[1].text, "its collector is gone");
    rs_coord_free(&coord);
}

static void a_rank_whose_collector_is_gone_is_named_after_a_while(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    end(coord, 0, false);
    rs_coord_link_gone(coord, link_b, true, 3 * second);
    (void)rs_coord_tick(coord, 17 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    (void)rs_coord_tick(coord, 19 * second);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->ranks[1].text, "its collector is gone");
    rs_coord_free(&coord);
}

/* Their places in the table are others then. */
static void a_rank_is_told_from_others_after_some_have_left(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "old", 7, link_c, 1, 0);
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    rs_coord_link_gone(coord, link_c, false, 0);
    struct rs_coord_capture *capture = ask(coord, "ranks=all;job_id=r").capture;
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    (void)rs_coord_tick(coord, 2 * second);
    for (rs_ns now = 40 * second; now <= 80 * second; now += 20 * second)
        for (uint32_t rank = 0; rank < 2; rank++)
            report(coord, rank, RS_PROGRESS_RECORDING, "", now);
    (void)rs_coord_tick(coord, 81 * second);
    assert_int_equal(rs_coord_seen_count(coord), 2);
    rs_coord_link_gone(coord, link_b, false, 82 * second);
    (void)rs_coord_tick(coord, 98 * second);
    assert_int_equal(capture->ranks[0].state, RS_PROGRESS_RECORDING);
    assert_int_equal(capture->ranks[1].state, RS_PROGRESS_LOST);
    assert_string_equal(capture->ranks[1].text, "its collector is gone");
    rs_coord_free(&coord);
}

/* Ranks 0 and 1 record; the link of rank 1 has been silent for 20 s when it breaks. */
static struct rs_coord_capture *cut_off(struct rs_coord *coord)
{
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    end(coord, 0, false);
    rs_coord_link_gone(coord, link_b, true, 20 * second);
    (void)rs_coord_tick(coord, 21 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_ptr_equal(strstr(capture->ranks[1].text, RS_UNREACHABLE_TEXT), capture->ranks[1].text);
    return capture;
}

static void come_back(struct rs_coord *coord, uint32_t rank, rs_ns now)
{
    struct rs_coord_seen seen = *rs_coord_seen(coord, rank);
    seen.link = link_b;
    assert_ok(rs_coord_see(coord, &seen, now));
}

static void a_partition_is_waited_for(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = cut_off(coord);
    (void)rs_coord_tick(coord, 600 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    /* It comes back without a word of the capture: it has things to send first. */
    come_back(coord, 1, 601 * second);
    (void)rs_coord_tick(coord, 602 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_string_equal(capture->ranks[1].text, "");
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    assert_string_equal(capture->ranks[1].text, "");
    rs_coord_free(&coord);
}

static void a_collector_that_comes_back_and_knows_nothing_is_named(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = cut_off(coord);
    come_back(coord, 1, 601 * second);
    for (int at = 602; at < 608; at++) {
        assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
        come_back(coord, 1, at * second);
        (void)rs_coord_tick(coord, at * second);
    }
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->ranks[1].text,
                        "its collector was started again in the middle and does not know of it");
    rs_coord_free(&coord);
}

/* Whose heartbeats pause again and again, without a word of the capture, holds it open no longer than who is silent. */
static void who_pauses_again_and_again_is_given_up(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 50 * ms);
    see(coord, "r", 1, link_b, 10, 50 * ms);
    rs_coord_see_link(coord, link_b, 0, 1);
    const struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 10, 50 * ms, "");
    arm(coord, 1, 10, 50 * ms, "");
    end(coord, 0, false);
    for (rs_ns at = 3 * second; at < 300 * second; at += 3 * second) {
        see_at(coord, "r", 1, link_b, 200, 50 * ms, at);
        rs_coord_see_link(coord, link_b, 0, at);
        (void)rs_coord_tick(coord, at);
    }
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    rs_coord_free(&coord);
}

/* Short enough for its link to last: it recorded all of it meanwhile, and its first heartbeat comes before its first chunk. */
static void who_is_silent_for_a_while_has_things_to_send_first(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 50 * ms);
    see(coord, "r", 1, link_b, 10, 50 * ms);
    rs_coord_see_link(coord, link_b, 0, 0 * second + 1);
    const struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 10, 50 * ms, "");
    arm(coord, 1, 10, 50 * ms, "");
    end(coord, 0, false);
    (void)rs_coord_tick(coord, 13 * second);
    see_at(coord, "r", 1, link_b, 200, 50 * ms, 14 * second);
    rs_coord_see_link(coord, link_b, 0, 14 * second);
    (void)rs_coord_tick(coord, 14 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

/* The same, where its collector found the link broken before the aggregator did: it is here twice for a while. */
static void who_comes_back_over_another_link_has_things_to_send_first(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 50 * ms);
    see(coord, "r", 1, link_b, 10, 50 * ms);
    rs_coord_see_link(coord, link_b, 0, 1);
    const struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 10, 50 * ms, "");
    arm(coord, 1, 10, 50 * ms, "");
    end(coord, 0, false);
    (void)rs_coord_tick(coord, 13 * second);
    see_at(coord, "r", 1, link_c, 200, 50 * ms, 14 * second);
    rs_coord_see_link(coord, link_c, 0, 14 * second);
    (void)rs_coord_tick(coord, 14 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    rs_coord_link_gone(coord, link_b, true, 15 * second);
    (void)rs_coord_tick(coord, 15 * second);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

static void a_partition_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = cut_off(coord);
    (void)rs_coord_tick(coord, (20 + 1199) * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    (void)rs_coord_tick(coord, (20 + 1201) * second);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->ranks[1].text, "its collector did not come back");
    rs_coord_free(&coord);
}

static void who_stops_a_capture_does_not_wait_for_a_partition(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = cut_off(coord);
    assert_ok(rs_coord_stop(coord, "c1", 22 * second, NULL));
    (void)rs_coord_tick(coord, 36 * second);
    assert_int_equal(capture->state, RS_CAPTURE_STOPPED);
    assert_string_equal(capture->ranks[1].text, "its collector is gone");
    rs_coord_free(&coord);
}

static void a_process_that_stood_still_gives_everybody_time_anew(void **state)
{
    (void)state;
    struct rs_coord *coord = NULL;
    const struct rs_coord_options options = {.ops = &ops, .tick_ns = second};
    said[0] = '\0';
    ids = 0;
    assert_ok(rs_coord_new(&options, &coord, NULL));
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    (void)rs_coord_tick(coord, second);
    /* 100 s later: its answer may lie in the socket. */
    (void)rs_coord_tick(coord, 101 * second);
    assert_int_equal(capture->state, RS_CAPTURE_ARMING);
    arm(coord, 0, 1, 0, "");
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    (void)rs_coord_tick(coord, 102 * second);
    /* An hour later the same of what it recorded. */
    (void)rs_coord_tick(coord, 3702 * second);
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    for (int at = 3703; at < 3717; at++) {
        (void)rs_coord_tick(coord, at * second);
        assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    }
    (void)rs_coord_tick(coord, 3717 * second);
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    rs_coord_free(&coord);
}

static void all_refusing_is_a_failure(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    arm(coord, 0, 1, 0, "no memory");
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_null(strstr(said, "commit"));
    rs_coord_free(&coord);
}

static void unknown_ranks_are_listed_and_the_known_ones_record(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "0,7-8");
    assert_int_equal(capture->rank_count, 3);
    arm(coord, 0, 1, 0, "");
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->reason, "refused: rank 7, 8");
    rs_coord_free(&coord);
}

static void two_runs_need_a_name(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    assert_status(ask(coord, "").status, RS_NOTFOUND);
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "s", 0, link_b, 1, 0);
    const struct asked asked = ask(coord, "");
    assert_status(asked.status, RS_INVALID);
    assert_non_null(strstr(asked.err.text, "r, s"));
    assert_ok(ask(coord, "job_id=s").status);
    assert_string_equal(said, "prepare B 0; ");
    rs_coord_free(&coord);
}

/* A node has other jobs, too: of those that nobody can record, or that are somebody else's, none makes a run unclear. */
static void jobs_that_cannot_be_meant_need_no_name(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_seen other = {.world = 4,
                                  .step = 1,
                                  .adapter = adapter_of(RS_PROFILER_NATIVE),
                                  .role = {-1, -1, -1, -1, -1},
                                  .link = link_b};
    (void)snprintf(other.run, sizeof other.run, "notebook");
    (void)snprintf(other.incarnation, sizeof other.incarnation, "n0");
    assert_ok(rs_coord_see(coord, &other, 0));
    see(coord, "r", 0, link_a, 1, 0);
    assert_ok(ask(coord, "").status);
    assert_string_equal(said, "prepare A 0; ");
    rs_coord_free(&coord);

    coord = new_coord();
    other.can_capture = true;
    (void)snprintf(other.user, sizeof other.user, "bob");
    assert_ok(rs_coord_see(coord, &other, 0));
    struct rs_coord_seen mine = other;
    (void)snprintf(mine.run, sizeof mine.run, "r");
    (void)snprintf(mine.incarnation, sizeof mine.incarnation, "i0");
    (void)snprintf(mine.user, sizeof mine.user, "alice");
    mine.link = link_a;
    assert_ok(rs_coord_see(coord, &mine, 0));
    struct asked asked = ask_as(coord, "", "alice", NULL, 0);
    assert_ok(asked.status);
    assert_string_equal(asked.capture->run, "r");
    asked = ask(coord, "");
    assert_status(asked.status, RS_INVALID); /* whoever may capture both has to say which */
    rs_coord_free(&coord);
}

static void a_past_start_step_is_refused(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 0);
    const struct asked asked = ask(coord, "start_step=10");
    assert_status(asked.status, RS_REFUSED);
    assert_null(asked.capture);
    assert_int_equal(asked.decision_count[RS_DECISION_REFUSED], 1);
    assert_string_equal(said, "");
    rs_coord_free(&coord);
}

static void a_rank_that_cannot_make_the_start_is_in_the_capture_with_the_reason(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 0);
    see(coord, "r", 1, link_b, 50, 0);
    const struct asked asked = ask(coord, "start_step=50");
    assert_status(asked.status, RS_PARTIAL);
    assert_string_equal(said, "prepare A 0; ");
    assert_int_equal(asked.capture->ranks[1].state, RS_PROGRESS_REFUSED);
    assert_non_null(strstr(asked.capture->ranks[1].text, "start_step=50, current_step=50"));
    arm(coord, 0, 11, 0, "");
    assert_int_equal(asked.capture->start_step, 50);
    end(coord, 0, false);
    assert_int_equal(asked.capture->state, RS_CAPTURE_PARTIAL);
    rs_coord_free(&coord);
}

static void a_start_that_passes_while_ranks_are_asked_names_them(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 0);
    see(coord, "r", 1, link_b, 10, 0);
    const struct asked asked = ask(coord, "start_step=12");
    arm(coord, 0, 11, 0, "");
    arm(coord, 1, 12, 0, "");
    assert_int_equal(asked.capture->start_step, 12);
    assert_int_equal(asked.capture->ranks[0].state, RS_PROGRESS_ARMED);
    assert_int_equal(asked.capture->ranks[1].state, RS_PROGRESS_REFUSED);
    assert_non_null(strstr(asked.capture->ranks[1].text, "start_step 12 passed"));
    assert_non_null(strstr(said, "commit A 0; "));
    assert_null(strstr(said, "commit B"));
    rs_coord_free(&coord);
}

static void a_bad_request_is_refused_with_its_rules(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 10, 0);
    struct asked asked = ask(coord, "ranks=0,;prof_dir=/a/../b");
    assert_status(asked.status, RS_INVALID);
    assert_non_null(strstr(asked.err.text, "does not parse"));
    assert_non_null(strstr(asked.err.text, "never \"..\""));
    asked = ask(coord, "max_duration_s=500");
    assert_status(asked.status, RS_REFUSED);
    asked = ask(coord, "is_rank=true");
    assert_status(asked.status, RS_REFUSED);
    assert_null(asked.capture);
    assert_non_null(strstr(asked.err.text, "nothing will be captured"));
    assert_string_equal(said, "");
    rs_coord_free(&coord);
}

static void expressions_choose_by_host_role_and_pace(void **state)
{
    (void)state;
    static const struct {
        const char *words, *wanted;
    } cases[] = {
        {"ranks=node=b", "prepare B 2 3; "},
        {"ranks=tp=1 & pp=0", "prepare A 1; "},
        {"ranks=pp=last", "prepare B 2 3; "},
        {"ranks=one-per-node", "prepare A 0; prepare B 2; "},
        {"ranks=every=2", "prepare A 0; prepare B 2; "},
        {"ranks=slowest=1", "prepare B 3; "},
        {"ranks=!(0|3)", "prepare A 1; prepare B 2; "},
        {"is_rank=true;rank_list=1,3", "prepare A 1; prepare B 3; "},
        {"ranks=0-1;is_rank=true;rank_list=1,3", "prepare A 1; "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rs_coord *coord = new_coord();
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct rs_coord_seen seen = {.rank = rank,
                                         .world = 4,
                                         .step = 3,
                                         .step_duration_ns = RS_NS_PER_MS * (rank + 1),
                                         .can_capture = true,
                                         .role = {-1, -1, -1, -1, -1},
                                         .link = rank < 2 ? link_a : link_b};
            (void)snprintf(seen.run, sizeof seen.run, "r");
            (void)snprintf(seen.host, sizeof seen.host, "%s", rank < 2 ? "a" : "b");
            (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i%u", rank);
            assert_ok(rs_coord_see(coord, &seen, 0));
        }
        struct rs_capture_request request;
        struct rs_request_answer answer = {0};
        struct rs_coord_capture *capture = NULL;
        make_request(&request, cases[i].words);
        const struct rs_coord_ask by_roles = {.request = &request,
                                              .roles = "{\"tp\": 2, \"pp\": 2}"};
        assert_ok(rs_coord_start(coord, &by_roles, 0, &answer, &capture, NULL));
        if (strcmp(said, cases[i].wanted) != 0)
            fail_msg("%s: %s", cases[i].words, said);
        rs_request_answer_fini(&answer);
        rs_request_fini(&request);
        rs_coord_free(&coord);
    }
}

static void roles_come_from_the_request_and_the_aggregator(void **state)
{
    (void)state;
    struct rs_coord *coord = NULL;
    const struct rs_coord_options options = {.ops = &ops, .roles = "{\"tp\": 4}"};
    assert_ok(rs_coord_new(&options, &coord, NULL));
    for (uint32_t rank = 0; rank < 4; rank++)
        see(coord, "r", rank, link_a, 1, 0);
    said[0] = '\0';
    assert_ok(ask(coord, "ranks=tp=3").status);
    assert_string_equal(said, "prepare A 3; ");
    said[0] = '\0';
    /* what is nearer to the question counts */
    assert_ok(ask(coord, "ranks=tp=0 & pp=1;metadata={\"distributed_args\":"
                         "{\"tensor_model_parallel_size\":2,\"pipeline_model_parallel_size\":2}}")
                  .status);
    assert_string_equal(said, "prepare A 2; ");
    rs_coord_free(&coord);
}

/* ---- the queue ------------------------------------------------------------------------------------------- */

static void a_second_request_waits_for_its_turn(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    (void)start(coord, "0");
    const struct asked second_ask = ask(coord, "ranks=all");
    assert_ok(second_ask.status);
    assert_int_equal(second_ask.decision_count[RS_DECISION_QUEUED], 1);
    assert_int_equal(second_ask.capture->state, RS_CAPTURE_QUEUED);
    assert_string_equal(second_ask.capture->reason, "waits for capture c1");
    assert_string_equal(said, "prepare A 0; ");
    const struct asked third = ask(coord, "ranks=0");
    assert_status(third.status, RS_REFUSED);
    assert_non_null(strstr(third.err.text, "capture c2 waits"));
    arm(coord, 0, 1, 0, "");
    end(coord, 0, false);
    (void)rs_coord_tick(coord, 3 * second);
    assert_int_equal(second_ask.capture->state, RS_CAPTURE_ARMING);
    assert_non_null(strstr(said, "prepare A 0; prepare B 1; "));
    assert_string_equal(second_ask.capture->reason, "");
    rs_coord_free(&coord);
}

static void see_holding(struct rs_coord *coord, const char *capture, rs_ns now)
{
    struct rs_coord_seen seen = {.rank = 0,
                                 .world = 4,
                                 .step = 1,
                                 .can_capture = true,
                                 .adapter = adapter_of(RS_PROFILER_NATIVE),
                                 .role = {-1, -1, -1, -1, -1},
                                 .link = link_a};
    (void)snprintf(seen.run, sizeof seen.run, "r");
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i0");
    (void)snprintf(seen.capture, sizeof seen.capture, "%s", capture);
    assert_ok(rs_coord_see(coord, &seen, now));
}

/* All of the first capture is stored, but the collector parses or packs its result yet, and would refuse the next one. */
static void what_waits_begins_when_the_collector_has_packed_the_last_one(void **state)
{
    (void)state;
    for (int says_otherwise = 0; says_otherwise < 2; says_otherwise++) {
        struct rs_coord *coord = new_coord();
        ids = 0;
        see(coord, "r", 0, link_a, 1, 0);
        (void)start(coord, "0");
        const struct asked waits = ask(coord, "ranks=0");
        arm(coord, 0, 1, 0, "");
        see_holding(coord, "c1", second);
        end(coord, 0, false);
        for (int s = 3; s < 100; s++) {
            see_holding(coord, "c1", s * second);
            (void)rs_coord_tick(coord, s * second);
            assert_int_equal(waits.capture->state, RS_CAPTURE_QUEUED);
            assert_string_equal(waits.capture->reason,
                                "waits until the collector of rank 0 has packed capture c1");
        }
        for (int s = 100; waits.capture->state == RS_CAPTURE_QUEUED; s++) {
            assert_true(s < (says_otherwise ? 102 : 130)); /* and not for ever */
            see_holding(coord, says_otherwise ? "" : "c1", s * second);
            (void)rs_coord_tick(coord, s * second);
        }
        assert_int_equal(waits.capture->state, RS_CAPTURE_ARMING);
        assert_string_equal(waits.capture->reason, "");
        rs_coord_free(&coord);
    }
}

static void who_refuses_to_wait_is_refused_and_the_free_ranks_record(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    (void)start(coord, "0");
    assert_status(ask(coord, "ranks=0;on_busy=refuse").status, RS_REFUSED);
    const struct asked both = ask(coord, "ranks=0-1;on_busy=refuse");
    assert_status(both.status, RS_PARTIAL);
    assert_int_equal(both.capture->state, RS_CAPTURE_ARMING);
    assert_int_equal(both.capture->ranks[0].state, RS_PROGRESS_REFUSED);
    assert_non_null(strstr(said, "prepare B 1; "));
    rs_coord_free(&coord);
}

static void the_last_edit_of_a_file_runs_next(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    (void)start(coord, "0");
    const char *file = "/jobs/profiler_config.json";
    struct asked first = ask_from(coord, "origin=config_file", file, 0);
    assert_int_equal(first.capture->state, RS_CAPTURE_QUEUED);
    assert_status(ask_from(coord, "origin=config_file", "/other.json", 0).status, RS_REFUSED);
    struct asked newer = ask_from(coord, "origin=config_file;schedule.active=9", file, 0);
    assert_int_equal(newer.capture->state, RS_CAPTURE_QUEUED);
    assert_int_equal(first.capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(first.capture->reason, "a later edit of /jobs/profiler_config.json is "
                                                  "capture c"));
    /* an edit that asks for nothing takes back what waits */
    const struct asked nobody =
        ask_from(coord, "origin=config_file;start_step=-1;is_rank=true", "/other.json", 0);
    assert_status(nobody.status, RS_REFUSED);
    assert_int_equal(newer.capture->state, RS_CAPTURE_QUEUED); /* of another file */
    const struct asked none = ask_from(coord, "origin=config_file;start_step=0", file, 0);
    assert_status(none.status, RS_REFUSED);
    assert_null(none.capture);
    assert_int_equal(newer.capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(newer.capture->reason, "asks for nothing"));
    rs_coord_free(&coord);
}

static void what_waits_can_be_stopped(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    (void)start(coord, "0");
    const struct asked waits = ask(coord, "ranks=0");
    assert_ok(rs_coord_stop(coord, waits.capture->id, second, NULL));
    assert_int_equal(waits.capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(waits.capture->reason, "stopped by request before it began"));
    assert_null(strstr(said, "cancel"));
    /* the slot is free again */
    assert_ok(ask(coord, "ranks=0").status);
    rs_coord_free(&coord);
}

static void who_ends_while_it_waits_is_named_and_the_others_record(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    (void)start(coord, "0");
    const struct asked waits = ask(coord, "ranks=0-1");
    rs_coord_link_gone(coord, link_b, true, second);
    arm(coord, 0, 1, 0, "");
    end(coord, 0, false);
    (void)rs_coord_tick(coord, 3 * second); /* it may come back */
    assert_int_equal(waits.capture->state, RS_CAPTURE_QUEUED);
    see(coord, "r", 0, link_a, 1, 0);
    (void)rs_coord_tick(coord, 16 * second);
    assert_int_equal(waits.capture->state, RS_CAPTURE_ARMING);
    assert_int_equal(waits.capture->ranks[1].state, RS_PROGRESS_LOST);
    assert_string_equal(waits.capture->ranks[1].text, "it ended while the capture waited");
    rs_coord_free(&coord);
}

static void what_waited_over_a_restart_begins_when_its_ranks_are_back(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord *after = NULL;
    const struct rs_coord_options options = {.ops = &ops};
    see(coord, "r", 0, link_a, 1, 0);
    (void)start(coord, "0");
    const struct asked waits = ask(coord, "ranks=0");
    assert_ok(rs_coord_new(&options, &after, NULL));
    assert_ok(rs_coord_load(after, waits.capture, 0, NULL));
    struct rs_coord_capture *loaded = rs_coord_find(after, waits.capture->id);
    rs_coord_free(&coord);
    said[0] = '\0';
    (void)rs_coord_tick(after, second);
    assert_int_equal(loaded->state, RS_CAPTURE_QUEUED);
    see(after, "r", 0, link_a, 1, 0);
    (void)rs_coord_tick(after, 2 * second);
    assert_int_equal(loaded->state, RS_CAPTURE_ARMING);
    assert_string_equal(said, "prepare A 0; ");
    rs_coord_free(&after);
}

static void what_waited_over_a_restart_and_is_not_known_is_reported_as_lost(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_rank rank = {.rank = 3};
    struct rs_coord_capture row = {
        .id = "c9", .run = "r", .state = RS_CAPTURE_QUEUED, .ranks = &rank, .rank_count = 1};
    assert_ok(rs_coord_load(coord, &row, 0, NULL));
    (void)rs_coord_tick(coord, second);
    const struct rs_coord_capture *capture = rs_coord_find(coord, "c9");
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(capture->reason, "was lost when the aggregator was started again"));
    rs_coord_free(&coord);
}

static void a_capture_stopped_before_all_answered_is_not_begun(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    struct rs_coord_capture *capture = start(coord, "0-1");
    arm(coord, 0, 1, 0, "");
    assert_ok(rs_coord_stop(coord, "c1", second, NULL));
    assert_null(strstr(said, "commit"));
    assert_non_null(strstr(said, "cancel A; cancel B; "));
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_int_equal(capture->counts[RS_PROGRESS_LOST], 2);
    assert_string_equal(capture->ranks[0].text, "stopped by request");
    rs_coord_free(&coord);
}

/* Rank 0 as process "j0", started after "i0" ended. */
static void see_again(struct rs_coord *coord)
{
    struct rs_coord_seen seen = {
        .world = 4, .step = 1, .state = RS_RANK_GONE, .role = {-1, -1, -1, -1, -1}, .link = link_a};
    (void)snprintf(seen.run, sizeof seen.run, "r");
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i0");
    assert_ok(rs_coord_see(coord, &seen, 0));
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "j0");
    seen.state = RS_RANK_IDLE;
    seen.can_capture = true;
    assert_ok(rs_coord_see(coord, &seen, 0));
}

static void a_process_started_again_while_its_capture_waited_is_seen_and_busy(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    (void)start(coord, "0");
    const struct asked waits = ask(coord, "ranks=0");
    arm(coord, 0, 1, 0, "");
    see_again(coord);
    end(coord, 0, false);
    (void)rs_coord_tick(coord, 3 * second);
    assert_int_equal(waits.capture->state, RS_CAPTURE_ARMING);
    assert_int_equal(waits.capture->rank_count, 2);
    assert_int_equal(waits.capture->ranks[0].state, RS_PROGRESS_LOST);
    assert_int_equal(waits.capture->ranks[1].state, RS_PROGRESS_WAITING);
    assert_status(ask(coord, "ranks=0;on_busy=refuse").status, RS_REFUSED);
    /* what waits behind it must not begin beside it */
    const struct asked next = ask(coord, "ranks=0");
    (void)rs_coord_tick(coord, 4 * second);
    assert_int_equal(next.capture->state, RS_CAPTURE_QUEUED);
    const struct rs_coord_report reported = {.state = RS_PROGRESS_LOST,
                                             .text = "it \033[2J fell\nover"};
    rs_coord_progress(coord, waits.capture->id, &reported, 4 * second);
    assert_int_equal(waits.capture->state, RS_CAPTURE_FAILED);
    assert_string_equal(waits.capture->ranks[1].text, "it ?[2J fell?over");
    rs_coord_free(&coord);
}

static void what_was_asked_over_a_restart_is_called_back_and_reported(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord *after = NULL;
    const struct rs_coord_options options = {.ops = &ops};
    see(coord, "r", 0, link_a, 1, 0);
    const struct asked asked = ask(coord, "ranks=0;start_step=500");
    assert_int_equal(asked.capture->state, RS_CAPTURE_ARMING);
    assert_ok(rs_coord_new(&options, &after, NULL));
    assert_ok(rs_coord_load(after, asked.capture, 0, NULL));
    struct rs_coord_capture *loaded = rs_coord_find(after, "c1");
    rs_coord_free(&coord);
    said[0] = '\0';
    (void)rs_coord_tick(after, second); /* its collector is not back yet */
    assert_int_equal(loaded->state, RS_CAPTURE_ARMING);
    see(after, "r", 0, link_a, 1, 0);
    (void)rs_coord_tick(after, 2 * second);
    assert_memory_equal(said, "cancel A; ", 10);
    assert_non_null(strstr(said, "close; "));
    assert_null(strstr(said, "commit"));
    assert_int_equal(loaded->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(loaded->reason, "the aggregator was started again before it began"));
    rs_coord_free(&after);
}

static void a_step_that_is_never_found_out_does_not_hold_a_capture_for_ever(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "0");
    const struct rs_coord_report reported = {.state = RS_PROGRESS_WAITING,
                                             .text = "it is found out"};
    for (int at = 1; at < 400 && capture->state == RS_CAPTURE_ARMING; at++) {
        rs_coord_progress(coord, "c1", &reported, at * second);
        (void)rs_coord_tick(coord, at * second);
        assert_true(at >= 200 || capture->state == RS_CAPTURE_ARMING);
    }
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_string_equal(capture->ranks[0].text, "it did not answer in time: it is found out");
    rs_coord_free(&coord);
}

/* Nothing overflows (the sanitizers look), and the plan is one. */
static void numbers_beyond_reason_are_brought_to_reason(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_seen seen = {.rank = RS_RANK_MAX + 1u, .can_capture = true, .link = link_a};
    (void)snprintf(seen.run, sizeof seen.run, "r");
    assert_status(rs_coord_see(coord, &seen, 0), RS_INVALID);
    see(coord, "r", 0, link_a, INT64_MAX, INT64_MAX);
    see(coord, "r", 1, link_b, 7, INT64_MIN);
    struct rs_coord_capture *capture = start(coord, "0-1");
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct rs_coord_armed armed = {.rank = rank,
                                             .incarnation = rank ? "i1" : "i0",
                                             .step = rank ? 7 : INT64_MAX,
                                             .step_duration_ns = rank ? INT64_MIN : INT64_MAX,
                                             .refused = "",
                                             .next_poll_ns = rank ? INT64_MIN : INT64_MAX,
                                             .poll_period_ns = INT64_MAX,
                                             .lead_ns = INT64_MAX};
        rs_coord_armed(coord, "c1", &armed, second);
    }
    assert_int_equal(capture->state, RS_CAPTURE_RECORDING);
    assert_true(capture->start_step > 7 && capture->start_step < 200000);
    const struct rs_coord_report reported = {.state = RS_PROGRESS_RECORDING,
                                             .text = "",
                                             .window_start_ns = INT64_MIN,
                                             .window_end_ns = INT64_MAX};
    rs_coord_progress(coord, "c1", &reported, 2 * second);
    (void)rs_coord_tick(coord, 3 * second);
    assert_int_equal(capture->ranks[0].window_start_ns, 0);
    rs_coord_free(&coord);
}

/* ---- kinds ------------------------------------------------------------------------------------------------- */

static void see_kind(struct rs_coord *coord, uint32_t rank, enum rs_profiler profiler, int64_t step)
{
    struct rs_coord_seen seen = {.rank = rank,
                                 .world = 4,
                                 .step = step,
                                 .adapter = adapter_of(profiler),
                                 .can_capture = true,
                                 .role = {-1, -1, -1, -1, -1},
                                 .link = link_a};
    (void)snprintf(seen.run, sizeof seen.run, "r");
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i%u", rank);
    assert_ok(rs_coord_see(coord, &seen, 0));
}

static void arm_poller(struct rs_coord *coord, uint32_t rank, int64_t step, rs_dur duration,
                       rs_dur period)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    const struct rs_coord_armed armed = {.rank = rank,
                                         .incarnation = incarnation,
                                         .step = step,
                                         .step_duration_ns = duration,
                                         .refused = "",
                                         .poll_period_ns = period,
                                         .lead_ns = second / 2};
    rs_coord_armed(coord, "c1", &armed, second);
}

/* At most 8 s for slow answers; who looks at a file every 10 s needs longer, and has it. */
static void slow_answers_take_nothing_from_a_longer_lead(void **state)
{
    (void)state;
    const struct rs_coord_options options = {.ops = &ops, .heartbeat_ns = second / 2};
    struct rs_coord *coord = new_coord_with(&options);
    see_kind(coord, 0, RS_PROFILER_ASCEND, 10);
    const struct rs_coord_capture *capture = ask_from(coord, "ranks=all", NULL, second).capture;
    const struct rs_coord_armed armed = {.rank = 0,
                                         .incarnation = "i0",
                                         .step = 10,
                                         .step_duration_ns = 50 * ms,
                                         .refused = "",
                                         .poll_period_ns = 10 * second};
    rs_coord_armed(coord, capture->id, &armed, 3 * second);
    assert_int_equal(capture->start_step, 10 + 2 + 10500 / 50);
    rs_coord_free(&coord);
}

static rs_ns at_1000_s(void)
{
    return 1000 * second;
}

/* By the clock: when ranks of a node begin whose last heartbeat came so late. */
static rs_ns start_after(rs_dur late)
{
    const struct rs_coord_options options = {
        .ops = &ops, .heartbeat_ns = second / 2, .realtime = at_1000_s};
    struct rs_coord *coord = new_coord_with(&options);
    rs_coord_see_link(coord, link_a, 0, -30 * second); /* it is not new */
    rs_coord_see_link(coord, link_a, 0, ms);
    rs_coord_see_link(coord, link_a, 0, ms + second / 2 + late);
    see_kind(coord, 0, RS_PROFILER_KINETO, -1);
    const struct asked asked = ask_from(coord, "duration_ms=700", NULL, second);
    arm_poller(coord, 0, -1, 0, second);
    const rs_ns start = asked.capture->start_time_ns;
    rs_coord_free(&coord);
    return start;
}

static void late_heartbeats_make_a_start_by_the_clock_later(void **state)
{
    (void)state;
    assert_int_equal(start_after(400 * ms) - start_after(0), 1600 * ms);
}

static void all_kinds_that_count_begin_at_one_step(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see_kind(coord, 0, RS_PROFILER_NATIVE, 100);
    see_kind(coord, 1, RS_PROFILER_ASCEND, 101);
    see_kind(coord, 2, RS_PROFILER_MINDSPORE, 100);
    see_kind(coord, 3, RS_PROFILER_ASCEND, -1);
    const struct asked asked = ask(coord, "schedule.warmup=2");
    assert_non_null(asked.capture);
    assert_string_equal(said, "prepare A 0; prepare A 1 3; prepare A 2; ");
    arm(coord, 0, 100, 100 * RS_NS_PER_MS, "");
    arm_poller(coord, 1, 101, 100 * RS_NS_PER_MS, 2 * second);
    arm_poller(coord, 2, 100, 100 * RS_NS_PER_MS, second);
    arm_poller(coord, 3, -1, 0, second);
    assert_int_equal(asked.capture->state, RS_CAPTURE_RECORDING);
    /* 0.5 s to be reported, 2 s until the slowest looks, 0.5 s from there: 30 steps; and two */
    assert_int_equal(asked.capture->start_step, 101 + 2 + 30);
    assert_int_equal(start_of(asked.capture, RS_PROFILER_ASCEND), 133);
    /* whoever has no warm-up begins when the others' is over */
    assert_int_equal(start_of(asked.capture, RS_PROFILER_NATIVE), 135);
    assert_int_equal(start_of(asked.capture, RS_PROFILER_MINDSPORE), 135);
    assert_int_equal(start_of(asked.capture, RS_PROFILER_KINETO), -1);
    char source[RS_COORD_SOURCE_BYTES];
    rs_coord_source(asked.capture, source);
    assert_string_equal(source, "native+ascend+mindspore");
    rs_coord_free(&coord);
}

static void a_poller_whose_step_nobody_knows_is_refused_unless_one_is_named(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see_kind(coord, 0, RS_PROFILER_ASCEND, -1);
    struct asked asked = ask(coord, "");
    arm_poller(coord, 0, -1, 0, second);
    assert_int_equal(asked.capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(asked.capture->ranks[0].text, "give --start-step N"));
    rs_coord_free(&coord);
    coord = new_coord();
    see_kind(coord, 0, RS_PROFILER_ASCEND, -1);
    asked = ask(coord, "start_step=500");
    arm_poller(coord, 0, -1, 0, second);
    assert_int_equal(asked.capture->state, RS_CAPTURE_RECORDING);
    assert_int_equal(asked.capture->start_step, 500);
    rs_coord_free(&coord);
}

/* What a collector of a later version announces: planned for by what it can do. */
static void an_adapter_that_is_not_ours_takes_part(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_seen seen = {.rank = 1,
                                 .world = 2,
                                 .step = 90,
                                 .can_capture = true,
                                 .adapter = {.number = 17,
                                             .name = "replay",
                                             .title = "a replayed trace",
                                             .capabilities = RS_CAP_KNOWS_STEP | RS_CAP_PUSH},
                                 .role = {-1, -1, -1, -1, -1},
                                 .link = link_b,
                                 .run = "r",
                                 .incarnation = "i1"};
    see_kind(coord, 0, RS_PROFILER_NATIVE, 100);
    assert_ok(rs_coord_see(coord, &seen, 0));
    const struct asked asked = ask(coord, "");
    assert_non_null(asked.capture);
    assert_string_equal(said, "prepare A 0; prepare B 1; ");
    arm(coord, 0, 100, 100 * RS_NS_PER_MS, "");
    arm(coord, 1, 90, 100 * RS_NS_PER_MS, "");
    assert_int_equal(asked.capture->state, RS_CAPTURE_RECORDING);
    assert_int_equal(rs_coord_start_step(asked.capture, &seen.adapter), asked.capture->start_step);
    char source[RS_COORD_SOURCE_BYTES];
    rs_coord_source(asked.capture, source);
    assert_string_equal(source, "native+replay");
    rs_coord_free(&coord);
}

/* Its collector was killed when the steps of the ring were told and no event was written down. */
static void who_recorded_and_has_nothing_here_is_lost(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    for (uint32_t rank = 0; rank < 3; rank++)
        see(coord, "r", rank, link_a, 1, 0);
    struct rs_coord_capture *capture = start(coord, "all");
    for (uint32_t rank = 0; rank < 3; rank++)
        arm(coord, rank, 1, 0, "");
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct rs_coord_report reported = {.rank = rank,
                                                 .steps_done = 1,
                                                 .state = RS_PROGRESS_RECORDING,
                                                 .text =
                                                     rank ? "the collector was started again" : ""};
        rs_coord_progress(coord, "c1", &reported, 2 * second);
    }
    rs_coord_ended_empty(coord, "c1", 0, "i0", 2 * second);
    rs_coord_ended_empty(coord, "c1", 1, "i1", 2 * second);
    assert_int_equal(capture->ranks[0].state, RS_PROGRESS_LOST);
    assert_string_equal(capture->ranks[0].text, "nothing of what it recorded is here");
    assert_string_equal(capture->ranks[1].text,
                        "nothing of what it recorded is here: the collector was started again");
    end(coord, 2, false);
    assert_int_equal(capture->state, RS_CAPTURE_PARTIAL);
    assert_string_equal(capture->reason, "lost: rank 0, 1");
    rs_coord_ended_empty(coord, "c1", 2, "i2", 3 * second); /* what is done stays done */
    rs_coord_ended_empty(coord, "c9", 2, "i2", 3 * second);
    assert_int_equal(capture->ranks[2].state, RS_PROGRESS_DONE);
    rs_coord_free(&coord);
}

/* A collector whose link broke is at another aggregator by now: it hears of a stop over the one that brings its data. */
static void who_brings_data_from_elsewhere_hears_of_a_stop(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    const struct asked asked = ask(coord, "");
    arm(coord, 0, 1, 0, "");
    assert_ok(rs_coord_stop(coord, "c1", 2 * second, NULL));
    assert_non_null(strstr(said, "cancel A"));
    assert_non_null(strstr(said, "cancel elsewhere c1: stopped by request; "));
    assert_true(asked.capture->is_stopped);
    rs_coord_free(&coord);
}

/* Everything is durable, and it is less than was asked for. */
static void fewer_steps_than_asked_are_not_complete(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see_kind(coord, 0, RS_PROFILER_ASCEND, 10);
    see_kind(coord, 1, RS_PROFILER_ASCEND, 10);
    const struct asked asked = ask(coord, "start_step=500;schedule.active=5");
    arm_poller(coord, 0, 10, 0, second);
    arm_poller(coord, 1, 10, 0, second);
    assert_int_equal(asked.capture->state, RS_CAPTURE_RECORDING);
    const struct rs_coord_report whole = {
        .rank = 0, .steps_done = 5, .state = RS_PROGRESS_SENDING, .text = ""};
    const struct rs_coord_report cut = {
        .rank = 1, .steps_done = 3, .state = RS_PROGRESS_SENDING, .text = ""};
    rs_coord_progress(coord, "c1", &whole, 2 * second);
    rs_coord_progress(coord, "c1", &cut, 2 * second);
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(asked.capture->ranks[0].state, RS_PROGRESS_DONE);
    assert_int_equal(asked.capture->ranks[1].state, RS_PROGRESS_PARTIAL);
    assert_string_equal(asked.capture->ranks[1].text, "it recorded 3 of 5 steps");
    assert_int_equal(asked.capture->state, RS_CAPTURE_PARTIAL);
    rs_coord_free(&coord);
}

static void a_duration_and_its_start_become_steps(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    char words[128];
    see(coord, "r", 0, link_a, 10, 100 * RS_NS_PER_MS);
    const rs_ns from = rs_time_realtime() + 100 * second;
    (void)snprintf(words, sizeof words,
                   "start_step=0;start_time_ns=%lld;duration_ms=700;timeout_ms=60000",
                   (long long)from);
    const struct asked asked = ask(coord, words);
    assert_ok(asked.status);
    assert_int_equal(asked.capture->profile.timeout_ns, 60 * second);
    arm(coord, 0, 11, 100 * RS_NS_PER_MS, "");
    assert_int_equal(asked.capture->counted_steps, 7);
    assert_true(asked.capture->start_step > 11 + 900); /* a thousand steps are 100 s */
    rs_coord_free(&coord);
}

static void what_a_step_came_to_is_held_against_the_space_that_is_left(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_seen seen = {.rank = 0,
                                 .world = 1,
                                 .step = 10,
                                 .can_capture = true,
                                 .free_disk_bytes = 10000,
                                 .adapter = adapter_of(RS_PROFILER_NATIVE),
                                 .role = {-1, -1, -1, -1, -1},
                                 .link = link_a};
    (void)snprintf(seen.run, sizeof seen.run, "r");
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i0");
    assert_ok(rs_coord_see(coord, &seen, 0));
    const struct asked first = ask(coord, "schedule.active=5"); /* nothing is known yet */
    assert_int_equal(first.decision_count[RS_DECISION_ACCEPTED], 1);
    arm(coord, 0, 11, 0, "");
    const struct rs_coord_report whole = {
        .rank = 0, .steps_done = 5, .state = RS_PROGRESS_SENDING, .text = ""};
    rs_coord_progress(coord, "c1", &whole, second);
    const struct rs_coord_amount amount = {.chunks = 3, .bytes = 5000};
    rs_coord_stored(coord, "c1", 0, "i0", &amount, second);
    end(coord, 0, false);
    rs_coord_closed(coord, "c1");
    assert_ok(rs_coord_see(coord, &seen, 3 * second));
    assert_status(ask(coord, "schedule.active=6").status, RS_REFUSED); /* twice 6,000 bytes */
    assert_ok(ask(coord, "schedule.active=2").status);
    rs_coord_free(&coord);
}

/* What its collector says of a rank's host counts in the answer. */
static void memory_and_libc_are_held_against_a_request(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_seen seen = {.rank = 0,
                                 .world = 1,
                                 .step = 10,
                                 .can_capture = true,
                                 .free_memory_bytes = 15000,
                                 .glibc = 2 << 16 | 31,
                                 .adapter = adapter_of(RS_PROFILER_KINETO),
                                 .role = {-1, -1, -1, -1, -1},
                                 .link = link_a};
    struct rs_capture_request request;
    struct rs_request_answer answer = {0};
    struct rs_coord_capture *capture = NULL;
    (void)snprintf(seen.run, sizeof seen.run, "r");
    (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i0");
    assert_ok(rs_coord_see(coord, &seen, 0));
    assert_ok(ask(coord, "schedule.active=5").status);
    arm(coord, 0, -1, 0, "");
    const struct rs_coord_report whole = {
        .rank = 0, .steps_done = 5, .state = RS_PROGRESS_SENDING, .text = ""};
    rs_coord_progress(coord, "c1", &whole, second);
    const struct rs_coord_amount amount = {.chunks = 3, .bytes = 5000};
    rs_coord_stored(coord, "c1", 0, "i0", &amount, second);
    end(coord, 0, false);
    rs_coord_closed(coord, "c1");
    make_request(&request, "profile_memory=true");
    const struct rs_coord_ask asked = {.request = &request};
    assert_ok(rs_coord_start(coord, &asked, 3 * second, &answer, &capture, NULL));
    bool has_memory = false, has_libc = false;
    for (size_t i = 0; i < answer.ranks[0].notes.count; i++) {
        has_memory |= answer.ranks[0].notes.items[i].rule == RS_RULE_HEADROOM_MEMORY;
        has_libc |= answer.ranks[0].notes.items[i].rule == RS_RULE_GLIBC;
    }
    assert_true(has_memory && has_libc);
    rs_request_answer_fini(&answer);
    rs_request_fini(&request);
    rs_coord_free(&coord);
}

static void mindspore_records_all_of_a_job_or_nothing(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see_kind(coord, 0, RS_PROFILER_MINDSPORE, 10);
    see_kind(coord, 1, RS_PROFILER_MINDSPORE, 10);
    assert_status(ask(coord, "ranks=1").status, RS_REFUSED);
    assert_ok(ask(coord, "ranks=all;start_step=100").status);
    arm_poller(coord, 0, 10, 0, second);
    arm_poller(coord, 1, 10, 0, second);
    end(coord, 0, false);
    end(coord, 1, false);
    rs_coord_closed(coord, "c1");
    /* its monitor does not take the same pair twice */
    assert_status(ask(coord, "ranks=all;start_step=100").status, RS_REFUSED);
    assert_ok(ask(coord, "ranks=all;start_step=101").status);
    rs_coord_free(&coord);
}

static void a_capture_that_goes_on_for_too_long_is_ended(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    const struct asked asked = ask(coord, "max_duration_s=30");
    arm(coord, 0, 1, 0, "");
    struct rs_coord_report reported = {.rank = 0, .state = RS_PROGRESS_RECORDING, .text = ""};
    rs_coord_progress(coord, "c1", &reported, 2 * second);
    for (rs_ns now = 3; now < 32; now++) {
        reported.steps_done++;
        rs_coord_progress(coord, "c1", &reported, now * second);
        (void)rs_coord_tick(coord, now * second);
    }
    assert_null(strstr(said, "cancel"));
    (void)rs_coord_tick(coord, 32 * second);
    assert_non_null(strstr(said, "cancel A"));
    end(coord, 0, true);
    assert_int_equal(asked.capture->state, RS_CAPTURE_PARTIAL);
    assert_non_null(strstr(asked.capture->reason, "stopped after 30 s"));
    rs_coord_free(&coord);
}

/* max_duration_s is of recording: not of a partition, behind which all steps are, nor of sending what was recorded. */
static void who_is_out_of_reach_does_not_record_for_too_long(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_a, 1, 0);
    see(coord, "r", 1, link_b, 1, 0);
    const struct asked asked = ask(coord, "max_duration_s=30");
    arm(coord, 0, 1, 0, "");
    arm(coord, 1, 1, 0, "");
    report(coord, 0, RS_PROGRESS_RECORDING, "", 2 * second);
    report(coord, 1, RS_PROGRESS_RECORDING, "", 2 * second);
    report(coord, 0, RS_PROGRESS_SENDING, "", 4 * second);
    rs_coord_link_gone(coord, link_b, true, 20 * second);
    (void)rs_coord_tick(coord, 40 * second);
    (void)rs_coord_tick(coord, 90 * second);
    assert_null(strstr(said, "cancel"));
    come_back(coord, 1, 100 * second);
    (void)rs_coord_tick(coord, 100 * second);
    assert_null(strstr(said, "cancel"));
    report(coord, 1, RS_PROGRESS_SENDING, "", 101 * second);
    (void)rs_coord_tick(coord, 130 * second);
    assert_null(strstr(said, "cancel"));
    end(coord, 0, false);
    end(coord, 1, false);
    assert_int_equal(asked.capture->state, RS_CAPTURE_COMPLETE);
    assert_string_equal(asked.capture->reason, "");
    rs_coord_free(&coord);
}

static void a_link_that_comes_and_goes_does_not_record_without_end(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    see(coord, "r", 0, link_b, 1, 0);
    const struct asked asked = ask(coord, "max_duration_s=30");
    arm(coord, 0, 1, 0, "");
    report(coord, 0, RS_PROGRESS_RECORDING, "", 2 * second);
    const rs_ns before = 32 * second + 20 * 60 * second; /* an absence may be as long */
    rs_ns now = 20 * second;
    for (; now < before; now += 3 * second) {
        rs_coord_link_gone(coord, link_b, true, now);
        (void)rs_coord_tick(coord, now);
        come_back(coord, 0, now + second);
        (void)rs_coord_tick(coord, now + 2 * second);
    }
    assert_null(strstr(said, "cancel"));
    for (; now < before + 15 * second; now += 3 * second) {
        rs_coord_link_gone(coord, link_b, true, now);
        (void)rs_coord_tick(coord, now);
        come_back(coord, 0, now + second);
        (void)rs_coord_tick(coord, now + 2 * second);
    }
    assert_non_null(strstr(said, "cancel B"));
    end(coord, 0, true);
    assert_int_equal(asked.capture->state, RS_CAPTURE_PARTIAL);
    assert_non_null(strstr(asked.capture->reason, "stopped after 30 s"));
    rs_coord_free(&coord);
}

/* CPU time of this thread for that many ranks that are seen, asked, armed and ended. */
static rs_dur cpu_of_ranks(uint32_t count)
{
    enum { NODES = 1000 };
    static char links[NODES];
    char incarnation[16];
    struct timespec begin, end_at;
    struct rs_coord *coord = new_coord();
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin), 0);
    for (uint32_t rank = 0; rank < count; rank++) {
        struct rs_coord_seen seen = {.rank = rank,
                                     .world = count,
                                     .step = 5,
                                     .can_capture = true,
                                     .role = {-1, -1, -1, -1, -1},
                                     .link = &links[rank % NODES]};
        (void)snprintf(seen.run, sizeof seen.run, "r");
        (void)snprintf(seen.incarnation, sizeof seen.incarnation, "i%u", rank);
        assert_ok(rs_coord_see(coord, &seen, 0));
    }
    is_mute = true;
    const struct asked asked = ask(coord, "ranks=all");
    assert_ok(asked.status);
    for (uint32_t rank = count; rank-- > 0;) {
        (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
        const struct rs_coord_armed armed = {
            .rank = rank, .incarnation = incarnation, .step = 5, .refused = ""};
        rs_coord_armed(coord, "c1", &armed, second);
    }
    assert_int_equal(asked.capture->state, RS_CAPTURE_RECORDING);
    for (uint32_t rank = 0; rank < count; rank++)
        end(coord, rank, false);
    is_mute = false;
    assert_int_equal(asked.capture->state, RS_CAPTURE_COMPLETE);
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end_at), 0);
    rs_coord_free(&coord);
    return (end_at.tv_sec - begin.tv_sec) * second + (end_at.tv_nsec - begin.tv_nsec);
}

/* Five times as many ranks cost about five times as much, where a loop over all ranks for each would make it 25 times. The least of three, since
 * other programs are on the machine. */
static void a_thousand_ranks_are_no_matter_of_their_square(void **state)
{
    (void)state;
    rs_dur few = INT64_MAX, many = INT64_MAX;
    for (size_t i = 0; i < 3; i++) {
        const rs_dur of_few = cpu_of_ranks(4000), of_many = cpu_of_ranks(20000);
        few = of_few < few ? of_few : few;
        many = of_many < many ? of_many : many;
    }
    print_message("4000 ranks cost %" PRId64 " us, 20000 ranks %" PRId64 " us\n", few / 1000,
                  many / 1000);
    assert_true(many < 12 * few);
}

static struct rs_coord_capture *open_file(struct rs_coord *coord, const char *key, uint32_t rank,
                                          uint32_t world, rs_ns now)
{
    char incarnation[16];
    (void)snprintf(incarnation, sizeof incarnation, "i%u", rank);
    const struct rs_coord_stream stream = {.run = "r",
                                           .incarnation = incarnation,
                                           .host = "h",
                                           .rank = rank,
                                           .world = world,
                                           .capture = "",
                                           .key = key,
                                           .settle_ns = 5 * second};
    struct rs_coord_capture *capture = NULL;
    assert_ok(rs_coord_stream_opened(coord, &stream, now, &capture, NULL));
    return capture;
}

static void files_of_one_key_are_one_capture_closed_when_the_world_is_there(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = open_file(coord, "k", 0, 2, 0);
    assert_ptr_equal(open_file(coord, "k", 1, 2, 0), capture);
    assert_ptr_not_equal(open_file(coord, "other", 1, 2, 0), capture);
    end(coord, 0, false);
    assert_int_equal(capture->state, RS_CAPTURE_COLLECTING);
    end(coord, 1, false);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

static void files_without_a_world_are_closed_when_nothing_came(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = open_file(coord, "k", 0, 0, 0);
    end(coord, 0, false); /* at 2 s */
    (void)rs_coord_tick(coord, 6 * second);
    assert_int_equal(capture->state, RS_CAPTURE_COLLECTING);
    (void)rs_coord_tick(coord, 7 * second);
    assert_int_equal(capture->state, RS_CAPTURE_COMPLETE);
    rs_coord_free(&coord);
}

static void a_stream_under_way_keeps_its_capture_open_longer(void **state)
{
    (void)state;
    struct rs_coord *coord = new_coord();
    struct rs_coord_capture *capture = open_file(coord, "k", 0, 2, 0);
    (void)rs_coord_tick(coord, 30 * second);
    assert_int_equal(capture->state, RS_CAPTURE_COLLECTING);
    (void)rs_coord_tick(coord, 61 * second);
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    assert_non_null(strstr(capture->reason, "1 of 2 ranks came"));
    rs_coord_free(&coord);
}

/* What is logged while `act` runs. */
static void logged(void (*act)(void), char *text, size_t bytes)
{
    FILE *file = tmpfile();
    const int before = dup(STDERR_FILENO);
    const enum rs_log_level level = rs_log_level();
    assert_non_null(file);
    assert_true(before >= 0);
    (void)fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    rs_log_set_level(RS_LOG_INFO);
    act();
    rs_log_set_level(level);
    (void)fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    (void)fclose(file);
}

static void eight_refuse(void)
{
    struct rs_coord *coord = new_coord();
    for (uint32_t rank = 0; rank < 8; rank++)
        see(coord, "r", rank, link_a, 10, 100 * RS_NS_PER_MS);
    const struct rs_coord_capture *capture = start(coord, "all");
    for (uint32_t rank = 0; rank < 7; rank++)
        arm(coord, rank, 11, 100 * RS_NS_PER_MS, "its step is not known");
    arm(coord, 7, 11, 100 * RS_NS_PER_MS, "its disk is full");
    assert_int_equal(capture->state, RS_CAPTURE_FAILED);
    rs_coord_free(&coord);
}

static void ranks_that_refuse_for_one_reason_are_one_line(void **state)
{
    (void)state;
    char text[4096];
    logged(eight_refuse, text, sizeof text);
    assert_non_null(strstr(text, "rank 0 is refused: its step is not known"));
    assert_null(strstr(text, "rank 1 is refused"));
    assert_null(strstr(text, "rank 6 is refused"));
    assert_non_null(strstr(text, "and so are 6 more ranks"));
    assert_non_null(strstr(text, "rank 7 is refused: its disk is full"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_starts_at_one_step_beyond_the_foremost),
        cmocka_unit_test(a_collectors_word_makes_nobody_done),
        cmocka_unit_test(who_does_not_answer_is_lost_and_the_others_record),
        cmocka_unit_test(who_is_out_of_reach_is_waited_for_before_it_begins),
        cmocka_unit_test(who_is_not_named_any_more_is_not_out_of_reach),
        cmocka_unit_test(who_is_out_of_reach_before_it_begins_is_given_up_in_the_end),
        cmocka_unit_test(a_lost_chunk_makes_a_rank_partial),
        cmocka_unit_test(what_is_stored_raw_is_not_called_lost),
        cmocka_unit_test(ranks_of_one_host_have_one_clock),
        cmocka_unit_test(who_recorded_and_has_nothing_here_is_lost),
        cmocka_unit_test(who_brings_data_from_elsewhere_hears_of_a_stop),
        cmocka_unit_test(who_recorded_another_time_is_said_with_the_findings),
        cmocka_unit_test(short_ranks_are_said_with_the_findings),
        cmocka_unit_test(a_capture_of_nothing_says_so),
        cmocka_unit_test(a_rank_whose_collector_is_gone_is_named_after_a_while),
        cmocka_unit_test(a_rank_is_told_from_others_after_some_have_left),
        cmocka_unit_test(what_was_sent_elsewhere_has_to_come_again),
        cmocka_unit_test(what_does_not_come_again_names_who_was_lost),
        cmocka_unit_test(what_was_given_up_is_closed_and_says_to_whom),
        cmocka_unit_test(a_collector_is_idle_when_no_rank_of_it_is_in_a_capture),
        cmocka_unit_test(a_link_closed_in_order_is_not_waited_for),
        cmocka_unit_test(a_partition_is_waited_for),
        cmocka_unit_test(a_collector_that_comes_back_and_knows_nothing_is_named),
        cmocka_unit_test(who_pauses_again_and_again_is_given_up),
        cmocka_unit_test(who_is_silent_for_a_while_has_things_to_send_first),
        cmocka_unit_test(who_comes_back_over_another_link_has_things_to_send_first),
        cmocka_unit_test(a_partition_is_not_waited_for_for_ever),
        cmocka_unit_test(who_stops_a_capture_does_not_wait_for_a_partition),
        cmocka_unit_test(a_start_that_somebody_did_not_hear_of_is_taken_back),
        cmocka_unit_test(who_began_alone_and_was_given_up_is_partial),
        cmocka_unit_test(who_did_not_hear_that_its_start_was_taken_back_is_partial),
        cmocka_unit_test(who_comes_back_soon_is_asked_at_once),
        cmocka_unit_test(a_start_is_not_taken_back_from_who_is_slow_or_has_begun),
        cmocka_unit_test(slow_answers_make_the_lead_longer),
        cmocka_unit_test(quick_answers_make_the_lead_no_shorter_than_a_second),
        cmocka_unit_test(late_heartbeats_make_the_lead_longer),
        cmocka_unit_test(a_process_that_stood_still_gives_everybody_time_anew),
        cmocka_unit_test(all_refusing_is_a_failure),
        cmocka_unit_test(ranks_that_refuse_for_one_reason_are_one_line),
        cmocka_unit_test(unknown_ranks_are_listed_and_the_known_ones_record),
        cmocka_unit_test(two_runs_need_a_name),
        cmocka_unit_test(jobs_that_cannot_be_meant_need_no_name),
        cmocka_unit_test(a_past_start_step_is_refused),
        cmocka_unit_test(a_rank_that_cannot_make_the_start_is_in_the_capture_with_the_reason),
        cmocka_unit_test(a_start_that_passes_while_ranks_are_asked_names_them),
        cmocka_unit_test(a_bad_request_is_refused_with_its_rules),
        cmocka_unit_test(expressions_choose_by_host_role_and_pace),
        cmocka_unit_test(roles_come_from_the_request_and_the_aggregator),
        cmocka_unit_test(a_second_request_waits_for_its_turn),
        cmocka_unit_test(what_waits_begins_when_the_collector_has_packed_the_last_one),
        cmocka_unit_test(who_refuses_to_wait_is_refused_and_the_free_ranks_record),
        cmocka_unit_test(the_last_edit_of_a_file_runs_next),
        cmocka_unit_test(what_waits_can_be_stopped),
        cmocka_unit_test(who_ends_while_it_waits_is_named_and_the_others_record),
        cmocka_unit_test(what_waited_over_a_restart_begins_when_its_ranks_are_back),
        cmocka_unit_test(what_waited_over_a_restart_and_is_not_known_is_reported_as_lost),
        cmocka_unit_test(a_capture_stopped_before_all_answered_is_not_begun),
        cmocka_unit_test(a_process_started_again_while_its_capture_waited_is_seen_and_busy),
        cmocka_unit_test(what_was_asked_over_a_restart_is_called_back_and_reported),
        cmocka_unit_test(a_step_that_is_never_found_out_does_not_hold_a_capture_for_ever),
        cmocka_unit_test(numbers_beyond_reason_are_brought_to_reason),
        cmocka_unit_test(slow_answers_take_nothing_from_a_longer_lead),
        cmocka_unit_test(late_heartbeats_make_a_start_by_the_clock_later),
        cmocka_unit_test(all_kinds_that_count_begin_at_one_step),
        cmocka_unit_test(a_poller_whose_step_nobody_knows_is_refused_unless_one_is_named),
        cmocka_unit_test(an_adapter_that_is_not_ours_takes_part),
        cmocka_unit_test(fewer_steps_than_asked_are_not_complete),
        cmocka_unit_test(a_duration_and_its_start_become_steps),
        cmocka_unit_test(what_a_step_came_to_is_held_against_the_space_that_is_left),
        cmocka_unit_test(memory_and_libc_are_held_against_a_request),
        cmocka_unit_test(mindspore_records_all_of_a_job_or_nothing),
        cmocka_unit_test(a_capture_that_goes_on_for_too_long_is_ended),
        cmocka_unit_test(who_is_out_of_reach_does_not_record_for_too_long),
        cmocka_unit_test(a_link_that_comes_and_goes_does_not_record_without_end),
        cmocka_unit_test(a_thousand_ranks_are_no_matter_of_their_square),
        cmocka_unit_test(files_of_one_key_are_one_capture_closed_when_the_world_is_there),
        cmocka_unit_test(files_without_a_world_are_closed_when_nothing_came),
        cmocka_unit_test(a_stream_under_way_keeps_its_capture_open_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
