/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DATA/removed: a line for each capture that was removed.
 *
 * A collector that comes back may still have chunks of a capture that nobody wants any more. The catalogue knows the name; a catalogue
 * that is made again from the captures' folders (rebuild.c) cannot: there is no folder. Without this file such a capture was taken up
 * once more, and stood in the list.
 *
 * Rows that came back with a catalogue whose last writes were lost go when it is read.
 *
 * Lines that are no names (a torn write, garbage) are passed over. A name may stand there twice.
 */
#include "aggregator/store/store_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "removed";
enum { FILE_MAX_BYTES = 256 << 20 };

enum rs_status removed_append(const struct rs_store *store, const char *id, struct rs_err *err)
{
    char line[RS_STORE_ID_BYTES + 2];
    /* The first end of a line is that of one that was torn before. */
    const int length = snprintf(line, sizeof line, "\n%.63s\n", id);
    char *path = rs_file_join(store->data_dir, file_name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory to remove a capture");
    enum rs_status status = RS_OK;
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        status = rs_err_errno(err, "cannot open %s", path);
    else if (write(fd, line, (size_t)length) != length || fdatasync(fd) < 0)
        status = rs_err_errno(err, "cannot write %s", path);
    if (fd >= 0)
        (void)close(fd);
    rs_mem_free(path);
    return status;
}

static void add_line(void *self, const char *id)
{
    struct rs_buf *text = self;
    rs_buf_string(text, id);
    rs_buf_u8(text, '\n');
}

static enum rs_status make_file(struct rs_store *store, const char *path, struct rs_err *err)
{
    struct rs_buf text = {0};
    enum rs_status status = catalogue_list_removed(store->catalogue, add_line, &text, err);
    if (status == RS_OK && text.failed)
        status = rs_err_set(err, RS_NOMEM, "no memory for the names of removed captures");
    if (status == RS_OK)
        status = rs_file_replace(path, rs_buf_text(&text), text.length, true, err);
    rs_buf_fini(&text);
    return status;
}

/* A catalogue that lost its last writes may have rows of it still; one whose folder is there was made anew under that name. */
static enum rs_status take_name(struct rs_store *store, const char *id, struct rs_err *err)
{
    struct rs_capture_facts known;
    char *dir = rs_store_capture_dir(store, id);
    if (!dir)
        return rs_err_set(err, RS_NOMEM, "no memory for the names of removed captures");
    enum rs_status status = catalogue_put_removed(store->catalogue, id, err);
    if (status == RS_OK && access(dir, F_OK) < 0 && errno == ENOENT &&
        catalogue_find(store->catalogue, id, &known, NULL) == RS_OK)
        status = catalogue_forget(store->catalogue, id, err);
    rs_mem_free(dir);
    return status;
}

static enum rs_status take_lines(struct rs_store *store, char *text, struct rs_err *err)
{
    enum rs_status status = catalogue_begin(store->catalogue, err);
    char *rest = NULL;
    if (status < 0)
        return status;
    for (const char *line = strtok_r(text, "\n", &rest); line && status == RS_OK;
         line = strtok_r(NULL, "\n", &rest))
        if (store_is_id(line))
            status = take_name(store, line, err);
    if (status == RS_OK)
        return catalogue_commit(store->catalogue, err);
    catalogue_rollback(store->catalogue);
    return status;
}

enum rs_status removed_load(struct rs_store *store, struct rs_err *err)
{
    struct rs_buf text = {0};
    char *path = rs_file_join(store->data_dir, file_name);
    if (!path)
        return rs_err_set(err, RS_NOMEM, "no memory for the names of removed captures");
    enum rs_status status = rs_file_read(path, FILE_MAX_BYTES, &text, err);
    if (status == RS_NOTFOUND)
        status = make_file(store, path, err);
    else if (status == RS_OK && text.length) {
        rs_buf_u8(&text, '\0');
        status = text.failed
                     ? rs_err_set(err, RS_NOMEM, "no memory for the names of removed captures")
                     : take_lines(store, (char *)text.data, err);
    }
    rs_buf_fini(&text);
    rs_mem_free(path);
    return status;
}
