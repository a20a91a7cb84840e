/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of effects*.c share: who stands out of the panels of one recording. Inside the room.
 */
#ifndef RS_DIAGNOSE_EFFECTS_PRIV_H
#define RS_DIAGNOSE_EFFECTS_PRIV_H

#include "aggregator/analysis/diagnose/diagnose_priv.h"

/* Work of one class as a table. */
struct table {
    size_t n, positions;
    uint32_t *workers; /* [n] */
    double *work;      /* [n][steps][positions]; NAN: not seen */
    double *level;     /* [positions] of the healthy, over steps */
    double *kernels;   /* mean per step of the class; 0 unknown */
};

struct finder {
    const struct diag_model *model;
    struct diag_effects *effects;
    struct table *tables;     /* [class] computing */
    uint32_t *member;         /* [worker] its index in its class's table */
    struct diag_panel **logs; /* [class] NULL: not judged */
    struct diag_panel **totals;
    struct diag_panel **heads;
    struct diag_panel **idles;
    struct diag_panel **links; /* [panel of units] */
    double *relative;          /* [move] */
    struct diag_panel *stages;
    struct diag_stages stage_work;
    struct diag_pool log_pool, total_pool, head_pool, idle_pool, stage_pool, *link_pools;
    double tests;
    double step_ns;
    double *scratch;
    size_t load_at;         /* the first load of the class that is next */
    uint8_t *is_slow;       /* [worker] named for its work: not part of a level */
    uint8_t *has_slow_host; /* [worker] named for what passes on its host: no measure for others */
    bool shares_cores;      /* ranks without a device: see effects_cores.c */
    double *operators, *peers_operators; /* [worker] per step, where it runs more; 0 else */
};

static inline double effect_cell(const struct table *table, size_t steps, size_t m, size_t k,
                                 size_t p)
{
    return table->work[(m * steps + k) * table->positions + p];
}

/* Hits of one pool: see effects_hits.c. */
struct hits {
    size_t n; /* members of all panels of the pool */
    uint8_t *is_hit;
    double *z;
    uint32_t *counts, *id;
    struct diag_panel **panel;
    size_t *member;
    uint8_t *is_lasting; /* [n] by Student's t */
    uint8_t *is_steady;  /* [n] lasting, or hit in every step: no hits that fall at random */
    uint32_t *
        reached; /* [steps + 1] draws in which some member collected so many; NULL: none was made yet */
};

/* effects_panels.c */
RS_MUST_CHECK enum rs_status effect_tables_make(struct finder *finder);
RS_MUST_CHECK enum rs_status effect_class_panel(struct finder *finder, size_t c);
RS_MUST_CHECK enum rs_status effect_head_panel(struct finder *finder, size_t c);
RS_MUST_CHECK enum rs_status effect_idle_panel(struct finder *finder, size_t c);
RS_MUST_CHECK enum rs_status effect_stage_panel(struct finder *finder);

/* effects_lost.c: the panels logs and totals of what is known, where rows were lost */
RS_MUST_CHECK enum rs_status effect_lost_panels(const struct finder *finder, size_t c);

/* effects_loads.c: what larger loads take goes out of the class's table. Before its panels. */
RS_MUST_CHECK enum rs_status effect_take_loads(struct finder *finder, size_t c);

/* effects_links.c */
RS_MUST_CHECK enum rs_status effect_link_panels(struct finder *finder);

/* effects_hits.c */
void effect_hits_fini(struct hits *hits);
RS_MUST_CHECK enum rs_status effect_hits_init(struct finder *finder, const struct diag_pool *pool,
                                              struct hits *hits);
/* Median of the `half` smallest of the sorted values without the member's own, y, which is among them. NAN: there is none. */
double effect_median_of_others(const double *sorted, size_t known, double y, size_t half);
/* Of z beyond the limit: hits, first, period and phase, began. */
void effect_find_period(const double *z, size_t steps, double limit, struct diag_element *element);
/* Chance that as many steps, chosen at random, are as regular; that random pauses are so equally long. */
double effect_regularity(const struct diag_element *element, size_t steps);
double effect_likeness(const double *z, const uint8_t *is_hit, size_t steps);
/* Of a figure in ns: chance that some member is hit in every step where hits fall on members as often as on those that are not. 0: this
 * one is not hit in every step. */
double effect_chance_of_all(const struct hits *hits, size_t at, size_t steps);
bool effect_is_intermittent(const double *z, const uint8_t *is_hit, size_t steps);
RS_MUST_CHECK enum rs_status effect_name_intermittent(struct finder *finder,
                                                      const struct diag_pool *pool,
                                                      struct hits *hits, enum diag_what what,
                                                      size_t at);
RS_MUST_CHECK enum rs_status effect_add_jitter(struct finder *finder, struct hits *hits,
                                               enum diag_what what);

/* effects_name.c */
RS_MUST_CHECK enum rs_status effect_element_new(struct finder *finder,
                                                const struct diag_panel *panel, size_t m,
                                                enum diag_what what,
                                                struct diag_element **element_p);
double effect_p_of(const struct finder *finder, const struct diag_panel *panel, size_t m);
void effect_set_test(const struct finder *finder, const struct diag_pool *pool,
                     const struct diag_panel *panel, size_t m, struct diag_element *element);
RS_MUST_CHECK enum rs_status effect_name_members(struct finder *finder,
                                                 const struct diag_pool *pool, enum diag_what what);
RS_MUST_CHECK enum rs_status effect_name_stages(struct finder *finder);
RS_MUST_CHECK enum rs_status effect_name_links(struct finder *finder);

/* effects_alone.c */
RS_MUST_CHECK enum rs_status effect_name_alone(struct finder *finder, enum diag_what what);

/* effects_cores.c */
/* Does what the member has above its peers stand in almost all steps? */
RS_MUST_CHECK enum rs_status effect_stands_throughout(const struct diag_panel *panel, size_t m,
                                                      bool *stands_p);
RS_MUST_CHECK enum rs_status effect_name_beat(struct finder *finder, const struct diag_pool *pool,
                                              struct hits *hits, enum diag_what what, size_t at,
                                              bool *is_named_p);
/* The jitter of these ranks, of a figure in ns. */
RS_MUST_CHECK enum rs_status effect_add_pauses(struct finder *finder, const struct hits *hits,
                                               enum diag_what what);
RS_MUST_CHECK enum rs_status effect_find_operators(struct finder *finder, size_t c);

/* effects_evidence.c */
RS_MUST_CHECK enum rs_status effect_finish_elements(struct finder *finder);

#endif
