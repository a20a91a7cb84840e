/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trust/local.h"

#include "common/base/mem.h"

#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRY_BYTES = 16384, GROUPS_MAX = 1024, KEPT = 64 };

static const rs_dur kept_ns = 60 * (rs_dur)RS_NS_PER_S;

/* Names are asked for with every table of ranks; the name service may be a network away. */
static struct kept_name {
    uid_t uid;
    rs_ns until; /* monotonic; 0: nothing is here */
    char name[RS_IDENTITY_NAME_BYTES];
} kept[KEPT];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void look_up(uid_t uid, char name_p[RS_IDENTITY_NAME_BYTES])
{
    struct passwd entry, *found = NULL;
    char text[ENTRY_BYTES];
    if (getpwuid_r(uid, &entry, text, sizeof text, &found) == 0 && found &&
        rs_identity_is_name(found->pw_name))
        (void)snprintf(name_p, RS_IDENTITY_NAME_BYTES, "%s", found->pw_name);
    else
        (void)snprintf(name_p, RS_IDENTITY_NAME_BYTES, "uid-%lu", (unsigned long)uid);
}

void rs_local_name(uid_t uid, char name_p[RS_IDENTITY_NAME_BYTES])
{
    const rs_ns now = rs_time_monotonic();
    struct kept_name *place = &kept[uid % KEPT];
    (void)pthread_mutex_lock(&kept_lock);
    const bool is_known = place->uid == uid && place->until > now;
    if (is_known)
        memcpy(name_p, place->name, RS_IDENTITY_NAME_BYTES);
    (void)pthread_mutex_unlock(&kept_lock);
    if (is_known)
        return;
    look_up(uid, name_p);
    (void)pthread_mutex_lock(&kept_lock);
    *place = (struct kept_name){.uid = uid, .until = now + kept_ns};
    memcpy(place->name, name_p, sizeof place->name);
    (void)pthread_mutex_unlock(&kept_lock);
}

/* ---- lists --------------------------------------------------------------------------------------------------------- */

/* The next name of a list, without blanks around it; false: there is none. */
static bool next_name(const char **at, char name_p[RS_IDENTITY_NAME_BYTES + 1], bool *is_long_p)
{
    const char *from = *at + strspn(*at, ", ");
    const size_t length = strcspn(from, ", ");
    *is_long_p = length > RS_IDENTITY_NAME_BYTES;
    if (length == 0)
        return false;
    (void)snprintf(name_p, RS_IDENTITY_NAME_BYTES + 1, "%.*s", (int)length, from);
    *at = from + length;
    return true;
}

static bool find_group(const char *name, gid_t *gid_p)
{
    struct group entry, *found = NULL;
    char text[ENTRY_BYTES]; /* of its members' names */
    const bool is_there = getgrnam_r(name, &entry, text, sizeof text, &found) == 0 && found;
    if (is_there)
        *gid_p = entry.gr_gid;
    return is_there;
}

static bool find_user(const char *name, uid_t *uid_p)
{
    struct passwd entry, *found = NULL;
    char text[ENTRY_BYTES];
    const bool is_there = getpwnam_r(name, &entry, text, sizeof text, &found) == 0 && found;
    if (is_there)
        *uid_p = entry.pw_uid;
    return is_there;
}

static enum rs_status check_list(const char *list, struct rs_err *err)
{
    char name[RS_IDENTITY_NAME_BYTES + 1];
    const char *at = list ? list : "";
    bool is_long = false;
    uid_t uid = 0;
    gid_t gid = 0;
    while (next_name(&at, name, &is_long)) {
        const bool is_group = *name == '@';
        if (is_long || !(is_group ? find_group(name + 1, &gid) : find_user(name, &uid)))
            return rs_err_set(err, RS_INVALID, "there is no %s \"%s\"", is_group ? "group" : "user",
                              is_group ? name + 1 : name);
    }
    return RS_OK;
}

enum rs_status rs_local_check(const struct rs_local_rules *rules, struct rs_err *err)
{
    const enum rs_status status = check_list(rules->operators, err);
    return status == RS_OK ? check_list(rules->viewers, err) : status;
}

/* ---- who is it ----------------------------------------------------------------------------------------------------- */

struct user {
    uid_t uid;
    gid_t *groups;
    int group_count;
};

static bool is_in(const struct user *user, gid_t gid)
{
    for (int i = 0; i < user->group_count; i++)
        if (user->groups[i] == gid)
            return true;
    return false;
}

/* Its groups as the name service has them, and the one that its process runs with. */
static void find_groups(struct user *user, gid_t gid)
{
    struct passwd entry, *found = NULL;
    char text[ENTRY_BYTES];
    user->groups = rs_mem_calloc(GROUPS_MAX, sizeof *user->groups);
    if (!user->groups)
        return;
    int count = GROUPS_MAX - 1;
    if (getpwuid_r(user->uid, &entry, text, sizeof text, &found) == 0 && found &&
        getgrouplist(entry.pw_name, entry.pw_gid, user->groups, &count) >= 0)
        user->group_count = count;
    user->groups[user->group_count++] = gid;
}

static bool is_named(const char *list, const struct user *user)
{
    char name[RS_IDENTITY_NAME_BYTES + 1];
    const char *at = list ? list : "";
    bool is_long = false;
    uid_t uid = 0;
    gid_t gid = 0;
    while (next_name(&at, name, &is_long)) {
        if (is_long)
            continue;
        if (*name == '@' ? find_group(name + 1, &gid) && is_in(user, gid)
                         : find_user(name, &uid) && uid == user->uid)
            return true;
    }
    return false;
}

void rs_local_identify(const struct rs_local_rules *rules, uid_t uid, gid_t gid,
                       struct rs_identity *identity_p)
{
    struct user user = {.uid = uid};
    *identity_p =
        (struct rs_identity){.party = RS_PARTY_USER, .has_uid = true, .uid = (uint32_t)uid};
    rs_local_name(uid, identity_p->name);
    if (!rules || uid == 0 || uid == geteuid()) {
        identity_p->party = RS_PARTY_LOCAL;
        return;
    }
    find_groups(&user, gid);
    const bool has_operators = rules->operators && *rules->operators;
    if (has_operators ? is_named(rules->operators, &user)
                      : rules->group != (gid_t)-1 && is_in(&user, rules->group))
        identity_p->party = RS_PARTY_OPERATOR;
    else if (is_named(rules->viewers, &user))
        identity_p->party = RS_PARTY_VIEWER;
    rs_mem_free(user.groups);
}
