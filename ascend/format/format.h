/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result directories of the Ascend profilers: which ranks lie below a path, and in what state.
 *
 *     HOST_PID_STAMP_ascend_pt/            torch_npu (STAMP in local time)
 *     HOST_PID_STAMP_ascend_ms/            MindSpore (STAMP in UTC)
 *         profiler_info_R.json             collection finished, when it has end_info
 *         profiler_metadata.json           groups, parallel sizes
 *         FRAMEWORK/  PROF_N_T_ID/         raw data, before the vendor's tool has parsed it
 *         ASCEND_PROFILER_OUTPUT/          parsed: text, databases, or both
 *             analyse.done                 parsing finished (only newer versions write it)
 *     msmonitor_PID_STAMP_R.db             loose: one always-on database of a rank
 *
 * Discovery looks and never writes. Links are not followed, the depth is bounded. Entries are
 * visited by name, so the same tree gives the same list on every machine. What was left out is
 * a note with the reason; nothing is dropped without one.
 *
 * The rank comes from profiler_info_R.json (name, then rank_id), the database's name, the
 * database's RANK_DEVICE_MAP, distributed_args, in this order; of MindSpore on a CPU, which writes none of these, from
 * FRAMEWORK/cpu_framework_R.txt or rankR_startA_stopB/ above. A rank is not a device.
 *
 * Any thread; a list belongs to one thread at a time.
 */
#ifndef RS_ASCEND_FORMAT_H
#define RS_ASCEND_FORMAT_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_ASCEND_DEPTH_MAX = 8 }; /* of directories below a given path */

#define RS_ASCEND_NO_RANK (-1) /* a single card: the profiler itself says -1 */

enum rs_ascend_framework {
    RS_ASCEND_PYTORCH,
    RS_ASCEND_MINDSPORE,
    RS_ASCEND_MSMONITOR,
};

enum rs_ascend_form_flag {
    RS_ASCEND_F_DB = 1 << 0,   /* a profiler database or an analysis database */
    RS_ASCEND_F_TEXT = 1 << 1, /* json and csv */
    RS_ASCEND_F_RAW = 1 << 2,  /* FRAMEWORK or PROF_* */
};

/* How far the vendor's tool came with the directory. */
enum rs_ascend_state {
    RS_ASCEND_FINISHED,   /* collected and parsed, as far as this version can say so */
    RS_ASCEND_UNPARSED,   /* only raw data: not parsed by the vendor's tool yet */
    RS_ASCEND_UNFINISHED, /* being collected or parsed, or broken off */
};

struct rs_ascend_rank {
    enum rs_ascend_framework framework;
    enum rs_ascend_state state;
    unsigned forms;          /* enum rs_ascend_form_flag */
    int64_t rank;            /* RS_ASCEND_NO_RANK when there is none */
    int64_t stamp;           /* the 17 digits of the name; -1 when the name has none */
    bool has_end;            /* profiler_info has end_info: collection finished */
    bool has_done;           /* analyse.done is there */
    const char *source;      /* what gave the rank: "profiler_info", "database name", ... */
    char *dir;               /* the directory that is the rank's; a loose database's own folder */
    char *output;            /* ASCEND_PROFILER_OUTPUT, or NULL */
    char *profiler_db;       /* ascend_*_profiler[_R].db or msmonitor_*.db, or NULL */
    char *analysis_db;       /* analysis.db or communication_analyzer.db, or NULL */
    char *info;              /* profiler_info[_R].json, or NULL */
    char *metadata;          /* profiler_metadata.json, or NULL */
    char *cann_version;      /* "" when unknown */
    char *framework_version; /* torch_npu_version or ms_version; "" when unknown */
};

enum rs_ascend_note_kind {
    RS_ASCEND_NOTE_SKIPPED,   /* not a profile, or a link, or too deep */
    RS_ASCEND_NOTE_DUPLICATE, /* another directory of the same rank was kept */
    RS_ASCEND_NOTE_FAILED,    /* looks like a profile and cannot be read */
};

struct rs_ascend_note {
    enum rs_ascend_note_kind kind;
    char *path;
    char *text; /* one sentence */
};

/* Ranks are sorted by (framework, rank) and each stands there once. */
struct rs_ascend_list {
    struct rs_ascend_rank *ranks;
    size_t count, capacity;
    struct rs_ascend_note *notes;
    size_t note_count, note_capacity;
};

/* Everything below `paths`. A path may be a tree, a rank's directory, its
 * ASCEND_PROFILER_OUTPUT or a database. RS_NOTFOUND: a path is not there; RS_NOMEM. A list
 * without ranks is RS_OK: the notes say why. */
RS_MUST_CHECK enum rs_status rs_ascend_discover(const char *const *paths, size_t count,
                                                struct rs_ascend_list *list_p, struct rs_err *err);
void rs_ascend_list_fini(struct rs_ascend_list *list);

/* A communicator as a rank's metadata names it. */
struct rs_ascend_group {
    char *id;         /* the communicator's name, for instance "192.0.2.1%eth0_60000_0_17..." */
    char *hash;       /* rs_ascend_group_key() of it: what communication.json says after "@" */
    char *name;       /* "tp", "dp", "default_group", ...; "" when unknown */
    int64_t own_rank; /* of this rank within the group; -1 unknown */
    int64_t *ranks;   /* [count] global ranks, ascending */
    size_t count;
};

struct rs_ascend_metadata {
    struct rs_ascend_group *groups;
    size_t group_count;
    bool has_groups;                              /* parallel_group_info was there, even if empty */
    bool has_sizes;                               /* distributed_args was there */
    int64_t tp, pp, dp, cp, ep, world_size, rank; /* -1 when not named */
    char *distributed_args;                       /* the JSON text; NULL when absent */
    char *pp_type;                                /* of pp_info; NULL when absent */
    int64_t microbatches;                         /* -1 when not named */
};

/* From the JSON texts of parallel_group_info, distributed_args and pp_info (each may be NULL).
 * RS_FORMAT: one of them is not what it should be. */
RS_MUST_CHECK enum rs_status rs_ascend_metadata_parse(const char *groups, const char *sizes,
                                                      const char *pp_info,
                                                      struct rs_ascend_metadata *meta_p,
                                                      struct rs_err *err);
/* From profiler_metadata.json of the rank. RS_NOTFOUND when there is none. */
RS_MUST_CHECK enum rs_status rs_ascend_metadata_read(const struct rs_ascend_rank *rank,
                                                     struct rs_ascend_metadata *meta_p,
                                                     struct rs_err *err);
void rs_ascend_metadata_fini(struct rs_ascend_metadata *meta);

/* The group whose hash this is, or NULL. Lends. */
const struct rs_ascend_group *rs_ascend_group_find(const struct rs_ascend_metadata *meta,
                                                   const char *hash);

enum { RS_ASCEND_HASH_BYTES = 21 }; /* 20 decimal digits and NUL */

/* The decimal hash of a communicator's name: two 32-bit polynomials (29 and 131), byte by byte. */
void rs_ascend_group_hash(const char *id, char hash_p[RS_ASCEND_HASH_BYTES]);
/* The same of a name that may be the hash already (our own export has no other). */
void rs_ascend_group_key(const char *name, char hash_p[RS_ASCEND_HASH_BYTES]);

/* True for point-to-point operations by name, as the vendor tells them apart in files:
 * hcom_send, hcom_receive, hcom_batchSendRecv. */
bool rs_ascend_is_p2p(const char *op_name);

#endif
