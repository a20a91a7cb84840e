/* SPDX-License-Identifier: Apache-2.0 */
/* A log line has the form that was asked for, whole and with nothing that a terminal would obey. */
#define RS_LOG_TAG "spool"
#include "common/base/log.h"

#include "tests/support/rs_test.h"

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What one warning puts on stderr. */
static void log_one(const char *form, bool is_the_journals, char *line, size_t size)
{
    const int kept = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC);
    struct stat about;
    struct rs_err err = {0};
    assert_true(kept >= 0 && file >= 0);
    assert_int_equal(fstat(file, &about), 0);
    char stream[64];
    (void)snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)about.st_dev,
                   (uintmax_t)about.st_ino + (is_the_journals ? 0 : 1));
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    const enum rs_status status = rs_log_set_format(form, &err);
    rs_log_warn("rank %d is \"late\"\n\x1b[31m", 3);
    rs_log_debug("not at this level");
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    assert_int_equal(status, RS_OK);
    const ssize_t length = pread(file, line, size - 1, 0);
    assert_true(length >= 0);
    line[length] = 0;
    (void)close(kept);
    (void)close(file);
}

static void assert_matches(const char *line, const char *pattern)
{
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, line, 0, NULL, 0) != 0)
        fail_msg("%s is not %s", line, pattern);
    regfree(&compiled);
}

#define WHEN "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"

static void text_is_dated(void **state)
{
    (void)state;
    char line[2048];
    log_one("text", true, line, sizeof line);
    assert_matches(line, "^" WHEN " warn spool: rank 3 is \"late\"\\?\\?\\[31m\n$");
}

static void json_is_an_object_a_line(void **state)
{
    (void)state;
    char line[2048];
    log_one("json", false, line, sizeof line);
    assert_matches(line, "^\\{\"time\":\"" WHEN "\",\"level\":\"warn\",\"tag\":\"spool\","
                         "\"message\":\"rank 3 is \\\\\"late\\\\\"\\\\n\\\\u001b\\[31m\"\\}\n$");
}

static void the_journal_gets_levels_and_no_time(void **state)
{
    (void)state;
    char line[2048];
    log_one("journal", false, line, sizeof line);
    assert_string_equal(line, "<4>spool: rank 3 is \"late\"??[31m\n");
    log_one("auto", true, line, sizeof line);
    assert_string_equal(line, "<4>spool: rank 3 is \"late\"??[31m\n");
}

static void a_journal_that_is_somebody_elses_does_not_count(void **state)
{
    (void)state;
    char line[2048];
    log_one("auto", false, line, sizeof line);
    assert_matches(line, "^" WHEN " warn");
}

static void another_word_is_refused(void **state)
{
    (void)state;
    struct rs_err err = {0};
    assert_int_equal(rs_log_set_format("xml", &err), RS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_dated),
        cmocka_unit_test(json_is_an_object_a_line),
        cmocka_unit_test(the_journal_gets_levels_and_no_time),
        cmocka_unit_test(a_journal_that_is_somebody_elses_does_not_count),
        cmocka_unit_test(another_word_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
