/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The official cluster output of Ascend jobs: cluster_analysis_output/, text and database.
 *
 *     ranks' directories --> cluster_step_trace_time.csv       cluster_analysis.db
 *     (text, db, mixed)      communication_group.json            CommunicationGroupMapping
 *                            cluster_communication.json          ClusterCommunicationTime, ..Bandwidth, ..Matrix
 *                            cluster_communication_matrix.json   ClusterStepTraceTime, HostInfo, RankDeviceMap,
 *                            rankscope_manifest.json             ClusterBaseInfo
 *
 * Shapes, names, units and, where it is right, values are those of the vendor's own cluster analysis; what
 * differs on purpose has a line in docs/notes. Inputs are never written. A rank that cannot be
 * read, or only in part, stops nobody else: it is named in the result. Same input, same output.
 *
 * One run uses its own threads and returns when they are done; runs share nothing.
 */
#ifndef RS_CLUSTER_CLUSTER_H
#define RS_CLUSTER_CLUSTER_H

#include "common/base/buf.h"
#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rs_cluster_form {
    RS_CLUSTER_AUTO, /* as the input: database when any rank has one, else text */
    RS_CLUSTER_TEXT,
    RS_CLUSTER_DB,
    RS_CLUSTER_BOTH,
};

enum rs_cluster_mode {
    RS_CLUSTER_ALL,
    RS_CLUSTER_COMMUNICATION_TIME,
    RS_CLUSTER_COMMUNICATION_MATRIX,
};

struct rs_cluster_options {
    const char *out; /* cluster_analysis_output is made in here; NULL: in the first path */
    enum rs_cluster_mode mode;
    enum rs_cluster_form form;
    bool compat;   /* the values of the vendor's tool where ours differ on purpose */
    unsigned jobs; /* threads; 0: as many as processors */
};

enum rs_cluster_rank_state {
    RS_CLUSTER_WHOLE,
    RS_CLUSTER_PARTIAL, /* some part is missing: the reason says which */
    RS_CLUSTER_FAILED,  /* nothing could be read */
    RS_CLUSTER_MISSING, /* named by other ranks, or by the world size, and not there */
};

struct rs_cluster_rank {
    int64_t rank;
    enum rs_cluster_rank_state state;
    const char *form; /* "text", "db", "" */
    char *dir;        /* NULL: MISSING */
    char *reason;     /* NULL: WHOLE */
};

struct rs_cluster_file {
    char *path;
    uint64_t bytes;
};

struct rs_cluster_result {
    char *out_dir;                 /* .../cluster_analysis_output */
    struct rs_cluster_rank *ranks; /* ascending by rank */
    size_t rank_count;
    char **notes; /* a sentence each */
    size_t note_count, note_capacity;
    struct rs_cluster_file *files;
    size_t file_count, file_capacity;
    uint64_t op_count, link_count, group_count; /* what was read */
    uint64_t dropped_links;                     /* an end of theirs has no global rank */
};

/* RS_OK: everything that was there is in the output and nothing is missing. RS_PARTIAL: output
 * was written, the result says what is missing. RS_NOTFOUND, RS_INVALID (no ranks there; two frameworks
 * at once), RS_IO, RS_NOMEM: no output. *result_p is always set and must be given to _fini. */
RS_MUST_CHECK enum rs_status rs_cluster_run(const char *const *paths, size_t count,
                                            const struct rs_cluster_options *options,
                                            struct rs_cluster_result *result_p, struct rs_err *err);
void rs_cluster_result_fini(struct rs_cluster_result *result);

/* The result as JSON (schema_version 1), appended to `buf`. */
void rs_cluster_manifest(const struct rs_cluster_result *result, enum rs_status status,
                         struct rs_buf *buf);

const char *rs_cluster_state_name(enum rs_cluster_rank_state state);

#endif
