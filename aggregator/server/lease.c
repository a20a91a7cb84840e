/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/lease.h"

#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "lease"
#include "common/base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Shorter than the lease, both: a database that hangs must not make us gone when it answers again. */
enum { CONNECT_S = 2, STALL_S = 4, EVERY_S = 3, DOUBLE_MAX = 5, WHY_BYTES = 512, TEXTS = 5 };

struct rs_lease {
    struct rs_lease_options options; /* texts are its own */
    char *texts[TEXTS];
    pthread_t thread;
    bool has_thread;
    rs_ns began_at; /* monotonic */

    /* rs-lease alone */
    struct rs_fleet_member self;
    struct rs_fleet *fleet; /* NULL: it is opened anew */
    unsigned double_count;  /* looks in a row at which another one had our id */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool must_stop, has_told;
    struct rs_fleet_list list;
    rs_ns told_at; /* monotonic; of the list */
    char why[WHY_BYTES];
};

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the list of aggregators");
}

/* ---- rs-lease ------------------------------------------------------------------------------------------------------------ */

/* Once, when it has lasted longer than a lease: a request of a process that was killed may arrive late. */
static void look_for_double(struct rs_lease *lease, const struct rs_fleet_list *list)
{
    bool is_double = false;
    for (size_t i = 0; i < list->count; i++)
        is_double =
            is_double || (list->items[i].is_double && rs_lease_is_self(lease, &list->items[i]));
    lease->double_count = is_double ? lease->double_count + 1 : 0;
    if (lease->double_count == DOUBLE_MAX)
        rs_log_error(
            "another aggregator with the same id writes into %s: its data folder is a copy "
            "of ours, or ours of its; remove " RS_FLEET_ID_FILE " from one of them and "
            "start it again",
            lease->options.database.url);
}

static void take(struct rs_lease *lease, enum rs_status status, struct rs_fleet_list *list,
                 const struct rs_err *why)
{
    bool was_away = false, was_told = false;
    (void)pthread_mutex_lock(&lease->lock);
    was_away = *lease->why != '\0';
    was_told = lease->has_told;
    if (status == RS_OK) {
        rs_fleet_list_fini(&lease->list);
        lease->list = *list;
        lease->has_told = true;
        lease->told_at = rs_time_monotonic();
        *lease->why = '\0';
    } else {
        (void)snprintf(lease->why, sizeof lease->why, "%.500s", why->text);
    }
    (void)pthread_mutex_unlock(&lease->lock);
    if (status != RS_OK && !was_away)
        rs_log_warn("other aggregators do not hear of this one: %s", why->text);
    else if (status == RS_OK && (was_away || !was_told))
        rs_log_info(
            "aggregator %s, epoch %" PRId64 ", is advertised to the other aggregators at %s as %s",
            lease->self.id, lease->self.epoch, lease->options.database.url, lease->self.address);
}

static void renew(struct rs_lease *lease, enum rs_fleet_state state)
{
    struct rs_fleet_list list = {.count = 0};
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    lease->self.state = state;
    lease->self.captures = lease->self.open = -1;
    if (lease->options.count)
        lease->options.count(lease->options.self, &lease->self.captures, &lease->self.open);
    if (!lease->fleet)
        status = rs_fleet_open(&lease->options.database, &lease->fleet, &why);
    if (status == RS_OK)
        status = rs_fleet_renew(lease->fleet, &lease->self, rs_time_monotonic() - lease->began_at,
                                &list, &why);
    if (status == RS_OK)
        look_for_double(lease, &list);
    else
        rs_fleet_close(&lease->fleet); /* a password may be another one by now */
    take(lease, status, &list, &why);
}

/* True: it is time to stop. */
static bool wait_for(struct rs_lease *lease, rs_ns until)
{
    const struct timespec time = {.tv_sec = (time_t)(until / RS_NS_PER_S),
                                  .tv_nsec = (long)(until % RS_NS_PER_S)};
    (void)pthread_mutex_lock(&lease->lock);
    while (!lease->must_stop && rs_time_monotonic() < until)
        (void)pthread_cond_timedwait(&lease->changed, &lease->lock, &time);
    const bool must_stop = lease->must_stop;
    (void)pthread_mutex_unlock(&lease->lock);
    return must_stop;
}

static void *run(void *self)
{
    struct rs_lease *lease = self;
    rs_thread_is(RS_THREAD_LEASE);
    rs_ns next_at = rs_time_monotonic();
    do {
        renew(lease, RS_FLEET_LIVING);
        next_at += lease->options.every_ns;
        const rs_ns now = rs_time_monotonic();
        if (next_at < now) /* what was missed is not made up for */
            next_at = now;
    } while (!wait_for(lease, next_at));
    if (lease->fleet) /* it answered last: else nobody hears it */
        renew(lease, RS_FLEET_STOPPED);
    rs_fleet_close(&lease->fleet);
    return NULL;
}

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

bool rs_lease_is_self(const struct rs_lease *lease, const struct rs_fleet_member *member)
{
    return strcmp(lease->self.instance, member->instance) == 0;
}

const char *rs_lease_id(const struct rs_lease *lease)
{
    return lease->self.id;
}

int64_t rs_lease_epoch(const struct rs_lease *lease)
{
    return lease->self.epoch;
}

const char *rs_lease_host(const struct rs_lease *lease)
{
    return lease->self.host;
}

enum rs_status rs_lease_find(struct rs_lease *lease, const char *id,
                             struct rs_fleet_member *member_p)
{
    bool is_found = false;
    (void)pthread_mutex_lock(&lease->lock);
    for (size_t i = 0; i < lease->list.count && !is_found; i++)
        if (strcmp(lease->list.items[i].id, id) == 0) {
            *member_p = lease->list.items[i];
            is_found = true;
        }
    (void)pthread_mutex_unlock(&lease->lock);
    return is_found ? RS_OK : RS_NOTFOUND;
}

enum rs_status rs_lease_list(struct rs_lease *lease, struct rs_fleet_list *list_p, char *why_p,
                             size_t size, struct rs_err *err)
{
    enum rs_status status = RS_OK;
    struct rs_fleet_list copy = {.count = 0};
    (void)pthread_mutex_lock(&lease->lock);
    if (!lease->has_told)
        status = rs_err_set(err, RS_UNREACHABLE, "%s",
                            *lease->why ? lease->why : "the database was not asked yet: try again");
    else if (lease->list.count && rs_mem_grow((void **)&copy.items, &copy.capacity,
                                              lease->list.count, sizeof *copy.items) < 0)
        status = no_memory(err);
    if (status == RS_OK) {
        copy.count = lease->list.count;
        copy.now_ns = lease->list.now_ns;
        if (copy.count)
            memcpy(copy.items, lease->list.items, copy.count * sizeof *copy.items);
        if (*lease->why)
            (void)snprintf(why_p, size, "%.400s (since %lld s)", lease->why,
                           (long long)((rs_time_monotonic() - lease->told_at) / RS_NS_PER_S));
        else
            (void)snprintf(why_p, size, "%s", "");
        *list_p = copy;
    }
    (void)pthread_mutex_unlock(&lease->lock);
    return status;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static const char *copy_text(struct rs_lease *lease, size_t at, const char *text, bool *has_failed)
{
    if (!text)
        return NULL;
    lease->texts[at] = rs_mem_strdup(text);
    *has_failed = *has_failed || !lease->texts[at];
    return lease->texts[at];
}

static enum rs_status fill_self(struct rs_lease *lease, const struct rs_lease_options *options,
                                struct rs_err *err)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return rs_err_errno(err, "cannot get random bytes");
    lease->self.epoch = options->epoch;
    (void)snprintf(lease->self.id, sizeof lease->self.id, "%s", options->id);
    (void)snprintf(lease->self.instance, sizeof lease->self.instance, "%016" PRIx64, number);
    (void)snprintf(lease->self.host, sizeof lease->self.host, "%s", options->host);
    (void)snprintf(lease->self.version, sizeof lease->self.version, "%s", options->version);
    return RS_OK;
}

enum rs_status rs_lease_new(const struct rs_lease_options *options, struct rs_lease **lease_p,
                            struct rs_err *err)
{
    pthread_condattr_t monotonic;
    bool has_failed = false;
    struct rs_lease *lease = rs_mem_calloc(1, sizeof *lease);
    if (!lease)
        return no_memory(err);
    (void)pthread_mutex_init(&lease->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&lease->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    lease->options = *options;
    struct rs_clickhouse_options *database = &lease->options.database;
    database->url = copy_text(lease, 0, options->database.url, &has_failed);
    database->password_file = copy_text(lease, 1, options->database.password_file, &has_failed);
    database->ca_file = copy_text(lease, 2, options->database.ca_file, &has_failed);
    database->cert_file = copy_text(lease, 3, options->database.cert_file, &has_failed);
    database->key_file = copy_text(lease, 4, options->database.key_file, &has_failed);
    database->connect_s = CONNECT_S;
    database->stall_s = STALL_S;
    if (!lease->options.every_ns)
        lease->options.every_ns = EVERY_S * (rs_dur)RS_NS_PER_S;
    enum rs_status status = has_failed ? no_memory(err) : fill_self(lease, options, err);
    if (status == RS_OK)
        status = rs_fleet_open(database, &lease->fleet, err);
    if (status == RS_OK)
        *lease_p = lease;
    else
        rs_lease_stop(&lease);
    return status;
}

enum rs_status rs_lease_start(struct rs_lease *lease, const char *address, const char *http,
                              struct rs_err *err)
{
    struct rs_fleet_member *self = &lease->self;
    if (snprintf(self->address, sizeof self->address, "%s", address) >= (int)sizeof self->address ||
        snprintf(self->http, sizeof self->http, "%s", http) >= (int)sizeof self->http)
        return rs_err_set(err, RS_INVALID, "an address of this aggregator is longer than %zu bytes",
                          sizeof self->address - 1);
    lease->began_at = rs_time_monotonic();
    if (pthread_create(&lease->thread, NULL, run, lease) != 0)
        return rs_err_set(err, RS_IO, "cannot start a thread that tells other aggregators of us");
    (void)pthread_setname_np(lease->thread, "rs-lease");
    lease->has_thread = true;
    return RS_OK;
}

void rs_lease_stop(struct rs_lease **lease_p)
{
    struct rs_lease *lease = *lease_p;
    if (!lease)
        return;
    *lease_p = NULL;
    (void)pthread_mutex_lock(&lease->lock);
    lease->must_stop = true;
    (void)pthread_cond_signal(&lease->changed);
    (void)pthread_mutex_unlock(&lease->lock);
    if (lease->has_thread)
        (void)pthread_join(lease->thread, NULL);
    rs_fleet_close(&lease->fleet);
    rs_fleet_list_fini(&lease->list);
    for (size_t i = 0; i < TEXTS; i++)
        rs_mem_free(lease->texts[i]);
    (void)pthread_cond_destroy(&lease->changed);
    (void)pthread_mutex_destroy(&lease->lock);
    rs_mem_free(lease);
}
