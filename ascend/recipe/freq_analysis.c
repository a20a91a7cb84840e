/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freq_analysis: ranks whose AI cores did not run at their usual frequency.
 *
 * Peer: the set of AICORE_FREQ values of a rank; {1800} is normal, {800, 1800} is a rank that
 * idled, everything else is abnormal, printed as a sorted list.
 *
 * Corrected: 1800 is one chip's number. The usual frequency is the one most samples of all ranks
 * have (the higher one when two are equal), so other chips are judged by their own.
 */
#include "ascend/recipe/recipe_priv.h"

/* The frequency with most samples. */
#define USUAL                                                                                      \
    "CASE WHEN :compat THEN 1800 ELSE (SELECT freq FROM freqs GROUP BY freq "                      \
    "ORDER BY sum(samples) DESC, freq DESC LIMIT 1) END"
/* Ranks and their frequencies, "[800, 1800]". */
#define RANKS_WITH(condition)                                                                      \
    "WITH usual AS MATERIALIZED (SELECT " USUAL " AS mhz) "                                        \
    "SELECT rank, '[' || list(freq, freq, ', ') || ']' FROM freqs GROUP BY rank HAVING " condition
#define IS_FREE   "(count(*) = 2 AND min(freq) = 800 AND max(freq) = (SELECT mhz FROM usual))"
#define IS_NORMAL "(count(*) = 1 AND min(freq) = (SELECT mhz FROM usual))"

static const struct result results[] = {
    {.name = "FreeFrequencyRanks",
     .file = "free_frequency_ranks.csv",
     .columns = "rankId:i|aicoreFrequency:t",
     .index_columns = 1,
     .is_optional = true,
     .sql = RANKS_WITH(IS_FREE)},
    {.name = "AbnormalFrequencyRanks",
     .file = "abnormal_frequency_ranks.csv",
     .columns = "rankId:i|aicoreFrequency:t",
     .index_columns = 1,
     .is_optional = true,
     .sql = RANKS_WITH("NOT " IS_FREE " AND NOT " IS_NORMAL)},
};

const struct recipe recipe_freq_analysis = {
    .info = {"freq_analysis", "ranks whose AI cores did not run at their usual frequency",
             "FreeFrequencyRanks, AbnormalFrequencyRanks"},
    .folder = "FreqAnalysis",
    .needs = NEED_PROFILER,
    .frames = {{.name = "freqs",
                .columns = "freq:i samples:i rank:i",
                .requires = "AICORE_FREQ.freq",
                .missing = "no such rows",
                .sql = "SELECT CAST(freq AS INTEGER), count(*), :rank FROM AICORE_FREQ "
                       "WHERE freq IS NOT NULL GROUP BY 1"}},
    RESULTS(results),
};
