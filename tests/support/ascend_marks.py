# SPDX-License-Identifier: Apache-2.0
"""What a job of ascend_job.py lacks for some recipes: marks of operations' FLOPs and of communication, inner modules, the chip,
and the same network on a GPU.

    plant_mfu(tree)    ranges of the domain mfu_flops, nested modules, PROF_*/device_0/info.json.0
    plant_marks(tree)  no COMMUNICATION_OP any more, but a mark for each of its rows, with a task of its own
    plant_gpu(path)    an SQLite export of Nsight Systems: devices 0 and 1 with modules of the same names
"""
import json
import pathlib
import sqlite3

FLOPS = 2 * 4096 ** 3
CORES, MHZ = 24, 1800
NO_DOMAIN = 4294967295


class Names:
    """STRING_IDS, longer than before."""

    def __init__(self, con):
        self.con = con
        self.ids = {value: key for key, value in con.execute("SELECT id, value FROM STRING_IDS")}

    def __getitem__(self, text):
        if text not in self.ids:
            self.ids[text] = max(self.ids.values()) + 1
            self.con.execute("INSERT INTO STRING_IDS VALUES (?, ?)", (self.ids[text], text))
        return self.ids[text]


def databases(tree):
    """(rank, path) of each profiler database, by rank."""
    return sorted((int(path.stem.rsplit("_", 1)[1]), path) for path in pathlib.Path(tree).rglob("ascend_pytorch_profiler_*.db"))


def add_mark(con, names, start, end, message, domain, connection=NO_DOMAIN):
    con.execute("INSERT INTO MSTX_EVENTS (startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, "
                "connectionId) VALUES (?, ?, 2, 0, ?, ?, 1, 1, ?, ?)",
                (start, end, NO_DOMAIN, names[message], names[domain], connection))


def calls(con):
    """(name, start, end) of the framework calls that launched computing tasks, in order."""
    return con.execute("SELECT DISTINCT n.value, CAST(p.startNs AS INTEGER), CAST(p.endNs AS INTEGER) FROM COMPUTE_TASK_INFO c "
                       "JOIN TASK t ON t.globalTaskId = c.globalTaskId JOIN CONNECTION_IDS k ON k.connectionId = t.connectionId "
                       "JOIN PYTORCH_API p ON p.connectionId = k.id JOIN STRING_IDS n ON n.id = p.name ORDER BY 2").fetchall()


def plant_mfu(tree, with_unknown=False):
    """Each second matmul is an operator of its own; three calls in a row are one, with one of them in a range inside it. The
    first call of each module stands in a module of its own, too. with_unknown: a type whose peak nobody knows."""
    for _, path in databases(tree):
        device = path.parent.parent / "PROF_000001_20250615110640_A" / "device_0"
        device.mkdir(parents=True, exist_ok=True)
        (device / "info.json.0").write_text(json.dumps({"DeviceInfo": [{"ai_core_num": CORES, "aic_frequency": str(MHZ)}]}))
        con = sqlite3.connect(path)
        names = Names(con)
        rows = calls(con)
        for i, (name, start, end) in enumerate(rows):
            if "matmulv2" in name and i % 2 == 0:
                add_mark(con, names, start - 10, end + 10, "%d-matmul" % FLOPS, "mfu_flops")
        for i in range(1, len(rows) - 2, 6):
            add_mark(con, names, rows[i][1] - 20, rows[i + 2][2] + 20, "%d-block" % (3 * FLOPS), "mfu_flops")
            add_mark(con, names, rows[i + 1][1] - 15, rows[i + 1][2] + 15, "%d-inner" % FLOPS, "mfu_flops")
        add_mark(con, names, rows[0][1], rows[0][2], "many-matmul", "mfu_flops")
        add_mark(con, names, rows[0][1], rows[0][2], "0-matmul", "mfu_flops")
        for i in range(0, len(rows), 5):
            add_mark(con, names, rows[i][1] - 50, rows[i][2] + 50, "AscendAttention", "Module")
            add_mark(con, names, rows[i][1] - 40, rows[i][2] + 40, "Linear", "Module")
        if with_unknown:
            con.execute("UPDATE COMPUTE_TASK_INFO SET inputDataTypes = ? WHERE globalTaskId = (SELECT globalTaskId FROM "
                        "COMPUTE_TASK_INFO JOIN TASK USING (globalTaskId) ORDER BY startNs LIMIT 1)", (names["INT32;INT32"],))
        con.commit()
        con.close()


def plant_marks(tree, with_unknown=False):
    """{rank: [(type, group, data type, count, start, end)]} of what the marks say, in the order of time. with_unknown: of a data type
    that the file does not name."""
    truth = {}
    for rank, path in databases(tree):
        con = sqlite3.connect(path)
        names = Names(con)
        rows = con.execute("SELECT t.value, g.value, o.count, o.startNs, o.endNs FROM COMMUNICATION_OP o JOIN STRING_IDS t ON "
                           "t.id = o.opType JOIN STRING_IDS g ON g.id = o.groupName ORDER BY o.startNs").fetchall()
        device = con.execute("SELECT deviceId FROM TASK LIMIT 1").fetchone()[0]
        truth[rank] = []
        for i, (kind, group, count, start, end) in enumerate(rows):
            kind, data = kind.rstrip("_"), "unheard_of" if with_unknown and i == 3 else ("fp16", "int8")[i % 2]
            truth[rank].append((kind, group, data, count, start, end))
            message = json.dumps({"streamId": "%d" % (500 + i), "count": "%d" % count, "dataType": data,
                                  "groupName": group, "opName": kind})
            add_mark(con, names, start - 5, end + 5, message.replace('"', '\\"') if i % 2 else message, "communication", 700000 + i)
            con.execute("INSERT INTO TASK (startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, "
                        "streamId, taskId, modelId) VALUES (?, ?, ?, ?, ?, 1, 0, 0, ?, ?, ?)",
                        (start, end, device, 700000 + i, 700000 + i, 500 + i, i, NO_DOMAIN))
        con.execute("DROP TABLE COMMUNICATION_OP")
        con.commit()
        con.close()
    return truth


NSIGHT = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, globalTid INTEGER, text TEXT, textId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, correlationId INTEGER, globalPid INTEGER,
 demangledName INTEGER);
"""
# (module ranges, outermost first, operation, kernels with their ns); twice over
GPU_WORK = (
    (("TransformerBlock", "Attention", "Linear"), "aten::linear, seq = 1", (("gemm_a", 900_000), ("gemm_b", 300_000))),
    (("TransformerBlock", "Attention"), "aten::softmax", (("softmax", 120_000),)),
    (("TransformerBlock",), "aten::add", (("add", 70_000),)),
    (("TransformerBlock", "RMSNorm"), "aten::rms_norm", (("norm", 50_000),)),
    (("Embedding",), None, (("gather", 10_000),)),
    ((), "aten::copy_", (("copy", 5_000),)),
)


def plant_gpu(path, devices=(0, 1), with_troubles=True):
    """with_troubles: launches of both processes have the same numbers, and a range was never closed."""
    con = sqlite3.connect(path)
    con.executescript(NSIGHT)
    names = {}
    for device in devices:
        thread, pid = (100 + device) << 24 | 7, (100 + device) << 24
        clock, launch = 1_000_000, 0 if with_troubles else 1000 * device
        for repeat in range(2):
            for modules, operation, kernels in GPU_WORK:
                ranges = list(modules) + ([operation] if operation else [])
                length = 100 * (len(ranges) + 1) * 2 + 100 * len(kernels)
                for depth, name in enumerate(ranges):
                    key = names.setdefault(name, len(names) + 1)
                    con.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)",
                                (clock + 100 * depth, clock + length - 100 * depth, thread, *((None, key) if depth % 2 else (name, None))))
                for i, (name, time) in enumerate(kernels):
                    launch += 1
                    start = clock + 100 * (len(ranges) + 1) + 100 * i
                    key = names.setdefault(name, len(names) + 1)
                    con.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", (start, start + 50, thread, launch))
                    con.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?)",
                                (start + 1000, start + 1000 + time + 1000 * device + repeat, device, launch, pid, key))
                clock += length + 1000
        if with_troubles:
            con.execute("INSERT INTO NVTX_EVENTS VALUES (?, NULL, 59, ?, 'never closed', NULL)", (clock, thread))
    con.executemany("INSERT INTO StringIds VALUES (?, ?)", [(key, name) for name, key in names.items()])
    con.commit()
    con.close()
