/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trust/identity.h"

#include "common/trust/trust_priv.h"

#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdio.h>
#include <string.h>

static const char uri_prefix[] = "spiffe://rankscope/";

static const char *const party_names[RS_PARTY_COUNT] = {
    [RS_PARTY_NOBODY] = "nobody",     [RS_PARTY_GUEST] = "guest",
    [RS_PARTY_LOCAL] = "local",       [RS_PARTY_NODE] = "node",
    [RS_PARTY_USER] = "user",         [RS_PARTY_VIEWER] = "viewer",
    [RS_PARTY_OPERATOR] = "operator", [RS_PARTY_AGGREGATOR] = "aggregator"};

const char *rs_party_name(enum rs_party party)
{
    return party < RS_PARTY_COUNT ? party_names[party] : "nobody";
}

enum rs_status rs_party_parse(const char *text, enum rs_party *party_p, struct rs_err *err)
{
    for (enum rs_party party = RS_PARTY_NODE; party < RS_PARTY_COUNT; party++)
        if (strcmp(text, party_names[party]) == 0) {
            *party_p = party;
            return RS_OK;
        }
    return rs_err_set(err, RS_INVALID,
                      "\"%.60s\" is not node, user, viewer, operator or aggregator", text);
}

bool rs_identity_is_name(const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || length >= RS_IDENTITY_NAME_BYTES || *name == '.' || *name == '-')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
           length;
}

void rs_identity_text(const struct rs_identity *identity, char text_p[RS_IDENTITY_TEXT_BYTES])
{
    (void)snprintf(text_p, RS_IDENTITY_TEXT_BYTES, "%s%s%s", rs_party_name(identity->party),
                   *identity->name ? "/" : "", identity->name);
}

bool rs_identity_is_same(const struct rs_identity *one, const struct rs_identity *other)
{
    return one->party == other->party && one->has_uid == other->has_uid && one->uid == other->uid &&
           strcmp(one->name, other->name) == 0;
}

bool rs_identity_is_user(const struct rs_identity *identity)
{
    return identity->party == RS_PARTY_USER;
}

bool rs_identity_is_of_one_run(const struct rs_identity *identity)
{
    return *identity->run != '\0';
}

bool rs_identity_is_of_run(const struct rs_identity *identity, const char *run)
{
    return !*identity->run || strcmp(identity->run, run) == 0;
}

bool rs_identity_may_operate(const struct rs_identity *identity)
{
    return identity->party == RS_PARTY_LOCAL || identity->party == RS_PARTY_OPERATOR ||
           identity->party == RS_PARTY_AGGREGATOR;
}

bool rs_identity_may_read(const struct rs_identity *identity)
{
    return identity->party == RS_PARTY_VIEWER || rs_identity_may_operate(identity);
}

/* "spiffe://rankscope/PARTY/NAME". False: it is none of ours. */
static bool parse_uri(const char *uri, size_t length, struct rs_identity *identity)
{
    char text[sizeof uri_prefix + RS_IDENTITY_TEXT_BYTES];
    const size_t prefix = sizeof uri_prefix - 1;
    if (length >= sizeof text || length <= prefix || memchr(uri, '\0', length) ||
        memcmp(uri, uri_prefix, prefix) != 0)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)(length - prefix), uri + prefix);
    char *slash = strchr(text, '/');
    if (!slash)
        return false;
    *slash = '\0';
    if (!rs_identity_is_name(slash + 1) || rs_party_parse(text, &identity->party, NULL) < 0)
        return false;
    (void)snprintf(identity->name, sizeof identity->name, "%s", slash + 1);
    return true;
}

/* Exactly one URI must name a party: of two, each reader would take the one it likes. */
static bool find_party(const X509 *certificate, struct rs_identity *identity)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    unsigned found = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI)
            continue;
        const ASN1_IA5STRING *uri = name->d.uniformResourceIdentifier;
        found += parse_uri((const char *)ASN1_STRING_get0_data(uri),
                           (size_t)ASN1_STRING_length(uri), identity);
    }
    GENERAL_NAMES_free(names);
    return found == 1;
}

bool trust_serial(const X509 *certificate, char serial_p[RS_IDENTITY_SERIAL_BYTES])
{
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *hex = number ? BN_bn2hex(number) : NULL;
    const bool is_fine = hex && strlen(hex) < RS_IDENTITY_SERIAL_BYTES && *hex != '-';
    if (is_fine)
        for (size_t i = 0; i <= strlen(hex); i++)
            serial_p[i] = (char)(hex[i] >= 'A' && hex[i] <= 'F' ? hex[i] + 32 : hex[i]);
    OPENSSL_free(hex);
    BN_free(number);
    return is_fine;
}

bool trust_time(const ASN1_TIME *time, rs_ns *ns_p)
{
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0;
    int seconds = 0;
    const bool is_fine = epoch && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1;
    ASN1_TIME_free(epoch);
    if (is_fine)
        *ns_p = ((rs_ns)days * 86400 + seconds) * RS_NS_PER_S;
    return is_fine;
}

X509 *trust_certificate(struct rs_view pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.length);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, trust_no_password, NULL) : NULL;
    BIO_free(bio);
    return certificate;
}

/* As OpenSSL declares it. NOLINTNEXTLINE(readability-non-const-parameter) */
int trust_no_password(char *buf, int size, int rwflag, void *u)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)u;
    return -1;
}

enum rs_status trust_identity(const X509 *certificate, rs_ns now, struct rs_identity *identity_p,
                              struct rs_err *err)
{
    struct rs_identity identity = {.party = RS_PARTY_NOBODY};
    char text[RS_IDENTITY_TEXT_BYTES];
    if (!find_party(certificate, &identity))
        return rs_err_set(err, RS_REFUSED,
                          "the certificate names no party of Rankscope, or more than one");
    if (!trust_serial(certificate, identity.serial) ||
        !trust_time(X509_get0_notBefore(certificate), &identity.begins_at) ||
        !trust_time(X509_get0_notAfter(certificate), &identity.expires_at))
        return rs_err_set(err, RS_FORMAT, "the certificate's number or time cannot be read");
    rs_identity_text(&identity, text);
    if (now >= identity.expires_at)
        return rs_err_set(err, RS_REFUSED, "the certificate of %s has expired", text);
    if (now < identity.begins_at)
        return rs_err_set(err, RS_REFUSED,
                          "the certificate of %s is not valid yet: are the clocks set?", text);
    *identity_p = identity;
    return RS_OK;
}

enum rs_status rs_identity_of_pem(struct rs_view pem, rs_ns now, struct rs_identity *identity_p,
                                  struct rs_err *err)
{
    X509 *certificate = pem.length <= TRUST_FILE_MAX_BYTES ? trust_certificate(pem) : NULL;
    if (!certificate) {
        trust_clear_errors();
        return rs_err_set(err, RS_FORMAT, "the certificate cannot be read");
    }
    const enum rs_status status = trust_identity(certificate, now, identity_p, err);
    X509_free(certificate);
    trust_clear_errors();
    return status;
}
