/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments with any bytes in them: spool and store open or refuse, never crash, and what they open
 * goes on. The first byte chooses who reads; the rest is the segment.
 */
#include "aggregator/store/store.h"
#include "collector/spool/spool.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/base/reclog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void make_dir(void)
{
    const char *base = getenv("TMPDIR");
    if (dir[0])
        return;
    (void)snprintf(dir, sizeof dir, "%.40s/rs-fuzz-XXXXXX", base ? base : "/tmp");
    RS_CHECK(mkdtemp(dir));
}

/* The records as the log alone sees them: recovery must keep exactly those before the first that is not whole. */
static void try_log(const char *path)
{
    struct rs_reclog_reader reader;
    struct rs_reclog log;
    struct rs_reclog_record record;
    struct rs_view payload;
    uint64_t count = 0;
    uint64_t again = 0;
    if (rs_reclog_reader_open(&reader, path, NULL) < 0)
        return;
    while (rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, NULL) == RS_OK)
        count++;
    rs_reclog_reader_close(&reader);
    if (rs_reclog_open(&log, path, NULL, NULL) < 0)
        return;
    rs_reclog_close(&log);
    RS_CHECK(rs_reclog_reader_open(&reader, path, NULL) == RS_OK);
    while (rs_reclog_next(&reader, RS_RECLOG_CHECK_ALL, &record, &payload, NULL, NULL) == RS_OK)
        again++;
    rs_reclog_reader_close(&reader);
    RS_CHECK(count == again);
}

static void try_spool(const char *spool_dir)
{
    struct rs_spool *spool = NULL;
    struct rs_err err = {0};
    if (rs_spool_open(spool_dir, NULL, &spool, &err) < 0)
        return;
    struct rs_spool_entry entry = {0};
    struct rs_spool_chunk chunk;
    uint64_t sum = 0;
    for (uint32_t after = 0; rs_spool_next_entry(spool, after, &entry) == RS_OK; after = entry.id) {
        for (rs_seq seq = 0; rs_spool_peek(spool, entry.id, seq, &chunk) == RS_OK;) {
            for (size_t i = 0; i < chunk.bytes.length; i++)
                sum += chunk.bytes.data[i];
            if (chunk.seq == UINT64_MAX)
                break;
            seq = chunk.seq + 1;
        }
    }
    const struct rs_spool_source source = {
        .run = "r", .incarnation = "i", .capture = "", .capture_key = "", .host = "", .origin = ""};
    uint32_t id = 0;
    if (rs_spool_declare(spool, &source, &id, &err) == RS_OK) {
        (void)!rs_spool_put(spool, id, 0, 0, rs_view_of("x", 1), &err);
        rs_spool_ack(spool, id, 1 + sum % 2);
    }
    rs_spool_close(&spool);
}

static void try_stored(const char *capture_dir)
{
    struct rs_stored *stored = NULL;
    struct rs_stored_chunk chunk;
    if (rs_store_open_capture(capture_dir, &stored, NULL) < 0)
        return;
    for (size_t i = 0; i < rs_stored_stream_count(stored); i++) {
        const struct rs_stored_stream *stream = rs_stored_stream(stored, i);
        for (uint64_t k = 0; k < stream->chunk_count; k++)
            (void)!rs_stored_chunk(stored, i, k, true, &chunk, NULL);
    }
    rs_stored_close(&stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[128];
    char path[200];
    if (size == 0)
        return 0;
    make_dir();
    const bool is_store = data[0] & 1;
    (void)snprintf(folder, sizeof folder, is_store ? "%s/c/segments" : "%s/s", dir);
    (void)snprintf(path, sizeof path, "%s/00000001.seg", folder);
    if (rs_file_make_dirs(folder, 0700, NULL) < 0 ||
        rs_file_replace(path, data + 1, size - 1, false, NULL) < 0)
        return 0;
    if (is_store) {
        (void)snprintf(folder, sizeof folder, "%s/c", dir);
        try_stored(folder);
        try_log(path);
    } else {
        try_spool(folder);
        for (unsigned i = 1; i < 4; i++) {
            (void)snprintf(path, sizeof path, "%s/%08u.seg", folder, i);
            (void)unlink(path);
        }
    }
    return 0;
}
