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
#include "collector/trigger/job_env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    bool print_env;
    const char *run, *socket_dir, *trace_dir;
} words;

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
static enum rs_status apply(const struct rs_job_variable *variable, bool print, struct rs_err *err)
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
    struct rs_job_env env;
    struct rs_err err = {0};
    enum rs_status status = check_folder("socket-dir", words.socket_dir, &err);
    if (status == RS_OK)
        status = check_folder("trace-dir", words.trace_dir, &err);
    rs_job_env_make(&env, words.run, words.socket_dir, words.trace_dir);
    for (size_t i = 0; status == RS_OK && i < RS_JOB_VARIABLES; i++)
        status = apply(&env.variables[i], words.print_env, &err);
    if (status == RS_OK && !words.print_env && !command[0])
        status = rs_err_set(&err, RS_INVALID, "there is no command; rankscope run -- CMD ...");
    if (status != RS_OK)
        return rs_cli_fail("run", &err);
    if (words.print_env)
        return RS_EXIT_COMPLETE;
    (void)execvp(command[0], command);
    const bool missing = errno == ENOENT;
    (void)rs_err_errno(&err, "cannot start %s", command[0]);
    (void)rs_cli_fail("run", &err);
    return missing ? 127 : 126; /* as a shell says it */
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_FLAG("print-env", 0, &words.print_env, "print the variables as shell commands, and start nothing"),
    RS_OPT_TEXT("run", 0, &words.run, "NAME", "the run's name (else the launcher's id)"),
    RS_OPT_TEXT("socket-dir", 0, &words.socket_dir, "DIR", "share the profiler's socket as a file in DIR, the collector's --kineto-socket-dir; needed where job and collector are in different network namespaces"),
    RS_OPT_TEXT("trace-dir", 0, &words.trace_dir, "DIR", "allow traces below DIR besides /tmp; a local disk"),
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
