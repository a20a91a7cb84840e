/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope run [--] CMD...`: starts a job on this node with the environment that makes it attachable.
 *
 * Only variables are added, and only where the user has not set them; then the command takes this
 * process's place. Launchers (torchrun, mpirun, srun, plain python) hand the environment on to
 * the ranks they start on this node.
 */
#include "cli/cli.h"
#include "cli/verbs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DUMP_PREFIX_BYTES = 128 };

static struct request {
    bool print_env;
    const char *run;
    const char *socket_dir;
    const char *trace_dir;
    const char *kineto_config;
    char dump_prefix
        [DUMP_PREFIX_BYTES]; /* of files that exist on every node: the rank goes behind it */
    char pipe_prefix[DUMP_PREFIX_BYTES];
} request;

struct variable {
    const char *name;
    const char *value; /* NULL: not asked for */
    const char *why;
};

enum { VARIABLE_COUNT = 9 };

static void list_variables(struct variable *variables)
{
    const struct variable list[VARIABLE_COUNT] = {
        {"KINETO_USE_DAEMON", "1", "PyTorch's profiler asks the collector for work"},
        {"KINETO_IPC_SOCKET_DIR", request.socket_dir,
         "the profiler's socket is a file here (other network namespaces can share it)"},
        {"KINETO_ONDEMAND_TRACE_DIR", request.trace_dir,
         "traces may be written here besides /tmp (torch since 2.15)"},
        {"KINETO_CONFIG", request.kineto_config,
         "the profiler asks every 2 s, and a capture begins sooner (else every 5 s)"},
        {"RANKSCOPE_RUN", request.run, "the run's name"},
        /* For rankscope hang. The older names, which every release reads; what is set under the newer ones counts there. */
        {"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000",
         "the flight recorder keeps this many calls (off by default in older releases)"},
        {"TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "a rank writes its recorder when a call times out"},
        {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", request.dump_prefix, "to this name and its rank"},
        {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", request.pipe_prefix,
         "and at any time when it is asked through this pipe (NCCL)"},
    };
    memcpy(variables, list, sizeof list);
}

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

static enum rs_status check_folder(const char *option, const char *path, struct rs_err *err)
{
    struct stat info;
    if (!path)
        return RS_OK;
    if (path[0] != '/' || stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return rs_err_set(err, RS_INVALID, "--%s %s is not an absolute path of a folder", option,
                          path);
    return RS_OK;
}

/* A variable that the user has set is his: it stays, and is told when it differs from ours. */
static enum rs_status apply(const struct variable *variable, bool print, struct rs_err *err)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread here */
    const char *had = getenv(variable->name);
    const char *value = had && *had ? had : variable->value;
    if (!value)
        return RS_OK;
    if (print) {
        printf("export %s='", variable->name);
        for (const char *c = value; *c; c++)
            (void)(*c == '\'' ? fputs("'\\''", stdout) : fputc(*c, stdout));
        printf("' # %s\n", variable->why);
        return RS_OK;
    }
    if (variable->value && had && *had && strcmp(had, variable->value) != 0)
        rs_cli_note("run", "%s is %s already, and stays so", variable->name, had);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe) */
    return setenv(variable->name, value, 1) == 0
               ? RS_OK
               : rs_err_errno(err, "cannot set %s", variable->name);
}

static int start(char **command)
{
    struct variable variables[VARIABLE_COUNT];
    struct rs_err err = {0};
    char kineto_config[PATH_MAX];
    /* Below /tmp, which is there on every node: NCCL ends a job that cannot make its pipe. Our own pid, which the launcher
     * keeps, parts jobs from each other. */
    (void)snprintf(request.dump_prefix, sizeof request.dump_prefix,
                   "/tmp/rankscope_flight_%u_%d_rank_", (unsigned)getuid(), (int)getpid());
    (void)snprintf(request.pipe_prefix, sizeof request.pipe_prefix,
                   "/tmp/rankscope_flight_%u_%d_ask_", (unsigned)getuid(), (int)getpid());
    request.kineto_config = find_kineto_config(kineto_config);
    enum rs_status status = check_folder("socket-dir", request.socket_dir, &err);
    if (status == RS_OK)
        status = check_folder("trace-dir", request.trace_dir, &err);
    list_variables(variables);
    for (size_t i = 0; status == RS_OK && i < VARIABLE_COUNT; i++)
        status = apply(&variables[i], request.print_env, &err);
    if (status == RS_OK && !request.print_env && !command[0])
        status = rs_err_set(&err, RS_INVALID, "there is no command; rankscope run -- CMD ...");
    if (status != RS_OK)
        return rs_cli_fail("run", &err);
    if (request.print_env)
        return RS_EXIT_COMPLETE;
    (void)execvp(command[0], command);
    const bool missing = errno == ENOENT;
    (void)rs_err_errno(&err, "cannot start %s", command[0]);
    (void)rs_cli_fail("run", &err);
    return missing ? 127 : 126; /* as a shell says it */
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("print-env", 0, &request.print_env, "print the variables as shell commands, and start nothing"),
    RS_OPT_TEXT("run", 0, &request.run, "NAME", "the run's name (else the launcher's id)"),
    RS_OPT_TEXT("socket-dir", 0, &request.socket_dir, "DIR", "share the profiler's socket as a file in DIR, the collector's --kineto-socket-dir; needed where job and collector are in different network namespaces"),
    RS_OPT_TEXT("trace-dir", 0, &request.trace_dir, "DIR", "allow traces below DIR besides /tmp; a local disk"),
};
const struct rs_args rs_grammar_run = {
    .verb = "run", .operands = "[--] CMD...", .most = RS_ARGS_ANY,
    .summary = "Start a job on this node with the environment that makes it attachable. Only variables are added, and none that is set already is changed; the command takes this process's place.",
    RS_OPTIONS(options), .run = start, .is_launcher = true,
    .epilogue =
        "examples:\n"
        "  rankscope run -- torchrun --nproc-per-node 8 train.py\n"
        "  eval \"$(rankscope run --print-env)\"   # for a launcher that is started otherwise\n"
        "  rankscope run --run big -- mpirun -n 16 python train.py\n"
        "\n"
        "mpirun and srun start processes on other nodes, too: pass the variables on as your launcher\n"
        "does (mpirun -x NAME; srun takes them all). torch_npu and MindSpore jobs need PROF_CONFIG_PATH,\n"
        "or cfg_path of their monitor, instead: see README.md.\n"
        "\n"
        "Exit: the command's own; 2 bad request, 126 or 127 the command cannot be started.\n"};
/* clang-format on */
