/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rows are (row_place.h draws what becomes of a capture's).
 *
 *     ANSWERING --it is not reached, or lets nobody in--> AWAY: all are refused until `retry_at`; then one asks
 *         ^                                             |
 *         +--------------- it answered -----------------+   each time it does not, the pause is twice as long
 *
 * rows.at is lines: what it is, the database, the word, "partial" or "complete", then the notes. It is written before the first row is
 * sent, so that a capture of which rows may be in the database is known as such whenever the process ends. A folder that names another
 * database has no rows in this one.
 *
 * What a process has written of the captures that it joined last is kept (rs_clickhouse_known): the next join of one sends what changed.
 */
#include "aggregator/store/row_place.h"

#include "aggregator/store/row_place_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#define RS_LOG_TAG "rows"
#include "common/base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char head_line[] = "rankscope rows 1";
static const char capture_db[] = "capture.db";
static const rs_dur first_pause_ns = RS_NS_PER_S;
static const rs_dur longest_pause_ns = 30 * (rs_dur)RS_NS_PER_S;

enum {
    KNOWN_MAX = 32,
    FILE_MAX_BYTES = 1 << 20,
    WHY_BYTES = 512,
    CONNECT_S = 5,
    STALL_S = 60,
    USE_STALL_S = 10 /* of small questions, which people wait for */
};

struct one_known {
    char capture[64];
    struct rs_clickhouse_known *known; /* NULL: free, or with who writes now */
    uint64_t used_at;
};

struct rs_row_place {
    struct rs_clickhouse_options options; /* its texts are its own */
    char *texts[5];
    pthread_mutex_t lock; /* guards all below */
    bool is_away;
    rs_ns away_since, retry_at; /* monotonic */
    rs_dur pause_ns;
    char why[WHY_BYTES];
    struct one_known known[KNOWN_MAX];
    uint64_t clock;
};

/* ---- rows.at ------------------------------------------------------------------------------------------------------------- */

enum word { WORD_NONE, WORD_WRITING, WORD_SO_FAR, WORD_OWED, WORD_WHOLE, WORD_COUNT };

static const char *const words[WORD_COUNT] = {
    [WORD_NONE] = "",     [WORD_WRITING] = "writing", [WORD_SO_FAR] = "so far",
    [WORD_OWED] = "owed", [WORD_WHOLE] = "whole",
};

struct said {
    struct rs_buf text;
    const char *url, *rest; /* in it; rest: what stands behind the word */
    enum word word;
};

/* The line at *at_p, ended; NULL: there is none. */
static char *next_line(char **at_p)
{
    char *line = *at_p;
    char *end = strchr(line, '\n');
    if (!end)
        return NULL;
    *end = '\0';
    *at_p = end + 1;
    return line;
}

/* What cannot be read says nothing: rows are made again. */
static void read_file(const char *dir, struct said *said)
{
    *said = (struct said){.url = "", .rest = ""};
    char *path = rs_file_join(dir, RS_ROW_PLACE_FILE);
    if (path && rs_file_read_regular(path, FILE_MAX_BYTES, &said->text, NULL) == RS_OK) {
        (void)rs_buf_text(&said->text);
        char *at = said->text.failed ? NULL : (char *)said->text.data;
        const char *head = at ? next_line(&at) : NULL;
        const char *url = head ? next_line(&at) : NULL;
        const char *word = url ? next_line(&at) : NULL;
        for (int i = WORD_WRITING; word && strcmp(head, head_line) == 0 && i < WORD_COUNT; i++)
            if (strcmp(word, words[i]) == 0) {
                said->word = (enum word)i;
                said->url = url;
                said->rest = at;
            }
    }
    rs_mem_free(path);
}

static enum word word_of(const struct rs_row_place *place, const char *dir)
{
    struct said said;
    read_file(dir, &said);
    const enum word word =
        place && strcmp(said.url, place->options.url) == 0 ? said.word : WORD_NONE;
    rs_buf_fini(&said.text);
    return word;
}

void rs_row_notes_put(const struct rs_row_notes *notes, struct rs_buf *buf)
{
    rs_buf_printf(buf, "%s\n", notes->is_partial ? "partial" : "complete");
    for (size_t i = 0; i < notes->count && buf->length < FILE_MAX_BYTES / 2; i++)
        rs_buf_printf(buf, "%.*s\n", (int)strcspn(notes->lines[i], "\n"), notes->lines[i]);
}

static enum rs_status write_file(const char *url, const char *dir, enum word word,
                                 const struct rs_row_notes *notes, struct rs_err *err)
{
    struct rs_buf text = {0};
    char *path = rs_file_join(dir, RS_ROW_PLACE_FILE);
    static const struct rs_row_notes none = {.count = 0};
    rs_buf_printf(&text, "%s\n%s\n%s\n", head_line, url, words[word]);
    rs_row_notes_put(notes ? notes : &none, &text);
    const enum rs_status status =
        path && !text.failed
            ? rs_file_replace(path, text.data, text.length, word != WORD_WRITING, err)
            : rs_err_set(err, RS_NOMEM, "no memory for where rows are");
    rs_mem_free(path);
    rs_buf_fini(&text);
    return status;
}

static bool is_closed(const char *dir)
{
    char *path = rs_file_join(dir, capture_db);
    const bool is_there = path && access(path, F_OK) == 0;
    rs_mem_free(path);
    return is_there;
}

bool rs_row_place_has_some(const struct rs_row_place *place, const char *dir)
{
    return word_of(place, dir) != WORD_NONE;
}

bool rs_row_place_is_joining(const struct rs_row_place *place, const char *dir)
{
    if (!place)
        return rs_row_store_is_joining(dir);
    const enum word word = word_of(place, dir);
    return (word == WORD_WRITING || word == WORD_SO_FAR) && !is_closed(dir);
}

bool rs_row_place_is_whole(const struct rs_row_place *place, const char *dir)
{
    return word_of(place, dir) == WORD_WHOLE;
}

bool rs_row_place_is_owed(const struct rs_row_place *place, const char *dir)
{
    const enum word word = word_of(place, dir);
    return word != WORD_NONE && word != WORD_WHOLE && is_closed(dir);
}

enum rs_status rs_row_place_owe(const struct rs_row_place *place, const char *dir,
                                struct rs_err *err)
{
    return write_file(place->options.url, dir, WORD_OWED, NULL, err);
}

void rs_row_place_made_again(const char *dir)
{
    struct said said;
    struct rs_err err = {0};
    read_file(dir, &said);
    if (said.word != WORD_NONE && write_file(said.url, dir, WORD_OWED, NULL, &err) < 0)
        rs_log_warn("%s", err.text);
    rs_buf_fini(&said.text);
}

/* ---- notes ------------------------------------------------------------------------------------------------------------------ */

bool rs_row_notes_add(struct rs_row_notes *notes, const char *line)
{
    char *copy = rs_mem_grow((void **)&notes->lines, &notes->capacity, notes->count + 1,
                             sizeof *notes->lines) < 0
                     ? NULL
                     : rs_mem_strdup(line);
    if (copy)
        notes->lines[notes->count++] = copy;
    return copy != NULL;
}

void rs_row_notes_fini(struct rs_row_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        rs_mem_free(notes->lines[i]);
    rs_mem_free(notes->lines);
    *notes = (struct rs_row_notes){0};
}

enum rs_status rs_row_notes_take(const char *text, struct rs_row_notes *notes_p, struct rs_err *err)
{
    struct rs_row_notes notes = {0};
    char *copy = rs_mem_strdup(text), *at = copy;
    enum rs_status status =
        copy ? RS_OK : rs_err_set(err, RS_NOMEM, "no memory for where rows are");
    const char *first = copy ? next_line(&at) : NULL;
    notes.is_partial = first && strcmp(first, "partial") == 0;
    for (const char *line = first; line && status == RS_OK && (line = next_line(&at)) != NULL;)
        if (!rs_row_notes_add(&notes, line))
            status = rs_err_set(err, RS_NOMEM, "no memory for where rows are");
    rs_mem_free(copy);
    if (status == RS_OK)
        *notes_p = notes;
    else
        rs_row_notes_fini(&notes);
    return status;
}

enum rs_status rs_row_place_notes(const struct rs_row_place *place, const char *dir,
                                  struct rs_row_notes *notes, struct rs_err *err)
{
    struct said said;
    read_file(dir, &said);
    *notes = (struct rs_row_notes){0};
    const bool is_here = said.word == WORD_WHOLE && strcmp(said.url, place->options.url) == 0;
    const enum rs_status status =
        is_here && strchr(said.rest, '\n')
            ? rs_row_notes_take(said.rest, notes, err)
            : rs_err_set(err, RS_NOTFOUND, "the rows of %s are not all in %s", dir,
                         place->options.url);
    rs_buf_fini(&said.text);
    return status;
}

/* ---- whether it answers ------------------------------------------------------------------------------------------------------ */

/* RS_UNREACHABLE: it did not answer, and is not to be asked yet. */
static enum rs_status may_ask(struct rs_row_place *place, struct rs_err *err)
{
    const rs_ns now = rs_time_monotonic();
    enum rs_status status = RS_OK;
    (void)pthread_mutex_lock(&place->lock);
    if (place->is_away && now < place->retry_at)
        status = rs_err_set(err, RS_UNREACHABLE, "%s (for %lld s now; it is asked again in %lld s)",
                            place->why, (long long)((now - place->away_since) / RS_NS_PER_S),
                            (long long)((place->retry_at - now) / RS_NS_PER_S + 1));
    else if (place->is_away)
        place->retry_at = now + place->pause_ns; /* this one asks; others wait for what it hears */
    (void)pthread_mutex_unlock(&place->lock);
    return status;
}

static void answered(struct rs_row_place *place)
{
    (void)pthread_mutex_lock(&place->lock);
    const bool was_away = place->is_away;
    const rs_dur length = rs_time_monotonic() - place->away_since;
    place->is_away = false;
    place->pause_ns = 0;
    (void)pthread_mutex_unlock(&place->lock);
    if (was_away)
        rs_log_info("%s takes rows again, after %lld s", place->options.url,
                    (long long)(length / RS_NS_PER_S));
}

static void did_not_answer(struct rs_row_place *place, const struct rs_err *why)
{
    const rs_ns now = rs_time_monotonic();
    (void)pthread_mutex_lock(&place->lock);
    const bool was_away = place->is_away;
    if (!was_away)
        place->away_since = now;
    place->is_away = true;
    place->pause_ns = place->pause_ns ? 2 * place->pause_ns : first_pause_ns;
    if (place->pause_ns > longest_pause_ns)
        place->pause_ns = longest_pause_ns;
    place->retry_at = now + place->pause_ns;
    (void)snprintf(place->why, sizeof place->why, "%.500s", why->text);
    (void)pthread_mutex_unlock(&place->lock);
    if (!was_away)
        rs_log_error("rows wait: %s", why->text);
}

rs_ns rs_row_place_retry_at(struct rs_row_place *place, char *why_p, size_t size)
{
    (void)pthread_mutex_lock(&place->lock);
    const rs_ns at = place->is_away ? place->retry_at : 0;
    if (size)
        (void)snprintf(why_p, size, "%s", at ? place->why : "");
    (void)pthread_mutex_unlock(&place->lock);
    return at;
}

void rs_row_place_say(struct rs_row_place *place, const char *dir, char *text_p, size_t size)
{
    if (!place) {
        *text_p = '\0';
        return;
    }
    const enum word word = word_of(place, dir);
    const char *url = place->options.url;
    char why[sizeof place->why];
    if (word == WORD_WHOLE)
        (void)snprintf(text_p, size, "in %s", url);
    else if (word == WORD_NONE)
        *text_p = '\0';
    else if (rs_row_place_retry_at(place, why, sizeof why))
        (void)snprintf(text_p, size, "wait for %s: %s", url, why);
    else if (is_closed(dir))
        (void)snprintf(text_p, size, "are on their way to %s", url);
    else
        (void)snprintf(text_p, size, "so far in %s", url);
}

/* Nobody is answered, whatever is asked. */
static bool is_of_all(enum rs_status status)
{
    return status == RS_UNREACHABLE || status == RS_REFUSED;
}

/* The database's doing, as against what was asked of it; it may take those of another capture. */
static bool is_its_failure(enum rs_status status)
{
    return status < 0 && status != RS_NOTFOUND && status != RS_NOMEM && status != RS_AGAIN;
}

/* ---- what was written ---------------------------------------------------------------------------------------------------------- */

/* Takes it out, or a new one; NULL: no memory, and everything is sent. */
static struct rs_clickhouse_known *take_known(struct rs_row_place *place, const char *capture)
{
    struct rs_clickhouse_known *known = NULL;
    (void)pthread_mutex_lock(&place->lock);
    for (size_t i = 0; i < KNOWN_MAX && !known; i++)
        if (place->known[i].known && strcmp(place->known[i].capture, capture) == 0) {
            known = place->known[i].known;
            place->known[i].known = NULL;
        }
    (void)pthread_mutex_unlock(&place->lock);
    return known ? known : rs_clickhouse_known_new();
}

/* Into a free place, or into that of the capture that was joined longest ago. */
static void put_known(struct rs_row_place *place, const char *capture,
                      struct rs_clickhouse_known *known)
{
    if (!known)
        return;
    (void)pthread_mutex_lock(&place->lock);
    struct one_known *into = &place->known[0];
    for (size_t i = 1; i < KNOWN_MAX && into->known; i++)
        if (!place->known[i].known || place->known[i].used_at < into->used_at)
            into = &place->known[i];
    rs_clickhouse_known_free(&into->known);
    into->known = known;
    into->used_at = ++place->clock;
    (void)snprintf(into->capture, sizeof into->capture, "%s", capture);
    (void)pthread_mutex_unlock(&place->lock);
}

static void forget_known(struct rs_row_place *place, const char *capture)
{
    struct rs_clickhouse_known *known = take_known(place, capture);
    rs_clickhouse_known_free(&known);
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------ */

static const char *copy_text(struct rs_row_place *place, size_t at, const char *text,
                             bool *has_failed)
{
    if (!text)
        return NULL;
    place->texts[at] = rs_mem_strdup(text);
    *has_failed = *has_failed || !place->texts[at];
    return place->texts[at];
}

enum rs_status rs_row_place_open(const struct rs_clickhouse_options *options,
                                 struct rs_row_place **place_p, struct rs_err *err)
{
    struct rs_row_place *place = rs_mem_calloc(1, sizeof *place);
    struct rs_row_store *rows = NULL;
    struct rs_err why = {0};
    bool has_failed = false;
    if (!place)
        return rs_err_set(err, RS_NOMEM, "no memory for where rows are");
    (void)pthread_mutex_init(&place->lock, NULL);
    place->options = *options;
    place->options.url = copy_text(place, 0, options->url, &has_failed);
    place->options.password_file = copy_text(place, 1, options->password_file, &has_failed);
    place->options.ca_file = copy_text(place, 2, options->ca_file, &has_failed);
    place->options.cert_file = copy_text(place, 3, options->cert_file, &has_failed);
    place->options.key_file = copy_text(place, 4, options->key_file, &has_failed);
    if (!place->options.connect_s)
        place->options.connect_s = CONNECT_S;
    if (!place->options.stall_s)
        place->options.stall_s = STALL_S;
    /* Missing tables are made now, so that a user without the right to it, or tables of another version, stop the start. */
    enum rs_status status =
        has_failed ? rs_err_set(&why, RS_NOMEM, "no memory for where rows are")
                   : rs_clickhouse_open(&place->options, "", RS_ROWS_WRITE, &rows, &why);
    rs_row_store_close(&rows);
    /* What may pass (it is away, it has no memory, its disk is full) is no reason for ranks to be turned away. */
    if (status == RS_UNREACHABLE || status == RS_IO) {
        did_not_answer(place, &why);
        status = RS_OK;
    }
    if (status == RS_OK) {
        *place_p = place;
        return RS_OK;
    }
    rs_row_place_close(&place);
    return rs_err_set(err, status, "%s", why.text);
}

void rs_row_place_close(struct rs_row_place **place_p)
{
    struct rs_row_place *place = *place_p;
    if (!place)
        return;
    for (size_t i = 0; i < KNOWN_MAX; i++)
        rs_clickhouse_known_free(&place->known[i].known);
    for (size_t i = 0; i < sizeof place->texts / sizeof place->texts[0]; i++)
        rs_mem_free(place->texts[i]);
    (void)pthread_mutex_destroy(&place->lock);
    rs_mem_free(place);
    *place_p = NULL;
}

const char *rs_row_place_url(const struct rs_row_place *place)
{
    return place->options.url;
}

enum rs_status row_place_use(struct rs_row_place *place,
                             enum rs_status (*use)(void *self, struct clickhouse_link *link,
                                                   struct rs_err *err),
                             void *self, struct rs_err *err)
{
    struct rs_clickhouse_options options = place->options;
    struct clickhouse_link *link = NULL;
    struct rs_err why = {0};
    enum rs_status status = may_ask(place, err);
    if (status != RS_OK)
        return status;
    options.stall_s = USE_STALL_S;
    status = clickhouse_link_open(&options, &link, &why);
    if (status == RS_OK)
        status = use(self, link, &why);
    clickhouse_link_close(&link);
    if (status == RS_UNREACHABLE)
        did_not_answer(place, &why);
    else if (!is_of_all(status))
        answered(place);
    return status < 0 ? rs_err_set(err, status, "%s", why.text) : RS_OK;
}

/* ---- reading and writing ------------------------------------------------------------------------------------------------------ */

enum rs_status rs_row_place_read(struct rs_row_place *place, const char *capture, const char *dir,
                                 struct rs_row_store **rows_p, struct rs_err *err)
{
    struct rs_err why = {0};
    if (!place)
        return rs_row_store_open(dir, RS_ROWS_READ, rows_p, err);
    enum rs_status status = may_ask(place, err);
    if (status != RS_OK)
        return status;
    status = rs_clickhouse_open(&place->options, capture, RS_ROWS_READ, rows_p, &why);
    if (is_of_all(status))
        did_not_answer(place, &why);
    else
        answered(place);
    return status < 0 ? rs_err_set(err, status, "%s", why.text) : status;
}

enum rs_status rs_row_place_begin(struct rs_row_place *place, const char *capture, const char *dir,
                                  struct rs_row_writing *writing_p, struct rs_err *err)
{
    struct rs_err why = {0};
    *writing_p = (struct rs_row_writing){.place = place, .dir = dir};
    (void)snprintf(writing_p->capture, sizeof writing_p->capture, "%s", capture);
    if (!place)
        return rs_row_store_open(dir, RS_ROWS_WRITE, &writing_p->rows, err);
    /* First, so that it is known after a crash. What is closed is owed until all of it is there. */
    enum rs_status status = is_closed(dir)
                                ? rs_row_place_owe(place, dir, err)
                                : write_file(place->options.url, dir, WORD_WRITING, NULL, err);
    if (status == RS_OK) {
        status = may_ask(place, err);
        writing_p->is_away = status != RS_OK;
    }
    if (status != RS_OK)
        return status;
    struct rs_clickhouse_options options = place->options;
    options.known = writing_p->known = take_known(place, capture);
    status = rs_clickhouse_open(&options, capture, RS_ROWS_WRITE, &writing_p->rows, &why);
    writing_p->is_away = is_its_failure(status) || status == RS_NOTFOUND;
    if (is_of_all(status) || status == RS_NOTFOUND)
        did_not_answer(place, &why);
    else
        answered(place);
    if (status < 0)
        return rs_err_set(err, status, "%s", why.text);
    rs_row_store_hold(writing_p->rows);
    return RS_OK;
}

static enum rs_status send_rows(struct rs_row_writing *writing, const struct rs_row_notes *notes,
                                struct rs_err *err)
{
    struct rs_row_place *place = writing->place;
    struct rs_err why = {0};
    enum rs_status status = RS_OK;
    if (notes)
        status = rs_row_store_is_all(writing->rows, 1, &why);
    if (status == RS_OK)
        status = rs_row_store_release(writing->rows, &why);
    if (status == RS_OK) {
        answered(place);
        return write_file(place->options.url, writing->dir, notes ? WORD_WHOLE : WORD_SO_FAR, notes,
                          err);
    }
    writing->is_away = is_its_failure(status);
    if (is_of_all(status))
        did_not_answer(place, &why);
    else
        answered(place);
    return rs_err_set(err, status, "%s", why.text);
}

enum rs_status rs_row_place_end(struct rs_row_writing *writing, enum rs_status status,
                                const struct rs_row_notes *notes, struct rs_err *err)
{
    if (writing->place && writing->rows && status >= 0) {
        const enum rs_status sent = send_rows(writing, notes, err);
        status = sent < 0 ? sent : status;
    } else if (writing->place && writing->rows && is_of_all(status)) {
        /* It went in the middle: nobody else refuses a join. */
        did_not_answer(writing->place, err);
        writing->is_away = true;
    }
    rs_row_store_close(&writing->rows);
    if (writing->place)
        put_known(writing->place, writing->capture, writing->known);
    writing->known = NULL;
    return status;
}

enum rs_status rs_row_place_remove(struct rs_row_place *place, const char *capture, const char *dir,
                                   struct rs_err *err)
{
    struct said said;
    struct rs_err why = {0};
    read_file(dir, &said);
    const bool is_elsewhere =
        said.word != WORD_NONE && (!place || strcmp(said.url, place->options.url) != 0);
    if (is_elsewhere)
        rs_log_warn("rows of capture %s stay in %s, which is not this aggregator's --store: "
                    "rankscope store rm",
                    capture, said.url);
    rs_buf_fini(&said.text);
    if (!place || is_elsewhere)
        return RS_OK;
    /* Also when the folder says nothing: of a capture that came back from the archive after its disk was lost, rows may be there. */
    enum rs_status status = may_ask(place, err);
    if (status != RS_OK)
        return status;
    forget_known(place, capture);
    status = rs_clickhouse_remove(&place->options, capture, &why);
    if (is_its_failure(status))
        did_not_answer(place, &why);
    else
        answered(place);
    return status < 0 ? rs_err_set(err, status, "%s", why.text) : RS_OK;
}
