/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope collector`: the options of the daemon, one per node. The daemon itself is collector/agent.
 */
#include "cli/cli.h"
#include "cli/verbs.h"
#include "collector/agent/agent.h"
#include "collector/agent/tracedir.h"
#include "common/base/paths.h"
#include "common/client/client.h"
#include "common/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the command line says; the daemon's options lend from here, so it stays where it is. */
static struct {
    struct rs_agent_options agent;
    struct rs_arg_list rank_from, ascend_dirs, mindspore_dirs;
    struct rs_cli_daemon common;
    char spool_default[RS_PATHS_BYTES], socket_default[RS_PATHS_BYTES], host[256];
    char trace_default[RS_TRACEDIR_BYTES], certs_default[RS_PATHS_BYTES];
} settings = {.agent = {.settle_ns = 5 * (rs_dur)RS_NS_PER_S,
                        .drain_ns = 2 * (rs_dur)RS_NS_PER_S,
                        .parse_wait_ns = 60 * (rs_dur)RS_NS_PER_S}};

static enum rs_status check(struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (status == RS_OK && settings.agent.must_kineto && settings.agent.has_no_kineto)
        status = rs_err_set(err, RS_INVALID, "--kineto and --no-kineto exclude each other");
    if (status == RS_OK && settings.agent.settle_ns <= 0)
        status = rs_err_set(err, RS_INVALID, "--settle must be longer than nothing");
    if (status == RS_OK && settings.agent.watch &&
        rs_wire_check_text(settings.agent.run ? settings.agent.run : "", RS_WIRE_TEXT_MAX_BYTES,
                           "--run", err) < 0)
        status = RS_INVALID;
    if (status == RS_OK && !settings.agent.join != !settings.agent.invite)
        status = rs_err_set(err, RS_INVALID, "--join and --invite go together");
    if (status == RS_OK && !settings.agent.metrics &&
        (settings.agent.metrics_certs || settings.agent.has_insecure_metrics))
        status = rs_err_set(err, RS_INVALID, "--metrics HOST:PORT is missing");
    if (status == RS_OK && settings.agent.parse_wait_ns < 0)
        status = rs_err_set(err, RS_INVALID, "--parse-wait must not be negative");
    return status;
}

static enum rs_status fill_defaults(struct rs_err *err)
{
    enum rs_status status = RS_OK;
    const char *slurm = getenv("SLURMD_NODENAME"); /* started by Slurm's prolog */
    if (slurm && *slurm)
        (void)snprintf(settings.host, sizeof settings.host, "%s", slurm);
    else if (gethostname(settings.host, sizeof settings.host - 1) < 0)
        (void)snprintf(settings.host, sizeof settings.host, "localhost");
    settings.agent.host = settings.host;
    if (!rs_client_security.certs)
        status = rs_paths_certs(settings.certs_default, settings.agent.join != NULL, err);
    settings.agent.certs =
        rs_client_security.certs ? rs_client_security.certs : settings.certs_default;
    if (!settings.agent.trace_dir) {
        rs_tracedir_default(settings.trace_default);
        settings.agent.trace_dir = settings.trace_default;
    }
    if (status == RS_OK && !settings.agent.spool) {
        char data[RS_PATHS_BYTES];
        status = rs_paths_data_dir(data, err);
        (void)snprintf(settings.spool_default, sizeof settings.spool_default, "%.4000s/spool",
                       data);
        settings.agent.spool = settings.spool_default;
    }
    if (status == RS_OK && !settings.agent.socket && !settings.agent.has_no_native) {
        status = rs_paths_collector(settings.socket_default, true, err);
        settings.agent.socket = settings.socket_default;
    }
    return status;
}

static struct rs_agent_list list_of(const struct rs_arg_list *list)
{
    return (struct rs_agent_list){.items = list->items, .count = list->count};
}

static enum rs_status collector(char **operands, struct rs_err *err)
{
    (void)operands;
    enum rs_status status = check(err);
    if (status == RS_OK)
        status = fill_defaults(err);
    if (status == RS_OK)
        status = rs_cli_set_up_daemon(&settings.common, err);
    settings.agent.rank_from = list_of(&settings.rank_from);
    settings.agent.ascend_dirs = list_of(&settings.ascend_dirs);
    settings.agent.mindspore_dirs = list_of(&settings.mindspore_dirs);
    if (status == RS_OK)
        status = rs_agent_run(&settings.agent, err);
    return status < 0 ? status : RS_OK;
}

/* clang-format off */
static const struct rs_arg options[] = {
    /* The daemon itself */
    RS_CLI_CONNECT_ARGS(&settings.agent.connect),
    RS_OPT_TEXT("spool", 's', &settings.agent.spool, "DIR", "where chunks wait until they are acknowledged (default: spool in the data folder)", .environment = "RANKSCOPE_SPOOL"),
    RS_OPT_SIZE("spool-bytes", 0, &settings.agent.spool_bytes, "SIZE", "its budget on disk (default 1GiB)"),
    RS_OPT_TEXT("run", 0, &settings.agent.run, "NAME", "name of the run of files (default: their folder's name), and of processes that name none", .environment = "RANKSCOPE_RUN"),
    RS_OPT_TEXT("node", 0, &settings.agent.node, "NAME", "name of this node (default: the one of its certificate, else its host name)"),
    RS_OPT_TEXT("join", 0, &settings.agent.join, "HOST:PORT", "where the aggregator takes nodes in (its --join): with --invite, get a certificate there unless there is one in --certs, and keep the address to send to beside it", .environment = "RANKSCOPE_JOIN"),
    RS_OPT_TEXT("invite", 0, &settings.agent.invite, "INVITE", "what rankscope certs invite printed, or a file that holds it", .environment = "RANKSCOPE_INVITE"),
    RS_OPT_TIME("raw-keep", 0, &settings.agent.raw_keep_ns, "TIME", "how long raw data stays that no capture asked for yet (default 24h); the oldest goes sooner when its room is needed"),
    RS_OPT_TIME("drain", 0, &settings.agent.drain_ns, "TIME", "how long SIGTERM goes on sending what is in the spool (default 2s); what is left waits for the next start"),
    RS_OPT_FLAG("verbose", 'v', &settings.common.is_verbose, "log files and captures coming and going"),
    RS_OPT_FLAG("quiet", 'q', &settings.common.is_quiet, "log errors only"),
    RS_OPT_TEXT("log-format", 0, &settings.common.log_format, "FORM", "text, json (an object a line) or journal (levels as systemd reads them); default: journal when stderr is the journal's, else text", .environment = "RANKSCOPE_LOG_FORMAT"),
    /* Files, and where results wait */
    RS_CLI_CLASSES_ARG(&settings.common.classes),
    RS_OPT_TEXT("watch", 'w', &settings.agent.watch, "DIR", "take the Kineto traces and Ascend results in DIR, those there and those that appear"),
    RS_OPT_TIME("settle", 0, &settings.agent.settle_ns, "TIME", "--watch: a capture is over when nothing came for so long (default 5s)"),
    RS_OPT_TEXT("rank-map", 0, &settings.agent.rank_map, "FILE", "--watch: JSON object, file name -> rank, or null for a file that is no rank"),
    RS_OPT_LIST("rank-from", 0, &settings.rank_from, "PATTERN", "--watch: text before the rank in a file name; a '*' says where the number stands"),
    RS_OPT_FLAG("discard-raw", 0, &settings.agent.must_discard, "--watch: remove a trace file once all its chunks are stored (default: keep it)"),
    RS_OPT_TEXT("trace-dir", 0, &settings.agent.trace_dir, "DIR", "where they write traces until they are packed: a local disk, below /tmp or their KINETO_ONDEMAND_TRACE_DIR (default /tmp/rankscope-traces-UID)", .environment = "RANKSCOPE_TRACE_DIR"),
    /* Processes that can be told */
    RS_OPT_TEXT("socket", 0, &settings.agent.socket, "PATH", "where librankscope's processes come (default: collector.sock in the runtime directory)"),
    RS_OPT_FLAG("no-native", 0, &settings.agent.has_no_native, "do not listen for librankscope's processes"),
    RS_OPT_FLAG("kineto", 0, &settings.agent.must_kineto, "stop (exit 3) when PyTorch's profiler socket is served by another daemon (default: warn and go on without)"),
    RS_OPT_FLAG("no-kineto", 0, &settings.agent.has_no_kineto, "do not answer PyTorch processes"),
    RS_OPT_TEXT("kineto-socket-dir", 0, &settings.agent.kineto_socket_dir, "DIR", "answer them on a socket file in DIR; their KINETO_IPC_SOCKET_DIR must be the same", .environment = "KINETO_IPC_SOCKET_DIR"),
    RS_OPT_TEXT("msmonitor-home", 0, &settings.agent.msmonitor_home, "DIR", "answer msMonitor's clients (torch_npu, MindSpore) at DIR/dynolog.sock, where DIR is the home of the training user; not beside a real msMonitor daemon (default: do not)"),
    RS_OPT_TEXT("profiler-config", 0, &settings.agent.profiler_config, "DIR", "every edit of DIR/profiler_config.json starts the capture that it describes, on the ranks of --run if it is given; the version that is there at start does not", .environment = "RANKSCOPE_PROFILER_CONFIG"),
    /* Processes that are told by a file */
    RS_OPT_FLAG("no-ascend", 0, &settings.agent.has_no_ascend, "do not look for torch_npu jobs"),
    RS_OPT_LIST("ascend-config", 0, &settings.ascend_dirs, "DIR", "the folder of profiler_config.json of a torch_npu job; needed only where it is not found by its open logs (default: jobs started with PROF_CONFIG_PATH or dp.init())"),
    RS_OPT_FLAG("ascend-no-probe", 0, &settings.agent.has_no_ascend_probe, "do not find out the step of a torch_npu job by a profile of one step on one rank: captures then need --start-step until one was made"),
    RS_OPT_FLAG("no-mindspore", 0, &settings.agent.has_no_mindspore, "do not look for MindSpore jobs"),
    RS_OPT_LIST("mindspore-config", 0, &settings.mindspore_dirs, "DIR", "cfg_path of a MindSpore job's DynamicProfilerMonitor; needed where its ranks do not print to a file"),
    RS_OPT_TEXT("mindspore-way", 0, &settings.agent.mindspore_way, "WAY", "how the job uses its monitor, step (it calls step()) or callback: the two count from different steps (default: learned from its first result)"),
    RS_OPT_TIME("parse-wait", 0, &settings.agent.parse_wait_ns, "TIME", "how long the vendor's parser may be silent over a result of torch_npu or MindSpore before it is left as raw data (default 60s)"),
    /* What it counts, for who asks it directly */
    RS_OPT_TEXT("metrics", 0, &settings.agent.metrics, "HOST:PORT", "serve what this collector counts there, at /metrics, for a Prometheus that asks every node (default: do not; the aggregator tells of all of them)", .environment = "RANKSCOPE_METRICS"),
    RS_OPT_TEXT("metrics-certs", 0, &settings.agent.metrics_certs, "DIR", "over HTTPS, with the certificate in DIR (rankscope certs issue node NAME --host HOST); who asks shows a viewer's or an operator's", .environment = "RANKSCOPE_METRICS_CERTS"),
    RS_OPT_FLAG("metrics-insecure-loopback", 0, &settings.agent.has_insecure_metrics, "as plain text, on 127.0.0.1 or ::1 only"),
};
const struct rs_args rs_grammar_collector = {
    .verb = "collector", .operands = "",
    .summary = "Collects the profiles of this node's ranks and sends them to the aggregator: processes that carry librankscope, unmodified PyTorch processes started with `rankscope run`, and trace files that appear. What is not acknowledged survives a crash of either side; the training process never waits.",
    RS_OPTIONS(options), .act = collector,
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
/* clang-format on */
