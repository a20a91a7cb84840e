/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request itself: every field of the design is in the struct, its document and the schema; both files of
 * the frameworks go in and out without loss; an edit touches what it names and nothing else.
 */
#include "common/request/request.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of section D1 of the design, by the names of the document. */
static const char *const design_fields[] = {"capture_id",
                                            "dialect",
                                            "origin",
                                            "job_id",
                                            "is_rank",
                                            "rank_list",
                                            "start_step",
                                            "max_step",
                                            "schedule.wait",
                                            "schedule.warmup",
                                            "schedule.active",
                                            "schedule.repeat",
                                            "schedule.skip_first",
                                            "activities",
                                            "record_shapes",
                                            "with_stack",
                                            "with_modules",
                                            "with_flops",
                                            "profile_memory",
                                            "experimental.export_type",
                                            "experimental.profiler_level",
                                            "experimental.aic_metrics",
                                            "experimental.l2_cache",
                                            "experimental.op_attr",
                                            "experimental.record_op_args",
                                            "experimental.sys_io",
                                            "experimental.sys_interconnection",
                                            "experimental.data_simplification",
                                            "experimental.gc_detect_threshold_ms",
                                            "experimental.mstx",
                                            "experimental.mstx_domain_include",
                                            "experimental.mstx_domain_exclude",
                                            "experimental.host_sys",
                                            "experimental.extra",
                                            "sample_hz",
                                            "mindspore.op_time",
                                            "mindspore.profile_communication",
                                            "mindspore.aicore_metrics",
                                            "mindspore.parallel_strategy",
                                            "mindspore.data_process",
                                            "mindspore.start_profile",
                                            "mindspore.sync_enable",
                                            "mindspore.profile_framework",
                                            "timeline_limit_mb",
                                            "prof_dir",
                                            "spool_dir",
                                            "worker_name",
                                            "analyse",
                                            "async_mode",
                                            "aggregate",
                                            "use_gzip",
                                            "pretty",
                                            "max_duration_s",
                                            "headroom_factor",
                                            "metadata",
                                            "env_allow"};

/* A value other than the default for every member, so that nothing can be forgotten on the way. */
static const struct {
    const char *member, *value;
} other_values[] = {{"capture_id", "c-1"},
                    {"dialect", "torch"},
                    {"origin", "api"},
                    {"job_id", "job 7"},
                    {"ranks", "0-7"},
                    {"is_rank", "true"},
                    {"rank_list", "1,3-5"},
                    {"start_step", "120"},
                    {"max_step", "9007199254740992"},
                    {"start_time_ns", "0"},
                    {"duration_ms", "1500"},
                    {"schedule.wait", "1"},
                    {"schedule.warmup", "2"},
                    {"schedule.active", "3"},
                    {"schedule.repeat", "4"},
                    {"schedule.skip_first", "5"},
                    {"activities", "CPU,CUDA"},
                    {"record_shapes", "true"},
                    {"with_stack", "true"},
                    {"with_modules", "true"},
                    {"with_flops", "true"},
                    {"profile_memory", "true"},
                    {"experimental.export_type", "text,db"},
                    {"experimental.profiler_level", "Level2"},
                    {"experimental.aic_metrics", "MemoryUB"},
                    {"experimental.l2_cache", "true"},
                    {"experimental.op_attr", "true"},
                    {"experimental.record_op_args", "true"},
                    {"experimental.sys_io", "true"},
                    {"experimental.sys_interconnection", "true"},
                    {"experimental.data_simplification", "false"},
                    {"experimental.gc_detect_threshold_ms", "0.1"},
                    {"experimental.mstx", "true"},
                    {"experimental.mstx_domain_include", "a,b c"},
                    {"experimental.mstx_domain_exclude", "d"},
                    {"experimental.host_sys", "cpu,osrt"},
                    {"experimental.extra", "{\"k\":\"v \\\"q\\\"\"}"},
                    {"sample_hz", "50"},
                    {"mindspore.op_time", "false"},
                    {"mindspore.profile_communication", "true"},
                    {"mindspore.aicore_metrics", "-1"},
                    {"mindspore.parallel_strategy", "false"},
                    {"mindspore.data_process", "false"},
                    {"mindspore.start_profile", "false"},
                    {"mindspore.sync_enable", "false"},
                    {"mindspore.profile_framework", "none"},
                    {"mindspore.analyse_mode", "1"},
                    {"timeline_limit_mb", "7"},
                    {"prof_dir", "/a/b"},
                    {"spool_dir", "/c"},
                    {"worker_name", "w_{rank}"},
                    {"analyse", "true"},
                    {"async_mode", "true"},
                    {"aggregate", "false"},
                    {"use_gzip", "true"},
                    {"pretty", "true"},
                    {"max_duration_s", "60"},
                    {"headroom_factor", "3"},
                    {"force", "true"},
                    {"on_busy", "refuse"},
                    {"roundup", "500"},
                    {"timeout_ms", "60000"},
                    {"metadata", "{\"lr\": 0.1, \"distributed_args\": {\"tp\": 2, \"dp\": 4}}"},
                    {"env_allow", "HCCL_ALGO"}};

static void set(struct rs_capture_request *request, const char *member, const char *value)
{
    struct rs_request_notes notes = {0};
    if (rs_request_set(request, member, value, &notes) != RS_OK)
        fail_msg("%s=%s: %s %s", member, value, notes.items[0].field, notes.items[0].text);
    rs_request_notes_fini(&notes);
}

static json_t *parse(const char *text)
{
    json_error_t wrong;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
    if (!root)
        fail_msg("line %d: %s in %s", wrong.line, wrong.text, text);
    return root;
}

/* The value of "schedule.active"; in a schema, below "properties". */
static json_t *get(json_t *root, const char *path, bool is_schema)
{
    char group[64];
    const char *dot = strchr(path, '.');
    if (!dot)
        return json_object_get(is_schema ? json_object_get(root, "properties") : root, path);
    (void)snprintf(group, sizeof group, "%.*s", (int)(dot - path), path);
    return get(get(root, group, is_schema), dot + 1, is_schema);
}

static json_t *document_of(const struct rs_capture_request *request)
{
    struct rs_buf buf = {0};
    rs_request_to_json(request, 0, &buf);
    json_t *root = parse(rs_buf_text(&buf));
    rs_buf_fini(&buf);
    return root;
}

static void every_field_of_the_design_is_everywhere(void **state)
{
    (void)state;
    struct rs_capture_request request;
    struct rs_buf text = {0};
    struct rs_err err = {0};
    if (rs_file_read("docs/schema/capture_request.schema.json", 1 << 20, &text, &err) != RS_OK)
        fail_msg("%s", err.text);
    json_t *schema = parse(rs_buf_text(&text));
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE));
    json_t *document = document_of(&request);
    for (size_t i = 0; i < sizeof design_fields / sizeof design_fields[0]; i++) {
        char member[RS_REQUEST_MEMBER_BYTES];
        bool is_member = false;
        for (size_t m = 0; rs_request_member(m, member) && !is_member; m++)
            is_member = strcmp(member, design_fields[i]) == 0;
        if (!is_member || !get(document, design_fields[i], false) ||
            !get(schema, design_fields[i], true))
            fail_msg("%s is missing", design_fields[i]);
    }
    char member[RS_REQUEST_MEMBER_BYTES];
    for (size_t m = 0; rs_request_member(m, member);
         m++) { /* and those of ours, with their defaults */
        const json_t *property = get(schema, member, true);
        if (!property || !json_string_value(json_object_get(property, "description")) ||
            !json_equal(json_object_get(property, "default"), get(document, member, false)))
            fail_msg("%s: the schema says another default", member);
    }
    json_decref(schema);
    json_decref(document);
    rs_request_fini(&request);
    rs_buf_fini(&text);
}

static void defaults_are_those_of_the_documents(void **state)
{
    (void)state;
    struct rs_capture_request r;
    assert_ok(rs_request_init(&r, RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE));
    assert_int_equal(r.start_step, 0);
    assert_int_equal(r.schedule.active, 1);
    assert_int_equal(r.schedule.repeat, 1);
    assert_false(r.analyse);
    assert_true(r.experimental.data_simplification); /* K-01 */
    assert_int_equal(rs_request_aic_metrics(&r), RS_AIC_NONE);
    r.experimental.profiler_level = RS_LEVEL_1;
    assert_int_equal(rs_request_aic_metrics(&r), RS_AIC_PIPE_UTILIZATION);
    r.experimental.aic_metrics = RS_AIC_MEMORY;
    assert_int_equal(rs_request_aic_metrics(&r), RS_AIC_MEMORY);
    r.experimental.profiler_level = RS_LEVEL_0;
    assert_int_equal(rs_request_aic_metrics(&r), RS_AIC_NONE); /* K-19 */
    assert_string_equal(r.prof_dir, "./");
    assert_int_equal(r.env_allow.count, 4);
    rs_request_fini(&r);
    assert_ok(rs_request_init(&r, RS_DIALECT_MINDSPORE, RS_ORIGIN_API));
    assert_string_equal(r.prof_dir, "./data");
    assert_int_equal(r.schedule.repeat, 0);
    assert_true(r.analyse); /* K-18 */
    assert_true(r.mindspore.parallel_strategy);
    assert_int_equal(r.mindspore.aicore_metrics, 0);
    rs_request_fini(&r);
    assert_ok(rs_request_init(&r, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    assert_int_equal(r.start_step, -1);
    r.analyse = r.is_rank = true;
    assert_false(rs_request_analyses(&r));
    r.async_mode = true;
    assert_true(rs_request_analyses(&r));
    rs_request_fini(&r);
}

static void every_member_survives_its_document(void **state)
{
    (void)state;
    struct rs_capture_request request, again;
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    struct rs_buf first = {0}, second = {0};
    char member[RS_REQUEST_MEMBER_BYTES];
    size_t members = 0;
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
    for (size_t i = 0; i < sizeof other_values / sizeof other_values[0]; i++)
        set(&request, other_values[i].member, other_values[i].value);
    while (rs_request_member(members, member)) {
        assert_string_equal(member, other_values[members].member); /* none is left out */
        members++;
    }
    assert_int_equal(members, sizeof other_values / sizeof other_values[0]);
    rs_request_to_json(&request, 2, &first);
    if (rs_request_from_json(rs_buf_text(&first), first.length, &again, &notes, &err) != RS_OK)
        fail_msg("%s", err.text);
    assert_true(rs_request_equal(&request, &again));
    rs_request_to_json(&again, 2, &second);
    assert_string_equal(rs_buf_text(&first), rs_buf_text(&second));
    assert_non_null(strstr(rs_buf_text(&first), "\"lr\": 0.1,")); /* digits as they were */
    rs_request_fini(&request);
    rs_request_fini(&again);
    rs_request_notes_fini(&notes);
    rs_buf_fini(&first);
    rs_buf_fini(&second);
}

static void a_change_of_any_member_is_seen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof other_values / sizeof other_values[0]; i++) {
        struct rs_capture_request a, b;
        assert_ok(rs_request_init(&a, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
        assert_ok(rs_request_init(&b, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
        assert_true(rs_request_equal(&a, &b));
        const bool is_default = strcmp(other_values[i].member, "start_time_ns") == 0;
        set(&b, other_values[i].member, is_default ? "5" : other_values[i].value);
        if (rs_request_equal(&a, &b))
            fail_msg("%s is not compared", other_values[i].member);
        rs_request_fini(&a);
        rs_request_fini(&b);
    }
}

static void a_document_with_unknown_members_is_refused(void **state)
{
    (void)state;
    static const char text[] =
        "{\n \"schedule\": {\"actve\": 2},\n \"wramup\": 1,\n \"mindspore\": 5\n}";
    struct rs_capture_request request;
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    assert_status(rs_request_from_json(text, strlen(text), &request, &notes, &err), RS_INVALID);
    assert_int_equal(notes.refusal_count, 3);
    assert_int_equal(notes.items[0].line, 2);
    assert_int_equal(notes.items[0].column, 15);
    assert_string_equal(notes.items[0].text, "did you mean \"active\"?");
    assert_int_equal(notes.items[1].line, 3);
    assert_int_equal(notes.items[2].rule, RS_RULE_WRONG_TYPE);
    assert_non_null(strstr(err.text, "line 2, column 15: actve"));
    rs_request_notes_fini(&notes);
    struct rs_capture_request zero;
    memset(&zero, 0, sizeof zero);
    assert_memory_equal(&request, &zero, sizeof zero);
}

/* ---- profiler_config.json ------------------------------------------------------------------------------------------ */

static struct rs_capture_request from_config(const char *text, enum rs_config_framework framework)
{
    struct rs_capture_request request;
    struct rs_request_notes notes = {0};
    struct rs_err err = {0};
    if (rs_request_from_config(text, strlen(text), &framework, &request, &notes, &err) != RS_OK)
        fail_msg("%s: %s", text, err.text);
    rs_request_notes_fini(&notes);
    return request;
}

/* Which member a key of the file becomes, by its text in the document. */
static const struct {
    enum rs_config_framework framework;
    const char *group, *key, *value, *member, *expected;
} keys[] = {
    {RS_CONFIG_TORCH_NPU, "", "activities", "[\"npu\"]", "activities", "[\"NPU\"]"},
    {RS_CONFIG_TORCH_NPU, "", "prof_dir", "\"/a/b\"", "prof_dir", "\"/a/b\""},
    {RS_CONFIG_TORCH_NPU, "", "analyse", "true", "analyse", "true"},
    {RS_CONFIG_TORCH_NPU, "", "async_mode", "true", "async_mode", "true"},
    {RS_CONFIG_TORCH_NPU, "", "record_shapes", "true", "record_shapes", "true"},
    {RS_CONFIG_TORCH_NPU, "", "profile_memory", "true", "profile_memory", "true"},
    {RS_CONFIG_TORCH_NPU, "", "with_stack", "true", "with_stack", "true"},
    {RS_CONFIG_TORCH_NPU, "", "with_flops", "true", "with_flops", "true"},
    {RS_CONFIG_TORCH_NPU, "", "with_modules", "true", "with_modules", "true"},
    {RS_CONFIG_TORCH_NPU, "", "active", "3", "schedule.active", "3"},
    {RS_CONFIG_TORCH_NPU, "", "warmup", "2", "schedule.warmup", "2"},
    {RS_CONFIG_TORCH_NPU, "", "start_step", "-1", "start_step", "-1"},
    {RS_CONFIG_TORCH_NPU, "", "is_rank", "true", "is_rank", "true"},
    {RS_CONFIG_TORCH_NPU, "", "rank_list", "[3,1,3]", "rank_list", "[1,3]"},
    {RS_CONFIG_TORCH_NPU, "", "metadata", "{\"a\": [1, 2.50]}", "metadata", "{\"a\":[1,2.50]}"},
    {RS_CONFIG_TORCH_NPU, "e", "profiler_level", "\"Level2\"", "experimental.profiler_level",
     "\"Level2\""},
    {RS_CONFIG_TORCH_NPU, "e", "profiler_level", "\"ProfilerLevel.Level_none\"",
     "experimental.profiler_level", "\"Level_none\""},
    {RS_CONFIG_TORCH_NPU, "e", "aic_metrics", "\"torch_npu.profiler.AiCMetrics.L2Cache\"",
     "experimental.aic_metrics", "\"L2Cache\""},
    {RS_CONFIG_TORCH_NPU, "e", "l2_cache", "true", "experimental.l2_cache", "true"},
    {RS_CONFIG_TORCH_NPU, "e", "op_attr", "true", "experimental.op_attr", "true"},
    {RS_CONFIG_TORCH_NPU, "e", "gc_detect_threshold", "0", "experimental.gc_detect_threshold_ms",
     "0.0"},
    {RS_CONFIG_TORCH_NPU, "e", "gc_detect_threshold", "1.5", "experimental.gc_detect_threshold_ms",
     "1.5"},
    {RS_CONFIG_TORCH_NPU, "e", "data_simplification", "false", "experimental.data_simplification",
     "false"},
    {RS_CONFIG_TORCH_NPU, "e", "record_op_args", "true", "experimental.record_op_args", "true"},
    {RS_CONFIG_TORCH_NPU, "e", "export_type", "[\"text\",\"Db\",\"db\"]",
     "experimental.export_type", "[\"text\",\"db\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "export_type", "\"db\"", "experimental.export_type", "[\"db\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "export_type", "[\"db\",\"xml\"]", "experimental.export_type",
     "[\"text\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "export_type", "[]", "experimental.export_type", "[\"text\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "mstx", "true", "experimental.mstx", "true"},
    {RS_CONFIG_TORCH_NPU, "e", "msprof_tx", "true", "experimental.mstx", "true"},
    {RS_CONFIG_TORCH_NPU, "e", "mstx_domain_include", "[\"a\",\"a\",\"b\"]",
     "experimental.mstx_domain_include", "[\"a\",\"b\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "mstx_domain_exclude", "[\"a\"]", "experimental.mstx_domain_exclude",
     "[\"a\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "host_sys", "[\"disk\",\"cpu\"]", "experimental.host_sys",
     "[\"cpu\",\"disk\"]"},
    {RS_CONFIG_TORCH_NPU, "e", "sys_io", "true", "experimental.sys_io", "true"},
    {RS_CONFIG_TORCH_NPU, "e", "sys_interconnection", "true", "experimental.sys_interconnection",
     "true"},
    {RS_CONFIG_MINDSPORE, "", "aic_metrics", "\"MemoryUB\"", "experimental.aic_metrics",
     "\"MemoryUB\""},
    {RS_CONFIG_MINDSPORE, "", "aic_metrics", "0", "experimental.aic_metrics",
     "\"PipeUtilization\""},
    {RS_CONFIG_MINDSPORE, "", "aic_metrics", "7", "experimental.aic_metrics", "\"MemoryAccess\""},
    {RS_CONFIG_MINDSPORE, "", "aic_metrics", "-1", "experimental.aic_metrics", "\"AiCoreNone\""},
    {RS_CONFIG_MINDSPORE, "", "profiler_level", "\"LevelNone\"", "experimental.profiler_level",
     "\"Level_none\""},
    {RS_CONFIG_MINDSPORE, "", "profiler_level", "-1", "experimental.profiler_level",
     "\"Level_none\""},
    {RS_CONFIG_MINDSPORE, "", "profiler_level", "2", "experimental.profiler_level", "\"Level2\""},
    {RS_CONFIG_MINDSPORE, "", "analyse_mode", "0", "mindspore.analyse_mode", "0"},
    {RS_CONFIG_MINDSPORE, "", "activities", "2", "activities", "[\"NPU\"]"},
    {RS_CONFIG_MINDSPORE, "", "activities", "0", "activities", "[\"CPU\",\"NPU\"]"},
    {RS_CONFIG_MINDSPORE, "", "export_type", "2", "experimental.export_type", "[\"text\",\"db\"]"},
    {RS_CONFIG_MINDSPORE, "", "profile_memory", "true", "profile_memory", "true"},
    {RS_CONFIG_MINDSPORE, "", "mstx", "true", "experimental.mstx", "true"},
    {RS_CONFIG_MINDSPORE, "", "parallel_strategy", "true", "mindspore.parallel_strategy", "true"},
    {RS_CONFIG_MINDSPORE, "", "with_stack", "true", "with_stack", "true"},
    {RS_CONFIG_MINDSPORE, "", "data_simplification", "false", "experimental.data_simplification",
     "false"},
    {RS_CONFIG_MINDSPORE, "", "l2_cache", "true", "experimental.l2_cache", "true"},
    {RS_CONFIG_MINDSPORE, "", "analyse", "true", "analyse", "true"},
    {RS_CONFIG_MINDSPORE, "", "record_shapes", "true", "record_shapes", "true"},
    {RS_CONFIG_MINDSPORE, "", "prof_path", "\"/p\"", "prof_dir", "\"/p\""},
    {RS_CONFIG_MINDSPORE, "", "mstx_domain_include", "[\"a\"]", "experimental.mstx_domain_include",
     "[\"a\"]"},
    {RS_CONFIG_MINDSPORE, "", "mstx_domain_exclude", "[\"a\"]", "experimental.mstx_domain_exclude",
     "[\"a\"]"},
    {RS_CONFIG_MINDSPORE, "", "host_sys", "[\"mem\"]", "experimental.host_sys", "[\"mem\"]"},
    {RS_CONFIG_MINDSPORE, "", "sys_io", "true", "experimental.sys_io", "true"},
    {RS_CONFIG_MINDSPORE, "", "sys_interconnection", "true", "experimental.sys_interconnection",
     "true"},
};

static void each_key_becomes_its_member_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[256];
        const bool is_inner = *keys[i].group;
        (void)snprintf(text, sizeof text, "{%s\"%s\": %s%s}",
                       is_inner ? "\"experimental_config\": {" : "", keys[i].key, keys[i].value,
                       is_inner ? "}" : "");
        struct rs_capture_request plain = from_config("{}", keys[i].framework);
        struct rs_capture_request request = from_config(text, keys[i].framework);
        json_t *before = document_of(&plain);
        json_t *after = document_of(&request);
        char *found = json_dumps(get(after, keys[i].member, false),
                                 JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(3));
        json_t *expected = json_loads(keys[i].expected, JSON_DECODE_ANY, NULL);
        json_t *value = get(after, keys[i].member, false);
        if (!json_equal(value, expected) &&
            !(json_is_number(value) && json_number_value(value) == json_number_value(expected)))
            fail_msg("%s: %s is %s", text, keys[i].member, found);
        char member[RS_REQUEST_MEMBER_BYTES];
        for (size_t m = 0; rs_request_member(m, member); m++)
            if (strcmp(member, keys[i].member) != 0 &&
                !json_equal(get(before, member, false), get(after, member, false)))
                fail_msg("%s changed %s", text, member);
        free(found);
        json_decref(expected);
        json_decref(before);
        json_decref(after);
        rs_request_fini(&plain);
        rs_request_fini(&request);
    }
}

static void no_key_of_the_templates_is_without_a_test(void **state)
{
    (void)state;
    static const enum rs_config_framework frameworks[] = {RS_CONFIG_TORCH_NPU, RS_CONFIG_MINDSPORE};
    static const size_t counts[] = {14, 21};
    for (size_t f = 0; f < 2; f++) {
        struct rs_capture_request request;
        struct rs_buf buf = {0};
        assert_ok(rs_request_init(&request, f ? RS_DIALECT_MINDSPORE : RS_DIALECT_ASCEND,
                                  RS_ORIGIN_CONFIG_FILE));
        assert_ok(rs_request_to_config(&request, frameworks[f], &buf, NULL));
        json_t *root = parse(rs_buf_text(&buf));
        assert_int_equal(json_object_size(root), counts[f]);
        json_t *inner = json_object_get(root, "experimental_config");
        assert_int_equal(json_object_size(inner), f ? 0 : 14);
        const char *key;
        json_t *value;
        json_object_foreach(root, key, value)
        {
            bool is_tested = value == inner || strcmp(key, "stop_step") == 0 ||
                             (f && strcmp(key, "start_step") == 0); /* the pair has its own test */
            for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
                is_tested = is_tested ||
                            (keys[i].framework == frameworks[f] && strcmp(keys[i].key, key) == 0);
            if (!is_tested)
                fail_msg("%s", key);
        }
        json_object_foreach(inner, key, value)
        {
            bool is_tested = false;
            for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
                is_tested = is_tested || (*keys[i].group && strcmp(keys[i].key, key) == 0);
            if (!is_tested)
                fail_msg("%s", key);
        }
        json_decref(root);
        rs_buf_fini(&buf);
        rs_request_fini(&request);
    }
}

static void the_template_is_the_documented_one(void **state)
{
    (void)state;
    static const char documented[] =
        "{\"activities\":[\"CPU\",\"NPU\"],\"prof_dir\":\"./\",\"analyse\":false,"
        "\"record_shapes\":false,\"profile_memory\":false,\"with_stack\":false,"
        "\"with_flops\":false,\"with_modules\":false,\"active\":1,\"warmup\":0,\"start_step\":0,"
        "\"is_rank\":false,\"rank_list\":[],\"experimental_config\":{\"profiler_level\":\"Level0\","
        "\"aic_metrics\":\"AiCoreNone\",\"l2_cache\":false,\"op_attr\":false,"
        "\"gc_detect_threshold\":null,\"data_simplification\":true,\"record_op_args\":false,"
        "\"export_type\":[\"text\"],\"mstx\":false,\"mstx_domain_include\":[],"
        "\"mstx_domain_exclude\":[],\"host_sys\":[],\"sys_io\":false,"
        "\"sys_interconnection\":false}}";
    struct rs_capture_request request;
    struct rs_buf buf = {0};
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE));
    assert_ok(rs_request_to_config(&request, RS_CONFIG_TORCH_NPU, &buf, NULL));
    json_t *root = parse(rs_buf_text(&buf));
    char *compact = json_dumps(root, JSON_COMPACT); /* in the order of the text */
    assert_string_equal(compact, documented);
    free(compact);
    json_decref(root);
    rs_buf_fini(&buf);
    rs_request_fini(&request);
}

static void mindspore_steps_are_a_pair(void **state)
{
    (void)state;
    struct rs_capture_request r =
        from_config("{\"start_step\": 25, \"stop_step\": 27}", RS_CONFIG_MINDSPORE);
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    assert_int_equal(r.start_step, 25);
    assert_int_equal(r.schedule.active, 3);
    assert_ok(rs_request_to_config(&r, RS_CONFIG_MINDSPORE, &buf, &err));
    assert_non_null(strstr(rs_buf_text(&buf), "\"start_step\": 25,\n    \"stop_step\": 27,"));
    rs_buf_reset(&buf);
    r.start_step = -1;
    assert_status(rs_request_to_config(&r, RS_CONFIG_MINDSPORE, &buf, &err), RS_INVALID);
    assert_int_equal(buf.length, 0);
    rs_request_fini(&r);
    r = from_config("{\"start_step\": -1, \"stop_step\": -1}", RS_CONFIG_MINDSPORE);
    assert_int_equal(r.start_step, 0); /* never */
    rs_request_fini(&r);
    rs_buf_fini(&buf);
}

static void the_framework_is_seen_by_its_keys(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum rs_config_framework framework;
    } examples[] = {{"{}", RS_CONFIG_TORCH_NPU},
                    {"{\"active\": 1}", RS_CONFIG_TORCH_NPU},
                    {"{\"start_step\": 1, \"stop_step\": 2}", RS_CONFIG_MINDSPORE},
                    {"{\"prof_path\": \"./\"}", RS_CONFIG_MINDSPORE}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        enum rs_config_framework framework = RS_CONFIG_DETECT;
        struct rs_capture_request request;
        struct rs_request_notes notes = {0};
        assert_ok(rs_request_from_config(examples[i].text, strlen(examples[i].text), &framework,
                                         &request, &notes, NULL));
        assert_int_equal(framework, examples[i].framework);
        rs_request_notes_fini(&notes);
        rs_request_fini(&request);
    }
}

static void what_is_written_reads_back_the_same(void **state)
{
    (void)state;
    static const char *const members[] = {"activities=CPU",
                                          "prof_dir=/a",
                                          "analyse=true",
                                          "async_mode=true",
                                          "record_shapes=true",
                                          "profile_memory=true",
                                          "with_stack=true",
                                          "with_flops=true",
                                          "with_modules=true",
                                          "schedule.active=3",
                                          "schedule.warmup=1",
                                          "start_step=100",
                                          "is_rank=true",
                                          "rank_list=1,2",
                                          "experimental.profiler_level=Level1",
                                          "experimental.aic_metrics=Memory",
                                          "experimental.l2_cache=true",
                                          "experimental.op_attr=true",
                                          "experimental.gc_detect_threshold_ms=0.3",
                                          "experimental.data_simplification=false",
                                          "experimental.record_op_args=true",
                                          "experimental.export_type=db",
                                          "experimental.mstx=true",
                                          "experimental.mstx_domain_include=a",
                                          "experimental.host_sys=cpu,mem",
                                          "experimental.sys_io=true",
                                          "experimental.sys_interconnection=true",
                                          "metadata={\"a\": {\"b\": \"\\u00e9 \\\" x\"}}"};
    struct rs_capture_request request;
    struct rs_buf buf = {0};
    assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CONFIG_FILE));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        char member[64];
        const size_t length = strcspn(members[i], "=");
        (void)snprintf(member, sizeof member, "%.*s", (int)length, members[i]);
        set(&request, member, members[i] + length + 1);
    }
    assert_ok(rs_request_to_config(&request, RS_CONFIG_TORCH_NPU, &buf, NULL));
    struct rs_capture_request again = from_config(rs_buf_text(&buf), RS_CONFIG_TORCH_NPU);
    assert_true(rs_request_equal(&request, &again));
    rs_request_fini(&request);
    rs_request_fini(&again);
    rs_buf_fini(&buf);
}

/* ---- edits ----------------------------------------------------------------------------------------------------------- */

static enum rs_status edit(const char *text, enum rs_config_framework framework, const char *key,
                           const char *value, struct rs_buf *buf, struct rs_err *err)
{
    const struct rs_config_text config = {text, strlen(text), framework};
    return rs_request_config_edit(&config, key, value, buf, err);
}

static void an_edit_touches_what_it_names(void **state)
{
    (void)state;
    static const struct {
        enum rs_config_framework framework;
        const char *text, *key, *value, *expected;
    } examples[] = {
        {RS_CONFIG_TORCH_NPU, "{ \"active\" :  1 ,\"warmup\":0 }", "active", "30",
         "{ \"active\" :  30 ,\"warmup\":0 }"},
        {RS_CONFIG_TORCH_NPU, "{\n  \"active\": 1\n}\n", "warmup", "2",
         "{\n  \"active\": 1,\n  \"warmup\": 2\n}\n"},
        {RS_CONFIG_TORCH_NPU, "{\r\n\t\"active\": 1\r\n}", "warmup", "2",
         "{\r\n\t\"active\": 1,\r\n\t\"warmup\": 2\r\n}"},
        {RS_CONFIG_TORCH_NPU, "{}", "active", "2", "{\"active\": 2}"},
        {RS_CONFIG_TORCH_NPU, "{\"active\": 1}", "mstx", "true",
         "{\"active\": 1, \"experimental_config\": {\"mstx\": true}}"},
        {RS_CONFIG_TORCH_NPU, "{\"experimental_config\": {\"mstx\": false, \"op_attr\": true}}",
         "experimental_config.mstx", "true",
         "{\"experimental_config\": {\"mstx\": true, \"op_attr\": true}}"},
        {RS_CONFIG_TORCH_NPU, "{\"rank_list\": [1, [2]], \"active\": 1}", "rank_list", "5",
         "{\"rank_list\": [5], \"active\": 1}"},
        {RS_CONFIG_TORCH_NPU, "{\"rank_list\": [1]}", "rank_list", "1,3-5",
         "{\"rank_list\": [1, 3, 4, 5]}"},
        {RS_CONFIG_TORCH_NPU, "{\"rank_list\": [1]}", "rank_list", "", "{\"rank_list\": []}"},
        {RS_CONFIG_TORCH_NPU, "{\"rank_list\": [1]}", "rank_list", "[7,8]",
         "{\"rank_list\": [7,8]}"},
        {RS_CONFIG_TORCH_NPU, "{\"prof_dir\": \"}\\\"{\"}", "prof_dir", "123",
         "{\"prof_dir\": \"123\"}"},
        {RS_CONFIG_TORCH_NPU, "{}", "activities", "CPU", "{\"activities\": [\"CPU\"]}"},
        {RS_CONFIG_TORCH_NPU, "{}", "gc_detect_threshold", "0.1",
         "{\"experimental_config\": {\"gc_detect_threshold\": 0.1}}"},
        {RS_CONFIG_TORCH_NPU, "{\"experimental_config\":{\"gc_detect_threshold\":1}}",
         "gc_detect_threshold", "null", "{\"experimental_config\":{\"gc_detect_threshold\":null}}"},
        {RS_CONFIG_TORCH_NPU, "{}", "metadata.lr", "0.1", "{\"metadata\": {\"lr\": 0.1}}"},
        {RS_CONFIG_TORCH_NPU, "{\"metadata\": {\"lr\": 1}}", "metadata.why", "slow \"x\"",
         "{\"metadata\": {\"lr\": 1, \"why\": \"slow \\\"x\\\"\"}}"},
        {RS_CONFIG_MINDSPORE, "{\"start_step\": -1, \"stop_step\": -1}", "stop_step", "9",
         "{\"start_step\": -1, \"stop_step\": 9}"},
        {RS_CONFIG_MINDSPORE, "{\"activities\": 0}", "activities", "2", "{\"activities\": 2}"},
        {RS_CONFIG_MINDSPORE, "{}", "profiler_level", "Level1", "{\"profiler_level\": \"Level1\"}"},
        {RS_CONFIG_TORCH_NPU, "{}", "active", "many",
         "{\"active\": \"many\"}"}, /* for the check to refuse */
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_buf buf = {0};
        struct rs_err err = {0};
        if (edit(examples[i].text, examples[i].framework, examples[i].key, examples[i].value, &buf,
                 &err) != RS_OK)
            fail_msg("%s: %s", examples[i].text, err.text);
        assert_string_equal(rs_buf_text(&buf), examples[i].expected);
        rs_buf_fini(&buf);
    }
}

static void an_edit_of_nothing_known_is_refused(void **state)
{
    (void)state;
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    assert_status(edit("{}", RS_CONFIG_TORCH_NPU, "actve", "1", &buf, &err), RS_NOTFOUND);
    assert_non_null(strstr(err.text, "did you mean \"active\"?"));
    assert_status(edit("{", RS_CONFIG_TORCH_NPU, "active", "1", &buf, &err), RS_INVALID);
    assert_status(edit("[]", RS_CONFIG_TORCH_NPU, "active", "1", &buf, &err), RS_INVALID);
    assert_status(edit("", RS_CONFIG_TORCH_NPU, "active", "1", &buf, &err), RS_INVALID);
    assert_status(edit("{}", RS_CONFIG_TORCH_NPU, "metadata.a\"b", "1", &buf, &err), RS_INVALID);
    assert_int_equal(buf.length, 0);
    rs_buf_fini(&buf);
}

static void words_that_are_no_values_are_reported(void **state)
{
    (void)state;
    static const struct {
        const char *member, *value;
        enum rs_request_rule rule;
    } examples[] = {{"schedule.active", "x", RS_RULE_WRONG_TYPE},
                    {"schedule.active", "0", RS_RULE_OUT_OF_RANGE},
                    {"is_rank", "1", RS_RULE_WRONG_TYPE},
                    {"rank_list", "1,x", RS_RULE_WRONG_TYPE},
                    {"rank_list", "0-99999999", RS_RULE_WRONG_TYPE},
                    {"experimental.profiler_level", "Level9", RS_RULE_UNKNOWN_NAME},
                    {"metadata", "{", RS_RULE_WRONG_TYPE},
                    {"metadata.", "1", RS_RULE_BAD_TEXT},
                    {"schedule.actve", "1", RS_RULE_UNKNOWN_KEY},
                    {"experimental.host_sys", "cpu,gpu", RS_RULE_UNKNOWN_NAME}};
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_capture_request request, before;
        struct rs_request_notes notes = {0};
        assert_ok(rs_request_init(&request, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
        assert_ok(rs_request_init(&before, RS_DIALECT_ASCEND, RS_ORIGIN_CLI));
        assert_status(rs_request_set(&request, examples[i].member, examples[i].value, &notes),
                      RS_INVALID);
        assert_int_equal(notes.items[0].rule, examples[i].rule);
        assert_int_equal(notes.items[0].line, 0);
        assert_true(rs_request_equal(&request, &before));
        rs_request_notes_fini(&notes);
        rs_request_fini(&request);
        rs_request_fini(&before);
    }
}

static unsigned allowed;
static bool some_allocations(void)
{
    return allowed && allowed--;
}

static void lack_of_memory_is_a_status(void **state)
{
    (void)state;
    static const char text[] =
        "{\"rank_list\": [1,2], \"is_rank\": true, \"metadata\": {\"a\": 1, \"b\": {}}, "
        "\"experimental_config\": {\"mstx\": true, \"mstx_domain_include\": [\"x\"]}}";
    for (unsigned k = 0;; k++) {
        enum rs_config_framework framework = RS_CONFIG_TORCH_NPU;
        struct rs_capture_request request;
        struct rs_request_notes notes = {0};
        allowed = k;
        rs_mem_set_gate(some_allocations);
        const enum rs_status status =
            rs_request_from_config(text, strlen(text), &framework, &request, &notes, NULL);
        rs_mem_set_gate(NULL);
        rs_request_notes_fini(&notes);
        rs_request_fini(&request);
        if (status == RS_OK) {
            assert_true(k > 10);
            return;
        }
        assert_int_equal(status, RS_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_the_design_is_everywhere),
        cmocka_unit_test(defaults_are_those_of_the_documents),
        cmocka_unit_test(every_member_survives_its_document),
        cmocka_unit_test(a_change_of_any_member_is_seen),
        cmocka_unit_test(a_document_with_unknown_members_is_refused),
        cmocka_unit_test(each_key_becomes_its_member_and_nothing_else),
        cmocka_unit_test(no_key_of_the_templates_is_without_a_test),
        cmocka_unit_test(the_template_is_the_documented_one),
        cmocka_unit_test(mindspore_steps_are_a_pair),
        cmocka_unit_test(the_framework_is_seen_by_its_keys),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(an_edit_touches_what_it_names),
        cmocka_unit_test(an_edit_of_nothing_known_is_refused),
        cmocka_unit_test(words_that_are_no_values_are_reported),
        cmocka_unit_test(lack_of_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
