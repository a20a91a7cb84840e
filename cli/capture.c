/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope capture`: starts one and waits for it, or lists, shows, stops, waits.
 *
 * Progress goes to stderr: how many ranks are in which state, redrawn in place on a terminal, else a line when the
 * capture moves on and at most one a second beside. Ranks are named when there is something to say of them. The
 * report and facts go to stdout, as soon as every rank's summary is joined: raw data goes on in the background, unless --wait raw
 * says to wait for it, too. Ctrl-C leaves the capture running and says how to come back; with
 * --cancel-on-interrupt it ends it. The conversation itself is common/client/captures.h.
 */
#include "cli/capture.h"

#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/answer/answer.h"
#include "common/answer/answer_text.h"
#include "common/base/terminal.h"
#include "common/client/captures.h"
#include "common/client/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char verb[] = "capture";
enum { WARNINGS_MAX = 64, LINE_MAX_BYTES = 256 };

/* A capture that is followed, and what was shown of it. */
struct watching {
    const struct capture_words *words;
    struct rs_capture_follow follow;
    char shown[LINE_MAX_BYTES];    /* the last progress line */
    uint32_t warned[WARNINGS_MAX]; /* what was told of ranks: digests of rank and text */
    size_t warned_count;
    uint32_t shown_state; /* of the capture */
    rs_ns shown_at;       /* monotonic */
    bool is_terminal;
    bool must_wait_summary; /* not for raw data */
};

/* ---- printing ------------------------------------------------------------------------------------------------- */

static void print_info(const Rankscope__CaptureInfo *info, bool as_json)
{
    struct rs_buf buf = {0};
    if (as_json) {
        rs_answer_capture(info, 2, &buf);
        rs_buf_u8(&buf, '\n');
    } else {
        rs_answer_capture_text(info, &buf);
    }
    fputs(rs_buf_text(&buf), stdout);
    rs_buf_fini(&buf);
}

/* On a terminal, lines are broken between words, the rest further in. */
static void print_lines(FILE *to, const char *text)
{
    const size_t width = isatty(fileno(to)) ? rs_terminal_width(to) : SIZE_MAX;
    while (*text) {
        size_t left = strcspn(text, "\n");
        const size_t indent = strspn(text, " ") + 4;
        size_t room = width;
        while (left > room) {
            size_t cut = room;
            while (cut > indent && text[cut] != ' ')
                cut--;
            if (text[cut] != ' ')
                break; /* one long word */
            fprintf(to, "%.*s\n%*s", (int)cut, text, (int)indent, "");
            text += cut + 1;
            left -= cut + 1;
            room = width - indent;
        }
        fprintf(to, "%.*s\n", (int)left, text);
        text += left;
        text += *text == '\n';
    }
}

/* The whole answer of a dry run. */
static void print_answer(const struct rs_request_answer *answer, bool as_json)
{
    struct rs_buf buf = {0};
    if (as_json)
        rs_request_answer_to_json(answer, 2, &buf);
    else
        rs_request_answer_print(answer, &buf);
    if (as_json)
        printf("%s\n", rs_buf_text(&buf));
    else
        print_lines(stdout, rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* Counts of what is left stay right: advice is neither refused nor ineffective. */
static void drop_advice(struct rs_request_notes *notes)
{
    size_t kept = 0;
    for (size_t i = 0; i < notes->count; i++)
        if (notes->items[i].rule != RS_RULE_WARMUP_ZERO &&
            notes->items[i].rule != RS_RULE_MS_NO_STEP)
            notes->items[kept++] = notes->items[i];
    notes->count = kept;
}

/* What is not simply accepted: advice that changes nothing is left out. */
static void report_answer(struct rs_request_answer *answer)
{
    struct rs_buf buf = {0};
    bool is_plain = answer->decision_count[RS_DECISION_ACCEPTED] == answer->count;
    drop_advice(&answer->notes);
    for (size_t i = 0; i < answer->count; i++) {
        drop_advice(&answer->ranks[i].notes);
        is_plain = is_plain && answer->ranks[i].notes.count == 0;
    }
    if (is_plain && !answer->notes.count)
        return;
    rs_request_answer_print(answer, &buf);
    print_lines(stderr, rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

/* ---- progress ------------------------------------------------------------------------------------------------- */

/* Whether it was told before; else remembers it. Very many are not told one by one. */
static bool was_reported(struct watching *watching, const Rankscope__CaptureRank *rank)
{
    uint32_t digest = 2166136261u ^ rank->rank; /* FNV-1a */
    for (const char *at = rank->text; *at; at++)
        digest = (digest ^ (unsigned char)*at) * 16777619u;
    for (size_t i = 0; i < watching->warned_count; i++)
        if (watching->warned[i] == digest)
            return true;
    if (watching->warned_count == WARNINGS_MAX)
        return true;
    watching->warned[watching->warned_count++] = digest;
    return false;
}

/* What should be known of a rank before its end: advice, or that it does not move. */
static void report_warnings(struct watching *watching, const Rankscope__CaptureInfo *info)
{
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        const bool is_due =
            rank->state == RS_PROGRESS_ARMED || rank->state == RS_PROGRESS_RECORDING;
        if (!is_due || !*rank->text || was_reported(watching, rank))
            continue;
        if (watching->is_terminal && *watching->shown) {
            fprintf(stderr, "\r\033[K");
            watching->shown[0] = '\0';
        }
        rs_cli_note(verb, "rank %u on %s: %s", rank->rank, rank->host, rank->text);
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

static void show_progress(struct watching *watching, const Rankscope__CaptureInfo *info)
{
    char line[LINE_MAX_BYTES];
    const rs_ns now = rs_time_monotonic();
    report_warnings(watching, info);
    rs_answer_capture_line(info, line, sizeof line);
    if (watching->is_terminal)
        fit_terminal(line);
    if (watching->words->is_quiet || strcmp(line, watching->shown) == 0)
        return;
    const bool is_news = info->state != watching->shown_state || !*watching->shown;
    if (!watching->is_terminal && !is_news && now < watching->shown_at + RS_NS_PER_S)
        return;
    if (watching->is_terminal)
        fprintf(stderr, "\r\033[K%s", line);
    else
        fprintf(stderr, "%s\n", line);
    watching->shown_state = info->state;
    watching->shown_at = now;
    (void)snprintf(watching->shown, sizeof watching->shown, "%s", line);
}

static void end_progress(struct watching *watching)
{
    if (watching->is_terminal && *watching->shown)
        fprintf(stderr, "\n");
    watching->shown[0] = '\0';
}

/* What every rank answers; NULL: an aggregator of the previous version. */
static void on_answer(void *self, struct rs_request_answer *answer)
{
    const struct watching *watching = self;
    if (!answer)
        rs_cli_note(verb, "the aggregator is of the previous version: it read ranks, steps, "
                          "duration, start step and the profilers' switches, nothing else");
    else if (watching->words->wanted.is_dry)
        print_answer(answer, watching->words->as_json);
    else if (!watching->words->is_quiet)
        report_answer(answer);
}

static bool on_progress(void *self, const Rankscope__CaptureInfo *info)
{
    struct watching *watching = self;
    show_progress(watching, info);
    /* Raw data that is on its way changes nothing of the findings. */
    return !(watching->must_wait_summary && info->state == RS_CAPTURE_SUMMARISED);
}

/* ---- the end of a capture -------------------------------------------------------------------------------------- */

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
        rs_cli_note(verb,
                    "raw data of %zu rank%s goes on in the background: rankscope capture wait %s",
                    count, count == 1 ? "" : "s", info->id);
}

static int finish(const struct capture_words *words, const Rankscope__CaptureInfo *info)
{
    const int own = exit_of_info(info);
    struct rs_cli_noter noter = {.verb = verb};
    rs_answer_capture_ends(info, rs_cli_note_line, &noter);
    report_background(words, info);
    if (info->state == RS_CAPTURE_STOPPED)
        rs_cli_note(verb, "capture %s was stopped%s%s", info->id, *info->reason ? ": " : "",
                    info->reason);
    if ((info->state == RS_CAPTURE_PARTIAL || info->state == RS_CAPTURE_SUMMARISED) &&
        *info->reason) {
        const char *reason = info->reason;
        reason += strncmp(reason, "partial: ", 9) == 0 ? 9 : 0; /* once is enough */
        rs_cli_note(verb, "capture %s is partial: %s", info->id, reason);
    }
    if (info->state == RS_CAPTURE_FAILED) {
        rs_cli_note(verb, "capture %s failed: nothing was recorded%s%s", info->id,
                    *info->reason ? ": " : "", info->reason);
        if (words->as_json)
            print_info(info, true);
        return own;
    }
    if (words->has_no_report) {
        if (words->as_json || !words->is_quiet)
            print_info(info, words->as_json);
        return own;
    }
    const struct rs_report_options options = {.as_json = words->as_json,
                                              .is_quiet = words->is_quiet,
                                              .assume_common_clock = words->assume_common_clock,
                                              .fail_above = words->fail_above};
    struct rs_err err = {0};
    struct rs_address address;
    if (rs_client_address(words->connect, &address, &err) < 0)
        return rs_cli_fail(verb, &err);
    const int code = rs_cli_report_remote(verb, &address, info->id, words->out_dir, &options);
    return code == RS_EXIT_COMPLETE ? own : code;
}

/* Ctrl-C: it goes on, or it is ended, as was said. */
static void report_interrupted(const struct watching *watching, const struct rs_address *address)
{
    struct rs_err err = {0};
    Rankscope__CaptureInfo *info = NULL;
    if (!*watching->follow.id) {
        rs_cli_note(verb, "interrupted before the aggregator had answered: `rankscope capture "
                          "list` says whether one was started");
        return;
    }
    if (!watching->words->must_cancel) {
        rs_cli_note(verb, "capture %s goes on; come back with: rankscope capture wait %s",
                    watching->follow.id, watching->follow.id);
        return;
    }
    if (rs_client_capture(address, RS_CLIENT_STOP, watching->follow.id, &info, &err) < 0)
        rs_cli_note(verb, "capture %s could not be ended: %s", watching->follow.id, err.text);
    else
        rs_cli_note(verb,
                    "capture %s is being ended; what is recorded stays: rankscope capture show %s",
                    watching->follow.id, watching->follow.id);
    if (info)
        rankscope__capture_info__free_unpacked(info, NULL);
}

static int exit_of_watch(const struct watching *watching, enum rs_status status,
                         const struct rs_address *address, struct rs_err *err)
{
    if (status == RS_CANCELLED) {
        report_interrupted(watching, address);
        return RS_EXIT_INTERRUPTED;
    }
    if (status >= 0 && watching->follow.status < 0)
        return rs_cli_fail(verb, &watching->follow.err);
    if (status >= 0 && watching->words->wanted.is_dry && watching->follow.is_answered)
        return (int)rs_exit_of(watching->follow.status);
    if (status >= 0 && watching->follow.info)
        return finish(watching->words, watching->follow.info);
    if (status >= 0)
        (void)rs_err_set(err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    const int code = rs_cli_fail(verb, err);
    if (*watching->follow.id && err->status == RS_UNREACHABLE)
        rs_cli_note(verb, "capture %s is not forgotten: rankscope capture wait %s",
                    watching->follow.id, watching->follow.id);
    return code;
}

/* A capture that is started is awaited until its findings are final, one that is come back to until its end. */
static bool waits_for_raw(const struct capture_words *words, bool is_start)
{
    return words->wait ? strcmp(words->wait, "summary") != 0 : !is_start;
}

/* Waits with progress; what then. `question` NULL: comes back to the capture `which`. */
static int converse(const struct capture_words *words, struct rs_capture_question *question,
                    const char *which, char id[64])
{
    struct watching watching = {.words = words,
                                .must_wait_summary = !waits_for_raw(words, question != NULL),
                                .is_terminal = isatty(STDERR_FILENO) != 0,
                                .follow = {.on_answer = on_answer, .on_progress = on_progress}};
    struct rs_capture_follow *follow = &watching.follow;
    struct rs_err err = {0};
    struct rs_address address;
    follow->self = &watching;
    enum rs_status status = rs_client_address(words->connect, &address, &err);
    if (status == RS_OK)
        status = question ? rs_client_capture_start(&address, question, follow, &err)
                          : rs_client_capture_follow(&address, RS_CLIENT_SHOW, which, follow, &err);
    end_progress(&watching);
    const int code = exit_of_watch(&watching, status, &address, &err);
    rs_capture_follow_fini(follow);
    (void)snprintf(id, sizeof follow->id, "%s", follow->id);
    return code;
}

/* ---- verbs ------------------------------------------------------------------------------------------------------ */

int rs_capture_start(const struct capture_words *words, char id[64])
{
    struct rs_err err = {0};
    struct rs_buf notes = {0};
    struct rs_capture_question *question = NULL;
    const enum rs_status status = rs_capture_question_new(&words->wanted, &notes, &question, &err);
    fputs(rs_buf_text(&notes), stderr);
    rs_buf_fini(&notes);
    id[0] = '\0';
    const int code = status < 0 ? rs_cli_fail(verb, &err) : converse(words, question, NULL, id);
    rs_capture_question_free(&question);
    return code;
}

static int ask_once(const struct capture_words *words, enum rs_client_about about, const char *id)
{
    struct rs_err err = {0};
    struct rs_address address;
    Rankscope__CaptureInfo *info = NULL;
    enum rs_status status = rs_client_address(words->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_capture(&address, about, id, &info, &err);
    if (status == RS_OK && !info)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    if (status < 0)
        return rs_cli_fail(verb, &err);
    if (words->as_json || !words->is_quiet)
        print_info(info, words->as_json);
    const int code = exit_of_info(info);
    rankscope__capture_info__free_unpacked(info, NULL);
    /* Of one that is stopped it is what was asked for, even if nothing of it was recorded. */
    return code == RS_EXIT_PARTIAL && about == RS_CLIENT_STOP ? RS_EXIT_COMPLETE : code;
}

static int list(const struct capture_words *words)
{
    struct rs_err err = {0};
    struct rs_address address;
    struct rs_buf buf = {0};
    Rankscope__CaptureList *list = NULL;
    const char *run = words->wanted.run ? words->wanted.run : "";
    enum rs_status status = rs_client_address(words->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_captures(&address, run, !words->as_json, &list, &err);
    if (status < 0)
        return rs_cli_fail(verb, &err);
    if (list && words->as_json) {
        rs_answer_captures((const Rankscope__CaptureInfo *const *)list->captures, list->n_captures,
                           list->away, 2, &buf);
        rs_buf_u8(&buf, '\n');
    } else if (list && !words->is_quiet) {
        rs_answer_captures_text(list, &buf);
    }
    fputs(rs_buf_text(&buf), stdout);
    rs_buf_fini(&buf);
    const bool is_partial = list && *list->away;
    if (is_partial)
        rs_cli_note(verb, "captures of other aggregators are not in it: %.500s", list->away);
    if (list)
        rankscope__capture_list__free_unpacked(list, NULL);
    return is_partial ? RS_EXIT_PARTIAL : RS_EXIT_COMPLETE;
}

static struct capture_words words = {.fail_above = -1};

static int capture(char **operands)
{
    struct rs_err err = {0};
    const char *word = operands[0];
    const bool has_id = word && operands[1] && !operands[2];
    char id[64] = "";
    words.wanted.sets = words.sets.items;
    words.wanted.set_count = words.sets.count;
    if (words.has_no_report && words.out_dir) {
        (void)rs_err_set(&err, RS_INVALID,
                         "--no-report prints no report and writes none: leave it or --out out");
    } else if (words.wait && strcmp(words.wait, "raw") != 0 && strcmp(words.wait, "all") != 0 &&
               strcmp(words.wait, "summary") != 0) {
        (void)rs_err_set(&err, RS_INVALID, "--wait takes summary, raw or all, not %.60s",
                         words.wait);
    } else if (!word) {
        return rs_capture_start(&words, id);
    } else if (strcmp(word, "list") == 0 && !operands[1]) {
        return list(&words);
    } else if (has_id && strcmp(word, "wait") == 0) {
        return converse(&words, NULL, operands[1], id);
    } else if (has_id && strcmp(word, "show") == 0) {
        return ask_once(&words, RS_CLIENT_SHOW, operands[1]);
    } else if (has_id && strcmp(word, "stop") == 0) {
        return ask_once(&words, RS_CLIENT_STOP, operands[1]);
    } else {
        (void)rs_err_set(
            &err, RS_INVALID,
            "expected nothing, \"list\", or \"show\", \"stop\" or \"wait\" with an ID");
    }
    return rs_cli_fail(verb, &err);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_INT("steps", 'n', &words.wanted.steps, "N", 1, 1000000, "record N steps"),
    RS_OPT_TIME("duration", 0, &words.wanted.duration_ns, "D", "record for so long (200ms, 2s) from one instant on, instead of steps"),
    RS_OPT_INT("roundup", 0, &words.wanted.roundup, "R", 1, 1000000, "PyTorch ranks begin at the next multiple of R iterations; R iterations must take much longer than their profilers' asking, 5 s (default: about 10 s by the step time of an earlier capture, else 500)"),
    RS_OPT_FLAG("record-shapes", 0, &words.wanted.must_shapes, "record shapes of tensors; without them gloo's operations have no bytes (this is the default)"),
    RS_OPT_FLAG("no-record-shapes", 0, &words.wanted.has_no_shapes, "do not record shapes"),
    RS_OPT_FLAG("with-stack", 0, &words.wanted.with_stack, "record Python stacks (dear)"),
    RS_OPT_FLAG("profile-memory", 0, &words.wanted.profile_memory, "record allocations (dear)"),
    RS_OPT_TIME("timeout", 0, &words.wanted.timeout_ns, "D", "give a rank up when it is not complete by then (default, of a PyTorch rank: 10m, less when the step time is known; of a native rank: a minute without a sign of life)"),
    RS_OPT_FLAG("force", 0, &words.wanted.is_forced, "although space is short, traces go over a network, the time is longer than 5m, or the step is over by a rank's pace"),
    RS_OPT_TEXT("start-step", 0, &words.wanted.start_step, "S", "first step to record, or \"next\" (default): the soonest that every rank can make"),
    RS_OPT_TEXT("ranks", 'r', &words.wanted.ranks, "EXPR", "which ranks: all (default), 0,3-7, node=n12, tp=0 & pp=last, one-per-node, every=8, sample=1%, slowest=8, !EXPR, (EXPR)"),
    RS_OPT_TEXT("roles", 0, &words.wanted.roles, "FILE", "JSON that says which tp, pp, dp, ep index a rank has: {\"0\": {\"tp\": 0}, ...}, or sizes: {\"tp\": 2, \"pp\": 2}"),
    RS_OPT_LIST("set", 0, &words.sets, "MEMBER=VALUE", "any member of the request (docs/schema/capture_request.schema.json), as experimental.profiler_level=Level1; may be given many times"),
    RS_OPT_TEXT("config", 0, &words.wanted.config, "FILE", "begin with what a profiler_config.json asks for; options count over it"),
    RS_OPT_TEXT("request", 0, &words.wanted.document, "FILE", "begin with a request as `capture show ID --json` has it (member \"request\")"),
    RS_OPT_FLAG("dry-run", 0, &words.wanted.is_dry, "print what every rank would be answered, and start nothing"),
    RS_OPT_TEXT("on-busy", 0, &words.wanted.on_busy, "WHAT", "when a rank records already: queue (default: this request is next) or refuse"),
    RS_OPT_TEXT("raw", 0, &words.wanted.raw, "WHOSE", "raw data that is sent: all (default), none, or of ranks EXPR; findings do not need it, and `rankscope fetch` gets the rest later"),
    RS_OPT_TEXT("wait", 0, &words.wait, "WHAT", "until what: summary (findings are final; default of a new capture) or raw, the same as all (all that was asked for is stored; default of `capture wait`)", .environment = "RANKSCOPE_WAIT"),
    RS_OPT_FLAG("cancel-on-interrupt", 0, &words.must_cancel, "Ctrl-C ends the capture; what is recorded stays"),
    RS_OPT_TEXT("run", 0, &words.wanted.run, "NAME", "which run; needed when there are several"),
    RS_OPT_TEXT("out", 'o', &words.out_dir, "DIR", "also write the deliverables into DIR"),
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_OPT_FLAG("assume-common-clock", 0, &words.assume_common_clock, "compare times of different hosts as they stand (told in the report)"),
    RS_OPT_SHARE("fail-above", 0, &words.fail_above, "X%", "exit 5 when a finding costs more than X % of a step"),
    RS_OPT_FLAG("no-report", 0, &words.has_no_report, "print the facts of the capture instead of its report"),
    RS_OPT_FLAG("json", 0, &words.as_json, "print JSON; unknown is null"),
    RS_CLI_QUIET_ARG(&words.is_quiet),
};
const struct rs_args rs_grammar_capture = {
    .verb = verb, .operands = "[list | show ID | wait ID | stop ID]", .most = RS_ARGS_ANY,
    .summary = "Records N steps, or for a time, on the chosen ranks of a running job: every rank begins at the same step, or instant. Waits with progress until the findings are final, then prints the report; raw data may go on in the background. With a word: list names the captures, show prints one's facts, wait comes back to one, stop ends one.",
    RS_OPTIONS(options), .run = capture,
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
/* clang-format on */
