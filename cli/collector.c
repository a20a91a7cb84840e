/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope collector`: one per node. Sources pour into the spool, the uplink drains it.
 *
 * This file puts the rooms together. The main thread is the uplink's; collect.h says who else is there.
 */
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/collect.h"
#include "cli/collect_config.h"
#include "cli/collector_settings.h"
#include "cli/config_watch.h"
#include "cli/daemon.h"
#include "cli/tracedir.h"
#include "collector/trigger/ascend.h"
#include "collector/trigger/mindspore.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_TOLD_ASCEND, FILE_TOLD_MINDSPORE, FILE_TOLD_COUNT };

static const enum rs_rank_kind file_told_kinds[FILE_TOLD_COUNT] = {
    [FILE_TOLD_ASCEND] = RS_RANK_ASCEND, [FILE_TOLD_MINDSPORE] = RS_RANK_MINDSPORE};

struct collector {
    const struct collector_settings *settings;
    struct rs_address address;
    struct rs_loop *loop;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    struct rs_collect_native *native;
    struct rs_collect_kineto *kineto;
    struct rs_collect_config *file_told[FILE_TOLD_COUNT]; /* NULL: not asked for */
    struct rs_collect_watch *watch;
    struct rs_config_watch *config_watch;
    Rankscope__RankState **states; /* of all ranks, for the uplink */
    size_t state_capacity;
    int64_t spool_free,
        trace_free;  /* bytes where native ranks, and all others, end up here; 0 unknown */
    rs_ns looked_at; /* monotonic; for the two above */
};

/* ---- what the uplink asks --------------------------------------------------------------------------------- */

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct collector *collector = self;
    return rs_grpc_connect(collector->loop, &collector->address, RS_WIRE_METHOD_STREAM, user,
                           user_self, link_p, err);
}

/* Behind the `count` that are there; how many then. */
static size_t add_ranks(struct collector *collector, size_t count, Rankscope__RankState **states,
                        size_t more)
{
    if (rs_mem_grow((void **)&collector->states, &collector->state_capacity, count + more + 1,
                    sizeof(Rankscope__RankState *)) < 0)
        return count;
    for (size_t i = 0; i < more; i++)
        collector->states[count + i] = states[i];
    return count + more;
}

static int64_t free_bytes(const char *dir)
{
    struct rs_tracedir_facts facts;
    return dir && *dir && rs_tracedir_look(dir, &facts, NULL) == RS_OK ? facts.free_bytes : 0;
}

/* What a rank could write, for the judge of requests: looked at now and then. */
static void tell_space(struct collector *collector, size_t count)
{
    const rs_ns now = rs_time_monotonic();
    if (!collector->looked_at || now - collector->looked_at > 5 * (rs_dur)RS_NS_PER_S) {
        collector->looked_at = now;
        collector->spool_free = free_bytes(collector->settings->spool);
        collector->trace_free = free_bytes(collector->settings->trace_dir);
    }
    for (size_t i = 0; i < count; i++)
        collector->states[i]->free_disk_bytes = collector->states[i]->kind == RS_RANK_NATIVE
                                                    ? collector->spool_free
                                                    : collector->trace_free;
}

static size_t give_ranks(void *self, Rankscope__RankState ***states_p)
{
    struct collector *collector = self;
    Rankscope__RankState **states = NULL;
    size_t count = 0;
    size_t more = collector->native ? rs_collect_native_ranks(collector->native, &states) : 0;
    count = add_ranks(collector, count, states, more);
    more = collector->kineto ? rs_collect_kineto_ranks(collector->kineto, &states) : 0;
    count = add_ranks(collector, count, states, more);
    for (int i = 0; i < FILE_TOLD_COUNT; i++) {
        if (!collector->file_told[i])
            continue;
        more = rs_collect_config_ranks(collector->file_told[i], &states);
        count = add_ranks(collector, count, states, more);
    }
    tell_space(collector, count);
    *states_p = collector->states;
    return count;
}

static void on_prepare(void *self, const Rankscope__Prepare *prepare)
{
    struct collector *collector = self;
    if (prepare->kind == RS_RANK_KINETO && collector->kineto)
        rs_collect_kineto_prepare(collector->kineto, prepare);
    else if (prepare->kind == RS_RANK_NATIVE && collector->native)
        rs_collect_native_prepare(collector->native, prepare);
    for (int i = 0; i < FILE_TOLD_COUNT; i++)
        if (prepare->kind == file_told_kinds[i] && collector->file_told[i])
            rs_collect_config_prepare(collector->file_told[i], prepare);
}

static void on_commit(void *self, const Rankscope__Commit *commit)
{
    struct collector *collector = self;
    if (commit->kind == RS_RANK_KINETO && collector->kineto)
        rs_collect_kineto_commit(collector->kineto, commit);
    else if (commit->kind == RS_RANK_NATIVE && collector->native)
        rs_collect_native_commit(collector->native, commit);
    for (int i = 0; i < FILE_TOLD_COUNT; i++)
        if (commit->kind == file_told_kinds[i] && collector->file_told[i])
            rs_collect_config_commit(collector->file_told[i], commit);
}

static void on_cancel(void *self, const Rankscope__Cancel *cancel)
{
    struct collector *collector = self;
    if (collector->native)
        rs_collect_native_cancel(collector->native, cancel);
    if (collector->kineto)
        rs_collect_kineto_cancel(collector->kineto, cancel);
    for (int i = 0; i < FILE_TOLD_COUNT; i++)
        if (collector->file_told[i])
            rs_collect_config_cancel(collector->file_told[i], cancel);
}

static void before_chunk(void *self)
{
    struct collector *collector = self;
    if (collector->native)
        rs_collect_native_letters(collector->native, collector->uplink);
    if (collector->kineto)
        rs_collect_kineto_letters(collector->kineto, collector->uplink);
    for (int i = 0; i < FILE_TOLD_COUNT; i++)
        if (collector->file_told[i])
            rs_collect_config_letters(collector->file_told[i], collector->uplink);
}

static void wake_loop(void *self)
{
    rs_loop_wake(self);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

/* Another daemon on the profiler's socket stops us only when its place was asked for. */
static enum rs_status start_kineto(struct collector *collector, struct rs_err *err)
{
    const struct collector_settings *settings = collector->settings;
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

static enum rs_status open_trigger(const struct collector_settings *settings, int which,
                                   struct rs_config_trigger **trigger_p, struct rs_err *err)
{
    const struct rs_arg_list *dirs =
        which == FILE_TOLD_ASCEND ? &settings->ascend_dirs : &settings->mindspore_dirs;
    const struct rs_config_trigger_options options = {
        .dirs = dirs->items, .dir_count = dirs->count, .result_root = settings->trace_dir};
    return which == FILE_TOLD_ASCEND
               ? rs_ascend_trigger_open(&options, trigger_p, err)
               : rs_mindspore_trigger_open(&options, settings->mindspore_way, trigger_p, err);
}

/* Profilers that are told by a profiler_config.json. */
static enum rs_status start_file_told(struct collector *collector, int which, struct rs_err *err)
{
    const struct collector_settings *settings = collector->settings;
    const struct rs_collect_config_options options = {.spool = collector->spool,
                                                      .kind = file_told_kinds[which],
                                                      .trace_dir = settings->trace_dir,
                                                      .run = settings->run ? settings->run : "",
                                                      .host = settings->host,
                                                      .has_no_probe = which == FILE_TOLD_ASCEND &&
                                                                      settings->has_no_ascend_probe,
                                                      .must_discard = settings->must_discard,
                                                      .parse_wait_ns = settings->parse_wait_ns,
                                                      .wake = wake_loop,
                                                      .wake_self = collector->loop};
    struct rs_config_trigger *trigger = NULL;
    if (which == FILE_TOLD_ASCEND ? settings->has_no_ascend : settings->has_no_mindspore)
        return RS_OK;
    const enum rs_status status = open_trigger(settings, which, &trigger, err);
    return status == RS_OK
               ? rs_collect_config_start(&options, trigger, &collector->file_told[which], err)
               : status;
}

static enum rs_status start_sources(struct collector *collector, struct rs_err *err)
{
    const struct collector_settings *settings = collector->settings;
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
    for (int i = 0; i < FILE_TOLD_COUNT && status == RS_OK; i++)
        status = start_file_told(collector, i, err);
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

static void stop_file_told(struct collector *collector)
{
    for (int i = 0; i < FILE_TOLD_COUNT; i++)
        rs_collect_config_stop(&collector->file_told[i], collector->uplink);
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
    stop_file_told(collector);
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

static enum rs_status run(const struct collector_settings *settings, struct rs_daemon *daemon,
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
    stop_file_told(&collector);
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
    struct collector_settings settings;
    struct rs_err err = {0};
    struct rs_daemon *daemon = NULL;
    enum rs_status status = collector_settings_read(&settings, argc, argv, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
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
