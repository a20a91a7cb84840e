/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/terminal.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool rs_terminal_pause(rs_dur length)
{
    const struct timespec time = {.tv_sec = (time_t)(length / RS_NS_PER_S),
                                  .tv_nsec = (long)(length % RS_NS_PER_S)};
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return sigtimedwait(&signals, NULL, &time) < 0;
}

bool rs_terminal_wants_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe) */
    const char *terminal = getenv("TERM");      /* NOLINT(concurrency-mt-unsafe) */
    if (no_colour && *no_colour)
        return false;
    return isatty(fileno(stream)) && terminal && strcmp(terminal, "dumb") != 0;
}

bool rs_terminal_wants_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]); /* NOLINT(concurrency-mt-unsafe) */
        if (value && *value)
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8") ||
                   strstr(value, "utf-8");
    }
    return false;
}

unsigned rs_terminal_width(FILE *stream)
{
    struct winsize size;
    if (!isatty(fileno(stream)) || ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || !size.ws_col)
        return 96;
    return size.ws_col < 60 ? 60 : size.ws_col > 100 ? 100 : size.ws_col;
}
