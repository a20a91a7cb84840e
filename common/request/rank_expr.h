/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank expressions: one way to say "these ranks", for the command line, HTTP and files alike.
 *
 *     union   := both  { ("|" | ",") both }          either: ranks of one side or the other
 *     both    := one   { "&" one }                   both:   ranks of each side
 *     one     := "!" one | "(" union ")" | atom      not:    all the others
 *     atom    := "all" | N | N-M                     by number
 *              | "node=" NAME | "node=" START "*"    by host
 *              | ROLE "=" (N | N-M | "last")         by role; ROLE is dp, tp, pp, ep or cp
 *              | "one-per-node"                      the lowest rank of each node
 *              | "every=N"                           ranks divisible by N
 *              | "sample=P%"                         so many of all, at least one, drawn by a seed
 *              | "slowest=N"                         N that take longest by themselves (self_time_ns where it is known of all, else
 *                                          step times, which are equal in lock step); ties: the lower rank
 *
 * White space is free; "!" binds strongest, then "&", then "," and "|", which mean the same. Every
 * atom is a set by itself, taken from the whole table: `one-per-node & pp=last` is the last stage's ranks
 * among the lowest of their nodes, not the lowest of the last stage's per node. A bare number behind a comma behind a role
 * (`tp=0,1`) could mean two things and is refused with both spelled out.
 *
 * Parsing needs no table and evaluation is pure: same expression, rows and seed, same ranks, in whatever
 * order the rows stand. What an expression names and the table does not have is listed, never
 * dropped in silence.
 */
#ifndef RS_REQUEST_RANK_EXPR_H
#define RS_REQUEST_RANK_EXPR_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RS_RANK_MAX = 1 << 24,             /* largest rank number that can be named */
    RS_RANK_EXPR_MAX_BYTES = 4096,     /* longer texts are refused */
    RS_RANK_EXPR_MAX_DEPTH = 32,       /* "(" and "!" inside one another */
    RS_RANK_EXPR_NODE_MAX_BYTES = 256, /* name of a node */
};

enum rs_rank_role_kind {
    RS_ROLE_DP,
    RS_ROLE_TP,
    RS_ROLE_PP,
    RS_ROLE_EP,
    RS_ROLE_CP,
    RS_ROLE_COUNT
};

/* "dp", "tp", "pp", "ep", "cp". */
const char *rs_rank_role_name(enum rs_rank_role_kind role);

/* What is known of one rank. The table lends it for the time of a call. */
struct rs_rank_row {
    uint32_t rank;               /* 0..RS_RANK_MAX, once in a table */
    const char *node;            /* host name; NULL or "" unknown */
    int32_t role[RS_ROLE_COUNT]; /* index within the role's group; -1 unknown */
    int64_t step_time_ns;        /* last known length of a step; 0 unknown */
    int64_t
        self_time_ns; /* of a step, what is the rank's own: all but waiting for others; 0 unknown */
};

struct rs_rank_range {
    uint32_t first, last; /* both included */
};

/* What an expression chose. Zeroed is a valid empty one. */
struct rs_rank_set {
    uint32_t *ranks; /* ascending, without repeats */
    size_t count, capacity;
    struct rs_rank_range *unknown; /* named by number and not in the table; ascending, merged */
    size_t unknown_count, unknown_capacity;
    char **remarks; /* sentences: a node that is not there, a role nobody knows, ... */
    size_t remark_count, remark_capacity;
};

void rs_rank_set_fini(struct rs_rank_set *set);
bool rs_rank_set_has(const struct rs_rank_set *set, uint32_t rank);

struct rs_rank_expr;

/* RS_INVALID: the sentence has the place (column, from 1) and what was expected there. RS_LIMIT:
 * too long, too deep. RS_NOMEM. An empty text is RS_INVALID: "all" has to be said. */
RS_MUST_CHECK enum rs_status rs_rank_expr_parse(const char *text, size_t length,
                                                struct rs_rank_expr **expr_p, struct rs_err *err);
void rs_rank_expr_free(struct rs_rank_expr **expr_p);

/* True: every rank of any table. (The converse does not hold: `!!all` is, `tp=0|!tp=0` is not reported.) */
bool rs_rank_expr_is_all(const struct rs_rank_expr *expr);

/* Appends the expression in its normal form: numbers of a union first, sorted and merged ("0,3-7"), "|"
 * and "&" with blanks, only the parentheses that are needed. Reads back as the same sets. */
void rs_rank_expr_print(const struct rs_rank_expr *expr, struct rs_buf *buf);

/* Fills `set` (zeroed or used before; what it held is freed). RS_OK: everything named was known.
 * RS_PARTIAL: `unknown` or `remarks` say what was not; `ranks` holds the others. RS_INVALID: the
 * table has a rank twice or beyond RS_RANK_MAX. RS_NOMEM. `seed` is for sample=. */
RS_MUST_CHECK enum rs_status rs_rank_expr_eval(const struct rs_rank_expr *expr,
                                               const struct rs_rank_row *rows, size_t row_count,
                                               uint64_t seed, struct rs_rank_set *set,
                                               struct rs_err *err);

/* Appends "0,3-7" for ascending ranks without repeats; "none" when there are none. */
void rs_rank_list_print(const uint32_t *ranks, size_t count, struct rs_buf *buf);

#endif
