/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack machine of pickle.h.
 *
 * Codes it knows, and what the stack looks like (right is the top):
 *
 *   PROTO 2                         first code, and only there
 *   NONE NEWTRUE NEWFALSE           -> value
 *   BININT BININT1 BININT2 LONG1    -> number (LONG1 of at most 8 bytes)
 *   BINFLOAT                        -> number
 *   BINUNICODE                      -> text (a view of the input)
 *   EMPTY_DICT EMPTY_LIST EMPTY_TUPLE  -> container
 *   MARK                            -> mark
 *   SETITEMS   dict mark k v k v .. -> dict        SETITEM  dict k v  -> dict
 *   APPENDS    list mark v v ..     -> list        APPEND   list v    -> list
 *   TUPLE      mark v v ..          -> tuple       TUPLE1 TUPLE2 TUPLE3
 *   BINPUT LONG_BINPUT              v -> v, and the memo has it under a number
 *   BINGET LONG_BINGET              -> what the memo has
 *   STOP                            last code
 *
 * SETITEM and APPEND are what Python's own pickler writes of the same data; everything else is libtorch's. Those codes of
 * Python that import, call or build (GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, STACK_GLOBAL, EXT1, PERSID ...) are missing
 * on purpose, as are those of protocols 3 and later.
 */
#include "collector/source/pickle_priv.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <string.h>

const struct rs_pickle_limits rs_pickle_default_limits = {
    .values = 8u << 20, .texts = 1u << 20, .objects = 4u << 20, .memo = 4u << 20, .depth = 32};

void rs_pickle_init(struct rs_pickle *pickle)
{
    *pickle = (struct rs_pickle){.limits = rs_pickle_default_limits};
}

void rs_pickle_fini(struct rs_pickle *pickle)
{
    rs_mem_free(pickle->stack);
    rs_mem_free(pickle->arena);
    rs_mem_free(pickle->memo);
    rs_mem_free(pickle->objects);
    rs_mem_free(pickle->texts);
    rs_mem_free(pickle->marks);
    *pickle = (struct rs_pickle){0};
}

void rs_pickle_reset(struct rs_pickle *pickle)
{
    pickle->at = 0;
    pickle->stack_count = pickle->arena_count = pickle->memo_count = 0;
    pickle->object_count = pickle->text_count = pickle->mark_count = 0;
    pickle->memo_containers = pickle->memo_changes = pickle->seen_changes = 0;
    memset(pickle->lists, 0, sizeof pickle->lists);
    memset(pickle->spans, 0, sizeof pickle->spans);
}

/* --- room ------------------------------------------------------------------------------------------------------- */

static enum rs_status grow(void **array, size_t *capacity, size_t need, size_t limit, size_t bytes)
{
    if (need <= *capacity)
        return RS_OK;
    if (need > limit)
        return RS_LIMIT;
    return rs_mem_grow(array, capacity, need, bytes);
}

static inline enum rs_status push(struct rs_pickle *p, struct rs_pickle_value value)
{
    if (p->stack_count == p->stack_capacity) {
        const enum rs_status status = grow((void **)&p->stack, &p->stack_capacity,
                                           p->stack_count + 1, p->limits.values, sizeof *p->stack);
        if (status != RS_OK)
            return status;
    }
    p->stack[p->stack_count++] = value;
    return RS_OK;
}

enum rs_status rs_pickle_add_text(struct rs_pickle *p, const char *bytes, size_t length,
                                  struct rs_pickle_value *value_p)
{
    if (length > UINT32_MAX)
        return RS_LIMIT;
    const enum rs_status status = grow((void **)&p->texts, &p->text_capacity, p->text_count + 1,
                                       p->limits.texts, sizeof *p->texts);
    if (status != RS_OK)
        return status;
    *value_p = (struct rs_pickle_value){.kind = RS_PICKLE_TEXT, .index = (uint32_t)p->text_count};
    p->texts[p->text_count++] = (struct rs_pickle_text){.bytes = bytes, .length = (uint32_t)length};
    return RS_OK;
}

static uint32_t depth_of(const struct rs_pickle *p, struct rs_pickle_value value)
{
    const bool is_container = value.kind >= RS_PICKLE_LIST && value.kind <= RS_PICKLE_DICT;
    return is_container ? p->objects[value.index].depth : 0;
}

/* Puts items behind those the object has; they move to the arena's end when they do not stand there. */
static enum rs_status extend(struct rs_pickle *p, uint32_t index,
                             const struct rs_pickle_value *items, size_t count)
{
    struct rs_pickle_object *object = &p->objects[index];
    const bool is_last = object->first + object->count == p->arena_count;
    const size_t moved = is_last ? 0 : object->count;
    if (count > UINT32_MAX - object->count)
        return RS_LIMIT;
    uint32_t depth = object->depth;
    for (size_t i = 0; i < count; i++) {
        const uint32_t inner = depth_of(p, items[i]);
        depth = inner + 1 > depth ? inner + 1 : depth;
    }
    if (depth > p->limits.depth)
        return RS_LIMIT;
    const enum rs_status status =
        grow((void **)&p->arena, &p->arena_capacity, p->arena_count + moved + count,
             p->limits.values, sizeof *p->arena);
    if (status != RS_OK)
        return status;
    if (moved) {
        memcpy(p->arena + p->arena_count, p->arena + object->first, moved * sizeof *p->arena);
        object->first = p->arena_count;
        p->arena_count += moved;
    } else if (!object->count) {
        object->first = p->arena_count;
    }
    if (count)
        memcpy(p->arena + p->arena_count, items, count * sizeof *p->arena);
    p->arena_count += count;
    p->memo_containers += object->is_in_memo; /* what it holds now stays within reach */
    p->memo_changes += object->is_in_memo;
    object->count += (uint32_t)count;
    object->depth = depth;
    return RS_OK;
}

enum rs_status rs_pickle_add_object(struct rs_pickle *p, enum rs_pickle_kind kind,
                                    const struct rs_pickle_value *items, size_t count,
                                    struct rs_pickle_value *value_p)
{
    enum rs_status status = grow((void **)&p->objects, &p->object_capacity, p->object_count + 1,
                                 p->limits.objects, sizeof *p->objects);
    if (status != RS_OK)
        return status;
    const uint32_t index = (uint32_t)p->object_count;
    p->objects[p->object_count++] = (struct rs_pickle_object){.first = p->arena_count,
                                                              .depth = 1,
                                                              .arena_before = p->arena_count,
                                                              .memo_before = p->memo_containers};
    if (count)
        status = extend(p, index, items, count);
    if (status == RS_OK)
        *value_p = (struct rs_pickle_value){.kind = (uint8_t)kind, .index = index};
    return status;
}

const struct rs_pickle_value *rs_pickle_items(const struct rs_pickle *p,
                                              struct rs_pickle_value value, size_t *count_p)
{
    /* The items of an empty container, before any had something in it. */
    static const struct rs_pickle_value none;
    if (value.kind < RS_PICKLE_LIST || value.kind > RS_PICKLE_DICT) {
        *count_p = 0;
        return NULL;
    }
    *count_p = p->objects[value.index].count;
    return p->arena ? p->arena + p->objects[value.index].first : &none;
}

/* --- codes ------------------------------------------------------------------------------------------------------ */

/* Why a code was not obeyed; the sentence is made where the offset is known. */
enum fault {
    FAULT_NONE,
    FAULT_SHORT, /* the bytes end here */
    FAULT_STACK, /* it needs what the stack does not have */
    FAULT_REFUSED,
    FAULT_MEMO,
    FAULT_LONG,
    FAULT_PROTO,
    FAULT_STATUS,    /* p's status says it: memory, a limit, the caller */
    FAULT_NOT_PLAIN, /* no fault: the machine has to go through it code by code */
};

struct run {
    struct rs_pickle *p;
    enum rs_status status;
    uint64_t number; /* what FAULT_MEMO, FAULT_LONG and FAULT_PROTO are about */
};

static inline enum fault check(struct run *run, enum rs_status status)
{
    run->status = status;
    return status == RS_OK ? FAULT_NONE : FAULT_STATUS;
}

static inline enum fault push_number(struct run *run, int64_t number)
{
    return check(run,
                 push(run->p, (struct rs_pickle_value){.kind = RS_PICKLE_INT, .number = number}));
}

static enum fault take_text(struct run *run)
{
    struct rs_pickle *p = run->p;
    if (p->length - p->at < 4)
        return FAULT_SHORT;
    const size_t length = pickle_u32_at(p->data + p->at);
    if (p->length - p->at - 4 < length)
        return FAULT_SHORT;
    struct rs_pickle_value value;
    const union {
        const uint8_t *in;
        const char *out;
    } bytes = {.in = p->data + p->at + 4};
    enum fault fault = check(run, rs_pickle_add_text(p, bytes.out, length, &value));
    if (fault == FAULT_NONE)
        fault = check(run, push(p, value));
    p->at += 4 + length;
    return fault;
}

static enum fault take_long(struct run *run)
{
    struct rs_pickle *p = run->p;
    if (p->length - p->at < 1)
        return FAULT_SHORT;
    const size_t count = p->data[p->at];
    if (count > 8) {
        run->number = count;
        return FAULT_LONG;
    }
    if (p->length - p->at - 1 < count)
        return FAULT_SHORT;
    const int64_t number = pickle_long_at(p->data + p->at + 1, count);
    p->at += 1 + count;
    return push_number(run, number);
}

static enum fault take_float(struct run *run)
{
    struct rs_pickle *p = run->p;
    if (p->length - p->at < 8)
        return FAULT_SHORT;
    const double real = pickle_float_at(p->data + p->at);
    p->at += 8;
    return check(run, push(p, (struct rs_pickle_value){.kind = RS_PICKLE_FLOAT, .real = real}));
}

/* A number of the memo is at most the number of bytes before it: writers count from 0. */
static enum fault memo_put(struct run *run, size_t index)
{
    struct rs_pickle *p = run->p;
    if (!p->stack_count || p->stack[p->stack_count - 1].kind == RS_PICKLE_MARK)
        return FAULT_STACK;
    if (index > p->at || index >= p->limits.memo) {
        run->number = index;
        return FAULT_MEMO;
    }
    if (index >= p->memo_capacity) {
        const enum rs_status status = grow((void **)&p->memo, &p->memo_capacity, index + 1,
                                           p->limits.memo + 1, sizeof *p->memo);
        if (status != RS_OK)
            return check(run, status);
    }
    for (; p->memo_count <= index; p->memo_count++)
        p->memo[p->memo_count] = (struct rs_pickle_value){.kind = RS_PICKLE_MARK}; /* not there */
    const struct rs_pickle_value value = p->stack[p->stack_count - 1];
    p->memo_changes += p->memo[index].kind != RS_PICKLE_MARK;
    p->memo[index] = value;
    if (value.kind >= RS_PICKLE_LIST && value.kind <= RS_PICKLE_DICT) {
        p->objects[value.index].is_in_memo = true;
        p->memo_containers++;
    }
    return FAULT_NONE;
}

static inline enum fault memo_get(struct run *run, size_t index)
{
    struct rs_pickle *p = run->p;
    if (index >= p->memo_count || p->memo[index].kind == RS_PICKLE_MARK) {
        run->number = index;
        return FAULT_MEMO;
    }
    return check(run, push(p, p->memo[index]));
}

static enum fault push_mark(struct run *run)
{
    struct rs_pickle *p = run->p;
    enum fault fault = check(run, grow((void **)&p->marks, &p->mark_capacity, p->mark_count + 1,
                                       p->limits.values, sizeof *p->marks));
    if (fault != FAULT_NONE)
        return fault;
    p->marks[p->mark_count++] = p->stack_count;
    return check(run, push(p, (struct rs_pickle_value){.kind = RS_PICKLE_MARK}));
}

static enum fault push_empty(struct run *run, enum rs_pickle_kind kind)
{
    struct rs_pickle_value value;
    const enum fault fault = check(run, rs_pickle_add_object(run->p, kind, NULL, 0, &value));
    return fault == FAULT_NONE ? check(run, push(run->p, value)) : fault;
}

/* No value between `first` and the top may be a mark; and the container stands before them. */
static bool holds_mark(const struct rs_pickle *p, size_t first)
{
    return p->mark_count && p->marks[p->mark_count - 1] >= first;
}

/* The caller took it: what was made since this dictionary is let go, unless the memo got a container meanwhile. */
static void forget(struct rs_pickle *p, uint32_t index)
{
    const struct rs_pickle_object *object = &p->objects[index];
    if (object->memo_before != p->memo_containers)
        return;
    p->arena_count = object->arena_before;
    p->object_count = (size_t)index + 1;
}

/* items: the stack from `first` on, which go; their container is at `first` - `gap`. */
static enum fault fill(struct run *run, enum rs_pickle_kind kind, size_t first, size_t gap)
{
    struct rs_pickle *p = run->p;
    const size_t count = p->stack_count - first;
    if (first < gap || p->stack[first - gap].kind != kind || (kind == RS_PICKLE_DICT && count % 2))
        return FAULT_STACK;
    const uint32_t index = p->stack[first - gap].index;
    const struct rs_pickle_value *items = p->stack + first;
    enum rs_status status = RS_OK;
    p->stack_count = first - gap + 1;
    if (kind == RS_PICKLE_DICT && p->dict_done && !p->objects[index].count &&
        p->dict_done(p->self, p, items, count, &status)) {
        if (status == RS_OK)
            forget(p, index);
        return check(run, status);
    }
    return check(run, status == RS_OK ? extend(p, index, items, count) : status);
}

static enum fault fill_marked(struct run *run, enum rs_pickle_kind kind)
{
    struct rs_pickle *p = run->p;
    if (!p->mark_count)
        return FAULT_STACK;
    const size_t mark = p->marks[--p->mark_count];
    if (!mark)
        return FAULT_STACK;
    return fill(run, kind, mark + 1, 2);
}

static enum fault fill_last(struct run *run, enum rs_pickle_kind kind, size_t count)
{
    struct rs_pickle *p = run->p;
    if (p->stack_count < count + 1 || holds_mark(p, p->stack_count - count))
        return FAULT_STACK;
    return fill(run, kind, p->stack_count - count, 1);
}

static enum fault make_tuple(struct run *run, size_t first)
{
    struct rs_pickle *p = run->p;
    struct rs_pickle_value value;
    const size_t count = p->stack_count - first;
    const enum fault fault =
        check(run, rs_pickle_add_object(p, RS_PICKLE_TUPLE, p->stack + first, count, &value));
    if (fault != FAULT_NONE)
        return fault;
    p->stack_count = first;
    return check(run, push(p, value));
}

static enum fault tuple_of(struct run *run, size_t count)
{
    struct rs_pickle *p = run->p;
    if (p->stack_count < count || holds_mark(p, p->stack_count - count))
        return FAULT_STACK;
    return make_tuple(run, p->stack_count - count);
}

static enum fault tuple_marked(struct run *run)
{
    struct rs_pickle *p = run->p;
    if (!p->mark_count)
        return FAULT_STACK;
    const size_t mark = p->marks[--p->mark_count];
    struct rs_pickle_value value;
    const enum fault fault =
        check(run, rs_pickle_add_object(p, RS_PICKLE_TUPLE, p->stack + mark + 1,
                                        p->stack_count - mark - 1, &value));
    p->stack_count = mark;
    return fault == FAULT_NONE ? check(run, push(p, value)) : fault;
}

/* Codes with a number of 1, 2 or 4 bytes behind them. */
static enum fault step_number(struct run *run, uint8_t code)
{
    struct rs_pickle *p = run->p;
    const size_t width = code == BININT2                                                ? 2
                         : code == BININT || code == LONG_BINPUT || code == LONG_BINGET ? 4
                                                                                        : 1;
    if (p->length - p->at < width)
        return FAULT_SHORT;
    const uint8_t *at = p->data + p->at;
    const uint32_t number = width == 1   ? at[0]
                            : width == 2 ? (uint32_t)at[0] | (uint32_t)at[1] << 8
                                         : pickle_u32_at(at);
    p->at += width;
    switch (code) {
    case BINGET:
    case LONG_BINGET:
        return memo_get(run, number);
    case BINPUT:
    case LONG_BINPUT:
        return memo_put(run, number);
    case BININT:
        return push_number(run, (int32_t)number);
    case BININT1:
    case BININT2:
        return push_number(run, number);
    case PROTO:
        run->number = number;
        return p->at == 2 && number == 2 ? FAULT_NONE : FAULT_PROTO;
    default:
        return FAULT_REFUSED;
    }
}

static enum fault step(struct run *run, uint8_t code)
{
    switch (code) {
    case BINGET:
    case LONG_BINGET:
    case BINPUT:
    case LONG_BINPUT:
    case BININT:
    case BININT1:
    case BININT2:
    case PROTO:
        return step_number(run, code);
    case NONE:
        return check(run, push(run->p, (struct rs_pickle_value){.kind = RS_PICKLE_NONE}));
    case NEWTRUE:
    case NEWFALSE:
        return check(run, push(run->p, (struct rs_pickle_value){.kind = RS_PICKLE_BOOL,
                                                                .number = code == NEWTRUE}));
    case BINUNICODE:
        return take_text(run);
    case LONG1:
        return take_long(run);
    case BINFLOAT:
        return take_float(run);
    case MARK:
        return push_mark(run);
    case EMPTY_DICT:
        return push_empty(run, RS_PICKLE_DICT);
    case EMPTY_LIST:
        return push_empty(run, RS_PICKLE_LIST);
    case EMPTY_TUPLE:
        return push_empty(run, RS_PICKLE_TUPLE);
    case SETITEMS:
        return fill_marked(run, RS_PICKLE_DICT);
    case APPENDS:
        return fill_marked(run, RS_PICKLE_LIST);
    case SETITEM:
        return fill_last(run, RS_PICKLE_DICT, 2);
    case APPEND:
        return fill_last(run, RS_PICKLE_LIST, 1);
    case TUPLE:
        return tuple_marked(run);
    case TUPLE1:
    case TUPLE2:
    case TUPLE3:
        return tuple_of(run, (size_t)(code - TUPLE1) + 1);
    default:
        return FAULT_REFUSED;
    }
}

static const char *name_of(uint8_t code)
{
    static const struct {
        uint8_t code;
        const char *name;
    } names[] = {{'c', "GLOBAL"},
                 {'R', "REDUCE"},
                 {'b', "BUILD"},
                 {'i', "INST"},
                 {'o', "OBJ"},
                 {0x81, "NEWOBJ"},
                 {0x92, "NEWOBJ_EX"},
                 {0x93, "STACK_GLOBAL"},
                 {'P', "PERSID"},
                 {'Q', "BINPERSID"},
                 {0x82, "EXT1"},
                 {0x83, "EXT2"},
                 {0x84, "EXT4"},
                 {0x8b, "LONG4"},
                 {'T', "BINSTRING"},
                 {'U', "SHORT_BINSTRING"},
                 {'V', "UNICODE"},
                 {'S', "STRING"},
                 {'I', "INT"},
                 {'L', "LONG"},
                 {'F', "FLOAT"},
                 {'d', "DICT"},
                 {'l', "LIST"},
                 {'0', "POP"},
                 {'1', "POP_MARK"},
                 {'2', "DUP"},
                 {'p', "PUT"},
                 {'g', "GET"},
                 {'B', "BINBYTES"},
                 {'C', "SHORT_BINBYTES"},
                 {0x8c, "SHORT_BINUNICODE"},
                 {0x8d, "BINUNICODE8"},
                 {0x8e, "BINBYTES8"},
                 {0x8f, "EMPTY_SET"},
                 {0x90, "ADDITEMS"},
                 {0x91, "FROZENSET"},
                 {0x94, "MEMOIZE"},
                 {0x95, "FRAME"},
                 {0x96, "BYTEARRAY8"},
                 {0x97, "NEXT_BUFFER"},
                 {0x98, "READONLY_BUFFER"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code)
            return names[i].name;
    return "no pickle code";
}

static enum rs_status explain(const struct run *run, enum fault fault, uint8_t code, size_t offset,
                              struct rs_err *err)
{
    switch (fault) {
    case FAULT_NONE:
    case FAULT_NOT_PLAIN:
        return RS_OK;
    case FAULT_SHORT:
        return rs_err_set(err, RS_PARTIAL, "the pickle ends at byte %zu, in the middle of a code",
                          run->p->length);
    case FAULT_STACK:
        return rs_err_set(err, RS_FORMAT, "pickle code 0x%02x at byte %zu has nothing to work on",
                          code, offset);
    case FAULT_REFUSED:
        return rs_err_set(err, RS_FORMAT,
                          "pickle code 0x%02x (%s) at byte %zu is refused: libtorch does not write "
                          "it, and such codes can run programs",
                          code, name_of(code), offset);
    case FAULT_MEMO:
        return rs_err_set(err, RS_FORMAT,
                          "pickle code 0x%02x at byte %zu names memo entry %" PRIu64
                          ", which is not there",
                          code, offset, run->number);
    case FAULT_LONG:
        return rs_err_set(err, RS_LIMIT,
                          "the number at byte %zu has %" PRIu64 " bytes, more than 8", offset,
                          run->number);
    case FAULT_PROTO:
        return rs_err_set(err, RS_VERSION,
                          "pickle protocol %" PRIu64 " at byte %zu; libtorch writes protocol 2",
                          run->number, offset);
    case FAULT_STATUS:
        break;
    }
    if (run->status == RS_LIMIT)
        return rs_err_set(err, RS_LIMIT, "the pickle is beyond a limit (depth or size) at byte %zu",
                          offset);
    if (run->status == RS_NOMEM)
        return rs_err_set(err, RS_NOMEM, "no memory for a pickle");
    return run->status;
}

/* The six codes of which nine in ten of a dump are, with the stack's room and the bytes known to be there. Anything that
 * is not plain is left to step(): false, and nothing was done. */
static inline bool step_fast(struct rs_pickle *p)
{
    const uint8_t *at = p->data + p->at;
    struct rs_pickle_value *top = p->stack + p->stack_count;
    size_t used = 1;
    switch (at[0]) {
    case BINGET:
        if (at[1] >= p->memo_count || p->memo[at[1]].kind == RS_PICKLE_MARK)
            return false;
        *top = p->memo[at[1]];
        used = 2;
        break;
    case BININT1:
        *top = (struct rs_pickle_value){.kind = RS_PICKLE_INT, .number = at[1]};
        used = 2;
        break;
    case BININT2:
        *top = (struct rs_pickle_value){.kind = RS_PICKLE_INT, .number = at[1] | at[2] << 8};
        used = 3;
        break;
    case NONE:
        *top = (struct rs_pickle_value){.kind = RS_PICKLE_NONE};
        break;
    case NEWTRUE:
    case NEWFALSE:
        *top = (struct rs_pickle_value){.kind = RS_PICKLE_BOOL, .number = at[0] == NEWTRUE};
        break;
    case MARK:
        if (p->mark_count == p->mark_capacity)
            return false;
        p->marks[p->mark_count++] = p->stack_count;
        *top = (struct rs_pickle_value){.kind = RS_PICKLE_MARK};
        break;
    default:
        return false;
    }
    p->stack_count++;
    p->at += used;
    return true;
}

/* A dictionary that pickle_ahead() can tell from its bytes goes to the caller without the machine; what the caller had
 * unfolded for it is let go. Anything else, and what the caller does not want, is left as it was. */
static enum fault take_ahead(struct run *run)
{
    struct rs_pickle *p = run->p;
    struct rs_pickle_value items[PICKLE_AHEAD_ITEMS];
    const size_t arena = p->arena_count, objects = p->object_count;
    size_t count, end;
    enum rs_status status = RS_OK;
    if (!pickle_ahead(p, items, &count, &end))
        return FAULT_NOT_PLAIN;
    const bool is_taken = p->dict_done(p->self, p, items, count, &status);
    p->arena_count = arena; /* the bytes of a span put nothing into the memo */
    p->object_count = objects;
    if (!is_taken)
        return FAULT_NOT_PLAIN;
    if (status != RS_OK)
        return check(run, status);
    p->at = end;
    return push_empty(run, RS_PICKLE_DICT);
}

enum rs_status rs_pickle_unfold(struct rs_pickle *p, struct rs_pickle_value span,
                                struct rs_pickle_value *value_p)
{
    struct run run = {.p = p};
    const size_t at = p->at, stack = p->stack_count, marks = p->mark_count;
    const size_t end = (size_t)span.number + span.index;
    enum fault fault = FAULT_NONE;
    p->at = (size_t)span.number;
    while (p->at < end && fault == FAULT_NONE) {
        const uint8_t code = p->data[p->at++];
        fault = step(&run, code);
    }
    const bool is_one = p->at == end && p->stack_count == stack + 1 && p->mark_count == marks;
    if (fault == FAULT_NONE && is_one)
        *value_p = p->stack[stack];
    p->at = at;
    p->stack_count = stack;
    p->mark_count = marks;
    if (fault == FAULT_STATUS)
        return run.status;
    return fault == FAULT_NONE && is_one ? RS_OK : RS_FORMAT;
}

enum rs_status rs_pickle_read(struct rs_pickle *p, const void *data, size_t length,
                              struct rs_pickle_value *root_p, struct rs_err *err)
{
    struct run run = {.p = p};
    rs_pickle_reset(p);
    p->data = data;
    p->length = length;
    if (length && p->data[0] != PROTO)
        return rs_err_set(err, RS_FORMAT,
                          "byte 0 is 0x%02x, and a pickle of protocol 2 begins with 0x80",
                          p->data[0]);
    while (p->at < length) {
        if (p->is_lazy && p->data[p->at] == EMPTY_DICT) {
            const enum fault fault = take_ahead(&run);
            if (fault == FAULT_NONE)
                continue;
            if (fault != FAULT_NOT_PLAIN)
                return explain(&run, fault, EMPTY_DICT, p->at, err);
        }
        if (p->stack_count < p->stack_capacity && length - p->at > 2 && step_fast(p))
            continue;
        const size_t offset = p->at;
        const uint8_t code = p->data[p->at++];
        if (code == STOP) {
            if (p->stack_count != 1 || p->mark_count)
                return rs_err_set(err, RS_FORMAT, "the pickle stops at byte %zu with %zu values",
                                  offset, p->stack_count);
            *root_p = p->stack[0];
            return RS_OK;
        }
        const enum fault fault = step(&run, code);
        if (fault != FAULT_NONE)
            return explain(&run, fault, code, offset, err);
    }
    return rs_err_set(err, RS_PARTIAL, "the pickle ends at byte %zu without its STOP", length);
}

const struct rs_pickle_value *rs_pickle_open_dict(const struct rs_pickle *p, size_t *count_p)
{
    *count_p = 0;
    if (p->stack_count < 2 || p->stack[0].kind != RS_PICKLE_DICT ||
        p->stack[1].kind != RS_PICKLE_MARK)
        return NULL;
    *count_p = p->stack_count - 2;
    return p->stack + 2;
}
