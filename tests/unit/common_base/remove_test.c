/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that was read goes, and no other that somebody puts in its place meanwhile.
 */
#include "common/base/file.h"
#include "common/base/user_file.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rig {
    char dir[64], real[200];
    char inner[300], file[400], victim[400];
    struct stat seen;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static struct rig rig_new(void)
{
    struct rig rig = {.dir = ""};
    tmp_dir_make(rig.dir);
    char *real = realpath(rig.dir, NULL);
    assert_non_null(real);
    (void)snprintf(rig.real, sizeof rig.real, "%s", real);
    free(real);
    (void)snprintf(rig.inner, sizeof rig.inner, "%s/job", rig.real);
    (void)snprintf(rig.file, sizeof rig.file, "%s/trace.json", rig.inner);
    (void)snprintf(rig.victim, sizeof rig.victim, "%s/victim/trace.json", rig.real);
    assert_int_equal(mkdir(rig.inner, 0755), 0);
    char victim_dir[300];
    (void)snprintf(victim_dir, sizeof victim_dir, "%s/victim", rig.real);
    assert_int_equal(mkdir(victim_dir, 0755), 0);
    write_file(rig.file, "read");
    write_file(rig.victim, "mine");
    assert_int_equal(stat(rig.file, &rig.seen), 0);
    return rig;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void what_was_read_goes(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    assert_ok(rs_file_remove_same(rig.file, &rig.seen, NULL));
    assert_false(is_there(rig.file));
    assert_status(rs_file_remove_same(rig.file, &rig.seen, NULL), RS_NOTFOUND);
    assert_status(rs_file_remove_same("trace.json", &rig.seen, NULL), RS_INVALID);
    assert_status(rs_file_remove_same("/", &rig.seen, NULL), RS_INVALID);
    assert_status(rs_file_remove_same("/nowhere/at/all", &rig.seen, NULL), RS_NOTFOUND);
    tmp_dir_remove(rig.dir);
}

static void what_was_written_again_stays(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    write_file(rig.file, "written again");
    assert_status(rs_file_remove_same(rig.file, &rig.seen, NULL), RS_REFUSED);
    assert_int_equal(unlink(rig.file), 0);
    assert_int_equal(mkdir(rig.file, 0755), 0);
    assert_status(rs_file_remove_same(rig.file, &rig.seen, NULL), RS_REFUSED);
    tmp_dir_remove(rig.dir);
}

static void a_link_in_its_place_takes_nobody_elses_file_away(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    char moved[400], victim_dir[300];
    struct stat seen;
    (void)snprintf(moved, sizeof moved, "%s.moved", rig.inner);
    (void)snprintf(victim_dir, sizeof victim_dir, "%s/victim", rig.real);
    /* the file itself */
    assert_int_equal(unlink(rig.file), 0);
    assert_int_equal(symlink(rig.victim, rig.file), 0);
    assert_int_equal(stat(rig.file, &seen), 0); /* as a collector saw it that follows links */
    assert_status(rs_file_remove_same(rig.file, &seen, NULL), RS_REFUSED);
    /* its folder */
    assert_int_equal(rename(rig.inner, moved), 0);
    assert_int_equal(symlink(victim_dir, rig.inner), 0);
    assert_int_equal(stat(rig.file, &seen), 0);
    assert_status(rs_file_remove_same(rig.file, &seen, NULL), RS_REFUSED);
    assert_true(is_there(rig.victim));
    tmp_dir_remove(rig.dir);
}

/* Its owner swaps the folder for a link to somebody else's, and back, as fast as he can. */
struct swapper {
    const struct rig *rig;
    char moved[400], victim_dir[300];
    atomic_bool must_stop;
    atomic_uint swaps;
};

static void *swap(void *self)
{
    struct swapper *swapper = self;
    while (!atomic_load(&swapper->must_stop)) {
        if (rename(swapper->rig->inner, swapper->moved) < 0 ||
            symlink(swapper->victim_dir, swapper->rig->inner) < 0)
            break;
        (void)sched_yield();
        if (unlink(swapper->rig->inner) < 0 || rename(swapper->moved, swapper->rig->inner) < 0)
            break;
        atomic_fetch_add(&swapper->swaps, 1);
        (void)sched_yield();
    }
    return NULL;
}

/* A name of the file that was seen, in the folder wherever it stands now, again. */
static void put_back(const struct swapper *swapper, const char *kept)
{
    char moved[500];
    (void)snprintf(moved, sizeof moved, "%s/trace.json", swapper->moved);
    while (link(kept, swapper->rig->file) < 0 && errno != EEXIST && link(kept, moved) < 0 &&
           errno != EEXIST)
        (void)sched_yield();
}

/* Removed a thousand times while that goes on. Had only the path been trusted, the victim would be gone within some tens. */
static void raced_a_thousand_times_nobody_elses_file_goes(void **state)
{
    (void)state;
    const struct rig rig = rig_new();
    struct swapper swapper = {.rig = &rig};
    char kept[300];
    pthread_t thread;
    unsigned removed = 0, refused = 0;
    (void)snprintf(swapper.moved, sizeof swapper.moved, "%s.moved", rig.inner);
    (void)snprintf(swapper.victim_dir, sizeof swapper.victim_dir, "%s/victim", rig.real);
    (void)snprintf(kept, sizeof kept, "%s/kept", rig.real);
    assert_int_equal(link(rig.file, kept), 0);
    assert_int_equal(pthread_create(&thread, NULL, swap, &swapper), 0);
    for (unsigned i = 0;
         i < 1000 || ((!removed || !refused) && atomic_load(&swapper.swaps) < 1000000); i++) {
        struct stat
            seen; /* as a collector saw it that follows links: the victim's, half of the time */
        if (stat(rig.file, &seen) < 0)
            seen = rig.seen;
        const enum rs_status status = rs_file_remove_same(rig.file, &seen, NULL);
        removed += status == RS_OK;
        refused += status == RS_REFUSED;
        assert_true(is_there(rig.victim));
        put_back(&swapper, kept);
    }
    atomic_store(&swapper.must_stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(removed > 0 && refused > 0 && atomic_load(&swapper.swaps) > 0);
    tmp_dir_remove(rig.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_read_goes),
        cmocka_unit_test(what_was_written_again_stays),
        cmocka_unit_test(a_link_in_its_place_takes_nobody_elses_file_away),
        cmocka_unit_test(raced_a_thousand_times_nobody_elses_file_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
