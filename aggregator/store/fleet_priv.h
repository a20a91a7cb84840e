/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the room: what the database answers, as fleet.c reads it. */
#ifndef RS_STORE_FLEET_PRIV_H
#define RS_STORE_FLEET_PRIV_H

#include "aggregator/store/fleet.h"

/* Lines of the columns of fleet.c's SELECT, by tabs, one for each process; ended with a zero. Of an id that lives all processes that do, of
 * another the newest. Lines that are no aggregator's are left out. RS_FORMAT: they have other columns. RS_NOMEM. */
RS_MUST_CHECK enum rs_status fleet_take(const char *lines, struct rs_fleet_list *list,
                                        struct rs_err *err);

#endif
