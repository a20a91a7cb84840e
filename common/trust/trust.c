/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read is made whole first and then exchanged under the lock, so that no reader sees the certificate of one
 * generation with the key of another. A renewal replaces two files, one after the other: in between they do not belong
 * together, the old pair counts on, and the next look finds the new one.
 */
#include "common/trust/trust.h"

#include "common/base/file.h"
#include "common/base/mem.h"
#include "common/trust/trust_priv.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum file { FILE_CA, FILE_CERTIFICATE, FILE_KEY, FILE_REVOKED, FILE_COUNT };

static const char *const file_names[FILE_COUNT] = {"ca.crt", "tls.crt", "tls.key", "crl.pem"};

/* By what a change of a file is seen. */
struct stamp {
    ino_t inode;
    off_t size;
    struct timespec changed;
};

/* All that was read at one time. */
struct reading {
    struct rs_buf texts[FILE_COUNT];
    struct stamp stamps[FILE_COUNT];
    X509_CRL *revoked; /* NULL: none */
    struct rs_identity own;
};

struct rs_trust {
    char dir[TRUST_PATH_BYTES]; /* empty: there is no folder */
    pthread_mutex_t lock;       /* guards everything below */
    struct reading now;
    struct stamp tried[FILE_COUNT]; /* of the last look, fine or not */
    unsigned generation;
};

void trust_clear_errors(void)
{
    ERR_clear_error();
}

const char *trust_last_error(void)
{
    const unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return reason ? reason : "no reason is given";
}

static void reading_fini(struct reading *reading)
{
    for (size_t i = 0; i < FILE_COUNT; i++) {
        if (reading->texts[i].data)
            OPENSSL_cleanse(reading->texts[i].data, reading->texts[i].length);
        rs_buf_fini(&reading->texts[i]);
    }
    X509_CRL_free(reading->revoked);
    *reading = (struct reading){.revoked = NULL};
}

static bool join_path(const struct rs_trust *trust, size_t file, char path_p[TRUST_PATH_BYTES])
{
    const int length = snprintf(path_p, TRUST_PATH_BYTES, "%s/%s", trust->dir, file_names[file]);
    return length > 0 && length < TRUST_PATH_BYTES;
}

static void look(const struct rs_trust *trust, struct stamp stamps[FILE_COUNT])
{
    char path[TRUST_PATH_BYTES];
    struct stat info;
    for (size_t i = 0; i < FILE_COUNT; i++) {
        stamps[i] = (struct stamp){.inode = 0};
        if (join_path(trust, i, path) && stat(path, &info) == 0)
            stamps[i] =
                (struct stamp){.inode = info.st_ino, .size = info.st_size, .changed = info.st_mtim};
    }
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
    for (size_t i = 0; i < FILE_COUNT; i++)
        if (a[i].inode != b[i].inode || a[i].size != b[i].size ||
            a[i].changed.tv_sec != b[i].changed.tv_sec ||
            a[i].changed.tv_nsec != b[i].changed.tv_nsec)
            return false;
    return true;
}

static enum rs_status read_files(const struct rs_trust *trust, struct reading *reading,
                                 struct rs_err *err)
{
    char path[TRUST_PATH_BYTES];
    struct stat info;
    look(trust, reading->stamps);
    for (size_t i = 0; i < FILE_COUNT; i++) {
        if (!join_path(trust, i, path))
            return rs_err_set(err, RS_INVALID, "the path of a folder of certificates is too long");
        if (i == FILE_REVOKED && reading->stamps[i].inode == 0)
            continue;
        const enum rs_status status =
            rs_file_read_regular(path, TRUST_FILE_MAX_BYTES, &reading->texts[i], err);
        if (status == RS_NOTFOUND)
            return rs_err_set(err, RS_NOTFOUND, "there is no %s: see \"rankscope certs --help\"",
                              path);
        if (status < 0)
            return status;
        if (i == FILE_KEY && stat(path, &info) == 0 && info.st_mode & (S_IRWXG | S_IRWXO))
            return rs_err_set(err, RS_REFUSED,
                              "%s may be read by others (mode %03o): chmod 600 it, and issue the "
                              "certificate again if it is not new",
                              path, (unsigned)(info.st_mode & 0777));
    }
    return RS_OK;
}

static struct rs_view text_of(const struct reading *reading, enum file file)
{
    return rs_view_of(reading->texts[file].data, reading->texts[file].length);
}

static EVP_PKEY *key_of(struct rs_view pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.length);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, trust_no_password, NULL) : NULL;
    BIO_free(bio);
    return key;
}

static X509_CRL *revocations_of(struct rs_view pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.length);
    X509_CRL *revoked = bio ? PEM_read_bio_X509_CRL(bio, NULL, trust_no_password, NULL) : NULL;
    BIO_free(bio);
    return revoked;
}

/* That the four files belong together. */
static enum rs_status check_together(const char *dir, struct reading *reading, X509 *ca, X509 *own,
                                     const EVP_PKEY *key, struct rs_err *err)
{
    EVP_PKEY *authority = ca ? X509_get0_pubkey(ca) : NULL;
    if (!authority || X509_check_ca(ca) == 0)
        return rs_err_set(err, RS_FORMAT, "%s/ca.crt is not the certificate of an authority", dir);
    if (!own || X509_verify(own, authority) != 1)
        return rs_err_set(err, RS_FORMAT, "%s/tls.crt is not signed by %s/ca.crt", dir, dir);
    if (!key || X509_check_private_key(own, key) != 1)
        return rs_err_set(err, RS_FORMAT, "%s/tls.key does not belong to %s/tls.crt", dir, dir);
    if (reading->texts[FILE_REVOKED].length == 0)
        return RS_OK;
    reading->revoked = revocations_of(text_of(reading, FILE_REVOKED));
    if (!reading->revoked || X509_CRL_verify(reading->revoked, authority) != 1)
        return rs_err_set(err, RS_FORMAT, "%s/crl.pem is not signed by %s/ca.crt", dir, dir);
    return RS_OK;
}

static enum rs_status understand(const char *dir, struct reading *reading, struct rs_err *err)
{
    X509 *ca = trust_certificate(text_of(reading, FILE_CA));
    X509 *own = trust_certificate(text_of(reading, FILE_CERTIFICATE));
    EVP_PKEY *key = key_of(text_of(reading, FILE_KEY));
    struct rs_err why = {0};
    enum rs_status status = check_together(dir, reading, ca, own, key, err);
    if (status == RS_OK) {
        status = trust_identity(own, rs_time_realtime(), &reading->own, &why);
        if (status < 0)
            (void)rs_err_set(err, status, "%s/tls.crt: %s", dir, why.text);
    }
    X509_free(ca);
    X509_free(own);
    EVP_PKEY_free(key);
    trust_clear_errors();
    return status;
}

static struct rs_trust *trust_new(struct rs_err *err)
{
    struct rs_trust *trust = rs_mem_calloc(1, sizeof *trust);
    if (!trust)
        (void)rs_err_set(err, RS_NOMEM, "no memory for certificates");
    else
        (void)pthread_mutex_init(&trust->lock, NULL);
    return trust;
}

/* Was the key put there a moment ago? Then its certificate is about to follow. */
static bool is_being_renewed(const struct reading *reading)
{
    const struct stamp *key = &reading->stamps[FILE_KEY];
    const int64_t age_s = rs_time_realtime() / RS_NS_PER_S - key->changed.tv_sec;
    return key->inode != 0 && age_s >= -1 && age_s <= 2;
}

/* Reads and checks. A refresh keeps the old pair between the two files of a renewal (rs_trust_folder_write()); who opens has no
 * older one, and looks again until they belong together, or have stood for two seconds as they are. */
static enum rs_status read_pair(struct rs_trust *trust, struct rs_err *err)
{
    static const struct timespec nap = {.tv_nsec = 20000000};
    for (;;) {
        enum rs_status status = read_files(trust, &trust->now, err);
        if (status == RS_OK)
            status = understand(trust->dir, &trust->now, err);
        if (status != RS_FORMAT || !is_being_renewed(&trust->now))
            return status;
        reading_fini(&trust->now);
        (void)nanosleep(&nap, NULL);
    }
}

enum rs_status rs_trust_open(const char *dir, struct rs_trust **trust_p, struct rs_err *err)
{
    struct rs_trust *trust = trust_new(err);
    if (!trust)
        return RS_NOMEM;
    enum rs_status status = RS_OK;
    if (!*dir || strlen(dir) >= TRUST_PATH_BYTES - 16)
        status =
            rs_err_set(err, RS_INVALID, "the folder of certificates has no name, or a long one");
    else
        (void)snprintf(trust->dir, sizeof trust->dir, "%s", dir);
    if (status == RS_OK)
        status = read_pair(trust, err);
    if (status < 0) {
        rs_trust_close(&trust);
        return status;
    }
    memcpy(trust->tried, trust->now.stamps, sizeof trust->tried);
    trust->generation = 1;
    *trust_p = trust;
    return RS_OK;
}

enum rs_status rs_trust_of_authority(struct rs_view ca, struct rs_trust **trust_p,
                                     struct rs_err *err)
{
    X509 *certificate = ca.length <= TRUST_FILE_MAX_BYTES ? trust_certificate(ca) : NULL;
    const bool is_authority = certificate && X509_check_ca(certificate) != 0;
    X509_free(certificate);
    trust_clear_errors();
    if (!is_authority)
        return rs_err_set(err, RS_FORMAT, "this is not the certificate of an authority");
    struct rs_trust *trust = trust_new(err);
    if (!trust)
        return RS_NOMEM;
    rs_buf_bytes(&trust->now.texts[FILE_CA], ca.data, ca.length);
    if (trust->now.texts[FILE_CA].failed) {
        rs_trust_close(&trust);
        return rs_err_set(err, RS_NOMEM, "no memory for certificates");
    }
    trust->generation = 1;
    *trust_p = trust;
    return RS_OK;
}

void rs_trust_close(struct rs_trust **trust_p)
{
    struct rs_trust *trust = *trust_p;
    if (!trust)
        return;
    *trust_p = NULL;
    reading_fini(&trust->now);
    (void)pthread_mutex_destroy(&trust->lock);
    rs_mem_free(trust);
}

/* With the lock. */
static enum rs_status refresh(struct rs_trust *trust, struct rs_err *err)
{
    struct stamp stamps[FILE_COUNT];
    struct reading fresh = {.revoked = NULL};
    if (!*trust->dir)
        return RS_OK;
    look(trust, stamps);
    if (is_same(stamps, trust->tried))
        return RS_OK;
    memcpy(trust->tried, stamps, sizeof trust->tried);
    enum rs_status status = read_files(trust, &fresh, err);
    if (status == RS_OK)
        status = understand(trust->dir, &fresh, err);
    if (status == RS_OK) {
        struct reading old = trust->now;
        trust->now = fresh;
        fresh = old;
        trust->generation++;
    }
    reading_fini(&fresh);
    return status;
}

enum rs_status rs_trust_refresh(struct rs_trust *trust, unsigned *generation_p, struct rs_err *err)
{
    (void)pthread_mutex_lock(&trust->lock);
    const enum rs_status status = refresh(trust, err);
    *generation_p = trust->generation;
    (void)pthread_mutex_unlock(&trust->lock);
    return status;
}

enum rs_status rs_trust_texts(struct rs_trust *trust, struct rs_trust_texts *texts_p,
                              struct rs_err *err)
{
    struct rs_trust_texts texts = {.ca = {0}};
    struct rs_buf *const copies[] = {&texts.ca, &texts.certificate, &texts.key};
    bool has_failed = false;
    (void)pthread_mutex_lock(&trust->lock);
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        const struct rs_buf *text = &trust->now.texts[i];
        rs_buf_bytes(copies[i], text->data, text->length);
        rs_buf_bytes(copies[i], "", 1);
        has_failed = has_failed || copies[i]->failed;
    }
    (void)pthread_mutex_unlock(&trust->lock);
    if (has_failed) {
        rs_trust_texts_fini(&texts);
        return rs_err_set(err, RS_NOMEM, "no memory for certificates");
    }
    *texts_p = texts;
    return RS_OK;
}

void rs_trust_texts_fini(struct rs_trust_texts *texts)
{
    if (texts->key.data)
        OPENSSL_cleanse(texts->key.data, texts->key.length);
    rs_buf_fini(&texts->ca);
    rs_buf_fini(&texts->certificate);
    rs_buf_fini(&texts->key);
}

struct rs_identity rs_trust_own(struct rs_trust *trust)
{
    (void)pthread_mutex_lock(&trust->lock);
    const struct rs_identity own = trust->now.own;
    (void)pthread_mutex_unlock(&trust->lock);
    return own;
}

/* With the lock. */
static bool is_revoked(const struct rs_trust *trust, const char *serial)
{
    BIGNUM *number = NULL;
    if (!trust->now.revoked || BN_hex2bn(&number, serial) == 0)
        return false;
    ASN1_INTEGER *integer = BN_to_ASN1_INTEGER(number, NULL);
    X509_REVOKED *entry = NULL;
    /* 2 is "removed from the list", which nothing ever is from ours. */
    const bool is_revoked =
        integer && X509_CRL_get0_by_serial(trust->now.revoked, &entry, integer) == 1;
    ASN1_INTEGER_free(integer);
    BN_free(number);
    return is_revoked;
}

enum rs_status rs_trust_check(struct rs_trust *trust, const struct rs_identity *identity, rs_ns now,
                              struct rs_err *err)
{
    char text[RS_IDENTITY_TEXT_BYTES];
    rs_identity_text(identity, text);
    if (!*identity->serial)
        return RS_OK;
    if (now >= identity->expires_at)
        return rs_err_set(err, RS_REFUSED, "the certificate of %s has expired", text);
    (void)pthread_mutex_lock(&trust->lock);
    const bool is_gone = is_revoked(trust, identity->serial);
    (void)pthread_mutex_unlock(&trust->lock);
    return is_gone ? rs_err_set(err, RS_REFUSED, "the certificate of %s is revoked", text) : RS_OK;
}

enum rs_status rs_trust_identify(struct rs_trust *trust, struct rs_view pem, rs_ns now,
                                 struct rs_identity *identity_p, struct rs_err *err)
{
    struct rs_identity identity;
    enum rs_status status = rs_identity_of_pem(pem, now, &identity, err);
    if (status == RS_OK)
        status = rs_trust_check(trust, &identity, now, err);
    if (status == RS_OK)
        *identity_p = identity;
    return status;
}
