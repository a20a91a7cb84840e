/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope aggregator`: the one place where chunks become durable.
 *
 * This file puts the rooms together: store, gate (with ingest and the coordinator in it), the gRPC server, and
 * the signals. The main thread is the gate's.
 */
#include "aggregator/gate/gate.h"
#include "cli/args.h"
#include "cli/book.h"
#include "cli/cli.h"
#include "cli/config_watch.h"
#include "cli/daemon.h"
#include "cli/place.h"
#include "cli/probe.h"
#include "common/base/file.h"
#include "common/request/roles.h"
#include "common/wire/link.h"

#define RS_LOG_TAG "aggregator"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

struct settings {
    const char *listen;
    const char *data;
    const char *profiler_config;
    const char *roles;
    int64_t credit_bytes;
    int64_t segment_bytes;
    int64_t drain_ns;
    bool is_verbose, is_quiet;
    char listen_default[RS_PLACE_BYTES], data_default[RS_PLACE_BYTES];
};

static enum rs_status parse(struct settings *settings, int argc, char **argv, struct rs_err *err)
{
    const struct rs_arg items[] = {
        {.name = "listen",
         .letter = 'l',
         .kind = RS_ARG_TEXT,
         .target = &settings->listen,
         .value = "ADDR",
         .environment = "RANKSCOPE_LISTEN",
         .help = "unix:PATH or HOST:PORT on this machine; HOST:0 takes a free port (default: "
                 "aggregator.sock in the runtime directory)"},
        {.name = "data",
         .letter = 'd',
         .kind = RS_ARG_TEXT,
         .target = &settings->data,
         .value = "DIR",
         .environment = "RANKSCOPE_DATA",
         .help = "captures and catalogue (default: /var/lib/rankscope for root)"},
        {.name = "credit",
         .kind = RS_ARG_SIZE,
         .target = &settings->credit_bytes,
         .value = "SIZE",
         .help = "bytes a collector may have under way without an acknowledgement (default 16MiB)"},
        {.name = "segment-bytes",
         .kind = RS_ARG_SIZE,
         .target = &settings->segment_bytes,
         .value = "SIZE",
         .help = "size at which a capture's next segment is begun (default 256MiB)"},
        {.name = "profiler-config",
         .kind = RS_ARG_TEXT,
         .target = &settings->profiler_config,
         .value = "DIR",
         .environment = "RANKSCOPE_PROFILER_CONFIG",
         .help =
             "every edit of DIR/profiler_config.json starts the capture that it describes; the version that "
             "is there at start does not"},
        {.name = "roles",
         .kind = RS_ARG_TEXT,
         .target = &settings->roles,
         .value = "FILE",
         .environment = "RANKSCOPE_ROLES",
         .help =
             "JSON that says which tp, pp, dp, ep index a rank has: {\"0\": {\"tp\": 0}, ...}, or sizes: "
             "{\"tp\": 2, \"pp\": 2}"},
        {.name = "drain",
         .kind = RS_ARG_DURATION,
         .target = &settings->drain_ns,
         .value = "TIME",
         .help = "how long SIGTERM waits for collectors to finish what is under way (default 5s)"},
        {.name = "verbose",
         .letter = 'v',
         .kind = RS_ARG_FLAG,
         .target = &settings->is_verbose,
         .help = "log collectors and captures coming and going"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &settings->is_quiet,
         .help = "log errors only, and do not print the address"},
    };
    const struct rs_args args = {
        .verb = "aggregator",
        .operands = "",
        .summary = "Takes profiles from collectors, makes them durable and answers the command "
                   "line. A chunk is acknowledged only after fdatasync; whatever was not is sent "
                   "again after a restart and stored once.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope aggregator --data /srv/rankscope\n"
            "  rankscope aggregator --listen 127.0.0.1:7070 --data ./data\n"
            "\n"
            "Without TLS, which does not exist yet, only loopback addresses and unix sockets\n"
            "are allowed; any other is refused. Stop it with SIGTERM.\n"
            "\n"
            "Exit: 0 stopped by SIGTERM or SIGINT, 2 bad request, 3 refused: address, folder, or another\n"
            "aggregator is there.\n"};
    int first = 0;
    const enum rs_status status = rs_args_parse(&args, argc, argv, &first, err);
    if (status == RS_OK && first < argc)
        return rs_err_set(err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    return status;
}

static enum rs_status fill_defaults(struct settings *settings, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    if (!settings->listen) {
        status = rs_place_aggregator(settings->listen_default, true, err);
        settings->listen = settings->listen_default;
    }
    if (status == RS_OK && !settings->data) {
        status = rs_place_data(settings->data_default, err);
        settings->data = settings->data_default;
    }
    return status;
}

/* A file that is wrong is refused at start, not when the first capture needs it. */
static enum rs_status read_roles(const char *path, struct rs_buf *text, struct rs_err *err)
{
    struct rs_roles roles = {0};
    struct rs_err why = {0};
    enum rs_status status = path ? rs_file_read(path, RS_ROLES_MAX_BYTES, text, err) : RS_OK;
    if (!path || status < 0)
        return status;
    status = rs_roles_from_json(rs_buf_text(text), text->length, RS_ROLES_WORLD_OPEN, &roles, &why);
    rs_roles_fini(&roles);
    return status < 0 ? rs_err_set(err, status, "%s: %.600s", path, why.text) : RS_OK;
}

static void wake_loop(void *self)
{
    rs_loop_wake(self);
}

/* Serves until SIGTERM, then lets what is under way finish. */
static enum rs_status serve(struct rs_gate *gate, struct rs_grpc_server *server,
                            const struct rs_address *address, struct rs_daemon *daemon,
                            const struct settings *settings, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    struct rs_config_watch *config_watch = NULL;
    const struct rs_config_watch_options watch_options = {
        .dir = settings->profiler_config, .run = "", .address = address};
    if (settings->profiler_config)
        status = rs_config_watch_start(&watch_options, &config_watch, err);
    struct rs_probe probe;
    rs_probe_init(&probe, address, rs_time_monotonic());
    while (status == RS_OK && rs_daemon_stop_count(daemon) == 0) {
        status = rs_gate_step(gate, rs_time_monotonic() + RS_NS_PER_S, err);
        if (status == RS_OK)
            status = rs_probe_step(&probe, rs_time_monotonic(), err);
    }
    rs_probe_fini(&probe);
    rs_config_watch_stop(&config_watch);
    rs_gate_drain(gate);
    rs_grpc_server_stop(server);
    const rs_ns deadline = rs_time_monotonic() + settings->drain_ns;
    bool is_cancelled = false;
    while (rs_gate_session_count(gate) || !rs_grpc_server_is_stopped(server)) {
        const bool must_hurry =
            rs_time_monotonic() >= deadline || status < 0 || rs_daemon_stop_count(daemon) > 1;
        if (must_hurry && !is_cancelled) {
            rs_grpc_server_cancel(server);
            is_cancelled = true;
        }
        /* The first failure is the one to tell. */
        if (rs_gate_step(gate, rs_time_monotonic() + RS_NS_PER_S / 20, NULL) < 0 && status == RS_OK)
            status = rs_err_set(err, RS_IO, "the disk refused to make data durable");
    }
    return status;
}

static enum rs_status run(const struct settings *settings, struct rs_daemon *daemon,
                          struct rs_err *err)
{
    struct rs_address address;
    struct rs_store *store = NULL;
    struct rs_loop *loop = NULL;
    struct rs_gate *gate = NULL;
    struct rs_grpc_server *server = NULL;
    struct rs_learn *learn = NULL;
    struct rs_book own = {.store = NULL};
    struct rs_buf roles = {0};
    enum rs_status status = rs_address_parse(settings->listen, &address, err);
    if (status == RS_OK)
        status = read_roles(settings->roles, &roles, err);
    if (status == RS_OK)
        status = rs_store_open(settings->data, (uint64_t)settings->segment_bytes, &store, err);
    if (status == RS_OK)
        status = rs_grpc_loop_new(&loop, err);
    if (status == RS_OK)
        status = rs_learn_start(&learn, err);
    if (status == RS_OK) {
        own.store = store;
        own.learn = learn;
        const struct rs_gate_book book = rs_book_of(&own);
        const struct rs_coord_options coord = {.roles =
                                                   settings->roles ? rs_buf_text(&roles) : NULL};
        const struct rs_gate_options options = {.loop = loop,
                                                .store = store,
                                                .book = &book,
                                                .coord = &coord,
                                                .credit_bytes = (uint64_t)settings->credit_bytes};
        status = rs_gate_new(&options, &gate, err);
    }
    if (status == RS_OK)
        status = rs_book_learn(&own, err);
    if (status == RS_OK)
        status = rs_grpc_server_new(loop, &address, rs_gate_accept, gate, &server, err);
    if (status == RS_OK) {
        rs_daemon_on_signal(daemon, wake_loop, loop);
        if (!settings->is_quiet) {
            printf("listening on %s\n", address.text);
            (void)fflush(stdout);
        }
        status = serve(gate, server, &address, daemon, settings, err);
        rs_daemon_on_signal(daemon, NULL, NULL);
    }
    rs_grpc_server_free(&server);
    rs_gate_free(&gate);
    rs_grpc_loop_free(&loop);
    rs_learn_stop(&learn);
    rs_store_close(&store);
    rs_buf_fini(&roles);
    return status;
}

int rs_cmd_aggregator(int argc, char **argv)
{
    struct settings settings = {.drain_ns = 5 * (int64_t)RS_NS_PER_S};
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
        return rs_cli_fail("aggregator", &err);
    return RS_EXIT_COMPLETE;
}
