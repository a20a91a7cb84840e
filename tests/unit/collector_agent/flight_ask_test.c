/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a job says that its dump is, root looks as the job's user: a folder that he may not enter has nothing for him.
 */
#include "collector/agent/flight_ask.h"

#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER = 12345 };

/* A rank of USER whose dumps are `name` and its number. */
static pid_t start_rank(const char *name)
{
    char variable[300], rank[] = "RANK=0", world[] = "WORLD_SIZE=1";
    char program[] = "sleep", seconds[] = "60";
    int ready[2];
    (void)snprintf(variable, sizeof variable, "TORCH_FR_DUMP_TEMP_FILE=%s", name);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *const words[] = {program, seconds, NULL};
        char *const environment[] = {variable, rank, world, NULL};
        if (setgid(USER) == 0 && setuid(USER) == 0)
            (void)execve("/bin/sleep", words, environment);
        _exit(1);
    }
    char nothing;
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &nothing, 1), 0); /* closed by exec */
    (void)close(ready[0]);
    return pid;
}

static void write_dump(const char *dir, uid_t owner, mode_t mode)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/dump_0", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("{}", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    assert_int_equal(chown(path, owner, owner), 0);
}

static bool is_offered(const char *name, const char *dir, uid_t owner)
{
    struct rs_flight_offer offer;
    const pid_t pid = start_rank(name);
    write_dump(dir, owner, 0600); /* younger than the process */
    assert_ok(rs_flight_offer(pid, &offer, NULL));
    assert_int_equal(offer.uid, USER);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return offer.has_file;
}

static void a_link_to_where_the_user_may_not_go_leads_to_no_dump(void **state)
{
    (void)state;
    char root[64], own[100], secret[100], away[120], name[200];
    if (geteuid() != 0)
        skip();
    tmp_dir_make(root);
    assert_int_equal(chmod(root, 0755), 0);
    (void)snprintf(own, sizeof own, "%s/own", root);
    (void)snprintf(secret, sizeof secret, "%s/secret", root);
    (void)snprintf(away, sizeof away, "%s/away", own);
    assert_int_equal(mkdir(own, 0755), 0);
    assert_int_equal(chown(own, USER, USER), 0);
    assert_int_equal(mkdir(secret, 0700), 0);
    assert_int_equal(symlink(secret, away), 0);
    (void)snprintf(name, sizeof name, "%s/dump_", own);
    assert_true(is_offered(name, own, USER));
    (void)snprintf(name, sizeof name, "%s/dump_", away);
    assert_false(is_offered(name, secret, 0));
    tmp_dir_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_to_where_the_user_may_not_go_leads_to_no_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
