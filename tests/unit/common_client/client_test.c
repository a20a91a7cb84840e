/* SPDX-License-Identifier: Apache-2.0 */
/* Where a client goes on that is sent elsewhere: the address comes out of a database, and whoever may write there has written it. */
#include "common/client/client.h"

#include "common/client/client_priv.h"
#include "tests/support/rs_test.h"

static struct rs_address parsed(const char *text)
{
    struct rs_address address;
    assert_ok(rs_address_parse(text, &address, NULL));
    return address;
}

static int take_plain_loopback(void **state)
{
    (void)state;
    rs_client_security.certs = NULL;
    rs_client_security.is_insecure_loopback = true;
    return 0;
}

static int take_certificates(void **state)
{
    (void)state;
    rs_client_security.certs = "/certs/of/a/user";
    rs_client_security.is_insecure_loopback = false;
    return 0;
}

static void an_aggregator_elsewhere_does_not_send_us_into_our_own_machine(void **state)
{
    (void)state;
    static const char *const named[] = {"unix:/tmp/of-somebody", "127.0.0.1:7071", "[::1]:7071"};
    const struct rs_address far = parsed("agg1.cluster:7070"), near = parsed("unix:/run/agg1"),
                            loop = parsed("127.0.0.1:7070");
    struct rs_address address;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        assert_false(client_may_follow(&far, named[i], &address));
        assert_true(client_may_follow(&near, named[i], &address));
        assert_string_equal(address.text, named[i]);
        assert_true(client_may_follow(&loop, named[i], &address));
    }
}

static void nobody_is_sent_to_plain_text_beyond_this_machine(void **state)
{
    (void)state;
    const struct rs_address near = parsed("unix:/run/agg1");
    struct rs_address address;
    assert_false(client_may_follow(&near, "agg2.cluster:7070", &address));
}

static void who_is_asked_with_certificates_is_followed_with_certificates(void **state)
{
    (void)state;
    const struct rs_address far = parsed("agg1.cluster:7070"), loop = parsed("127.0.0.1:7070");
    struct rs_address address;
    assert_true(client_may_follow(&far, "agg2.cluster:7070", &address));
    assert_int_equal(address.guard, RS_ADDRESS_MUTUAL);
    assert_true(client_may_follow(&loop, "127.0.0.1:7071", &address));
    assert_int_equal(address.guard, RS_ADDRESS_MUTUAL);
}

static void what_is_no_address_is_not_asked(void **state)
{
    (void)state;
    static const char *const named[] = {"",      "agg2",   "unix:", "http://agg2:7070",
                                        ":7070", "agg2:0x"};
    const struct rs_address far = parsed("agg1.cluster:7070");
    struct rs_address address;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        assert_false(client_may_follow(&far, named[i], &address));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_aggregator_elsewhere_does_not_send_us_into_our_own_machine,
                               take_plain_loopback),
        cmocka_unit_test_setup(nobody_is_sent_to_plain_text_beyond_this_machine,
                               take_plain_loopback),
        cmocka_unit_test_setup(who_is_asked_with_certificates_is_followed_with_certificates,
                               take_certificates),
        cmocka_unit_test_setup(what_is_no_address_is_not_asked, take_certificates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
