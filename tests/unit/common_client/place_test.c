/* SPDX-License-Identifier: Apache-2.0 */
/* Where the capture is that somebody names. Nobody is asked here. */
#include "common/client/place.h"

#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char id[] = "20260102-030405-a1b2c3";
static char folder[64], capture[128];

/* A data folder with one capture, and no aggregator anywhere. */
static int make(void **state)
{
    char path[192];
    (void)state;
    tmp_dir_make(folder);
    (void)snprintf(path, sizeof path, "%s/captures", folder);
    (void)snprintf(capture, sizeof capture, "%s/captures/%s", folder, id);
    if (mkdir(path, 0700) || mkdir(capture, 0700))
        return -1;
    (void)snprintf(path, sizeof path, "%s/segments", capture);
    return mkdir(path, 0700) || setenv("RANKSCOPE_RUNTIME_DIR", folder, 1);
}

static int drop(void **state)
{
    (void)state;
    tmp_dir_remove(folder);
    return 0;
}

static void a_folder_is_joined_where_it_is(void **state)
{
    (void)state;
    struct rs_client_place place;
    struct rs_client_carried carried = {.dir = ""};
    assert_ok(rs_client_place_of(capture, NULL, NULL, &place, NULL));
    assert_string_equal(place.dir, capture);
    assert_ok(rs_client_carry(capture, NULL, NULL, &carried, NULL));
    assert_string_equal(carried.dir, capture);
    assert_false(carried.is_temporary);
    rs_client_carried_remove(&carried); /* one that was not carried stays */
    assert_ok(rs_client_carry(capture, NULL, NULL, &carried, NULL));
}

static void an_id_is_looked_for_in_the_data_that_is_named(void **state)
{
    (void)state;
    struct rs_client_place place;
    struct rs_client_carried carried;
    struct rs_err err = {0};
    assert_ok(rs_client_place_of(id, folder, NULL, &place, NULL));
    assert_string_equal(place.dir, capture);
    assert_ok(rs_client_carry(id, folder, NULL, &carried, NULL));
    assert_string_equal(carried.dir, capture);
    assert_status(rs_client_place_of("other", folder, NULL, &place, &err), RS_NOTFOUND);
    assert_non_null(strstr(err.text, "there is no capture other in /"));
    assert_status(rs_client_carry("other", folder, NULL, &carried, &err), RS_NOTFOUND);
}

static void an_id_is_no_way_out_of_the_folder_of_captures(void **state)
{
    (void)state;
    struct rs_client_place place;
    struct rs_client_carried carried;
    static const char *const words[] = {"../x", "a/b", ".hidden", "/no/such"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_status(rs_client_place_of(words[i], folder, NULL, &place, NULL), RS_NOTFOUND);
        assert_status(rs_client_carry(words[i], folder, NULL, &carried, NULL), RS_NOTFOUND);
        assert_false(rs_client_is_capture(words[i]));
    }
    assert_true(rs_client_is_capture(id));
    assert_true(rs_client_is_capture(capture));
    assert_false(rs_client_is_capture(folder));
}

static void the_aggregator_that_is_named_is_asked(void **state)
{
    (void)state;
    struct rs_client_place place;
    assert_ok(rs_client_place_of(id, NULL, "unix:/no/such.sock", &place, NULL));
    assert_string_equal(place.dir, "");
    assert_string_equal(place.address.text, "unix:/no/such.sock");
    assert_status(rs_client_place_of(id, NULL, "nonsense", &place, NULL), RS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_is_joined_where_it_is, make, drop),
        cmocka_unit_test_setup_teardown(an_id_is_looked_for_in_the_data_that_is_named, make, drop),
        cmocka_unit_test_setup_teardown(an_id_is_no_way_out_of_the_folder_of_captures, make, drop),
        cmocka_unit_test_setup_teardown(the_aggregator_that_is_named_is_asked, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
