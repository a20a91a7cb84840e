/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a capture that is marked as a probe of a watch, as anybody who speaks the protocol can, and waits for its end.
 *
 *     ask_probe RUN      prints the capture's ID; the address is RANKSCOPE_RUNTIME_DIR's
 */
#include "common/base/lend.h"
#include "common/client/client.h"
#include "common/client/probe_watch.h"

#include <stdio.h>

static bool on_reply(void *self, const Rankscope__Reply *reply)
{
    char *id = self;
    if (reply->message_case == RANKSCOPE__REPLY__MESSAGE_CAPTURE)
        (void)snprintf(id, 64, "%.63s", reply->capture->id);
    return true;
}

int main(int argc, char **argv)
{
    char id[64] = "";
    struct rs_err err = {0};
    struct rs_address address;
    Rankscope__AskStart start = RANKSCOPE__ASK_START__INIT;
    Rankscope__Ask ask = RANKSCOPE__ASK__INIT;
    if (argc != 2)
        return 2;
    start.run = argv[1];
    start.steps = 2;
    start.origin_file = rs_lend(rs_probe_watch_origin);
    ask.message_case = RANKSCOPE__ASK__MESSAGE_START;
    ask.start = &start;
    enum rs_status status = rs_client_address(NULL, &address, &err);
    if (status >= 0)
        status = rs_client_ask(&address, &ask, on_reply, id, &err);
    if (status < 0 || !*id) {
        fprintf(stderr, "ask_probe: %s\n", err.text);
        return 1;
    }
    printf("%s\n", id);
    return 0;
}
