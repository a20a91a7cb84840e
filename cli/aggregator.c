/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope aggregator`: its options. The daemon itself is aggregator/server.
 */
#include "aggregator/daemon/aggregator.h"

#include "cli/cli.h"
#include "cli/store.h"
#include "cli/verbs.h"
#include "common/base/paths.h"

#include <stdio.h>
#include <string.h>

static struct settings {
    struct rs_aggregator_options daemon; /* lends from here */
    struct rs_cli_daemon common;
    struct rs_arg_list listen, http, webhooks, slack_webhooks;
    char listen_default[RS_PATHS_BYTES], data_default[RS_PATHS_BYTES];
    char runtime_dir[RS_PATHS_BYTES];
} settings = {.daemon = {.drain_ns = 5 * (rs_dur)RS_NS_PER_S}};

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

static enum rs_status aggregator(char **operands, struct rs_err *err)
{
    (void)operands;
    enum rs_status status = fill_defaults(err);
    if (status == RS_OK)
        status = rs_cli_set_up_daemon(&settings.common, err);
    settings.daemon.on_listening = settings.common.is_quiet ? NULL : print_address;
    if (status == RS_OK)
        status = rs_aggregator_run(&settings.daemon, err);
    return status < 0 ? status : RS_OK;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_LIST("listen", 'l', &settings.listen, "ADDR", "unix:PATH or HOST:PORT, also several times; HOST:0 takes a free port (default: aggregator.sock in the runtime directory)", .environment = "RANKSCOPE_LISTEN"),
    RS_OPT_TEXT("join", 0, &settings.daemon.join, "HOST:PORT", "where nodes with an invite (rankscope certs invite) get their first certificate; needs the authority's folder", .environment = "RANKSCOPE_JOIN_LISTEN"),
    RS_OPT_LIST("http", 0, &settings.http, "HOST:PORT", "serve the HTTP API and /metrics there, also several times: HTTPS, for who has a certificate or a token (rankscope token new); plain on loopback with --insecure-loopback (default: nowhere)", .environment = "RANKSCOPE_HTTP"),
    RS_OPT_TEXT("certs", 0, &settings.daemon.certs, "DIR", "folder of the aggregator's certificate, for HOST:PORT (default: certs in the data folder)", .environment = "RANKSCOPE_CERTS"),
    RS_OPT_TEXT("ca", 0, &settings.daemon.ca, "DIR", "folder of the authority that signs for those who join or renew (default: ca in the data folder, if it is there)", .environment = "RANKSCOPE_CA"),
    RS_OPT_FLAG("insecure-loopback", 0, &settings.daemon.is_insecure_loopback, "serve 127.0.0.1 and ::1 in plain text to everybody on this machine: for tests"),
    RS_OPT_TEXT("data", 'd', &settings.daemon.data, "DIR", "captures and catalogue (default: /var/lib/rankscope for root)", .environment = "RANKSCOPE_DATA"),
    RS_OPT_TEXT("group", 0, &settings.daemon.group, "NAME", "who may ask over the unix socket, which is 0660 (default: the group of this process)", .environment = "RANKSCOPE_GROUP"),
    RS_OPT_TEXT("operators", 0, &settings.daemon.operators, "LIST", "users, and @groups, who may capture and read everything over the unix socket, besides root and the aggregator's own user: alice,@ml-ops (default: those of the socket's group)", .environment = "RANKSCOPE_OPERATORS"),
    RS_OPT_TEXT("viewers", 0, &settings.daemon.viewers, "LIST", "the same, who may read everything", .environment = "RANKSCOPE_VIEWERS"),
    RS_OPT_FLAG("users", 0, &settings.daemon.is_for_users, "open the unix socket to every user of this machine: who is neither operator nor viewer sees and captures his own runs"),
    RS_OPT_SIZE("credit", 0, &settings.daemon.credit_bytes, "SIZE", "bytes a collector may have under way without an acknowledgement (default 16MiB)"),
    RS_OPT_SIZE("segment-bytes", 0, &settings.daemon.segment_bytes, "SIZE", "size at which a capture's next segment is begun (default 256MiB)"),
    RS_OPT_LIST("webhook", 0, &settings.webhooks, "URL", "POST there, as JSON, when a capture names a culprit or fails, ranks are missing, or steps take longer (--step-watch); also several times", .environment = "RANKSCOPE_WEBHOOK"),
    RS_OPT_LIST("webhook-slack", 0, &settings.slack_webhooks, "URL", "the same as {\"text\": ...}, for Slack and what speaks as it does", .environment = "RANKSCOPE_WEBHOOK_SLACK"),
    RS_OPT_TEXT("webhook-secret", 0, &settings.daemon.webhook_secret, "FILE", "sign webhooks with the first line of this file (HMAC-SHA256)", .environment = "RANKSCOPE_WEBHOOK_SECRET"),
    RS_OPT_TEXT("store", 0, &settings.daemon.store.url, "URL", "keep rows of captures in a ClickHouse: clickhouse://[USER@]HOST[:PORT]/DATABASE, with TLS; clickhouse+http:// on this machine only (default: SQLite, in the captures' folders)", .environment = "RANKSCOPE_STORE"),
    RS_CLI_STORE_ARGS(&settings.daemon.store),
    RS_OPT_TEXT("advertise", 0, &settings.daemon.advertise, "ADDR", "with --store: HOST:PORT at which others reach this aggregator, told to those of the same database (default: the first --listen with HOST:PORT, this host's name for 0.0.0.0; else the socket)", .environment = "RANKSCOPE_ADVERTISE"),
    RS_OPT_TEXT("archive", 0, &settings.daemon.archive.url, "URL", "object storage for closed captures: s3://BUCKET or s3://BUCKET/PREFIX (default: none)", .environment = "RANKSCOPE_ARCHIVE"),
    RS_OPT_TEXT("archive-endpoint", 0, &settings.daemon.archive.endpoint, "URL", "who serves it: https://HOST[:PORT], plain http on loopback only (default: Amazon, of the region)", .environment = "RANKSCOPE_ARCHIVE_ENDPOINT"),
    RS_OPT_TEXT("archive-region", 0, &settings.daemon.archive.region, "NAME", "its region, part of the signature (default: us-east-1)", .environment = "RANKSCOPE_ARCHIVE_REGION"),
    RS_OPT_TEXT("archive-credentials", 0, &settings.daemon.archive.credentials, "FILE", "0600, two lines: the key's id, the secret; a third one may hold a session token (default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)", .environment = "RANKSCOPE_ARCHIVE_CREDENTIALS"),
    RS_OPT_TEXT("archive-ca", 0, &settings.daemon.archive.ca_file, "FILE", "certificates that its server is held against (default: the system's)", .environment = "RANKSCOPE_ARCHIVE_CA"),
    RS_OPT_TIME("archive-after", 0, &settings.daemon.archive_ns, "TIME", "archive captures so long after they were closed, for instance 7d (default: when told to)", .environment = "RANKSCOPE_ARCHIVE_AFTER"),
    RS_OPT_TIME("missing-after", 0, &settings.daemon.missing_ns, "TIME", "tell webhooks of ranks that are missing for so long while others are there (default 30s)"),
    RS_OPT_TIME("keep-for", 0, &settings.daemon.keep_ns, "TIME", "remove captures so long after they were closed, for instance 30d (default: never)", .environment = "RANKSCOPE_KEEP_FOR"),
    RS_OPT_SIZE("keep-bytes", 0, &settings.daemon.keep_bytes, "SIZE", "remove the oldest closed captures when all take more than that (default: no limit)", .environment = "RANKSCOPE_KEEP_BYTES"),
    RS_OPT_SIZE("keep-bytes-each", 0, &settings.daemon.keep_bytes_each, "SIZE", "refuse more of a user, or node, whose captures take that much (default: no limit)", .environment = "RANKSCOPE_KEEP_BYTES_EACH"),
    RS_OPT_TEXT("profiler-config", 0, &settings.daemon.profiler_config, "DIR", "every edit of DIR/profiler_config.json starts the capture that it describes; the version that is there at start does not", .environment = "RANKSCOPE_PROFILER_CONFIG"),
    RS_OPT_TEXT("roles", 0, &settings.daemon.roles, "FILE", "JSON that says which tp, pp, dp, ep index a rank has: {\"0\": {\"tp\": 0}, ...}, or sizes: {\"tp\": 2, \"pp\": 2}", .environment = "RANKSCOPE_ROLES"),
    RS_OPT_FLAG("hang-watch", 0, &settings.daemon.hang.is_on, "watch all runs: when no rank makes a step any more, or ranks write flight recorder dumps, ask all ranks and keep a capture, as rankscope hang does"),
    RS_OPT_INT("hang-steps", 0, &settings.daemon.hang.steps, "N", 2, 1000000, "with --hang-watch: no step for so many times the median step (default 10)", .with = "hang-watch"),
    RS_OPT_TIME("hang-min-wait", 0, &settings.daemon.hang.min_wait_ns, "TIME", "with --hang-watch: and at least so long (default 10s)", .with = "hang-watch"),
    RS_OPT_TIME("hang-cool-down", 0, &settings.daemon.hang.cool_down_ns, "TIME", "with --hang-watch: after a capture, the next one of the same run not before (default 10m)", .with = "hang-watch"),
    RS_OPT_INT("hang-per-day", 0, &settings.daemon.hang.per_day, "N", 1, 1000, "with --hang-watch: captures in 24 hours, of all runs (default 20)", .with = "hang-watch"),
    RS_OPT_FLAG("step-watch", 0, &settings.daemon.step_watch.is_on, "watch all runs: when the steps of one begin to take longer and keep doing so, capture some, tell webhooks, as rankscope watch does"),
    RS_OPT_SHARE("step-longer-by", 0, &settings.daemon.step_watch.longer_by, "P", "with --step-watch: so much longer than before is an alarm (default 15%)", .with = "step-watch"),
    RS_OPT_INT("step-capture", 0, &settings.daemon.step_watch.steps, "N", 1, 1000, "with --step-watch: steps of a capture (default 5)", .with = "step-watch"),
    RS_OPT_TIME("step-cool-down", 0, &settings.daemon.step_watch.cool_down_ns, "TIME", "with --step-watch: after a capture, the next one of the same run not before (default 10m)", .with = "step-watch"),
    RS_OPT_INT("step-per-day", 0, &settings.daemon.step_watch.per_day, "N", 1, 1000, "with --step-watch: captures in 24 hours, of all runs (default 10)", .with = "step-watch"),
    RS_OPT_FLAG("step-probes", 0, &settings.daemon.step_watch.has_probes, "with --step-watch: watch runs whose ranks tell no steps (PyTorch, torch_npu, MindSpore), too: record four steps of eight ranks at most now and then, and remove them when they are read", .with = "step-watch"),
    RS_OPT_TIME("step-probe-every", 0, &settings.daemon.step_watch.probe_every_ns, "TIME", "with --step-probes: a run not more often than that (default 1m: 60 an hour at most)", .with = "step-probes"),
    RS_OPT_SHARE("step-probe-share", 0, &settings.daemon.step_watch.probe_share, "P", "with --step-probes: and so rarely that ranks record and write for no more than this part of the time (default 1%)", .with = "step-probes"),
    RS_OPT_TIME("drain", 0, &settings.daemon.drain_ns, "TIME", "how long SIGTERM waits for collectors to finish what is under way (default 5s)"),
    RS_OPT_FLAG("verbose", 'v', &settings.common.is_verbose, "log collectors and captures coming and going"),
    RS_OPT_FLAG("quiet", 'q', &settings.common.is_quiet, "log errors only, and do not print the address"),
    RS_CLI_CLASSES_ARG(&settings.common.classes),
    RS_OPT_TEXT("log-format", 0, &settings.common.log_format, "FORM", "text, json (an object a line) or journal (levels as systemd reads them); default: journal when stderr is the journal's, else text", .environment = "RANKSCOPE_LOG_FORMAT"),
};
const struct rs_args rs_grammar_aggregator = {
    .verb = "aggregator", .operands = "",
    .summary = "Takes profiles from collectors, makes them durable and answers the command line. A chunk is acknowledged only after fdatasync; whatever was not is sent again after a restart and stored once.",
    RS_OPTIONS(options), .act = aggregator,
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
/* clang-format on */
