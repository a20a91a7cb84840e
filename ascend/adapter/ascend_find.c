/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks and monitors: by the logs that processes hold open.
 *
 * The environment alone does not make a rank: launchers, data-loader children and the monitor itself inherit
 * PROF_CONFIG_PATH. The process whose own pid (in its own namespace) stands in the name of the log that it holds open is the rank; one that
 * holds open monitor_dp_..._PID_... with its own pid is a monitor.
 */
#include "ascend/adapter/ascend_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_LIMIT_BYTES = 64 * 1024, FDS_MAX = 65536, DEFAULT_POLL_S = 2 };

static const rs_dur scan_every_ns = 5 * (rs_dur)RS_NS_PER_S; /* all of /proc: it costs */

/* ---- config_dirs ------------------------------------------------------------------------------------------------- */

static struct config_dir *take_config_dir(struct trigger *trigger, pid_t pid, const char *dir)
{
    char local[RS_CONFIG_PATH_BYTES];
    struct stat info;
    if (rs_config_path_of(pid, dir, local, NULL) < 0 || stat(local, &info) != 0 ||
        !S_ISDIR(info.st_mode))
        return NULL;
    for (size_t i = 0; i < trigger->config_dir_count; i++) {
        struct config_dir *config_dir = trigger->config_dirs[i];
        if (config_dir->device != info.st_dev || config_dir->inode != info.st_ino)
            continue;
        (void)snprintf(config_dir->local, sizeof config_dir->local, "%s", local);
        return config_dir;
    }
    struct config_dir *config_dir = rs_mem_calloc(1, sizeof *config_dir);
    if (!config_dir ||
        rs_mem_grow((void **)&trigger->config_dirs, &trigger->config_dir_capacity,
                    trigger->config_dir_count + 1, sizeof(struct config_dir *)) < 0) {
        rs_mem_free(config_dir);
        return NULL;
    }
    (void)snprintf(config_dir->dir, sizeof config_dir->dir, "%s", dir);
    (void)snprintf(config_dir->local, sizeof config_dir->local, "%s", local);
    config_dir->device = info.st_dev;
    config_dir->inode = info.st_ino;
    config_dir->anchor_step = config_dir->step = -1;
    config_dir->poll = DEFAULT_POLL_S * (rs_dur)RS_NS_PER_S;
    trigger->config_dirs[trigger->config_dir_count++] = config_dir;
    return config_dir;
}

/* ---- members ------------------------------------------------------------------------------------------------ */

void npu_member_free(struct member *member)
{
    rs_process_release(&member->hold);
    npu_tail_fini(&member->tail);
    rs_mem_free(member);
}

static bool is_known(const struct trigger *trigger, pid_t pid, uint64_t start_ticks)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct rs_process *process = &trigger->members[i]->shown.process;
        if (process->pid == pid && process->start_ticks == start_ticks)
            return true;
    }
    return false;
}

/* The counter of a job that is over is not the next one's, which begins anew in the same folder; its pace mostly is. */
static void forget_job(const struct trigger *trigger, struct config_dir *config_dir)
{
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->config_dir == config_dir &&
            rs_process_life(&trigger->members[i]->hold) != RS_PROCESS_ENDED)
            return;
    config_dir->step = config_dir->anchor_step = -1;
    config_dir->step_at = config_dir->anchor_at = 0;
    config_dir->poll = DEFAULT_POLL_S * (rs_dur)RS_NS_PER_S;
}

static void add_member(struct trigger *trigger, const struct rs_process *process,
                       struct config_dir *config_dir, const struct ascend_log_name *name,
                       const char *log_path)
{
    char path[RS_CONFIG_PATH_BYTES + 300];
    char local[RS_CONFIG_PATH_BYTES];
    const char *base = strrchr(log_path, '/');
    struct member *member = rs_mem_calloc(1, sizeof *member);
    if (!member || rs_mem_grow((void **)&trigger->members, &trigger->member_capacity,
                               trigger->member_count + 1, sizeof(struct member *)) < 0) {
        rs_mem_free(member);
        return;
    }
    /* By its own root where it has one: another rank's goes with that rank. */
    if (rs_config_path_of(process->pid, config_dir->dir, local, NULL) < 0)
        (void)snprintf(local, sizeof local, "%s", config_dir->local);
    (void)snprintf(path, sizeof path, "%s/log/%.255s", local, base ? base + 1 : log_path);
    struct rs_config_rank *shown = &member->shown;
    shown->process = *process;
    shown->rank = (int32_t)name->rank;
    shown->world = process->world_size;
    (void)snprintf(shown->run, sizeof shown->run, "%s", process->run);
    (void)snprintf(shown->config_dir, sizeof shown->config_dir, "%s", config_dir->dir);
    shown->step = shown->started_step = shown->stopped_step = -1;
    shown->poll_period = config_dir->poll;
    member->has_no_rank = name->rank < 0;
    member->log_pid = name->pid;
    member->config_dir = config_dir;
    member->anchor_step = member->began_step = member->taken_other = -1;
    member->found_at = trigger->monotonic();
    rs_process_hold(&member->hold, process->pid, process->start_ticks);
    forget_job(trigger, config_dir); /* before its own log tells */
    npu_tail_init(&member->tail, path);
    rs_user_of_process(process->pid, process->uid, &member->tail.user);
    trigger->members[trigger->member_count++] = member;
    npu_listen_to(trigger, member);
}

/* A job of one process has no rank of its own: it is rank 0 of 1. Of several nobody knows which is which. */
static void number_the_nameless(struct trigger *trigger)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        size_t company = 0;
        if (!member->has_no_rank)
            continue;
        for (size_t j = 0; j < trigger->member_count; j++)
            company += trigger->members[j]->config_dir == member->config_dir &&
                       !trigger->members[j]->shown.is_gone;
        member->shown.rank = company == 1 ? 0 : -1;
        member->shown.world = company == 1 ? 1 : -1;
    }
}

/* ---- monitors ----------------------------------------------------------------------------------------------- */

static void add_monitor(struct trigger *trigger, const struct rs_process *process, const char *dir)
{
    struct monitor monitor = {.block_inode = 0};
    struct block block;
    struct stat info;
    char local[RS_CONFIG_PATH_BYTES];
    for (size_t i = 0; i < trigger->monitor_count; i++)
        if (trigger->monitors[i].hold.pid == process->pid &&
            trigger->monitors[i].hold.start_ticks == process->start_ticks)
            return;
    if (rs_mem_grow((void **)&trigger->monitors, &trigger->monitor_capacity,
                    trigger->monitor_count + 1, sizeof *trigger->monitors) < 0)
        return;
    (void)snprintf(monitor.dir, sizeof monitor.dir, "%s", dir);
    if (rs_config_path_of(process->pid, dir, local, NULL) == RS_OK && stat(local, &info) == 0) {
        monitor.device = info.st_dev;
        monitor.inode = info.st_ino;
    }
    npu_block_of(process->pid, &block);
    (void)snprintf(monitor.block, sizeof monitor.block, "%s", block.name);
    monitor.block_device = block.device;
    monitor.block_inode = block.inode;
    rs_process_hold(&monitor.hold, process->pid, process->start_ticks);
    trigger->monitors[trigger->monitor_count++] = monitor;
}

void npu_forget_monitors(struct trigger *trigger)
{
    size_t kept = 0;
    for (size_t i = 0; i < trigger->monitor_count; i++) {
        struct monitor *monitor = &trigger->monitors[i];
        if (rs_process_life(&monitor->hold) == RS_PROCESS_ENDED)
            rs_process_release(&monitor->hold);
        else
            trigger->monitors[kept++] = *monitor;
    }
    trigger->monitor_count = kept;
}

/* ---- processes ---------------------------------------------------------------------------------------------- */

/* The pid by which a process knows itself: the last one of NSpid. */
static int64_t own_pid(pid_t pid)
{
    char path[64];
    struct rs_buf buf = {0};
    int64_t own = pid;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (rs_file_read(path, STATUS_LIMIT_BYTES, &buf, NULL) == RS_OK) {
        const char *line = strstr(rs_buf_text(&buf), "\nNSpid:");
        const char *end = line ? strchr(line + 1, '\n') : NULL;
        const char *at = end;
        while (at && at > line && at[-1] >= '0' && at[-1] <= '9')
            at--;
        if (at && at < end)
            own = strtoll(at, NULL, 10);
    }
    rs_buf_fini(&buf);
    return own;
}

struct found_log {
    char path[1100];
    struct ascend_log_name name;
};

/* The log among the open files of a process that is its own; false: there is none. */
static bool find_log(pid_t pid, struct found_log *found)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    const int64_t own = own_pid(pid);
    bool is_found = false;
    const struct dirent *entry;
    for (size_t seen = 0; !is_found && seen < FDS_MAX && (entry = rs_dir_next(dir)); seen++) {
        static const char deleted[] = " (deleted)";
        const ssize_t length =
            readlinkat(dirfd(dir), entry->d_name, found->path, sizeof found->path - 1);
        if (length <= 0 || found->path[0] != '/')
            continue;
        found->path[length] = '\0';
        char *tail = strstr(found->path, deleted);
        if (tail && tail[sizeof deleted - 1] == '\0')
            *tail = '\0';
        is_found = npu_log_name_parse(found->path, &found->name) && found->name.pid == own &&
                   found->name.dir_length < RS_CONFIG_PATH_BYTES;
    }
    (void)closedir(dir);
    return is_found;
}

/* A process that may open such a log later: asked again. */
static bool may_become_one(const struct rs_config_visit *visit)
{
    char path[64];
    char name[32];
    FILE *file;
    if (rs_config_variable(visit, "PROF_CONFIG_PATH") || rs_config_variable(visit, "RANK"))
        return true;
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)visit->pid);
    file = fopen(path, "re");
    const bool is_read = file && fgets(name, sizeof name, file);
    if (file)
        (void)fclose(file);
    return is_read && (strncmp(name, "python", 6) == 0 || strncmp(name, "pt_main", 7) == 0 ||
                       strncmp(name, "DynMonitor", 10) == 0);
}

static bool on_process(void *self, const struct rs_config_visit *visit)
{
    struct trigger *trigger = self;
    struct found_log found;
    struct rs_process process;
    char dir[RS_CONFIG_PATH_BYTES];
    if (visit->environ_length == 0 || !may_become_one(visit))
        return false;
    if (!find_log(visit->pid, &found) || rs_process_read(visit->pid, &process, NULL) != RS_OK)
        return true;
    (void)snprintf(dir, sizeof dir, "%.*s", (int)found.name.dir_length, found.path);
    if (found.name.is_monitor) {
        add_monitor(trigger, &process, dir);
        return false;
    }
    struct config_dir *config_dir = take_config_dir(trigger, visit->pid, dir);
    if (config_dir && !is_known(trigger, process.pid, process.start_ticks))
        add_member(trigger, &process, config_dir, &found.name, found.path);
    return config_dir == NULL;
}

/* ---- folders that were named ---------------------------------------------------------------------------------- */

static rs_ns started_at(const struct trigger *trigger, uint64_t start_ticks)
{
    struct timespec boot;
    const long per_second = sysconf(_SC_CLK_TCK);
    if (clock_gettime(CLOCK_BOOTTIME, &boot) != 0 || per_second <= 0)
        return 0;
    const rs_ns since_boot = (rs_ns)boot.tv_sec * RS_NS_PER_S + boot.tv_nsec;
    return trigger->realtime() - since_boot +
           (rs_ns)(start_ticks * (uint64_t)(RS_NS_PER_S / per_second));
}

/* A log of this host whose process lives and is no younger than its log. */
static void look_at_log(struct trigger *trigger, const char *folder, const char *file)
{
    char path[RS_CONFIG_PATH_BYTES + 300];
    char host[256];
    struct ascend_log_name name;
    struct rs_process process;
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/log/%.255s", folder, file);
    if (!npu_log_name_parse(path, &name) || name.is_monitor ||
        gethostname(host, sizeof host) != 0 || strlen(host) != name.host_length ||
        memcmp(host, name.host, name.host_length) != 0 || stat(path, &info) != 0 ||
        rs_process_read((pid_t)name.pid, &process, NULL) != RS_OK ||
        is_known(trigger, process.pid, process.start_ticks))
        return;
    const rs_ns written = rs_time_of(&info.st_mtim);
    if (written + RS_NS_PER_S < started_at(trigger, process.start_ticks))
        return;
    struct config_dir *config_dir = take_config_dir(trigger, process.pid, folder);
    if (config_dir)
        add_member(trigger, &process, config_dir, &name, path);
}

static void look_at_named(struct trigger *trigger)
{
    for (size_t i = 0; i < trigger->dir_count; i++) {
        char path[RS_CONFIG_PATH_BYTES + 8];
        (void)snprintf(path, sizeof path, "%s/log", trigger->dirs[i]);
        DIR *dir = opendir(path);
        if (!dir)
            continue;
        const struct dirent *entry;
        while ((entry = rs_dir_next(dir)))
            if (strncmp(entry->d_name, "dp_", 3) == 0)
                look_at_log(trigger, trigger->dirs[i], entry->d_name);
        (void)closedir(dir);
    }
}

void npu_find(struct trigger *trigger)
{
    const rs_ns now = trigger->monotonic();
    if (trigger->scanned_at && now < trigger->scanned_at + scan_every_ns)
        return;
    trigger->scanned_at = now;
    npu_forget_monitors(trigger);
    (void)rs_config_scan_run(trigger->scan, now, on_process, trigger);
    look_at_named(trigger);
    number_the_nameless(trigger);
}

/* ---- listening ---------------------------------------------------------------------------------------------- */

struct listener {
    struct trigger *trigger;
    struct member *member;
};

static void on_line(void *self, const struct ascend_line *line)
{
    struct listener *listener = self;
    npu_on_line(listener->trigger, listener->member, line);
}

void npu_listen_to(struct trigger *trigger, struct member *member)
{
    struct listener listener = {trigger, member};
    member->has_log = npu_tail_read(&member->tail, on_line, &listener);
}

/* A folder that was reached through the root of a rank that ended is reached through another's. */
static void find_again(struct trigger *trigger, struct config_dir *config_dir)
{
    char local[RS_CONFIG_PATH_BYTES];
    struct stat info;
    if (stat(config_dir->local, &info) == 0)
        return;
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        if (member->config_dir != config_dir || member->shown.is_gone ||
            rs_config_path_of(member->shown.process.pid, config_dir->dir, local, NULL) < 0)
            continue;
        (void)snprintf(config_dir->local, sizeof config_dir->local, "%s", local);
        return;
    }
}

void npu_listen(struct trigger *trigger)
{
    for (size_t i = 0; i < trigger->member_count; i++) {
        struct member *member = trigger->members[i];
        if (!member->shown.is_gone && rs_process_life(&member->hold) == RS_PROCESS_ENDED) {
            member->shown.is_gone = true;
            trigger->checked_at = 0; /* it may have been the one that served the others */
            number_the_nameless(trigger);
            find_again(trigger, member->config_dir);
        }
        npu_listen_to(trigger, member);
    }
}
