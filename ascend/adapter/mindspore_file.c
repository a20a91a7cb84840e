/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file of a job of MindSpore: it appears whole or not at all, since anything else ends the job's monitor
 * for good; it is never written over what somebody else put there; and between captures it says what it said
 * before, with a pair of steps that never comes.
 */
#include "ascend/adapter/mindspore_priv.h"
#include "common/base/file.h"

#define RS_LOG_TAG "mindspore"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

const struct mindspore_pair mindspore_parking = {.start = RS_MINDSPORE_PARKED,
                                                 .stop = RS_MINDSPORE_PARKED};

static bool look_at_file(const struct mindspore_config_dir *config_dir, struct mindspore_file *file)
{
    struct stat info;
    if (stat(config_dir->path, &info) != 0)
        return false;
    *file = (struct mindspore_file){
        .device = info.st_dev, .inode = info.st_ino, .mtime = info.st_mtim, .size = info.st_size};
    return true;
}

static bool is_same_file(const struct mindspore_file *a, const struct mindspore_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec;
}

/* Every change of the time counts for the monitor, as a double: a millisecond is far above its grain. */
static struct timespec next_time(const struct mindspore_trigger *trigger,
                                 const struct mindspore_config_dir *config_dir)
{
    struct mindspore_file file;
    rs_ns now = trigger->realtime();
    if (look_at_file(config_dir, &file)) {
        const rs_ns old = rs_time_of(&file.mtime);
        if (now > old - RS_NS_PER_MS && now < old + RS_NS_PER_MS)
            now = old + RS_NS_PER_MS;
    }
    return (struct timespec){.tv_sec = now / RS_NS_PER_S, .tv_nsec = now % RS_NS_PER_S};
}

enum rs_status mindspore_write(struct mindspore_trigger *trigger,
                               struct mindspore_config_dir *config_dir, struct rs_buf *text,
                               struct rs_err *err)
{
    const struct timespec when = next_time(trigger, config_dir);
    if (text->failed)
        return rs_err_set(err, RS_NOMEM, "no memory for a configuration");
    const enum rs_status status =
        rs_config_write(config_dir->path, text->data, text->length, &when, &config_dir->owner, err);
    if (status < 0)
        return status;
    rs_buf_reset(&config_dir->written);
    rs_buf_bytes(&config_dir->written, text->data, text->length);
    config_dir->is_foreign = false;
    if (!look_at_file(config_dir, &config_dir->seen))
        config_dir->seen = (struct mindspore_file){0};
    return RS_OK;
}

/* True: what stands there is not what we wrote. */
bool mindspore_was_replaced(struct mindspore_config_dir *config_dir)
{
    struct mindspore_file file;
    struct rs_buf buf = {0};
    if (!look_at_file(config_dir, &file) || is_same_file(&file, &config_dir->seen))
        return false; /* one that is gone changes nothing: the block keeps what it has */
    const bool is_ours = rs_config_read(config_dir->path, &config_dir->owner,
                                        MINDSPORE_FILE_LIMIT_BYTES, &buf, NULL) == RS_OK &&
                         buf.length == config_dir->written.length &&
                         memcmp(buf.data, config_dir->written.data, buf.length) == 0;
    rs_buf_fini(&buf);
    if (is_ours)
        config_dir->seen =
            file; /* another collector of the same capture, on a shared file system */
    return !is_ours;
}

/* The text that stood there before, with another pair; the template when there was none. */
enum rs_status mindspore_resting_text(const struct mindspore_config_dir *config_dir,
                                      const struct mindspore_pair *pair, struct rs_buf *buf)
{
    struct rs_buf half = {0};
    char start[24], stop[24];
    (void)snprintf(start, sizeof start, "%" PRId64, pair->start);
    (void)snprintf(stop, sizeof stop, "%" PRId64, pair->stop);
    struct rs_config_text text = {.text = (const char *)config_dir->original.data,
                                  .length = config_dir->original.length,
                                  .framework = RS_CONFIG_MINDSPORE};
    enum rs_status status = RS_INVALID;
    if (text.length && !config_dir->original.failed)
        status = rs_request_config_edit(&text, "start_step", start, &half, NULL);
    if (status == RS_OK) {
        text.text = (const char *)half.data;
        text.length = half.length;
        status = rs_request_config_edit(&text, "stop_step", stop, buf, NULL);
    }
    rs_buf_fini(&half);
    if (status == RS_OK && !buf->failed)
        return RS_OK;
    struct rs_capture_request request;
    rs_buf_reset(buf);
    status = rs_request_init(&request, RS_DIALECT_MINDSPORE, RS_ORIGIN_CONFIG_FILE);
    if (status < 0)
        return status;
    request.start_step = pair->start < 0 ? 0 : pair->start;
    request.schedule.active = 1;
    status = rs_request_to_config(&request, RS_CONFIG_MINDSPORE, buf, NULL);
    rs_request_fini(&request);
    return status;
}

void mindspore_rest(struct mindspore_trigger *trigger, struct mindspore_config_dir *config_dir,
                    const struct mindspore_pair *pair)
{
    struct rs_buf text = {0};
    struct rs_err err;
    enum rs_status status = mindspore_resting_text(config_dir, pair, &text);
    if (status == RS_OK)
        status = mindspore_write(trigger, config_dir, &text, &err);
    if (status < 0)
        rs_log_error("%s keeps a pair of steps that is over: %s", config_dir->path,
                     status == RS_NOMEM ? "no memory" : err.text);
    rs_buf_fini(&text);
}

/* Other nodes may read the same file, and there somebody may still record. */
bool mindspore_is_shared(const struct mindspore_config_dir *config_dir)
{
    static const unsigned long local[] = {
        0xEF53 /* ext */,       0x58465342 /* xfs */,     0x9123683E /* btrfs */,
        0x01021994 /* tmpfs */, 0x794C7630 /* overlay */, 0x2FC12FC1 /* zfs */,
        0xF2F52010 /* f2fs */,
    };
    char folder[RS_CONFIG_PATH_BYTES];
    struct statfs kind;
    (void)snprintf(folder, sizeof folder, "%s", config_dir->path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    if (statfs(folder, &kind) != 0)
        return true;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (((unsigned long)kind.f_type & 0xFFFFFFFFul) == local[i])
            return false;
    return true;
}
