/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's daemon put together: sources emit into the spool, the uplink drains it.
 *
 * The main thread is the uplink's; collect.h says who else is there.
 */
#include "collector/agent/agent.h"

#include "collector/agent/collect.h"
#include "collector/agent/collect_config.h"
#include "collector/agent/collect_flight.h"
#include "collector/agent/courier.h"
#include "collector/agent/enrol.h"
#include "collector/agent/metrics.h"
#include "collector/agent/tracedir.h"
#include "collector/trigger/libraries.h"
#include "common/base/daemon.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "common/client/client.h"
#include "common/client/config_watch.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADAPTERS_MAX = 8 };

struct collector {
    const struct rs_agent_options *settings;
    struct rs_aggregators aggregators;
    struct rs_loop *loop;
    struct rs_spool *spool;
    struct rs_uplink *uplink;
    struct rs_courier courier;
    struct rs_agent_adapter *adapters[ADAPTERS_MAX]; /* those that were asked for */
    size_t adapter_count;
    Rankscope__Adapter announced[ADAPTERS_MAX], *announcement[ADAPTERS_MAX];
    uint32_t restless; /* numbers, as bits, of those whose ranks change without a message */
    struct rs_collect_watch *watch;
    struct rs_collect_flight *flight;
    struct rs_config_watch *config_watch;
    struct rs_renewal *renewal;         /* of our certificate */
    struct rs_metrics *metrics;         /* NULL: not served */
    struct rs_library_cache *libraries; /* of the ranks' processes */
    char node[RS_IDENTITY_NAME_BYTES];  /* when none was given */
    Rankscope__RankState **states;      /* of all ranks, for the uplink */
    size_t state_capacity;
    int64_t spool_free, free_memory, /* of the host; the same */
        trace_free; /* bytes where ranks without, and with, files of their own end up here; 0 unknown */
    rs_ns looked_at; /* monotonic; for the two above */
};

/* ---- what the uplink asks --------------------------------------------------------------------------------- */

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct collector *collector = self;
    return rs_grpc_connect(collector->loop, rs_aggregators_address(&collector->aggregators),
                           RS_WIRE_METHOD_STREAM, user, user_self, link_p, err);
}

static void on_hello(void *self, Rankscope__Hello *hello)
{
    struct collector *collector = self;
    rs_aggregators_hello(&collector->aggregators, hello, rs_time_monotonic());
}

static bool on_welcome(void *self, const Rankscope__Welcome *welcome)
{
    struct collector *collector = self;
    return rs_aggregators_welcome(&collector->aggregators, welcome);
}

static void on_goodbye(void *self, const Rankscope__Goodbye *goodbye)
{
    struct collector *collector = self;
    rs_aggregators_goodbye(&collector->aggregators, goodbye->go_to);
}

static bool on_away(void *self)
{
    struct collector *collector = self;
    return rs_aggregators_away(&collector->aggregators, rs_time_monotonic());
}

static unsigned owner(void *self, const char *id, const char *address)
{
    const struct collector *collector = self;
    return rs_aggregators_find(&collector->aggregators, id, address);
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

/* What its ranks could write, for the validation of requests: looked at now and then. */
static int64_t space_of(struct collector *collector, const struct rs_agent_adapter *adapter)
{
    const rs_ns now = rs_time_monotonic();
    if (!collector->looked_at || now - collector->looked_at > 5 * (rs_dur)RS_NS_PER_S) {
        collector->looked_at = now;
        collector->spool_free = free_bytes(collector->settings->spool);
        collector->trace_free = free_bytes(collector->settings->trace_dir);
        collector->free_memory = rs_process_free_memory();
    }
    return adapter->what.capabilities & RS_CAP_WRITES_FILES ? collector->trace_free
                                                            : collector->spool_free;
}

static size_t give_ranks(void *self, Rankscope__RankState ***states_p)
{
    struct collector *collector = self;
    const rs_ns now = rs_time_monotonic();
    size_t count = 0;
    for (size_t i = 0; i < collector->adapter_count; i++) {
        struct rs_agent_adapter *adapter = collector->adapters[i];
        Rankscope__RankState **states = NULL;
        const size_t more = rs_agent_adapter_ranks(adapter, &states);
        for (size_t k = 0; k < more; k++) {
            states[k]->free_disk_bytes = space_of(collector, adapter);
            states[k]->free_memory_bytes = collector->free_memory;
            const struct rs_libraries libraries = rs_libraries_of(
                collector->libraries, (pid_t)states[k]->pid, states[k]->incarnation, now);
            states[k]->glibc = libraries.glibc;
            states[k]->activities = libraries.activities;
        }
        count = add_ranks(collector, count, states, more);
    }
    *states_p = collector->states;
    return count;
}

/* The adapter of a message; NULL: there is none of that number here. */
static struct rs_agent_adapter *adapter_of(const struct collector *collector, uint32_t number)
{
    for (size_t i = 0; i < collector->adapter_count; i++)
        if (collector->adapters[i]->what.number == number)
            return collector->adapters[i];
    return NULL;
}

static void on_prepare(void *self, const Rankscope__Prepare *prepare)
{
    struct rs_agent_adapter *adapter = adapter_of(self, prepare->kind);
    if (adapter)
        rs_agent_adapter_put(adapter, &prepare->base);
}

static void on_commit(void *self, const Rankscope__Commit *commit)
{
    struct rs_agent_adapter *adapter = adapter_of(self, commit->kind);
    if (adapter)
        rs_agent_adapter_put(adapter, &commit->base);
}

static void on_cancel(void *self, const Rankscope__Cancel *cancel)
{
    struct collector *collector = self;
    for (size_t i = 0; i < collector->adapter_count; i++)
        rs_agent_adapter_put(collector->adapters[i], &cancel->base);
}

static void on_flight_ask(void *self, const Rankscope__FlightAsk *ask)
{
    const struct collector *collector = self;
    if (collector->flight)
        rs_collect_flight_ask(collector->flight, ask);
}

static void before_chunk(void *self)
{
    struct collector *collector = self;
    if (collector->flight)
        rs_collect_flight_messages(collector->flight, collector->uplink);
    for (size_t i = 0; i < collector->adapter_count; i++)
        rs_agent_adapter_send(collector->adapters[i], collector->uplink);
}

/* ---- what it can do ------------------------------------------------------------------------------------------ */

/* The members of a request that an adapter honours, by name; owned. False: no memory. */
static bool name_honoured(const struct rs_adapter *what, Rankscope__Adapter *message)
{
    char name[RS_REQUEST_MEMBER_BYTES];
    for (size_t i = 0; rs_request_member(i, name); i++) {
        if (!rs_adapter_honours(what, i))
            continue;
        char **more = rs_mem_realloc(message->honours, message->n_honours + 1, sizeof(char *));
        if (!more)
            return false;
        message->honours = more;
        more[message->n_honours] = rs_mem_strdup(name);
        if (!more[message->n_honours])
            return false;
        message->n_honours++;
    }
    return true;
}

/* Fills the announcement; it lends the adapters' texts. */
static enum rs_status announce(struct collector *collector, struct rs_err *err)
{
    for (size_t i = 0; i < collector->adapter_count; i++) {
        struct rs_adapter *what = &collector->adapters[i]->what;
        Rankscope__Adapter *message = &collector->announced[i];
        rankscope__adapter__init(message);
        message->number = what->number;
        message->name = what->name;
        message->title = what->title;
        message->capabilities = what->capabilities;
        collector->announcement[i] = message;
        if (!name_honoured(what, message))
            return rs_err_set(err, RS_NOMEM, "no memory to say what is served here");
        if (what->capabilities & RS_CAP_TELLS_STEP && what->number < 32)
            collector->restless |= 1U << what->number;
    }
    rs_uplink_announce(collector->uplink, collector->announcement, collector->adapter_count,
                       collector->restless);
    return RS_OK;
}

static void forget_announcement(struct collector *collector)
{
    for (size_t i = 0; i < ADAPTERS_MAX; i++) {
        for (size_t k = 0; k < collector->announced[i].n_honours; k++)
            rs_mem_free(collector->announced[i].honours[k]);
        rs_mem_free(collector->announced[i].honours);
    }
}

static void wake_loop(void *self)
{
    rs_loop_wake(self);
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static struct rs_agent_adapter_options base_of(const struct collector *collector,
                                               enum rs_profiler profiler)
{
    const struct rs_agent_options *settings = collector->settings;
    struct rs_agent_adapter_options options = {.spool = collector->spool,
                                               .run = settings->run ? settings->run : "",
                                               .host = settings->host,
                                               .wake = wake_loop,
                                               .wake_self = collector->loop};
    (void)rs_adapter_known(profiler, &options.what);
    return options;
}

/* What was started, and is not NULL, takes part. */
static enum rs_status join(struct collector *collector, enum rs_status status,
                           struct rs_agent_adapter *adapter)
{
    if (adapter)
        collector->adapters[collector->adapter_count++] = adapter;
    return status;
}

static enum rs_status start_native(struct collector *collector, struct rs_err *err)
{
    const struct rs_agent_adapter_options base = base_of(collector, RS_PROFILER_NATIVE);
    struct rs_agent_adapter *adapter = NULL;
    const enum rs_status status =
        rs_collect_native_start(&base, collector->settings->socket, &adapter, err);
    return join(collector, status, adapter);
}

/* Another daemon on the profiler's socket stops us only when its place was asked for. */
static enum rs_status start_kineto(struct collector *collector, struct rs_err *err)
{
    const struct rs_agent_options *settings = collector->settings;
    const struct rs_agent_adapter_options base = base_of(collector, RS_PROFILER_KINETO);
    const struct rs_collect_kineto_options options = {
        .socket_dir = settings->kineto_socket_dir && *settings->kineto_socket_dir
                          ? settings->kineto_socket_dir
                          : NULL,
        .msmonitor_home = settings->msmonitor_home,
        .trace_dir = settings->trace_dir,
        .spool_dir = settings->spool};
    struct rs_agent_adapter *adapter = NULL;
    struct rs_err failure = {0};
    const enum rs_status status = rs_collect_kineto_start(&base, &options, &adapter, &failure);
    if (status == RS_EXISTS && (settings->must_kineto || settings->msmonitor_home))
        return rs_err_set(err, RS_REFUSED, "%s", failure.text);
    if (status == RS_EXISTS) {
        rs_log_warn("PyTorch processes cannot be captured here: %s", failure.text);
        return RS_OK;
    }
    return join(collector, status < 0 ? rs_err_set(err, status, "%s", failure.text) : RS_OK,
                adapter);
}

/* NULL: this program was built without it, and nobody asked for it by naming its folder. */
static enum rs_status open_trigger(const struct rs_agent_options *settings,
                                   enum rs_profiler profiler, struct rs_config_trigger **trigger_p,
                                   struct rs_err *err)
{
    const bool is_ascend = profiler == RS_PROFILER_ASCEND;
    const char *name = is_ascend ? RS_CONFIG_TORCH_NPU_NAME : RS_CONFIG_MINDSPORE_NAME;
    const struct rs_agent_list *dirs =
        is_ascend ? &settings->ascend_dirs : &settings->mindspore_dirs;
    const struct rs_config_trigger_options options = {.dirs = dirs->items,
                                                      .dir_count = dirs->count,
                                                      .result_root = settings->trace_dir,
                                                      .way = is_ascend ? NULL
                                                                       : settings->mindspore_way};
    *trigger_p = NULL;
    if (!rs_config_has_kind(name) && !dirs->count)
        return RS_OK;
    return rs_config_trigger_open(name, &options, trigger_p, err);
}

/* Profilers that are told by a profiler_config.json. */
static enum rs_status start_file_notified(struct collector *collector, enum rs_profiler profiler,
                                          struct rs_err *err)
{
    const struct rs_agent_options *settings = collector->settings;
    const struct rs_agent_adapter_options base = base_of(collector, profiler);
    const struct rs_collect_config_options options = {
        .trace_dir = settings->trace_dir,
        .has_no_probe = profiler == RS_PROFILER_ASCEND && settings->has_no_ascend_probe,
        .must_discard = settings->must_discard,
        .parse_wait_ns = settings->parse_wait_ns};
    struct rs_config_trigger *trigger = NULL;
    struct rs_agent_adapter *adapter = NULL;
    enum rs_status status = open_trigger(settings, profiler, &trigger, err);
    if (status == RS_OK && !trigger)
        return RS_OK;
    if (status == RS_OK)
        status = rs_collect_config_start(&base, &options, trigger, &adapter, err);
    return join(collector, status, adapter);
}

static enum rs_status start_sources(struct collector *collector, struct rs_err *err)
{
    const struct rs_agent_options *settings = collector->settings;
    enum rs_status status = RS_OK;
    if (!settings->has_no_native)
        status = start_native(collector, err);
    if (status == RS_OK && !settings->has_no_kineto)
        status = start_kineto(collector, err);
    if (status == RS_OK && !settings->has_no_ascend)
        status = start_file_notified(collector, RS_PROFILER_ASCEND, err);
    if (status == RS_OK && !settings->has_no_mindspore)
        status = start_file_notified(collector, RS_PROFILER_MINDSPORE, err);
    if (status == RS_OK)
        status = announce(collector, err);
    if (status == RS_OK) {
        const struct rs_collect_flight_options options = {.run = settings->run ? settings->run : "",
                                                          .host = settings->host,
                                                          .wake = wake_loop,
                                                          .wake_self = collector->loop};
        status = rs_collect_flight_start(&options, &collector->flight, err);
    }
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
        const struct rs_config_watch_options options = {
            .dir = settings->profiler_config,
            .run = settings->run ? settings->run : "",
            .address = &collector->aggregators.items[0].address,
            .was_written = rs_config_was_written};
        status = rs_config_watch_start(&options, &collector->config_watch, err);
    }
    if (status == RS_OK) {
        const struct rs_metrics_options options = {
            .address = settings->metrics,
            .certs = settings->metrics_certs,
            .is_insecure_loopback = settings->has_insecure_metrics,
            .node = settings->node ? settings->node : collector->node};
        status = rs_metrics_start(&options, &collector->metrics, err);
    }
    return status;
}

static void stop_adapters(struct collector *collector)
{
    while (collector->adapter_count) {
        struct rs_agent_adapter *adapter = collector->adapters[--collector->adapter_count];
        adapter->stop(adapter, collector->uplink);
    }
}

static void step(struct collector *collector, rs_dur wait)
{
    rs_spool_expire(collector->spool, rs_time_realtime());
    before_chunk(collector);
    if (rs_metrics_turn(collector->metrics, rs_time_monotonic()))
        rs_uplink_count(collector->uplink);
    rs_courier_turn(&collector->courier);
    rs_uplink_step(collector->uplink, rs_time_monotonic() + wait);
}

static void serve(struct collector *collector, struct rs_daemon *daemon)
{
    rs_thread_is(RS_THREAD_UPLINK);
    while (rs_daemon_stop_count(daemon) == 0)
        step(collector, RS_NS_PER_S);
    rs_config_watch_stop(&collector->config_watch);
    /* Sources first, so that what they end with is in the spool; then drain it, with a deadline. */
    rs_collect_watch_stop(&collector->watch);
    rs_collect_flight_stop(&collector->flight);
    stop_adapters(collector);
    const rs_ns deadline = rs_time_monotonic() + collector->settings->drain_ns;
    while (rs_time_monotonic() < deadline && rs_daemon_stop_count(daemon) == 1 &&
           (rs_spool_stats(collector->spool).waiting_chunks ||
            rs_uplink_has_messages(collector->uplink)) &&
           rs_uplink_stats(collector->uplink).is_up)
        step(collector, RS_NS_PER_S / 20);
    const uint64_t left = rs_spool_stats(collector->spool).waiting_chunks;
    if (left)
        rs_log_warn("%llu chunks stay in the spool for the next start", (unsigned long long)left);
    rs_uplink_close(collector->uplink);
    const rs_ns hard = rs_time_monotonic() + 5 * (rs_dur)RS_NS_PER_S;
    while (!(rs_courier_end(&collector->courier) && rs_uplink_is_closed(collector->uplink)) &&
           rs_time_monotonic() < hard)
        rs_uplink_step(collector->uplink, rs_time_monotonic() + RS_NS_PER_S / 20);
}

/* What the spool must not be, and may be all the same: somebody else's, or behind a network that training would wait for. */
static void tell_of_spool(const char *dir)
{
    char others[RS_FILE_OTHERS_BYTES];
    struct rs_tracedir_facts facts = {0};
    rs_file_others(dir, others);
    if (*others)
        rs_log_warn(
            "the spool %s is not safe from others: %s; what is recorded can be changed there", dir,
            others);
    if (rs_tracedir_look(dir, &facts, NULL) == RS_OK && facts.network)
        rs_log_warn("the spool %s is on %s: name a folder of this node's own (--spool), since what "
                    "is recorded waits for it",
                    dir, facts.network);
}

static enum rs_status run(const struct rs_agent_options *settings, struct rs_daemon *daemon,
                          struct rs_err *err)
{
    struct collector collector = {.settings = settings, .libraries = rs_library_cache_new()};
    const struct rs_spool_options spool_options = {.budget_bytes = (uint64_t)settings->spool_bytes,
                                                   .keep_ns = settings->raw_keep_ns};
    enum rs_status status = collector.libraries
                                ? rs_enrol(settings, &collector.aggregators, collector.node, err)
                                : rs_err_set(err, RS_NOMEM, "no memory to start");
    if (status == RS_OK)
        status = rs_renewal_start(&collector.aggregators, &collector.renewal, err);
    if (status == RS_OK)
        status = rs_spool_open(settings->spool, &spool_options, &collector.spool, err);
    if (status == RS_OK && collector.spool)
        rs_file_sweep_own(settings->spool); /* what died half-written: the spool is ours alone */
    if (status == RS_OK)
        tell_of_spool(settings->spool);
    if (status == RS_OK)
        status = rs_grpc_loop_new(&collector.loop, err);
    if (status == RS_OK) {
        const struct rs_uplink_options options = {.spool = collector.spool,
                                                  .loop = collector.loop,
                                                  .connect = connect_link,
                                                  .connect_self = &collector,
                                                  .node = settings->node ? settings->node
                                                                         : collector.node,
                                                  .ranks = give_ranks,
                                                  .before_chunk = before_chunk,
                                                  .on_prepare = on_prepare,
                                                  .on_commit = on_commit,
                                                  .on_cancel = on_cancel,
                                                  .on_flight_ask = on_flight_ask,
                                                  .on_hello = on_hello,
                                                  .on_welcome = on_welcome,
                                                  .on_goodbye = on_goodbye,
                                                  .on_away = on_away,
                                                  .owner = owner,
                                                  .must_keep = collector.aggregators.count > 1,
                                                  .self = &collector};
        status = rs_uplink_new(&options, &collector.uplink, err);
        collector.courier = (struct rs_courier){.loop = collector.loop,
                                                .spool = collector.spool,
                                                .main = collector.uplink,
                                                .aggregators = &collector.aggregators,
                                                .node = options.node,
                                                .on_cancel = on_cancel,
                                                .cancel_self = &collector};
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
    rs_renewal_stop(&collector.renewal);
    rs_metrics_stop(&collector.metrics);
    rs_config_watch_stop(&collector.config_watch);
    rs_collect_watch_stop(&collector.watch);
    rs_collect_flight_stop(&collector.flight);
    stop_adapters(&collector);
    if (collector.uplink && !rs_uplink_is_closed(collector.uplink))
        rs_uplink_close(collector.uplink);
    while (collector.uplink &&
           !(rs_courier_end(&collector.courier) && rs_uplink_is_closed(collector.uplink)))
        rs_uplink_step(collector.uplink, rs_time_monotonic() + RS_NS_PER_S / 20);
    rs_uplink_free(&collector.uplink);
    rs_library_cache_free(&collector.libraries);
    rs_grpc_loop_free(&collector.loop);
    rs_spool_close(&collector.spool);
    forget_announcement(&collector);
    rs_mem_free(collector.states);
    return status;
}

enum rs_status rs_agent_run(const struct rs_agent_options *options, struct rs_err *err)
{
    struct rs_daemon *daemon = NULL;
    (void)rs_grpc_raise_file_limit();
    enum rs_status status = rs_daemon_start(&daemon, err);
    if (status == RS_OK)
        status = run(options, daemon, err);
    rs_daemon_end(&daemon);
    return status;
}
