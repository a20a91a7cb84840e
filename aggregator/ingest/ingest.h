/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ingest: chunk -> checked -> appended -> durable -> reported. One worker, and one thread that syncs.
 *
 *     server --- job ---> | bounded queue | ---> header check, sequence check, append ---+
 *       ^                                                                              | 16 chunks and more, or
 *       +---- done(jobs) <------------------------------------------- fdatasync <------+ when the queue is empty
 *
 * While one group is being synced the worker appends the next, which grows as long as the disk takes: the disk waits
 * for nobody. A lone chunk is synced at once, fewer than 16 not sooner than 10 ms behind the group before: an fdatasync, its
 * wakes and its ack cost as much as the chunk. A chunk is told
 * to be done only after the fdatasync that covers it returned; what server makes of that is the
 * cumulative ack. Chunks are never decoded here, but both checksums are held against the bytes: what is acknowledged
 * can be read. A chunk that is there already falls through quietly. A gap or a chunk that is none is refused with the number
 * that is wanted next: the trouble of one stream is no other's. A loss record moves the position over a hole. Ingest knows no
 * link and no session: a job carries who asked.
 *
 * When the disk refuses an fdatasync nothing can be promised any more: every job from then on fails with RS_IO
 * and rs_ingest_is_broken() is true, so that the daemon stops and its supervisor starts it again.
 */
#ifndef RS_INGEST_INGEST_H
#define RS_INGEST_INGEST_H

#include "aggregator/store/store.h"

enum {
    RS_INGEST_GROUP = 16,    /* chunks that wait for no others */
    RS_INGEST_PAUSE_MS = 10, /* between the begins of two fdatasyncs, when there are fewer */
    /* So much may wait for the fdatasync before theirs; then nothing more is appended. */
    RS_INGEST_GROUP_MAX = 256,
    RS_INGEST_GROUP_MAX_BYTES = 16 * 1024 * 1024,
    RS_INGEST_PARTS_MAX = 48,
};

enum rs_ingest_kind {
    RS_INGEST_OPEN,  /* find a stream: fills `stream`, `durable_seq`, `capture`, `is_ended` */
    RS_INGEST_CHUNK, /* store one chunk of `stream` */
    RS_INGEST_CLOSE, /* close a capture with `facts` */
};

/* The payload of a chunk, wherever it lies; released by ingest's user. */
struct rs_ingest_job {
    struct rs_ingest_job *next;
    enum rs_ingest_kind kind;
    void *self; /* of whoever asks; ingest does not look at it */

    /* OPEN: texts lent until done */
    const char *run, *incarnation;
    uint32_t rank;
    enum rs_stream_lane lane;
    const char *open_capture; /* NULL: that of the newest chunk */
    rs_seq
        first_seq; /* of its first chunk for that capture; 0: behind the newest chunk of the incarnation */

    /* CHUNK: parts lent until spent */
    struct rs_store_stream *stream; /* in: from OPEN */
    const char *capture;
    struct rs_store_source source;
    rs_seq seq;
    unsigned flags;
    bool
        is_wide; /* from a collector of minor version 1: numbers go on where another capture's ended */
    struct iovec parts[RS_INGEST_PARTS_MAX];
    size_t part_count;
    size_t bytes;

    /* CLOSE */
    const struct rs_capture_facts *facts;

    /* the answer */
    enum rs_status status; /* RS_OK; RS_INVALID: a gap; RS_FORMAT: no chunk; RS_IO */
    struct rs_err err;
    rs_seq durable_seq; /* of the stream, after this job */
    rs_seq wanted_seq;  /* CHUNK that was refused: the number to go on with */
    bool is_repeated;   /* was there already */
    bool is_ended;
    bool is_partial;      /* ... and the recording ended early, or chunks of it were lost */
    uint64_t lost_chunks; /* CHUNK: a loss record, of so many */
    bool is_empty;        /* ... and no event of it ever came */
    bool is_summarised;   /* OPEN of a raw stream: the same rank's summary lane has ended */
    bool
        is_raw_ended; /* OPEN of a summary stream: the same rank's raw lane has ended; is_raw_partial: early */
    bool is_raw_partial;
    char capture_found[RS_STORE_ID_BYTES]; /* OPEN: of the stream's newest chunk */
};

struct rs_ingest;

struct rs_ingest_options {
    struct rs_store *store; /* keeps a pointer to it */
    uint64_t queue_bytes;   /* 0: 64 MiB */
    /* Called on the worker when the bytes of a CHUNK are needed no more, well before it is done: they are in the segment, or
     * refused. NULL: nobody wants to know. */
    void (*spent)(void *self, struct rs_ingest_job *job);
    /* Called on the worker with a list (by next) of jobs that are done, in order. */
    void (*done)(void *self, struct rs_ingest_job *jobs);
    void *self;
};

struct rs_ingest_stats {
    uint64_t chunks, bytes; /* made durable */
    uint64_t repeated, gaps, refused;
    uint64_t syncs;
};

RS_MUST_CHECK enum rs_status rs_ingest_start(const struct rs_ingest_options *options,
                                             struct rs_ingest **ingest_p, struct rs_err *err);
/* Drains the queue, then joins. */
void rs_ingest_stop(struct rs_ingest **ingest_p);

/* Hands the job over until it comes back through `done`. Never refuses: ask rs_ingest_is_full() before
 * taking the next chunk from a link. Any thread. */
void rs_ingest_put(struct rs_ingest *ingest, struct rs_ingest_job *job);
bool rs_ingest_is_full(struct rs_ingest *ingest);
bool rs_ingest_is_broken(struct rs_ingest *ingest);
struct rs_ingest_stats rs_ingest_stats(struct rs_ingest *ingest);

#endif
