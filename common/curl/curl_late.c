/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     curl_easy_init() of the program --> is_open(): rs_late_open() once --> curl_easy_init() of the library
 *
 * Only what makes an object opens the library. What takes an object was given one, so the library is open; without one it has nothing to
 * do, and the library is not opened for that.
 */
#include "common/base/late.h"
#include "common/curl/curl.h"
#define RS_LOG_TAG "curl"
#include "common/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>

/* Their types are checked where they are called; here the functions themselves are meant. */
#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_url_get

/* clang-format off */
#define CURL_LATE_FUNCTIONS \
    X(curl_easy_cleanup) \
    X(curl_easy_escape) \
    X(curl_easy_getinfo) \
    X(curl_easy_init) \
    X(curl_easy_perform) \
    X(curl_easy_reset) \
    X(curl_easy_setopt) \
    X(curl_easy_strerror) \
    X(curl_free) \
    X(curl_global_init) \
    X(curl_multi_add_handle) \
    X(curl_multi_cleanup) \
    X(curl_multi_info_read) \
    X(curl_multi_init) \
    X(curl_multi_perform) \
    X(curl_multi_poll) \
    X(curl_multi_remove_handle) \
    X(curl_slist_append) \
    X(curl_slist_free_all) \
    X(curl_url) \
    X(curl_url_cleanup) \
    X(curl_url_get) \
    X(curl_url_set)
/* clang-format on */

static struct {
#define X(name) __typeof__(&name) name;
    CURL_LATE_FUNCTIONS
#undef X
} late;

static const char *const names[] = {
#define X(name) #name,
    CURL_LATE_FUNCTIONS
#undef X
};
enum { COUNT = sizeof names / sizeof names[0] };
_Static_assert(sizeof late == COUNT * sizeof(void *),
               "pointers to functions, one behind the other");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool was_opened; /* behind `once` */

static void open_library(void)
{
    struct rs_err err = {0};
    was_opened = rs_late_open(RS_CURL_LIBRARY, names, COUNT, &late, &err) == RS_OK;
    if (!was_opened)
        rs_log_error("%s; install the package that has it (Debian: libcurl4)", err.text);
}

static bool is_open(void)
{
    (void)pthread_once(&once, open_library);
    return was_opened;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): theirs are other ones in each version */

CURLcode curl_global_init(long flags)
{
    return is_open() ? late.curl_global_init(flags) : CURLE_FAILED_INIT;
}

const char *curl_easy_strerror(CURLcode code)
{
    return is_open() ? late.curl_easy_strerror(code) : "libcurl cannot be opened";
}

void curl_free(void *memory)
{
    if (memory)
        late.curl_free(memory);
}

/* ---- requests ---- */

CURL *curl_easy_init(void)
{
    return is_open() ? late.curl_easy_init() : NULL;
}

void curl_easy_cleanup(CURL *curl)
{
    if (curl)
        late.curl_easy_cleanup(curl);
}

void curl_easy_reset(CURL *curl)
{
    late.curl_easy_reset(curl);
}

/* An option's number says what is behind it. */
static CURLcode set_option(CURL *curl, CURLoption option, va_list *arguments)
{
    switch (option / 10000 * 10000) {
    case CURLOPTTYPE_LONG: /* NOLINT(bugprone-branch-clone): the types differ */
        return late.curl_easy_setopt(curl, option, va_arg(*arguments, long));
    case CURLOPTTYPE_OFF_T:
        return late.curl_easy_setopt(curl, option, va_arg(*arguments, curl_off_t));
    case CURLOPTTYPE_FUNCTIONPOINT:
        return late.curl_easy_setopt(curl, option, va_arg(*arguments, void (*)(void)));
    case CURLOPTTYPE_OBJECTPOINT:
    case CURLOPTTYPE_BLOB:
        return late.curl_easy_setopt(curl, option, va_arg(*arguments, void *));
    default:
        return CURLE_UNKNOWN_OPTION;
    }
}

CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    const CURLcode code = set_option(curl, option, &arguments);
    va_end(arguments);
    return code;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    va_list arguments;
    va_start(arguments, info);
    const CURLcode code = late.curl_easy_getinfo(curl, info, va_arg(arguments, void *));
    va_end(arguments);
    return code;
}

CURLcode curl_easy_perform(CURL *curl)
{
    return late.curl_easy_perform(curl);
}

char *curl_easy_escape(CURL *curl, const char *text, int length)
{
    return late.curl_easy_escape(curl, text, length);
}

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
    return is_open() ? late.curl_slist_append(list, text) : NULL;
}

void curl_slist_free_all(struct curl_slist *list)
{
    if (list)
        late.curl_slist_free_all(list);
}

/* ---- many requests at a time ---- */

CURLM *curl_multi_init(void)
{
    return is_open() ? late.curl_multi_init() : NULL;
}

CURLMcode curl_multi_cleanup(CURLM *multi)
{
    return multi ? late.curl_multi_cleanup(multi) : CURLM_BAD_HANDLE;
}

CURLMcode curl_multi_add_handle(CURLM *multi, CURL *curl)
{
    return late.curl_multi_add_handle(multi, curl);
}

CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *curl)
{
    return late.curl_multi_remove_handle(multi, curl);
}

CURLMcode curl_multi_perform(CURLM *multi, int *running_p)
{
    return late.curl_multi_perform(multi, running_p);
}

CURLMcode curl_multi_poll(CURLM *multi, struct curl_waitfd *more, unsigned count, int limit_ms,
                          int *count_p)
{
    return late.curl_multi_poll(multi, more, count, limit_ms, count_p);
}

CURLMsg *curl_multi_info_read(CURLM *multi, int *left_p)
{
    return late.curl_multi_info_read(multi, left_p);
}

/* ---- URLs ---- */

CURLU *curl_url(void)
{
    return is_open() ? late.curl_url() : NULL;
}

void curl_url_cleanup(CURLU *url)
{
    if (url)
        late.curl_url_cleanup(url);
}

CURLUcode rs_curl_url_get(CURLU *url, CURLUPart part, char **text_p, unsigned flags)
{
    return late.curl_url_get(url, part, text_p, flags);
}

CURLUcode curl_url_set(CURLU *url, CURLUPart part, const char *text, unsigned flags)
{
    return late.curl_url_set(url, part, text, flags);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
