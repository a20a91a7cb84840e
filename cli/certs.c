/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `rankscope certs init|issue|invite|renew|revoke|show`: who is who in an installation of many hosts.
 *
 *     DATA/ca       the authority (common/trust/authority.h), on one host: whoever has its key is everybody
 *     DATA/certs    the aggregator's own certificate
 *     a node        rankscope certs invite NODE, here, and rankscope collector --join ADDR --invite TEXT, there
 *     a person      rankscope certs issue operator NAME --out DIR, and the folder is carried to that person
 *
 * Sub-verbs that change the authority are run on its host, as its user; nothing here speaks over the network but `renew` of
 * an identity whose authority is elsewhere.
 */
#include "cli/cli.h"
#include "cli/verbs.h"
#include "common/base/file.h"
#include "common/base/json_out.h"
#include "common/base/paths.h"
#include "common/client/certificate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options of all sub-verbs; each knows some of them. */
static struct {
    const char *data, *ca, *out, *connect;
    struct rs_arg_list hosts;
    rs_dur valid_ns;
    int64_t uses;
    bool must_replace, as_json, is_quiet;
} words;

static char ca_default[RS_PATHS_BYTES], certs_default[RS_PATHS_BYTES];

/* What is there is not written over. */
static enum rs_status refused_if_there(enum rs_status status, struct rs_err *err)
{
    if (status == RS_EXISTS)
        err->status = RS_REFUSED;
    return status;
}

/* Where the authority and the aggregator's own certificate are. */
static enum rs_status find_folders(struct rs_err *err)
{
    char data[RS_PATHS_BYTES];
    enum rs_status status = RS_OK;
    if (words.data)
        (void)snprintf(data, sizeof data, "%.4000s", words.data);
    else
        status = rs_paths_data_dir(data, err);
    if (status < 0)
        return status;
    (void)snprintf(ca_default, sizeof ca_default, "%.4000s/ca", data);
    (void)snprintf(certs_default, sizeof certs_default, "%.4000s/certs", data);
    if (!words.ca)
        words.ca = ca_default;
    return RS_OK;
}

/* Behind the `count` that are there; how many then. */
static size_t named_hosts(const char *hosts[RS_AUTHORITY_HOSTS_MAX], size_t count)
{
    for (size_t i = 0; i < words.hosts.count && count < RS_AUTHORITY_HOSTS_MAX; i++)
        hosts[count++] = words.hosts.items[i];
    return count;
}

static enum rs_status issue(enum rs_party party, const char *name, const char *out,
                            struct rs_err *err)
{
    struct rs_authority *authority = NULL;
    struct rs_identity identity;
    const char *hosts[RS_AUTHORITY_HOSTS_MAX];
    char own[256] = "";
    char until[RS_TIME_TEXT_BYTES];
    const size_t usual = party == RS_PARTY_AGGREGATOR ? rs_authority_own_hosts(hosts, own) : 0;
    const struct rs_certificate_wish wish = {
        .party = party,
        .name = name,
        .hosts = hosts,
        .host_count = named_hosts(hosts, usual),
        .valid_ns = words.valid_ns ? words.valid_ns : rs_authority_usual_ns(party)};
    enum rs_status status = rs_authority_open(words.ca, &authority, err);
    if (status == RS_OK)
        status = rs_authority_issue(authority, &wish, out, words.must_replace, &identity, err);
    rs_authority_close(&authority);
    if (status == RS_OK && !words.is_quiet) {
        rs_time_text(identity.expires_at, until);
        printf("%s/%s until %s: %s\n", rs_party_name(party), name, until, out);
    }
    return status;
}

/* ---- init ------------------------------------------------------------------------------------------------------------ */

static enum rs_status certs_init(char **operands, struct rs_err *err)
{
    (void)operands;
    enum rs_status status = find_folders(err);
    if (status == RS_OK &&
        words.data) /* the aggregator's, whose mode is not that of a folder of keys */
        status = rs_file_make_dirs(words.data, RS_FOLDER_MODE, err);
    if (status == RS_OK)
        status = rs_authority_create(words.ca, err);
    if (status == RS_OK)
        status = issue(RS_PARTY_AGGREGATOR, "main",
                       rs_client_security.certs ? rs_client_security.certs : certs_default, err);
    if (status == RS_OK && !words.is_quiet)
        printf(
            "the authority is in %s: keep ca.key to yourself, and a copy of the folder elsewhere\n"
            "next: rankscope aggregator --listen 0.0.0.0:7070 --join 0.0.0.0:7071\n"
            "      rankscope certs invite NODE, for each node\n"
            "      rankscope certs issue operator NAME --out DIR, for each person\n",
            words.ca);
    return refused_if_there(status, err);
}

/* ---- issue ------------------------------------------------------------------------------------------------------------ */

static enum rs_status certs_issue(char **operands, struct rs_err *err)
{
    enum rs_party party = RS_PARTY_NOBODY;
    if (!words.out)
        return rs_err_set(err, RS_INVALID, "%s", rs_grammar_certs_issue.expected);
    enum rs_status status = rs_party_parse(operands[0], &party, err);
    if (status == RS_OK)
        status = find_folders(err);
    if (status == RS_OK)
        status = issue(party, operands[1], words.out, err);
    return refused_if_there(status, err);
}

/* ---- invite ------------------------------------------------------------------------------------------------------------ */

static enum rs_status certs_invite(char **operands, struct rs_err *err)
{
    struct rs_buf text = {0};
    struct rs_authority *authority = NULL;
    if (words.uses ? *operands != NULL : !*operands || operands[1])
        return rs_err_set(err, RS_INVALID, "the name of one node is expected, or --any N");
    enum rs_status status = find_folders(err);
    if (status == RS_OK)
        status = rs_authority_open(words.ca, &authority, err);
    const rs_dur valid_ns = words.valid_ns ? words.valid_ns : 3600 * (rs_dur)RS_NS_PER_S;
    const struct rs_invite_terms terms = {.name = operands[0], /* NULL: of any */
                                          .uses = words.uses ? (unsigned)words.uses : 1,
                                          .expires_at = rs_time_realtime() + valid_ns};
    if (status == RS_OK)
        status = rs_invite_make(authority, &terms, &text, err);
    if (status == RS_OK)
        printf("%s\n", rs_buf_text(&text));
    rs_authority_close(&authority);
    rs_buf_fini(&text);
    return refused_if_there(status, err);
}

/* ---- renew -------------------------------------------------------------------------------------------------------------- */

/* With the authority's folder at hand: the same party and name, the same time from now on. */
static enum rs_status renew_here(const char *dir, struct rs_err *err)
{
    struct rs_trust *trust = NULL;
    enum rs_status status = rs_trust_open(dir, &trust, err);
    if (status < 0)
        return status;
    const struct rs_identity own = rs_trust_own(trust);
    rs_trust_close(&trust);
    words.must_replace = true;
    if (!words.valid_ns)
        words.valid_ns = own.expires_at - own.begins_at - RS_AUTHORITY_EARLY_NS;
    return issue(own.party, own.name, dir, err);
}

static enum rs_status renew_there(const char *dir, struct rs_err *err)
{
    static const atomic_bool never;
    struct rs_address address;
    const struct rs_client_patience patience = {
        .until = rs_time_monotonic() + 30 * (rs_dur)RS_NS_PER_S, .must_stop = &never};
    rs_client_security.certs = dir;
    if (words.valid_ns || words.hosts.count)
        return rs_err_set(
            err, RS_INVALID,
            "over the link a certificate is renewed as it is: --valid and --host need "
            "the authority's folder");
    enum rs_status status = rs_client_address(words.connect, &address, err);
    if (status == RS_OK)
        status = rs_client_renew(&address, &patience, err);
    if (status == RS_OK && !words.is_quiet)
        printf("renewed: %s\n", dir);
    return status;
}

static enum rs_status certs_renew(char **operands, struct rs_err *err)
{
    char usual[RS_PATHS_BYTES] = "";
    const char *dir = *operands ? *operands : usual;
    enum rs_status status = *operands ? RS_OK : rs_paths_certs(usual, false, err);
    if (status == RS_OK)
        status = find_folders(err);
    if (status == RS_OK)
        status = words.connect ? renew_there(dir, err) : renew_here(dir, err);
    return refused_if_there(status, err);
}

/* ---- show and revoke ---------------------------------------------------------------------------------------------------- */

struct listing {
    struct rs_json_out json;
    struct rs_buf text;
    size_t count;
};

static void show_item(void *self, const struct rs_authority_item *item)
{
    struct listing *listing = self;
    const struct rs_identity *identity = &item->identity;
    char who[RS_IDENTITY_TEXT_BYTES];
    char until[RS_TIME_TEXT_BYTES];
    const char *state = item->is_revoked                             ? "revoked"
                        : rs_time_realtime() >= identity->expires_at ? "expired"
                                                                     : "counts";
    rs_identity_text(identity, who);
    rs_time_text(identity->expires_at, until);
    listing->count++;
    if (!words.as_json) {
        printf("%-28s %s until %s  %s\n", who, state, until, identity->serial);
        return;
    }
    struct rs_json_out *json = &listing->json;
    rs_json_out_object(json);
    rs_json_put_string(json, "party", rs_party_name(identity->party));
    rs_json_put_string(json, "name", identity->name);
    rs_json_put_string(json, "serial", identity->serial);
    rs_json_put_string(json, "state", state);
    rs_json_put_int(json, "begins_ns", identity->begins_at);
    rs_json_put_int(json, "expires_ns", identity->expires_at);
    rs_json_out_end(json);
}

/* One folder, as its owner sees it. */
static enum rs_status show_folder(const char *dir, struct listing *listing, struct rs_err *err)
{
    struct rs_trust *trust = NULL;
    const enum rs_status status = rs_trust_open(dir, &trust, err);
    if (status < 0)
        return status;
    struct rs_authority_item item = {.identity = rs_trust_own(trust)};
    item.is_revoked =
        rs_trust_check(trust, &item.identity, item.identity.begins_at, NULL) == RS_REFUSED;
    rs_trust_close(&trust);
    show_item(listing, &item);
    return RS_OK;
}

static enum rs_status show_issued(struct listing *listing, struct rs_err *err)
{
    struct rs_authority *authority = NULL;
    enum rs_status status = rs_authority_open(words.ca, &authority, err);
    if (status == RS_OK)
        status = rs_authority_list(authority, show_item, listing, err);
    rs_authority_close(&authority);
    return status;
}

static enum rs_status certs_show(char **dirs, struct rs_err *err)
{
    struct listing listing = {.count = 0};
    enum rs_status status = find_folders(err);
    rs_json_out_init(&listing.json, &listing.text, 2);
    rs_json_out_array(&listing.json);
    if (status == RS_OK && !*dirs)
        status = show_issued(&listing, err);
    for (; *dirs && status == RS_OK; dirs++)
        status = show_folder(*dirs, &listing, err);
    rs_json_out_end(&listing.json);
    if (status == RS_OK && words.as_json)
        printf("%s\n", rs_buf_text(&listing.text));
    rs_buf_fini(&listing.text);
    return refused_if_there(status, err);
}

/* The aggregator reads its own copy of the list. */
static enum rs_status hand_on(const struct rs_authority *authority, struct rs_err *err)
{
    struct rs_buf pem = {0};
    const char *dir = rs_client_security.certs ? rs_client_security.certs : certs_default;
    enum rs_status status = rs_authority_revocations(authority, &pem, err);
    if (status == RS_OK && access(dir, F_OK) < 0) {
        rs_cli_note("certs revoke",
                    "there is no %s here: copy %s/crl.pem to the aggregator's folder", dir,
                    rs_authority_dir(authority));
        status = RS_PARTIAL;
    } else if (status == RS_OK) {
        status = rs_trust_revocations_write(dir, rs_view_of(pem.data, pem.length), err);
    }
    rs_buf_fini(&pem);
    return status;
}

static void tell_revoked(void *self, const char *whose, const char *serial)
{
    (void)self;
    if (!words.is_quiet)
        printf("revoked: %s %s\n", whose, serial);
}

static enum rs_status certs_revoke(char **whose, struct rs_err *err)
{
    struct rs_authority *authority = NULL;
    enum rs_status status = find_folders(err);
    if (status == RS_OK)
        status = rs_authority_open(words.ca, &authority, err);
    for (; *whose && status == RS_OK; whose++)
        status = rs_authority_revoke_named(authority, *whose, tell_revoked, NULL, err);
    if (status == RS_OK)
        status = hand_on(authority, err);
    rs_authority_close(&authority);
    return refused_if_there(status, err);
}

/* clang-format off */
#define DATA_ARG RS_OPT_TEXT("data", 'd', &words.data, "DIR", "the aggregator's data folder (default: /var/lib/rankscope for root)", .environment = "RANKSCOPE_DATA")
#define CA_ARG RS_OPT_TEXT("ca", 0, &words.ca, "DIR", "folder of the authority (default: ca in the data folder)", .environment = "RANKSCOPE_CA")
/* Not from the environment: that is the folder of who asks, and this the aggregator's. */
#define CERTS_ARG(text) RS_OPT_TEXT("certs", 0, &rs_client_security.certs, "DIR", text)
#define VALID_ARG(text) RS_OPT_TIME("valid", 0, &words.valid_ns, "TIME", text)
#define HOST_ARG RS_OPT_LIST("host", 0, &words.hosts, "NAME", "a name or address under which the aggregator is reached, also several times; this host's name, localhost, 127.0.0.1 and ::1 are always among an aggregator's. Of a node: where its collector --metrics is reached; such a certificate serves, and is not renewed by itself")
#define QUIET_ARG RS_OPT_FLAG("quiet", 'q', &words.is_quiet, "print errors only")
static const struct rs_arg init_options[] = {
    DATA_ARG,
    CA_ARG,
    CERTS_ARG("folder of the aggregator's certificate (default: certs in the data folder)"),
    HOST_ARG,
    QUIET_ARG,
};
const struct rs_args rs_grammar_certs_init = {
    .verb = "certs init", .operands = "", .expected = "certs init takes no operand",
    .summary = "Makes the authority of an installation, and the certificate of its aggregator. Run it once, on the aggregator's host, as the aggregator's user.",
    RS_OPTIONS(init_options), .act = certs_init,
    .epilogue =
        "  rankscope certs init --host agg.cluster --host 10.0.0.5\n"
        "\n"
        "Exit: 0 done, 2 bad request, 3 refused: there is one already.\n"};
static const struct rs_arg issue_options[] = {
    RS_OPT_TEXT("out", 'o', &words.out, "DIR", "the folder to make; carry it to the host or person as you would a password"),
    VALID_ARG("how long it counts (default: 14d for nodes, 90d for people, 365d for aggregators)"),
    RS_OPT_FLAG("replace", 0, &words.must_replace, "write over the certificate that is in DIR"),
    HOST_ARG,
    DATA_ARG,
    CA_ARG,
    QUIET_ARG,
};
const struct rs_args rs_grammar_certs_issue = {
    .verb = "certs issue", .operands = "PARTY NAME", .least = 2, .most = 2, .expected = "PARTY, NAME and --out DIR are expected",
    .summary = "Makes a key and a certificate for a party: operator (may capture and read), viewer (may read), user (may capture and read what is of the user of that name), node (a collector, for the host of that name), aggregator.",
    RS_OPTIONS(issue_options), .act = certs_issue,
    .epilogue =
        "  rankscope certs issue operator alice --out alice\n"
        "  rankscope certs issue viewer grafana --out grafana --valid 30d\n"
        "\n"
        "A node is better invited (rankscope certs invite): then its key never leaves it.\n"
        "\n"
        "Exit: 0 done, 2 bad request, 3 refused.\n"};
static const struct rs_arg invite_options[] = {
    VALID_ARG("how long it can be used (default 1h)"),
    RS_OPT_INT("any", 0, &words.uses, "N", 1, RS_INVITE_USES_MAX, "instead of a NODE: for any N nodes that have no certificate yet, each under its own name"),
    DATA_ARG,
    CA_ARG,
};
const struct rs_args rs_grammar_certs_invite = {
    .verb = "certs invite", .operands = "NODE | --any N", .most = RS_ARGS_ANY,
    .summary = "Prints one line with which the node of that name joins, once: it makes its own key and gets a certificate, and believes this installation and no other.",
    RS_OPTIONS(invite_options), .act = certs_invite,
    .epilogue =
        "  rankscope certs invite gpu-017 > invite\n"
        "  rankscope collector --join agg.cluster:7071 --invite ./invite   # on gpu-017\n"
        "  rankscope certs invite --any 200 --valid 1d                     # for an image or a DaemonSet\n"
        "\n"
        "Exit: 0 done, 2 bad request, 3 refused.\n"};
static const struct rs_arg renew_options[] = {
    VALID_ARG("how long it counts from now on (default: as long as the last one)"),
    HOST_ARG,
    DATA_ARG,
    CA_ARG,
    QUIET_ARG,
    RS_OPT_TEXT("connect", 'c', &words.connect, "ADDR", "have it renewed by the aggregator at HOST:PORT instead of with the authority's folder", .environment = "RANKSCOPE_CONNECT"),
};
const struct rs_args rs_grammar_certs_renew = {
    .verb = "certs renew", .operands = "[DIR]", .most = 1, .expected = "one DIR is expected",
    .summary = "Makes a new key and certificate for the identity in DIR (default: where this user's certificates are). Collectors do it by themselves. The old certificate counts until it ends, or is revoked.",
    RS_OPTIONS(renew_options), .act = certs_renew,
    .epilogue =
        "  rankscope certs renew /var/lib/rankscope/certs --host agg.cluster\n"
        "  rankscope certs renew --connect agg.cluster:7070\n"
        "\n"
        "The hosts of an aggregator are named again. Exit: 0 done, 2 bad request, 3 refused, 4 no\n"
        "aggregator answers.\n"};
static const struct rs_arg show_options[] = {
    RS_CLI_JSON_ARG(&words.as_json),
    DATA_ARG,
    CA_ARG,
};
const struct rs_args rs_grammar_certs_show = {
    .verb = "certs show", .operands = "[DIR...]", .most = RS_ARGS_ANY,
    .summary = "What certificates say: of the folders, or all that the authority issued.",
    RS_OPTIONS(show_options), .act = certs_show,
    .epilogue =
        "  rankscope certs show\n"
        "  rankscope certs show /etc/rankscope/certs\n"
        "\n"
        "Exit: 0 done, 2 bad request, 3 refused.\n"};
static const struct rs_arg revoke_options[] = {
    DATA_ARG,
    CA_ARG,
    CERTS_ARG("the aggregator's folder, where its copy of the list goes (default: certs in the data folder)"),
    QUIET_ARG,
};
const struct rs_args rs_grammar_certs_revoke = {
    .verb = "certs revoke", .operands = "WHO...", .least = 1, .most = RS_ARGS_ANY, .expected = "PARTY/NAME or a serial number is expected",
    .summary = "Ends the certificates of PARTY/NAME, or the one of a serial number. The aggregator sees it within seconds: links are closed, and new ones refused.",
    RS_OPTIONS(revoke_options), .act = certs_revoke,
    .epilogue =
        "  rankscope certs revoke operator/alice\n"
        "  rankscope certs revoke node/gpu-017\n"
        "\n"
        "Exit: 0 done, 2 bad request: there is none, 3 refused.\n"};
/* clang-format on */
