/* SPDX-License-Identifier: Apache-2.0 */
/* What an archive may be called, what its answers may be, and lists that somebody else wrote. No network. */
#include "aggregator/archive/archive.h"

#include "aggregator/archive/xml.h"
#include "common/base/buf.h"
#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- answers -------------------------------------------------------------------------------------------------------- */

static bool collect(void *self, const char *path, const char *text)
{
    struct rs_buf *buf = self;
    rs_buf_printf(buf, "%s=%s;", path, text);
    return strcmp(path, "Stop") != 0;
}

static enum rs_status read_text(const char *text, struct rs_buf *buf)
{
    rs_buf_reset(buf);
    return rs_xml_read(text, strlen(text), collect, buf, NULL);
}

static void answers_are_paths_and_texts(void **state)
{
    struct rs_buf buf = {0};
    (void)state;
    assert_int_equal(
        read_text("<?xml version='1.0'?><R xmlns='x'><A>1&lt;2</A><B> <C>x</C>\n</B></R>", &buf),
        RS_OK);
    assert_string_equal(rs_buf_text(&buf), "A=1<2;B/C=x;B=\n;");
    assert_int_equal(read_text("<R><A>1</A><Stop/><A>2</A></R>", &buf), RS_OK);
    assert_string_equal(rs_buf_text(&buf), "A=1;Stop=;");
    rs_buf_fini(&buf);
}

static void what_is_no_answer_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "hello",
        "<R><A></R>",
        "<R/><R/>",
        "<!DOCTYPE R [<!ENTITY e \"x\">]><R>&e;</R>",
        "<a><b><c><d><e><f><g><h><i></i></h></g></f></e></d></c></b></a>",
        "<R>\xff</R>"};
    struct rs_buf buf = {0}, large = {0};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_int_equal(read_text(texts[i], &buf), RS_FORMAT);
    rs_buf_string(&large, "<R><A>");
    for (int i = 0; i < 4096; i++)
        rs_buf_u8(&large, 'x');
    rs_buf_string(&large, "</A></R>");
    assert_int_equal(read_text(rs_buf_text(&large), &buf), RS_FORMAT);
    rs_buf_fini(&large);
    rs_buf_fini(&buf);
}

/* ---- settings ------------------------------------------------------------------------------------------------------- */

static void settings_are_checked(void **state)
{
    static const struct {
        const char *url, *endpoint, *region;
        enum rs_status status;
        const char *place;
    } cases[] = {
        {"s3://bucket", "https://s3.example.com", NULL, RS_OK, "s3://bucket"},
        {"s3://bucket/", "https://s3.example.com:9000/", NULL, RS_OK, "s3://bucket"},
        {"s3://bucket//a/b//", NULL, "eu-central-1", RS_OK, "s3://bucket/a/b"},
        {"s3://bucket/a", "http://127.0.0.1:9000", NULL, RS_OK, "s3://bucket/a"},
        {"s3://bucket/a", "http://[::1]:9000", NULL, RS_OK, "s3://bucket/a"},
        {"s3://bucket/a", "http://10.0.0.1:9000", NULL, RS_REFUSED, NULL},
        {"s3://bucket/a", "http://127.0.0.1.example.com", NULL, RS_REFUSED, NULL},
        {"s3://bucket/a", "https://s3.example.com/path", NULL, RS_INVALID, NULL},
        {"s3://bucket/a", "https://user@s3.example.com", NULL, RS_INVALID, NULL},
        {"s3://bucket/a//b", "https://s3.example.com", NULL, RS_INVALID, NULL},
        {"s3://bucket/a b", "https://s3.example.com", NULL, RS_INVALID, NULL},
        {"s3://bucket/a", "https://s3.example.com", "eu/../x", RS_INVALID, NULL},
        {"s3:///a", "https://s3.example.com", NULL, RS_INVALID, NULL},
        {"https://bucket", NULL, NULL, RS_INVALID, NULL},
    };
    (void)state;
    (void)setenv("AWS_ACCESS_KEY_ID", "id", 1); /* NOLINT(concurrency-mt-unsafe): one thread */
    (void)setenv("AWS_SECRET_ACCESS_KEY", "secret",
                 1); /* NOLINT(concurrency-mt-unsafe): one thread */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rs_archive_options options = {
            .url = cases[i].url, .endpoint = cases[i].endpoint, .region = cases[i].region};
        struct rs_archive *archive = NULL;
        struct rs_err err = {0};
        const enum rs_status status = rs_archive_open(&options, &archive, &err);
        if (status != cases[i].status)
            fail_msg("%s %s: %s (%s)", cases[i].url, cases[i].endpoint ? cases[i].endpoint : "",
                     rs_status_name(status), err.text);
        if (status == RS_OK)
            assert_string_equal(rs_archive_url(archive), cases[i].place);
        else
            assert_true(strlen(err.text) > 10);
        rs_archive_close(&archive);
    }
}

/* ---- lists ------------------------------------------------------------------------------------------------------------ */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rs_archive_test_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rs_file_remove_tree(folder, NULL) == RS_OK ? 0 : -1;
}

static void put_file(const char *name, const char *text)
{
    char *path = rs_file_join(folder, name);
    assert_int_equal(rs_file_replace(path, text, strlen(text), false, NULL), RS_OK);
    rs_mem_free(path);
}

static void a_list_leads_nowhere_else(void **state)
{
    static const char *const names[] = {"../x",    "/etc/x", "a/../../x", "a//b",          "a/",
                                        ".hidden", "",       "archive",   "archived.json", "a\\n",
                                        "rows.db"};
    struct rs_err err = {0};
    char text[512];
    (void)state;
    put_file("archive", "s3://bucket/id\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(
            text, sizeof text,
            "{\"schema_version\": 1, \"files\": [{\"name\": \"%s\", \"size\": 1, \"mtime_ns\": 1, "
            "\"sha256\": \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}]}",
            names[i]);
        put_file("archived.json", text);
        assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_FORMAT);
    }
    put_file("archived.json", "{\"schema_version\": 2, \"files\": []}");
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_VERSION);
    put_file("archived.json", "{\"schema_version\": 1");
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_FORMAT);
}

static void what_lacks_is_not_taken_for_nothing(void **state)
{
    struct rs_err err = {0};
    (void)state;
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_OK); /* never archived */
    put_file("archive", "s3://bucket/id\n");
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_NOTFOUND); /* no list */
    put_file(
        "archived.json",
        "{\"schema_version\": 1, \"files\": [{\"name\": \"facts.seg\", \"size\": 3, \"mtime_ns\": 1, "
        "\"sha256\": \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}]}");
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_REFUSED);
    put_file("facts.seg", "12");
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_REFUSED);
    put_file("facts.seg", "123");
    assert_int_equal(rs_archive_fetch(NULL, "id", folder, NULL, &err), RS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_paths_and_texts),
        cmocka_unit_test(what_is_no_answer_is_refused),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test_setup_teardown(a_list_leads_nowhere_else, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_lacks_is_not_taken_for_nothing, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
