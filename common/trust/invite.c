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

static enum rs_status write_invite(const char *dir, const char *path, const char *name,
                                   rs_ns expires_at, struct rs_err *err)
{
    char line[128];
    const int length = snprintf(line, sizeof line, "%lld %s\n", (long long)expires_at, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return rs_err_errno(err, "cannot create %s", path);
    enum rs_status status = rs_file_write_all(fd, line, (size_t)length, path, err);
    if (status == RS_OK && fsync(fd) < 0)
        status = rs_err_errno(err, "cannot write %s", path);
    (void)close(fd);
    trust_follow_owner(path, dir);
    return status;
}

enum rs_status rs_invite_make(struct rs_authority *authority, const char *name, rs_ns expires_at,
                              struct rs_buf *text, struct rs_err *err)
{
    unsigned char raw[SECRET_RAW_BYTES];
    unsigned char *der = NULL;
    char path[TRUST_PATH_BYTES];
    struct rs_buf secret = {0};
    if (!rs_identity_is_name(name))
        return rs_err_set(err, RS_INVALID, "\"%.80s\" is no name of a node", name);
    X509 *ca = trust_certificate(rs_authority_ca(authority));
    const int length = ca ? i2d_X509(ca, &der) : 0;
    X509_free(ca);
    enum rs_status status = RS_OK;
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
        status = write_invite(rs_authority_dir(authority), path, name, expires_at, err);
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

enum rs_status rs_invite_take(struct rs_authority *authority, const char *secret, const char *name,
                              rs_ns now, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    struct rs_buf text = {0};
    char *end = NULL;
    enum rs_status status = path_of(authority, secret, path, err);
    if (status < 0)
        return status;
    status = rs_file_read_regular(path, 256, &text, err);
    /* Who removes the file has it: unlink(2) succeeds once. */
    if (status < 0 || unlink(path) < 0)
        status = rs_err_set(err, RS_REFUSED,
                            "there is no such invite: it was used, or is of another authority");
    if (status == RS_OK) {
        const char *line = rs_buf_text(&text);
        const long long until = strtoll(line, &end, 10);
        const size_t length = strlen(name);
        if (end == line || now >= until)
            status = rs_err_set(err, RS_REFUSED, "the invite is over");
        else if (*end != ' ' || strncmp(end + 1, name, length) != 0 || end[1 + length] != '\n')
            status =
                rs_err_set(err, RS_REFUSED, "the invite is for another node, not for %.64s", name);
    }
    rs_buf_fini(&text);
    return status;
}
