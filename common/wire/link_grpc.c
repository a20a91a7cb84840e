/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links over gRPC core: the only file that knows gRPC.
 *
 * One completion queue per loop; every event of a link arrives on the thread that runs the loop, so a link
 * has no lock. What arrives as void * is a struct tag with a magic number, checked. A link is freed when
 * the last of its outstanding tags has come back: they are counted.
 *
 *     client   connect: RECV_STATUS, SEND_INITIAL_METADATA, RECV_INITIAL_METADATA, RECV_MESSAGE...
 *     server   accept:  RECV_CLOSE, SEND_INITIAL_METADATA, RECV_MESSAGE...; close: SEND_STATUS
 *
 * Rules that measurement taught: one send and one receive under way per call; RECV_STATUS does not
 * complete until every message was read, so a closing client goes on reading; a generic call is kept
 * requested and answered UNIMPLEMENTED, or an unknown method would hang; fail fast, or errors look like
 * timeouts; nobody sleeps outside the queue, or the handshake stalls; a wake is an empty batch on a call
 * that belongs to nothing (a lame channel's), because this API has no alarm.
 *
 * Thread sanitizer does not see the hand-over through the queue of an uninstrumented library: the three
 * wrappers at the top tell it.
 */
#include "common/base/check.h"
#include "common/base/const.h"
#include "common/base/counters.h"
#include "common/base/mem.h"
#include "common/wire/grpc_late.h"
#include "common/wire/link.h"
#include "common/wire/local_listen.h"

#define RS_LOG_TAG "link"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(RS_TSAN)
#    include <sanitizer/tsan_interface.h>
#    define HAND_OVER(tag) __tsan_release(tag)
#    define TAKE_OVER(tag) __tsan_acquire(tag)
#else
#    define HAND_OVER(tag) ((void)(tag))
#    define TAKE_OVER(tag) ((void)(tag))
#endif

enum { TAG_MAGIC = 0x67746167, SLOT_COUNT = 16, METHOD_COUNT = 2 };

enum tag_kind {
    TAG_WAKE,
    TAG_ACCEPT,
    TAG_ACCEPT_UNKNOWN,
    TAG_STOPPED,
    TAG_IGNORED, /* frees itself */
    TAG_SEND_META,
    TAG_RECV_META,
    TAG_SEND,
    TAG_RECV,
    TAG_FINISH, /* SEND_STATUS or SEND_CLOSE */
    TAG_CLOSED, /* RECV_CLOSE or RECV_STATUS */
    TAG_LINK_COUNT
};

struct tag {
    uint32_t magic;
    enum tag_kind kind;
    void *owner;
};

struct grpc_loop {
    struct rs_loop base;
    grpc_completion_queue *cq;
    grpc_channel *lame;
    grpc_call *wake_call;
    struct tag wake_tag;
    atomic_bool is_wake_pending;
};

struct grpc_link {
    struct rs_link base;
    struct grpc_loop *loop;
    grpc_channel *channel; /* client only */
    grpc_call *call;
    char *peer;
    struct tag tags[TAG_LINK_COUNT];
    unsigned outstanding_count;
    bool is_client;
    bool is_sending, is_receiving, is_closing, is_closed, is_half_closed;
    bool has_read_end;
    grpc_byte_buffer *send_buffer;
    grpc_byte_buffer *recv_buffer;
    grpc_metadata_array recv_metadata;    /* trailing */
    grpc_metadata_array initial_metadata; /* client */
    int was_cancelled;                    /* server */
    grpc_status_code code;                /* client */
    grpc_slice details;                   /* client */
    const char *error_string;             /* client */
    grpc_slice sent_details;              /* server */
    struct rs_trust *trust; /* client: until the other side has proven itself; else NULL */
    struct rs_err distrust; /* client: why it has not */
};

struct accept_slot {
    struct tag tag;
    struct rs_grpc_server *server;
    unsigned method;
    grpc_call *call;
    grpc_metadata_array metadata;
    grpc_call_details details; /* unknown methods only */
    gpr_timespec deadline;
};

struct rs_grpc_server {
    struct grpc_loop *loop;
    grpc_server *server;
    rs_accept_fn *accept;
    void *self;
    void *methods[METHOD_COUNT];
    struct accept_slot slots[METHOD_COUNT * SLOT_COUNT + 1];
    unsigned waiting_count; /* slots handed to gRPC */
    struct tag stopped_tag;
    bool is_stopping, is_stopped;
    int lock_fd;
    char lock_path[128];
    struct local_listen *local;  /* a unix socket; NULL: gRPC listens */
    struct rs_trust *trust;      /* NULL: a guarded socket, or plain text */
    bool is_join;                /* who comes has no certificate */
    atomic_uint sent_generation; /* of the certificates that gRPC has; 0 none */
};

#define INT_ARG(name, number)                                                                      \
    {                                                                                              \
        .type = GRPC_ARG_INTEGER, .key = rs_const_cast(name), .value.integer = (number)            \
    }
#define WINDOW_ARGS                                                                                \
    INT_ARG(GRPC_ARG_HTTP2_BDP_PROBE, 0),                                                          \
        INT_ARG(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, RS_GRPC_LOOKAHEAD_BYTES)

static const char *const method_names[METHOD_COUNT] = {RS_WIRE_METHOD_STREAM, RS_WIRE_METHOD_ASK};

/* ---- the three wrappers ------------------------------------------------------------------------ */

static grpc_call_error start_batch(grpc_call *call, const grpc_op *ops, size_t count,
                                   struct tag *tag)
{
    HAND_OVER(tag);
    return grpc_call_start_batch(call, ops, count, tag, NULL);
}

static grpc_event next_event(struct grpc_loop *loop, gpr_timespec deadline)
{
    const grpc_event event = grpc_completion_queue_next(loop->cq, deadline, NULL);
    if (event.type == GRPC_OP_COMPLETE)
        TAKE_OVER(event.tag);
    return event;
}

static grpc_call_error request_call(struct accept_slot *slot)
{
    struct rs_grpc_server *server = slot->server;
    grpc_completion_queue *cq = server->loop->cq;
    HAND_OVER(&slot->tag);
    if (slot->tag.kind == TAG_ACCEPT_UNKNOWN)
        return grpc_server_request_call(server->server, &slot->call, &slot->details,
                                        &slot->metadata, cq, cq, &slot->tag);
    return grpc_server_request_registered_call(server->server, server->methods[slot->method],
                                               &slot->call, &slot->deadline, &slot->metadata, NULL,
                                               cq, cq, &slot->tag);
}

/* ---- frames -------------------------------------------------------------------------------------- */

struct grpc_frame {
    struct rs_frame base;
    grpc_byte_buffer *buffer;
    struct iovec parts[];
};

static void release_frame(struct rs_frame *base)
{
    struct grpc_frame *frame = (struct grpc_frame *)base;
    grpc_byte_buffer_destroy(frame->buffer);
    rs_mem_free(frame);
}

/* Takes the buffer. NULL: no memory. */
static struct rs_frame *frame_of_buffer(grpc_byte_buffer *buffer)
{
    const size_t count = buffer->data.raw.slice_buffer.count;
    struct grpc_frame *frame = rs_mem_calloc(1, sizeof *frame + count * sizeof(struct iovec));
    if (!frame)
        return NULL;
    frame->buffer = buffer;
    for (size_t i = 0; i < count; i++) {
        grpc_slice *slice = &buffer->data.raw.slice_buffer.slices[i];
        frame->parts[i] = (struct iovec){.iov_base = GRPC_SLICE_START_PTR(*slice),
                                         .iov_len = GRPC_SLICE_LENGTH(*slice)};
        frame->base.length += frame->parts[i].iov_len;
    }
    frame->base.parts = frame->parts;
    frame->base.part_count = count;
    frame->base.release = release_frame;
    return &frame->base;
}

/* ---- who is there ------------------------------------------------------------------------------ */

/* The certificate that the other side of the call proved to have the key of; false: there is none. */
static bool peer_certificate(grpc_call *call, struct rs_buf *pem)
{
    grpc_auth_context *context = grpc_call_auth_context(call);
    if (!context)
        return false;
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const grpc_auth_property *found = grpc_auth_property_iterator_next(&at);
    if (found)
        rs_buf_bytes(pem, found->value, found->value_length);
    grpc_auth_context_release(context);
    return pem->length > 0 && !pem->failed;
}

static enum rs_status identify(struct rs_trust *trust, grpc_call *call,
                               struct rs_identity *identity_p, struct rs_err *err)
{
    struct rs_buf pem = {0};
    const enum rs_status status =
        peer_certificate(call, &pem)
            ? rs_trust_identify(trust, rs_view_of(pem.data, pem.length), rs_time_realtime(),
                                identity_p, err)
            : rs_err_set(err, RS_REFUSED, "the other side showed no certificate");
    rs_buf_fini(&pem);
    return status;
}

/* ---- links ------------------------------------------------------------------------------------- */

static struct tag *link_tag(struct grpc_link *link, enum tag_kind kind)
{
    struct tag *tag = &link->tags[kind];
    tag->magic = TAG_MAGIC;
    tag->kind = kind;
    tag->owner = link;
    return tag;
}

static bool start_link(struct grpc_link *link, const grpc_op *op, enum tag_kind kind)
{
    const grpc_call_error error = start_batch(link->call, op, 1, link_tag(link, kind));
    if (error != GRPC_CALL_OK) {
        /* A refused batch poisons its slot: the call is of no use any more. */
        rs_log_warn("batch %d was refused: %s", (int)kind, grpc_call_error_to_string(error));
        (void)grpc_call_cancel(link->call, NULL);
        return false;
    }
    link->outstanding_count++;
    return true;
}

static void receive_next(struct grpc_link *link)
{
    if (link->is_receiving || link->has_read_end)
        return;
    const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE,
                        .data.recv_message.recv_message = &link->recv_buffer};
    link->is_receiving = start_link(link, &op, TAG_RECV);
    if (!link->is_receiving)
        link->has_read_end = true;
}

static enum rs_status link_send(struct rs_link *base, struct rs_view head, struct rs_view payload)
{
    struct grpc_link *link = (struct grpc_link *)base;
    if (link->is_closing || link->is_closed)
        return RS_UNREACHABLE;
    if (link->is_sending)
        return RS_AGAIN;
    grpc_slice slices[2];
    size_t count = 0;
    slices[count++] = grpc_slice_from_copied_buffer((const char *)head.data, head.length);
    if (payload.length)
        slices[count++] = grpc_slice_from_copied_buffer((const char *)payload.data, payload.length);
    link->send_buffer = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++)
        grpc_slice_unref(slices[i]);
    const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE,
                        .data.send_message.send_message = link->send_buffer};
    if (!start_link(link, &op, TAG_SEND)) {
        grpc_byte_buffer_destroy(link->send_buffer);
        link->send_buffer = NULL;
        return RS_UNREACHABLE;
    }
    link->is_sending = true;
    return RS_OK;
}

static void link_resume(struct rs_link *base)
{
    receive_next((struct grpc_link *)base);
}

static grpc_status_code code_of(enum rs_status status)
{
    switch (status) {
    case RS_OK:
    case RS_END:
    case RS_AGAIN:
    case RS_PARTIAL:
        return GRPC_STATUS_OK;
    case RS_NOMEM:
    case RS_LIMIT:
        return GRPC_STATUS_RESOURCE_EXHAUSTED;
    case RS_FORMAT:
    case RS_INVALID:
        return GRPC_STATUS_INVALID_ARGUMENT;
    case RS_NOTFOUND:
        return GRPC_STATUS_NOT_FOUND;
    case RS_EXISTS:
        return GRPC_STATUS_ALREADY_EXISTS;
    case RS_REFUSED:
        return GRPC_STATUS_PERMISSION_DENIED;
    case RS_VERSION:
        return GRPC_STATUS_FAILED_PRECONDITION;
    case RS_TIMEOUT:
        return GRPC_STATUS_DEADLINE_EXCEEDED;
    case RS_CANCELLED:
        return GRPC_STATUS_CANCELLED;
    case RS_IO:
    case RS_UNREACHABLE:
        return GRPC_STATUS_UNAVAILABLE;
    }
    return GRPC_STATUS_UNKNOWN;
}

static enum rs_status status_of(grpc_status_code code)
{
    static const struct {
        grpc_status_code code;
        enum rs_status status;
    } table[] = {
        {GRPC_STATUS_OK, RS_OK},
        {GRPC_STATUS_RESOURCE_EXHAUSTED, RS_LIMIT},
        {GRPC_STATUS_INVALID_ARGUMENT, RS_FORMAT},
        {GRPC_STATUS_NOT_FOUND, RS_NOTFOUND},
        {GRPC_STATUS_ALREADY_EXISTS, RS_EXISTS},
        {GRPC_STATUS_PERMISSION_DENIED, RS_REFUSED},
        {GRPC_STATUS_FAILED_PRECONDITION, RS_VERSION},
        {GRPC_STATUS_DEADLINE_EXCEEDED, RS_TIMEOUT},
        {GRPC_STATUS_CANCELLED, RS_CANCELLED},
        {GRPC_STATUS_UNIMPLEMENTED, RS_VERSION},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].code == code)
            return table[i].status;
    return RS_UNREACHABLE;
}

static void link_close(struct rs_link *base, enum rs_status status, const char *reason)
{
    struct grpc_link *link = (struct grpc_link *)base;
    if (link->is_closing || link->is_closed)
        return;
    link->is_closing = true;
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    if (!link->is_client) {
        link->sent_details = grpc_slice_from_copied_string(reason ? reason : "");
        op = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                       .data.send_status_from_server = {.status = code_of(status),
                                                        .status_details = &link->sent_details}};
    }
    (void)start_link(link, &op, TAG_FINISH);
    receive_next(link); /* somebody must go on reading, or the end never comes */
}

static void link_abort(struct rs_link *base)
{
    struct grpc_link *link = (struct grpc_link *)base;
    link->is_closing = true;
    (void)grpc_call_cancel(link->call, NULL);
    receive_next(link);
}

static const struct rs_link_ops grpc_link_ops = {
    .send = link_send, .resume = link_resume, .close = link_close, .abort = link_abort};

static struct grpc_link *link_new(struct grpc_loop *loop, grpc_call *call, bool is_client)
{
    struct grpc_link *link = rs_mem_calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->base.ops = &grpc_link_ops;
    link->loop = loop;
    link->call = call;
    link->is_client = is_client;
    link->details = grpc_empty_slice();
    link->sent_details = grpc_empty_slice();
    grpc_metadata_array_init(&link->recv_metadata);
    grpc_metadata_array_init(&link->initial_metadata);
    char *peer = grpc_call_get_peer(call);
    link->peer = rs_mem_strdup(peer ? peer : "?");
    gpr_free(peer);
    link->base.peer = link->peer ? link->peer : "?";
    return link;
}

static void link_free(struct grpc_link *link)
{
    grpc_metadata_array_destroy(&link->recv_metadata);
    grpc_metadata_array_destroy(&link->initial_metadata);
    grpc_slice_unref(link->details);
    grpc_slice_unref(link->sent_details);
    union {
        const char *in;
        void *out;
    } text = {.in = link->error_string};
    gpr_free(text.out);
    grpc_call_unref(link->call);
    if (link->channel)
        grpc_channel_destroy(link->channel);
    rs_trust_close(&link->trust);
    rs_mem_free(link->peer);
    rs_mem_free(link);
}

static void report_closed(struct grpc_link *link)
{
    char reason[512] = "";
    enum rs_status status = RS_OK;
    if (link->distrust.status < 0) {
        status = link->distrust.status;
        (void)snprintf(reason, sizeof reason, "%.500s", link->distrust.text);
    } else if (link->is_client) {
        status = status_of(link->code);
        const size_t length = GRPC_SLICE_LENGTH(link->details);
        (void)snprintf(reason, sizeof reason, "%.*s", (int)(length > 400 ? 400 : length),
                       (const char *)GRPC_SLICE_START_PTR(link->details));
    } else if (link->was_cancelled) {
        status = RS_CANCELLED;
        (void)snprintf(reason, sizeof reason, "the peer is gone");
    }
    if (link->base.user)
        link->base.user->on_closed(link->base.self, &link->base, status, reason);
}

/* Its chain and name were proven by the handshake; that it is an aggregator, and not revoked, is looked at before
 * anything that it says is taken. */
static void check_server(struct grpc_link *link)
{
    struct rs_identity identity;
    struct rs_err why = {0};
    if (!link->trust)
        return;
    enum rs_status status = identify(link->trust, link->call, &identity, &why);
    if (status == RS_OK && identity.party != RS_PARTY_AGGREGATOR)
        status = rs_err_set(&why, RS_REFUSED, "its certificate is not an aggregator's");
    rs_trust_close(&link->trust);
    if (status == RS_OK)
        return;
    (void)rs_err_set(&link->distrust, RS_REFUSED, "who answers there is not believed: %.400s",
                     why.text);
    link_abort(&link->base);
}

static void on_received(struct grpc_link *link, bool ok)
{
    link->is_receiving = false;
    if (ok && link->recv_buffer)
        check_server(link);
    grpc_byte_buffer *buffer = link->recv_buffer;
    link->recv_buffer = NULL;
    if (!ok || !buffer) {
        if (buffer)
            grpc_byte_buffer_destroy(buffer);
        link->has_read_end = true;
        /* A client that half-closed is through: the server's part is to answer with a status. */
        if (!link->is_client && !link->is_closing)
            link_close(&link->base, RS_OK, "");
        return;
    }
    struct rs_frame *frame = NULL;
    if (!link->is_closing && link->base.user)
        frame = frame_of_buffer(buffer);
    if (!frame) {
        grpc_byte_buffer_destroy(buffer);
        if (!link->is_closing)
            link_abort(&link->base);
        receive_next(link);
        return;
    }
    if (link->base.user->on_message(link->base.self, &link->base, frame) || link->is_closing)
        receive_next(link);
}

static void on_sent(struct grpc_link *link, bool ok)
{
    grpc_byte_buffer_destroy(link->send_buffer);
    link->send_buffer = NULL;
    link->is_sending = false;
    if (ok && !link->is_closing && link->base.user)
        link->base.user->on_writable(link->base.self, &link->base);
}

static void on_link_event(struct grpc_link *link, enum tag_kind kind, bool ok)
{
    link->outstanding_count--;
    if (kind == TAG_RECV) {
        link->outstanding_count++; /* keeps the link while its user runs */
        on_received(link, ok);
        link->outstanding_count--;
    } else if (kind == TAG_SEND) {
        link->outstanding_count++;
        on_sent(link, ok);
        link->outstanding_count--;
    } else if (kind == TAG_RECV_META && ok && link->is_client) {
        link->outstanding_count++;
        check_server(link);
        link->outstanding_count--;
    } else if (kind == TAG_CLOSED) {
        link->is_closed = true;
        link->is_closing = true;
        receive_next(link);
    }
    if (link->outstanding_count == 0) {
        report_closed(link);
        link_free(link);
    }
}

/* What the address wants of a client; *trust_p is NULL when the other side has nothing to prove. */
static enum rs_status client_credentials(const struct rs_address *address,
                                         grpc_channel_credentials **creds_p,
                                         struct rs_trust **trust_p, struct rs_err *err)
{
    struct rs_trust *trust = NULL;
    struct rs_trust_texts texts = {.ca = {0}};
    if (address->guard == RS_ADDRESS_UNGUARDED)
        return rs_err_set(err, RS_REFUSED, "%s needs certificates", address->text);
    if (address->guard == RS_ADDRESS_LOCAL) {
        *creds_p = grpc_insecure_credentials_create();
        *trust_p = NULL;
        return RS_OK;
    }
    const bool is_join = address->guard == RS_ADDRESS_JOIN;
    enum rs_status status = is_join ? rs_trust_of_authority(*address->ca, &trust, err)
                                    : rs_trust_open(address->certs, &trust, err);
    if (status == RS_OK)
        status = rs_trust_texts(trust, &texts, err);
    if (status == RS_OK) {
        grpc_ssl_pem_key_cert_pair pair = {.private_key = (const char *)texts.key.data,
                                           .cert_chain = (const char *)texts.certificate.data};
        *creds_p = grpc_ssl_credentials_create_ex((const char *)texts.ca.data,
                                                  is_join ? NULL : &pair, NULL, NULL);
        if (!*creds_p)
            status = rs_err_set(err, RS_FORMAT, "gRPC does not take the certificates in %s",
                                address->certs);
    }
    rs_trust_texts_fini(&texts);
    if (status < 0)
        rs_trust_close(&trust);
    *trust_p = trust;
    return status;
}

enum rs_status rs_grpc_connect(struct rs_loop *base, const struct rs_address *address,
                               const char *method, const struct rs_link_user *user, void *self,
                               struct rs_link **link_p, struct rs_err *err)
{
    struct grpc_loop *loop = (struct grpc_loop *)base;
    grpc_arg args[] = {
        INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
        INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        INT_ARG(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 10000),
        INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000),
        INT_ARG(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        INT_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 500),
        INT_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20000),
        INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RS_WIRE_MESSAGE_MAX_BYTES),
        INT_ARG(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        WINDOW_ARGS,
    };
    const grpc_channel_args channel_args = {.num_args = sizeof args / sizeof args[0], .args = args};
    grpc_channel_credentials *creds = NULL;
    struct rs_trust *trust = NULL;
    const enum rs_status status = client_credentials(address, &creds, &trust, err);
    if (status < 0)
        return status;
    grpc_channel *channel = grpc_channel_create(address->target, creds, &channel_args);
    grpc_channel_credentials_release(creds);
    const grpc_slice path = grpc_slice_from_static_string(method);
    grpc_call *call =
        grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop->cq, path, NULL,
                                 gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    struct grpc_link *link = call ? link_new(loop, call, true) : NULL;
    if (!link) {
        if (call)
            grpc_call_unref(call);
        grpc_channel_destroy(channel);
        rs_trust_close(&trust);
        return rs_err_set(err, RS_NOMEM, "no memory for a link to %s", address->text);
    }
    link->channel = channel;
    link->trust = trust;
    link->base.user = user;
    link->base.self = self;
    const grpc_op ops[] = {
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &link->recv_metadata,
                                        .status = &link->code,
                                        .status_details = &link->details,
                                        .error_string = &link->error_string}},
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata = {.recv_initial_metadata = &link->initial_metadata}},
    };
    (void)start_link(link, &ops[0], TAG_CLOSED);
    (void)start_link(link, &ops[1], TAG_SEND_META);
    (void)start_link(link, &ops[2], TAG_RECV_META);
    receive_next(link);
    *link_p = &link->base;
    return RS_OK;
}

/* ---- the loop ------------------------------------------------------------------------------------ */

static void on_accept(struct accept_slot *slot, bool ok);
static void on_unknown(struct accept_slot *slot, bool ok);

struct refusal {
    struct tag tag;
    grpc_call *call;
    int was_cancelled;
};

static void on_event(struct grpc_loop *loop, struct tag *tag, bool ok)
{
    RS_CHECK(tag && tag->magic == TAG_MAGIC);
    switch (tag->kind) {
    case TAG_WAKE:
        /* Pairs with loop_wake(): whatever was written before a wake is seen after this. */
        atomic_store_explicit(&loop->is_wake_pending, false, memory_order_seq_cst);
        return;
    case TAG_ACCEPT:
        on_accept(tag->owner, ok);
        return;
    case TAG_ACCEPT_UNKNOWN:
        on_unknown(tag->owner, ok);
        return;
    case TAG_STOPPED:
        ((struct rs_grpc_server *)tag->owner)->is_stopped = true;
        return;
    case TAG_IGNORED: {
        struct refusal *refusal = tag->owner;
        grpc_call_unref(refusal->call);
        rs_mem_free(refusal);
        return;
    }
    case TAG_SEND_META:
    case TAG_RECV_META:
    case TAG_SEND:
    case TAG_RECV:
    case TAG_FINISH:
    case TAG_CLOSED:
        on_link_event(tag->owner, tag->kind, ok);
        return;
    case TAG_LINK_COUNT:
        break;
    }
    const bool is_known_tag = false;
    RS_CHECK(is_known_tag);
}

enum { EVENTS_PER_RUN = 64 };

static enum rs_status loop_run(struct rs_loop *base, rs_ns until)
{
    struct grpc_loop *loop = (struct grpc_loop *)base;
    rs_dur wait = until - rs_time_monotonic();
    if (wait < 0)
        wait = 0;
    const gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(wait, GPR_TIMESPAN));
    grpc_event event = next_event(loop, deadline);
    if (event.type != GRPC_OP_COMPLETE)
        return RS_AGAIN;
    on_event(loop, event.tag, event.success != 0);
    for (int i = 1; i < EVENTS_PER_RUN; i++) {
        event = next_event(loop, gpr_inf_past(GPR_CLOCK_MONOTONIC));
        if (event.type != GRPC_OP_COMPLETE)
            break;
        on_event(loop, event.tag, event.success != 0);
    }
    return RS_OK;
}

static void loop_wake(struct rs_loop *base)
{
    struct grpc_loop *loop = (struct grpc_loop *)base;
    if (atomic_exchange_explicit(&loop->is_wake_pending, true, memory_order_seq_cst))
        return;
    (void)start_batch(loop->wake_call, NULL, 0, &loop->wake_tag);
}

static const struct rs_loop_ops grpc_loop_ops = {.run = loop_run, .wake = loop_wake};

/* Of a handshake that fails, gRPC tells nobody but its log. The cause stands at the end of what it says. */
static void log_of_grpc(gpr_log_func_args *args)
{
    if (args->severity == GPR_LOG_SEVERITY_ERROR && strstr(args->message, "Handshake failed"))
        rs_count(RS_COUNT_TLS_FAILED, 1);
    if (args->severity == GPR_LOG_SEVERITY_ERROR)
        rs_log_info("grpc: %.1500s", args->message);
    else
        rs_log_debug("grpc: %.400s", args->message);
}

static atomic_uint loop_count; /* alive, of all threads */

enum rs_status rs_grpc_loop_new(struct rs_loop **loop_p, struct rs_err *err)
{
    const enum rs_status opened = grpc_late_open(err);
    if (opened != RS_OK)
        return opened;
    struct grpc_loop *loop = rs_mem_calloc(1, sizeof *loop);
    if (!loop)
        return rs_err_set(err, RS_NOMEM, "no memory for a loop");
    (void)atomic_fetch_add(&loop_count, 1);
    gpr_set_log_function(log_of_grpc);
    /* Chunk-sized buffers come and go thousands of times a second: from the heap, kept, they cost no page
     * faults (measured: bare gRPC moves 1.5 GB/s without, 3.2 with). */
    /* NOLINTBEGIN(concurrency-mt-unsafe): once, before any thread */
    (void)mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
    /* NOLINTEND(concurrency-mt-unsafe) */
    grpc_init();
    loop->base.ops = &grpc_loop_ops;
    loop->cq = grpc_completion_queue_create_for_next(NULL);
    loop->lame = grpc_lame_client_channel_create(NULL, GRPC_STATUS_UNAVAILABLE, "wake");
    loop->wake_call = grpc_channel_create_call(loop->lame, NULL, GRPC_PROPAGATE_DEFAULTS, loop->cq,
                                               grpc_slice_from_static_string("/wake"), NULL,
                                               gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    loop->wake_tag = (struct tag){.magic = TAG_MAGIC, .kind = TAG_WAKE, .owner = loop};
    *loop_p = &loop->base;
    return RS_OK;
}

void rs_grpc_loop_free(struct rs_loop **loop_p)
{
    struct grpc_loop *loop = (struct grpc_loop *)*loop_p;
    if (!loop)
        return;
    *loop_p = NULL;
    grpc_completion_queue_shutdown(loop->cq);
    for (;;) {
        const grpc_event event = next_event(loop, gpr_inf_future(GPR_CLOCK_REALTIME));
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            break;
        on_event(loop, event.tag, event.success != 0);
    }
    grpc_call_unref(loop->wake_call);
    grpc_channel_destroy(loop->lame);
    grpc_completion_queue_destroy(loop->cq);
    grpc_shutdown();
    /* Shutdown is asynchronous, and it is the last loop's: leak checkers would see its last second. */
    const bool is_last = atomic_fetch_sub(&loop_count, 1) == 1;
    for (int i = 0; is_last && i < 100 && grpc_is_initialized(); i++)
        (void)usleep(10000);
    rs_mem_free(loop);
}

/* ---- the server ---------------------------------------------------------------------------------- */

static void ask_for_call(struct accept_slot *slot)
{
    if (slot->server->is_stopping)
        return;
    grpc_metadata_array_init(&slot->metadata);
    if (slot->tag.kind == TAG_ACCEPT_UNKNOWN)
        grpc_call_details_init(&slot->details);
    if (request_call(slot) == GRPC_CALL_OK) {
        slot->server->waiting_count++;
        return;
    }
    rs_log_error("cannot wait for another call");
    grpc_metadata_array_destroy(&slot->metadata);
}

/* Who a link is of, as the address that it came to says it. */
static enum rs_status identify_peer(struct rs_grpc_server *server, struct grpc_link *link,
                                    struct rs_err *why)
{
    struct rs_identity *identity = &link->base.identity;
    char text[64];
    *identity = (struct rs_identity){.party = server->is_join ? RS_PARTY_GUEST : RS_PARTY_LOCAL};
    if (server->local) {
        if (!local_listen_find(server->local, link->base.peer, identity, text, sizeof text))
            return rs_err_set(why, RS_REFUSED, "nobody knows whose this connection is");
        char *peer = rs_mem_strdup(text);
        if (peer) {
            rs_mem_free(link->peer);
            link->peer = peer;
            link->base.peer = peer;
        }
        return RS_OK;
    }
    return server->trust && !server->is_join ? identify(server->trust, link->call, identity, why)
                                             : RS_OK;
}

static void on_accept(struct accept_slot *slot, bool ok)
{
    struct rs_grpc_server *server = slot->server;
    server->waiting_count--;
    grpc_metadata_array_destroy(&slot->metadata);
    if (!ok)
        return;
    grpc_call *call = slot->call;
    const char *method = method_names[slot->method];
    ask_for_call(slot);
    struct grpc_link *link = link_new(server->loop, call, false);
    if (!link) {
        grpc_call_unref(call);
        return;
    }
    const grpc_op ops[] = {
        {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
         .data.recv_close_on_server.cancelled = &link->was_cancelled},
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
    };
    (void)start_link(link, &ops[0], TAG_CLOSED);
    (void)start_link(link, &ops[1], TAG_SEND_META);
    struct rs_err why = {0};
    if (identify_peer(server, link, &why) < 0) {
        link->base.identity = (struct rs_identity){.party = RS_PARTY_NOBODY};
        link->base.distrust = why.text;
        (void)server->accept(server->self, &link->base, method);
        link->base.user = NULL;
        link->base.distrust = NULL;
        link_close(&link->base, RS_REFUSED, why.text);
        return;
    }
    if (server->is_stopping || !server->accept(server->self, &link->base, method)) {
        link->base.user = NULL;
        link_close(&link->base, RS_UNREACHABLE, "the aggregator takes no new links now");
        return;
    }
    receive_next(link);
}

static void on_unknown(struct accept_slot *slot, bool ok)
{
    slot->server->waiting_count--;
    grpc_metadata_array_destroy(&slot->metadata);
    grpc_call_details_destroy(&slot->details);
    if (!ok)
        return;
    grpc_call *call = slot->call;
    ask_for_call(slot);
    struct refusal *refusal = rs_mem_calloc(1, sizeof *refusal);
    if (!refusal) {
        grpc_call_unref(call);
        return;
    }
    refusal->call = call;
    refusal->tag = (struct tag){.magic = TAG_MAGIC, .kind = TAG_IGNORED, .owner = refusal};
    grpc_slice details = grpc_slice_from_static_string("rankscope has no such method");
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
         .data.recv_close_on_server.cancelled = &refusal->was_cancelled},
        {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
         .data.send_status_from_server = {.status = GRPC_STATUS_UNIMPLEMENTED,
                                          .status_details = &details}},
    };
    if (start_batch(call, ops, 3, &refusal->tag) != GRPC_CALL_OK) {
        grpc_call_unref(call);
        rs_mem_free(refusal);
    }
}

static enum rs_status take_lock(struct rs_grpc_server *server, const struct rs_address *address,
                                struct rs_err *err)
{
    (void)snprintf(server->lock_path, sizeof server->lock_path, "%s.lock", address->path);
    server->lock_fd = open(server->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (server->lock_fd < 0)
        return rs_err_errno(err, "cannot open %s", server->lock_path);
    if (flock(server->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return rs_err_set(err, RS_EXISTS, "%s is served already: another process holds %s",
                          address->text, server->lock_path);
    return RS_OK;
}

/* The generation that counts. A change that cannot be used is told to the one who finds it, and said here. */
static unsigned look_at_certificates(struct rs_grpc_server *server)
{
    unsigned generation = 0;
    struct rs_err why = {0};
    if (rs_trust_refresh(server->trust, &generation, &why) < 0)
        rs_log_error("the certificates changed and cannot be used, the old ones are: %s", why.text);
    return generation;
}

/* gRPC asks at every handshake, on a thread of its own. */
static grpc_ssl_certificate_config_reload_status
give_certificates(void *self, grpc_ssl_server_certificate_config **config_p)
{
    struct rs_grpc_server *server = self;
    struct rs_err why = {0};
    struct rs_trust_texts texts = {.ca = {0}};
    const unsigned generation = look_at_certificates(server);
    if (generation == atomic_load(&server->sent_generation))
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    if (rs_trust_texts(server->trust, &texts, &why) < 0)
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    const grpc_ssl_pem_key_cert_pair pair = {.private_key = (const char *)texts.key.data,
                                             .cert_chain = (const char *)texts.certificate.data};
    *config_p = grpc_ssl_server_certificate_config_create((const char *)texts.ca.data, &pair, 1);
    rs_trust_texts_fini(&texts);
    if (!*config_p)
        return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    if (atomic_exchange(&server->sent_generation, generation) != 0)
        rs_log_info("the certificates changed: new links get the new ones");
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

static enum rs_status server_credentials(struct rs_grpc_server *server,
                                         const struct rs_address *address,
                                         grpc_server_credentials **creds_p, struct rs_err *err)
{
    if (address->guard == RS_ADDRESS_UNGUARDED)
        return rs_err_set(err, RS_REFUSED, "%s needs certificates", address->text);
    if (address->guard == RS_ADDRESS_LOCAL) {
        *creds_p = grpc_insecure_server_credentials_create();
        return RS_OK;
    }
    const enum rs_status status = rs_trust_open(address->certs, &server->trust, err);
    if (status < 0)
        return status;
    if (rs_trust_own(server->trust).party != RS_PARTY_AGGREGATOR)
        return rs_err_set(err, RS_REFUSED,
                          "%s/tls.crt is of another party (%s), not of an aggregator",
                          address->certs, rs_party_name(rs_trust_own(server->trust).party));
    server->is_join = address->guard == RS_ADDRESS_JOIN;
    /* Ownership of the options goes to the credentials. */
    *creds_p = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            server->is_join ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
            give_certificates, server));
    return *creds_p ? RS_OK
                    : rs_err_set(err, RS_FORMAT, "gRPC does not take the certificates in %s",
                                 address->certs);
}

/* On the thread of the unix socket's listener. */
static void take_connection(void *self, int fd)
{
    const struct rs_grpc_server *server = self;
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(server->server, fd, creds);
    grpc_server_credentials_release(creds);
}

static enum rs_status listen_locally(struct rs_grpc_server *server,
                                     const struct rs_address *address, struct rs_err *err)
{
    const struct local_listen_options options = {.path = address->path,
                                                 .rules = address->local_rules,
                                                 .take = take_connection,
                                                 .self = server};
    return local_listen_start(&options, &server->local, err);
}

static enum rs_status bind_address(struct rs_grpc_server *server, struct rs_address *address,
                                   struct rs_err *err)
{
    grpc_server_credentials *creds = NULL;
    const enum rs_status status = server_credentials(server, address, &creds, err);
    if (status < 0)
        return status;
    const int port = grpc_server_add_http2_port(server->server, address->text, creds);
    grpc_server_credentials_release(creds);
    if (port == 0)
        return rs_err_set(err, RS_EXISTS,
                          "cannot listen on %s: it is served already, or not permitted",
                          address->text);
    char *colon = strrchr(address->text, ':');
    if (colon && strcmp(colon, ":0") == 0) {
        (void)snprintf(colon, sizeof address->text - (size_t)(colon - address->text), ":%d", port);
        colon = strrchr(address->target, ':');
        (void)snprintf(colon, sizeof address->target - (size_t)(colon - address->target), ":%d",
                       port);
    }
    return RS_OK;
}

/* A connection that proves nothing, or carries no call, holds a descriptor: not for longer than that. */
enum { HANDSHAKE_MS = 10000, IDLE_MS = 30000 };

static void make_server(struct rs_grpc_server *server)
{
    grpc_arg args[] = {
        INT_ARG(GRPC_ARG_ALLOW_REUSEPORT, 0),
        INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RS_WIRE_MESSAGE_MAX_BYTES),
        INT_ARG(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000),
        INT_ARG(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS),
        INT_ARG(GRPC_ARG_MAX_CONNECTION_IDLE_MS, IDLE_MS),
        INT_ARG(GRPC_ARG_KEEPALIVE_TIME_MS, 20000),
        INT_ARG(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000),
        INT_ARG(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        WINDOW_ARGS,
    };
    const grpc_channel_args server_args = {.num_args = sizeof args / sizeof args[0], .args = args};
    server->server = grpc_server_create(&server_args, NULL);
    for (int i = 0; i < METHOD_COUNT; i++)
        server->methods[i] = grpc_server_register_method(server->server, method_names[i], NULL,
                                                         GRPC_SRM_PAYLOAD_NONE, 0);
    grpc_server_register_completion_queue(server->server, server->loop->cq, NULL);
}

enum rs_status rs_grpc_server_new(struct rs_loop *loop, struct rs_address *address,
                                  rs_accept_fn *accept, void *self,
                                  struct rs_grpc_server **server_p, struct rs_err *err)
{
    struct rs_grpc_server *server = rs_mem_calloc(1, sizeof *server);
    if (!server)
        return rs_err_set(err, RS_NOMEM, "no memory for a server");
    server->loop = (struct grpc_loop *)loop;
    server->accept = accept;
    server->self = self;
    server->lock_fd = -1;
    server->stopped_tag = (struct tag){.magic = TAG_MAGIC, .kind = TAG_STOPPED, .owner = server};
    enum rs_status status = RS_OK;
    if (address->is_unix)
        status = take_lock(server, address, err);
    if (status == RS_OK) {
        make_server(server);
        if (!address->is_unix)
            status = bind_address(server, address, err);
    }
    if (status == RS_OK) {
        grpc_server_start(server->server);
        status = address->is_unix ? listen_locally(server, address, err) : RS_OK;
    }
    if (status < 0) {
        server->is_stopped = true; /* it waits for no call */
        rs_grpc_server_free(&server);
        return status;
    }
    for (unsigned i = 0; i < METHOD_COUNT * SLOT_COUNT + 1; i++) {
        struct accept_slot *slot = &server->slots[i];
        slot->server = server;
        slot->method = i % METHOD_COUNT;
        slot->tag = (struct tag){.magic = TAG_MAGIC, .kind = TAG_ACCEPT, .owner = slot};
        if (i == METHOD_COUNT * SLOT_COUNT)
            slot->tag.kind = TAG_ACCEPT_UNKNOWN;
        ask_for_call(slot);
    }
    *server_p = server;
    return RS_OK;
}

void rs_grpc_server_stop(struct rs_grpc_server *server)
{
    if (server->is_stopping)
        return;
    server->is_stopping = true;
    if (server->local)
        local_listen_stop(server->local);
    HAND_OVER(&server->stopped_tag);
    grpc_server_shutdown_and_notify(server->server, server->loop->cq, &server->stopped_tag);
}

void rs_grpc_server_cancel(struct rs_grpc_server *server)
{
    grpc_server_cancel_all_calls(server->server);
}

bool rs_grpc_server_is_stopped(const struct rs_grpc_server *server)
{
    return server->is_stopped && server->waiting_count == 0;
}

void rs_grpc_server_free(struct rs_grpc_server **server_p)
{
    struct rs_grpc_server *server = *server_p;
    if (!server)
        return;
    *server_p = NULL;
    RS_CHECK(server->is_stopped);
    if (server->server && !server->is_stopping) {
        /* Nobody was served: it still wants to be shut down before it goes. */
        struct tag *tag = &server->stopped_tag;
        server->is_stopped = false;
        grpc_server_shutdown_and_notify(server->server, server->loop->cq, tag);
        while (!server->is_stopped)
            (void)loop_run(&server->loop->base, rs_time_monotonic() + RS_NS_PER_S);
    }
    if (server->server)
        grpc_server_destroy(server->server);
    local_listen_free(&server->local);
    if (server->lock_fd >= 0)
        (void)close(server->lock_fd);
    rs_trust_close(&server->trust);
    rs_mem_free(server);
}

void rs_grpc_server_refresh(struct rs_grpc_server *server)
{
    if (server->trust)
        (void)look_at_certificates(server);
}

enum rs_status rs_grpc_server_check(struct rs_grpc_server *server,
                                    const struct rs_identity *identity, rs_ns now,
                                    struct rs_err *err)
{
    return server->trust ? rs_trust_check(server->trust, identity, now, err) : RS_OK;
}

uint64_t rs_grpc_raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}
