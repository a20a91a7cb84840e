/* SPDX-License-Identifier: Apache-2.0 */
/*
 * communication_group_map: the communicators of the run and their ranks.
 *
 * Peer: a group of CommAnalyzerTime is point-to-point where an operation's name contains send,
 * receive or recv, else collective; a group seen with both kinds has two rows. Its ranks are
 * those whose files name it, unless parallel_group_info knows the group: then its global_ranks,
 * its id and its pg name. Sorted by kind, then hash as text. Always in the database.
 *
 * Corrected: parallel_group_info is also read from profiler_metadata.json when the database has
 * none; two ranks that describe a group differently give one row and are reported, not two rows.
 */
#include "ascend/recipe/recipe_priv.h"

static const struct result results[] = {RESULT_KNOWN(NULL), {RESULT_GROUP_MAP}};

const struct recipe recipe_communication_group_map = {
    .info = {"communication_group_map", "the communicators of the run and their ranks",
             "CommunicationGroupMapping"},
    .folder = "CommunicationGroupMap",
    .needs = NEED_ANALYSIS | MAY_PROFILER,
    .frames = {FRAME_SEEN, FRAME_GROUPS},
    RESULTS(results),
};
