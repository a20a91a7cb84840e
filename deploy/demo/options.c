/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line, and which links a layout uses.
 */
#include "deploy/demo/job.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "minitrain: a small training loop of several processes, to be profiled\n"
    "\n"
    "  --dp N               data-parallel width (4)\n"
    "  --pp N               pipeline stages (2); rank = pp * DP + dp\n"
    "  --steps N            steps; 0: until SIGTERM (100)\n"
    "  --micro-batches N    per step (4)\n"
    "  --batch N            samples in a micro-batch (16)\n"
    "  --hidden N           width between stages (8192)\n"
    "  --narrow N           width of input and output (64)\n"
    "  --run NAME           name of the run (minitrain)\n"
    "  --seed N             of weights and data (1)\n"
    "  --slow-rank R:FACTOR rank R computes FACTOR times as much; R:FACTOR@STEP: from that step on\n"
    "  --slow-link A-B:MBPS what A sends to B goes at MBPS * 10^6 bytes per second\n"
    "  --data-stall R:MS    rank R waits MS ms for its data in every step\n"
    "  --links              print the links of this layout, one A-B a line, and end\n"
    "\n"
    "The three kinds of trouble may be given several times. Exit code 0 when the loss went down and\n"
    "all weights of a data-parallel group are the same bits at the end.\n";

enum {
    OPT_DP = 256,
    OPT_PP,
    OPT_STEPS,
    OPT_MICRO,
    OPT_BATCH,
    OPT_HIDDEN,
    OPT_NARROW,
    OPT_RUN,
    OPT_SEED,
    OPT_SLOW_RANK,
    OPT_SLOW_LINK,
    OPT_STALL,
    OPT_LINKS,
    OPT_HELP
};

static const struct option table[] = {
    {"dp", required_argument, NULL, OPT_DP},
    {"pp", required_argument, NULL, OPT_PP},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"micro-batches", required_argument, NULL, OPT_MICRO},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"hidden", required_argument, NULL, OPT_HIDDEN},
    {"narrow", required_argument, NULL, OPT_NARROW},
    {"run", required_argument, NULL, OPT_RUN},
    {"seed", required_argument, NULL, OPT_SEED},
    {"slow-rank", required_argument, NULL, OPT_SLOW_RANK},
    {"slow-link", required_argument, NULL, OPT_SLOW_LINK},
    {"data-stall", required_argument, NULL, OPT_STALL},
    {"links", no_argument, NULL, OPT_LINKS},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int complain(const char *what, const char *text)
{
    fprintf(stderr, "minitrain: %s: '%s' (see --help)\n", what, text);
    return 2;
}

static int read_count(const char *text, long least, long most, long *value_p)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        return complain("not a number in range", text);
    *value_p = value;
    return 0;
}

static int read_int(const char *text, int least, int most, int *value_p)
{
    long value = 0;
    int code = read_count(text, least, most, &value);
    if (code == 0)
        *value_p = (int)value;
    return code;
}

/* "R:VALUE" */
static int read_planted(const char *text, int *rank_p, double *value_p)
{
    char *end = NULL;
    long rank = strtol(text, &end, 10);
    if (end == text || *end != ':' || rank < 0 || rank >= MAX_WORLD)
        return complain("not RANK:VALUE", text);
    const char *number = end + 1;
    double value = strtod(number, &end);
    if (end == number || *end != '\0' || !(value > 0.0) || value > 1e6)
        return complain("not RANK:VALUE", text);
    *rank_p = (int)rank;
    *value_p = value;
    return 0;
}

/* "A-B:MBPS" */
static int read_slow_link(const char *text, struct slow_link *link)
{
    char *end = NULL;
    long src = strtol(text, &end, 10);
    if (end == text || *end != '-' || src < 0 || src >= MAX_WORLD)
        return complain("not A-B:MBPS", text);
    int code = read_planted(end + 1, &link->dst, &link->mb_per_s);
    link->src = (int)src;
    return code;
}

/* "R:FACTOR" or "R:FACTOR@STEP" */
static int read_slow_rank(const char *text, struct slow_rank *slow)
{
    char before[64];
    long from = 0;
    const char *at = strchr(text, '@');
    size_t length = at != NULL ? (size_t)(at - text) : strlen(text);
    if (length >= sizeof before)
        return complain("not RANK:FACTOR@STEP", text);
    memcpy(before, text, length);
    before[length] = '\0';
    int code = at != NULL ? read_count(at + 1, 0, LONG_MAX, &from) : 0;
    slow->from = (uint64_t)from;
    return code == 0 ? read_planted(before, &slow->rank, &slow->factor) : code;
}

static int read_plant(int option, const char *text, struct options *o)
{
    if (o->slow_rank_count == MAX_PLANTS || o->slow_link_count == MAX_PLANTS ||
        o->stall_count == MAX_PLANTS)
        return complain("too much trouble", text);
    if (option == OPT_SLOW_LINK)
        return read_slow_link(text, &o->slow_links[o->slow_link_count++]);
    if (option == OPT_SLOW_RANK) {
        struct slow_rank *slow = &o->slow_ranks[o->slow_rank_count++];
        int code = read_slow_rank(text, slow);
        return code == 0 && slow->factor < 1.0 ? complain("a factor below 1", text) : code;
    }
    struct data_stall *stall = &o->stalls[o->stall_count++];
    return read_planted(text, &stall->rank, &stall->ms);
}

static int read_option(int option, const char *text, struct options *o)
{
    long number = 0;
    int code = 0;
    switch (option) {
    case OPT_DP:
        return read_int(text, 1, MAX_WORLD, &o->dp);
    case OPT_PP:
        return read_int(text, 1, MAX_WORLD, &o->pp);
    case OPT_STEPS:
        code = read_count(text, 0, 1000000000, &number);
        o->steps = (uint64_t)number;
        return code;
    case OPT_MICRO:
        return read_int(text, 1, 64, &o->micro_batches);
    case OPT_BATCH:
        return read_int(text, 1, 1024, &o->batch);
    case OPT_HIDDEN:
        return read_int(text, 16, 1 << 16, &o->hidden);
    case OPT_NARROW:
        return read_int(text, 16, 4096, &o->narrow);
    case OPT_RUN:
        o->run = text;
        return 0;
    case OPT_SEED:
        code = read_count(text, 0, INT32_MAX, &number);
        o->seed = (uint32_t)number;
        return code;
    case OPT_LINKS:
        o->only_links = true;
        return 0;
    case OPT_SLOW_RANK:
    case OPT_SLOW_LINK:
    case OPT_STALL:
        return read_plant(option, text, o);
    default:
        return 2; /* getopt has said why */
    }
}

static int check(const struct options *o)
{
    int world = o->dp * o->pp;
    char text[64];
    if (world > MAX_WORLD)
        return complain("more than 64 ranks", "--dp --pp");
    for (int i = 0; i < o->slow_rank_count; i++)
        if (o->slow_ranks[i].rank >= world)
            return complain("no such rank", "--slow-rank");
    for (int i = 0; i < o->stall_count; i++)
        if (o->stalls[i].rank >= world)
            return complain("no such rank", "--data-stall");
    for (int i = 0; i < o->slow_link_count; i++) {
        const struct slow_link *link = &o->slow_links[i];
        snprintf(text, sizeof text, "%d-%d", link->src, link->dst);
        if (!links_has(o, link->src, link->dst))
            return complain("this layout sends nothing over that link; --links lists them", text);
    }
    return 0;
}

int options_read(int count, char **arguments, struct options *options)
{
    *options = (struct options){.dp = 4,
                                .pp = 2,
                                .steps = 100,
                                .micro_batches = 4,
                                .batch = 16,
                                .hidden = 8192,
                                .narrow = 64,
                                .seed = 1,
                                .run = "minitrain"};
    int option = 0;
    while ((option = getopt_long(count, arguments, "h", table, NULL)) != -1) {
        if (option == OPT_HELP || option == 'h') {
            fputs(help, stdout);
            return -1;
        }
        int code = read_option(option, optarg, options);
        if (code != 0)
            return code;
    }
    if (optind < count)
        return complain("unexpected argument", arguments[optind]);
    return check(options);
}

/* Rings within a stage, both ways between neighbouring stages. */
bool links_has(const struct options *o, int src, int dst)
{
    int world = o->dp * o->pp;
    if (src < 0 || dst < 0 || src >= world || dst >= world || src == dst)
        return false;
    if (src / o->dp == dst / o->dp)
        return (src + 1) % o->dp == dst % o->dp;
    return src % o->dp == dst % o->dp && abs(src / o->dp - dst / o->dp) == 1;
}

void links_print(const struct options *o)
{
    int world = o->dp * o->pp;
    for (int src = 0; src < world; src++)
        for (int dst = 0; dst < world; dst++)
            if (links_has(o, src, dst))
                printf("%d-%d %s\n", src, dst, src / o->dp == dst / o->dp ? "ring" : "pipeline");
}
