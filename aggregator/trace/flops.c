/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.profiler's with_flops, by its formulas, out of recorded shapes: a multiplication and an addition are two operations.
 *
 *     mm, addmm       2 M K N            of [M, K] x [K, N]
 *     bmm, baddbmm    2 B M K N
 *     conv2d          2 N Cout Hout Wout Cin/groups Kh Kw
 */
#include "aggregator/trace/averages.h"

#include <stdlib.h>
#include <string.h>

enum { INPUTS_MAX = 8, DIMS_MAX = 4 };

struct shape {
    size_t count; /* DIMS_MAX + 1: more than fit, or a list of tensors */
    int64_t sizes[DIMS_MAX];
};

/* "[[64, 32], [], ...]" as it stands in the recording. */
static size_t read_shapes(const char *text, struct shape shapes[INPUTS_MAX])
{
    size_t count = 0;
    unsigned depth = 0;
    for (const char *at = text; *at && count <= INPUTS_MAX; at++) {
        if (*at == '[' && ++depth == 2) {
            if (count == INPUTS_MAX)
                return count;
            shapes[count] = (struct shape){0};
        } else if (*at == ']' && depth-- == 2) {
            count++;
        } else if (depth == 2 && *at >= '0' && *at <= '9') {
            char *end = NULL;
            struct shape *shape = &shapes[count];
            const int64_t size = strtoll(at, &end, 10);
            if (shape->count < DIMS_MAX)
                shape->sizes[shape->count++] = size;
            else
                shape->count = DIMS_MAX + 1;
            at = end - 1;
        } else if (depth == 3) {
            shapes[count].count = DIMS_MAX + 1;
        }
    }
    return count;
}

static int64_t product(const int64_t *factors, size_t count)
{
    int64_t all = 2;
    for (size_t i = 0; i < count; i++)
        if (factors[i] < 0 || __builtin_mul_overflow(all, factors[i], &all))
            return -1;
    return all;
}

static int64_t of_matrices(const struct shape *a, const struct shape *b, size_t dims)
{
    if (a->count != dims || b->count != dims || a->sizes[dims - 1] != b->sizes[dims - 2])
        return -1;
    int64_t factors[DIMS_MAX] = {0};
    memcpy(factors, a->sizes, dims * sizeof *factors);
    factors[dims] = b->sizes[dims - 1];
    return product(factors, dims + 1);
}

/* The two numbers of input `index` among `["", "", "", "[1, 1]", "[0, 0]", ...]`; one number stands for both. */
static bool read_pair(const char *concrete, size_t index, int64_t pair[2])
{
    size_t text = 0;
    for (const char *at = concrete; *at; at++) {
        if (*at != '"')
            continue;
        const char *end = strchr(at + 1, '"');
        if (!end)
            return false;
        if (text++ == index) {
            size_t count = 0;
            for (const char *c = at + 1; c < end && count < 2; c++)
                if (*c >= '0' && *c <= '9') {
                    char *behind = NULL;
                    pair[count++] = strtoll(c, &behind, 10);
                    c = behind - 1;
                }
            if (count == 1)
                pair[1] = pair[0];
            return count > 0;
        }
        at = end;
    }
    return false;
}

/* conv2d(input, weight, bias, stride, padding, dilation, groups) */
static int64_t of_convolution(const struct shape *input, const struct shape *weight,
                              const char *concrete)
{
    int64_t stride[2], padding[2], dilation[2], out[2];
    if (input->count != 4 || weight->count != 4 || !concrete || !read_pair(concrete, 3, stride) ||
        !read_pair(concrete, 4, padding) || !read_pair(concrete, 5, dilation))
        return -1;
    for (size_t i = 0; i < 2; i++) {
        int64_t reach, padded, free;
        if (stride[i] <= 0 || __builtin_mul_overflow(padding[i], 2, &padded) ||
            __builtin_add_overflow(padded, input->sizes[2 + i], &padded) ||
            __builtin_mul_overflow(dilation[i], weight->sizes[2 + i] - 1, &reach) ||
            padded <= reach || __builtin_sub_overflow(padded - 1, reach, &free) ||
            __builtin_add_overflow(free / stride[i], 1, &out[i]))
            return -1;
    }
    /* A weight has Cin / groups channels for each of its Cout. */
    const int64_t factors[] = {input->sizes[0],  weight->sizes[0], out[0],          out[1],
                               weight->sizes[1], weight->sizes[2], weight->sizes[3]};
    return product(factors, sizeof factors / sizeof factors[0]);
}

int64_t rs_flops_of(const char *name, const char *dims, const char *concrete)
{
    static const struct {
        const char *name;
        size_t first, dims; /* of the two matrices; dims 0: a convolution */
    } operators[] = {{"aten::mm", 0, 2},
                     {"aten::addmm", 1, 2},
                     {"aten::bmm", 0, 3},
                     {"aten::baddbmm", 1, 3},
                     {"aten::conv2d", 0, 0}};
    struct shape shapes[INPUTS_MAX] = {{0}};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (strcmp(name, operators[i].name) != 0)
            continue;
        const size_t first = operators[i].first;
        if (read_shapes(dims, shapes) < first + 2)
            return -1;
        return operators[i].dims
                   ? of_matrices(&shapes[first], &shapes[first + 1], operators[i].dims)
                   : of_convolution(&shapes[0], &shapes[1], concrete);
    }
    return -1;
}
