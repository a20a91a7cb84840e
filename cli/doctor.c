/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope doctor`: what collector/agent/doctor.h sees; doctor_say.c tells it. */
#include "cli/cli.h"
#include "cli/doctor_priv.h"
#include "cli/options/args.h"

static int visit(struct rs_doctor *doctor, bool is_json, bool is_quiet)
{
    struct rs_err err = {0};
    if (rs_doctor_look(doctor, &err) < 0) {
        rs_doctor_fini(doctor);
        return rs_cli_fail("doctor", &err);
    }
    if (is_json)
        doctor_print_json(doctor);
    else if (!is_quiet)
        doctor_print_text(doctor);
    size_t ranks = 0;
    size_t good = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        ranks += doctor->patients[i].is_rank;
        good += doctor->patients[i].is_rank && doctor->patients[i].reason_count == 0;
    }
    rs_doctor_fini(doctor);
    return ranks && good == ranks && !doctor->folder.network ? RS_EXIT_COMPLETE : RS_EXIT_PARTIAL;
}

int rs_cmd_doctor(int argc, char **argv)
{
    struct rs_doctor doctor = {0};
    bool is_json = false;
    bool is_quiet = false;
    const struct rs_arg items[] = {
        {.name = "trace-dir",
         .kind = RS_ARG_TEXT,
         .target = &doctor.trace_dir,
         .value = "DIR",
         .environment = "RANKSCOPE_TRACE_DIR",
         .help = "the collector's (default /tmp/rankscope-traces-UID)"},
        {.name = "kineto-socket-dir",
         .kind = RS_ARG_TEXT,
         .target = &doctor.socket_dir,
         .value = "DIR",
         .environment = "KINETO_IPC_SOCKET_DIR",
         .help = "the collector's (default: abstract sockets)"},
        {.name = "json",
         .kind = RS_ARG_FLAG,
         .target = &is_json,
         .help = "print JSON; unknown is null"},
        {.name = "quiet",
         .letter = 'q',
         .kind = RS_ARG_FLAG,
         .target = &is_quiet,
         .help = "print nothing: the exit code says it"},
    };
    const struct rs_args args = {
        .verb = "doctor",
        .operands = "",
        .summary =
            "Says for each PyTorch, torch_npu and MindSpore process on this node which rank it is and whether "
            "it can be captured, and if not, why not; and looks at the socket, the trace folder and the clock. "
            "Changes nothing. Programs that carry librankscope need no doctor: rankscope ranks lists them.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue =
            "  rankscope doctor\n"
            "  rankscope doctor --json\n"
            "\n"
            "Exit: 0 every rank can be captured, 1 some cannot, or there is none; 2 bad request.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && first < argc)
        status = rs_err_set(&err, RS_INVALID, "\"%s\" is not expected here", argv[first]);
    if (status < 0)
        return rs_cli_fail("doctor", &err);
    return visit(&doctor, is_json, is_quiet);
}
