/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's daemon put together. The main thread is the server's.
 */
#include "aggregator/server/aggregator.h"

#include "aggregator/server/capture_journal.h"
#include "aggregator/server/probe.h"
#include "aggregator/server/server.h"
#include "common/base/daemon.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/client/config_watch.h"
#include "common/request/roles.h"
#include "common/wire/link.h"

#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- who may ask ------------------------------------------------------------------------------------------------- */

static enum rs_status find_group(const char *name, gid_t *gid_p, struct rs_err *err)
{
    struct group group, *found = NULL;
    char text[16384]; /* of its members' names */
    const int failure = getgrnam_r(name, &group, text, sizeof text, &found);
    if (!found)
        return rs_err_set(err, failure ? RS_IO : RS_INVALID, "there is no group %.100s", name);
    *gid_p = group.gr_gid;
    return RS_OK;
}

static enum rs_status give_to_group(const struct rs_aggregator_options *settings, const char *path,
                                    gid_t gid, struct rs_err *err)
{
    const char *group = settings->group ? settings->group : "of this process";
    if (chown(path, (uid_t)-1, gid) < 0 || chmod(path, 0660) < 0)
        return rs_err_errno(err, "cannot give %s to the group %s", path, group);
    if (settings->group && settings->runtime_dir &&
        (chown(settings->runtime_dir, (uid_t)-1, gid) < 0 ||
         chmod(settings->runtime_dir, 0710) < 0))
        return rs_err_errno(err, "cannot open %s to the group %s", settings->runtime_dir, group);
    return RS_OK;
}

/* Listens; a unix socket comes into being with no right for others. */
static enum rs_status listen_for(const struct rs_aggregator_options *settings, struct rs_loop *loop,
                                 struct rs_address *address, struct rs_server *server,
                                 struct rs_grpc_server **listener_p, struct rs_err *err)
{
    gid_t gid = (gid_t)-1; /* as it is */
    enum rs_status status = settings->group ? find_group(settings->group, &gid, err) : RS_OK;
    if (status < 0)
        return status;
    const mode_t before = umask(0007);
    status = rs_grpc_server_new(loop, address, rs_server_accept, server, listener_p, err);
    (void)umask(before);
    if (status < 0 || !address->is_unix)
        return status;
    status = give_to_group(settings, address->path, gid, err);
    if (status < 0) {
        rs_grpc_server_stop(*listener_p);
        while (!rs_grpc_server_is_stopped(*listener_p))
            if (rs_loop_run(loop, rs_time_monotonic() + RS_NS_PER_S) < 0)
                break;
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
static enum rs_status serve(struct rs_server *server, struct rs_grpc_server *listener,
                            const struct rs_address *address, struct rs_daemon *daemon,
                            const struct rs_aggregator_options *settings, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    struct rs_config_watch *config_watch = NULL;
    const struct rs_config_watch_options watch_options = {
        .dir = settings->profiler_config, .run = "", .address = address};
    if (settings->profiler_config)
        status = rs_config_watch_start(&watch_options, &config_watch, err);
    struct rs_probe *probe = NULL;
    if (status == RS_OK)
        status = rs_probe_start(address, &probe, err);
    while (status == RS_OK && rs_daemon_stop_count(daemon) == 0) {
        status = rs_server_step(server, rs_time_monotonic() + RS_NS_PER_S, err);
        if (status == RS_OK)
            status = rs_probe_turn(probe, err);
    }
    rs_probe_stop(&probe);
    rs_config_watch_stop(&config_watch);
    rs_server_drain(server);
    rs_grpc_server_stop(listener);
    const rs_ns deadline = rs_time_monotonic() + settings->drain_ns;
    bool is_cancelled = false;
    while (rs_server_session_count(server) || !rs_grpc_server_is_stopped(listener)) {
        const bool must_hurry =
            rs_time_monotonic() >= deadline || status < 0 || rs_daemon_stop_count(daemon) > 1;
        if (must_hurry && !is_cancelled) {
            rs_grpc_server_cancel(listener);
            is_cancelled = true;
        }
        /* The first failure is the one to tell. */
        if (rs_server_step(server, rs_time_monotonic() + RS_NS_PER_S / 20, NULL) < 0 &&
            status == RS_OK)
            status = rs_err_set(err, RS_IO, "the disk refused to make data durable");
    }
    return status;
}

static enum rs_status run(const struct rs_aggregator_options *settings, struct rs_daemon *daemon,
                          struct rs_err *err)
{
    struct rs_address address;
    struct rs_store *store = NULL;
    struct rs_loop *loop = NULL;
    struct rs_server *server = NULL;
    struct rs_grpc_server *listener = NULL;
    struct rs_infer_roles *infer = NULL;
    struct rs_capture_journal own = {.store = NULL};
    struct rs_buf roles = {0};
    char *documents = NULL;
    enum rs_status status = rs_address_parse(settings->listen, &address, err);
    if (status == RS_OK)
        status = read_roles(settings->roles, &roles, err);
    if (status == RS_OK)
        status = rs_store_open(settings->data, (uint64_t)settings->segment_bytes, &store, err);
    if (status == RS_OK)
        status = rs_grpc_loop_new(&loop, err);
    if (status == RS_OK)
        status = rs_infer_roles_start(&infer, err);
    if (status == RS_OK) {
        own.store = store;
        own.infer = infer;
        const struct rs_server_journal journal = rs_capture_journal_interface(&own);
        const struct rs_coord_options coord = {.roles =
                                                   settings->roles ? rs_buf_text(&roles) : NULL};
        documents = rs_file_join(settings->data, "documents");
        const struct rs_server_options options = {.loop = loop,
                                                  .store = store,
                                                  .journal = &journal,
                                                  .coord = &coord,
                                                  .documents_dir = documents,
                                                  .hang = settings->hang,
                                                  .credit_bytes = (uint64_t)settings->credit_bytes};
        status = documents ? rs_server_new(&options, &server, err)
                           : rs_err_set(err, RS_NOMEM, "out of memory");
    }
    if (status == RS_OK)
        status = rs_capture_journal_infer_roles(&own, err);
    if (status == RS_OK)
        status = listen_for(settings, loop, &address, server, &listener, err);
    if (status == RS_OK) {
        rs_daemon_on_signal(daemon, wake_loop, loop);
        if (settings->on_listening)
            settings->on_listening(settings->self, address.text);
        status = serve(server, listener, &address, daemon, settings, err);
        rs_daemon_on_signal(daemon, NULL, NULL);
    }
    rs_grpc_server_free(&listener);
    rs_server_free(&server);
    rs_grpc_loop_free(&loop);
    rs_infer_roles_stop(&infer);
    rs_store_close(&store);
    rs_mem_free(documents);
    rs_buf_fini(&roles);
    return status;
}

enum rs_status rs_aggregator_run(const struct rs_aggregator_options *options, struct rs_err *err)
{
    struct rs_daemon *daemon = NULL;
    (void)rs_grpc_raise_file_limit();
    enum rs_status status = rs_daemon_start(&daemon, err);
    if (status == RS_OK)
        status = run(options, daemon, err);
    rs_daemon_end(&daemon);
    return status;
}
