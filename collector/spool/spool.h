/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: chunks that the aggregator has not acknowledged yet.
 *
 *     pack ---- rs_spool_put() ----> raw/00000007   | segment | segment |  <---- rs_spool_peek() ---- uplink
 *                                    raw/00000009   | segment |
 *                                    summary        | segment | segment |
 *
 * Promises: the order within a stream is kept; what rs_spool_put() accepted survives kill -9 of this process; disk stays
 * under the budget; damage stops only the stream it hit, and the bytes are kept aside. When the budget is spent, put says RS_LIMIT and keeps nothing: a source that can wait (a
 * file) waits with rs_spool_wait(), one that cannot (a training process) counts it with
 * rs_spool_lost(), and a loss record takes the place before the next chunk that fits, so that the report can
 * show the hole. New chunks are refused rather than old ones dropped, because the dictionary that later
 * chunks need comes first.
 *
 * An *entry* is one lane of one incarnation of a rank, for one capture. Sequence numbers belong to the incarnation and lane:
 * they run on from one capture to the next, gap-free from 1.
 *
 *     DIR/lock                        held by the process that uses the spool
 *     DIR/id                          who this spool is, the same over restarts
 *     DIR/summary/00000001.seg ...    the summary lane of all ranks; it has an eighth of the budget to itself
 *     DIR/raw/ENTRY/00000001.seg ...  one raw stream: dropping or losing it is removing its folder
 *     DIR/damaged/...                 segments that could not be read whole, as they were found
 *     DIR/00000001.seg ...            a spool of an earlier program: it is drained, and what is left open in it ends there
 *
 * Segments are record logs (common/base/reclog.h): entries, then chunks in order of put. A new segment begins with every
 * entry of its log that is still of use, so old segments can go whole, when each of their chunks is acknowledged.
 *
 * A *held* entry is one that the aggregator does not want yet. It stays until it is released; when the budget is spent the
 * held entry of the oldest capture is evicted: its chunks go, and a loss record takes their place.
 *
 * What is acknowledged may be *kept* until it is safe from the loss of whoever acknowledged it (rs_spool_stored()): it is found again by its
 * numbers, and goes, the oldest entries first, when room is needed for anything else, or when it has been here for longer than what is
 * held may be. It is not waited for: whoever drains the spool is through without it.
 *
 * While raw data of several users waits, who has more than his share of it may not use the last quarter of the budget, and what is held of
 * his is evicted first: the others' data finds room. Alone, one may use it all.
 *
 * Threads: any may declare and put; one uplink peeks and acks.
 */
#ifndef RS_SPOOL_SPOOL_H
#define RS_SPOOL_SPOOL_H

#include "common/base/envelope.h"
#include "common/base/err.h"
#include "common/base/time.h"
#include "common/base/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rs_spool;

struct rs_spool_options {
    uint64_t budget_bytes;  /* of all segments; 0: 1 GiB; at least four segments */
    uint64_t segment_bytes; /* a new one is begun beyond it; 0: 16 MiB */
    rs_dur keep_ns;         /* held entries are evicted after it, kept ones go; 0: 24 hours */
};

/* Who a stream of chunks is from, and for what. Strings are copied. */
struct rs_spool_source {
    const char *run;
    uint32_t rank;
    const char *incarnation;
    const char *capture;     /* id; "" for files */
    const char *capture_key; /* for files; "" for native */
    uint32_t world;          /* 0 unknown */
    const char *host;
    rs_dur settle_ns;
    const char *origin;
    enum rs_stream_lane lane;
    int64_t user; /* whose it is: 1 + the number of the user; 0 not known */
    bool
        keeps_sequence; /* the incarnation may come again with another capture: remember its position */
};

struct rs_spool_entry {
    uint32_t id;                   /* from 1; survives a restart */
    struct rs_spool_source source; /* strings lent until the spool closes or the entry retires */
    rs_seq first_seq;              /* of this entry's first chunk, put or to come */
    rs_seq last_seq;               /* of the incarnation and lane, as put; 0 none */
    rs_seq acked_seq;              /* of this entry: durable elsewhere */
    rs_seq
        settled_seq; /* ... and not kept here for the case that it is lost there; at most acked_seq */
    rs_seq end_seq;     /* newest chunk of this entry; 0 none */
    uint64_t put_count; /* chunks of this entry that were put or found again on open */
    bool is_ended;      /* its LAST chunk was put */
    bool is_held;
    bool is_evicted; /* nothing is left of it but the loss record that says so */
};

struct rs_spool_chunk {
    uint32_t entry;
    rs_seq seq;
    uint16_t flags; /* enum rs_envelope_flag */
    struct rs_view bytes;
    uint64_t
        skipped_bytes; /* damaged bytes that stood before it; with a number beyond the one asked for */
};

struct rs_spool_stats {
    uint64_t disk_bytes;
    uint64_t waiting_chunks; /* not acknowledged */
    uint64_t waiting_bytes;
    uint64_t put_chunks, acked_chunks;
    uint64_t lost_chunks, lost_bytes;
    uint64_t cut_bytes;                       /* torn tail found on open */
    uint64_t damaged_segments, damaged_bytes; /* found on open, kept aside */
    uint64_t held_entries, held_bytes, evicted_entries;
    uint64_t kept_bytes;        /* acknowledged, and kept */
    uint64_t over_share_chunks; /* refused to who has more than his share */
};

/* Creates the folder when it is not there; finds again what is in it. RS_EXISTS: another process uses it.
 * RS_IO, RS_NOMEM, RS_INVALID (budget too small). options may be NULL. */
RS_MUST_CHECK enum rs_status rs_spool_open(const char *dir, const struct rs_spool_options *options,
                                           struct rs_spool **spool_p, struct rs_err *err);
void rs_spool_close(struct rs_spool **spool_p);
/* Who this spool is: hex digits, lent until close. */
const char *rs_spool_id(const struct rs_spool *spool);

/* The entry for this source, new or found again. RS_LIMIT: a text is too long. */
RS_MUST_CHECK enum rs_status rs_spool_declare(struct rs_spool *spool,
                                              const struct rs_spool_source *source,
                                              uint32_t *entry_p, struct rs_err *err);
/* RS_NOTFOUND. */
RS_MUST_CHECK enum rs_status rs_spool_entry_of(struct rs_spool *spool, uint32_t entry,
                                               struct rs_spool_entry *entry_p);
/* The entries in order of id, those with id > after; RS_END. */
RS_MUST_CHECK enum rs_status rs_spool_next_entry(struct rs_spool *spool, uint32_t after,
                                                 struct rs_spool_entry *entry_p);

/* Copies the chunk into the spool. `seq` 0: the next number. Else the chunk's own number: one that was put
 * before is dropped with RS_OK, so a source that gives the same chunks again after a crash goes on
 * where it was; a number beyond the next is RS_INVALID. RS_LIMIT: no room (never for LAST, which may
 * use a reserve). RS_IO. */
RS_MUST_CHECK enum rs_status rs_spool_put(struct rs_spool *spool, uint32_t entry, rs_seq seq,
                                          unsigned flags, struct rs_view chunk, struct rs_err *err);
/* A chunk that was refused will not come again. */
void rs_spool_lost(struct rs_spool *spool, uint32_t id, uint64_t bytes, uint64_t events);
/* Waits until there is room for a chunk of the entry, or `until` (monotonic). RS_OK or RS_TIMEOUT. */
RS_MUST_CHECK enum rs_status rs_spool_wait(struct rs_spool *spool, uint32_t entry, uint64_t bytes,
                                           rs_ns until);

/* Called after each put, on the putting thread (wakes the uplink). Set before threads start. */
void rs_spool_on_put(struct rs_spool *spool, void (*on_put)(void *self), void *self);

/* Lends the entry's first chunk with the number `seq` or a later one that is not acknowledged. A later one than `seq`: those
 * between are not there any more. Valid until rs_spool_ack() passes it, or the entry is dropped or evicted. RS_AGAIN: nothing
 * now. RS_NOTFOUND: no such entry. Thread: uplink. */
RS_MUST_CHECK enum rs_status rs_spool_peek(struct rs_spool *spool, uint32_t entry, rs_seq seq,
                                           struct rs_spool_chunk *chunk_p);
/* Whether chunks of the same rank's summary for the same capture wait. Thread: uplink. */
bool rs_spool_has_summary(struct rs_spool *spool, uint32_t raw_entry);
/* Everything of this entry up to `seq` is durable elsewhere. An ack beyond what was put (the
 * spool was lost, the aggregator remembers) moves the sequence forward. Thread: uplink. */
void rs_spool_ack(struct rs_spool *spool, uint32_t id, rs_seq seq);
/* Everything of this entry up to `seq`, and nothing beyond it, is durable at the aggregator that it is sent to now, which may be lost with
 * it: chunks stay, as long as there is room, until rs_spool_ack(). Of an aggregator that has less than the one before the number is
 * smaller. Thread: uplink. */
void rs_spool_stored(struct rs_spool *spool, uint32_t id, rs_seq seq);
/* Gives up what is left of an entry that the aggregator refuses; counted as lost. */
void rs_spool_drop(struct rs_spool *spool, uint32_t id);
/* Whether an entry of this id was dropped or evicted since the spool was opened: nobody else has its chunks. Any thread. */
bool rs_spool_was_lost(struct rs_spool *spool, uint32_t entry);
/* The aggregator does not want the entry yet, or wants it now. Thread: uplink. */
void rs_spool_hold(struct rs_spool *spool, uint32_t id, bool is_held);
/* Evicts what has been held longer than keep_ns, and lets go of what was kept for as long. `now`: realtime. Any thread. */
void rs_spool_expire(struct rs_spool *spool, rs_ns now);
/* The incarnation will not come again: its sequence need not be remembered once all is acknowledged. */
void rs_spool_forget(struct rs_spool *spool, const char *run, uint32_t rank,
                     const char *incarnation);

/* Chunks that were put since the spool was opened. Any thread. */
uint64_t rs_spool_put_count(struct rs_spool *spool);
struct rs_spool_stats rs_spool_stats(struct rs_spool *spool);

#endif
