/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope token new|list|revoke`: who may use the HTTP API without a certificate.
 *
 * Run on the aggregator's host, as its user: tokens are files of its data folder (common/trust/token.h). A running aggregator
 * sees a new one, and one that is revoked, within a second.
 */
#include "common/trust/token.h"

#include "cli/cli.h"
#include "cli/options/args.h"
#include "common/base/json_out.h"
#include "common/base/paths.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const rs_dur day_ns = 86400 * (rs_dur)RS_NS_PER_S;
enum { VALID_DAYS = 90, VALID_MAX_DAYS = 3660 };

static struct {
    const char *data, *run;
    rs_dur valid_ns;
    bool is_operator, is_user, as_json;
} words;

#define DATA_ARG                                                                                   \
    {                                                                                              \
        .name = "data", .letter = 'd', .kind = RS_ARG_TEXT, .target = &words.data, .value = "DIR", \
        .environment = "RANKSCOPE_DATA",                                                           \
        .help = "the aggregator's data folder (default: /var/lib/rankscope for root)"              \
    }

static enum rs_status open_tokens(struct rs_tokens **tokens_p, struct rs_err *err)
{
    char data[RS_PATHS_BYTES], dir[RS_PATHS_BYTES];
    enum rs_status status = RS_OK;
    if (words.data)
        (void)snprintf(data, sizeof data, "%.4000s", words.data);
    else
        status = rs_paths_data_dir(data, err);
    (void)snprintf(dir, sizeof dir, "%.4000s/tokens", data);
    return status == RS_OK ? rs_tokens_open(dir, tokens_p, err) : status;
}

static void time_text(rs_ns at, char text_p[32])
{
    const time_t seconds = (time_t)(at / RS_NS_PER_S);
    struct tm utc;
    *text_p = '\0';
    if (gmtime_r(&seconds, &utc))
        (void)strftime(text_p, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static int finish(const char *verb, enum rs_status status, struct rs_err *err)
{
    return status < 0 ? rs_cli_fail(verb, err) : (int)rs_exit_of(status);
}

/* ---- new --------------------------------------------------------------------------------------------------------- */

static enum rs_status make(const char *name, struct rs_err *err)
{
    struct rs_tokens *tokens = NULL;
    struct rs_buf text = {0};
    const rs_dur valid = words.valid_ns ? words.valid_ns : VALID_DAYS * day_ns;
    const struct rs_token_wish wish = {.party = words.is_operator ? RS_PARTY_OPERATOR
                                                : words.is_user   ? RS_PARTY_USER
                                                                  : RS_PARTY_VIEWER,
                                       .name = name,
                                       .run = words.run,
                                       .expires_at = rs_time_realtime() + valid};
    char until_text[32];
    enum rs_status status = RS_OK;
    if (words.is_operator && words.is_user)
        status = rs_err_set(err, RS_INVALID, "--operator and --user exclude each other");
    else if (valid > VALID_MAX_DAYS * day_ns)
        status = rs_err_set(err, RS_INVALID, "--valid is at most %d days", VALID_MAX_DAYS);
    else
        status = open_tokens(&tokens, err);
    if (status == RS_OK)
        status = rs_tokens_make(tokens, &wish, &text, err);
    rs_tokens_close(&tokens);
    if (status == RS_OK) {
        time_text(wish.expires_at, until_text);
        if (printf("%s\n", rs_buf_text(&text)) < 0 || fflush(stdout) != 0)
            status = rs_err_errno(err, "cannot print the token");
        else
            rs_cli_note("token new", "%s/%s%s%s, until %s; it is not shown again",
                        rs_party_name(wish.party), name, words.run ? ", of run " : "",
                        words.run ? words.run : "", until_text);
    }
    rs_buf_fini(&text);
    return status;
}

static int token_new(int argc, char **argv)
{
    static const struct rs_arg items[] = {
        {.name = "operator",
         .kind = RS_ARG_FLAG,
         .target = &words.is_operator,
         .help = "may capture, stop and fetch, too (default: may read)"},
        {.name = "user",
         .kind = RS_ARG_FLAG,
         .target = &words.is_user,
         .help = "may capture, stop and read, of the processes of the user of that name alone"},
        {.name = "run",
         .kind = RS_ARG_TEXT,
         .target = &words.run,
         .value = "RUN",
         .help =
             "all that with this run and its captures alone: others are refused, and not in lists"},
        {.name = "valid",
         .kind = RS_ARG_DURATION,
         .target = &words.valid_ns,
         .value = "TIME",
         .help = "for how long (default: 90 days), for instance 2160h"},
        DATA_ARG,
    };
    static const struct rs_args args = {
        .verb = "token new",
        .operands = "NAME",
        .summary = "Makes a token and prints it, once. Whoever has it may use the HTTP API as "
                   "NAME: keep it as a password.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue = "  rankscope token new grafana > token\n"
                    "  rankscope token new alice --operator --run llama-7 --valid 24h\n"
                    "  curl --cacert ca.crt -H \"Authorization: Bearer $(cat token)\" "
                    "https://HOST:7071/api/v1/runs\n"
                    "\n"
                    "Exit: 0 done, 2 bad request, 3 refused.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc != first + 1)
        status = rs_err_set(&err, RS_INVALID, "one name is expected: whose token it is");
    if (status == RS_OK)
        status = make(argv[first], &err);
    return finish("token new", status, &err);
}

/* ---- list -------------------------------------------------------------------------------------------------------- */

struct listing {
    struct rs_json_out json;
    struct rs_buf buf;
    size_t count;
};

static void list_one(void *self, const struct rs_token_item *item)
{
    struct listing *listing = self;
    char created[32], expires[32];
    time_text(item->created_at, created);
    time_text(item->expires_at, expires);
    if (words.as_json) {
        rs_json_out_object(&listing->json);
        rs_json_out_key(&listing->json, "id");
        rs_json_out_string(&listing->json, item->id);
        rs_json_out_key(&listing->json, "party");
        rs_json_out_string(&listing->json, rs_party_name(item->party));
        rs_json_out_key(&listing->json, "name");
        rs_json_out_string(&listing->json, item->name);
        rs_json_out_key(&listing->json, "run");
        if (*item->run)
            rs_json_out_string(&listing->json, item->run);
        else
            rs_json_out_null(&listing->json);
        rs_json_out_key(&listing->json, "created_ns");
        rs_json_out_int(&listing->json, item->created_at);
        rs_json_out_key(&listing->json, "expires_ns");
        rs_json_out_int(&listing->json, item->expires_at);
        rs_json_out_end(&listing->json);
    } else {
        if (!listing->count)
            rs_buf_printf(&listing->buf, "%-13s %-9s %-24s %-21s %-28s %s\n", "ID", "PARTY", "NAME",
                          "CREATED", "EXPIRES", "RUN");
        char until[48];
        (void)snprintf(until, sizeof until, "%s%s", expires,
                       item->expires_at <= rs_time_realtime() ? " (over)" : "");
        rs_buf_printf(&listing->buf, "%-13s %-9s %-24s %-21s %-28s %s\n", item->id,
                      rs_party_name(item->party), item->name, created, until,
                      *item->run ? item->run : "all");
    }
    listing->count++;
}

static enum rs_status list(struct rs_err *err)
{
    struct rs_tokens *tokens = NULL;
    struct listing listing = {.count = 0};
    enum rs_status status = open_tokens(&tokens, err);
    rs_json_out_init(&listing.json, &listing.buf, 2);
    if (words.as_json) {
        rs_json_out_object(&listing.json);
        rs_json_out_key(&listing.json, "schema_version");
        rs_json_out_int(&listing.json, 1);
        rs_json_out_key(&listing.json, "tokens");
        rs_json_out_array(&listing.json);
    }
    if (status == RS_OK)
        status = rs_tokens_list(tokens, list_one, &listing, err);
    rs_tokens_close(&tokens);
    if (words.as_json) {
        rs_json_out_end(&listing.json);
        rs_json_out_end(&listing.json);
        rs_buf_u8(&listing.buf, '\n');
    } else if (status == RS_OK && !listing.count) {
        rs_buf_string(&listing.buf, "no token\n");
    }
    if (status == RS_OK && (printf("%s", rs_buf_text(&listing.buf)) < 0 || fflush(stdout) != 0))
        status = rs_err_errno(err, "cannot print the tokens");
    rs_buf_fini(&listing.buf);
    return status;
}

static int token_list(int argc, char **argv)
{
    static const struct rs_arg items[] = {
        {.name = "json", .kind = RS_ARG_FLAG, .target = &words.as_json, .help = "print JSON"},
        DATA_ARG,
    };
    static const struct rs_args args = {
        .verb = "token list",
        .operands = "",
        .summary = "Who has a token, until when. The tokens themselves are kept nowhere.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue = "  rankscope token list\n\nExit: 0 done, 2 bad request, 3 refused.\n"};
    struct rs_err err = {0};
    int first = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc != first)
        status = rs_err_set(&err, RS_INVALID, "token list takes no operand");
    if (status == RS_OK)
        status = list(&err);
    return finish("token list", status, &err);
}

/* ---- revoke ------------------------------------------------------------------------------------------------------ */

static int token_revoke(int argc, char **argv)
{
    static const struct rs_arg items[] = {DATA_ARG};
    static const struct rs_args args = {
        .verb = "token revoke",
        .operands = "WHO...",
        .summary = "Ends the token of an ID, or all of PARTY/NAME. The aggregator sees it within "
                   "a second; what is under way with it ends within two.",
        .items = items,
        .count = sizeof items / sizeof items[0],
        .epilogue = "  rankscope token revoke viewer/grafana\n"
                    "  rankscope token revoke 0a1b2c3d4e5f\n"
                    "\n"
                    "Exit: 0 done, 2 bad request: there is none, 3 refused.\n"};
    struct rs_err err = {0};
    struct rs_tokens *tokens = NULL;
    int first = 0;
    size_t count = 0;
    enum rs_status status = rs_args_parse(&args, argc, argv, &first, &err);
    if (status == RS_END)
        return RS_EXIT_COMPLETE;
    if (status == RS_OK && argc == first)
        status = rs_err_set(&err, RS_INVALID, "an ID or PARTY/NAME is expected");
    if (status == RS_OK)
        status = open_tokens(&tokens, &err);
    for (int i = first; i < argc && status == RS_OK; i++) {
        status = rs_tokens_revoke(tokens, argv[i], &count, &err);
        if (status == RS_OK)
            rs_cli_note("token revoke", "%zu %s of %s revoked", count,
                        count == 1 ? "token" : "tokens", argv[i]);
    }
    rs_tokens_close(&tokens);
    return finish("token revoke", status, &err);
}

int rs_cmd_token(int argc, char **argv)
{
    static const struct rs_cli_subverb verbs[] = {
        {"new", token_new, "make one: for a viewer, or an operator"},
        {"list", token_list, "who has one, until when"},
        {"revoke", token_revoke, "end one at once"},
    };
    return rs_cli_run_subverb("token", "Who may use the HTTP API without a certificate.", verbs,
                              sizeof verbs / sizeof verbs[0], argc, argv);
}
