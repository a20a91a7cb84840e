/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/writers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

enum rs_writers rs_file_writers(int fd)
{
    enum rs_writers found = RS_WRITERS_UNKNOWN;
    /* Who wants to write meanwhile makes the kernel send a signal: by default one that ends the process. */
    if (fcntl(fd, F_SETSIG, SIGURG) == 0) {
        if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
            found = RS_WRITERS_NONE;
            (void)fcntl(fd, F_SETLEASE, F_UNLCK);
        } else if (errno == EAGAIN) {
            found = RS_WRITERS_SOME;
        }
    }
    return found;
}
