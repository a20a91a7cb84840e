/* SPDX-License-Identifier: Apache-2.0 */
/* Units of one capture, each once, with a digest of what is in it. Inside the room; of one thread. A zeroed one is empty. */
#ifndef RS_STORE_ROW_UNIT_SET_H
#define RS_STORE_ROW_UNIT_SET_H

#include "aggregator/store/row_store.h"
#include "common/base/slots.h"

struct unit_digest {
    uint64_t low, high; /* both 0: of nothing */
};

struct unit_item {
    int64_t kind, a, b;
    struct unit_digest digest;
};

struct unit_set {
    struct unit_item *items;
    size_t count, capacity;
    struct rs_slots slots;
};

/* Lends it until the next put; NULL: it is not in it. */
struct unit_item *unit_set_find(const struct unit_set *set, int64_t kind, int64_t a, int64_t b);
/* It is in it afterwards, with this digest. RS_NOMEM. */
RS_MUST_CHECK enum rs_status unit_set_put(struct unit_set *set, const struct rs_unit *unit,
                                          struct unit_digest digest);
void unit_set_fini(struct unit_set *set); /* empty again */

#endif
