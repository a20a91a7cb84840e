/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of a database file, for those who read tables without SQLite (vendor_rows.h).
 *
 * Opening SQLite, letting it parse a schema and close again costs more than reading a small database by
 * hand. A file is therefore read directly where that is safe: a rollback journal's database, UTF-8,
 * nothing reserved in its pages, no journal beside it, and a shared lock, SQLite's own, keeps writers away
 * for as long as the file is open here. Everything else is left to SQLite.
 *
 * One thread at a time.
 */
#ifndef RS_VENDOR_VENDOR_PAGES_H
#define RS_VENDOR_VENDOR_PAGES_H

#include "common/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A database's bytes, read once for all its tables. Zeroed: nothing yet. Between two databases
 * rs_buf_reset(&file->bytes) keeps the memory; in the end rs_vendor_rows_file_fini() (or, if the file was
 * never opened here, rs_buf_fini() of the bytes). */
struct rs_vendor_rows_file {
    struct rs_buf bytes; /* page n at (n - 1) * page_bytes; length 0: not read yet */
    size_t page_bytes;
    /* only between rs_vendor_pages_open() and _close() */
    bool is_open, is_partial; /* partial: pages are read when asked for */
    int fd;
    uint8_t *have; /* partial: by page, is it read */
    size_t have_capacity;
};

/* Opens, locks and looks at the header; `is_whole` reads all pages at once. False: this file is not for
 * reading by hand (or not at all); nothing is held then. */
bool rs_vendor_pages_open(struct rs_vendor_rows_file *file, const char *path, bool is_whole);
/* Drops the lock; what was read stays until the next open or reset, if it is the whole file. */
void rs_vendor_pages_close(struct rs_vendor_rows_file *file);
void rs_vendor_rows_file_fini(struct rs_vendor_rows_file *file);

/* Takes bytes that were read by other means; false: not a file for reading by hand. */
bool rs_vendor_pages_accept(struct rs_vendor_rows_file *file);

/* page_bytes bytes; NULL: no such page. Lends until the file is closed, reset or opened again. */
const uint8_t *rs_vendor_page(struct rs_vendor_rows_file *file, uint32_t number);

#endif
