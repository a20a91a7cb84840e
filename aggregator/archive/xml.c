/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/archive/xml.h"

#include "common/base/mem.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 8, PATH_BYTES = 512, TEXT_BYTES = 4096 };

struct reading {
    XML_Parser parser;
    rs_xml_visit *visit;
    void *self;
    size_t depth;
    size_t path_length[DEPTH_MAX + 1]; /* before the element of that depth */
    char path[PATH_BYTES];
    char text[TEXT_BYTES];
    size_t text_length;
    bool has_ended; /* the visitor has enough */
    const char *why;
};

static void give_up(struct reading *reading, const char *why)
{
    reading->why = why;
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

static void XMLCALL on_start(void *self, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = self;
    (void)attributes;
    if (reading->depth >= DEPTH_MAX) {
        give_up(reading, "its elements are too deep");
        return;
    }
    const size_t length = strlen(reading->path);
    reading->path_length[reading->depth++] = length;
    reading->text_length = 0;
    if (reading->depth == 1)
        return; /* the root's name is not in the path */
    const int wrote = snprintf(reading->path + length, sizeof reading->path - length, "%s%s",
                               length ? "/" : "", name);
    if (wrote < 0 || (size_t)wrote >= sizeof reading->path - length)
        give_up(reading, "a name in it is too long");
}

static void XMLCALL on_text(void *self, const XML_Char *text, int length)
{
    struct reading *reading = self;
    if ((size_t)length >= sizeof reading->text - reading->text_length) {
        give_up(reading, "a text in it is too long");
        return;
    }
    memcpy(reading->text + reading->text_length, text, (size_t)length);
    reading->text_length += (size_t)length;
}

static void XMLCALL on_end(void *self, const XML_Char *name)
{
    struct reading *reading = self;
    (void)name;
    reading->text[reading->text_length] = '\0';
    if (reading->depth > 1 && !reading->visit(reading->self, reading->path, reading->text)) {
        reading->has_ended = true;
        (void)XML_StopParser(reading->parser, XML_FALSE);
    }
    reading->text_length = 0;
    reading->path[reading->path_length[--reading->depth]] = '\0';
}

/* An answer has no entities of its own, and what they could grow to is nothing to wait for. */
static void XMLCALL on_doctype(void *self, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int has_subset)
{
    (void)name;
    (void)system;
    (void)public;
    (void)has_subset;
    give_up(self, "it declares a document type");
}

enum rs_status rs_xml_read(const void *data, size_t length, rs_xml_visit *visit, void *self,
                           struct rs_err *err)
{
    struct reading *reading = rs_mem_calloc(1, sizeof *reading);
    XML_Parser parser = XML_ParserCreate("UTF-8");
    enum rs_status status = RS_OK;
    if (!reading || !parser || length > (size_t)1 << 30) {
        status = rs_err_set(err, RS_NOMEM, "no memory to read an answer");
    } else {
        *reading = (struct reading){.parser = parser, .visit = visit, .self = self};
        XML_SetUserData(parser, reading);
        XML_SetElementHandler(parser, on_start, on_end);
        XML_SetCharacterDataHandler(parser, on_text);
        XML_SetStartDoctypeDeclHandler(parser, on_doctype);
        if (XML_Parse(parser, data, (int)length, XML_TRUE) != XML_STATUS_OK && !reading->has_ended)
            status =
                rs_err_set(err, RS_FORMAT, "an answer in XML cannot be read: %s, in line %lu",
                           reading->why ? reading->why : XML_ErrorString(XML_GetErrorCode(parser)),
                           (unsigned long)XML_GetCurrentLineNumber(parser));
    }
    if (parser)
        XML_ParserFree(parser);
    rs_mem_free(reading);
    return status;
}
