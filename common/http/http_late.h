/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd and GnuTLS, opened when the first address is served (common/base/late.h says why).
 *
 *     ..._LATE_FUNCTIONS   each function that is called, once
 *     #define              the same names, so that a call reads as everywhere; one that is missing above does not compile, one that is
 *                          missing here does not link
 *
 * Include it behind the libraries' own headers. Before http_late_open() nothing here may be called: rs_http_start() is the first.
 */
#ifndef RS_HTTP_LATE_H
#define RS_HTTP_LATE_H

#include "common/base/err.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>

/* clang-format off */
#define MHD_LATE_FUNCTIONS \
    X(MHD_add_response_header) \
    X(MHD_create_response_from_buffer) \
    X(MHD_create_response_from_buffer_with_free_callback) \
    X(MHD_create_response_from_callback) \
    X(MHD_destroy_response) \
    X(MHD_get_connection_info) \
    X(MHD_lookup_connection_value) \
    X(MHD_queue_response) \
    X(MHD_start_daemon) \
    X(MHD_stop_daemon)

#define GNUTLS_LATE_FUNCTIONS \
    X(gnutls_certificate_get_peers) \
    X(gnutls_certificate_verify_peers2) \
    X(gnutls_free) \
    X(gnutls_pcert_deinit) \
    X(gnutls_pcert_list_import_x509_raw) \
    X(gnutls_pem_base64_encode2) \
    X(gnutls_privkey_deinit) \
    X(gnutls_privkey_import_x509_raw) \
    X(gnutls_privkey_init) \
    X(gnutls_x509_crt_check_key_purpose) \
    X(gnutls_x509_crt_deinit) \
    X(gnutls_x509_crt_import) \
    X(gnutls_x509_crt_init)
/* clang-format on */

struct mhd_late {
#define X(name) __typeof__(&name) name;
    MHD_LATE_FUNCTIONS
#undef X
};

struct gnutls_late {
#define X(name) __typeof__(&name) name;
    GNUTLS_LATE_FUNCTIONS
#undef X
};

extern struct mhd_late mhd_late;
extern struct gnutls_late gnutls_late;

/* Opens both and finds the functions; again: nothing. RS_IO: one is not there, or another version. Any thread. */
RS_MUST_CHECK enum rs_status http_late_open(struct rs_err *err);

/* clang-format off */
#define MHD_add_response_header mhd_late.MHD_add_response_header
#define MHD_create_response_from_buffer mhd_late.MHD_create_response_from_buffer
#define MHD_create_response_from_buffer_with_free_callback mhd_late.MHD_create_response_from_buffer_with_free_callback
#define MHD_create_response_from_callback mhd_late.MHD_create_response_from_callback
#define MHD_destroy_response mhd_late.MHD_destroy_response
#define MHD_get_connection_info mhd_late.MHD_get_connection_info
#define MHD_lookup_connection_value mhd_late.MHD_lookup_connection_value
#define MHD_queue_response mhd_late.MHD_queue_response
#define MHD_start_daemon mhd_late.MHD_start_daemon
#define MHD_stop_daemon mhd_late.MHD_stop_daemon
#define gnutls_certificate_get_peers gnutls_late.gnutls_certificate_get_peers
#define gnutls_certificate_verify_peers2 gnutls_late.gnutls_certificate_verify_peers2
#define gnutls_free (*gnutls_late.gnutls_free) /* a variable of the library */
#define gnutls_pcert_deinit gnutls_late.gnutls_pcert_deinit
#define gnutls_pcert_list_import_x509_raw gnutls_late.gnutls_pcert_list_import_x509_raw
#define gnutls_pem_base64_encode2 gnutls_late.gnutls_pem_base64_encode2
#define gnutls_privkey_deinit gnutls_late.gnutls_privkey_deinit
#define gnutls_privkey_import_x509_raw gnutls_late.gnutls_privkey_import_x509_raw
#define gnutls_privkey_init gnutls_late.gnutls_privkey_init
#define gnutls_x509_crt_check_key_purpose gnutls_late.gnutls_x509_crt_check_key_purpose
#define gnutls_x509_crt_deinit gnutls_late.gnutls_x509_crt_deinit
#define gnutls_x509_crt_import gnutls_late.gnutls_x509_crt_import
#define gnutls_x509_crt_init gnutls_late.gnutls_x509_crt_init
/* clang-format on */

#endif
