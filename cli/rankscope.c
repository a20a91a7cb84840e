/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: the verbs of cli/, and those of the Ascend wing where it was built with it (RS_ASCEND). Nothing else knows the wing.
 */
#ifdef RS_HAS_ASCEND
#    include "ascend/ascend.h"
#endif
#include "cli/verbs.h"

int main(int argc, char **argv)
{
#ifdef RS_HAS_ASCEND
    rs_ascend_install();
#endif
    return rs_cli_main(argc, argv);
}
