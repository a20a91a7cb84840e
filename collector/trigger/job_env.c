/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/trigger/job_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The profiler's settings that are installed with this program: below share of the prefix (the program lies in bin, in the portable
 * build in lib/rankscope) or of the build folder, and its owner's: below /tmp anybody could put such a file beside somebody's folder.
 * NULL: they are not there, or this machine has its own. */
static const char *find_kineto_config(char path[PATH_MAX])
{
    static const char *const places[] = {"/../share", "/../../share", "/share"};
    char own[PATH_MAX];
    struct stat program;
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0 || stat("/proc/self/exe", &program) != 0 ||
        access("/etc/libkineto.conf", F_OK) == 0)
        return NULL;
    own[length] = 0;
    *strrchr(own, '/') = 0; /* absolute, since the kernel says it */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char candidate[PATH_MAX];
        struct stat found;
        const int needed =
            snprintf(candidate, sizeof candidate, "%s%s/rankscope/libkineto.conf", own, places[i]);
        if (needed > 0 && (size_t)needed < sizeof candidate && realpath(candidate, path) &&
            stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == program.st_uid &&
            !(found.st_mode & S_IWOTH))
            return path;
    }
    return NULL;
}

void rs_job_env_make(struct rs_job_env *env, const char *run, const char *socket_dir,
                     const char *trace_dir)
{
    /* Below /tmp, which is there on every node: NCCL ends a job that cannot make its pipe. Our own pid, which the launcher
     * keeps, parts jobs from each other. */
    (void)snprintf(env->dump_prefix, sizeof env->dump_prefix, "/tmp/rankscope_flight_%u_%d_rank_",
                   (unsigned)getuid(), (int)getpid());
    (void)snprintf(env->pipe_prefix, sizeof env->pipe_prefix, "/tmp/rankscope_flight_%u_%d_ask_",
                   (unsigned)getuid(), (int)getpid());
    const struct rs_job_variable list[RS_JOB_VARIABLES] = {
        {"KINETO_USE_DAEMON", "1", "PyTorch's profiler asks the collector for work"},
        {"KINETO_IPC_SOCKET_DIR", socket_dir,
         "the profiler's socket is a file here (other network namespaces can share it)"},
        {"KINETO_ONDEMAND_TRACE_DIR", trace_dir,
         "traces may be written here besides /tmp (torch since 2.15)"},
        {"KINETO_CONFIG", find_kineto_config(env->kineto_config),
         "the profiler asks every 2 s, and a capture begins sooner (else every 5 s)"},
        {"RANKSCOPE_RUN", run, "the run's name"},
        /* For rankscope hang. The older names, which every release reads; what is set under the newer ones counts there. */
        {"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000",
         "the flight recorder keeps this many calls (off by default in older releases)"},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "a rank writes its recorder when a call times out"},
        {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", env->dump_prefix, "to this name and its rank"},
        {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", env->pipe_prefix,
         "and at any time when it is asked through this pipe (NCCL)"},
    };
    memcpy(env->variables, list, sizeof list);
}
