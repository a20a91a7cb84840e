/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message sizes: what the rows around one communication say, and what follows for its bytes.
 *
 * Rows are asked in the order of how much they know: argument columns (elements in and out), the
 * c10d call (its tensors by position, peer or root among its plain arguments), the annotation (the input
 * tensors with their type).
 *
 *   c10d call            tensors given            peer / root at
 *   all_reduce ...       0: in and out            -
 *   broadcast_           0                        2
 *   reduce_              0                        3
 *   all_gather, reduce_scatter, all_to_all        0: out, 1: in     -
 *   gather_, scatter_    0: out, 1: in            3
 *   send, recv_          0                        2
 *
 * Bytes are nccl-tests' size of the operation.
 */
#include "common/reduce/dims.h"
#include "common/reduce/reduce_priv.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct message message_none(void)
{
    return (struct message){.in_elements = -1, .out_elements = -1, .peer = -1, .root = -1};
}

static struct text text_of(const struct rs_reduce *reduce, rs_str id)
{
    if (id == RS_STR_NONE)
        return (struct text){"", 0};
    return (struct text){rs_strtab_text(reduce->strings, id),
                         rs_strtab_length(reduce->strings, id)};
}

static void learn(int64_t *member, int64_t value)
{
    if (*member < 0 && value >= 0)
        *member = value;
}

static void learn_type(struct message *message, struct text type)
{
    if (message->element_bytes)
        return;
    message->element_bytes = dims_type_bytes(type, &message->type_id);
}

void message_from_comm(const struct rs_reduce *reduce, const struct rs_comm *comm,
                       struct message *message)
{
    if (comm->has & RS_COMM_HAS_IN_NELEMS)
        learn(&message->in_elements, comm->in_nelems);
    if (comm->has & RS_COMM_HAS_OUT_NELEMS)
        learn(&message->out_elements, comm->out_nelems);
    if (comm->dtype != RS_STR_NONE)
        learn_type(message, text_of(reduce, comm->dtype));
}

/* Elements of the argument at `index`: a tensor without dimensions is one element, what is no tensor
 * has none to tell. */
static int64_t argument(const struct rs_reduce *reduce, const struct reduce_call *call,
                        size_t index, struct message *message)
{
    struct text dims, type;
    if (!dims_element(text_of(reduce, call->types), index, &type))
        type = (struct text){"", 0};
    const int64_t bytes = dims_type_bytes(type, NULL);
    if (bytes)
        learn_type(message, type);
    if (!dims_element(text_of(reduce, call->dims), index, &dims))
        return -1;
    const int64_t elements = dims_elements(dims);
    return elements < 0 && bytes && dims_count(dims) == 0 ? 1 : elements;
}

static int64_t plain_argument(const struct rs_reduce *reduce, const struct reduce_call *call,
                              size_t index)
{
    struct text text;
    int64_t value;
    if (!dims_element(text_of(reduce, call->concrete), index, &text) ||
        !dims_integer(text, &value) || value < 0 || value > INT32_MAX)
        return -1;
    return value;
}

static void from_c10d(const struct rs_reduce *reduce, const struct reduce_call *call,
                      struct message *message)
{
    switch ((enum rs_op_type)call->type) {
    case RS_OP_ALL_GATHER:
    case RS_OP_REDUCE_SCATTER:
    case RS_OP_ALL_TO_ALL:
    case RS_OP_GATHER:
    case RS_OP_SCATTER:
        learn(&message->out_elements, argument(reduce, call, 0, message));
        learn(&message->in_elements, argument(reduce, call, 1, message));
        if (call->type == RS_OP_GATHER || call->type == RS_OP_SCATTER)
            learn(&message->root, plain_argument(reduce, call, 3));
        return;
    case RS_OP_SEND:
        learn(&message->in_elements, argument(reduce, call, 0, message));
        learn(&message->peer, plain_argument(reduce, call, 2));
        return;
    case RS_OP_RECV: {
        /* of recv_any_source_ the argument there is a tag */
        const struct text name = text_of(reduce, call->name);
        learn(&message->out_elements, argument(reduce, call, 0, message));
        if (name.length <= sizeof "c10d::recv_" - 1)
            learn(&message->peer, plain_argument(reduce, call, 2));
        return;
    }
    case RS_OP_BROADCAST:
    case RS_OP_REDUCE:
        learn(&message->root, plain_argument(reduce, call, call->type == RS_OP_REDUCE ? 3 : 2));
        learn(&message->in_elements, argument(reduce, call, 0, message));
        return;
    case RS_OP_ALL_REDUCE:
        learn(&message->in_elements, argument(reduce, call, 0, message));
        return;
    case RS_OP_UNKNOWN:
    case RS_OP_BARRIER:
    case RS_OP_SEND_RECV:
    case RS_OP_TYPE_COUNT:
        return;
    }
}

/* An annotation's tensors are the inputs, all of them. */
static void from_annotation(const struct rs_reduce *reduce, const struct reduce_call *call,
                            struct message *message)
{
    const struct text dims = text_of(reduce, call->dims);
    const size_t count = dims_count(dims);
    int64_t sum = count ? 0 : -1;
    for (size_t i = 0; i < count && sum >= 0 && i < 4096; i++) {
        const int64_t elements = argument(reduce, call, i, message);
        sum = elements < 0 ? -1 : sum_clamped(sum, elements);
    }
    if (call->type == RS_OP_RECV)
        learn(&message->out_elements, sum);
    else
        learn(&message->in_elements, sum);
    if (call->type == RS_OP_SCATTER && count > 1 && !message->parts)
        message->parts = (int64_t)count;
}

void message_from_call(const struct rs_reduce *reduce, const struct reduce_call *call,
                       struct message *message)
{
    if (call->comm != REDUCE_NONE)
        message_from_comm(reduce, &reduce->comms.items[call->comm], message);
    if (call->host_name == RS_HOST_CALL)
        from_c10d(reduce, call, message);
    else if (call->host_name == RS_HOST_ANNOTATION || call->host_name == RS_HOST_GLOO)
        from_annotation(reduce, call, message);
}

static int64_t times(int64_t elements, int64_t factor)
{
    int64_t product;
    if (elements < 0 || factor <= 0 || __builtin_mul_overflow(elements, factor, &product))
        return -1;
    return product;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Elements of the whole operation. */
static int64_t size_elements(const struct message *m, int64_t group_size, enum rs_op_type type)
{
    switch (type) {
    case RS_OP_ALL_GATHER:
        return m->out_elements >= 0 ? m->out_elements : times(m->in_elements, group_size);
    case RS_OP_REDUCE_SCATTER:
        return m->in_elements >= 0 ? m->in_elements : times(m->out_elements, group_size);
    case RS_OP_ALL_TO_ALL:
        return m->in_elements;
    case RS_OP_GATHER: { /* the root knows both; the others what they give */
        const int64_t whole = times(m->in_elements, group_size);
        return whole >= 0 ? whole : m->out_elements > m->in_elements ? m->out_elements : -1;
    }
    case RS_OP_SCATTER: {
        const int64_t whole = times(m->out_elements, group_size);
        return whole >= 0 ? whole : m->in_elements > m->out_elements ? m->in_elements : -1;
    }
    case RS_OP_ALL_REDUCE:
    case RS_OP_BROADCAST:
    case RS_OP_REDUCE:
    case RS_OP_SEND:
    case RS_OP_RECV:
    case RS_OP_SEND_RECV:
        return larger(m->in_elements, m->out_elements);
    case RS_OP_UNKNOWN:
    case RS_OP_BARRIER: /* carries no message */
    case RS_OP_TYPE_COUNT:
        return -1;
    }
    return -1;
}

void message_size(const struct message *message, int64_t group_size, struct rs_comm_op *op)
{
    const enum rs_op_type type = (enum rs_op_type)op->type;
    const int64_t size = size_elements(message, group_size, type);
    op->bytes = times(size, message->element_bytes);
    /* What members agree on: of all_to_all the element type only, of the others what each gives or gets,
     * of gathering ones per member. */
    int64_t agreed = size;
    if (type == RS_OP_ALL_TO_ALL)
        agreed = 0;
    else if (type == RS_OP_ALL_GATHER || type == RS_OP_GATHER)
        agreed = message->in_elements;
    else if (type == RS_OP_REDUCE_SCATTER || type == RS_OP_SCATTER)
        agreed = message->out_elements >= 0 || type == RS_OP_SCATTER ? message->out_elements
                                                                     : message->in_elements;
    if (agreed < 0 || !message->type_id)
        return;
    const uint64_t key[2] = {message->type_id, (uint64_t)agreed};
    op->shape_hash = XXH3_64bits(key, sizeof key);
}
