/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/process.h"

#include "common/base/as_user.h"
#include "common/base/buf.h"
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENVIRON_LIMIT_BYTES = 1024 * 1024, STAT_LIMIT_BYTES = 4096, ANCESTORS_MAX = 32 };

/* Value of a variable in a NUL-separated block that ends with a NUL; NULL when it is not there. */
static const char *variable(const char *block, size_t length, const char *name)
{
    const size_t name_length = strlen(name);
    for (const char *at = block; at < block + length;) {
        const size_t entry = strnlen(at, (size_t)(block + length - at));
        if (entry > name_length && at[name_length] == '=' && memcmp(at, name, name_length) == 0)
            return at + name_length + 1;
        at += entry + 1;
    }
    return NULL;
}

/* A whole non-negative decimal number that fits; -1 otherwise. */
static int32_t number(const char *text)
{
    if (!text || *text < '0' || *text > '9')
        return -1;
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return *end == '\0' && errno == 0 && value <= INT32_MAX ? (int32_t)value : -1;
}

static void copy_text(char *to, const char *text)
{
    (void)snprintf(to, RS_PROCESS_TEXT_BYTES, "%s", text ? text : "");
}

static void find_rank(const char *block, size_t length, struct rs_process *process)
{
    static const struct {
        const char *rank, *local, *world;
        bool needs_world;
    } launchers[] = {
        {"RANK", "LOCAL_RANK", "WORLD_SIZE", true},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", false},
        {"PMIX_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", false},
        {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", false},
        {"HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE", false},
        {"RANK_ID", "DEVICE_ID", "RANK_SIZE", false},
        {"MS_NODE_ID", "DEVICE_ID", "MS_WORKER_NUM", false},
        {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", false},
    };
    const char *role = variable(block, length, "MS_ROLE");
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const int32_t rank = number(variable(block, length, launchers[i].rank));
        const int32_t world = number(variable(block, length, launchers[i].world));
        if (rank < 0 || (launchers[i].needs_world && world < 0))
            continue;
        /* MindSpore's scheduler has a node id too, and is no worker. */
        if (strcmp(launchers[i].rank, "MS_NODE_ID") == 0 && role && strcmp(role, "MS_WORKER") != 0)
            continue;
        process->rank = rank;
        process->world_size = world;
        process->local_rank = number(variable(block, length, launchers[i].local));
        process->rank_variable = launchers[i].rank;
        return;
    }
}

static void find_run(const char *block, size_t length, struct rs_process *process)
{
    const char *own = variable(block, length, "RANKSCOPE_RUN");
    const char *elastic = variable(block, length, "TORCHELASTIC_RUN_ID");
    const char *slurm = variable(block, length, "SLURM_JOB_ID");
    const char *address = variable(block, length, "MASTER_ADDR");
    const char *port = variable(block, length, "MASTER_PORT");
    if (own && *own)
        copy_text(process->run, own);
    else if (elastic && *elastic && strcmp(elastic, "none") != 0)
        copy_text(process->run, elastic);
    else if (slurm && *slurm)
        copy_text(process->run, slurm);
    else if (address && port)
        (void)snprintf(process->run, sizeof process->run, "%s:%s", address, port);
}

void rs_process_from_environ(const char *environ_bytes, size_t length, struct rs_process *process)
{
    const char *daemon = variable(environ_bytes, length, "KINETO_USE_DAEMON");
    const char *dump = variable(environ_bytes, length, "MINDSPORE_DUMP_CONFIG");
    process->has_environ = true;
    process->dumps_data = dump && *dump;
    process->uses_daemon = daemon && *daemon;
    copy_text(process->socket_dir, variable(environ_bytes, length, "KINETO_IPC_SOCKET_DIR"));
    copy_text(process->trace_dir, variable(environ_bytes, length, "KINETO_ONDEMAND_TRACE_DIR"));
    find_rank(environ_bytes, length, process);
    find_run(environ_bytes, length, process);
}

static enum rs_status read_proc(pid_t pid, const char *name, size_t limit, struct rs_buf *buf)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    rs_buf_reset(buf);
    return rs_file_read(path, limit, buf, NULL);
}

/* Fields 4 (parent) and 22 (start time) of /proc/PID/stat; the command in brackets may hold
 * blanks and brackets itself, so counting starts behind the last one. */
static enum rs_status parse_stat(const char *text, struct rs_process *process)
{
    const char *at = strrchr(text, ')');
    int parent;
    unsigned long long ticks;
    if (!at || sscanf(at + 1, /* NOLINT(cert-err34-c): the kernel wrote these digits */
                      " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                      "%*d %llu",
                      &parent, &ticks) != 2)
        return RS_FORMAT;
    process->parent = parent;
    process->start_ticks = ticks;
    return RS_OK;
}

static void read_command(pid_t pid, struct rs_buf *buf, struct rs_process *process)
{
    /* A command line longer than the limit is cut by it: its first words are what is shown. */
    const enum rs_status status = read_proc(pid, "cmdline", STAT_LIMIT_BYTES, buf);
    if (status != RS_OK && status != RS_LIMIT)
        return;
    size_t length = buf->length;
    while (length && buf->data[length - 1] == '\0')
        length--;
    for (size_t i = 0; i < length; i++)
        if (buf->data[i] < 0x20)
            buf->data[i] = ' ';
    (void)snprintf(process->command, sizeof process->command, "%.*s", (int)length,
                   length ? (const char *)buf->data : "");
}

enum rs_status rs_process_read(pid_t pid, struct rs_process *process_p, struct rs_err *err)
{
    struct rs_process process = {.pid = pid, .rank = -1, .local_rank = -1, .world_size = -1};
    struct rs_buf buf = {0};
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    enum rs_status status = RS_OK;
    if (stat(path, &info) != 0 || read_proc(pid, "stat", STAT_LIMIT_BYTES, &buf) != RS_OK ||
        parse_stat(rs_buf_text(&buf), &process) != RS_OK) {
        status = rs_err_set(err, RS_NOTFOUND, "there is no process %d", (int)pid);
    } else {
        /* A program that is setuid root is still his who gave it its environment. */
        const int64_t uid = rs_user_id_of_process(pid);
        process.uid = uid >= 0 ? (uid_t)uid : info.st_uid;
        read_command(pid, &buf, &process);
        if (read_proc(pid, "environ", ENVIRON_LIMIT_BYTES, &buf) == RS_OK && buf.length) {
            const char *block = rs_buf_text(&buf);
            rs_process_from_environ(block, buf.length, &process);
        }
        *process_p = process;
    }
    rs_buf_fini(&buf);
    return status;
}

static bool carries_same_rank(const struct rs_process *a, const struct rs_process *b)
{
    return a->rank == b->rank && a->local_rank == b->local_rank && a->world_size == b->world_size &&
           a->rank_variable == b->rank_variable;
}

pid_t rs_process_rank_holder(const struct rs_process *process,
                             rs_process_candidate_fn *is_candidate, void *self)
{
    pid_t parent = process->parent;
    for (int depth = 0; depth < ANCESTORS_MAX && parent > 1; depth++) {
        struct rs_process above;
        if (rs_process_read(parent, &above, NULL) != RS_OK)
            return 0;
        if (carries_same_rank(&above, process) && is_candidate(self, parent, above.start_ticks))
            return parent;
        parent = above.parent;
    }
    return 0;
}

enum rs_status rs_process_give_folder(const char *path, const struct rs_process *process,
                                      struct rs_err *err)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        if (fd >= 0)
            (void)close(fd);
        return rs_err_set(err, RS_REFUSED, "%s is not a folder of its own", path);
    }
    enum rs_status status = RS_OK;
    if (info.st_uid != process->uid && fchown(fd, process->uid, (gid_t)-1) != 0)
        status =
            rs_err_errno(err, "cannot give the folder %s to user %u", path, (unsigned)process->uid);
    else if (fchmod(fd, 0700) != 0)
        status = rs_err_errno(err, "cannot set the mode of %s", path);
    (void)close(fd);
    return status;
}

/* Reads /proc/PID/stat. RS_NOTFOUND only on the kernel's word that there is no such process. */
static enum rs_status read_stat(pid_t pid, struct rs_buf *buf, struct rs_process *process)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    rs_buf_reset(buf);
    const enum rs_status status = rs_file_read(path, STAT_LIMIT_BYTES, buf, NULL);
    if (status == RS_OK)
        return parse_stat(rs_buf_text(buf), process);
    /* It may have ended between open and read (ESRCH), or the file may not be had for a reason of ours. */
    return kill(pid, 0) != 0 && errno == ESRCH ? RS_NOTFOUND : RS_IO;
}

static bool has_ended(const char *stat)
{
    /* One that was not waited for yet: " Z " or " X " behind the command. */
    const char *state = strrchr(stat, ')');
    return state && state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X');
}

enum rs_status rs_process_look(pid_t pid, uint64_t start_ticks)
{
    struct rs_process process;
    struct rs_buf buf = {0};
    enum rs_status status = read_stat(pid, &buf, &process);
    if (status == RS_OK && (process.start_ticks != start_ticks || has_ended(rs_buf_text(&buf))))
        status = RS_NOTFOUND;
    rs_buf_fini(&buf);
    return status;
}

bool rs_process_is_alive(pid_t pid, uint64_t start_ticks)
{
    return rs_process_look(pid, start_ticks) != RS_NOTFOUND;
}

int rs_process_zombie_status(pid_t pid, uint64_t start_ticks)
{
    enum { EXIT_CODE_FIELD = 52, FIRST_FIELD = 3 }; /* counted from the state, behind the command */
    struct rs_process process;
    struct rs_buf buf = {0};
    int status = -1;
    if (read_stat(pid, &buf, &process) == RS_OK && process.start_ticks == start_ticks &&
        has_ended(rs_buf_text(&buf))) {
        const char *at = strrchr(rs_buf_text(&buf), ')') + 1;
        for (int field = FIRST_FIELD; at && field < EXIT_CODE_FIELD; field++)
            at = strchr(at + 1, ' ');
        status = at ? (int)strtol(at, NULL, 10) : -1;
    }
    rs_buf_fini(&buf);
    return status;
}

int64_t rs_process_memory(pid_t pid)
{
    struct rs_buf buf = {0};
    int64_t bytes = -1;
    if (read_proc(pid, "statm", 256, &buf) == RS_OK) {
        const char *resident = strchr(rs_buf_text(&buf), ' ');
        const long long pages = resident ? strtoll(resident, NULL, 10) : 0;
        const long page_bytes = sysconf(_SC_PAGESIZE);
        if (pages > 0 && page_bytes > 0 && pages < INT64_MAX / page_bytes)
            bytes = pages * page_bytes;
    }
    rs_buf_fini(&buf);
    return bytes;
}

/* ---- its host ------------------------------------------------------------------------------------------------------- */

int64_t rs_process_free_memory(void)
{
    static const char word[] = "\nMemAvailable:";
    struct rs_buf text = {0};
    int64_t bytes = 0;
    if (rs_file_read("/proc/meminfo", 65536, &text, NULL) == RS_OK) {
        const char *at = strstr(rs_buf_text(&text), word);
        const long long kilobytes = at ? strtoll(at + sizeof word - 1, NULL, 10) : 0;
        bytes = kilobytes > 0 && kilobytes < INT64_MAX / 1024 ? (int64_t)kilobytes * 1024 : 0;
    }
    rs_buf_fini(&text);
    return bytes;
}
