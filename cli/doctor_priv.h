/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `rankscope doctor` share. */
#ifndef RS_CLI_DOCTOR_PRIV_H
#define RS_CLI_DOCTOR_PRIV_H

#include "collector/agent/doctor.h"

void doctor_print_json(struct rs_doctor *doctor);
void doctor_print_text(const struct rs_doctor *doctor);

#endif
