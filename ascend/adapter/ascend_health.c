/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can the file reach a rank? It can when a monitor process that reads this folder's file serves the block that the rank has
 * mapped. The ways in which that fails, all silent in the job itself:
 *
 *   the block of an earlier job of the same hour was left (it was killed): this job found it, made no monitor of its
 *   own, and is unresponsive; if that job's monitor still lives, it serves the block with the other folder's file
 *   the same with a job that is alive: both follow the folder of the first
 *   the left block is older than 15 minutes: the profiler refused to start at all
 *   another user's block: it may not be opened
 *   the rank that made the block ended normally: the monitor ended with it
 */
#include "ascend/adapter/ascend_priv.h"
#include "common/base/file.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const rs_dur check_every_ns = 10 * (rs_dur)RS_NS_PER_S;
static const rs_dur settle_ns = 3 * (rs_dur)RS_NS_PER_S; /* a job that is just starting */
static const rs_dur silent_start_ns = 10 * (rs_dur)RS_NS_PER_S;

static const char block_head[] = "DynamicProfileNpuShm";

/* "START-END PERMS OFFSET MAJOR:MINOR INODE   PATH" of a memory map; true when it is the block's. */
static bool take_map_line(const char *line, struct block *block)
{
    unsigned major_number = 0, minor_number = 0;
    unsigned long long inode = 0;
    const char *name = strstr(line, block_head);
    if (!name || sscanf(line, /* NOLINT(cert-err34-c): the kernel wrote these digits */
                        "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &inode) != 3)
        return false;
    const size_t length = strcspn(name, " \n");
    if (length >= sizeof block->name)
        return false;
    memcpy(block->name, name, length);
    block->name[length] = '\0';
    block->device = makedev(major_number, minor_number);
    block->inode = (ino_t)inode;
    block->is_removed = strstr(name, "(deleted)") != NULL;
    return true;
}

void npu_block_of(pid_t pid, struct block *block)
{
    char path[64];
    char line[1024];
    *block = (struct block){0};
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    bool is_found = false;
    while (maps && !is_found && fgets(line, sizeof line, maps))
        is_found = take_map_line(line, block);
    if (maps)
        (void)fclose(maps);
}

static const struct monitor *monitor_of_config_dir(const struct trigger *trigger,
                                                   const struct config_dir *config_dir)
{
    for (size_t i = 0; i < trigger->monitor_count; i++)
        if (trigger->monitors[i].inode == config_dir->inode &&
            trigger->monitors[i].device == config_dir->device)
            return &trigger->monitors[i];
    return NULL;
}

static const struct monitor *monitor_of_block(const struct trigger *trigger,
                                              const struct block *block)
{
    for (size_t i = 0; i < trigger->monitor_count; i++)
        if (*block->name && trigger->monitors[i].block_inode == block->inode &&
            trigger->monitors[i].block_device == block->device)
            return &trigger->monitors[i];
    return NULL;
}

/* Its parent, the rank that made it, has ended: init or a subreaper has it now. */
static bool is_orphan(const struct trigger *trigger, const struct monitor *monitor)
{
    struct rs_process process;
    if (rs_process_read(monitor->hold.pid, &process, NULL) != RS_OK)
        return false;
    for (size_t i = 0; i < trigger->member_count; i++)
        if (trigger->members[i]->shown.process.pid == process.parent &&
            !trigger->members[i]->shown.is_gone)
            return false;
    return true;
}

static void set_unresponsive(struct member *member, const char *format, ...) RS_PRINTF(2, 3);

static void set_unresponsive(struct member *member, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    member->shown.is_unresponsive = true;
    (void)vsnprintf(member->shown.unresponsive_because, sizeof member->shown.unresponsive_because,
                    format, args);
    va_end(args);
}

/* The oldest block that this process could have found, by name; "" none. */
static void find_old_block(const struct member *member, char name[ASCEND_BLOCK_BYTES])
{
    char path[64];
    name[0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%d/root/dev/shm", (int)member->shown.process.pid);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = rs_dir_next(dir)))
        if (strncmp(entry->d_name, block_head, sizeof block_head - 1) == 0 &&
            strlen(entry->d_name) < ASCEND_BLOCK_BYTES &&
            (!*name || strcmp(entry->d_name, name) < 0))
            (void)snprintf(name, ASCEND_BLOCK_BYTES, "%.*s", ASCEND_BLOCK_BYTES - 1, entry->d_name);
    if (dir)
        (void)closedir(dir);
}

/* It opened its log and never came so far as to listen. */
static void check_not_up(struct trigger *trigger, struct member *member)
{
    char name[ASCEND_BLOCK_BYTES];
    if (member->is_denied) {
        set_unresponsive(
            member, "another user's job has made the shared block of this hour on this host, and "
                    "its profiler may not open it: start this job in another hour, or remove "
                    "the block when that job is over");
        return;
    }
    if (member->is_not_shared) {
        set_unresponsive(member,
                         "its profiler could not make its shared block in /dev/shm (see %.300s)",
                         member->tail.path);
        return;
    }
    if (trigger->monotonic() < member->found_at + silent_start_ns)
        return;
    find_old_block(member, name);
    if (*name)
        set_unresponsive(
            member,
            "its profiler refused to start, because the shared block /dev/shm/%s was left by a "
            "job that was killed: remove that file and start this job again",
            name);
    else
        set_unresponsive(member,
                         "its profiler has not started to listen (its log %.300s says nothing)",
                         member->tail.path);
}

/* Nobody reads the file of its folder. */
static void check_unserved(struct trigger *trigger, struct member *member)
{
    struct block block;
    npu_block_of(member->shown.process.pid, &block);
    const struct monitor *other = monitor_of_block(trigger, &block);
    const char *name = *block.name ? block.name : block_head;
    bool had_creator = member->is_creator;
    for (size_t i = 0; i < trigger->member_count; i++)
        had_creator |= trigger->members[i]->config_dir == member->config_dir &&
                       trigger->members[i]->is_creator;
    if (other && is_orphan(trigger, other))
        set_unresponsive(
            member,
            "it found the shared block /dev/shm/%s of a job that was killed, and that job's "
            "monitor (process %d) still serves it with the file in %.150s: end process %d, "
            "remove the block, and start this job again",
            name, (int)other->hold.pid, other->dir, (int)other->hold.pid);
    else if (other)
        set_unresponsive(
            member,
            "another job of this user that began in the same hour made the shared block "
            "/dev/shm/%s, and its monitor (process %d) reads the file in %.150s only: start this "
            "job again when that one is over, or in another hour",
            name, (int)other->hold.pid, other->dir);
    else if (had_creator || block.is_removed)
        set_unresponsive(member,
                         "the rank that served the shared block of this job has ended, and its "
                         "monitor with it: no file is read any more until the job starts again");
    else
        set_unresponsive(
            member,
            "it found the shared block /dev/shm/%s left by a job that was killed, and no process "
            "reads %.150s/profiler_config.json for it: end this job, remove the block, and start "
            "it again",
            name, member->config_dir->dir);
}

static void check_member(struct trigger *trigger, struct member *member)
{
    member->shown.is_unresponsive = false;
    member->shown.unresponsive_because[0] = '\0';
    if (member->shown.is_gone)
        return;
    if (!member->has_log)
        set_unresponsive(member, "its log %.300s cannot be read, and nothing else answers",
                         member->tail.path);
    else if (member->has_no_rank && member->shown.rank < 0)
        set_unresponsive(
            member, "it has no RANK and is not the only process of its job: start its job with "
                    "RANK set, so that the file can name it");
    else if (!member->is_up)
        check_not_up(trigger, member);
    else if (!monitor_of_config_dir(trigger, member->config_dir) &&
             trigger->monotonic() > member->found_at + settle_ns)
        check_unserved(trigger, member);
}

void npu_check_health(struct trigger *trigger, bool must)
{
    const rs_ns now = trigger->monotonic();
    if (!must && trigger->checked_at && now < trigger->checked_at + check_every_ns)
        return;
    trigger->checked_at = now;
    if (must) { /* who is unresponsive is judged by who lives now: a monitor may be new */
        trigger->scanned_at = 0;
        npu_find(trigger);
    }
    npu_forget_monitors(trigger);
    for (size_t i = 0; i < trigger->member_count; i++)
        check_member(trigger, trigger->members[i]);
}

void npu_config_dir_note(struct trigger *trigger, const struct config_dir *config_dir, char *note,
                         size_t bytes)
{
    const struct monitor *monitor = monitor_of_config_dir(trigger, config_dir);
    note[0] = '\0';
    if (!monitor)
        return;
    if (is_orphan(trigger, monitor)) {
        (void)snprintf(note, bytes,
                       "the rank that started the monitor was killed; process %d goes on serving "
                       "this job and stays when it is over: end it then, and remove /dev/shm/%s, "
                       "or the next job of this hour is unresponsive",
                       (int)monitor->hold.pid, monitor->block);
        return;
    }
    for (size_t i = 0; i < trigger->member_count; i++) {
        const struct member *member = trigger->members[i];
        struct block block;
        if (member->config_dir == config_dir || member->shown.is_gone || !member->is_up)
            continue;
        npu_block_of(member->shown.process.pid, &block);
        if (monitor_of_block(trigger, &block) != monitor)
            continue;
        (void)snprintf(note, bytes,
                       "another job of this user shares this job's block (folder %.200s): ranks of "
                       "it with the same numbers will record, too",
                       member->config_dir->dir);
        return;
    }
}
