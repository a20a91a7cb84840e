/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of op_types.def and of step origins.
 */
#include "common/reduce/summary.h"

struct op_type {
    const char *text;
    enum rs_dependency dependency;
    bool is_p2p;
};

static const struct op_type op_types[RS_OP_TYPE_COUNT] = {
#define X(name, code, text, dependency, is_p2p)                                                    \
    [RS_OP_##name] = {text, RS_DEPENDS_##dependency, (is_p2p) != 0},
#include "common/reduce/op_types.def"
#undef X
};

const char *rs_op_type_text(enum rs_op_type type)
{
    return type < RS_OP_TYPE_COUNT ? op_types[type].text : "?";
}

bool rs_op_type_is_p2p(enum rs_op_type type)
{
    return type < RS_OP_TYPE_COUNT && op_types[type].is_p2p;
}

enum rs_dependency rs_op_type_dependency(enum rs_op_type type)
{
    return type < RS_OP_TYPE_COUNT ? op_types[type].dependency : RS_DEPENDS_NONE;
}

const char *rs_step_origin_text(enum rs_step_origin origin)
{
    switch (origin) {
    case RS_STEPS_NONE:
        return "none";
    case RS_STEPS_PROFILER_STEP:
        return "profiler_step";
    case RS_STEPS_OPTIMIZER_STEP:
        return "optimizer_step";
    case RS_STEPS_NATIVE:
        return "native";
    }
    return "?";
}
