/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/link.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum rs_status parse_unix(const char *path, struct rs_address *address, struct rs_err *err)
{
    const size_t length = strlen(path);
    if (length == 0)
        return rs_err_set(err, RS_INVALID, "address \"unix:\" names no path");
    if (length >= sizeof address->path - 6) /* ".lock" stands behind it */
        return rs_err_set(err, RS_INVALID, "socket path %s is longer than %zu bytes", path,
                          sizeof address->path - 6);
    address->is_unix = true;
    address->is_loopback = true;
    address->guard = RS_ADDRESS_LOCAL;
    (void)snprintf(address->path, sizeof address->path, "%s", path);
    (void)snprintf(address->text, sizeof address->text, "unix:%s", path);
    (void)snprintf(address->target, sizeof address->target, "unix:%s", path);
    return RS_OK;
}

static enum rs_status parse_port(const char *text, const char *digits, unsigned *port_p,
                                 struct rs_err *err)
{
    char *end = NULL;
    const unsigned long port = strtoul(digits, &end, 10);
    if (!*digits || *end || port > 65535 || digits[0] == '-' || digits[0] == '+')
        return rs_err_set(err, RS_INVALID, "address %s: \"%s\" is not a port", text, digits);
    *port_p = (unsigned)port;
    return RS_OK;
}

/* A host's name as DNS has them; what else stands in a target would mean something to gRPC. */
static bool is_host_name(const char *host)
{
    const size_t length = strlen(host);
    return length > 0 && *host != '-' && *host != '.' &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
               length;
}

static enum rs_status parse_host(const char *text, const char *host, unsigned port,
                                 struct rs_address *address, struct rs_err *err)
{
    struct in_addr four;
    struct in6_addr six;
    const char *numeric = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    (void)snprintf(address->text, sizeof address->text, strchr(numeric, ':') ? "[%s]:%u" : "%s:%u",
                   numeric, port);
    if (inet_pton(AF_INET, numeric, &four) == 1) {
        address->is_loopback = (ntohl(four.s_addr) >> 24) == 127;
        (void)snprintf(address->target, sizeof address->target, "ipv4:%s:%u", numeric, port);
        return RS_OK;
    }
    if (inet_pton(AF_INET6, numeric, &six) == 1) {
        address->is_loopback = IN6_IS_ADDR_LOOPBACK(&six);
        (void)snprintf(address->target, sizeof address->target, "ipv6:[%s]:%u", numeric, port);
        return RS_OK;
    }
    if (!is_host_name(host))
        return rs_err_set(err, RS_INVALID, "address %.200s: \"%.100s\" is not a host", text, host);
    (void)snprintf(address->target, sizeof address->target, "dns:///%s:%u", numeric, port);
    return RS_OK;
}

enum rs_status rs_address_parse(const char *text, struct rs_address *address_p, struct rs_err *err)
{
    struct rs_address address = {0};
    enum rs_status status = RS_OK;
    if (strncmp(text, "unix:", 5) == 0) {
        status = parse_unix(text + 5, &address, err);
    } else {
        const char *colon = strrchr(text, ':');
        char host[128];
        unsigned port = 0;
        if (!colon || colon == text || (size_t)(colon - text) >= sizeof host)
            return rs_err_set(err, RS_INVALID, "address %.200s is neither unix:PATH nor HOST:PORT",
                              text);
        (void)snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
        const size_t length = strlen(host);
        if (host[0] == '[' && host[length - 1] == ']') {
            memmove(host, host + 1, length - 2);
            host[length - 2] = '\0';
        }
        status = parse_port(text, colon + 1, &port, err);
        if (status == RS_OK)
            status = parse_host(text, host, port, &address, err);
    }
    if (status == RS_OK)
        *address_p = address;
    return status;
}

enum rs_status rs_address_guard(struct rs_address *address, const char *certs,
                                bool is_insecure_loopback, struct rs_err *err)
{
    if (address->is_unix)
        return RS_OK;
    if (is_insecure_loopback) {
        if (!address->is_loopback)
            return rs_err_set(err, RS_REFUSED,
                              "%s is not on this machine: plain text (--insecure-loopback) goes to "
                              "127.0.0.0/8 and ::1 only",
                              address->text);
        address->guard = RS_ADDRESS_LOCAL;
        return RS_OK;
    }
    if (!certs || !*certs)
        return rs_err_set(
            err, RS_REFUSED,
            "%s needs certificates: give --certs DIR, a folder as \"rankscope certs\" "
            "makes it%s",
            address->text, address->is_loopback ? ", or --insecure-loopback on both sides" : "");
    if (strlen(certs) >= sizeof address->certs)
        return rs_err_set(err, RS_INVALID, "the path of the certificates is longer than %zu bytes",
                          sizeof address->certs - 1);
    (void)snprintf(address->certs, sizeof address->certs, "%s", certs);
    address->guard = RS_ADDRESS_MUTUAL;
    return RS_OK;
}
