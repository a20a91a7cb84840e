/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder for one test, removed with everything in it.
 */
#ifndef RS_TESTS_SUPPORT_TMP_DIR_H
#define RS_TESTS_SUPPORT_TMP_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes it and fills `path` (at least 64 bytes). Aborts when that is not possible. */
static inline void tmp_dir_make(char path[64])
{
    const char *base = getenv("TMPDIR");
    if (snprintf(path, 64, "%s/rs-XXXXXX", base && strlen(base) < 40 ? base : "/tmp") >= 64 ||
        !mkdtemp(path))
        abort();
}

static inline void tmp_dir_remove(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        char child[1024];
        struct stat info;
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
            snprintf(child, sizeof child, "%s/%s", path, item->d_name) >= (int)sizeof child)
            continue;
        if (lstat(child, &info) == 0 && S_ISDIR(info.st_mode))
            tmp_dir_remove(child);
        else
            (void)unlink(child);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(path);
}

#endif
