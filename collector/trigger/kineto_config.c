/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/kineto_config.h"

#include <string.h>

enum { PATH_MAX_BYTES = 1024, TRACE_ID_MAX_BYTES = 64 };

static bool is_plain(const char *text, const char *more)
{
    for (; *text; text++)
        if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
              (*text >= '0' && *text <= '9') || strchr(more, *text)))
            return false;
    return true;
}

static enum rs_status check_path(const char *path, struct rs_err *err)
{
    const char *suffix = ".json";
    const size_t length = strlen(path);
    if (path[0] != '/')
        return rs_err_set(err, RS_INVALID, "the trace path %s is not absolute", path);
    if (length > PATH_MAX_BYTES)
        return rs_err_set(err, RS_INVALID, "the trace path is longer than %d bytes",
                          PATH_MAX_BYTES);
    if (!is_plain(path, "/._-+:@%,"))
        return rs_err_set(err, RS_INVALID,
                          "the trace path %s has a character that the profiler's configuration "
                          "cannot hold",
                          path);
    if (strstr(path, ".."))
        return rs_err_set(err, RS_INVALID, "the trace path %s holds \"..\"", path);
    const char *first = strstr(path, suffix);
    if (!first || first[strlen(suffix)] != '\0')
        return rs_err_set(err, RS_INVALID,
                          "the trace path %s must end in .json and hold it nowhere else", path);
    return RS_OK;
}

static enum rs_status check(const struct rs_kineto_config *config, struct rs_err *err)
{
    if (config->iterations < 0 || config->warmup_s < 0 || config->warmup_iterations < 0 ||
        config->duration_ms < 0 || config->start_time_ms < 0)
        return rs_err_set(err, RS_INVALID, "a count or time of the capture is negative");
    if (config->iterations == 0 && config->duration_ms == 0)
        return rs_err_set(err, RS_INVALID, "neither iterations nor a duration is given");
    if (config->iterations > 0 && config->start_iteration < 0 && config->iteration_roundup < 1)
        return rs_err_set(err, RS_INVALID,
                          "iterations need a start iteration or a round-up of at least 1");
    if (!config->trace_id || !*config->trace_id || strlen(config->trace_id) > TRACE_ID_MAX_BYTES ||
        !is_plain(config->trace_id, "-_"))
        return rs_err_set(err, RS_INVALID,
                          "the trace id is not 1 to %d letters, digits, '-' and '_'",
                          TRACE_ID_MAX_BYTES);
    return check_path(config->log_file, err);
}

/* What an activity of torch.profiler is, in names that clients which have it know: one that it does not know ends its
 * reading. */
static const struct {
    uint32_t activity;
    const char *types;
} activity_types[] = {
    {RS_ACTIVITY_CPU, "cpu_op,user_annotation,cpu_instant_event,python_function"},
    {RS_ACTIVITY_CUDA, "gpu_memcpy,gpu_memset,kernel,gpu_user_annotation,cuda_runtime,overhead"},
    {RS_ACTIVITY_XPU, "gpu_memcpy,gpu_memset,kernel,gpu_user_annotation,xpu_runtime,overhead"},
    {RS_ACTIVITY_MTIA, "mtia_runtime,mtia_ccp_events"},
};

static void put_activities(struct rs_buf *buf, uint32_t activities)
{
    const char *before = "ACTIVITY_TYPES=";
    if (!activities)
        return;
    for (size_t i = 0; i < sizeof activity_types / sizeof activity_types[0]; i++)
        if (activities & activity_types[i].activity) {
            rs_buf_printf(buf, "%s%s", before, activity_types[i].types);
            before = ",";
        }
    rs_buf_printf(buf, "%s", *before == ',' ? "\n" : "");
}

static void put_flag(struct rs_buf *buf, const char *key, bool value)
{
    if (value)
        rs_buf_printf(buf, "%s=true\n", key);
}

enum rs_status rs_kineto_config_text(const struct rs_kineto_config *config, struct rs_buf *buf,
                                     struct rs_err *err)
{
    const enum rs_status status = check(config, err);
    if (status != RS_OK)
        return status;
    rs_buf_printf(buf, "ACTIVITIES_LOG_FILE=%s\n", config->log_file);
    if (config->iterations > 0) {
        if (config->start_iteration >= 0)
            rs_buf_printf(buf, "PROFILE_START_ITERATION=%d\n", config->start_iteration);
        else
            rs_buf_printf(buf, "PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=%d\n",
                          config->iteration_roundup);
        if (config->warmup_iterations > 0)
            rs_buf_printf(buf, "ACTIVITIES_WARMUP_ITERATIONS=%d\n", config->warmup_iterations);
        rs_buf_printf(buf, "ACTIVITIES_ITERATIONS=%d\n", config->iterations);
    } else {
        rs_buf_printf(buf, "PROFILE_START_TIME=%lld\n", (long long)config->start_time_ms);
    }
    /* With iterations too: a process that never steps falls back to this duration. */
    if (config->duration_ms > 0)
        rs_buf_printf(buf, "ACTIVITIES_DURATION_MSECS=%d\n", config->duration_ms);
    rs_buf_printf(buf, "ACTIVITIES_WARMUP_PERIOD_SECS=%d\n", config->warmup_s);
    put_activities(buf, config->activities);
    put_flag(buf, "PROFILE_REPORT_INPUT_SHAPES", config->record_shapes);
    put_flag(buf, "PROFILE_PROFILE_MEMORY", config->profile_memory);
    put_flag(buf, "PROFILE_WITH_STACK", config->with_stack);
    put_flag(buf, "PROFILE_WITH_FLOPS", config->with_flops);
    put_flag(buf, "PROFILE_WITH_MODULES", config->with_modules);
    rs_buf_printf(buf, "REQUEST_TRACE_ID=%s\n", config->trace_id);
    return buf->failed ? rs_err_set(err, RS_NOMEM, "no memory for a configuration") : RS_OK;
}

bool rs_kineto_path_is_allowed(const char *path, const char *trace_dir)
{
    if (strstr(path, ".."))
        return false;
    if (strncmp(path, "/tmp/", 5) == 0)
        return true;
    const size_t length = strlen(trace_dir);
    return length && strncmp(path, trace_dir, length) == 0 && path[length] == '/';
}
