/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC, opened when the first loop is made.
 *
 * gRPC brings some sixty shared objects along (common/base/late.h says why that matters); what link_grpc.c calls are pointers
 * that grpc_late_open() fills.
 *
 *     GRPC_LATE_FUNCTIONS   each function that is called, once
 *     #define               the same names, so that a call reads as everywhere; one that is missing above does not compile, one that is
 *                           missing here does not link
 *
 * Include it behind gRPC's own headers. Before grpc_late_open() nothing here may be called: rs_grpc_loop_new() is the first.
 */
#ifndef RS_WIRE_GRPC_LATE_H
#define RS_WIRE_GRPC_LATE_H

#include "common/base/err.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

/* clang-format off */
#define GRPC_LATE_FUNCTIONS \
    X(gpr_free) \
    X(gpr_inf_future) \
    X(gpr_inf_past) \
    X(gpr_now) \
    X(gpr_set_log_function) \
    X(gpr_time_add) \
    X(gpr_time_from_nanos) \
    X(grpc_auth_context_find_properties_by_name) \
    X(grpc_auth_context_release) \
    X(grpc_auth_property_iterator_next) \
    X(grpc_byte_buffer_destroy) \
    X(grpc_call_auth_context) \
    X(grpc_call_cancel) \
    X(grpc_call_details_destroy) \
    X(grpc_call_details_init) \
    X(grpc_call_error_to_string) \
    X(grpc_call_get_peer) \
    X(grpc_call_start_batch) \
    X(grpc_call_unref) \
    X(grpc_channel_create) \
    X(grpc_channel_create_call) \
    X(grpc_channel_credentials_release) \
    X(grpc_channel_destroy) \
    X(grpc_completion_queue_create_for_next) \
    X(grpc_completion_queue_destroy) \
    X(grpc_completion_queue_next) \
    X(grpc_completion_queue_shutdown) \
    X(grpc_empty_slice) \
    X(grpc_init) \
    X(grpc_insecure_credentials_create) \
    X(grpc_insecure_server_credentials_create) \
    X(grpc_is_initialized) \
    X(grpc_lame_client_channel_create) \
    X(grpc_metadata_array_destroy) \
    X(grpc_metadata_array_init) \
    X(grpc_raw_byte_buffer_create) \
    X(grpc_server_add_channel_from_fd) \
    X(grpc_server_add_http2_port) \
    X(grpc_server_cancel_all_calls) \
    X(grpc_server_create) \
    X(grpc_server_credentials_release) \
    X(grpc_server_destroy) \
    X(grpc_server_register_completion_queue) \
    X(grpc_server_register_method) \
    X(grpc_server_request_call) \
    X(grpc_server_request_registered_call) \
    X(grpc_server_shutdown_and_notify) \
    X(grpc_server_start) \
    X(grpc_shutdown) \
    X(grpc_slice_from_copied_buffer) \
    X(grpc_slice_from_copied_string) \
    X(grpc_slice_from_static_string) \
    X(grpc_slice_unref) \
    X(grpc_ssl_credentials_create_ex) \
    X(grpc_ssl_server_certificate_config_create) \
    X(grpc_ssl_server_credentials_create_options_using_config_fetcher) \
    X(grpc_ssl_server_credentials_create_with_options)
/* clang-format on */

struct grpc_late {
#define X(name) __typeof__(&name) name;
    GRPC_LATE_FUNCTIONS
#undef X
};
extern struct grpc_late grpc_late;

/* Opens the library and finds the functions; again: nothing. RS_IO: it is not there, or another version. Any thread. */
RS_MUST_CHECK enum rs_status grpc_late_open(struct rs_err *err);

/* clang-format off */
#define gpr_free grpc_late.gpr_free
#define gpr_inf_future grpc_late.gpr_inf_future
#define gpr_inf_past grpc_late.gpr_inf_past
#define gpr_now grpc_late.gpr_now
#define gpr_set_log_function grpc_late.gpr_set_log_function
#define gpr_time_add grpc_late.gpr_time_add
#define gpr_time_from_nanos grpc_late.gpr_time_from_nanos
#define grpc_auth_context_find_properties_by_name grpc_late.grpc_auth_context_find_properties_by_name
#define grpc_auth_context_release grpc_late.grpc_auth_context_release
#define grpc_auth_property_iterator_next grpc_late.grpc_auth_property_iterator_next
#define grpc_byte_buffer_destroy grpc_late.grpc_byte_buffer_destroy
#define grpc_call_auth_context grpc_late.grpc_call_auth_context
#define grpc_call_cancel grpc_late.grpc_call_cancel
#define grpc_call_details_destroy grpc_late.grpc_call_details_destroy
#define grpc_call_details_init grpc_late.grpc_call_details_init
#define grpc_call_error_to_string grpc_late.grpc_call_error_to_string
#define grpc_call_get_peer grpc_late.grpc_call_get_peer
#define grpc_call_start_batch grpc_late.grpc_call_start_batch
#define grpc_call_unref grpc_late.grpc_call_unref
#define grpc_channel_create grpc_late.grpc_channel_create
#define grpc_channel_create_call grpc_late.grpc_channel_create_call
#define grpc_channel_credentials_release grpc_late.grpc_channel_credentials_release
#define grpc_channel_destroy grpc_late.grpc_channel_destroy
#define grpc_completion_queue_create_for_next grpc_late.grpc_completion_queue_create_for_next
#define grpc_completion_queue_destroy grpc_late.grpc_completion_queue_destroy
#define grpc_completion_queue_next grpc_late.grpc_completion_queue_next
#define grpc_completion_queue_shutdown grpc_late.grpc_completion_queue_shutdown
#define grpc_empty_slice grpc_late.grpc_empty_slice
#define grpc_init grpc_late.grpc_init
#define grpc_insecure_credentials_create grpc_late.grpc_insecure_credentials_create
#define grpc_insecure_server_credentials_create grpc_late.grpc_insecure_server_credentials_create
#define grpc_is_initialized grpc_late.grpc_is_initialized
#define grpc_lame_client_channel_create grpc_late.grpc_lame_client_channel_create
#define grpc_metadata_array_destroy grpc_late.grpc_metadata_array_destroy
#define grpc_metadata_array_init grpc_late.grpc_metadata_array_init
#define grpc_raw_byte_buffer_create grpc_late.grpc_raw_byte_buffer_create
#define grpc_server_add_channel_from_fd grpc_late.grpc_server_add_channel_from_fd
#define grpc_server_add_http2_port grpc_late.grpc_server_add_http2_port
#define grpc_server_cancel_all_calls grpc_late.grpc_server_cancel_all_calls
#define grpc_server_create grpc_late.grpc_server_create
#define grpc_server_credentials_release grpc_late.grpc_server_credentials_release
#define grpc_server_destroy grpc_late.grpc_server_destroy
#define grpc_server_register_completion_queue grpc_late.grpc_server_register_completion_queue
#define grpc_server_register_method grpc_late.grpc_server_register_method
#define grpc_server_request_call grpc_late.grpc_server_request_call
#define grpc_server_request_registered_call grpc_late.grpc_server_request_registered_call
#define grpc_server_shutdown_and_notify grpc_late.grpc_server_shutdown_and_notify
#define grpc_server_start grpc_late.grpc_server_start
#define grpc_shutdown grpc_late.grpc_shutdown
#define grpc_slice_from_copied_buffer grpc_late.grpc_slice_from_copied_buffer
#define grpc_slice_from_copied_string grpc_late.grpc_slice_from_copied_string
#define grpc_slice_from_static_string grpc_late.grpc_slice_from_static_string
#define grpc_slice_unref grpc_late.grpc_slice_unref
#define grpc_ssl_credentials_create_ex grpc_late.grpc_ssl_credentials_create_ex
#define grpc_ssl_server_certificate_config_create grpc_late.grpc_ssl_server_certificate_config_create
#define grpc_ssl_server_credentials_create_options_using_config_fetcher grpc_late.grpc_ssl_server_credentials_create_options_using_config_fetcher
#define grpc_ssl_server_credentials_create_with_options grpc_late.grpc_ssl_server_credentials_create_with_options
/* clang-format on */

#endif
