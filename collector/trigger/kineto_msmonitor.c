/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/kineto_msmonitor.h"

#include "common/base/mem.h"

#define RS_LOG_TAG "msmonitor"
#include "common/base/log.h"

#include <string.h>

enum {
    CLIENTS_MAX =
        256,       /* one per host is usual; beyond it the one that was silent for longest goes */
    FORGET_S = 60, /* as the real daemon's keep-alive */
};

void rs_msmonitor_fini(struct rs_msmonitor *monitor)
{
    rs_mem_free(monitor->clients);
    *monitor = (struct rs_msmonitor){0};
}

struct rs_msmonitor_client *rs_msmonitor_find(const struct rs_msmonitor *monitor,
                                              const struct rs_kineto_peer *peer)
{
    for (size_t i = 0; i < monitor->count; i++) {
        struct rs_msmonitor_client *client = &monitor->clients[i];
        if (client->pid == peer->pid && client->address_bytes == peer->address_bytes &&
            memcmp(&client->address, &peer->address, peer->address_bytes) == 0)
            return client;
    }
    return NULL;
}

static struct rs_msmonitor_client *add(struct rs_msmonitor *monitor,
                                       const struct rs_kineto_peer *peer)
{
    struct rs_msmonitor_client *client = NULL;
    if (monitor->count >= CLIENTS_MAX) {
        client = &monitor->clients[0];
        for (size_t i = 1; i < monitor->count; i++)
            if (monitor->clients[i].last_seen_ns < client->last_seen_ns)
                client = &monitor->clients[i];
    } else if (rs_mem_grow((void **)&monitor->clients, &monitor->capacity, monitor->count + 1,
                           sizeof *monitor->clients) == RS_OK) {
        client = &monitor->clients[monitor->count++];
    }
    if (!client)
        return NULL;
    *client = (struct rs_msmonitor_client){.pid = peer->pid,
                                           .address = peer->address,
                                           .address_bytes = peer->address_bytes,
                                           .device = -1};
    rs_log_info("process %d asks as msMonitor does: it is answered, and captured through its "
                "PROF_CONFIG_PATH if it has one, not this way",
                (int)peer->pid);
    return client;
}

void rs_msmonitor_take(struct rs_msmonitor *monitor, const struct rs_kineto_peer *peer,
                       const struct rs_kineto_message *message, size_t bytes, rs_ns now)
{
    struct rs_msmonitor_client *client = rs_msmonitor_find(monitor, peer);
    if (!client && message->kind != RS_KINETO_DATA) /* metrics come from a socket of their own */
        client = add(monitor, peer);
    if (client)
        client->last_seen_ns = now;
    switch (message->kind) {
    case RS_KINETO_POLL:
        return;
    case RS_KINETO_REGISTER:
        if (client)
            client->device = message->gpu;
        return;
    case RS_KINETO_STATUS:
        monitor->status_messages++;
        if (client) {
            client->has_status = true;
            client->status = message->status;
            client->current_step = message->current_step;
            client->start_step = message->start_step;
            client->stop_step = message->stop_step;
        }
        return;
    case RS_KINETO_DATA:
        monitor->data_messages++;
        monitor->data_bytes += (int64_t)bytes;
        return;
    }
}

void rs_msmonitor_tick(struct rs_msmonitor *monitor, rs_ns now)
{
    size_t kept = 0;
    for (size_t i = 0; i < monitor->count; i++)
        if (now - monitor->clients[i].last_seen_ns <= (rs_dur)FORGET_S * RS_NS_PER_S)
            monitor->clients[kept++] = monitor->clients[i];
    monitor->count = kept;
}
