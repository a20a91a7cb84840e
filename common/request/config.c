/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler_config.json, in both of its dialects: the keys, their order and what they become.
 *
 *     torch_npu    step -1 = now, 0 = never; active, warmup; is_rank and rank_list; an experimental_config inside
 *     MindSpore    step -1 = never; start_step to stop_step, both recorded; everything at one level; numbers for
 *                  names are still taken; no warm-up, no ranks, no metadata
 */
#include "common/base/json_out.h"
#include "common/base/mem.h"
#include "common/request/config_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In documented order. Those without is_printed are accepted and not in the template (K-14, TN-104). */
static const struct config_key torch_npu_keys[] = {
    {"", "activities", F_ACTIVITIES, true},
    {"", "prof_dir", F_PROF_DIR, true},
    {"", "analyse", F_ANALYSE, true},
    {"", "async_mode", F_ASYNC_MODE, false},
    {"", "record_shapes", F_RECORD_SHAPES, true},
    {"", "profile_memory", F_PROFILE_MEMORY, true},
    {"", "with_stack", F_WITH_STACK, true},
    {"", "with_flops", F_WITH_FLOPS, true},
    {"", "with_modules", F_WITH_MODULES, true},
    {"", "active", F_ACTIVE, true},
    {"", "warmup", F_WARMUP, true},
    {"", "start_step", F_START_STEP, true},
    {"", "is_rank", F_IS_RANK, true},
    {"", "rank_list", F_RANK_LIST, true},
    {"experimental_config", "profiler_level", F_LEVEL, true},
    {"experimental_config", "aic_metrics", F_AIC, true},
    {"experimental_config", "l2_cache", F_L2_CACHE, true},
    {"experimental_config", "op_attr", F_OP_ATTR, true},
    {"experimental_config", "gc_detect_threshold", F_GC, true},
    {"experimental_config", "data_simplification", F_DATA_SIMPLIFICATION, true},
    {"experimental_config", "record_op_args", F_RECORD_OP_ARGS, true},
    {"experimental_config", "export_type", F_EXPORT_TYPE, true},
    {"experimental_config", "mstx", F_MSTX, true},
    {"experimental_config", "msprof_tx", F_MSTX, false},
    {"experimental_config", "mstx_domain_include", F_MSTX_INCLUDE, true},
    {"experimental_config", "mstx_domain_exclude", F_MSTX_EXCLUDE, true},
    {"experimental_config", "host_sys", F_HOST_SYS, true},
    {"experimental_config", "sys_io", F_SYS_IO, true},
    {"experimental_config", "sys_interconnection", F_SYS_INTERCONNECTION, true},
    {"", "metadata", F_METADATA, false},
    {NULL, NULL, FIELD_COUNT, false},
};

static const struct config_key mindspore_keys[] = {
    {"", "start_step", F_START_STEP, true},
    {"", "stop_step", F_ACTIVE, true},
    {"", "aic_metrics", F_AIC, true},
    {"", "profiler_level", F_LEVEL, true},
    {"", "analyse_mode", F_ANALYSE_MODE, true},
    {"", "activities", F_ACTIVITIES, true},
    {"", "export_type", F_EXPORT_TYPE, true},
    {"", "profile_memory", F_PROFILE_MEMORY, true},
    {"", "mstx", F_MSTX, true},
    {"", "parallel_strategy", F_PARALLEL_STRATEGY, true},
    {"", "with_stack", F_WITH_STACK, true},
    {"", "data_simplification", F_DATA_SIMPLIFICATION, true},
    {"", "l2_cache", F_L2_CACHE, true},
    {"", "analyse", F_ANALYSE, true},
    {"", "record_shapes", F_RECORD_SHAPES, true},
    {"", "prof_path", F_PROF_DIR, true},
    {"", "mstx_domain_include", F_MSTX_INCLUDE, true},
    {"", "mstx_domain_exclude", F_MSTX_EXCLUDE, true},
    {"", "host_sys", F_HOST_SYS, true},
    {"", "sys_io", F_SYS_IO, true},
    {"", "sys_interconnection", F_SYS_INTERCONNECTION, true},
    {NULL, NULL, FIELD_COUNT, false},
};

const struct config_key *config_keys(enum rs_config_framework framework)
{
    return framework == RS_CONFIG_MINDSPORE ? mindspore_keys : torch_npu_keys;
}

const struct config_key *config_key_find(enum rs_config_framework framework, const char *group,
                                         const char *name)
{
    const struct config_key *key = config_keys(framework);
    while (key->name && (strcmp(key->group, group) != 0 || strcmp(key->name, name) != 0))
        key++;
    return key->name ? key : NULL;
}

const char *rs_config_framework_name(enum rs_config_framework framework)
{
    switch (framework) {
    case RS_CONFIG_DETECT:
        return "auto";
    case RS_CONFIG_TORCH_NPU:
        return "torch_npu";
    case RS_CONFIG_MINDSPORE:
        return "mindspore";
    }
    return "?";
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* MindSpore's pair, until both are known. */
struct step_pair {
    int64_t start, stop;
    struct json_place start_place, stop_place;
    bool is_wrong; /* of type: told already */
};

struct config_reading {
    struct reading reading;
    enum rs_config_framework framework;
    struct step_pair pair;
    bool has_mstx, has_msprof_tx; /* values */
};

static enum rs_config_framework detect(const json_t *root)
{
    static const char *const only_mindspore[] = {"stop_step",      "analyse_mode",
                                                 "prof_path",      "parallel_strategy",
                                                 "profiler_level", "aic_metrics"};
    for (size_t i = 0; i < sizeof only_mindspore / sizeof only_mindspore[0]; i++)
        if (json_object_get(root, only_mindspore[i]))
            return RS_CONFIG_MINDSPORE;
    return RS_CONFIG_TORCH_NPU;
}

const char *config_numbered_name(size_t field, json_int_t number)
{
    static const char *const levels[] = {"Level_none", "Level0", "Level1", "Level2"};
    static const char *const metrics[] = {
        "PipeUtilization", "ArithmeticUtilization", "Memory",  "MemoryL0",
        "MemoryUB",        "ResourceConflictRatio", "L2Cache", "MemoryAccess"};
    if (field == F_LEVEL)
        return number >= -1 && number <= 2 ? levels[number + 1] : NULL;
    if (field == F_AIC && number == -1)
        return "AiCoreNone";
    if (field == F_AIC)
        return number >= 0 && number < 8 ? metrics[number] : NULL;
    return NULL;
}

/* MindSpore's numbers for names: the same value by its name, or NULL when the number is none. A set's number
 * means 0 the first of `names` with the second, 1 the first, 2 the second for activities; text, db, both for export_type. */
static json_t *renamed(size_t field, const json_t *value)
{
    const json_int_t number = json_integer_value(value);
    if (field == F_ACTIVITIES)
        return number == 0   ? json_pack("[ss]", "CPU", "NPU")
               : number == 1 ? json_pack("[s]", "CPU")
               : number == 2 ? json_pack("[s]", "NPU")
                             : NULL;
    if (field == F_EXPORT_TYPE)
        return number == 0   ? json_pack("[s]", "text")
               : number == 1 ? json_pack("[s]", "db")
               : number == 2 ? json_pack("[ss]", "text", "db")
                             : NULL;
    const char *name = config_numbered_name(field, number);
    return name ? json_string(name) : NULL;
}

static void read_numbered(struct config_reading *config, const struct config_key *key,
                          json_t *value)
{
    struct reading *reading = &config->reading;
    json_t *named = renamed(key->field, value);
    if (!named) {
        note_at(reading->notes, RS_RULE_UNKNOWN_NAME, key->name, &reading->walk.place,
                "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        json_walk_skip(&reading->walk);
        return;
    }
    note_at(reading->notes, RS_RULE_NUMBERED_NAME, key->name, &reading->walk.place,
            "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    reading_value(reading, key->field, key->name, named);
    json_decref(named);
}

static void read_step(struct config_reading *config, const struct config_key *key,
                      const json_t *value)
{
    struct reading *reading = &config->reading;
    const bool is_start = key->field == F_START_STEP;
    struct json_place *place = is_start ? &config->pair.start_place : &config->pair.stop_place;
    *place = reading->walk.place;
    if (is_start) {
        reading->places[F_START_STEP] = *place;
        (void)snprintf(reading->keys[F_START_STEP], sizeof reading->keys[0], "%s", key->name);
    } else {
        reading->places[F_ACTIVE] = *place;
        (void)snprintf(reading->keys[F_ACTIVE], sizeof reading->keys[0], "%s", key->name);
    }
    if (!json_is_integer(value)) {
        note_at(reading->notes, RS_RULE_WRONG_TYPE, key->name, place, "expected a whole number");
        config->pair.is_wrong = true;
    } else if (is_start) {
        config->pair.start = json_integer_value(value);
    } else {
        config->pair.stop = json_integer_value(value);
    }
    json_walk_skip(&reading->walk);
}

/* start..stop, both recorded -> start_step and active. The profiler's -1 is the request's 0. */
static void take_pair(struct config_reading *config)
{
    const struct step_pair *pair = &config->pair;
    struct rs_capture_request *request = config->reading.request;
    if (pair->is_wrong || (pair->start == -1 && pair->stop == -1))
        return;
    if (pair->start < 1 || pair->stop < pair->start || pair->stop - pair->start >= INT32_MAX ||
        pair->start > request_fields[F_START_STEP].max) {
        const struct json_place *place =
            pair->start_place.line ? &pair->start_place : &pair->stop_place;
        note_at(config->reading.notes, RS_RULE_STEP_PAIR, "start_step", place,
                "found %" PRId64 " and %" PRId64, pair->start, pair->stop);
        return;
    }
    request->start_step = pair->start;
    request->schedule.active = (uint32_t)(pair->stop - pair->start + 1);
}

static void read_mstx(struct config_reading *config, const struct config_key *key, json_t *value)
{
    struct reading *reading = &config->reading;
    const bool is_old = strcmp(key->name, "msprof_tx") == 0;
    bool *mstx = &reading->request->experimental.mstx;
    if (is_old)
        note_at(reading->notes, RS_RULE_MSPROF_TX, key->name, &reading->walk.place, NO_DETAIL);
    *mstx = false;
    reading_value(reading, F_MSTX, key->name, value);
    *(is_old ? &config->has_msprof_tx : &config->has_mstx) = *mstx;
    *mstx = config->has_mstx || config->has_msprof_tx;
}

static bool takes_numbers(const struct config_reading *config, size_t field)
{
    return config->framework == RS_CONFIG_MINDSPORE &&
           (field == F_LEVEL || field == F_AIC || field == F_ACTIVITIES || field == F_EXPORT_TYPE);
}

/* MindSpore spells two names its own way; they are read as ours. */
static json_t *respelled(const struct config_reading *config, size_t field, const json_t *value)
{
    const char *text = json_string_value(value);
    if (config->framework != RS_CONFIG_MINDSPORE || !text)
        return NULL;
    const char *dot = strrchr(text, '.');
    if (field == F_LEVEL && strcmp(dot ? dot + 1 : text, "LevelNone") == 0)
        return json_string("Level_none");
    if (field == F_AIC && strncmp(text, "AicoreMetrics.", 14) == 0)
        return json_string(text + 14);
    return NULL;
}

static void read_key(struct config_reading *config, const struct config_key *key, json_t *value)
{
    const bool is_mindspore = config->framework == RS_CONFIG_MINDSPORE;
    if (is_mindspore && (key->field == F_START_STEP || key->field == F_ACTIVE)) {
        read_step(config, key, value);
    } else if (key->field == F_MSTX) {
        read_mstx(config, key, value);
    } else if (takes_numbers(config, key->field) && json_is_integer(value)) {
        read_numbered(config, key, value);
    } else {
        char path[RS_REQUEST_MEMBER_BYTES];
        json_t *other = respelled(config, key->field, value);
        (void)snprintf(path, sizeof path, "%s%s%s", key->group, *key->group ? "." : "", key->name);
        reading_value(&config->reading, key->field, path, other ? other : value);
        json_decref(other);
    }
}

static void unknown_key(struct config_reading *config, const char *group, const char *name,
                        const struct json_place *place)
{
    const char *names[64];
    size_t count = 0;
    for (const struct config_key *key = config_keys(config->framework); key->name; key++)
        if (strcmp(key->group, group) == 0)
            names[count++] = key->name;
    if (!*group && config->framework == RS_CONFIG_TORCH_NPU)
        names[count++] = "experimental_config";
    names[count] = NULL;
    reading_unknown(&config->reading, name, place, names);
}

static void read_object(struct config_reading *config, const char *group, json_t *object)
{
    struct json_walk *walk = &config->reading.walk;
    const char *name;
    json_t *value;
    json_walk_enter(walk);
    json_object_foreach(object, name, value)
    {
        struct json_place place;
        if (!json_walk_member(walk, &place))
            break;
        const struct config_key *key = config_key_find(config->framework, group, name);
        const bool is_inner = !*group && config->framework == RS_CONFIG_TORCH_NPU &&
                              strcmp(name, "experimental_config") == 0;
        if (key) {
            read_key(config, key, value);
        } else if (is_inner && json_is_object(value)) {
            read_object(config, name, value);
        } else if (is_inner) {
            note_at(config->reading.notes, RS_RULE_WRONG_TYPE, name, &walk->place,
                    "expected an object");
            json_walk_skip(walk);
        } else {
            unknown_key(config, group, name, &place);
            json_walk_skip(walk);
        }
    }
    json_walk_leave(walk);
}

static enum rs_status read_root(struct config_reading *config, json_t *root)
{
    struct rs_capture_request *request = config->reading.request;
    struct rs_request_notes *notes = config->reading.notes;
    const bool is_mindspore = config->framework == RS_CONFIG_MINDSPORE;
    enum rs_status status = rs_request_init(
        request, is_mindspore ? RS_DIALECT_MINDSPORE : RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE);
    if (status < 0)
        return status;
    const size_t first = notes->count;
    read_object(config, "", root);
    if (is_mindspore)
        take_pair(config);
    status = rs_request_check(request, NULL, notes);
    reading_place_notes(&config->reading, first);
    return status;
}

enum rs_status rs_request_from_config(const char *text, size_t length,
                                      enum rs_config_framework *framework_p,
                                      struct rs_capture_request *request,
                                      struct rs_request_notes *notes, struct rs_err *err)
{
    struct config_reading config = {
        .reading = {.request = request, .notes = notes, .is_config = true},
        .pair = {.start = -1, .stop = -1},
    };
    json_t *root = NULL;
    memset(request, 0, sizeof *request);
    enum rs_status status = reading_open(&config.reading, text, length, &root);
    if (status == RS_OK) {
        if (*framework_p == RS_CONFIG_DETECT)
            *framework_p = detect(root);
        config.framework = *framework_p;
        status = read_root(&config, root);
        json_decref(root);
    }
    if (status == RS_NOMEM)
        notes->failed = true;
    status = reading_result(notes, err);
    if (status < 0)
        rs_request_fini(request);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_activities(const struct rs_capture_request *request, struct rs_json_out *json)
{
    const uint32_t set = request->activities & (RS_ACTIVITY_CPU | RS_ACTIVITY_NPU);
    rs_json_out_array(json);
    if (!set || set & RS_ACTIVITY_CPU)
        rs_json_out_string(json, "CPU");
    if (!set || set & RS_ACTIVITY_NPU)
        rs_json_out_string(json, "NPU");
    rs_json_out_end(json);
}

static void write_aic(const struct rs_capture_request *request, struct rs_json_out *json)
{
    const struct field *field = &request_fields[F_AIC];
    const enum rs_aic_metrics said = request->experimental.aic_metrics;
    rs_json_out_string(json, field_name_of(field->names, said == RS_AIC_BY_LEVEL
                                                             ? rs_request_aic_metrics(request)
                                                             : said));
}

static void write_mindspore_step(const struct rs_capture_request *request, bool is_start,
                                 struct rs_json_out *json)
{
    if (!request->start_step)
        rs_json_out_int(json, -1);
    else
        rs_json_out_int(json, is_start ? request->start_step
                                       : request->start_step + request->schedule.active - 1);
}

static void write_key(const struct rs_capture_request *request, enum rs_config_framework framework,
                      const struct config_key *key, struct rs_json_out *json)
{
    const bool is_mindspore = framework == RS_CONFIG_MINDSPORE;
    rs_json_out_key(json, key->name);
    if (key->field == F_ACTIVITIES)
        write_activities(request, json);
    else if (key->field == F_AIC)
        write_aic(request, json);
    else if (key->field == F_WARMUP)
        rs_json_out_uint(json, request->schedule.warmup.value);
    else if (is_mindspore && (key->field == F_START_STEP || key->field == F_ACTIVE))
        write_mindspore_step(request, key->field == F_START_STEP, json);
    else if (is_mindspore && key->field == F_LEVEL &&
             request->experimental.profiler_level == RS_LEVEL_NONE)
        rs_json_out_string(json, "LevelNone");
    else
        field_write(&request_fields[key->field], request, json);
}

/* Keys outside the template are written when they say something. */
static bool is_wanted(const struct rs_capture_request *request, const struct config_key *key)
{
    if (key->is_printed)
        return true;
    if (key->field == F_ASYNC_MODE)
        return request->async_mode;
    return key->field == F_METADATA && request->metadata.count > 0;
}

enum rs_status rs_request_to_config(const struct rs_capture_request *request,
                                    enum rs_config_framework framework, struct rs_buf *buf,
                                    struct rs_err *err)
{
    struct rs_json_out json;
    const char *group = "";
    if (framework == RS_CONFIG_MINDSPORE && request->start_step < 0)
        return rs_err_set(
            err, RS_INVALID,
            "MindSpore's file has no \"next step\": -1 means never there; fix a step");
    rs_json_out_init(&json, buf, 4);
    rs_json_out_object(&json);
    for (const struct config_key *key = config_keys(framework); key->name; key++) {
        if (!is_wanted(request, key))
            continue;
        if (strcmp(group, key->group) != 0) {
            if (*group)
                rs_json_out_end(&json);
            group = key->group;
            if (*group) {
                rs_json_out_key(&json, group);
                rs_json_out_object(&json);
            }
        }
        write_key(request, framework, key, &json);
    }
    if (*group)
        rs_json_out_end(&json);
    rs_json_out_end(&json);
    rs_buf_u8(buf, '\n');
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for a configuration") : RS_OK;
}
