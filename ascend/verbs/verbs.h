/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the wing: as those of cli/ (cli/cli.h says what a verb is). */
#ifndef RS_ASCEND_VERBS_H
#define RS_ASCEND_VERBS_H

#include <stdbool.h>
#include <stddef.h>

int rs_cmd_recipe(int argc, char **argv);
int rs_cmd_cluster(int argc, char **argv);
int rs_cmd_export(int argc, char **argv);
/* An rs_cli_cluster_fn. */
int rs_ascend_cluster(const char *const *paths, size_t count, const char *out, unsigned jobs,
                      bool is_quiet);

#endif
