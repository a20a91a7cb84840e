/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages two processes exchange, as bytes: proto/rankscope.proto says what is in them,
 * proto/PROTOCOL.md in which order they are written.
 *
 * Control messages go through protobuf-c, with a budget on what unpacking may allocate. Chunks,
 * which are nearly all of the bytes, are framed by hand in the same wire format, so that the
 * payload is never copied to be packed, nor to be read.
 *
 * What a peer sent is hostile: every function here that reads it answers with a status.
 */
#ifndef RS_WIRE_WIRE_H
#define RS_WIRE_WIRE_H

#include "common/base/buf.h"
#include "common/base/envelope.h"
#include "common/base/err.h"
#include "proto/rankscope.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    RS_WIRE_MAJOR = 1,
    RS_WIRE_MINOR = 3,
    RS_WIRE_MINOR_OLDEST = 1, /* from here on, up to the next one, a peer is understood */
    RS_WIRE_CHUNK_MAX_BYTES = 1024 * 1024,       /* payload of one Chunk */
    RS_WIRE_MESSAGE_MAX_BYTES = 4 * 1024 * 1024, /* any message */
    RS_WIRE_UNPACK_MAX_BYTES = 16 * 1024 * 1024, /* what one message may become in memory */
    RS_WIRE_TEXT_MAX_BYTES = 256,                /* run, incarnation, host, capture id */
    RS_WIRE_KEY_MAX_BYTES = 4096,                /* capture key, origin */
    RS_WIRE_RANK_MAX = 1 << 24,
};

/* The enumerator that only makes a oneof's enum as wide as int, for switches that name every member: protobuf-c spells it
 * otherwise since 1.4. */
#if PROTOBUF_C_VERSION_NUMBER >= 1004000
#    define RS_WIRE_ONEOF_SIZE(message) _##message##__MESSAGE__CASE_IS_INT_SIZE
#else
#    define RS_WIRE_ONEOF_SIZE(message) _##message##__MESSAGE_IS_INT_SIZE
#endif

#define RS_WIRE_CREDIT_DEFAULT_BYTES ((uint64_t)16 * 1024 * 1024)

/* The methods a link can be opened for. */
#define RS_WIRE_METHOD_STREAM "/rankscope.Rankscope/Stream" /* collector: Up / Down */
#define RS_WIRE_METHOD_ASK    "/rankscope.Rankscope/Ask"    /* command line: Ask / Reply */

/* What a rank does right now (RankState.state). */
enum rs_rank_state {
    RS_RANK_IDLE,
    RS_RANK_ARMED,
    RS_RANK_RECORDING,
    RS_RANK_GONE,
    RS_RANK_FILES, /* known from files only */
    RS_RANK_BUSY,  /* it profiles itself: it cannot take a capture now */
    RS_RANK_STATE_COUNT
};
const char *rs_rank_state_text(enum rs_rank_state state);

/* One rank's way through one capture (RankProgress.state, CaptureRank.state). */
enum rs_progress_state {
    RS_PROGRESS_WAITING,   /* asked, not answered */
    RS_PROGRESS_ARMED,     /* will start at the common step */
    RS_PROGRESS_DELIVERED, /* the process took the request; from here it cannot be called back */
    RS_PROGRESS_RECORDING,
    RS_PROGRESS_WRITTEN, /* its trace is complete on its node */
    RS_PROGRESS_READING, /* the trace is being read and packed */
    RS_PROGRESS_SENDING, /* recorded; chunks are under way */
    RS_PROGRESS_DONE,    /* everything is durable at the aggregator */
    RS_PROGRESS_PARTIAL, /* ended early: what was recorded is durable */
    RS_PROGRESS_REFUSED, /* said no, with a reason */
    RS_PROGRESS_LOST,    /* died or stayed silent */
    RS_PROGRESS_COUNT
};
const char *rs_progress_state_text(enum rs_progress_state state);
/* A rank's text begins so while it is waited for although its link broke in silence; a time of day follows. */
#define RS_UNREACHABLE_TEXT "its collector has not answered since"
/* ... and so when it recorded, and its vendor's tool did not parse that: RS_PROGRESS_LOST, since nothing of it came. */
#define RS_STORED_RAW_TEXT "recorded, but not parsed"
bool rs_progress_is_stored_raw(enum rs_progress_state state, const char *text);
/* The state for people and scripts: as above, and "stored raw" for what is not lost at all. */
const char *rs_progress_word(enum rs_progress_state state, const char *text);
bool rs_progress_is_final(enum rs_progress_state state);

/* Why a chunk was not taken (AckStream.refusal). The stream is asked for another, the link stays. */
enum rs_wire_refusal {
    RS_REFUSAL_NONE,
    RS_REFUSAL_GAP,     /* one before it is missing */
    RS_REFUSAL_DAMAGED, /* it is no chunk, or its checksum is wrong */
    RS_REFUSAL_STREAM,  /* nothing more of this stream can be taken */
};

enum rs_capture_state {
    RS_CAPTURE_ARMING,     /* PREPARE is out */
    RS_CAPTURE_RECORDING,  /* COMMIT is out */
    RS_CAPTURE_COLLECTING, /* files: chunks come in */
    RS_CAPTURE_COMPLETE,   /* closed, every rank is there */
    RS_CAPTURE_PARTIAL,    /* closed, something is missing */
    RS_CAPTURE_FAILED,     /* closed, nothing was recorded */
    RS_CAPTURE_QUEUED,     /* waits until the ranks it wants are free; before all others in time */
    RS_CAPTURE_SUMMARISED, /* every summary is durable; raw data that is wanted may still come */
    RS_CAPTURE_STOPPED, /* closed, ended by request before every rank had all that was asked for */
    RS_CAPTURE_STATE_COUNT
};
const char *rs_capture_state_text(enum rs_capture_state state);
bool rs_capture_state_is_closed(enum rs_capture_state state);

/* ---- frames: a message as it arrived ------------------------------------------------------- */

/* Owned by whoever was handed it; freed by release(), on any thread. Parts are read only. */
struct rs_frame {
    struct iovec *parts;
    size_t part_count;
    size_t length; /* of all parts */
    void (*release)(struct rs_frame *frame);
};

/* A frame of our own with a copy of the bytes (tests, in-memory links). NULL: no memory. */
struct rs_frame *rs_frame_of(const void *bytes, size_t length);
void rs_frame_free(struct rs_frame **frame_p);
/* Copies at most `length` bytes from `offset` on; how many there were. */
size_t rs_frame_copy(const struct rs_frame *frame, size_t offset, void *to, size_t length);
/* The pieces that hold [offset, offset + length). RS_LIMIT when they are more than part_max;
 * RS_FORMAT when the frame ends before. Lent as long as the frame lives. */
RS_MUST_CHECK enum rs_status rs_frame_slice(const struct rs_frame *frame, size_t offset,
                                            size_t length, struct iovec *parts_p, size_t part_max,
                                            size_t *count_p);

/* ---- control messages ------------------------------------------------------------------------- */

/* Appends the packed message. Check buf->failed. */
void rs_wire_pack(const ProtobufCMessage *message, struct rs_buf *buf);

/* An unpacked message and the budget it was unpacked under. */
struct rs_message {
    ProtobufCMessage *body;
    ProtobufCAllocator allocator;
    size_t budget_bytes;
};

/* RS_FORMAT when it is no such message, RS_LIMIT when it is too large, RS_NOMEM. The message must stay where
 * it is until rs_message_fini(). */
RS_MUST_CHECK enum rs_status rs_message_unpack(struct rs_message *message,
                                               const ProtobufCMessageDescriptor *descriptor,
                                               const struct rs_frame *frame, struct rs_err *err);
/* Of bytes that did not come over the wire and may be anybody's, within the same limits. The caller's, freed as protobuf-c frees. NULL: it is no
 * such message, is too much, or there is no memory. */
RS_MUST_CHECK ProtobufCMessage *rs_wire_unpack(const ProtobufCMessageDescriptor *descriptor,
                                               const void *bytes, size_t length);
void rs_message_fini(struct rs_message *message); /* of a zeroed message is allowed */

/* Whether we can talk to that version. RS_VERSION with a sentence that names both. */
RS_MUST_CHECK enum rs_status rs_wire_check_version(const Rankscope__Version *version,
                                                   const char *who, struct rs_err *err);
/* Fills our own; program text is static. */
void rs_wire_own_version(Rankscope__Version *version);

/* ---- chunks, by hand ------------------------------------------------------------------------- */

struct rs_chunk_message {
    uint32_t handle;
    uint64_t seq;
    uint32_t flags;
    size_t payload_offset; /* in the frame */
    size_t payload_length;
};

enum { RS_WIRE_CHUNK_HEAD_MAX_BYTES = 48 };

/* Appends everything that stands before the payload; the payload is sent right behind it. */
void rs_wire_chunk_head(struct rs_buf *buf, uint32_t handle, uint64_t seq, uint32_t flags,
                        size_t payload_length);
bool rs_wire_is_chunk(const struct rs_frame *frame);
/* RS_FORMAT unless it is exactly what rs_wire_chunk_head() writes with unknown varint fields allowed,
 * RS_LIMIT when the payload is too long. */
RS_MUST_CHECK enum rs_status rs_wire_chunk_parse(const struct rs_frame *frame,
                                                 struct rs_chunk_message *message_p,
                                                 struct rs_err *err);

/* A text a peer sent: length and no control bytes. RS_INVALID names `what`. */
RS_MUST_CHECK enum rs_status rs_wire_check_text(const char *text, size_t max_bytes,
                                                const char *what, struct rs_err *err);
/* A capture's name, which becomes a folder's on every node: messages, digits, ".", "_" and "-", at most 63, "." not first. */
bool rs_wire_is_capture_id(const char *id);

#endif
