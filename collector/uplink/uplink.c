/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/uplink/uplink.h"

#include "common/base/check.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "uplink"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum state { STATE_DOWN, STATE_HELLO, STATE_SENDING, STATE_CLOSED };

/* A chunk on its way. */
struct flight {
    uint32_t entry;
    rs_seq seq;
    uint32_t bytes;
    bool is_acked;
};

struct letter {
    struct letter *next;
    struct rs_buf buf;
};

/* What the aggregator said of an entry on this link. Entries not in the list were not opened. */
struct opened {
    uint32_t entry;
    bool is_answered, is_refused;
};

enum { QUIET_BEATS = 4 };

struct rs_uplink {
    struct rs_uplink_options options;
    char node[RS_WIRE_TEXT_MAX_BYTES + 1];
    enum state state;
    struct rs_link *link;
    bool is_closing, must_stop, is_beat_due;
    rs_ns next_connect, next_beat;
    rs_dur backoff_ns, heartbeat_ns;
    unsigned failures; /* since the last Welcome */
    uint32_t random;

    struct letter *outbox, **outbox_last_p;
    struct opened *opened; /* ascending */
    size_t opened_count, opened_capacity;
    uint32_t last_entry;    /* entries beyond it were not looked at on this link */
    uint64_t position;      /* next chunk of the spool to look at */
    uint64_t high_position; /* chunks below it were sent at least once */
    struct flight *flights; /* flights[flight_head ..] */
    size_t flight_head, flight_count, flight_capacity;
    uint64_t credit_bytes;
    rs_ns peer_sent_ns, peer_received_ns;
    struct rs_buf head;
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

static void drop_letters(struct rs_uplink *uplink)
{
    while (uplink->outbox) {
        struct letter *letter = uplink->outbox;
        uplink->outbox = letter->next;
        rs_buf_fini(&letter->buf);
        rs_mem_free(letter);
    }
    uplink->outbox_last_p = &uplink->outbox;
}

void rs_uplink_free(struct rs_uplink **uplink_p)
{
    struct rs_uplink *uplink = *uplink_p;
    if (!uplink)
        return;
    *uplink_p = NULL;
    RS_CHECK(!uplink->link);
    drop_letters(uplink);
    rs_mem_free(uplink->opened);
    rs_mem_free(uplink->flights);
    rs_buf_fini(&uplink->head);
    rs_mem_free(uplink);
}

/* ---- letters --------------------------------------------------------------------------------------- */

static void post(struct rs_uplink *uplink, const Rankscope__Up *up)
{
    struct letter *letter = rs_mem_calloc(1, sizeof *letter);
    if (letter)
        rs_wire_pack(&up->base, &letter->buf);
    if (!letter || letter->buf.failed) {
        rs_mem_free(letter);
        rs_link_abort(uplink->link); /* the next connection starts from the spool again */
        return;
    }
    *uplink->outbox_last_p = letter;
    uplink->outbox_last_p = &letter->next;
}

/* Texts in letters are only read by packing. */
static char *lend(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

static void fill_open(const struct rs_spool_entry *entry, Rankscope__Open *open)
{
    rankscope__open__init(open);
    open->handle = entry->id;
    open->run = lend(entry->source.run);
    open->rank = entry->source.rank;
    open->incarnation = lend(entry->source.incarnation);
    open->capture = lend(entry->source.capture);
    open->capture_key = lend(entry->source.capture_key);
    open->world = entry->source.world;
    open->host = lend(entry->source.host);
    open->settle_ns = entry->source.settle_ns;
    open->origin = lend(entry->source.origin);
}

static struct opened *find_opened(const struct rs_uplink *uplink, uint32_t entry)
{
    size_t low = 0;
    size_t high = uplink->opened_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (uplink->opened[middle].entry < entry)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < uplink->opened_count && uplink->opened[low].entry == entry)
        return &uplink->opened[low];
    return NULL;
}

/* The next entry that has to be opened. Those whose chunks are all acknowledged have not. */
static bool next_to_open(struct rs_uplink *uplink, struct rs_spool_entry *entry)
{
    while (rs_spool_next_entry(uplink->options.spool, uplink->last_entry, entry) == RS_OK) {
        if (rs_mem_grow((void **)&uplink->opened, &uplink->opened_capacity,
                        uplink->opened_count + 1, sizeof *uplink->opened) < 0)
            return false;
        uplink->last_entry = entry->id;
        if (entry->is_ended && entry->end_seq <= entry->acked_seq)
            continue;
        uplink->opened[uplink->opened_count++] = (struct opened){.entry = entry->id};
        return true;
    }
    return false;
}

static void post_opens(struct rs_uplink *uplink)
{
    struct rs_spool_entry entry;
    while (next_to_open(uplink, &entry)) {
        Rankscope__Open open;
        fill_open(&entry, &open);
        Rankscope__Up up = RANKSCOPE__UP__INIT;
        up.letter_case = RANKSCOPE__UP__LETTER_OPEN;
        up.open = &open;
        post(uplink, &up);
    }
}

static size_t take_ranks(const struct rs_uplink *uplink, Rankscope__RankState ***states_p)
{
    *states_p = NULL;
    return uplink->options.ranks ? uplink->options.ranks(uplink->options.self, states_p) : 0;
}

enum { HELLO_OPENS_MAX = 4096 };

static void post_hello(struct rs_uplink *uplink)
{
    Rankscope__Version version;
    rs_wire_own_version(&version);
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    hello.version = &version;
    hello.node = uplink->node;
    hello.collector = lend(rs_spool_id(uplink->options.spool));
    hello.sent_ns = rs_time_realtime();
    hello.n_ranks = take_ranks(uplink, &hello.ranks);
    Rankscope__Open *opens = rs_mem_calloc(HELLO_OPENS_MAX, sizeof *opens);
    Rankscope__Open **pointers = rs_mem_calloc(HELLO_OPENS_MAX, sizeof *pointers);
    struct rs_spool_entry entry;
    while (opens && pointers && hello.n_opens < HELLO_OPENS_MAX && next_to_open(uplink, &entry)) {
        fill_open(&entry, &opens[hello.n_opens]);
        pointers[hello.n_opens] = &opens[hello.n_opens];
        hello.n_opens++;
    }
    hello.opens = pointers;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.letter_case = RANKSCOPE__UP__LETTER_HELLO;
    up.hello = &hello;
    post(uplink, &up);
    rs_mem_free(pointers);
    rs_mem_free(opens);
}

/* Nothing that a heartbeat tells changes by itself: no rank steps, is armed, or records. */
static bool is_quiet(Rankscope__RankState *const *ranks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i]->kind == RS_RANK_NATIVE || ranks[i]->state == RS_RANK_ARMED ||
            ranks[i]->state == RS_RANK_RECORDING)
            return false;
    return true;
}

/* Returns when the next is due. */
static rs_dur post_heartbeat(struct rs_uplink *uplink)
{
    const struct rs_spool_stats spool = rs_spool_stats(uplink->options.spool);
    Rankscope__Heartbeat heartbeat = RANKSCOPE__HEARTBEAT__INIT;
    heartbeat.echo_sent_ns = uplink->peer_sent_ns;
    heartbeat.echo_received_ns = uplink->peer_received_ns;
    heartbeat.spool_bytes = spool.disk_bytes;
    heartbeat.spool_chunks_lost = spool.lost_chunks;
    heartbeat.n_ranks = take_ranks(uplink, &heartbeat.ranks);
    heartbeat.sent_ns = rs_time_realtime();
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    up.letter_case = RANKSCOPE__UP__LETTER_HEARTBEAT;
    up.heartbeat = &heartbeat;
    post(uplink, &up);
    return is_quiet(heartbeat.ranks, heartbeat.n_ranks) ? QUIET_BEATS * uplink->heartbeat_ns
                                                        : uplink->heartbeat_ns;
}

/* ---- sending ------------------------------------------------------------------------------------------- */

static enum rs_status send_letter(struct rs_uplink *uplink)
{
    struct letter *letter = uplink->outbox;
    const enum rs_status status = rs_link_send(
        uplink->link, rs_view_of(letter->buf.data, letter->buf.length), rs_view_of(NULL, 0));
    if (status != RS_OK)
        return status;
    uplink->outbox = letter->next;
    if (!uplink->outbox)
        uplink->outbox_last_p = &uplink->outbox;
    rs_buf_fini(&letter->buf);
    rs_mem_free(letter);
    return RS_OK;
}

static bool add_flight(struct rs_uplink *uplink, const struct rs_spool_chunk *chunk)
{
    if (uplink->flight_head && uplink->flight_head * 2 >= uplink->flight_count) {
        uplink->flight_count -= uplink->flight_head;
        memmove(uplink->flights, uplink->flights + uplink->flight_head,
                uplink->flight_count * sizeof *uplink->flights);
        uplink->flight_head = 0;
    }
    if (rs_mem_grow((void **)&uplink->flights, &uplink->flight_capacity, uplink->flight_count + 1,
                    sizeof *uplink->flights) < 0)
        return false;
    uplink->flights[uplink->flight_count++] = (struct flight){
        .entry = chunk->entry, .seq = chunk->seq, .bytes = (uint32_t)chunk->bytes.length};
    uplink->stats.flight_bytes += chunk->bytes.length;
    return true;
}

/* Sends the next chunk. RS_AGAIN: none can go now. */
static enum rs_status send_chunk(struct rs_uplink *uplink)
{
    struct rs_spool_chunk chunk;
    if (rs_spool_peek(uplink->options.spool, &uplink->position, &chunk) != RS_OK)
        return RS_AGAIN;
    const struct opened *opened = find_opened(uplink, chunk.entry);
    if (opened && opened->is_refused) {
        rs_spool_drop(uplink->options.spool, chunk.entry);
        return RS_OK;
    }
    if (!opened || !opened->is_answered)
        return RS_AGAIN;
    /* One chunk may always be under way, or a small credit would stop everything. */
    if (uplink->stats.flight_bytes &&
        uplink->stats.flight_bytes + chunk.bytes.length > uplink->credit_bytes)
        return RS_AGAIN;
    rs_buf_reset(&uplink->head);
    rs_wire_chunk_head(&uplink->head, chunk.entry, chunk.seq, chunk.flags, chunk.bytes.length);
    if (uplink->head.failed || !add_flight(uplink, &chunk))
        return RS_NOMEM;
    const enum rs_status status =
        rs_link_send(uplink->link, rs_view_of(uplink->head.data, uplink->head.length), chunk.bytes);
    if (status != RS_OK) {
        uplink->flight_count--;
        uplink->stats.flight_bytes -= chunk.bytes.length;
        return status;
    }
    uplink->stats.sent_chunks++;
    uplink->stats.sent_bytes += chunk.bytes.length;
    if (uplink->position < uplink->high_position)
        uplink->stats.resent_chunks++;
    uplink->position++;
    if (uplink->high_position < uplink->position)
        uplink->high_position = uplink->position;
    return RS_OK;
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
            status = send_letter(uplink);
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

static void settle_flights(struct rs_uplink *uplink, uint32_t entry, rs_seq seq)
{
    for (size_t i = uplink->flight_head; i < uplink->flight_count; i++) {
        struct flight *flight = &uplink->flights[i];
        if (flight->entry != entry || flight->is_acked)
            continue;
        if (flight->seq > seq)
            break;
        flight->is_acked = true;
        uplink->stats.flight_bytes -= flight->bytes;
    }
    while (uplink->flight_head < uplink->flight_count &&
           uplink->flights[uplink->flight_head].is_acked)
        uplink->flight_head++;
}

static void on_ack(struct rs_uplink *uplink, const Rankscope__Ack *ack)
{
    for (size_t i = 0; i < ack->n_streams; i++) {
        const Rankscope__AckStream *stream = ack->streams[i];
        if (!find_opened(uplink, stream->handle))
            continue;
        settle_flights(uplink, stream->handle, stream->durable_seq);
        rs_spool_ack(uplink->options.spool, stream->handle, stream->durable_seq);
    }
    if (ack->credit_bytes)
        uplink->credit_bytes = ack->credit_bytes;
}

static void on_opened(struct rs_uplink *uplink, const Rankscope__Opened *opened)
{
    struct opened *known = find_opened(uplink, opened->handle);
    if (!known)
        return;
    known->is_answered = true;
    if (*opened->refused) {
        known->is_refused = true;
        rs_log_error("the aggregator refuses a stream: %.300s", opened->refused);
        return;
    }
    if (opened->durable_seq)
        rs_spool_ack(uplink->options.spool, opened->handle, opened->durable_seq);
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
    uplink->state = STATE_SENDING;
    uplink->credit_bytes = welcome->credit_bytes;
    if (welcome->heartbeat_ns >= RS_NS_PER_MS)
        uplink->heartbeat_ns = welcome->heartbeat_ns;
    uplink->next_beat = 0;
    if (uplink->failures)
        rs_log_warn("the aggregator is there again");
    uplink->failures = 0;
    uplink->backoff_ns = uplink->options.backoff_min_ns;
    uplink->stats.is_up = true;
    uplink->stats.connects++;
    for (size_t i = 0; i < welcome->n_opened; i++)
        on_opened(uplink, welcome->opened[i]);
}

static void on_heartbeat(struct rs_uplink *uplink, const Rankscope__Heartbeat *heartbeat)
{
    const rs_ns t3 = rs_time_realtime();
    uplink->peer_sent_ns = heartbeat->sent_ns;
    uplink->peer_received_ns = t3;
    if (!heartbeat->echo_sent_ns)
        return;
    const rs_ns t0 = heartbeat->echo_sent_ns;
    const rs_ns t1 = heartbeat->echo_received_ns;
    const rs_ns t2 = heartbeat->sent_ns;
    uplink->stats.round_trip_ns = (t3 - t0) - (t2 - t1);
    uplink->stats.clock_offset_ns = ((t1 - t0) + (t2 - t3)) / 2;
}

/* The name of a capture becomes a folder's here: an aggregator that says "../.." is not followed. */
static bool is_of_capture(const char *id)
{
    if (rs_wire_is_capture_id(id))
        return true;
    rs_log_warn("a letter about a capture whose name is none is left unread");
    return false;
}

static void on_letter(struct rs_uplink *uplink, const Rankscope__Down *down)
{
    const struct rs_uplink_options *options = &uplink->options;
    switch (down->letter_case) {
    case RANKSCOPE__DOWN__LETTER_WELCOME:
        if (uplink->state == STATE_HELLO)
            on_welcome(uplink, down->welcome);
        return;
    case RANKSCOPE__DOWN__LETTER_OPENED:
        on_opened(uplink, down->opened);
        return;
    case RANKSCOPE__DOWN__LETTER_ACK:
        on_ack(uplink, down->ack);
        return;
    case RANKSCOPE__DOWN__LETTER_HEARTBEAT:
        on_heartbeat(uplink, down->heartbeat);
        return;
    case RANKSCOPE__DOWN__LETTER_PREPARE:
        if (options->on_prepare && is_of_capture(down->prepare->capture))
            options->on_prepare(options->self, down->prepare);
        return;
    case RANKSCOPE__DOWN__LETTER_COMMIT:
        if (options->on_commit && is_of_capture(down->commit->capture))
            options->on_commit(options->self, down->commit);
        return;
    case RANKSCOPE__DOWN__LETTER_CANCEL:
        if (options->on_cancel && is_of_capture(down->cancel->capture))
            options->on_cancel(options->self, down->cancel);
        return;
    case RANKSCOPE__DOWN__LETTER_GOODBYE:
        rs_log_info("the aggregator says goodbye: %.100s", down->goodbye->reason);
        uplink->is_closing = true;
        rs_link_close(uplink->link, RS_OK, "");
        return;
    case RANKSCOPE__DOWN__LETTER__NOT_SET:
    case _RANKSCOPE__DOWN__LETTER__CASE_IS_INT_SIZE:
        break;
    }
    rs_log_debug("a letter of no known kind from the aggregator");
}

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct rs_uplink *uplink = self;
    struct rs_letter letter;
    struct rs_err err = {0};
    if (rs_letter_unpack(&letter, &rankscope__down__descriptor, frame, &err) < 0) {
        rs_log_error("%s", err.text);
        rs_link_abort(link);
    } else {
        on_letter(uplink, (const Rankscope__Down *)letter.message);
    }
    rs_letter_fini(&letter);
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

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct rs_uplink *uplink = self;
    (void)link;
    uplink->link = NULL;
    uplink->is_closing = false;
    uplink->stats.is_up = false;
    uplink->state = uplink->must_stop ? STATE_CLOSED : STATE_DOWN;
    drop_letters(uplink);
    uplink->opened_count = 0;
    uplink->last_entry = 0;
    uplink->position = 0;
    uplink->flight_head = uplink->flight_count = 0;
    uplink->stats.flight_bytes = 0;
    if (uplink->must_stop)
        return;
    if (uplink->failures++ == 0)
        rs_log_warn("the link to the aggregator is down (%s): %.300s; trying again",
                    rs_status_name(status), *reason ? reason : rs_status_text(status));
    else
        rs_log_debug("the aggregator is not there: %.300s", reason);
    const rs_dur half = uplink->backoff_ns / 2;
    uplink->next_connect = rs_time_monotonic() + half +
                           (rs_dur)(next_random(uplink) % (uint32_t)(half / 1000 + 1)) * 1000;
    uplink->backoff_ns *= 2;
    if (uplink->backoff_ns > uplink->options.backoff_max_ns)
        uplink->backoff_ns = uplink->options.backoff_max_ns;
}

static const struct rs_link_user uplink_user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};

/* ---- steps --------------------------------------------------------------------------------------------------- */

static void connect_now(struct rs_uplink *uplink)
{
    struct rs_err err = {0};
    if (uplink->options.connect(uplink->options.connect_self, &uplink_user, uplink, &uplink->link,
                                &err) < 0) {
        rs_log_warn("%s", err.text);
        uplink->next_connect = rs_time_monotonic() + uplink->backoff_ns;
        return;
    }
    uplink->state = STATE_HELLO;
    post_hello(uplink);
}

void rs_uplink_step(struct rs_uplink *uplink, rs_ns until)
{
    rs_ns now = rs_time_monotonic();
    if (uplink->state == STATE_DOWN && !uplink->must_stop) {
        if (now >= uplink->next_connect)
            connect_now(uplink);
        else if (until > uplink->next_connect)
            until = uplink->next_connect;
    }
    if (uplink->state == STATE_SENDING && !uplink->is_closing) {
        post_opens(uplink);
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

bool rs_uplink_has_letters(const struct rs_uplink *uplink)
{
    return uplink->outbox != NULL;
}

bool rs_uplink_is_closed(const struct rs_uplink *uplink)
{
    return uplink->state == STATE_CLOSED;
}

struct rs_uplink_stats rs_uplink_stats(const struct rs_uplink *uplink)
{
    return uplink->stats;
}
