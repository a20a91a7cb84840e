/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks kept in memory in the order in which a writer put them, and "are these two batches the same".
 */
#ifndef RS_TESTS_SUPPORT_CHUNK_LIST_H
#define RS_TESTS_SUPPORT_CHUNK_LIST_H

#include "common/base/buf.h"
#include "common/chunk/chunk.h"

#include <string.h>

enum { CHUNK_LIST_MAX = 512 };

struct chunk_list {
    struct rs_buf bytes;
    size_t offsets[CHUNK_LIST_MAX + 1];
    size_t count;
};

static inline enum rs_status chunk_list_put(void *self, struct rs_view chunk,
                                            const struct rs_chunk_header *header,
                                            struct rs_err *err)
{
    struct chunk_list *list = self;
    if (list->count == CHUNK_LIST_MAX || header->chunk_bytes != chunk.length)
        return rs_err_set(err, RS_LIMIT, "no room for one more chunk");
    rs_buf_bytes(&list->bytes, chunk.data, chunk.length);
    if (list->bytes.failed) {
        rs_buf_reset(&list->bytes);
        return rs_err_set(err, RS_NOMEM, "no memory for a chunk");
    }
    list->offsets[++list->count] = list->bytes.length;
    return RS_OK;
}

static inline struct rs_view chunk_list_at(const struct chunk_list *list, size_t i)
{
    return rs_view_of(list->bytes.data + list->offsets[i], list->offsets[i + 1] - list->offsets[i]);
}

static inline void chunk_list_fini(struct chunk_list *list)
{
    rs_buf_fini(&list->bytes);
    *list = (struct chunk_list){0};
}

static inline bool same_string(const struct rs_strtab *a, const struct rs_strtab *b, rs_str id)
{
    if (id == RS_STR_NONE)
        return true;
    return rs_strtab_length(a, id) == rs_strtab_length(b, id) &&
           memcmp(rs_strtab_text(a, id), rs_strtab_text(b, id), rs_strtab_length(a, id)) == 0;
}

static inline bool same_comm(const struct rs_comm *a, const struct rs_comm *b)
{
    return a->has == b->has && a->collective == b->collective && a->dtype == b->dtype &&
           a->group_name == b->group_name && a->group_description == b->group_description &&
           a->group_ranks == b->group_ranks && a->in_split == b->in_split &&
           a->out_split == b->out_split && a->transport == b->transport &&
           a->in_nelems == b->in_nelems && a->out_nelems == b->out_nelems &&
           a->group_size == b->group_size && a->src == b->src && a->dst == b->dst &&
           a->rank == b->rank && a->global_start == b->global_start &&
           a->global_stride == b->global_stride && a->seq == b->seq && a->comms_id == b->comms_id &&
           a->bytes == b->bytes;
}

/* The first column in which row i of `a` and row j of `b` differ, or NULL. Ids must be equal and name the
 * same text in both tables. */
static inline const char *row_difference(const struct rs_batch *a, size_t i,
                                         const struct rs_batch *b, size_t j)
{
#define SAME(column)                                                                               \
    if (a->column[i] != b->column[j])                                                              \
        return #column;
    SAME(kind)
    SAME(flags)
    SAME(phase)
    SAME(category)
    SAME(name)
    SAME(lane)
    SAME(start)
    SAME(end)
    SAME(correlation)
    SAME(external_id)
    SAME(bytes)
    SAME(cpu_ns)
    SAME(input_dims)
    SAME(input_types)
    SAME(concrete_inputs)
    SAME(extra_length)
#undef SAME
    if (a->extra_length[i] && memcmp(a->extra + a->extra_offset[i], b->extra + b->extra_offset[j],
                                     a->extra_length[i]) != 0)
        return "extra";
    if ((a->comm[i] == RS_NO_COMM) != (b->comm[j] == RS_NO_COMM))
        return "comm";
    if (a->comm[i] != RS_NO_COMM && !same_comm(&a->comms[a->comm[i]], &b->comms[b->comm[j]]))
        return "comm member";
    if (!same_string(a->strings, b->strings, a->name[i]) ||
        !same_string(a->strings, b->strings, a->category[i]) ||
        !same_string(a->strings, b->strings, a->input_dims[i]))
        return "text of a string";
    return NULL;
}

#endif
