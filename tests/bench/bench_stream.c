/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream from a spool to durable segments: how fast, and a collector of made-up ranks for tests.
 *
 *   bench_stream [--bytes N] [--chunk N] [--dir DIR] [--tls 1] [--rounds N] [--own-windows 1]
 *       Two processes over a loopback socket: spool -> uplink -> gRPC -> server -> ingest -> segment, acked. Against
 *       bare gRPC core with the same chunk size, and bare append + fdatasync per 16 chunks in the same
 *       folder, in turns. Prints one JSON line of medians; `ratio` is ours / the smaller of the two, and *_s_per_GB is CPU time of
 *       a side, whatever else the machine does. With --tls both sides of ours and of bare gRPC show certificates of an
 *       authority made for it.
 *
 *       The receiving side is a process of its own, as it is in service: in one process gRPC's poller gives the
 *       work of either side to whichever thread comes first. Both of bare gRPC keep their heap as our loop does
 *       (mallopt). The bare sender sends one and the same block, which stays in the processor's cache, and the
 *       bare receiver drops what it gets unread: no user of gRPC can be faster, and none that sends data is as fast.
 *       Both have the windows of our links; with --own-windows 1 bare gRPC has those it measures by itself.
 *
 *   bench_stream serve-bare|serve-ours --dir DIR --certs DIR
 *       The receiving side, for the bench: prints where it listens, and at the end its CPU time.
 *
 *   bench_stream feed --connect ADDR --spool DIR [--ranks N] [--bytes N] [--run NAME]
 *       A collector whose source makes the same events for the same rank every time: after kill -9
 *       it goes on where the spool was. Ends when everything is acknowledged; prints rows and chunks.
 */
#include "aggregator/server/server.h"
#include "collector/pack/pack.h"
#include "collector/uplink/uplink.h"
#include "common/base/const.h"
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
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* ---- certificates, for who wants them --------------------------------------------------------------------------- */

static bool has_own_windows; /* bare gRPC: it measures its windows itself */

/* Folders of certificates; empty: plain text. */
static struct {
    char server[600], client[600];
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
}

/* ---- both sides ------------------------------------------------------------------------------------------- */

/* What a turn took. CPU is of the whole process, in seconds. */
struct turn {
    double wall_s, send_cpu_s, receive_cpu_s;
};

static double seconds_since(rs_ns start)
{
    return (double)(rs_time_monotonic() - start) / 1e9;
}

static double cpu_s(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The receiving side as a process. It says its address in a line, and after its standard input was closed what it took. */
struct receiver {
    pid_t pid;
    int in;
    FILE *out;
    char address[64];
};

static void start_receiver(struct receiver *receiver, const char *role, const char *dir)
{
    int in[2];
    int out[2];
    posix_spawn_file_actions_t actions;
    char *const args[] = {rs_const_cast("bench_stream"),
                          rs_const_cast(role),
                          rs_const_cast("--dir"),
                          rs_const_cast(dir),
                          rs_const_cast("--certs"),
                          tls.server,
                          rs_const_cast("--own-windows"),
                          rs_const_cast(has_own_windows ? "1" : "0"),
                          NULL};
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, in[0], 0) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out[1], 1) != 0 ||
        posix_spawn(&receiver->pid, "/proc/self/exe", &actions, NULL, args, environ) != 0)
        fail_with("cannot start the receiving side", NULL);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    receiver->in = in[1];
    receiver->out = fdopen(out[0], "r");
    if (!receiver->out || !fgets(receiver->address, sizeof receiver->address, receiver->out))
        fail_with("the receiving side does not listen", NULL);
    receiver->address[strcspn(receiver->address, "\n")] = '\0';
}

/* Its CPU time, and how many bytes it got. */
static double end_receiver(struct receiver *receiver, uint64_t *bytes_p)
{
    char line[64] = "";
    char *end = NULL;
    int state = 0;
    (void)close(receiver->in);
    if (!fgets(line, sizeof line, receiver->out) || waitpid(receiver->pid, &state, 0) < 0 || state)
        fail_with("the receiving side failed", NULL);
    (void)fclose(receiver->out);
    const double taken_s = strtod(line, &end);
    *bytes_p = strtoull(end, NULL, 10);
    return taken_s;
}

static void say_end(double taken_s, uint64_t bytes)
{
    (void)printf("%.6f %" PRIu64 "\n", taken_s, bytes);
    (void)fflush(stdout);
}

static void say_address(const char *address)
{
    (void)printf("%s\n", address);
    (void)fflush(stdout);
}

static void wait_for_end(void)
{
    char byte = 0;
    while (read(0, &byte, 1) > 0)
        continue;
}

/* As rs_grpc_loop_new() has it: without, bare gRPC's buffers cost page faults that ours do not. */
static void keep_heap(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): before any thread */
    (void)mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

/* ---- bare append ------------------------------------------------------------------------------------------- */

static struct turn bare_append(const char *dir, const uint8_t *chunk, size_t chunk_bytes,
                               uint64_t bytes)
{
    char path[4096];
    struct turn turn = {0};
    (void)snprintf(path, sizeof path, "%s/bare", dir);
    const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const uint64_t count = bytes / chunk_bytes;
    const double before_s = cpu_s();
    const rs_ns start = rs_time_monotonic();
    for (uint64_t i = 0; i < count; i++) {
        if (rs_file_write_all(fd, chunk, chunk_bytes, path, NULL) < 0)
            fail_with("cannot write", NULL);
        if (i % 16 == 15 && fdatasync(fd) < 0)
            fail_with("cannot sync", NULL);
    }
    (void)fdatasync(fd);
    turn.wall_s = seconds_since(start);
    turn.send_cpu_s = cpu_s() - before_s;
    (void)close(fd);
    (void)unlink(path);
    return turn;
}

static struct rs_trust_texts texts_of(const char *folder)
{
    struct rs_err err = {0};
    struct rs_trust *trust = NULL;
    struct rs_trust_texts texts = {0};
    if (rs_trust_open(folder, &trust, &err) < 0 || rs_trust_texts(trust, &texts, &err) < 0)
        fail_with("certificates", &err);
    rs_trust_close(&trust);
    return texts;
}

static grpc_ssl_pem_key_cert_pair pair_of(const struct rs_trust_texts *texts)
{
    return (grpc_ssl_pem_key_cert_pair){.private_key = (const char *)texts->key.data,
                                        .cert_chain = (const char *)texts->certificate.data};
}

static grpc_server_credentials *bare_server_credentials(void)
{
    if (!*tls.server)
        return grpc_insecure_server_credentials_create();
    struct rs_trust_texts texts = texts_of(tls.server);
    grpc_ssl_pem_key_cert_pair pair = pair_of(&texts);
    grpc_server_credentials *creds = grpc_ssl_server_credentials_create_ex(
        (const char *)texts.ca.data, &pair, 1,
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
    rs_trust_texts_fini(&texts);
    return creds;
}

static grpc_channel_credentials *bare_client_credentials(void)
{
    if (!*tls.client)
        return grpc_insecure_credentials_create();
    struct rs_trust_texts texts = texts_of(tls.client);
    grpc_ssl_pem_key_cert_pair pair = pair_of(&texts);
    grpc_channel_credentials *creds =
        grpc_ssl_credentials_create_ex((const char *)texts.ca.data, &pair, NULL, NULL);
    rs_trust_texts_fini(&texts);
    return creds;
}

/* ---- bare gRPC core: one stream, the server reads and drops, one short answer at the end ---------------------- */

/* As our links have it, or as gRPC has it by itself. */
static const grpc_channel_args *bare_args(void)
{
    static grpc_arg args[] = {{.type = GRPC_ARG_INTEGER, .value.integer = 0},
                              {.type = GRPC_ARG_INTEGER, .value.integer = RS_GRPC_LOOKAHEAD_BYTES}};
    static const grpc_channel_args list = {.num_args = 2, .args = args};
    args[0].key = rs_const_cast(GRPC_ARG_HTTP2_BDP_PROBE);
    args[1].key = rs_const_cast(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES);
    return has_own_windows ? NULL : &list;
}

struct bare {
    grpc_server *server;
    grpc_completion_queue *server_cq, *client_cq;
    const uint8_t *chunk;
    size_t chunk_bytes;
    uint64_t count, received;
    const char *address;
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

static void receive_bare(struct bare *bare)
{
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
}

static void send_bare(struct bare *bare)
{
    char target[80];
    (void)snprintf(target, sizeof target, "ipv4:%s", bare->address);
    grpc_channel_credentials *creds = bare_client_credentials();
    grpc_channel *channel = grpc_channel_create(target, creds, bare_args());
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

static int serve_bare(void)
{
    struct bare bare = {0};
    char address[64];
    keep_heap();
    grpc_init();
    bare.server_cq = grpc_completion_queue_create_for_next(NULL);
    bare.server = grpc_server_create(bare_args(), NULL);
    grpc_server_register_completion_queue(bare.server, bare.server_cq, NULL);
    grpc_server_credentials *creds = bare_server_credentials();
    const int port = grpc_server_add_http2_port(bare.server, "127.0.0.1:0", creds);
    grpc_server_credentials_release(creds);
    grpc_server_start(bare.server);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    const double before_s = cpu_s();
    say_address(address);
    receive_bare(&bare);
    say_end(cpu_s() - before_s, bare.received);
    grpc_server_shutdown_and_notify(bare.server, bare.server_cq, &bare);
    (void)wait_event(bare.server_cq);
    grpc_server_destroy(bare.server);
    drain_queue(bare.server_cq);
    grpc_shutdown();
    return 0;
}

static struct turn bare_grpc(const char *dir, const uint8_t *chunk, size_t chunk_bytes,
                             uint64_t bytes)
{
    struct receiver receiver;
    struct turn turn;
    start_receiver(&receiver, "serve-bare", dir);
    struct bare bare = {.chunk = chunk,
                        .chunk_bytes = chunk_bytes,
                        .count = bytes / chunk_bytes,
                        .address = receiver.address};
    grpc_init();
    bare.client_cq = grpc_completion_queue_create_for_next(NULL);
    const double before_s = cpu_s();
    const rs_ns start = rs_time_monotonic();
    send_bare(&bare);
    turn.wall_s = seconds_since(start);
    turn.send_cpu_s = cpu_s() - before_s;
    drain_queue(bare.client_cq);
    grpc_shutdown();
    uint64_t received = 0;
    turn.receive_cpu_s = end_receiver(&receiver, &received);
    if (received != bare.count * chunk_bytes)
        fail_with("the bare server did not get everything", NULL);
    return turn;
}

/* ---- ours -------------------------------------------------------------------------------------------------- */

struct ours {
    struct rs_loop *loop;
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

static void *watch_for_end(void *self)
{
    struct ours *ours = self;
    wait_for_end();
    atomic_store(&ours->must_stop, true);
    rs_loop_wake(ours->loop);
    return NULL;
}

static int serve_ours(const char *dir)
{
    struct ours ours = {0};
    struct rs_err err = {0};
    struct rs_grpc_server *listener = NULL;
    pthread_t thread;
    char data[4300];
    (void)snprintf(data, sizeof data, "%s/data", dir);
    if (rs_address_parse("127.0.0.1:0", &ours.address, &err) < 0 ||
        rs_address_guard(&ours.address, tls.server, !*tls.server, &err) < 0 ||
        rs_store_open(data, 0, &ours.store, &err) < 0 || rs_grpc_loop_new(&ours.loop, &err) < 0)
        fail_with("cannot start", &err);
    const struct rs_server_journal journal = {.name = journal_name,
                                              .create = journal_create,
                                              .save = journal_save,
                                              .facts = journal_facts,
                                              .find = journal_find,
                                              .list = journal_list,
                                              .self = ours.store};
    const struct rs_server_options options = {
        .loop = ours.loop, .store = ours.store, .journal = &journal};
    if (rs_server_new(&options, &ours.server, &err) < 0 ||
        rs_grpc_server_new(ours.loop, &ours.address, rs_server_accept, ours.server, &listener,
                           &err) < 0 ||
        pthread_create(&thread, NULL, watch_for_end, &ours) != 0)
        fail_with("cannot start", &err);
    const double before_s = cpu_s();
    say_address(ours.address.text);
    while (!atomic_load(&ours.must_stop))
        if (rs_server_step(ours.server, rs_time_monotonic() + RS_NS_PER_S / 10, &err) < 0)
            fail_with("server", &err);
    const double taken_s = cpu_s() - before_s;
    (void)pthread_join(thread, NULL);
    rs_grpc_server_stop(listener);
    while (rs_server_session_count(ours.server) || !rs_grpc_server_is_stopped(listener))
        if (rs_server_step(ours.server, rs_time_monotonic() + RS_NS_PER_S / 20, &err) < 0)
            fail_with("server", &err);
    const struct rs_ingest_stats stats = rs_server_ingest_stats(ours.server);
    if (stats.repeated || stats.gaps)
        fail_with("not every chunk was stored once", NULL);
    fprintf(stderr, "bench_stream: %" PRIu64 " chunks in %" PRIu64 " groups\n", stats.chunks,
            stats.syncs);
    say_end(taken_s, stats.bytes);
    rs_grpc_server_free(&listener);
    rs_server_free(&ours.server);
    rs_grpc_loop_free(&ours.loop);
    rs_store_close(&ours.store);
    return 0;
}

struct sender {
    struct rs_loop *loop;
    struct rs_address address;
};

static enum rs_status connect_ours(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct sender *sender = self;
    return rs_grpc_connect(sender->loop, &sender->address, RS_WIRE_METHOD_STREAM, user, user_self,
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
static struct turn our_stream(const char *dir, const uint8_t *chunk, size_t chunk_bytes,
                              uint64_t bytes)
{
    struct receiver receiver;
    struct turn turn;
    struct sender sender = {0};
    struct rs_err err = {0};
    struct rs_spool *spool = NULL;
    struct rs_uplink *uplink = NULL;
    char spool_dir[4300];
    (void)snprintf(spool_dir, sizeof spool_dir, "%s/spool", dir);
    const uint64_t count = bytes / chunk_bytes;
    const struct rs_spool_options spool_options = {.budget_bytes = 2 * bytes + ((uint64_t)1 << 28)};
    start_receiver(&receiver, "serve-ours", dir);
    if (rs_address_parse(receiver.address, &sender.address, &err) < 0 ||
        rs_address_guard(&sender.address, tls.client, !*tls.client, &err) < 0 ||
        rs_spool_open(spool_dir, &spool_options, &spool, &err) < 0 ||
        rs_grpc_loop_new(&sender.loop, &err) < 0)
        fail_with("cannot start", &err);
    fill_spool(spool, chunk, chunk_bytes, count);
    const struct rs_uplink_options options = {.spool = spool,
                                              .loop = sender.loop,
                                              .connect = connect_ours,
                                              .connect_self = &sender,
                                              .node = "bench"};
    if (rs_uplink_new(&options, &uplink, &err) < 0)
        fail_with("cannot start", &err);
    sync(); /* what the spool wrote is not ours to wait for */
    const double before_s = cpu_s();
    const rs_ns start = rs_time_monotonic();
    while (rs_spool_stats(spool).waiting_chunks)
        rs_uplink_step(uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    turn.wall_s = seconds_since(start);
    turn.send_cpu_s = cpu_s() - before_s;
    rs_uplink_close(uplink);
    while (!rs_uplink_is_closed(uplink))
        rs_uplink_step(uplink, rs_time_monotonic() + RS_NS_PER_S / 10);
    uint64_t received = 0;
    turn.receive_cpu_s = end_receiver(&receiver, &received);
    if (received != count * chunk_bytes)
        fail_with("not every chunk was stored once", NULL);
    rs_uplink_free(&uplink);
    rs_grpc_loop_free(&sender.loop);
    rs_spool_close(&spool);
    return turn;
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

enum { ROUNDS_MAX = 99 };

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double middle(double *turns, size_t count)
{
    qsort(turns, count, sizeof *turns, by_size);
    return turns[count / 2];
}

/* Of some rounds: what each took. */
struct rounds {
    size_t count;
    double MBps[ROUNDS_MAX], send_s[ROUNDS_MAX], receive_s[ROUNDS_MAX]; /* the latter per GB */
};

static void add_round(struct rounds *rounds, const struct turn *turn, uint64_t bytes)
{
    const double GB = (double)bytes / 1e9;
    rounds->MBps[rounds->count] = GB * 1e3 / turn->wall_s;
    rounds->send_s[rounds->count] = turn->send_cpu_s / GB;
    rounds->receive_s[rounds->count++] = turn->receive_cpu_s / GB;
}

static void remove_folder(const char *dir)
{
    char command[4300];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        fail_with("cannot remove a folder", NULL);
}

static void one_round(const char *own, int round, struct rs_view chunk, uint64_t bytes,
                      struct rounds of[3])
{
    char dir[4200];
    (void)snprintf(dir, sizeof dir, "%s/%d", own, round);
    if (mkdir(dir, 0700) < 0)
        fail_with("cannot make a folder", NULL);
    bytes -= bytes % chunk.length;
    struct turn turn = bare_append(dir, chunk.data, chunk.length, bytes);
    add_round(&of[0], &turn, bytes);
    turn = bare_grpc(dir, chunk.data, chunk.length, bytes);
    add_round(&of[1], &turn, bytes);
    turn = our_stream(dir, chunk.data, chunk.length, bytes);
    add_round(&of[2], &turn, bytes);
    fprintf(
        stderr,
        "bench_stream: append %.0f, grpc %.0f, ours %.0f MB/s; CPU s per GB, sent and received: "
        "grpc %.3f %.3f, ours %.3f %.3f\n",
        of[0].MBps[round], of[1].MBps[round], of[2].MBps[round], of[1].send_s[round],
        of[1].receive_s[round], of[2].send_s[round], of[2].receive_s[round]);
    remove_folder(dir);
}

static int bench(const char *dir, uint64_t bytes, size_t chunk_bytes, bool has_tls, size_t count)
{
    static struct rounds of[3];
    char own[4096];
    (void)snprintf(own, sizeof own, "%s/bench-stream-XXXXXX", dir);
    if (!mkdtemp(own))
        fail_with("cannot make a folder", NULL);
    if (has_tls)
        make_certificates(own);
    keep_heap();
    struct rs_buf chunk = make_chunk(chunk_bytes);
    (void)bare_append(own, chunk.data, chunk.length, bytes / 4); /* the disk's own warm-up */
    /* Others use this machine, too: some turns of each, one after the other, and the middle one counts. */
    for (size_t round = 0; round < count; round++)
        one_round(own, (int)round, rs_view_of(chunk.data, chunk.length), bytes, of);
    const double append = middle(of[0].MBps, count);
    const double grpc = middle(of[1].MBps, count);
    const double ours = middle(of[2].MBps, count);
    const double least = append < grpc ? append : grpc;
    printf("{\"bench\": \"stream\", \"tls\": %s, \"chunk_bytes\": %zu, \"bytes\": %" PRIu64
           ", \"rounds\": %zu, \"append_sync16_MBps\": %.0f, \"grpc_MBps\": %.0f, \"ours_MBps\": "
           "%.0f, \"ratio\": %.2f, \"aim\": 0.60, \"append_s_per_GB\": %.3f, "
           "\"grpc_send_s_per_GB\": %.3f, \"grpc_receive_s_per_GB\": %.3f, "
           "\"ours_send_s_per_GB\": %.3f, \"ours_receive_s_per_GB\": %.3f}\n",
           has_tls ? "true" : "false", chunk.length, bytes, count, append, grpc, ours, ours / least,
           middle(of[0].send_s, count), middle(of[1].send_s, count), middle(of[1].receive_s, count),
           middle(of[2].send_s, count), middle(of[2].receive_s, count));
    rs_buf_fini(&chunk);
    remove_folder(own);
    return 0;
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
    const char *role = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
    const bool is_feed = strcmp(role, "feed") == 0;
    const char *dir = ".";
    const char *connect = NULL;
    struct feeder feeder = {.run = "fed", .ranks = 4, .bytes = (uint64_t)64 << 20};
    uint64_t bytes = (uint64_t)1 << 30;
    uint64_t rounds = 3;
    size_t chunk_bytes = 256 * 1024;
    bool has_tls = false;
    for (int i = *role ? 2 : 1; i + 1 < argc; i += 2) {
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
        else if (strcmp(argv[i], "--certs") == 0)
            (void)snprintf(tls.server, sizeof tls.server, "%s", argv[i + 1]);
        else if (strcmp(argv[i], "--tls") == 0)
            has_tls = number_of(argv[i + 1]) != 0;
        else if (strcmp(argv[i], "--own-windows") == 0)
            has_own_windows = number_of(argv[i + 1]) != 0;
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = number_of(argv[i + 1]);
        else
            fail_with("unknown option", NULL);
    }
    if (is_feed && (!connect || !feeder.dir || !feeder.ranks))
        fail_with("feed needs --connect and --spool", NULL);
    if (is_feed)
        return feed(connect, &feeder);
    if (strcmp(role, "serve-bare") == 0)
        return serve_bare();
    if (strcmp(role, "serve-ours") == 0)
        return serve_ours(dir);
    if (*role || !rounds || rounds > ROUNDS_MAX)
        fail_with("--rounds is 1 to 99", NULL);
    return bench(dir, bytes, chunk_bytes, has_tls, (size_t)rounds);
}
