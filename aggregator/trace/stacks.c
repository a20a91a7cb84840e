/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of stacks: every call is put below the stack of who holds it, calls of one name below one stack are one.
 *
 *     calls in order --> stack of each (its parent's is there already) --> times of their own --> a line for each stack that has some
 */
#include "aggregator/trace/stacks.h"

#include "common/base/mem.h"
#include "common/base/slots.h"

#include <inttypes.h>
#include <string.h>

#define NO_STACK       UINT32_MAX
#define TEXT_MAX_BYTES ((size_t)1 << 30)

struct stack {
    uint32_t outer; /* NO_STACK: it is the outermost */
    rs_str name;
    rs_dur time;
};

struct tree {
    struct stack *items;
    size_t count, capacity;
    struct rs_slots index;
};

bool rs_stack_metric_named(const char *word, enum rs_stack_metric *metric_p)
{
    static const struct {
        const char *word;
        enum rs_stack_metric metric;
    } words[] = {{"self_cpu", RS_STACK_SELF_CPU},
                 {"self_cpu_time_total", RS_STACK_SELF_CPU},
                 {"self_device", RS_STACK_SELF_DEVICE},
                 {"self_device_time_total", RS_STACK_SELF_DEVICE},
                 {"self_cuda_time_total", RS_STACK_SELF_DEVICE},
                 {"self_npu_time_total", RS_STACK_SELF_DEVICE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i].word) != 0)
            continue;
        *metric_p = words[i].metric;
        return true;
    }
    return false;
}

static bool is_same(const void *self, uint32_t index, const void *wanted_)
{
    const struct tree *tree = self;
    const struct stack *wanted = wanted_;
    return tree->items[index].outer == wanted->outer && tree->items[index].name == wanted->name;
}

static enum rs_status find_stack(struct tree *tree, uint32_t outer, rs_str name, uint32_t *index_p)
{
    const struct stack wanted = {.outer = outer, .name = name};
    const uint64_t hash = rs_slots_mix(rs_slots_mix(0, outer), name);
    const uint32_t found = rs_slots_find(&tree->index, hash, is_same, tree, &wanted);
    if (found != RS_SLOTS_NONE) {
        *index_p = found;
        return RS_OK;
    }
    if (tree->count >= NO_STACK)
        return RS_LIMIT;
    if (rs_mem_grow((void **)&tree->items, &tree->capacity, tree->count + 1, sizeof wanted) !=
        RS_OK)
        return RS_NOMEM;
    const enum rs_status status = rs_slots_put(&tree->index, hash, (uint32_t)tree->count);
    if (status != RS_OK)
        return status;
    *index_p = (uint32_t)tree->count;
    tree->items[tree->count++] = wanted;
    return RS_OK;
}

static void add_time(struct tree *tree, uint32_t index, rs_dur time)
{
    if (__builtin_add_overflow(tree->items[index].time, time, &tree->items[index].time))
        tree->items[index].time = INT64_MAX; /* what a stranger's file says */
}

static void write_name(struct rs_buf *out, const struct rs_strtab *strings, rs_str name)
{
    const char *text = rs_strtab_text(strings, name);
    const size_t length = rs_strtab_length(strings, name);
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        rs_buf_u8(out, byte <= ' ' || byte == ';' ? '_' : byte);
    }
    if (!length)
        rs_buf_u8(out, '_');
}

/* `path` has room for as many positions as there are stacks. */
static void write_stack(const struct tree *tree, const struct rs_strtab *strings, size_t index,
                        uint32_t *path, struct rs_buf *out)
{
    size_t depth = 0;
    for (uint32_t at = (uint32_t)index; at != NO_STACK; at = tree->items[at].outer)
        path[depth++] = at;
    while (depth-- > 0) {
        write_name(out, strings, tree->items[path[depth]].name);
        if (depth)
            rs_buf_u8(out, ';');
    }
    rs_buf_printf(out, " %" PRId64 "\n", tree->items[index].time / 1000);
}

/* The stack of every call, into `stacks`. */
static enum rs_status place_calls(const struct rs_trace_calls *calls, struct tree *tree,
                                  uint32_t *stacks)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < calls->count && status == RS_OK; i++) {
        const struct rs_trace_call *call = &calls->items[i];
        status = find_stack(tree, call->parent == RS_NO_CALL ? NO_STACK : stacks[call->parent],
                            call->name, &stacks[i]);
    }
    return status;
}

static enum rs_status place_device_rows(const struct rs_trace_calls *calls, const uint32_t *stacks,
                                        struct tree *tree)
{
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < calls->device_count && status == RS_OK; i++) {
        const struct rs_trace_launched *row = &calls->device_rows[i];
        uint32_t index = NO_STACK;
        status = find_stack(tree, row->call == RS_NO_CALL ? NO_STACK : stacks[row->call], row->name,
                            &index);
        if (status == RS_OK)
            add_time(tree, index, row->length);
    }
    return status;
}

static enum rs_status write_lines(const struct tree *tree, const struct rs_strtab *strings,
                                  uint32_t *path, size_t limit_bytes, struct rs_buf *out,
                                  uint64_t *lines_p)
{
    const size_t before = out->length;
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->items[i].time < 1000)
            continue;
        write_stack(tree, strings, i, path, out);
        ++*lines_p;
        if (out->length - before > limit_bytes)
            return RS_LIMIT;
    }
    return out->failed ? RS_NOMEM : RS_OK;
}

enum rs_status rs_stacks_write(const struct rs_trace_calls *calls, const struct rs_strtab *strings,
                               const struct rs_stacks_form *how, struct rs_buf *out,
                               uint64_t *lines_p, struct rs_err *err)
{
    const size_t limit_bytes = how->limit_bytes ? how->limit_bytes : TEXT_MAX_BYTES;
    struct tree tree = {0};
    uint32_t *stacks = rs_mem_calloc(calls->count + 1, sizeof *stacks);
    uint32_t *path = NULL;
    *lines_p = 0;
    enum rs_status status = stacks ? place_calls(calls, &tree, stacks) : RS_NOMEM;
    if (status == RS_OK && how->metric == RS_STACK_SELF_DEVICE)
        status = place_device_rows(calls, stacks, &tree);
    if (status == RS_OK) {
        path = rs_mem_calloc(tree.count + 1, sizeof *path);
        status = path ? RS_OK : RS_NOMEM;
    }
    if (status == RS_OK && how->metric == RS_STACK_SELF_CPU)
        for (size_t i = 0; i < calls->count; i++)
            add_time(&tree, stacks[i], calls->items[i].own);
    if (status == RS_OK)
        status = write_lines(&tree, strings, path, limit_bytes, out, lines_p);
    rs_mem_free(stacks);
    rs_mem_free(path);
    rs_mem_free(tree.items);
    rs_slots_fini(&tree.index);
    if (status == RS_LIMIT)
        return rs_err_set(err, status, "its stacks are too many or too deep");
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "no memory for the stacks");
}
