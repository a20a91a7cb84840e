/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, opened when the first of its objects is made.
 *
 * It brings LDAP, Kerberos, SSH and their libraries along, some thirty shared objects. The functions that Rankscope calls are defined
 * here under their own names and call those of the library (curl_late.c), so that a call reads, and is checked by the compiler, as
 * everywhere. One that is called for the first time has to be added there, else it does not link.
 *
 * Where the library cannot be opened, curl_easy_init(), curl_multi_init(), curl_url() and curl_slist_append() return NULL and
 * curl_global_init() CURLE_FAILED_INIT, as they do without memory; the log says once why.
 */
#ifndef RS_CURL_CURL_H
#define RS_CURL_CURL_H

#include <curl/curl.h>

/* The library's versions differ in whether the URL is const: this fits all. */
CURLUcode rs_curl_url_get(CURLU *url, CURLUPart part, char **text_p, unsigned flags);
#define curl_url_get rs_curl_url_get

#endif
