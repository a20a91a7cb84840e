/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of operations: segments written and read, and the virtual table op_member over them. Inside the room.
 */
#ifndef RS_STORE_MEMBERS_PRIV_H
#define RS_STORE_MEMBERS_PRIV_H

#include "aggregator/model/tables.h"

#include <sqlite3.h>

/* --- one segment being written -------------------------------------------------------------------------- */

struct segment_writer {
    struct rs_buf bytes;
    struct rs_block block; /* rows that wait for a full block */
    struct rs_row_op_member last;
    int64_t rows;
    bool is_packed; /* zstd */
};
void segment_begin(struct segment_writer *segment, int64_t capture, int64_t step,
                   int64_t generation, bool is_packed);
/* RS_INVALID: not in the order of the key. */
RS_MUST_CHECK enum rs_status segment_put(struct segment_writer *segment,
                                         const struct rs_row_op_member *rows, size_t count,
                                         struct rs_err *err);
RS_MUST_CHECK enum rs_status segment_end(struct segment_writer *segment, struct rs_err *err);
void segment_writer_fini(struct segment_writer *segment);

/* --- segments being read ---------------------------------------------------------------------------------- */

struct segment_block {
    struct rs_view stored;
    uint32_t rows, raw;
    uint8_t codec;
    int64_t first_group, first_op, last_group, last_op;
    uint64_t sum;
};

struct segment {
    int64_t capture, step, generation;
    struct rs_view bytes;
    bool is_current; /* named in this round of members_map() */
    bool is_mapped;  /* else `owned` has them */
    struct rs_buf owned;
    struct segment_block *blocks;
    size_t block_count, block_capacity;
};

/* What op_member shows on a connection: segments by step. Belongs to a row store, outlives the connection. */
struct members {
    char *dir; /* NULL: private, segments are put in by members_add() */
    struct segment *segments;
    size_t count, capacity;
    struct rs_block decoded; /* of segments[decoded_segment].blocks[decoded_block] */
    size_t decoded_segment, decoded_block;
    struct rs_err err; /* why op_member failed: SQLite only passes a code on */
};

/* Before anything else. */
static inline void members_init(struct members *members)
{
    *members = (struct members){.decoded_segment = SIZE_MAX};
}
/* The segment of this step, or where it would stand. */
size_t members_find(const struct members *members, int64_t step, bool *found_p);
/* The rows of one block into `decoded`; what fails is in `err`. */
RS_MUST_CHECK enum rs_status members_decode(struct members *members, size_t segment_index,
                                            size_t block_index);
/* Makes op_member on this connection. SQLite's code. */
int members_attach(sqlite3 *db, struct members *members);
/* Of a private store: replaces the segment of its step. Takes the writer's bytes. */
RS_MUST_CHECK enum rs_status members_add(struct members *members, struct segment_writer *segment,
                                         int64_t capture, int64_t step, int64_t generation,
                                         struct rs_err *err);
void members_remove(struct members *members, int64_t step);
/* The segment DIR/members/STEP.GENERATION.seg; what is mapped already is kept. */
RS_MUST_CHECK enum rs_status members_map(struct members *members, int64_t capture, int64_t step,
                                         int64_t generation, int64_t rows, struct rs_err *err);
/* Forgets mapped segments that the last round of members_map() did not name. */
void members_round_begin(struct members *members);
void members_round_end(struct members *members);
void members_fini(struct members *members);

enum { SEGMENT_NAME_MAX = 64 };
void segment_file_name(char name[SEGMENT_NAME_MAX], int64_t step, int64_t generation);

#endif
