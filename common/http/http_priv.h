/* SPDX-License-Identifier: Apache-2.0 */
/* The back room of HTTP: http.c (life, TLS), request.c (who asks, and may the request be handed on), answer.c (what goes out). */
#ifndef RS_HTTP_PRIV_H
#define RS_HTTP_PRIV_H

#include "common/http/http.h"
#include "common/http/http_late.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_CONNECTIONS = 256,
    HTTP_CONNECTIONS_OF_ONE = 128, /* address */
    HTTP_TIMEOUT_S = 60,
    HTTP_HEAD_BYTES = 32 << 10, /* of a connection: headers and the piece that is under way */
    HTTP_STACK_BYTES = 1 << 20,
};

/* Our certificate as GnuTLS wants it. One per generation; kept until the end, since handshakes may use an old one. */
struct http_pair {
    struct http_pair *next;
    gnutls_pcert_st chain[4];
    unsigned chain_count;
    gnutls_privkey_t key;
};

enum { HTTP_WRONG_HOSTS = 256, HTTP_WRONG_HOST_BYTES = 64 };

/* Wrong tokens of one address; wrong.c. */
struct http_wrong {
    char host[HTTP_WRONG_HOST_BYTES];
    int64_t count;
    rs_ns at; /* monotonic; 0: nobody's */
};

struct rs_http {
    struct rs_http_options options;
    char address[RS_HTTP_TEXT_BYTES];
    bool is_plain;
    struct rs_trust *trust; /* NULL: plain */
    unsigned generation;    /* of the pair */
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* guards the pairs */
    struct http_pair *pairs;
    pthread_mutex_t wrong_lock; /* guards what follows */
    struct http_wrong wrongs[HTTP_WRONG_HOSTS];
};

/* request.c */
enum MHD_Result http_on_request(void *self, struct MHD_Connection *connection, const char *path,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_bytes, void **state_p);
void http_on_completed(void *self, struct MHD_Connection *connection, void **state_p,
                       enum MHD_RequestTerminationCode how);

/* wrong.c: a wrong token came from there; true: too many did. Any thread. */
bool http_wrong_token(struct rs_http *http, const char *from, rs_ns now);

/* answer.c */
/* Takes all that the answer has. */
enum MHD_Result http_send(struct MHD_Connection *connection, struct rs_http_answer *answer);

#endif
