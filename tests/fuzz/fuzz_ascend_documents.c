/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of documents as a stranger's stream has them: lines, each the extra of a row. Whatever is written stands inside
 * the folder, under a name of the list.
 */
#include "ascend/source/ascend_documents.h"
#include "common/base/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];

/* Removes a folder; how many entries it had. */
static size_t sweep(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    const struct dirent *item;
    while (dir && (item = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe) */
        char child[1024];
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        count++;
        if (snprintf(child, sizeof child, "%s/%s", path, item->d_name) < (int)sizeof child &&
            unlink(child) != 0)
            (void)sweep(child);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(path);
    return count;
}

static void take(struct rs_ascend_documents *documents, struct rs_batch *batch, uint32_t lane,
                 rs_str name, const uint8_t *text, size_t length)
{
    size_t at;
    if (rs_batch_row(batch, &at) != RS_OK)
        return;
    batch->kind[at] = RS_KIND_METADATA;
    batch->lane[at] = lane;
    batch->name[at] = name;
    if (rs_batch_extra(batch, at, (const char *)text, length) == RS_OK)
        (void)!rs_ascend_documents_take(documents, batch, NULL);
    rs_batch_reset(batch);
}

static void take_lines(struct rs_ascend_documents *documents, const uint8_t *data, size_t size)
{
    struct rs_strtab strings;
    struct rs_lanes lanes = {0};
    struct rs_batch batch;
    const struct rs_lane host = {.kind = RS_LANE_HOST, .device = -1};
    uint32_t lane = 0;
    rs_str name = 0;
    RS_CHECK(rs_strtab_init(&strings, 0) == RS_OK);
    RS_CHECK(rs_batch_init(&batch, &strings, &lanes, 4) == RS_OK);
    RS_CHECK(rs_lanes_find(&lanes, &host, &lane) == RS_OK);
    RS_CHECK(rs_strtab_add(&strings, "vendor document", 15, &name) == RS_OK);
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data) - at : size - at;
        take(documents, &batch, lane, name, data + at, length);
        at += length + 1;
    }
    rs_batch_fini(&batch);
    rs_lanes_fini(&lanes);
    rs_strtab_fini(&strings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_ascend_documents *documents = NULL;
    char back[96];
    if (!root[0]) {
        (void)snprintf(root, sizeof root, "/dev/shm/rs-fuzz-XXXXXX");
        if (!mkdtemp(root))
            abort();
    }
    (void)mkdir(root, 0700);
    (void)snprintf(back, sizeof back, "%s/back", root);
    RS_CHECK(rs_ascend_documents_new(back, &documents, NULL) == RS_OK);
    take_lines(documents, data, size);
    const bool has_written = rs_ascend_documents_count(documents) > 0;
    rs_ascend_documents_free(&documents);
    const bool is_there = access(back, F_OK) == 0;
    RS_CHECK(!has_written || is_there);
    RS_CHECK(sweep(root) <= 1); /* nothing but `back` */
    return 0;
}
