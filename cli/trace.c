/* SPDX-License-Identifier: Apache-2.0 */
/* `rankscope trace WHAT PATH...|CAPTURE`: what single ranks recorded, for a closer look at who was named. */
#include "aggregator/trace/inspect.h"
#include "cli/cli.h"
#include "cli/present.h"
#include "cli/verbs.h"
#include "common/client/client.h"
#include "common/client/place.h"

static const char verb[] = "trace";

static struct rs_cli_noter noter = {.verb = verb};
static struct rs_inspect_options words = {.note = rs_cli_note_line, .note_self = &noter};
static struct rs_arg_list names, rank_from;
static const char *rank_map, *data, *connect_to;
static bool is_quiet;

static enum rs_status find(char **paths, struct rs_client_carried *carried,
                           struct rs_recordings *recordings, struct rs_err *err)
{
    const struct rs_discover_options how = {.rank_map_path = rank_map,
                                            .rank_from = rank_from.items,
                                            .rank_from_count = rank_from.count};
    size_t count = 0;
    while (paths[count])
        count++;
    if (count != 1 || !rs_client_is_capture(paths[0]))
        return rs_recordings_of_files((const char *const *)paths, count, &how, recordings, err);
    const enum rs_status status = rs_client_carry(paths[0], data, connect_to, carried, err);
    return status == RS_OK ? rs_recordings_of_capture(carried->dir, recordings, err) : status;
}

static int trace(char **operands)
{
    struct rs_err err = {0};
    struct rs_client_carried carried = {.dir = ""};
    struct rs_recordings recordings = {.count = 0};
    struct rs_buf text = {0};
    words.what = operands[0];
    words.names = names.items;
    words.name_count = names.count;
    enum rs_status status = rs_inspect_check(&words, &err);
    if (status == RS_OK)
        status = find(operands + 1, &carried, &recordings, &err);
    if (status == RS_OK)
        status = rs_inspect(&recordings, &words, &text, &err);
    if (status >= 0 && !(is_quiet && words.out) && rs_cli_print(&text, "it", &err) < 0)
        status = err.status;
    rs_buf_fini(&text);
    rs_recordings_close(&recordings);
    rs_client_carried_remove(&carried);
    return rs_cli_end(verb, status, &err);
}

/* clang-format off */
static const struct rs_arg options[] = {
    RS_OPT_TEXT("ranks", 'r', &words.ranks, "RANKS", "only these ranks, 0-3,8 (default: all)"),
    RS_OPT_TEXT("out", 'o', &words.out, "FILE", "of stacks, memory and chrome: where to; {rank} in it is the rank. memory: NAME.html, .json, .json.gz or .raw.json.gz; chrome: .json or .json.gz. A folder that is there: rank{rank} and the usual ending (.pt.trace.json.gz, which TensorBoard knows)"),
    RS_OPT_TEXT("sort-by", 0, &words.sort_by, "WHAT", "of operators: self_cpu (default without a device), cpu, self_device (default with one), device, self_cpu_memory, cpu_memory, self_device_memory, device_memory, flops, count, name; and torch's words for them (self_cuda_time_total)"),
    RS_OPT_INT("row-limit", 0, &words.row_limit, "N", -1, INT32_MAX, "of operators: so many rows of each rank (default 30; -1: all; JSON and CSV: all)"),
    RS_OPT_FLAG("by-shape", 0, &words.by_shapes, "of operators: one row for each shape of their inputs (record_shapes)"),
    RS_OPT_INT("by-stack", 0, &words.stack_frames, "N", 0, 64, "of operators: one row for each N innermost Python frames around them (with_stack)"),
    RS_OPT_LIST("name", 0, &names, "NAME", "of operators: only those of this name; may be given many times"),
    RS_OPT_SIZE("limit", 0, &words.limit_bytes, "SIZE", "of chrome: at most so large, before it is compressed (1MiB at least); rows that do not fit are counted"),
    RS_OPT_TEXT("metric", 0, &words.metric, "WHAT", "of stacks: self_cpu (default) or self_device"),
    RS_OPT_TEXT("device", 0, &words.device, "DEVICE", "of memory: cpu, cuda:0, npu:0, xpu, ... (default: the first that allocates, else cpu)"),
    RS_OPT_TEXT("rank-map", 0, &rank_map, "FILE", "JSON object: file name -> rank, or null for a file that is no rank"),
    RS_OPT_LIST("rank-from", 0, &rank_from, "PATTERN", "text before the rank in a file name; a '*' says where the number stands"),
    RS_CLI_DATA_ARG(&data),
    RS_CLI_CONNECT_ARGS(&connect_to),
    RS_OPT_FLAG("json", 0, &words.as_json, "of operators: print JSON, times in ns; unknown is null"),
    RS_OPT_FLAG("csv", 0, &words.as_csv, "of operators: print CSV"),
    RS_OPT_FLAG("quiet", 'q', &is_quiet, "do not say which files were written"),
};
const struct rs_args rs_grammar_trace = {
    .verb = verb, .operands = "operators|stacks|memory|chrome PATH...|CAPTURE", .least = 2, .most = RS_ARGS_ANY,
    .expected = "say what, and from what: trace operators|stacks|memory|chrome PATH...",
    .summary = "What single ranks recorded, for a closer look: operators summed up (torch's key_averages), stacks for a flame graph, memory over time, or the trace itself, for Perfetto or chrome://tracing.",
    RS_OPTIONS(options), .run = trace,
    .epilogue =
        "  rankscope trace operators traces/ --ranks 3 --sort-by cpu --row-limit 10\n"
        "  rankscope trace stacks traces/ --ranks 3 | flamegraph.pl --countname us. > rank3.svg\n"
        "  rankscope trace memory traces/ --ranks 3 --device cuda:0 -o memory.html\n"
        "  rankscope trace chrome 20260102-030405-a1b2c3 -o 'rank{rank}.pt.trace.json.gz'\n"
        "\n"
        "A self time is without the operators inside. What memory was allocated for stands in no trace.\n"
        "\n"
        "Exit: 0 complete, 1 partial (what is missing is named), 2 bad request or input, 3 cannot\n"
        "write, 4 no aggregator answers.\n"};
/* clang-format on */
