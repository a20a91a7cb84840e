/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in a bucket, of whatever speaks S3: AWS, MinIO, Ceph, s3proxy.
 *
 *     put    <= a part: one PUT; beyond: parts of at least 8 MiB, of which those that are there already are not sent again
 *     get    into a file; what is there of it already is not asked for again
 *     list, head, remove
 *
 * libcurl speaks and signs (Signature Version 4); the digest of what is sent is in the signature, so that nothing on the way
 * changes it unseen. Addresses are path-style. What may pass (no link, 408, 429, 5xx) is tried again five times, waiting longer
 * each time; what will not (403, 404) is told at once.
 *
 * A handle belongs to one thread at a time; rs_s3_shared outlives its handles and may be stopped from any thread.
 */
#ifndef RS_ARCHIVE_S3_H
#define RS_ARCHIVE_S3_H

#include "common/base/buf.h"
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/base/time.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Texts are lent as long as there are handles. */
struct rs_s3_shared {
    const char *
        endpoint; /* "https://HOST[:PORT]", without a slash at its end; plain http on loopback only */
    const char *bucket;
    const char *region;
    const char *key_id, *secret, *session_token; /* session_token "": none */
    const char *ca_file;                         /* "": the system's */
    rs_dur retry_ns;                             /* before the second try; doubled each time */
    atomic_bool is_stopped;                      /* what is under way ends with RS_CANCELLED */
};

struct rs_s3;

/* How far one object is. Called on the handle's thread. */
typedef void rs_s3_progress(void *self, uint64_t bytes_more);

struct rs_s3_object {
    uint64_t size;
    char sha256[RS_SHA256_HEX_BYTES]; /* as who put it said; "": nobody did */
};

/* RS_NOMEM. `shared` is kept. */
RS_MUST_CHECK enum rs_status rs_s3_open(struct rs_s3_shared *shared, struct rs_s3 **s3_p,
                                        struct rs_err *err);
void rs_s3_close(struct rs_s3 **s3_p);

/* All of these: RS_NOTFOUND no such object or bucket, RS_REFUSED it is not allowed, RS_UNREACHABLE, RS_CANCELLED, RS_FORMAT the answer
 * is none, RS_IO. A key has letters, digits, "/", ".", "_", "-" and "+" only (checked: a bug). */
RS_MUST_CHECK enum rs_status rs_s3_head(struct rs_s3 *s3, const char *key,
                                        struct rs_s3_object *object_p, struct rs_err *err);
RS_MUST_CHECK enum rs_status rs_s3_put(struct rs_s3 *s3, const char *key, const void *data,
                                       size_t length, const char sha256[RS_SHA256_HEX_BYTES],
                                       struct rs_err *err);
/* Of a file that nobody changes, `size` bytes with that digest. */
RS_MUST_CHECK enum rs_status rs_s3_put_file(struct rs_s3 *s3, const char *key, const char *path,
                                            uint64_t size, const char sha256[RS_SHA256_HEX_BYTES],
                                            rs_s3_progress *progress, void *self,
                                            struct rs_err *err);
/* Appends. RS_LIMIT: longer than limit_bytes. */
RS_MUST_CHECK enum rs_status rs_s3_get(struct rs_s3 *s3, const char *key, size_t limit_bytes,
                                       struct rs_buf *buf, struct rs_err *err);
/* Completes the file, which may hold its beginning already, to `size` bytes. Does not look at what they are. */
RS_MUST_CHECK enum rs_status rs_s3_get_file(struct rs_s3 *s3, const char *key, const char *path,
                                            uint64_t size, rs_s3_progress *progress, void *self,
                                            struct rs_err *err);
/* RS_OK also when it was not there. */
RS_MUST_CHECK enum rs_status rs_s3_remove(struct rs_s3 *s3, const char *key, struct rs_err *err);
/* Calls visit with the key of every object that begins so, in order, until it returns false. */
RS_MUST_CHECK enum rs_status rs_s3_list(struct rs_s3 *s3, const char *prefix,
                                        bool (*visit)(void *self, const char *key, uint64_t size),
                                        void *self, struct rs_err *err);

#endif
