/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parsed rank expression: nodes in one array, children as a linked list of indices.
 *
 * Invariants: a union has no union among its children and a "both" no "both" (they are spliced in), each
 * has two children or more; a "not" has one, which is not a "not".
 */
#ifndef RS_REQUEST_RANK_EXPR_PRIV_H
#define RS_REQUEST_RANK_EXPR_PRIV_H

#include "common/request/rank_expr.h"

enum expr_kind {
    EXPR_UNION,
    EXPR_BOTH,
    EXPR_NOT,
    EXPR_ALL,
    EXPR_RANGE,
    EXPR_NODE,
    EXPR_ROLE,
    EXPR_ONE_PER_NODE,
    EXPR_EVERY,
    EXPR_SAMPLE,
    EXPR_SLOWEST,
};

#define EXPR_NONE    UINT32_MAX
#define SAMPLE_WHOLE UINT64_C(100000000) /* EXPR_SAMPLE counts in 1e-8 of all: 1 % is 1,000,000 */

struct expr_node {
    enum expr_kind kind;
    uint32_t child, next;  /* first child; next sibling; EXPR_NONE */
    uint32_t first, last;  /* EXPR_RANGE, EXPR_ROLE; count of EXPR_EVERY, EXPR_SLOWEST in first */
    uint64_t units;        /* EXPR_SAMPLE */
    uint32_t name, length; /* EXPR_NODE: place in text */
    enum rs_rank_role_kind role;
    bool is_last;   /* EXPR_ROLE: "last" */
    bool is_prefix; /* EXPR_NODE: ended in "*" */
};

struct rs_rank_expr {
    struct expr_node *nodes;
    size_t count, capacity;
    uint32_t root;
    char text[RS_RANK_EXPR_MAX_BYTES + 1]; /* node names point into it */
};

/* Sorts and merges; returns how many are left. Touching ranges (0-1, 2-3) become one. */
size_t rank_ranges_merge(struct rs_rank_range *ranges, size_t count);

#endif
