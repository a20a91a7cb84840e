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

enum { RECORD_STREAM = 1, RECORD_CHUNK = 2, SEGMENT_NAME_BYTES = 12 };

struct catalogue;
struct capture_log;

struct rs_store {
    char *data_dir;
    int lock_fd;
    uint64_t segment_bytes;

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
};

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

/* Numbers of the segments in DIR/segments, ascending. */
RS_MUST_CHECK enum rs_status list_segments(const char *dir, uint32_t **numbers_p, size_t *count_p,
                                           struct rs_err *err);
char *segment_path(const char *dir, uint32_t number);

/* ---- the catalogue: every statement is here ------------------------------------------------------- */

RS_MUST_CHECK enum rs_status catalogue_open(const char *path, struct catalogue **catalogue_p,
                                            struct rs_err *err);
void catalogue_close(struct catalogue **catalogue_p);
RS_MUST_CHECK enum rs_status catalogue_put(struct catalogue *catalogue,
                                           const struct rs_capture_facts *facts,
                                           struct rs_err *err);
/* The same, and it survives a power cut: a capture that chunks are acknowledged for must not be forgotten. */
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
RS_MUST_CHECK enum rs_status catalogue_list_ranks(struct catalogue *catalogue, const char *id,
                                                  bool (*visit)(void *self,
                                                                const struct rs_capture_rank *rank),
                                                  void *self, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_begin(struct catalogue *catalogue, struct rs_err *err);
RS_MUST_CHECK enum rs_status catalogue_commit(struct catalogue *catalogue, struct rs_err *err);
void catalogue_rollback(struct catalogue *catalogue);
RS_MUST_CHECK enum rs_status catalogue_put_position(struct catalogue *catalogue,
                                                    const struct rs_store_stream *stream,
                                                    struct rs_err *err);
/* The stream's position, when the catalogue has one: fills capture, is_ended and both numbers. */
RS_MUST_CHECK enum rs_status catalogue_find_position(struct catalogue *catalogue,
                                                     struct rs_store_stream *stream,
                                                     struct rs_err *err);

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
