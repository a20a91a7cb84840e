/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document as one HTML page that needs nothing else: no font, no file of a picture, no request. Everything that came from strangers
 * is escaped; the style stands in the page, for light and dark screens and for paper. It is whole without scripts; the report has one all the
 * same, which draws the page's views above it out of the data behind it. The policy allows that script by its digest, and no other.
 */
#include "aggregator/output/doc_priv.h"
#include "aggregator/output/report_script.h"

#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'";
static const char head_rest[] =
    "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
static const char page_style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--dim:#5c6570;--line:#d5dae0;--alarm:#b3261e;--soft:#fdecea;"
    "--good:#1f7a3d;--h0:#9ecae9;--h1:#e4e8ec;--h2:#fdd49e;--h3:#fc8d59;--h4:#d7301f;--h5:#7f0000}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--paper:#14171a;--dim:#9aa4af;--line:#343b43;--alarm:#ff8a80;"
    "--soft:#3a1d1b;--good:#7bd58f;--h0:#2c5f80;--h1:#262c32;--h2:#6e5526;--h3:#b5622f;--h4:#ee5a45;--h5:#ffc2b8}}\n"
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:64rem;margin:2rem auto;"
    "padding:0 1rem}\n"
    "h1{font-size:1.15rem;font-weight:600;color:var(--dim);margin:0 0 1rem}\n"
    "h2{font-size:1.05rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}\n"
    "section.finding{background:var(--soft);border-left:.4rem solid var(--alarm);padding:.8rem 1rem;margin:1rem 0}\n"
    "section.finding h2{border:0;margin:0;padding:0;font-size:1.6rem;line-height:1.25;color:var(--alarm)}\n"
    "section.finding p{margin:.3rem 0 .6rem;font-weight:600}\n"
    "ul{margin:.3rem 0;padding-left:1.3rem}li{margin:.2rem 0;overflow-wrap:anywhere}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "th{color:var(--dim);font-weight:500}.r{text-align:right}\n"
    ".parts{display:flex;height:1rem;min-width:9rem;margin-top:.25rem}.parts i{display:block;height:100%}\n"
    ".pC,.key.pC{background:#4477aa}.pX,.key.pX{background:#ee6677}.pM,.key.pM{background:#ccbb44}.pI,.key.pI{background:#8f979f}"
    ".pW,.key.pW{background:#aa3377}\n"
    ".key{display:inline-block;width:.9rem;height:.9rem;vertical-align:-.1rem;margin:0 .3rem 0 .6rem;border:1px solid var(--line)}\n"
    ".heat{width:100%;height:auto}.heat .axis{font-size:12px;fill:var(--dim);text-anchor:end}.heat .first{text-anchor:start}"
    ".heat .named{fill:var(--alarm);font-weight:700}.legend{color:var(--dim);font-size:.9rem}\n"
    ".h0{fill:var(--h0);background:var(--h0)}.h1{fill:var(--h1);background:var(--h1)}.h2{fill:var(--h2);background:var(--h2)}"
    ".h3{fill:var(--h3);background:var(--h3)}.h4{fill:var(--h4);background:var(--h4)}.h5{fill:var(--h5);background:var(--h5)}\n"
    "@media print{body{margin:0;max-width:none}}\n"
    "</style>\n";

static void put_escaped(struct rs_buf *buf, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            rs_buf_string(buf, "&amp;");
            break;
        case '<':
            rs_buf_string(buf, "&lt;");
            break;
        case '>':
            rs_buf_string(buf, "&gt;");
            break;
        case '"':
            rs_buf_string(buf, "&quot;");
            break;
        case '\'':
            rs_buf_string(buf, "&#39;");
            break;
        default:
            rs_buf_u8(buf, (uint8_t)*text);
        }
    }
}

static const char *class_of(enum doc_style style)
{
    switch (style) {
    case DOC_STRONG:
        return "strong";
    case DOC_ALARM:
        return "alarm";
    case DOC_GOOD:
        return "good";
    case DOC_DIM:
        return "dim";
    case DOC_PLAIN:
        break;
    }
    return "";
}

static void put_element(struct rs_buf *buf, const char *open, const char *text, const char *close)
{
    rs_buf_string(buf, open);
    put_escaped(buf, text);
    rs_buf_string(buf, close);
}

/* What the codes of doc_bar() say. */
static const struct {
    char code;
    const char *meaning;
} pieces[] = {{'C', "computing"},
              {'X', "exposed communication"},
              {'M', "memory"},
              {'I', "idle"},
              {'W', "waiting"}};

/* Codes as coloured pieces, each of its own width; what they say in words for who cannot see them. */
static void put_bar(struct rs_buf *buf, const char *codes)
{
    rs_buf_string(buf, "<div class=\"parts\" role=\"img\" aria-label=\"");
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t count = 0;
        for (const char *p = codes; *p; p++)
            count += *p == pieces[i].code;
        if (count)
            rs_buf_printf(buf, "%s %zu; ", pieces[i].meaning, count);
    }
    rs_buf_string(buf, "\">");
    for (const char *p = codes; *p;) {
        size_t run = 1;
        while (p[run] == *p)
            run++;
        rs_buf_printf(buf, "<i class=\"p%c\" style=\"width:%.1fem\"></i>", *p, 0.45 * (double)run);
        p += run;
    }
    rs_buf_string(buf, "</div>");
}

/* What the colours of a table's bars mean. */
static void put_bar_legend(struct rs_buf *buf)
{
    rs_buf_string(buf, "<p class=\"legend\">");
    for (size_t i = 0; i + 1 < sizeof pieces / sizeof pieces[0]; i++)
        rs_buf_printf(buf, "<span class=\"key p%c\"></span>%s", pieces[i].code, pieces[i].meaning);
    rs_buf_string(buf, "</p>\n");
}

static void put_table(struct rs_buf *buf, const struct doc *doc, const struct doc_block *table)
{
    const struct doc_cell *cells = doc->cells + table->first_cell;
    bool has_bars = false;
    if (!table->column_count)
        return;
    rs_buf_string(buf, "<table>\n");
    for (size_t i = 0; i < table->cell_count; i++) {
        const size_t column = i % table->column_count;
        const enum doc_column_kind kind = cells[column].column_kind;
        const char *tag = i < table->column_count ? "th" : "td";
        if (!column)
            rs_buf_string(buf, "<tr>");
        const bool is_bar = kind == DOC_BAR && i >= table->column_count;
        has_bars = has_bars || is_bar;
        rs_buf_printf(buf, "<%s class=\"%s%s\">", tag, kind == DOC_RIGHT ? "r " : "",
                      i < table->column_count ? "" : class_of(cells[i].style));
        if (is_bar)
            put_bar(buf, doc_string(doc, cells[i].text));
        else
            put_escaped(buf, doc_string(doc, cells[i].text));
        rs_buf_printf(buf, "</%s>", tag);
        if (column + 1 == table->column_count)
            rs_buf_string(buf, "</tr>\n");
    }
    rs_buf_string(buf, "</table>\n");
    if (has_bars)
        put_bar_legend(buf);
}

/* What a finding says stands in its box: its bullets, up to the next block of another kind. */
static void put_finding(struct rs_buf *buf, const struct doc *doc, const struct doc_block *block)
{
    rs_buf_printf(buf, "<section class=\"finding\"><h2>%zu. ", block->number);
    put_escaped(buf, doc_string(doc, block->text));
    put_element(buf, "</h2><p>", doc_string(doc, block->second), "</p>\n");
}

static void put_block(struct rs_buf *buf, const struct doc *doc, const struct doc_block *block)
{
    const char *text = doc_string(doc, block->text);
    switch (block->kind) {
    case DOC_TITLE:
        put_element(buf, "<h1>", text, "</h1>\n");
        return;
    case DOC_HEADING:
        put_element(buf, "<h2>", text, "</h2>\n");
        if (*doc_string(doc, block->second))
            put_element(buf, "<p class=\"dim\">", doc_string(doc, block->second), "</p>\n");
        return;
    case DOC_PARAGRAPH:
        rs_buf_printf(buf, "<p class=\"%s\">", class_of(block->style));
        put_element(buf, "", text, "</p>\n");
        return;
    case DOC_BULLET:
        put_element(buf, "<li>", text, "</li>\n");
        return;
    case DOC_FINDING:
        put_finding(buf, doc, block);
        return;
    case DOC_TABLE:
        put_table(buf, doc, block);
    }
}

static void put_head(struct rs_buf *buf, const struct doc *doc, const struct report_script *script)
{
    rs_buf_string(buf, head);
    if (script)
        rs_buf_printf(buf, "; script-src 'sha256-%s'", script->sha256);
    rs_buf_string(buf, head_rest);
    for (size_t i = 0; i < doc->block_count; i++)
        if (doc->blocks[i].kind == DOC_TITLE)
            put_element(buf, "<title>", doc_string(doc, doc->blocks[i].text), "</title>\n");
    rs_buf_string(buf, page_style);
    rs_buf_string(buf, "</head><body>\n");
}

static void put_blocks(struct rs_buf *buf, const struct doc *doc, const struct rs_buf *figure)
{
    bool in_list = false, in_finding = false;
    for (size_t i = 0; i < doc->block_count; i++) {
        const struct doc_block *block = &doc->blocks[i];
        const bool is_bullet = block->kind == DOC_BULLET;
        if (in_list && !is_bullet)
            rs_buf_string(buf, "</ul>\n");
        if (in_finding && !is_bullet) {
            rs_buf_string(buf, "</section>\n");
            in_finding = false;
        }
        if (!in_list && is_bullet)
            rs_buf_string(buf, "<ul>\n");
        in_list = is_bullet;
        if (figure && block->kind == DOC_HEADING) {
            rs_buf_bytes(buf, figure->data, figure->length);
            figure = NULL;
        }
        put_block(buf, doc, block);
        in_finding = in_finding || block->kind == DOC_FINDING;
    }
    rs_buf_string(buf, in_list ? "</ul>\n" : "");
    rs_buf_string(buf, in_finding ? "</section>\n" : "");
}

void doc_as_html(const struct doc *doc, const struct doc_page *page, struct rs_buf *buf)
{
    static const struct doc_page nothing = {.figure = NULL};
    page = page ? page : &nothing;
    const struct report_script *script =
        page->data && page->script && page->script->data ? page->script : NULL;
    put_head(buf, doc, script);
    rs_buf_string(buf, page->data ? "<div id=\"text\">\n" : "");
    put_blocks(buf, doc, page->figure);
    if (page->data) {
        rs_buf_string(buf, "</div>\n<script type=\"application/json\" id=\"data\">");
        rs_buf_bytes(buf, page->data->data, page->data->length);
        rs_buf_string(buf, "</script>\n");
    }
    if (script) {
        rs_buf_string(buf, "<script>");
        rs_buf_bytes(buf, script->data, script->size);
        rs_buf_string(buf, "</script>\n");
    }
    rs_buf_string(buf, "</body></html>\n");
}
