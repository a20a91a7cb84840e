/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are ranks of MindSpore with a dynamic profiler, who serves them, and why a file would not reach them.
 *
 * A rank has the block open (DynamicProfileShm..., also when it is unlinked) and, once it trains, many threads. Its children that were
 * forked later inherit the block and have one thread: the first of them is the monitor, the others parse or load data. A monitor whose
 * rank was killed lives on as an orphan; one that met a bad file has ended and stays a zombie, as its rank does not wait
 * for it. Both are looked for, since neither says anything by itself.
 */
#include "ascend/adapter/mindspore_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "mindspore"
#include "common/base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FDS_MAX = 4096, SMALL_BYTES = 4096, CHILDREN_MAX = 256 };
enum { STDOUT_HEAD_BYTES = 8 * 1024 * 1024 };

/* A block that was made so long before its first rank began was not made by it. */
static const rs_dur left_block_ns = 5 * (rs_dur)RS_NS_PER_S;

/* ---- facts of one process --------------------------------------------------------------------------------------- */

struct attachment {
    int fd;
    char name[32];
    struct stat info;
};

static bool find_attachment(pid_t pid, struct attachment *found)
{
    char path[128];
    char target[512];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    bool is_there = false;
    if (!dir)
        return false;
    const struct dirent *entry;
    for (int i = 0; i < FDS_MAX && !is_there; i++) {
        entry = rs_dir_next(dir);
        if (!entry)
            break;
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%.16s", (int)pid, entry->d_name);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (!mindspore_block_name(target, found->name) || stat(path, &found->info) != 0 ||
            !S_ISREG(found->info.st_mode))
            continue;
        found->fd = (int)strtol(entry->d_name, NULL, 10);
        is_there = true;
    }
    (void)closedir(dir);
    return is_there;
}

/* A number behind "Name:" in /proc/PID/status; the last one of the line; -1 not there. */
static int64_t status_number(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    if (!at)
        return -1;
    const char *end = strchrnul(at, '\n');
    const char *last = end;
    while (last > at && isdigit((unsigned char)last[-1]))
        last--;
    return last == end ? -1 : strtoll(last, NULL, 10);
}

static bool read_small(pid_t pid, const char *name, struct rs_buf *buf)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    rs_buf_reset(buf);
    const enum rs_status status = rs_file_read(path, SMALL_BYTES, buf, NULL);
    return status == RS_OK && buf->length > 0;
}

static rs_ns began_at(const struct mindspore_trigger *trigger, uint64_t start_ticks)
{
    struct timespec up;
    const long per_s = sysconf(_SC_CLK_TCK);
    if (clock_gettime(CLOCK_BOOTTIME, &up) != 0 || per_s <= 0)
        return 0;
    const rs_ns since_boot = (rs_ns)(start_ticks / (uint64_t)per_s) * RS_NS_PER_S +
                             (rs_ns)(start_ticks % (uint64_t)per_s) * (RS_NS_PER_S / per_s);
    return trigger->realtime() - ((rs_ns)up.tv_sec * RS_NS_PER_S + up.tv_nsec) + since_boot;
}

/* ---- who is new ------------------------------------------------------------------------------------------------- */

static bool is_block_used(const struct mindspore_trigger *trigger, ptrdiff_t block)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i].block == block)
            return true;
    for (size_t i = 0; i < trigger->helper_count; i++)
        if (trigger->helpers[i].block == block)
            return true;
    return false;
}

static ptrdiff_t block_of(struct mindspore_trigger *trigger, const struct attachment *at)
{
    for (size_t i = 0; i < trigger->block_count; i++)
        if (trigger->blocks[i].device == at->info.st_dev &&
            trigger->blocks[i].inode == at->info.st_ino)
            return (ptrdiff_t)i;
    ptrdiff_t index = (ptrdiff_t)trigger->block_count;
    for (size_t i = 0; i < trigger->block_count; i++)
        if (!is_block_used(trigger, (ptrdiff_t)i))
            index = (ptrdiff_t)i; /* of a job that is over */
    if (index == (ptrdiff_t)trigger->block_count) {
        if (rs_mem_grow((void **)&trigger->blocks, &trigger->block_capacity,
                        trigger->block_count + 1, sizeof *trigger->blocks) < 0)
            return MINDSPORE_NONE;
        trigger->block_count++;
    }
    struct mindspore_block *block = &trigger->blocks[index];
    *block = (struct mindspore_block){
        .device = at->info.st_dev,
        .inode = at->info.st_ino,
        .made_ns = rs_time_of(&at->info.st_ctim),
        .config_dir = MINDSPORE_NONE,
        .pair = {.start = -1, .stop = -1},
    };
    (void)snprintf(block->name, sizeof block->name, "%s", at->name);
    return index;
}

static bool is_known(const struct mindspore_trigger *trigger, pid_t pid, uint64_t start_ticks)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i].hold.pid == pid &&
            trigger->members[i].hold.start_ticks == start_ticks)
            return true;
    for (size_t i = 0; i < trigger->helper_count; i++)
        if (trigger->helpers[i].pid == pid && trigger->helpers[i].start_ticks == start_ticks)
            return true;
    return false;
}

static void add_helper(struct mindspore_trigger *trigger, const struct rs_process *process,
                       ptrdiff_t block)
{
    struct attachment parents;
    if (rs_mem_grow((void **)&trigger->helpers, &trigger->helper_capacity,
                    trigger->helper_count + 1, sizeof *trigger->helpers) < 0)
        return;
    trigger->helpers[trigger->helper_count++] =
        (struct mindspore_helper){.pid = process->pid,
                                  .parent = process->parent,
                                  .start_ticks = process->start_ticks,
                                  .block = block,
                                  .is_child = find_attachment(process->parent, &parents)};
}

static void take_init_line(void *self, const struct mindspore_line *line)
{
    char *dir = self;
    if (line->kind == MINDSPORE_LINE_INIT) /* the last one: an earlier job may have written there */
        (void)snprintf(dir, RS_CONFIG_PATH_BYTES, "%s", line->dir);
}

static void add_member(struct mindspore_trigger *trigger, const struct rs_config_visit *visit,
                       const struct rs_process *process, const struct attachment *at,
                       ptrdiff_t block)
{
    struct rs_buf status = {0};
    if (rs_mem_grow((void **)&trigger->members, &trigger->member_capacity,
                    trigger->member_count + 1, sizeof *trigger->members) < 0)
        return;
    struct mindspore_member *member = &trigger->members[trigger->member_count++];
    const char *msmonitor = rs_config_variable(visit, "MSMONITOR_USE_DAEMON");
    *member = (struct mindspore_member){
        .shown = {.process = *process,
                  /* as MindSpore does: without communication and RANK_ID it is rank 0 */
                  .rank = process->rank >= 0 ? process->rank : 0,
                  .world = process->world_size,
                  .step = -1,
                  .start_step = -1,
                  .started_step = -1,
                  .stopped_step = -1},
        .block = block,
        .block_fd = at->fd,
        .inner_pid = process->pid,
        .log_offset = -1,
        .last = {.start = -1, .stop = -1},
        .step = -1,
        .began_ns = began_at(trigger, process->start_ticks),
        .uses_msmonitor = msmonitor && strtol(msmonitor, NULL, 10) == 1,
    };
    (void)snprintf(member->shown.run, sizeof member->shown.run, "%s", process->run);
    rs_process_hold(&member->hold, process->pid, process->start_ticks);
    if (read_small(process->pid, "status", &status)) {
        const int64_t inner = status_number(rs_buf_text(&status), "NSpid:");
        member->inner_pid = inner > 0 ? inner : process->pid;
    }
    rs_buf_fini(&status);
    (void)mindspore_stdout_lines(process->pid, 0, STDOUT_HEAD_BYTES, take_init_line,
                                 member->own_dir);
}

/* A process that may yet become one is asked again. */
static bool may_become_one(const struct rs_config_visit *visit)
{
    struct rs_buf name = {0};
    const bool is_reported = rs_config_variable(visit, "RANK_ID") ||
                             rs_config_variable(visit, "MS_ROLE") ||
                             rs_config_variable(visit, "MS_WORKER_NUM");
    const bool is_python = read_small(visit->pid, "comm", &name) &&
                           strncmp(rs_buf_text(&name), "python", strlen("python")) == 0;
    rs_buf_fini(&name);
    return is_reported || is_python;
}

static bool is_member(void *self, pid_t pid, uint64_t start_ticks)
{
    const struct mindspore_trigger *trigger = self;
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i].hold.pid == pid &&
            trigger->members[i].hold.start_ticks == start_ticks)
            return true;
    return false;
}

/* A rank that has just made its monitor has one thread, as its children have; it becomes one when it trains. */
static bool is_rank_after_all(struct mindspore_trigger *trigger, const struct rs_process *process)
{
    for (size_t i = 0; i < trigger->helper_count; i++) {
        const struct mindspore_helper *helper = &trigger->helpers[i];
        if (helper->pid != process->pid || helper->start_ticks != process->start_ticks)
            continue;
        if (helper->is_child || rs_process_rank_holder(process, is_member, trigger))
            return false;
        trigger->helpers[i] = trigger->helpers[--trigger->helper_count];
        return true;
    }
    return false;
}

static bool look_at_process(void *self, const struct rs_config_visit *visit)
{
    struct mindspore_trigger *trigger = self;
    struct attachment at;
    struct rs_process process;
    if (!may_become_one(visit))
        return false;
    if (!find_attachment(visit->pid, &at) || rs_process_read(visit->pid, &process, NULL) != RS_OK)
        return true;
    struct rs_buf status = {0};
    const int64_t threads = read_small(visit->pid, "status", &status)
                                ? status_number(rs_buf_text(&status), "Threads:")
                                : -1;
    rs_buf_fini(&status);
    if (threads < 1 || (is_known(trigger, visit->pid, process.start_ticks) &&
                        (threads == 1 || !is_rank_after_all(trigger, &process))))
        return true;
    const ptrdiff_t block = block_of(trigger, &at);
    if (block != MINDSPORE_NONE && threads == 1)
        add_helper(trigger, &process, block);
    else if (block != MINDSPORE_NONE)
        add_member(trigger, visit, &process, &at, block);
    return true;
}

static void remove_member(struct mindspore_trigger *trigger, size_t index)
{
    rs_process_release(&trigger->members[index].hold);
    trigger->member_count--;
    memmove(&trigger->members[index], &trigger->members[index + 1],
            (trigger->member_count - index) * sizeof *trigger->members);
}

void mindspore_find(struct mindspore_trigger *trigger)
{
    const size_t before = trigger->member_count;
    (void)rs_config_scan_run(trigger->scan, trigger->monotonic(), look_at_process, trigger);
    /* A worker with threads of its own, or one seen before its rank was. It outlives its rank, and is none then either. */
    for (size_t i = trigger->member_count; i-- > 0 && trigger->member_count > before;) {
        const struct rs_process process = trigger->members[i].shown.process;
        if (!rs_process_rank_holder(&process, is_member, trigger))
            continue;
        add_helper(trigger, &process, trigger->members[i].block);
        remove_member(trigger, i);
    }
    for (size_t i = before; i < trigger->member_count; i++)
        rs_log_info("rank %d: process %d, %s", trigger->members[i].shown.rank,
                    (int)trigger->members[i].hold.pid,
                    mindspore_block_of(trigger, &trigger->members[i])->name);
}

/* ---- the monitor of a block ------------------------------------------------------------------------------------- */

static bool belongs(const struct mindspore_trigger *trigger, const struct mindspore_member *member,
                    const struct mindspore_block *block)
{
    return !member->shown.is_gone && &trigger->blocks[member->block] == block;
}

struct life {
    char state;
    pid_t parent;
    uint64_t start_ticks;
};

/* Fields 3, 4 and 22 of /proc/PID/stat, behind the last bracket of the command. */
static bool read_life(pid_t pid, struct life *life)
{
    struct rs_buf stat = {0};
    int parent = 0;
    unsigned long long ticks = 0;
    const char *behind = read_small(pid, "stat", &stat) ? strrchr(rs_buf_text(&stat), ')') : NULL;
    const bool is_read =
        behind &&
        sscanf(behind + 1, /* NOLINT(cert-err34-c): the kernel wrote these digits */
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &life->state, &parent, &ticks) == 3;
    rs_buf_fini(&stat);
    life->parent = parent;
    life->start_ticks = ticks;
    return is_read;
}

/* The oldest child of a rank that has ended and that nobody waited for. */
static void oldest_zombie(pid_t parent, pid_t *pid_p, uint64_t *ticks_p)
{
    char name[64];
    struct rs_buf buf = {0};
    (void)snprintf(name, sizeof name, "task/%d/children", (int)parent);
    if (read_small(parent, name, &buf)) {
        const char *at = rs_buf_text(&buf);
        for (int i = 0; i < CHILDREN_MAX && *at; i++) {
            char *end = NULL;
            struct life life;
            const long pid = strtol(at, &end, 10);
            if (end == at)
                break;
            if (pid > 0 && read_life((pid_t)pid, &life) && life.state == 'Z' &&
                (!*pid_p || life.start_ticks < *ticks_p)) {
                *pid_p = (pid_t)pid;
                *ticks_p = life.start_ticks;
            }
            at = end + strspn(end, " \n");
        }
    }
    rs_buf_fini(&buf);
}

static void forget_helpers(struct mindspore_trigger *trigger)
{
    size_t kept = 0;
    for (size_t i = 0; i < trigger->helper_count; i++) {
        const struct mindspore_helper helper = trigger->helpers[i];
        if (rs_process_is_alive(helper.pid, helper.start_ticks))
            trigger->helpers[kept++] = helper;
    }
    trigger->helper_count = kept;
}

static bool is_rank_of(const struct mindspore_trigger *trigger, const struct mindspore_block *block,
                       pid_t pid)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (belongs(trigger, &trigger->members[i], block) && trigger->members[i].hold.pid == pid)
            return true;
    return false;
}

static void find_monitor(struct mindspore_trigger *trigger, struct mindspore_block *block)
{
    const struct mindspore_helper *first = NULL;
    pid_t zombie = 0;
    uint64_t zombie_ticks = 0;
    for (size_t i = 0; i < trigger->helper_count; i++) {
        const struct mindspore_helper *helper = &trigger->helpers[i];
        if (&trigger->blocks[helper->block] == block &&
            (!first || helper->start_ticks < first->start_ticks))
            first = helper;
    }
    for (size_t i = 0; i < trigger->member_count; i++)
        if (belongs(trigger, &trigger->members[i], block))
            oldest_zombie(trigger->members[i].hold.pid, &zombie, &zombie_ticks);
    /* a zombie beside a process that may be the monitor is it only when we saw it as such */
    if (zombie && zombie == block->monitor && zombie_ticks == block->monitor_ticks)
        first = NULL;
    if (zombie && block->dead_monitor == zombie)
        first = NULL;
    block->dead_monitor = first ? 0 : zombie;
    block->had_monitor |= first != NULL || zombie != 0;
    block->monitor = first ? first->pid : 0;
    block->monitor_ticks = first ? first->start_ticks : 0;
    struct life life; /* an orphan gets another parent */
    const pid_t parent = first && read_life(first->pid, &life) ? life.parent : 0;
    block->is_orphan = first && !is_rank_of(trigger, block, parent);
    if (first && block->asked_log_of != first->pid) {
        block->asked_log_of = first->pid;
        block->monitor_dir[0] = '\0';
        (void)mindspore_stdout_lines(first->pid, 0, STDOUT_HEAD_BYTES, take_init_line,
                                     block->monitor_dir);
    }
}

bool mindspore_block_read(const struct mindspore_trigger *trigger,
                          const struct mindspore_block *block, char *text, size_t bytes)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct mindspore_member *member = &trigger->members[i];
        char path[64];
        if (!belongs(trigger, member, block))
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)member->hold.pid,
                       member->block_fd);
        /* It may have been closed, and the number be a pipe's by now. */
        const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            continue;
        struct stat info;
        const bool is_it =
            fstat(fd, &info) == 0 && info.st_dev == block->device && info.st_ino == block->inode;
        const ssize_t got = is_it ? pread(fd, text, bytes - 1, 0) : -1;
        (void)close(fd);
        if (got < 0)
            continue;
        text[got] = '\0';
        return true;
    }
    return false;
}

/* ---- the folder of a block ---------------------------------------------------------------------------------------- */

static bool is_config_dir_used(const struct mindspore_trigger *trigger, ptrdiff_t config_dir)
{
    for (size_t i = 0; i < trigger->block_count; i++)
        if (trigger->blocks[i].config_dir == config_dir)
            return true;
    return trigger->config_dirs[config_dir].phase != MINDSPORE_FREE;
}

static ptrdiff_t find_config_dir(struct mindspore_trigger *trigger,
                                 const struct mindspore_member *member, const char *dir)
{
    char folder[RS_CONFIG_PATH_BYTES];
    char path[RS_CONFIG_PATH_BYTES];
    if (rs_config_path_of(member->hold.pid, dir, folder, NULL) < 0 ||
        snprintf(path, sizeof path, "%s/profiler_config.json", folder) >= (int)sizeof path)
        return MINDSPORE_NONE;
    for (size_t i = 0; i < trigger->config_dir_count; i++)
        if (strcmp(trigger->config_dirs[i].path, path) == 0)
            return (ptrdiff_t)i;
    ptrdiff_t index = (ptrdiff_t)trigger->config_dir_count;
    for (size_t i = 0; i < trigger->config_dir_count; i++)
        if (!is_config_dir_used(trigger, (ptrdiff_t)i))
            index = (ptrdiff_t)i;
    if (index == (ptrdiff_t)trigger->config_dir_count) {
        if (rs_mem_grow((void **)&trigger->config_dirs, &trigger->config_dir_capacity,
                        trigger->config_dir_count + 1, sizeof *trigger->config_dirs) < 0)
            return MINDSPORE_NONE;
        trigger->config_dir_count++;
        trigger->config_dirs[index] = (struct mindspore_config_dir){0};
    }
    struct mindspore_config_dir *config_dir = &trigger->config_dirs[index];
    rs_buf_fini(&config_dir->original);
    rs_buf_fini(&config_dir->written);
    *config_dir = (struct mindspore_config_dir){.way = trigger->way, .phase = MINDSPORE_FREE};
    rs_user_of_process(member->shown.process.pid, member->shown.process.uid, &config_dir->owner);
    (void)snprintf(config_dir->dir, sizeof config_dir->dir, "%s", dir);
    (void)snprintf(config_dir->path, sizeof config_dir->path, "%s", path);
    return index;
}

/* The rank that made the block is asked first: what its monitor reads is what counts. */
static const struct mindspore_member *first_of(const struct mindspore_trigger *trigger,
                                               const struct mindspore_block *block, bool with_dir)
{
    const struct mindspore_member *found = NULL;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct mindspore_member *member = &trigger->members[i];
        if (belongs(trigger, member, block) && (!with_dir || member->own_dir[0]) &&
            (!found || member->hold.start_ticks < found->hold.start_ticks))
            found = member;
    }
    return found;
}

static void find_folder(struct mindspore_trigger *trigger, struct mindspore_block *block)
{
    const struct mindspore_member *any = first_of(trigger, block, false);
    const struct mindspore_member *reported = first_of(trigger, block, true);
    if (block->config_dir != MINDSPORE_NONE || !any)
        return;
    if (block->monitor_dir[0])
        block->config_dir = find_config_dir(trigger, any, block->monitor_dir);
    else if (reported)
        block->config_dir = find_config_dir(trigger, reported, reported->own_dir);
    else if (trigger->dir_count == 1)
        block->config_dir = find_config_dir(trigger, any, trigger->dirs[0]);
}

/* ---- health --------------------------------------------------------------------------------------------------------- */

static bool is_named_by_user(const struct mindspore_trigger *trigger, const char *dir)
{
    for (size_t i = 0; i < trigger->dir_count; i++)
        if (strcmp(trigger->dirs[i], dir) == 0)
            return true;
    return false;
}

/* The file, or where there is none its folder, belongs to somebody else; only root could be led there. */
static bool is_anothers(const struct mindspore_config_dir *config_dir, uid_t uid)
{
    struct stat info;
    char folder[RS_CONFIG_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s", config_dir->path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    if (geteuid() != 0 || uid == 0)
        return false;
    if (stat(folder, &info) != 0 || info.st_uid != uid)
        return true;
    return lstat(config_dir->path, &info) == 0 && info.st_uid != uid;
}

static const char *folder_problem(const struct mindspore_trigger *trigger,
                                  const struct mindspore_member *member,
                                  const struct mindspore_block *block, char *text, size_t bytes)
{
    const char *dir = block->monitor_dir[0] ? block->monitor_dir : member->own_dir;
    if (block->config_dir == MINDSPORE_NONE) {
        if (*dir)
            (void)snprintf(text, bytes, "its configuration folder %.300s cannot be reached", dir);
        else if (trigger->dir_count > 1)
            (void)snprintf(text, bytes,
                           "its configuration folder is not known and several were named: run one "
                           "collector per job, or let stdout of the job go to a file");
        else
            (void)snprintf(text, bytes,
                           "its configuration folder is not known: name the cfg_path of its "
                           "DynamicProfilerMonitor with --mindspore-config DIR%s",
                           trigger->dir_count ? " (the one named is not there for it)" : "");
        return text;
    }
    const struct mindspore_config_dir *config_dir = &trigger->config_dirs[block->config_dir];
    const bool is_elsewhere = member->own_dir[0] && strcmp(member->own_dir, config_dir->dir) != 0;
    if (is_elsewhere && block->is_orphan) {
        (void)snprintf(
            text, bytes,
            "its monitor (process %d) belongs to an earlier job, whose rank was killed: it "
            "reads %.120s, and never %.120s. End that process, remove /dev/shm/%s and "
            "restart this job",
            (int)block->monitor, config_dir->dir, member->own_dir, block->name);
        return text;
    }
    if (is_elsewhere) {
        (void)snprintf(text, bytes,
                       "%s serves two jobs: its monitor reads %.140s, and never this job's own "
                       "folder %.140s; start one of them in another hour or with a /dev/shm of "
                       "its own",
                       block->name, config_dir->dir, member->own_dir);
        return text;
    }
    /* What a job prints must not lead us into folders of others. */
    if (!is_named_by_user(trigger, config_dir->dir) &&
        is_anothers(config_dir, member->shown.process.uid)) {
        (void)snprintf(text, bytes,
                       "%.300s is another user's; if it is the right one, name its folder with "
                       "--mindspore-config",
                       config_dir->path);
        return text;
    }
    return NULL;
}

static const char *monitor_problem(const struct mindspore_member *member,
                                   const struct mindspore_block *block, char *text, size_t bytes)
{
    if (block->dead_monitor) {
        (void)snprintf(
            text, bytes,
            "the monitor of its job (process %d) has ended: an empty, torn or invalid "
            "profiler_config.json ends it for good, also the template that rank 0 writes "
            "at the start when it is caught half-written. Only a restart of the job brings "
            "it back; put a whole file there before (rankscope config init --framework "
            "mindspore)",
            (int)block->dead_monitor);
    } else if (block->monitor) {
        return NULL;
    } else if (member->began_ns && block->made_ns + left_block_ns < member->began_ns) {
        const int64_t age_s = (member->began_ns - block->made_ns) / RS_NS_PER_S;
        (void)snprintf(text, bytes,
                       "no monitor: /dev/shm/%s was there %" PRId64 " s before this rank began, "
                       "left by a killed job; end this job, remove that file and start again",
                       block->name, age_s);
    } else if (block->had_monitor) {
        (void)snprintf(text, bytes,
                       "the monitor of its job has ended, with the rank that had made it or by a "
                       "signal: this job takes no captures any more; restart it");
    } else {
        (void)snprintf(text, bytes,
                       "no monitor process serves /dev/shm/%s: its rank has ended, or the file was "
                       "left by a killed job; end this job, remove that file and start again",
                       block->name);
    }
    return text;
}

static void check_member(const struct mindspore_trigger *trigger, struct mindspore_member *member)
{
    const struct mindspore_block *block = mindspore_block_of(trigger, member);
    char text[RS_CONFIG_WHY_BYTES];
    const char *why = NULL;
    if (member->uses_msmonitor)
        why = "started with MSMONITOR_USE_DAEMON=1: its profiler is notified by msmonitor then and "
              "reads no file; start the job without it";
    if (!why)
        why = monitor_problem(member, block, text, sizeof text);
    if (!why)
        why = folder_problem(trigger, member, block, text, sizeof text);
    const struct mindspore_config_dir *config_dir = mindspore_config_dir_of(trigger, member);
    if (why && !member->shown.is_unresponsive)
        rs_log_warn("rank %d (process %d): %s", member->shown.rank, (int)member->hold.pid, why);
    member->shown.is_unresponsive = why != NULL;
    (void)snprintf(member->shown.unresponsive_because, sizeof member->shown.unresponsive_because,
                   "%s", why ? why : "");
    (void)snprintf(member->shown.config_dir, sizeof member->shown.config_dir, "%s",
                   config_dir ? config_dir->dir : member->own_dir);
}

void mindspore_check_health(struct mindspore_trigger *trigger)
{
    for (size_t i = trigger->member_count; i-- > 0;) {
        struct mindspore_member *member = &trigger->members[i];
        if (!member->shown.is_gone && rs_process_life(&member->hold) == RS_PROCESS_ENDED)
            member->shown.is_gone = true;
        /* one that is gone is kept until its capture was told */
        if (member->shown.is_gone && member->shown.state == RS_CONFIG_STATE_IDLE)
            remove_member(trigger, i);
    }
    forget_helpers(trigger);
    for (size_t i = 0; i < trigger->block_count; i++) {
        struct mindspore_block *block = &trigger->blocks[i];
        find_monitor(trigger, block);
        find_folder(trigger, block);
        if (!is_block_used(trigger, (ptrdiff_t)i))
            block->config_dir = MINDSPORE_NONE;
    }
    for (size_t i = 0; i < trigger->member_count; i++)
        if (!trigger->members[i].shown.is_gone)
            check_member(trigger, &trigger->members[i]);
}
