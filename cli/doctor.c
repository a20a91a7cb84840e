/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope doctor`: what collector/agent/doctor.h sees; and tells. */
#include "collector/agent/doctor.h"

#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/base/terminal.h"

#include <limits.h>
#include <unistd.h>

static struct rs_doctor doctor;
static bool as_json, is_quiet;

static int visit(char **operands)
{
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    size_t ranks = 0, good = 0;
    (void)operands;
    enum rs_status status = rs_doctor_look(&doctor, &err);
    if (status == RS_OK && as_json)
        rs_doctor_json(&doctor, &buf);
    else if (status == RS_OK &&
             !is_quiet) /* facts of the node: a line each where a program reads them */
        rs_doctor_text(&doctor, rs_terminal_width(stdout),
                       isatty(STDOUT_FILENO) ? rs_terminal_width(stdout) : INT_MAX, &buf);
    if (as_json)
        rs_buf_u8(&buf, '\n');
    if (status == RS_OK)
        status = rs_cli_print(&buf, "what was found", &err);
    for (size_t i = 0; i < doctor.count; i++) {
        ranks += doctor.patients[i].is_rank;
        good += doctor.patients[i].is_rank && doctor.patients[i].reason_count == 0;
    }
    const bool is_good = ranks && good == ranks && !doctor.folder.network;
    rs_doctor_fini(&doctor);
    if (status < 0)
        return rs_cli_fail("doctor", &err);
    return is_good ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("trace-dir", 0, &doctor.trace_dir, "DIR", "the collector's (default /tmp/rankscope-traces-UID)", .environment = "RANKSCOPE_TRACE_DIR"),
    RS_OPT_TEXT("kineto-socket-dir", 0, &doctor.socket_dir, "DIR", "the collector's (default: abstract sockets)", .environment = "KINETO_IPC_SOCKET_DIR"),
    RS_OPT_FLAG("json", 0, &as_json, "print JSON; unknown is null"),
    RS_OPT_FLAG("quiet", 'q', &is_quiet, "print nothing: the exit code says it"),
};
const struct rs_args rs_grammar_doctor = {
    .verb = "doctor", .operands = "",
    .summary = "Says for each PyTorch, torch_npu and MindSpore process on this node which rank it is and whether it can be captured, and if not, why not; and looks at the socket, the trace folder and the clock. Changes nothing. Programs that carry librankscope need no doctor: rankscope ranks lists them.",
    RS_OPTIONS(options), .run = visit,
    .epilogue =
        "  rankscope doctor\n"
        "  rankscope doctor --json\n"
        "\n"
        "Exit: 0 every rank can be captured, 1 some cannot, or there is none; 2 bad request.\n"};
/* clang-format on */
