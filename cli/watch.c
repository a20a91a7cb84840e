/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope watch`: waits until a run's steps take longer, then captures some of them and says why.
 *
 *     look at the ranks --rules of run_watch.h--> alarm --budget, cool-down--> capture, report --> look on
 *          \--they tell no steps, a probe is due--> probe_make.h --the same rules--^
 *
 * An aggregator that is away for a while is waited for; a run that is not there yet, too. Steps of a capture, whoever started it,
 * are not compared.
 */
#include "aggregator/model/reads.h"
#include "aggregator/model/tables.h"
#include "cli/capture.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/base/json_out.h"
#include "common/base/lend.h"
#include "common/base/terminal.h"
#include "common/client/client.h"
#include "common/client/pages.h"
#include "common/client/probe_make.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char verb[] = "watch";
static const rs_dur look_every_ns = RS_NS_PER_S / 2;
static const rs_dur mute_after_ns =
    30 * (rs_dur)RS_NS_PER_S; /* a run that tells no steps: say so */
enum { DAY_S = 86400, BUDGET_MAX = 1000, STEPS_MAX = 16 };

static struct options {
    const char *connect, *run, *ranks, *out_dir, *raw;
    int64_t steps, per_day, alarms;
    double longer_by;
    rs_dur cool_down_ns;
    struct rs_probe_rules probes;
    bool as_json, is_quiet, must_not_capture, has_no_probes;
} words = {.steps = 5,
           .per_day = 10,
           .longer_by = 0.15,
           .cool_down_ns = 600 * (rs_dur)RS_NS_PER_S,
           .probes = {.every_ns = 60 * (rs_dur)RS_NS_PER_S, .share = 0.01}};

struct watching {
    const struct options *options;
    struct rs_address address;
    struct rs_run_watch rule;
    struct rs_probe_watch probe;
    bool is_probed;               /* its ranks tell no steps */
    char run[64];                 /* as found */
    rs_ns found_at, next_capture; /* monotonic; 0: not yet */
    rs_ns captured[BUDGET_MAX];   /* monotonic; a ring of those that count */
    size_t captured_count, next;
    int64_t alarms;
    int code; /* of the last capture */
    bool is_away, has_said_waiting, has_said_mute, has_said_learning, has_said_ready,
        has_said_futile;
};

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static double ms_of(rs_dur length)
{
    return (double)length / RS_NS_PER_MS;
}

/* Steps that were probed have no numbers. */
static void put_step(struct rs_json_out *json, const char *key, int64_t step)
{
    rs_json_put_known(json, key, step, step >= 0);
}

/* One document a line. */
static void print_alarm(const struct watching *watching, const struct rs_run_alarm *alarm,
                        const char *capture, const char *why_not)
{
    const bool is_of_ranks = alarm->ranks.count > 0;
    const struct rs_rank_suspect *first = &alarm->ranks.suspects[0];
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 0);
    rs_json_out_object(&json);
    rs_json_put_text(&json, "event", "regression");
    rs_json_put_text(&json, "run", watching->run);
    rs_json_put_int(&json, "before_ns", is_of_ranks ? first->before_ns : alarm->steps.before_ns);
    rs_json_put_int(&json, "now_ns", is_of_ranks ? first->now_ns : alarm->steps.now_ns);
    put_step(&json, "first_step", is_of_ranks ? first->first_step : alarm->steps.first_step);
    put_step(&json, "last_step", is_of_ranks ? first->last_step : alarm->steps.last_step);
    rs_json_out_key(&json, "why");
    rs_run_alarm_put(alarm, &json);
    rs_json_put_text(&json, "ranks", *alarm->chosen ? alarm->chosen : "all");
    rs_json_put_text(&json, "capture", capture);
    rs_json_put_known(&json, "exit", watching->code, *capture != '\0');
    rs_json_put_text(&json, "not_captured_because", why_not);
    rs_json_out_end(&json);
    printf("%s\n", rs_buf_text(&buf));
    (void)fflush(stdout);
    rs_buf_fini(&buf);
}

static bool is_ready(const struct watching *watching)
{
    return watching->is_probed ? watching->probe.read_count >= RS_PROBE_WATCH_LEARN
                               : watching->rule.steps.count >= RS_STEP_WATCH_LEARN;
}

static void say_state(struct watching *watching)
{
    const struct rs_step_look *look = &watching->rule.look;
    const struct options *options = watching->options;
    if (options->is_quiet)
        return;
    if (!*watching->run && !watching->has_said_waiting) {
        if (options->run)
            rs_cli_note(verb,
                        "no run is called %s so far (`rankscope ranks` lists them); waiting for it",
                        options->run);
        else
            rs_cli_note(verb, "there is no run so far; waiting for one");
        watching->has_said_waiting = true;
    }
    if (look->step >= 0 && !watching->has_said_learning) {
        rs_cli_note(verb,
                    "run %s: %zu ranks step, at step %" PRId64 "; learning how long steps take",
                    watching->run, look->stepping, look->step);
        watching->has_said_learning = true;
    }
    if (watching->is_probed && !watching->has_said_learning) {
        rs_cli_note(verb,
                    "run %s: its ranks tell no steps: %zu of %zu are recorded for %d steps now and "
                    "then, every %" PRId64 " s at most, for at most %g%% of the time; learning how "
                    "long steps take",
                    watching->run, watching->probe.rank_count, watching->probe.member_count,
                    (int)RS_PROBE_WATCH_STEPS, options->probes.every_ns / RS_NS_PER_S,
                    100 * options->probes.share);
        watching->has_said_learning = true;
    }
    if (is_ready(watching) && !watching->has_said_ready) {
        rs_cli_note(verb, "run %s: watching; steps take %.3f ms now", watching->run,
                    ms_of(watching->is_probed ? watching->probe.rule.look.step_ns : look->step_ns));
        watching->has_said_ready = true;
    }
    if (*watching->run && !watching->found_at)
        watching->found_at = rs_time_monotonic();
    if (look->step < 0 && !watching->is_probed && *watching->run && !watching->has_said_mute &&
        rs_time_monotonic() > watching->found_at + mute_after_ns) {
        rs_cli_note(
            verb,
            "run %s: no rank tells its steps so far: nothing can be noticed (programs "
            "that call librankscope tell their steps while they run; others are probed, but "
            "for --no-probes)",
            watching->run);
        watching->has_said_mute = true;
    }
}

/* ---- a capture --------------------------------------------------------------------------------------------------- */

/* Why none may be taken now; NULL: one may. */
static const char *refusal(const struct watching *watching, rs_ns now)
{
    int64_t today = 0;
    if (watching->options->must_not_capture)
        return "--no-capture";
    if (now < watching->next_capture)
        return "cool-down";
    for (size_t i = 0; i < watching->captured_count; i++)
        today += watching->captured[i] > now - DAY_S * (rs_dur)RS_NS_PER_S;
    return today >= watching->options->per_day ? "as many captures in 24 hours as are allowed"
                                               : NULL;
}

static void take(struct watching *watching, const struct rs_run_alarm *alarm)
{
    const struct options *options = watching->options;
    const rs_ns now = rs_time_monotonic();
    const char *why_not = refusal(watching, now);
    char id[64] = "", what[300];
    rs_run_alarm_text(alarm, what, sizeof what);
    rs_cli_note(verb, "run %s: %s%s%s", watching->run, what, why_not ? "; not captured: " : "",
                why_not ? why_not : "");
    watching->alarms++;
    watching->has_said_ready = false;
    if (!why_not) {
        struct rs_buf reason = {0};
        rs_buf_printf(&reason, "metadata.watch=");
        rs_run_alarm_json(alarm, &reason);
        const char *set = rs_buf_text(&reason);
        const char *chosen = *alarm->chosen ? alarm->chosen : NULL;
        const struct capture_words start = {
            .wanted = {.run = watching->run,
                       .ranks = options->ranks ? options->ranks : chosen,
                       .sets = &set,
                       .set_count = 1,
                       .steps = options->steps,
                       .raw = options->raw,
                       .on_busy = "refuse"},
            .connect = options->connect,
            .out_dir = options->out_dir,
            .is_quiet = options->as_json || options->is_quiet,
            .fail_above = -1};
        watching->code = rs_capture_start(&start, id);
        rs_buf_fini(&reason);
        watching->next_capture = rs_time_monotonic() + options->cool_down_ns;
        watching->captured[watching->next] = now;
        watching->next = (watching->next + 1) % BUDGET_MAX;
        watching->captured_count += watching->captured_count < BUDGET_MAX;
    }
    if (!why_not && !*id)
        why_not = "it was refused";
    if (options->as_json)
        print_alarm(watching, alarm, id, why_not);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* What a probe tells of a rank: its steps. */
struct reading {
    const struct rs_probe_watch *watch;
    struct {
        rs_dur lengths[STEPS_MAX], own[STEPS_MAX];
        size_t count;
        int64_t device; /* its first */
    } ranks[RS_PROBE_WATCH_RANKS];
    struct rs_block block; /* of the page at hand */
    enum rs_status status;
    struct rs_err *err;
};

static bool take_page(void *self, const struct rs_client_page *page)
{
    struct reading *reading = self;
    if (page->block.length)
        reading->status = rs_block_take(rs_read_def(RS_READ_STEP_DEVICES)->result, page->block,
                                        &reading->block, reading->err);
    const size_t count = page->block.length && reading->status == RS_OK ? reading->block.count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct rs_row_step_device *row = rs_block_row(&reading->block, i);
        size_t at = 0;
        while (at < reading->watch->rank_count && reading->watch->ranks[at].peer.rank != row->rank)
            at++;
        if (at == reading->watch->rank_count || row->is_partial || row->window_ns <= 0 ||
            row->window_exposed_ns < 0 || row->window_exposed_ns > row->window_ns)
            continue;
        if (!reading->ranks[at].count)
            reading->ranks[at].device = row->device;
        if (reading->ranks[at].count == STEPS_MAX || reading->ranks[at].device != row->device)
            continue;
        reading->ranks[at].lengths[reading->ranks[at].count] = row->window_ns;
        reading->ranks[at].own[reading->ranks[at].count++] =
            row->window_ns - row->window_exposed_ns;
    }
    return reading->status == RS_OK;
}

static size_t read_probe(void *self, const char *capture, const struct rs_probe_watch *watch,
                         struct rs_probe_figure *figures, struct rs_err *err)
{
    const struct watching *watching = self;
    struct reading reading = {.watch = watch, .err = err};
    Rankscope__AskTable question = RANKSCOPE__ASK_TABLE__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    size_t count = 0;
    question.capture = rs_lend(capture);
    question.read = rs_lend(rs_read_def(RS_READ_STEP_DEVICES)->name);
    ask.message_case = RANKSCOPE__ASK__MESSAGE_TABLE;
    ask.table = &question;
    const enum rs_status status =
        rs_client_pages_ask(&watching->address, &ask, take_page, &reading, err);
    rs_block_fini(&reading.block);
    for (size_t i = 0; i < watch->rank_count && status >= 0 && reading.status >= 0; i++)
        count += rs_probe_figure_of(watch->ranks[i].peer.rank, reading.ranks[i].lengths,
                                    reading.ranks[i].own, reading.ranks[i].count, &figures[count]);
    return count;
}

/* RS_CANCELLED: Ctrl-C; else a probe that comes to nothing is told once, and made again later. */
static enum rs_status probe_once(struct watching *watching)
{
    const struct options *options = watching->options;
    const struct rs_probe_make how = {.address = &watching->address,
                                      .run = watching->run,
                                      .rules = options->probes,
                                      .above = 1 + options->longer_by,
                                      .read = read_probe,
                                      .self = watching};
    struct rs_run_alarm alarm;
    struct rs_err err = {0};
    const enum rs_status status = rs_client_probe_make(&how, &watching->probe, &alarm, &err);
    if (status == RS_PARTIAL && !watching->has_said_futile)
        rs_cli_note(verb, "run %s: a probe told nothing, others follow: %s", watching->run,
                    err.text);
    if (status != RS_CANCELLED)
        watching->has_said_futile = status == RS_PARTIAL;
    if (status == RS_END)
        take(watching, &alarm);
    return status == RS_CANCELLED ? status : RS_OK;
}

/* RS_UNREACHABLE is told once, and no failure: it comes back. */
static enum rs_status look_once(struct watching *watching, struct rs_err *err)
{
    const struct options *options = watching->options;
    struct rs_run_alarm alarm;
    struct rs_run_look look;
    enum rs_status status = rs_client_run_look(
        &watching->address, options->run ? options->run : "", &watching->rule,
        options->has_no_probes || options->must_not_capture ? NULL : &watching->probe, &look, err);
    if (status == RS_UNREACHABLE) {
        if (!watching->is_away)
            rs_cli_note(verb, "%s; asking on", err->text);
        watching->is_away = true;
        rs_run_watch_skip(&watching->rule);
        rs_probe_watch_skip(&watching->probe);
        return RS_OK;
    }
    if (status < 0)
        return status;
    if (watching->is_away)
        rs_cli_note(verb, "the aggregator answers again");
    watching->is_away = false;
    if (*look.found)
        (void)snprintf(watching->run, sizeof watching->run, "%s", look.found);
    watching->is_probed =
        rs_probe_watch_seen(&watching->probe, &options->probes, rs_time_monotonic()) > 0 &&
        !look.tells_steps;
    if (rs_run_watch_see(&watching->rule, look.is_recording, 1 + options->longer_by, &alarm))
        take(watching, &alarm);
    say_state(watching);
    if (watching->is_probed && !look.is_recording &&
        rs_probe_watch_is_due(&watching->probe, rs_time_monotonic()))
        status = probe_once(watching);
    if (watching->code ==
        RS_EXIT_INTERRUPTED) /* Ctrl-C in a capture, which said how to come back to it */
        return RS_CANCELLED;
    return status;
}

static int watch(const struct options *options)
{
    static struct watching watching; /* large */
    struct rs_err err = {0};
    watching = (struct watching){.options = options};
    enum rs_status status = rs_client_address(options->connect, &watching.address, &err);
    while (status >= 0) {
        status = look_once(&watching, &err);
        if (status >= 0 && options->alarms && watching.alarms >= options->alarms)
            return watching.code;
        if (status >= 0 && !rs_terminal_pause(look_every_ns))
            status = RS_CANCELLED;
    }
    return status == RS_CANCELLED ? RS_EXIT_INTERRUPTED : rs_cli_fail(verb, &err);
}

static int run(char **operands)
{
    struct rs_err err = {0};
    enum rs_status status = RS_OK;
    if (words.longer_by <= 0)
        status = rs_err_set(&err, RS_INVALID, "--longer-by is more than 0%%");
    else if (words.probes.share <= 0 || words.probes.share >= 1)
        status = rs_err_set(&err, RS_INVALID, "--probe-share is more than 0%% and less than 100%%");
    else if (words.probes.every_ns <= 0)
        status = rs_err_set(&err, RS_INVALID, "--probe-every is more than 0");
    if (status < 0)
        return rs_cli_fail(verb, &err);
    words.run = operands[0];
    return watch(&words);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_SHARE("longer-by", 0, &words.longer_by, "P", "steps that take so much longer than before are an alarm (default 15%)"),
    RS_OPT_TEXT("ranks", 'r', &words.ranks, "EXPR", "capture these: 0,3-7, node=n12, tp=0 (default: who is suspected and a healthy rank each; all when nobody is)"),
    RS_OPT_INT("steps", 0, &words.steps, "N", 1, 1000, "of each capture (default 5)"),
    RS_OPT_TIME("cool-down", 0, &words.cool_down_ns, "D", "after a capture, the next one not before (default 10m)"),
    RS_OPT_INT("per-day", 0, &words.per_day, "N", 1, BUDGET_MAX, "captures in 24 hours (default 10)"),
    RS_OPT_INT("alarms", 0, &words.alarms, "N", 1, INT32_MAX, "end after so many (default: go on until Ctrl-C)"),
    RS_OPT_FLAG("no-capture", 0, &words.must_not_capture, "only tell: nothing is captured, no probes either"),
    RS_OPT_FLAG("no-probes", 0, &words.has_no_probes, "record nothing of ranks that tell no steps (PyTorch, torch_npu, MindSpore): nothing is noticed of them then"),
    RS_OPT_TIME("probe-every", 0, &words.probes.every_ns, "D", "probe them not more often than that (default 1m: 60 an hour at most)"),
    RS_OPT_SHARE("probe-share", 0, &words.probes.share, "P", "and so rarely that they record and write for no more than this part of the time (default 1%)"),
    RS_OPT_TEXT("raw", 0, &words.raw, "WHOSE", "raw data that is sent: all (default), none, or of ranks EXPR"),
    RS_OPT_TEXT("out", 'o', &words.out_dir, "DIR", "write the deliverables of the last capture into DIR"),
    RS_CLI_CONNECT_ARGS(&words.connect),
    RS_OPT_FLAG("json", 0, &words.as_json, "print a JSON document a line for each alarm, instead of reports"),
    RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "print no reports and no progress, only alarms on stderr"),
};
const struct rs_args rs_grammar_watch = {
    .verb = verb, .operands = "[RUN]", .most = 1,
    .summary = "Waits until the steps of a run, or a rank's own work in them, take longer than before and keep doing so; then it captures some steps, and the report says who is the cause. Programs that call librankscope pay nothing until then: it reads what collectors tell of ranks anyway. Others are probed: at most eight of their ranks record four steps, once a minute at most, for at most 1% of the time.",
    RS_OPTIONS(options), .run = run,
    .epilogue =
        "  rankscope watch train1\n"
        "  rankscope watch train1 --longer-by 30% --ranks 'one-per-node' --per-day 3\n"
        "  rankscope watch --alarms 1 --json\n"
        "\n"
        "A sample is four steps or more; twenty samples are learnt first, and three in a row that are longer\n"
        "than all of the last 128 are an alarm (of one rank's own work compared with the others', two that are so\n"
        "by far). One long step (a checkpoint) is none, nor is a machine that gets busy for all.\n"
        "Only programs that call librankscope tell their steps while they run. Of unmodified PyTorch, torch_npu and\n"
        "MindSpore a probe is a sample; six are learnt first, and what is then noticed takes two or three more. Probes\n"
        "are captures that lists leave out; each is removed when it was read. While one goes on, other captures of\n"
        "those ranks wait their turn.\n"
        "\n"
        "Exit: with --alarms that of the last capture: 0 complete, 1 partial; 2 bad request, 4 no aggregator\n"
        "is set or known, 130 it was ended.\n"};
/* clang-format on */
