/* SPDX-License-Identifier: Apache-2.0 */
/* Who comes over a unix socket: users of this machine by the settings. Root, daemon (in group daemon) and games are everywhere. */
#include "common/trust/local.h"

#include "tests/support/rs_test.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

static enum rs_party party_of(const struct rs_local_rules *rules, const char *name)
{
    struct rs_identity who;
    const struct passwd *entry = getpwnam(name);
    assert_non_null(entry);
    const uid_t uid = entry->pw_uid;
    rs_local_identify(rules, uid, entry->pw_gid, &who);
    assert_true(who.has_uid);
    assert_int_equal(who.uid, uid);
    assert_string_equal(who.name, name);
    return who.party;
}

static void the_settings_say_who_may_what(void **state)
{
    const struct rs_local_rules rules = {
        .operators = " games , @daemon", .viewers = "man,games", .group = (gid_t)-1};
    (void)state;
    assert_ok(rs_local_check(&rules, NULL));
    assert_int_equal(party_of(&rules, "root"), RS_PARTY_LOCAL);
    assert_int_equal(party_of(&rules, "games"), RS_PARTY_OPERATOR);
    assert_int_equal(party_of(&rules, "daemon"), RS_PARTY_OPERATOR);
    assert_int_equal(party_of(&rules, "man"), RS_PARTY_VIEWER);
    assert_int_equal(party_of(&rules, "nobody"),
                     getpwnam("nobody")->pw_uid == geteuid() ? RS_PARTY_LOCAL : RS_PARTY_USER);
    assert_int_equal(party_of(NULL, "man"), RS_PARTY_LOCAL);
}

static void without_operators_the_sockets_group_is(void **state)
{
    const struct rs_local_rules rules = {.group = getgrnam("games")->gr_gid};
    (void)state;
    assert_int_equal(party_of(&rules, "games"), RS_PARTY_OPERATOR);
    assert_int_equal(party_of(&rules, "man"), RS_PARTY_USER);
}

static void a_name_that_is_not_there_is_refused(void **state)
{
    struct rs_err err = {0};
    (void)state;
    assert_status(rs_local_check(&(struct rs_local_rules){.operators = "root,no-such-user"}, &err),
                  RS_INVALID);
    assert_non_null(strstr(err.text, "no user \"no-such-user\""));
    assert_status(rs_local_check(&(struct rs_local_rules){.viewers = "@no-such-group"}, NULL),
                  RS_INVALID);
}

static void a_user_without_a_name_has_a_number(void **state)
{
    char name[RS_IDENTITY_NAME_BYTES];
    (void)state;
    rs_local_name(3999999, name);
    assert_string_equal(name, "uid-3999999");
    rs_local_name(0, name);
    assert_string_equal(name, "root");
    rs_local_name(0, name); /* as it was kept */
    assert_string_equal(name, "root");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_settings_say_who_may_what),
        cmocka_unit_test(without_operators_the_sockets_group_is),
        cmocka_unit_test(a_name_that_is_not_there_is_refused),
        cmocka_unit_test(a_user_without_a_name_has_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
