/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiler databases of every generation, made here.
 */
#include "tests/unit/ascend_source/ascend_support.h"

#include <sqlite3.h>

/* us of this test's day, in ns */
#define T(us) (INT64_C(1750000000000000000) + (us)*1000)

static void run_sql(const struct place *place, int rank, const char *sql)
{
    char path[512];
    char *message = NULL;
    sqlite3 *db = NULL;
    (void)snprintf(path, sizeof path, "%s/ascend_pytorch_profiler_%d.db", place->output, rank);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(db);
}

/* The instants of the scene, spelled out: step 4 on the host is [0, 200) us. */
#define S "175000000000"
#define NEW_SCHEMA                                                                                  \
    "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);"                                 \
    "INSERT INTO STRING_IDS VALUES (1,'MatMul'),(2,'AI_CORE'),(3,'launch'),"                        \
    "(4,'hcom_allReduce__606_0_1'),(5,'comm0'),(6,'Memcpy'),(7,'MEMCPY_ASYNC'),"                    \
    "(8,'Notify_Wait'),(9,'hcom_fused_kernel'),(10,'hcom_send__606_1_1');"                          \
    "CREATE TABLE ENUM_API_TYPE (id INTEGER PRIMARY KEY, name TEXT);"                               \
    "INSERT INTO ENUM_API_TYPE VALUES (77,'node'),(78,'acl'),(50001,'op');"                         \
    "CREATE TABLE ENUM_HCCL_DATA_TYPE (id INTEGER PRIMARY KEY, name TEXT);"                         \
    "INSERT INTO ENUM_HCCL_DATA_TYPE VALUES (3,'FP16');"                                            \
    "CREATE TABLE ENUM_HCCL_LINK_TYPE (id INTEGER PRIMARY KEY, name TEXT);"                         \
    "INSERT INTO ENUM_HCCL_LINK_TYPE VALUES (0,'ON_CHIP'),(1,'HCCS');"                              \
    "CREATE TABLE RANK_DEVICE_MAP (rankId, deviceId); INSERT INTO RANK_DEVICE_MAP VALUES (2,4);"    \
    "CREATE TABLE HOST_INFO (hostUid TEXT, hostName TEXT);"                                         \
    "INSERT INTO HOST_INFO VALUES ('99','node7');"                                                  \
    "CREATE TABLE SESSION_TIME_INFO (startTimeNs, endTimeNs);"                                      \
    "INSERT INTO SESSION_TIME_INFO VALUES (" S "0000000," S "0900000);"                             \
    "CREATE TABLE META_DATA (name TEXT, value TEXT);"                                               \
    "INSERT INTO META_DATA VALUES ('SCHEMA_VERSION','1.2.0'),('parallel_group_info',"               \
    "'{\"comm0\": {\"group_name\": \"tp\", \"group_rank\": 1, \"global_ranks\": [0, 2]}}');"        \
    "CREATE TABLE STEP_TIME (id, startNs, endNs);"                                                  \
    "INSERT INTO STEP_TIME VALUES (4," S "0000000," S "0200000);"                                   \
    "CREATE TABLE CANN_API (startNs, endNs, type, globalTid, connectionId, name);"                  \
    "INSERT INTO CANN_API VALUES (" S "0010000," S "0012000,77,42949672971,100,3),"                 \
    "(" S "0020000," S "0022000,77,42949672971,101,3),"                                             \
    "(" S "0190000," S "0210000,77,42949672971,102,3)," /* ends behind the step */                  \
    "(" S "0030000," S "0032000,78,42949672971,103,3)," /* not a node */                            \
    "(" S "0040000," S "0042000,77,42949672971,104,3);"                                             \
    "CREATE TABLE TASK (startNs, endNs, deviceId, connectionId, globalTaskId, taskType, streamId);" \
    "INSERT INTO TASK VALUES (" S "0050000," S "0060000,4,100,1,2,7),"                              \
    "(" S "0055000," S "0056000,4,103,2,7,8),"                                                      \
    "(" S "0070000," S "0120000,4,101,3,8,9)," /* a wait of the operation */                        \
    "(" S "0100000," S "0118000,4,101,4,6,9),"                                                      \
    "(" S "0230000," S "0240000,4,102,5,2,7),"                                                      \
    "(" S "0045000," S "0046000,4,104,6,8,7)," /* no work, but the step's first task */             \
    "(" S "0061000," S "0062000,4,4294967295,7,2,7);"

static const char new_tables[] =
    "CREATE TABLE COMPUTE_TASK_INFO (name, globalTaskId INTEGER PRIMARY KEY, blockNum, opType,"
    " inputShapes, inputDataTypes);"
    "INSERT INTO COMPUTE_TASK_INFO (name, globalTaskId) VALUES (1,1),(1,5),(9,7);"
    "CREATE TABLE COMMUNICATION_OP (opName, startNs, endNs, connectionId, groupName, opId,"
    " dataType, count, deviceId, rankSize);"
    "INSERT INTO COMMUNICATION_OP VALUES (4," S "0070000," S "0120000,101,5,0,3,1000,4,2),"
    "(10," S "0130000," S "0140000,105,5,1,3,50,4,2);"
    "CREATE TABLE COMMUNICATION_TASK_INFO (globalTaskId, taskType, planeId, srcRank, dstRank,"
    " size, linkType, rdmaType, opId);"
    "INSERT INTO COMMUNICATION_TASK_INFO VALUES (3,8,0,1,0,0,1,65535,0),(4,6,0,1,0,2000,1,65535,0);";

static void current_schema_is_read(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    run_sql(&place, 2, new_tables);
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);

    const struct seen_row *step = the_row(seen, RS_KIND_USER_ANNOTATION, "ProfilerStep#4");
    assert_int_equal(step->start, T(0));
    assert_int_equal(step->end, T(200));
    /* the first node's task that starts, whatever it is; the launch that leaves the step does not count */
    const struct seen_row *window = the_row(seen, RS_KIND_STEP_WINDOW, "ProfilerStep");
    assert_int_equal(window->start, T(45));
    assert_int_equal(window->end, T(200));
    assert_int_equal(window->correlation, 4);
    assert_int_equal(window->lane.device, 4);

    assert_int_equal(count_kind(seen, RS_KIND_KERNEL), 5);
    /* called like an operation of HCCL, and an operator all the same */
    const struct seen_row *fused = the_row(seen, RS_KIND_KERNEL, "hcom_fused_kernel");
    assert_true(fused->flags & RS_EVENT_COMPUTING);
    assert_int_equal(fused->correlation, -1);
    assert_int_equal(fused->lane.thread, 7);

    const struct seen_row *op = the_row(seen, RS_KIND_KERNEL, "hcom_allReduce__606_0_1");
    assert_true(op->flags & RS_EVENT_COMMUNICATION);
    assert_int_equal(op->start, T(70));
    assert_int_equal(op->end, T(120));
    assert_int_equal(op->correlation, 101);
    assert_int_equal(op->lane.device, 4);
    assert_string_equal(op->collective, "allReduce");
    assert_string_equal(op->dtype, "Half");
    assert_string_equal(op->ranks, "[0, 2]");
    char hash[RS_ASCEND_HASH_BYTES];
    rs_ascend_group_hash("comm0", hash);
    assert_string_equal(op->group, hash);
    assert_int_equal(op->comm.in_nelems, 1000);
    assert_int_equal(op->comm.group_size, 2);
    assert_string_equal(op->transport, "HCCS");

    assert_int_equal(count_kind(seen, RS_KIND_COMM_TASK), 1);
    const struct seen_row *hop = the_row(seen, RS_KIND_COMM_TASK, "hcom_allReduce__606_0_1");
    assert_int_equal(hop->comm.src, 2); /* global ranks, not those within the group */
    assert_int_equal(hop->comm.dst, 0);
    assert_int_equal(hop->comm.bytes, 2000);
    assert_int_equal(hop->external_id, op->external_id);
    assert_int_equal(hop->end - hop->start, 18000);

    /* without a transfer to tell it, a group of two leaves one peer */
    const struct seen_row *send = the_row(seen, RS_KIND_KERNEL, "hcom_send__606_1_1");
    assert_int_equal(send->comm.dst, 0);
    assert_true(send->comm.has & RS_COMM_HAS_DST);

    assert_int_equal(count_kind(seen, RS_KIND_MEMCPY), 1);
    assert_int_equal(seen->stream.info.rank, 2);
    assert_string_equal(rs_strtab_text(&seen->stream.strings, seen->stream.info.host),
                        "node7 (99)");
    assert_string_equal(rs_strtab_text(&seen->stream.strings, seen->stream.info.generation),
                        "ascend_pt database, schema 1.2.0, CANN 8.3.RC1, torch_npu 2.7.1");
    assert_int_equal(seen->stream.info.group_count, 1);
    assert_int_equal(seen->stream.info.metadata,
                     RS_STR_NONE); /* groups and versions are elsewhere */
    forget(seen);
    tmp_dir_remove(place.root);
}

/* No device and rank columns, no RDMA types, times as text, names of operations as text. */
static const char old_tables[] =
    "CREATE TABLE COMPUTE_TASK_INFO (name, globalTaskId INTEGER PRIMARY KEY, blockDim);"
    "INSERT INTO COMPUTE_TASK_INFO VALUES (1,1,0);"
    "CREATE TABLE COMMUNICATION_OP (opName, startNs TEXT, endNs TEXT, connectionId, groupName,"
    " opId, dataType, count);"
    "INSERT INTO COMMUNICATION_OP VALUES ('hcom_receive__606_0_1','" S "0070000','" S
    "0120000',101,'comm0',0,3,1000);"
    "CREATE TABLE COMMUNICATION_TASK_INFO (globalTaskId, taskType, planeId, srcRank, dstRank,"
    " size, linkType, opId);"
    "INSERT INTO COMMUNICATION_TASK_INFO VALUES (4,6,0,1,4294967295,-1,65534,0);";

static void older_schema_is_read_by_name(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA "DELETE FROM META_DATA WHERE name <> 'SCHEMA_VERSION';");
    run_sql(&place, 2, old_tables);
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);
    const struct seen_row *op = the_row(seen, RS_KIND_KERNEL, "hcom_receive__606_0_1");
    assert_int_equal(op->start, T(70));
    assert_int_equal(op->lane.device, 4); /* of the tasks of its connection */
    assert_int_equal(op->comm.out_nelems, 1000);
    assert_int_equal(op->comm.has & RS_COMM_HAS_GROUP_SIZE, 0);
    assert_string_equal(op->ranks, "");
    char hash[RS_ASCEND_HASH_BYTES];
    rs_ascend_group_hash("comm0", hash);
    assert_string_equal(op->group, hash);
    assert_int_equal(count_kind(seen, RS_KIND_COMM_TASK), 0);
    forget(seen);
    tmp_dir_remove(place.root);
}

/* RDMA: two payloads and the three tasks that close a send are one transfer. */
static void payloads_are_one_transfer_with_what_closes_them(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    run_sql(&place, 2, new_tables);
    run_sql(
        &place, 2,
        "CREATE TABLE ENUM_HCCL_RDMA_TYPE (id INTEGER PRIMARY KEY, name TEXT);"
        "INSERT INTO ENUM_HCCL_RDMA_TYPE VALUES (1,'RDMA_SEND_PAYLOAD');"
        "INSERT INTO TASK VALUES (" S "0130000," S "0130100,4,105,11,8,9),"
        "(" S "0130200," S "0130300,4,105,12,8,9),(" S "0131000," S "0132000,4,105,13,8,9),"
        "(" S "0133000," S "0134000,4,105,14,8,9),(" S "0135000," S "0139000,4,105,15,8,9);"
        "INSERT INTO COMMUNICATION_TASK_INFO VALUES (11,8,0,1,0,300,3,1,1),"
        "(12,8,0,1,0,400,3,1,1),(13,8,0,1,0,0,3,2,1),(14,8,0,1,0,0,3,2,1),(15,8,0,1,0,0,3,2,1);");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_OK);
    const struct seen_row *hop = the_row(seen, RS_KIND_COMM_TASK, "hcom_send__606_1_1");
    assert_int_equal(hop->start, T(130));
    assert_int_equal(hop->end, T(139));
    assert_int_equal(hop->comm.bytes, 700);
    assert_string_equal(hop->transport, "RDMA");
    forget(seen);
    tmp_dir_remove(place.root);
}

static void steps_come_from_operators_where_nothing_else_tells(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2,
            NEW_SCHEMA "DROP TABLE STEP_TIME; INSERT INTO STRING_IDS VALUES"
                       " (268435456,'ProfilerStep#12'),(268435457,'aten::add');"
                       "CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid, name, type);"
                       "INSERT INTO PYTORCH_API VALUES ('" S "0000000','" S
                       "0150000',42949672971,268435456,50001),('" S "0001000','" S
                       "0002000',42949672971,268435457,50001);");
    for (unsigned flags = 0; flags <= RS_SOURCE_LOSSLESS; flags += RS_SOURCE_LOSSLESS) {
        struct seen *seen = read_place(&place, flags);
        assert_status(seen->status, RS_OK);
        assert_int_equal(the_row(seen, RS_KIND_USER_ANNOTATION, "ProfilerStep#12")->end, T(150));
        assert_int_equal(count_kind(seen, RS_KIND_CPU_OP), flags ? 1 : 0);
        if (flags) {
            const struct seen_row *op = the_row(seen, RS_KIND_CPU_OP, "aten::add");
            assert_int_equal(op->lane.process, 10);
            assert_int_equal(op->lane.thread, 11);
        }
        forget(seen);
    }
    tmp_dir_remove(place.root);
}

static void counters_and_collections_are_for_the_lossless_reading(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    run_sql(&place, 2,
            "CREATE TABLE GC_RECORD (startNs, endNs, globalTid);"
            "INSERT INTO GC_RECORD VALUES (" S "0001000," S "0003000,42949672971);"
            "CREATE TABLE NIC (deviceId, timestampNs, rxByteRate, txByteRate);"
            "INSERT INTO NIC VALUES (4," S "0002000,500,600),(4," S "0004000,NULL,'x');"
            "CREATE TABLE CPU_USAGE (timestampNs, cpuId, usage);"
            "INSERT INTO CPU_USAGE VALUES (" S "0002000,3,12.5);"
            "CREATE TABLE OSRT_API (name, globalTid, startNs, endNs);"
            "INSERT INTO OSRT_API VALUES (1,42949672971," S "0002000," S "0004000);"
            "CREATE TABLE TABLE_OF_TOMORROW (a, b);"
            "INSERT INTO TABLE_OF_TOMORROW VALUES (1, 'two');"
            "CREATE TABLE status_info (key, value);"
            "INSERT INTO status_info VALUES ('viewer', '1');");
    struct seen *plain = read_place(&place, 0);
    struct seen *whole = read_place(&place, RS_SOURCE_LOSSLESS);
    assert_int_equal(count_kind(plain, RS_KIND_COUNTER) + count_kind(plain, RS_KIND_OVERHEAD), 0);
    assert_int_equal(the_row(whole, RS_KIND_COUNTER, "NIC receive B/s")->bytes, 500);
    assert_int_equal(the_row(whole, RS_KIND_COUNTER, "NIC transmit B/s")->start, T(2));
    assert_int_equal(the_row(whole, RS_KIND_OVERHEAD, "GC")->end, T(3));
    /* all cells travel, under the table's name; ids of strings are what they mean */
    const struct seen_row *nic = the_row(whole, RS_KIND_COUNTER, "NIC receive B/s");
    assert_string_equal(nic->category, "NIC");
    assert_non_null(strstr(nic->extra, "\"txByteRate\":600"));
    assert_non_null(strstr(the_row(whole, RS_KIND_COUNTER, "NIC")->extra, "\"txByteRate\":\"x\""));
    const struct seen_row *cpu = the_row(whole, RS_KIND_COUNTER, "CPU_USAGE");
    assert_int_equal(cpu->start, T(2));
    assert_int_equal(cpu->lane.kind, RS_LANE_HOST);
    assert_non_null(strstr(cpu->extra, "\"usage\":12.5"));
    const struct seen_row *call = the_row(whole, RS_KIND_COUNTER, "OSRT_API");
    assert_int_equal(call->end, T(4));
    assert_true(the_row(whole, RS_KIND_COUNTER, "TABLE_OF_TOMORROW")->flags & RS_EVENT_NO_TIME);
    assert_int_equal(plain->stream.info.events_read, whole->stream.info.events_read);
    forget(plain);
    forget(whole);
    tmp_dir_remove(place.root);
}

/* What the vendor says of a task is kept with its time, and is in no figure. */
static void what_is_said_of_tasks_travels(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    run_sql(&place, 2,
            "CREATE TABLE COMMUNICATION_TASK_INFO (name, globalTaskId, notifyId, isMaster,"
            " bandwidth NUMERIC, opId);"
            "INSERT INTO COMMUNICATION_TASK_INFO VALUES (4,4,NULL,1,12.25,0);");
    struct seen *whole = read_place(&place, RS_SOURCE_LOSSLESS);
    const struct seen_row *row = the_row(whole, RS_KIND_COUNTER, "COMMUNICATION_TASK_INFO");
    assert_int_equal(row->start, T(100));
    assert_int_equal(row->end, T(118));
    assert_int_equal(row->lane.device, 4);
    assert_string_equal(row->extra, "\"name\":\"hcom_allReduce__606_0_1\",\"globalTaskId\":4,"
                                    "\"isMaster\":1,\"bandwidth\":12.25,\"opId\":0,"
                                    "\"startNs\":1750000000000100000,\"endNs\":1750000000000118000,"
                                    "\"deviceId\":4");
    forget(whole);
    tmp_dir_remove(place.root);
}

#define OPERATORS                                                                                  \
    "INSERT INTO STRING_IDS VALUES (268435457,'aten::mm'),(268435458,'float;\r\nScalar'),"         \
    "(268435459,'2,3;\r\n'),(268435460,'a.py(7): f'),(268435461,'Enqueue'),(20,'load'),"           \
    "(21,'domain1'),(22,'read');"                                                                  \
    "CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid, connectionId, name,"           \
    " sequenceNumber, fwdThreadId, inputDtypes, inputShapes, callchainId, type);"                  \
    "INSERT INTO PYTORCH_API VALUES ('" S "0001000','" S                                           \
    "0002000',42949672971,9,268435457,17,3,268435458,268435459,5,50001),"                          \
    "('" S "0003000','" S "0004000',42949672971,NULL,268435461,NULL,NULL,NULL,NULL,NULL,50002);"   \
    "CREATE TABLE CONNECTION_IDS (id, connectionId); INSERT INTO CONNECTION_IDS VALUES (9, 100);"  \
    "CREATE TABLE PYTORCH_CALLCHAINS (id, stack, stackDepth);"                                     \
    "INSERT INTO PYTORCH_CALLCHAINS VALUES (5, 268435460, 0);"                                     \
    "CREATE TABLE MSTX_EVENTS (startNs, endNs, eventType, rangeId, category, message, globalTid,"  \
    " endGlobalTid, domainId, connectionId);"                                                      \
    "INSERT INTO MSTX_EVENTS VALUES (" S "0005000," S                                              \
    "0006000,2,77,4294967295,20,42949672971,42949672972,21,4294967295);"

/* What connects an operator, what it worked on and who called it; the domain of a range. */
static void what_is_said_of_operators_and_marks_travels(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    run_sql(&place, 2, OPERATORS);
    struct seen *plain = read_place(&place, 0);
    struct seen *whole = read_place(&place, RS_SOURCE_LOSSLESS);
    assert_status(whole->status, RS_OK);
    assert_string_equal(the_row(whole, RS_KIND_CPU_OP, "aten::mm")->extra,
                        "\"Sequence number\":17,\"Fwd thread id\":3,"
                        "\"Input type\":\"float;\\r\\nScalar\",\"Input Dims\":\"2,3;\\r\\n\","
                        "\"connectionId\":9,\"callchainId\":5");
    const struct seen_row *queue = the_row(whole, RS_KIND_OTHER, "Enqueue");
    assert_string_equal(queue->extra, ""); /* unknown is nothing, not 0 */
    const struct seen_row *chain = the_row(whole, RS_KIND_COUNTER, "PYTORCH_CALLCHAINS");
    assert_string_equal(chain->extra, "\"id\":5,\"stack\":\"a.py(7): f\",\"stackDepth\":0");
    assert_true(chain->flags & RS_EVENT_NO_TIME);
    assert_string_equal(the_row(whole, RS_KIND_COUNTER, "CONNECTION_IDS")->extra,
                        "\"id\":9,\"connectionId\":100");
    assert_string_equal(the_row(whole, RS_KIND_RANGE, "load")->extra,
                        "\"eventType\":2,\"rangeId\":77,\"category\":4294967295,"
                        "\"domain\":\"domain1\",\"endGlobalTid\":42949672972,"
                        "\"connectionId\":4294967295");
    assert_string_equal(the_row(plain, RS_KIND_RANGE, "load")->extra, "");
    assert_int_equal(plain->stream.info.events_read, whole->stream.info.events_read);
    forget(plain);
    forget(whole);
    tmp_dir_remove(place.root);
}

/* In any reading: the file's members, then those that only the database has. */
static void settings_are_kept(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    put_file(place.rank, "profiler_metadata.json",
             "{\"trace_id\": \"cap-1\", \"parallel_group_info\": {}, \"lr\": 0.5}");
    run_sql(&place, 2,
            NEW_SCHEMA "INSERT INTO META_DATA VALUES ('lr','7'),('note','a \"b\"'),"
                       "('ENV_VARIABLES','{\"HCCL_ALGO\": \"ring\"}');");
    for (unsigned flags = 0; flags <= RS_SOURCE_LOSSLESS; flags += RS_SOURCE_LOSSLESS) {
        struct seen *seen = read_place(&place, flags);
        assert_status(seen->status, RS_OK);
        assert_string_equal(rs_strtab_text(&seen->stream.strings, seen->stream.info.metadata),
                            "{\"trace_id\":\"cap-1\",\"lr\":0.5,\"note\":\"a \\\"b\\\"\","
                            "\"ENV_VARIABLES\":{\"HCCL_ALGO\":\"ring\"}}");
        forget(seen);
    }
    tmp_dir_remove(place.root);
}

/* A number that stands for a text in one table alone; what explains the other numbers is there, too. */
static void numbers_of_counters_keep_their_meaning(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA "INSERT INTO STRING_IDS VALUES (22,'read');");
    run_sql(&place, 2,
            "CREATE TABLE LLC (deviceId, timestampNs INTEGER, hitRate REAL, mode);"
            "INSERT INTO LLC VALUES (4," S "0002000,85.5,22),(4," S "0003000,NULL,22);"
            "CREATE TABLE ENUM_MODULE (id INTEGER PRIMARY KEY, name TEXT);"
            "INSERT INTO ENUM_MODULE VALUES (2,'HCCL');");
    struct seen *whole = read_place(&place, RS_SOURCE_LOSSLESS);
    size_t rows = 0;
    for (size_t i = 0; i < whole->count; i++)
        if (strcmp(whole->rows[i].category, "LLC") == 0)
            rows += strstr(whole->rows[i].extra, "\"mode\":\"read\"") != NULL;
    assert_int_equal(rows, 2);
    assert_string_equal(the_row(whole, RS_KIND_COUNTER, "ENUM_MODULE")->extra,
                        "\"id\":2,\"name\":\"HCCL\"");
    rows = 0;
    for (size_t i = 0; i < whole->count; i++)
        if (whole->rows[i].kind == RS_KIND_METADATA &&
            strcmp(whole->rows[i].category, "LLC") == 0) {
            assert_string_equal(whole->rows[i].name, "vendor table");
            assert_string_equal(
                whole->rows[i].extra,
                "\"deviceId\":\"\",\"timestampNs\":\"INTEGER\",\"hitRate\":\"REAL\","
                "\"mode\":\"\"");
            rows++;
        }
    assert_int_equal(rows, 1);
    forget(whole);
    tmp_dir_remove(place.root);
}

static void reading_leaves_the_database_alone(void **state)
{
    (void)state;
    struct place place;
    char path[512];
    struct stat before, after;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    (void)snprintf(path, sizeof path, "%s/ascend_pytorch_profiler_2.db", place.output);
    assert_int_equal(stat(path, &before), 0);
    struct seen *seen = read_place(&place, RS_SOURCE_LOSSLESS);
    assert_status(seen->status, RS_OK);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    assert_int_equal(before.st_size, after.st_size);
    forget(seen);
    tmp_dir_remove(place.root);
}

static void wild_cells_are_counted_not_believed(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    run_sql(&place, 2, NEW_SCHEMA);
    run_sql(&place, 2, new_tables);
    run_sql(&place, 2,
            "INSERT INTO TASK VALUES (NULL,NULL,4,100,21,2,7),(9,3,4,100,22,2,7),"
            "('x','y',4,100,23,2,7),(9223372036854775807,9223372036854775807,-5,-9,24,7,7);"
            "INSERT INTO COMMUNICATION_OP VALUES (999,1,-1,NULL,NULL,7,99,-4,99999999999,-1);"
            "INSERT INTO COMMUNICATION_TASK_INFO VALUES (4,6,900,7,9,1e300,1,0,0);"
            "INSERT INTO STEP_TIME VALUES (-1,5,6),('q',NULL,3);");
    struct seen *seen = read_place(&place, 0);
    assert_status(seen->status, RS_PARTIAL);
    assert_non_null(strstr(rs_strtab_text(&seen->stream.strings, seen->stream.info.partial_reason),
                           "TASK.startNs: 2 of 11 cells hold no number"));
    size_t windows = 0; /* the wild device has one, too */
    for (size_t i = 0; i < seen->count; i++)
        if (seen->rows[i].kind == RS_KIND_STEP_WINDOW && seen->rows[i].lane.device == 4) {
            assert_int_equal(seen->rows[i].start, T(45));
            windows++;
        }
    assert_int_equal(windows, 1);
    int64_t dropped = 0;
    for (size_t i = 0; i < seen->stream.info.drop_count; i++)
        dropped += seen->stream.info.drops[i].count;
    assert_true(dropped >= 4);
    forget(seen);
    tmp_dir_remove(place.root);
}

static void move(const char *root, const char *from, const char *to)
{
    char old[512], new[512];
    (void)snprintf(old, sizeof old, "%s/%s", root, from);
    (void)snprintf(new, sizeof new, "%s/%s", root, to);
    assert_int_equal(rename(old, new), 0);
}

/* A folder of MindSpore: its database where that knows the steps, else the text that does. */
static void mindspore_takes_the_form_that_knows_the_steps(void **state)
{
    (void)state;
    static const char trace[] = "[{\"ph\":\"X\",\"name\":\"ProfilerStep#9\",\"pid\":1,\"tid\":1,"
                                "\"ts\":\"1750000000000000.000\",\"dur\":20},"
                                "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,"
                                "\"args\":{\"name\":\"Python\"}}]";
    for (int has_steps = 0; has_steps < 2; has_steps++) {
        struct place place;
        make_place(&place, 2);
        run_sql(&place, 2, NEW_SCHEMA);
        if (!has_steps)
            run_sql(&place, 2, "DROP TABLE STEP_TIME;");
        put_file(place.output, "trace_view.json", trace);
        move(place.output, "ascend_pytorch_profiler_2.db", "ascend_mindspore_profiler_2.db");
        move(place.root, "node7_4711_20260102030405006_ascend_pt",
             "node7_4711_20260102030405006_ascend_ms");
        struct seen *seen = read_place(&place, 0);
        assert_status(seen->status, RS_OK);
        (void)the_row(seen, RS_KIND_USER_ANNOTATION,
                      has_steps ? "ProfilerStep#4" : "ProfilerStep#9");
        assert_non_null(strstr(rs_strtab_text(&seen->stream.strings, seen->stream.info.generation),
                               "ascend_ms"));
        forget(seen);
        tmp_dir_remove(place.root);
    }
}

static void unfinished_and_raw_folders_are_reported(void **state)
{
    (void)state;
    struct place place;
    make_place(&place, 2);
    struct seen *seen = read_place(&place, 0); /* nothing was parsed */
    assert_status(seen->status, RS_NOTFOUND);
    assert_non_null(strstr(seen->err.text, "not finished"));
    forget(seen);
    char raw[400];
    (void)snprintf(raw, sizeof raw, "%s/FRAMEWORK", place.rank);
    assert_int_equal(mkdir(raw, 0700), 0);
    assert_int_equal(rmdir(place.output), 0);
    seen = read_place(&place, 0);
    assert_status(seen->status, RS_NOTFOUND);
    assert_non_null(strstr(seen->err.text, "not parsed by the vendor's tool yet"));
    forget(seen);
    tmp_dir_remove(place.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(current_schema_is_read),
        cmocka_unit_test(older_schema_is_read_by_name),
        cmocka_unit_test(payloads_are_one_transfer_with_what_closes_them),
        cmocka_unit_test(steps_come_from_operators_where_nothing_else_tells),
        cmocka_unit_test(counters_and_collections_are_for_the_lossless_reading),
        cmocka_unit_test(what_is_said_of_tasks_travels),
        cmocka_unit_test(what_is_said_of_operators_and_marks_travels),
        cmocka_unit_test(settings_are_kept),
        cmocka_unit_test(numbers_of_counters_keep_their_meaning),
        cmocka_unit_test(reading_leaves_the_database_alone),
        cmocka_unit_test(wild_cells_are_counted_not_believed),
        cmocka_unit_test(mindspore_takes_the_form_that_knows_the_steps),
        cmocka_unit_test(unfinished_and_raw_folders_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
