/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump as bytes: what goes in comes out, whatever is unknown; damaged bytes add nothing.
 */
#include "common/flight/pack.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <string.h>

static rs_str id(struct rs_flight_set *set, const char *text)
{
    rs_str value;
    assert_ok(rs_strtab_add(&set->strings, text, strlen(text), &value));
    return value;
}

/* Calls with everything known, and with nothing; extreme numbers. */
static void fill(struct rs_flight_set *set, int32_t rank)
{
    static const int32_t members[] = {3, 0, 7};
    struct rs_flight_dump *dump;
    uint32_t group;
    assert_ok(rs_flight_begin(set, "a path", &dump));
    rs_mem_free(dump->host);
    dump->host = rs_mem_strdup("n1");
    dump->stack = rs_mem_strdup("f (a.py:1)\ng (b.py:2)");
    dump->problem = rs_mem_strdup("cut");
    dump->rank = rank;
    dump->rank_source = RS_FLIGHT_RANK_ASKED;
    dump->pid = 4711;
    dump->version = id(set, "2.10");
    dump->backend = id(set, "nccl");
    dump->taken_ns = 1234567890123456789;
    dump->is_taken_known = dump->is_partial = true;
    dump->bad_entries = 2;
    assert_ok(rs_flight_group_of(set, id(set, "0"), id(set, "default_pg"), &group));
    dump->groups[group].ranks = rs_mem_calloc(3, sizeof(int32_t));
    memcpy(dump->groups[group].ranks, members, sizeof members);
    dump->groups[group].rank_count = 3;
    dump->groups[group].last_enqueued = 17;
    assert_ok(rs_flight_group_of(set, id(set, "7"), RS_STR_EMPTY, &group));
    for (int i = 0; i < 50; i++) {
        struct rs_flight_entry entry = {.record_id = 1000 + i,
                                        .seq = 4000 + i,
                                        .created_ns = 1700000000000000000 + i * 1000,
                                        .started_ns = RS_FLIGHT_UNKNOWN,
                                        .completed_ns = RS_FLIGHT_UNKNOWN,
                                        .duration_ns = RS_FLIGHT_UNKNOWN,
                                        .timeout_ns = RS_FLIGHT_UNKNOWN,
                                        .in_numel = -1,
                                        .out_numel = 5,
                                        .name =
                                            id(set, i % 2 ? "nccl:all_reduce" : "nccl:send 1->2"),
                                        .group = (uint32_t)(i % 2),
                                        .peer_src = -1,
                                        .peer_dst = -1,
                                        .op = i % 2 ? RS_FLIGHT_ALL_REDUCE : RS_FLIGHT_SEND,
                                        .state = RS_FLIGHT_STARTED};
        if (i % 3 == 0) {
            entry.started_ns = i % 2 ? INT64_MAX : INT64_MIN + 1;
            entry.completed_ns = -5;
            entry.duration_ns = 12;
            entry.timeout_ns = 600000000000;
            entry.peer_src = 1;
            entry.flags = RS_FLIGHT_RETIRED | RS_FLIGHT_P2P;
            entry.frames = id(set, "train (t.py:88)");
        }
        if (i % 7 == 0)
            entry.created_ns = RS_FLIGHT_UNKNOWN;
        assert_ok(rs_flight_add(set, &entry));
    }
    rs_flight_end(set);
}

static void assert_same_text(const struct rs_flight_set *a, rs_str x, const struct rs_flight_set *b,
                             rs_str y)
{
    assert_string_equal(rs_strtab_text(&a->strings, x), rs_strtab_text(&b->strings, y));
}

static void assert_same_entry(const struct rs_flight_set *a, const struct rs_flight_entry *x,
                              const struct rs_flight_set *b, const struct rs_flight_entry *y)
{
    assert_same_text(a, x->name, b, y->name);
    assert_same_text(a, x->frames, b, y->frames);
    assert_same_text(a, x->sizes, b, y->sizes);
    assert_same_text(a, x->dtypes, b, y->dtypes);
    struct rs_flight_entry p = *x, q = *y;
    p.name = p.frames = p.sizes = p.dtypes = q.name = q.frames = q.sizes = q.dtypes = 0;
    assert_int_equal(p.record_id, q.record_id);
    assert_int_equal(p.seq, q.seq);
    assert_int_equal(p.created_ns, q.created_ns);
    assert_int_equal(p.started_ns, q.started_ns);
    assert_int_equal(p.completed_ns, q.completed_ns);
    assert_int_equal(p.duration_ns, q.duration_ns);
    assert_int_equal(p.timeout_ns, q.timeout_ns);
    assert_int_equal(p.in_numel, q.in_numel);
    assert_int_equal(p.out_numel, q.out_numel);
    assert_int_equal(p.group, q.group);
    assert_int_equal(p.peer_src, q.peer_src);
    assert_int_equal(p.peer_dst, q.peer_dst);
    assert_int_equal(p.op, q.op);
    assert_int_equal(p.state, q.state);
    assert_int_equal(p.flags, q.flags);
}

static void assert_same_dump(const struct rs_flight_set *a, const struct rs_flight_dump *x,
                             const struct rs_flight_set *b, const struct rs_flight_dump *y)
{
    assert_string_equal(x->path, y->path);
    assert_string_equal(x->host, y->host);
    assert_int_equal(x->pid, y->pid);
    assert_string_equal(x->stack, y->stack);
    assert_string_equal(x->problem, y->problem);
    assert_int_equal(x->rank, y->rank);
    assert_int_equal(x->rank_source, y->rank_source);
    assert_same_text(a, x->version, b, y->version);
    assert_same_text(a, x->backend, b, y->backend);
    assert_int_equal(x->taken_ns, y->taken_ns);
    assert_int_equal(x->dropped, y->dropped);
    assert_int_equal(x->bad_entries, y->bad_entries);
    assert_int_equal(x->is_partial, y->is_partial);
    assert_int_equal(x->is_taken_known, y->is_taken_known);
    assert_int_equal(x->is_sparse, y->is_sparse);
    assert_int_equal(x->knows_starts, y->knows_starts);
    assert_int_equal(x->is_half_blind, y->is_half_blind);
    assert_int_equal(x->group_count, y->group_count);
    for (size_t i = 0; i < x->group_count; i++) {
        assert_same_text(a, x->groups[i].name, b, y->groups[i].name);
        assert_same_text(a, x->groups[i].desc, b, y->groups[i].desc);
        assert_int_equal(x->groups[i].last_enqueued, y->groups[i].last_enqueued);
        assert_int_equal(x->groups[i].rank_count, y->groups[i].rank_count);
        assert_int_equal(!x->groups[i].ranks, !y->groups[i].ranks);
        for (size_t k = 0; k < x->groups[i].rank_count; k++)
            assert_int_equal(x->groups[i].ranks[k], y->groups[i].ranks[k]);
    }
    assert_int_equal(x->entry_count, y->entry_count);
    for (size_t i = 0; i < x->entry_count; i++)
        assert_same_entry(a, &a->entries[x->entry_first + i], b, &b->entries[y->entry_first + i]);
}

static void a_dump_comes_back_as_it_was(void **state)
{
    (void)state;
    struct rs_flight_set from, to;
    struct rs_buf packed = {0};
    assert_ok(rs_flight_set_init(&from));
    assert_ok(rs_flight_set_init(&to));
    fill(&from, 4);
    assert_ok(rs_strtab_add(&to.strings, "another first string", 20, &(rs_str){0}));
    assert_ok(rs_flight_pack(&from, &from.dumps[0], &packed, NULL));
    assert_ok(rs_flight_unpack(packed.data, packed.length, &to, NULL));
    assert_int_equal(to.dump_count, 1);
    assert_same_dump(&from, &from.dumps[0], &to, &to.dumps[0]);
    rs_buf_fini(&packed);
    rs_flight_set_fini(&from);
    rs_flight_set_fini(&to);
}

static void damaged_bytes_add_nothing(void **state)
{
    (void)state;
    struct rs_flight_set from, to;
    struct rs_buf packed = {0};
    assert_ok(rs_flight_set_init(&from));
    assert_ok(rs_flight_set_init(&to));
    fill(&from, 4);
    assert_ok(rs_flight_pack(&from, &from.dumps[0], &packed, NULL));
    for (size_t i = 0; i < packed.length; i++) {
        struct rs_err err = {0};
        const size_t before = to.dump_count;
        if (rs_flight_unpack(packed.data, i, &to, &err) < 0) {
            assert_int_equal(to.dump_count, before);
            assert_true(err.text[0]);
        }
        packed.data[i] ^= 0x55;
        if (rs_flight_unpack(packed.data, packed.length, &to, &err) < 0)
            assert_int_equal(to.dump_count, before);
        else
            rs_flight_drop_last(&to); /* a byte that changed a value and no form */
        packed.data[i] ^= 0x55;
    }
    assert_int_equal(to.dump_count, 0);
    assert_int_equal(rs_flight_unpack("", 0, &to, NULL), RS_FORMAT);
    rs_buf_fini(&packed);
    rs_flight_set_fini(&from);
    rs_flight_set_fini(&to);
}

static void a_file_holds_dumps_and_notes(void **state)
{
    (void)state;
    struct rs_flight_set from, to;
    struct rs_buf packed = {0}, file = {0};
    size_t damaged = 0;
    assert_ok(rs_flight_set_init(&from));
    assert_ok(rs_flight_set_init(&to));
    fill(&from, 4);
    assert_ok(rs_flight_pack(&from, &from.dumps[0], &packed, NULL));
    assert_ok(rs_flight_file_begin(&file));
    assert_ok(rs_flight_file_note(&file, "rank 2 cannot be asked"));
    assert_ok(rs_flight_file_dump(&file, packed.data, packed.length));
    assert_ok(rs_flight_file_dump(&file, "none", 4));
    assert_ok(rs_flight_file_end(&file));
    assert_ok(rs_flight_file_read(file.data, file.length, &to, &damaged, NULL));
    assert_int_equal(to.dump_count, 1);
    assert_int_equal(damaged, 1);
    assert_int_equal(to.note_count, 2);
    assert_string_equal(to.notes[0], "rank 2 cannot be asked");
    file.data[file.length / 2] ^= 1;
    assert_int_equal(rs_flight_file_read(file.data, file.length, &to, &damaged, NULL), RS_FORMAT);
    assert_int_equal(rs_flight_file_read(file.data, 7, &to, &damaged, NULL), RS_FORMAT);
    rs_buf_fini(&packed);
    rs_buf_fini(&file);
    rs_flight_set_fini(&from);
    rs_flight_set_fini(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_comes_back_as_it_was),
        cmocka_unit_test(damaged_bytes_add_nothing),
        cmocka_unit_test(a_file_holds_dumps_and_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
