/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the spool share: its index in memory, its records on disk.
 *
 *   entry      one stream as it was declared; several of one incarnation share its sequence
 *   item       one chunk that waits, in order of put; it points into a segment
 *   segment    one file, mapped; it goes when no item of it waits
 *
 * Two locks: `write_lock` makes puts one after the other and is held while a record is written;
 * `lock` guards the index and is held for moments. Order: write_lock, then lock.
 */
#ifndef RS_SPOOL_SPOOL_PRIV_H
#define RS_SPOOL_SPOOL_PRIV_H

#include "collector/spool/spool.h"
#include "common/base/buf.h"
#include "common/base/reclog.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RECORD_ENTRY = 1, RECORD_CHUNK = 2 };
enum { CHUNK_MAX_BYTES = 1024 * 1024, TEXT_MAX_BYTES = 4096, SEGMENT_MIN_BYTES = 64 * 1024 };
enum { ENTRY_ENDED = 1, ENTRY_KEEPS = 2 }; /* flags of an ENTRY record */

/* One incarnation's numbers, shared by its entries. */
struct sequence {
    char *run, *incarnation;
    uint32_t rank;
    rs_seq last, acked;
    unsigned entry_count;
};

struct entry {
    uint32_t id;
    struct sequence *sequence;
    char *capture, *capture_key, *host, *origin;
    uint32_t world;
    rs_dur settle_ns;
    bool is_ended, keeps_sequence, is_dropped;
    rs_seq end_seq; /* its newest chunk */
    uint64_t put_count;
    struct rs_loss loss; /* to be told before the next chunk */
};

struct segment {
    uint32_t number;
    char *path;
    const uint8_t *map; /* the whole file and what it may grow to */
    size_t map_bytes;
    uint64_t length;
    uint64_t waiting_count; /* chunks not acknowledged */
};

/* A chunk in order of put. Its place in the array is its position - first_position. */
struct item {
    uint32_t entry;
    uint32_t segment; /* number */
    rs_seq seq;
    uint32_t payload_offset, payload_length;
    uint16_t flags;
    bool is_acked;
};

struct rs_spool {
    char *dir;
    char id[33];
    int lock_fd;
    struct rs_spool_options options;
    void (*on_put)(void *self);
    void *on_put_self;

    pthread_mutex_t write_lock;
    struct rs_reclog log; /* of the newest segment; guarded by write_lock */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_room;
    struct sequence **sequences;
    size_t sequence_count, sequence_capacity;
    struct entry **entries; /* by id */
    size_t entry_count, entry_capacity;
    uint32_t next_entry;
    struct segment *segments; /* oldest first; the last is written to */
    size_t segment_count, segment_capacity;
    struct item *items;
    size_t item_head, item_count, item_capacity; /* items[item_head ..] are in use */
    uint64_t first_position;                     /* of items[item_head] */
    struct rs_spool_stats stats;
};

/* ---- index.c: what waits, of whom. Callers hold `lock`. ---------------------------------------------- */

/* NULL: there is none. */
struct entry *spool_find_entry(const struct rs_spool *spool, uint32_t id);
struct sequence *spool_find_sequence(const struct rs_spool *spool, const char *run, uint32_t rank,
                                     const char *incarnation);
/* Adds an entry under this id, which is beyond all others; copies the texts. NULL: no memory. */
struct entry *spool_add_entry(struct rs_spool *spool, uint32_t id,
                              const struct rs_spool_source *source);
void spool_free_sequence(struct sequence *sequence);
/* Takes it out of the index, too. */
void spool_remove_sequence(struct rs_spool *spool, struct sequence *sequence);
void spool_free_entry(struct entry *entry);
/* Entries of which nothing will be asked any more go. */
void spool_retire_entries(struct rs_spool *spool);
/* RS_NOMEM. */
enum rs_status spool_add_item(struct rs_spool *spool, const struct item *item);
void spool_settle_item(struct rs_spool *spool, struct item *item);
/* Positions that are settled at the front go, and the segments that are through with them. */
void spool_drop_head(struct rs_spool *spool);

/* ---- segments.c: the files --------------------------------------------------------------------------- */

enum rs_status spool_append_entry(struct rs_reclog *log, const struct entry *entry,
                                  struct rs_err *err);
/* The next text of an entry record, kept in `texts`; "" with view->failed when it is too long. */
const char *spool_take_text(struct rs_view *view, struct rs_buf *texts);
/* rs_mem_free(); NULL: no memory. */
char *spool_segment_path(const struct rs_spool *spool, uint32_t number);
/* On RS_OK the segment owns `path`. */
enum rs_status spool_map_segment(struct rs_spool *spool, uint32_t number, char *path,
                                 uint64_t length, struct rs_err *err);
void spool_unmap_segment(struct segment *segment);
struct segment *spool_find_segment(const struct rs_spool *spool, uint32_t number);
/* Old segments whose chunks are all acknowledged go; the newest stays. */
void spool_free_segments(struct rs_spool *spool);
/* Begins a new segment with all entries in it. Holds write_lock and lock. */
enum rs_status spool_begin_segment(struct rs_spool *spool, struct rs_err *err);

/* ---- recover.c --------------------------------------------------------------------------------------- */

/* Reads what segments are in the directory, or begins the first. RS_FORMAT, RS_IO, RS_NOMEM. */
enum rs_status spool_recover(struct rs_spool *spool, struct rs_err *err);

#endif
