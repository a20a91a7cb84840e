/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a document: shared by doc.c, which writes it, and doc_render.c, which reads it.
 */
#ifndef RS_OUTPUT_DOC_PRIV_H
#define RS_OUTPUT_DOC_PRIV_H

#include "aggregator/output/doc.h"

enum doc_block_kind { DOC_TITLE, DOC_HEADING, DOC_PARAGRAPH, DOC_BULLET, DOC_FINDING, DOC_TABLE };

enum { DOC_BAR_MAX = 40, DOC_COLUMNS_MAX = 16 };

struct doc_block {
    enum doc_block_kind kind;
    enum doc_style style;
    size_t text, second;                         /* offsets into doc->text */
    size_t number;                               /* of a finding */
    size_t first_cell, cell_count, column_count; /* of a table; the titles are cells, too */
};

struct doc_cell {
    size_t text;
    enum doc_style style;
    enum doc_column_kind column_kind; /* of a column's title */
};

struct doc {
    struct rs_buf text; /* NUL-terminated strings */
    struct doc_block *blocks;
    size_t block_count, block_capacity;
    struct doc_cell *cells;
    size_t cell_count, cell_capacity;
    size_t table; /* index of the block between doc_table_begin() and doc_table_end() */
    bool has_failed;
};

static inline const char *doc_string(const struct doc *doc, size_t offset)
{
    return (const char *)doc->text.data + offset;
}

#endif
