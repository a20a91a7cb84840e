/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickles of plain data, as libtorch writes them: numbers, texts, lists, tuples, dictionaries. Nothing else.
 *
 * A pickle is a program for a small stack machine, and some of its codes import and call what they name. This machine
 * does not have them: every code that is not in the list of pickle.c is refused with its offset, before anything behind
 * it is looked at. Protocol 2 only.
 *
 *   bytes --codes--> stack --SETITEMS/APPENDS--> objects (their items in one arena)
 *                      |
 *                      `-- dict_done(): the caller may take a dictionary when it closes and let go of its items,
 *                          so that a recording of any length needs the memory of one call
 *
 * Promises: memory stays below the limits, whatever the bytes say (a length is compared with what is left before
 * anything is made); no recursion; a memo entry can only name what was there. Values refer to the bytes of the input,
 * which must outlive them. One thread.
 */
#ifndef RS_SOURCE_PICKLE_H
#define RS_SOURCE_PICKLE_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_pickle_kind {
    RS_PICKLE_NONE,
    RS_PICKLE_BOOL,
    RS_PICKLE_INT,
    RS_PICKLE_FLOAT,
    RS_PICKLE_TEXT, /* index: into texts */
    RS_PICKLE_LIST, /* these three: index into objects */
    RS_PICKLE_TUPLE,
    RS_PICKLE_DICT,
    RS_PICKLE_MARK, /* on the stack only */
    RS_PICKLE_SPAN, /* for dict_done() of a lazy machine only: `index` bytes of the input from `number` on, a list or pair
                       that was not run yet (rs_pickle_unfold()); of equal ones mostly the first */
};

struct rs_pickle_value {
    uint8_t kind;
    uint32_t index;
    union {
        int64_t number; /* BOOL: 0 or 1 */
        double real;
    };
};

/* A text of the input. Equal texts may stand here twice. `word` and `id` are the caller's, 0 at first. */
struct rs_pickle_text {
    const char *bytes;
    uint32_t length;
    uint32_t id;
    int32_t word;
};

struct rs_pickle_object {
    size_t first;                     /* in the arena */
    uint32_t count;                   /* items; a dictionary has two for each key */
    uint32_t depth;                   /* 1: holds no container */
    size_t arena_before, memo_before; /* when it was made */
    bool is_in_memo;
};

struct rs_pickle_limits {
    size_t values; /* on the stack and in the arena, each */
    size_t texts, objects, memo;
    uint32_t depth;
};
extern const struct rs_pickle_limits rs_pickle_default_limits;

struct rs_pickle;
/* A dictionary is complete: `items` are `count` values, key and value in turn; lent for the call. True: taken, its items
 * are forgotten and its value stays an empty dictionary. `status_p`: a failure ends the reading with it. */
typedef bool rs_pickle_dict_fn(void *self, struct rs_pickle *pickle,
                               const struct rs_pickle_value *items, size_t count,
                               enum rs_status *status_p);

/* Bytes of the input that stood in it before: the place where they were first seen. */
struct rs_pickle_seen {
    size_t first;
    uint32_t length; /* 0: nothing */
};
enum { RS_PICKLE_SEEN = 1024 };

struct rs_pickle {
    const uint8_t *data;
    size_t length, at;
    struct rs_pickle_limits limits;
    rs_pickle_dict_fn *dict_done;
    bool
        is_lazy; /* dict_done() is there, and understands spans: dictionaries of a plain form come to it without the machine;
                     one that it does not take comes again when the machine went through it */
    void *self;

    struct rs_pickle_value *stack, *arena, *memo;
    size_t stack_count, stack_capacity, arena_count, arena_capacity, memo_count, memo_capacity;
    struct rs_pickle_object *objects;
    size_t object_count, object_capacity;
    struct rs_pickle_text *texts;
    size_t text_count, text_capacity;
    size_t *marks; /* where on the stack */
    size_t mark_count, mark_capacity;
    size_t memo_containers; /* containers put into the memo, and changes of such ones */
    size_t memo_changes;    /* numbers of the memo that now mean something else than before */
    size_t seen_changes;    /* memo_changes when the two were empty */
    struct rs_pickle_seen lists[RS_PICKLE_SEEN], spans[RS_PICKLE_SEEN]; /* pickle_ahead.c */
};

void rs_pickle_init(
    struct rs_pickle *pickle); /* default limits; memory is made when it is needed */
void rs_pickle_fini(struct rs_pickle *pickle);

/* Runs the program. RS_OK: *root_p is what it leaves. RS_PARTIAL: the bytes end too early; the stack holds what was there
 * (rs_pickle_open_dict()). RS_FORMAT: a code that is refused, or nonsense, with its offset. RS_VERSION: another protocol.
 * RS_LIMIT, RS_NOMEM; what dict_done said. May be called again: memory is kept. */
RS_MUST_CHECK enum rs_status rs_pickle_read(struct rs_pickle *pickle, const void *data,
                                            size_t length, struct rs_pickle_value *root_p,
                                            struct rs_err *err);

/* Inside dict_done(): what a span holds, valid until dict_done() returns. RS_FORMAT: it is wrong; then dict_done() is to say
 * false, and the machine finds the place. RS_LIMIT, RS_NOMEM. Spans of equal bytes are equal while memo_changes stays. */
RS_MUST_CHECK enum rs_status rs_pickle_unfold(struct rs_pickle *pickle, struct rs_pickle_value span,
                                              struct rs_pickle_value *value_p);

/* After RS_PARTIAL: the pairs of the outermost dictionary so far, NULL when there is none. */
const struct rs_pickle_value *rs_pickle_open_dict(const struct rs_pickle *pickle, size_t *count_p);

/* Items of a container: lent until the next change of the machine. */
const struct rs_pickle_value *rs_pickle_items(const struct rs_pickle *pickle,
                                              struct rs_pickle_value value, size_t *count_p);

/* For other readers that make the same values (JSON): the pieces of which codes are made. RS_NOMEM, RS_LIMIT. */
RS_MUST_CHECK enum rs_status rs_pickle_add_text(struct rs_pickle *pickle, const char *bytes,
                                                size_t length, struct rs_pickle_value *value_p);
RS_MUST_CHECK enum rs_status rs_pickle_add_object(struct rs_pickle *pickle,
                                                  enum rs_pickle_kind kind,
                                                  const struct rs_pickle_value *items, size_t count,
                                                  struct rs_pickle_value *value_p);
void rs_pickle_reset(struct rs_pickle *pickle);

#endif
