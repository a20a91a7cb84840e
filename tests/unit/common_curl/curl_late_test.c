/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl behind functions of its names: what is handed over arrives, of every type that an option can have.
 */
#include "tests/support/rs_test.h"
/**/
#include "common/curl/curl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_loaded(void)
{
    void *library = dlopen(RS_CURL_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    if (library)
        (void)dlclose(library);
    return library != NULL;
}

/* Runs first: whoever asks for nothing does not load it. */
static void nothing_is_loaded_for_what_takes_no_object(void **state)
{
    (void)state;
    curl_easy_cleanup(NULL);
    curl_slist_free_all(NULL);
    curl_url_cleanup(NULL);
    curl_free(NULL);
    assert_int_equal(curl_multi_cleanup(NULL), CURLM_BAD_HANDLE);
    assert_false(is_loaded());
}

struct body {
    char text[64];
    size_t length;
};

static size_t on_body(char *bytes, size_t size, size_t count, void *self)
{
    struct body *body = self;
    const size_t room = sizeof body->text - 1 - body->length;
    const size_t kept = size * count < room ? size * count : room;
    memcpy(body->text + body->length, bytes, kept);
    body->length += kept;
    return size * count;
}

static void options_of_every_type_arrive(void **state)
{
    (void)state;
    struct body body = {.length = 0};
    char url[64];
    const int fd = memfd_create("body", 0);
    assert_true(fd >= 0 && write(fd, "0123456789", 10) == 10);
    (void)snprintf(url, sizeof url, "file:///proc/self/fd/%d", fd);
    CURL *curl = curl_easy_init();
    assert_non_null(curl);
    assert_true(is_loaded());
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_URL, url), CURLE_OK); /* a text */
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body),
                     CURLE_OK);                                                   /* a function */
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body), CURLE_OK); /* an object */
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)4),
                     CURLE_OK); /* a large number */
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    assert_string_equal(body.text, "456789");
    curl_off_t bytes = 0;
    assert_int_equal(curl_easy_getinfo(curl, CURLINFO_SIZE_DOWNLOAD_T, &bytes), CURLE_OK);
    assert_int_equal(bytes, 6);
    body = (struct body){.length = 0};
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_NOBODY, 1L), CURLE_OK); /* a number */
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    assert_null(strstr(body.text, "456789"));
    assert_int_equal(curl_easy_setopt(curl, (CURLoption)99999, 1L), CURLE_UNKNOWN_OPTION);
    curl_easy_cleanup(curl);
    (void)close(fd);
}

static void parts_of_an_url_and_texts_are_told(void **state)
{
    (void)state;
    char *host = NULL;
    CURLU *url = curl_url();
    assert_int_equal(curl_url_set(url, CURLUPART_URL, "https://node7:9000/x", 0), CURLUE_OK);
    assert_int_equal(curl_url_get(url, CURLUPART_HOST, &host, 0), CURLUE_OK);
    assert_string_equal(host, "node7");
    curl_free(host);
    curl_url_cleanup(url);
    struct curl_slist *list = curl_slist_append(curl_slist_append(NULL, "a: 1"), "b: 2");
    assert_string_equal(list->next->data, "b: 2");
    curl_slist_free_all(list);
    assert_string_equal(curl_easy_strerror(CURLE_OUT_OF_MEMORY), "Out of memory");
}

static void several_requests_run_at_a_time(void **state)
{
    (void)state;
    struct body body = {.length = 0};
    char url[64];
    int running = 1, left, descriptors;
    const int fd = memfd_create("body", 0);
    assert_true(fd >= 0 && write(fd, "together", 8) == 8);
    (void)snprintf(url, sizeof url, "file:///proc/self/fd/%d", fd);
    CURLM *multi = curl_multi_init();
    CURL *curl = curl_easy_init();
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    assert_int_equal(curl_multi_add_handle(multi, curl), CURLM_OK);
    while (running) {
        assert_int_equal(curl_multi_perform(multi, &running), CURLM_OK);
        if (running)
            assert_int_equal(curl_multi_poll(multi, NULL, 0, 100, &descriptors), CURLM_OK);
    }
    const CURLMsg *message = curl_multi_info_read(multi, &left);
    assert_non_null(message);
    assert_int_equal(message->data.result, CURLE_OK);
    assert_string_equal(body.text, "together");
    assert_int_equal(curl_multi_remove_handle(multi, curl), CURLM_OK);
    curl_easy_cleanup(curl);
    assert_int_equal(curl_multi_cleanup(multi), CURLM_OK);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_loaded_for_what_takes_no_object),
        cmocka_unit_test(options_of_every_type_arrive),
        cmocka_unit_test(parts_of_an_url_and_texts_are_told),
        cmocka_unit_test(several_requests_run_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
