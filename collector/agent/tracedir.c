/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/tracedir.h"

#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { REFUSE_BELOW = 2, WARN_BELOW = 20 };

void rs_tracedir_default(char path_p[RS_TRACEDIR_BYTES])
{
    (void)snprintf(path_p, RS_TRACEDIR_BYTES, "/tmp/rankscope-traces-%u", (unsigned)geteuid());
}

enum rs_status rs_tracedir_prepare(const char *path, struct rs_err *err)
{
    struct stat info;
    if (path[0] != '/')
        return rs_err_set(err, RS_INVALID, "the trace folder %s is not an absolute path", path);
    const enum rs_status status = rs_file_make_dirs(path, 0711, err);
    if (status < 0)
        return status;
    if (lstat(path, &info) < 0)
        return rs_err_errno(err, "cannot look at the trace folder %s", path);
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        return rs_err_set(err, RS_REFUSED,
                          "the trace folder %s is not a folder of this user: traces would be in "
                          "somebody else's hands",
                          path);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return rs_err_set(err, RS_REFUSED, "others may write to the trace folder %s", path);
    return RS_OK;
}

void rs_tracedir_clean(const char *path, const char *capture)
{
    char folder[RS_TRACEDIR_BYTES + 80];
    char user[RS_TRACEDIR_BYTES + 400];
    (void)snprintf(folder, sizeof folder, "%s/%.64s", path, capture);
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    struct dirent *entry;
    while ((entry = rs_dir_next(dir))) {
        (void)snprintf(user, sizeof user, "%s/%.255s", folder, entry->d_name);
        if (entry->d_name[0] == 'u')
            (void)rmdir(user);
    }
    (void)closedir(dir);
    (void)rmdir(folder);
}

/* File systems whose disk is elsewhere, by their magic number (statfs(2)). */
static const char *network_name(unsigned long magic)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } kinds[] = {
        {0x6969, "NFS"},        {0x517B, "SMB"},
        {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB 2"},
        {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
        {0x00C36400, "Ceph"},   {0x5346414F, "AFS"},
        {0x6B414653, "AFS"},    {0x19830326, "BeeGFS"},
        {0x7461636F, "OCFS2"},  {0x01161970, "GFS2"},
        {0x73757245, "Coda"},   {0x01021997, "9P"},
        {0xAAD7AAEA, "PanFS"},  {0x65735546, "FUSE (which may be a network)"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].magic == (magic & 0xFFFFFFFFul))
            return kinds[i].name;
    return NULL;
}

enum rs_status rs_tracedir_look(const char *path, struct rs_tracedir_facts *facts_p,
                                struct rs_err *err)
{
    char at[RS_TRACEDIR_BYTES];
    struct statvfs space;
    struct statfs kind;
    (void)snprintf(at, sizeof at, "%s", path);
    while (statvfs(at, &space) < 0) {
        char *slash = strrchr(at, '/');
        if (errno != ENOENT || !slash || slash == at)
            return rs_err_errno(err, "cannot look at the trace folder %s", path);
        *slash = '\0';
    }
    if (statfs(at, &kind) < 0)
        return rs_err_errno(err, "cannot look at the trace folder %s", path);
    facts_p->free_bytes = (int64_t)space.f_bavail * (int64_t)space.f_frsize;
    facts_p->network = network_name((unsigned long)kind.f_type);
    return RS_OK;
}

enum rs_status rs_tracedir_check(const char *path, int64_t bytes, bool is_forced, char *warning,
                                 size_t warning_bytes, struct rs_err *err)
{
    struct rs_tracedir_facts facts;
    const int64_t mib = INT64_C(1024) * 1024;
    warning[0] = '\0';
    const enum rs_status status = rs_tracedir_look(path, &facts, err);
    if (status < 0)
        return status;
    if (facts.network && !is_forced)
        return rs_err_set(err, RS_REFUSED,
                          "the trace folder %s is on %s, which a training job should not wait for: "
                          "--force does it, --trace-dir of the collector names another",
                          path, facts.network);
    const bool is_short = bytes > facts.free_bytes / REFUSE_BELOW;
    if (is_short && !is_forced)
        return rs_err_set(err, RS_REFUSED,
                          "about %" PRId64 " MiB of traces and only %" PRId64
                          " MiB free in %s: at least twice as much is wanted (--force does it)",
                          bytes / mib, facts.free_bytes / mib, path);
    if (is_short || bytes > facts.free_bytes / WARN_BELOW)
        (void)snprintf(warning, warning_bytes,
                       "about %" PRId64 " MiB of traces are a large part of the %" PRId64
                       " MiB that are free in %.200s",
                       bytes / mib, facts.free_bytes / mib, path);
    else if (facts.network)
        (void)snprintf(warning, warning_bytes, "traces go to %.200s, which is on %s", path,
                       facts.network);
    return RS_OK;
}
