/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/kineto_ledger.h"

#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "kineto"
#include "common/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char beside_suffix[] = ".aux"; /* as long as ".job" */

enum { FILE_LIMIT_BYTES = 16 * 1024, BOOT_BYTES = 64, NAME_BYTES = 160 };

enum field_kind { TEXT, I64, U64, I32, U32, FLAG };

/* The one table that writing and reading go by. */
#define FIELD(kind, member)                                                                        \
    {                                                                                              \
#        member, kind, offsetof(struct rs_kineto_job, member),                                     \
            sizeof(((struct rs_kineto_job *)NULL)->member)                                         \
    }
static const struct field {
    const char *name;
    enum field_kind kind;
    size_t offset, bytes;
} fields[] = {
    FIELD(TEXT, capture),
    FIELD(TEXT, run),
    FIELD(TEXT, host),
    FIELD(TEXT, incarnation),
    FIELD(U32, rank),
    FIELD(I32, world),
    FIELD(I32, pid),
    FIELD(U32, uid),
    FIELD(U64, start_ticks),
    FIELD(U32, steps),
    FIELD(I64, deadline),
    FIELD(I64, deliver_from),
    FIELD(I64, deliver_until),
    FIELD(I64, last_poll),
    FIELD(I64, poll_period),
    FIELD(I64, start_time_ms),
    FIELD(I32, duration_ms),
    FIELD(I32, roundup),
    FIELD(I32, warmup),
    FIELD(U32, activities),
    FIELD(U32, host_sys),
    FIELD(U32, sample_hz),
    FIELD(FLAG, sys_io),
    FIELD(FLAG, record_shapes),
    FIELD(FLAG, profile_memory),
    FIELD(FLAG, with_stack),
    FIELD(FLAG, with_flops),
    FIELD(FLAG, with_modules),
    FIELD(FLAG, is_probe),
    FIELD(TEXT, trace_root),
    FIELD(TEXT, path),
    FIELD(U64, first_seq),
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static const char *const phase_names[] = {
    [RS_KINETO_JOB_ARMED] = "armed",
    [RS_KINETO_JOB_DELIVERED] = "delivered",
    [RS_KINETO_JOB_READING] = "reading",
    [RS_KINETO_JOB_PACKED] = "packed",
};
enum { PHASE_COUNT = sizeof phase_names / sizeof phase_names[0] };

/* Which start of this node it is; "" when the kernel does not say. */
static void boot_id(char text[BOOT_BYTES])
{
    struct rs_buf buf = {0};
    text[0] = '\0';
    if (rs_file_read("/proc/sys/kernel/random/boot_id", BOOT_BYTES, &buf, NULL) == RS_OK) {
        (void)snprintf(text, BOOT_BYTES, "%s", rs_buf_text(&buf));
        text[strcspn(text, "\n")] = '\0';
    }
    rs_buf_fini(&buf);
}

static void put_field(struct rs_buf *buf, const struct rs_kineto_job *job,
                      const struct field *field)
{
    const void *at = (const char *)job + field->offset;
    switch (field->kind) {
    case TEXT:
        rs_buf_printf(buf, "%s %s\n", field->name, (const char *)at);
        return;
    case I64:
        rs_buf_printf(buf, "%s %" PRId64 "\n", field->name, *(const int64_t *)at);
        return;
    case U64:
        rs_buf_printf(buf, "%s %" PRIu64 "\n", field->name, *(const uint64_t *)at);
        return;
    case I32:
        rs_buf_printf(buf, "%s %" PRId32 "\n", field->name, *(const int32_t *)at);
        return;
    case U32:
        rs_buf_printf(buf, "%s %" PRIu32 "\n", field->name, *(const uint32_t *)at);
        return;
    case FLAG:
        rs_buf_printf(buf, "%s %d\n", field->name, *(const bool *)at);
        return;
    }
}

/* The capture's name is letters, digits, '-' and '_': the trigger took it. */
static char *path_of(const char *dir, const struct rs_kineto_job *job)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s.%" PRIu32 ".%d.job", job->capture, job->rank,
                   (int)job->pid);
    return rs_file_join(dir, name);
}

enum rs_status rs_kineto_ledger_write(const char *dir, const struct rs_kineto_job *job,
                                      struct rs_err *err)
{
    struct rs_buf buf = {0};
    char boot[BOOT_BYTES];
    char *path = path_of(dir, job);
    boot_id(boot);
    rs_buf_printf(&buf, "rankscope-kineto-job 1\nphase %s\nboot %s\n", phase_names[job->phase],
                  boot);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        put_field(&buf, job, &fields[i]);
    rs_buf_printf(&buf, "end\n");
    enum rs_status status = RS_OK;
    if (!path || buf.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory to write a capture down");
    if (status == RS_OK)
        status = rs_file_replace(path, buf.data, buf.length, false, err);
    if (status < 0 && path && rs_file_make_dirs(dir, 0700, NULL) == RS_OK)
        status = rs_file_replace(path, buf.data, buf.length, false, err);
    rs_buf_fini(&buf);
    rs_mem_free(path);
    return status;
}

char *rs_kineto_ledger_beside(const char *dir, const struct rs_kineto_job *job)
{
    char *path = path_of(dir, job);
    if (path) /* NAME.job: as many letters */
        (void)snprintf(strrchr(path, '.'), sizeof beside_suffix, "%s", beside_suffix);
    return path;
}

void rs_kineto_ledger_remove(const char *dir, const struct rs_kineto_job *job)
{
    char *path = path_of(dir, job);
    char *beside = rs_kineto_ledger_beside(dir, job);
    if (beside && unlink(beside) < 0 && errno != ENOENT)
        rs_log_warn("cannot remove %s", beside);
    rs_mem_free(beside);
    if (path && unlink(path) < 0 && errno != ENOENT)
        rs_log_warn("cannot remove %s", path);
    rs_mem_free(path);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static bool read_signed(const char *text, int64_t least, int64_t most, int64_t *value_p)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    *value_p = value;
    return end != text && *end == '\0' && errno == 0 && value >= least && value <= most;
}

static bool read_unsigned(const char *text, uint64_t most, uint64_t *value_p)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    *value_p = value;
    return *text != '-' && end != text && *end == '\0' && errno == 0 && value <= most;
}

static bool take_field(struct rs_kineto_job *job, const struct field *field, const char *text)
{
    char *at = (char *)job + field->offset;
    int64_t number = 0;
    uint64_t count = 0;
    bool is_good = false;
    switch (field->kind) {
    case TEXT:
        is_good = strlen(text) < field->bytes;
        if (is_good)
            (void)snprintf(at, field->bytes, "%s", text);
        return is_good;
    case I64:
        is_good = read_signed(text, INT64_MIN, INT64_MAX, &number);
        memcpy(at, &number, sizeof number);
        return is_good;
    case U64:
        is_good = read_unsigned(text, UINT64_MAX, &count);
        memcpy(at, &count, sizeof count);
        return is_good;
    case I32:
        is_good = read_signed(text, INT32_MIN, INT32_MAX, &number);
        memcpy(at, &(int32_t){(int32_t)number}, sizeof(int32_t));
        return is_good;
    case U32:
        is_good = read_unsigned(text, UINT32_MAX, &count);
        memcpy(at, &(uint32_t){(uint32_t)count}, sizeof(uint32_t));
        return is_good;
    case FLAG:
        is_good = read_signed(text, 0, 1, &number);
        memcpy(at, &(bool){number != 0}, sizeof(bool));
        return is_good;
    }
    return false;
}

static bool take_line(struct rs_kineto_job *job, const char *boot, const char *key,
                      const char *value)
{
    if (strcmp(key, "boot") == 0) {
        job->is_other_boot = *boot && *value && strcmp(boot, value) != 0;
        return true;
    }
    if (strcmp(key, "phase") == 0) {
        for (int i = 0; i < PHASE_COUNT; i++) {
            if (strcmp(phase_names[i], value) == 0) {
                job->phase = (enum rs_kineto_phase)i;
                return true;
            }
        }
        return false;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strcmp(fields[i].name, key) == 0)
            return take_field(job, &fields[i], value);
    return true; /* of a later version */
}

/* Changes the text. false: it is no job, or not whole. */
static bool parse(char *text, const char *boot, struct rs_kineto_job *job)
{
    bool is_first = true;
    *job = (struct rs_kineto_job){0};
    for (char *line = text; line && *line;) {
        char *next = strchr(line, '\n');
        if (!next)
            return false;
        *next++ = '\0';
        if (strcmp(line, "end") == 0)
            return !is_first && job->pid > 0 && *job->capture && *job->trace_root &&
                   !strchr(job->capture, '/');
        if (is_first && strcmp(line, "rankscope-kineto-job 1") != 0)
            return false;
        char *value = strchr(line, ' ');
        if (!value)
            return false;
        *value++ = '\0';
        if (!is_first && !take_line(job, boot, line, value))
            return false;
        is_first = false;
        line = next;
    }
    return false;
}

/* A temporary file of a write that was cut short has another. */
static bool has_suffix(const char *name, const char *suffix)
{
    const size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, suffix) == 0;
}

enum rs_status rs_kineto_ledger_read(const char *dir, rs_kineto_ledger_fn *each, void *self,
                                     struct rs_err *err)
{
    char boot[BOOT_BYTES];
    DIR *list = opendir(dir);
    if (!list)
        return errno == ENOENT ? RS_OK : rs_err_errno(err, "cannot list %s", dir);
    boot_id(boot);
    struct dirent *entry;
    while ((entry = rs_dir_next(list))) {
        struct rs_kineto_job job;
        struct rs_buf buf = {0};
        const bool is_other = entry->d_name[0] == '.' || has_suffix(entry->d_name, beside_suffix);
        char *path = is_other ? NULL : rs_file_join(dir, entry->d_name);
        if (!path)
            continue;
        const bool is_job = has_suffix(entry->d_name, ".job") &&
                            rs_file_read(path, FILE_LIMIT_BYTES, &buf, NULL) == RS_OK &&
                            *rs_buf_text(&buf) && parse((char *)buf.data, boot, &job);
        if (is_job) {
            each(self, &job);
        } else {
            rs_log_warn("%s is no whole record of a capture: removed", path);
            (void)unlink(path);
        }
        rs_buf_fini(&buf);
        rs_mem_free(path);
    }
    (void)closedir(list);
    return RS_OK;
}
