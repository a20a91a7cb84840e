/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and deriving roles.
 */
#include "common/request/roles.h"

#include "common/base/mem.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const enum rs_rank_role_kind megatron[RS_ROLE_COUNT] = {RS_ROLE_TP, RS_ROLE_CP, RS_ROLE_EP,
                                                               RS_ROLE_DP, RS_ROLE_PP};

void rs_roles_fini(struct rs_roles *roles)
{
    rs_mem_free(roles->ranks);
    *roles = (struct rs_roles){0};
}

static int role_by_name(const char *text, size_t length)
{
    for (int i = 0; i < RS_ROLE_COUNT; i++) {
        const char *name = rs_rank_role_name((enum rs_rank_role_kind)i);
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            return i;
    }
    return -1;
}

enum rs_status rs_role_order_parse(const char *text, enum rs_rank_role_kind order[RS_ROLE_COUNT],
                                   struct rs_err *err)
{
    enum rs_rank_role_kind found[RS_ROLE_COUNT];
    bool is_named[RS_ROLE_COUNT] = {false};
    size_t count = 0;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, "-");
        const int role = role_by_name(at, length);
        if (role < 0 || is_named[role] || (at[length] && !at[length + 1]))
            return rs_err_set(err, RS_INVALID,
                              "order \"%.40s\": expected dp, tp, pp, ep, cp, each once, with \"-\" "
                              "between, at \"%.20s\"",
                              text, at);
        is_named[role] = true;
        found[count++] = (enum rs_rank_role_kind)role;
        at += length + (at[length] == '-');
    }
    for (size_t i = 0; i < RS_ROLE_COUNT; i++)
        if (!is_named[megatron[i]])
            found[count++] = megatron[i];
    memcpy(order, found, sizeof found);
    return RS_OK;
}

static enum rs_status check_sizes(const struct rs_role_sizes *sizes, struct rs_err *err)
{
    uint64_t product = 1;
    for (int i = 0; i < RS_ROLE_COUNT; i++) {
        if (i == RS_ROLE_EP)
            continue; /* of the second layout */
        product *= sizes->size[i];
        if (product > RS_RANK_MAX)
            return rs_err_set(err, RS_INVALID, "roles: more than %d ranks", RS_RANK_MAX);
    }
    if (product != sizes->world)
        return rs_err_set(err, RS_INVALID,
                          "roles: tp %" PRIu32 " x cp %" PRIu32 " x dp %" PRIu32 " x pp %" PRIu32
                          " is %" PRIu64 ", not the world of %" PRIu32,
                          sizes->size[RS_ROLE_TP], sizes->size[RS_ROLE_CP], sizes->size[RS_ROLE_DP],
                          sizes->size[RS_ROLE_PP], product, sizes->world);
    const uint64_t expert = (uint64_t)sizes->expert_tensor * sizes->size[RS_ROLE_EP];
    if (!expert || expert > RS_RANK_MAX || sizes->world % (expert * sizes->size[RS_ROLE_PP]) != 0)
        return rs_err_set(err, RS_INVALID,
                          "roles: etp %" PRIu32 " x ep %" PRIu32 " x pp %" PRIu32
                          " does not divide the world of %" PRIu32,
                          sizes->expert_tensor, sizes->size[RS_ROLE_EP], sizes->size[RS_ROLE_PP],
                          sizes->world);
    return RS_OK;
}

enum rs_status rs_role_sizes_complete(struct rs_role_sizes *sizes, struct rs_err *err)
{
    struct rs_role_sizes whole = *sizes;
    for (int i = 0; i < RS_ROLE_COUNT; i++)
        if (!whole.size[i] && i != RS_ROLE_DP)
            whole.size[i] = 1;
    uint64_t others = 1;
    for (int i = 0; i < RS_ROLE_COUNT; i++) {
        if (whole.size[i] > RS_RANK_MAX)
            return rs_err_set(err, RS_INVALID, "roles: a size above %d", RS_RANK_MAX);
        if (i != RS_ROLE_DP && i != RS_ROLE_EP)
            others *= whole.size[i];
        if (others > RS_RANK_MAX)
            return rs_err_set(err, RS_INVALID, "roles: more than %d ranks", RS_RANK_MAX);
    }
    if (!whole.size[RS_ROLE_DP]) {
        if (whole.world % others != 0 || !whole.world)
            return rs_err_set(err, RS_INVALID,
                              whole.world ? "roles: tp x cp x pp does not divide the world"
                                          : "roles: neither dp nor the world size is said");
        whole.size[RS_ROLE_DP] = (uint32_t)(whole.world / others);
    }
    const uint64_t product = others * whole.size[RS_ROLE_DP];
    if (!whole.world && product <= RS_RANK_MAX)
        whole.world = (uint32_t)product;
    if (!whole.expert_tensor)
        whole.expert_tensor = whole.size[RS_ROLE_TP];
    const enum rs_status status = check_sizes(&whole, err);
    if (status == RS_OK)
        *sizes = whole;
    return status;
}

/* The digit of `wanted` when `rank` is written in the mixed radix of `sizes`, fastest first. */
static int32_t digit_of(const struct rs_role_sizes *sizes, const uint32_t radix[RS_ROLE_COUNT],
                        uint32_t rank, enum rs_rank_role_kind wanted)
{
    for (size_t i = 0; i < RS_ROLE_COUNT; i++) {
        const enum rs_rank_role_kind role = sizes->order[i];
        if (role == wanted)
            return (int32_t)(rank % radix[role]);
        rank /= radix[role];
    }
    return -1;
}

enum rs_status rs_roles_derive(const struct rs_role_sizes *sizes, uint32_t rank,
                               int32_t role[RS_ROLE_COUNT])
{
    if (rank >= sizes->world)
        return RS_NOTFOUND;
    uint32_t dense[RS_ROLE_COUNT], expert[RS_ROLE_COUNT];
    memcpy(dense, sizes->size, sizeof dense);
    dense[RS_ROLE_EP] = 1;
    memcpy(expert, sizes->size, sizeof expert);
    expert[RS_ROLE_TP] = sizes->expert_tensor;
    expert[RS_ROLE_CP] = 1;
    expert[RS_ROLE_DP] =
        sizes->world / (sizes->expert_tensor * sizes->size[RS_ROLE_EP] * sizes->size[RS_ROLE_PP]);
    for (int i = 0; i < RS_ROLE_COUNT; i++)
        role[i] =
            digit_of(sizes, i == RS_ROLE_EP ? expert : dense, rank, (enum rs_rank_role_kind)i);
    return RS_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------------------- */

enum { KEY_EXPERT_TENSOR = RS_ROLE_COUNT, KEY_WORLD, KEY_ORDER, KEY_NONE };

static int key_by_name(const char *key)
{
    static const struct {
        const char *name;
        int key;
    } names[] = {
        {"tensor_model_parallel_size", RS_ROLE_TP},
        {"pipeline_model_parallel_size", RS_ROLE_PP},
        {"data_parallel_size", RS_ROLE_DP},
        {"expert_model_parallel_size", RS_ROLE_EP},
        {"context_parallel_size", RS_ROLE_CP},
        {"expert_tensor_parallel_size", KEY_EXPERT_TENSOR},
        {"etp", KEY_EXPERT_TENSOR},
        {"world_size", KEY_WORLD},
        {"world", KEY_WORLD},
        {"order", KEY_ORDER},
    };
    const int role = role_by_name(key, strlen(key));
    if (role >= 0)
        return role;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, key) == 0)
            return names[i].key;
    return KEY_NONE;
}

static enum rs_status set_size(struct rs_role_sizes *sizes, int key, const json_t *value,
                               const char *name, struct rs_err *err)
{
    if (key == KEY_ORDER) {
        if (!json_is_string(value))
            return rs_err_set(err, RS_INVALID, "roles: \"order\" is a string");
        return rs_role_order_parse(json_string_value(value), sizes->order, err);
    }
    if (key == KEY_EXPERT_TENSOR && json_is_null(value))
        return RS_OK; /* Megatron prints None for "as tp" */
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > RS_RANK_MAX)
        return rs_err_set(err, RS_INVALID, "roles: \"%.40s\" is a whole number from 1 to %d", name,
                          RS_RANK_MAX);
    if (key == KEY_EXPERT_TENSOR)
        sizes->expert_tensor = (uint32_t)number;
    else if (key == KEY_WORLD)
        sizes->world = (uint32_t)number;
    else
        sizes->size[key] = (uint32_t)number;
    return RS_OK;
}

/* The frameworks' distributed_args hold much else: what is no size is left alone there, told in a file of ours. */
static enum rs_status read_sizes(json_t *object, bool is_strict, uint32_t world,
                                 struct rs_roles *roles, struct rs_err *err)
{
    struct rs_role_sizes sizes = {.world = 0};
    const char *name;
    json_t *value;
    memcpy(sizes.order, megatron, sizeof megatron);
    json_object_foreach(object, name, value)
    {
        const int key = key_by_name(name);
        if (key == KEY_NONE && is_strict)
            return rs_err_set(err, RS_INVALID,
                              "roles: \"%.40s\" is neither a rank nor dp, tp, pp, ep, cp, etp, "
                              "world_size or order",
                              name);
        const enum rs_status status =
            key == KEY_NONE ? RS_OK : set_size(&sizes, key, value, name, err);
        if (status < 0)
            return status;
    }
    /* What is left to the world cannot be completed before it is known. */
    if (world == RS_ROLES_WORLD_OPEN && !sizes.world && !sizes.size[RS_ROLE_DP])
        return RS_OK;
    if (!sizes.world && world != RS_ROLES_WORLD_OPEN)
        sizes.world = world;
    const enum rs_status status = rs_role_sizes_complete(&sizes, err);
    if (status == RS_OK) {
        roles->has_sizes = true;
        roles->sizes = sizes;
    }
    return status;
}

static bool rank_of_key(const char *key, uint32_t *rank_p)
{
    uint64_t rank = 0;
    if (!*key || (key[0] == '0' && key[1]))
        return false;
    for (; *key; key++) {
        if (*key < '0' || *key > '9')
            return false;
        rank = rank * 10 + (uint64_t)(*key - '0');
        if (rank > RS_RANK_MAX)
            return false;
    }
    *rank_p = (uint32_t)rank;
    return true;
}

static enum rs_status read_rank(struct rs_roles *roles, const char *key, json_t *object,
                                struct rs_err *err)
{
    struct rs_rank_roles one;
    const char *name;
    json_t *value;
    for (int i = 0; i < RS_ROLE_COUNT; i++)
        one.role[i] = -1;
    if (!rank_of_key(key, &one.rank))
        return rs_err_set(err, RS_INVALID, "roles: \"%.40s\" is not a rank", key);
    if (!json_is_object(object))
        return rs_err_set(err, RS_INVALID,
                          "roles: rank %" PRIu32 " wants an object such as {\"tp\": 0, \"pp\": 1}",
                          one.rank);
    json_object_foreach(object, name, value)
    {
        const int role = role_by_name(name, strlen(name));
        const json_int_t number = json_integer_value(value);
        if (role < 0)
            return rs_err_set(err, RS_INVALID,
                              "roles: rank %" PRIu32 ": \"%.40s\" is not one of dp, tp, pp, ep, cp",
                              one.rank, name);
        if (!json_is_integer(value) || number < -1 || number > RS_RANK_MAX)
            return rs_err_set(err, RS_INVALID,
                              "roles: rank %" PRIu32 ": \"%s\" is a whole number from -1 (unknown) "
                              "to %d",
                              one.rank, name, RS_RANK_MAX);
        one.role[role] = (int32_t)number;
    }
    if (rs_mem_grow((void **)&roles->ranks, &roles->capacity, roles->count + 1,
                    sizeof *roles->ranks) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for roles");
    roles->ranks[roles->count++] = one;
    return RS_OK;
}

static int by_rank(const void *left, const void *right)
{
    const struct rs_rank_roles *a = left, *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static enum rs_status read_map(json_t *object, struct rs_roles *roles, struct rs_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const enum rs_status status = read_rank(roles, key, value, err);
        if (status < 0)
            return status;
    }
    if (roles->count)
        qsort(roles->ranks, roles->count, sizeof *roles->ranks, by_rank);
    return RS_OK; /* a rank twice: jansson refused the repeated key, and keys have one spelling */
}

static enum rs_status read_roles(json_t *root, uint32_t world, struct rs_roles *roles,
                                 struct rs_err *err)
{
    uint32_t rank = 0;
    if (!json_is_object(root))
        return rs_err_set(err, RS_INVALID, "roles: an object is expected");
    json_t *inner = json_object_get(root, "distributed_args");
    if (inner) {
        if (!json_is_object(inner))
            return rs_err_set(err, RS_INVALID, "roles: \"distributed_args\" is an object");
        return read_sizes(inner, false, world, roles, err);
    }
    inner = json_object_get(root, "ranks");
    if (inner) {
        if (!json_is_object(inner))
            return rs_err_set(err, RS_INVALID, "roles: \"ranks\" is an object");
        return read_map(inner, roles, err);
    }
    void *first = json_object_iter(root);
    if (first && rank_of_key(json_object_iter_key(first), &rank))
        return read_map(root, roles, err);
    /* Long names: the value of distributed_args by itself. */
    const bool is_foreign = json_object_get(root, "tensor_model_parallel_size") ||
                            json_object_get(root, "pipeline_model_parallel_size");
    return read_sizes(root, !is_foreign, world, roles, err);
}

enum rs_status rs_roles_from_json(const char *text, size_t length, uint32_t world,
                                  struct rs_roles *roles, struct rs_err *err)
{
    *roles = (struct rs_roles){0};
    if (length > RS_ROLES_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "roles: longer than %d bytes", RS_ROLES_MAX_BYTES);
    json_error_t wrong;
    json_t *root = json_loadb(length ? text : "", length, JSON_REJECT_DUPLICATES, &wrong);
    if (!root)
        return rs_err_set(err, RS_INVALID, "roles: line %d, column %d: %s", wrong.line,
                          wrong.column, wrong.text);
    const enum rs_status status = read_roles(root, world, roles, err);
    json_decref(root);
    if (status < 0)
        rs_roles_fini(roles);
    return status;
}

void rs_roles_apply(const struct rs_roles *roles, struct rs_rank_row *row)
{
    int32_t role[RS_ROLE_COUNT];
    size_t low = 0, high = roles->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (roles->ranks[middle].rank < row->rank)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < roles->count && roles->ranks[low].rank == row->rank) {
        memcpy(role, roles->ranks[low].role, sizeof role);
        if (roles->ranks[low].self_time_ns > 0)
            row->self_time_ns = roles->ranks[low].self_time_ns;
    } else if (!roles->has_sizes || rs_roles_derive(&roles->sizes, row->rank, role) != RS_OK) {
        return;
    }
    for (int i = 0; i < RS_ROLE_COUNT; i++)
        if (role[i] >= 0)
            row->role[i] = role[i];
}

/* ---- groups ------------------------------------------------------------------------------------------- */

static bool is_end_of_name(const char *text)
{
    if (*text == '_' || *text == '-' || *text == ':')
        text++;
    while (*text >= '0' && *text <= '9')
        text++;
    return *text == '\0';
}

/* "tensor_parallel", "TENSOR_MODEL_PARALLEL_GROUP", ... */
static bool matches_long(const char *name, const char *first)
{
    static const char *const ends[] = {"_parallel", "_parallel_group", "_model_parallel",
                                       "_model_parallel_group"};
    const size_t length = strlen(first);
    if (strncasecmp(name, first, length) != 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcasecmp(name + length, ends[i]) == 0)
            return true;
    return false;
}

enum rs_rank_role_kind rs_role_of_group(const char *name)
{
    static const char *const longs[RS_ROLE_COUNT] = {[RS_ROLE_DP] = "data",
                                                     [RS_ROLE_TP] = "tensor",
                                                     [RS_ROLE_PP] = "pipeline",
                                                     [RS_ROLE_EP] = "expert",
                                                     [RS_ROLE_CP] = "context"};
    if (strncasecmp(name, "mesh_", 5) == 0)
        name += 5;
    for (int i = 0; i < RS_ROLE_COUNT; i++) {
        const enum rs_rank_role_kind role = (enum rs_rank_role_kind)i;
        const char *word = rs_rank_role_name(role);
        if (strncasecmp(name, word, strlen(word)) == 0 && is_end_of_name(name + strlen(word)))
            return role;
        if (matches_long(name, longs[i]))
            return role;
    }
    return RS_ROLE_COUNT;
}
