/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Why does it hang?" over a whole cluster that is simulated: 128 collectors of 8 ranks each, the aggregator's real server,
 * store and journal, the report from the capture's folder.
 *
 *     fake node: Hello --> FlightAsk comes --> a packed dump per rank, then the last word
 *
 * With HANG_RANKS, HANG_CALLS it is the bench (tests/bench/hang_live.py), which reads the line that begins with "figure".
 */
#include "aggregator/deliver/deliver.h"
#include "aggregator/server/capture_journal.h"
#include "aggregator/server/server.h"
#include "common/base/mem.h"
#include "common/flight/pack.h"
#include "tests/support/link_mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PER_NODE = 8, DEFAULT_RANKS = 1024, DEFAULT_CALLS = 16, CULPRIT = 37 };

struct message {
    struct message *next;
    struct rs_buf buf;
};

enum behaviour { ANSWERS, SILENT, CUT, REFUSES };

struct cluster;

struct node {
    struct cluster *cluster;
    struct rs_link *link;
    uint32_t first; /* rank */
    enum behaviour behaviour;
    struct message *outbox, **outbox_last_p;
    bool is_busy;
};

struct cluster {
    char dir[64];
    struct rs_loop *loop;
    struct rs_store *store;
    struct rs_capture_journal own;
    struct rs_server *server;
    struct node *nodes;
    size_t node_count, asked;
    uint32_t ranks, calls;
    struct rs_buf *dumps;   /* packed, of each rank */
    const char *second_run; /* of odd ranks; NULL: one run */
    size_t looks;           /* who wrote a dump? */
    uint32_t writers;       /* so many ranks did */
    rs_ns written_ns;
};

static uint32_t from_environment(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);
    return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

/* ---- a rank's dump: all_reduce after all_reduce; the culprit does not make the last call ------------------------------ */

static rs_str id(struct rs_flight_set *set, const char *text)
{
    rs_str value;
    assert_ok(rs_strtab_add(&set->strings, text, strlen(text), &value));
    return value;
}

static void make_dump(const struct cluster *cluster, uint32_t rank, const char *host,
                      struct rs_buf *packed)
{
    struct rs_flight_set set;
    struct rs_flight_dump *dump;
    uint32_t group;
    assert_ok(rs_flight_set_init(&set));
    assert_ok(rs_flight_begin(&set, "control plane", &dump));
    rs_mem_free(dump->host);
    dump->host = rs_mem_strdup(host);
    dump->rank = (int32_t)rank;
    dump->backend = id(&set, "nccl");
    dump->is_taken_known = true;
    dump->taken_ns = 2000000000000;
    assert_ok(rs_flight_group_of(&set, id(&set, "0"), id(&set, "default_pg"), &group));
    struct rs_flight_group *about = &dump->groups[group];
    about->ranks = rs_mem_calloc(cluster->ranks, sizeof *about->ranks);
    assert_non_null(about->ranks);
    about->rank_count = cluster->ranks;
    for (uint32_t i = 0; i < cluster->ranks; i++)
        about->ranks[i] = (int32_t)i;
    const uint32_t count = cluster->calls - (rank == CULPRIT);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_done = i + 1 < cluster->calls;
        const int64_t now = 1000000000000 + (int64_t)i * 5000000 + rank % 7 * 1000;
        const struct rs_flight_entry entry = {
            .record_id = i + 5000,
            .seq = i + 5000,
            .created_ns = now,
            .started_ns = now + 50000,
            .completed_ns = is_done ? now + 900000 : RS_FLIGHT_UNKNOWN,
            .duration_ns = RS_FLIGHT_UNKNOWN,
            .timeout_ns = 600000000000,
            .in_numel = 1 << 20,
            .out_numel = 1 << 20,
            .name = id(&set, "nccl:all_reduce"),
            .sizes = id(&set, "[1048576]"),
            .dtypes = id(&set, "Float"),
            .group = group,
            .peer_src = -1,
            .peer_dst = -1,
            .op = RS_FLIGHT_ALL_REDUCE,
            .state = is_done ? RS_FLIGHT_COMPLETED : RS_FLIGHT_STARTED,
            .flags = is_done ? RS_FLIGHT_RETIRED : 0};
        assert_ok(rs_flight_add(&set, &entry));
    }
    rs_flight_end(&set);
    assert_ok(rs_flight_pack(&set, &set.dumps[0], packed, NULL));
    rs_flight_set_fini(&set);
}

/* ---- a fake collector ------------------------------------------------------------------------------------------------ */

static void pump(struct node *node)
{
    while (node->link && node->outbox && !node->is_busy) {
        struct message *message = node->outbox;
        const enum rs_status status = rs_link_send(
            node->link, rs_view_of(message->buf.data, message->buf.length), rs_view_of(NULL, 0));
        if (status == RS_AGAIN) {
            node->is_busy = true;
            return;
        }
        node->outbox = message->next;
        if (!node->outbox)
            node->outbox_last_p = &node->outbox;
        rs_buf_fini(&message->buf);
        rs_mem_free(message);
    }
}

static void post(struct node *node, const Rankscope__Up *up)
{
    struct message *message = rs_mem_calloc(1, sizeof *message);
    assert_non_null(message);
    rs_wire_pack(&up->base, &message->buf);
    *node->outbox_last_p = message;
    node->outbox_last_p = &message->next;
    pump(node);
}

static void say_hello(struct node *node, char *name)
{
    static char collector[] = "c";
    Rankscope__Version version;
    Rankscope__Hello hello = RANKSCOPE__HELLO__INIT;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    rs_wire_own_version(&version);
    hello.version = &version;
    hello.node = name;
    hello.collector = collector;
    up.message_case = RANKSCOPE__UP__MESSAGE_HELLO;
    up.hello = &hello;
    post(node, &up);
}

/* Two pieces, where a dump is large enough to be cut. */
static void send_rank(struct node *node, const char *question, uint32_t rank)
{
    char host[32], name[64], run[] = "train", second[32] = "", way[] = "control plane",
                             why[] = "it opens no worker server";
    const struct rs_buf *packed = &node->cluster->dumps[rank];
    Rankscope__Flight flight = RANKSCOPE__FLIGHT__INIT;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    (void)snprintf(host, sizeof host, "n%u", node->first / PER_NODE);
    (void)snprintf(name, sizeof name, "%s", question);
    if (node->cluster->second_run)
        (void)snprintf(second, sizeof second, "%s", node->cluster->second_run);
    up.message_case = RANKSCOPE__UP__MESSAGE_FLIGHT;
    up.flight = &flight;
    flight.id = name;
    flight.run = *second && rank % 2 ? second : run;
    flight.rank = rank;
    flight.pid = 1000 + rank;
    flight.host = host;
    flight.way = way;
    if (node->behaviour == REFUSES) {
        flight.text = why;
        post(node, &up);
        return;
    }
    const size_t half = packed->length / 2;
    flight.part.data = packed->data;
    flight.part.len = half;
    flight.has_more = true;
    post(node, &up);
    flight.part.data = packed->data + half;
    flight.part.len = packed->length - half;
    flight.has_more = false;
    post(node, &up);
}

/* Nobody is asked: ranks below `writers` wrote a dump, the others did not. */
static void tell_dumps(struct node *node, const char *question, rs_ns newer_than_ns)
{
    char name[64], host[] = "n0", run[] = "train", way[] = "file", none[] = "none";
    Rankscope__Flight flight = RANKSCOPE__FLIGHT__INIT;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    const bool is_new = node->cluster->written_ns > newer_than_ns;
    (void)snprintf(name, sizeof name, "%s", question);
    up.message_case = RANKSCOPE__UP__MESSAGE_FLIGHT;
    up.flight = &flight;
    flight.id = name;
    flight.run = run;
    flight.host = host;
    for (uint32_t i = 0; i < PER_NODE; i++) {
        flight.rank = node->first + i;
        flight.way = is_new && flight.rank < node->cluster->writers ? way : none;
        flight.written_ns = flight.way == way ? node->cluster->written_ns : 0;
        post(node, &up);
    }
    flight.is_last = true;
    post(node, &up);
}

static void answer(struct node *node, const char *question)
{
    char name[64];
    Rankscope__Flight flight = RANKSCOPE__FLIGHT__INIT;
    Rankscope__Up up = RANKSCOPE__UP__INIT;
    if (node->behaviour == SILENT)
        return;
    if (node->behaviour == CUT) {
        rs_link_abort(node->link);
        return;
    }
    for (uint32_t i = 0; i < PER_NODE && node->first + i < node->cluster->ranks; i++)
        send_rank(node, question, node->first + i);
    (void)snprintf(name, sizeof name, "%s", question);
    flight.id = name;
    flight.is_last = true;
    up.message_case = RANKSCOPE__UP__MESSAGE_FLIGHT;
    up.flight = &flight;
    post(node, &up);
}

static bool node_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct node *node = self;
    struct rs_message message;
    (void)link;
    assert_ok(rs_message_unpack(&message, &rankscope__down__descriptor, frame, NULL));
    const Rankscope__Down *down = (const Rankscope__Down *)message.body;
    if (down->message_case == RANKSCOPE__DOWN__MESSAGE_FLIGHT_ASK) {
        assert_true(rs_wire_is_capture_id(down->flight_ask->id));
        assert_true(down->flight_ask->limit_ns > 0);
        const rs_ns newer_than_ns = down->flight_ask->newer_than_ns;
        node->cluster->asked += !newer_than_ns;
        node->cluster->looks += newer_than_ns != 0;
        if (newer_than_ns)
            tell_dumps(node, down->flight_ask->id, newer_than_ns);
        else
            answer(node, down->flight_ask->id);
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void node_writable(void *self, struct rs_link *link)
{
    struct node *node = self;
    (void)link;
    node->is_busy = false;
    pump(node);
}

static void node_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct node *node = self;
    (void)link;
    (void)status;
    (void)reason;
    node->link = NULL;
}

static const struct rs_link_user node_user = {
    .on_message = node_message, .on_writable = node_writable, .on_closed = node_closed};

/* ---- the cluster -------------------------------------------------------------------------------------------------------- */

static struct cluster *begin_watched(uint32_t ranks, uint32_t calls,
                                     const struct rs_server_hang_rules *rules)
{
    struct cluster *cluster = rs_mem_calloc(1, sizeof *cluster);
    assert_non_null(cluster);
    tmp_dir_make(cluster->dir);
    cluster->ranks = ranks;
    cluster->calls = calls;
    cluster->loop = link_mem_loop_new();
    assert_ok(rs_store_open(cluster->dir, 0, &cluster->store, NULL));
    cluster->own.store = cluster->store;
    const struct rs_server_journal journal = rs_capture_journal_interface(&cluster->own);
    const struct rs_server_options options = {
        .loop = cluster->loop, .store = cluster->store, .journal = &journal, .hang = *rules};
    assert_ok(rs_server_new(&options, &cluster->server, NULL));
    cluster->node_count = (ranks + PER_NODE - 1) / PER_NODE;
    cluster->nodes = rs_mem_calloc(cluster->node_count, sizeof *cluster->nodes);
    cluster->dumps = rs_mem_calloc(ranks, sizeof *cluster->dumps);
    assert_non_null(cluster->nodes);
    assert_non_null(cluster->dumps);
    return cluster;
}

static struct cluster *begin(uint32_t ranks, uint32_t calls)
{
    const struct rs_server_hang_rules off = {.is_on = false};
    return begin_watched(ranks, calls, &off);
}

static void step(struct cluster *cluster)
{
    assert_ok(rs_server_step(cluster->server, rs_time_monotonic() + RS_NS_PER_MS, NULL));
}

static void connect_nodes(struct cluster *cluster)
{
    for (uint32_t rank = 0; rank < cluster->ranks; rank++) {
        char host[32];
        (void)snprintf(host, sizeof host, "n%u", rank / PER_NODE);
        make_dump(cluster, rank, host, &cluster->dumps[rank]);
    }
    for (size_t i = 0; i < cluster->node_count; i++) {
        struct node *node = &cluster->nodes[i];
        char name[32];
        (void)snprintf(name, sizeof name, "n%zu", i);
        node->cluster = cluster;
        node->first = (uint32_t)(i * PER_NODE);
        node->outbox_last_p = &node->outbox;
        node->link = link_mem_connect(cluster->loop, &node_user, node, RS_WIRE_METHOD_STREAM,
                                      rs_server_accept, cluster->server);
        say_hello(node, name);
    }
    for (int i = 0; i < 20; i++)
        step(cluster);
}

static void end(struct cluster *cluster)
{
    link_mem_cut_all(cluster->loop);
    while (rs_server_session_count(cluster->server))
        step(cluster);
    rs_server_free(&cluster->server);
    rs_store_close(&cluster->store);
    for (size_t i = 0; i < cluster->node_count; i++)
        while (cluster->nodes[i].outbox) {
            struct message *message = cluster->nodes[i].outbox;
            cluster->nodes[i].outbox = message->next;
            rs_buf_fini(&message->buf);
            rs_mem_free(message);
        }
    for (uint32_t rank = 0; rank < cluster->ranks; rank++)
        rs_buf_fini(&cluster->dumps[rank]);
    rs_mem_free(cluster->dumps);
    link_mem_loop_free(&cluster->loop);
    tmp_dir_remove(cluster->dir);
    rs_mem_free(cluster->nodes);
    rs_mem_free(cluster);
}

/* ---- the asker ------------------------------------------------------------------------------------------------------------ */

struct asker {
    struct rs_link *link;
    bool has_answer;
    int32_t refusal; /* enum rs_status */
    char text[512], id[64], directory[4096];
    uint32_t state;
    size_t ranks, done, refused;
};

static bool asker_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct asker *asker = self;
    struct rs_message message;
    (void)link;
    assert_ok(rs_message_unpack(&message, &rankscope__reply__descriptor, frame, NULL));
    const Rankscope__Reply *reply = (const Rankscope__Reply *)message.body;
    asker->has_answer = reply->last;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_REFUSAL) {
        asker->refusal = reply->refusal->status;
        (void)snprintf(asker->text, sizeof asker->text, "%s", reply->refusal->text);
    } else {
        assert_int_equal(reply->message_case, RANKSCOPE__REPLY__MESSAGE_CAPTURE);
        (void)snprintf(asker->id, sizeof asker->id, "%s", reply->capture->id);
        (void)snprintf(asker->directory, sizeof asker->directory, "%s", reply->capture->directory);
        assert_string_equal(reply->capture->source, "flight");
        asker->state = reply->capture->state;
        asker->ranks = reply->capture->n_ranks;
        for (size_t i = 0; i < reply->capture->n_ranks; i++) {
            asker->done += reply->capture->ranks[i]->state == RS_PROGRESS_DONE;
            asker->refused += reply->capture->ranks[i]->state == RS_PROGRESS_REFUSED;
        }
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    return true;
}

static void asker_writable(void *self, struct rs_link *link)
{
    (void)self;
    (void)link;
}

static void asker_closed(void *self, struct rs_link *link, enum rs_status status,
                         const char *reason)
{
    struct asker *asker = self;
    (void)link;
    (void)status;
    (void)reason;
    asker->link = NULL;
}

static const struct rs_link_user asker_user = {
    .on_message = asker_message, .on_writable = asker_writable, .on_closed = asker_closed};

static void ask(struct cluster *cluster, const char *run, const char *ranks, rs_dur limit,
                struct asker *asker)
{
    char run_text[64], ranks_text[64];
    Rankscope__Version version;
    struct rs_buf buf = {0};
    Rankscope__AskHang hang = RANKSCOPE__ASK_HANG__INIT;
    Rankscope__Ask question = RANKSCOPE__ASK__INIT;
    (void)snprintf(run_text, sizeof run_text, "%s", run);
    (void)snprintf(ranks_text, sizeof ranks_text, "%s", ranks);
    *asker = (struct asker){.link = NULL};
    rs_wire_own_version(&version);
    question.version = &version;
    question.message_case = RANKSCOPE__ASK__MESSAGE_HANG;
    question.hang = &hang;
    hang.run = run_text;
    hang.ranks = ranks_text;
    hang.limit_ns = limit;
    rs_wire_pack(&question.base, &buf);
    asker->link = link_mem_connect(cluster->loop, &asker_user, asker, RS_WIRE_METHOD_ASK,
                                   rs_server_accept, cluster->server);
    assert_ok(rs_link_send(asker->link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)));
    const rs_ns deadline = rs_time_monotonic() + 120 * (rs_dur)RS_NS_PER_S;
    while (!asker->has_answer && rs_time_monotonic() < deadline)
        step(cluster);
    assert_true(asker->has_answer);
    while (asker->link && rs_time_monotonic() < deadline)
        step(cluster);
    rs_buf_fini(&buf);
}

/* What `report` says of the capture. */
static void judge(const struct asker *asker, struct rs_deliver_result *result)
{
    const struct rs_deliver_options how = {.report = RS_DELIVER_JSON};
    struct rs_err err = {0};
    *result = (struct rs_deliver_result){.is_partial = false};
    if (rs_deliver_capture(asker->directory, &how, NULL, NULL, result, &err) < 0)
        fail_msg("%s", err.text);
}

static bool names(struct rs_deliver_result *result, const char *kind, const char *where)
{
    char text[160];
    (void)snprintf(text, sizeof text, "\"kind\": \"%s\"", kind);
    const char *at = strstr(rs_buf_text(&result->report), text);
    return at && strstr(at, where);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------ */

static void a_thousand_ranks_and_the_one_that_did_not_arrive(void **state)
{
    (void)state;
    struct cluster *cluster = begin(from_environment("HANG_RANKS", DEFAULT_RANKS),
                                    from_environment("HANG_CALLS", DEFAULT_CALLS));
    struct asker asker;
    struct rs_deliver_result result;
    connect_nodes(cluster);
    const rs_ns at = rs_time_monotonic();
    ask(cluster, "train", "", 0, &asker);
    const rs_ns gathered = rs_time_monotonic();
    assert_int_equal(asker.refusal, 0);
    assert_int_equal(cluster->asked, cluster->node_count);
    assert_int_equal(asker.state, RS_CAPTURE_COMPLETE);
    assert_int_equal(asker.ranks, cluster->ranks);
    assert_int_equal(asker.done, cluster->ranks);
    judge(&asker, &result);
    print_message("figure %u ranks of %u calls: gathered in %.2f s, judged in %.2f s\n",
                  cluster->ranks, cluster->calls, (double)(gathered - at) / 1e9,
                  (double)(rs_time_monotonic() - gathered) / 1e9);
    assert_true(names(&result, "hang", "\"rank\": 37"));
    assert_false(result.is_partial);
    assert_int_equal(result.share_count, 1);
    rs_deliver_result_fini(&result);
    /* It is there like any capture. */
    struct rs_capture_facts facts;
    assert_ok(rs_store_find_capture(cluster->store, asker.id, &facts, NULL));
    assert_true(facts.is_closed);
    assert_string_equal(facts.run, "train");
    assert_string_equal(facts.source, "flight");
    end(cluster);
}

static void nodes_that_say_nothing_are_named_and_the_others_judged(void **state)
{
    (void)state;
    struct cluster *cluster = begin(64, DEFAULT_CALLS);
    struct asker asker;
    struct rs_deliver_result result;
    cluster->nodes[1].behaviour = SILENT;
    cluster->nodes[2].behaviour = CUT;
    cluster->nodes[3].behaviour = REFUSES;
    connect_nodes(cluster);
    ask(cluster, "", "", RS_NS_PER_S / 2, &asker);
    assert_int_equal(asker.refusal, 0);
    assert_int_equal(asker.state, RS_CAPTURE_PARTIAL);
    assert_int_equal(asker.done, 64 - 3 * PER_NODE);
    assert_int_equal(asker.refused, PER_NODE);
    judge(&asker, &result);
    assert_true(result.is_partial);
    assert_true(names(&result, "hang", "\"rank\": 37"));
    rs_deliver_result_fini(&result);
    end(cluster);
}

static void ranks_are_chosen(void **state)
{
    (void)state;
    struct cluster *cluster = begin(64, DEFAULT_CALLS);
    struct asker asker;
    connect_nodes(cluster);
    ask(cluster, "train", "node=n4", 0, &asker);
    assert_int_equal(asker.refusal, 0);
    assert_int_equal(asker.ranks, PER_NODE);
    ask(cluster, "train", "700", 0, &asker);
    assert_int_equal(asker.refusal, RS_REFUSED);
    ask(cluster, "train", "0-", 0, &asker);
    assert_int_equal(asker.refusal, RS_INVALID);
    end(cluster);
}

static void what_cannot_be_answered_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct cluster *cluster = begin(16, DEFAULT_CALLS);
    struct asker asker;
    ask(cluster, "", "", 0, &asker); /* before any collector is there */
    assert_int_equal(asker.refusal, RS_REFUSED);
    assert_non_null(strstr(asker.text, "no collector"));
    cluster->second_run = "other";
    connect_nodes(cluster);
    ask(cluster, "", "", 0, &asker);
    assert_int_equal(asker.refusal, RS_INVALID);
    assert_non_null(strstr(asker.text, "--run"));
    assert_non_null(strstr(asker.text, "other"));
    cluster->nodes[0].behaviour = cluster->nodes[1].behaviour = CUT;
    ask(cluster, "train", "", 0, &asker);
    assert_int_equal(asker.refusal, RS_NOTFOUND);
    end(cluster);
}

/* ---- the standing watch ----------------------------------------------------------------------------------------------------- */

struct kept {
    size_t count;
    char reason[RS_COORD_REASON_BYTES];
};

static bool count_kept(void *self, const struct rs_coord_capture *capture)
{
    struct kept *kept = self;
    kept->count += capture->state == RS_CAPTURE_COMPLETE;
    (void)snprintf(kept->reason, sizeof kept->reason, "%s", capture->reason);
    return true;
}

static struct kept kept_of(struct cluster *cluster)
{
    const struct rs_server_journal journal = rs_capture_journal_interface(&cluster->own);
    struct kept kept = {.count = 0};
    assert_ok(journal.list(journal.self, count_kept, &kept, NULL));
    return kept;
}

static void run_until(struct cluster *cluster, const size_t *count, size_t wanted)
{
    const rs_ns deadline = rs_time_monotonic() + 120 * (rs_dur)RS_NS_PER_S;
    while (*count < wanted && rs_time_monotonic() < deadline)
        step(cluster);
    assert_true(*count >= wanted);
}

static void dumps_that_appear_are_one_incident(void **state)
{
    (void)state;
    const struct rs_server_hang_rules rules = {
        .is_on = true, .cool_down_ns = RS_NS_PER_MS, .per_day = 2};
    struct cluster *cluster = begin_watched(16, DEFAULT_CALLS, &rules);
    cluster->written_ns = rs_time_realtime() - RS_NS_PER_S; /* before the watch: old news */
    cluster->writers = 16;
    connect_nodes(cluster);
    run_until(cluster, &cluster->looks, 4);
    assert_int_equal(cluster->asked, 0);
    for (size_t incident = 1; incident <= 2; incident++) {
        cluster->written_ns = rs_time_realtime();
        cluster->writers = 3;
        run_until(cluster, &cluster->asked, incident * cluster->node_count);
        cluster->writers = 16; /* asking made all of them write */
        cluster->written_ns = rs_time_realtime();
        cluster->looks = 0;
        run_until(cluster, &cluster->looks, 6 * cluster->node_count); /* longer than it settles */
        assert_int_equal(cluster->asked, incident * cluster->node_count);
        const struct kept kept = kept_of(cluster);
        assert_int_equal(kept.count, incident);
        assert_string_equal(kept.reason, "3 ranks wrote a flight recorder dump");
    }
    /* A third is over the budget. */
    cluster->written_ns = rs_time_realtime();
    cluster->looks = 0;
    run_until(cluster, &cluster->looks, 6 * cluster->node_count);
    assert_int_equal(kept_of(cluster).count, 2);
    end(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_ranks_and_the_one_that_did_not_arrive),
        cmocka_unit_test(nodes_that_say_nothing_are_named_and_the_others_judged),
        cmocka_unit_test(ranks_are_chosen),
        cmocka_unit_test(what_cannot_be_answered_is_refused_with_the_reason),
        cmocka_unit_test(dumps_that_appear_are_one_incident),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
