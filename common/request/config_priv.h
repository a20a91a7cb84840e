/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of profiler_config.json, for those who read, write and edit it.
 */
#ifndef RS_REQUEST_CONFIG_PRIV_H
#define RS_REQUEST_CONFIG_PRIV_H

#include "common/request/request_priv.h"

struct config_key {
    const char *group; /* "experimental_config"; "" none; NULL behind the last */
    const char *name;
    size_t field;    /* MindSpore's stop_step: F_ACTIVE */
    bool is_printed; /* in the documented template */
};

/* In documented order; the last has no name. */
const struct config_key *config_keys(enum rs_config_framework framework);
/* NULL: there is none. */
const struct config_key *config_key_find(enum rs_config_framework framework, const char *group,
                                         const char *name);
/* What MindSpore's number for profiler_level or aic_metrics means; NULL: nothing. */
const char *config_numbered_name(size_t field, json_int_t number);

#endif
