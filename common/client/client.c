/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to the aggregator, and its answers: one connection, one Ask, then Replies until the last.
 *
 *     find the address --> check who owns the socket --> connect --> Ask --> Reply ... --> last, Refusal, or gone
 *
 * Runs a loop of its own on the calling thread; a signal ends the wait, and what was begun goes on at the aggregator.
 */
#include "common/client/client.h"

#include "common/base/daemon.h"
#include "common/base/paths.h"
#include "common/client/client_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct asking {
    bool (*on_reply)(void *self, const Rankscope__Reply *reply);
    void *self;
    struct rs_err *err;
    const struct rs_address *address;
    enum rs_status status;
    struct rs_link *link; /* NULL: closed */
    bool is_answered;
    char elsewhere[160]; /* who has what was asked for; "": nobody is named */
};

/* The default sockets in order of preference; the first that is there. */
static void find_socket(char address[RS_PATHS_BYTES])
{
    const char *own = getenv("RANKSCOPE_RUNTIME_DIR");
    const char *session = getenv("XDG_RUNTIME_DIR");
    char paths[3][RS_PATHS_BYTES];
    size_t count = 0;
    if (own && *own) {
        (void)snprintf(paths[count++], RS_PATHS_BYTES, "%.4000s/aggregator.sock", own);
    } else {
        (void)snprintf(paths[count++], RS_PATHS_BYTES, "/run/rankscope/aggregator.sock");
        if (session && *session)
            (void)snprintf(paths[count++], RS_PATHS_BYTES, "%.4000s/rankscope/aggregator.sock",
                           session);
        (void)snprintf(paths[count++], RS_PATHS_BYTES, "/tmp/rankscope-%u/aggregator.sock",
                       (unsigned)geteuid());
    }
    size_t found = 0;
    while (found < count && access(paths[found], F_OK) < 0)
        found++;
    (void)snprintf(address, RS_PATHS_BYTES, "unix:%.4080s", paths[found < count ? found : 0]);
}

struct rs_client_security rs_client_security;

enum rs_status rs_client_guard(struct rs_address *address, struct rs_err *err)
{
    char usual[RS_PATHS_BYTES];
    char file[RS_PATHS_BYTES + 16];
    const char *certs = rs_client_security.certs;
    if (!certs && rs_paths_certs(usual, false, NULL) == RS_OK) {
        (void)snprintf(file, sizeof file, "%s/tls.crt", usual);
        certs = access(file, F_OK) == 0 ? usual : NULL;
    }
    return rs_address_guard(address, certs, rs_client_security.is_insecure_loopback, err);
}

/* In /tmp anybody can make the folder first, and be believed. */
static enum rs_status check_socket(const char *address, struct rs_err *err)
{
    struct stat info;
    char dir[64];
    (void)snprintf(dir, sizeof dir, "/tmp/rankscope-%u", (unsigned)geteuid());
    const size_t length = strlen(dir);
    if (strncmp(address + 5, dir, length) != 0 || address[5 + length] != '/' ||
        lstat(dir, &info) < 0)
        return RS_OK;
    if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & (S_IWGRP | S_IWOTH)))
        return RS_OK;
    return rs_err_set(err, RS_REFUSED,
                      "%s is not a folder of this user alone: who serves the socket in it is not "
                      "believed; give --connect",
                      dir);
}

enum rs_status rs_client_address(const char *given, struct rs_address *address_p,
                                 struct rs_err *err)
{
    char text[RS_PATHS_BYTES];
    struct rs_address address;
    const bool is_given = given && *given;
    if (!is_given)
        find_socket(text);
    else
        (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(given, ","), given);
    enum rs_status status = is_given ? RS_OK : check_socket(text, err);
    if (status == RS_OK)
        status = rs_address_parse(text, &address, err);
    if (status == RS_OK)
        status = rs_client_guard(&address, err);
    if (status == RS_OK)
        *address_p = address;
    return status;
}

/* 0, or the errno of connecting to the socket. */
static int try_socket(const struct rs_address *address)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    _Static_assert(sizeof name.sun_path >= sizeof address->path, "a path of ours fits");
    memcpy(name.sun_path, address->path, sizeof address->path);
    const int number = connect(fd, (const struct sockaddr *)&name, sizeof name) == 0 ? 0 : errno;
    (void)close(fd);
    return number;
}

bool rs_client_is_there(const struct rs_address *address)
{
    return !address->is_unix || try_socket(address) == 0;
}

/* What a handshake failed for, as the transport's text tells it; NULL: for nothing of that kind. */
static const char *problem_of_tls(const char *reason)
{
    static const struct {
        const char *text, *what;
    } problems[] = {
        {"certificate verify failed",
         "its certificate is not of the authority in our ca.crt, or has expired"},
        {"is not in peer certificate",
         "its certificate does not name that host: \"rankscope certs renew --host NAME\" adds a name"},
        {"wrong version number", "it speaks plain text: was it started with --insecure-loopback?"},
        {"alert", "it does not take our certificate: has it expired, or another authority?"},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++)
        if (strstr(reason, problems[i].text))
            return problems[i].what;
    return NULL;
}

/* Why nobody answered, in words of the system instead of the transport's own. */
static enum rs_status say_unreachable(const struct rs_address *address, const char *reason,
                                      struct rs_err *err)
{
    const int number = address->is_unix ? try_socket(address) : 0;
    if (number == EACCES || number == EPERM)
        return rs_err_set(err, RS_REFUSED, "%s may not be opened by this user", address->text);
    if (number == ENOENT)
        return rs_err_set(err, RS_UNREACHABLE,
                          "no aggregator answers at %s: there is no such socket; start one with "
                          "\"rankscope aggregator\", or give --connect",
                          address->text);
    if (number == ECONNREFUSED)
        return rs_err_set(err, RS_UNREACHABLE,
                          "no aggregator answers at %s: it ended without removing its socket",
                          address->text);
    if (address->guard == RS_ADDRESS_MUTUAL || address->guard == RS_ADDRESS_JOIN) {
        const char *what = problem_of_tls(reason);
        if (what)
            return rs_err_set(err, RS_REFUSED, "who answers at %s is not believed: %s",
                              address->text, what);
    }
    if (address->guard == RS_ADDRESS_LOCAL && !address->is_unix && strstr(reason, "Socket closed"))
        return rs_err_set(err, RS_UNREACHABLE,
                          "%s ended the link at once: it may want certificates, not plain text "
                          "(--insecure-loopback)",
                          address->text);
    if (strstr(reason, "keepalive"))
        return rs_err_set(err, RS_UNREACHABLE,
                          "the aggregator at %s has stopped answering: its process or the network "
                          "stands still",
                          address->text);
    return rs_err_set(err, RS_UNREACHABLE, "no aggregator answers at %s: %.400s", address->text,
                      rs_link_plain(reason));
}

static void on_refusal(struct asking *asking, const Rankscope__Refusal *refusal)
{
    enum rs_status status = (enum rs_status)refusal->status;
    if (status >= 0 || strcmp(rs_status_name(status), "RS_OK") == 0)
        status = RS_REFUSED;
    asking->status = rs_err_set(asking->err, status, "%.700s", refusal->text);
    (void)snprintf(asking->elsewhere, sizeof asking->elsewhere, "%s", refusal->aggregator);
    if (strlen(refusal->aggregator) >= sizeof asking->elsewhere)
        asking->elsewhere[0] = '\0';
}

static bool is_of_this_machine(const struct rs_address *address)
{
    return address->is_unix || address->is_loopback;
}

bool client_may_follow(const struct rs_address *asked, const char *named,
                       struct rs_address *address_p)
{
    struct rs_address address;
    if (rs_address_parse(named, &address, NULL) < 0 ||
        (is_of_this_machine(&address) && !is_of_this_machine(asked)) ||
        rs_client_guard(&address, NULL) < 0)
        return false;
    *address_p = address;
    return true;
}

/* Where the same question is to be asked, once: what the second one says is the answer. False: nowhere, or not from here, and the refusal
 * stands as it is. */
static bool find_elsewhere(const struct rs_address *asked, const struct asking *asking,
                           struct rs_address *address_p)
{
    return *asking->elsewhere && asking->status < 0 &&
           client_may_follow(asked, asking->elsewhere, address_p);
}

/* The second one's failure is told with whom the first one named: without that nobody would know why it was asked. */
static enum rs_status judge_elsewhere(enum rs_status status, const struct rs_err *first,
                                      struct rs_err *err)
{
    if (status != RS_UNREACHABLE && status != RS_REFUSED)
        return status;
    const struct rs_err second = err ? *err : (struct rs_err){.text = ""};
    return rs_err_set(err, status, "%.350s (it was asked: %.350s)", first->text, second.text);
}

static bool on_message(void *self, struct rs_link *link, struct rs_frame *frame)
{
    struct asking *asking = self;
    struct rs_message message;
    bool goes_on = false;
    if (asking->is_answered) {
        rs_frame_free(&frame);
        return true;
    }
    const enum rs_status status =
        rs_message_unpack(&message, &rankscope__reply__descriptor, frame, asking->err);
    if (status < 0) {
        asking->status = status;
    } else {
        const Rankscope__Reply *reply = (const Rankscope__Reply *)message.body;
        if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_REFUSAL)
            on_refusal(asking, reply->refusal);
        else
            goes_on = asking->on_reply(asking->self, reply) && !reply->last;
    }
    rs_message_fini(&message);
    rs_frame_free(&frame);
    if (!goes_on) {
        asking->is_answered = true;
        rs_link_close(link, RS_OK, "");
    }
    return true;
}

static void on_writable(void *self, struct rs_link *link)
{
    (void)self;
    (void)link;
}

static void on_closed(void *self, struct rs_link *link, enum rs_status status, const char *reason)
{
    struct asking *asking = self;
    (void)link;
    asking->link = NULL;
    if (asking->is_answered || asking->status < 0)
        return;
    if (status == RS_UNREACHABLE || status == RS_CANCELLED || status == RS_OK)
        asking->status = say_unreachable(asking->address, reason, asking->err);
    else
        asking->status = rs_err_set(asking->err, status, "%.700s", reason);
}

static const struct rs_link_user asking_user = {
    .on_message = on_message, .on_writable = on_writable, .on_closed = on_closed};

static void wake_loop(void *self)
{
    rs_loop_wake(self);
}

static void converse(struct rs_loop *loop, struct rs_daemon *daemon, struct asking *asking)
{
    bool is_aborted = false;
    while (asking->link) {
        if (rs_loop_run(loop, rs_time_monotonic() + RS_NS_PER_S) < 0)
            break;
        if (rs_daemon_stop_count(daemon) && !is_aborted && asking->link) {
            is_aborted = true;
            asking->status = rs_err_set(asking->err, RS_CANCELLED, "interrupted");
            rs_link_abort(asking->link);
        }
    }
}

static enum rs_status ask_one(const struct rs_address *address, Rankscope__Ask *ask,
                              struct asking *asking_p, struct rs_err *err)
{
    struct rs_daemon *daemon = NULL;
    struct rs_loop *loop = NULL;
    struct rs_buf buf = {0};
    struct asking asking = *asking_p;
    asking.address = address;
    asking.err = err;
    Rankscope__Version version;
    rs_wire_own_version(&version);
    ask->version = &version;
    rs_wire_pack(&ask->base, &buf);
    enum rs_status status = buf.failed ? rs_err_set(err, RS_NOMEM, "out of memory") : RS_OK;
    if (status == RS_OK)
        status = rs_daemon_start(&daemon, err);
    if (status == RS_OK)
        status = rs_grpc_loop_new(&loop, err);
    if (status == RS_OK)
        status = rs_grpc_connect(loop, address, RS_WIRE_METHOD_ASK, &asking_user, &asking,
                                 &asking.link, err);
    if (status == RS_OK) {
        rs_daemon_on_signal(daemon, wake_loop, loop);
        if (rs_link_send(asking.link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)) < 0)
            rs_link_abort(asking.link);
        converse(loop, daemon, &asking);
        rs_daemon_on_signal(daemon, NULL, NULL);
        status = asking.status;
    }
    rs_grpc_loop_free(&loop);
    const bool was_signalled = daemon && rs_daemon_stop_count(daemon) > 0;
    rs_daemon_end(&daemon);
    /* A Ctrl-C that came with the last of the answer was taken and changed nothing: whoever asks again and again must find it.
     * Blocked as it is, it waits for that, and does nobody else any harm. */
    if (was_signalled && status != RS_CANCELLED)
        (void)kill(getpid(), SIGINT);
    rs_buf_fini(&buf);
    memcpy(asking_p->elsewhere, asking.elsewhere, sizeof asking.elsewhere);
    asking_p->status = status;
    return status;
}

enum rs_status rs_client_ask(const struct rs_address *address, Rankscope__Ask *ask,
                             bool (*on_reply)(void *self, const Rankscope__Reply *reply),
                             void *self, struct rs_err *err)
{
    struct rs_address other;
    struct rs_err first = {0}, second = {0};
    const struct asking begin = {.on_reply = on_reply, .self = self, .status = RS_OK};
    struct asking asking = begin;
    enum rs_status status = ask_one(address, ask, &asking, &first);
    if (!find_elsewhere(address, &asking, &other)) {
        if (status < 0 && err)
            *err = first;
        return status;
    }
    asking = begin;
    status = judge_elsewhere(ask_one(&other, ask, &asking, &second), &first, &second);
    if (status < 0 && err)
        *err = second;
    return status;
}

static void converse_within(struct rs_loop *loop, const struct rs_client_patience *patience,
                            struct asking *asking)
{
    bool is_aborted = false;
    while (asking->link) {
        const rs_ns now = rs_time_monotonic();
        if (rs_loop_run(loop, now + RS_NS_PER_S / 5) < 0)
            break;
        const bool must_stop = atomic_load(patience->must_stop);
        if (is_aborted || !asking->link ||
            (!asking->is_answered && !must_stop && now < patience->until))
            continue;
        /* Once answered, nothing is left to be said: the other side may have more, of a capture that goes on. */
        is_aborted = true;
        if (asking->is_answered) {
            rs_link_abort(asking->link);
            continue;
        }
        asking->status =
            must_stop ? rs_err_set(asking->err, RS_CANCELLED, "stopped")
                      : rs_err_set(asking->err, RS_UNREACHABLE,
                                   "no aggregator answers at %s in time", asking->address->text);
        rs_link_abort(asking->link);
    }
}

/* A daemon's own question goes to its own aggregator, and nowhere else. */
enum rs_status rs_client_ask_within(const struct rs_address *address, Rankscope__Ask *ask,
                                    const struct rs_client_patience *patience,
                                    bool (*on_reply)(void *self, const Rankscope__Reply *reply),
                                    void *self, struct rs_err *err)
{
    struct rs_loop *loop = NULL;
    struct rs_buf buf = {0};
    struct asking asking = {
        .on_reply = on_reply, .self = self, .err = err, .address = address, .status = RS_OK};
    Rankscope__Version version;
    rs_wire_own_version(&version);
    ask->version = &version;
    rs_wire_pack(&ask->base, &buf);
    ask->version = NULL;
    enum rs_status status =
        buf.failed ? rs_err_set(err, RS_NOMEM, "out of memory") : rs_grpc_loop_new(&loop, err);
    if (status == RS_OK)
        status = rs_grpc_connect(loop, address, RS_WIRE_METHOD_ASK, &asking_user, &asking,
                                 &asking.link, err);
    if (status == RS_OK) {
        if (rs_link_send(asking.link, rs_view_of(buf.data, buf.length), rs_view_of(NULL, 0)) < 0)
            rs_link_abort(asking.link);
        converse_within(loop, patience, &asking);
        status = asking.status;
    }
    rs_grpc_loop_free(&loop);
    rs_buf_fini(&buf);
    return status;
}
