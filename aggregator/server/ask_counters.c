/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this daemon counts, and what its collectors told last (common/base/counters.def), for whoever asks.
 */
#include "aggregator/server/server_priv.h"
#include "aggregator/store/row_place.h"
#include "common/base/lend.h"
#include "common/base/mem.h"

#include <string.h>

/* What a collector's heartbeats told last; names that this program does not know are left out. */
struct collector_counters {
    uint64_t values[RS_COUNT_END];
    bool has[RS_COUNT_END];
};

void counters_take(struct session *session, const Rankscope__Heartbeat *heartbeat)
{
    if (heartbeat->n_counters && !session->counters)
        session->counters = rs_mem_calloc(1, sizeof *session->counters);
    struct collector_counters *counters = session->counters;
    for (size_t i = 0; counters && i < heartbeat->n_counters; i++) {
        const enum rs_counter counter = rs_counter_find(heartbeat->counters[i]->name);
        if (counter == RS_COUNT_END || !(rs_counter_info(counter)->who & RS_COUNT_COLLECTOR))
            continue;
        counters->values[counter] = heartbeat->counters[i]->value;
        counters->has[counter] = true;
    }
}

/* Those that are kept elsewhere, into the table of the process. */
static void gather(const struct rs_server *server)
{
    const struct rs_ingest_stats ingest = rs_ingest_stats(server->ingest);
    uint64_t collectors = 0;
    uint64_t askers = 0;
    uint64_t streams = 0;
    uint64_t held = 0;
    for (const struct session *session = server->sessions; session; session = session->next) {
        collectors += session->kind == SESSION_COLLECTOR;
        askers += session->kind == SESSION_ASK;
        streams += session->stream_count;
        for (size_t i = 0; i < session->stream_count; i++)
            held += session->streams[i]->is_held;
    }
    rs_count_set(RS_COUNT_INGEST_CHUNKS, ingest.chunks);
    rs_count_set(RS_COUNT_INGEST_BYTES, ingest.bytes);
    rs_count_set(RS_COUNT_INGEST_REPEATED, ingest.repeated);
    rs_count_set(RS_COUNT_INGEST_GAPS, ingest.gaps);
    rs_count_set(RS_COUNT_INGEST_REFUSED, ingest.refused);
    rs_count_set(RS_COUNT_INGEST_SYNCS, ingest.syncs);
    rs_count_set(RS_COUNT_SERVER_COLLECTORS, collectors);
    rs_count_set(RS_COUNT_SERVER_ASKERS, askers);
    rs_count_set(RS_COUNT_SERVER_STREAMS, streams);
    rs_count_set(RS_COUNT_SERVER_HELD_STREAMS, held);
    if (server->options.rows) {
        rs_count_set(RS_COUNT_ROWS_OWED, rows_owed_count(server));
        rs_count_set(RS_COUNT_ROWS_AWAY, rs_row_place_retry_at(server->options.rows, NULL, 0) != 0);
    }
    rs_count_set(RS_COUNT_SERVER_RANKS, rs_coord_seen_count(server->coord));
    rs_count_process();
}

/* A daemon's message with what it lends from. */
struct set_message {
    Rankscope__CounterSet set;
    Rankscope__Counter counters[RS_COUNT_END];
    Rankscope__Counter *pointers[RS_COUNT_END];
};

static void fill_set(struct set_message *message, const struct session *collector)
{
    rankscope__counter_set__init(&message->set);
    message->set.daemon = rs_lend(collector ? "collector" : "aggregator");
    message->set.node = rs_lend(collector ? collector->node : "");
    message->set.instance = rs_lend(collector ? collector->collector : "");
    message->set.counters = message->pointers;
    for (unsigned i = 0; i < RS_COUNT_END; i++) {
        const struct rs_counter_info *info = rs_counter_info((enum rs_counter)i);
        if (collector ? !collector->counters->has[i] : !(info->who & RS_COUNT_AGGREGATOR))
            continue;
        Rankscope__Counter *counter = &message->counters[message->set.n_counters];
        rankscope__counter__init(counter);
        counter->name = rs_lend(info->name);
        counter->value =
            collector ? collector->counters->values[i] : rs_count_read((enum rs_counter)i);
        message->pointers[message->set.n_counters++] = counter;
    }
}

/* One reply per daemon: a table of ten thousand nodes is no message. */
static void post_set(struct session *session, struct set_message *message,
                     const struct session *collector, bool is_last)
{
    Rankscope__CounterSet *one = &message->set;
    Rankscope__CounterTable table = RANKSCOPE__COUNTER_TABLE__INIT;
    fill_set(message, collector);
    table.n_daemons = 1;
    table.daemons = &one;
    Rankscope__Reply reply = RANKSCOPE__REPLY__INIT;
    reply.last = is_last;
    reply.message_case = RANKSCOPE__REPLY__MESSAGE_COUNTERS;
    reply.counters = &table;
    session->is_ended = is_last;
    session_post(session, &reply.base);
}

void ask_counters(struct session *session)
{
    struct set_message *message = rs_mem_calloc(1, sizeof *message);
    if (!message) {
        session_fail(session, RS_NOMEM, "out of memory");
        return;
    }
    gather(session->server);
    for (const struct session *other = session->server->sessions; other; other = other->next) {
        if (!other->counters)
            continue;
        post_set(session, message, other, false);
        *message = (struct set_message){0};
    }
    post_set(session, message, NULL, true);
    rs_mem_free(message);
}
