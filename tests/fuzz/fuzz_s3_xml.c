/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as what an archive answers in XML: paths and texts are within their bounds, whatever it says. */
#include "aggregator/archive/xml.h"
#include "common/base/check.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool visit(void *self, const char *path, const char *text)
{
    size_t *left_p = self;
    RS_CHECK(*path && strlen(path) < 512 && strlen(text) < 4096);
    return (*left_p)-- > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rs_err err = {0};
    size_t left = size ? data[size - 1] : 0; /* some visitors have enough early */
    const enum rs_status status = rs_xml_read(data, size, visit, &left, &err);
    RS_CHECK(status == RS_OK || (status == RS_FORMAT && *err.text));
    return 0;
}
