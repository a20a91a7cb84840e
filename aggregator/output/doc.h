/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small document: headings, paragraphs, bullets and tables, written once, rendered as terminal
 * text, as Markdown or as a page. Inside the room.
 *
 * Errors are sticky: after a failed allocation everything does nothing and doc_failed() is true.
 * All text is cleaned on its way in (control bytes, broken UTF-8), since names in it come from strangers.
 */
#ifndef RS_OUTPUT_DOC_H
#define RS_OUTPUT_DOC_H

#include "aggregator/output/style.h"
#include "common/base/buf.h"

#include <stddef.h>
#include <stdint.h>

enum doc_style {
    DOC_PLAIN,
    DOC_STRONG, /* what must be seen first */
    DOC_ALARM,  /* the culprit */
    DOC_GOOD,
    DOC_DIM,
};

enum doc_column_kind {
    DOC_LEFT,
    DOC_RIGHT,
    DOC_BAR, /* a cell holds one letter per piece of the bar, see doc_bar(); left out when there is no room */
};

struct doc;
struct doc *doc_new(void); /* NULL: no memory */
void doc_free(struct doc **doc_p);
bool doc_failed(const struct doc *doc);

void doc_title(struct doc *doc, const char *format, ...) RS_PRINTF(2, 3);
void doc_heading(struct doc *doc, const char *title, const char *aside); /* aside: dim, may be "" */
void doc_paragraph(struct doc *doc, enum doc_style style, const char *format, ...) RS_PRINTF(3, 4);
void doc_bullet(struct doc *doc, const char *format, ...) RS_PRINTF(2, 3);
/* A numbered finding: its headline, then what it costs. */
void doc_finding(struct doc *doc, size_t number, const char *headline, const char *cost);

/* Table: begin, columns, then cells row by row, end. Every row must be complete. */
void doc_table_begin(struct doc *doc);
void doc_column(struct doc *doc, enum doc_column_kind kind, const char *title);
void doc_cell(struct doc *doc, enum doc_style style, const char *format, ...) RS_PRINTF(3, 4);
/* A bar of `width` pieces, divided as `parts` divide `whole` (the rest stays empty). letters[i] says what
 * part i is: 'C' computing, 'X' exposed communication, 'M' memory, 'I' idle, 'W' waiting. */
void doc_bar(struct doc *doc, unsigned width, const char *letters, const int64_t *parts,
             int64_t whole);
void doc_table_end(struct doc *doc);

void doc_as_text(const struct doc *doc, struct rs_output_style style, struct rs_buf *buf);
void doc_as_markdown(const struct doc *doc, struct rs_buf *buf);
/* What a page has beside the document, HTML of our own. */
struct doc_page {
    const struct rs_buf *figure; /* before the first heading behind the findings; NULL: none */
    const struct rs_buf *data;   /* JSON without "<", for the script; NULL: none */
    const struct report_script *script; /* NULL, or without data: none */
};
/* One page, doc_html.c. `page` NULL: nothing. */
void doc_as_html(const struct doc *doc, const struct doc_page *page, struct rs_buf *buf);

#endif
