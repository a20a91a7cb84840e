/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of op_types.def and of step origins.
 */
#include "common/reduce/summary.h"

const char *rs_op_type_text(enum rs_op_type type)
{
    switch (type) {
#define X(name, code, text, dependency, is_p2p)                                                    \
    case RS_OP_##name:                                                                             \
        return text;
#include "common/reduce/op_types.def"
#undef X
    case RS_OP_TYPE_COUNT:
        break;
    }
    return "?";
}

bool rs_op_type_is_p2p(enum rs_op_type type)
{
    switch (type) {
#define X(name, code, text, dependency, is_p2p)                                                    \
    case RS_OP_##name:                                                                             \
        return (is_p2p) != 0;
#include "common/reduce/op_types.def"
#undef X
    case RS_OP_TYPE_COUNT:
        break;
    }
    return false;
}

enum rs_dependency rs_op_type_dependency(enum rs_op_type type)
{
    switch (type) {
#define X(name, code, text, dependency, is_p2p)                                                    \
    case RS_OP_##name:                                                                             \
        return RS_DEPENDS_##dependency;
#include "common/reduce/op_types.def"
#undef X
    case RS_OP_TYPE_COUNT:
        break;
    }
    return RS_DEPENDS_NONE;
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
