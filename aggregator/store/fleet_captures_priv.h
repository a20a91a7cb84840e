/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the room: rows of the catalogue as bytes, in the order of fleet_captures.c's columns. */
#ifndef RS_STORE_FLEET_CAPTURES_PRIV_H
#define RS_STORE_FLEET_CAPTURES_PRIV_H

#include "aggregator/store/fleet_captures.h"

/* Appends a row. */
void fleet_captures_put(const struct rs_fleet_capture *capture, struct rs_buf *buf);
/* The rows in `bytes`, which they lend from and which is changed. RS_FORMAT: they are none, or end within one; RS_NOMEM. */
RS_MUST_CHECK enum rs_status fleet_captures_take(struct rs_fleet_captures *captures,
                                                 struct rs_err *err);

#endif
