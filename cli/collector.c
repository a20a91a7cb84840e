/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope collector`: the options of the daemon, one per node. The daemon itself is collector/agent.
 */
#include "cli/cli.h"
#include "cli/options/args.h"
#include "collector/agent/agent.h"
#include "collector/agent/tracedir.h"
#include "common/base/paths.h"
#include "common/client/client.h"
#include "common/reduce/classes.h"
#include "common/wire/wire.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTIONS_MAX = 64 };

/* What the command line says; the daemon's options lend from here, so it stays where it is. */
struct collector_settings {
    struct rs_agent_options agent;
    struct rs_arg_list rank_from, ascend_dirs, mindspore_dirs;
    bool is_verbose, is_quiet;
    const char *log_format, *classes;
    char spool_default[RS_PATHS_BYTES], socket_default[RS_PATHS_BYTES], host[256];
    char trace_default[RS_TRACEDIR_BYTES], certs_default[RS_PATHS_BYTES];
};

/* The options of one kind, behind those that are there. */
struct options {
    struct rs_arg items[OPTIONS_MAX];
    size_t count;
};

static void add(struct options *options, const struct rs_arg *items, size_t count)
{
    for (size_t i = 0; i < count && options->count < OPTIONS_MAX; i++)
        options->items[options->count++] = items[i];
}

/* The daemon itself */
static void add_general(struct options *options, struct collector_settings *settings)
{
    const struct rs_arg items[] = {
        RS_CLI_CONNECT_ARGS(&settings->agent.connect),
        {.name = "spool",
         .letter = 's',
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.spool,
         .value = "DIR",
         .environment = "RANKSCOPE_SPOOL",
         .help =
             "where chunks wait until they are acknowledged (default: spool in the data folder)"},
        {.name = "spool-bytes",
         .kind = RS_ARG_SIZE,
         .target = &settings->agent.spool_bytes,
         .value = "SIZE",
         .help = "its budget on disk (default 1GiB)"},
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.run,
         .value = "NAME",
         .environment = "RANKSCOPE_RUN",
         .help = "name of the run of files (default: their folder's name), and of processes that "
                 "name none"},
        {.name = "node",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.node,
         .value = "NAME",
         .help = "name of this node (default: the one of its certificate, else its host name)"},
        {.name = "join",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.join,
         .value = "HOST:PORT",
         .environment = "RANKSCOPE_JOIN",
         .help =
             "where the aggregator takes nodes in (its --join): with --invite, get a certificate there "
             "unless there is one in --certs, and keep the address to send to beside it"},
        {.name = "invite",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.invite,
         .value = "INVITE",
         .environment = "RANKSCOPE_INVITE",
         .help = "what rankscope certs invite printed, or a file that holds it"},
        {.name = "raw-keep",
         .kind = RS_ARG_DURATION,
         .target = &settings->agent.raw_keep_ns,
         .value = "TIME",
         .help =
             "how long raw data stays that no capture asked for yet (default 24h); the oldest goes "
             "sooner when its room is needed"},
        {.name = "drain",
         .kind = RS_ARG_DURATION,
         .target = &settings->agent.drain_ns,
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
        {.name = "log-format",
         .kind = RS_ARG_TEXT,
         .target = &settings->log_format,
         .value = "FORM",
         .environment = "RANKSCOPE_LOG_FORMAT",
         .help =
             "text, json (an object a line) or journal (levels as systemd reads them); default: journal when "
             "stderr is the journal's, else text"},
    };
    add(options, items, sizeof items / sizeof items[0]);
}

/* What it counts, for who asks it directly */
static void add_metrics(struct options *options, struct collector_settings *settings)
{
    const struct rs_arg items[] = {
        {.name = "metrics",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.metrics,
         .value = "HOST:PORT",
         .environment = "RANKSCOPE_METRICS",
         .help = "serve what this collector counts there, at /metrics, for a Prometheus that asks "
                 "every node (default: do not; the aggregator tells of all of them)"},
        {.name = "metrics-certs",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.metrics_certs,
         .value = "DIR",
         .environment = "RANKSCOPE_METRICS_CERTS",
         .help = "over HTTPS, with the certificate in DIR (rankscope certs issue node NAME --host "
                 "HOST); who asks shows a viewer's or an operator's"},
        {.name = "metrics-insecure-loopback",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.has_insecure_metrics,
         .help = "as plain text, on 127.0.0.1 or ::1 only"},
    };
    add(options, items, sizeof items / sizeof items[0]);
}

/* Files, and where results wait */
static void add_files(struct options *options, struct collector_settings *settings)
{
    const struct rs_arg items[] = {
        RS_CLI_CLASSES_ARG(&settings->classes),
        {.name = "watch",
         .letter = 'w',
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.watch,
         .value = "DIR",
         .help =
             "take the Kineto traces and Ascend results in DIR, those there and those that appear"},
        {.name = "settle",
         .kind = RS_ARG_DURATION,
         .target = &settings->agent.settle_ns,
         .value = "TIME",
         .help = "--watch: a capture is over when nothing came for so long (default 5s)"},
        {.name = "rank-map",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.rank_map,
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
         .target = &settings->agent.must_discard,
         .help = "--watch: remove a trace file once all its chunks are stored (default: keep it)"},
        {.name = "trace-dir",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.trace_dir,
         .value = "DIR",
         .environment = "RANKSCOPE_TRACE_DIR",
         .help = "where they write traces until they are packed: a local disk, below /tmp or their "
                 "KINETO_ONDEMAND_TRACE_DIR (default /tmp/rankscope-traces-UID)"},
    };
    add(options, items, sizeof items / sizeof items[0]);
}

/* Processes that can be told */
static void add_live(struct options *options, struct collector_settings *settings)
{
    const struct rs_arg items[] = {
        {.name = "socket",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.socket,
         .value = "PATH",
         .help = "where librankscope's processes come (default: collector.sock in the runtime "
                 "directory)"},
        {.name = "no-native",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.has_no_native,
         .help = "do not listen for librankscope's processes"},
        {.name = "kineto",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.must_kineto,
         .help =
             "stop (exit 3) when PyTorch's profiler socket is served by another daemon (default: "
             "warn and go on without)"},
        {.name = "no-kineto",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.has_no_kineto,
         .help = "do not answer PyTorch processes"},
        {.name = "kineto-socket-dir",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.kineto_socket_dir,
         .value = "DIR",
         .environment = "KINETO_IPC_SOCKET_DIR",
         .help =
             "answer them on a socket file in DIR; their KINETO_IPC_SOCKET_DIR must be the same"},
        {.name = "msmonitor-home",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.msmonitor_home,
         .value = "DIR",
         .help =
             "answer msMonitor's clients (torch_npu, MindSpore) at DIR/dynolog.sock, where DIR is "
             "the home of the training user; not beside a real msMonitor daemon (default: do not)"},
        {.name = "profiler-config",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.profiler_config,
         .value = "DIR",
         .environment = "RANKSCOPE_PROFILER_CONFIG",
         .help =
             "every edit of DIR/profiler_config.json starts the capture that it describes, on the ranks of "
             "--run if it is given; the version that is there at start does not"},
    };
    add(options, items, sizeof items / sizeof items[0]);
}

/* Processes that are told by a file */
static void add_vendor(struct options *options, struct collector_settings *settings)
{
    const struct rs_arg items[] = {
        {.name = "no-ascend",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.has_no_ascend,
         .help = "do not look for torch_npu jobs"},
        {.name = "ascend-config",
         .kind = RS_ARG_LIST,
         .target = &settings->ascend_dirs,
         .value = "DIR",
         .help =
             "the folder of profiler_config.json of a torch_npu job; needed only where it is not "
             "found by its open logs (default: jobs started with PROF_CONFIG_PATH or dp.init())"},
        {.name = "ascend-no-probe",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.has_no_ascend_probe,
         .help =
             "do not find out the step of a torch_npu job by a profile of one step on one rank: "
             "captures then need --start-step until one was made"},
        {.name = "no-mindspore",
         .kind = RS_ARG_FLAG,
         .target = &settings->agent.has_no_mindspore,
         .help = "do not look for MindSpore jobs"},
        {.name = "mindspore-config",
         .kind = RS_ARG_LIST,
         .target = &settings->mindspore_dirs,
         .value = "DIR",
         .help =
             "cfg_path of a MindSpore job's DynamicProfilerMonitor; needed where its ranks do not "
             "print to a file"},
        {.name = "mindspore-way",
         .kind = RS_ARG_TEXT,
         .target = &settings->agent.mindspore_way,
         .value = "WAY",
         .help = "how the job uses its monitor, step (it calls step()) or callback: the two count "
                 "from different steps (default: learned from its first result)"},
        {.name = "parse-wait",
         .kind = RS_ARG_DURATION,
         .target = &settings->agent.parse_wait_ns,
         .value = "TIME",
         .help =
             "how long the vendor's parser may be silent over a result of torch_npu or MindSpore "
             "before it is left as raw data (default 60s)"},
    };
    add(options, items, sizeof items / sizeof items[0]);
}

static enum rs_status parse(struct collector_settings *settings, int argc, char **argv,
                            struct rs_err *err)
{
    struct options options = {.count = 0};
    add_general(&options, settings);
    add_files(&options, settings);
    add_live(&options, settings);
    add_vendor(&options, settings);
    add_metrics(&options, settings);
    const struct rs_args args = {
        .verb = "collector",
        .operands = "",
        .summary =
            "Collects the profiles of this node's ranks and sends them to the aggregator: "
            "processes that carry librankscope, unmodified PyTorch processes started with "
            "`rankscope run`, and trace files that appear. What is not "
            "acknowledged survives a crash of either side; the training process never waits.",
        .items = options.items,
        .count = options.count,
        .epilogue =
            "  rankscope collector --watch ./traces --rank-map ranks.json --run r1\n"
            "  rankscope collector --join agg.cluster:7071 --invite /run/invite   # the first time\n"
            "  rankscope collector --connect agg.cluster:7070\n"
            "\n"
            "Over TCP both sides show certificates (rankscope certs --help); ours is renewed over the link\n"
            "before it ends. The aggregator may come later, and go: what is collected waits in the spool. Stop\n"
            "the collector with SIGTERM; a capture that runs meanwhile goes on when it is back.\n"
            "\n"
            "Exit: 0 stopped by SIGTERM or SIGINT, 2 bad request, 3 refused: address, folder, or another\n"
            "collector or daemon is there.\n"};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, err);
    if (status == RS_OK && first < argc)
        status = rs_err_set(err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    return status;
}

static enum rs_status check(struct collector_settings *settings, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (status == RS_OK && settings->agent.must_kineto && settings->agent.has_no_kineto)
        status = rs_err_set(err, RS_INVALID, "--kineto and --no-kineto exclude each other");
    if (status == RS_OK && settings->agent.settle_ns <= 0)
        status = rs_err_set(err, RS_INVALID, "--settle must be longer than nothing");
    if (status == RS_OK && settings->agent.watch &&
        rs_wire_check_text(settings->agent.run ? settings->agent.run : "", RS_WIRE_TEXT_MAX_BYTES,
                           "--run", err) < 0)
        status = RS_INVALID;
    if (status == RS_OK && !settings->agent.join != !settings->agent.invite)
        status = rs_err_set(err, RS_INVALID, "--join and --invite go together");
    if (status == RS_OK && !settings->agent.metrics &&
        (settings->agent.metrics_certs || settings->agent.has_insecure_metrics))
        status = rs_err_set(err, RS_INVALID, "--metrics HOST:PORT is missing");
    if (status == RS_OK && settings->agent.parse_wait_ns < 0)
        status = rs_err_set(err, RS_INVALID, "--parse-wait must not be negative");
    return status;
}

static enum rs_status fill_defaults(struct collector_settings *settings, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const char *slurm = getenv("SLURMD_NODENAME"); /* started by Slurm's prolog */
    if (slurm && *slurm)
        (void)snprintf(settings->host, sizeof settings->host, "%s", slurm);
    else if (gethostname(settings->host, sizeof settings->host - 1) < 0)
        (void)snprintf(settings->host, sizeof settings->host, "localhost");
    settings->agent.host = settings->host;
    if (!rs_client_security.certs)
        status = rs_paths_certs(settings->certs_default, settings->agent.join != NULL, err);
    settings->agent.certs =
        rs_client_security.certs ? rs_client_security.certs : settings->certs_default;
    if (!settings->agent.trace_dir) {
        rs_tracedir_default(settings->trace_default);
        settings->agent.trace_dir = settings->trace_default;
    }
    if (status == RS_OK && !settings->agent.spool) {
        char data[RS_PATHS_BYTES];
        status = rs_paths_data_dir(data, err);
        (void)snprintf(settings->spool_default, sizeof settings->spool_default, "%.4000s/spool",
                       data);
        settings->agent.spool = settings->spool_default;
    }
    if (status == RS_OK && !settings->agent.socket && !settings->agent.has_no_native) {
        status = rs_paths_collector(settings->socket_default, true, err);
        settings->agent.socket = settings->socket_default;
    }
    return status;
}

/* Options, then defaults for what was not said. RS_END: --help was asked for and printed. */
static enum rs_status read_settings(struct collector_settings *settings, int argc, char **argv,
                                    struct rs_err *err)
{
    *settings = (struct collector_settings){.agent = {.settle_ns = 5 * (rs_dur)RS_NS_PER_S,
                                                      .drain_ns = 2 * (rs_dur)RS_NS_PER_S,
                                                      .parse_wait_ns = 60 * (rs_dur)RS_NS_PER_S}};
    enum rs_status status = parse(settings, argc, argv, err);
    if (status == RS_OK)
        status = check(settings, err);
    return status == RS_OK ? fill_defaults(settings, err) : status;
}

static struct rs_agent_list list_of(const struct rs_arg_list *list)
{
    return (struct rs_agent_list){.items = list->items, .count = list->count};
}

int rs_cmd_collector(int argc, char **argv)
{
    struct collector_settings settings;
    struct rs_err err = {0};
    enum rs_status status = read_settings(&settings, argc, argv, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && settings.log_format)
        status = rs_log_set_format(settings.log_format, &err);
    if (status == RS_OK)
        status = rs_classes_load(settings.classes, &err);
    if (settings.is_verbose)
        rs_log_set_level(RS_LOG_INFO);
    if (settings.is_quiet)
        rs_log_set_level(RS_LOG_ERROR);
    settings.agent.rank_from = list_of(&settings.rank_from);
    settings.agent.ascend_dirs = list_of(&settings.ascend_dirs);
    settings.agent.mindspore_dirs = list_of(&settings.mindspore_dirs);
    if (status == RS_OK)
        status = rs_agent_run(&settings.agent, &err);
    return status < 0 ? rs_cli_fail("collector", &err) : RS_EXIT_COMPLETE;
}
