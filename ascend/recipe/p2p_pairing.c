/* SPDX-License-Identifier: Apache-2.0 */
/*
 * p2p_pairing: an id that a send and its receive share: "807_0_1_3" is the fourth transfer from the
 * group's rank 0 to its rank 1 in the group whose hash ends in 807.
 *
 * Peer: ALTERs every input database (COMMUNICATION_OP.opConnectionId). Here the ids are a table
 * of the result, and the inputs stay as they are. Corrected besides: the running number counts per
 * group; the peer lets groups with the same local ranks share it.
 */
#include "ascend/recipe/recipe_priv.h"

static const struct result results[] = {
    /* the digits between "__" and the next "_" of the name say the communicator */
    {.name = "P2PPairing",
     .file = "p2p_pairing.csv",
     .columns = "rank:i|opName:t|opConnectionId:t",
     .sql = "SELECT rank, name, substr(tail, 1, instr(tail, '_') - 1) || '_' || src || '_' || dst "
            "|| '_' || number FROM (SELECT *, substr(name, instr(name, '__') + 2) AS tail "
            "FROM pairs)"}};

const struct recipe recipe_p2p_pairing = {
    .info = {"p2p_pairing", "which send belongs to which receive", "P2PPairing"},
    .folder = "P2PPairing",
    .needs = NEED_PROFILER,
    .optional = API_OPTIONAL,
    .frames = {FRAME_PAIRS(.requires = PAIR_TABLES,
                           .missing = "no sends and receives with known ends")},
    RESULTS(results),
};
