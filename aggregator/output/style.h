/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a report looks on the stream it goes to: the caller knows the terminal.
 */
#ifndef RS_OUTPUT_STYLE_H
#define RS_OUTPUT_STYLE_H

#include <stdbool.h>

struct rs_output_style {
    unsigned width; /* columns, 60..100 */
    bool has_colour;
    bool has_utf8;
};

#endif
