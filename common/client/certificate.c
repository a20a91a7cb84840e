/* SPDX-License-Identifier: Apache-2.0 */
#include "common/client/certificate.h"

#include "common/base/buf.h"
#include "common/base/const.h"

#include <openssl/crypto.h>

#include <stdio.h>
#include <string.h>

struct answer {
    const char *dir;
    struct rs_view key;
    char port[16];
    enum rs_status status;
    struct rs_err err;
    bool has_come;
};

static struct rs_view view_of(ProtobufCBinaryData bytes)
{
    return rs_view_of(bytes.data, bytes.len);
}

/* ":7070". Whatever else came is none. */
static void take_port(const char *text, char port_p[16])
{
    const size_t length = strlen(text);
    if (length > 1 && length < 8 && *text == ':' && strspn(text + 1, "0123456789") == length - 1)
        (void)snprintf(port_p, 16, "%s", text);
}

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    struct answer *answer = self;
    if (reply->message_case != RANKSCOPE__REPLY__MESSAGE_CERTIFICATE)
        return false;
    const Rankscope__Certificate *came = reply->certificate;
    answer->has_come = true;
    take_port(came->port, answer->port);
    answer->status =
        rs_trust_folder_write(answer->dir, view_of(came->ca), view_of(came->certificate),
                              answer->key, view_of(came->revoked), &answer->err);
    return false;
}

static enum rs_status ask(const struct rs_address *address, const char *secret, const char *name,
                          struct answer *answer, const struct rs_client_patience *patience,
                          struct rs_err *err)
{
    struct rs_buf key = {0};
    struct rs_buf request = {0};
    enum rs_status status = rs_request_make(&key, &request, err);
    if (status == RS_OK) {
        Rankscope__AskCertificate wish = RANKSCOPE__ASK_CERTIFICATE__INIT;
        wish.secret = rs_const_cast(secret);
        wish.name = rs_const_cast(name);
        wish.request = (ProtobufCBinaryData){.data = request.data, .len = request.length};
        Rankscope__Ask question = RANKSCOPE__ASK__INIT;
        question.message_case = RANKSCOPE__ASK__MESSAGE_CERTIFICATE;
        question.certificate = &wish;
        answer->key = rs_view_of(key.data, key.length);
        status = rs_client_ask_within(address, &question, patience, on_reply, answer, err);
    }
    if (status == RS_OK && !answer->has_come)
        status = rs_err_set(err, RS_FORMAT, "the aggregator at %s answered with no certificate",
                            address->text);
    if (status == RS_OK && answer->status < 0)
        status = rs_err_set(err, answer->status, "%s", answer->err.text);
    if (key.data)
        OPENSSL_cleanse(key.data, key.length);
    rs_buf_fini(&key);
    rs_buf_fini(&request);
    return status;
}

enum rs_status rs_client_join(const char *text, const struct rs_invite *invite, const char *name,
                              const char *dir, const struct rs_client_patience *patience,
                              char connect_p[RS_CLIENT_HOST_PORT_BYTES], struct rs_err *err)
{
    struct rs_address address;
    const struct rs_view ca = rs_view_of(invite->ca.data, invite->ca.length);
    struct answer answer = {.dir = dir};
    enum rs_status status = rs_address_parse(text, &address, err);
    if (status == RS_OK && address.is_unix)
        status = rs_err_set(err, RS_INVALID, "nodes join at HOST:PORT, not over a unix socket");
    if (status < 0)
        return status;
    address.guard = RS_ADDRESS_JOIN;
    address.ca = &ca;
    status = ask(&address, invite->secret, name, &answer, patience, err);
    if (status < 0)
        return status;
    const char *colon = strrchr(address.text, ':');
    *connect_p = '\0';
    if (*answer.port)
        (void)snprintf(connect_p, RS_CLIENT_HOST_PORT_BYTES, "%.*s%s", (int)(colon - address.text),
                       address.text, answer.port);
    return RS_OK;
}

enum rs_status rs_client_renew(const struct rs_address *address,
                               const struct rs_client_patience *patience, struct rs_err *err)
{
    struct answer answer = {.dir = address->certs};
    if (address->guard != RS_ADDRESS_MUTUAL)
        return rs_err_set(err, RS_INVALID, "%s is reached without a certificate", address->text);
    return ask(address, "", "", &answer, patience, err);
}

rs_ns rs_client_renew_at(const struct rs_identity *identity)
{
    const rs_dur valid = identity->expires_at - identity->begins_at - RS_AUTHORITY_EARLY_NS;
    return identity->expires_at - (valid > 0 ? valid / 3 : 0);
}
