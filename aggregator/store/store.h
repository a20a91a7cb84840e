/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: where chunks rest once they are durable, and what is known of captures.
 *
 *     DATA/lock                        held by the aggregator that writes
 *     DATA/catalogue.db                captures, their ranks, positions of streams (SQLite, WAL)
 *     DATA/captures/ID/segments/N.seg  record logs (common/base/reclog.h): the raw lane
 *     DATA/captures/ID/summaries/N.seg the same for the summary lane; both together are the source of truth
 *     DATA/captures/ID/facts.seg       what the coordinator knew when it was closed (facts.c), the same form
 *     DATA/captures/ID/capture.db      what people query of one capture; made when it is closed, from the segments
 *
 * Raw events never become rows. A stream's position is not kept beside its chunks but read from them: on
 * open, the segments of captures that were not closed are scanned, so that data and position cannot
 * diverge. Positions of closed captures stand in the catalogue, written after their data was synced.
 *
 * Threads: appending, syncing and streams belong to one thread (ingest). Captures and ranks may be asked
 * and changed from any thread (one lock inside). Reading a capture directory (struct rs_stored) needs no store at
 * all. No sqlite3 type leaves this room.
 */
#ifndef RS_STORE_STORE_H
#define RS_STORE_STORE_H

#include "common/base/envelope.h"
#include "common/base/err.h"
#include "common/base/time.h"
#include "common/base/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    RS_STORE_ID_BYTES = 64,
    RS_STORE_TEXT_BYTES = 512,
    RS_STORE_STATE_BYTES = 24,
    RS_STORE_TAG_BYTES = 5
};

struct rs_store;

/* What is known of a capture. All of it travels by copy. */
struct rs_capture_facts {
    char id[RS_STORE_ID_BYTES];
    char run[RS_STORE_TEXT_BYTES];
    char
        key[4096]; /* files: what they have in common; else the file it was asked for with, or "" */
    char source[48]; /* "files", or names of adapters: "native", "kineto", "native+kineto", ... */
    char state[RS_STORE_STATE_BYTES]; /* words of common/wire */
    bool is_closed;
    rs_ns created_ns, closed_ns; /* 0: not yet */
    int64_t start_step;
    uint32_t steps;
    uint32_t world; /* 0 unknown */
    rs_dur settle_ns;
    char reason[RS_STORE_TEXT_BYTES];
};

/* One rank's way through a capture. */
struct rs_capture_rank {
    uint32_t rank;
    char incarnation[RS_STORE_TEXT_BYTES];
    char host[RS_STORE_TEXT_BYTES];
    uint32_t state; /* the coordinator's number */
    int64_t steps_done;
    char text[RS_STORE_TEXT_BYTES];
};

/* RS_EXISTS: another aggregator has it. RS_IO, RS_FORMAT, RS_NOMEM. segment_bytes 0: 256 MiB. */
RS_MUST_CHECK enum rs_status rs_store_open(const char *data_dir, uint64_t segment_bytes,
                                           struct rs_store **store_p, struct rs_err *err);
void rs_store_close(struct rs_store **store_p);

/* New captures have the first four characters of `id` behind their names, so that two stores whose captures meet in one database do not
 * draw the same name. Before any capture is named. */
void rs_store_tag_names(struct rs_store *store, const char *id);

/* ---- captures (any thread) ------------------------------------------------------------------------- */

/* Fills facts->id (when empty) and created_ns, and looks whether it is one. Reads nothing unless an id was given: RS_EXISTS. */
RS_MUST_CHECK enum rs_status
rs_store_name_capture(struct rs_store *store, struct rs_capture_facts *facts, struct rs_err *err);
/* Makes the directory and the row: a kill leaves them, and after rs_store_sync_captures() a power cut, too. Fills facts->id (when empty) and
 * created_ns. RS_EXISTS: that id is taken. */
RS_MUST_CHECK enum rs_status
rs_store_create_capture(struct rs_store *store, struct rs_capture_facts *facts, struct rs_err *err);
/* Makes the rows of all captures durable that are there: one sync, however many. RS_IO. */
RS_MUST_CHECK enum rs_status rs_store_sync_captures(struct rs_store *store, struct rs_err *err);
/* Writes the facts of a capture that is there. */
RS_MUST_CHECK enum rs_status rs_store_update_capture(struct rs_store *store,
                                                     const struct rs_capture_facts *facts,
                                                     struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_store_find_capture(struct rs_store *store, const char *id,
                                                   struct rs_capture_facts *facts_p,
                                                   struct rs_err *err);
/* Whether a capture of that name was removed (rs_store_remove_capture()). Catalogues that were lost do not tell. */
bool rs_store_was_removed(struct rs_store *store, const char *id);
/* Calls visit for each, oldest first, until it returns false. */
RS_MUST_CHECK enum rs_status
rs_store_list_captures(struct rs_store *store,
                       bool (*visit)(void *self, const struct rs_capture_facts *facts), void *self,
                       struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_store_put_rank(struct rs_store *store, const char *id,
                                               const struct rs_capture_rank *rank,
                                               struct rs_err *err);
/* Many at once, all or none of them: a capture may have thousands. */
RS_MUST_CHECK enum rs_status rs_store_put_ranks(struct rs_store *store, const char *id,
                                                const struct rs_capture_rank *ranks, size_t count,
                                                struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_store_list_ranks(struct rs_store *store, const char *id,
                                                 bool (*visit)(void *self,
                                                               const struct rs_capture_rank *rank),
                                                 void *self, struct rs_err *err);
/* How many captures there are, and how many of these are not closed. RS_IO: then neither is set. */
RS_MUST_CHECK enum rs_status rs_store_count_captures(struct rs_store *store, size_t *all_p,
                                                     size_t *open_p, struct rs_err *err);
/* How many ranks rs_store_list_ranks() would visit; 0, too, where that cannot be read. */
size_t rs_store_count_ranks(struct rs_store *store, const char *id);
/* Forgets a closed capture and removes its folder; who reads it goes on until he is through. Were the process to end in between,
 * the next rs_store_open() ends it. RS_NOTFOUND. RS_REFUSED: it is not closed. RS_IO. */
RS_MUST_CHECK enum rs_status rs_store_remove_capture(struct rs_store *store, const char *id,
                                                     struct rs_err *err);
/* Path of the capture's directory, absolute; rs_mem_free(). NULL: no memory. */
char *rs_store_capture_dir(const struct rs_store *store, const char *id);

/* ---- streams (the ingest thread) -------------------------------------------------------------------- */

/* One lane of one incarnation of a rank for one capture, as far as the store has it. Lives until the store closes. Its
 * numbers belong to the incarnation, so that the first one of a second capture is not 1; each capture has a position of its
 * own, because one capture may be held back while the next one's chunks come. */
struct rs_store_stream {
    const char *run;
    const char *incarnation;
    uint32_t rank;
    enum rs_stream_lane lane;
    rs_seq appended_seq;             /* written */
    rs_seq durable_seq;              /* written and synced */
    char capture[RS_STORE_ID_BYTES]; /* "": its first chunk will say */
    bool is_ended;                   /* its last chunk for that capture is there */
    bool is_partial; /* and says that the recording ended early, or chunks of it were lost */
    bool has_losses; /* a loss record is among its chunks for that capture */
    bool
        may_have_events; /* ingest's own: an event is among them, or it is not known what they are: they came to an earlier process */
    bool is_dirty;       /* the store's own: appended to since the last sync began */
    const void *
        held_by; /* the server's own: the session that has it open; NULL: none. Its thread alone reads and writes it */
};

/* What a stream says of itself once per segment. */
struct rs_store_source {
    const char *host;
    const char *origin;
    uint32_t world;
};

struct rs_store_key {
    const char *run, *incarnation;
    uint32_t rank;
    enum rs_stream_lane lane;
    /* NULL: that of the newest chunk of this incarnation and lane; one with capture "" when there is none. */
    const char *capture;
};
/* Found or new (positions 0). */
RS_MUST_CHECK enum rs_status rs_store_stream(struct rs_store *store, const struct rs_store_key *key,
                                             struct rs_store_stream **stream_p, struct rs_err *err);
/* The stream begins behind `seq`: what its positions are at least. */
void rs_store_stream_from(struct rs_store_stream *stream, rs_seq seq);
/* A chunk's bytes, wherever they lie; lent for the call. */
struct rs_store_chunk {
    rs_seq seq;
    unsigned flags; /* enum rs_envelope_flag */
    const struct iovec *parts;
    size_t part_count;
    bool
        has_crc; /* `crc` is the CRC-32C of all of it: it is not computed again, and taken on trust */
    uint32_t crc;
};
/* Appends one chunk to a capture's log. Its number must be beyond appended_seq (checked: a bug); it is the next one, but for
 * loss records. RS_IO, RS_NOTFOUND (no such capture). */
RS_MUST_CHECK enum rs_status rs_store_append(struct rs_store *store, struct rs_store_stream *stream,
                                             const char *capture,
                                             const struct rs_store_source *source,
                                             const struct rs_store_chunk *chunk,
                                             struct rs_err *err);
/* fdatasync of every log that was appended to; then durable_seq = appended_seq everywhere. After RS_IO nothing
 * that was not durable may be acknowledged any more: stop. No flush may be under way. */
RS_MUST_CHECK enum rs_status rs_store_sync(struct rs_store *store, struct rs_err *err);

/* The same in three acts, so that appending goes on while the disk works:
 *
 *     begin (ingest thread)   what was appended up to now is in this flush
 *     run   (any one thread)  fdatasync; touches nothing else of the store
 *     end   (ingest thread)   durable_seq of the streams in it moves, unless run failed
 *
 * One flush at a time. */
struct rs_store_flush {
    int *fds;
    size_t fd_count, fd_capacity;
    struct rs_store_flushed {
        struct rs_store_stream *stream;
        rs_seq seq;
    } * streams;
    size_t stream_count, stream_capacity;
    enum rs_status status; /* of run */
    struct rs_err err;
};
/* RS_NOMEM: nothing is in it, rs_store_sync() still works. */
RS_MUST_CHECK enum rs_status rs_store_flush_begin(struct rs_store *store,
                                                  struct rs_store_flush *flush, struct rs_err *err);
void rs_store_flush_run(struct rs_store_flush *flush);
void rs_store_flush_end(struct rs_store *store, struct rs_store_flush *flush);
void rs_store_flush_fini(
    struct rs_store_flush *flush); /* memory only; of a zeroed flush is allowed */

/* Closes a capture's log: syncs (no flush may be under way), writes the positions of its streams and capture.db, and the facts. */
RS_MUST_CHECK enum rs_status rs_store_close_capture(struct rs_store *store,
                                                    const struct rs_capture_facts *facts,
                                                    struct rs_err *err);

/* Makes the capture's rows in the catalogue and its capture.db anew from its folder's segments; rows that were joined from it
 * go, they are made when they are asked for. No aggregator may have the data, so nobody else has the store.
 * RS_NOTFOUND: there is no such folder. RS_REFUSED: it is not closed. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_store_rebuild(struct rs_store *store, const char *id,
                                              struct rs_err *err);
/* Calls visit with the name of every folder of captures/, in the order of names, until it returns false. RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_store_list_folders(const struct rs_store *store,
                                                   bool (*visit)(void *self, const char *id),
                                                   void *self, struct rs_err *err);

/* ---- reading a capture directory (any thread, any process) ------------------------------------------- */

struct rs_stored;

enum { RS_STORED_HOLES_MAX = 16 };

/* Chunks that are not there, as a loss record says. */
struct rs_stored_hole {
    rs_seq first_seq, last_seq;
    struct rs_loss loss;
};

struct rs_stored_stream {
    const char *run, *incarnation, *host, *origin;
    uint32_t rank, world;
    rs_seq first_seq, last_seq;
    uint64_t chunk_count;
    uint64_t bytes;  /* of all chunks */
    bool is_ended;   /* its LAST chunk is there */
    bool is_partial; /* ... and says that the recording ended early */
    uint64_t
        repeated_count; /* chunks that are there more than once: never, unless something is wrong */
    uint64_t
        missing_count;   /* numbers missing between first and last that no loss record explains */
    struct rs_loss loss; /* what loss records say, added up; its first_seq and cause are not used */
    struct rs_stored_hole holes[RS_STORED_HOLES_MAX]; /* the first of them */
    size_t hole_count;                                /* all of them */
};

struct rs_stored_chunk {
    rs_seq seq;
    unsigned flags;       /* enum rs_envelope_flag */
    struct rs_view bytes; /* lent until rs_stored_close() */
};

/* Opens DATA/captures/ID for reading: maps its segments and indexes its chunks (in order of rank,
 * incarnation, seq). A torn end of the newest segment is left out, as recovery would cut it; damage anywhere
 * else is counted, see rs_stored_damage(). RS_NOTFOUND, RS_IO, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_store_open_capture(const char *dir, struct rs_stored **stored_p,
                                                   struct rs_err *err);
/* The same for one lane; rs_store_open_capture() opens the raw one. A capture of an earlier program has no summary lane: it
 * has no streams then. */
RS_MUST_CHECK enum rs_status rs_store_open_lane(const char *dir, enum rs_stream_lane lane,
                                                struct rs_stored **stored_p, struct rs_err *err);
void rs_stored_close(struct rs_stored **stored_p);
/* From capture.db; of an open capture only what its streams tell. */
const struct rs_capture_facts *rs_stored_facts(const struct rs_stored *stored);
size_t rs_stored_rank_count(const struct rs_stored *stored); /* rows of the coordinator */
const struct rs_capture_rank *rs_stored_rank(const struct rs_stored *stored, size_t index);
size_t rs_stored_stream_count(const struct rs_stored *stored);
const struct rs_stored_stream *rs_stored_stream(const struct rs_stored *stored, size_t stream);
/* Chunk `index` (from 0) of a stream. With `check` its record's checksum is tested first: RS_FORMAT. */
RS_MUST_CHECK enum rs_status rs_stored_chunk(const struct rs_stored *stored, size_t stream,
                                             uint64_t index, bool check,
                                             struct rs_stored_chunk *chunk_p, struct rs_err *err);
/* How many segments hold bytes that cannot be read, and a sentence about the first ("" none). */
size_t rs_stored_damage(const struct rs_stored *stored, const char **text_p);

#endif
