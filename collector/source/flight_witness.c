/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Further witnesses: what NCCL itself says of ranks.
 *
 *   RAS       one JSON document: communicators[{hash, size, ranks[{rank, host, status{async_error}, collective_counts{..}}],
 *             missing_ranks[{rank, unresponsive, considered_dead}]}]. Counts are calls launched.
 *   Inspector one JSON object a line: header{id, comm_name, rank, n_ranks}, metadata{dump_timestamp_us, hostname},
 *             coll_perf{coll, coll_sn}. From 4.3 header and metadata stand once, in the dump_stats line before. The last
 *             number of each rank and communicator is kept.
 */
#include "collector/source/flight_priv.h"
#include "common/base/mem.h"

#include <jansson.h>

#include <string.h>

enum { LINE_MAX_BYTES = 1 << 20 };

static enum rs_status intern(struct rs_flight_set *set, const json_t *json, rs_str *id_p)
{
    const char *text = json_string_value(json);
    *id_p = RS_STR_EMPTY;
    return text ? rs_strtab_add(&set->strings, text, strnlen(text, 1024), id_p) : RS_OK;
}

static int32_t small_number(const json_t *json)
{
    const int64_t number = json_is_integer(json) ? json_integer_value(json) : -1;
    return number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
}

/* --- RAS -------------------------------------------------------------------------------------------------------- */

static bool is_error(const char *text)
{
    return text && *text && strcmp(text, "ncclSuccess") != 0 && strcmp(text, "no error") != 0 &&
           strcmp(text, "0") != 0;
}

static enum rs_status ras_rank(struct rs_flight_set *set, struct rs_flight_witness about,
                               const json_t *rank)
{
    about.rank = small_number(json_object_get(rank, "rank"));
    about.is_unresponsive = json_is_true(json_object_get(rank, "unresponsive"));
    about.is_dead = json_is_true(json_object_get(rank, "considered_dead"));
    const json_t *error = json_object_get(json_object_get(rank, "status"), "async_error");
    enum rs_status status = intern(set, json_object_get(rank, "host"), &about.host);
    if (status == RS_OK && is_error(json_string_value(error)))
        status = intern(set, error, &about.error);
    json_t *counts = json_object_get(rank, "collective_counts");
    const char *op;
    json_t *count;
    bool is_any = false;
    json_object_foreach(counts, op, count)
    {
        if (status != RS_OK || !json_is_integer(count))
            continue;
        status = rs_strtab_add(&set->strings, op, strnlen(op, 256), &about.op);
        about.count = json_integer_value(count);
        is_any = true;
        if (status == RS_OK)
            status = rs_flight_witness_add(set, &about);
    }
    if (status == RS_OK && !is_any)
        status = rs_flight_witness_add(set, &about);
    return status;
}

static enum rs_status read_ras(struct rs_flight_set *set, const json_t *root)
{
    const json_t *comms = json_object_get(root, "communicators");
    enum rs_status status = RS_OK;
    for (size_t i = 0; i < json_array_size(comms) && status == RS_OK; i++) {
        const json_t *comm = json_array_get(comms, i);
        const json_t *ranks = json_object_get(comm, "ranks");
        const json_t *missing = json_object_get(comm, "missing_ranks");
        struct rs_flight_witness about = {.kind = RS_WITNESS_RAS,
                                          .comm_size = small_number(json_object_get(comm, "size")),
                                          .count = RS_FLIGHT_UNKNOWN,
                                          .at_ns = RS_FLIGHT_UNKNOWN};
        status = intern(set, json_object_get(comm, "hash"), &about.comm);
        for (size_t k = 0; k < json_array_size(ranks) && status == RS_OK; k++)
            status = ras_rank(set, about, json_array_get(ranks, k));
        about.is_missing = true;
        for (size_t k = 0; k < json_array_size(missing) && status == RS_OK; k++)
            status = ras_rank(set, about, json_array_get(missing, k));
    }
    return status;
}

/* --- Inspector -------------------------------------------------------------------------------------------------- */

struct inspector {
    struct rs_flight_set *set;
    struct rs_flight_witness about; /* of the header that counts now */
    size_t first;                   /* witnesses of this file begin here */
};

/* The last number of each rank and communicator: found from the end, because lines of one stand together. */
static enum rs_status keep_last(struct inspector *inspector, const struct rs_flight_witness *now)
{
    struct rs_flight_set *set = inspector->set;
    for (size_t i = set->witness_count; i > inspector->first; i--) {
        struct rs_flight_witness *old = &set->witnesses[i - 1];
        if (old->comm == now->comm && old->rank == now->rank && old->op == now->op) {
            if (now->count >= old->count)
                *old = *now;
            return RS_OK;
        }
    }
    return rs_flight_witness_add(set, now);
}

static enum rs_status read_line(struct inspector *inspector, const json_t *line)
{
    struct rs_flight_set *set = inspector->set;
    struct rs_flight_witness *about = &inspector->about;
    const json_t *stats = json_object_get(line, "dump_stats");
    const json_t *header = json_object_get(line, "header");
    const json_t *metadata = json_object_get(line, "metadata");
    header = header ? header : json_object_get(stats, "header");
    metadata = metadata ? metadata : json_object_get(stats, "metadata");
    enum rs_status status = RS_OK;
    if (header) {
        about->rank = small_number(json_object_get(header, "rank"));
        about->comm_size = small_number(json_object_get(header, "n_ranks"));
        status = intern(set, json_object_get(header, "id"), &about->comm);
    }
    if (status == RS_OK && metadata) {
        const json_t *at = json_object_get(metadata, "dump_timestamp_us");
        const int64_t us = json_is_integer(at) ? json_integer_value(at) : -1;
        about->at_ns = us >= 0 && us < INT64_MAX / 1000 ? us * 1000 : RS_FLIGHT_UNKNOWN;
        status = intern(set, json_object_get(metadata, "hostname"), &about->host);
    }
    const json_t *perf = json_object_get(line, "coll_perf");
    if (status != RS_OK || !perf || about->rank < 0)
        return status;
    const json_t *number = json_object_get(perf, "coll_sn");
    about->count = json_is_integer(number) ? json_integer_value(number) : RS_FLIGHT_UNKNOWN;
    status = intern(set, json_object_get(perf, "coll"), &about->op);
    return status == RS_OK ? keep_last(inspector, about) : status;
}

static enum rs_status read_inspector(struct rs_flight_set *set, const char *text, size_t length,
                                     bool *is_one_p)
{
    struct inspector inspector = {.set = set,
                                  .about = {.kind = RS_WITNESS_INSPECTOR,
                                            .rank = -1,
                                            .comm_size = -1,
                                            .at_ns = RS_FLIGHT_UNKNOWN},
                                  .first = set->witness_count};
    enum rs_status status = RS_OK;
    *is_one_p = false;
    for (size_t at = 0; at < length && status == RS_OK;) {
        const char *end = memchr(text + at, '\n', length - at);
        const size_t line = end ? (size_t)(end - text) - at : length - at;
        json_t *json = line && line < LINE_MAX_BYTES ? json_loadb(text + at, line, 0, NULL) : NULL;
        const bool is_ours = json_object_get(json, "coll_perf") ||
                             json_object_get(json, "p2p_perf") ||
                             json_object_get(json, "dump_stats");
        if (is_ours) /* the last line of a living log is often cut: it is stepped over */
            status = read_line(&inspector, json);
        *is_one_p = *is_one_p || is_ours;
        json_decref(json);
        at += line + 1;
    }
    return status;
}

enum rs_status rs_flight_read_witness(const char *text, size_t length, const char *path,
                                      struct rs_flight_set *set, struct rs_err *err)
{
    json_error_t wrong;
    json_t *root = json_loadb(text, length, 0, &wrong);
    bool is_one = json_is_array(json_object_get(root, "communicators"));
    enum rs_status status = RS_OK;
    if (is_one)
        status = read_ras(set, root);
    json_decref(root);
    if (!is_one)
        status = read_inspector(set, text, length, &is_one);
    if (status != RS_OK)
        return rs_err_set(err, status, "no memory for %s", path);
    return is_one ? RS_OK
                  : rs_err_set(err, RS_NOTFOUND, "%s is neither a dump nor NCCL's own words", path);
}
