/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope watch`: waits until a run's steps take longer, then captures some of them and says why.
 *
 *     look at the ranks --rules of run_watch.h--> alarm --budget, cool-down--> capture, report --> look on
 *          \--they tell no steps, a probe is due--> watch_probe.h --the same rules--^
 *
 * An aggregator that is away for a while is waited for; a run that is not there yet, too. Steps of a capture, whoever started it,
 * are not compared.
 */
#include "cli/capture.h"
#include "cli/cli.h"
#include "cli/watch_probe.h"
#include "common/base/json_out.h"
#include "common/client/client.h"
#include "common/client/run_watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char verb[] = "watch";
static const rs_dur look_every_ns = RS_NS_PER_S / 2;
static const rs_dur mute_after_ns =
    30 * (rs_dur)RS_NS_PER_S; /* a run that tells no steps: say so */
enum { DAY_S = 86400, BUDGET_MAX = 1000 };

struct options {
    const char *connect, *run, *ranks, *out_dir, *raw;
    int64_t steps, per_day, alarms;
    double longer_by;
    rs_dur cool_down_ns;
    struct rs_probe_rules probes;
    bool as_json, is_quiet, must_not_capture, has_no_probes;
};

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

static void put_text(struct rs_json_out *json, const char *key, const char *text)
{
    rs_json_out_key(json, key);
    if (text && *text)
        rs_json_out_string(json, text);
    else
        rs_json_out_null(json);
}

static void put_int(struct rs_json_out *json, const char *key, int64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_int(json, value);
}

/* Steps that were probed have no numbers. */
static void put_step(struct rs_json_out *json, const char *key, int64_t step)
{
    rs_json_out_key(json, key);
    if (step < 0)
        rs_json_out_null(json);
    else
        rs_json_out_int(json, step);
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
    put_text(&json, "event", "regression");
    put_text(&json, "run", watching->run);
    put_int(&json, "before_ns", is_of_ranks ? first->before_ns : alarm->steps.before_ns);
    put_int(&json, "now_ns", is_of_ranks ? first->now_ns : alarm->steps.now_ns);
    put_step(&json, "first_step", is_of_ranks ? first->first_step : alarm->steps.first_step);
    put_step(&json, "last_step", is_of_ranks ? first->last_step : alarm->steps.last_step);
    rs_json_out_key(&json, "why");
    rs_run_alarm_put(alarm, &json);
    put_text(&json, "ranks", *alarm->chosen ? alarm->chosen : "all");
    put_text(&json, "capture", capture);
    rs_json_out_key(&json, "exit");
    if (*capture)
        rs_json_out_int(&json, watching->code);
    else
        rs_json_out_null(&json);
    put_text(&json, "not_captured_because", why_not);
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
        const struct capture_words words = {.connect = options->connect,
                                            .run = watching->run,
                                            .ranks = options->ranks   ? options->ranks
                                                     : *alarm->chosen ? alarm->chosen
                                                                      : NULL,
                                            .sets = {.items = {rs_buf_text(&reason)}, .count = 1},
                                            .steps = options->steps,
                                            .out_dir = options->out_dir,
                                            .raw = options->raw,
                                            .on_busy = "refuse",
                                            .is_quiet = options->as_json || options->is_quiet,
                                            .fail_above = -1};
        watching->code = rs_capture_start(&words, id);
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

/* False: Ctrl-C. The signals are blocked by the first question. */
static bool pause_for(rs_dur length)
{
    const struct timespec time = {.tv_nsec = (long)length};
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return sigtimedwait(&signals, NULL, &time) < 0;
}

/* RS_CANCELLED: Ctrl-C; else a probe that comes to nothing is told once, and made again later. */
static enum rs_status probe_once(struct watching *watching)
{
    const struct options *options = watching->options;
    const struct watch_probe how = {.connect = options->connect,
                                    .address = &watching->address,
                                    .run = watching->run,
                                    .rules = options->probes,
                                    .above = 1 + options->longer_by};
    struct rs_run_alarm alarm;
    struct rs_err err = {0};
    const enum rs_status status = watch_probe_make(&how, &watching->probe, &alarm, &err);
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
        if (status >= 0 && !pause_for(look_every_ns))
            status = RS_CANCELLED;
    }
    return status == RS_CANCELLED ? RS_EXIT_INTERRUPTED : rs_cli_fail(verb, &err);
}

static struct options words; /* what the command line says */

static const struct rs_arg items[] = {
    {.name = "longer-by",
     .kind = RS_ARG_PERCENT,
     .target = &words.longer_by,
     .value = "P",
     .help = "steps that take so much longer than before are an alarm (default 15%)"},
    {.name = "ranks",
     .letter = 'r',
     .kind = RS_ARG_TEXT,
     .target = &words.ranks,
     .value = "EXPR",
     .help =
         "capture these: 0,3-7, node=n12, tp=0 (default: who is suspected and a healthy rank each; all "
         "when nobody is)"},
    {.name = "steps",
     .kind = RS_ARG_INT,
     .target = &words.steps,
     .value = "N",
     .min = 1,
     .max = 1000,
     .help = "of each capture (default 5)"},
    {.name = "cool-down",
     .kind = RS_ARG_DURATION,
     .target = &words.cool_down_ns,
     .value = "D",
     .help = "after a capture, the next one not before (default 10m)"},
    {.name = "per-day",
     .kind = RS_ARG_INT,
     .target = &words.per_day,
     .value = "N",
     .min = 1,
     .max = BUDGET_MAX,
     .help = "captures in 24 hours (default 10)"},
    {.name = "alarms",
     .kind = RS_ARG_INT,
     .target = &words.alarms,
     .value = "N",
     .min = 1,
     .max = INT32_MAX,
     .help = "end after so many (default: go on until Ctrl-C)"},
    {.name = "no-capture",
     .kind = RS_ARG_FLAG,
     .target = &words.must_not_capture,
     .help = "only tell: nothing is captured, no probes either"},
    {.name = "no-probes",
     .kind = RS_ARG_FLAG,
     .target = &words.has_no_probes,
     .help =
         "record nothing of ranks that tell no steps (PyTorch, torch_npu, MindSpore): nothing is noticed of them then"},
    {.name = "probe-every",
     .kind = RS_ARG_DURATION,
     .target = &words.probes.every_ns,
     .value = "D",
     .help = "probe them not more often than that (default 1m: 60 an hour at most)"},
    {.name = "probe-share",
     .kind = RS_ARG_PERCENT,
     .target = &words.probes.share,
     .value = "P",
     .help =
         "and so rarely that they record and write for no more than this part of the time (default 1%)"},
    {.name = "raw",
     .kind = RS_ARG_TEXT,
     .target = &words.raw,
     .value = "WHOSE",
     .help = "raw data that is sent: all (default), none, or of ranks EXPR"},
    {.name = "out",
     .letter = 'o',
     .kind = RS_ARG_TEXT,
     .target = &words.out_dir,
     .value = "DIR",
     .help = "write the deliverables of the last capture into DIR"},
    RS_CLI_CONNECT_ARGS(&words.connect),
    {.name = "json",
     .kind = RS_ARG_FLAG,
     .target = &words.as_json,
     .help = "print a JSON document a line for each alarm, instead of reports"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &words.is_quiet,
     .help = "print no reports and no progress, only alarms on stderr"},
};

static const struct rs_args args = {
    .verb = verb,
    .operands = "[RUN]",
    .summary =
        "Waits until the steps of a run, or a rank's own work in them, take longer than before and "
        "keep doing so; then it captures some steps, and the report says who is the cause. Programs that call "
        "librankscope pay nothing until then: it reads what collectors tell of ranks anyway. Others are probed: at most "
        "eight of their ranks record four steps, once a minute at most, for at most 1% of the time.",
    .items = items,
    .count = sizeof items / sizeof items[0],
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

int rs_cmd_watch(int argc, char **argv)
{
    words = (struct options){.steps = 5,
                             .per_day = 10,
                             .longer_by = 0.15,
                             .cool_down_ns = 600 * (rs_dur)RS_NS_PER_S,
                             .probes = {.every_ns = 60 * (rs_dur)RS_NS_PER_S, .share = 0.01}};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first + 1 < argc)
        status = rs_err_set(&err, RS_INVALID, "\"%s\" is not expected here", argv[first + 1]);
    if (status == RS_OK && words.longer_by <= 0)
        status = rs_err_set(&err, RS_INVALID, "--longer-by is more than 0%%");
    if (status == RS_OK && (words.probes.share <= 0 || words.probes.share >= 1))
        status = rs_err_set(&err, RS_INVALID, "--probe-share is more than 0%% and less than 100%%");
    if (status == RS_OK && words.probes.every_ns <= 0)
        status = rs_err_set(&err, RS_INVALID, "--probe-every is more than 0");
    if (status < 0)
        return rs_cli_fail(verb, &err);
    words.run = first < argc ? argv[first] : NULL;
    return watch(&words);
}
