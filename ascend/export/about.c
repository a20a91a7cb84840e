/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose recording it is: the small tables, profiler_info_R.json, profiler_metadata.json, the directory's name.
 *
 * What only this vendor's machine could say (driver and framework versions, its counter) is left out, not made up. What the user
 * added to the recording, and the variables of the environment that an Ascend profiler kept, are in both carriers.
 */
#include "ascend/export/export_priv.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the host ---- */

enum { HOST_BYTES = 256, UID_BYTES = 256 };

/* Ascend ranks come in as "name (uid)". Without a uid: a number made of the name, the same on all ranks of a host. */
static void split_host(const char *text, char name[HOST_BYTES], char uid[UID_BYTES])
{
    const char *open = strrchr(text, '(');
    const size_t length = strlen(text);
    if (open && open > text && text[length - 1] == ')' && open[-1] == ' ') {
        (void)snprintf(name, HOST_BYTES, "%.*s", (int)(open - 1 - text), text);
        (void)snprintf(uid, UID_BYTES, "%.*s", (int)(text + length - 2 - open), open + 1);
        return;
    }
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (const char *c = text; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
    (void)snprintf(name, HOST_BYTES, "%s", text);
    (void)snprintf(uid, UID_BYTES, "%" PRIu64, hash);
}

static const char *host_text(const struct rs_export_ascend *e)
{
    const struct rs_summary *all = e->options.analysis->summaries[e->options.summary];
    return rs_strtab_text(&all->strings, all->trace.host);
}

static enum rs_status put_host(struct rs_export_ascend *e, struct rs_err *err)
{
    char name[HOST_BYTES], uid[UID_BYTES];
    if (!*host_text(e))
        return RS_OK;
    split_host(host_text(e), name, uid);
    struct db_row row = db_row_begin(&e->rows, T_HOST_INFO);
    db_row_text(&row, uid);
    db_row_text(&row, name);
    return db_row_end(&e->rows, &row, err);
}

/* ---- devices ---- */

static enum rs_status put_pair(struct rs_export_ascend *e, enum table table, int64_t a, int64_t b,
                               struct rs_err *err)
{
    struct db_row row = db_row_begin(&e->rows, table);
    db_row_int(&row, a, true);
    db_row_int(&row, b, true);
    return db_row_end(&e->rows, &row, err);
}

static enum rs_status put_npu(struct rs_export_ascend *e, int64_t device, const char *name,
                              struct rs_err *err)
{
    struct db_row row = db_row_begin(&e->rows, T_NPU_INFO);
    db_row_int(&row, device, true);
    db_row_text(&row, name);
    return db_row_end(&e->rows, &row, err);
}

/* Names of devices as the trace's own header has them (Kineto's deviceProperties). */
static enum rs_status put_npus(struct rs_export_ascend *e, struct rs_err *err)
{
    const rs_str id = e->info->metadata;
    if (id == RS_STR_NONE)
        return RS_OK;
    json_t *root = json_loadb(text_of(e, id), rs_strtab_length(e->strings, id), 0, NULL);
    const json_t *list = json_object_get(root, "deviceProperties");
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < json_array_size(list) && status == RS_OK; i++) {
        const json_t *number = json_object_get(json_array_get(list, i), "id");
        const json_t *name = json_object_get(json_array_get(list, i), "name");
        bool is_used = false;
        for (size_t k = 0; k < e->devices.count; k++)
            is_used = is_used || e->devices.items[k] == json_integer_value(number);
        if (is_used && json_is_integer(number) && json_is_string(name))
            status = put_npu(e, json_integer_value(number), json_string_value(name), err);
    }
    json_decref(root);
    return status;
}

/* ---- META_DATA ---- */

static enum rs_status put_meta(struct rs_export_ascend *e, const char *name, const char *value,
                               struct rs_err *err)
{
    struct db_row row = db_row_begin(&e->rows, T_META_DATA);
    db_row_text(&row, name);
    db_row_text(&row, value);
    return db_row_end(&e->rows, &row, err);
}

/* Members that a profiler writes into every recording; all others are its user's. */
static bool is_of_every_recording(const char *name)
{
    static const char *const names[] = {
        "schemaVersion",       "deviceProperties",    "distributedInfo",    "traceName",
        "displayTimeUnit",     "baseTimeNanoseconds", "trace_id",           "parallel_group_info",
        "rankscope",           "record_shapes",       "profile_memory",     "with_stack",
        "with_flops",          "with_modules",        "cupti_version",      "cuda_runtime_version",
        "cuda_driver_version", "hip_runtime_version", "hip_driver_version", "roctracer_version",
        "rocprofiler_version", "host_name",           "systemTraceEvents",  "stackFrames"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return strncmp(name, "SCHEMA_VERSION", 14) == 0;
}

/* What the user added to the recording, and the environment that its profiler kept. NULL: nothing. */
static json_t *settings_of(const struct rs_export_ascend *e)
{
    const rs_str id = e->info->metadata;
    const char *key;
    json_t *value;
    void *next;
    if (id == RS_STR_NONE ||
        (e->info->backend != RS_STR_NONE && strcmp(text_of(e, e->info->backend), "native") == 0))
        return NULL;
    json_t *root = json_loadb(text_of(e, id), rs_strtab_length(e->strings, id), 0, NULL);
    json_object_foreach_safe(root, next, key, value)
    {
        if (is_of_every_recording(key))
            (void)json_object_del(root, key);
    }
    return root;
}

static enum rs_status put_settings(struct rs_export_ascend *e, struct rs_err *err)
{
    json_t *root = settings_of(e);
    enum rs_status status = RS_OK;
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        char *text = status == RS_OK ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
        if (status == RS_OK)
            status = text ? put_meta(e, key, text, err) : no_room(RS_NOMEM, err);
        free(text);
    }
    json_decref(root);
    return status;
}

static void put_source(const struct rs_export_ascend *e, struct rs_json_out *json)
{
    const rs_str id = e->info->generation;
    rs_json_out_object(json);
    rs_json_out_key(json, "version");
    rs_json_out_string(json, RS_PROGRAM_VERSION);
    rs_json_out_key(json, "source");
    rs_json_out_bytes(json, text_of(e, id), rs_strtab_length(e->strings, id));
    rs_json_out_key(json, "device");
    rs_json_out_string(json, e->has_device_work ? "device" : "CPU");
    rs_json_out_end(json);
}

static enum rs_status put_metadata(struct rs_export_ascend *e, struct rs_err *err)
{
    static const char *const pairs[][2] = {{"SCHEMA_VERSION_MICRO", "0"},
                                           {"SCHEMA_VERSION_MINOR", "2"},
                                           {"SCHEMA_VERSION_MAJOR", "1"},
                                           {"SCHEMA_VERSION", "1.2.0"}};
    struct rs_buf buf = {0};
    struct rs_json_out json;
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && status == RS_OK; i++)
        status = put_meta(e, pairs[i][0], pairs[i][1], err);
    if (status == RS_OK)
        status = comm_groups(e, &buf, err);
    if (status == RS_OK && buf.length > 2)
        status = put_meta(e, "parallel_group_info", rs_buf_text(&buf), err);
    rs_buf_reset(&buf);
    rs_json_out_init(&json, &buf, 0);
    put_source(e, &json);
    if (status == RS_OK)
        status =
            buf.failed ? no_room(RS_NOMEM, err) : put_meta(e, "rankscope", rs_buf_text(&buf), err);
    rs_buf_fini(&buf);
    return status == RS_OK ? put_settings(e, err) : status;
}

static int by_value(const void *a_, const void *b_)
{
    const int32_t a = *(const int32_t *)a_, b = *(const int32_t *)b_;
    return (a > b) - (a < b);
}

enum rs_status about_tables(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = put_pair(e, T_SESSION, e->own.span_start, e->own.span_end, err);
    if (e->devices.count)
        qsort(e->devices.items, e->devices.count, sizeof *e->devices.items, by_value);
    for (size_t i = 0; i < e->devices.count && status == RS_OK; i++)
        status = put_pair(e, T_RANK_DEVICE, e->rank, e->devices.items[i], err);
    if (status == RS_OK && !e->devices.count)
        status = put_pair(e, T_RANK_DEVICE, e->rank, 0, err);
    if (status == RS_OK)
        status = put_host(e, err);
    if (status == RS_OK)
        status = put_npus(e, err);
    return status == RS_OK ? put_metadata(e, err) : status;
}

/* ---- files ---- */

static enum rs_status write_file(const char *dir, const char *name, struct rs_buf *buf,
                                 struct rs_err *err)
{
    char *path = rs_file_join(dir, name);
    enum rs_status status = path && !buf->failed ? RS_OK : no_room(RS_NOMEM, err);
    if (status == RS_OK)
        status = rs_file_replace(path, buf->data, buf->length, false, err);
    rs_mem_free(path);
    return status;
}

/* What a reader needs: that the collection ended, and the rank. Nothing is said of how it was configured. */
static void put_info(const struct rs_export_ascend *e, struct rs_json_out *json)
{
    rs_json_out_object(json);
    rs_json_out_key(json, "config");
    rs_json_out_object(json);
    rs_json_out_key(json, "common_config");
    rs_json_out_object(json);
    rs_json_out_end(json);
    rs_json_out_key(json, "experimental_config");
    rs_json_out_object(json);
    rs_json_out_key(json, "_profiler_level");
    rs_json_out_string(json, "Level1");
    rs_json_out_key(json, "_export_type");
    rs_json_out_array(json);
    rs_json_out_string(json, "text");
    rs_json_out_string(json, "db");
    rs_json_out_end(json);
    rs_json_out_end(json);
    rs_json_out_end(json);
    rs_json_out_key(json, "end_info");
    rs_json_out_object(json);
    rs_json_out_key(json, "collectionTimeEnd");
    rs_json_out_int(json, e->own.span_end);
    rs_json_out_end(json);
    rs_json_out_key(json, "rank_id");
    rs_json_out_int(json, e->rank);
    rs_json_out_key(json, "rankscope");
    put_source(e, json);
    rs_json_out_end(json);
}

static void append_settings(const struct rs_export_ascend *e, struct rs_buf *buf)
{
    json_t *root = settings_of(e);
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        struct rs_json_out json;
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        buf->failed = buf->failed || !text;
        rs_buf_u8(buf, ',');
        rs_json_out_init(&json, buf, 0);
        rs_json_out_string(&json, key);
        rs_buf_u8(buf, ':');
        rs_buf_string(buf, text ? text : "null");
        free(text);
    }
    json_decref(root);
}

static enum rs_status write_metadata(struct rs_export_ascend *e, struct rs_err *err)
{
    struct rs_buf buf = {0}, groups = {0};
    enum rs_status status = comm_groups(e, &groups, err);
    const rs_str id = e->info->trace_id;
    struct rs_json_out json;
    if (status == RS_OK) {
        rs_buf_printf(&buf, "{\"parallel_group_info\":%s", rs_buf_text(&groups));
        if (id != RS_STR_NONE) {
            rs_buf_string(&buf, ",\"trace_id\":");
            rs_json_out_init(&json, &buf, 0);
            rs_json_out_bytes(&json, text_of(e, id), rs_strtab_length(e->strings, id));
        }
        append_settings(e, &buf);
        rs_buf_u8(&buf, '}');
        status = write_file(e->work_dir, "profiler_metadata.json", &buf, err);
    }
    rs_buf_fini(&buf);
    rs_buf_fini(&groups);
    return status;
}

enum rs_status about_files(struct rs_export_ascend *e, struct rs_err *err)
{
    struct rs_buf buf = {0};
    struct rs_json_out json;
    char name[64];
    rs_json_out_init(&json, &buf, 4);
    put_info(e, &json);
    (void)snprintf(name, sizeof name, "profiler_info_%" PRId32 ".json", e->rank);
    enum rs_status status = write_file(e->work_dir, name, &buf, err);
    if (status == RS_OK)
        status = write_metadata(e, err);
    rs_buf_reset(&buf);
    if (status == RS_OK)
        status = write_file(e->output_dir, "analyse.done", &buf, err);
    rs_buf_fini(&buf);
    return status;
}

void about_name(const struct rs_export_ascend *e, unsigned turn, char *text, size_t size)
{
    char host[64], uid[UID_BYTES], whole[HOST_BYTES];
    struct tm tm = {0};
    split_host(*host_text(e) ? host_text(e) : "unknown", whole, uid);
    (void)snprintf(host, sizeof host, "%.60s", whole);
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-')
            *c = '-';
    const int64_t ms = e->own.span_start / RS_NS_PER_MS + (int64_t)turn;
    const time_t seconds = (time_t)(ms / 1000);
    if (ms < 0 || !gmtime_r(&seconds, &tm) || tm.tm_year > 8099)
        memset(&tm, 0, sizeof tm);
    (void)snprintf(text, size, "%s_%" PRId64 "_%04d%02d%02d%02d%02d%02d%03d_ascend_pt", host,
                   e->main_process >= 0 ? e->main_process : (int64_t)e->rank,
                   (tm.tm_year + 1900) % 10000, tm.tm_mon % 12 + 1, tm.tm_mday % 32,
                   tm.tm_hour % 24, tm.tm_min % 60, tm.tm_sec % 61, (int)(ms < 0 ? 0 : ms % 1000));
}
