/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of results: ROOT/CAPTURE/uUID/HOST_PID_STAMP_ascend_pt. They are made when warming up begins; the two documents that
 * say whose they are and that collection is over come at the end.
 */
#include "ascend/adapter/ascend_priv.h"
#include "common/base/file.h"
#include "common/base/user_file.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DOCUMENT_LIMIT_BYTES = 1024 * 1024 };

/* "..._PID_STAMP_ascend_pt" */
static bool is_of(const char *name, int64_t pid)
{
    static const char tail[] = "_ascend_pt";
    enum { STAMP_DIGITS = 17 };
    char wanted[32];
    const size_t length = strlen(name);
    const int wanted_length = snprintf(wanted, sizeof wanted, "_%" PRId64 "_", pid);
    const size_t rest = STAMP_DIGITS + sizeof tail - 1;
    return length > rest + (size_t)wanted_length &&
           strcmp(name + length - (sizeof tail - 1), tail) == 0 &&
           strncmp(name + length - rest - (size_t)wanted_length, wanted, (size_t)wanted_length) ==
               0;
}

bool npu_result_find(const struct member *member, const char *result,
                     char path_p[RS_CONFIG_PATH_BYTES])
{
    char newest[256] = "";
    struct rs_as_user scope;
    if (rs_file_as_owner_begin(result, RS_HOLD_ROOT_LINKS, &scope, NULL) < 0)
        return false;
    DIR *dir = opendir(result);
    const struct dirent *entry;
    while (dir && (entry = rs_dir_next(dir)))
        if (is_of(entry->d_name, member->log_pid) && strcmp(entry->d_name, newest) > 0)
            (void)snprintf(newest, sizeof newest, "%s", entry->d_name);
    if (dir)
        (void)closedir(dir);
    rs_as_user_end(&scope);
    return *newest &&
           snprintf(path_p, RS_CONFIG_PATH_BYTES, "%s/%s", result, newest) < RS_CONFIG_PATH_BYTES;
}

/* Does a document of the folder, of this name or with a number in it, hold the text? -1: there is none. */
static int document_holds(const char *path, const char *head, const char *text)
{
    char file[RS_CONFIG_PATH_BYTES + 300];
    struct rs_buf buf = {0};
    int holds = -1;
    struct rs_as_user scope;
    if (rs_file_as_owner_begin(path, RS_HOLD_ROOT_LINKS, &scope, NULL) < 0)
        return -1;
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && holds < 1 && (entry = rs_dir_next(dir))) {
        const size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, head, strlen(head)) != 0 || length < 5 ||
            strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        rs_buf_reset(&buf);
        if (rs_file_read_regular(file, DOCUMENT_LIMIT_BYTES, &buf, NULL) == RS_OK)
            holds = strstr(rs_buf_text(&buf), text) != NULL;
    }
    if (dir)
        (void)closedir(dir);
    rs_as_user_end(&scope);
    rs_buf_fini(&buf);
    return holds;
}

bool npu_result_is_complete(const char *path)
{
    return document_holds(path, "profiler_info", "\"end_info\"") == 1;
}

int npu_result_owner(const char *path, const char *id)
{
    char quoted[RS_CONFIG_CAPTURE_BYTES + 4];
    if (document_holds(path, "profiler_metadata", "\"" RS_ASCEND_METADATA_KEY "\"") != 1)
        return -1;
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", id);
    return document_holds(path, "profiler_metadata", quoted);
}
