/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles: Megatron's order by hand-made tables, other orders, maps, and what is refused.
 */
#include "common/request/roles.h"

#include "tests/support/rs_test.h"

#include <string.h>

static struct rs_roles read_roles(const char *text, uint32_t world)
{
    struct rs_roles roles;
    struct rs_err err = {0};
    if (rs_roles_from_json(text, strlen(text), world, &roles, &err) != RS_OK)
        fail_msg("%s: %s", text, err.text);
    return roles;
}

static int role_of(const struct rs_roles *roles, uint32_t rank, enum rs_rank_role_kind kind)
{
    struct rs_rank_row row = {.rank = rank, .role = {-1, -1, -1, -1, -1}};
    rs_roles_apply(roles, &row);
    return row.role[kind];
}

static void megatron_order_has_tp_fastest_and_pp_slowest(void **state)
{
    (void)state;
    struct rs_roles roles =
        read_roles("{\"tp\":2,\"pp\":2,\"dp\":2,\"order\":\"tp-cp-ep-dp-pp\"}", 0);
    /* rank = tp + 2 dp + 4 pp */
    for (uint32_t rank = 0; rank < 8; rank++) {
        assert_int_equal(role_of(&roles, rank, RS_ROLE_TP), rank & 1);
        assert_int_equal(role_of(&roles, rank, RS_ROLE_DP), rank >> 1 & 1);
        assert_int_equal(role_of(&roles, rank, RS_ROLE_PP), rank >> 2);
        assert_int_equal(role_of(&roles, rank, RS_ROLE_CP), 0);
        assert_int_equal(role_of(&roles, rank, RS_ROLE_EP), 0);
    }
    assert_int_equal(role_of(&roles, 8, RS_ROLE_TP), -1); /* beyond the world */
    rs_roles_fini(&roles);
}

static void context_stands_between_tensor_and_data(void **state)
{
    (void)state;
    struct rs_roles roles = read_roles("{\"tp\":2,\"cp\":3,\"dp\":2,\"pp\":2}", 24);
    /* rank = tp + 2 cp + 6 dp + 12 pp; 17 = 1 + 2*2 + 6*0 + 12 */
    assert_int_equal(role_of(&roles, 17, RS_ROLE_TP), 1);
    assert_int_equal(role_of(&roles, 17, RS_ROLE_CP), 2);
    assert_int_equal(role_of(&roles, 17, RS_ROLE_DP), 0);
    assert_int_equal(role_of(&roles, 17, RS_ROLE_PP), 1);
    rs_roles_fini(&roles);
}

static void experts_have_a_layout_of_their_own(void **state)
{
    (void)state;
    /* Dense: 2 tp x 4 dp. Experts with etp 1: ep is rank mod 4; with etp = tp: (rank / 2) mod 2. */
    struct rs_roles roles = read_roles("{\"tp\":2,\"dp\":4,\"ep\":4,\"etp\":1}", 0);
    for (uint32_t rank = 0; rank < 8; rank++)
        assert_int_equal(role_of(&roles, rank, RS_ROLE_EP), rank % 4);
    rs_roles_fini(&roles);
    roles = read_roles("{\"tp\":2,\"dp\":4,\"ep\":2}", 0);
    for (uint32_t rank = 0; rank < 8; rank++)
        assert_int_equal(role_of(&roles, rank, RS_ROLE_EP), rank / 2 % 2);
    rs_roles_fini(&roles);
}

static void another_order_is_followed(void **state)
{
    (void)state;
    struct rs_roles roles = read_roles("{\"tp\":2,\"pp\":3,\"dp\":2,\"order\":\"pp-tp\"}", 0);
    /* pp fastest, then tp, then what was not named: cp, ep, dp. 7 = 1 + 3*0 + 6*1 */
    assert_int_equal(role_of(&roles, 7, RS_ROLE_PP), 1);
    assert_int_equal(role_of(&roles, 7, RS_ROLE_TP), 0);
    assert_int_equal(role_of(&roles, 7, RS_ROLE_DP), 1);
    rs_roles_fini(&roles);
}

static void distributed_args_are_read_by_both_kinds_of_names(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"distributed_args\":{\"tp\":2,\"pp\":4,\"dp\":8}}",
        ("{\"distributed_args\":{\"tensor_model_parallel_size\":2,\"pipeline_model_parallel_size\":4,"
         "\"data_parallel_size\":8,\"context_parallel_size\":1,\"expert_model_parallel_size\":1,"
         "\"sequence_parallel\":true,\"rank\":3,\"world_size\":64}}"),
        ("{\"tensor_model_parallel_size\":2,\"pipeline_model_parallel_size\":4,\"world_size\":64,"
         "\"expert_tensor_parallel_size\":null,\"sequence_parallel\":false}"),
    };
    for (size_t i = 0; i < 3; i++) {
        struct rs_roles roles = read_roles(texts[i], 0);
        assert_int_equal(roles.sizes.world, 64);
        assert_int_equal(role_of(&roles, 63, RS_ROLE_PP), 3);
        assert_int_equal(role_of(&roles, 63, RS_ROLE_DP), 7);
        assert_int_equal(role_of(&roles, 16, RS_ROLE_PP), 1);
        rs_roles_fini(&roles);
    }
}

static void the_world_gives_the_data_parallel_size(void **state)
{
    (void)state;
    struct rs_roles roles = read_roles("{\"tp\":2,\"pp\":2}", 16);
    assert_int_equal(roles.sizes.size[RS_ROLE_DP], 4);
    rs_roles_fini(&roles);
}

static void a_map_says_it_rank_by_rank(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"7\":{\"tp\":1,\"pp\":2},\"2\":{\"dp\":5,\"ep\":0}}",
        "{\"ranks\":{\"2\":{\"dp\":5,\"ep\":0},\"7\":{\"tp\":1,\"pp\":2,\"ep\":-1}}}",
    };
    for (size_t i = 0; i < 2; i++) {
        struct rs_roles roles = read_roles(texts[i], 0);
        assert_int_equal(role_of(&roles, 7, RS_ROLE_TP), 1);
        assert_int_equal(role_of(&roles, 7, RS_ROLE_PP), 2);
        assert_int_equal(role_of(&roles, 7, RS_ROLE_EP), -1);
        assert_int_equal(role_of(&roles, 2, RS_ROLE_DP), 5);
        assert_int_equal(role_of(&roles, 3, RS_ROLE_DP), -1);
        rs_roles_fini(&roles);
    }
}

static void what_does_not_fit_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t world;
        const char *word;
    } examples[] = {
        {"", 0, "line 1"},
        {"[1]", 0, "object"},
        {"{\"tp\":2,\n\"tp\":3}", 0, "line 2"},
        {"{\"tp\":2}", 0, "neither dp nor the world"},
        {"{\"tp\":3}", 8, "does not divide"},
        {"{\"tp\":2,\"dp\":2}", 8, "not the world"},
        {"{\"tp\":0,\"dp\":2}", 0, "from 1"},
        {"{\"tp\":\"2\"}", 0, "whole number"},
        {"{\"tp\":2,\"dp\":2,\"ep\":3}", 0, "does not divide"},
        {"{\"tp\":2,\"dp\":2,\"foo\":3}", 0, "\"foo\""},
        {"{\"dp\":2,\"order\":\"tp-xx\"}", 0, "at \"xx\""},
        {"{\"dp\":2,\"order\":\"tp-tp\"}", 0, "each once"},
        {"{\"dp\":2,\"order\":\"tp-\"}", 0, "order"},
        {"{\"dp\":2,\"order\":5}", 0, "string"},
        {"{\"dp\":16777216,\"tp\":16777216}", 0, "more than"},
        {"{\"0\":5}", 0, "wants an object"},
        {"{\"0\":{\"xp\":5}}", 0, "\"xp\""},
        {"{\"0\":{\"tp\":-2}}", 0, "from -1"},
        {"{\"0\":{},\"x\":{}}", 0, "not a rank"},
        {"{\"0\":{},\"00\":{}}", 0, "not a rank"},
        {"{\"ranks\":[]}", 0, "object"},
        {"{\"distributed_args\":[]}", 0, "object"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct rs_roles roles;
        struct rs_err err = {0};
        assert_status(rs_roles_from_json(examples[i].text, strlen(examples[i].text),
                                         examples[i].world, &roles, &err),
                      RS_INVALID);
        if (!strstr(err.text, examples[i].word))
            fail_msg("%s: %s", examples[i].text, err.text);
        assert_null(roles.ranks);
    }
}

/* Every rank has other coordinates, and they cover all of them. */
static void coordinates_are_a_bijection(void **state)
{
    (void)state;
    static const char *const orders[] = {"tp-cp-ep-dp-pp", "tp-pp-dp", "pp-dp-cp-tp",
                                         "dp-tp-pp-cp-ep"};
    for (size_t o = 0; o < 4; o++) {
        struct rs_role_sizes sizes = {
            .size = {[RS_ROLE_TP] = 2, [RS_ROLE_DP] = 3, [RS_ROLE_PP] = 4, [RS_ROLE_CP] = 5}};
        bool seen[120] = {false};
        assert_ok(rs_role_order_parse(orders[o], sizes.order, NULL));
        assert_ok(rs_role_sizes_complete(&sizes, NULL));
        assert_int_equal(sizes.world, 120);
        for (uint32_t rank = 0; rank < 120; rank++) {
            int32_t role[RS_ROLE_COUNT];
            assert_ok(rs_roles_derive(&sizes, rank, role));
            const int32_t at =
                ((role[RS_ROLE_TP] * 3 + role[RS_ROLE_DP]) * 4 + role[RS_ROLE_PP]) * 5 +
                role[RS_ROLE_CP];
            assert_true(at >= 0 && at < 120);
            assert_false(seen[at]);
            seen[at] = true;
        }
        int32_t role[RS_ROLE_COUNT];
        assert_status(rs_roles_derive(&sizes, 120, role), RS_NOTFOUND);
    }
}

static void sizes_may_wait_for_the_world(void **state)
{
    (void)state;
    static const char good[] = "{\"tp\":2,\"pp\":2}";
    static const char bad[] = "{\"tp\":2,\"pq\":2}";
    struct rs_roles roles = read_roles(good, RS_ROLES_WORLD_OPEN);
    assert_int_equal(role_of(&roles, 1, RS_ROLE_TP), -1);
    rs_roles_fini(&roles);
    roles = read_roles(good, 8);
    assert_int_equal(role_of(&roles, 7, RS_ROLE_PP), 1);
    rs_roles_fini(&roles);
    assert_status(rs_roles_from_json(bad, strlen(bad), RS_ROLES_WORLD_OPEN, &roles, NULL),
                  RS_INVALID);
}

static void groups_are_known_by_their_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum rs_rank_role_kind role;
    } names[] = {{"tp", RS_ROLE_TP},
                 {"mesh_dp", RS_ROLE_DP},
                 {"pp_3", RS_ROLE_PP},
                 {"dp0", RS_ROLE_DP},
                 {"TENSOR_MODEL_PARALLEL_GROUP", RS_ROLE_TP},
                 {"DATA_PARALLEL_GROUP", RS_ROLE_DP},
                 {"expert_parallel", RS_ROLE_EP},
                 {"context_parallel_group", RS_ROLE_CP},
                 {"default_pg", RS_ROLE_COUNT},
                 {"dp_cp", RS_ROLE_COUNT},
                 {"DATA_PARALLEL_GROUP_WITH_CP", RS_ROLE_COUNT},
                 {"tps", RS_ROLE_COUNT},
                 {"undefined", RS_ROLE_COUNT},
                 {"", RS_ROLE_COUNT}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (rs_role_of_group(names[i].name) != names[i].role)
            fail_msg("%s", names[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_order_has_tp_fastest_and_pp_slowest),
        cmocka_unit_test(context_stands_between_tensor_and_data),
        cmocka_unit_test(experts_have_a_layout_of_their_own),
        cmocka_unit_test(another_order_is_followed),
        cmocka_unit_test(distributed_args_are_read_by_both_kinds_of_names),
        cmocka_unit_test(the_world_gives_the_data_parallel_size),
        cmocka_unit_test(a_map_says_it_rank_by_rank),
        cmocka_unit_test(what_does_not_fit_is_refused_with_a_sentence),
        cmocka_unit_test(coordinates_are_a_bijection),
        cmocka_unit_test(sizes_may_wait_for_the_world),
        cmocka_unit_test(groups_are_known_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
