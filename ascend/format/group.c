/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank's metadata says about its communicators and parallel sizes.
 *
 * Each rank's file names only its own groups, so whoever wants all of them unites the ranks.
 */
#include "ascend/format/format.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { METADATA_LIMIT_BYTES = 64 << 20, RANKS_MAX = 1 << 20 };

void rs_ascend_group_hash(const char *id, char hash_p[RS_ASCEND_HASH_BYTES])
{
    uint32_t high = 0, low = 0;
    for (const unsigned char *p = (const unsigned char *)id; *p; p++) {
        high = high * 29U + *p;
        low = low * 131U + *p;
    }
    (void)snprintf(hash_p, RS_ASCEND_HASH_BYTES, "%" PRIu64, ((uint64_t)high << 32) | low);
}

void rs_ascend_group_key(const char *name, char hash_p[RS_ASCEND_HASH_BYTES])
{
    enum { LEAST_DIGITS = 12 }; /* no communicator is named by so many and nothing else */
    const size_t length = strlen(name);
    if (length >= LEAST_DIGITS && length < RS_ASCEND_HASH_BYTES &&
        strspn(name, "0123456789") == length)
        memcpy(hash_p, name, length + 1);
    else
        rs_ascend_group_hash(name, hash_p);
}

bool rs_ascend_is_p2p(const char *op_name)
{
    static const char *const heads[] = {"hcom_send", "hcom_receive", "hcom_batchsendrecv"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (strncasecmp(op_name, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t number_of(const json_t *object, const char *key, int64_t absent)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_string(value)) { /* ranks that come from the environment are strings */
        char *end = NULL;
        const char *text = json_string_value(value);
        const long long number = strtoll(text, &end, 10);
        if (end != text && !*end)
            return number;
    }
    return absent;
}

static enum rs_status read_ranks(const json_t *list, struct rs_ascend_group *group)
{
    const size_t count = json_array_size(list); /* 0 when it is no array */
    if (count == 0)
        return RS_OK;
    if (count > RANKS_MAX)
        return RS_LIMIT;
    group->ranks = rs_mem_calloc(count, sizeof *group->ranks);
    if (!group->ranks)
        return RS_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return RS_FORMAT;
        group->ranks[group->count++] = json_integer_value(item);
    }
    qsort(group->ranks, group->count, sizeof *group->ranks, by_value);
    return RS_OK;
}

static enum rs_status read_group(const char *id, const json_t *value, struct rs_ascend_group *group)
{
    char hash[RS_ASCEND_HASH_BYTES];
    const char *name = json_string_value(json_object_get(value, "group_name"));
    if (!json_is_object(value))
        return RS_FORMAT;
    rs_ascend_group_key(id, hash);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): its place was made */
    group->id = rs_mem_strdup(id);
    group->hash = rs_mem_strdup(hash);
    group->name = rs_mem_strdup(name ? name : "");
    group->own_rank = number_of(value, "group_rank", -1);
    if (!group->id || !group->hash || !group->name)
        return RS_NOMEM;
    return read_ranks(json_object_get(value, "global_ranks"), group);
}

static enum rs_status read_groups(json_t *object, struct rs_ascend_metadata *meta)
{
    if (!json_is_object(object))
        return RS_FORMAT;
    meta->has_groups = true;
    const size_t count = json_object_size(object);
    meta->groups = count ? rs_mem_calloc(count, sizeof *meta->groups) : NULL;
    if (count && !meta->groups)
        return RS_NOMEM;
    const char *id;
    json_t *value;
    json_object_foreach(object, id, value)
    {
        const enum rs_status status = read_group(id, value, &meta->groups[meta->group_count++]);
        if (status != RS_OK)
            return status;
    }
    return RS_OK;
}

static enum rs_status read_sizes(const json_t *object, struct rs_ascend_metadata *meta)
{
    if (!json_is_object(object))
        return RS_FORMAT;
    meta->has_sizes = true;
    meta->tp = number_of(object, "tensor_model_parallel_size", -1);
    meta->pp = number_of(object, "pipeline_model_parallel_size", -1);
    meta->dp = number_of(object, "data_parallel_size", -1);
    meta->cp = number_of(object, "context_parallel_size", -1);
    meta->ep = number_of(object, "expert_model_parallel_size", -1);
    meta->world_size = number_of(object, "world_size", -1);
    meta->rank = number_of(object, "rank", -1);
    char *text = json_dumps(object, 0);
    meta->distributed_args = text ? rs_mem_strdup(text) : NULL;
    free(text); /* jansson's */
    return meta->distributed_args ? RS_OK : RS_NOMEM;
}

static enum rs_status read_pp(const json_t *object, struct rs_ascend_metadata *meta)
{
    if (!json_is_object(object))
        return RS_FORMAT;
    const char *type = json_string_value(json_object_get(object, "pp_type"));
    meta->microbatches = number_of(object, "microbatch_num", -1);
    meta->pp_type = type ? rs_mem_strdup(type) : NULL;
    return type && !meta->pp_type ? RS_NOMEM : RS_OK;
}

static enum rs_status read_one(size_t which, json_t *value, struct rs_ascend_metadata *meta)
{
    return which == 0   ? read_groups(value, meta)
           : which == 1 ? read_sizes(value, meta)
                        : read_pp(value, meta);
}

static const char *const keys[] = {"parallel_group_info", "distributed_args", "pp_info"};

static struct rs_ascend_metadata nothing_known(void)
{
    return (struct rs_ascend_metadata){.tp = -1,
                                       .pp = -1,
                                       .dp = -1,
                                       .cp = -1,
                                       .ep = -1,
                                       .world_size = -1,
                                       .rank = -1,
                                       .microbatches = -1};
}

enum rs_status rs_ascend_metadata_parse(const char *groups, const char *sizes, const char *pp_info,
                                        struct rs_ascend_metadata *meta_p, struct rs_err *err)
{
    const char *const texts[] = {groups, sizes, pp_info};
    struct rs_ascend_metadata meta = nothing_known();
    for (size_t i = 0; i < 3; i++) {
        if (!texts[i])
            continue;
        json_t *value = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        const enum rs_status status = value ? read_one(i, value, &meta) : RS_FORMAT;
        json_decref(value);
        if (status != RS_OK) {
            rs_ascend_metadata_fini(&meta);
            return rs_err_set(err, status, "%s of the metadata: %s", keys[i],
                              rs_status_text(status));
        }
    }
    *meta_p = meta;
    return RS_OK;
}

enum rs_status rs_ascend_metadata_read(const struct rs_ascend_rank *rank,
                                       struct rs_ascend_metadata *meta_p, struct rs_err *err)
{
    if (!rank->metadata)
        return rs_err_set(err, RS_NOTFOUND, "%s has no profiler_metadata.json", rank->dir);
    struct rs_buf buf = {0};
    enum rs_status status = rs_file_read_regular(rank->metadata, METADATA_LIMIT_BYTES, &buf, err);
    if (status != RS_OK) {
        rs_buf_fini(&buf);
        return status;
    }
    json_error_t at;
    json_t *root = json_loadb((const char *)buf.data, buf.length, 0, &at);
    rs_buf_fini(&buf);
    if (!json_is_object(root)) {
        json_decref(root);
        return rs_err_set(err, RS_FORMAT, "%s is not whole JSON (line %d: %s)", rank->metadata,
                          at.line, at.text);
    }
    struct rs_ascend_metadata meta = nothing_known();
    for (size_t i = 0; i < 3 && status == RS_OK; i++) {
        json_t *value = json_object_get(root, keys[i]);
        if (!value)
            continue;
        status = read_one(i, value, &meta);
        if (status != RS_OK)
            (void)rs_err_set(err, status, "%s: %s: %s", rank->metadata, keys[i],
                             rs_status_text(status));
    }
    json_decref(root);
    if (status != RS_OK) {
        rs_ascend_metadata_fini(&meta);
        return status;
    }
    *meta_p = meta;
    return RS_OK;
}

void rs_ascend_metadata_fini(struct rs_ascend_metadata *meta)
{
    for (size_t i = 0; i < meta->group_count; i++) {
        rs_mem_free(meta->groups[i].id);
        rs_mem_free(meta->groups[i].hash);
        rs_mem_free(meta->groups[i].name);
        rs_mem_free(meta->groups[i].ranks);
    }
    rs_mem_free(meta->groups);
    rs_mem_free(meta->distributed_args);
    rs_mem_free(meta->pp_type);
    *meta = (struct rs_ascend_metadata){0};
}

const struct rs_ascend_group *rs_ascend_group_find(const struct rs_ascend_metadata *meta,
                                                   const char *hash)
{
    for (size_t i = 0; i < meta->group_count; i++)
        if (strcmp(meta->groups[i].hash, hash) == 0)
            return &meta->groups[i];
    return NULL;
}
