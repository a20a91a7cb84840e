/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope capture`: starts one and waits for it, or lists, shows, stops, waits.
 *
 * Progress goes to stderr: how many ranks are in which state, redrawn in place on a terminal, else a line when the
 * capture moves on and at most one a second beside. Ranks are named when there is something to say of them. The
 * report and facts go to stdout, as soon as every rank's summary is joined: raw data goes on in the background, unless --wait raw
 * says to wait for it, too. Ctrl-C leaves the capture running and says how to come back; with
 * --cancel-on-interrupt it ends it.
 */
#include "cli/capture.h"

#include "cli/cli.h"
#include "cli/present.h"
#include "common/base/mem.h"
#include "common/client/client.h"
#include "common/wire/answer_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WARNINGS_MAX = 64, LINE_MAX_BYTES = 256 };

/* What is remembered of the answers, the newest one whole. */
struct watch {
    const struct capture_words *words;
    Rankscope__CaptureInfo *info;  /* owned */
    char id[64];                   /* of the capture, as soon as it is known */
    enum rs_status status;         /* of the answer to a start */
    struct rs_err err;             /* when that is a failure */
    bool is_start, is_answered;    /* a start's answer is due; it came */
    char shown[LINE_MAX_BYTES];    /* the last progress line */
    uint32_t warned[WARNINGS_MAX]; /* what was told of ranks: digests of rank and text */
    size_t warned_count;
    uint32_t shown_state; /* of the capture */
    rs_ns shown_at;       /* monotonic */
    bool is_terminal;
    bool has_failed;
    bool must_wait_summary; /* not for raw data */
};

static char *lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text ? text : ""};
    return both.out;
}

/* ---- progress -------------------------------------------------------------------------------------------- */

/* Whether it was told before; else remembers it. Very many are not told one by one. */
static bool was_reported(struct watch *watch, const Rankscope__CaptureRank *rank)
{
    uint32_t digest = 2166136261u ^ rank->rank; /* FNV-1a */
    for (const char *at = rank->text; *at; at++)
        digest = (digest ^ (unsigned char)*at) * 16777619u;
    for (size_t i = 0; i < watch->warned_count; i++)
        if (watch->warned[i] == digest)
            return true;
    if (watch->warned_count == WARNINGS_MAX)
        return true;
    watch->warned[watch->warned_count++] = digest;
    return false;
}

/* What should be known of a rank before its end: advice, or that it does not move. */
static void report_warnings(struct watch *watch, const Rankscope__CaptureInfo *info)
{
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        const bool is_due =
            rank->state == RS_PROGRESS_ARMED || rank->state == RS_PROGRESS_RECORDING;
        if (!is_due || !*rank->text || was_reported(watch, rank))
            continue;
        if (watch->is_terminal && *watch->shown) {
            fprintf(stderr, "\r\033[K");
            watch->shown[0] = '\0';
        }
        rs_cli_note("capture", "rank %u on %s: %s", rank->rank, rank->host, rank->text);
    }
}

/* A line that wraps cannot be drawn over. */
static void fit_terminal(char *line)
{
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
        return;
    if (strlen(line) >= size.ws_col)
        (void)snprintf(line + size.ws_col - 4, 4, "...");
}

static void show_progress(struct watch *watch, const Rankscope__CaptureInfo *info)
{
    char line[LINE_MAX_BYTES];
    const rs_ns now = rs_time_monotonic();
    report_warnings(watch, info);
    capture_progress_line(info, line, sizeof line);
    if (watch->is_terminal)
        fit_terminal(line);
    if (watch->words->is_quiet || strcmp(line, watch->shown) == 0)
        return;
    const bool is_news = info->state != watch->shown_state || !*watch->shown;
    if (!watch->is_terminal && !is_news && now < watch->shown_at + RS_NS_PER_S)
        return;
    if (watch->is_terminal)
        fprintf(stderr, "\r\033[K%s", line);
    else
        fprintf(stderr, "%s\n", line);
    watch->shown_state = info->state;
    watch->shown_at = now;
    (void)snprintf(watch->shown, sizeof watch->shown, "%s", line);
}

static void end_progress(struct watch *watch)
{
    if (watch->is_terminal && *watch->shown)
        fprintf(stderr, "\n");
    watch->shown[0] = '\0';
}

/* Keeps a copy: the message is gone when the answer was handled. */
static bool keep_info(struct watch *watch, const Rankscope__CaptureInfo *info)
{
    Rankscope__CaptureInfo *copy = capture_info_copy(info);
    if (watch->info)
        rankscope__capture_info__free_unpacked(watch->info, NULL);
    watch->info = copy;
    watch->has_failed = copy == NULL;
    return copy != NULL;
}

/* What every rank is reported; then its progress. */
static bool on_answer(struct watch *watch, const Rankscope__CaptureAnswer *message)
{
    struct rs_request_answer answer;
    watch->is_answered = true;
    if (rs_answer_from_message(message, &answer, &watch->err) < 0) {
        watch->status = watch->err.status;
        return false;
    }
    if (watch->words->is_dry)
        capture_print_answer(&answer, watch->words->as_json);
    else if (!watch->words->is_quiet)
        capture_report_answer(&answer);
    rs_request_answer_fini(&answer);
    watch->status = (enum rs_status)message->status;
    if (watch->status < 0)
        (void)rs_err_set(&watch->err, watch->status, "%.700s", message->text);
    (void)snprintf(watch->id, sizeof watch->id, "%.63s", message->capture);
    return watch->status >= 0 && *watch->id;
}

static bool on_progress(void *self, const Rankscope__Reply *reply)
{
    struct watch *watch = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_ANSWER)
        return on_answer(watch, reply->answer);
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CAPTURE ||
        !keep_info(watch, reply->capture))
        return false;
    if (watch->is_start && !watch->is_answered) {
        rs_cli_note("capture", "the aggregator is of the previous version: it read ranks, steps, "
                               "duration, start step and the profilers' switches, nothing else");
        watch->is_answered = true;
    }
    (void)snprintf(watch->id, sizeof watch->id, "%.63s", reply->capture->id);
    show_progress(watch, reply->capture);
    /* Raw data that is on its way changes nothing of the findings. */
    return !(watch->must_wait_summary && reply->capture->state == RS_CAPTURE_SUMMARISED);
}

static bool on_info(void *self, const Rankscope__Reply *reply)
{
    struct watch *watch = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        (void)keep_info(watch, reply->capture);
    return false;
}

/* ---- the end of a capture ------------------------------------------------------------------------------- */

/* Whether every rank has recorded; what is summarised may have raw data on its way. */
static int exit_of_ranks(const Rankscope__CaptureInfo *info)
{
    for (size_t i = 0; i < info->n_ranks; i++)
        if (info->ranks[i]->state > RS_PROGRESS_DONE)
            return RS_EXIT_PARTIAL;
    return RS_EXIT_COMPLETE;
}

static int exit_of_info(const Rankscope__CaptureInfo *info)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an answer that was looked at */
    switch ((enum rs_capture_state)info->state) {
    case RS_CAPTURE_COMPLETE:
    case RS_CAPTURE_ARMING:
    case RS_CAPTURE_RECORDING:
    case RS_CAPTURE_COLLECTING:
    case RS_CAPTURE_QUEUED:
        return RS_EXIT_COMPLETE;
    case RS_CAPTURE_SUMMARISED:
        return *info->reason ? RS_EXIT_PARTIAL : exit_of_ranks(info);
    case RS_CAPTURE_PARTIAL:
    case RS_CAPTURE_STOPPED:
    case RS_CAPTURE_FAILED:
    case RS_CAPTURE_STATE_COUNT:
        return RS_EXIT_PARTIAL;
    }
    return RS_EXIT_PARTIAL;
}

/* Said before the report, and not asked to be quiet. */
static void report_background(const struct capture_words *words, const Rankscope__CaptureInfo *info)
{
    size_t count = 0;
    for (size_t i = 0; i < info->n_ranks; i++)
        count += info->ranks[i]->state < RS_PROGRESS_DONE;
    if (info->state == RS_CAPTURE_SUMMARISED && count && !words->is_quiet)
        rs_cli_note("capture",
                    "raw data of %zu rank%s goes on in the background: rankscope capture wait %s",
                    count, count == 1 ? "" : "s", info->id);
}

static int finish(const struct capture_words *words, const Rankscope__CaptureInfo *info)
{
    const int own = exit_of_info(info);
    capture_report_ranks(info);
    report_background(words, info);
    if (info->state == RS_CAPTURE_STOPPED)
        rs_cli_note("capture", "capture %s was stopped%s%s", info->id, *info->reason ? ": " : "",
                    info->reason);
    if ((info->state == RS_CAPTURE_PARTIAL || info->state == RS_CAPTURE_SUMMARISED) &&
        *info->reason) {
        const char *reason = info->reason;
        reason += strncmp(reason, "partial: ", 9) == 0 ? 9 : 0; /* once is enough */
        rs_cli_note("capture", "capture %s is partial: %s", info->id, reason);
    }
    if (info->state == RS_CAPTURE_FAILED) {
        rs_cli_note("capture", "capture %s failed: nothing was recorded%s%s", info->id,
                    *info->reason ? ": " : "", info->reason);
        if (words->as_json)
            capture_print_info(info, true);
        return own;
    }
    if (words->has_no_report) {
        if (words->as_json || !words->is_quiet)
            capture_print_info(info, words->as_json);
        return own;
    }
    const struct rs_report_options options = {.as_json = words->as_json,
                                              .is_quiet = words->is_quiet,
                                              .assume_common_clock = words->assume_common_clock,
                                              .fail_above = words->fail_above};
    struct rs_err err = {0};
    struct rs_address address;
    if (rs_client_address(words->connect, &address, &err) < 0)
        return rs_cli_fail("capture", &err);
    const int code = rs_cli_report_remote("capture", &address, info->id, words->out_dir, &options);
    return code == RS_EXIT_COMPLETE ? own : code;
}

static bool on_nothing(void *self, const Rankscope__Reply *reply)
{
    (void)self;
    (void)reply;
    return false;
}

/* Ctrl-C: it goes on, or it is ended, as was said. */
static void report_interrupted(const struct watch *watch, const struct rs_address *address)
{
    struct rs_err err = {0};
    if (!*watch->id) {
        rs_cli_note("capture", "interrupted before the aggregator had answered: `rankscope capture "
                               "list` says whether one was started");
        return;
    }
    if (!watch->words->must_cancel) {
        rs_cli_note("capture", "capture %s goes on; come back with: rankscope capture wait %s",
                    watch->id, watch->id);
        return;
    }
    Rankscope__AskStop ask_stop = RANKSCOPE__ASK_STOP__INIT;
    ask_stop.id = lend(watch->id);
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
    ask.stop = &ask_stop;
    if (rs_client_ask(address, &ask, on_nothing, NULL, &err) < 0)
        rs_cli_note("capture", "capture %s could not be ended: %s", watch->id, err.text);
    else
        rs_cli_note("capture",
                    "capture %s is being ended; what is recorded stays: rankscope capture show %s",
                    watch->id, watch->id);
}

static int exit_of_watch(struct watch *watch, enum rs_status status,
                         const struct rs_address *address, struct rs_err *err)
{
    if (status == RS_CANCELLED) {
        report_interrupted(watch, address);
        return RS_EXIT_INTERRUPTED;
    }
    if (status >= 0 && watch->status < 0)
        return rs_cli_fail("capture", &watch->err);
    if (status >= 0 && watch->words->is_dry && watch->is_answered)
        return (int)rs_exit_of(watch->status);
    if (status >= 0 && watch->info)
        return finish(watch->words, watch->info);
    if (status >= 0)
        (void)rs_err_set(err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    const int code = rs_cli_fail("capture", err);
    if (*watch->id && err->status == RS_UNREACHABLE)
        rs_cli_note("capture", "capture %s is not forgotten: rankscope capture wait %s", watch->id,
                    watch->id);
    return code;
}

/* A capture that is started is awaited until its findings are final, one that is come back to until its end. */
static bool waits_for_raw(const struct capture_words *words, bool is_start)
{
    return words->wait ? strcmp(words->wait, "summary") != 0 : !is_start;
}

/* Waits with progress; what then. */
static int converse(const struct capture_words *words, Rankscope__Ask *ask, char id[64])
{
    const bool is_start = ask->message_case == RANKSCOPE__ASK__MESSAGE_START;
    struct watch watch = {.words = words,
                          .is_start = is_start,
                          .must_wait_summary = !waits_for_raw(words, is_start),
                          .is_terminal = isatty(STDERR_FILENO) != 0};
    struct rs_err err = {0};
    struct rs_address address;
    enum rs_status status = rs_client_address(words->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, ask, on_progress, &watch, &err);
    end_progress(&watch);
    const int code = exit_of_watch(&watch, status, &address, &err);
    if (watch.info)
        rankscope__capture_info__free_unpacked(watch.info, NULL);
    (void)snprintf(id, sizeof watch.id, "%s", watch.id);
    return code;
}

/* ---- verbs -------------------------------------------------------------------------------------------------- */

int rs_capture_start(const struct capture_words *words, char id[64])
{
    id[0] = '\0';
    struct rs_err err = {0};
    struct capture_question question = {.origin_file = NULL};
    int code = RS_EXIT_COMPLETE;
    if (capture_question_make(words, &question, &err) < 0) {
        code = rs_cli_fail("capture", &err);
    } else {
        Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
        ask.message_case = RANKSCOPE__ASK__MESSAGE_START;
        ask.start = &question.start;
        code = converse(words, &ask, id);
    }
    capture_question_fini(&question);
    return code;
}

static int ask_once(const struct capture_words *words, Rankscope__Ask *ask)
{
    struct watch watch = {.words = words};
    struct rs_err err = {0};
    struct rs_address address;
    enum rs_status status = rs_client_address(words->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, ask, on_info, &watch, &err);
    if (status == RS_OK && !watch.info)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    if (status < 0)
        return rs_cli_fail("capture", &err);
    if (words->as_json || !words->is_quiet)
        capture_print_info(watch.info, words->as_json);
    const int code = exit_of_info(watch.info);
    rankscope__capture_info__free_unpacked(watch.info, NULL);
    return code;
}

static int capture_wait(const struct capture_words *words, const char *id)
{
    Rankscope__AskCapture ask_capture = RANKSCOPE__ASK_CAPTURE__INIT;
    ask_capture.id = lend(id);
    ask_capture.follow = true;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_CAPTURE;
    ask.capture = &ask_capture;
    char own[64];
    return converse(words, &ask, own);
}

static int capture_show(const struct capture_words *words, const char *id)
{
    Rankscope__AskCapture ask_capture = RANKSCOPE__ASK_CAPTURE__INIT;
    ask_capture.id = lend(id);
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_CAPTURE;
    ask.capture = &ask_capture;
    return ask_once(words, &ask);
}

static int capture_stop(const struct capture_words *words, const char *id)
{
    Rankscope__AskStop ask_stop = RANKSCOPE__ASK_STOP__INIT;
    ask_stop.id = lend(id);
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_STOP;
    ask.stop = &ask_stop;
    const int code = ask_once(words, &ask);
    /* It is what was asked for, even if nothing of it was recorded. */
    return code == RS_EXIT_PARTIAL ? RS_EXIT_COMPLETE : code;
}

/* A long list comes in several messages. */
struct listing {
    Rankscope__CaptureList *whole; /* protobuf-c's memory; NULL: nothing came */
    bool has_failed;
};

static Rankscope__CaptureList *copy_list(const Rankscope__CaptureList *list)
{
    const size_t bytes = rankscope__capture_list__get_packed_size(list);
    uint8_t *packed = rs_mem_calloc(bytes + 1, 1);
    Rankscope__CaptureList *copy = NULL;
    if (packed) {
        (void)rankscope__capture_list__pack(list, packed);
        copy = rankscope__capture_list__unpack(NULL, bytes, packed);
    }
    rs_mem_free(packed);
    return copy;
}

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
    Rankscope__CaptureList *copy = copy_list(reply->list);
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

static int capture_list(struct capture_words *words)
{
    struct rs_err err = {0};
    struct rs_address address;
    struct listing listing = {.whole = NULL};
    Rankscope__AskList ask_list = RANKSCOPE__ASK_LIST__INIT;
    ask_list.run = lend(words->run);
    ask_list.without_ranks = !words->as_json;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.message_case = RANKSCOPE__ASK__MESSAGE_LIST;
    ask.list = &ask_list;
    enum rs_status status = rs_client_address(words->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &ask, on_list, &listing, &err);
    if (status >= 0 && listing.has_failed)
        status = rs_err_set(&err, RS_NOMEM, "no memory for the list of captures");
    if (status >= 0 && listing.whole && (words->as_json || !words->is_quiet))
        capture_print_list(listing.whole, words->as_json);
    const bool is_partial = status >= 0 && listing.whole && *listing.whole->away;
    if (is_partial)
        rs_cli_note("capture", "captures of other aggregators are not in it: %.500s",
                    listing.whole->away);
    if (listing.whole)
        rankscope__capture_list__free_unpacked(listing.whole, NULL);
    if (status < 0)
        return rs_cli_fail("capture", &err);
    return is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

static bool is_wait(const char *word)
{
    return !word || strcmp(word, "raw") == 0 || strcmp(word, "all") == 0 ||
           strcmp(word, "summary") == 0;
}

static int run_word(struct capture_words *words, int count, char **operands, struct rs_err *err)
{
    static const char *const one[] = {"show", "stop", "wait"};
    static int (*const verbs[])(const struct capture_words *words,
                                const char *id) = {capture_show, capture_stop, capture_wait};
    char id[64];
    if (!is_wait(words->wait)) {
        (void)rs_err_set(err, RS_INVALID, "--wait takes summary, raw or all, not %.60s",
                         words->wait);
        return rs_cli_fail("capture", err);
    }
    if (count == 0)
        return rs_capture_start(words, id);
    if (strcmp(operands[0], "list") == 0 && count == 1)
        return capture_list(words);
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
        if (strcmp(operands[0], one[i]) == 0 && count == 2)
            return verbs[i](words, operands[1]);
    (void)rs_err_set(err, RS_INVALID,
                     "expected nothing, \"list\", or \"show\", \"stop\" or \"wait\" with an ID");
    return rs_cli_fail("capture", err);
}

/* ---- options --------------------------------------------------------------------------------------------- */

static struct capture_words words = {.fail_above = -1};

static const struct rs_arg items[] = {
    {.name = "steps",
     .letter = 'n',
     .kind = RS_ARG_INT,
     .target = &words.steps,
     .value = "N",
     .min = 1,
     .max = 1000000,
     .help = "record N steps"},
    {.name = "duration",
     .kind = RS_ARG_DURATION,
     .target = &words.duration_ns,
     .value = "D",
     .help = "record for so long (200ms, 2s) from one instant on, instead of steps"},
    {.name = "roundup",
     .kind = RS_ARG_INT,
     .target = &words.roundup,
     .value = "R",
     .min = 1,
     .max = 1000000,
     .help =
         "PyTorch ranks begin at the next multiple of R iterations; R iterations must take much "
         "longer than their profilers' asking, 5 s (default: about 10 s by the step time of an earlier "
         "capture, else 500)"},
    {.name = "record-shapes",
     .kind = RS_ARG_FLAG,
     .target = &words.must_shapes,
     .help = "record shapes of tensors; without them gloo's operations have no bytes (this is the "
             "default)"},
    {.name = "no-record-shapes",
     .kind = RS_ARG_FLAG,
     .target = &words.has_no_shapes,
     .help = "do not record shapes"},
    {.name = "with-stack",
     .kind = RS_ARG_FLAG,
     .target = &words.with_stack,
     .help = "record Python stacks (dear)"},
    {.name = "profile-memory",
     .kind = RS_ARG_FLAG,
     .target = &words.profile_memory,
     .help = "record allocations (dear)"},
    {.name = "timeout",
     .kind = RS_ARG_DURATION,
     .target = &words.timeout_ns,
     .value = "D",
     .help =
         "give a rank up when it is not complete by then (default, of a PyTorch rank: 10m, less "
         "when the step time is known; of a native rank: a minute without a sign of life)"},
    {.name = "force",
     .kind = RS_ARG_FLAG,
     .target = &words.is_forced,
     .help =
         "although space is short, traces go over a network, the time is longer than 5m, or the step "
         "is over by a rank's pace"},
    {.name = "start-step",
     .kind = RS_ARG_TEXT,
     .target = &words.start_step,
     .value = "S",
     .help = "first step to record, or \"next\" (default): the soonest that every rank can make"},
    {.name = "ranks",
     .letter = 'r',
     .kind = RS_ARG_TEXT,
     .target = &words.ranks,
     .value = "EXPR",
     .help =
         "which ranks: all (default), 0,3-7, node=n12, tp=0 & pp=last, one-per-node, every=8, sample=1%, "
         "slowest=8, !EXPR, (EXPR)"},
    {.name = "roles",
     .kind = RS_ARG_TEXT,
     .target = &words.roles,
     .value = "FILE",
     .help =
         "JSON that says which tp, pp, dp, ep index a rank has: {\"0\": {\"tp\": 0}, ...}, or sizes: "
         "{\"tp\": 2, \"pp\": 2}"},
    {.name = "set",
     .kind = RS_ARG_LIST,
     .target = &words.sets,
     .value = "MEMBER=VALUE",
     .help = "any member of the request (docs/schema/capture_request.schema.json), as "
             "experimental.profiler_level=Level1; may be given many times"},
    {.name = "config",
     .kind = RS_ARG_TEXT,
     .target = &words.config,
     .value = "FILE",
     .help = "begin with what a profiler_config.json asks for; options count over it"},
    {.name = "request",
     .kind = RS_ARG_TEXT,
     .target = &words.document,
     .value = "FILE",
     .help = "begin with a request as `capture show ID --json` has it (member \"request\")"},
    {.name = "dry-run",
     .kind = RS_ARG_FLAG,
     .target = &words.is_dry,
     .help = "print what every rank would be answered, and start nothing"},
    {.name = "on-busy",
     .kind = RS_ARG_TEXT,
     .target = &words.on_busy,
     .value = "WHAT",
     .help = "when a rank records already: queue (default: this request is next) or refuse"},
    {.name = "raw",
     .kind = RS_ARG_TEXT,
     .target = &words.raw,
     .value = "WHOSE",
     .help =
         "raw data that is sent: all (default), none, or of ranks EXPR; findings do not need it, and `rankscope fetch` "
         "gets the rest later"},
    {.name = "wait",
     .kind = RS_ARG_TEXT,
     .target = &words.wait,
     .value = "WHAT",
     .environment = "RANKSCOPE_WAIT",
     .help =
         "until what: summary (findings are final; default of a new capture) or raw, the same as all "
         "(all that was asked for is stored; default of `capture wait`)"},
    {.name = "cancel-on-interrupt",
     .kind = RS_ARG_FLAG,
     .target = &words.must_cancel,
     .help = "Ctrl-C ends the capture; what is recorded stays"},
    {.name = "run",
     .kind = RS_ARG_TEXT,
     .target = &words.run,
     .value = "NAME",
     .help = "which run; needed when there are several"},
    {.name = "out",
     .letter = 'o',
     .kind = RS_ARG_TEXT,
     .target = &words.out_dir,
     .value = "DIR",
     .help = "also write the deliverables into DIR"},
    RS_CLI_CONNECT_ARGS(&words.connect),
    {.name = "assume-common-clock",
     .kind = RS_ARG_FLAG,
     .target = &words.assume_common_clock,
     .help = "compare times of different hosts as they stand (told in the report)"},
    {.name = "fail-above",
     .kind = RS_ARG_PERCENT,
     .target = &words.fail_above,
     .value = "X%",
     .help = "exit 5 when a finding costs more than X % of a step"},
    {.name = "no-report",
     .kind = RS_ARG_FLAG,
     .target = &words.has_no_report,
     .help = "print the facts of the capture instead of its report"},
    {.name = "json",
     .kind = RS_ARG_FLAG,
     .target = &words.as_json,
     .help = "print JSON; unknown is null"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &words.is_quiet,
     .help = "print nothing but errors"},
};
static const struct rs_args args = {
    .verb = "capture",
    .operands = "[list | show ID | wait ID | stop ID]",
    .summary =
        "Records N steps, or for a time, on the chosen ranks of a running job: every rank begins at "
        "the same step, or instant. Waits with progress until the findings are final, then prints the report; raw data may "
        "go on in the background. With a word: list names the captures, show prints one's "
        "facts, wait comes back to one, stop ends one.",
    .items = items,
    .count = sizeof items / sizeof items[0],
    .epilogue =
        "  rankscope capture --steps 5\n"
        "  rankscope capture --run r1 --ranks 0,3-7 --steps 10 --start-step 500 -o out\n"
        "  rankscope capture --ranks 1,3 --duration 500ms\n"
        "  rankscope capture --ranks 'tp=0 & pp=last' --roles roles.json --steps 3 --dry-run\n"
        "  rankscope capture --config profiler_config.json --set schedule.warmup=1\n"
        "  rankscope capture --steps 10 --raw none\n"
        "  rankscope capture list\n"
        "  rankscope capture wait 20260102-030405-a1b2c3 -o out\n"
        "\n"
        "A request for ranks that record already waits, one per run: list shows it, stop drops it.\n"
        "Ctrl-C leaves the capture running. stop ends it at the next step boundary; what is\n"
        "recorded stays; a PyTorch process that took the request already cannot be called back.\n"
        "\n"
        "Exit: 0 complete, 1 partial (ranks missing are named), 2 bad request, 3 refused, 4 no\n"
        "aggregator answers, 5 --fail-above, 130 interrupted.\n"};

int rs_cmd_capture(int argc, char **argv)
{
    struct rs_err err = {0};
    int first = 0;
    const enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status < 0)
        return rs_cli_fail("capture", &err);
    if (words.has_no_report && words.out_dir) {
        (void)rs_err_set(&err, RS_INVALID,
                         "--no-report prints no report and writes none: leave it or --out out");
        return rs_cli_fail("capture", &err);
    }
    return run_word(&words, argc - first, argv + first, &err);
}
