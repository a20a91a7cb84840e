/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope token new|list|revoke`: who may use the HTTP API without a certificate.
 *
 * Run on the aggregator's host, as its user: tokens are files of its data folder (common/trust/token.h). A running aggregator
 * sees a new one, and one that is revoked, within a second.
 */
#include "common/trust/token.h"

#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/base/json_out.h"
#include "common/base/paths.h"

#include <stdio.h>
#include <string.h>

static const rs_dur day_ns = 86400 * (rs_dur)RS_NS_PER_S;
enum { VALID_DAYS = 90, VALID_MAX_DAYS = 3660 };

static struct {
    const char *data, *run;
    rs_dur valid_ns;
    bool is_operator, is_user, as_json;
} words;

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

/* ---- new --------------------------------------------------------------------------------------------------------- */

static enum rs_status token_new(char **operands, struct rs_err *err)
{
    const char *name = operands[0];
    struct rs_tokens *tokens = NULL;
    struct rs_buf text = {0};
    const rs_dur valid = words.valid_ns ? words.valid_ns : VALID_DAYS * day_ns;
    const struct rs_token_wish wish = {.party = words.is_operator ? RS_PARTY_OPERATOR
                                                : words.is_user   ? RS_PARTY_USER
                                                                  : RS_PARTY_VIEWER,
                                       .name = name,
                                       .run = words.run,
                                       .expires_at = rs_time_realtime() + valid};
    char until_text[RS_TIME_TEXT_BYTES];
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
        rs_time_text(wish.expires_at, until_text);
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

/* ---- list -------------------------------------------------------------------------------------------------------- */

struct listing {
    struct rs_json_out json;
    struct rs_buf buf;
    size_t count;
};

static void list_one(void *self, const struct rs_token_item *item)
{
    struct listing *listing = self;
    char created[RS_TIME_TEXT_BYTES], expires[RS_TIME_TEXT_BYTES];
    rs_time_text(item->created_at, created);
    rs_time_text(item->expires_at, expires);
    if (words.as_json) {
        rs_json_out_object(&listing->json);
        rs_json_put_string(&listing->json, "id", item->id);
        rs_json_put_string(&listing->json, "party", rs_party_name(item->party));
        rs_json_put_string(&listing->json, "name", item->name);
        rs_json_put_text(&listing->json, "run", item->run);
        rs_json_put_int(&listing->json, "created_ns", item->created_at);
        rs_json_put_int(&listing->json, "expires_ns", item->expires_at);
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

static enum rs_status token_list(char **operands, struct rs_err *err)
{
    (void)operands;
    struct rs_tokens *tokens = NULL;
    struct listing listing = {.count = 0};
    enum rs_status status = open_tokens(&tokens, err);
    rs_json_out_init(&listing.json, &listing.buf, 2);
    if (words.as_json) {
        rs_json_out_object(&listing.json);
        rs_json_put_int(&listing.json, "schema_version", 1);
        rs_json_put_array(&listing.json, "tokens");
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
    if (status == RS_OK)
        return rs_cli_print(&listing.buf, "the tokens", err);
    rs_buf_fini(&listing.buf);
    return status;
}

/* ---- revoke ------------------------------------------------------------------------------------------------------ */

static enum rs_status token_revoke(char **whose, struct rs_err *err)
{
    struct rs_tokens *tokens = NULL;
    size_t count = 0;
    enum rs_status status = open_tokens(&tokens, err);
    for (; *whose && status == RS_OK; whose++) {
        status = rs_tokens_revoke(tokens, *whose, &count, err);
        if (status == RS_OK)
            rs_cli_note("token revoke", "%zu %s of %s revoked", count,
                        count == 1 ? "token" : "tokens", *whose);
    }
    rs_tokens_close(&tokens);
    return status;
}

/* clang-format off */
#define DATA_ARG RS_OPT_TEXT("data", 'd', &words.data, "DIR", "the aggregator's data folder (default: /var/lib/rankscope for root)", .environment = "RANKSCOPE_DATA")
static const struct rs_arg new_options[] = {
    RS_OPT_FLAG("operator", 0, &words.is_operator, "may capture, stop and fetch, too (default: may read)"),
    RS_OPT_FLAG("user", 0, &words.is_user, "may capture, stop and read, of the processes of the user of that name alone"),
    RS_OPT_TEXT("run", 0, &words.run, "RUN", "all that with this run and its captures alone: others are refused, and not in lists"),
    RS_OPT_TIME("valid", 0, &words.valid_ns, "TIME", "for how long (default: 90 days), for instance 2160h"),
    DATA_ARG,
};
const struct rs_args rs_grammar_token_new = {
    .verb = "token new", .operands = "NAME", .least = 1, .most = 1, .expected = "one name is expected: whose token it is",
    .summary = "Makes a token and prints it, once. Whoever has it may use the HTTP API as NAME: keep it as a password.",
    RS_OPTIONS(new_options), .act = token_new,
    .epilogue =
        "  rankscope token new grafana > token\n"
        "  rankscope token new alice --operator --run llama-7 --valid 24h\n"
        "  curl --cacert ca.crt -H \"Authorization: Bearer $(cat token)\" https://HOST:7071/api/v1/runs\n"
        "\n"
        "Exit: 0 done, 2 bad request, 3 refused.\n"};
static const struct rs_arg list_options[] = {
    RS_CLI_JSON_ARG(&words.as_json),
    DATA_ARG,
};
const struct rs_args rs_grammar_token_list = {
    .verb = "token list", .operands = "", .expected = "token list takes no operand",
    .summary = "Who has a token, until when. The tokens themselves are kept nowhere.",
    RS_OPTIONS(list_options), .act = token_list,
    .epilogue =
        "  rankscope token list\n"
        "\n"
        "Exit: 0 done, 2 bad request, 3 refused.\n"};
static const struct rs_arg revoke_options[] = {
    DATA_ARG,
};
const struct rs_args rs_grammar_token_revoke = {
    .verb = "token revoke", .operands = "WHO...", .least = 1, .most = RS_ARGS_ANY, .expected = "an ID or PARTY/NAME is expected",
    .summary = "Ends the token of an ID, or all of PARTY/NAME. The aggregator sees it within a second; what is under way with it ends within two.",
    RS_OPTIONS(revoke_options), .act = token_revoke,
    .epilogue =
        "  rankscope token revoke viewer/grafana\n"
        "  rankscope token revoke 0a1b2c3d4e5f\n"
        "\n"
        "Exit: 0 done, 2 bad request: there is none, 3 refused.\n"};
/* clang-format on */
