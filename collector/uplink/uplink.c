/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/uplink/uplink.h"

#include "common/base/check.h"
#include "common/base/counters.h"
#include "common/base/lend.h"
#include "common/base/mem.h"
#include "common/base/thread.h"

#define RS_LOG_TAG "uplink"
#include "common/base/log.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

enum state { STATE_DOWN, STATE_HELLO, STATE_SENDING, STATE_CLOSED };

/* A chunk on its way. */
struct flight {
    rs_seq seq;
    uint32_t bytes;
};

struct message {
    struct message *next;
    struct rs_buf buf;
};

/* An entry of the spool on this link. Entries not in the list were not opened. */
struct stream {
    uint32_t entry;
    enum rs_stream_lane lane;
    bool is_answered, is_refused, is_held;
    rs_ns
        ask_at; /* another aggregator has its capture: asked again then, monotonic; 0: it is here */
    rs_dur ask_pause_ns;
    unsigned owner;         /* of ask_at: options.owner's number */
    rs_seq next_seq;        /* to be sent */
    rs_seq high_seq;        /* sent at least once on this link */
    rs_seq forgotten_seq;   /* acknowledged up to here, perhaps by an aggregator that lost it */
    rs_seq damaged_seq;     /* refused as damaged; 0 none */
    bool is_given_up;       /* ... a second time */
    bool waits_for_summary; /* its last chunk must not overtake it */
    uint64_t idle_puts;     /* the spool's put count when nothing was left; UINT64_MAX: not idle */
    struct flight *flights; /* flights[flight_head ..], ascending */
    size_t flight_head, flight_count, flight_capacity;
};

/* What was sent of a rank, by its place in the table. */
struct told {
    uint64_t digest;
    rs_ns at; /* 0: nothing over this link */
};

enum { QUIET_BEATS = 4, COUNTERS_EVERY_S = 10, PAGE_RANKS = 8192, PAGE_BYTES = 1 << 20 };
/* So long a rank of which nothing changes is left out of heartbeats. */
static const rs_dur tell_again_ns = 5 * (rs_dur)RS_NS_PER_S;

/* However rarely an aggregator wants to hear of us: what it says is added to clocks here. */
static const rs_dur heartbeat_most_ns = 60 * (rs_dur)RS_NS_PER_S;

/* Twice as long each time. */
static const rs_dur ask_least_ns = 3 * (rs_dur)RS_NS_PER_S;
static const rs_dur ask_most_ns = 30 * (rs_dur)RS_NS_PER_S;

struct rs_uplink {
    struct rs_uplink_options options;
    char node[RS_WIRE_TEXT_MAX_BYTES + 1];
    enum state state;
    struct rs_link *link;
    bool is_closing, must_stop, is_beat_due, was_refused;
    bool is_keeping; /* what is acknowledged on this link is not settled by that */
    bool has_left;   /* a stream to another aggregator, on this link: said once */
    bool is_moving;  /* closing, to connect to another one */
    rs_ns next_connect, next_beat;
    rs_ns look_again_at; /* at entries that were not taken */
    rs_ns next_counters; /* to be told with a heartbeat; 0: with the next */
    rs_dur backoff_ns, heartbeat_ns;
    unsigned failures; /* since the last Welcome */
    uint32_t random;

    struct message *outbox, **outbox_last_p;
    struct stream *streams; /* ascending */
    size_t stream_count, stream_capacity;
    size_t turn[RS_STREAM_LANE_COUNT]; /* whose turn it is in each lane */
    uint32_t last_entry;               /* entries beyond it were not looked at on this link */
    Rankscope__Adapter **adapters;     /* lent; what Hello announces */
    size_t adapter_count;
    uint32_t restless; /* numbers, as bits: their ranks change without a message */
    uint32_t minor;    /* version of the aggregator */
    uint64_t credit_bytes;
    rs_ns peer_sent_ns, peer_received_ns;
    struct told *told; /* of the ranks, over this link */
    size_t told_capacity;
    struct rs_buf head, scratch;
    struct rs_uplink_stats stats;
};

static rs_dur or_default(rs_dur value, rs_dur fallback)
{
    return value ? value : fallback;
}

enum rs_status rs_uplink_new(const struct rs_uplink_options *options, struct rs_uplink **uplink_p,
                             struct rs_err *err)
{
    struct rs_uplink *uplink = rs_mem_calloc(1, sizeof *uplink);
    if (!uplink)
        return rs_err_set(err, RS_NOMEM, "no memory for the uplink");
    uplink->options = *options;
    uplink->options.backoff_min_ns =
        or_default(options->backoff_min_ns, 200 * (rs_dur)RS_NS_PER_MS);
    uplink->options.backoff_max_ns = or_default(options->backoff_max_ns, 10 * (rs_dur)RS_NS_PER_S);
    uplink->backoff_ns = uplink->options.backoff_min_ns;
    uplink->outbox_last_p = &uplink->outbox;
    uplink->random = (uint32_t)rs_time_realtime() | 1u;
    uplink->heartbeat_ns = RS_NS_PER_S;
    (void)snprintf(uplink->node, sizeof uplink->node, "%s", options->node);
    *uplink_p = uplink;
    return RS_OK;
}

static void drop_messages(struct rs_uplink *uplink)
{
    while (uplink->outbox) {
        struct message *message = uplink->outbox;
        uplink->outbox = message->next;
        rs_buf_fini(&message->buf);
        rs_mem_free(message);
    }
    uplink->outbox_last_p = &uplink->outbox;
}

static void forget_streams(struct rs_uplink *uplink)
{
    for (size_t i = 0; i < uplink->stream_count; i++)
        rs_mem_free(uplink->streams[i].flights);
    uplink->stream_count = 0;
    uplink->stats.flight_bytes = 0;
    for (size_t lane = 0; lane < RS_STREAM_LANE_COUNT; lane++)
        uplink->turn[lane] = 0;
}

void rs_uplink_free(struct rs_uplink **uplink_p)
{
    struct rs_uplink *uplink = *uplink_p;
    if (!uplink)
        return;
    *uplink_p = NULL;
    RS_CHECK(!uplink->link);
    drop_messages(uplink);
    forget_streams(uplink);
    rs_mem_free(uplink->streams);
    rs_mem_free(uplink->told);
    rs_buf_fini(&uplink->head);
    rs_buf_fini(&uplink->scratch);
    rs_mem_free(uplink);
}

/* ---- messages --------------------------------------------------------------------------------------- */

static void post(struct rs_uplink *uplink, const Rankscope__Up *up)
{
    struct message *message = rs_mem_calloc(1, sizeof *message);
    if (message)
        rs_wire_pack(&up->base, &message->buf);
    if (!message || message->buf.failed) {
        rs_mem_free(message);
        rs_link_abort(uplink->link); /* the next connection starts from the spool again */
        return;
    }
    *uplink->outbox_last_p = message;
    uplink->outbox_last_p = &message->next;
}

static void fill_open(const struct rs_spool_entry *entry, Rankscope__Open *open)
{
    rankscope__open__init(open);
    open->handle = entry->id;
    open->run = rs_lend(entry->source.run);
    open->rank = entry->source.rank;
    open->incarnation = rs_lend(entry->source.incarnation);
    open->capture = rs_lend(entry->source.capture);
    open->capture_key = rs_lend(entry->source.capture_key);
    open->world = entry->source.world;
    open->host = rs_lend(entry->source.host);
    open->settle_ns = entry->source.settle_ns;
    open->origin = rs_lend(entry->source.origin);
    open->lane = entry->source.lane;
    open->first_seq = entry->first_seq;
}

static struct stream *find_stream(const struct rs_uplink *uplink, uint32_t entry)
{
    size_t low = 0;
    size_t high = uplink->stream_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (uplink->streams[middle].entry < entry)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < uplink->stream_count && uplink->streams[low].entry == entry)
        return &uplink->streams[low];
    return NULL;
}

/* An aggregator of minor version 1 knows no summary lane: it reduces the raw events itself. */
static bool is_for_us(struct rs_uplink *uplink, const struct rs_spool_entry *entry)
{
    if (entry->is_ended && entry->end_seq <= entry->settled_seq)
        return false;
    if (entry->source.lane == RS_STREAM_RAW || uplink->minor >= 2)
        return true;
    if (entry->is_ended)
        rs_spool_ack(uplink->options.spool, entry->id, entry->end_seq);
    return false;
}

static void add_stream(struct rs_uplink *uplink, const struct rs_spool_entry *entry)
{
    size_t at = uplink->stream_count++;
    for (; at > 0 && uplink->streams[at - 1].entry > entry->id; at--)
        uplink->streams[at] = uplink->streams[at - 1];
    uplink->streams[at] = (struct stream){.entry = entry->id,
                                          .lane = entry->source.lane,
                                          .idle_puts = UINT64_MAX,
                                          .forgotten_seq = entry->acked_seq};
}

/* The next entry that has to be opened. Those whose chunks are all acknowledged have not. */
static bool next_to_open(struct rs_uplink *uplink, struct rs_spool_entry *entry)
{
    const struct rs_uplink_options *options = &uplink->options;
    while (rs_spool_next_entry(options->spool, uplink->last_entry, entry) == RS_OK) {
        if (rs_mem_grow((void **)&uplink->streams, &uplink->stream_capacity,
                        uplink->stream_count + 1, sizeof *uplink->streams) < 0)
            return false;
        uplink->last_entry = entry->id;
        if (!is_for_us(uplink, entry) ||
            (options->takes &&
             (!options->takes(options->self, entry) || find_stream(uplink, entry->id))))
            continue;
        add_stream(uplink, entry);
        return true;
    }
    return false;
}

static void post_open(struct rs_uplink *uplink, const struct rs_spool_entry *entry)
{
    Rankscope__Open open;
    fill_open(entry, &open);
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_OPEN;
    up.open = &open;
    post(uplink, &up);
}

static void post_opens(struct rs_uplink *uplink)
{
    struct rs_spool_entry entry;
    while (next_to_open(uplink, &entry))
        post_open(uplink, &entry);
}

/* Streams of captures of other aggregators: whose they are may be another one by now. When the next is due. */
static rs_ns post_opens_again(struct rs_uplink *uplink, rs_ns now)
{
    rs_ns next = RS_NS_MAX;
    for (size_t i = 0; i < uplink->stream_count; i++) {
        struct stream *stream = &uplink->streams[i];
        struct rs_spool_entry entry;
        if (!stream->ask_at || !stream->is_answered)
            continue;
        if (now < stream->ask_at) {
            next = stream->ask_at < next ? stream->ask_at : next;
            continue;
        }
        stream->is_answered =
            false; /* one that is not in the spool any more is not asked for again */
        if (rs_spool_entry_of(uplink->options.spool, stream->entry, &entry) == RS_OK)
            post_open(uplink, &entry);
    }
    return next;
}

static size_t take_ranks(const struct rs_uplink *uplink, Rankscope__RankState ***states_p)
{
    *states_p = NULL;
    return uplink->options.ranks ? uplink->options.ranks(uplink->options.self, states_p) : 0;
}

void rs_uplink_announce(struct rs_uplink *uplink, Rankscope__Adapter **adapters, size_t count,
                        uint32_t restless)
{
    uplink->adapters = adapters;
    uplink->adapter_count = count;
    uplink->restless = restless;
}

/* How many of the ranks fit into one message, both ends' limits being well above. */
static size_t page_of(Rankscope__RankState *const *ranks, size_t count)
{
    size_t bytes = 0;
    size_t fit = 0;
    while (fit < count && fit < PAGE_RANKS && bytes < PAGE_BYTES)
        bytes += rankscope__rank_state__get_packed_size(ranks[fit++]) + 8;
    return fit;
}

/* Opens follow the Welcome: which ones depends on the aggregator's version. */
static void post_hello(struct rs_uplink *uplink)
{
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    hello.node = uplink->node;
    hello.collector = rs_lend(rs_spool_id(uplink->options.spool));
    hello.sent_ns = rs_time_realtime();
    /* Of a table of several messages the rest comes with the first heartbeat. */
    hello.n_ranks = take_ranks(uplink, &hello.ranks);
    hello.n_ranks = page_of(hello.ranks, hello.n_ranks);
    hello.adapters = uplink->adapters;
    hello.n_adapters = uplink->adapter_count;
    hello.is_delivery = uplink->options.is_delivery;
    if (uplink->options.on_hello)
        uplink->options.on_hello(uplink->options.self, &hello);
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    post(uplink, &up);
}

/* Nothing that a heartbeat tells changes by itself: no rank steps, is armed, or records. */
static bool is_quiet(const struct rs_uplink *uplink, Rankscope__RankState *const *ranks,
                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((ranks[i]->kind < 32 && (uplink->restless >> ranks[i]->kind & 1)) ||
            ranks[i]->state == RS_RANK_ARMED || ranks[i]->state == RS_RANK_RECORDING)
            return false;
    return true;
}

/* Of all that is said of a rank, but for what changes all the time by itself: that goes with the rest. 0: no memory. */
static uint64_t digest_of(struct rs_uplink *uplink, const Rankscope__RankState *rank)
{
    Rankscope__RankState steady = *rank;
    steady.seen_ns = steady.delay_ns = 0;
    steady.free_disk_bytes = steady.free_memory_bytes = 0;
    rs_buf_reset(&uplink->scratch);
    rs_wire_pack(&steady.base, &uplink->scratch);
    return uplink->scratch.failed ? 0 : XXH3_64bits(uplink->scratch.data, uplink->scratch.length);
}

/* Leaves in the list, which is ours until the next is taken, those of which there is something to say: a rank that stands in one step
 * for ten seconds, or has no work, need not be told of twice a second. One that is armed, or records, is in every heartbeat. */
static size_t keep_changed(struct rs_uplink *uplink, Rankscope__RankState **ranks, size_t count,
                           rs_ns now)
{
    const size_t had = uplink->told_capacity;
    size_t kept = 0;
    if (rs_mem_grow((void **)&uplink->told, &uplink->told_capacity, count, sizeof *uplink->told) <
        0)
        return count;
    if (uplink->told_capacity > had)
        memset(uplink->told + had, 0, (uplink->told_capacity - had) * sizeof *uplink->told);
    for (size_t i = 0; i < count; i++) {
        struct told *told = &uplink->told[i];
        const uint64_t digest = digest_of(uplink, ranks[i]);
        if (digest && told->at && told->digest == digest && now - told->at < tell_again_ns &&
            ranks[i]->state != RS_RANK_ARMED && ranks[i]->state != RS_RANK_RECORDING)
            continue;
        *told = (struct told){.digest = digest, .at = now};
        ranks[kept++] = ranks[i];
    }
    return kept;
}

/* Into the table of this process, which is one collector. */
static void count_with(const struct rs_uplink *uplink, const struct rs_spool_stats *spool)
{
    const struct rs_uplink_stats stats = rs_uplink_stats(uplink);
    rs_count_set(RS_COUNT_UPLINK_UP, stats.is_up);
    rs_count_set(RS_COUNT_UPLINK_CONNECTS, stats.connects);
    rs_count_set(RS_COUNT_UPLINK_SENT_CHUNKS, stats.sent_chunks);
    rs_count_set(RS_COUNT_UPLINK_SENT_BYTES, stats.sent_bytes);
    rs_count_set(RS_COUNT_UPLINK_RESENT, stats.resent_chunks);
    rs_count_set(RS_COUNT_UPLINK_REFUSED, stats.refused_chunks);
    rs_count_set(RS_COUNT_UPLINK_LOSS_RECORDS, stats.loss_records);
    rs_count_set(RS_COUNT_UPLINK_FLIGHT, stats.flight_bytes);
    rs_count_set(RS_COUNT_SPOOL_DISK, spool->disk_bytes);
    rs_count_set(RS_COUNT_SPOOL_OVER_SHARE, spool->over_share_chunks);
    rs_count_set(RS_COUNT_SPOOL_WAITING_CHUNKS, spool->waiting_chunks);
    rs_count_set(RS_COUNT_SPOOL_WAITING_BYTES, spool->waiting_bytes);
    rs_count_set(RS_COUNT_SPOOL_PUT, spool->put_chunks);
    rs_count_set(RS_COUNT_SPOOL_ACKED, spool->acked_chunks);
    rs_count_set(RS_COUNT_SPOOL_LOST_CHUNKS, spool->lost_chunks);
    rs_count_set(RS_COUNT_SPOOL_LOST_BYTES, spool->lost_bytes);
    rs_count_set(RS_COUNT_SPOOL_CUT, spool->cut_bytes);
    rs_count_set(RS_COUNT_SPOOL_DAMAGED_SEGMENTS, spool->damaged_segments);
    rs_count_set(RS_COUNT_SPOOL_DAMAGED_BYTES, spool->damaged_bytes);
    rs_count_set(RS_COUNT_SPOOL_HELD, spool->held_entries);
    rs_count_set(RS_COUNT_SPOOL_HELD_BYTES, spool->held_bytes);
    rs_count_set(RS_COUNT_SPOOL_KEPT_BYTES, spool->kept_bytes);
    rs_count_set(RS_COUNT_SPOOL_EVICTED, spool->evicted_entries);
    rs_count_process();
}

void rs_uplink_count(const struct rs_uplink *uplink)
{
    const struct rs_spool_stats spool = rs_spool_stats(uplink->options.spool);
    count_with(uplink, &spool);
}

struct counter_messages {
    Rankscope__Counter items[RS_COUNT_END];
    Rankscope__Counter *pointers[RS_COUNT_END];
};

static size_t list_counters(struct counter_messages *messages)
{
    size_t used = 0;
    for (unsigned i = 0; i < RS_COUNT_END; i++) {
        const struct rs_counter_info *info = rs_counter_info((enum rs_counter)i);
        if (!(info->who & RS_COUNT_COLLECTOR))
            continue;
        Rankscope__Counter *message = &messages->items[used];
        rankscope__counter__init(message);
        message->name = rs_lend(info->name);
        message->value = rs_count_read((enum rs_counter)i);
        messages->pointers[used++] = message;
    }
    return used;
}

/* Returns when the next is due. A table that is more than a message comes in several, and not before the last was sent. */
static rs_dur post_heartbeat(struct rs_uplink *uplink)
{
    const struct rs_spool_stats spool = rs_spool_stats(uplink->options.spool);
    Rankscope__RankState **ranks = NULL;
    size_t rank_count = take_ranks(uplink, &ranks);
    if (rank_count > PAGE_RANKS && uplink->outbox)
        return uplink->heartbeat_ns;
    const rs_ns now = rs_time_monotonic();
    const rs_dur next_ns = is_quiet(uplink, ranks, rank_count) ? QUIET_BEATS * uplink->heartbeat_ns
                                                               : uplink->heartbeat_ns;
    rank_count = keep_changed(uplink, ranks, rank_count, now);
    struct counter_messages counters;
    Rankscope__Heartbeat heartbeat = RANKSCOPE__HEARTBEAT__INIT;
    heartbeat.echo_sent_ns = uplink->peer_sent_ns;
    heartbeat.echo_received_ns = uplink->peer_received_ns;
    heartbeat.spool_bytes = spool.disk_bytes;
    heartbeat.spool_chunks_lost = spool.lost_chunks;
    heartbeat.next_ns = next_ns;
    if (now >= uplink->next_counters && !uplink->options.is_delivery) {
        uplink->next_counters = now + COUNTERS_EVERY_S * (rs_dur)RS_NS_PER_S;
        count_with(uplink, &spool);
        heartbeat.n_counters = list_counters(&counters);
        heartbeat.counters = counters.pointers;
    }
    size_t from = 0;
    do {
        heartbeat.ranks = ranks + from;
        heartbeat.n_ranks = page_of(heartbeat.ranks, rank_count - from);
        heartbeat.sent_ns = rs_time_realtime();
        Rankscope__Up up = RANKSCOPE__UP__INIT;
        up.message_case = RANKSCOPE__UP__MESSAGE_HEARTBEAT;
        up.heartbeat = &heartbeat;
        post(uplink, &up);
        heartbeat.n_counters = 0;
        from += heartbeat.n_ranks;
    } while (from < rank_count);
    return next_ns;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static enum rs_status send_message(struct rs_uplink *uplink)
{
    struct message *message = uplink->outbox;
    const enum rs_status status = rs_link_send(
        uplink->link, rs_view_of(message->buf.data, message->buf.length), rs_view_of(NULL, 0));
    if (status != RS_OK)
        return status;
    uplink->outbox = message->next;
    if (!uplink->outbox)
        uplink->outbox_last_p = &uplink->outbox;
    rs_buf_fini(&message->buf);
    rs_mem_free(message);
    return RS_OK;
}

static bool add_flight(struct rs_uplink *uplink, struct stream *stream, rs_seq seq, size_t bytes)
{
    if (stream->flight_head && stream->flight_head * 2 >= stream->flight_count) {
        stream->flight_count -= stream->flight_head;
        memmove(stream->flights, stream->flights + stream->flight_head,
                stream->flight_count * sizeof *stream->flights);
        stream->flight_head = 0;
    }
    if (rs_mem_grow((void **)&stream->flights, &stream->flight_capacity, stream->flight_count + 1,
                    sizeof *stream->flights) < 0)
        return false;
    stream->flights[stream->flight_count++] = (struct flight){.seq = seq, .bytes = (uint32_t)bytes};
    uplink->stats.flight_bytes += bytes;
    return true;
}

/* RS_AGAIN: the link or the credit does not allow it now. */
static enum rs_status send_bytes(struct rs_uplink *uplink, struct stream *stream, rs_seq seq,
                                 unsigned flags, struct rs_view bytes)
{
    /* One chunk may always be under way, or a small credit would stop everything. */
    if (uplink->stats.flight_bytes &&
        uplink->stats.flight_bytes + bytes.length > uplink->credit_bytes)
        return RS_AGAIN;
    rs_buf_reset(&uplink->head);
    rs_wire_chunk_head(&uplink->head, stream->entry, seq, flags, bytes.length);
    if (uplink->head.failed || !add_flight(uplink, stream, seq, bytes.length))
        return RS_NOMEM;
    const enum rs_status status =
        rs_link_send(uplink->link, rs_view_of(uplink->head.data, uplink->head.length), bytes);
    if (status != RS_OK) {
        stream->flight_count--;
        uplink->stats.flight_bytes -= bytes.length;
        return status;
    }
    uplink->stats.sent_chunks++;
    uplink->stats.sent_bytes += bytes.length;
    if (seq <= stream->high_seq)
        uplink->stats.resent_chunks++;
    else
        stream->high_seq = seq;
    stream->next_seq = seq + 1;
    return RS_OK;
}

static enum rs_status send_loss(struct rs_uplink *uplink, struct stream *stream, rs_seq last,
                                unsigned flags, const struct rs_loss *loss)
{
    uint8_t bytes[RS_LOSS_BYTES];
    rs_loss_encode(loss, bytes);
    const enum rs_status status =
        send_bytes(uplink, stream, last, RS_ENVELOPE_LOSS | flags, rs_view_of(bytes, sizeof bytes));
    if (status != RS_OK)
        return status;
    rs_log_error("stream %u: chunks %llu to %llu are missing (%s)", stream->entry,
                 (unsigned long long)loss->first_seq, (unsigned long long)last,
                 rs_loss_cause_text(loss->cause));
    uplink->stats.loss_records++;
    return RS_OK;
}

/* Numbers before `next` are not in the spool: those that were acknowledged once, or those that were damaged. */
static enum rs_status send_hole(struct rs_uplink *uplink, struct stream *stream, rs_seq next,
                                uint64_t skipped_bytes)
{
    const bool is_forgotten = stream->next_seq <= stream->forgotten_seq;
    rs_seq last = next - 1;
    if (is_forgotten && last > stream->forgotten_seq)
        last = stream->forgotten_seq;
    const struct rs_loss loss = {.chunks = last - stream->next_seq + 1,
                                 .bytes = is_forgotten ? 0 : skipped_bytes,
                                 .first_seq = stream->next_seq,
                                 .cause = is_forgotten ? RS_LOSS_FORGOTTEN : RS_LOSS_DAMAGED};
    return send_loss(uplink, stream, last, 0, &loss);
}

/* Sends the stream's next chunk. RS_AGAIN: the link or the credit does not allow it. RS_END: it has none now. */
static enum rs_status send_of(struct rs_uplink *uplink, struct stream *stream)
{
    struct rs_spool_chunk chunk;
    if (rs_spool_peek(uplink->options.spool, stream->entry, stream->next_seq, &chunk) != RS_OK)
        return RS_END;
    if (uplink->minor < 2) {
        /* A loss record of its three numbers is all that it reads. */
        const bool is_long =
            chunk.flags & RS_ENVELOPE_LOSS && chunk.bytes.length > RS_LOSS_SHORT_BYTES;
        if (is_long)
            chunk.bytes.length = RS_LOSS_SHORT_BYTES;
        return send_bytes(uplink, stream, chunk.seq, chunk.flags, chunk.bytes);
    }
    rs_seq first = chunk.seq;
    struct rs_loss loss = {0};
    if (chunk.flags & RS_ENVELOPE_LOSS &&
        rs_loss_decode(chunk.bytes.data, chunk.bytes.length, &loss, NULL) == RS_OK &&
        loss.first_seq && loss.first_seq < first)
        first = loss.first_seq;
    if (first > stream->next_seq)
        return send_hole(uplink, stream, first, chunk.skipped_bytes);
    if (stream->damaged_seq == chunk.seq && stream->is_given_up) {
        loss = (struct rs_loss){.chunks = 1,
                                .bytes = chunk.bytes.length,
                                .first_seq = chunk.seq,
                                .cause = RS_LOSS_DAMAGED};
        const unsigned end =
            chunk.flags & RS_ENVELOPE_LAST ? RS_ENVELOPE_LAST | RS_ENVELOPE_PARTIAL : 0u;
        return send_loss(uplink, stream, chunk.seq, end, &loss);
    }
    /* With its last chunk a capture may be closed: the summary is to be there by then. */
    stream->waits_for_summary = chunk.flags & RS_ENVELOPE_LAST && stream->lane == RS_STREAM_RAW &&
                                rs_spool_has_summary(uplink->options.spool, stream->entry);
    if (stream->waits_for_summary)
        return RS_END;
    return send_bytes(uplink, stream, chunk.seq, chunk.flags, chunk.bytes);
}

/* A summary went: raw streams whose last chunk waited for it may go on. */
static void look_again(struct rs_uplink *uplink)
{
    for (size_t i = 0; i < uplink->stream_count; i++)
        if (uplink->streams[i].waits_for_summary)
            uplink->streams[i].idle_puts = UINT64_MAX;
}

/* Whether a stream is held back. Of one that was evicted meanwhile the loss record is sent at once: it is not there any more
 * for whoever thinks that it can be fetched. */
static bool is_kept(struct rs_uplink *uplink, struct stream *stream, uint64_t puts)
{
    struct rs_spool_entry entry;
    if (!stream->is_held)
        return false;
    stream->is_held = rs_spool_entry_of(uplink->options.spool, stream->entry, &entry) != RS_OK ||
                      !entry.is_evicted;
    if (stream->is_held)
        stream->idle_puts = puts;
    return stream->is_held;
}

/* The end of a rank's events makes it done, so its summary goes before: also when that stream was opened so late that the
 * answer is still under way. */
static bool waits_for_summary(struct rs_uplink *uplink, const struct stream *stream)
{
    struct rs_spool_chunk chunk;
    bool is_asked = false;
    for (size_t i = 0; i < uplink->stream_count && !is_asked; i++)
        is_asked = uplink->streams[i].lane == RS_STREAM_SUMMARY &&
                   !uplink->streams[i].is_answered && !uplink->streams[i].ask_at;
    return is_asked && uplink->minor >= 2 &&
           rs_spool_peek(uplink->options.spool, stream->entry, stream->next_seq, &chunk) == RS_OK &&
           (chunk.flags & RS_ENVELOPE_LAST);
}

/* Gives the streams of a lane their turns. RS_END: none has a chunk. With minor version 1 numbers of one incarnation go on
 * over its entries: these are sent in their order. */
static enum rs_status send_of_lane(struct rs_uplink *uplink, enum rs_stream_lane lane,
                                   uint64_t puts)
{
    const bool in_order = uplink->minor < 2;
    for (size_t i = 0; i < uplink->stream_count; i++) {
        const size_t at = in_order ? i : (uplink->turn[lane] + i) % uplink->stream_count;
        struct stream *stream = &uplink->streams[at];
        if (stream->lane != lane || stream->idle_puts == puts)
            continue;
        if (stream->is_refused) {
            rs_spool_drop(uplink->options.spool, stream->entry);
            stream->idle_puts = puts;
            look_again(uplink); /* nobody waits for what is dropped */
            continue;
        }
        if (!stream->is_answered && in_order)
            return RS_AGAIN;
        if (!stream->is_answered || stream->ask_at || is_kept(uplink, stream, puts) ||
            (lane == RS_STREAM_RAW && waits_for_summary(uplink, stream)))
            continue;
        const enum rs_status status = send_of(uplink, stream);
        if (status != RS_END) {
            uplink->turn[lane] = status == RS_OK ? at + 1 : at;
            return status;
        }
        stream->idle_puts = puts;
    }
    return RS_END;
}

/* Sends the next chunk: summaries first. RS_AGAIN: none can go now. */
static enum rs_status send_chunk(struct rs_uplink *uplink)
{
    /* Before the streams are looked at: a chunk that is put meanwhile makes them not idle. */
    const uint64_t puts = rs_spool_put_count(uplink->options.spool);
    enum rs_status status = send_of_lane(uplink, RS_STREAM_SUMMARY, puts);
    if (status == RS_END)
        status = send_of_lane(uplink, RS_STREAM_RAW, puts);
    return status == RS_END ? RS_AGAIN : status;
}

static enum rs_status send_next(struct rs_uplink *uplink)
{
    if (uplink->options.before_chunk)
        uplink->options.before_chunk(uplink->options.self);
    return uplink->outbox ? RS_OK : send_chunk(uplink);
}

static void pump(struct rs_uplink *uplink)
{
    enum rs_status status = RS_OK;
    while (uplink->link && !uplink->is_closing && status == RS_OK) {
        if (uplink->outbox)
            status = send_message(uplink);
        else if (uplink->state == STATE_SENDING)
            status = send_next(uplink);
        else
            return;
    }
    if (status == RS_NOMEM && uplink->link) {
        rs_log_error("out of memory: the link is opened again");
        rs_link_abort(uplink->link);
    }
}

/* ---- receiving --------------------------------------------------------------------------------------------- */

static void settle_flights(struct rs_uplink *uplink, struct stream *stream, rs_seq seq)
{
    while (stream->flight_head < stream->flight_count &&
           stream->flights[stream->flight_head].seq <= seq)
        uplink->stats.flight_bytes -= stream->flights[stream->flight_head++].bytes;
    if (stream->flight_head == stream->flight_count)
        stream->flight_head = stream->flight_count = 0;
}

/* Goes back to `seq`: what was sent from there on is not under way any more. */
static void rewind_to(struct rs_uplink *uplink, struct stream *stream, rs_seq seq)
{
    while (stream->flight_count > stream->flight_head &&
           stream->flights[stream->flight_count - 1].seq >= seq)
        uplink->stats.flight_bytes -= stream->flights[--stream->flight_count].bytes;
    stream->next_seq = seq;
    stream->idle_puts = UINT64_MAX;
}

static void on_refusal(struct rs_uplink *uplink, struct stream *stream,
                       const Rankscope__AckStream *ack)
{
    uplink->stats.refused_chunks++;
    rs_log_warn("stream %u, chunk %llu: %.300s", stream->entry, (unsigned long long)ack->wanted_seq,
                ack->reason);
    if (ack->refusal == RS_REFUSAL_STREAM) {
        stream->is_refused = true;
        stream->idle_puts = UINT64_MAX;
        return;
    }
    if (ack->wanted_seq <= ack->durable_seq)
        return; /* it has that one */
    if (ack->refusal == RS_REFUSAL_DAMAGED) {
        stream->is_given_up = stream->damaged_seq == ack->wanted_seq;
        stream->damaged_seq = ack->wanted_seq;
    }
    rewind_to(uplink, stream, ack->wanted_seq);
}

/* Not of an entry that goes over another uplink by now: what is acknowledged there counts. */
static void acknowledged(struct rs_uplink *uplink, uint32_t id, rs_seq seq)
{
    const struct rs_uplink_options *options = &uplink->options;
    struct rs_spool_entry entry;
    if (options->takes && (rs_spool_entry_of(options->spool, id, &entry) != RS_OK ||
                           !options->takes(options->self, &entry)))
        return;
    if (uplink->is_keeping)
        rs_spool_stored(options->spool, id, seq);
    else
        rs_spool_ack(options->spool, id, seq);
}

static void on_ack(struct rs_uplink *uplink, const Rankscope__Ack *ack)
{
    bool has_summary = false;
    for (size_t i = 0; i < ack->n_streams; i++) {
        const Rankscope__AckStream *item = ack->streams[i];
        struct stream *stream = find_stream(uplink, item->handle);
        if (!stream)
            continue;
        settle_flights(uplink, stream, item->durable_seq);
        acknowledged(uplink, item->handle, item->durable_seq);
        if (item->refusal)
            on_refusal(uplink, stream, item);
        has_summary = has_summary || stream->lane == RS_STREAM_SUMMARY;
    }
    if (has_summary)
        look_again(uplink);
    if (ack->credit_bytes)
        uplink->credit_bytes = ack->credit_bytes;
}

/* The capture is another aggregator's: all of it stays here. What is still to be wanted there, of a capture that is closed, is no more than held. */
static void leave(struct rs_uplink *uplink, struct stream *stream, const Rankscope__Opened *opened)
{
    const struct rs_uplink_options *options = &uplink->options;
    if (!uplink->has_left)
        rs_log_warn("stream %u stays in the spool: aggregator %.16s%s%.160s has its capture",
                    stream->entry, *opened->aggregator ? opened->aggregator : "unknown",
                    *opened->aggregator_address ? " at " : "", opened->aggregator_address);
    uplink->has_left = true;
    if (stream->ask_at)
        stream->ask_pause_ns *= 2;
    if (stream->ask_pause_ns < ask_least_ns)
        stream->ask_pause_ns = ask_least_ns;
    if (stream->ask_pause_ns > ask_most_ns)
        stream->ask_pause_ns = ask_most_ns;
    stream->ask_at = rs_time_monotonic() + stream->ask_pause_ns;
    stream->owner = options->owner ? options->owner(options->self, opened->aggregator,
                                                    opened->aggregator_address)
                                   : 0;
    rs_spool_hold(uplink->options.spool, stream->entry, opened->is_closed);
}

static void on_opened(struct rs_uplink *uplink, const Rankscope__Opened *opened)
{
    struct stream *stream = find_stream(uplink, opened->handle);
    if (!stream || stream->is_answered)
        return;
    stream->is_answered = true;
    stream->idle_puts = UINT64_MAX;
    if (*opened->refused) {
        stream->is_refused = true;
        rs_log_error("the aggregator refuses a stream: %.300s", opened->refused);
        return;
    }
    if (opened->is_elsewhere) {
        leave(uplink, stream, opened);
        return;
    }
    stream->ask_at = 0;
    stream->owner = 0;
    stream->is_held = opened->hold;
    stream->next_seq = opened->durable_seq + 1;
    rs_spool_hold(uplink->options.spool, opened->handle, opened->hold);
    /* Also when it is less than the aggregator before this one had. */
    rs_spool_stored(uplink->options.spool, opened->handle, opened->durable_seq);
    if (opened->durable_seq && (!uplink->is_keeping || opened->is_settled))
        rs_spool_ack(uplink->options.spool, opened->handle, opened->durable_seq);
}

/* Rows of these captures are where all aggregators read them, so that nothing that was acknowledged is needed any more. Not of a stream that
 * was not opened here since: what another one acknowledged may be more than this one ever saw. */
static void on_settled(struct rs_uplink *uplink, const Rankscope__Settled *settled)
{
    for (size_t i = 0; i < uplink->stream_count; i++) {
        const struct stream *stream = &uplink->streams[i];
        struct rs_spool_entry entry;
        bool is_named = false;
        if (!stream->is_answered || stream->ask_at || stream->is_refused ||
            rs_spool_entry_of(uplink->options.spool, stream->entry, &entry) != RS_OK)
            continue;
        for (size_t k = 0; k < settled->n_captures && !is_named; k++)
            is_named = strcmp(settled->captures[k], entry.source.capture) == 0;
        if (is_named)
            rs_spool_ack(uplink->options.spool, stream->entry, entry.acked_seq);
    }
}

static void on_release(struct rs_uplink *uplink, const Rankscope__Release *release)
{
    for (size_t i = 0; i < release->n_handles; i++) {
        struct stream *stream = find_stream(uplink, release->handles[i]);
        if (!stream || !stream->is_held)
            continue;
        stream->is_held = false;
        stream->idle_puts = UINT64_MAX;
        rs_spool_hold(uplink->options.spool, stream->entry, false);
    }
}

static void on_welcome(struct rs_uplink *uplink, const Rankscope__Welcome *welcome)
{
    struct rs_err err = {0};
    enum rs_status status = rs_wire_check_version(welcome->version, "the aggregator", &err);
    if (status == RS_OK && *welcome->refused)
        status = rs_err_set(&err, RS_REFUSED, "the aggregator refuses: %.300s", welcome->refused);
    if (status < 0) {
        rs_log_error("%s", err.text);
        rs_link_abort(uplink->link);
        return;
    }
    uplink->minor = welcome->version->minor;
    if (uplink->options.on_welcome && !uplink->options.on_welcome(uplink->options.self, welcome)) {
        uplink->is_closing = uplink->is_moving = true;
        rs_link_close(uplink->link, RS_OK, "");
        return;
    }
    if (uplink->told_capacity)
        memset(uplink->told, 0, uplink->told_capacity * sizeof *uplink->told);
    uplink->state = STATE_SENDING;
    uplink->is_keeping = uplink->options.must_keep && welcome->settles;
    uplink->credit_bytes = welcome->credit_bytes;
    uplink->next_counters = 0; /* this aggregator knows none */
    if (welcome->heartbeat_ns >= RS_NS_PER_MS)
        uplink->heartbeat_ns =
            welcome->heartbeat_ns < heartbeat_most_ns ? welcome->heartbeat_ns : heartbeat_most_ns;
    if (uplink->failures)
        rs_log_warn("the aggregator is there again");
    uplink->failures = 0;
    uplink->backoff_ns = uplink->options.backoff_min_ns;
    uplink->stats.is_up = true;
    uplink->stats.connects++;
    /* At once, before any answer about a capture: with it our clock is measured, and instants go out by our clock. */
    uplink->peer_sent_ns = welcome->sent_ns;
    uplink->peer_received_ns = rs_time_realtime();
    uplink->next_beat = rs_time_monotonic() + post_heartbeat(uplink);
    post_opens(uplink);
}

static void on_heartbeat(struct rs_uplink *uplink, const Rankscope__Heartbeat *heartbeat)
{
    const rs_ns t3 = rs_time_realtime();
    uplink->peer_sent_ns = heartbeat->sent_ns;
    uplink->peer_received_ns = t3;
    if (!heartbeat->echo_sent_ns)
        return;
    uplink->stats.heartbeats++;
    const rs_ns t0 = heartbeat->echo_sent_ns;
    const rs_ns t1 = heartbeat->echo_received_ns;
    const rs_ns t2 = heartbeat->sent_ns;
    rs_dur there, back, ours, theirs, round_trip, offset;
    if (__builtin_sub_overflow(t1, t0, &there) || __builtin_sub_overflow(t2, t3, &back) ||
        __builtin_sub_overflow(t3, t0, &ours) || __builtin_sub_overflow(t2, t1, &theirs) ||
        __builtin_sub_overflow(ours, theirs, &round_trip) ||
        __builtin_add_overflow(there, back, &offset))
        return; /* these are no instants */
    uplink->stats.round_trip_ns = round_trip;
    uplink->stats.clock_offset_ns = offset / 2;
}

/* The name of a capture becomes a folder's here: an aggregator that says "../.." is not followed. */
static bool is_of_capture(const char *id)
{
    if (rs_wire_is_capture_id(id))
        return true;
    rs_log_warn("a message about a capture whose name is none is left unread");
    return false;
}

static void on_message(struct rs_uplink *uplink, const Rankscope__Down *down)
{
    const struct rs_uplink_options *options = &uplink->options;
    switch (down->message_case) {
    case RANKSCOPE__DOWN__MESSAGE_WELCOME:
        if (uplink->state == STATE_HELLO)
            on_welcome(uplink, down->welcome);
        return;
    case RANKSCOPE__DOWN__MESSAGE_OPENED:
        on_opened(uplink, down->opened);
        return;
    case RANKSCOPE__DOWN__MESSAGE_ACK:
        on_ack(uplink, down->ack);
        return;
    case RANKSCOPE__DOWN__MESSAGE_HEARTBEAT:
        on_heartbeat(uplink, down->heartbeat);
        return;
    case RANKSCOPE__DOWN__MESSAGE_PREPARE:
        if (options->on_prepare && is_of_capture(down->prepare->capture))
            options->on_prepare(options->self, down->prepare);
        return;
    case RANKSCOPE__DOWN__MESSAGE_COMMIT:
        if (options->on_commit && is_of_capture(down->commit->capture))
            options->on_commit(options->self, down->commit);
        return;
    case RANKSCOPE__DOWN__MESSAGE_CANCEL:
        if (options->on_cancel && is_of_capture(down->cancel->capture))
            options->on_cancel(options->self, down->cancel);
        return;
    case RANKSCOPE__DOWN__MESSAGE_GOODBYE:
        rs_log_info("the aggregator says goodbye: %.100s", down->goodbye->reason);
        if (options->on_goodbye)
            options->on_goodbye(options->self, down->goodbye);
        uplink->is_closing = true;
        rs_link_close(uplink->link, RS_OK, "");
        return;
    case RANKSCOPE__DOWN__MESSAGE_RELEASE:
        on_release(uplink, down->release);
        return;
    case RANKSCOPE__DOWN__MESSAGE_SETTLED:
        on_settled(uplink, down->settled);
        return;
    case RANKSCOPE__DOWN__MESSAGE_FLIGHT_ASK:
        if (options->on_flight_ask && is_of_capture(down->flight_ask->id))
            options->on_flight_ask(options->self, down->flight_ask);
        return;
    case RANKSCOPE__DOWN__MESSAGE__NOT_SET:
    case RS_WIRE_ONEOF_SIZE(RANKSCOPE__DOWN):
        break;
    }
    rs_log_debug("a message of no known kind from the aggregator");
}

static bool on_frame(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct rs_uplink *uplink = self;
    struct rs_message message;
    struct rs_err err = {0};
    if (rs_message_unpack(&message, &rankscope__down__descriptor, frame, &err) < 0) {
        rs_log_error("%s", err.text);
        rs_link_abort(link);
    } else {
        on_message(uplink, (const Rankscope__Down *)message.body);
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    pump(uplink);
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    (void)link;
    pump(self);
}

static uint32_t next_random(struct rs_uplink *uplink)
{
    uplink->random ^= uplink->random << 13;
    uplink->random ^= uplink->random >> 17;
    uplink->random ^= uplink->random << 5;
    return uplink->random;
}

/* At once, where there is another one to go to; else after a pause, twice as long each time. */
static void connect_later(struct rs_uplink *uplink)
{
    uplink->next_connect = rs_time_monotonic();
    if (uplink->options.on_away && uplink->options.on_away(uplink->options.self))
        return;
    const rs_dur half = uplink->backoff_ns / 2;
    uplink->next_connect +=
        half + (rs_dur)(next_random(uplink) % (uint32_t)(half / 1000 + 1)) * 1000;
    uplink->backoff_ns *= 2;
    if (uplink->backoff_ns > uplink->options.backoff_max_ns)
        uplink->backoff_ns = uplink->options.backoff_max_ns;
}

/* Said once for an outage, and once more when what was an outage is a refusal: a certificate that was revoked meanwhile. */
static void try_later(struct rs_uplink *uplink, enum rs_status status, const char *reason)
{
    const bool is_refused = status == RS_REFUSED;
    if (uplink->failures++ == 0 || (is_refused && !uplink->was_refused))
        rs_log_warn("the link to the aggregator is down: %.300s; trying again", reason);
    else
        rs_log_debug("the aggregator is not there: %.300s", reason);
    uplink->was_refused = is_refused;
    connect_later(uplink);
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct rs_uplink *uplink = self;
    (void)link;
    uplink->link = NULL;
    uplink->is_closing = false;
    uplink->stats.is_up = false;
    uplink->state = uplink->must_stop ? STATE_CLOSED : STATE_DOWN;
    drop_messages(uplink);
    forget_streams(uplink);
    uplink->last_entry = 0;
    const bool is_moving = uplink->is_moving;
    uplink->is_moving = uplink->has_left = false;
    if (uplink->must_stop)
        return;
    if (is_moving) {
        connect_later(uplink);
        return;
    }
    try_later(uplink, status,
              status == RS_OK ? "it was ended there"
              : *reason       ? rs_link_plain(reason)
                              : rs_status_text(status));
}

static const struct rs_link_user uplink_user = {
    .on_message = on_frame, .on_writable = on_writable, .on_closed = on_closed};

/* ---- steps --------------------------------------------------------------------------------------------------- */

static void connect_now(struct rs_uplink *uplink)
{
    struct rs_err err = {0};
    if (uplink->options.connect(uplink->options.connect_self, &uplink_user, uplink, &uplink->link,
                                &err) < 0) {
        try_later(uplink, err.status, err.text);
        return;
    }
    uplink->state = STATE_HELLO;
    post_hello(uplink);
}

void rs_uplink_step(struct rs_uplink *uplink, rs_ns until)
{
    RS_ON_THREAD(UPLINK);
    rs_ns now = rs_time_monotonic();
    if (uplink->state == STATE_DOWN && !uplink->must_stop) {
        if (now >= uplink->next_connect)
            connect_now(uplink);
        if (uplink->state == STATE_DOWN && until > uplink->next_connect)
            until = uplink->next_connect;
    }
    if (uplink->state == STATE_SENDING && !uplink->is_closing) {
        if (uplink->options.takes && now >= uplink->look_again_at) {
            uplink->look_again_at = now + RS_NS_PER_S;
            uplink->last_entry = 0; /* what was not to be taken may be by now */
        }
        post_opens(uplink);
        const rs_ns ask_at = post_opens_again(uplink, now);
        until = until > ask_at ? ask_at : until;
        if (now >= uplink->next_beat || uplink->is_beat_due) {
            uplink->next_beat = now + post_heartbeat(uplink);
            uplink->is_beat_due = false;
        }
        if (until > uplink->next_beat)
            until = uplink->next_beat;
    }
    pump(uplink);
    if (rs_loop_run(uplink->options.loop, until) < 0)
        rs_log_error("the loop cannot run");
}

void rs_uplink_wake(void *self)
{
    struct rs_uplink *uplink = self;
    rs_loop_wake(uplink->options.loop);
}

void rs_uplink_send(struct rs_uplink *uplink, const Rankscope__Up *up)
{
    if (uplink->state != STATE_SENDING || uplink->is_closing)
        return;
    post(uplink, up);
}

void rs_uplink_beat(struct rs_uplink *uplink)
{
    uplink->is_beat_due = true;
}

void rs_uplink_close(struct rs_uplink *uplink)
{
    uplink->must_stop = true;
    if (!uplink->link) {
        uplink->state = STATE_CLOSED;
        return;
    }
    if (!uplink->is_closing)
        rs_link_close(uplink->link, RS_OK, "");
    uplink->is_closing = true;
}

bool rs_uplink_has_messages(const struct rs_uplink *uplink)
{
    return uplink->outbox != NULL;
}

bool rs_uplink_is_closed(const struct rs_uplink *uplink)
{
    return uplink->state == STATE_CLOSED;
}

unsigned rs_uplink_owner_of(const struct rs_uplink *uplink, uint32_t entry)
{
    const struct stream *stream = find_stream(uplink, entry);
    return stream && stream->ask_at ? stream->owner : 0;
}

unsigned rs_uplink_waits_for(const struct rs_uplink *uplink, unsigned preferred)
{
    struct rs_spool_entry entry;
    unsigned found = 0;
    for (size_t i = 0; i < uplink->stream_count && (!found || found != preferred); i++) {
        const struct stream *stream = &uplink->streams[i];
        if (stream->ask_at && stream->owner && (!found || stream->owner == preferred) &&
            rs_spool_entry_of(uplink->options.spool, stream->entry, &entry) == RS_OK)
            found = stream->owner;
    }
    return found;
}

struct rs_uplink_stats rs_uplink_stats(const struct rs_uplink *uplink)
{
    return uplink->stats;
}
