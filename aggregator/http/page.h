/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the page, as the build made them of dashboards/web; none where the build had no npm. */
#ifndef RS_AGGREGATOR_PAGE_H
#define RS_AGGREGATOR_PAGE_H

#include <stddef.h>

struct page_file {
    const char *path; /* "/index.html"; NULL ends the table */
    const unsigned char *data;
    size_t size;
};
extern const struct page_file page_files[];

/* The digest of the script that report.html has (base64); "": it has none. */
extern const char page_report_sha256[];

#endif
