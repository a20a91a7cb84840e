/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream from a spool to durable segments: how fast, and a collector of made-up ranks for tests.
 *
 *   bench_stream [--bytes N] [--chunk N] [--dir DIR] [--tls 1]
 *       In one process over a loopback socket: spool -> uplink -> gRPC -> server -> ingest -> segment, acked. Against
 *       bare gRPC core with the same chunk size, and bare append + fdatasync per 16 chunks in the same
 *       folder. Prints one JSON line; `ratio` is ours / the smaller of the two. With --tls both sides of ours and of bare gRPC
 *       show certificates of an authority made for it.
 *
 *   bench_stream feed --connect ADDR --spool DIR [--ranks N] [--bytes N] [--run NAME]
 *       A collector whose source makes the same events for the same rank every time: after kill -9
 *       it goes on where the spool was. Ends when everything is acknowledged; prints rows and chunks.
 */
#include "aggregator/server/server.h"
#include "collector/pack/pack.h"
#include "collector/uplink/uplink.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"
#include "common/chunk/chunk.h"
#include "common/trust/authority.h"
#include "common/wire/link.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail_with(const char *what, const struct rs_err *err)
{
    fprintf(stderr, "bench_stream: %s: %s\n", what, err ? err->text : "");
    exit(1);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- feed -------------------------------------------------------------------------------------------------- */

struct feeder {
    struct rs_spool *spool;
    const char *dir, *run;
    unsigned ranks;
    uint64_t bytes; /* of all ranks */
    uint64_t rows;
    atomic_bool is_done, must_stop;
    struct rs_loop *loop;
    struct rs_address address;
};

enum { BATCH_ROWS = 8192 };

/* Rows whose numbers do not compress: 30-odd bytes each, so that bytes come cheap. */
static void fill_batch(struct rs_batch *batch, rs_str name, uint32_t lane, uint64_t *random,
                       rs_ns *now)
{
    rs_batch_reset(batch);
    for (size_t i = 0; i < BATCH_ROWS; i++) {
        size_t row = 0;
        if (rs_batch_row(batch, &row) != RS_OK)
            fail_with("a batch is too small", NULL);
        *now += (rs_ns)(next_random(random) % 1000);
        batch->kind[row] = RS_KIND_CPU_OP;
        batch->phase[row] = 'X';
        batch->name[row] = name;
        batch->lane[row] = lane;
        batch->start[row] = *now;
        batch->end[row] = *now + (rs_ns)(next_random(random) % 100000);
        batch->correlation[row] = (int64_t)(next_random(random) >> 1);
        batch->external_id[row] = (int64_t)(next_random(random) >> 1);
        batch->bytes[row] = (int64_t)(next_random(random) >> 1);
        batch->cpu_ns[row] = (int64_t)(next_random(random) >> 1);
    }
}

static void feed_rank(struct feeder *feeder, unsigned rank)
{
    struct rs_err err = {0};
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_batch batch;
    struct rs_trace_info info;
    struct rs_pack *pack = NULL;
    char incarnation[64];
    (void)snprintf(incarnation, sizeof incarnation, "fed:%u", rank);
    rs_trace_info_init(&info);
    const struct rs_lane host_lane = {.kind = RS_LANE_HOST,
                                      .device = -1,
                                      .process = 1,
                                      .thread = 1,
                                      .process_text = RS_STR_NONE,
                                      .thread_text = RS_STR_NONE};
    uint32_t lane = 0;
    rs_str name = 0;
    if (rs_strtab_init(&strings, 0) < 0 || rs_strtab_add(&strings, "made up", 7, &name) < 0 ||
        rs_lanes_find(&lanes, &host_lane, &lane) < 0 ||
        rs_batch_init(&batch, &strings, &lanes, BATCH_ROWS) < 0)
        fail_with("out of memory", NULL);
    const struct rs_pack_options options = {.spool = feeder->spool,
                                            .source = {.run = feeder->run,
                                                       .rank = rank,
                                                       .incarnation = incarnation,
                                                       .capture = "",
                                                       .capture_key = "fed",
                                                       .world = feeder->ranks,
                                                       .host = "made-up",
                                                       .settle_ns = 30 * (rs_dur)RS_NS_PER_S,
                                                       .origin = "bench_stream"},
                                            .flags = RS_PACK_REPEATABLE,
                                            .strings = &strings,
                                            .lanes = &lanes,
                                            .must_stop = &feeder->must_stop};
    if (rs_pack_new(&options, &pack, &err) < 0)
        fail_with("cannot pack", &err);
    const struct rs_sink sink = rs_pack_sink(pack);
    uint64_t random = 88172645463325252u + rank;
    rs_ns now = 0;
    while (rs_pack_totals(pack).bytes < feeder->bytes / feeder->ranks) {
        fill_batch(&batch, name, lane, &random, &now);
        if (sink.batch(sink.self, &batch, &err) < 0)
            fail_with("cannot put", &err);
    }
    info.rank = (int32_t)rank;
    info.rank_source = RS_RANK_METADATA;
    info.world_size = (int32_t)feeder->ranks;
    info.has_time_base = true;
    info.events_read = (int64_t)rs_pack_totals(pack).rows;
    if (rs_pack_finish(pack, &info, false, &err) < 0)
        fail_with("cannot finish", &err);
    feeder->rows += rs_pack_totals(pack).rows;
    rs_pack_free(&pack);
    rs_batch_fini(&batch);
    rs_trace_info_fini(&info);
    rs_lanes_fini(&lanes);
    rs_strtab_fini(&strings);
}

/* A rank that was finished before a crash is not made again. Its rows stand in the mark. */
static void *feed_all(void *self)
{
    struct feeder *feeder = self;
    for (unsigned rank = 0; rank < feeder->ranks; rank++) {
        char mark[4096];
        struct rs_buf buf = {0};
        (void)snprintf(mark, sizeof mark, "%s/fed-%u", feeder->dir, rank);
        const uint64_t before = feeder->rows;
        if (rs_file_read(mark, 64, &buf, NULL) == RS_OK) {
            feeder->rows += strtoull(rs_buf_text(&buf), NULL, 10);
        } else {
            feed_rank(feeder, rank);
            rs_buf_reset(&buf);
            rs_buf_printf(&buf, "%" PRIu64, feeder->rows - before);
            if (rs_file_replace(mark, buf.data, buf.length, false, NULL) < 0)
                fail_with("cannot write a mark", NULL);
        }
        rs_buf_fini(&buf);
    }
    atomic_store(&feeder->is_done, true);
    rs_loop_wake(feeder->loop);
    return NULL;
}

static enum rs_status connect_feeder(void *self, const struct rs_link_user *user, void *user_self,
                                     struct rs_link **link_p, struct rs_err *err)
{
    const struct feeder *feeder = self;
    return rs_grpc_connect(feeder->loop, &feeder->address, RS_WIRE_METHOD_STREAM, user, user_self,
                           link_p, err);
}

static int feed(const char *connect, struct feeder *feeder)
{
    struct rs_err err = {0};
    struct rs_uplink *uplink = NULL;
    pthread_t thread;
    const struct rs_spool_options spool_options = {.budget_bytes = (uint64_t)256 << 20};
    if (rs_address_parse(connect, &feeder->address, &err) < 0 ||
        rs_address_guard(&feeder->address, getenv("RANKSCOPE_CERTS"), !getenv("RANKSCOPE_CERTS"),
                         &err) < 0 ||
        rs_spool_open(feeder->dir, &spool_options, &feeder->spool, &err) < 0 ||
        rs_grpc_loop_new(&feeder->loop, &err) < 0)
        fail_with("cannot start", &err);
    const struct rs_uplink_options options = {.spool = feeder->spool,
                                              .loop = feeder->loop,
                                              .connect = connect_feeder,
                                              .connect_self = feeder,
                                              .node = "made-up",
                                              .backoff_max_ns = RS_NS_PER_S};
    if (rs_uplink_new(&options, &uplink, &err) < 0)
        fail_with("cannot start", &err);
    rs_spool_on_put(feeder->spool, rs_uplink_wake, uplink);
    if (pthread_create(&thread, NULL, feed_all, feeder) != 0)
        fail_with("cannot start a thread", NULL);
    while (!atomic_load(&feeder->is_done) || rs_spool_stats(feeder->spool).waiting_chunks)
        rs_uplink_step(uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    (void)pthread_join(thread, NULL);
    const struct rs_uplink_stats stats = rs_uplink_stats(uplink);
    rs_uplink_close(uplink);
    while (!rs_uplink_is_closed(uplink))
        rs_uplink_step(uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    printf("{\"ranks\": %u, \"rows\": %" PRIu64 ", \"sent_chunks\": %" PRIu64
           ", \"resent_chunks\": %" PRIu64 ", \"connects\": %" PRIu64 "}\n",
           feeder->ranks, feeder->rows, stats.sent_chunks, stats.resent_chunks, stats.connects);
    rs_uplink_free(&uplink);
    rs_grpc_loop_free(&feeder->loop);
    rs_spool_close(&feeder->spool);
    return 0;
}

/* ---- bare append ------------------------------------------------------------------------------------------- */

static double seconds_since(rs_ns start)
{
    return (double)(rs_time_monotonic() - start) / 1e9;
}

static double bare_append(const char *dir, const uint8_t *chunk, size_t chunk_bytes, uint64_t bytes)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/bare", dir);
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const uint64_t count = bytes / chunk_bytes;
    const rs_ns start = rs_time_monotonic();
    for (uint64_t i = 0; i < count; i++) {
        if (rs_file_write_all(fd, chunk, chunk_bytes, path, NULL) < 0)
            fail_with("cannot write", NULL);
        if (i % 16 == 15 && fdatasync(fd) < 0)
            fail_with("cannot sync", NULL);
    }
    (void)fdatasync(fd);
    const double seconds = seconds_since(start);
    (void)close(fd);
    (void)unlink(path);
    return (double)(count * chunk_bytes) / seconds / 1e6;
}

/* ---- certificates, for who wants them --------------------------------------------------------------------------- */

/* Folders of certificates; empty: plain text. */
static struct {
    char server[600], client[600];
    struct rs_trust *trusts[2];
    struct rs_trust_texts texts[2];
} tls;

static void make_certificates(const char *dir)
{
    static const char *const hosts[] = {"127.0.0.1"};
    char ca[600];
    struct rs_err err = {0};
    struct rs_authority *authority = NULL;
    struct rs_identity identity;
    struct rs_certificate_wish wish = {.party = RS_PARTY_AGGREGATOR,
                                       .name = "bench",
                                       .hosts = hosts,
                                       .host_count = 1,
                                       .valid_ns = 86400 * (rs_dur)RS_NS_PER_S};
    (void)snprintf(ca, sizeof ca, "%.500s/ca", dir);
    (void)snprintf(tls.server, sizeof tls.server, "%.500s/server", dir);
    (void)snprintf(tls.client, sizeof tls.client, "%.500s/client", dir);
    if (rs_authority_create(ca, &err) < 0 || rs_authority_open(ca, &authority, &err) < 0 ||
        rs_authority_issue(authority, &wish, tls.server, false, &identity, &err) < 0)
        fail_with("certificates", &err);
    wish = (struct rs_certificate_wish){
        .party = RS_PARTY_NODE, .name = "bench", .valid_ns = wish.valid_ns};
    if (rs_authority_issue(authority, &wish, tls.client, false, &identity, &err) < 0)
        fail_with("certificates", &err);
    rs_authority_close(&authority);
    const char *const folders[] = {tls.server, tls.client};
    for (size_t i = 0; i < 2; i++)
        if (rs_trust_open(folders[i], &tls.trusts[i], &err) < 0 ||
            rs_trust_texts(tls.trusts[i], &tls.texts[i], &err) < 0)
            fail_with("certificates", &err);
}

static grpc_ssl_pem_key_cert_pair pair_of(size_t i)
{
    return (grpc_ssl_pem_key_cert_pair){.private_key = (const char *)tls.texts[i].key.data,
                                        .cert_chain = (const char *)tls.texts[i].certificate.data};
}

static grpc_server_credentials *bare_server_credentials(void)
{
    if (!*tls.server)
        return grpc_insecure_server_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = pair_of(0);
    return grpc_ssl_server_credentials_create_ex(
        (const char *)tls.texts[0].ca.data, &pair, 1,
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
}

static grpc_channel_credentials *bare_client_credentials(void)
{
    if (!*tls.client)
        return grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = pair_of(1);
    return grpc_ssl_credentials_create_ex((const char *)tls.texts[1].ca.data, &pair, NULL, NULL);
}

/* ---- bare gRPC core: one stream, the server reads and drops, one short answer at the end ---------------------- */

struct bare {
    grpc_server *server;
    grpc_completion_queue *server_cq, *client_cq;
    const uint8_t *chunk;
    size_t chunk_bytes;
    uint64_t count, received;
    int port;
};

static grpc_event wait_event(grpc_completion_queue *cq)
{
    return grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

/* One batch, waited for. */
static bool run_batch(grpc_call *call, grpc_completion_queue *cq, const grpc_op *ops, size_t count)
{
    if (grpc_call_start_batch(call, ops, count, call, NULL) != GRPC_CALL_OK)
        fail_with("a batch was refused", NULL);
    return wait_event(cq).success != 0;
}

static void *serve_bare(void *self)
{
    struct bare *bare = self;
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    (void)grpc_server_request_call(bare->server, &call, &details, &metadata, bare->server_cq,
                                   bare->server_cq, bare);
    (void)wait_event(bare->server_cq);
    const grpc_op meta = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    (void)run_batch(call, bare->server_cq, &meta, 1);
    for (;;) {
        grpc_byte_buffer *buffer = NULL;
        const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &buffer};
        (void)run_batch(call, bare->server_cq, &op, 1);
        if (!buffer)
            break;
        bare->received += grpc_byte_buffer_length(buffer);
        grpc_byte_buffer_destroy(buffer);
    }
    grpc_slice text = grpc_empty_slice();
    const grpc_op end = {
        .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
        .data.send_status_from_server = {.status = GRPC_STATUS_OK, .status_details = &text}};
    (void)run_batch(call, bare->server_cq, &end, 1);
    grpc_call_unref(call);
    grpc_call_details_destroy(&details);
    grpc_metadata_array_destroy(&metadata);
    return NULL;
}

static void send_bare(struct bare *bare)
{
    char target[64];
    (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%d", bare->port);
    grpc_channel_credentials *creds = bare_client_credentials();
    grpc_channel *channel = grpc_channel_create(target, creds, NULL);
    grpc_channel_credentials_release(creds);
    grpc_call *call = grpc_channel_create_call(
        channel, NULL, GRPC_PROPAGATE_DEFAULTS, bare->client_cq,
        grpc_slice_from_static_string("/bare"), NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    const grpc_op meta = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    (void)run_batch(call, bare->client_cq, &meta, 1);
    const grpc_slice slice = grpc_slice_from_static_buffer(bare->chunk, bare->chunk_bytes);
    for (uint64_t i = 0; i < bare->count; i++) {
        grpc_slice copy = slice;
        grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&copy, 1);
        const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer};
        if (!run_batch(call, bare->client_cq, &op, 1))
            fail_with("a bare send failed", NULL);
        grpc_byte_buffer_destroy(buffer);
    }
    grpc_status_code code = GRPC_STATUS_UNKNOWN;
    grpc_slice text = grpc_empty_slice();
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    const grpc_op ops[] = {{.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
                           {.op = GRPC_OP_RECV_INITIAL_METADATA,
                            .data.recv_initial_metadata.recv_initial_metadata = &initial},
                           {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                            .data.recv_status_on_client = {.trailing_metadata = &trailing,
                                                           .status = &code,
                                                           .status_details = &text}}};
    (void)run_batch(call, bare->client_cq, ops, 3);
    grpc_slice_unref(text);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_call_unref(call);
    grpc_channel_destroy(channel);
}

static void drain_queue(grpc_completion_queue *cq)
{
    grpc_completion_queue_shutdown(cq);
    while (wait_event(cq).type != GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(cq);
}

static double bare_grpc(const uint8_t *chunk, size_t chunk_bytes, uint64_t bytes)
{
    struct bare bare = {.chunk = chunk, .chunk_bytes = chunk_bytes, .count = bytes / chunk_bytes};
    pthread_t thread;
    grpc_init();
    bare.server_cq = grpc_completion_queue_create_for_next(NULL);
    bare.client_cq = grpc_completion_queue_create_for_next(NULL);
    bare.server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(bare.server, bare.server_cq, NULL);
    grpc_server_credentials *creds = bare_server_credentials();
    bare.port = grpc_server_add_http2_port(bare.server, "127.0.0.1:0", creds);
    grpc_server_credentials_release(creds);
    grpc_server_start(bare.server);
    if (pthread_create(&thread, NULL, serve_bare, &bare) != 0)
        fail_with("cannot start a thread", NULL);
    const rs_ns start = rs_time_monotonic();
    send_bare(&bare);
    (void)pthread_join(thread, NULL);
    const double seconds = seconds_since(start);
    grpc_server_shutdown_and_notify(bare.server, bare.server_cq, &bare);
    (void)wait_event(bare.server_cq);
    grpc_server_destroy(bare.server);
    drain_queue(bare.server_cq);
    drain_queue(bare.client_cq);
    grpc_shutdown();
    if (bare.received != bare.count * chunk_bytes)
        fail_with("the bare server did not get everything", NULL);
    return (double)bare.received / seconds / 1e6;
}

/* ---- ours -------------------------------------------------------------------------------------------------- */

struct ours {
    struct rs_loop *server_loop, *client_loop;
    struct rs_server *server;
    struct rs_store *store;
    struct rs_address address;
    atomic_bool must_stop;
};

static enum rs_status journal_name(void *self, struct rs_coord_capture *capture, struct rs_err *err)
{
    (void)self;
    (void)err;
    (void)snprintf(capture->id, sizeof capture->id, "bench");
    return RS_OK;
}

static enum rs_status journal_create(void *self, struct rs_coord_capture *capture,
                                     struct rs_err *err)
{
    struct rs_capture_facts facts = {.created_ns = 1};
    (void)snprintf(facts.id, sizeof facts.id, "%.60s", capture->id);
    return rs_store_create_capture(self, &facts, err);
}

static enum rs_status journal_save(void *self, const struct rs_coord_capture *capture,
                                   struct rs_err *err)
{
    (void)self;
    (void)capture;
    (void)err;
    return RS_OK;
}

static void journal_facts(void *self, const struct rs_coord_capture *capture,
                          struct rs_capture_facts *facts)
{
    (void)self;
    (void)snprintf(facts->id, sizeof facts->id, "%s", capture->id);
    facts->is_closed = true;
}

static enum rs_status journal_find(void *self, const char *id, unsigned parts,
                                   struct rs_coord_capture *capture, struct rs_err *err)
{
    (void)parts;
    (void)self;
    (void)capture;
    return rs_err_set(err, RS_NOTFOUND, "there is no capture %s", id);
}

static enum rs_status
journal_list(void *self, bool (*visit)(void *visitor, const struct rs_coord_capture *capture),
             void *visitor, struct rs_err *err)
{
    (void)self;
    (void)visit;
    (void)visitor;
    (void)err;
    return RS_OK;
}

static void *serve_ours(void *self)
{
    struct ours *ours = self;
    struct rs_err err = {0};
    struct rs_grpc_server *listener = NULL;
    while (!atomic_load(&ours->must_stop))
        if (rs_server_step(ours->server, rs_time_monotonic() + RS_NS_PER_S / 10, &err) < 0)
            fail_with("server", &err);
    (void)listener;
    return NULL;
}

static enum rs_status connect_ours(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct ours *ours = self;
    struct rs_address address = ours->address;
    (void)snprintf(address.certs, sizeof address.certs, "%s", tls.client);
    return rs_grpc_connect(ours->client_loop, &address, RS_WIRE_METHOD_STREAM, user, user_self,
                           link_p, err);
}

static void fill_spool(struct rs_spool *spool, const uint8_t *chunk, size_t chunk_bytes,
                       uint64_t count)
{
    struct rs_err err = {0};
    uint32_t entry = 0;
    const struct rs_spool_source source = {.run = "bench",
                                           .incarnation = "bench",
                                           .capture = "",
                                           .capture_key = "bench",
                                           .host = "bench",
                                           .settle_ns = 1000 * (rs_dur)RS_NS_PER_S,
                                           .origin = "bench"};
    if (rs_spool_declare(spool, &source, &entry, &err) < 0)
        fail_with("spool", &err);
    for (uint64_t i = 0; i < count; i++)
        if (rs_spool_put(spool, entry, 0, 0, rs_view_of(chunk, chunk_bytes), &err) < 0)
            fail_with("spool", &err);
}

/* From the first connect to the last ack; chunks lie in the spool before. */
static double our_stream(const char *dir, const uint8_t *chunk, size_t chunk_bytes, uint64_t bytes)
{
    struct ours ours = {0};
    struct rs_err err = {0};
    struct rs_grpc_server *listener = NULL;
    struct rs_spool *spool = NULL;
    struct rs_uplink *uplink = NULL;
    pthread_t thread;
    char data[4300];
    char spool_dir[4300];
    (void)snprintf(data, sizeof data, "%s/data", dir);
    (void)snprintf(spool_dir, sizeof spool_dir, "%s/spool", dir);
    const uint64_t count = bytes / chunk_bytes;
    const struct rs_spool_options spool_options = {.budget_bytes = 2 * bytes + ((uint64_t)1 << 28)};
    if (rs_address_parse("127.0.0.1:0", &ours.address, &err) < 0 ||
        rs_address_guard(&ours.address, tls.server, !*tls.server, &err) < 0 ||
        rs_store_open(data, 0, &ours.store, &err) < 0 ||
        rs_spool_open(spool_dir, &spool_options, &spool, &err) < 0 ||
        rs_grpc_loop_new(&ours.server_loop, &err) < 0 ||
        rs_grpc_loop_new(&ours.client_loop, &err) < 0)
        fail_with("cannot start", &err);
    const struct rs_server_journal journal = {.name = journal_name,
                                              .create = journal_create,
                                              .save = journal_save,
                                              .facts = journal_facts,
                                              .find = journal_find,
                                              .list = journal_list,
                                              .self = ours.store};
    const struct rs_server_options server_options = {
        .loop = ours.server_loop, .store = ours.store, .journal = &journal};
    if (rs_server_new(&server_options, &ours.server, &err) < 0 ||
        rs_grpc_server_new(ours.server_loop, &ours.address, rs_server_accept, ours.server,
                           &listener, &err) < 0)
        fail_with("cannot start", &err);
    fill_spool(spool, chunk, chunk_bytes, count);
    const struct rs_uplink_options options = {.spool = spool,
                                              .loop = ours.client_loop,
                                              .connect = connect_ours,
                                              .connect_self = &ours,
                                              .node = "bench"};
    if (rs_uplink_new(&options, &uplink, &err) < 0 ||
        pthread_create(&thread, NULL, serve_ours, &ours) != 0)
        fail_with("cannot start", &err);
    sync(); /* what the spool wrote is not ours to wait for */
    const rs_ns start = rs_time_monotonic();
    while (rs_spool_stats(spool).waiting_chunks)
        rs_uplink_step(uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    const double seconds = seconds_since(start);
    rs_uplink_close(uplink);
    while (!rs_uplink_is_closed(uplink))
        rs_uplink_step(uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    atomic_store(&ours.must_stop, true);
    (void)pthread_join(thread, NULL);
    rs_grpc_server_stop(listener);
    while (rs_server_session_count(ours.server) || !rs_grpc_server_is_stopped(listener))
        if (rs_server_step(ours.server, rs_time_monotonic() + RS_NS_PER_S / 20, &err) < 0)
            fail_with("server", &err);
    const struct rs_ingest_stats stats = rs_server_ingest_stats(ours.server);
    if (stats.chunks != count || stats.repeated || stats.gaps)
        fail_with("not every chunk was stored once", NULL);
    fprintf(stderr, "bench_stream: %" PRIu64 " chunks in %" PRIu64 " groups\n", stats.chunks,
            stats.syncs);
    rs_grpc_server_free(&listener);
    rs_server_free(&ours.server);
    rs_uplink_free(&uplink);
    rs_grpc_loop_free(&ours.client_loop);
    rs_grpc_loop_free(&ours.server_loop);
    rs_spool_close(&spool);
    rs_store_close(&ours.store);
    return (double)(count * chunk_bytes) / seconds / 1e6;
}

/* ---- main -------------------------------------------------------------------------------------------------- */

struct keep_chunk {
    struct rs_buf buf;
};

static enum rs_status keep(void *self, struct rs_view chunk, const struct rs_chunk_header *header,
                           struct rs_err *err)
{
    struct keep_chunk *kept = self;
    (void)err;
    if (header->kind == RS_CHUNK_SUMMARY && !kept->buf.length)
        rs_buf_bytes(&kept->buf, chunk.data, chunk.length);
    return RS_OK;
}

/* One sealed chunk of about this size: a summary of random bytes, which do not compress. */
static struct rs_buf make_chunk(size_t bytes)
{
    struct rs_err err = {0};
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct keep_chunk kept = {0};
    struct rs_chunk_writer *writer = NULL;
    uint8_t *random_bytes = rs_mem_calloc(bytes, 1);
    uint64_t random = 4711;
    for (size_t i = 0; random_bytes && i < bytes; i++)
        random_bytes[i] = (uint8_t)next_random(&random);
    const struct rs_chunk_writer_options options = {
        .strings = &strings, .lanes = &lanes, .put = keep, .put_self = &kept};
    if (!random_bytes || rs_strtab_init(&strings, 0) < 0 ||
        rs_chunk_writer_new(&options, &writer, &err) < 0 ||
        rs_chunk_writer_summary(writer, rs_view_of(random_bytes, bytes - 256), &err) < 0)
        fail_with("cannot make a chunk", &err);
    rs_chunk_writer_free(&writer);
    rs_strtab_fini(&strings);
    rs_mem_free(random_bytes);
    return kept.buf;
}

enum { ROUNDS = 3 };

static int by_speed(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double middle(double turns[ROUNDS])
{
    qsort(turns, ROUNDS, sizeof *turns, by_speed);
    return turns[ROUNDS / 2];
}

static int bench(const char *dir, uint64_t bytes, size_t chunk_bytes, bool has_tls)
{
    char own[4096];
    (void)snprintf(own, sizeof own, "%s/bench-stream-XXXXXX", dir);
    if (!mkdtemp(own))
        fail_with("cannot make a folder", NULL);
    if (has_tls)
        make_certificates(own);
    struct rs_buf chunk = make_chunk(chunk_bytes);
    (void)bare_append(own, chunk.data, chunk.length, bytes / 4); /* the disk's own warm-up */
    /* Others use this machine, too: three turns of each, one after the other, and the middle one counts. */
    double turns[3][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        char turn[4200];
        (void)snprintf(turn, sizeof turn, "%s/%d", own, round);
        if (mkdir(turn, 0700) < 0)
            fail_with("cannot make a folder", NULL);
        turns[0][round] = bare_append(turn, chunk.data, chunk.length, bytes);
        turns[1][round] = bare_grpc(chunk.data, chunk.length, bytes);
        turns[2][round] = our_stream(turn, chunk.data, chunk.length, bytes);
        fprintf(stderr, "bench_stream: append %.0f, grpc %.0f, ours %.0f MB/s\n", turns[0][round],
                turns[1][round], turns[2][round]);
        char command[4300];
        (void)snprintf(command, sizeof command, "rm -rf '%s'", turn);
        if (system(command) != 0)
            fail_with("cannot remove a folder", NULL);
    }
    const double append = middle(turns[0]);
    const double grpc = middle(turns[1]);
    const double ours = middle(turns[2]);
    const double least = append < grpc ? append : grpc;
    printf("{\"bench\": \"stream\", \"tls\": %s, \"chunk_bytes\": %zu, \"bytes\": %" PRIu64
           ", \"append_sync16_MBps\": %.0f, \"grpc_MBps\": %.0f, \"ours_MBps\": %.0f, "
           "\"ratio\": %.2f, \"aim\": 0.60}\n",
           has_tls ? "true" : "false", chunk.length, bytes, append, grpc, ours, ours / least);
    for (size_t i = 0; has_tls && i < 2; i++) {
        rs_trust_texts_fini(&tls.texts[i]);
        rs_trust_close(&tls.trusts[i]);
    }
    rs_buf_fini(&chunk);
    char command[4200];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", own);
    return system(command) == 0 ? 0 : 1;
}

static uint64_t number_of(const char *text)
{
    char *end = NULL;
    const uint64_t number = strtoull(text, &end, 10);
    if (!*text || *end)
        fail_with("a number was expected", NULL);
    return number;
}

int main(int argc, char **argv)
{
    const bool is_feed = argc > 1 && strcmp(argv[1], "feed") == 0;
    const char *dir = ".";
    const char *connect = NULL;
    struct feeder feeder = {.run = "fed", .ranks = 4, .bytes = (uint64_t)64 << 20};
    uint64_t bytes = (uint64_t)1 << 30;
    size_t chunk_bytes = 256 * 1024;
    bool has_tls = false;
    for (int i = is_feed ? 2 : 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--connect") == 0)
            connect = argv[i + 1];
        else if (strcmp(argv[i], "--spool") == 0)
            feeder.dir = argv[i + 1];
        else if (strcmp(argv[i], "--run") == 0)
            feeder.run = argv[i + 1];
        else if (strcmp(argv[i], "--ranks") == 0)
            feeder.ranks = (unsigned)number_of(argv[i + 1]);
        else if (strcmp(argv[i], "--bytes") == 0)
            bytes = feeder.bytes = number_of(argv[i + 1]);
        else if (strcmp(argv[i], "--chunk") == 0)
            chunk_bytes = (size_t)number_of(argv[i + 1]);
        else if (strcmp(argv[i], "--dir") == 0)
            dir = argv[i + 1];
        else if (strcmp(argv[i], "--tls") == 0)
            has_tls = number_of(argv[i + 1]) != 0;
        else
            fail_with("unknown option", NULL);
    }
    if (is_feed && (!connect || !feeder.dir || !feeder.ranks))
        fail_with("feed needs --connect and --spool", NULL);
    return is_feed ? feed(connect, &feeder) : bench(dir, bytes, chunk_bytes, has_tls);
}
