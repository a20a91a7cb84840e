/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the capture is that somebody names: in a folder of this machine, or with an aggregator, whose files can be carried here. No path of
 * the aggregator's disk is opened.
 */
#ifndef RS_CLIENT_PLACE_H
#define RS_CLIENT_PLACE_H

#include "common/wire/link.h"

/* Where a capture is joined: in this process, from its folder, or by the aggregator that holds it. */
struct rs_client_place {
    char dir[4096];            /* "": ask */
    struct rs_address address; /* when dir is "" */
};
/* `word` is the capture's folder, or its ID: a folder of `data` when that is given; else the aggregator is asked, unless nobody
 * answers at the usual socket and the ID is a folder of the usual data. RS_NOTFOUND; RS_INVALID, RS_REFUSED: the address. */
RS_MUST_CHECK enum rs_status rs_client_place_of(const char *word, const char *data,
                                                const char *connect,
                                                struct rs_client_place *place_p,
                                                struct rs_err *err);

/* The folder of a capture, for who reads raw data. */
struct rs_client_carried {
    char dir[4096];    /* "": there is none */
    bool is_temporary; /* it was carried here, and goes with rs_client_carried_remove() */
};
/* `word` is the capture's folder itself, else its ID: below DATA/captures when `data` is given; else the aggregator hands its
 * files out, into a new folder below $TMPDIR; else, when nobody answers at the usual socket, in the usual data folder.
 * RS_NOTFOUND: it names no capture. RS_UNREACHABLE, RS_REFUSED, RS_IO. */
RS_MUST_CHECK enum rs_status rs_client_carry(const char *word, const char *data,
                                             const char *connect,
                                             struct rs_client_carried *carried_p,
                                             struct rs_err *err);
/* Whether `word` is a capture's folder, or no path and of the form of an ID. Nobody is asked. */
bool rs_client_is_capture(const char *word);
/* Zeroed is allowed. */
void rs_client_carried_remove(struct rs_client_carried *carried);

#endif
