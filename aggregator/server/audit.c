/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/server/audit.h"

#include "aggregator/server/pool.h"
#include "common/base/buf.h"
#include "common/base/counters.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "audit"
#include "common/base/log.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { AUDIT_QUEUE_MAX = 8192 };

struct rs_audit {
    int fd;
    char *path;
    struct rs_pool *pool;
    atomic_bool has_failed; /* the disk refused a line: said once */
    atomic_bool is_over;    /* lines were left out: said once */
};

struct audit_job {
    struct rs_pool_job base; /* first: the pool hands it back */
    struct rs_audit *audit;
    struct rs_buf line;
};

static void run(struct rs_pool_job *base)
{
    struct audit_job *job = (struct audit_job *)base;
    struct rs_err err = {0};
    if (rs_file_write_all(job->audit->fd, job->line.data, job->line.length, job->audit->path,
                          &err) < 0 &&
        !atomic_exchange(&job->audit->has_failed, true))
        rs_log_error("the audit log has a hole: %s", err.text);
}

static void done(void *self, struct rs_pool_job *base)
{
    struct audit_job *job = (struct audit_job *)base;
    (void)self;
    rs_buf_fini(&job->line);
    rs_mem_free(job);
}

enum rs_status rs_audit_open(const char *path, struct rs_audit **audit_p, struct rs_err *err)
{
    struct rs_audit *audit = rs_mem_calloc(1, sizeof *audit);
    char *copy = rs_mem_strdup(path);
    if (!audit || !copy) {
        rs_mem_free(audit);
        rs_mem_free(copy);
        return rs_err_set(err, RS_NOMEM, "no memory for the audit log");
    }
    audit->path = copy;
    audit->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, RS_FILE_MODE);
    const struct rs_pool_options options = {.name = "rs-audit",
                                            .thread = RS_THREAD_AUDIT,
                                            .threads = 1,
                                            .queue_max = AUDIT_QUEUE_MAX,
                                            .must_drain = true,
                                            .done = done};
    enum rs_status status =
        audit->fd < 0 ? rs_err_errno(err, "cannot open the audit log %s", path) : RS_OK;
    if (status == RS_OK)
        status = rs_pool_start(&options, &audit->pool, err);
    if (status < 0)
        rs_audit_close(&audit);
    else
        *audit_p = audit;
    return status;
}

void rs_audit_close(struct rs_audit **audit_p)
{
    struct rs_audit *audit = *audit_p;
    if (!audit)
        return;
    *audit_p = NULL;
    rs_pool_stop(&audit->pool);
    if (audit->fd >= 0)
        (void)close(audit->fd);
    rs_mem_free(audit->path);
    rs_mem_free(audit);
}

static void time_text(rs_ns now, char text_p[48])
{
    const time_t seconds = (time_t)(now / RS_NS_PER_S);
    struct tm utc;
    char whole[32] = "";
    if (gmtime_r(&seconds, &utc))
        (void)strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text_p, 48, "%s.%09lldZ", whole, (long long)(now % RS_NS_PER_S));
}

static void member(struct rs_json_out *json, const char *key, const char *value)
{
    if (!*value)
        return;
    rs_json_out_key(json, key);
    rs_json_out_string(json, value);
}

void rs_audit_put(struct rs_audit *audit, const struct rs_audit_line *line)
{
    char text[48];
    char who[RS_IDENTITY_TEXT_BYTES];
    struct rs_json_out json;
    struct audit_job *job = audit ? rs_mem_calloc(1, sizeof *job) : NULL;
    if (!audit)
        return;
    if (job) {
        job->base.run = run;
        job->audit = audit;
        rs_json_out_init(&json, &job->line, 0);
        rs_json_out_object(&json);
        time_text(rs_time_realtime(), text);
        member(&json, "time", text);
        rs_identity_text(line->who, who);
        member(&json, "who", who);
        member(&json, "serial", line->who->serial);
        member(&json, "from", line->from);
        member(&json, "what", line->what);
        member(&json, "subject", line->subject);
        member(&json, "outcome", line->why ? "refused" : "asked");
        member(&json, "why", line->why ? line->why : "");
        rs_json_out_end(&json);
        rs_buf_string(&job->line, "\n");
    }
    if (job && !job->line.failed && rs_pool_put(audit->pool, &job->base) == RS_OK)
        return;
    if (job)
        done(NULL, &job->base);
    rs_count(RS_COUNT_AUDIT_LOST, 1);
    if (!audit->is_over)
        rs_log_error("lines of the audit log are left out: more come than the disk takes");
    audit->is_over = true;
}
