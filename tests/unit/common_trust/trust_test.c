/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is believed, and when no longer. Real certificates, made by the authority under test; OpenSSL's own command line looks
 * at them in tests/e2e/test_tls.py.
 */
#include "common/trust/trust.h"

#include "common/base/file.h"
#include "common/trust/invite.h"
#include "tests/support/rs_test.h"
#include "tests/support/tmp_dir.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const rs_dur hour_ns = 3600 * (rs_dur)RS_NS_PER_S;

struct rig {
    char dir[64];
    char ca[600], out[600];
    struct rs_authority *authority;
};

static struct rig rig_new(void)
{
    struct rig rig = {.authority = NULL};
    tmp_dir_make(rig.dir);
    (void)snprintf(rig.ca, sizeof rig.ca, "%s/ca", rig.dir);
    (void)snprintf(rig.out, sizeof rig.out, "%s/out", rig.dir);
    assert_ok(rs_authority_create(rig.ca, NULL));
    assert_ok(rs_authority_open(rig.ca, &rig.authority, NULL));
    return rig;
}

static void rig_free(struct rig *rig)
{
    rs_authority_close(&rig->authority);
    tmp_dir_remove(rig->dir);
}

static struct rs_certificate_wish wish_of(enum rs_party party, const char *name)
{
    return (struct rs_certificate_wish){.party = party, .name = name, .valid_ns = hour_ns};
}

static struct rs_identity issue(const struct rig *rig, enum rs_party party, const char *name)
{
    struct rs_identity identity;
    const struct rs_certificate_wish wish = wish_of(party, name);
    assert_ok(rs_authority_issue(rig->authority, &wish, rig->out, true, &identity, NULL));
    return identity;
}

static void read_into(struct rs_buf *buf, const char *dir, const char *name)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(rs_file_read(path, 1 << 20, buf, NULL));
}

static void write_at(const char *dir, const char *name, const void *bytes, size_t length)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static void a_certificate_says_who_it_is(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    static const enum rs_party parties[] = {RS_PARTY_NODE, RS_PARTY_VIEWER, RS_PARTY_OPERATOR,
                                            RS_PARTY_AGGREGATOR};
    for (size_t i = 0; i < 4; i++) {
        struct rs_trust *trust = NULL;
        struct rs_buf pem = {0};
        struct rs_identity seen;
        char text[RS_IDENTITY_TEXT_BYTES], wanted[RS_IDENTITY_TEXT_BYTES];
        const struct rs_identity issued = issue(&rig, parties[i], "gpu-017.x_Y");
        assert_ok(rs_trust_open(rig.out, &trust, NULL));
        read_into(&pem, rig.out, "tls.crt");
        assert_ok(rs_trust_identify(trust, rs_view_of(pem.data, pem.length), rs_time_realtime(),
                                    &seen, NULL));
        rs_identity_text(&seen, text);
        (void)snprintf(wanted, sizeof wanted, "%s/gpu-017.x_Y", rs_party_name(parties[i]));
        assert_string_equal(text, wanted);
        assert_string_equal(seen.serial, issued.serial);
        assert_int_equal(rs_trust_own(trust).party, parties[i]);
        assert_int_equal(rs_identity_may_operate(&seen), parties[i] >= RS_PARTY_OPERATOR);
        assert_int_equal(rs_identity_may_read(&seen), parties[i] >= RS_PARTY_VIEWER);
        /* The same certificate, before and after its time. */
        assert_status(
            rs_identity_of_pem(rs_view_of(pem.data, pem.length), seen.expires_at, &seen, NULL),
            RS_REFUSED);
        assert_status(rs_identity_of_pem(rs_view_of(pem.data, pem.length),
                                         issued.begins_at - RS_NS_PER_S, &seen, NULL),
                      RS_REFUSED);
        rs_buf_fini(&pem);
        rs_trust_close(&trust);
    }
    rig_free(&rig);
}

static void only_names_become_names(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_identity identity;
    static const char *const wrong[] = {
        "",     ".x",       "-x",
        "a/b",  "a b",      "a,DNS:evil",
        "a\nb", "\xc3\xa9", "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct rs_certificate_wish wish = wish_of(RS_PARTY_NODE, wrong[i]);
        assert_status(rs_authority_issue(rig.authority, &wish, rig.out, true, &identity, NULL),
                      RS_INVALID);
    }
    static const char *const hosts[] = {"a,URI:spiffe://rankscope/operator/eve"};
    struct rs_certificate_wish wish = wish_of(RS_PARTY_AGGREGATOR, "main");
    wish.hosts = hosts;
    wish.host_count = 1;
    assert_status(rs_authority_issue(rig.authority, &wish, rig.out, true, &identity, NULL),
                  RS_INVALID);
    static const char *const own[] = {"gpu-017"};
    wish = wish_of(RS_PARTY_NODE, "gpu-017");
    wish.hosts = own;
    wish.host_count = 1;
    assert_ok(rs_authority_issue(rig.authority, &wish, rig.out, true, &identity, NULL));
    wish.party = RS_PARTY_OPERATOR; /* nobody connects to a person */
    assert_status(rs_authority_issue(rig.authority, &wish, rig.out, true, &identity, NULL),
                  RS_INVALID);
    wish = wish_of(RS_PARTY_LOCAL, "x");
    assert_status(rs_authority_issue(rig.authority, &wish, rig.out, true, &identity, NULL),
                  RS_INVALID);
    rig_free(&rig);
}

static void an_aggregator_is_reached_by_what_this_machine_is_called(void **state)
{
    (void)state;
    const char *hosts[RS_AUTHORITY_HOSTS_MAX];
    char own[256];
    const size_t count = rs_authority_own_hosts(hosts, own);
    assert_true(count == 3 || count == 4);
    assert_string_equal(hosts[0], "localhost");
    assert_string_equal(hosts[2], "::1");
    if (count == 4)
        assert_ptr_equal(hosts[3], own);
    assert_true(rs_authority_usual_ns(RS_PARTY_NODE) < rs_authority_usual_ns(RS_PARTY_VIEWER));
    assert_true(rs_authority_usual_ns(RS_PARTY_VIEWER) == rs_authority_usual_ns(RS_PARTY_OPERATOR));
    assert_true(rs_authority_usual_ns(RS_PARTY_OPERATOR) <
                rs_authority_usual_ns(RS_PARTY_AGGREGATOR));
}

static void count_one(void *self, const char *wanted, const char *serial)
{
    size_t *count = self;
    assert_true(*wanted && *serial);
    ++*count;
}

static void all_that_count_of_a_name_are_revoked_at_once(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    size_t count = 0;
    (void)issue(&rig, RS_PARTY_OPERATOR, "alice");
    (void)issue(&rig, RS_PARTY_OPERATOR, "alice");
    (void)issue(&rig, RS_PARTY_VIEWER, "alice");
    const struct rs_identity bob = issue(&rig, RS_PARTY_VIEWER, "bob");
    assert_ok(rs_authority_revoke_named(rig.authority, "operator/alice", count_one, &count, NULL));
    assert_int_equal(count, 2);
    assert_status(
        rs_authority_revoke_named(rig.authority, "operator/alice", count_one, &count, NULL),
        RS_NOTFOUND);
    assert_status(rs_authority_revoke_named(rig.authority, "alice", count_one, &count, NULL),
                  RS_NOTFOUND);
    assert_ok(rs_authority_revoke_named(rig.authority, bob.serial, count_one, &count, NULL));
    assert_int_equal(count, 3);
    rig_free(&rig);
}

static void revoked_is_seen_at_the_next_look(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_trust *trust = NULL;
    struct rs_buf pem = {0};
    unsigned before = 0;
    unsigned after = 0;
    const struct rs_identity first = issue(&rig, RS_PARTY_OPERATOR, "alice");
    const struct rs_identity second = issue(&rig, RS_PARTY_OPERATOR, "alice");
    assert_ok(rs_trust_open(rig.out, &trust, NULL));
    assert_ok(rs_trust_refresh(trust, &before, NULL));
    assert_ok(rs_trust_check(trust, &first, rs_time_realtime(), NULL));
    assert_ok(rs_authority_revoke(rig.authority, first.serial, NULL));
    assert_status(rs_authority_revoke(rig.authority, first.serial, NULL), RS_EXISTS);
    assert_status(rs_authority_revoke(rig.authority, "00ff", NULL), RS_NOTFOUND);
    assert_status(rs_authority_revoke(rig.authority, "../ca", NULL), RS_INVALID);
    assert_ok(rs_authority_revocations(rig.authority, &pem, NULL));
    write_at(rig.out, "crl.pem", pem.data, pem.length);
    assert_ok(rs_trust_refresh(trust, &after, NULL));
    assert_int_not_equal(before, after);
    assert_status(rs_trust_check(trust, &first, rs_time_realtime(), NULL), RS_REFUSED);
    assert_ok(rs_trust_check(trust, &second, rs_time_realtime(), NULL));
    /* A list that another authority signed, or nobody, changes nothing. */
    pem.data[pem.length / 2] ^= 1;
    write_at(rig.out, "crl.pem", pem.data, pem.length - 1);
    assert_status(rs_trust_refresh(trust, &after, NULL), RS_FORMAT);
    assert_status(rs_trust_check(trust, &first, rs_time_realtime(), NULL), RS_REFUSED);
    rs_buf_fini(&pem);
    rs_trust_close(&trust);
    rig_free(&rig);
}

static void a_folder_whose_files_do_not_belong_together_is_refused(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_trust *trust = NULL;
    struct rs_buf key = {0};
    char path[700];
    char other[600];
    struct rs_identity identity;
    (void)snprintf(other, sizeof other, "%s/other", rig.dir);
    const struct rs_certificate_wish wish = wish_of(RS_PARTY_NODE, "n");
    assert_status(rs_trust_open(rig.out, &trust, NULL), RS_NOTFOUND);
    (void)issue(&rig, RS_PARTY_NODE, "n");
    assert_status(rs_authority_issue(rig.authority, &wish, rig.out, false, &identity, NULL),
                  RS_EXISTS);
    assert_ok(rs_authority_issue(rig.authority, &wish, other, false, &identity, NULL));
    (void)snprintf(path, sizeof path, "%s/tls.key", rig.out);
    assert_int_equal(chmod(path, 0640), 0);
    assert_status(rs_trust_open(rig.out, &trust, NULL), RS_REFUSED);
    assert_int_equal(chmod(path, 0600), 0);
    assert_ok(rs_trust_open(rig.out, &trust, NULL));
    /* While a renewal has replaced one of two files the old pair counts. */
    unsigned generation = 0;
    read_into(&key, other, "tls.key");
    write_at(rig.out, "tls.key", key.data, key.length);
    assert_status(rs_trust_refresh(trust, &generation, NULL), RS_FORMAT);
    assert_ok(rs_trust_refresh(trust, &generation, NULL)); /* said once */
    assert_int_equal(generation, 1);
    rs_trust_close(&trust);
    assert_status(rs_trust_open(rig.out, &trust, NULL), RS_FORMAT);
    rs_buf_fini(&key);
    rig_free(&rig);
}

/* A request with a key of that kind, signed by it. */
/* The second half of a renewal, some moments after the first. */
struct renewal {
    const char *dir;
    struct rs_buf certificate;
};

static void *end_renewal(void *self)
{
    struct renewal *renewal = self;
    const struct timespec nap = {.tv_nsec = 200000000};
    (void)nanosleep(&nap, NULL);
    write_at(renewal->dir, "tls.crt", renewal->certificate.data, renewal->certificate.length);
    return NULL;
}

static void who_opens_in_the_middle_of_a_renewal_gets_the_new_pair(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_trust *trust = NULL;
    struct rs_buf key = {0};
    struct renewal renewal = {.dir = rig.out};
    char other[600];
    struct rs_identity identity;
    pthread_t thread;
    (void)snprintf(other, sizeof other, "%s/other", rig.dir);
    const struct rs_certificate_wish wish = wish_of(RS_PARTY_NODE, "n");
    (void)issue(&rig, RS_PARTY_NODE, "n");
    assert_ok(rs_authority_issue(rig.authority, &wish, other, false, &identity, NULL));
    read_into(&key, other, "tls.key");
    read_into(&renewal.certificate, other, "tls.crt");
    write_at(rig.out, "tls.key", key.data, key.length);
    assert_int_equal(pthread_create(&thread, NULL, end_renewal, &renewal), 0);
    assert_ok(rs_trust_open(rig.out, &trust, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(rs_trust_own(trust).serial, identity.serial);
    rs_trust_close(&trust);
    rs_buf_fini(&key);
    rs_buf_fini(&renewal.certificate);
    rig_free(&rig);
}

static void request_of(EVP_PKEY *key, struct rs_buf *pem)
{
    X509_REQ *request = X509_REQ_new();
    const EVP_MD *digest = EVP_PKEY_is_a(key, "ED25519") ? NULL : EVP_sha256();
    assert_true(X509_REQ_set_pubkey(request, key) == 1 && X509_REQ_sign(request, key, digest) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL;
    assert_int_equal(PEM_write_bio_X509_REQ(bio, request), 1);
    const long length = BIO_get_mem_data(bio, &bytes);
    rs_buf_bytes(pem, bytes, (size_t)length);
    BIO_free(bio);
    X509_REQ_free(request);
}

static void only_strong_keys_that_signed_their_request_get_a_certificate(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    const struct rs_certificate_wish wish = wish_of(RS_PARTY_NODE, "n");
    EVP_PKEY *const keys[] = {EVP_EC_gen("P-256"), EVP_EC_gen("P-384"),
                              EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), EVP_EC_gen("P-224"),
                              EVP_RSA_gen(1024)};
    for (size_t i = 0; i < 5; i++) {
        struct rs_buf request = {0};
        struct rs_buf certificate = {0};
        assert_non_null(keys[i]);
        request_of(keys[i], &request);
        assert_status(rs_authority_sign(rig.authority, &wish,
                                        rs_view_of(request.data, request.length), &certificate,
                                        NULL),
                      i < 3 ? RS_OK : RS_FORMAT);
        EVP_PKEY_free(keys[i]);
        /* Every byte of it counts, or is none of the request's. */
        for (size_t k = 40; k < request.length && i == 0; k += 7) {
            certificate.length = 0;
            request.data[k] ^= 4;
            (void)!rs_authority_sign(rig.authority, &wish, rs_view_of(request.data, k),
                                     &certificate, NULL);
            assert_int_equal(certificate.length, 0);
            request.data[k] ^= 4;
        }
        rs_buf_fini(&request);
        rs_buf_fini(&certificate);
    }
    rig_free(&rig);
}

static void an_invite_is_for_one_node_once_and_for_a_while(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_buf text = {0};
    struct rs_invite invite;
    const rs_ns now = rs_time_realtime();
    const struct rs_invite_terms wrong[] = {{"a b", 1, now + hour_ns},
                                            {"n", 2, now + hour_ns},
                                            {NULL, 0, now + hour_ns},
                                            {NULL, RS_INVITE_USES_MAX + 1, now + hour_ns}};
    const struct rs_invite_terms terms = {"gpu-1", 1, now + hour_ns};
    for (size_t i = 0; i < 4; i++)
        assert_status(rs_invite_make(rig.authority, &wrong[i], &text, NULL), RS_INVALID);
    const struct {
        const char *name;
        rs_ns at;
        enum rs_status first, second;
    } tries[] = {
        {"gpu-1", now, RS_OK, RS_REFUSED},
        {"gpu-2", now, RS_REFUSED, RS_REFUSED}, /* and it is used up: somebody tried */
        {"gpu", now, RS_REFUSED, RS_REFUSED},
        {"gpu-1", now + hour_ns, RS_REFUSED, RS_REFUSED},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        text.length = 0;
        assert_ok(rs_invite_make(rig.authority, &terms, &text, NULL));
        assert_ok(rs_invite_parse(rs_buf_text(&text), &invite, NULL));
        const struct rs_view ca = rs_authority_ca(rig.authority);
        assert_int_equal(invite.ca.length, ca.length);
        assert_memory_equal(invite.ca.data, ca.data, ca.length);
        assert_status(
            rs_invite_take(rig.authority, invite.secret, tries[i].name, tries[i].at, NULL),
            tries[i].first);
        assert_status(rs_invite_take(rig.authority, invite.secret, "gpu-1", now, NULL),
                      tries[i].second);
        rs_invite_fini(&invite);
    }
    assert_status(rs_invite_take(rig.authority, "../../../etc/passwd", "gpu-1", now, NULL),
                  RS_REFUSED);
    /* A text that lost something on its way is none. */
    const char *whole = rs_buf_text(&text);
    for (size_t cut = 0; cut < text.length; cut += 3) {
        char part[RS_INVITE_MAX_BYTES];
        (void)snprintf(part, sizeof part, "%.*s", (int)cut, whole);
        assert_status(rs_invite_parse(part, &invite, NULL), RS_FORMAT);
    }
    rs_buf_fini(&text);
    rig_free(&rig);
}

static void an_invite_for_any_node_makes_nobody_who_is_there(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_buf text = {0};
    struct rs_invite invite;
    const rs_ns now = rs_time_realtime();
    const struct rs_invite_terms terms = {NULL, 4, now + hour_ns};
    const struct rs_identity there = issue(&rig, RS_PARTY_NODE, "gpu-1");
    (void)issue(&rig, RS_PARTY_VIEWER, "gpu-2"); /* a viewer's name is not a node's */
    assert_ok(rs_invite_make(rig.authority, &terms, &text, NULL));
    assert_ok(rs_invite_parse(rs_buf_text(&text), &invite, NULL));
    assert_ok(rs_invite_take(rig.authority, invite.secret, "gpu-2", now, NULL));
    assert_status(rs_invite_take(rig.authority, invite.secret, "gpu-1", now, NULL), RS_REFUSED);
    assert_ok(rs_authority_revoke(rig.authority, there.serial, NULL));
    assert_ok(rs_invite_take(rig.authority, invite.secret, "gpu-1", now, NULL));
    assert_status(rs_invite_take(rig.authority, invite.secret, "gpu-3", now + hour_ns, NULL),
                  RS_REFUSED);
    /* That were four. */
    assert_status(rs_invite_take(rig.authority, invite.secret, "gpu-4", now, NULL), RS_REFUSED);
    rs_invite_fini(&invite);
    rs_buf_fini(&text);
    rig_free(&rig);
}

static void garbage_is_no_certificate(void **state)
{
    (void)state;
    struct rig rig = rig_new();
    struct rs_identity identity;
    struct rs_buf pem = {0};
    struct rs_trust *trust = NULL;
    (void)issue(&rig, RS_PARTY_NODE, "n");
    read_into(&pem, rig.out, "tls.crt");
    for (size_t cut = 0; cut + 2 < pem.length; cut += 5)
        assert_status(
            rs_identity_of_pem(rs_view_of(pem.data, cut), rs_time_realtime(), &identity, NULL),
            RS_FORMAT);
    /* The authority's own certificate names no party. */
    assert_status(
        rs_identity_of_pem(rs_authority_ca(rig.authority), rs_time_realtime(), &identity, NULL),
        RS_REFUSED);
    assert_ok(rs_trust_of_authority(rs_authority_ca(rig.authority), &trust, NULL));
    rs_trust_close(&trust);
    assert_status(rs_trust_of_authority(rs_view_of(pem.data, pem.length), &trust, NULL), RS_FORMAT);
    rs_buf_fini(&pem);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_says_who_it_is),
        cmocka_unit_test(only_names_become_names),
        cmocka_unit_test(an_aggregator_is_reached_by_what_this_machine_is_called),
        cmocka_unit_test(all_that_count_of_a_name_are_revoked_at_once),
        cmocka_unit_test(revoked_is_seen_at_the_next_look),
        cmocka_unit_test(a_folder_whose_files_do_not_belong_together_is_refused),
        cmocka_unit_test(who_opens_in_the_middle_of_a_renewal_gets_the_new_pair),
        cmocka_unit_test(only_strong_keys_that_signed_their_request_get_a_certificate),
        cmocka_unit_test(an_invite_is_for_one_node_once_and_for_a_while),
        cmocka_unit_test(an_invite_for_any_node_makes_nobody_who_is_there),
        cmocka_unit_test(garbage_is_no_certificate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
