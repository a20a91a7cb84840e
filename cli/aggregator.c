/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope aggregator`: its options. The daemon itself is aggregator/server.
 */
#include "aggregator/daemon/aggregator.h"

#include "cli/cli.h"
#include "cli/options/args.h"
#include "cli/store.h"
#include "common/base/paths.h"
#include "common/reduce/classes.h"

#define RS_LOG_TAG "aggregator"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

static struct settings {
    struct rs_aggregator_options daemon; /* lends from here */
    bool is_verbose, is_quiet;
    struct rs_arg_list listen, http, webhooks, slack_webhooks;
    const char *log_format, *classes;
    char listen_default[RS_PATHS_BYTES], data_default[RS_PATHS_BYTES];
    char runtime_dir[RS_PATHS_BYTES];
} settings = {.daemon = {.drain_ns = 5 * (rs_dur)RS_NS_PER_S}};

static const struct rs_arg items[] = {
    {.name = "listen",
     .letter = 'l',
     .kind = RS_ARG_LIST,
     .target = &settings.listen,
     .value = "ADDR",
     .environment = "RANKSCOPE_LISTEN",
     .help = "unix:PATH or HOST:PORT, also several times; HOST:0 takes a free port (default: "
             "aggregator.sock in the runtime directory)"},
    {.name = "join",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.join,
     .value = "HOST:PORT",
     .environment = "RANKSCOPE_JOIN_LISTEN",
     .help =
         "where nodes with an invite (rankscope certs invite) get their first certificate; needs the "
         "authority's folder"},
    {.name = "http",
     .kind = RS_ARG_LIST,
     .target = &settings.http,
     .value = "HOST:PORT",
     .environment = "RANKSCOPE_HTTP",
     .help = "serve the HTTP API and /metrics there, also several times: HTTPS, for who has a "
             "certificate or a token (rankscope token new); plain on loopback with "
             "--insecure-loopback (default: nowhere)"},
    {.name = "certs",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.certs,
     .value = "DIR",
     .environment = "RANKSCOPE_CERTS",
     .help = "folder of the aggregator's certificate, for HOST:PORT (default: certs in the data "
             "folder)"},
    {.name = "ca",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.ca,
     .value = "DIR",
     .environment = "RANKSCOPE_CA",
     .help =
         "folder of the authority that signs for those who join or renew (default: ca in the data "
         "folder, if it is there)"},
    {.name = "insecure-loopback",
     .kind = RS_ARG_FLAG,
     .target = &settings.daemon.is_insecure_loopback,
     .help = "serve 127.0.0.1 and ::1 in plain text to everybody on this machine: for tests"},
    {.name = "data",
     .letter = 'd',
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.data,
     .value = "DIR",
     .environment = "RANKSCOPE_DATA",
     .help = "captures and catalogue (default: /var/lib/rankscope for root)"},
    {.name = "group",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.group,
     .value = "NAME",
     .environment = "RANKSCOPE_GROUP",
     .help =
         "who may ask over the unix socket, which is 0660 (default: the group of this process)"},
    {.name = "operators",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.operators,
     .value = "LIST",
     .environment = "RANKSCOPE_OPERATORS",
     .help =
         "users, and @groups, who may capture and read everything over the unix socket, besides root and the "
         "aggregator's own user: alice,@ml-ops (default: those of the socket's group)"},
    {.name = "viewers",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.viewers,
     .value = "LIST",
     .environment = "RANKSCOPE_VIEWERS",
     .help = "the same, who may read everything"},
    {.name = "users",
     .kind = RS_ARG_FLAG,
     .target = &settings.daemon.is_for_users,
     .help =
         "open the unix socket to every user of this machine: who is neither operator nor viewer sees and "
         "captures his own runs"},
    {.name = "credit",
     .kind = RS_ARG_SIZE,
     .target = &settings.daemon.credit_bytes,
     .value = "SIZE",
     .help = "bytes a collector may have under way without an acknowledgement (default 16MiB)"},
    {.name = "segment-bytes",
     .kind = RS_ARG_SIZE,
     .target = &settings.daemon.segment_bytes,
     .value = "SIZE",
     .help = "size at which a capture's next segment is begun (default 256MiB)"},
    {.name = "webhook",
     .kind = RS_ARG_LIST,
     .target = &settings.webhooks,
     .value = "URL",
     .environment = "RANKSCOPE_WEBHOOK",
     .help =
         "POST there, as JSON, when a capture names a culprit or fails, ranks are missing, or steps "
         "take longer (--step-watch); also several times"},
    {.name = "webhook-slack",
     .kind = RS_ARG_LIST,
     .target = &settings.slack_webhooks,
     .value = "URL",
     .environment = "RANKSCOPE_WEBHOOK_SLACK",
     .help = "the same as {\"text\": ...}, for Slack and what speaks as it does"},
    {.name = "webhook-secret",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.webhook_secret,
     .value = "FILE",
     .environment = "RANKSCOPE_WEBHOOK_SECRET",
     .help = "sign webhooks with the first line of this file (HMAC-SHA256)"},
    {.name = "store",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.store.url,
     .value = "URL",
     .environment = "RANKSCOPE_STORE",
     .help =
         "keep rows of captures in a ClickHouse: clickhouse://[USER@]HOST[:PORT]/DATABASE, with TLS; "
         "clickhouse+http:// on this machine only (default: SQLite, in the captures' folders)"},
    RS_CLI_STORE_ARGS(&settings.daemon.store),
    {.name = "advertise",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.advertise,
     .value = "ADDR",
     .environment = "RANKSCOPE_ADVERTISE",
     .help =
         "with --store: HOST:PORT at which others reach this aggregator, told to those of the same database "
         "(default: the first --listen with HOST:PORT, this host's name for 0.0.0.0; else the socket)"},
    {.name = "archive",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.archive.url,
     .value = "URL",
     .environment = "RANKSCOPE_ARCHIVE",
     .help =
         "object storage for closed captures: s3://BUCKET or s3://BUCKET/PREFIX (default: none)"},
    {.name = "archive-endpoint",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.archive.endpoint,
     .value = "URL",
     .environment = "RANKSCOPE_ARCHIVE_ENDPOINT",
     .help =
         "who serves it: https://HOST[:PORT], plain http on loopback only (default: Amazon, of the region)"},
    {.name = "archive-region",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.archive.region,
     .value = "NAME",
     .environment = "RANKSCOPE_ARCHIVE_REGION",
     .help = "its region, part of the signature (default: us-east-1)"},
    {.name = "archive-credentials",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.archive.credentials,
     .value = "FILE",
     .environment = "RANKSCOPE_ARCHIVE_CREDENTIALS",
     .help =
         "0600, two lines: the key's id, the secret; a third one may hold a session token (default: "
         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"},
    {.name = "archive-ca",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.archive.ca_file,
     .value = "FILE",
     .environment = "RANKSCOPE_ARCHIVE_CA",
     .help = "certificates that its server is held against (default: the system's)"},
    {.name = "archive-after",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.archive_ns,
     .value = "TIME",
     .environment = "RANKSCOPE_ARCHIVE_AFTER",
     .help =
         "archive captures so long after they were closed, for instance 7d (default: when told to)"},
    {.name = "missing-after",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.missing_ns,
     .value = "TIME",
     .help =
         "tell webhooks of ranks that are missing for so long while others are there (default 30s)"},
    {.name = "keep-for",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.keep_ns,
     .value = "TIME",
     .environment = "RANKSCOPE_KEEP_FOR",
     .help = "remove captures so long after they were closed, for instance 30d (default: never)"},
    {.name = "keep-bytes",
     .kind = RS_ARG_SIZE,
     .target = &settings.daemon.keep_bytes,
     .value = "SIZE",
     .environment = "RANKSCOPE_KEEP_BYTES",
     .help = "remove the oldest closed captures when all take more than that (default: no limit)"},
    {.name = "keep-bytes-each",
     .kind = RS_ARG_SIZE,
     .target = &settings.daemon.keep_bytes_each,
     .value = "SIZE",
     .environment = "RANKSCOPE_KEEP_BYTES_EACH",
     .help = "refuse more of a user, or node, whose captures take that much (default: no limit)"},
    {.name = "profiler-config",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.profiler_config,
     .value = "DIR",
     .environment = "RANKSCOPE_PROFILER_CONFIG",
     .help =
         "every edit of DIR/profiler_config.json starts the capture that it describes; the version that "
         "is there at start does not"},
    {.name = "roles",
     .kind = RS_ARG_TEXT,
     .target = &settings.daemon.roles,
     .value = "FILE",
     .environment = "RANKSCOPE_ROLES",
     .help =
         "JSON that says which tp, pp, dp, ep index a rank has: {\"0\": {\"tp\": 0}, ...}, or sizes: "
         "{\"tp\": 2, \"pp\": 2}"},
    {.name = "hang-watch",
     .kind = RS_ARG_FLAG,
     .target = &settings.daemon.hang.is_on,
     .help =
         "watch all runs: when no rank makes a step any more, or ranks write flight recorder dumps, ask all ranks "
         "and keep a capture, as rankscope hang does"},
    {.name = "hang-steps",
     .kind = RS_ARG_INT,
     .min = 2,
     .max = 1000000,
     .target = &settings.daemon.hang.steps,
     .value = "N",
     .with = "hang-watch",
     .help = "with --hang-watch: no step for so many times the median step (default 10)"},
    {.name = "hang-min-wait",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.hang.min_wait_ns,
     .value = "TIME",
     .with = "hang-watch",
     .help = "with --hang-watch: and at least so long (default 10s)"},
    {.name = "hang-cool-down",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.hang.cool_down_ns,
     .value = "TIME",
     .with = "hang-watch",
     .help =
         "with --hang-watch: after a capture, the next one of the same run not before (default 10m)"},
    {.name = "hang-per-day",
     .kind = RS_ARG_INT,
     .min = 1,
     .max = 1000,
     .target = &settings.daemon.hang.per_day,
     .value = "N",
     .with = "hang-watch",
     .help = "with --hang-watch: captures in 24 hours, of all runs (default 20)"},
    {.name = "step-watch",
     .kind = RS_ARG_FLAG,
     .target = &settings.daemon.step_watch.is_on,
     .help =
         "watch all runs: when the steps of one begin to take longer and keep doing so, capture some, tell "
         "webhooks, as rankscope watch does"},
    {.name = "step-longer-by",
     .kind = RS_ARG_PERCENT,
     .target = &settings.daemon.step_watch.longer_by,
     .value = "P",
     .with = "step-watch",
     .help = "with --step-watch: so much longer than before is an alarm (default 15%)"},
    {.name = "step-capture",
     .kind = RS_ARG_INT,
     .min = 1,
     .max = 1000,
     .target = &settings.daemon.step_watch.steps,
     .value = "N",
     .with = "step-watch",
     .help = "with --step-watch: steps of a capture (default 5)"},
    {.name = "step-cool-down",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.step_watch.cool_down_ns,
     .value = "TIME",
     .with = "step-watch",
     .help =
         "with --step-watch: after a capture, the next one of the same run not before (default 10m)"},
    {.name = "step-per-day",
     .kind = RS_ARG_INT,
     .min = 1,
     .max = 1000,
     .target = &settings.daemon.step_watch.per_day,
     .value = "N",
     .with = "step-watch",
     .help = "with --step-watch: captures in 24 hours, of all runs (default 10)"},
    {.name = "step-probes",
     .kind = RS_ARG_FLAG,
     .target = &settings.daemon.step_watch.has_probes,
     .with = "step-watch",
     .help =
         "with --step-watch: watch runs whose ranks tell no steps (PyTorch, torch_npu, MindSpore), too: record four "
         "steps of eight ranks at most now and then, and remove them when they are read"},
    {.name = "step-probe-every",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.step_watch.probe_every_ns,
     .value = "TIME",
     .with = "step-probes",
     .help = "with --step-probes: a run not more often than that (default 1m: 60 an hour at most)"},
    {.name = "step-probe-share",
     .kind = RS_ARG_PERCENT,
     .target = &settings.daemon.step_watch.probe_share,
     .value = "P",
     .with = "step-probes",
     .help =
         "with --step-probes: and so rarely that ranks record and write for no more than this part of the time "
         "(default 1%)"},
    {.name = "drain",
     .kind = RS_ARG_DURATION,
     .target = &settings.daemon.drain_ns,
     .value = "TIME",
     .help = "how long SIGTERM waits for collectors to finish what is under way (default 5s)"},
    {.name = "verbose",
     .letter = 'v',
     .kind = RS_ARG_FLAG,
     .target = &settings.is_verbose,
     .help = "log collectors and captures coming and going"},
    {.name = "quiet",
     .letter = 'q',
     .kind = RS_ARG_FLAG,
     .target = &settings.is_quiet,
     .help = "log errors only, and do not print the address"},
    RS_CLI_CLASSES_ARG(&settings.classes),
    {.name = "log-format",
     .kind = RS_ARG_TEXT,
     .target = &settings.log_format,
     .value = "FORM",
     .environment = "RANKSCOPE_LOG_FORMAT",
     .help =
         "text, json (an object a line) or journal (levels as systemd reads them); default: journal when "
         "stderr is the journal's, else text"},
};

static const struct rs_args args = {
    .verb = "aggregator",
    .operands = "",
    .summary = "Takes profiles from collectors, makes them durable and answers the command "
               "line. A chunk is acknowledged only after fdatasync; whatever was not is sent "
               "again after a restart and stored once.",
    .items = items,
    .count = sizeof items / sizeof items[0],
    .epilogue =
        "  rankscope aggregator --data /srv/rankscope\n"
        "  rankscope aggregator --data /srv/rankscope --group profilers\n"
        "  rankscope certs init --data /srv/rankscope --host agg.cluster\n"
        "  rankscope aggregator --data /srv/rankscope --listen 0.0.0.0:7070 --join 0.0.0.0:7071\n"
        "  rankscope aggregator --data /srv/rankscope --http 0.0.0.0:7443 --keep-for 30d\n"
        "\n"
        "Over TCP both sides show certificates (rankscope certs --help). Who asked for what stands in\n"
        "audit.jsonl in the data folder. Stop it with SIGTERM.\n"
        "\n"
        "Exit: 0 stopped by SIGTERM or SIGINT, 2 bad request, 3 refused: address, folder, or another\n"
        "aggregator is there.\n"};

static enum rs_status parse(int argc, char **argv, struct rs_err *err)
{
    int first = 0;
    const enum rs_status status = rs_args_parse(&args, argc, argv, &first, err);
    if (status == RS_OK && first < argc)
        return rs_err_set(err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    return status;
}

static enum rs_status fill_defaults(struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (settings.listen.count > RS_AGGREGATOR_LISTEN_MAX)
        return rs_err_set(err, RS_INVALID, "--listen: at most %d addresses",
                          RS_AGGREGATOR_LISTEN_MAX);
    if (!settings.listen.count) {
        status = rs_paths_aggregator(settings.listen_default, true, err);
        settings.listen.items[settings.listen.count++] = settings.listen_default;
        if (status == RS_OK)
            status = rs_paths_runtime_dir(settings.runtime_dir, false, err);
        settings.daemon.runtime_dir = settings.runtime_dir;
    }
    settings.daemon.listen = settings.listen.items;
    settings.daemon.listen_count = settings.listen.count;
    settings.daemon.http = settings.http.items;
    settings.daemon.webhooks = settings.webhooks.items;
    settings.daemon.webhook_count = settings.webhooks.count;
    settings.daemon.slack_webhooks = settings.slack_webhooks.items;
    settings.daemon.slack_count = settings.slack_webhooks.count;
    settings.daemon.http_count = settings.http.count;
    if (status == RS_OK && settings.daemon.archive_ns && !settings.daemon.archive.url)
        status = rs_err_set(err, RS_INVALID, "--archive-after needs --archive s3://BUCKET");
    if (status == RS_OK && settings.daemon.advertise && !settings.daemon.store.url)
        status = rs_err_set(err, RS_INVALID, "--advertise needs --store clickhouse://...");
    if (status == RS_OK && settings.daemon.step_watch.has_probes &&
        !settings.daemon.step_watch.is_on)
        status = rs_err_set(err, RS_INVALID, "--step-probes needs --step-watch");
    if (status == RS_OK && settings.daemon.step_watch.probe_share >= 1) /* also where it is off */
        status = rs_err_set(err, RS_INVALID, "--step-probe-share is less than 100%%");
    if (status == RS_OK && !settings.daemon.data) {
        status = rs_paths_data_dir(settings.data_default, err);
        settings.daemon.data = settings.data_default;
    }
    return status;
}

static void print_address(void *self, const char *address, bool is_for_joining)
{
    (void)self;
    printf("%s on %s\n", is_for_joining ? "nodes join" : "listening", address);
    (void)fflush(stdout);
}

int rs_cmd_aggregator(int argc, char **argv)
{
    struct rs_err err = {0};
    enum rs_status status = parse(argc, argv, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK)
        status = fill_defaults(&err);
    if (status == RS_OK && settings.log_format)
        status = rs_log_set_format(settings.log_format, &err);
    if (status == RS_OK)
        status = rs_classes_load(settings.classes, &err);
    if (settings.is_verbose)
        rs_log_set_level(RS_LOG_INFO);
    if (settings.is_quiet)
        rs_log_set_level(RS_LOG_ERROR);
    settings.daemon.on_listening = settings.is_quiet ? NULL : print_address;
    if (status == RS_OK)
        status = rs_aggregator_run(&settings.daemon, &err);
    return status < 0 ? rs_cli_fail("aggregator", &err) : RS_EXIT_COMPLETE;
}
