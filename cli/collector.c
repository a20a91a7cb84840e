/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope collector`: one per node. Sources pour into the spool, the uplink drains it.
 *
 * This file puts the rooms together. The main thread is the uplink's; collect.h says who else is there.
 */
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/collect.h"
#include "cli/config_watch.h"
#include "cli/daemon.h"
#include "cli/place.h"
#include "cli/tracedir.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct settings {
    const char *connect, *spool, *watch, *socket, *run, *rank_map, *node;
    const char *kineto_socket_dir, *trace_dir, *profiler_config;
    struct rs_arg_list rank_from;
    int64_t settle_ns, spool_bytes, drain_ns;
    bool must_discard, is_verbose, is_quiet, has_no_native;
    bool must_kineto, has_no_kineto;
    const char *msmonitor_home;
    char spool_default[RS_PLACE_BYTES], socket_default[RS_PLACE_BYTES], host[256];
    char trace_default[RS_TRACEDIR_BYTES];
};

struct collector {
    const struct settings *settings;
    struct rs_address address;
    struct rs_loop *loop;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    struct rs_collect_native *native;
    struct rs_collect_kineto *kineto;
    struct rs_collect_watch *watch;
    struct rs_config_watch *config_watch;
    Rankscope__RankState **states; /* of all ranks, for the uplink */
    size_t state_capacity;
};

static enum rs_status parse(struct settings *settings, int argc, char **argv, struct rs_err *err)
{
    const struct rs_arg items[] = {
        {.name = "connect",
         .letter = 'c',
         .kind = RS_ARG_TEXT,
         .target = &settings->connect,
         .value = "ADDR",
         .environment = "RANKSCOPE_CONNECT",
         .help =
             "the aggregator: unix:PATH or HOST:PORT on this machine (default: its default socket)"},
        {.name = "spool",
         .letter = 's',
         .kind = RS_ARG_TEXT,
         .target = &settings->spool,
         .value = "DIR",
         .environment = "RANKSCOPE_SPOOL",
         .help =
             "where chunks wait until they are acknowledged (default: spool in the data folder)"},
        {.name = "spool-bytes",
         .kind = RS_ARG_SIZE,
         .target = &settings->spool_bytes,
         .value = "SIZE",
         .help = "its budget on disk (default 1GiB)"},
        {.name = "watch",
         .letter = 'w',
         .kind = RS_ARG_TEXT,
         .target = &settings->watch,
         .value = "DIR",
         .help =
             "take the Kineto traces and Ascend results in DIR, those there and those that appear"},
        {.name = "settle",
         .kind = RS_ARG_DURATION,
         .target = &settings->settle_ns,
         .value = "TIME",
         .help = "--watch: a capture is over when nothing came for so long (default 5s)"},
        {.name = "rank-map",
         .kind = RS_ARG_TEXT,
         .target = &settings->rank_map,
         .value = "FILE",
         .help = "--watch: JSON object, file name -> rank, or null for a file that is no rank"},
        {.name = "rank-from",
         .kind = RS_ARG_LIST,
         .target = &settings->rank_from,
         .value = "PATTERN",
         .help =
             "--watch: text before the rank in a file name; a '*' says where the number stands"},
        {.name = "discard-raw",
         .kind = RS_ARG_FLAG,
         .target = &settings->must_discard,
         .help = "--watch: remove a trace file once all its chunks are stored (default: keep it)"},
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &settings->run,
         .value = "NAME",
         .environment = "RANKSCOPE_RUN",
         .help = "name of the run of files (default: their folder's name), and of processes that "
                 "name none"},
        {.name = "node",
         .kind = RS_ARG_TEXT,
         .target = &settings->node,
         .value = "NAME",
         .help = "name of this node (default: its host name)"},
        {.name = "socket",
         .kind = RS_ARG_TEXT,
         .target = &settings->socket,
         .value = "PATH",
         .help = "where librankscope's processes come (default: collector.sock in the runtime "
                 "directory)"},
        {.name = "no-native",
         .kind = RS_ARG_FLAG,
         .target = &settings->has_no_native,
         .help = "do not listen for librankscope's processes"},
        {.name = "kineto",
         .kind = RS_ARG_FLAG,
         .target = &settings->must_kineto,
         .help =
             "stop (exit 3) when PyTorch's profiler socket is served by another daemon (default: "
             "warn and go on without)"},
        {.name = "no-kineto",
         .kind = RS_ARG_FLAG,
         .target = &settings->has_no_kineto,
         .help = "do not answer PyTorch processes"},
        {.name = "kineto-socket-dir",
         .kind = RS_ARG_TEXT,
         .target = &settings->kineto_socket_dir,
         .value = "DIR",
         .environment = "KINETO_IPC_SOCKET_DIR",
         .help =
             "answer them on a socket file in DIR; their KINETO_IPC_SOCKET_DIR must be the same"},
        {.name = "msmonitor-home",
         .kind = RS_ARG_TEXT,
         .target = &settings->msmonitor_home,
         .value = "DIR",
         .help =
             "answer msMonitor's clients (torch_npu, MindSpore) at DIR/dynolog.sock, where DIR is "
             "the home of the training user; not beside a real msMonitor daemon (default: do not)"},
        {.name = "trace-dir",
         .kind = RS_ARG_TEXT,
         .target = &settings->trace_dir,
         .value = "DIR",
         .environment = "RANKSCOPE_TRACE_DIR",
         .help = "where they write traces until they are packed: a local disk, below /tmp or their "
                 "KINETO_ONDEMAND_TRACE_DIR (default /tmp/rankscope-traces-UID)"},
        {.name = "profiler-config",
         .kind = RS_ARG_TEXT,
         .target = &settings->profiler_config,
         .value = "DIR",
         .environment = "RANKSCOPE_PROFILER_CONFIG",
         .help =
             "every edit of DIR/profiler_config.json starts the capture that it describes, on the ranks of "
             "--run if it is given; the version that is there at start does not"},
        {.name = "drain",
         .kind = RS_ARG_DURATION,
         .target = &settings->drain_ns,
         .value = "TIME",
         .help = "how long SIGTERM goes on sending what is in the spool (default 2s); what is left "
                 "waits for the next start"},
        {.name = "verbose",
         .letter = 'v',
         .kind = RS_ARG_FLAG,
         .target = &settings->is_verbose,
         .help = "log files and captures coming and going"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &settings->is_quiet,
         .help = "log errors only"},
    };
    const struct rs_args args = {
        .verb = "collector",
        .operands = "",
        .summary =
            "Collects the profiles of this node's ranks and sends them to the aggregator: "
            "processes that carry librankscope, unmodified PyTorch processes started with "
            "`rankscope run`, and trace files that appear. What is not "
            "acknowledged survives a crash of either side; the training process never waits.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope collector --connect 127.0.0.1:7070 --spool /var/spool/rankscope\n"
            "  rankscope collector --watch ./traces --rank-map ranks.json --run r1\n"
            "\n"
            "Without TLS, which does not exist yet, the aggregator must be on this machine.\n"};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, err);
    if (status == RS_OK && first < argc)
        status = rs_err_set(err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    if (status == RS_OK && settings->must_kineto && settings->has_no_kineto)
        status = rs_err_set(err, RS_INVALID, "--kineto and --no-kineto exclude each other");
    if (status == RS_OK && settings->settle_ns <= 0)
        status = rs_err_set(err, RS_INVALID, "--settle must be longer than nothing");
    if (status == RS_OK && settings->watch &&
        rs_wire_check_text(settings->run ? settings->run : "", RS_WIRE_TEXT_MAX_BYTES, "--run",
                           err) < 0)
        status = RS_INVALID;
    return status;
}

static enum rs_status fill_defaults(struct settings *settings, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (gethostname(settings->host, sizeof settings->host - 1) < 0)
        (void)snprintf(settings->host, sizeof settings->host, "localhost");
    if (!settings->node)
        settings->node = settings->host;
    if (!settings->trace_dir) {
        rs_tracedir_default(settings->trace_default);
        settings->trace_dir = settings->trace_default;
    }
    if (!settings->spool) {
        char data[RS_PLACE_BYTES];
        status = rs_place_data(data, err);
        (void)snprintf(settings->spool_default, sizeof settings->spool_default, "%.4000s/spool",
                       data);
        settings->spool = settings->spool_default;
    }
    if (status == RS_OK && !settings->socket && !settings->has_no_native) {
        status = rs_place_collector(settings->socket_default, true, err);
        settings->socket = settings->socket_default;
    }
    return status;
}

/* ---- what the uplink asks --------------------------------------------------------------------------------- */

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct collector *collector = self;
    return rs_grpc_connect(collector->loop, &collector->address, RS_WIRE_METHOD_STREAM, user,
                           user_self, link_p, err);
}

static size_t give_ranks(void *self, Rankscope__RankState ***states_p)
{
    struct collector *collector = self;
    Rankscope__RankState **native = NULL;
    Rankscope__RankState **kineto = NULL;
    const size_t native_count =
        collector->native ? rs_collect_native_ranks(collector->native, &native) : 0;
    const size_t kineto_count =
        collector->kineto ? rs_collect_kineto_ranks(collector->kineto, &kineto) : 0;
    *states_p = NULL;
    if (rs_mem_grow((void **)&collector->states, &collector->state_capacity,
                    native_count + kineto_count + 1, sizeof(Rankscope__RankState *)) < 0)
        return 0;
    for (size_t i = 0; i < native_count; i++)
        collector->states[i] = native[i];
    for (size_t i = 0; i < kineto_count; i++)
        collector->states[native_count + i] = kineto[i];
    *states_p = collector->states;
    return native_count + kineto_count;
}

static void on_prepare(void *self, const Rankscope__Prepare *prepare)
{
    struct collector *collector = self;
    if (prepare->kind == RS_RANK_KINETO && collector->kineto)
        rs_collect_kineto_prepare(collector->kineto, prepare);
    else if (prepare->kind == RS_RANK_NATIVE && collector->native)
        rs_collect_native_prepare(collector->native, prepare);
}

static void on_commit(void *self, const Rankscope__Commit *commit)
{
    struct collector *collector = self;
    if (commit->kind == RS_RANK_KINETO && collector->kineto)
        rs_collect_kineto_commit(collector->kineto, commit);
    else if (commit->kind == RS_RANK_NATIVE && collector->native)
        rs_collect_native_commit(collector->native, commit);
}

static void on_cancel(void *self, const Rankscope__Cancel *cancel)
{
    struct collector *collector = self;
    if (collector->native)
        rs_collect_native_cancel(collector->native, cancel);
    if (collector->kineto)
        rs_collect_kineto_cancel(collector->kineto, cancel);
}

static void before_chunk(void *self)
{
    struct collector *collector = self;
    if (collector->native)
        rs_collect_native_letters(collector->native, collector->uplink);
    if (collector->kineto)
        rs_collect_kineto_letters(collector->kineto, collector->uplink);
}

static void wake_loop(void *self)
{
    rs_loop_wake(self);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Another daemon on the profiler's socket stops us only when its place was asked for. */
static enum rs_status start_kineto(struct collector *collector, struct rs_err *err)
{
    const struct settings *settings = collector->settings;
    const struct rs_collect_kineto_options options = {
        .spool = collector->spool,
        .socket_dir = settings->kineto_socket_dir && *settings->kineto_socket_dir
                          ? settings->kineto_socket_dir
                          : NULL,
        .msmonitor_home = settings->msmonitor_home,
        .trace_dir = settings->trace_dir,
        .spool_dir = settings->spool,
        .run = settings->run ? settings->run : "",
        .host = settings->host,
        .wake = wake_loop,
        .wake_self = collector->loop};
    struct rs_err failure = {0};
    const enum rs_status status = rs_collect_kineto_start(&options, &collector->kineto, &failure);
    if (status == RS_EXISTS && (settings->must_kineto || settings->msmonitor_home))
        return rs_err_set(err, RS_REFUSED, "%s", failure.text);
    if (status == RS_EXISTS) {
        rs_log_warn("PyTorch processes cannot be captured here: %s", failure.text);
        return RS_OK;
    }
    return status < 0 ? rs_err_set(err, status, "%s", failure.text) : RS_OK;
}

static enum rs_status start_sources(struct collector *collector, struct rs_err *err)
{
    const struct settings *settings = collector->settings;
    enum rs_status status = RS_OK;
    if (!settings->has_no_native) {
        const struct rs_collect_native_options options = {.spool = collector->spool,
                                                          .socket = settings->socket,
                                                          .run = settings->run ? settings->run : "",
                                                          .host = settings->host,
                                                          .wake = wake_loop,
                                                          .wake_self = collector->loop};
        status = rs_collect_native_start(&options, &collector->native, err);
    }
    if (status == RS_OK && !settings->has_no_kineto)
        status = start_kineto(collector, err);
    if (status == RS_OK && settings->watch) {
        const struct rs_collect_watch_options options = {.spool = collector->spool,
                                                         .spool_dir = settings->spool,
                                                         .dir = settings->watch,
                                                         .run = settings->run ? settings->run : "",
                                                         .host = settings->host,
                                                         .rank_map = settings->rank_map,
                                                         .rank_from = settings->rank_from.items,
                                                         .rank_from_count =
                                                             settings->rank_from.count,
                                                         .settle_ns = settings->settle_ns,
                                                         .must_discard = settings->must_discard};
        status = rs_collect_watch_start(&options, &collector->watch, err);
    }
    if (status == RS_OK && settings->profiler_config) {
        const struct rs_config_watch_options options = {.dir = settings->profiler_config,
                                                        .run = settings->run ? settings->run : "",
                                                        .address = &collector->address};
        status = rs_config_watch_start(&options, &collector->config_watch, err);
    }
    return status;
}

static void step(struct collector *collector, rs_dur wait)
{
    before_chunk(collector);
    rs_uplink_step(collector->uplink, rs_time_monotonic() + wait);
}

static void serve(struct collector *collector, struct rs_daemon *daemon)
{
    while (rs_daemon_stop_count(daemon) == 0)
        step(collector, RS_NS_PER_S);
    rs_config_watch_stop(&collector->config_watch);
    /* Sources first, so that what they end with is in the spool; then drain it, with a deadline. */
    rs_collect_watch_stop(&collector->watch);
    rs_collect_kineto_stop(&collector->kineto, collector->uplink);
    rs_collect_native_stop(&collector->native, collector->uplink);
    const rs_ns deadline = rs_time_monotonic() + collector->settings->drain_ns;
    while (rs_time_monotonic() < deadline && rs_daemon_stop_count(daemon) == 1 &&
           (rs_spool_stats(collector->spool).waiting_chunks ||
            rs_uplink_has_letters(collector->uplink)) &&
           rs_uplink_stats(collector->uplink).is_up)
        step(collector, RS_NS_PER_S / 20);
    const uint64_t left = rs_spool_stats(collector->spool).waiting_chunks;
    if (left)
        rs_log_warn("%llu chunks stay in the spool for the next start", (unsigned long long)left);
    rs_uplink_close(collector->uplink);
    const rs_ns hard = rs_time_monotonic() + 5 * (rs_dur)RS_NS_PER_S;
    while (!rs_uplink_is_closed(collector->uplink) && rs_time_monotonic() < hard)
        step(collector, RS_NS_PER_S / 20);
}

static enum rs_status run(const struct settings *settings, struct rs_daemon *daemon,
                          struct rs_err *err)
{
    struct collector collector = {.settings = settings};
    const struct rs_spool_options spool_options = {.budget_bytes = (uint64_t)settings->spool_bytes};
    enum rs_status status = rs_client_address(settings->connect, &collector.address, err);
    if (status == RS_OK)
        status = rs_spool_open(settings->spool, &spool_options, &collector.spool, err);
    if (status == RS_OK)
        status = rs_grpc_loop_new(&collector.loop, err);
    if (status == RS_OK) {
        const struct rs_uplink_options options = {.spool = collector.spool,
                                                  .loop = collector.loop,
                                                  .connect = connect_link,
                                                  .connect_self = &collector,
                                                  .node = settings->node,
                                                  .ranks = give_ranks,
                                                  .before_chunk = before_chunk,
                                                  .on_prepare = on_prepare,
                                                  .on_commit = on_commit,
                                                  .on_cancel = on_cancel,
                                                  .self = &collector};
        status = rs_uplink_new(&options, &collector.uplink, err);
    }
    if (status == RS_OK) {
        rs_spool_on_put(collector.spool, rs_uplink_wake, collector.uplink);
        status = start_sources(&collector, err);
    }
    if (status == RS_OK) {
        rs_daemon_on_signal(daemon, wake_loop, collector.loop);
        serve(&collector, daemon);
        rs_daemon_on_signal(daemon, NULL, NULL);
    }
    rs_config_watch_stop(&collector.config_watch);
    rs_collect_watch_stop(&collector.watch);
    rs_collect_kineto_stop(&collector.kineto, collector.uplink);
    rs_collect_native_stop(&collector.native, collector.uplink);
    if (collector.uplink && !rs_uplink_is_closed(collector.uplink)) {
        rs_uplink_close(collector.uplink);
        while (!rs_uplink_is_closed(collector.uplink))
            rs_uplink_step(collector.uplink, rs_time_monotonic() + RS_NS_PER_S / 20);
    }
    rs_uplink_free(&collector.uplink);
    rs_grpc_loop_free(&collector.loop);
    rs_spool_close(&collector.spool);
    rs_mem_free(collector.states);
    return status;
}

int rs_cmd_collector(int argc, char **argv)
{
    struct settings settings = {.settle_ns = 5 * (int64_t)RS_NS_PER_S,
                                .drain_ns = 2 * (int64_t)RS_NS_PER_S};
    struct rs_err err = {0};
    struct rs_daemon *daemon = NULL;
    enum rs_status status = parse(&settings, argc, argv, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK)
        status = fill_defaults(&settings, &err);
    if (settings.is_verbose)
        rs_log_set_level(RS_LOG_INFO);
    if (settings.is_quiet)
        rs_log_set_level(RS_LOG_ERROR);
    if (status == RS_OK) {
        (void)rs_grpc_raise_file_limit();
        status = rs_daemon_start(&daemon, &err);
    }
    if (status == RS_OK)
        status = run(&settings, daemon, &err);
    rs_daemon_end(&daemon);
    if (status < 0)
        return rs_cli_fail("collector", &err);
    return RS_EXIT_COMPLETE;
}
