/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of ascend_pytorch_profiler_R.db, schema 1.2.0: columns, their order and the enums as
 * the vendor's writers have them. Where we know a word that their enums lack (a link of another make), it gets
 * a number of its own from OWN_ENUM_FIRST on: readers look names up by id.
 */
#include "ascend/export/export_priv.h"
#include "common/base/mem.h"

#include <stdio.h>
#include <string.h>

#define ENUM_TABLE(name) "CREATE TABLE ENUM_" name " (id INTEGER PRIMARY KEY,name TEXT);"

static const char schema[] =
    "CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY,value TEXT);"
    "CREATE TABLE SESSION_TIME_INFO (startTimeNs INTEGER,endTimeNs INTEGER);"
    "CREATE TABLE NPU_INFO (id INTEGER,name TEXT);"
    "CREATE TABLE HOST_INFO (hostUid TEXT,hostName TEXT);"
    "CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER,deviceId INTEGER);"
    "CREATE TABLE META_DATA (name TEXT,value TEXT);"
    "CREATE TABLE STEP_TIME (id INTEGER,startNs INTEGER,endNs INTEGER);"
    "CREATE TABLE TASK (startNs INTEGER,endNs INTEGER,deviceId INTEGER,connectionId INTEGER,"
    "globalTaskId INTEGER,globalPid INTEGER,taskType INTEGER,contextId INTEGER,streamId INTEGER,"
    "taskId INTEGER,modelId INTEGER);"
    "CREATE TABLE COMPUTE_TASK_INFO (name INTEGER,globalTaskId INTEGER PRIMARY KEY,"
    "blockNum INTEGER,mixBlockNum INTEGER,taskType INTEGER,opType INTEGER,inputFormats INTEGER,"
    "inputDataTypes INTEGER,inputShapes INTEGER,outputFormats INTEGER,outputDataTypes INTEGER,"
    "outputShapes INTEGER,attrInfo INTEGER,opState INTEGER,hf32Eligible INTEGER,gridDim INTEGER,"
    "blockDim INTEGER);"
    "CREATE TABLE MEMCPY_INFO (globalTaskId INTEGER,size INTEGER,memcpyOperation INTEGER);"
    "CREATE TABLE COMMUNICATION_OP (opName INTEGER,startNs INTEGER,endNs INTEGER,"
    "connectionId INTEGER,groupName INTEGER,opId INTEGER PRIMARY KEY,relay INTEGER,retry INTEGER,"
    "dataType INTEGER,algType INTEGER,count NUMERIC,opType INTEGER,deviceId INTEGER,"
    "rankSize INTEGER);"
    "CREATE TABLE COMMUNICATION_TASK_INFO (name INTEGER,globalTaskId INTEGER,taskType INTEGER,"
    "planeId INTEGER,groupName INTEGER,notifyId INTEGER,rdmaType INTEGER,srcRank INTEGER,"
    "dstRank INTEGER,transportType INTEGER,size INTEGER,dataType INTEGER,linkType INTEGER,"
    "opId INTEGER,isMaster INTEGER,bandwidth NUMERIC);"
    "CREATE TABLE CANN_API (startNs INTEGER,endNs INTEGER,type INTEGER,globalTid INTEGER,"
    "connectionId INTEGER PRIMARY KEY,name INTEGER);"
    "CREATE TABLE PYTORCH_API (startNs TEXT,endNs TEXT,globalTid INTEGER,connectionId INTEGER,"
    "name INTEGER,sequenceNumber INTEGER,fwdThreadId INTEGER,inputDtypes INTEGER,"
    "inputShapes INTEGER,callchainId INTEGER,type INTEGER);"
    "CREATE TABLE PYTORCH_CALLCHAINS (id INTEGER,stack INTEGER,stackDepth INTEGER);"
    "CREATE TABLE CONNECTION_IDS (id INTEGER,connectionId INTEGER);"
    "CREATE TABLE MSTX_EVENTS (startNs INTEGER,endNs INTEGER,eventType INTEGER,rangeId INTEGER,"
    "category INTEGER,message INTEGER,globalTid INTEGER,endGlobalTid INTEGER,domainId INTEGER,"
    "connectionId INTEGER);"
    "CREATE TABLE MEMORY_RECORD (component INTEGER,timestamp INTEGER,totalAllocated INTEGER,"
    "totalReserved INTEGER,totalActive INTEGER,streamPtr INTEGER,deviceId INTEGER);"
    "CREATE TABLE OP_MEMORY (name INTEGER,size INTEGER,allocationTime INTEGER,releaseTime INTEGER,"
    "activeReleaseTime INTEGER,duration INTEGER,activeDuration INTEGER,"
    "allocationTotalAllocated INTEGER,allocationTotalReserved INTEGER,"
    "allocationTotalActive INTEGER,releaseTotalAllocated INTEGER,releaseTotalReserved INTEGER,"
    "releaseTotalActive INTEGER,streamPtr INTEGER,deviceId INTEGER);"
    "CREATE TABLE GC_RECORD (startNs INTEGER,endNs INTEGER,globalTid INTEGER);"
    "CREATE TABLE RANKSCOPE_COUNTER (name INTEGER,timestampNs INTEGER,value INTEGER);"
    "CREATE TABLE OVERLAP_ANALYSIS (id INTEGER PRIMARY KEY,deviceId INTEGER,startNs INTEGER,"
    "endNs INTEGER,type INTEGER);"
    /* clang-format off */
    ENUM_TABLE("API_TYPE") ENUM_TABLE("HCCL_DATA_TYPE") ENUM_TABLE("HCCL_LINK_TYPE")
    ENUM_TABLE("HCCL_TRANSPORT_TYPE") ENUM_TABLE("HCCL_RDMA_TYPE") ENUM_TABLE("MSTX_EVENT_TYPE")
    ENUM_TABLE("MEMCPY_OPERATION") ENUM_TABLE("OVERLAP_ANALYSIS_TYPE");
/* clang-format on */

static const struct db_table tables[T_COUNT] = {
    [T_STRING_IDS] = {"STRING_IDS", 2},
    [T_SESSION] = {"SESSION_TIME_INFO", 2},
    [T_NPU_INFO] = {"NPU_INFO", 2},
    [T_HOST_INFO] = {"HOST_INFO", 2},
    [T_RANK_DEVICE] = {"RANK_DEVICE_MAP", 2},
    [T_META_DATA] = {"META_DATA", 2},
    [T_STEP_TIME] = {"STEP_TIME", 3},
    [T_TASK] = {"TASK", 11},
    [T_COMPUTE] = {"COMPUTE_TASK_INFO", 17},
    [T_MEMCPY] = {"MEMCPY_INFO", 3},
    [T_COMM_OP] = {"COMMUNICATION_OP", 14},
    [T_COMM_TASK] = {"COMMUNICATION_TASK_INFO", 16},
    [T_CANN_API] = {"CANN_API", 6},
    [T_PYTORCH_API] = {"PYTORCH_API", 11},
    [T_CALLCHAINS] = {"PYTORCH_CALLCHAINS", 3},
    [T_CONNECTION_IDS] = {"CONNECTION_IDS", 2},
    [T_MSTX] = {"MSTX_EVENTS", 10},
    [T_MEMORY_RECORD] = {"MEMORY_RECORD", 7},
    [T_OP_MEMORY] = {"OP_MEMORY", 15},
    [T_GC_RECORD] = {"GC_RECORD", 3},
    [T_COUNTER] = {"RANKSCOPE_COUNTER", 3},
    [T_OVERLAP] = {"OVERLAP_ANALYSIS", 5},
    [T_API_TYPE] = {"ENUM_API_TYPE", 2},
    [T_DATA_TYPE] = {"ENUM_HCCL_DATA_TYPE", 2},
    [T_LINK_TYPE] = {"ENUM_HCCL_LINK_TYPE", 2},
    [T_TRANSPORT_TYPE] = {"ENUM_HCCL_TRANSPORT_TYPE", 2},
    [T_RDMA_TYPE] = {"ENUM_HCCL_RDMA_TYPE", 2},
    [T_MSTX_TYPE] = {"ENUM_MSTX_EVENT_TYPE", 2},
    [T_MEMCPY_TYPE] = {"ENUM_MEMCPY_OPERATION", 2},
    [T_OVERLAP_TYPE] = {"ENUM_OVERLAP_ANALYSIS_TYPE", 2},
};

static const struct {
    enum table table;
    int64_t id;
    const char *name;
} words[] = {
    {T_API_TYPE, 5000, "runtime"},
    {T_API_TYPE, 5500, "communication"},
    {T_API_TYPE, 10000, "node"},
    {T_API_TYPE, 15000, "model"},
    {T_API_TYPE, 20000, "acl"},
    {T_API_TYPE, 50001, "op"},
    {T_API_TYPE, 50002, "queue"},
    {T_API_TYPE, 50003, "trace"},
    {T_API_TYPE, 50004, "mstx"},
    {T_DATA_TYPE, 0, "INT8"},
    {T_DATA_TYPE, 1, "INT16"},
    {T_DATA_TYPE, 2, "INT32"},
    {T_DATA_TYPE, 3, "FP16"},
    {T_DATA_TYPE, 4, "FP32"},
    {T_DATA_TYPE, 5, "INT64"},
    {T_DATA_TYPE, 6, "UINT64"},
    {T_DATA_TYPE, 7, "UINT8"},
    {T_DATA_TYPE, 8, "UINT16"},
    {T_DATA_TYPE, 9, "UINT32"},
    {T_DATA_TYPE, 10, "FP64"},
    {T_DATA_TYPE, 11, "BFP16"},
    {T_DATA_TYPE, 12, "INT128"},
    {T_DATA_TYPE, 14, "HIF8"},
    {T_DATA_TYPE, 15, "FP8E4M3"},
    {T_DATA_TYPE, 16, "FP8E5M2"},
    {T_DATA_TYPE, 17, "FP8E8M0"},
    {T_DATA_TYPE, 255, "RESERVED"},
    {T_DATA_TYPE, 65534, "N/A"},
    {T_DATA_TYPE, 65535, "INVALID_TYPE"},
    {T_LINK_TYPE, 0, "ON_CHIP"},
    {T_LINK_TYPE, 1, "HCCS"},
    {T_LINK_TYPE, 2, "PCIE"},
    {T_LINK_TYPE, 3, "ROCE"},
    {T_LINK_TYPE, 4, "SIO"},
    {T_LINK_TYPE, 5, "HCCS_SW"},
    {T_LINK_TYPE, 6, "STANDARD_ROCE"},
    {T_LINK_TYPE, 7, "UB"},
    {T_LINK_TYPE, 8, "UBoE"},
    {T_LINK_TYPE, 65534, "N/A"},
    {T_LINK_TYPE, 65535, "INVALID_TYPE"},
    {T_TRANSPORT_TYPE, 0, "SDMA"},
    {T_TRANSPORT_TYPE, 1, "RDMA"},
    {T_TRANSPORT_TYPE, 2, "LOCAL"},
    {T_TRANSPORT_TYPE, 3, "UB"},
    {T_TRANSPORT_TYPE, 4, "ROCE"},
    {T_TRANSPORT_TYPE, 65534, "N/A"},
    {T_TRANSPORT_TYPE, 65535, "INVALID_TYPE"},
    {T_RDMA_TYPE, 0, "RDMA_SEND_NOTIFY"},
    {T_RDMA_TYPE, 1, "RDMA_SEND_PAYLOAD"},
    {T_RDMA_TYPE, 2, "RDMA_PAYLOAD_PREPARE"},
    {T_RDMA_TYPE, 3, "RDMA_PAYLOAD_CHECK"},
    {T_RDMA_TYPE, 4, "RDMA_PAYLOAD_ACK"},
    {T_RDMA_TYPE, 5, "RDMA_SEND_OP"},
    {T_RDMA_TYPE, 65534, "N/A"},
    {T_RDMA_TYPE, 65535, "INVALID_TYPE"},
    {T_MSTX_TYPE, 0, "marker"},
    {T_MSTX_TYPE, 1, "push/pop"},
    {T_MSTX_TYPE, 2, "start/end"},
    {T_MSTX_TYPE, 3, "marker_ex"},
    {T_MEMCPY_TYPE, 0, "host to host"},
    {T_MEMCPY_TYPE, 1, "host to device"},
    {T_MEMCPY_TYPE, 2, "device to host"},
    {T_MEMCPY_TYPE, 3, "device to device"},
    {T_MEMCPY_TYPE, 65535, "other"},
    {T_OVERLAP_TYPE, 0, "COMPUTE"},
    {T_OVERLAP_TYPE, 1, "COMMUNICATION"},
    {T_OVERLAP_TYPE, 2, "COMM_NOT_OVERLAP_COMP"},
    {T_OVERLAP_TYPE, 3, "FREE"},
};

bool tables_has(const char *name)
{
    for (size_t i = 0; i < T_COUNT; i++)
        if (strcmp(tables[i].name, name) == 0)
            return true;
    return false;
}

enum rs_status tables_create(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status = db_run(&e->rows, schema, err);
    if (status == RS_OK)
        status = db_tables(&e->rows, tables, T_COUNT, err);
    for (size_t i = 0; i < sizeof words / sizeof words[0] && status == RS_OK; i++) {
        struct db_row row = db_row_begin(&e->rows, words[i].table);
        db_row_int(&row, words[i].id, true);
        db_row_text(&row, words[i].name);
        status = db_row_end(&e->rows, &row, err);
    }
    return status;
}

/* A table exists only when it has rows; asked before anything is dropped, since statements hold the tables. */
enum rs_status tables_settle(struct rs_export_ascend *e, struct rs_err *err)
{
    enum rs_status status =
        db_run(&e->rows,
               "DROP INDEX CallChainIds; DROP INDEX StepStarts;"
               "CREATE INDEX CommunicationTaskIndex ON COMMUNICATION_TASK_INFO (globalTaskId);"
               "CREATE INDEX TaskIndex ON TASK (startNs,globalTaskId);",
               err);
    for (size_t i = 0; i < T_COUNT && status == RS_OK; i++) {
        bool is_empty = false;
        status = db_is_empty(&e->rows, tables[i].name, &is_empty, err);
        char sql[96];
        (void)snprintf(sql, sizeof sql, "DROP TABLE %s", tables[i].name);
        if (status == RS_OK && is_empty)
            status = db_run(&e->rows, sql, err);
    }
    return status;
}

/* ---- strings ---- */

static const int64_t space_base[SPACE_COUNT] = {0, INT64_C(1) << 28, INT64_C(2) << 28};

enum rs_status string_id(struct rs_export_ascend *e, enum space space, const char *text,
                         size_t length, int64_t *id_p, struct rs_err *err)
{
    rs_str id;
    const enum rs_status status = rs_strtab_add(&e->texts[space], text, length, &id);
    if (status == RS_OK && (int64_t)id >= INT64_C(1) << 28)
        return rs_err_set(err, RS_LIMIT, "more strings than a database of this form can number");
    if (status != RS_OK)
        return rs_err_set(err, status, "no room for the names of a rank");
    *id_p = space_base[space] + (int64_t)id;
    return RS_OK;
}

enum rs_status text_id(struct rs_export_ascend *e, enum space space, const char *text,
                       int64_t *id_p, struct rs_err *err)
{
    return string_id(e, space, text, strlen(text), id_p, err);
}

enum rs_status room_for_strings(struct rs_export_ascend *e, struct rs_err *err)
{
    const size_t need = e->strings->count;
    if (need <= e->id_capacity)
        return RS_OK;
    const size_t capacity = need + need / 2 + 1024;
    for (int space = 0; space < SPACE_COUNT; space++) {
        int64_t *ids = rs_mem_realloc(e->ids[space], capacity, sizeof *ids);
        if (!ids)
            return rs_err_set(err, RS_NOMEM, "no memory for the names of a rank");
        e->ids[space] = ids;
        for (size_t i = e->id_capacity; i < capacity; i++)
            ids[i] = -1;
    }
    uint8_t *classes = rs_mem_realloc(e->classes, capacity, sizeof *classes);
    if (!classes)
        return rs_err_set(err, RS_NOMEM, "no memory for the names of a rank");
    memset(classes + e->id_capacity, 0, capacity - e->id_capacity);
    e->classes = classes;
    e->id_capacity = capacity;
    return RS_OK;
}

enum rs_status stream_id(struct rs_export_ascend *e, enum space space, rs_str id, int64_t *id_p,
                         struct rs_err *err)
{
    *id_p = NO_STRING;
    if (id == RS_STR_NONE)
        return RS_OK;
    int64_t *known = &e->ids[space][id];
    if (*known < 0) {
        const enum rs_status status =
            string_id(e, space, text_of(e, id), rs_strtab_length(e->strings, id), known, err);
        if (status != RS_OK)
            return status;
    }
    *id_p = *known;
    return RS_OK;
}

enum rs_status tables_strings(struct rs_export_ascend *e, struct rs_err *err)
{
    for (int space = 0; space < SPACE_COUNT; space++) {
        const struct rs_strtab *texts = &e->texts[space];
        for (size_t i = texts->count > 1 ? 0 : 1; i < texts->count; i++) {
            struct db_row row = db_row_begin(&e->rows, T_STRING_IDS);
            db_row_int(&row, space_base[space] + (int64_t)i, true);
            db_row_bytes(&row, rs_strtab_text(texts, (rs_str)i),
                         rs_strtab_length(texts, (rs_str)i));
            const enum rs_status status = db_row_end(&e->rows, &row, err);
            if (status != RS_OK)
                return status;
        }
    }
    return RS_OK;
}
