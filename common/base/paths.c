/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/paths.h"

#include "common/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool may_write(const char *dir)
{
    return access(dir, W_OK | X_OK) == 0;
}

/* A folder in a place that others may write to must be ours alone. */
static enum rs_status check_owner(const char *dir, struct rs_err *err)
{
    struct stat info;
    if (lstat(dir, &info) < 0)
        return rs_err_errno(err, "cannot look at %s", dir);
    /* In /run only root makes folders: whoever owns that one, root gave it to (the package: to the aggregator's user). */
    const bool is_given = geteuid() == 0 && strcmp(dir, "/run/rankscope") == 0;
    if (!S_ISDIR(info.st_mode) || (info.st_uid != geteuid() && !is_given))
        return rs_err_set(err, RS_REFUSED, "%s is not a folder of this user", dir);
    if (!is_given && info.st_mode & (S_IWGRP | S_IWOTH))
        return rs_err_set(err, RS_REFUSED, "others may write to %s: make it 0755 or 0700", dir);
    return RS_OK;
}

enum rs_status rs_paths_runtime_dir(char dir_p[RS_PATHS_BYTES], bool create, struct rs_err *err)
{
    const char *own = getenv("RANKSCOPE_RUNTIME_DIR");
    const char *session = getenv("XDG_RUNTIME_DIR");
    if (own && *own)
        (void)snprintf(dir_p, RS_PATHS_BYTES, "%s", own);
    else if (geteuid() == 0 || may_write("/run/rankscope"))
        (void)snprintf(dir_p, RS_PATHS_BYTES, "/run/rankscope");
    else if (session && *session)
        (void)snprintf(dir_p, RS_PATHS_BYTES, "%.3900s/rankscope", session);
    else
        (void)snprintf(dir_p, RS_PATHS_BYTES, "/tmp/rankscope-%u", (unsigned)geteuid());
    if (!create)
        return RS_OK;
    /* Jobs of every user come to a system's collector; who may do what there its sockets say. */
    enum rs_status status = rs_file_make_dirs(dir_p, geteuid() == 0 ? 0755 : 0700, err);
    if (status == RS_OK && !own)
        status = check_owner(dir_p, err);
    return status;
}

static enum rs_status path_in_runtime(const char *prefix, const char *name,
                                      char path_p[RS_PATHS_BYTES], bool create, struct rs_err *err)
{
    char dir[RS_PATHS_BYTES];
    const enum rs_status status = rs_paths_runtime_dir(dir, create, err);
    if (status == RS_OK &&
        snprintf(path_p, RS_PATHS_BYTES, "%s%s/%s", prefix, dir, name) >= RS_PATHS_BYTES)
        return rs_err_set(err, RS_INVALID, "the runtime directory's path is too long");
    return status;
}

enum rs_status rs_paths_aggregator(char address_p[RS_PATHS_BYTES], bool create, struct rs_err *err)
{
    return path_in_runtime("unix:", "aggregator.sock", address_p, create, err);
}

enum rs_status rs_paths_collector(char path_p[RS_PATHS_BYTES], bool create, struct rs_err *err)
{
    return path_in_runtime("", "collector.sock", path_p, create, err);
}

enum rs_status rs_paths_data_dir(char dir_p[RS_PATHS_BYTES], struct rs_err *err)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (geteuid() == 0)
        (void)snprintf(dir_p, RS_PATHS_BYTES, "/var/lib/rankscope");
    else if (state && *state)
        (void)snprintf(dir_p, RS_PATHS_BYTES, "%.3900s/rankscope", state);
    else if (home && *home)
        (void)snprintf(dir_p, RS_PATHS_BYTES, "%.3900s/.local/state/rankscope", home);
    else
        return rs_err_set(err, RS_INVALID, "there is no HOME: give --data DIR");
    return RS_OK;
}

enum rs_status rs_paths_certs(char dir_p[RS_PATHS_BYTES], bool create, struct rs_err *err)
{
    static const char everybody[] = "/etc/rankscope/certs";
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    char own[RS_PATHS_BYTES] = "";
    char file[RS_PATHS_BYTES + 16];
    if (config && *config)
        (void)snprintf(own, sizeof own, "%.3900s/rankscope/certs", config);
    else if (home && *home)
        (void)snprintf(own, sizeof own, "%.3900s/.config/rankscope/certs", home);
    (void)snprintf(file, sizeof file, "%s/tls.crt", own);
    const bool is_own = *own && (create ? geteuid() != 0 : access(file, F_OK) == 0);
    if (create && !is_own && geteuid() != 0)
        return rs_err_set(err, RS_INVALID, "there is no HOME: give --certs DIR");
    (void)snprintf(dir_p, RS_PATHS_BYTES, "%s", is_own ? own : everybody);
    return RS_OK;
}
