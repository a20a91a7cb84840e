/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles: which tensor, pipeline, data, expert and context parallel index a rank has.
 *
 * Two sources, one answer. A map says it rank by rank. Sizes say it by arithmetic, Megatron's way: the order
 * "tp-cp-ep-dp-pp" names the roles from the fastest to the slowest, a rank is a number in that mixed radix.
 * Ranks are laid out twice over the same numbers, once for the dense layers (tp, cp, dp, pp) and once for the
 * experts (etp, ep, edp, pp), so ep comes from the second layout: with tp=2 pp=2 dp=2 ep=2, etp=tp, rank 5 is
 * tp 1, dp 0, pp 1, and ep 0.
 *
 *     {"0": {"tp": 0, "pp": 0}, "1": {"tp": 1, "pp": 0}}                a map; "ranks": {...} around it is free
 *     {"tp": 2, "pp": 2, "dp": 2, "order": "tp-cp-ep-dp-pp"}             sizes
 *     {"distributed_args": {"tensor_model_parallel_size": 2, ...}}       sizes, by the frameworks' long names
 */
#ifndef RS_REQUEST_ROLES_H
#define RS_REQUEST_ROLES_H

#include "common/base/err.h"
#include "common/request/rank_expr.h"

#include <stddef.h>
#include <stdint.h>

enum { RS_ROLES_MAX_BYTES = 64 << 20, RS_ROLES_ORDER_MAX_BYTES = 24 };
#define RS_ROLES_WORLD_OPEN UINT32_MAX

/* Sizes of the parallel groups, and who is faster than whom. */
struct rs_role_sizes {
    uint32_t size
        [RS_ROLE_COUNT]; /* by enum rs_rank_role_kind; 0 not said: 1, dp: what the world leaves */
    uint32_t expert_tensor; /* etp; 0 not said: as tp */
    uint32_t world;         /* number of ranks; 0 not said: the product of the sizes */
    enum rs_rank_role_kind order[RS_ROLE_COUNT]; /* fastest first, each role once */
};

struct rs_rank_roles {
    uint32_t rank;
    int32_t role[RS_ROLE_COUNT]; /* -1 not said */
    int64_t self_time_ns; /* as struct rs_rank_row has it; an earlier capture told it; 0 not said */
};

/* Zeroed: nothing is known of any rank. */
struct rs_roles {
    struct rs_rank_roles *ranks; /* a map: ascending by rank */
    size_t count, capacity;
    bool has_sizes;
    struct rs_role_sizes sizes; /* whole: rs_role_sizes_complete() */
};

void rs_roles_fini(struct rs_roles *roles);

/* "tp-cp-ep-dp-pp" -> order; a role may be left out (then it comes last, in that order). RS_INVALID. */
RS_MUST_CHECK enum rs_status rs_role_order_parse(const char *text,
                                                 enum rs_rank_role_kind order[RS_ROLE_COUNT],
                                                 struct rs_err *err);

/* Fills what was not said and checks that everything divides. RS_INVALID with the sentence; nothing
 * is changed then. */
RS_MUST_CHECK enum rs_status rs_role_sizes_complete(struct rs_role_sizes *sizes,
                                                    struct rs_err *err);

/* The roles of `rank` under completed sizes. RS_NOTFOUND: it is beyond the world. */
RS_MUST_CHECK enum rs_status rs_roles_derive(const struct rs_role_sizes *sizes, uint32_t rank,
                                             int32_t role[RS_ROLE_COUNT]);

/* Reads a --roles file, or the value of `distributed_args`. `world` 0: not known. RS_ROLES_WORLD_OPEN: only a check, before the
 * run is known; sizes that leave dp to the world then give no roles yet. RS_INVALID with line and column, or the rule. On RS_OK the caller owns what is in `roles` (overwritten). */
RS_MUST_CHECK enum rs_status rs_roles_from_json(const char *text, size_t length, uint32_t world,
                                                struct rs_roles *roles, struct rs_err *err);

/* The role that a process group of this name or description stands for: "tp", "mesh_dp", "pp_3", "dp0",
 * "TENSOR_MODEL_PARALLEL_GROUP", "expert_parallel". RS_ROLE_COUNT: none. A rank's index is its place among the group's ranks. */
enum rs_rank_role_kind rs_role_of_group(const char *name);

/* Writes what is known of row->rank into row->role; what is not known stays as it was. */
void rs_roles_apply(const struct rs_roles *roles, struct rs_rank_row *row);

#endif
