/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator's daemon put together. The main thread is the server's.
 */
#include "aggregator/daemon/aggregator.h"

#include "aggregator/daemon/http.h"
#include "aggregator/daemon/probe.h"
#include "aggregator/daemon/reach.h"
#include "aggregator/notify/notify.h"
#include "aggregator/server/capture_journal.h"
#include "aggregator/server/lease.h"
#include "aggregator/server/server.h"
#include "aggregator/store/row_place.h"
#include "common/base/daemon.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/client/config_watch.h"
#include "common/request/roles.h"
#include "common/trust/authority.h"
#include "common/trust/token.h"
#include "common/wire/link.h"

#define RS_LOG_TAG "aggregator"
#include "common/base/log.h"

#include <grp.h>
#include <stdio.h>
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

/* The folder of the sockets lets through whom the socket is for, and whom it let through before: jobs go to a collector's
 * socket in the same folder. */
static enum rs_status open_folder(const struct rs_aggregator_options *settings, gid_t gid,
                                  struct rs_err *err)
{
    struct stat info;
    if (!settings->runtime_dir || (!settings->group && !settings->is_for_users))
        return RS_OK;
    if (stat(settings->runtime_dir, &info) < 0)
        return rs_err_errno(err, "cannot look at %s", settings->runtime_dir);
    const mode_t wanted =
        (info.st_mode & 07777) | (settings->group ? 0010 : 0) | (settings->is_for_users ? 0011 : 0);
    if ((settings->group && chown(settings->runtime_dir, (uid_t)-1, gid) < 0) ||
        (wanted != (info.st_mode & 07777) && chmod(settings->runtime_dir, wanted) < 0))
        return rs_err_errno(err, "cannot open %s to %s %s", settings->runtime_dir,
                            settings->group ? "the group" : "the users of this machine",
                            settings->group ? settings->group : "");
    return RS_OK;
}

static enum rs_status give_to_group(const struct rs_aggregator_options *settings, const char *path,
                                    gid_t gid, struct rs_err *err)
{
    const char *group = settings->group ? settings->group : "of this process";
    if (chown(path, (uid_t)-1, gid) < 0 || chmod(path, settings->is_for_users ? 0666 : 0660) < 0)
        return rs_err_errno(err, "cannot give %s to the group %s", path, group);
    return open_folder(settings, gid, err);
}

/* An address that is served. */
struct place {
    struct rs_address address;
    struct rs_local_rules rules; /* of a unix socket */
    struct rs_grpc_server *listener;
};

struct places {
    struct place items[RS_AGGREGATOR_LISTEN_MAX + 1]; /* the one for joining last */
    size_t count;
    struct rs_daemon_http *http; /* NULL: none */
};

static void stop_listening(struct places *places)
{
    for (size_t i = 0; i < places->count; i++)
        if (places->items[i].listener)
            rs_grpc_server_stop(places->items[i].listener);
}

static bool all_stopped(const struct places *places)
{
    for (size_t i = 0; i < places->count; i++)
        if (places->items[i].listener && !rs_grpc_server_is_stopped(places->items[i].listener))
            return false;
    return true;
}

/* Listens; a unix socket comes into being with no right for others. */
static enum rs_status listen_at(const struct rs_aggregator_options *settings, struct rs_loop *loop,
                                struct place *place, struct rs_server *server, struct rs_err *err)
{
    gid_t gid = (gid_t)-1; /* as it is */
    const bool has_group = settings->group && place->address.is_unix;
    enum rs_status status = has_group ? find_group(settings->group, &gid, err) : RS_OK;
    place->rules = (struct rs_local_rules){.operators = settings->operators,
                                           .viewers = settings->viewers,
                                           .group = has_group ? gid : getegid()};
    place->address.local_rules = &place->rules;
    if (status == RS_OK)
        status = rs_local_check(&place->rules, err);
    if (status < 0)
        return status;
    const mode_t before = umask(0007);
    status =
        rs_grpc_server_new(loop, &place->address, rs_server_accept, server, &place->listener, err);
    (void)umask(before);
    return status == RS_OK && place->address.is_unix
               ? give_to_group(settings, place->address.path, gid, err)
               : status;
}

/* Before anybody came. */
static void end_listening(struct rs_loop *loop, struct places *places)
{
    stop_listening(places);
    while (!all_stopped(places))
        if (rs_loop_run(loop, rs_time_monotonic() + RS_NS_PER_S) < 0)
            break;
}

static enum rs_status listen_everywhere(const struct rs_aggregator_options *settings,
                                        struct rs_loop *loop, struct places *places,
                                        struct rs_server *server, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < places->count && status == RS_OK; i++)
        status = listen_at(settings, loop, &places->items[i], server, err);
    if (status == RS_OK)
        return RS_OK;
    end_listening(loop, places);
    return status;
}

static enum rs_status find_places(const struct rs_aggregator_options *settings, const char *certs,
                                  struct places *places, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < settings->listen_count && status == RS_OK; i++) {
        struct rs_address *address = &places->items[places->count++].address;
        status = rs_address_parse(settings->listen[i], address, err);
        if (status == RS_OK)
            status = rs_address_guard(address, certs, settings->is_insecure_loopback, err);
    }
    if (status < 0 || !settings->join)
        return status;
    struct rs_address *address = &places->items[places->count++].address;
    status = rs_address_parse(settings->join, address, err);
    if (status == RS_OK && address->is_unix)
        status =
            rs_err_set(err, RS_INVALID, "--join takes HOST:PORT: nobody joins over a unix socket");
    if (status == RS_OK)
        status = rs_address_guard(address, certs, false, err);
    address->guard = RS_ADDRESS_JOIN;
    return status;
}

/* How a thread of our own asks: over a unix socket if there is one; an address that means every one is no name that our
 * certificate has. */
static struct rs_address own_address(const struct places *places)
{
    struct rs_address address = places->items[0].address;
    for (size_t i = 0; i < places->count; i++)
        if (places->items[i].address.is_unix)
            return places->items[i].address;
    if (strncmp(address.target, "ipv4:0.0.0.0:", 13) == 0)
        (void)snprintf(address.target, sizeof address.target, "ipv4:127.0.0.1:%s",
                       strrchr(address.text, ':') + 1);
    else if (strncmp(address.target, "ipv6:[::]:", 10) == 0)
        (void)snprintf(address.target, sizeof address.target, "ipv6:[::1]:%s",
                       strrchr(address.text, ':') + 1);
    return address;
}

/* Whether who came with a certificate is believed still; NULL: look for new revocations. */
static enum rs_status check_identity(void *self, const struct rs_identity *identity,
                                     struct rs_err *err)
{
    const struct places *places = self;
    const bool is_token =
        identity && strncmp(identity->serial, rs_token_serial, strlen(rs_token_serial)) == 0;
    if (!identity || is_token) {
        const enum rs_status status = rs_daemon_http_check(places->http, identity, err);
        if (is_token)
            return status;
    }
    for (size_t i = 0; i < places->count; i++) {
        if (!places->items[i].listener || places->items[i].address.guard != RS_ADDRESS_MUTUAL)
            continue;
        if (identity) /* all listeners read the same folder */
            return rs_grpc_server_check(places->items[i].listener, identity, rs_time_realtime(),
                                        err);
        rs_grpc_server_refresh(places->items[i].listener);
    }
    return identity ? rs_daemon_http_check(places->http, identity, err) : RS_OK;
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

static enum rs_status turn_probes(struct rs_probe *const *probes, size_t count, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < count && status == RS_OK; i++)
        status = rs_probe_turn(probes[i], err);
    return status;
}

/* Serves until SIGTERM, then lets what is under way finish. */
static enum rs_status serve(struct rs_server *server, struct places *places,
                            struct rs_daemon *daemon, const struct rs_aggregator_options *settings,
                            struct rs_err *err)
{
    enum rs_status status = RS_OK;
    struct rs_config_watch *config_watch = NULL;
    const struct rs_address own = own_address(places);
    const struct rs_config_watch_options watch_options = {
        .dir = settings->profiler_config, .run = "", .address = &own};
    if (settings->profiler_config)
        status = rs_config_watch_start(&watch_options, &config_watch, err);
    struct rs_probe *probes[RS_AGGREGATOR_LISTEN_MAX + 1] = {NULL};
    size_t probe_count = 0;
    for (; probe_count < places->count && status == RS_OK; probe_count++)
        status = rs_probe_start(&places->items[probe_count].address, &probes[probe_count], err);
    rs_thread_is(RS_THREAD_LINKS);
    while (status == RS_OK && rs_daemon_stop_count(daemon) == 0) {
        status = rs_server_step(server, rs_time_monotonic() + RS_NS_PER_S, err);
        rs_daemon_http_turn(places->http);
        if (status == RS_OK)
            status = turn_probes(probes, probe_count, err);
    }
    for (size_t i = 0; i < probe_count; i++)
        rs_probe_stop(&probes[i]);
    rs_config_watch_stop(&config_watch);
    rs_daemon_http_stop(places->http);
    rs_server_drain(server);
    stop_listening(places);
    const rs_ns deadline = rs_time_monotonic() + settings->drain_ns;
    bool is_cancelled = false;
    while (rs_server_session_count(server) || !all_stopped(places)) {
        const bool must_hurry =
            rs_time_monotonic() >= deadline || status < 0 || rs_daemon_stop_count(daemon) > 1;
        if (must_hurry && !is_cancelled) {
            for (size_t i = 0; i < places->count; i++)
                rs_grpc_server_cancel(places->items[i].listener);
            is_cancelled = true;
        }
        /* The first failure is the one to tell. */
        if (rs_server_step(server, rs_time_monotonic() + RS_NS_PER_S / 20, NULL) < 0 &&
            status == RS_OK)
            status = rs_err_set(err, RS_IO, "the disk refused to make data durable");
    }
    return status;
}

/* The authority, when its key is here; without one nobody joins and nothing is renewed. */
static enum rs_status open_authority(const struct rs_aggregator_options *settings, const char *dir,
                                     struct rs_authority **authority_p, struct rs_err *err)
{
    const enum rs_status status = rs_authority_open(dir, authority_p, err);
    return status == RS_NOTFOUND && !settings->ca && !settings->join ? RS_OK : status;
}

/* Where links with certificates are taken, for who has just joined: ":PORT" of the host that it reached. */
static void find_port(const struct places *places, char port_p[16])
{
    for (size_t i = 0; i < places->count && !*port_p; i++)
        if (places->items[i].address.guard == RS_ADDRESS_MUTUAL)
            (void)snprintf(port_p, 16, "%s", strrchr(places->items[i].address.text, ':'));
}

static void tell_places(const struct rs_aggregator_options *settings, const struct places *places)
{
    const char *address = NULL;
    for (size_t i = 0; settings->on_listening && i < places->count; i++)
        settings->on_listening(settings->self, places->items[i].address.text,
                               places->items[i].address.guard == RS_ADDRESS_JOIN);
    for (size_t i = 0;
         settings->on_listening && (address = rs_daemon_http_address(places->http, i)) != NULL; i++)
        settings->on_listening(settings->self, address, false);
}

/* A capture that failed, or that names somebody, is worth telling. */
static void tell_of_capture(void *self, const struct rs_capture_facts *facts, const char *headline)
{
    const bool has_failed =
        strcmp(facts->state, "failed") == 0 || strcmp(facts->state, "partial") == 0;
    char text[1024];
    if (headline)
        (void)snprintf(text, sizeof text, "Run %.200s, capture %s: %.600s", facts->run, facts->id,
                       headline);
    else
        (void)snprintf(text, sizeof text, "Run %.200s, capture %s is %s%s%.500s", facts->run,
                       facts->id, facts->state, *facts->reason ? ": " : "", facts->reason);
    const struct rs_notify_event event = {.event = headline ? "culprit_found" : "capture_failed",
                                          .run = facts->run,
                                          .capture = facts->id,
                                          .state = facts->state,
                                          .text = text,
                                          .at = rs_time_realtime()};
    if (headline || has_failed)
        rs_notify_put(self, &event);
}

static void tell_of_alarm(void *self, const char *event_name, const char *run, const char *capture,
                          const char *text)
{
    const struct rs_notify_event event = {.event = event_name,
                                          .run = run,
                                          .capture = capture,
                                          .state = "",
                                          .text = text,
                                          .at = rs_time_realtime()};
    rs_notify_put(self, &event);
}

/* What is not in the data folder. */
static enum rs_status open_elsewhere(const struct rs_aggregator_options *settings,
                                     struct rs_archive **archive_p, struct rs_row_place **rows_p,
                                     struct rs_err *err)
{
    const enum rs_status status = rs_archive_open(&settings->archive, archive_p, err);
    return status == RS_OK && settings->store.url ? rs_row_place_open(&settings->store, rows_p, err)
                                                  : status;
}

/* What an aggregator is made of. Zeroed is nothing. */
struct parts {
    struct places places;
    struct rs_store *store;
    struct rs_loop *loop;
    struct rs_server *server;
    struct rs_infer_roles *infer;
    struct rs_authority *authority;
    struct rs_notify *notify;
    struct rs_archive *archive;
    struct rs_row_place *rows;
    struct rs_lease *lease; /* NULL: rows are in the captures' folders */
    struct rs_capture_journal own;
    struct rs_buf roles;
    char *certs, *ca, *documents, *audit, *tokens; /* paths */
    char port[16];
};

static void http_refused(void *self, const struct rs_identity *who, const char *from,
                         const char *path, const char *why)
{
    rs_server_refused(self, who, from, path, why);
}

static enum rs_status serve_http(const struct rs_aggregator_options *settings, struct parts *parts,
                                 struct rs_err *err)
{
    const struct rs_daemon_http_options options = {.addresses = settings->http,
                                                   .count = settings->http_count,
                                                   .certs = parts->certs,
                                                   .tokens = parts->tokens,
                                                   .is_insecure_loopback =
                                                       settings->is_insecure_loopback,
                                                   .loop = parts->loop,
                                                   .accept = rs_server_accept,
                                                   .accept_self = parts->server,
                                                   .refused = http_refused,
                                                   .self = parts->server};
    return rs_daemon_http_start(&options, &parts->places.http, err);
}

/* On rs-lease. */
static void count_captures(void *self, int64_t *captures_p, int64_t *open_p)
{
    size_t all = 0, open = 0;
    if (rs_store_count_captures(self, &all, &open, NULL) < 0)
        return;
    *captures_p = (int64_t)all;
    *open_p = (int64_t)open;
}

static void find_host(char host_p[RS_FLEET_HOST_BYTES])
{
    memset(host_p, 0, RS_FLEET_HOST_BYTES);
    if (gethostname(host_p, RS_FLEET_HOST_BYTES - 1) < 0)
        (void)snprintf(host_p, RS_FLEET_HOST_BYTES, "unknown");
}

/* Who has the lock of the data folder has its id. */
static enum rs_status make_lease(const struct rs_aggregator_options *settings, struct parts *parts,
                                 struct rs_err *err)
{
    char id[RS_FLEET_ID_BYTES], host[RS_FLEET_HOST_BYTES];
    struct rs_lease_options options = {.database = settings->store,
                                       .id = id,
                                       .host = host,
                                       .version = RS_PROGRAM_VERSION,
                                       .count = count_captures,
                                       .self = parts->store};
    struct rs_address address;
    if (!parts->rows)
        return RS_OK;
    find_host(host);
    enum rs_status status =
        settings->advertise ? rs_address_parse(settings->advertise, &address, err) : RS_OK;
    if (status == RS_OK)
        status = rs_fleet_id_take(settings->data, id, &options.epoch, err);
    if (status == RS_OK)
        rs_store_tag_names(parts->store, id);
    return status == RS_OK ? rs_lease_new(&options, &parts->lease, err) : status;
}

/* Once all is served, and ports are known. */
static enum rs_status start_lease(const struct rs_aggregator_options *settings, struct parts *parts,
                                  struct rs_err *err)
{
    const char *served[RS_AGGREGATOR_LISTEN_MAX + 1];
    const char *http = rs_daemon_http_address(parts->places.http, 0);
    char host[RS_FLEET_HOST_BYTES], address[RS_FLEET_ADDRESS_BYTES], page[RS_FLEET_ADDRESS_BYTES];
    size_t count = 0;
    if (!parts->lease)
        return RS_OK;
    find_host(host);
    for (size_t i = 0; i < parts->places.count; i++)
        if (parts->places.items[i].address.guard != RS_ADDRESS_JOIN)
            served[count++] = parts->places.items[i].address.text;
    const char *told =
        settings->advertise ? settings->advertise : served[rs_reach_choose(served, count)];
    if (!rs_reach_text(told, host, address, sizeof address) ||
        !rs_reach_text(http ? http : "", host, page, sizeof page))
        return rs_err_set(err, RS_INVALID, "the address %.200s is too long to be told", told);
    return rs_lease_start(parts->lease, address, page, err);
}

static enum rs_status name_paths(const struct rs_aggregator_options *settings, struct parts *parts,
                                 struct rs_err *err)
{
    const char *data = settings->data;
    parts->certs = settings->certs ? rs_mem_strdup(settings->certs) : rs_file_join(data, "certs");
    parts->ca = settings->ca ? rs_mem_strdup(settings->ca) : rs_file_join(data, "ca");
    parts->documents = rs_file_join(data, "documents");
    parts->audit = rs_file_join(data, "audit.jsonl");
    parts->tokens = rs_file_join(data, "tokens");
    return parts->certs && parts->ca && parts->documents && parts->audit && parts->tokens
               ? RS_OK
               : rs_err_set(err, RS_NOMEM, "no memory for the names of folders");
}

/* All but the server. */
static enum rs_status open_parts(const struct rs_aggregator_options *settings, struct parts *parts,
                                 struct rs_err *err)
{
    const struct rs_notify_options hooks = {.urls = settings->webhooks,
                                            .url_count = settings->webhook_count,
                                            .slack_urls = settings->slack_webhooks,
                                            .slack_count = settings->slack_count,
                                            .secret_file = settings->webhook_secret};
    enum rs_status status = name_paths(settings, parts, err);
    if (status == RS_OK)
        status = find_places(settings, parts->certs, &parts->places, err);
    if (status == RS_OK)
        status = open_authority(settings, parts->ca, &parts->authority, err);
    if (status == RS_OK)
        status = read_roles(settings->roles, &parts->roles, err);
    if (status == RS_OK)
        status =
            rs_store_open(settings->data, (uint64_t)settings->segment_bytes, &parts->store, err);
    if (status == RS_OK)
        status = rs_grpc_loop_new(&parts->loop, err);
    if (status == RS_OK)
        status = rs_infer_roles_start(&parts->infer, err);
    if (status == RS_OK)
        status = rs_notify_start(&hooks, &parts->notify, err);
    if (status == RS_OK)
        status = open_elsewhere(settings, &parts->archive, &parts->rows, err);
    if (status == RS_OK)
        status = make_lease(settings, parts, err);
    return status;
}

static enum rs_status make_server(const struct rs_aggregator_options *settings, struct parts *parts,
                                  struct rs_err *err)
{
    parts->own.store = parts->store;
    parts->own.infer = parts->infer;
    const struct rs_server_journal journal = rs_capture_journal_interface(&parts->own);
    const struct rs_coord_options coord = {.roles =
                                               settings->roles ? rs_buf_text(&parts->roles) : NULL};
    const struct rs_server_options options = {.loop = parts->loop,
                                              .store = parts->store,
                                              .journal = &journal,
                                              .coord = &coord,
                                              .documents_dir = parts->documents,
                                              .audit_path = parts->audit,
                                              .authority = parts->authority,
                                              .stream_port = parts->port,
                                              .check_identity = check_identity,
                                              .check_self = &parts->places,
                                              .on_closed = tell_of_capture,
                                              .closed_self = parts->notify,
                                              .on_alarm = tell_of_alarm,
                                              .alarm_self = parts->notify,
                                              .hang = settings->hang,
                                              .step_watch = settings->step_watch,
                                              .archive = parts->archive,
                                              .rows = parts->rows,
                                              .lease = parts->lease,
                                              .archive_ns = settings->archive_ns,
                                              .missing_ns = settings->missing_ns,
                                              .keep_ns = settings->keep_ns,
                                              .keep_bytes = (uint64_t)settings->keep_bytes,
                                              .keep_bytes_each =
                                                  (uint64_t)settings->keep_bytes_each,
                                              .credit_bytes = (uint64_t)settings->credit_bytes};
    return rs_server_new(&options, &parts->server, err);
}

/* In the order in which they no longer need each other. */
static void close_parts(struct parts *parts)
{
    for (size_t i = 0; i < parts->places.count; i++)
        rs_grpc_server_free(&parts->places.items[i].listener);
    rs_server_free(&parts->server);
    rs_lease_stop(&parts->lease);
    rs_archive_close(&parts->archive);
    rs_row_place_close(&parts->rows);
    rs_daemon_http_free(&parts->places.http);
    rs_notify_stop(&parts->notify);
    rs_grpc_loop_free(&parts->loop);
    rs_infer_roles_stop(&parts->infer);
    rs_store_close(&parts->store);
    rs_authority_close(&parts->authority);
    rs_mem_free(parts->documents);
    rs_mem_free(parts->audit);
    rs_mem_free(parts->tokens);
    rs_mem_free(parts->certs);
    rs_mem_free(parts->ca);
    rs_buf_fini(&parts->roles);
}

/* What may be so, and is better otherwise. */
static void tell_of_rights(const struct rs_aggregator_options *settings)
{
    char others[RS_FILE_OTHERS_BYTES];
    rs_file_others(settings->data, others);
    if (*others)
        rs_log_warn("the data folder %s is not safe from others: %s; captures, tokens and "
                    "certificates can be changed there",
                    settings->data, others);
    if (geteuid() == 0)
        rs_log_warn("it runs as root, and needs none of root's rights: a user of its own will do");
}

static enum rs_status run(const struct rs_aggregator_options *settings, struct rs_daemon *daemon,
                          struct rs_err *err)
{
    struct parts parts = {.places = {.count = 0}};
    enum rs_status status = open_parts(settings, &parts, err);
    if (status == RS_OK)
        tell_of_rights(settings);
    if (status == RS_OK)
        status = make_server(settings, &parts, err);
    if (status == RS_OK)
        status = rs_capture_journal_infer_roles(&parts.own, err);
    if (status == RS_OK)
        status = listen_everywhere(settings, parts.loop, &parts.places, parts.server, err);
    if (status == RS_OK) {
        status = serve_http(settings, &parts, err);
        if (status == RS_OK)
            status = start_lease(settings, &parts, err);
        if (status < 0) {
            rs_daemon_http_stop(parts.places.http);
            end_listening(parts.loop, &parts.places);
        }
    }
    if (status == RS_OK) {
        find_port(&parts.places, parts.port);
        rs_daemon_on_signal(daemon, wake_loop, parts.loop);
        tell_places(settings, &parts.places);
        status = serve(parts.server, &parts.places, daemon, settings, err);
        rs_daemon_on_signal(daemon, NULL, NULL);
    }
    close_parts(&parts);
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
