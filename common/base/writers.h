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

/* Of a regular file, links not followed. UNKNOWN also when it cannot be opened: whoever reads it will say why. */
enum rs_writers rs_file_writers(const char *path);

#endif
