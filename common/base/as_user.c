/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/as_user.h"

#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/time.h"

#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static const rs_dur believed_ns = 10 * (rs_dur)RS_NS_PER_S;

enum { STATUS_LIMIT_BYTES = 64 * 1024, PASSWD_BYTES = 16 * 1024, NOBODY = 65534 };

/* ---- who ---------------------------------------------------------------------------------------------------------- */

/* The number behind "Name:" in /proc/PID/status, the nth; -1 there is none. */
static int64_t status_number(const char *text, const char *name, size_t nth)
{
    const char *at = strstr(text, name);
    at = at ? at + strlen(name) : NULL;
    for (size_t i = 0; at; i++) {
        at += strspn(at, " \t");
        if (*at < '0' || *at > '9')
            return -1;
        char *end = NULL;
        const unsigned long value = strtoul(at, &end, 10);
        if (i == nth)
            return value <= UINT32_MAX ? (int64_t)value : -1;
        at = end;
    }
    return -1;
}

static bool read_status(pid_t pid, struct rs_buf *buf)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    return rs_file_read(path, STATUS_LIMIT_BYTES, buf, NULL) == RS_OK;
}

int64_t rs_user_id_of_process(pid_t pid)
{
    struct rs_buf buf = {0};
    const int64_t uid = read_status(pid, &buf) ? status_number(rs_buf_text(&buf), "\nUid:", 0) : -1;
    rs_buf_fini(&buf);
    return uid;
}

void rs_user_of_process(pid_t pid, uid_t uid, struct rs_user *user_p)
{
    struct rs_buf buf = {0};
    *user_p = (struct rs_user){.uid = uid, .gid = (gid_t)-1};
    if (read_status(pid, &buf)) {
        const char *text = rs_buf_text(&buf);
        const int64_t gid = status_number(text, "\nGid:", 0);
        /* Only while the pid is still his. */
        if (gid >= 0 && status_number(text, "\nUid:", 0) == (int64_t)uid) {
            user_p->gid = (gid_t)gid;
            for (; user_p->group_count < RS_USER_GROUPS_MAX; user_p->group_count++) {
                const int64_t group = status_number(text, "\nGroups:", user_p->group_count);
                if (group < 0)
                    break;
                user_p->groups[user_p->group_count] = (gid_t)group;
            }
        }
    }
    rs_buf_fini(&buf);
}

static void look_up(uid_t uid, struct rs_user *user_p)
{
    char text[PASSWD_BYTES];
    struct passwd entry;
    struct passwd *found = NULL;
    *user_p = (struct rs_user){.uid = uid, .gid = (gid_t)-1};
    if (getpwuid_r(uid, &entry, text, sizeof text, &found) != 0 || !found)
        return;
    int count = RS_USER_GROUPS_MAX;
    user_p->gid = entry.pw_gid;
    (void)getgrouplist(entry.pw_name, entry.pw_gid, user_p->groups, &count);
    user_p->group_count =
        count < 0 ? 0 : (size_t)(count < RS_USER_GROUPS_MAX ? count : RS_USER_GROUPS_MAX);
}

void rs_user_of_uid(uid_t uid, struct rs_user *user_p)
{
    static _Thread_local struct {
        rs_ns at; /* monotonic; 0: nobody yet */
        struct rs_user user;
    } last;
    if (uid == 0 || geteuid() != 0) { /* nobody's rights are taken then */
        *user_p = (struct rs_user){.uid = uid, .gid = (gid_t)-1};
        return;
    }
    const rs_ns now = rs_time_monotonic();
    if (!last.at || last.user.uid != uid || now - last.at >= believed_ns) {
        look_up(uid, &last.user);
        last.at = now;
    }
    *user_p = last.user;
}

/* ---- as whom -------------------------------------------------------------------------------------------------------- */

/* As whom this thread touches files; `is_other` false: as ourselves. */
static _Thread_local struct {
    bool is_other;
    struct rs_user user;
} now;

/* The calls of the kernel are of this thread alone; libc's setgroups() is of all. */
static bool set_groups(size_t count, const gid_t *groups)
{
    return syscall(SYS_setgroups, count, groups) == 0;
}

static bool become(uid_t uid, gid_t gid)
{
    (void)setfsgid(gid);
    (void)setfsuid(uid); /* last: it takes root's rights to files away */
    return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

static bool set_user(const struct rs_user *user)
{
    return set_groups(user->group_count, user->groups) &&
           become(user->uid, user->gid == (gid_t)-1 ? NOBODY : user->gid);
}

/* What this process was started with, as it is known only while no other is played. */
static bool read_self(struct rs_user *self)
{
    *self = (struct rs_user){.uid = geteuid(), .gid = getegid()};
    const int count = getgroups(RS_USER_GROUPS_MAX, self->groups);
    self->group_count = count > 0 ? (size_t)count : 0;
    return count >= 0;
}

/* Ours while another is played; the same for all threads, and never changed. */
static _Thread_local struct rs_user self_user;

static void go_back(const struct rs_as_user *scope)
{
    /* Who may not become himself again must not go on as somebody else. */
    RS_CHECK(set_user(scope->was_other ? &scope->user : &self_user));
    now.is_other = scope->was_other;
    now.user = scope->user;
}

enum rs_status rs_as_user_begin(const struct rs_user *user, struct rs_as_user *scope,
                                struct rs_err *err)
{
    *scope = (struct rs_as_user){.is_changed = false};
    if (geteuid() != 0)
        return RS_OK;
    if (user->uid == 0) {
        rs_as_self_begin(scope);
        return RS_OK;
    }
    if (!now.is_other && !read_self(&self_user))
        return rs_err_errno(err, "cannot look at the own groups");
    scope->was_other = now.is_other;
    scope->user = now.user;
    scope->is_changed = true;
    if (set_user(user)) {
        now.is_other = true;
        now.user = *user;
        return RS_OK;
    }
    go_back(scope);
    scope->is_changed = false;
    return rs_err_set(err, RS_REFUSED,
                      "files of user %u cannot be touched with his rights: the collector may not "
                      "change its file system user (CAP_SETUID, CAP_SETGID)",
                      (unsigned)user->uid);
}

void rs_as_self_begin(struct rs_as_user *scope)
{
    *scope = (struct rs_as_user){.is_changed = false};
    if (!now.is_other)
        return;
    *scope = (struct rs_as_user){.is_changed = true, .was_other = true, .user = now.user};
    RS_CHECK(set_user(&self_user));
    now.is_other = false;
}

void rs_as_user_end(struct rs_as_user *scope)
{
    if (scope->is_changed)
        go_back(scope);
    scope->is_changed = false;
}
