/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope capture`: starts one and waits for it, or lists, shows, stops, waits.
 *
 * Progress goes to stderr, one line per change of a rank (redrawn in place on a terminal); the
 * report and facts go to stdout. Ctrl-C leaves the capture running and says how to come back.
 */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct request {
    const char *connect, *run, *ranks, *start_step, *out_dir;
    int64_t steps, duration_ns, roundup, timeout_ns;
    bool must_shapes, has_no_shapes, with_stack, profile_memory, is_forced;
    bool as_json, is_quiet, has_no_report;
    bool assume_common_clock;
    double fail_above;
};

/* What is remembered of the answers, the newest one whole. */
struct watch {
    const struct request *request;
    Rankscope__CaptureInfo *info; /* owned */
    char shown[256];              /* the progress line on the terminal now */
    char warned[512];             /* the last warning of a rank that was told */
    bool is_terminal;
    bool has_failed;
};

static char *lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text ? text : ""};
    return both.out;
}

/* ---- printing ------------------------------------------------------------------------------------------- */

static void time_text(rs_ns ns, char *text, size_t bytes)
{
    const time_t seconds = (time_t)(ns / RS_NS_PER_S);
    struct tm parts = {0};
    if (!ns || !gmtime_r(&seconds, &parts) || !strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &parts))
        (void)snprintf(text, bytes, "-");
}

static void json_info(struct rs_json_out *json, const Rankscope__CaptureInfo *info)
{
    rs_json_out_object(json);
    rs_json_out_key(json, "id");
    rs_json_out_string(json, info->id);
    rs_json_out_key(json, "run");
    rs_json_out_string(json, info->run);
    rs_json_out_key(json, "state");
    rs_json_out_string(json, rs_capture_state_text((enum rs_capture_state)info->state));
    rs_json_out_key(json, "source");
    rs_json_out_string(json, info->source);
    rs_json_out_key(json, "directory");
    rs_json_out_string(json, info->directory);
    rs_json_out_key(json, "created_ns");
    rs_json_out_int(json, info->created_ns);
    rs_json_out_key(json, "closed_ns");
    if (info->closed_ns)
        rs_json_out_int(json, info->closed_ns);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "start_step");
    if (info->start_step >= 0)
        rs_json_out_int(json, info->start_step);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "steps");
    if (info->steps)
        rs_json_out_int(json, info->steps);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "duration_ns");
    if (info->duration_ns)
        rs_json_out_int(json, info->duration_ns);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "start_time_ns");
    if (info->start_time_ns)
        rs_json_out_int(json, info->start_time_ns);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "roundup");
    if (info->roundup)
        rs_json_out_int(json, info->roundup);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "world");
    if (info->world)
        rs_json_out_int(json, info->world);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "reason");
    if (*info->reason)
        rs_json_out_string(json, info->reason);
    else
        rs_json_out_null(json);
    rs_json_out_key(json, "ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        rs_json_out_object(json);
        rs_json_out_key(json, "rank");
        rs_json_out_int(json, rank->rank);
        rs_json_out_key(json, "incarnation");
        rs_json_out_string(json, rank->incarnation);
        rs_json_out_key(json, "host");
        rs_json_out_string(json, rank->host);
        rs_json_out_key(json, "state");
        rs_json_out_string(json, rs_progress_state_text((enum rs_progress_state)rank->state));
        rs_json_out_key(json, "steps_done");
        rs_json_out_int(json, rank->steps_done);
        rs_json_out_key(json, "reason");
        if (*rank->text)
            rs_json_out_string(json, rank->text);
        else
            rs_json_out_null(json);
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
    rs_json_out_end(json);
}

static void print_info_json(const Rankscope__CaptureInfo *info)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    json_info(&json, info);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
}

static void print_info(const Rankscope__CaptureInfo *info)
{
    char created[32];
    char closed[32];
    time_text(info->created_ns, created, sizeof created);
    time_text(info->closed_ns, closed, sizeof closed);
    printf("capture    %s\n", info->id);
    printf("run        %.200s\n", info->run);
    printf("state      %s%s%.400s\n", rs_capture_state_text((enum rs_capture_state)info->state),
           *info->reason ? ": " : "", info->reason);
    printf("source     %.40s\n", info->source);
    if (info->steps && info->start_step >= 0)
        printf("steps      %u from step %" PRId64 "\n", info->steps, info->start_step);
    else if (info->steps)
        printf("steps      %u from a multiple of %u\n", info->steps, info->roundup);
    if (info->duration_ns)
        printf("duration   %" PRId64 ".%03" PRId64 " s\n", info->duration_ns / RS_NS_PER_S,
               info->duration_ns % RS_NS_PER_S / RS_NS_PER_MS);
    if (info->world)
        printf("world      %u\n", info->world);
    printf("created    %s\nclosed     %s\ndirectory  %s\n", created, closed, info->directory);
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        printf("rank %-5u %-9s %-16.40s %.60s%s%.300s\n", rank->rank,
               rs_progress_state_text((enum rs_progress_state)rank->state), rank->host,
               rank->incarnation, *rank->text ? "  " : "", rank->text);
    }
}

static void tell_ranks(const Rankscope__CaptureInfo *info)
{
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        if (rank->state > RS_PROGRESS_DONE)
            rs_cli_tell("capture", "rank %u is %s%s%s", rank->rank,
                        rs_progress_state_text((enum rs_progress_state)rank->state),
                        *rank->text ? ": " : "", rank->text);
    }
}

/* ---- progress -------------------------------------------------------------------------------------------- */

static void progress_line(const Rankscope__CaptureInfo *info, char *line, size_t bytes)
{
    size_t counts[RS_PROGRESS_COUNT] = {0};
    int64_t least = -1;
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        if (rank->state < RS_PROGRESS_COUNT)
            counts[rank->state]++;
        if (!rs_progress_is_final((enum rs_progress_state)rank->state) &&
            (least < 0 || rank->steps_done < least))
            least = rank->steps_done;
    }
    size_t used = (size_t)snprintf(line, bytes, "%s %s", info->id,
                                   rs_capture_state_text((enum rs_capture_state)info->state));
    if (info->start_step >= 0 && used < bytes)
        used +=
            (size_t)snprintf(line + used, bytes - used, " from step %" PRId64, info->start_step);
    for (size_t i = 0; i < RS_PROGRESS_COUNT && used < bytes; i++)
        if (counts[i])
            used += (size_t)snprintf(line + used, bytes - used, ", %zu %s", counts[i],
                                     rs_progress_state_text((enum rs_progress_state)i));
    const rs_dur until = info->start_time_ns - rs_time_realtime();
    if (counts[RS_PROGRESS_ARMED] + counts[RS_PROGRESS_DELIVERED] && used < bytes) {
        if (info->roundup && info->state == RS_CAPTURE_RECORDING)
            used += (size_t)snprintf(line + used, bytes - used,
                                     "; begins at a multiple of %u iterations", info->roundup);
        else if (info->start_time_ns && until > 0)
            used += (size_t)snprintf(line + used, bytes - used, "; begins in %" PRId64 " s",
                                     until / RS_NS_PER_S + 1);
    }
    if (info->steps && least > 0 && used < bytes)
        (void)snprintf(line + used, bytes - used, " (slowest %" PRId64 " of %u steps)", least,
                       info->steps);
}

/* What a rank wants to be known before it begins: it is armed, with a text. */
static void tell_warnings(struct watch *watch, const Rankscope__CaptureInfo *info)
{
    for (size_t i = 0; i < info->n_ranks; i++) {
        const Rankscope__CaptureRank *rank = info->ranks[i];
        if (rank->state != RS_PROGRESS_ARMED || !*rank->text ||
            strcmp(rank->text, watch->warned) == 0)
            continue;
        (void)snprintf(watch->warned, sizeof watch->warned, "%s", rank->text);
        rs_cli_tell("capture", "on %s: %s", rank->host, rank->text);
    }
}

static void show_progress(struct watch *watch, const Rankscope__CaptureInfo *info)
{
    char line[sizeof watch->shown];
    tell_warnings(watch, info);
    progress_line(info, line, sizeof line);
    if (watch->request->is_quiet || strcmp(line, watch->shown) == 0)
        return;
    if (watch->is_terminal)
        fprintf(stderr, "\r\033[K%s", line);
    else
        fprintf(stderr, "%s\n", line);
    (void)snprintf(watch->shown, sizeof watch->shown, "%s", line);
}

static void end_progress(struct watch *watch)
{
    if (watch->is_terminal && *watch->shown)
        fprintf(stderr, "\n");
    watch->shown[0] = '\0';
}

/* Keeps a copy: the letter is gone when the answer was handled. */
static bool keep_info(struct watch *watch, const Rankscope__CaptureInfo *info)
{
    const size_t bytes = rankscope__capture_info__get_packed_size(info);
    uint8_t *packed = rs_mem_calloc(bytes + 1, 1);
    Rankscope__CaptureInfo *copy = NULL;
    if (packed) {
        (void)rankscope__capture_info__pack(info, packed);
        copy = rankscope__capture_info__unpack(NULL, bytes, packed);
    }
    rs_mem_free(packed);
    if (watch->info)
        rankscope__capture_info__free_unpacked(watch->info, NULL);
    watch->info = copy;
    watch->has_failed = copy == NULL;
    return copy != NULL;
}

static bool on_progress(void *self, const Rankscope__Reply *reply)
{
    struct watch *watch = self;
    if (reply->letter_case != RANKSCOPE__REPLY__LETTER_CAPTURE || !keep_info(watch, reply->capture))
        return false;
    show_progress(watch, reply->capture);
    return true;
}

static bool on_info(void *self, const Rankscope__Reply *reply)
{
    struct watch *watch = self;
    if (reply->letter_case == RANKSCOPE__REPLY__LETTER_CAPTURE)
        (void)keep_info(watch, reply->capture);
    return false;
}

/* ---- the end of a capture ------------------------------------------------------------------------------- */

static int exit_of_info(const Rankscope__CaptureInfo *info)
{
    switch ((enum rs_capture_state)info->state) {
    case RS_CAPTURE_COMPLETE:
    case RS_CAPTURE_ARMING:
    case RS_CAPTURE_RECORDING:
    case RS_CAPTURE_COLLECTING:
    case RS_CAPTURE_QUEUED:
        return RS_EXIT_COMPLETE;
    case RS_CAPTURE_PARTIAL:
    case RS_CAPTURE_FAILED:
    case RS_CAPTURE_STATE_COUNT:
        return RS_EXIT_PARTIAL;
    }
    return RS_EXIT_PARTIAL;
}

static int finish(const struct request *request, const Rankscope__CaptureInfo *info)
{
    const int own = exit_of_info(info);
    tell_ranks(info);
    if (info->state == RS_CAPTURE_FAILED) {
        rs_cli_tell("capture", "capture %s failed: nothing was recorded", info->id);
        if (request->as_json)
            print_info_json(info);
        return own;
    }
    if (request->has_no_report) {
        if (request->as_json)
            print_info_json(info);
        else if (!request->is_quiet)
            print_info(info);
        return own;
    }
    const struct rs_report_options options = {.as_json = request->as_json,
                                              .is_quiet = request->is_quiet,
                                              .assume_common_clock = request->assume_common_clock,
                                              .fail_above = request->fail_above};
    const int code = rs_report_capture(info->directory, request->out_dir, &options);
    return code == RS_EXIT_COMPLETE ? own : code;
}

/* Waits with progress; what then. */
static int converse(const struct request *request, Rankscope__Ask *ask)
{
    struct watch watch = {.request = request, .is_terminal = isatty(STDERR_FILENO) != 0};
    struct rs_err err = {0};
    struct rs_address address;
    enum rs_status status = rs_client_address(request->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, ask, on_progress, &watch, &err);
    end_progress(&watch);
    if (status == RS_OK && !watch.info)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    int code = RS_EXIT_COMPLETE;
    if (status == RS_CANCELLED && watch.info) {
        rs_cli_tell("capture", "capture %s goes on; come back with: rankscope capture wait %s",
                    watch.info->id, watch.info->id);
        code = RS_EXIT_INTERRUPTED;
    } else if (status < 0) {
        code = rs_cli_fail("capture", &err);
        if (watch.info && status == RS_UNREACHABLE)
            rs_cli_tell("capture", "capture %s is not forgotten: rankscope capture wait %s",
                        watch.info->id, watch.info->id);
    } else {
        code = finish(request, watch.info);
    }
    if (watch.info)
        rankscope__capture_info__free_unpacked(watch.info, NULL);
    return code;
}

/* ---- verbs -------------------------------------------------------------------------------------------------- */

static int capture_start(const struct request *request)
{
    struct rs_err err = {0};
    Rankscope__AskStart start = RANKSCOPE__ASK_START__INIT;
    start.run = lend(request->run);
    start.ranks = lend(request->ranks ? request->ranks : "all");
    Rankscope__ProfilerOptions options = RANKSCOPE__PROFILER_OPTIONS__INIT;
    options.record_shapes = !request->has_no_shapes;
    options.with_stack = request->with_stack;
    options.profile_memory = request->profile_memory;
    options.force = request->is_forced;
    options.roundup = (uint32_t)request->roundup;
    options.timeout_ns = request->timeout_ns;
    start.options = &options;
    start.steps = (uint32_t)request->steps;
    start.duration_ns = request->duration_ns;
    if ((request->steps > 0) == (request->duration_ns > 0) ||
        (request->must_shapes && request->has_no_shapes)) {
        (void)rs_err_set(&err, RS_INVALID,
                         request->must_shapes && request->has_no_shapes
                             ? "--record-shapes and --no-record-shapes exclude each other"
                             : "give how many steps to record (--steps N), or how long "
                               "(--duration D)");
        return rs_cli_fail("capture", &err);
    }
    if (request->start_step && strcmp(request->start_step, "next") != 0) {
        int64_t step = 0;
        if (rs_args_int(request->start_step, 0, INT64_MAX, &step) < 0) {
            (void)rs_err_set(&err, RS_INVALID, "--start-step %.40s is neither a step nor \"next\"",
                             request->start_step);
            return rs_cli_fail("capture", &err);
        }
        start.has_start_step = true;
        start.start_step = step;
    }
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.letter_case = RANKSCOPE__ASK__LETTER_START;
    ask.start = &start;
    return converse(request, &ask);
}

static int capture_wait(const struct request *request, const char *id)
{
    Rankscope__AskCapture ask_capture = RANKSCOPE__ASK_CAPTURE__INIT;
    ask_capture.id = lend(id);
    ask_capture.follow = true;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.letter_case = RANKSCOPE__ASK__LETTER_CAPTURE;
    ask.capture = &ask_capture;
    return converse(request, &ask);
}

static int ask_once(const struct request *request, Rankscope__Ask *ask)
{
    struct watch watch = {.request = request};
    struct rs_err err = {0};
    struct rs_address address;
    enum rs_status status = rs_client_address(request->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, ask, on_info, &watch, &err);
    if (status == RS_OK && !watch.info)
        status = rs_err_set(&err, RS_UNREACHABLE, "the aggregator did not tell of the capture");
    if (status < 0)
        return rs_cli_fail("capture", &err);
    if (request->as_json)
        print_info_json(watch.info);
    else if (!request->is_quiet)
        print_info(watch.info);
    const int code = exit_of_info(watch.info);
    rankscope__capture_info__free_unpacked(watch.info, NULL);
    return code;
}

static int capture_show(const struct request *request, const char *id)
{
    Rankscope__AskCapture ask_capture = RANKSCOPE__ASK_CAPTURE__INIT;
    ask_capture.id = lend(id);
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.letter_case = RANKSCOPE__ASK__LETTER_CAPTURE;
    ask.capture = &ask_capture;
    return ask_once(request, &ask);
}

static int capture_stop(const struct request *request, const char *id)
{
    Rankscope__AskStop ask_stop = RANKSCOPE__ASK_STOP__INIT;
    ask_stop.id = lend(id);
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.letter_case = RANKSCOPE__ASK__LETTER_STOP;
    ask.stop = &ask_stop;
    return ask_once(request, &ask);
}

static void print_list(const Rankscope__CaptureList *list)
{
    if (list->n_captures == 0) {
        printf("no capture\n");
        return;
    }
    printf("%-24s %-20s %-10s %-7s %5s %6s  %s\n", "ID", "RUN", "STATE", "SOURCE", "RANKS", "STEPS",
           "CREATED");
    for (size_t i = 0; i < list->n_captures; i++) {
        const Rankscope__CaptureInfo *info = list->captures[i];
        char created[32];
        char steps[16] = "-";
        time_text(info->created_ns, created, sizeof created);
        if (info->steps)
            (void)snprintf(steps, sizeof steps, "%u", info->steps);
        printf("%-24s %-20.40s %-10s %-7.10s %5zu %6s  %s\n", info->id, info->run,
               rs_capture_state_text((enum rs_capture_state)info->state), info->source,
               info->n_ranks, steps, created);
    }
}

static bool on_list(void *self, const Rankscope__Reply *reply)
{
    const struct request *request = self;
    if (reply->letter_case != RANKSCOPE__REPLY__LETTER_LIST)
        return false;
    if (!request->as_json) {
        if (!request->is_quiet)
            print_list(reply->list);
        return false;
    }
    struct rs_buf buf = {0};
    struct rs_json_out json;
    rs_json_out_init(&json, &buf, 2);
    rs_json_out_object(&json);
    rs_json_out_key(&json, "schema_version");
    rs_json_out_int(&json, 1);
    rs_json_out_key(&json, "captures");
    rs_json_out_array(&json);
    for (size_t i = 0; i < reply->list->n_captures; i++)
        json_info(&json, reply->list->captures[i]);
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    printf("%s\n", rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return false;
}

static int capture_list(struct request *request)
{
    struct rs_err err = {0};
    struct rs_address address;
    Rankscope__AskList ask_list = RANKSCOPE__ASK_LIST__INIT;
    ask_list.run = lend(request->run);
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    ask.letter_case = RANKSCOPE__ASK__LETTER_LIST;
    ask.list = &ask_list;
    enum rs_status status = rs_client_address(request->connect, &address, &err);
    if (status == RS_OK)
        status = rs_client_ask(&address, &ask, on_list, request, &err);
    return status < 0 ? rs_cli_fail("capture", &err) : RS_EXIT_COMPLETE;
}

static int run_word(struct request *request, int count, char **words, struct rs_err *err)
{
    static const char *const one[] = {"show", "stop", "wait"};
    static int (*const verbs[])(const struct request *request,
                                const char *id) = {capture_show, capture_stop, capture_wait};
    if (count == 0)
        return capture_start(request);
    if (strcmp(words[0], "list") == 0 && count == 1)
        return capture_list(request);
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++)
        if (strcmp(words[0], one[i]) == 0 && count == 2)
            return verbs[i](request, words[1]);
    (void)rs_err_set(err, RS_INVALID,
                     "expected nothing, \"list\", or \"show\", \"stop\" or \"wait\" with an ID");
    return rs_cli_fail("capture", err);
}

int rs_cmd_capture(int argc, char **argv)
{
    struct request request = {.fail_above = -1};
    const struct rs_arg items[] = {
        {.name = "steps",
         .letter = 'n',
         .kind = RS_ARG_INT,
         .target = &request.steps,
         .value = "N",
         .min = 1,
         .max = 1000000,
         .help = "record N steps"},
        {.name = "duration",
         .kind = RS_ARG_DURATION,
         .target = &request.duration_ns,
         .value = "D",
         .help = "record for so long (200ms, 2s) from one instant on, instead of steps"},
        {.name = "roundup",
         .kind = RS_ARG_INT,
         .target = &request.roundup,
         .value = "R",
         .min = 1,
         .max = 1000000,
         .help =
             "PyTorch ranks begin at the next multiple of R iterations; R iterations must take much "
             "longer than their profilers' asking, 5 s (default: about 10 s by the step time of an earlier "
             "capture, else 500)"},
        {.name = "record-shapes",
         .kind = RS_ARG_FLAG,
         .target = &request.must_shapes,
         .help =
             "record shapes of tensors; without them gloo's operations have no bytes (this is the "
             "default)"},
        {.name = "no-record-shapes",
         .kind = RS_ARG_FLAG,
         .target = &request.has_no_shapes,
         .help = "do not"},
        {.name = "with-stack",
         .kind = RS_ARG_FLAG,
         .target = &request.with_stack,
         .help = "record Python stacks (dear)"},
        {.name = "profile-memory",
         .kind = RS_ARG_FLAG,
         .target = &request.profile_memory,
         .help = "record allocations (dear)"},
        {.name = "timeout",
         .kind = RS_ARG_DURATION,
         .target = &request.timeout_ns,
         .value = "D",
         .help =
             "give a rank up when it is not complete by then (default, of a PyTorch rank: 10m, less "
             "when the step time is known; of a native rank: a minute without a sign of life)"},
        {.name = "force",
         .kind = RS_ARG_FLAG,
         .target = &request.is_forced,
         .help =
             "although space is short, traces go over a network, or the time is longer than 5m"},
        {.name = "start-step",
         .kind = RS_ARG_TEXT,
         .target = &request.start_step,
         .value = "S",
         .help =
             "first step to record, or \"next\" (default): the soonest that every rank can make"},
        {.name = "ranks",
         .letter = 'r',
         .kind = RS_ARG_TEXT,
         .target = &request.ranks,
         .value = "EXPR",
         .help = "\"all\" (default), or numbers and ranges: 0,3-7"},
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &request.run,
         .value = "NAME",
         .help = "which run; needed when there are several"},
        {.name = "out",
         .letter = 'o',
         .kind = RS_ARG_TEXT,
         .target = &request.out_dir,
         .value = "DIR",
         .help = "also write the deliverables into DIR"},
        {.name = "connect",
         .letter = 'c',
         .kind = RS_ARG_TEXT,
         .target = &request.connect,
         .value = "ADDR",
         .environment = "RANKSCOPE_CONNECT",
         .help = "the aggregator: unix:PATH or HOST:PORT (default: its default socket)"},
        {.name = "assume-common-clock",
         .kind = RS_ARG_FLAG,
         .target = &request.assume_common_clock,
         .help = "compare times of different hosts as they stand (told in the report)"},
        {.name = "fail-above",
         .kind = RS_ARG_PERCENT,
         .target = &request.fail_above,
         .value = "SHARE",
         .help = "exit 5 when a finding costs more than this share of a step"},
        {.name = "no-report",
         .kind = RS_ARG_FLAG,
         .target = &request.has_no_report,
         .help = "print the facts of the capture instead of its report"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &request.as_json,
         .help = "print JSON; unknown is null"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &request.is_quiet,
         .help = "print nothing but errors"},
    };
    const struct rs_args args = {
        .verb = "capture",
        .operands = "[list | show ID | stop ID | wait ID]",
        .summary =
            "Records N steps, or for a time, on the chosen ranks of a running job: every rank begins at "
            "the same step, or instant. Waits with progress, then prints the report.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope capture --steps 5\n"
            "  rankscope capture --run r1 --ranks 0,3-7 --steps 10 --start-step 500 -o out\n"
            "  rankscope capture --ranks 1,3 --duration 500ms\n"
            "  rankscope capture list\n"
            "  rankscope capture wait 20260102-030405-a1b2c3 -o out\n"
            "\n"
            "Ctrl-C leaves the capture running. stop ends it at the next step boundary; what is\n"
            "recorded stays; a PyTorch process that took the request already cannot be called back. Exit: 0 complete, 1 partial (ranks missing are named), 2 bad\n"
            "request, 3 refused, 4 no aggregator answers, 5 --fail-above, 130 interrupted.\n"};
    struct rs_err err = {0};
    int first = 0;
    const enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status < 0)
        return rs_cli_fail("capture", &err);
    return run_word(&request, argc - first, argv + first, &err);
}
