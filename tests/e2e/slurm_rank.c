/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One task of a Slurm job, which says nothing of itself: run, rank and world come from what srun sets. Steps of 50 ms, each with
 * an operator in it, for --seconds.
 */
#include "collector/lib/rankscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
    const long seconds =
        argc == 3 && strcmp(argv[1], "--seconds") == 0 ? strtol(argv[2], NULL, 10) : 10;
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    const struct rankscope_config config = RANKSCOPE_CONFIG_INIT;
    const int failure = rankscope_init(&config);
    if (failure) {
        fprintf(stderr, "slurm_rank: %s\n", strerror(-failure));
        return 1;
    }
    const uint32_t forward = rankscope_name("forward", 0);
    for (long step = 0; step < seconds * 20; step++) {
        rankscope_step((uint64_t)step);
        rankscope_op_begin(forward);
        (void)nanosleep(&pause, NULL);
        rankscope_op_end();
    }
    rankscope_fini();
    return 0;
}
