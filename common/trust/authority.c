/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything about X.509 is OpenSSL's; what is ours is which certificates there are.
 *
 *     authority   CA, signs certificates and the list of revocations, nothing below it signs
 *     aggregator  proves itself as server and as client, under the names of its hosts
 *     others      prove themselves as clients only: a node's certificate never makes an aggregator
 *
 * Certificates begin five minutes in the past, because clocks of hosts differ; they end when their days are over.
 */
#include "common/trust/authority.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/trust/trust_priv.h"

#define RS_LOG_TAG "trust"
#include "common/base/log.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    AUTHORITY_S = 3653 * 86400,
    SERIAL_BYTES = 16,
    KEY_MODE = 0600,
    PRIVATE_FOLDER_MODE = 0700,
};

struct rs_authority {
    char dir[TRUST_PATH_BYTES];
    struct rs_buf ca; /* PEM */
    X509 *certificate;
    EVP_PKEY *key;
};

/* ---- files ------------------------------------------------------------------------------------------------------------- */

static enum rs_status path_in(const char *dir, const char *name, char path_p[TRUST_PATH_BYTES],
                              struct rs_err *err)
{
    const int length = snprintf(path_p, TRUST_PATH_BYTES, "%s/%s", dir, name);
    if (length < 0 || length >= TRUST_PATH_BYTES)
        return rs_err_set(err, RS_INVALID, "the path %.200s... is too long", dir);
    return RS_OK;
}

void trust_follow_owner(const char *path, const char *dir)
{
    struct stat info;
    if (geteuid() == 0 && stat(dir, &info) == 0 && info.st_uid != 0 &&
        lchown(path, info.st_uid, info.st_gid) < 0)
        rs_log_warn("%s cannot be given to the owner of %s", path, dir);
}

/* mkdir -p, of whom the folder above belongs to. */
static enum rs_status make_folder(const char *path, struct rs_err *err)
{
    char parent[TRUST_PATH_BYTES + 8];
    const bool is_new = access(path, F_OK) < 0;
    const enum rs_status status = rs_file_make_dirs(path, PRIVATE_FOLDER_MODE, err);
    (void)snprintf(parent, sizeof parent, "%s/..", path);
    if (status == RS_OK && is_new)
        trust_follow_owner(path, parent);
    return status;
}

/* By a temporary name, with no right for others from its first byte on. */
static enum rs_status write_private(const char *dir, const char *name, struct rs_view bytes,
                                    struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    char temporary[TRUST_PATH_BYTES + 32];
    enum rs_status status = path_in(dir, name, path, err);
    if (status < 0)
        return status;
    (void)snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
    (void)unlink(temporary);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, KEY_MODE);
    if (fd < 0)
        return rs_err_errno(err, "cannot create %s", temporary);
    status = rs_file_write_all(fd, bytes.data, bytes.length, temporary, err);
    if (status == RS_OK && fsync(fd) < 0)
        status = rs_err_errno(err, "cannot write %s", temporary);
    (void)close(fd);
    trust_follow_owner(temporary, dir);
    if (status == RS_OK && rename(temporary, path) < 0)
        status = rs_err_errno(err, "cannot rename %s", temporary);
    if (status < 0)
        (void)unlink(temporary);
    return status == RS_OK ? rs_file_sync_dir(dir, err) : status;
}

int trust_lock(const char *dir, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    if (path_in(dir, "lock", path, err) < 0)
        return -1;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, KEY_MODE);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        (void)rs_err_errno(err, "cannot lock %s", path);
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    trust_follow_owner(path, dir);
    return fd;
}

/* What `write` puts into a BIO, appended to `text`. */
static enum rs_status take_bio(BIO *bio, bool is_fine, const char *what, struct rs_buf *text,
                               struct rs_err *err)
{
    char *bytes = NULL;
    const long length = bio && is_fine ? BIO_get_mem_data(bio, &bytes) : 0;
    if (length > 0)
        rs_buf_bytes(text, bytes, (size_t)length);
    if (bio)
        (void)BIO_reset(bio); /* cleanses a key */
    BIO_free(bio);
    if (length <= 0)
        return rs_err_set(err, RS_IO, "OpenSSL cannot write %s: %s", what, trust_last_error());
    return text->failed ? rs_err_set(err, RS_NOMEM, "no memory for %s", what) : RS_OK;
}

static enum rs_status certificate_text(X509 *certificate, struct rs_buf *text, struct rs_err *err)
{
    BIO *bio = BIO_new(BIO_s_mem());
    const bool is_fine = bio && PEM_write_bio_X509(bio, certificate) == 1;
    return take_bio(bio, is_fine, "a certificate", text, err);
}

static enum rs_status key_text(const EVP_PKEY *key, struct rs_buf *text, struct rs_err *err)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    const bool is_fine =
        bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1;
    return take_bio(bio, is_fine, "a key", text, err);
}

/* ---- one certificate ----------------------------------------------------------------------------------------------------- */

static bool add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    const bool is_fine = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return is_fine;
}

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and always of one length */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    const bool is_fine =
        number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return is_fine;
}

static bool set_name(X509_NAME *name, const char *text)
{
    return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Rankscope",
                                      -1, -1, 0) == 1 &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text, -1,
                                      -1, 0) == 1;
}

/* Number, times, subject and key; `issuer` NULL: it signs itself. NULL: OpenSSL refused. */
static X509 *begin_certificate(const X509 *issuer, const char *subject, EVP_PKEY *key,
                               int64_t valid_s)
{
    X509 *certificate = X509_new();
    bool is_fine = certificate && X509_set_version(certificate, X509_VERSION_3) == 1 &&
                   set_serial(certificate) && X509_set_pubkey(certificate, key) == 1 &&
                   X509_gmtime_adj(X509_getm_notBefore(certificate),
                                   -(long)(RS_AUTHORITY_EARLY_NS / RS_NS_PER_S)) &&
                   X509_time_adj_ex(X509_getm_notAfter(certificate), (int)(valid_s / 86400),
                                    (long)(valid_s % 86400), NULL) &&
                   set_name(X509_get_subject_name(certificate), subject);
    if (is_fine)
        is_fine =
            X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer)
                                                     : X509_get_subject_name(certificate)) == 1;
    if (!is_fine) {
        X509_free(certificate);
        return NULL;
    }
    return certificate;
}

/* The digest that a signature takes; NULL for Ed25519, which has its own. */
static const EVP_MD *digest_for(const EVP_PKEY *key)
{
    return EVP_PKEY_is_a(key, "ED25519") ? NULL : EVP_sha256();
}

static enum rs_status check_wish(const struct rs_certificate_wish *wish, struct rs_err *err)
{
    struct in_addr four;
    struct in6_addr six;
    if (wish->party < RS_PARTY_NODE || wish->party >= RS_PARTY_COUNT)
        return rs_err_set(err, RS_INVALID,
                          "certificates are for nodes, users, viewers, operators and aggregators");
    if (!rs_identity_is_name(wish->name))
        return rs_err_set(err, RS_INVALID,
                          "\"%.80s\" is no name: 1 to 63 of a-z, A-Z, 0-9, \".\", \"_\" and \"-\"",
                          wish->name);
    if (wish->valid_ns < RS_NS_PER_S || wish->valid_ns > (rs_dur)RS_AUTHORITY_VALID_MAX_NS)
        return rs_err_set(err, RS_INVALID, "a certificate is valid for a second to 825 days");
    if (wish->host_count && wish->party != RS_PARTY_AGGREGATOR && wish->party != RS_PARTY_NODE)
        return rs_err_set(err, RS_INVALID,
                          "hosts are for aggregators and nodes: others are not connected to");
    if (wish->host_count > RS_AUTHORITY_HOSTS_MAX)
        return rs_err_set(err, RS_LIMIT, "a certificate names at most %d hosts",
                          RS_AUTHORITY_HOSTS_MAX);
    for (size_t i = 0; i < wish->host_count; i++) {
        const char *host = wish->hosts[i];
        if (inet_pton(AF_INET, host, &four) != 1 && inet_pton(AF_INET6, host, &six) != 1 &&
            !rs_identity_is_name(host))
            return rs_err_set(err, RS_INVALID, "\"%.80s\" is neither a host's name nor an address",
                              host);
    }
    return RS_OK;
}

/* All characters of it were looked at by check_wish(): nothing in it has a meaning of its own. */
static void alternative_names(const struct rs_certificate_wish *wish, struct rs_buf *text)
{
    struct in_addr four;
    struct in6_addr six;
    rs_buf_printf(text, "URI:spiffe://rankscope/%s/%s", rs_party_name(wish->party), wish->name);
    for (size_t i = 0; i < wish->host_count; i++) {
        const bool is_address = inet_pton(AF_INET, wish->hosts[i], &four) == 1 ||
                                inet_pton(AF_INET6, wish->hosts[i], &six) == 1;
        rs_buf_printf(text, ",%s:%s", is_address ? "IP" : "DNS", wish->hosts[i]);
    }
}

static X509 *make_certificate(const struct rs_authority *authority,
                              const struct rs_certificate_wish *wish, EVP_PKEY *key)
{
    char subject[RS_IDENTITY_TEXT_BYTES];
    struct rs_buf names = {0};
    (void)snprintf(subject, sizeof subject, "%s/%s", rs_party_name(wish->party), wish->name);
    alternative_names(wish, &names);
    X509 *issuer = authority->certificate;
    X509 *certificate =
        names.failed ? NULL : begin_certificate(issuer, subject, key, wish->valid_ns / RS_NS_PER_S);
    const bool is_server = wish->party == RS_PARTY_AGGREGATOR || wish->host_count;
    const bool is_fine =
        certificate &&
        add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
        add_extension(certificate, issuer, NID_ext_key_usage,
                      is_server ? "serverAuth,clientAuth" : "clientAuth") &&
        add_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
        add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always") &&
        add_extension(certificate, issuer, NID_subject_alt_name, rs_buf_text(&names)) &&
        X509_sign(certificate, authority->key, digest_for(authority->key)) > 0;
    rs_buf_fini(&names);
    if (is_fine)
        return certificate;
    X509_free(certificate);
    return NULL;
}

/* Signs, and keeps a copy before anybody gets it: a certificate that is nowhere written could not be revoked. */
static enum rs_status sign_key(struct rs_authority *authority,
                               const struct rs_certificate_wish *wish, EVP_PKEY *key,
                               struct rs_buf *text, struct rs_identity *identity_p,
                               struct rs_err *err)
{
    char dir[TRUST_PATH_BYTES];
    char name[RS_IDENTITY_SERIAL_BYTES + 8];
    enum rs_status status = check_wish(wish, err);
    if (status < 0)
        return status;
    X509 *certificate = make_certificate(authority, wish, key);
    if (!certificate)
        return rs_err_set(err, RS_IO, "OpenSSL cannot make the certificate: %s",
                          trust_last_error());
    const size_t begin = text->length;
    status = certificate_text(certificate, text, err);
    if (status == RS_OK)
        status = trust_identity(certificate, rs_time_realtime(), identity_p, err);
    X509_free(certificate);
    if (status == RS_OK)
        status = path_in(authority->dir, "issued", dir, err);
    if (status == RS_OK) {
        (void)snprintf(name, sizeof name, "%s.crt", identity_p->serial);
        status =
            write_private(dir, name, rs_view_of(text->data + begin, text->length - begin), err);
    }
    return status;
}

/* ---- the list of revocations --------------------------------------------------------------------------------------------- */

static X509_CRL *read_revocations(const char *dir, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    struct rs_buf text = {0};
    X509_CRL *revoked = NULL;
    if (path_in(dir, "crl.pem", path, err) == RS_OK &&
        rs_file_read_regular(path, TRUST_FILE_MAX_BYTES, &text, err) == RS_OK) {
        BIO *bio = BIO_new_mem_buf(text.data, (int)text.length);
        revoked = bio ? PEM_read_bio_X509_CRL(bio, NULL, trust_no_password, NULL) : NULL;
        BIO_free(bio);
        if (!revoked)
            (void)rs_err_set(err, RS_FORMAT, "%s is not a list of revocations: %s", path,
                             trust_last_error());
    }
    rs_buf_fini(&text);
    return revoked;
}

/* As long as the authority itself: nobody has to be told again and again that nothing was revoked. */
static bool stamp_revocations(X509_CRL *revoked, const X509 *authority, EVP_PKEY *key)
{
    ASN1_TIME *now = X509_gmtime_adj(NULL, -(long)(RS_AUTHORITY_EARLY_NS / RS_NS_PER_S));
    const bool is_fine = now && X509_CRL_set1_lastUpdate(revoked, now) == 1 &&
                         X509_CRL_set1_nextUpdate(revoked, X509_get0_notAfter(authority)) == 1 &&
                         X509_CRL_sort(revoked) == 1 &&
                         X509_CRL_sign(revoked, key, digest_for(key)) > 0;
    ASN1_TIME_free(now);
    return is_fine;
}

static enum rs_status write_revocations(const char *dir, X509_CRL *revoked, struct rs_err *err)
{
    struct rs_buf text = {0};
    BIO *bio = BIO_new(BIO_s_mem());
    const bool is_fine = bio && PEM_write_bio_X509_CRL(bio, revoked) == 1;
    enum rs_status status = take_bio(bio, is_fine, "the list of revocations", &text, err);
    if (status == RS_OK)
        status = write_private(dir, "crl.pem", rs_view_of(text.data, text.length), err);
    rs_buf_fini(&text);
    return status;
}

static enum rs_status first_revocations(const char *dir, const X509 *certificate, EVP_PKEY *key,
                                        struct rs_err *err)
{
    X509_CRL *revoked = X509_CRL_new();
    enum rs_status status = RS_OK;
    if (!revoked || X509_CRL_set_version(revoked, X509_CRL_VERSION_2) != 1 ||
        X509_CRL_set_issuer_name(revoked, X509_get_subject_name(certificate)) != 1 ||
        !stamp_revocations(revoked, certificate, key))
        status = rs_err_set(err, RS_IO, "OpenSSL cannot make a list of revocations: %s",
                            trust_last_error());
    if (status == RS_OK)
        status = write_revocations(dir, revoked, err);
    X509_CRL_free(revoked);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------ */

static enum rs_status make_authority(const char *dir, struct rs_err *err)
{
    char subject[64];
    unsigned char random[4];
    struct rs_buf key_pem = {0};
    struct rs_buf ca_pem = {0};
    X509 *certificate = NULL;
    enum rs_status status = RS_OK;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    bool is_fine = key && RAND_bytes(random, sizeof random) == 1;
    if (is_fine) {
        /* Of two authorities each has a name of its own, so that a wrong one is seen for what it is. */
        (void)snprintf(subject, sizeof subject, "authority %02x%02x%02x%02x", random[0], random[1],
                       random[2], random[3]);
        certificate = begin_certificate(NULL, subject, key, AUTHORITY_S);
        is_fine = certificate &&
                  add_extension(certificate, certificate, NID_basic_constraints,
                                "critical,CA:TRUE,pathlen:0") &&
                  add_extension(certificate, certificate, NID_key_usage,
                                "critical,keyCertSign,cRLSign") &&
                  add_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
                  X509_sign(certificate, key, digest_for(key)) > 0;
    }
    if (!is_fine)
        status = rs_err_set(err, RS_IO, "OpenSSL cannot make an authority: %s", trust_last_error());
    if (status == RS_OK)
        status = key_text(key, &key_pem, err);
    if (status == RS_OK)
        status = certificate_text(certificate, &ca_pem, err);
    if (status == RS_OK)
        status = first_revocations(dir, certificate, key, err);
    if (status == RS_OK)
        status = write_private(dir, "ca.key", rs_view_of(key_pem.data, key_pem.length), err);
    if (status == RS_OK)
        status = write_private(dir, "ca.crt", rs_view_of(ca_pem.data, ca_pem.length), err);
    if (key_pem.data)
        OPENSSL_cleanse(key_pem.data, key_pem.length);
    rs_buf_fini(&key_pem);
    rs_buf_fini(&ca_pem);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return status;
}

enum rs_status rs_authority_create(const char *dir, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    static const char *const folders[] = {"issued", "invites"};
    enum rs_status status = make_folder(dir, err);
    for (size_t i = 0; i < 2 && status == RS_OK; i++) {
        status = path_in(dir, folders[i], path, err);
        if (status == RS_OK)
            status = make_folder(path, err);
    }
    const int lock = status == RS_OK ? trust_lock(dir, err) : -1;
    if (status == RS_OK && lock < 0)
        status = RS_IO;
    if (status == RS_OK)
        status = path_in(dir, "ca.key", path, err);
    if (status == RS_OK && access(path, F_OK) == 0)
        status = rs_err_set(err, RS_EXISTS, "there is an authority in %s already", dir);
    if (status == RS_OK)
        status = make_authority(dir, err);
    if (lock >= 0)
        (void)close(lock);
    return status;
}

static enum rs_status read_authority(struct rs_authority *authority, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    struct stat info;
    struct rs_buf key = {0};
    enum rs_status status = path_in(authority->dir, "ca.crt", path, err);
    if (status == RS_OK)
        status = rs_file_read_regular(path, TRUST_FILE_MAX_BYTES, &authority->ca, err);
    if (status == RS_NOTFOUND)
        return rs_err_set(err, RS_NOTFOUND,
                          "there is no authority in %s: \"rankscope certs init\" makes one",
                          authority->dir);
    if (status == RS_OK)
        status = path_in(authority->dir, "ca.key", path, err);
    if (status == RS_OK)
        status = rs_file_read_regular(path, TRUST_FILE_MAX_BYTES, &key, err);
    if (status == RS_OK && stat(path, &info) == 0 && info.st_mode & (S_IRWXG | S_IRWXO))
        status = rs_err_set(err, RS_REFUSED,
                            "%s may be read by others: whoever has it can be everybody", path);
    if (status == RS_OK) {
        BIO *bio = BIO_new_mem_buf(key.data, (int)key.length);
        authority->key = bio ? PEM_read_bio_PrivateKey(bio, NULL, trust_no_password, NULL) : NULL;
        BIO_free(bio);
        authority->certificate =
            trust_certificate(rs_view_of(authority->ca.data, authority->ca.length));
        if (!authority->key || !authority->certificate ||
            X509_check_private_key(authority->certificate, authority->key) != 1)
            status = rs_err_set(err, RS_FORMAT, "key and certificate in %s do not belong together",
                                authority->dir);
        trust_clear_errors();
    }
    if (key.data)
        OPENSSL_cleanse(key.data, key.length);
    rs_buf_fini(&key);
    return status;
}

enum rs_status rs_authority_open(const char *dir, struct rs_authority **authority_p,
                                 struct rs_err *err)
{
    if (strlen(dir) >= TRUST_PATH_BYTES - 80)
        return rs_err_set(err, RS_INVALID, "the path %.200s... is too long", dir);
    struct rs_authority *authority = rs_mem_calloc(1, sizeof *authority);
    if (!authority)
        return rs_err_set(err, RS_NOMEM, "no memory for an authority");
    (void)snprintf(authority->dir, sizeof authority->dir, "%s", dir);
    const enum rs_status status = read_authority(authority, err);
    if (status < 0)
        rs_authority_close(&authority);
    else
        *authority_p = authority;
    return status;
}

void rs_authority_close(struct rs_authority **authority_p)
{
    struct rs_authority *authority = *authority_p;
    if (!authority)
        return;
    *authority_p = NULL;
    EVP_PKEY_free(authority->key);
    X509_free(authority->certificate);
    rs_buf_fini(&authority->ca);
    rs_mem_free(authority);
}

struct rs_view rs_authority_ca(const struct rs_authority *authority)
{
    return rs_view_of(authority->ca.data, authority->ca.length);
}

const char *rs_authority_dir(const struct rs_authority *authority)
{
    return authority->dir;
}

enum rs_status rs_authority_revocations(const struct rs_authority *authority, struct rs_buf *pem,
                                        struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    const enum rs_status status = path_in(authority->dir, "crl.pem", path, err);
    return status == RS_OK ? rs_file_read_regular(path, TRUST_FILE_MAX_BYTES, pem, err) : status;
}

/* ---- issuing ----------------------------------------------------------------------------------------------------------------- */

enum rs_status rs_trust_revocations_write(const char *dir, struct rs_view revoked,
                                          struct rs_err *err)
{
    return write_private(dir, "crl.pem", revoked, err);
}

enum rs_status rs_trust_folder_write(const char *dir, struct rs_view ca, struct rs_view certificate,
                                     struct rs_view key, struct rs_view revoked, struct rs_err *err)
{
    enum rs_status status = make_folder(dir, err);
    if (status == RS_OK)
        status = write_private(dir, "ca.crt", ca, err);
    if (status == RS_OK && revoked.length)
        status = write_private(dir, "crl.pem", revoked, err);
    if (status == RS_OK)
        status = write_private(dir, "tls.key", key, err);
    return status == RS_OK ? write_private(dir, "tls.crt", certificate, err) : status;
}

enum rs_status rs_authority_issue(struct rs_authority *authority,
                                  const struct rs_certificate_wish *wish, const char *out_dir,
                                  bool replace, struct rs_identity *identity_p, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    struct rs_buf certificate = {0};
    struct rs_buf key_pem = {0};
    struct rs_buf revoked = {0};
    enum rs_status status = path_in(out_dir, "tls.crt", path, err);
    if (status == RS_OK && !replace && access(path, F_OK) == 0)
        status = rs_err_set(err, RS_EXISTS, "there is a certificate in %s already", out_dir);
    EVP_PKEY *key = status == RS_OK ? EVP_EC_gen("P-256") : NULL;
    if (status == RS_OK && !key)
        status = rs_err_set(err, RS_IO, "OpenSSL cannot make a key: %s", trust_last_error());
    if (status == RS_OK)
        status = sign_key(authority, wish, key, &certificate, identity_p, err);
    if (status == RS_OK)
        status = key_text(key, &key_pem, err);
    if (status == RS_OK)
        status = rs_authority_revocations(authority, &revoked, err);
    if (status == RS_OK)
        status = rs_trust_folder_write(out_dir, rs_authority_ca(authority),
                                       rs_view_of(certificate.data, certificate.length),
                                       rs_view_of(key_pem.data, key_pem.length),
                                       rs_view_of(revoked.data, revoked.length), err);
    if (key_pem.data)
        OPENSSL_cleanse(key_pem.data, key_pem.length);
    rs_buf_fini(&key_pem);
    rs_buf_fini(&certificate);
    rs_buf_fini(&revoked);
    EVP_PKEY_free(key);
    return status;
}

/* What a stranger may have signed: a short list, so that no weak key becomes an identity. */
static bool is_fine_key(const EVP_PKEY *key)
{
    char group[64] = "";
    if (EVP_PKEY_is_a(key, "ED25519"))
        return true;
    return EVP_PKEY_is_a(key, "EC") &&
           EVP_PKEY_get_group_name(key, group, sizeof group, NULL) == 1 &&
           (strcmp(group, "prime256v1") == 0 || strcmp(group, "secp384r1") == 0);
}

enum rs_status rs_authority_sign(struct rs_authority *authority,
                                 const struct rs_certificate_wish *wish, struct rs_view request,
                                 struct rs_buf *certificate, struct rs_err *err)
{
    struct rs_identity identity;
    if (request.length > TRUST_FILE_MAX_BYTES)
        return rs_err_set(err, RS_LIMIT, "the request for a certificate is too long");
    BIO *bio = BIO_new_mem_buf(request.data, (int)request.length);
    X509_REQ *parsed = bio ? PEM_read_bio_X509_REQ(bio, NULL, trust_no_password, NULL) : NULL;
    EVP_PKEY *key = parsed ? X509_REQ_get0_pubkey(parsed) : NULL;
    enum rs_status status = RS_OK;
    if (!key || !is_fine_key(key) || X509_REQ_verify(parsed, key) != 1)
        status = rs_err_set(err, RS_FORMAT,
                            "the request for a certificate is not one signed by a P-256, P-384 or "
                            "Ed25519 key");
    if (status == RS_OK)
        status = sign_key(authority, wish, key, certificate, &identity, err);
    X509_REQ_free(parsed);
    BIO_free(bio);
    trust_clear_errors();
    return status;
}

enum rs_status rs_request_make(struct rs_buf *key_pem, struct rs_buf *request, struct rs_err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *made = X509_REQ_new();
    const bool is_made = key && made && X509_REQ_set_version(made, X509_REQ_VERSION_1) == 1 &&
                         X509_REQ_set_pubkey(made, key) == 1 &&
                         X509_REQ_sign(made, key, EVP_sha256()) > 0;
    BIO *bio = is_made ? BIO_new(BIO_s_mem()) : NULL;
    const bool is_fine = bio && PEM_write_bio_X509_REQ(bio, made) == 1;
    enum rs_status status = take_bio(bio, is_fine, "a request", request, err);
    if (status == RS_OK)
        status = key_text(key, key_pem, err);
    X509_REQ_free(made);
    EVP_PKEY_free(key);
    return status;
}

/* ---- revoking and listing ------------------------------------------------------------------------------------------------------ */

static enum rs_status read_issued(const struct rs_authority *authority, const char *file,
                                  X509 **certificate_p, struct rs_err *err)
{
    char name[RS_IDENTITY_SERIAL_BYTES + 24];
    char path[TRUST_PATH_BYTES];
    struct rs_buf text = {0};
    (void)snprintf(name, sizeof name, "issued/%.48s", file);
    enum rs_status status = path_in(authority->dir, name, path, err);
    if (status == RS_OK)
        status = rs_file_read_regular(path, TRUST_FILE_MAX_BYTES, &text, err);
    X509 *certificate =
        status == RS_OK ? trust_certificate(rs_view_of(text.data, text.length)) : NULL;
    rs_buf_fini(&text);
    trust_clear_errors();
    if (status == RS_OK && !certificate)
        status = rs_err_set(err, RS_FORMAT, "%s is not a certificate", path);
    *certificate_p = certificate;
    return status;
}

static bool is_serial(const char *text)
{
    const size_t length = strlen(text);
    return length > 0 && length < RS_IDENTITY_SERIAL_BYTES &&
           strspn(text, "0123456789abcdef") == length;
}

static enum rs_status add_revocation(X509_CRL *revoked, const X509 *certificate, struct rs_err *err)
{
    X509_REVOKED *known = NULL;
    X509_REVOKED *entry = X509_REVOKED_new();
    ASN1_INTEGER *serial = ASN1_INTEGER_dup(X509_get0_serialNumber(certificate));
    ASN1_TIME *now = X509_gmtime_adj(NULL, 0);
    enum rs_status status = RS_OK;
    if (serial && X509_CRL_get0_by_serial(revoked, &known, serial) == 1)
        status = rs_err_set(err, RS_EXISTS, "that certificate is revoked already");
    else if (!entry || !serial || !now || X509_REVOKED_set_serialNumber(entry, serial) != 1 ||
             X509_REVOKED_set_revocationDate(entry, now) != 1 ||
             X509_CRL_add0_revoked(revoked, entry) != 1)
        status = rs_err_set(err, RS_IO, "OpenSSL cannot revoke: %s", trust_last_error());
    else
        entry = NULL; /* the list's now */
    X509_REVOKED_free(entry);
    ASN1_INTEGER_free(serial);
    ASN1_TIME_free(now);
    return status;
}

enum rs_status rs_authority_revoke(struct rs_authority *authority, const char *serial,
                                   struct rs_err *err)
{
    char file[RS_IDENTITY_SERIAL_BYTES + 8];
    X509 *certificate = NULL;
    if (!is_serial(serial))
        return rs_err_set(err, RS_INVALID, "\"%.60s\" is no serial number", serial);
    const int lock = trust_lock(authority->dir, err);
    if (lock < 0)
        return RS_IO;
    (void)snprintf(file, sizeof file, "%s.crt", serial);
    enum rs_status status = read_issued(authority, file, &certificate, err);
    if (status == RS_NOTFOUND)
        status = rs_err_set(err, RS_NOTFOUND, "no certificate %s was issued", serial);
    X509_CRL *revoked = status == RS_OK ? read_revocations(authority->dir, err) : NULL;
    if (status == RS_OK && !revoked)
        status = RS_FORMAT;
    if (status == RS_OK)
        status = add_revocation(revoked, certificate, err);
    if (status == RS_OK && !stamp_revocations(revoked, authority->certificate, authority->key))
        status = rs_err_set(err, RS_IO, "OpenSSL cannot sign the list of revocations: %s",
                            trust_last_error());
    if (status == RS_OK)
        status = write_revocations(authority->dir, revoked, err);
    X509_CRL_free(revoked);
    X509_free(certificate);
    (void)close(lock);
    return status;
}

/* False: the file is no certificate of ours, or past its time. */
static bool describe(const X509 *certificate, X509_CRL *revoked, struct rs_authority_item *item_p)
{
    X509_REVOKED *entry = NULL;
    struct rs_authority_item item = {.is_revoked = false};
    ASN1_INTEGER *serial = ASN1_INTEGER_dup(X509_get0_serialNumber(certificate));
    rs_ns until = 0;
    /* Whether it is valid now is for the reader to say: it is asked for a time at which it was. */
    const bool is_fine = serial && trust_time(X509_get0_notBefore(certificate), &item.begins_at) &&
                         trust_time(X509_get0_notAfter(certificate), &until) &&
                         trust_identity(certificate, item.begins_at, &item.identity, NULL) == RS_OK;
    if (is_fine)
        item.is_revoked = X509_CRL_get0_by_serial(revoked, &entry, serial) == 1;
    ASN1_INTEGER_free(serial);
    *item_p = item;
    return is_fine;
}

enum rs_status rs_authority_list(struct rs_authority *authority, rs_authority_item_fn *each,
                                 void *self, struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    enum rs_status status = path_in(authority->dir, "issued", path, err);
    X509_CRL *revoked = status == RS_OK ? read_revocations(authority->dir, err) : NULL;
    if (status == RS_OK && !revoked)
        return err && err->status < 0 ? err->status : RS_FORMAT;
    DIR *stream = status == RS_OK ? opendir(path) : NULL;
    if (status == RS_OK && !stream)
        status = rs_err_errno(err, "cannot read the folder %s", path);
    for (const struct dirent *entry = stream ? rs_dir_next(stream) : NULL; entry;
         entry = rs_dir_next(stream)) {
        const size_t length = strlen(entry->d_name);
        X509 *certificate = NULL;
        struct rs_authority_item item;
        if (length < 5 || strcmp(entry->d_name + length - 4, ".crt") != 0)
            continue;
        if (read_issued(authority, entry->d_name, &certificate, NULL) == RS_OK &&
            describe(certificate, revoked, &item))
            each(self, &item);
        X509_free(certificate);
    }
    if (stream)
        (void)closedir(stream);
    X509_CRL_free(revoked);
    return status;
}
