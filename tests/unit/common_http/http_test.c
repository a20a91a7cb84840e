/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener by itself, in plain text on loopback: time, threads that wait, and the end. What users meet is tests/e2e/test_http.py.
 */
#include "common/http/http.h"

#include "common/base/mem.h"
#include "tests/support/rs_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_S = 1 };

struct rig {
    struct rs_http *http;
    atomic_bool must_end;
    atomic_int waiting, ended;
};

static void nap(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static enum rs_status wait_for_end(void *self, struct rs_buf *buf)
{
    struct rig *rig = self;
    atomic_fetch_add(&rig->waiting, 1);
    while (!atomic_load(&rig->must_end))
        nap(5);
    rs_buf_string(buf, "the end");
    return RS_UNREACHABLE;
}

static void count_end(void *self)
{
    struct rig *rig = self;
    atomic_fetch_add(&rig->ended, 1);
}

/* "/slow" takes longer than a client may be silent; "/wait" goes on until somebody ends it. */
static void handle(void *self, const struct rs_http_request *request, struct rs_http_answer *answer)
{
    assert_int_equal(request->who->party, RS_PARTY_LOCAL);
    answer->type = "text/plain";
    if (strcmp(request->path, "/slow") == 0)
        nap(TIMEOUT_S * 2500);
    if (strcmp(request->path, "/wait") == 0) {
        answer->next = wait_for_end;
        answer->end = count_end;
        answer->self = self;
        return;
    }
    rs_buf_printf(&answer->body, "%s %s", request->path,
                  rs_http_query(request, "q") ? rs_http_query(request, "q") : "-");
}

static struct rig *start(void)
{
    struct rig *rig = rs_mem_calloc(1, sizeof *rig);
    const struct rs_http_options options = {.address = "127.0.0.1:0",
                                            .is_insecure_loopback = true,
                                            .timeout_s = TIMEOUT_S,
                                            .handler = handle,
                                            .self = rig};
    assert_non_null(rig);
    assert_ok(rs_http_start(&options, &rig->http, NULL));
    assert_true(rs_http_is_plain(rig->http));
    return rig;
}

static int connect_to(const struct rig *rig)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons((uint16_t)strtol(strrchr(rs_http_address(rig->http), ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Until the other side closes, or `end` came. */
static void read_until(int fd, const char *end, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    while (used < bytes - 1 && !(end && strstr(text, end))) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 60000), 1);
        const ssize_t count = recv(fd, text + used, bytes - 1 - used, 0);
        if (count <= 0)
            break;
        used += (size_t)count;
        text[used] = '\0';
    }
}

static void an_answer_may_take_longer_than_a_client_may_be_silent(void **state)
{
    (void)state;
    struct rig *rig = start();
    char text[2000];
    const int fd = connect_to(rig);
    say(fd, "GET /slow?q=a%20b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    read_until(fd, "/slow a b", text, sizeof text);
    assert_non_null(strstr(text, "200 OK"));
    say(fd, "GET /again HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* on the same connection */
    read_until(fd, "/again -", text, sizeof text);
    assert_non_null(strstr(text, "/again -"));
    read_until(fd, NULL, text, sizeof text); /* then silence ends it */
    assert_int_equal(close(fd), 0);
    rs_http_stop(&rig->http);
    rs_mem_free(rig);
}

static void half_a_request_is_not_waited_for(void **state)
{
    (void)state;
    struct rig *rig = start();
    char text[2000];
    const int fd = connect_to(rig);
    say(fd,
        "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{");
    read_until(fd, NULL, text, sizeof text);
    assert_null(strstr(text, "200"));
    assert_int_equal(close(fd), 0);
    rs_http_stop(&rig->http);
    rs_mem_free(rig);
}

static void stopping_ends_what_goes_on(void **state)
{
    (void)state;
    struct rig *rig = start();
    int fds[8];
    char text[2000];
    for (size_t i = 0; i < 8; i++) {
        fds[i] = connect_to(rig);
        say(fds[i], i % 2 ? "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n" : "GET /wait HT");
    }
    while (atomic_load(&rig->waiting) < 4)
        nap(5);
    atomic_store(&rig->must_end, true); /* as calls.c does: whoever waits is told */
    rs_http_stop(&rig->http);
    assert_int_equal(atomic_load(&rig->ended), 4);
    for (size_t i = 0; i < 8; i++) {
        read_until(fds[i], NULL, text, sizeof text);
        assert_int_equal(close(fds[i]), 0);
    }
    rs_mem_free(rig);
}

static void what_cannot_be_served_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool is_insecure;
        enum rs_status status;
    } cases[] = {
        {"127.0.0.1:0", false, RS_REFUSED},
        {"0.0.0.0:0", true, RS_REFUSED},
        {"unix:/tmp/x", true, RS_INVALID},
        {"localhost", true, RS_INVALID},
        {"", true, RS_INVALID},
        {":", true, RS_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rs_http_options options = {.address = cases[i].address,
                                                .is_insecure_loopback = cases[i].is_insecure,
                                                .handler = handle};
        struct rs_http *http = NULL;
        struct rs_err err = {0};
        assert_status(rs_http_start(&options, &http, &err), cases[i].status);
        assert_null(http);
        assert_true(*err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_may_take_longer_than_a_client_may_be_silent),
        cmocka_unit_test(half_a_request_is_not_waited_for),
        cmocka_unit_test(stopping_ends_what_goes_on),
        cmocka_unit_test(what_cannot_be_served_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
