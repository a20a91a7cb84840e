/* SPDX-License-Identifier: Apache-2.0 */
/* The environment that makes a job's ranks attachable. */
#include "collector/trigger/job_env.h"

#include "tests/support/rs_test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct rs_job_variable *find(const struct rs_job_env *env, const char *name)
{
    for (size_t i = 0; i < RS_JOB_VARIABLES; i++)
        if (strcmp(env->variables[i].name, name) == 0)
            return &env->variables[i];
    fail_msg("%s is not set", name);
    return NULL;
}

static void what_was_not_asked_for_has_no_value(void **state)
{
    (void)state;
    struct rs_job_env env;
    rs_job_env_make(&env, NULL, NULL, NULL);
    assert_string_equal(find(&env, "KINETO_USE_DAEMON")->value, "1");
    assert_string_equal(find(&env, "TORCH_NCCL_DUMP_ON_TIMEOUT")->value, "1");
    assert_null(find(&env, "RANKSCOPE_RUN")->value);
    assert_null(find(&env, "KINETO_IPC_SOCKET_DIR")->value);
    assert_null(find(&env, "KINETO_ONDEMAND_TRACE_DIR")->value);
    for (size_t i = 0; i < RS_JOB_VARIABLES; i++)
        assert_true(*env.variables[i].why);
}

static void what_was_asked_for_is_set(void **state)
{
    (void)state;
    struct rs_job_env env;
    rs_job_env_make(&env, "r1", "/run/sockets", "/tmp/traces");
    assert_string_equal(find(&env, "RANKSCOPE_RUN")->value, "r1");
    assert_string_equal(find(&env, "KINETO_IPC_SOCKET_DIR")->value, "/run/sockets");
    assert_string_equal(find(&env, "KINETO_ONDEMAND_TRACE_DIR")->value, "/tmp/traces");
}

static void dumps_of_two_jobs_of_one_node_are_apart(void **state)
{
    (void)state;
    struct rs_job_env env;
    char wanted[RS_JOB_PREFIX_BYTES];
    rs_job_env_make(&env, NULL, NULL, NULL);
    (void)snprintf(wanted, sizeof wanted, "/tmp/rankscope_flight_%u_%d_rank_", (unsigned)getuid(),
                   (int)getpid());
    assert_string_equal(find(&env, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")->value, wanted);
    assert_string_not_equal(find(&env, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")->value, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_asked_for_has_no_value),
        cmocka_unit_test(what_was_asked_for_is_set),
        cmocka_unit_test(dumps_of_two_jobs_of_one_node_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
