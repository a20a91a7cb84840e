/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/source/csv.h"

#include "common/base/file.h"

#include <string.h>

#define CSV_LIMIT_BYTES ((size_t)4 << 30)
enum { PADDING_BYTES = 16 };

/* Cuts the cell at csv->at; what follows it stands at csv->at then. Returns the cell; *is_last_p: its row ends. */
static char *take_quoted(struct csv *csv)
{
    char *to = csv->at + 1;
    char *from = to;
    char *const text = to;
    for (; from < csv->end; from++) {
        if (*from == '"' && from + 1 < csv->end && from[1] == '"')
            from++;
        else if (*from == '"')
            break;
        *to++ = *from;
    }
    csv->is_cut |= from >= csv->end;
    csv->at = from < csv->end ? from + 1 : csv->end;
    *to = '\0'; /* at or before the closing quote; the file's end has padding */
    return text;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static const char *take_cell(struct csv *csv, bool *is_last_p)
{
    while (csv->at < csv->end && is_blank(*csv->at))
        csv->at++;
    char *text = csv->at;
    const bool is_quoted = csv->at < csv->end && *csv->at == '"';
    if (is_quoted)
        text = take_quoted(csv);
    char *const from = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && *csv->at != '\n' && *csv->at != '\r')
        csv->at++;
    char *last = csv->at;
    char byte = '\n';
    if (csv->at < csv->end)
        byte = *csv->at;
    while (!is_quoted && last > from && is_blank(last[-1]))
        last--;
    *last = '\0';
    *is_last_p = byte != ',';
    csv->at += csv->at < csv->end;
    if (byte == '\r' && csv->at < csv->end && *csv->at == '\n')
        csv->at++;
    return text;
}

static size_t take_row(struct csv *csv, const char **cells)
{
    size_t count = 0;
    bool is_last = false;
    while (!is_last) {
        const char *cell = take_cell(csv, &is_last);
        if (count < CSV_COLUMNS_MAX)
            cells[count++] = cell;
    }
    return count;
}

enum rs_status csv_open(struct csv *csv, const char *path, struct rs_err *err)
{
    *csv = (struct csv){0};
    enum rs_status status = rs_file_read_regular(path, CSV_LIMIT_BYTES, &csv->text, err);
    if (status == RS_REFUSED)
        status = RS_FORMAT; /* a pipe, a device: as damaged as a file can be */
    uint8_t *padding = status == RS_OK ? rs_buf_reserve(&csv->text, PADDING_BYTES) : NULL;
    if (!padding) {
        csv_close(csv);
        return status == RS_OK ? rs_err_set(err, RS_NOMEM, "%s: out of memory", path) : status;
    }
    memset(padding, 0, PADDING_BYTES);
    csv->at = (char *)csv->text.data;
    csv->end = csv->at + csv->text.length;
    if (csv->end - csv->at >= 3 && memcmp(csv->at, "\xef\xbb\xbf", 3) == 0)
        csv->at += 3;
    if (csv->at < csv->end)
        csv->header_count = take_row(csv, csv->header);
    return RS_OK;
}

void csv_close(struct csv *csv)
{
    rs_buf_fini(&csv->text);
    *csv = (struct csv){0};
}

int csv_column(const struct csv *csv, const char *name)
{
    for (size_t i = 0; i < csv->header_count; i++)
        if (strcmp(csv->header[i], name) == 0)
            return (int)i;
    return CSV_NO_COLUMN;
}

bool csv_next(struct csv *csv)
{
    while (csv->at < csv->end && (*csv->at == '\n' || *csv->at == '\r'))
        csv->at++;
    if (csv->at >= csv->end)
        return false;
    csv->cell_count = take_row(csv, csv->cells);
    return !csv->is_cut;
}

const char *csv_cell(const struct csv *csv, int column)
{
    return column >= 0 && (size_t)column < csv->cell_count ? csv->cells[column] : "";
}
