/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result directories of MindSpore (*_ascend_ms) as a source. They are written by the same CANN as torch_npu's and read by
 * the same readers; what differs is told in mindspore.c.
 */
#ifndef RS_SOURCE_MINDSPORE_H
#define RS_SOURCE_MINDSPORE_H

#include "ascend/format/format.h"
#include "collector/source/source.h"

/* As rs_ascend_read(). */
RS_MUST_CHECK enum rs_status rs_mindspore_read(const struct rs_ascend_rank *rank, unsigned flags,
                                               struct rs_source_stream *stream, struct rs_sink sink,
                                               struct rs_err *err);

#endif
