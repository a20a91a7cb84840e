/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What S3 answers in XML, as texts by the path of their element: "Contents/Key". libexpat reads; a document that is not
 * well-formed, deeper than 8 elements, or with a text of more than 4 KiB is refused, and so are entities of its own.
 */
#ifndef RS_ARCHIVE_XML_H
#define RS_ARCHIVE_XML_H

#include "common/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* `path` is that of the element without the root's name. Called when an element ends: for one that holds others with what stands
 * between them, so mostly "". False: that is enough. */
typedef bool rs_xml_visit(void *self, const char *path, const char *text);

/* RS_FORMAT, RS_NOMEM. */
RS_MUST_CHECK enum rs_status rs_xml_read(const void *data, size_t length, rs_xml_visit *visit,
                                         void *self, struct rs_err *err);

#endif
