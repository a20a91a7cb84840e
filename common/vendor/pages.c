/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locking is SQLite's: a reader holds a read lock on the 510 bytes of the shared range, and takes one on the
 * pending byte on the way, so that a waiting writer is not starved. The locks are those of the open file (not
 * of the process), so that SQLite may have the same file open beside us.
 */
#include "common/base/mem.h"
#include "common/vendor/vendor_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT_BYTES ((size_t)1 << 30) /* larger ones by SQLite, page by page */

enum {
    HEADER_BYTES = 100,
    FIRST_BYTES = 1 << 16, /* of a file that is read in part; a multiple of every page size */
    PENDING_BYTE = 0x40000000,
    SHARED_FIRST = PENDING_BYTE + 2,
    SHARED_BYTES = 510,
};

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool lock_range(int fd, short kind, off_t from, off_t bytes)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = from, .l_len = bytes};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool lock_shared(int fd)
{
    if (!lock_range(fd, F_RDLCK, PENDING_BYTE, 1))
        return false;
    const bool is_locked = lock_range(fd, F_RDLCK, SHARED_FIRST, SHARED_BYTES);
    (void)lock_range(fd, F_UNLCK, PENDING_BYTE, 1);
    return is_locked;
}

/* Whatever it holds: SQLite knows what to do about it. */
static bool has_journal(const char *path)
{
    char name[PATH_MAX];
    struct stat st;
    const int length = snprintf(name, sizeof name, "%s-journal", path);
    return length < 0 || (size_t)length >= sizeof name || lstat(name, &st) == 0;
}

static bool read_at(int fd, uint8_t *to, size_t length, size_t from)
{
    while (length) {
        const ssize_t got = pread(fd, to, length, (off_t)from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        from += (size_t)got;
        length -= (size_t)got;
    }
    return true;
}

/* What was in it is gone; a little more than needed, as the next file may be a little longer. */
static bool make_room(struct rs_buf *bytes, size_t size)
{
    if (bytes->capacity < size) {
        rs_buf_fini(bytes);
        bytes->data = rs_mem_realloc(NULL, size + size / 4, 1);
        if (!bytes->data)
            return false;
        bytes->capacity = size + size / 4;
    }
    rs_buf_reset(bytes);
    return true;
}

/* `length`: of the file; the header is in `head`. */
static bool is_readable(const uint8_t *head, size_t length, size_t *page_bytes_p)
{
    if (length < HEADER_BYTES || memcmp(head, "SQLite format 3", 16) != 0)
        return false;
    const size_t stored = (size_t)head[16] << 8 | head[17];
    const size_t page_bytes = stored == 1 ? 65536 : stored;
    const bool is_power = page_bytes >= 512 && !(page_bytes & (page_bytes - 1));
    const bool is_counted = get32(head + 24) == get32(head + 92); /* else the count is stale */
    *page_bytes_p = page_bytes;
    /* no WAL (the newest pages may be there), no reserved bytes, UTF-8 */
    return is_power && head[18] == 1 && head[19] == 1 && head[20] == 0 && get32(head + 56) == 1 &&
           length % page_bytes == 0 &&
           (!is_counted || (uint64_t)page_bytes * get32(head + 28) <= length);
}

static bool mark_first(struct rs_vendor_rows_file *file, size_t first)
{
    const size_t pages = file->bytes.length / file->page_bytes;
    if (rs_mem_grow((void **)&file->have, &file->have_capacity, pages, 1) != RS_OK)
        return false;
    memset(file->have, 0, pages);
    memset(file->have, 1, first / file->page_bytes);
    return true;
}

static bool read_in(struct rs_vendor_rows_file *file, int fd, bool is_whole)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < HEADER_BYTES ||
        (size_t)st.st_size > FILE_LIMIT_BYTES)
        return false;
    const size_t size = (size_t)st.st_size;
    const size_t first = is_whole || size < FIRST_BYTES ? size : FIRST_BYTES;
    if (!make_room(&file->bytes, size) || !read_at(fd, file->bytes.data, first, 0) ||
        !is_readable(file->bytes.data, size, &file->page_bytes))
        return false;
    file->bytes.length = size;
    file->is_partial = first < size;
    return !file->is_partial || mark_first(file, first);
}

bool rs_vendor_pages_open(struct rs_vendor_rows_file *file, const char *path, bool is_whole)
{
    rs_vendor_pages_close(file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (!lock_shared(fd) || has_journal(path) || !read_in(file, fd, is_whole)) {
        rs_buf_reset(&file->bytes);
        file->is_partial = false;
        (void)close(fd);
        return false;
    }
    file->fd = fd;
    file->is_open = true;
    return true;
}

void rs_vendor_pages_close(struct rs_vendor_rows_file *file)
{
    if (file->is_open)
        (void)close(file->fd);
    if (file->is_partial)
        rs_buf_reset(&file->bytes);
    file->is_open = file->is_partial = false;
}

void rs_vendor_rows_file_fini(struct rs_vendor_rows_file *file)
{
    rs_vendor_pages_close(file);
    rs_buf_fini(&file->bytes);
    rs_mem_free(file->have);
    *file = (struct rs_vendor_rows_file){0};
}

bool rs_vendor_pages_accept(struct rs_vendor_rows_file *file)
{
    return !file->is_partial && file->bytes.length >= HEADER_BYTES &&
           is_readable(file->bytes.data, file->bytes.length, &file->page_bytes);
}

const uint8_t *rs_vendor_page(struct rs_vendor_rows_file *file, uint32_t number)
{
    const size_t from = (size_t)(number - 1) * file->page_bytes;
    if (number == 0 || from >= file->bytes.length)
        return NULL;
    if (file->is_partial && !file->have[number - 1]) {
        if (!read_at(file->fd, file->bytes.data + from, file->page_bytes, from))
            return NULL;
        file->have[number - 1] = 1;
    }
    return file->bytes.data + from;
}
