/* SPDX-License-Identifier: Apache-2.0 */
/* Where rows are, by what stands in the capture's folder; with a database that is not there. What is written into one: e2e_clickhouse. */
#include "aggregator/store/row_place.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/rs-row-place-XXXXXX");
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
    assert_ok(rs_file_replace(path, text, strlen(text), false, NULL));
    rs_mem_free(path);
}

/* Nobody listens on port 1 of this machine. */
static struct rs_row_place *open_away(void)
{
    const struct rs_clickhouse_options options = {.url = "clickhouse+http://127.0.0.1:1/away",
                                                  .retry_ns = 1};
    struct rs_row_place *place = NULL;
    assert_ok(rs_row_place_open(&options, &place, NULL));
    return place;
}

static void a_database_that_is_away_holds_nobody_up(void **state)
{
    (void)state;
    struct rs_row_place *place = open_away();
    struct rs_row_store *rows = NULL;
    struct rs_row_writing writing;
    struct rs_err err = {0};
    char why[200];
    assert_true(rs_row_place_retry_at(place, why, sizeof why) > 0);
    assert_non_null(strstr(why, "cannot be reached"));
    assert_status(rs_row_place_read(place, "c", folder, &rows, &err), RS_UNREACHABLE);
    assert_non_null(strstr(err.text, "it is asked again in"));
    assert_status(rs_row_place_begin(place, "c", folder, &writing, &err), RS_UNREACHABLE);
    assert_true(writing.is_away);
    assert_null(writing.rows);
    assert_status(rs_row_place_end(&writing, RS_UNREACHABLE, NULL, &err), RS_UNREACHABLE);
    /* It may have come so far as to send some, for all that the folder knows. */
    assert_true(rs_row_place_has_some(place, folder));
    assert_true(rs_row_place_is_joining(place, folder));
    assert_status(rs_row_place_remove(place, "c", folder, &err), RS_UNREACHABLE);
    rs_row_place_close(&place);
}

static void what_is_closed_is_owed_until_it_is_whole(void **state)
{
    (void)state;
    struct rs_row_place *place = open_away();
    struct rs_row_notes notes;
    assert_false(rs_row_place_is_owed(place, folder)); /* its rows were never wanted there */
    assert_ok(rs_row_place_remove(NULL, "c", folder, NULL));
    put_file(RS_ROW_PLACE_FILE,
             "rankscope rows 1\nclickhouse+http://127.0.0.1:1/away\nso far\ncomplete\n");
    assert_false(rs_row_place_is_owed(place, folder));
    put_file("capture.db", "");
    assert_true(rs_row_place_is_owed(place, folder));
    assert_false(rs_row_place_is_joining(place, folder));
    put_file(RS_ROW_PLACE_FILE, "rankscope rows 1\nclickhouse+http://127.0.0.1:1/away\nwhole\n"
                                "partial\nrank 3 sent nothing\nand more\n");
    assert_true(rs_row_place_is_whole(place, folder));
    assert_false(rs_row_place_is_owed(place, folder));
    assert_ok(rs_row_place_notes(place, folder, &notes, NULL));
    assert_true(notes.is_partial);
    assert_int_equal(notes.count, 2);
    assert_string_equal(notes.lines[0], "rank 3 sent nothing");
    rs_row_notes_fini(&notes);
    rs_row_place_made_again(folder); /* rankscope rebuild */
    assert_true(rs_row_place_is_owed(place, folder));
    assert_status(rs_row_place_notes(place, folder, &notes, NULL), RS_NOTFOUND);
    rs_row_place_close(&place);
}

static void what_another_database_has_is_not_here(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "rankscope rows 1\nclickhouse://elsewhere/away\nwhole\ncomplete\n",
        "rankscope rows 2\nclickhouse+http://127.0.0.1:1/away\nwhole\ncomplete\n",
        "rankscope rows 1\nclickhouse+http://127.0.0.1:1/away\nwho", "\n\n\n\n", ""};
    struct rs_row_place *place = open_away();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_file(RS_ROW_PLACE_FILE, texts[i]);
        assert_false(rs_row_place_is_whole(place, folder));
        assert_false(rs_row_place_has_some(place, folder));
        /* Nobody is asked for what is elsewhere; where the folder says nothing, rows may be there. */
        assert_status(rs_row_place_remove(place, "c", folder, NULL), i ? RS_UNREACHABLE : RS_OK);
    }
    rs_row_place_close(&place);
}

static void who_is_no_address_is_told_at_once(void **state)
{
    (void)state;
    static const char *const urls[] = {"sqlite", "clickhouse://u:secret@host/d",
                                       "clickhouse+http://192.0.2.1/d"};
    struct rs_row_place *place = NULL;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const struct rs_clickhouse_options options = {.url = urls[i]};
        assert_true(rs_row_place_open(&options, &place, NULL) < 0);
        assert_null(place);
    }
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        EACH(a_database_that_is_away_holds_nobody_up),
        EACH(what_is_closed_is_owed_until_it_is_whole),
        EACH(what_another_database_has_is_not_here),
        EACH(who_is_no_address_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
