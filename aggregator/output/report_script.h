/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The script of report.html (dashboards/web/src/report.ts), as the build made it; none where the build had no npm. It stands inside the
 * file, which allows this one script alone, by its digest. Inside the room.
 */
#ifndef RS_OUTPUT_REPORT_SCRIPT_H
#define RS_OUTPUT_REPORT_SCRIPT_H

#include <stddef.h>

struct report_script {
    const unsigned char *data; /* ASCII; ends no element; NULL: there is none */
    size_t size;
    const char *sha256; /* base64 */
};
extern const struct report_script report_script;

#endif
