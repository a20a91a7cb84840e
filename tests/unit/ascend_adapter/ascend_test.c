/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch_npu's log says and how its files are named; logs that roll over; the file's time and its owner; which
 * processes are shown. The trigger as a whole is tests/integration/ascend_trigger_test.c.
 */
#include "ascend/adapter/ascend_log.h"
#include "collector/trigger/config_trigger.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define AT   "2026-11-21 13:18:12,068 "
#define HEAD AT "[INFO] [14925] _dynamic_profiler_utils.py: "

static struct ascend_line parse(const char *text)
{
    struct ascend_line line;
    assert_true(npu_line_parse(text, strlen(text), &line));
    return line;
}

static void every_sentence_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum ascend_line_kind kind;
        int64_t number;
    } cases[] = {
        {HEAD "Rank 0 shared memory is created.", ASCEND_LINE_CREATED, -1},
        {HEAD "Rank 3 shared memory is connected.", ASCEND_LINE_CONNECTED, -1},
        {HEAD "Dynamic monitor process has been created by rank 0.", ASCEND_LINE_MONITORS, -1},
        {HEAD "Rank 3 no need to create process.", ASCEND_LINE_READY, -1},
        {HEAD "Dynamic profiling monitor process poll interval time change to 7s", ASCEND_LINE_POLL,
         7},
        {HEAD "Start step will be set to 118.", ASCEND_LINE_ACCEPTED, 118},
        {HEAD "Start step will be set to -1.", ASCEND_LINE_ACCEPTED, -1},
        {HEAD "Start Dynamic Profiler at 25 step.", ASCEND_LINE_STARTED, 25},
        {HEAD "Stop Dynamic Profiler at 28 step.", ASCEND_LINE_STOPPED, 28},
        /* an older file name and level */
        {AT "[INFO] [7] _dynamic_profiler_monitor.py: Stop Dynamic Profiler at 9 step.",
         ASCEND_LINE_STOPPED, 9},
        {AT "[WARNING] [7] x.py: Rank 2 not in valid rank_list {1, 3}!", ASCEND_LINE_NOT_LISTED,
         -1},
        {AT "[ERROR] [7] x.py: Share memory bytes to json error: Expecting value", ASCEND_LINE_TORN,
         -1},
        {HEAD "Rank 0 unlink shm", ASCEND_LINE_UNLINKED, -1},
        {HEAD "Start step is not valid, will be reset to 0.", ASCEND_LINE_OTHER, -1},
        {HEAD "Start Dynamic Profiler at x step.", ASCEND_LINE_OTHER, -1},
        {HEAD "Start Dynamic Profiler at 99999999999999999999 step.", ASCEND_LINE_OTHER, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct ascend_line line = parse(cases[i].text);
        if (line.kind != cases[i].kind)
            fail_msg("%s: %d", cases[i].text, (int)line.kind);
        assert_int_equal(line.number, cases[i].number);
    }
    /* date -u -d '2026-11-21 13:18:12' +%s */
    assert_true(parse(cases[0].text).at == INT64_C(1795267092068) * 1000000);
    assert_true(parse(AT "[INFO] [1] x: Rank 1 shared memory create failed, retry times = 9, "
                         "[Errno 13] Permission denied has occur.")
                    .is_denied);
}

static void what_is_no_line_is_none(void **state)
{
    (void)state;
    struct ascend_line line;
    static const char nul[] = HEAD "Stop Dynamic\0 Profiler at 3 step.";
    char *longest = calloc(9000, 1);
    memset(longest, 'a', 8999);
    assert_false(npu_line_parse("", 0, &line));
    assert_false(npu_line_parse("Stop Dynamic Profiler at 3 step.", 32, &line));
    assert_false(npu_line_parse(nul, sizeof nul - 1, &line));
    assert_false(npu_line_parse(longest, 8999, &line));
    assert_false(npu_line_parse("2026-13-21 13:18:12,068 x", 25, &line));
    free(longest);
}

static void names_of_logs_are_taken_apart_from_the_right(void **state)
{
    (void)state;
    struct ascend_log_name name;
    assert_true(npu_log_name_parse("/a/b/log/dp_my_host_77_12_rank_3.log", &name));
    assert_int_equal(name.pid, 12);
    assert_int_equal(name.rank, 3);
    assert_int_equal(name.dir_length, 4);
    assert_int_equal(name.host_length, strlen("my_host_77"));
    assert_false(name.is_monitor);
    assert_true(npu_log_name_parse("/a/log/monitor_dp_h_9_rank_0.log", &name));
    assert_true(name.is_monitor);
    assert_true(npu_log_name_parse("/a/log/dp_h_9_rank_-1.log", &name));
    assert_int_equal(name.rank, -1);
    static const char *const others[] = {"/a/b/dp_h_9_rank_3.log",
                                         "/log/dp_h_9_rank_3.log",
                                         "/a/log/dp_h_9_rank_3.log.1",
                                         "/a/log/dp_h_9_rank_.log",
                                         "/a/log/dp_h_x_rank_3.log",
                                         "/a/log/xdp_h_9_rank_3.log",
                                         "/a/log/dp_h_9_rank_-2.log",
                                         "/a/log/dp_9_rank_3.log",
                                         "/a/log/.log",
                                         "/a/log/dp_h_99999999999999999999_rank_3.log",
                                         "/a/log/",
                                         ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (npu_log_name_parse(others[i], &name))
            fail_msg("%s is taken for a log", others[i]);
}

/* ---- the tail ---------------------------------------------------------------------------------------------------- */

struct lines {
    int64_t numbers[64];
    size_t count;
    rs_ns last;
};

static void on_line(void *self, const struct ascend_line *line)
{
    struct lines *lines = self;
    lines->last = line->at;
    if (line->kind == ASCEND_LINE_STARTED && lines->count < 64)
        lines->numbers[lines->count++] = line->number;
}

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void no_line_is_lost_when_a_log_rolls_over(void **state)
{
    (void)state;
    char root[64], path[128], backup[140];
    struct ascend_tail tail;
    struct lines lines = {.count = 0};
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/dp.log", root);
    (void)snprintf(backup, sizeof backup, "%s.1", path);
    npu_tail_init(&tail, path);
    assert_false(npu_tail_read(&tail, on_line, &lines));
    append(backup, HEAD "Start Dynamic Profiler at 1 step.\n");
    append(path, HEAD "Start Dynamic Profiler at 2 step.\n");
    append(path, HEAD "Start Dynamic Pro"); /* not whole yet */
    assert_true(npu_tail_read(&tail, on_line, &lines));
    assert_int_equal(lines.count, 2);
    append(path, "filer at 3 step.\n");
    append(path, HEAD "Start Dynamic Profiler at 4 step.\n");
    assert_int_equal(rename(path, backup), 0);
    append(path, HEAD "Start Dynamic Profiler at 5 step.\n");
    assert_true(npu_tail_read(&tail, on_line, &lines));
    assert_int_equal(lines.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(lines.numbers[i], (int)i + 1);
    npu_tail_fini(&tail);
    tmp_dir_remove(root);
}

/* Times of a rank that lives in another zone. */
static void the_zone_is_found(void **state)
{
    (void)state;
    static const int64_t zones_s[] = {0, 8 * 3600, -9 * 3600 - 1800, 5 * 3600 + 2700};
    for (size_t i = 0; i < sizeof zones_s / sizeof zones_s[0]; i++) {
        char root[64], path[128], text[128];
        struct ascend_tail tail;
        struct lines lines = {.count = 0};
        struct tm parts;
        const time_t now = time(NULL);
        const time_t shown = now + (time_t)zones_s[i];
        tmp_dir_make(root);
        (void)snprintf(path, sizeof path, "%s/dp.log", root);
        (void)gmtime_r(&shown, &parts);
        (void)strftime(text, sizeof text,
                       "%Y-%m-%d %H:%M:%S,500 [INFO] [1] x.py: Rank 1 unlink shm\n", &parts);
        append(path, text);
        npu_tail_init(&tail, path);
        assert_true(npu_tail_read(&tail, on_line, &lines));
        assert_true(lines.last == (rs_ns)now * RS_NS_PER_S + RS_NS_PER_S / 2);
        npu_tail_fini(&tail);
        tmp_dir_remove(root);
    }
}

/* ---- the file ----------------------------------------------------------------------------------------------------- */

static void the_file_is_replaced_whole_with_its_time_and_mode(void **state)
{
    (void)state;
    char root[64], path[128], link[128];
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    struct stat info;
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", root);
    (void)snprintf(link, sizeof link, "%s/link.json", root);
    const struct timespec first = {.tv_sec = 2000000000};
    const struct timespec second = {.tv_sec = 2000000001, .tv_nsec = 500};
    const struct rs_user me = {.uid = getuid(), .gid = getgid()};
    assert_ok(rs_config_write(path, "one", 3, &first, &me, &err));
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(symlink("profiler_config.json", link), 0);
    assert_ok(
        rs_config_write(link, "two", 3, &second, &me, &err)); /* what it names, not the link */
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0604);
    assert_int_equal(info.st_mtim.tv_sec, 2000000001);
    assert_int_equal(info.st_mtim.tv_nsec, 500);
    assert_ok(rs_file_read(path, 100, &buf, &err));
    assert_string_equal(rs_buf_text(&buf), "two");
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_status(rs_config_write(path, "three", 5, &first, &me, &err), RS_REFUSED);
    rs_buf_fini(&buf);
    tmp_dir_remove(root);
}

/* A user's folder can be a trap for a collector of root: what he may not write himself is not written for him. */
static void a_users_link_leads_root_nowhere(void **state)
{
    (void)state;
    enum { USER = 12345 };
    char root[64], folder[96], path[128], secret[128], away[96], through[160];
    struct rs_err err = {0};
    struct rs_buf buf = {0};
    struct stat info;
    const struct timespec when = {.tv_sec = 2000000000};
    const struct rs_user user = {.uid = USER, .gid = USER};
    const struct rs_user job_of_root = {.uid = 0, .gid = 0};
    if (geteuid() != 0)
        skip();
    tmp_dir_make(root);
    assert_int_equal(chmod(root, 0755), 0);
    (void)snprintf(folder, sizeof folder, "%s/user", root);
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", folder);
    (void)snprintf(secret, sizeof secret, "%s/secret", root);
    (void)snprintf(away, sizeof away, "%s/away", root);
    (void)snprintf(through, sizeof through, "%s/profiler_config.json", away);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(chown(folder, USER, USER), 0);
    append(secret, "kept");
    assert_int_equal(symlink(secret, path), 0);
    assert_int_equal(lchown(path, USER, USER), 0);
    assert_int_equal(symlink(root, away), 0);
    assert_int_not_equal(rs_config_write(path, "{}", 2, &when, &user, &err), RS_OK);
    assert_int_not_equal(rs_config_write(through, "{}", 2, &when, &user, &err), RS_OK);
    (void)snprintf(through, sizeof through, "%s/profiler_config.json", root);
    assert_int_not_equal(access(through, F_OK), 0);
    assert_int_not_equal(rs_config_write(path, "{}", 2, &when, &job_of_root, &err), RS_OK);
    assert_ok(rs_file_read(secret, 100, &buf, &err));
    assert_string_equal(rs_buf_text(&buf), "kept");
    /* What he may write is his; and the rights of this thread are back. */
    assert_int_equal(unlink(path), 0);
    assert_ok(rs_config_write(path, "{}", 2, &when, &user, &err));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_uid, USER);
    append(secret, "!");
    assert_int_equal(stat(secret, &info), 0);
    assert_int_equal(info.st_uid, 0);
    assert_int_equal(info.st_size, 5);
    rs_buf_fini(&buf);
    tmp_dir_remove(root);
}

/* Nobody waits for what a user calls a file. */
static void a_pipe_in_the_place_of_a_file_is_not_waited_for(void **state)
{
    (void)state;
    char root[64], path[128];
    struct rs_buf buf = {0};
    struct rs_err err = {0};
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/profiler_info_0.json", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(rs_file_read_regular(path, 100, &buf, &err), RS_REFUSED);
    assert_int_equal(buf.length, 0);
    rs_buf_fini(&buf);
    tmp_dir_remove(root);
}

static void what_was_written_here_is_known(void **state)
{
    (void)state;
    char root[64], path[128], sha[RS_SHA256_HEX_BYTES];
    struct rs_err err = {0};
    const struct timespec when = {.tv_sec = 2000000123, .tv_nsec = 5};
    const struct rs_user me = {.uid = getuid(), .gid = getgid()};
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/profiler_config.json", root);
    assert_ok(rs_sha256_hex("what_was", 8, sha));
    assert_false(rs_config_was_written(sha, when.tv_sec));
    assert_ok(rs_config_write(path, "what_was", 8, &when, &me, &err));
    assert_true(rs_config_was_written(sha, when.tv_sec));
    assert_false(rs_config_was_written(sha, when.tv_sec + 1)); /* the same text again, by hand */
    tmp_dir_remove(root);
}

/* A log is short; a huge one (a hole costs its user nothing) must not hold the others up. */
static void a_huge_log_is_read_from_its_end(void **state)
{
    (void)state;
    char root[64], path[128];
    struct ascend_tail tail;
    struct lines lines = {0};
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/dp_host_7_rank_0.log", root);
    append(path, HEAD "Start Dynamic Profiler at 1 step.\n");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    append(path, "\n" HEAD "Start Dynamic Profiler at 2 step.\n");
    npu_tail_init(&tail, path);
    assert_true(npu_tail_read(&tail, on_line, &lines));
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.numbers[0], 2);
    npu_tail_fini(&tail);
    tmp_dir_remove(root);
}

static void a_result_is_removed_without_following_links(void **state)
{
    (void)state;
    char root[64], path[128], deep[160], kept[128];
    tmp_dir_make(root);
    (void)snprintf(path, sizeof path, "%s/result", root);
    (void)snprintf(deep, sizeof deep, "%s/PROF_1", path);
    (void)snprintf(kept, sizeof kept, "%s/kept", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mkdir(deep, 0700), 0);
    assert_int_equal(mkdir(kept, 0700), 0);
    (void)snprintf(deep, sizeof deep, "%s/PROF_1/x", path);
    append(deep, "data");
    (void)snprintf(deep, sizeof deep, "%s/link", path);
    assert_int_equal(symlink(kept, deep), 0);
    (void)snprintf(deep, sizeof deep, "%s/file", kept);
    append(deep, "data");
    rs_config_result_remove(path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access(deep, F_OK), 0);
    tmp_dir_remove(root);
}

static bool count_self(void *self, const struct rs_config_visit *visit)
{
    int *count = self;
    const char *path = rs_config_variable(visit, "PATH");
    *count += visit->pid == getpid() && path && rs_config_variable(visit, "PAT") == NULL;
    return false;
}

/* Young processes are shown again and again, old ones that nobody wants are not. */
static void processes_are_shown_while_they_are_young(void **state)
{
    (void)state;
    int count = 0;
    struct rs_config_scan *scan = rs_config_scan_new();
    assert_non_null(scan);
    const rs_ns now = rs_time_monotonic();
    (void)rs_config_scan_run(scan, now, count_self, &count);
    assert_int_equal(count, 1);
    (void)rs_config_scan_run(scan, now + 2 * (rs_dur)RS_NS_PER_S, count_self, &count);
    assert_int_equal(count, 2);
    (void)rs_config_scan_run(scan, now + 60 * (rs_dur)RS_NS_PER_S, count_self, &count);
    assert_int_equal(count, 2);
    rs_config_scan_free(&scan);
}

static void steps_go_on_by_the_clock(void **state)
{
    (void)state;
    struct rs_config_rank rank = {.step = -1};
    assert_int_equal(rs_config_rank_step_at(&rank, 1000), -1);
    rank = (struct rs_config_rank){.step = 40, .step_at = 1000};
    assert_int_equal(rs_config_rank_step_at(&rank, 5000), 40);
    rank.step_ns = 500;
    assert_int_equal(rs_config_rank_step_at(&rank, 2400), 42);
    assert_int_equal(rs_config_rank_step_at(&rank, 900), 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sentence_is_known),
        cmocka_unit_test(what_is_no_line_is_none),
        cmocka_unit_test(names_of_logs_are_taken_apart_from_the_right),
        cmocka_unit_test(no_line_is_lost_when_a_log_rolls_over),
        cmocka_unit_test(the_zone_is_found),
        cmocka_unit_test(the_file_is_replaced_whole_with_its_time_and_mode),
        cmocka_unit_test(a_users_link_leads_root_nowhere),
        cmocka_unit_test(a_pipe_in_the_place_of_a_file_is_not_waited_for),
        cmocka_unit_test(what_was_written_here_is_known),
        cmocka_unit_test(a_huge_log_is_read_from_its_end),
        cmocka_unit_test(a_result_is_removed_without_following_links),
        cmocka_unit_test(processes_are_shown_while_they_are_young),
        cmocka_unit_test(steps_go_on_by_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
