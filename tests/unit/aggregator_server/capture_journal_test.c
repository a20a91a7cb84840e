/* SPDX-License-Identifier: Apache-2.0 */
/* What was answered is written down: a daemon that is killed behind create() finds the capture with its ranks. */
#include "aggregator/server/capture_journal.h"

#include "aggregator/store/store.h"
#include "common/base/mem.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <string.h>

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    tmp_dir_make(dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    tmp_dir_remove(dir);
    return 0;
}

static void fill(struct rs_coord_capture *capture, size_t ranks)
{
    (void)snprintf(capture->run, sizeof capture->run, "r");
    capture->state = RS_CAPTURE_QUEUED;
    capture->steps = 3;
    capture->start_step = -1;
    capture->ranks = rs_mem_calloc(ranks, sizeof *capture->ranks);
    assert_non_null(capture->ranks);
    capture->rank_count = capture->rank_capacity = ranks;
    for (size_t i = 0; i < ranks; i++) {
        struct rs_coord_rank *rank = &capture->ranks[i];
        rank->rank = (uint32_t)i;
        rank->step = -1;
        rank->state = RS_PROGRESS_WAITING;
        rank->is_changed = true;
        (void)snprintf(rank->incarnation, sizeof rank->incarnation, "i%zu", i);
    }
}

static void a_capture_is_created_with_its_ranks(void **state)
{
    enum { RANKS = 300 }; /* more than are written at once */
    struct rs_capture_journal own = {0};
    struct rs_coord_capture *asked = rs_mem_calloc(1, sizeof *asked);
    struct rs_coord_capture *found = rs_mem_calloc(1, sizeof *found);
    (void)state;
    assert_non_null(asked);
    assert_non_null(found);
    assert_ok(rs_store_open(dir, 0, &own.store, NULL));
    struct rs_server_journal journal = rs_capture_journal_interface(&own);
    fill(asked, RANKS);
    assert_ok(journal.name(journal.self, asked, NULL));
    assert_ok(journal.create(journal.self, asked, NULL));
    rs_store_close(&own.store);

    assert_ok(rs_store_open(dir, 0, &own.store, NULL));
    assert_ok(journal.find(journal.self, asked->id, RS_JOURNAL_ALL, found, NULL));
    assert_int_equal(found->state, RS_CAPTURE_QUEUED);
    assert_int_equal(found->rank_count, RANKS);
    assert_int_equal(found->ranks[RANKS - 1].state, RS_PROGRESS_WAITING);
    rs_store_close(&own.store);
    rs_coord_capture_fini(found);
    rs_coord_capture_fini(asked);
    rs_mem_free(found);
    rs_mem_free(asked);
}

struct seen {
    size_t captures, closed, ranks;
    char last[RS_STORE_ID_BYTES];
};

static bool see(void *self, const struct rs_coord_capture *capture)
{
    struct seen *seen = self;
    assert_string_equal(capture->run, "r");
    assert_non_null(strstr(capture->directory, capture->id));
    seen->captures++;
    seen->closed += capture->closed_ns != 0;
    seen->ranks += capture->rank_count;
    (void)snprintf(seen->last, sizeof seen->last, "%s", capture->id);
    return true;
}

/* What lists and the history go through for thousands of captures: their ranks are counted, and read by nobody. */
static void captures_are_looked_through_without_their_ranks(void **state)
{
    enum { CAPTURES = 6, RANKS = 20 };
    struct rs_capture_journal own = {0};
    struct rs_coord_capture *asked = rs_mem_calloc(1, sizeof *asked);
    struct rs_capture_facts *facts = rs_mem_calloc(1, sizeof *facts);
    struct seen seen = {0};
    char last_closed[RS_STORE_ID_BYTES] = "";
    (void)state;
    assert_non_null(asked);
    assert_non_null(facts);
    assert_ok(rs_store_open(dir, 0, &own.store, NULL));
    struct rs_server_journal journal = rs_capture_journal_interface(&own);
    for (int i = 0; i < CAPTURES; i++) {
        *asked = (struct rs_coord_capture){0};
        fill(asked, RANKS);
        asked->created_ns = i + 1; /* the order of the list */
        assert_ok(journal.name(journal.self, asked, NULL));
        assert_ok(journal.create(journal.self, asked, NULL));
        if (i % 2) {
            asked->state = RS_CAPTURE_COMPLETE;
            asked->closed_ns = i + 100;
            journal.facts(journal.self, asked, facts);
            facts->is_closed = true;
            assert_ok(rs_store_update_capture(own.store, facts, NULL));
            (void)snprintf(last_closed, sizeof last_closed, "%s", asked->id);
        }
        rs_coord_capture_fini(asked);
    }
    assert_ok(journal.heads(journal.self, see, &seen, NULL));
    assert_int_equal(seen.captures, CAPTURES);
    assert_int_equal(seen.closed, CAPTURES / 2);
    assert_int_equal(seen.ranks, 0);
    assert_int_equal(journal.count_ranks(journal.self, last_closed), RANKS);
    assert_ok(journal.find(journal.self, last_closed, 0, asked, NULL));
    assert_int_equal(asked->rank_count, 0);
    rs_coord_capture_fini(asked);
    assert_ok(journal.find(journal.self, last_closed, RS_JOURNAL_RANKS, asked, NULL));
    assert_int_equal(asked->rank_count, RANKS);
    rs_coord_capture_fini(asked);
    assert_string_equal(seen.last, last_closed);
    rs_store_close(&own.store);
    rs_mem_free(facts);
    rs_mem_free(asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_capture_is_created_with_its_ranks, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(captures_are_looked_through_without_their_ranks, make_dir,
                                        remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
