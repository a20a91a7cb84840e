/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trust/token.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <string.h>

static const rs_dur hour_ns = 3600 * (rs_dur)RS_NS_PER_S;
static char dir[200];

static int make_dir(void **state)
{
    char base[64];
    (void)state;
    tmp_dir_make(base);
    (void)snprintf(dir, sizeof dir, "%s/tokens", base);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    *strrchr(dir, '/') = '\0';
    tmp_dir_remove(dir);
    return 0;
}

static struct rs_tokens *open_tokens(void)
{
    struct rs_tokens *tokens = NULL;
    assert_ok(rs_tokens_open(dir, &tokens, NULL));
    return tokens;
}

static void make(struct rs_tokens *tokens, enum rs_party party, const char *name, char text_p[128])
{
    struct rs_buf text = {0};
    const struct rs_token_wish wish = {
        .party = party, .name = name, .expires_at = rs_time_realtime() + hour_ns};
    assert_ok(rs_tokens_make(tokens, &wish, &text, NULL));
    (void)snprintf(text_p, 128, "%s", rs_buf_text(&text));
    rs_buf_fini(&text);
}

/* What it says of a token that is to be made. */
static enum rs_status try_to_make(struct rs_tokens *tokens, enum rs_party party, const char *name,
                                  const char *run, rs_ns expires_at)
{
    struct rs_buf text = {0};
    const struct rs_token_wish wish = {
        .party = party, .name = name, .run = run, .expires_at = expires_at};
    const enum rs_status status = rs_tokens_make(tokens, &wish, &text, NULL);
    assert_int_equal(text.length != 0, status == RS_OK);
    rs_buf_fini(&text);
    return status;
}

static enum rs_status who_is(struct rs_tokens *tokens, const char *text, rs_dur later,
                             struct rs_identity *who_p)
{
    return rs_tokens_identify(tokens, text, rs_time_realtime() + later, who_p, NULL);
}

static void a_token_is_of_who_it_was_made_for(void **state)
{
    (void)state;
    struct rs_tokens *tokens = open_tokens();
    struct rs_identity who = {.party = RS_PARTY_NOBODY};
    char viewer[128], operator[128];
    assert_status(who_is(tokens, "rst1.0", 0, &who), RS_REFUSED); /* there is no folder yet */
    make(tokens, RS_PARTY_VIEWER, "bob", viewer);
    make(tokens, RS_PARTY_OPERATOR, "alice", operator);
    struct rs_tokens *other = open_tokens(); /* another process */
    assert_ok(who_is(other, viewer, 0, &who));
    assert_int_equal(who.party, RS_PARTY_VIEWER);
    assert_string_equal(who.name, "bob");
    assert_int_equal(strncmp(who.serial, rs_token_serial, strlen(rs_token_serial)), 0);
    assert_ok(rs_tokens_check(other, &who, rs_time_realtime(), NULL));
    assert_ok(who_is(other, operator, 0, &who));
    assert_int_equal(who.party, RS_PARTY_OPERATOR);
    assert_status(who_is(other, viewer, hour_ns, &who), RS_REFUSED); /* it is over */
    for (size_t i = 0; i < strlen(viewer); i++) {
        char wrong[128];
        (void)snprintf(wrong, sizeof wrong, "%s", viewer);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_status(who_is(other, wrong, 0, &who), RS_REFUSED);
    }
    assert_status(who_is(other, "", 0, &who), RS_REFUSED);
    rs_tokens_close(&other);
    rs_tokens_close(&tokens);
}

static void a_revoked_token_is_nobodys(void **state)
{
    (void)state;
    struct rs_tokens *tokens = open_tokens();
    struct rs_identity who = {.party = RS_PARTY_NOBODY};
    struct rs_identity first;
    char one[128], two[128];
    size_t count = 0;
    make(tokens, RS_PARTY_VIEWER, "bob", one);
    make(tokens, RS_PARTY_VIEWER, "bob", two);
    assert_ok(who_is(tokens, one, 0, &first));
    assert_ok(rs_tokens_revoke(tokens, first.serial + strlen(rs_token_serial), &count, NULL));
    assert_int_equal(count, 1);
    struct rs_tokens *later = open_tokens();
    assert_status(who_is(later, one, 0, &who), RS_REFUSED);
    assert_status(rs_tokens_check(later, &first, rs_time_realtime(), NULL), RS_REFUSED);
    assert_ok(who_is(later, two, 0, &who));
    assert_ok(rs_tokens_revoke(later, "viewer/bob", &count, NULL));
    assert_int_equal(count, 1);
    assert_status(rs_tokens_revoke(later, "viewer/bob", &count, NULL), RS_NOTFOUND);
    assert_status(rs_tokens_revoke(later, "../x", &count, NULL), RS_NOTFOUND);
    rs_tokens_close(&later);
    rs_tokens_close(&tokens);
}

static void count_one(void *self, const struct rs_token_item *item)
{
    (void)item;
    ++*(size_t *)self;
}

/* What is no token in the folder, or one that says something else than its name, counts for nobody. */
static void damaged_files_are_no_tokens(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "x",
        "0 operator 1 9 eve\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa aggregator 1 9000000000000000000 eve\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa operator 1 9000000000000000000 ../eve\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa operator 1 9000000000000000000 eve eve\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa operator 1 9000000000000000000 eve\nrun \n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa operator 1 9000000000000000000 eve\nrun a\nrun b\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa operator 1 9000000000000000000 eve\nruns a\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa operator 1 9000000000000000000 eve\nrun a",
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb operator 1 9000000000000000000 eve\n"};
    struct rs_tokens *tokens = open_tokens();
    char good[128], path[300];
    struct rs_identity who;
    make(tokens, RS_PARTY_VIEWER, "bob", good);
    (void)snprintf(path, sizeof path, "%s/aaaaaaaaaaaa", dir);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t count = 0;
        assert_ok(rs_file_replace(path, texts[i], strlen(texts[i]), false, NULL));
        assert_ok(rs_tokens_list(tokens, count_one, &count, NULL));
        assert_int_equal(count, 1);
        assert_ok(who_is(tokens, good, 0, &who));
    }
    rs_tokens_close(&tokens);
}

static void what_cannot_be_made_is_refused(void **state)
{
    (void)state;
    struct rs_tokens *tokens = open_tokens();
    const rs_ns later = rs_time_realtime() + hour_ns;
    char long_run[200];
    memset(long_run, 'r', sizeof long_run - 1);
    long_run[sizeof long_run - 1] = '\0';
    assert_status(try_to_make(tokens, RS_PARTY_NODE, "n", NULL, later), RS_INVALID);
    assert_status(try_to_make(tokens, RS_PARTY_VIEWER, "a b", NULL, later), RS_INVALID);
    assert_status(try_to_make(tokens, RS_PARTY_VIEWER, "b", NULL, 5), RS_INVALID);
    assert_status(try_to_make(tokens, RS_PARTY_VIEWER, "b", "", later), RS_INVALID);
    assert_status(try_to_make(tokens, RS_PARTY_VIEWER, "b", "a\nrun b", later), RS_INVALID);
    assert_status(try_to_make(tokens, RS_PARTY_VIEWER, "b", long_run, later), RS_INVALID);
    assert_ok(try_to_make(tokens, RS_PARTY_VIEWER, "b", " a run's", later));
    rs_tokens_close(&tokens);
}

static void a_token_of_one_run_is_of_no_other(void **state)
{
    (void)state;
    struct rs_tokens *tokens = open_tokens();
    struct rs_identity who = {.party = RS_PARTY_NOBODY};
    struct rs_buf text = {0};
    char all[128];
    const struct rs_token_wish wish = {.party = RS_PARTY_OPERATOR,
                                       .name = "olga",
                                       .run = " llama 7\"",
                                       .expires_at = rs_time_realtime() + hour_ns};
    assert_ok(rs_tokens_make(tokens, &wish, &text, NULL));
    make(tokens, RS_PARTY_VIEWER, "bob", all);
    assert_ok(who_is(tokens, all, 0, &who));
    assert_false(rs_identity_is_of_one_run(&who));
    assert_true(rs_identity_is_of_run(&who, "anything"));
    assert_ok(who_is(tokens, rs_buf_text(&text), 0, &who));
    assert_true(rs_identity_is_of_one_run(&who));
    assert_string_equal(who.run, wish.run);
    assert_true(rs_identity_is_of_run(&who, wish.run));
    assert_false(rs_identity_is_of_run(&who, "llama 7\""));
    assert_false(rs_identity_is_of_run(&who, ""));
    rs_buf_fini(&text);
    rs_tokens_close(&tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_token_is_of_who_it_was_made_for, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_revoked_token_is_nobodys, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(damaged_files_are_no_tokens, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_cannot_be_made_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_token_of_one_run_is_of_no_other, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
