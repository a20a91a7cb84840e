/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_time_compare_summary: ClusterTimeSummary of one result against another's.
 *
 * Peer: PATH and --bp each hold cluster_analysis_output/cluster_analysis.db with that table; for every
 * (rank, step) in both, each column X as X, XBase and XDiff = X - XBase; rows with an empty cell are dropped.
 * Database only, --step-id must be in both. Corrected: text form works too; rows that one
 * side lacks are reported.
 */
#include "ascend/recipe/recipe_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define SIDE_COLUMNS                                                                               \
    "rank:i step:i step_us:r computation:r exposed:r overlapped:r communication:r free:r wait:r "  \
    "transmit:r memory:r bare:r"

/* Rows of ClusterTimeSummary below `base`, as a frame. */
static void read_side(struct inputs *in, const char *base, struct frame *rows)
{
    struct rs_ascend_db *db = NULL;
    char *path = rs_file_join(base, "cluster_analysis_output/cluster_analysis.db");
    if (!path)
        in_fail(in, RS_NOMEM, "no memory for a name");
    if (in->status == RS_OK)
        in->status = rs_ascend_db_open(path, &db, &in->err);
    rs_mem_free(path);
    if (in->status == RS_OK && db_requires(db, "ClusterTimeSummary.memory", NULL) != RS_OK)
        in_fail(in, RS_NOTFOUND,
                "%s has no ClusterTimeSummary; make it with recipe cluster_time_summary",
                rs_ascend_db_path(db));
    in_load(in, rows, db,
            "SELECT rank, step, stepTime, computation, communicationNotOverlapComputation, "
            "communicationOverlapComputation, communication, free, communicationWaitStageTime, "
            "communicationTransmitStageTime, memory, memoryNotOverlapComputationCommunication "
            "FROM ClusterTimeSummary WHERE :step < 0 OR step = :step ORDER BY rank, step");
    if (in->status == RS_OK && !rows->count)
        in_fail(in, RS_NOTFOUND, "ClusterTimeSummary of %s has no such step",
                rs_ascend_db_path(db));
    rs_ascend_db_close(&db);
}

#define THREE(name)  "|" name ":r|" name "Base:r|" name "Diff:r"
#define PAIRED(name) ", n." name ", b." name ", n." name " - b." name
#define ALL(side)                                                                                  \
    side ".step_us + " side ".computation + " side ".exposed + " side ".overlapped + " side        \
         ".communication + " side ".free + " side ".wait + " side ".transmit + " side              \
         ".memory + " side ".bare"
#define IS_WHOLE ALL("n") " + " ALL("b") " IS NOT NULL"
/* Rows of now, beside those of the other side. */
#define FROM_BOTH " FROM now n LEFT JOIN base b ON b.rank = n.rank AND b.step = n.step WHERE "
#define BASE      "WITH base AS MATERIALIZED (SELECT * FROM before) "

static const struct result results[] = {
    {.sql =
         BASE "SELECT n.rank, 0, 'step ' || n.step || ' has nothing to be compared with'" FROM_BOTH
              "NOT (" IS_WHOLE ")"},
    {.name = "ClusterTimeCompareSummary",
     .file = "cluster_time_compare_summary.csv",
     .columns = "rank:i|step:i" THREE("stepTime") THREE("computation")
         THREE("communicationNotOverlapComputation") THREE("communicationOverlapComputation")
             THREE("communication") THREE("free") THREE("communicationWaitStageTime")
                 THREE("communicationTransmitStageTime") THREE("memory")
                     THREE("memoryNotOverlapComputationCommunication"),
     .sql = BASE "SELECT n.rank, n.step" PAIRED("step_us") PAIRED("computation") PAIRED("exposed")
         PAIRED("overlapped") PAIRED("communication") PAIRED("free") PAIRED("wait")
             PAIRED("transmit") PAIRED("memory") PAIRED("bare") FROM_BOTH IS_WHOLE},
};

static enum rs_status finish(struct run *run, struct rs_err *err)
{
    static const struct recipe_rank nobody = {0};
    struct inputs in = {.of = &nobody, .run = run};
    if (!run->options->base)
        return rs_err_set(err, RS_INVALID, "cluster_time_compare_summary needs --bp BASE");
    read_side(&in, run->paths[0], &run->frames[0]);
    read_side(&in, run->options->base, &run->frames[1]);
    return in.status == RS_OK ? frames_finish(run, err)
                              : rs_err_set(err, in.status, "%s", in.err.text);
}

const struct recipe recipe_cluster_time_compare_summary = {
    .info = {"cluster_time_compare_summary", "ClusterTimeSummary of one result against another's",
             "ClusterTimeCompareSummary"},
    .folder = "ClusterTimeCompareSummary",
    .frames = {{.name = "now", .columns = SIDE_COLUMNS},
               {.name = "before", .columns = SIDE_COLUMNS}},
    RESULTS(results),
    .finish = finish,
};
