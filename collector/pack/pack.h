/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pack: one recording's batches on their way into the spool.
 *
 *     source --batch--> rs_pack_sink() --+--> reducer --> summary --> SUMMARY chunks ----> rs_spool_put(): summary lane
 *                                        +--> chunk writer --> chunk, chunk, ... --------> rs_spool_put(): raw lane
 *     rs_pack_part(info)  ............................ a part of the summary, while it records
 *     rs_pack_finish(info)  .......................... last SUMMARY chunk = LAST; INFO with the end mark = LAST
 *
 * One mechanism for everything that must survive: the summary travels as chunks, too, in a lane of its own that need not
 * wait for the events. The LAST chunk of a lane closes that stream for its capture.
 *
 * A native rank's summary goes out in parts (common/reduce/parts.h). At the end the whole one is cut where the parts were: a part
 * that late rows have changed, or that found no room in the spool, is put again, then the last one. Whoever takes no part, or
 * could not (a file, a device), puts its summary in one piece.
 *
 * Two kinds of sources. A file can wait: when the spool is full, pack waits for acks. It gives the same batches again
 * after a crash, hence the same chunks with the same numbers, and those that the spool has already fall
 * through (RS_PACK_REPEATABLE). A training process cannot wait: what does not fit is lost, counted, and marked by
 * a loss record; the dictionary and what comes at the end use the spool's reserve.
 *
 * One thread at a time.
 */
#ifndef RS_PACK_PACK_H
#define RS_PACK_PACK_H

#include "collector/spool/spool.h"
#include "common/event/event.h"

#include <stdatomic.h>

struct rs_pack;

enum rs_pack_flag {
    RS_PACK_REPEATABLE =
        1,             /* numbers its chunks itself, from first_seq; waits when the spool is full */
    RS_PACK_WAITS = 2, /* a file read once: the spool numbers its chunks; waits when it is full */
};

struct rs_pack_options {
    struct rs_spool *spool; /* keeps a pointer to it */
    struct rs_spool_source source;
    unsigned flags;                  /* enum rs_pack_flag */
    rs_seq first_seq;                /* RS_PACK_REPEATABLE: of its first chunk; 0: 1 */
    const struct rs_strtab *strings; /* keeps pointers to the stream's tables */
    const struct rs_lanes *lanes;
    const atomic_bool *must_stop; /* ends waiting with RS_CANCELLED; may be NULL */
};

struct rs_pack_totals {
    uint64_t rows, chunks, bytes;
    uint64_t lost_chunks; /* the spool was full */
};

RS_MUST_CHECK enum rs_status rs_pack_new(const struct rs_pack_options *options,
                                         struct rs_pack **pack_p, struct rs_err *err);
/* Without finish: the stream stays open in the spool. */
void rs_pack_free(struct rs_pack **pack_p);

/* Where the source emits. */
struct rs_sink rs_pack_sink(struct rs_pack *pack);
/* Seals what waits (time has passed). */
RS_MUST_CHECK enum rs_status rs_pack_flush(struct rs_pack *pack, struct rs_err *err);
/* Puts a part of the summary when steps have ended since the one before; seldom enough that it costs a twentieth of the time.
 * `info` as far as it is known: rank, host, time base. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_pack_part(struct rs_pack *pack, const struct rs_trace_info *info,
                                          struct rs_err *err);
/* The recording is over: summary, end mark. `is_partial`: it ended early. */
RS_MUST_CHECK enum rs_status rs_pack_finish(struct rs_pack *pack, const struct rs_trace_info *info,
                                            bool is_partial, struct rs_err *err);
struct rs_pack_totals rs_pack_totals(const struct rs_pack *pack);

/* Ends a stream that was left open by a process that is gone: puts an INFO chunk with no more than "cut off". */
RS_MUST_CHECK enum rs_status rs_pack_cut_off(struct rs_spool *spool, uint32_t entry,
                                             const char *reason, struct rs_err *err);

#endif
