/* SPDX-License-Identifier: Apache-2.0 */
#include "common/trust/invite.h"

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/trust/trust_priv.h"

#include <openssl/pem.h>
#include <openssl/rand.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECRET_RAW_BYTES = 24, CA_DER_MAX_BYTES = 4096 };

static const char magic[] = "rsi1.";

static void wipe(struct rs_buf *buf)
{
    if (buf->data)
        OPENSSL_cleanse(buf->data, buf->length);
    rs_buf_fini(buf);
}

/* invites/DIGEST */
static enum rs_status path_of(const struct rs_authority *authority, const char *secret,
                              char path_p[TRUST_PATH_BYTES], struct rs_err *err)
{
    char digest[RS_SHA256_HEX_BYTES];
    if (rs_sha256_hex(secret, strlen(secret), digest) < 0)
        return rs_err_set(err, RS_NOMEM, "no memory for an invite");
    const int length =
        snprintf(path_p, TRUST_PATH_BYTES, "%s/invites/%s", rs_authority_dir(authority), digest);
    if (length < 0 || length >= TRUST_PATH_BYTES)
        return rs_err_set(err, RS_INVALID, "the path of the authority is too long");
    return RS_OK;
}

static bool add_base64(struct rs_buf *text, const unsigned char *bytes, size_t length)
{
    unsigned char encoded[CA_DER_MAX_BYTES / 3 * 4 + 8];
    if (length > CA_DER_MAX_BYTES)
        return false;
    const int count = EVP_EncodeBlock(encoded, bytes, (int)length);
    rs_buf_bytes(text, encoded, (size_t)count);
    OPENSSL_cleanse(encoded, sizeof encoded);
    return true;
}

/* "EXPIRES USES NAME", where "*" is any; by a temporary name, so that a reader sees all of it. */
static enum rs_status write_invite(const char *dir, const char *path,
                                   const struct rs_invite_terms *terms, struct rs_err *err)
{
    char line[160];
    char temporary[TRUST_PATH_BYTES + 32];
    const int length = snprintf(line, sizeof line, "%lld %u %s\n", (long long)terms->expires_at,
                                terms->uses, terms->name ? terms->name : "*");
    (void)snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    (void)unlink(temporary);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return rs_err_errno(err, "cannot create %s", temporary);
    enum rs_status status = rs_file_write_all(fd, line, (size_t)length, temporary, err);
    if (status == RS_OK && fsync(fd) < 0)
        status = rs_err_errno(err, "cannot write %s", temporary);
    (void)close(fd);
    trust_follow_owner(temporary, dir);
    if (status == RS_OK && rename(temporary, path) < 0)
        status = rs_err_errno(err, "cannot rename %s", temporary);
    if (status < 0)
        (void)unlink(temporary);
    return status;
}

static enum rs_status check_terms(const struct rs_invite_terms *terms, struct rs_err *err)
{
    if (terms->name && !rs_identity_is_name(terms->name))
        return rs_err_set(err, RS_INVALID, "\"%.80s\" is no name of a node", terms->name);
    if (terms->uses < 1 || terms->uses > (terms->name ? 1 : RS_INVITE_USES_MAX))
        return rs_err_set(err, RS_INVALID,
                          "an invite for a node is used once, one for any node 1 to %d times",
                          RS_INVITE_USES_MAX);
    return RS_OK;
}

enum rs_status rs_invite_make(struct rs_authority *authority, const struct rs_invite_terms *terms,
                              struct rs_buf *text, struct rs_err *err)
{
    unsigned char raw[SECRET_RAW_BYTES];
    unsigned char *der = NULL;
    char path[TRUST_PATH_BYTES];
    struct rs_buf secret = {0};
    enum rs_status status = check_terms(terms, err);
    if (status < 0)
        return status;
    X509 *ca = trust_certificate(rs_authority_ca(authority));
    const int length = ca ? i2d_X509(ca, &der) : 0;
    X509_free(ca);
    if (length <= 0 || RAND_bytes(raw, sizeof raw) != 1 || !add_base64(&secret, raw, sizeof raw))
        status = rs_err_set(err, RS_IO, "OpenSSL cannot make an invite: %s", trust_last_error());
    if (status == RS_OK)
        status = path_of(authority, rs_buf_text(&secret), path, err);
    if (status == RS_OK) {
        rs_buf_printf(text, "%s%s.", magic, rs_buf_text(&secret));
        if (!add_base64(text, der, (size_t)length) || text->failed)
            status = rs_err_set(err, RS_NOMEM, "no memory for an invite");
    }
    if (status == RS_OK)
        status = write_invite(rs_authority_dir(authority), path, terms, err);
    OPENSSL_free(der);
    wipe(&secret);
    OPENSSL_cleanse(raw, sizeof raw);
    return status;
}

/* The certificate of base64 text as PEM. */
static bool take_ca(const char *base64, struct rs_buf *pem)
{
    unsigned char der[CA_DER_MAX_BYTES + 8];
    const size_t length = strlen(base64);
    if (length == 0 || length % 4 != 0 || length / 4 * 3 > CA_DER_MAX_BYTES)
        return false;
    int count = EVP_DecodeBlock(der, (const unsigned char *)base64, (int)length);
    for (size_t i = length; count > 0 && i > length - 2 && base64[i - 1] == '='; i--)
        count--; /* what filled the last group up */
    const unsigned char *at = der;
    X509 *ca = count > 0 ? d2i_X509(NULL, &at, count) : NULL;
    BIO *bio = ca && at == der + count ? BIO_new(BIO_s_mem()) : NULL;
    char *bytes = NULL;
    if (bio && PEM_write_bio_X509(bio, ca) == 1) {
        const long have = BIO_get_mem_data(bio, &bytes);
        rs_buf_bytes(pem, bytes, (size_t)have);
    }
    BIO_free(bio);
    X509_free(ca);
    trust_clear_errors();
    return pem->length > 0 && !pem->failed;
}

enum rs_status rs_invite_parse(const char *text, struct rs_invite *invite_p, struct rs_err *err)
{
    struct rs_invite invite = {.secret = ""};
    const size_t prefix = sizeof magic - 1;
    const char *dot = strncmp(text, magic, prefix) == 0 && strlen(text) <= RS_INVITE_MAX_BYTES
                          ? strchr(text + prefix, '.')
                          : NULL;
    const size_t length = dot ? (size_t)(dot - text) - prefix : 0;
    if (length != RS_INVITE_SECRET_BYTES - 1 || !take_ca(dot + 1, &invite.ca)) {
        rs_invite_fini(&invite);
        return rs_err_set(
            err, RS_FORMAT,
            "this is no invite: it begins with \"%s\" and is one line, as \"rankscope "
            "certs invite\" printed it",
            magic);
    }
    memcpy(invite.secret, text + prefix, length);
    *invite_p = invite;
    return RS_OK;
}

void rs_invite_fini(struct rs_invite *invite)
{
    OPENSSL_cleanse(invite->secret, sizeof invite->secret);
    rs_buf_fini(&invite->ca);
}

/* ---- taking ------------------------------------------------------------------------------------------------------------- */

/* Of the line; false: it is none. The name is lent. */
static bool parse_terms(char *line, struct rs_invite_terms *terms_p)
{
    char *end = NULL;
    char *at = line;
    struct rs_invite_terms terms = {.expires_at = strtoll(at, &end, 10)};
    if (end == at || *end != ' ')
        return false;
    at = end + 1;
    const unsigned long uses = strtoul(at, &end, 10);
    if (end == at || *end != ' ' || uses < 1 || uses > RS_INVITE_USES_MAX)
        return false;
    terms.uses = (unsigned)uses;
    terms.name = end + 1;
    end[1 + strcspn(end + 1, "\n")] = '\0';
    if (strcmp(terms.name, "*") == 0)
        terms.name = NULL;
    *terms_p = terms;
    return true;
}

struct taken {
    const char *name;
    rs_ns now;
    bool is_there;
};

static void look_at_issued(void *self, const struct rs_authority_item *item)
{
    struct taken *taken = self;
    if (item->identity.party == RS_PARTY_NODE && !item->is_revoked &&
        taken->now < item->identity.expires_at && strcmp(item->identity.name, taken->name) == 0)
        taken->is_there = true;
}

/* Who has an invite for any node must not become one that is there already. */
static enum rs_status check_free(struct rs_authority *authority, const char *name, rs_ns now,
                                 struct rs_err *err)
{
    struct taken taken = {.name = name, .now = now};
    const enum rs_status status = rs_authority_list(authority, look_at_issued, &taken, err);
    if (status == RS_OK && taken.is_there)
        return rs_err_set(
            err, RS_REFUSED,
            "there is a node %.63s already: revoke node/%.63s, or invite it by its name", name,
            name);
    return status;
}

/* With the lock. */
static enum rs_status take(struct rs_authority *authority, const char *path, const char *name,
                           rs_ns now, struct rs_err *err)
{
    struct rs_buf text = {0};
    struct rs_invite_terms terms;
    enum rs_status status = rs_file_read_regular(path, 256, &text, err);
    char line[257] = "";
    if (status == RS_OK)
        (void)snprintf(line, sizeof line, "%.*s", (int)text.length, (const char *)text.data);
    rs_buf_fini(&text);
    if (status < 0)
        return rs_err_set(err, RS_REFUSED,
                          "there is no such invite: it was used, or is of another authority");
    const bool is_fine = parse_terms(line, &terms);
    if (is_fine && terms.uses > 1) {
        const struct rs_invite_terms rest = {
            .name = terms.name, .uses = terms.uses - 1, .expires_at = terms.expires_at};
        status = write_invite(rs_authority_dir(authority), path, &rest, err);
    } else if (unlink(path) < 0) {
        status = rs_err_errno(err, "cannot remove %s", path);
    }
    if (status < 0)
        return status;
    if (!is_fine || now >= terms.expires_at)
        return rs_err_set(err, RS_REFUSED, "the invite is over");
    if (!terms.name)
        return check_free(authority, name, now, err);
    return strcmp(terms.name, name) == 0
               ? RS_OK
               : rs_err_set(err, RS_REFUSED, "the invite is for another node, not for %.64s", name);
}

enum rs_status rs_invite_take(struct rs_authority *authority, const char *secret, const char *name,
                              rs_ns now, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    enum rs_status status = path_of(authority, secret, path, err);
    if (status < 0)
        return status;
    const int lock = trust_lock(rs_authority_dir(authority), err);
    if (lock < 0)
        return RS_IO;
    status = take(authority, path, name, now, err);
    (void)close(lock);
    return status;
}
