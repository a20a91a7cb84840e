/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `aggregator`, which is no capture's: a row each time that an aggregator says that it lives.
 *
 *     INSERT INTO aggregator VALUES ('ID', 'PROCESS', ..., toUnixTimestamp(now()))     the database's clock, not ours
 *     SELECT ... WHERE (id, instance, seen) IN (SELECT id, instance, max(seen) ... GROUP BY id, instance)
 *
 * Written again it is the same row or a newer one, so a request whose answer was lost does no harm.
 *
 * Of a data folder there is one process (its lock), so that a newer one takes the place of an older one at once. Two that live with one id
 * have copies of one folder: both are listed, and marked.
 */
#include "aggregator/store/clickhouse_http.h"
#include "aggregator/store/fleet_priv.h"
#include "common/base/file.h"
#include "common/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    LISTED_S = 7 * 86400,
    LIST_MAX = 10000,
    LINE_COLUMNS = 13,
    FILE_MAX_BYTES = 4096,
    STATE_LIVING = 0,
    STATE_STOPPED = 1
};

#define COLUMNS                                                                                    \
    "id, instance, epoch, host, address, http, version, captures, open, state, began, seen"

static const char create_sql[] =
    "CREATE TABLE IF NOT EXISTS aggregator (id String, instance String, epoch Int64, host String, "
    "address String, http String, version String, captures Int64, open Int64, state Int64, "
    "began Int64, seen Int64) ENGINE = ReplacingMergeTree(seen) ORDER BY (id, instance)";

struct rs_fleet {
    struct clickhouse_link *link;
};

static enum rs_status no_memory(struct rs_err *err)
{
    return rs_err_set(err, RS_NOMEM, "no memory for the list of aggregators");
}

const char *rs_fleet_state_text(enum rs_fleet_state state)
{
    switch (state) {
    case RS_FLEET_LIVING:
        return "living";
    case RS_FLEET_STOPPED:
        return "stopped";
    case RS_FLEET_GONE:
        break;
    }
    return "gone";
}

void rs_fleet_list_fini(struct rs_fleet_list *list)
{
    rs_mem_free(list->items);
    *list = (struct rs_fleet_list){.count = 0};
}

/* ---- the id ------------------------------------------------------------------------------------------------------------- */

static const char head_line[] = "rankscope aggregator 1";

static bool is_id(const char *text)
{
    return strlen(text) == RS_FLEET_ID_BYTES - 1 &&
           strspn(text, "0123456789abcdef") == RS_FLEET_ID_BYTES - 1;
}

static enum rs_status make_id(char id_p[RS_FLEET_ID_BYTES], struct rs_err *err)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return rs_err_errno(err, "cannot get random bytes");
    (void)snprintf(id_p, RS_FLEET_ID_BYTES, "%016" PRIx64, number);
    return RS_OK;
}

/* "HEAD\nID\nEPOCH\n" */
static enum rs_status parse_file(const char *path, char *text, char id_p[RS_FLEET_ID_BYTES],
                                 int64_t *epoch_p, struct rs_err *err)
{
    char *rest = NULL, *end = NULL;
    const char *head = strtok_r(text, "\n", &rest);
    const char *id = head ? strtok_r(NULL, "\n", &rest) : NULL;
    const char *epoch = id ? strtok_r(NULL, "\n", &rest) : NULL;
    const long long number = epoch ? strtoll(epoch, &end, 10) : 0;
    if (!epoch || strcmp(head, head_line) != 0 || !is_id(id) || end == epoch || *end ||
        number < 0 || number >= RS_FLEET_EPOCH_MAX)
        return rs_err_set(err, RS_FORMAT,
                          "%s does not say which aggregator this is: without the file it gets a "
                          "new id",
                          path);
    (void)snprintf(id_p, RS_FLEET_ID_BYTES, "%s", id);
    *epoch_p = number;
    return RS_OK;
}

enum rs_status rs_fleet_id_take(const char *data_dir, char id_p[RS_FLEET_ID_BYTES],
                                int64_t *epoch_p, struct rs_err *err)
{
    struct rs_buf text = {0};
    char id[RS_FLEET_ID_BYTES], *path = rs_file_join(data_dir, RS_FLEET_ID_FILE);
    int64_t epoch = 0;
    if (!path)
        return no_memory(err);
    enum rs_status status = rs_file_read_regular(path, FILE_MAX_BYTES, &text, err);
    if (status == RS_NOTFOUND) {
        status = make_id(id, err);
    } else if (status == RS_OK) {
        (void)rs_buf_text(&text);
        status =
            text.failed ? no_memory(err) : parse_file(path, (char *)text.data, id, &epoch, err);
    }
    if (status == RS_OK) {
        rs_buf_reset(&text);
        rs_buf_printf(&text, "%s\n%s\n%" PRId64 "\n", head_line, id, epoch + 1);
        status =
            text.failed ? no_memory(err) : rs_file_replace(path, text.data, text.length, true, err);
    }
    rs_buf_fini(&text);
    rs_mem_free(path);
    if (status != RS_OK)
        return status;
    memcpy(id_p, id, sizeof id);
    *epoch_p = epoch + 1;
    return RS_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

static enum rs_status bad_answer(struct rs_err *err)
{
    return rs_err_set(err, RS_FORMAT,
                      "the table aggregator answers with something else than aggregators");
}

static bool take_number(const char *text, int64_t *number_p)
{
    char *end = NULL;
    *number_p = strtoll(text, &end, 10);
    return end != text && !*end;
}

/* What can stand between quotes as it is, and on a terminal. */
static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~' || *text == '\'' ||
            *text == '\\')
            return false;
    return true;
}

static bool take_text(const char *text, char *to, size_t size)
{
    return is_plain(text) && snprintf(to, size, "%s", text) < (int)size;
}

/* The columns of a line, each ended; false: they are not as many as asked for. */
static bool split(char *line, char *columns[LINE_COLUMNS])
{
    size_t count = 0;
    for (char *at = line; at && count < LINE_COLUMNS; count++) {
        columns[count] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return count == LINE_COLUMNS;
}

/* Whoever may write into the database may have put anything into the table: false, it is no row of an aggregator. */
static bool take_line(char *const columns[LINE_COLUMNS], struct rs_fleet_member *member,
                      int64_t *now_s)
{
    int64_t state = 0, began_s = 0, seen_s = 0;
    *member = (struct rs_fleet_member){.id = ""};
    if (!is_id(columns[0]) || !take_text(columns[0], member->id, sizeof member->id) ||
        !take_text(columns[1], member->instance, sizeof member->instance) ||
        !take_number(columns[2], &member->epoch) ||
        !take_text(columns[3], member->host, sizeof member->host) ||
        !take_text(columns[4], member->address, sizeof member->address) ||
        !take_text(columns[5], member->http, sizeof member->http) ||
        !take_text(columns[6], member->version, sizeof member->version) ||
        !take_number(columns[7], &member->captures) || !take_number(columns[8], &member->open) ||
        !take_number(columns[9], &state) || !take_number(columns[10], &began_s) ||
        !take_number(columns[11], &seen_s) || !take_number(columns[12], now_s))
        return false;
    const int64_t most_s = RS_NS_MAX / RS_NS_PER_S;
    if (began_s < 0 || began_s > most_s || seen_s < 0 || seen_s > most_s || *now_s < 0 ||
        *now_s > most_s || seen_s > *now_s + RS_FLEET_LEASE_S)
        return false;
    member->began_ns = began_s * RS_NS_PER_S;
    member->seen_ns = seen_s * RS_NS_PER_S;
    member->state = state == STATE_STOPPED                ? RS_FLEET_STOPPED
                    : seen_s + RS_FLEET_LEASE_S >= *now_s ? RS_FLEET_LIVING
                                                          : RS_FLEET_GONE;
    return true;
}

/* By id; of one id the process that counts first: the newest of its data folder. A stop was said behind what was said in its second. */
static int compare(const void *left, const void *right)
{
    const struct rs_fleet_member *a = left, *b = right;
    const int by_id = strcmp(a->id, b->id);
    if (by_id)
        return by_id;
    if (a->epoch != b->epoch)
        return a->epoch > b->epoch ? -1 : 1;
    if (a->seen_ns != b->seen_ns)
        return a->seen_ns > b->seen_ns ? -1 : 1;
    const int by_instance = strcmp(a->instance, b->instance);
    return by_instance ? by_instance
                       : (b->state == RS_FLEET_STOPPED) - (a->state == RS_FLEET_STOPPED);
}

/*
 * Which rows of an id are told. The one before of a data folder was killed and counts no more, though its lease has not ended: nobody
 * writes for it since the newer one began. One that wrote since has a copy of the folder.
 */
static void choose(struct rs_fleet_list *list)
{
    size_t kept = 0;
    for (size_t i = 0, end = 0; i < list->count; i = end) {
        const size_t first = kept;
        rs_ns began_ns = list->items[i].began_ns; /* of the newest */
        for (end = i; end < list->count && strcmp(list->items[end].id, list->items[i].id) == 0;
             end++) {
            const struct rs_fleet_member *member = &list->items[end];
            const bool is_other = strcmp(member->instance, list->items[i].instance) != 0 &&
                                  member->state == RS_FLEET_LIVING && member->seen_ns > began_ns &&
                                  list->items[i].state == RS_FLEET_LIVING;
            const bool is_again =
                kept > first && strcmp(member->instance, list->items[kept - 1].instance) == 0;
            if ((end == i || is_other) && !is_again)
                list->items[kept++] = *member;
        }
        for (size_t k = first; k < kept; k++)
            list->items[k].is_double = kept > first + 1;
    }
    list->count = kept;
}

enum rs_status fleet_take(const char *lines, struct rs_fleet_list *list, struct rs_err *err)
{
    struct rs_fleet_list told = {.count = 0};
    char *copy = rs_mem_strdup(lines), *rest = NULL;
    enum rs_status status = copy ? RS_OK : no_memory(err);
    for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line && status == RS_OK;
         line = strtok_r(NULL, "\n", &rest)) {
        char *columns[LINE_COLUMNS];
        int64_t now_s = 0;
        if (rs_mem_grow((void **)&told.items, &told.capacity, told.count + 1, sizeof *told.items) <
            0) {
            status = no_memory(err);
        } else if (!split(line, columns)) {
            status = bad_answer(err);
        } else if (take_line(columns, &told.items[told.count], &now_s)) {
            told.count++;
            told.now_ns = now_s * RS_NS_PER_S;
        }
    }
    rs_mem_free(copy);
    if (status != RS_OK) {
        rs_fleet_list_fini(&told);
        return status;
    }
    if (told.count)
        qsort(told.items, told.count, sizeof *told.items, compare);
    choose(&told);
    rs_fleet_list_fini(list);
    *list = told;
    return RS_OK;
}

/* Rows of a time that is still to come are nobody's: its clock was set back, or a stranger wrote one that would live for ever. They must not
 * stand before what was written since, either. */
static enum rs_status read_list(struct rs_fleet *fleet, struct rs_fleet_list *list,
                                struct rs_err *err)
{
    struct rs_buf sql = {0}, answer = {0};
    rs_buf_printf(&sql,
                  "SELECT " COLUMNS ", toUnixTimestamp(now()) FROM aggregator "
                  "WHERE seen >= toUnixTimestamp(now()) - %d AND (id, instance, seen) IN "
                  "(SELECT id, instance, max(seen) FROM aggregator "
                  "WHERE seen <= toUnixTimestamp(now()) + %d GROUP BY id, instance) "
                  "ORDER BY id, epoch, instance, seen, state LIMIT %d FORMAT TabSeparated",
                  LISTED_S, RS_FLEET_LEASE_S, LIST_MAX);
    const char *text = rs_buf_text(&sql);
    enum rs_status status =
        sql.failed ? no_memory(err) : clickhouse_run(fleet->link, text, NULL, true, &answer, err);
    if (status == RS_OK) {
        (void)rs_buf_text(&answer);
        status = answer.failed ? no_memory(err) : fleet_take(rs_buf_text(&answer), list, err);
    }
    rs_buf_fini(&sql);
    rs_buf_fini(&answer);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

static enum rs_status write_self(struct rs_fleet *fleet, const struct rs_fleet_member *self,
                                 rs_dur served_ns, struct rs_err *err)
{
    struct rs_buf row = {0};
    if (!is_plain(self->id) || !is_plain(self->instance) || !is_plain(self->host) ||
        !is_plain(self->address) || !is_plain(self->http) || !is_plain(self->version))
        return rs_err_set(err, RS_INVALID,
                          "the host or an address of this aggregator is not plain ASCII");
    rs_buf_printf(&row,
                  "('%s', '%s', %" PRId64 ", '%s', '%s', '%s', '%s', %" PRId64 ", %" PRId64
                  ", %d, toUnixTimestamp(now()) - %" PRId64 ", toUnixTimestamp(now()))",
                  self->id, self->instance, self->epoch, self->host, self->address, self->http,
                  self->version, self->captures, self->open,
                  self->state == RS_FLEET_STOPPED ? STATE_STOPPED : STATE_LIVING,
                  served_ns / RS_NS_PER_S);
    const enum rs_status status =
        row.failed ? no_memory(err)
                   : clickhouse_run(fleet->link, "INSERT INTO aggregator (" COLUMNS ") VALUES",
                                    &row, true, NULL, err);
    rs_buf_fini(&row);
    return status;
}

/* The database, too, where there is none: an aggregator may begin before the first rows of a capture are written. */
static enum rs_status create(struct rs_fleet *fleet, struct rs_err *err)
{
    struct rs_buf sql = {0};
    enum rs_status status = clickhouse_run(fleet->link, create_sql, NULL, true, NULL, err);
    if (status != RS_NOTFOUND)
        return status;
    rs_buf_printf(&sql, "CREATE DATABASE IF NOT EXISTS %s", clickhouse_link_database(fleet->link));
    const char *text = rs_buf_text(&sql);
    status =
        sql.failed ? no_memory(err) : clickhouse_run(fleet->link, text, NULL, false, NULL, err);
    if (status == RS_OK)
        status = clickhouse_run(fleet->link, create_sql, NULL, true, NULL, err);
    rs_buf_fini(&sql);
    return status;
}

enum rs_status rs_fleet_renew(struct rs_fleet *fleet, const struct rs_fleet_member *self,
                              rs_dur served_ns, struct rs_fleet_list *list, struct rs_err *err)
{
    struct rs_err why = {0};
    enum rs_status status = write_self(fleet, self, served_ns, &why);
    if (status == RS_NOTFOUND) {
        status = create(fleet, &why);
        if (status == RS_OK)
            status = write_self(fleet, self, served_ns, &why);
    }
    if (status == RS_OK)
        status = read_list(fleet, list, &why);
    return status == RS_OK ? RS_OK : rs_err_set(err, status, "%s", why.text);
}

/* ---- life --------------------------------------------------------------------------------------------------------------- */

enum rs_status rs_fleet_open(const struct rs_clickhouse_options *options, struct rs_fleet **fleet_p,
                             struct rs_err *err)
{
    struct rs_fleet *fleet = rs_mem_calloc(1, sizeof *fleet);
    if (!fleet)
        return no_memory(err);
    const enum rs_status status = clickhouse_link_open(options, &fleet->link, err);
    if (status == RS_OK)
        *fleet_p = fleet;
    else
        rs_fleet_close(&fleet);
    return status;
}

void rs_fleet_close(struct rs_fleet **fleet_p)
{
    struct rs_fleet *fleet = *fleet_p;
    if (!fleet)
        return;
    clickhouse_link_close(&fleet->link);
    rs_mem_free(fleet);
    *fleet_p = NULL;
}
