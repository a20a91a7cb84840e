# SPDX-License-Identifier: Apache-2.0
"""Generations of the Ascend formats: one job rewritten as other versions of the profilers would have left it.

What changes between versions (columns, tables, names of layers, spelling of times, line ends) must not change a figure:
every variant is analysed and held against the job as it was. Used by test_ascend.py, which says where data and
program are.
"""
import csv
import glob
import io
import json
import os
import re
import shutil
import sqlite3

OUTPUT = "ASCEND_PROFILER_OUTPUT"
SAME = ["step_trace_time.csv", "step_breakdown.csv", "rank_breakdown.csv", "collectives.csv", "communication.json",
        "communication_matrix.json"]


def copy_tree(source, target):
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for root, folders, files in os.walk(target):
        for name in folders:
            os.chmod(os.path.join(root, name), 0o755)
        for name in files:
            os.chmod(os.path.join(root, name), 0o644)
    os.chmod(target, 0o755)


def outputs(tree):
    return sorted(glob.glob(os.path.join(glob.escape(tree), "*", OUTPUT)))


# ---- databases --------------------------------------------------------------------------------------------------

def remake(db, table, columns, types=None):
    """The same rows in a table with these columns (old name or "NULL" -> new name)."""
    types = types or {}
    db.execute("ALTER TABLE %s RENAME TO old" % table)
    db.execute("CREATE TABLE %s (%s)" % (table, ", ".join('"%s" %s' % (new, types.get(new, "")) for _, new in columns)))
    db.execute("INSERT INTO %s SELECT %s FROM old" % (table, ", ".join(old for old, _ in columns)))
    db.execute("DROP TABLE old")


def columns_of(db, table):
    return [row[1] for row in db.execute("PRAGMA table_info(%s)" % table)]


def tables_of(db):
    return [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def first_schema(db):
    """1.0.0 of 2025-01: other names, fewer columns."""
    gone = {"opState", "hf32Eligible", "deviceId", "rankSize", "isMaster", "bandwidth"}
    other = {"blockNum": "blockDim", "mixBlockNum": "mixBlockDim"}
    for table in ("COMPUTE_TASK_INFO", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "StepTraceTime"):
        if table in tables_of(db):
            remake(db, table, [(c, other.get(c, c)) for c in columns_of(db, table) if c not in gone])


def newer_schema(db):
    """Columns in another order, more of them, the layer's newer name."""
    for table in ("COMPUTE_TASK_INFO", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "TASK", "CANN_API", "PYTORCH_API",
                  "STEP_TIME", "CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix", "StepTraceTime"):
        if table in tables_of(db):
            remake(db, table, [("NULL", "columnOfTomorrow")] + [(c, c) for c in reversed(columns_of(db, table))])
    if "ENUM_API_TYPE" in tables_of(db):
        db.execute("UPDATE ENUM_API_TYPE SET name = 'communication' WHERE name = 'hccl'")
        db.execute("INSERT INTO ENUM_HCCL_LINK_TYPE VALUES (7, 'UB'), (8, 'UBoE')")


def viewers_database(db):
    """MindStudio Insight has opened it."""
    if "TASK" not in tables_of(db):
        return
    for table in ("TASK", "CANN_API", "PYTORCH_API", "COMMUNICATION_OP"):
        db.execute("ALTER TABLE %s ADD COLUMN depth INTEGER" % table)
    db.execute("ALTER TABLE COMMUNICATION_OP ADD COLUMN waitNs INTEGER")
    db.execute("CREATE TABLE status_info (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, value TEXT)")
    db.execute("CREATE TABLE connectionCats (connectionId INTEGER, cat TEXT)")
    db.execute("CREATE TABLE OVERLAP_ANALYSIS (id INTEGER PRIMARY KEY AUTOINCREMENT, deviceId INTEGER, startNs INTEGER,"
               " endNs INTEGER, type INTEGER)")
    db.execute("INSERT INTO OVERLAP_ANALYSIS VALUES (1, 0, 1, 2, 0)")
    db.commit()
    db.execute("PRAGMA journal_mode = WAL")


def times_as_text(db):
    """Digits in TEXT columns, as PYTORCH_API always has them."""
    for table in ("TASK", "CANN_API", "COMMUNICATION_OP", "STEP_TIME"):
        if table in tables_of(db):
            remake(db, table, [(c, c) for c in columns_of(db, table)], {"startNs": "TEXT", "endNs": "TEXT"})
            assert db.execute("SELECT typeof(startNs) FROM %s LIMIT 1" % table).fetchone() == ("text",)


def other_enum_numbers(db):
    """The enum tables say what a number means, nobody else."""
    if "ENUM_API_TYPE" not in tables_of(db):
        return
    db.execute("UPDATE ENUM_API_TYPE SET id = id + 7")
    db.execute("UPDATE CANN_API SET type = type + 7")
    for table, column in (("ENUM_HCCL_DATA_TYPE", "dataType"), ("ENUM_HCCL_LINK_TYPE", "linkType"),
                          ("ENUM_HCCL_TRANSPORT_TYPE", "transportType")):
        db.execute("UPDATE %s SET id = -1 - id" % table)
        for user in ("COMMUNICATION_OP", "COMMUNICATION_TASK_INFO"):
            if column in columns_of(db, user):
                db.execute("UPDATE %s SET %s = -1 - %s" % (user, column, column))


def least_tables(db):
    """Only what figures are made of; groups are then those of profiler_metadata.json."""
    for table in ("AICORE_FREQ", "MSTX_EVENTS", "NPU_INFO", "PYTORCH_API", "CONNECTION_IDS", "META_DATA",
                  "SESSION_TIME_INFO"):
        if table in tables_of(db):
            db.execute("DROP TABLE " + table)


DATABASES = [first_schema, newer_schema, viewers_database, times_as_text, other_enum_numbers, least_tables]


def rewrite_databases(tree, change):
    for output in outputs(tree):
        for path in glob.glob(os.path.join(glob.escape(output), "*.db")):
            db = sqlite3.connect(path)
            change(db)
            db.commit()
            db.close()


# ---- text ---------------------------------------------------------------------------------------------------------

def rewrite_file(output, pattern, change):
    for path in glob.glob(os.path.join(glob.escape(output), pattern)):
        with open(path, newline="") as file:
            text = change(file.read())
        with open(path, "w", newline="") as file:
            file.write(text)


def trace_rows(text, change):
    rows = json.loads(text)
    for row in rows:
        change(row)
    return json.dumps(rows, separators=(",", ":"))


def newer_layers(output):
    def change(row):
        args = row.get("args", {})
        if row.get("ph") == "M" and row.get("name") == "process_name" and args["name"] in ("HCCL", "Communication"):
            args["name"] = {"HCCL": "Communication", "Communication": "HCCL"}[args["name"]]
        if row.get("ph") == "M" and row.get("name") == "process_labels" and args.get("labels") == "NPU":
            args["labels"] = "NPU 0"
    rewrite_file(output, "trace_view.json", lambda text: trace_rows(text, change))


def times_as_numbers(output):
    """Both spellings of times exist; digits stay what they are."""
    rewrite_file(output, "trace_view.json",
                 lambda text: re.sub(r'"ts": ?"(\d+\.\d+)\s*"', r'"ts":\1', text))


def lengths_as_strings(output):
    """As MindSpore writes them."""
    rewrite_file(output, "trace_view.json", lambda text: re.sub(r'"dur": ?([\d.]+)', r'"dur":"\1"', text))


def pretty_documents(output):
    for name in ("communication.json", "communication_matrix.json"):
        rewrite_file(output, name, lambda text: json.dumps(json.loads(text), indent=4).replace("\n", "\r\n"))


def table_text(rows, end, tab):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end)
    writer.writerow(rows[0])
    times = [i for i, name in enumerate(rows[0]) if name.endswith("(us)")]
    for row in rows[1:]:
        writer.writerow([cell + tab if i in times and cell else cell for i, cell in enumerate(row)])
    return out.getvalue()


def tables_of_another_version(output):
    """CRLF, a Device_id column, tabs behind times, the newer names of blocks."""
    def change(text):
        rows = list(csv.reader(io.StringIO(text, newline="")))
        rows[0] = [{"Block Dim": "Block Num", "Mix Block Dim": "Mix Block Num"}.get(c, c) for c in rows[0]]
        if "Device_id" not in rows[0]:
            rows = [["Device_id"] + rows[0]] + [["0"] + row for row in rows[1:]]
        end = "\n" if "\r\n" in text else "\r\n"
        return table_text(rows, end, "\t")
    for name in ("kernel_details.csv", "memory_record.csv", "operator_memory.csv", "op_statistic.csv"):
        rewrite_file(output, name, change)


def tables_in_slices(output):
    """CANN cuts a table at a million rows."""
    path = os.path.join(output, "kernel_details.csv")
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    os.unlink(path)
    half = len(rows) // 2
    for i, part in enumerate((rows[1:half], rows[half:])):
        with open(os.path.join(output, "kernel_details_slice_%d.csv" % i), "w", newline="") as file:
            file.write(table_text([rows[0]] + part, "\n", ""))


def cells_of_several_lines(output):
    """Quotes, line ends and separators inside cells that figures are not made of."""
    def change(text):
        rows = list(csv.reader(io.StringIO(text, newline="")))
        for column in ("Input Shapes", "Output Shapes"):
            at = rows[0].index(column)
            for row in rows[1:]:
                row[at] = '"32,3;\r\nfile.py(7): f\n\t",' + row[at]
        return table_text(rows, "\n", "")
    rewrite_file(output, "kernel_details.csv", change)


def least_files(output):
    for name in os.listdir(output):
        if name not in ("trace_view.json", "communication.json", "communication_matrix.json", "kernel_details.csv",
                        "step_trace_time.csv"):
            os.unlink(os.path.join(output, name))


TEXTS = [newer_layers, times_as_numbers, lengths_as_strings, pretty_documents, tables_of_another_version,
         tables_in_slices, cells_of_several_lines, least_files]


# ---- the other framework ------------------------------------------------------------------------------------------

def as_mindspore(tree):
    """Names of MindSpore's folders and files; its word for the operation; what CANN's own database has."""
    for output in outputs(tree):
        folder = os.path.dirname(output)
        for info in glob.glob(os.path.join(glob.escape(folder), "profiler_info_*.json")):
            rank = info.rsplit("_", 1)[1][:-5]
            with open(info, "w") as file:
                json.dump({"ms_profiler_info": {"rank_id": rank, "context_mode": "graph"}, "ms_version": "2.7.0",
                           "cann_version": "8.3.RC1", "profiler_parameters": {}, "cann_profiler_info": {}}, file)
        rewrite_file(output, "communication_matrix.json", lambda text: text.replace('"Op Name"', '"op_name"'))
        for path in glob.glob(os.path.join(glob.escape(output), "ascend_pytorch_profiler*.db")):
            os.rename(path, path.replace("ascend_pytorch", "ascend_mindspore"))
            db = sqlite3.connect(path.replace("ascend_pytorch", "ascend_mindspore"))
            for table in ("PYTORCH_API", "CONNECTION_IDS"):
                db.execute("DROP TABLE IF EXISTS " + table)
            db.commit()
            db.close()
        analysis = os.path.join(output, "analysis.db")
        if os.path.exists(analysis):
            db = sqlite3.connect(analysis)
            db.execute("DROP TABLE IF EXISTS StepTraceTime")
            db.commit()
            db.close()
            os.rename(analysis, os.path.join(output, "communication_analyzer.db"))
        os.rename(folder, folder[:-len("_ascend_pt")] + "_ascend_ms")


# ---- held against each other --------------------------------------------------------------------------------------

def compare(check, name, reference, out):
    for file in SAME:
        with open(os.path.join(reference, file), "rb") as a, open(os.path.join(out, file), "rb") as b:
            theirs, ours = a.read(), b.read()
        if theirs != ours:
            for x, y in zip(theirs.splitlines(), ours.splitlines()):
                check(x == y, name, file, x[:300], y[:300])
        check(theirs == ours, name, file, len(theirs), len(ours))


CLUSTER = ["cluster_communication.json", "cluster_communication_matrix.json", "communication_group.json",
           "cluster_step_trace_time.csv"]


def contents(tree):
    found = []
    for root, _, files in sorted(os.walk(tree)):
        for name in sorted(files):
            with open(os.path.join(root, name), "rb") as file:
                found.append((name, file.read()))
    return found


def official(cluster, out, tree):
    """The official documents, byte for byte, and what was told of links."""
    told = cluster(out, tree)
    return told, [open(os.path.join(out, "cluster_analysis_output", name), "rb").read() for name in CLUSTER]


def run(work, analyse, cluster, check, database_tree, text_tree):
    """`analyse(out, path)` -> (code, stderr); `cluster(out, path)` -> something to compare."""
    for kind, tree, variants in (("db", database_tree, DATABASES), ("text", text_tree, TEXTS)):
        reference = os.path.join(work, "generation-" + kind)
        code, errors = analyse(reference, tree)
        check(code == 0, code, errors)
        wanted = official(cluster, reference + "-cluster", tree)
        for variant in variants:
            name = variant.__name__.replace("_", " ")
            place, out = os.path.join(work, "g"), os.path.join(work, "g-out")
            copy_tree(tree, place)
            if kind == "db":
                rewrite_databases(place, variant)
            else:
                for output in outputs(place):
                    variant(output)
            check([one for one in contents(place) if one not in contents(tree)] or variant is least_files, name,
                  "changed nothing")
            code, errors = analyse(out, place)
            check(code == 0, name, code, errors)
            compare(check, name, reference, out)
            check(official(cluster, out + "-cluster", place) == wanted, name, "the official documents differ")
            shutil.rmtree(place)
            shutil.rmtree(out)
            print("    %s: %s: %d deliverables and %d official documents the same"
                  % (kind, name, len(SAME), len(CLUSTER)))
        place, out = os.path.join(work, "g"), os.path.join(work, "g-out")
        copy_tree(tree, place)
        as_mindspore(place)
        code, errors = analyse(out, place)
        check(code == 0, "mindspore", code, errors)
        compare(check, "mindspore " + kind, reference, out)
        with open(os.path.join(out, "manifest.json")) as file:
            for one in json.load(file)["inputs"]:
                check(one["rank"] is None or one["vendor"]["framework"] == "MindSpore", one)
        shutil.rmtree(place)
        shutil.rmtree(out)
        print("    %s: as MindSpore: %d deliverables the same" % (kind, len(SAME)))
