/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/adapter.h"

#include "common/base/mem.h"
#include "common/wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum rs_status rs_agent_adapter_init(struct rs_agent_adapter *adapter,
                                     const struct rs_agent_adapter_options *options,
                                     struct rs_err *err)
{
    adapter->what = options->what;
    adapter->spool = options->spool;
    adapter->wake = options->wake;
    adapter->wake_self = options->wake_self;
    rs_mailbox_init(&adapter->inbox);
    rs_mailbox_init(&adapter->outbox);
    rs_mailbox_init(&adapter->news);
    (void)pthread_mutex_init(&adapter->lock, NULL);
    adapter->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    adapter->run = rs_mem_strdup(options->run);
    adapter->host = rs_mem_strdup(options->host);
    if (adapter->wake_fd < 0)
        return rs_err_errno(err, "cannot make an eventfd");
    if (!adapter->run || !adapter->host)
        return rs_err_set(err, RS_NOMEM, "no memory for the %s adapter", adapter->what.name);
    return RS_OK;
}

void rs_agent_adapter_fini(struct rs_agent_adapter *adapter)
{
    rs_mailbox_fini(&adapter->inbox);
    rs_mailbox_fini(&adapter->outbox);
    rs_mailbox_fini(&adapter->news);
    if (adapter->wake_fd >= 0)
        (void)close(adapter->wake_fd);
    (void)pthread_mutex_destroy(&adapter->lock);
    rs_mem_free(adapter->run);
    rs_mem_free(adapter->host);
    rs_mem_free(adapter->table);
    rs_mem_free(adapter->copy);
    rs_mem_free(adapter->copy_states);
}

void rs_agent_adapter_rouse(struct rs_agent_adapter *adapter)
{
    const uint64_t one = 1;
    (void)!write(adapter->wake_fd, &one, sizeof one);
}

/* ---- messages --------------------------------------------------------------------------------------- */

void rs_agent_adapter_put(struct rs_agent_adapter *adapter, const ProtobufCMessage *message)
{
    rs_mailbox_put(&adapter->inbox, message);
    rs_agent_adapter_rouse(adapter);
}

void rs_agent_adapter_read(struct rs_agent_adapter *adapter,
                           const struct rs_agent_handlers *handlers)
{
    for (ProtobufCMessage *message = rs_mailbox_take(&adapter->inbox); message;
         message = rs_mailbox_take(&adapter->inbox)) {
        if (message->descriptor == &rankscope__prepare__descriptor)
            handlers->prepare(adapter, (const Rankscope__Prepare *)message);
        else if (message->descriptor == &rankscope__commit__descriptor)
            handlers->commit(adapter, (const Rankscope__Commit *)message);
        else
            handlers->cancel(adapter, (const Rankscope__Cancel *)message);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

/* Many ranks' words on one capture go as one message. */
static void send_box(struct rs_mailbox *box, struct rs_uplink *uplink)
{
    Rankscope__Up *up = (Rankscope__Up *)rs_mailbox_take(box);
    while (up) {
        Rankscope__Up *next = (Rankscope__Up *)rs_mailbox_take(box);
        if (next && rs_message_join(up, next)) {
            protobuf_c_message_free_unpacked(&next->base, NULL);
            continue;
        }
        rs_uplink_send(uplink, up);
        protobuf_c_message_free_unpacked(&up->base, NULL);
        up = next;
    }
}

void rs_agent_adapter_send(struct rs_agent_adapter *adapter, struct rs_uplink *uplink)
{
    const bool is_up = rs_uplink_stats(uplink).is_up;
    if (is_up)
        send_box(&adapter->news, uplink);
    if (is_up || adapter->drops_when_down)
        send_box(&adapter->outbox, uplink);
}

void rs_agent_adapter_send_last(struct rs_agent_adapter *adapter, struct rs_uplink *uplink)
{
    if (!uplink)
        return;
    send_box(&adapter->news, uplink);
    send_box(&adapter->outbox, uplink);
}

void rs_agent_adapter_armed(struct rs_agent_adapter *adapter, const char *capture,
                            const Rankscope__ArmedRank *rank)
{
    rs_mailbox_put_armed(&adapter->outbox, capture, rank);
    adapter->wake(adapter->wake_self);
}

void rs_agent_adapter_progress(struct rs_agent_adapter *adapter, const char *capture,
                               const Rankscope__RankProgress *rank)
{
    rs_mailbox_put_progress(&adapter->outbox, capture, rank);
    adapter->wake(adapter->wake_self);
}

void rs_agent_adapter_unknown(struct rs_agent_adapter *adapter, const char *capture, uint32_t rank)
{
    Rankscope__RankProgress progress = RANKSCOPE__RANK_PROGRESS__INIT;
    progress.rank = rank;
    progress.state = RS_PROGRESS_REFUSED;
    progress.text = rs_const_cast("its collector does not know of this capture any more");
    rs_agent_adapter_progress(adapter, capture, &progress);
}

/* ---- ranks ------------------------------------------------------------------------------------------ */

const char *rs_agent_adapter_run(const struct rs_agent_adapter *adapter, const char *own)
{
    if (*own)
        return own;
    return *adapter->run ? adapter->run : adapter->host;
}

void rs_agent_adapter_incarnation(const struct rs_agent_adapter *adapter, const char *host,
                                  int64_t pid, uint64_t start, char text[RS_AGENT_TEXT_BYTES])
{
    (void)snprintf(text, RS_AGENT_TEXT_BYTES, "%.100s:%" PRId64 ":%" PRIu64 "/%.8s", host, pid,
                   start, rs_spool_id(adapter->spool));
}

void rs_agent_adapter_fill(const struct rs_agent_adapter *adapter, struct rs_agent_row *row,
                           const char *run, const char *host, const char *incarnation,
                           const char *capture)
{
    row->id = 0;
    row->user[0] = '\0';
    (void)snprintf(row->run, sizeof row->run, "%.256s", run);
    (void)snprintf(row->host, sizeof row->host, "%.256s", host);
    (void)snprintf(row->incarnation, sizeof row->incarnation, "%s", incarnation);
    (void)snprintf(row->capture, sizeof row->capture, "%.64s", capture);
    rankscope__rank_state__init(&row->state);
    row->state.kind = adapter->what.number;
    row->has_roles = false;
}

void rs_agent_adapter_set_user(struct rs_agent_row *row, int64_t uid)
{
    if (uid >= 0)
        rs_local_name((uid_t)uid, row->user);
}

bool rs_agent_adapter_grow(struct rs_agent_adapter *adapter, size_t rows)
{
    return rs_mem_grow((void **)&adapter->table, &adapter->table_capacity, rows + 1,
                       sizeof *adapter->table) == RS_OK;
}

size_t rs_agent_adapter_ranks(struct rs_agent_adapter *adapter, Rankscope__RankState ***states_p)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&adapter->lock);
    if (rs_mem_grow((void **)&adapter->copy, &adapter->copy_capacity, adapter->table_count + 1,
                    sizeof *adapter->copy) == RS_OK &&
        rs_mem_grow((void **)&adapter->copy_states, &adapter->copy_state_capacity,
                    adapter->table_count + 1, sizeof(Rankscope__RankState *)) == RS_OK) {
        count = adapter->table_count;
        if (count)
            memcpy(adapter->copy, adapter->table, count * sizeof *adapter->copy);
    }
    (void)pthread_mutex_unlock(&adapter->lock);
    for (size_t i = 0; i < count; i++) {
        struct rs_agent_row *row = &adapter->copy[i];
        row->state.run = row->run;
        row->state.host = row->host;
        row->state.incarnation = row->incarnation;
        row->state.capture = row->capture;
        row->state.user = row->user;
        row->state.role = row->role;
        row->state.n_role = row->has_roles ? RS_ROLE_COUNT : 0;
        adapter->copy_states[i] = &row->state;
    }
    *states_p = adapter->copy_states;
    return count;
}
