/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten toy jobs with exact answers: replay and waiting, levels given. All ranks start at 0, transfers take 1,
 * milliseconds. They are built on the model itself, so that the levels are given and not estimated.
 */
#include "aggregator/analysis/diagnose/diagnose_priv.h"
#include "tests/support/rs_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const rs_dur MS = 1000000;

enum { MOST = 24, STEPS_MOST = 4 };

struct toy {
    struct diag_model model;
    struct diag_effects effects;
    struct diag_verdict verdict;
    struct diag_blame blame;
    struct diag_element elements[MOST];
    uint32_t end[MOST]; /* [worker] newest end */
    rs_ns seen[MOST];
    uint32_t position[MOST];
};

static void toy_init(struct toy *toy, size_t workers, size_t steps)
{
    memset(toy, 0, sizeof *toy);
    struct diag_model *model = &toy->model;
    model->workers = calloc(workers, sizeof *model->workers);
    model->steps = calloc(steps, sizeof *model->steps);
    model->worker_count = workers;
    model->step_count = steps;
    model->class_count = 1;
    model->waits_are_known = true;
    for (size_t w = 0; w < workers; w++) {
        model->workers[w] =
            (struct diag_worker){.rank = (int32_t)w, .dp = -1, .stage = -1, .host = -1};
        toy->end[w] = GRAPH_NONE;
    }
    for (size_t k = 0; k < steps; k++) {
        model->steps[k] = (int64_t)k;
    }
}

static void works(struct toy *toy, uint32_t worker, uint32_t step, rs_dur length)
{
    struct diag_model *model = &toy->model;
    uint32_t node;
    toy->seen[worker] += length;
    assert_ok(graph_node(&model->graph, toy->seen[worker], step, &node));
    model->graph.work[node] = length;
    if (toy->end[worker] != GRAPH_NONE) {
        assert_ok(graph_edge(&model->graph, toy->end[worker], node));
    }
    model->items = realloc(model->items, (model->item_count + 1) * sizeof *model->items);
    model->items[model->item_count++] = (struct diag_item){.node = node,
                                                           .worker = worker,
                                                           .step = step,
                                                           .position = toy->position[worker]++,
                                                           .figure = RS_FIGURE_COMPUTING,
                                                           .input = -1,
                                                           .name = RS_STR_NONE};
    toy->end[worker] = node;
}

/* All of these meet; who: bits of workers. */
static uint32_t meets(struct toy *toy, uint32_t who, uint32_t step, rs_dur transfer)
{
    struct diag_model *model = &toy->model;
    rs_ns latest = 0;
    uint32_t meeting, starts[MOST], last = GRAPH_NONE;
    for (uint32_t w = 0; w < model->worker_count; w++) {
        if ((who >> w & 1) == 0) {
            continue;
        }
        last = toy->seen[w] > latest ? w : toy->seen[w] == latest ? GRAPH_NONE : last;
        latest = toy->seen[w] > latest ? toy->seen[w] : latest;
        assert_ok(graph_node(&model->graph, toy->seen[w], step, &starts[w]));
        if (toy->end[w] != GRAPH_NONE) {
            assert_ok(graph_edge(&model->graph, toy->end[w], starts[w]));
        }
    }
    assert_ok(graph_node(&model->graph, latest, step, &meeting));
    const uint32_t first = (uint32_t)model->move_node_count;
    for (uint32_t w = 0; w < model->worker_count; w++) {
        uint32_t end;
        if ((who >> w & 1) == 0) {
            continue;
        }
        assert_ok(graph_edge(&model->graph, starts[w], meeting));
        assert_ok(graph_node(&model->graph, latest + transfer, step, &end));
        model->graph.work[end] = transfer;
        assert_ok(graph_edge(&model->graph, meeting, end));
        model->waits = realloc(model->waits, (model->wait_count + 1) * sizeof *model->waits);
        model->waits[model->wait_count++] = (struct diag_wait){starts[w], meeting, w, last};
        model->move_nodes =
            realloc(model->move_nodes, (model->move_node_count + 1) * sizeof(uint32_t));
        model->move_nodes[model->move_node_count++] = end;
        toy->end[w] = end;
        toy->seen[w] = latest + transfer;
    }
    return first;
}

static void is_unit(struct toy *toy, uint32_t first, uint32_t count)
{
    struct diag_model *model = &toy->model;
    model->units = calloc(1, sizeof *model->units);
    model->units[0] = (struct diag_unit){.a = 0, .b = 1, .group = GRAPH_NONE, .size = 2};
    model->unit_count = model->panel_count = 1;
    model->moves = calloc(1, sizeof *model->moves);
    model->moves[0] = (struct diag_move){.ns = 5e6, .node_first = first, .node_count = count};
    model->move_count = 1;
}

static struct diag_element *is_slow(struct toy *toy, enum diag_what what, uint32_t id, rs_dur own,
                                    rs_dur level)
{
    struct diag_element *element = &toy->elements[toy->effects.count++];
    *element = (struct diag_element){.what = what,
                                     .id = id,
                                     .position = what == DIAG_RANK ? 0 : GRAPH_NONE,
                                     .effect = log((double)own / (double)level),
                                     .hits = toy->model.step_count,
                                     .period = 1,
                                     .input = -1};
    toy->effects.elements = toy->elements;
    return element;
}

static void decide(struct toy *toy)
{
    assert_ok(graph_seal(&toy->model.graph));
    assert_ok(diag_model_finish(&toy->model));
    assert_ok(diag_decide(&toy->model, &toy->effects, &toy->verdict));
    assert_ok(diag_blame_waits(&toy->model, &toy->effects, &toy->verdict, &toy->blame));
    rs_dur all = toy->blame.by_design + toy->blame.absorbed;
    for (size_t c = 0; c < toy->verdict.count; c++) {
        all += toy->blame.caused[c];
    }
    assert_int_equal(all, toy->blame.total);
    assert_true(toy->verdict.error_share == 0);
}

static void toy_fini(struct toy *toy)
{
    diag_model_fini(&toy->model);
    diag_verdict_fini(&toy->verdict);
    free(toy->blame.caused);
    free(toy->blame.indirect);
}

static rs_dur length_of(const struct toy *toy)
{
    rs_ns ends[STEPS_MOST];
    diag_step_ends(&toy->model, toy->model.graph.seen, ends);
    return ends[toy->model.step_count - 1];
}

static void about(rs_dur value, rs_dur expected)
{
    if (llabs(value - expected) > 10) {
        fail_msg("%lld ns instead of %lld", (long long)value, (long long)expected);
    }
}

static void waiting(const struct toy *toy, rs_dur total, rs_dur design, rs_dur absorbed)
{
    about(toy->blame.total, total * MS);
    about(toy->blame.by_design, design * MS);
    about(toy->blame.absorbed, absorbed * MS);
}

static void each_works(struct toy *toy, uint32_t step, const int *lengths)
{
    for (uint32_t w = 0; w < toy->model.worker_count; w++) {
        works(toy, w, step, lengths[w] * MS);
    }
}

/* ---- the jobs ---------------------------------------------------------------------------- */

static void one_slow_rank_costs_what_the_others_wait(void **state)
{
    struct toy toy;
    (void)state;
    toy_init(&toy, 3, 1);
    each_works(&toy, 0, (const int[]){10, 10, 16});
    (void)meets(&toy, 7, 0, MS);
    each_works(&toy, 0, (const int[]){4, 4, 4});
    (void)is_slow(&toy, DIAG_RANK, 2, 16, 10);
    decide(&toy);
    about(length_of(&toy), 21 * MS);
    assert_int_equal(toy.verdict.worth_count, 1);
    about(toy.verdict.sets[0].cost, 6 * MS);
    waiting(&toy, 12, 0, 0);
    about(toy.blame.caused[0], 12 * MS);
    about(toy.blame.indirect[0], 0);
    toy_fini(&toy);
}

static void two_that_hold_one_group_up_are_one_finding(void **state)
{
    struct toy toy;
    (void)state;
    toy_init(&toy, 4, 1);
    each_works(&toy, 0, (const int[]){10, 16, 16, 10});
    (void)meets(&toy, 15, 0, MS);
    each_works(&toy, 0, (const int[]){4, 4, 4, 4});
    (void)is_slow(&toy, DIAG_RANK, 1, 16, 10);
    (void)is_slow(&toy, DIAG_RANK, 2, 16, 10);
    decide(&toy);
    about(length_of(&toy), 21 * MS);
    assert_int_equal(toy.verdict.worth_count, 1);
    assert_int_equal(toy.verdict.sets[0].count, 2);
    about(toy.verdict.sets[0].cost, 6 * MS);
    waiting(&toy, 12, 0, 0);
    about(toy.blame.caused[0], 12 * MS);
    toy_fini(&toy);
}

static void a_victim_that_comes_last_is_innocent(void **state)
{
    struct toy toy;
    (void)state;
    toy_init(&toy, 3, 1);
    each_works(&toy, 0, (const int[]){16, 10, 12});
    (void)meets(&toy, 3, 0, MS);
    works(&toy, 1, 0, 3 * MS);
    (void)meets(&toy, 6, 0, MS);
    each_works(&toy, 0, (const int[]){2, 2, 2});
    (void)is_slow(&toy, DIAG_RANK, 0, 16, 10);
    decide(&toy);
    about(length_of(&toy), 23 * MS);
    about(toy.verdict.sets[0].cost, 6 * MS);
    waiting(&toy, 14, 2, 0);
    about(toy.blame.caused[0], 12 * MS);
    about(toy.blame.indirect[0], 6 * MS);
    toy_fini(&toy);
}

static void what_nobody_waits_for_is_not_worth_fixing(void **state)
{
    struct toy toy;
    (void)state;
    toy_init(&toy, 3, 1);
    each_works(&toy, 0, (const int[]){12, 10, 20});
    (void)meets(&toy, 3, 0, MS);
    works(&toy, 0, 0, 3 * MS);
    works(&toy, 1, 0, 3 * MS);
    (void)meets(&toy, 7, 0, MS);
    each_works(&toy, 0, (const int[]){2, 2, 2});
    (void)is_slow(&toy, DIAG_RANK, 0, 12, 10);
    decide(&toy);
    about(length_of(&toy), 23 * MS);
    assert_int_equal(toy.verdict.worth_count, 0);
    assert_int_equal(toy.verdict.count, 1);
    about(toy.verdict.sets[0].alone, 0);
    waiting(&toy, 10, 12, -4);
    about(toy.blame.caused[0], 2 * MS);
    toy_fini(&toy);
}

static void a_slow_pair_costs_its_transfer(void **state)
{
    struct toy toy;
    (void)state;
    toy_init(&toy, 4, 1);
    each_works(&toy, 0, (const int[]){10, 10, 10, 10});
    const uint32_t first = meets(&toy, 3, 0, 5 * MS);
    (void)meets(&toy, 12, 0, MS);
    each_works(&toy, 0, (const int[]){3, 3, 3, 3});
    (void)meets(&toy, 15, 0, MS);
    is_unit(&toy, first, 2);
    (void)is_slow(&toy, DIAG_UNIT, 0, 5, 1);
    decide(&toy);
    about(length_of(&toy), 19 * MS);
    about(toy.verdict.sets[0].cost, 4 * MS);
    assert_int_equal(toy.verdict.sets[0].kind, RS_FINDING_SLOW_LINK);
    about(toy.blame.total, 8 * MS);
    about(toy.blame.caused[0], 8 * MS);
    toy_fini(&toy);
}

static void every_second_step_is_charged_over_all(void **state)
{
    struct toy toy;
    double by_step[] = {0, log(1.6), 0, log(1.6)};
    (void)state;
    toy_init(&toy, 3, 4);
    for (uint32_t k = 0; k < 4; k++) {
        memset(toy.position, 0, sizeof toy.position);
        each_works(&toy, k, (const int[]){10, 10, k % 2 ? 16 : 10});
        (void)meets(&toy, 7, k, MS);
    }
    struct diag_element *element = is_slow(&toy, DIAG_RANK, 2, 16, 10);
    element->by_step = by_step;
    element->hits = 2;
    decide(&toy);
    about(length_of(&toy), 56 * MS);
    about(toy.verdict.sets[0].cost, 3 * MS);
    about(toy.blame.total, 24 * MS);
    about(toy.blame.caused[0], 24 * MS);
    toy_fini(&toy);
}

static void one_behind_the_other_are_fixed_in_order(void **state)
{
    struct toy toy;
    (void)state;
    toy_init(&toy, 4, 1);
    each_works(&toy, 0, (const int[]){16, 10, 14, 10});
    (void)meets(&toy, 3, 0, MS);
    (void)meets(&toy, 12, 0, MS);
    (void)meets(&toy, 15, 0, MS);
    (void)is_slow(&toy, DIAG_RANK, 0, 16, 10);
    (void)is_slow(&toy, DIAG_RANK, 2, 14, 10);
    decide(&toy);
    about(length_of(&toy), 18 * MS);
    assert_int_equal(toy.verdict.worth_count, 2);
    about(toy.verdict.sets[0].cost, 2 * MS);
    about(toy.verdict.sets[1].cost, 4 * MS);
    about(toy.blame.total, 14 * MS);
    about(toy.blame.caused[0], 10 * MS);
    about(toy.blame.caused[1], 4 * MS);
    toy_fini(&toy);
}

/* A guessed edge that closes a cycle gives way, the facts stay. */
static void a_cycle_costs_its_youngest_guess(void **state)
{
    struct graph graph = {0};
    uint32_t a, b, c;
    (void)state;
    assert_ok(graph_node(&graph, 5, 0, &a));
    assert_ok(graph_node(&graph, 5, 0, &b));
    assert_ok(graph_node(&graph, 5, 0, &c));
    assert_ok(graph_edge(&graph, a, b));
    assert_ok(graph_edge(&graph, b, c));
    graph_infer(&graph);
    assert_ok(graph_edge(&graph, c, a));
    assert_ok(graph_seal(&graph));
    assert_int_equal(graph.cycles, 1);
    rs_ns times[3];
    graph_replay(&graph, NULL, times);
    assert_int_equal(times[a], 5);
    assert_int_equal(times[c], 5);
    graph_fini(&graph);
}

/* ---- statistics ----------------------------------------------------------------------------- */

/* Four stages of two ranks: what the two of a stage differ by, in parts of their work. */
static double least_p(const double differences[4])
{
    enum { STAGES = 4, STEPS = 6 };
    struct diag_panel *panels[STAGES];
    double least = 1;
    for (size_t stage = 0; stage < STAGES; stage++) {
        assert_ok(diag_panel_new(2, STEPS, &panels[stage]));
        for (size_t step = 0; step < STEPS; step++) {
            const double noise = ((step + stage) % 2 ? 1 : -1) * 0.002;
            panels[stage]->y[step] = noise;
            panels[stage]->y[STEPS + step] = differences[stage] - noise;
        }
    }
    struct diag_pool pool = {.panels = panels, .count = STAGES};
    assert_ok(diag_pool_judge(&pool, 0.005, 1));
    for (size_t stage = 0; stage < STAGES; stage++) {
        least = fmin(least, panels[stage]->p_tau[1]);
        diag_panel_free(&panels[stage]);
    }
    return least;
}

/* One complete step: nobody knows what noise is, and more operators that took no longer accuse nobody. */
static void more_work_that_is_not_slower_is_ordinary(void **state)
{
    (void)state;
    enum { UNITS = 4 };
    struct diag_panel *panel = NULL;
    assert_ok(diag_panel_new(UNITS, 1, &panel));
    for (size_t u = 0; u < UNITS; u++) {
        panel->y[u] = u == 2 ? -0.1 : 0.001 * (double)u;
    }
    panel->has_more_work[2] = 1;
    struct diag_pool pool = {.panels = &panel, .count = 1};
    assert_ok(diag_pool_judge(&pool, 0.005, 1));
    assert_true(pool.dof < 1);
    assert_true(panel->p_tau[2] > 0.5);
    panel->y[2] = 0.003; /* slower, but as ranks are anyway */
    assert_ok(diag_pool_judge(&pool, 0.005, 1));
    assert_true(panel->p_tau[2] > 0.05);
    diag_panel_free(&panel);
}

/* Eight ranks that differ by themselves, one of them slow: all healthy others say how far ranks lie apart, not the faster half alone,
 * which one fast rank makes look wide. */
static void a_slow_rank_is_held_against_all_others(void **state)
{
    (void)state;
    enum { UNITS = 8, STEPS = 4 };
    static const double own[UNITS] = {-0.14, -0.03, -0.02, -0.01, 0, 0.2, 0, 0.01};
    struct diag_panel *panel = NULL;
    assert_ok(diag_panel_new(UNITS, STEPS, &panel));
    for (size_t u = 0; u < UNITS; u++) {
        for (size_t k = 0; k < STEPS; k++) {
            panel->y[u * STEPS + k] = own[u] + ((u + k) % 2 ? 0.001 : -0.001);
        }
    }
    struct diag_pool pool = {.panels = &panel, .count = 1};
    assert_ok(diag_pool_judge(&pool, 0.005, 1));
    assert_true(panel->p_tau[5] < 0.01);
    for (size_t u = 0; u < UNITS; u++) {
        assert_true(u == 5 || panel->p_tau[u] > 0.05);
    }
    diag_panel_free(&panel);
}

/* Of two nobody knows what is ordinary; of four times two one does. */
static void pairs_tell_what_is_ordinary(void **state)
{
    (void)state;
    const double all_differ[4] = {0.03, 0.05, 0.04, 0.045};
    const double one_differs[4] = {0.001, 0.05, 0.002, 0.001};
    const double two_differ[4] = {0.001, 0.2, 0.002, 0.2};
    assert_true(least_p(all_differ) > 0.05);
    assert_true(least_p(one_differs) < 0.01);
    assert_true(least_p(two_differ) < 0.01);
}

static void student_is_the_book_s(void **state)
{
    (void)state;
    assert_true(fabs(diag_t_quantile(0.025, 10) - 2.228139) < 1e-5);
    assert_true(fabs(diag_t_quantile(0.005, 3) - 5.840909) < 1e-5);
    assert_true(fabs(diag_t_above(1.96, 1e6) - 0.024998) < 1e-5);
    assert_true(fabs(diag_t_above(-1, 5) + diag_t_above(1, 5) - 1) < 1e-12);
    assert_true(fabs(diag_faster_half(2).mean + 0.5642) < 0.003);
}

/* A node that nothing precedes has no work of which all that there is would be known: a step does not take 36 years. */
static void behind_nothing_nothing_is_known(void **state)
{
    (void)state;
    struct graph graph = {0};
    uint32_t first, next;
    rs_ns times[2];
    assert_ok(graph_node(&graph, 500, 0, &first));
    assert_ok(graph_node(&graph, 700, 0, &next));
    assert_ok(graph_edge(&graph, first, next));
    graph.work[first] = graph.work[next] = GRAPH_ALL_THERE_IS;
    assert_ok(graph_seal(&graph));
    assert_int_equal(graph.work[first], 0);
    assert_int_equal(graph.work[next], 200);
    graph_replay(&graph, NULL, times);
    assert_int_equal(times[first], 500);
    assert_int_equal(times[next], 700);
    graph_fini(&graph);
}

/* The last of three stages runs 165 kernels, the others 161. What it takes longer in every step it has to do; a pause in every third one is no
 * more work. */
static void what_comes_every_third_step_is_no_more_work(void **state)
{
    enum { STAGES = 3, STEPS = 9 };
    static const size_t every[] = {1, 3};
    (void)state;
    for (size_t e = 0; e < sizeof every / sizeof *every; e++) {
        struct diag_worker workers[STAGES] = {{.class_id = 0}, {.class_id = 1}, {.class_id = 2}};
        double total[STAGES * STEPS], kernels[STAGES] = {161, 161, 165};
        for (size_t at = 0; at < STAGES * STEPS; at++) {
            const bool is_longer = at / STEPS == 2 && at % STEPS % every[e] == 0;
            total[at] = log(is_longer ? 300e6 : 200e6);
        }
        const struct diag_model model = {
            .workers = workers, .worker_count = STAGES, .class_count = STAGES, .step_count = STEPS};
        uint8_t is_compared[STAGES] = {1, 1, 1};
        const struct diag_stages stages = {
            .total = total, .kernels = kernels, .is_compared = is_compared};
        struct diag_effects effects = {0};
        assert_ok(diag_stages_heavier(&model, &stages, &effects));
        assert_int_equal(effects.heavier.among_count, every[e] == 1 ? 1 : 0);
        diag_effects_fini(&effects);
    }
}

/* Each of twenty is slow in a step of its own: what each caused is known of all of them, however many there are. */
static void many_causes_have_their_parts_all_the_same(void **state)
{
    enum { MANY = 20 };
    struct toy toy;
    struct diag_set sets[MANY] = {{0}};
    size_t members[MANY];
    (void)state;
    toy_init(&toy, MANY + 1, MANY);
    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t w = 0; w <= MANY; w++) {
            works(&toy, w, k, (w == k ? 16 : 10) * MS);
        }
        (void)meets(&toy, (1u << (MANY + 1)) - 1, k, MS);
        is_slow(&toy, DIAG_RANK, k, 16, 10)->position = k;
        members[k] = k;
        sets[k] = (struct diag_set){.members = &members[k], .count = 1};
    }
    assert_ok(graph_seal(&toy.model.graph));
    assert_ok(diag_model_finish(&toy.model));
    const struct diag_verdict verdict = {.sets = sets, .count = MANY};
    assert_ok(diag_blame_waits(&toy.model, &toy.effects, &verdict, &toy.blame));
    about(toy.blame.total, (rs_dur)MANY * MANY * 6 * MS);
    about(toy.blame.absorbed, 0);
    for (size_t c = 0; c < MANY; c++) {
        about(toy.blame.caused[c], MANY * 6 * MS);
        about(toy.blame.indirect[c], 0);
    }
    toy_fini(&toy);
}

/* Ranks that run programs of their own, as far as was recorded, are stages only where messages pass between them. */
static void without_messages_there_is_no_stage(void **state)
{
    (void)state;
    for (int has_messages = 0; has_messages < 2; has_messages++) {
        struct toy toy;
        toy_init(&toy, 3, 1);
        toy.model.class_count = 3;
        for (uint32_t w = 0; w < 3; w++) {
            toy.model.workers[w].class_id = w;
            toy.model.workers[w].stage = has_messages ? (int32_t)w : -1;
        }
        each_works(&toy, 0, (const int[]){10, 10, 16});
        (void)meets(&toy, 7, 0, MS);
        (void)is_slow(&toy, DIAG_STAGE, 2, 16, 10);
        decide(&toy);
        assert_int_equal(toy.verdict.worth_count, 1);
        assert_int_equal(toy.verdict.sets[0].kind,
                         has_messages ? RS_FINDING_SLOW_STAGE : RS_FINDING_SLOW_RANK);
        about(toy.verdict.sets[0].cost, 6 * MS);
        toy_fini(&toy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_nothing_nothing_is_known),
        cmocka_unit_test(one_slow_rank_costs_what_the_others_wait),
        cmocka_unit_test(two_that_hold_one_group_up_are_one_finding),
        cmocka_unit_test(a_victim_that_comes_last_is_innocent),
        cmocka_unit_test(what_nobody_waits_for_is_not_worth_fixing),
        cmocka_unit_test(a_slow_pair_costs_its_transfer),
        cmocka_unit_test(every_second_step_is_charged_over_all),
        cmocka_unit_test(one_behind_the_other_are_fixed_in_order),
        cmocka_unit_test(a_cycle_costs_its_youngest_guess),
        cmocka_unit_test(a_slow_rank_is_held_against_all_others),
        cmocka_unit_test(more_work_that_is_not_slower_is_ordinary),
        cmocka_unit_test(pairs_tell_what_is_ordinary),
        cmocka_unit_test(student_is_the_book_s),
        cmocka_unit_test(what_comes_every_third_step_is_no_more_work),
        cmocka_unit_test(without_messages_there_is_no_stage),
        cmocka_unit_test(many_causes_have_their_parts_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
