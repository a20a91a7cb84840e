/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether somebody still writes a file.
 *
 * The kernel knows who has it open: a read lease is given only while nobody has it open for writing. It is taken and given back
 * at once, so that a writer who comes in between waits for microseconds. Any thread.
 */
#ifndef RS_BASE_WRITERS_H
#define RS_BASE_WRITERS_H

enum rs_writers {
    RS_WRITERS_NONE, /* nobody on this host has it open for writing */
    RS_WRITERS_SOME, /* somebody has */
    RS_WRITERS_UNKNOWN, /* the file is somebody else's (and we may not take leases), or its file system has none */
};

/* Of an open regular file; the descriptor is for reading alone. The thread touches files as the file's owner (as_user.h), or may take
 * leases of files of others (CAP_LEASE). */
enum rs_writers rs_file_writers(int fd);

#endif
