/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The document while it is written: one arena of text, a list of blocks, a list of cells.
 *
 *     blocks   title | paragraph | table 5..29 | bullet | ...
 *     cells                        ^ column titles first, then rows
 *     text     "Rankscope\0" "8 of 8 ranks\0" ...      cells and blocks hold offsets
 */
#include "aggregator/output/doc_priv.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct doc *doc_new(void)
{
    struct doc *doc = rs_mem_calloc(1, sizeof *doc);
    return doc;
}

void doc_free(struct doc **doc_p)
{
    if (!*doc_p)
        return;
    rs_buf_fini(&(*doc_p)->text);
    rs_mem_free((*doc_p)->blocks);
    rs_mem_free((*doc_p)->cells);
    rs_mem_free(*doc_p);
    *doc_p = NULL;
}

bool doc_failed(const struct doc *doc)
{
    return doc->has_failed || doc->text.failed;
}

static void put_clean(struct rs_buf *buf, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t left = strlen(text); left > 0;) {
        const size_t length = rs_utf8_length(p, left);
        if (length && !rs_utf8_is_control(rs_utf8_char(p, length)))
            rs_buf_bytes(buf, p, length);
        else
            rs_buf_string(buf, &"????"[4 - (length ? length : 1)]);
        p += length ? length : 1;
        left -= length ? length : 1;
    }
    rs_buf_u8(buf, 0);
}

static size_t keep(struct doc *doc, const char *text)
{
    const size_t at = doc->text.length;
    put_clean(&doc->text, text);
    return at;
}

static size_t RS_PRINTF(2, 0) keep_format(struct doc *doc, const char *format, va_list args)
{
    char text[2048];
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    return keep(doc, text);
}

static struct doc_block *add_block(struct doc *doc, enum doc_block_kind kind)
{
    static struct doc_block nowhere; /* written to when there is no memory, never read */
    if (rs_mem_grow((void **)&doc->blocks, &doc->block_capacity, doc->block_count + 1,
                    sizeof *doc->blocks) != RS_OK) {
        doc->has_failed = true;
        return &nowhere;
    }
    struct doc_block *block = &doc->blocks[doc->block_count++];
    *block = (struct doc_block){.kind = kind, .first_cell = doc->cell_count};
    return block;
}

static void add_cell(struct doc *doc, struct doc_cell cell)
{
    if (doc_failed(doc) || rs_mem_grow((void **)&doc->cells, &doc->cell_capacity,
                                       doc->cell_count + 1, sizeof *doc->cells) != RS_OK) {
        doc->has_failed = true;
        return;
    }
    doc->cells[doc->cell_count++] = cell;
}

void doc_title(struct doc *doc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t at = keep_format(doc, format, args);
    va_end(args);
    add_block(doc, DOC_TITLE)->text = at;
}

void doc_heading(struct doc *doc, const char *title, const char *aside)
{
    const size_t at = keep(doc, title), second = keep(doc, aside);
    struct doc_block *block = add_block(doc, DOC_HEADING);
    block->text = at;
    block->second = second;
}

void doc_paragraph(struct doc *doc, enum doc_style style, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t at = keep_format(doc, format, args);
    va_end(args);
    struct doc_block *block = add_block(doc, DOC_PARAGRAPH);
    block->text = at;
    block->style = style;
}

void doc_bullet(struct doc *doc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t at = keep_format(doc, format, args);
    va_end(args);
    add_block(doc, DOC_BULLET)->text = at;
}

void doc_finding(struct doc *doc, size_t number, const char *headline, const char *cost)
{
    const size_t at = keep(doc, headline), second = keep(doc, cost);
    struct doc_block *block = add_block(doc, DOC_FINDING);
    block->text = at;
    block->second = second;
    block->number = number;
}

void doc_table_begin(struct doc *doc)
{
    doc->table = doc->block_count;
    (void)add_block(doc, DOC_TABLE);
}

void doc_column(struct doc *doc, enum doc_column_kind kind, const char *title)
{
    add_cell(doc, (struct doc_cell){.text = keep(doc, title), .column_kind = kind});
    if (!doc_failed(doc))
        doc->blocks[doc->table].column_count++;
}

void doc_cell(struct doc *doc, enum doc_style style, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t at = keep_format(doc, format, args);
    va_end(args);
    add_cell(doc, (struct doc_cell){.text = at, .style = style});
}

void doc_bar(struct doc *doc, unsigned width, const char *letters, const int64_t *parts,
             int64_t whole)
{
    char bar[DOC_BAR_MAX + 1];
    const unsigned limit = width < DOC_BAR_MAX ? width : DOC_BAR_MAX;
    unsigned used = 0;
    double sum = 0;
    for (size_t i = 0; letters[i]; i++) {
        sum += parts[i] > 0 ? (double)parts[i] : 0;
        const double ends = whole > 0 ? sum / (double)whole * limit + 0.5 : 0;
        while (used < limit && (double)used + 1 <= ends)
            bar[used++] = letters[i];
    }
    bar[used] = '\0';
    add_cell(doc, (struct doc_cell){.text = keep(doc, bar)});
}

void doc_table_end(struct doc *doc)
{
    if (!doc_failed(doc))
        doc->blocks[doc->table].cell_count = doc->cell_count - doc->blocks[doc->table].first_cell;
}
