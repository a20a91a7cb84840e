/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the room: who asks the place for something else than rows of a capture (fleet_captures.c). */
#ifndef RS_STORE_ROW_PLACE_PRIV_H
#define RS_STORE_ROW_PLACE_PRIV_H

#include "aggregator/store/clickhouse_http.h"
#include "aggregator/store/row_place.h"

/* Calls `use` with a link, unless the place is away: RS_UNREACHABLE then, as when it cannot be reached now. Any other failure of `use` is its
 * own, and says nothing of the place. */
RS_MUST_CHECK enum rs_status
row_place_use(struct rs_row_place *place,
              enum rs_status (*use)(void *self, struct clickhouse_link *link, struct rs_err *err),
              void *self, struct rs_err *err);

#endif
