/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication.json of a rank: which operation belongs to which communicator, and when it ran (to a quarter of a us:
 * the file has doubles of us since 1970).
 *
 *     {"step50": {"p2p": {...}, "collective": {"hcom_allReduce__586_0_1@17522688603477080586": {
 *         "Communication Time Info": {"Start Timestamp(us)": ..., "Elapse Time(ms)": ..., ...}, ...}}}}
 *
 * The vendor's waits and transits are not taken: they are no truth (reference 0.2).
 */
#ifndef RS_SOURCE_ASCEND_JSON_H
#define RS_SOURCE_ASCEND_JSON_H

#include "ascend/source/ascend_priv.h"

struct json_op {
    rs_str name; /* of the stream */
    char hash[RS_ASCEND_HASH_BYTES];
    int64_t step;            /* RS_ASCEND_NO_STEP: "step" alone */
    rs_str step_text, group; /* of the same in stream->info.vendor; RS_STR_NONE: it is not there */
    rs_ns start, end;
    int64_t moved; /* bytes that this rank sent over links for it; -1 unknown */
    bool is_used;
};

struct json_ops {
    struct json_op *items; /* by (name, start) */
    size_t count, capacity;
};

/* RS_OK, RS_PARTIAL (cut or damaged: what was whole is there), RS_NOTFOUND, RS_IO, RS_LIMIT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status json_ops_read(struct json_ops *ops, struct ascend *a, const char *path,
                                           struct rs_err *err);
/* The same from what the rank's analysis database says (stream->info.vendor), where there is no such file. RS_NOMEM. */
RS_MUST_CHECK enum rs_status json_ops_of_vendor(struct json_ops *ops, const struct ascend *a);
/* Fills step_text, group and `moved` from the operations and transports of stream->info.vendor. RS_NOMEM. */
RS_MUST_CHECK enum rs_status json_ops_moved(struct json_ops *ops, const struct ascend *a);
void json_ops_fini(struct json_ops *ops);

/* The unused operation of this name that starts nearest; NULL: none. */
struct json_op *json_ops_find(const struct json_ops *ops, rs_str name, rs_ns start);

#endif
