/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates, ratios, and numbers for people; exact decimals are the model's. Inside the room.
 */
#ifndef RS_OUTPUT_UNITS_H
#define RS_OUTPUT_UNITS_H

#include "aggregator/model/columns.h"
#include "common/base/time.h"

#include <stdint.h>

enum { UNIT_TEXT_BYTES = RS_UNIT_TEXT_BYTES };

/* Rounded to four decimals, zeros cut: bytes over time in 10^9 bytes/s; a fraction. */
void unit_gb_per_s(char text[UNIT_TEXT_BYTES], int64_t bytes, rs_dur time);
void unit_ratio(char text[UNIT_TEXT_BYTES], rs_dur part,
                rs_dur rest); /* part / (part + rest), 0 of 0 is 0 */

/* For people: three digits and the unit that fits ("12.3 ms", "1.20 GB"). */
void unit_people_time(char text[UNIT_TEXT_BYTES], int64_t ns);
void unit_people_bytes(char text[UNIT_TEXT_BYTES], int64_t bytes);
void unit_people_rate(char text[UNIT_TEXT_BYTES], double bytes_per_s); /* GB/s */

#endif
