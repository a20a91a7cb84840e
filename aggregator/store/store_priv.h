/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back room of the store: the records of a segment, and the two databases.
 */
#ifndef RS_STORE_STORE_PRIV_H
#define RS_STORE_STORE_PRIV_H

#include "aggregator/store/store.h"
#include "common/base/buf.h"
#include "common/base/reclog.h"

#include <pthread.h>

enum {
    RECORD_STREAM = 1,
    RECORD_CHUNK = 2,
    RECORD_FACTS = 3,
    RECORD_RANKS = 4,
    SEGMENT_NAME_BYTES = 12
};

struct catalogue;
struct capture_log;

struct rs_store {
    char *data_dir;
    int lock_fd;
    uint64_t segment_bytes;
    char tag[RS_STORE_TAG_BYTES]; /* behind each new name; "": none */

    struct rs_store_stream **streams; /* hash table by (run, rank, incarnation) */
    size_t stream_count, slot_count;
    struct capture_log **logs;
    size_t log_count, log_capacity;
    struct rs_store_stream **dirty; /* appended to since the last sync or flush began */
    size_t dirty_count, dirty_capacity;
    bool is_flushing;
    struct rs_reclog *retired; /* a flush under way may still sync them: closed when it ends */
    size_t retired_count, retired_capacity;

    pthread_mutex_t lock; /* guards the catalogue */
    struct catalogue *catalogue;
    /* A connection of its own to read with: what is being made durable holds no reader up, who sees what was committed. */
    pthread_mutex_t read_lock; /* guards the next; never taken with the other */
    struct catalogue *reading; /* NULL: not yet, while the store is being opened */
};

/* The catalogue to read with, under a lock until catalogue_done(). */
struct catalogue *catalogue_to_read(struct rs_store *store);
void catalogue_done(struct rs_store *store);

/* rebuild.c: a catalogue that cannot be read is renamed; captures whose folders it does not have are entered. */
RS_MUST_CHECK enum rs_status store_put_catalogue_aside(const char *path, struct rs_err *err);
RS_MUST_CHECK enum rs_status store_find_folders(struct rs_store *store, struct rs_err *err);

/* captures.c: an id is a folder's name; a row that survives a power cut. */
bool store_is_id(const char *id);
RS_MUST_CHECK enum rs_status
store_put_durably(struct rs_store *store, const struct rs_capture_facts *facts, struct rs_err *err);

/* Payload of a STREAM record; its tag is the number that CHUNK records of this capture use. */
void stream_record_encode(struct rs_buf *buf, const struct rs_store_stream *stream,
                          const struct rs_store_source *source);
struct stream_record {
    struct rs_buf texts; /* holds the four */
    const char *run, *incarnation, *host, *origin;
    uint32_t rank, world;
};
/* RS_FORMAT, RS_NOMEM. stream_record_fini() after RS_OK. */
RS_MUST_CHECK enum rs_status stream_record_decode(struct rs_view view,
                                                  struct stream_record *record_p);
void stream_record_fini(struct stream_record *record);

/* "segments", "summaries". */
const char *lane_folder(enum rs_stream_lane lane);
/* Numbers of the segments of a lane in DIR, ascending. A summary lane that is not there has none. */
RS_MUST_CHECK enum rs_status list_segments(const char *dir, enum rs_stream_lane lane,
                                           uint32_t **numbers_p, size_t *count_p,
                                           struct rs_err *err);
char *segment_path(const char *dir, enum rs_stream_lane lane, uint32_t number);

#define FACTS_FILE "facts.seg"
/* facts.c: what the coordinator knows of a capture, in its folder. Reading: RS_NOTFOUND: there is no such file; RS_FORMAT:
 * nothing of it can be read. *ranks_p: rs_mem_free(). */
RS_MUST_CHECK enum rs_status facts_append(const char *dir, const struct rs_capture_facts *facts,
                                          const struct rs_capture_rank *ranks, size_t rank_count,
                                          struct rs_err *err);
RS_MUST_CHECK enum rs_status facts_read(const char *dir, struct rs_capture_facts *facts_p,
                                        struct rs_capture_rank **ranks_p, size_t *rank_count_p,
                                        struct rs_err *err);

/* Bytes that say the same when the facts, or the ranks, are the same. The buffer is emptied first. */
void facts_encode(const struct rs_capture_facts *facts, size_t rank_count, struct rs_buf *buf);
void facts_encode_ranks(const struct rs_capture_rank *ranks, size_t count, struct rs_buf *buf);

/* ---- seal.c: whether rows of closed captures are those that were written ---------------------------- */

RS_MUST_CHECK enum rs_status seal_put(struct catalogue *catalogue, const char *id,
                                      struct rs_err *err);
/* RS_FORMAT: one does not fit, is missing, or there is one too many. `must_make`: of an earlier program, which knew none: all are made. */
RS_MUST_CHECK enum rs_status seals_check(struct catalogue *catalogue, bool must_make,
                                         struct rs_err *err);

/* ---- removed.c: names of removed captures, beside the catalogue --------------------------------------- */

/* Durable when it returns. */
RS_MUST_CHECK enum rs_status removed_append(const struct rs_store *store, const char *id,
                                            struct rs_err *err);
/* What the file has and the catalogue has not goes into the catalogue; without a file one is made of what the catalogue has. */
RS_MUST_CHECK enum rs_status removed_load(struct rs_store *store, struct rs_err *err);

/* ---- the catalogue: every statement is here ------------------------------------------------------- */

/* RS_FORMAT: it is damaged, or no database. */
RS_MUST_CHECK enum rs_status catalogue_open(const char *path, struct catalogue **catalogue_p,
                                            struct rs_err *err);
/* A database that is open already, in WAL mode. */
RS_MUST_CHECK enum rs_status
catalogue_open_to_read(const char *path, struct catalogue **catalogue_p, struct rs_err *err);
void catalogue_close(struct catalogue **catalogue_p);
/* A closed one is sealed, with the ranks that it has: those are put before. */
RS_MUST_CHECK enum rs_status catalogue_put(struct catalogue *catalogue,
                                           const struct rs_capture_facts *facts,
                                           struct rs_err *err);
/* What was put until then survives a power cut, too. */
RS_MUST_CHECK enum rs_status catalogue_sync(struct catalogue *catalogue, struct rs_err *err);
/* catalogue_put(), and it survives a power cut: a capture that chunks are acknowledged for must not be forgotten. */
RS_MUST_CHECK enum rs_status catalogue_put_durably(struct catalogue *catalogue,
                                                   const struct rs_capture_facts *facts,
                                                   struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_find(struct catalogue *catalogue, const char *id,
                                            struct rs_capture_facts *facts_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_list(struct catalogue *catalogue,
                                            bool (*visit)(void *self,
                                                          const struct rs_capture_facts *facts),
                                            void *self, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_put_rank(struct catalogue *catalogue, const char *id,
                                                const struct rs_capture_rank *rank,
                                                struct rs_err *err);
size_t catalogue_count_ranks(struct catalogue *catalogue, const char *id);
RS_MUST_CHECK enum rs_status catalogue_count(struct catalogue *catalogue, size_t *all_p,
                                             size_t *open_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_list_ranks(struct catalogue *catalogue, const char *id,
                                                  bool (*visit)(void *self,
                                                                const struct rs_capture_rank *rank),
                                                  void *self, struct rs_err *err);
/* Captures whose removal began and did not end. */
RS_MUST_CHECK enum rs_status store_end_removals(struct rs_store *store, struct rs_err *err);
/* All rows of a capture go. */
RS_MUST_CHECK enum rs_status catalogue_forget(struct catalogue *catalogue, const char *id,
                                              struct rs_err *err);
/* The name of a capture that was removed stays known. */
RS_MUST_CHECK enum rs_status catalogue_put_removed(struct catalogue *catalogue, const char *id,
                                                   struct rs_err *err);
bool catalogue_was_removed(struct catalogue *catalogue, const char *id);
RS_MUST_CHECK enum rs_status catalogue_list_removed(struct catalogue *catalogue,
                                                    void (*visit)(void *self, const char *id),
                                                    void *self, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_put_seal(struct catalogue *catalogue, const char *id,
                                                uint64_t digest, struct rs_err *err);
/* Every capture, and every seal without one; `digest` NULL: it has none. The visitor copies; false ends it. */
RS_MUST_CHECK enum rs_status catalogue_list_seals(struct catalogue *catalogue,
                                                  bool (*visit)(void *self, const char *id,
                                                                bool is_closed,
                                                                const uint64_t *digest),
                                                  void *self, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_begin(struct catalogue *catalogue, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_commit(struct catalogue *catalogue, struct rs_err *err);
void catalogue_rollback(struct catalogue *catalogue);
RS_MUST_CHECK enum rs_status catalogue_put_position(struct catalogue *catalogue,
                                                    const struct rs_store_stream *stream,
                                                    struct rs_err *err);
/* How a position says whether its stream has ended. */
enum { CATALOGUE_GOES_ON, CATALOGUE_ENDED, CATALOGUE_ENDED_EARLY };
/* The positions that the catalogue has of an incarnation's lane, one for each capture. The visitor copies; false ends it. */
RS_MUST_CHECK enum rs_status
catalogue_list_positions(struct catalogue *catalogue, const struct rs_store_key *key,
                         bool (*visit)(void *self, const char *capture, rs_seq seq, int ended),
                         void *self, struct rs_err *err);

/* ---- capture.db ---------------------------------------------------------------------------------------- */

/* Makes DIR/capture.db anew from the facts, the ranks in the catalogue and the segments. */
RS_MUST_CHECK enum rs_status capture_db_write(const char *dir, const struct rs_capture_facts *facts,
                                              const struct rs_capture_rank *ranks,
                                              size_t rank_count, struct rs_err *err);
/* Reads facts and ranks (*ranks_p: rs_mem_free()). RS_NOTFOUND when there is none. */
RS_MUST_CHECK enum rs_status capture_db_read(const char *dir, struct rs_capture_facts *facts_p,
                                             struct rs_capture_rank **ranks_p, size_t *rank_count_p,
                                             struct rs_err *err);

#endif
