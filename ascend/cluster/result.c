/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run tells about itself.
 */
#include "ascend/cluster/cluster_priv.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <stdarg.h>
#include <stdio.h>

enum { NOTES_MAX = 1000 };

enum rs_status note(struct rs_cluster_result *result, const char *format, ...)
{
    char text[RS_ERR_TEXT_BYTES];
    va_list args;
    if (result->note_count >= NOTES_MAX)
        return RS_OK;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (rs_mem_grow((void **)&result->notes, &result->note_capacity, result->note_count + 1,
                    sizeof *result->notes) != RS_OK)
        return RS_NOMEM;
    result->notes[result->note_count] = rs_mem_strdup(text);
    if (!result->notes[result->note_count])
        return RS_NOMEM;
    result->note_count++;
    return RS_OK;
}

void rs_cluster_result_fini(struct rs_cluster_result *result)
{
    for (size_t i = 0; i < result->rank_count; i++) {
        rs_mem_free(result->ranks[i].dir);
        rs_mem_free(result->ranks[i].reason);
    }
    for (size_t i = 0; i < result->note_count; i++)
        rs_mem_free(result->notes[i]);
    for (size_t i = 0; i < result->file_count; i++)
        rs_mem_free(result->files[i].path);
    rs_mem_free(result->out_dir);
    rs_mem_free(result->ranks);
    rs_mem_free(result->notes);
    rs_mem_free(result->files);
    *result = (struct rs_cluster_result){0};
}

const char *rs_cluster_state_name(enum rs_cluster_rank_state state)
{
    switch (state) {
    case RS_CLUSTER_WHOLE:
        return "whole";
    case RS_CLUSTER_PARTIAL:
        return "partial";
    case RS_CLUSTER_FAILED:
        return "failed";
    case RS_CLUSTER_MISSING:
        return "missing";
    }
    return "";
}

static void put_ranks(struct rs_json_out *json, const struct rs_cluster_result *result)
{
    rs_json_out_key(json, "ranks");
    rs_json_out_array(json);
    for (size_t i = 0; i < result->rank_count; i++) {
        const struct rs_cluster_rank *rank = &result->ranks[i];
        rs_json_out_object(json);
        rs_json_out_key(json, "rank");
        rs_json_out_int(json, rank->rank);
        rs_json_out_key(json, "state");
        rs_json_out_string(json, rs_cluster_state_name(rank->state));
        if (rank->dir) {
            rs_json_out_key(json, "form");
            rs_json_out_string(json, rank->form);
            rs_json_out_key(json, "path");
            rs_json_out_string(json, rank->dir);
        }
        if (rank->reason) {
            rs_json_out_key(json, "reason");
            rs_json_out_string(json, rank->reason);
        }
        rs_json_out_end(json);
    }
    rs_json_out_end(json);
}

static void put_count(struct rs_json_out *json, const char *key, uint64_t value)
{
    rs_json_out_key(json, key);
    rs_json_out_uint(json, value);
}

void rs_cluster_manifest(const struct rs_cluster_result *result, enum rs_status status,
                         struct rs_buf *buf)
{
    struct rs_json_out json;
    rs_json_out_init(&json, buf, 2);
    rs_json_out_object(&json);
    put_count(&json, "schema_version", 1);
    rs_json_out_key(&json, "state");
    rs_json_out_string(&json, status == RS_OK ? "whole" : status > 0 ? "partial" : "failed");
    put_ranks(&json, result);
    put_count(&json, "operations", result->op_count);
    put_count(&json, "links", result->link_count);
    put_count(&json, "dropped_links", result->dropped_links);
    put_count(&json, "groups", result->group_count);
    rs_json_out_key(&json, "notes");
    rs_json_out_array(&json);
    for (size_t i = 0; i < result->note_count; i++)
        rs_json_out_string(&json, result->notes[i]);
    rs_json_out_end(&json);
    rs_json_out_key(&json, "files");
    rs_json_out_array(&json);
    for (size_t i = 0; i < result->file_count; i++) {
        rs_json_out_object(&json);
        rs_json_out_key(&json, "path");
        rs_json_out_string(&json, result->files[i].path);
        put_count(&json, "bytes", result->files[i].bytes);
        rs_json_out_end(&json);
    }
    rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
}
