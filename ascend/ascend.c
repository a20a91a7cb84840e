/* SPDX-License-Identifier: Apache-2.0 */
#include "ascend/ascend.h"

#include "ascend/adapter/ascend.h"
#include "ascend/adapter/mindspore.h"
#include "ascend/source/ascend.h"
#include "ascend/verbs/verbs.h"
#include "cli/cli.h"
#include "cli/verbs.h"

static const struct rs_verb verbs[] = {
    {.name = "recipe",
     .run = rs_cmd_recipe,
     .sentence = "official cluster tables from the databases of Ascend ranks"},
    {.name = "cluster",
     .run = rs_cmd_cluster,
     .sentence = "official cluster output of an Ascend job, text or database"},
    {.name = "export",
     .run = rs_cmd_export,
     .sentence = "ranks of any kind as directories that other tools open"},
};

static const struct rs_config_kind kinds[] = {
    {.name = RS_CONFIG_TORCH_NPU_NAME, .open = rs_ascend_trigger_open},
    {.name = RS_CONFIG_MINDSPORE_NAME, .open = rs_mindspore_trigger_open},
};

void rs_ascend_install(void)
{
    static const struct rs_source_format *const formats[] = {&rs_ascend_source_format};
    rs_source_formats_set(formats, sizeof formats / sizeof formats[0]);
    rs_config_kinds_set(kinds, sizeof kinds / sizeof kinds[0]);
    rs_verbs_add(verbs, sizeof verbs / sizeof verbs[0]);
    rs_cli_set_cluster(rs_ascend_cluster);
}
