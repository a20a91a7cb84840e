/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document as terminal text (wrapped, aligned, coloured when asked for) and as Markdown.
 *
 * Bars are letters in the document; here they become blocks, shaded so that they can be told
 * apart without colour:  C computing █ #   X exposed communication ▓ =   M memory ▒ +   I idle ░ .
 * W waiting ▓ =
 */
#include "aggregator/output/doc_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { INDENT = 2, GAP = 2 };

struct out {
    struct rs_buf *buf;
    struct rs_output_style style;
};

/* Columns of the terminal: one per code point is near enough for what stands in a report. */
static size_t columns_of(const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void put_spaces(struct rs_buf *buf, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rs_buf_u8(buf, ' ');
}

static const char *colour_of(enum doc_style style)
{
    switch (style) {
    case DOC_STRONG:
        return "\033[1m";
    case DOC_ALARM:
        return "\033[1;31m";
    case DOC_GOOD:
        return "\033[32m";
    case DOC_DIM:
        return "\033[2m";
    case DOC_PLAIN:
        break;
    }
    return NULL;
}

static void put_styled(const struct out *out, enum doc_style style, const char *text, size_t length)
{
    const char *colour = out->style.has_colour ? colour_of(style) : NULL;
    if (colour)
        rs_buf_string(out->buf, colour);
    rs_buf_bytes(out->buf, text, length);
    if (colour)
        rs_buf_string(out->buf, "\033[0m");
}

/* How much of `text` fits in `columns` columns, cut between words; at least one word. */
static size_t fitting(const char *text, size_t columns)
{
    size_t end = strcspn(text, " ");
    while (text[end]) {
        const size_t next = end + 1 + strcspn(text + end + 1, " ");
        if (columns_of(text, next) > columns)
            break;
        end = next;
    }
    return end;
}

/* `text` in lines of at most style.width columns; the first starts at column `used`, the others at
 * `indent`. */
static void put_wrapped(const struct out *out, enum doc_style style, const char *text, size_t used,
                        size_t indent)
{
    for (;;) {
        const size_t room = out->style.width > used ? out->style.width - used : 1;
        const size_t length = fitting(text, room);
        put_styled(out, style, text, length);
        rs_buf_u8(out->buf, '\n');
        text += length;
        while (*text == ' ')
            text++;
        if (!*text)
            return;
        put_spaces(out->buf, indent);
        used = indent;
    }
}

/* --- bars ------------------------------------------------------------------------------------- */

/* `letters` of a bar that is `full` pieces at its longest, drawn at most `width` long. */
static void put_bar(const struct out *out, const char *letters, size_t full, size_t width)
{
    static const struct {
        char letter, ascii;
        const char *block, *colour;
    } pieces[] = {{'C', '#', "\u2588", "\033[32m"},
                  {'X', '=', "\u2593", "\033[33m"},
                  {'M', '+', "\u2592", "\033[34m"},
                  {'I', '.', "\u2591", "\033[2m"},
                  {'W', '=', "\u2593", "\033[31m"}};
    const char *open = NULL;
    const size_t length = strlen(letters);
    for (size_t i = 0; i < width && i * full / width < length; i++) {
        const char letter = letters[i * full / width];
        size_t p = 0;
        while (p + 1 < sizeof pieces / sizeof pieces[0] && pieces[p].letter != letter)
            p++;
        if (out->style.has_colour && open != pieces[p].colour) {
            rs_buf_string(out->buf, "\033[0m");
            rs_buf_string(out->buf, pieces[p].colour);
            open = pieces[p].colour;
        }
        if (out->style.has_utf8)
            rs_buf_string(out->buf, pieces[p].block);
        else
            rs_buf_u8(out->buf, (uint8_t)pieces[p].ascii);
    }
    if (open)
        rs_buf_string(out->buf, "\033[0m");
}

/* --- tables ----------------------------------------------------------------------------------- */

struct layout {
    size_t widths[DOC_COLUMNS_MAX];
    size_t full[DOC_COLUMNS_MAX]; /* of bars: their width before they were made to fit */
    bool is_shown[DOC_COLUMNS_MAX];
    size_t last; /* the last column shown */
};

static size_t total_width(const struct layout *layout, size_t columns)
{
    size_t total = 0;
    for (size_t c = 0; c < columns; c++)
        if (layout->is_shown[c])
            total += layout->widths[c] + GAP;
    return total;
}

enum { BAR_LEAST = 8 };

/* Bars shrink first when there is not enough room, then go; then columns go from the right. */
static void fit(const struct doc *doc, const struct doc_block *table, size_t width,
                struct layout *layout)
{
    const struct doc_cell *titles = doc->cells + table->first_cell;
    size_t columns = table->column_count;
    for (size_t c = 0; c < columns; c++) {
        const size_t total = total_width(layout, table->column_count);
        layout->full[c] = layout->widths[c];
        if (titles[c].column_kind != DOC_BAR || total <= width)
            continue;
        layout->is_shown[c] = layout->widths[c] >= total - width + BAR_LEAST;
        if (layout->is_shown[c])
            layout->widths[c] -= total - width;
    }
    while (columns > 2 && total_width(layout, table->column_count) > width)
        layout->is_shown[--columns] = false;
    for (size_t c = 0; c < table->column_count; c++)
        if (layout->is_shown[c])
            layout->last = c;
}

static struct layout layout_of(const struct doc *doc, const struct doc_block *table, size_t width)
{
    struct layout layout = {.last = 0};
    for (size_t i = 0; i < table->cell_count; i++) {
        const char *text = doc_string(doc, doc->cells[table->first_cell + i].text);
        const size_t columns = columns_of(text, strlen(text));
        size_t *widest = &layout.widths[i % table->column_count];
        *widest = columns > *widest ? columns : *widest;
    }
    for (size_t c = 0; c < table->column_count; c++)
        layout.is_shown[c] = true;
    fit(doc, table, width, &layout);
    return layout;
}

/* Cell `c` of a row; a title never is a bar. */
static void put_cell(const struct out *out, const struct doc *doc, const struct layout *layout,
                     const struct doc_cell *cell, size_t c, enum doc_column_kind kind)
{
    const char *text = doc_string(doc, cell->text);
    const size_t columns = columns_of(text, strlen(text));
    const size_t padding = layout->widths[c] > columns ? layout->widths[c] - columns : 0;
    put_spaces(out->buf, kind == DOC_RIGHT ? padding : 0);
    if (kind == DOC_BAR)
        put_bar(out, text, layout->full[c], layout->widths[c]);
    else if (columns)
        put_styled(out, cell->style, text, strlen(text));
    put_spaces(out->buf, kind == DOC_LEFT ? padding : 0);
    if (kind == DOC_BAR && c != layout->last) {
        const size_t drawn =
            layout->full[c] ? (columns * layout->widths[c] + layout->full[c] - 1) / layout->full[c]
                            : 0;
        put_spaces(out->buf, layout->widths[c] - drawn);
    }
}

/* No blanks before a line's end. */
static void end_row(struct rs_buf *buf)
{
    while (buf->length && buf->data[buf->length - 1] == ' ')
        buf->length--;
    rs_buf_u8(buf, '\n');
}

static void put_table(const struct out *out, const struct doc *doc, const struct doc_block *table)
{
    if (!table->column_count || table->column_count > DOC_COLUMNS_MAX)
        return;
    const struct doc_cell *titles = doc->cells + table->first_cell;
    const struct layout layout = layout_of(doc, table, out->style.width);
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t c = i % table->column_count;
        if (!layout.is_shown[c])
            continue;
        const bool is_title = i < table->column_count;
        const enum doc_column_kind kind = titles[c].column_kind;
        struct doc_cell cell = titles[i];
        cell.style = is_title ? DOC_DIM : cell.style;
        put_spaces(out->buf, GAP);
        put_cell(out, doc, &layout, &cell, c, is_title && kind == DOC_BAR ? DOC_LEFT : kind);
        if (c == layout.last)
            end_row(out->buf);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_heading(const struct out *out, const char *title, const char *aside)
{
    char upper[128];
    size_t length = 0;
    for (; title[length] && length < sizeof upper; length++) /* titles are ours: ASCII */
        upper[length] = (char)toupper((unsigned char)title[length]);
    rs_buf_u8(out->buf, '\n');
    put_styled(out, DOC_STRONG, upper, length);
    if (*aside) {
        rs_buf_string(out->buf, "  ");
        put_wrapped(out, DOC_DIM, aside, length + 2, length + 2);
    } else {
        rs_buf_u8(out->buf, '\n');
    }
}

static void put_finding(const struct out *out, const struct doc *doc, const struct doc_block *block)
{
    const char *cost = doc_string(doc, block->second);
    rs_buf_printf(out->buf, "\n%zu. ", block->number);
    put_wrapped(out, DOC_ALARM, doc_string(doc, block->text), 3, 3);
    put_spaces(out->buf, 3);
    put_wrapped(out, DOC_STRONG, cost, 3, 3);
}

void doc_as_text(const struct doc *doc, struct rs_output_style style, struct rs_buf *buf)
{
    const struct out out = {.buf = buf, .style = style};
    for (size_t i = 0; i < doc->block_count; i++) {
        const struct doc_block *block = &doc->blocks[i];
        const char *text = doc_string(doc, block->text);
        switch (block->kind) {
        case DOC_TITLE:
            put_wrapped(&out, DOC_STRONG, text, 0, 0);
            break;
        case DOC_HEADING:
            put_heading(&out, text, doc_string(doc, block->second));
            break;
        case DOC_PARAGRAPH:
            put_spaces(buf, INDENT);
            put_wrapped(&out, block->style, text, INDENT, INDENT);
            break;
        case DOC_BULLET:
            put_spaces(buf, 3);
            rs_buf_string(buf, style.has_utf8 ? "\u2022 " : "- ");
            put_wrapped(&out, DOC_PLAIN, text, 5, 5);
            break;
        case DOC_FINDING:
            put_finding(&out, doc, block);
            break;
        case DOC_TABLE:
            put_table(&out, doc, block);
            break;
        }
    }
}

/* --- Markdown --------------------------------------------------------------------------------- */

/* What Markdown or HTML would take for its own is escaped; '_' inside words is not emphasis. */
static void put_escaped(struct rs_buf *buf, const char *text)
{
    for (; *text; text++) {
        if (strchr("|`<>*\\[]#", *text))
            rs_buf_u8(buf, '\\');
        rs_buf_u8(buf, (uint8_t)*text);
    }
}

static void put_markdown_row(struct rs_buf *buf, const struct doc *doc,
                             const struct doc_block *table, size_t first)
{
    const struct doc_cell *titles = doc->cells + table->first_cell;
    const struct out out = {.buf = buf, .style = {.has_utf8 = true}};
    for (size_t c = 0; c < table->column_count; c++) {
        const char *text = doc_string(doc, titles[first + c].text);
        rs_buf_string(buf, "| ");
        if (first && titles[c].column_kind == DOC_BAR)
            put_bar(&out, text, strlen(text), strlen(text));
        else
            put_escaped(buf, text);
        rs_buf_u8(buf, ' ');
    }
    rs_buf_string(buf, "|\n");
}

/* Exactly one empty line before what follows (none at the beginning). */
static void put_gap(struct rs_buf *buf)
{
    while (buf->length && buf->data[buf->length - 1] == '\n')
        buf->length--;
    if (buf->length)
        rs_buf_string(buf, "\n\n");
}

static void put_markdown_table(struct rs_buf *buf, const struct doc *doc,
                               const struct doc_block *table)
{
    const struct doc_cell *titles = doc->cells + table->first_cell;
    put_gap(buf);
    for (size_t i = 0; i + table->column_count <= table->cell_count && table->column_count;
         i += table->column_count) {
        put_markdown_row(buf, doc, table, i);
        for (size_t c = 0; c < table->column_count && i == 0; c++)
            rs_buf_string(buf, titles[c].column_kind == DOC_RIGHT ? "|---:" : "|:---");
        if (i == 0)
            rs_buf_string(buf, "|\n");
    }
    rs_buf_u8(buf, '\n');
}

/* A block of one kind of mark around escaped text. */
static void put_marked(struct rs_buf *buf, const char *open, const char *text, const char *close)
{
    put_gap(buf);
    rs_buf_string(buf, open);
    put_escaped(buf, text);
    rs_buf_string(buf, close);
    rs_buf_string(buf, "\n\n");
}

static void put_markdown_block(struct rs_buf *buf, const struct doc *doc,
                               const struct doc_block *block)
{
    const char *text = doc_string(doc, block->text);
    const char *mark = block->style == DOC_STRONG || block->style == DOC_ALARM ? "**" : "";
    char number[32];
    switch (block->kind) {
    case DOC_TITLE:
        put_marked(buf, "# ", text, "");
        return;
    case DOC_HEADING:
        put_marked(buf, "## ", text, "");
        if (*doc_string(doc, block->second))
            put_marked(buf, "*", doc_string(doc, block->second), "*");
        return;
    case DOC_PARAGRAPH:
        put_marked(buf, mark, text, mark);
        return;
    case DOC_BULLET:
        rs_buf_string(buf, "- ");
        put_escaped(buf, text);
        rs_buf_u8(buf, '\n');
        return;
    case DOC_FINDING:
        (void)snprintf(number, sizeof number, "## %zu. ", block->number);
        put_marked(buf, number, text, "");
        put_marked(buf, "**", doc_string(doc, block->second), "**");
        return;
    case DOC_TABLE:
        put_markdown_table(buf, doc, block);
    }
}

void doc_as_markdown(const struct doc *doc, struct rs_buf *buf)
{
    for (size_t i = 0; i < doc->block_count; i++)
        put_markdown_block(buf, doc, &doc->blocks[i]);
    put_gap(buf);
    if (buf->length)
        buf->length--; /* the file ends with one line end */
}
