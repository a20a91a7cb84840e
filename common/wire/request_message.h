/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A capture request as a message, and back. The message has every member; a test holds it against
 * rs_request_member().
 */
#ifndef RS_WIRE_REQUEST_MESSAGE_H
#define RS_WIRE_REQUEST_MESSAGE_H

#include "common/base/err.h"
#include "common/request/request.h"
#include "proto/rankscope.pb-c.h"

/* The message lends the request's texts and lists: it is for packing while the request stands still, and only read.
 * RS_NOMEM. Freed by rs_request_message_free(), never by protobuf-c. */
RS_MUST_CHECK enum rs_status rs_request_to_message(const struct rs_capture_request *request,
                                                   Rankscope__CaptureRequest **message_p,
                                                   struct rs_err *err);
void rs_request_message_free(Rankscope__CaptureRequest **message_p);

/* A peer's message: copies what it holds. RS_INVALID names the member that is none; `request` is zeroed then, and
 * so it is on RS_NOMEM. What is merely forbidden comes through: rs_request_check() lists it. */
RS_MUST_CHECK enum rs_status rs_request_from_message(const Rankscope__CaptureRequest *message,
                                                     struct rs_capture_request *request,
                                                     struct rs_err *err);

#endif
