/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/daemon.h"

#include "common/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct rs_daemon {
    pthread_t thread;
    sigset_t signals;
    atomic_uint stop_count;
    atomic_bool is_ending;
    pthread_mutex_t lock; /* guards wake and self */
    void (*wake)(void *self);
    void *self;
};

static void *take_signals(void *argument)
{
    struct rs_daemon *daemon = argument;
    for (;;) {
        int number = 0;
        if (sigwait(&daemon->signals, &number) != 0)
            continue;
        if (atomic_load(&daemon->is_ending))
            return NULL;
        if (number == SIGHUP)
            continue;
        (void)atomic_fetch_add(&daemon->stop_count, 1);
        (void)pthread_mutex_lock(&daemon->lock);
        if (daemon->wake)
            daemon->wake(daemon->self);
        (void)pthread_mutex_unlock(&daemon->lock);
    }
}

enum rs_status rs_daemon_start(struct rs_daemon **daemon_p, struct rs_err *err)
{
    struct rs_daemon *daemon = rs_mem_calloc(1, sizeof *daemon);
    if (!daemon)
        return rs_err_set(err, RS_NOMEM, "no memory");
    (void)sigemptyset(&daemon->signals);
    (void)sigaddset(&daemon->signals, SIGTERM);
    (void)sigaddset(&daemon->signals, SIGINT);
    (void)sigaddset(&daemon->signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &daemon->signals, NULL);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)pthread_mutex_init(&daemon->lock, NULL);
    if (pthread_create(&daemon->thread, NULL, take_signals, daemon) != 0) {
        (void)pthread_mutex_destroy(&daemon->lock);
        rs_mem_free(daemon);
        return rs_err_set(err, RS_IO, "cannot start a thread");
    }
    (void)pthread_setname_np(daemon->thread, "rs-signals");
    *daemon_p = daemon;
    return RS_OK;
}

void rs_daemon_on_signal(struct rs_daemon *daemon, void (*wake)(void *self), void *self)
{
    (void)pthread_mutex_lock(&daemon->lock);
    daemon->wake = wake;
    daemon->self = self;
    (void)pthread_mutex_unlock(&daemon->lock);
}

unsigned rs_daemon_stop_count(const struct rs_daemon *daemon)
{
    return atomic_load(&daemon->stop_count);
}

void rs_daemon_end(struct rs_daemon **daemon_p)
{
    struct rs_daemon *daemon = *daemon_p;
    if (!daemon)
        return;
    *daemon_p = NULL;
    atomic_store(&daemon->is_ending, true);
    (void)pthread_kill(daemon->thread, SIGHUP);
    (void)pthread_join(daemon->thread, NULL);
    (void)pthread_mutex_destroy(&daemon->lock);
    rs_mem_free(daemon);
}
