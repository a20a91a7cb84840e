#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rankscope cluster` from end to end: against what the vendor's tool wrote, against planted truth, and on
broken input.

    golden      every cell of the text and database outputs of 8 ranks; a differing one is printed (where ../shared is)
    planted     generated jobs of several shapes, forms and sizes, checked value by value
    broken      truncated files, missing, duplicate and unfinished ranks, odd names
    defects     where the vendor's tool is wrong: the planted case, the right answer
    compat      --compat msprof-analyze gives the vendor's value there

Jobs are made by the generator of ../shared, without it by tests/support/ascend_job.py; what a broken tree must still give is then
what the sound one gave, which is held against what was planted. RANKSCOPE_CLUSTER_RANKS="8 64 256 1024" makes
planted jobs of those sizes instead, each in six shapes and two layouts, of one step with 60 operations a rank
(RANKSCOPE_CLUSTER_OPS="3x200": of three with 200).
"""
import csv
import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import ascend_inputs  # noqa: E402

PROGRAM = os.environ.get("RANKSCOPE", "rankscope")
GOLDEN = ascend_inputs.GOLDEN
REAL = ascend_inputs.REAL
GENERATE = ascend_inputs.generator()
CHECK = ascend_inputs.checker()
REFERENCE = {}  # form -> what `cluster` gives of the sound job of eight: of the vendor's tool, or of ours, checked
OUTPUT = "cluster_analysis_output"
DOCUMENTS = ("cluster_communication.json", "cluster_communication_matrix.json", "communication_group.json")

FAILED = []


def check(name, is_good, detail=""):
    print("%-92s %s" % (name, "ok" if is_good else "FAILED %s" % (detail,)))
    if not is_good:
        FAILED.append(name)


def cluster(paths, out, *options):
    """Runs the program; (exit code, manifest from --json, stderr)."""
    done = subprocess.run([PROGRAM, "cluster", *([paths] if isinstance(paths, str) else paths), "-o", out, "--json",
                           *options], capture_output=True, text=True)
    try:
        manifest = json.loads(done.stdout)
    except ValueError:
        manifest = None
    return done.returncode, manifest, done.stderr


def generate(where, *options):
    subprocess.run([sys.executable, GENERATE, "--out", where, *options], check=True, stdout=subprocess.DEVNULL)


def rank_dirs(tree):
    """rank -> directory"""
    found = {}
    for path in glob.glob(os.path.join(tree, "*_ascend_pt")):
        found[int(glob.glob(os.path.join(path, "profiler_info_*.json"))[0].rsplit("_", 1)[1][:-5])] = path
    return found


def output_file(directory, name):
    return os.path.join(directory, "ASCEND_PROFILER_OUTPUT", name)


def load(out, name):
    with open(os.path.join(out, OUTPUT, name)) as file:
        return json.load(file)


def table(out, sql, *values):
    with sqlite3.connect(os.path.join(out, OUTPUT, "cluster_analysis.db")) as db:
        return db.execute(sql, values).fetchall()


def steps_csv(out):
    with open(os.path.join(out, OUTPUT, "cluster_step_trace_time.csv"), newline="") as file:
        return list(csv.reader(file))


# ---- golden: every cell ------------------------------------------------------------------------------

def leaves(value, path=()):
    """(path, type and value) of every leaf; objects and lists by key and place."""
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], path + (key,))
        if not value:
            yield path, "{}"
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from leaves(item, path + (i,))
        if not value:
            yield path, "[]"
    else:
        yield path, (type(value).__name__, repr(value))


def unordered(document):
    """communication_group.json lists groups in the order of that run's directory listing."""
    document["collective"].sort()
    document["p2p"].sort()
    document["comm_group_parallel_info"].sort(key=lambda g: (g["type"], g["group_name"]))
    return document


def compare(name, expected, found, reason=lambda cell: None):
    """Two mappings cell by cell; prints each difference with its reason; those without one fail."""
    differing, unexplained = 0, 0
    for cell in sorted(set(expected) | set(found), key=str):
        if expected.get(cell) == found.get(cell):
            continue
        differing += 1
        why = reason(cell)
        unexplained += why is None
        if differing <= 40:
            print("    %s: %s: theirs %r, ours %r: %s"
                  % (name, cell, expected.get(cell), found.get(cell), why or "NO REASON"))
    check("golden %s: %d cells, %d differ, all with a reason" % (name, len(expected), differing),
          unexplained == 0 and expected, "%d without a reason" % unexplained)


def compare_text(theirs, ours):
    for name in DOCUMENTS:
        pair = []
        for where in (theirs, ours):
            document = load(where, name)
            pair.append(dict(leaves(unordered(document) if name == "communication_group.json" else document)))
        compare("text " + name, *pair)
    rows = [{(r[0], r[1], r[2], i): cell for r in steps_csv(where) for i, cell in enumerate(r)}
            for where in (theirs, ours)]
    compare("text cluster_step_trace_time.csv", *rows)


KEYS = {"CommunicationGroupMapping": (0, 2), "ClusterCommunicationTime": (0, 1, 2, 3),
        "ClusterCommunicationBandwidth": (0, 1, 2, 3, 4, 9), "ClusterCommunicationMatrix": (0, 1, 2, 3, 4),
        "ClusterStepTraceTime": (0, 1, 2), "HostInfo": (0,), "RankDeviceMap": (0,), "ClusterBaseInfo": (0,)}


def cells(where, name):
    columns = [(c[1], c[2]) for c in table(where, "SELECT * FROM pragma_table_info(?)", name)]
    found = {("columns",): columns}
    for row in table(where, "SELECT * FROM " + name):
        key = tuple(row[i] for i in KEYS[name])
        for (column, _), cell in zip(columns, row):
            cell = (type(cell).__name__, cell)
            if column == "profilePath":
                cell = os.path.basename(cell[1])
            assert key + (column,) not in found, "a row twice: %r" % (key,)
            found[key + (column,)] = cell
    return found


def compare_db(theirs, ours):
    names = [[r[0] for r in table(where, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
             for where in (theirs, ours)]
    check("golden db: the same tables", names[0] == names[1], names)
    for name in KEYS:
        compare("db " + name, cells(theirs, name), cells(ours, name))


def golden(temp):
    with tarfile.open(os.path.join(GOLDEN, "r8-input.tar.xz")) as tar:
        tar.extractall(temp)
    for form in ("text", "db"):
        for options in ((), ("--compat", "msprof-analyze")):
            out = os.path.join(temp, "golden-" + form + ("-compat" if options else ""))
            code, manifest, told = cluster(os.path.join(temp, form), out, *options)
            check("golden %s %s: exit 0, whole" % (form, " ".join(options)), code == 0 and manifest["state"] == "whole", told)
            theirs = REFERENCE[form] = os.path.join(GOLDEN, "r8-" + form)
            (compare_text if form == "text" else compare_db)(theirs, out)


def made(temp):
    """The job of eight without the vendor's results: ours of the sound trees, held against what was planted."""
    for form, tree in ascend_inputs.made_eight(temp).items():
        out = os.path.join(temp, "reference-" + form)
        code, manifest, told = cluster(tree, out)
        check("made %s: exit 0, whole" % form, code == 0 and manifest["state"] == "whole", told)
        check_planted("job of eight, from " + form, tree, out)
        REFERENCE[form] = out


# ---- planted: shapes, forms, sizes ---------------------------------------------------------------------

def link_tree(source, target):
    """A copy of a directory that shares the files (they are only read)."""
    shutil.copytree(source, target, copy_function=os.link)


def own_copy(path):
    """Makes a shared file the test's own before it is changed."""
    data = open(path, "rb").read()
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)
    return path


def truth(tree):
    with open(os.path.join(tree, "planted.json")) as file:
        return json.load(file)


def check_planted(name, tree, out):
    """The generator's own checker on each form that was written."""
    database = os.path.join(out, OUTPUT, "cluster_analysis.db")
    forms = [form for form, path in (("db", database), ("text", os.path.join(out, OUTPUT, DOCUMENTS[0])))
             if os.path.exists(path)]
    for form in forms:
        if form == "text" and "db" in forms:
            os.rename(database, database + ".aside")
        done = subprocess.run([sys.executable, *CHECK, tree, out], capture_output=True, text=True)
        values = sum(int(line.split(" values ")[0].split()[-1]) for line in done.stdout.splitlines()
                     if " values " in line)
        check("planted %s, %s: %d values" % (name, form, values), done.returncode == 0,
              "\n".join(line for line in done.stdout.splitlines() if "FAILED" in line) + done.stderr)
        if form == "text" and "db" in forms:
            os.rename(database + ".aside", database)
    check("planted %s: something was checked" % name, forms)


def mix(text, db, target, is_db):
    """Rank directories from both trees into one."""
    os.makedirs(target)
    for rank, path in rank_dirs(text).items():
        source = rank_dirs(db)[rank] if is_db(rank) else path
        link_tree(source, os.path.join(target, os.path.basename(path)))
    shutil.copy(os.path.join(text, "planted.json"), target)


def without_group_names(tree):
    """What can be known without metadata: planted groups without their ids and names."""
    planted = truth(tree)
    for group in planted["groups"]:
        group["group_id"] = group["pg_name"] = ""
    with open(os.path.join(tree, "planted.json"), "w") as file:
        json.dump(planted, file)


def with_true_count(tree, text):
    """The generator makes fewer operations than asked for where there are neither tp nor dp groups."""
    planted = truth(tree)
    count = 0
    for directory in rank_dirs(text).values():
        for sides in json.load(open(output_file(directory, "communication.json"))).values():
            count += sum(len([op for op in side if "@" in op]) for side in sides.values())
    planted["comm_ops_per_step"] = count / planted["ranks"] / len(planted["steps"])
    with open(os.path.join(tree, "planted.json"), "w") as file:
        json.dump(planted, file)


def one_shape(temp, name, *options):
    where = os.path.join(temp, name)
    generate(where, "--truth", "full", *options)
    text, db = os.path.join(where, "text"), os.path.join(where, "db")
    for form, tree in (("text", text), ("db", db)):
        if "--no-metadata" in options:
            without_group_names(tree)
        with_true_count(tree, text)
        for wish in ((), ("--form", "both")):
            out = os.path.join(where, "out-%s%d" % (form, len(wish)))
            code, manifest, told = cluster(tree, out, *wish)
            check("planted %s, %s %s: exit 0" % (name, form, " ".join(wish)), code == 0, told)
            check_planted("%s, from %s" % (name, form), tree, out)
    mixed = os.path.join(where, "mixed")
    mix(text, db, mixed, lambda rank: rank % 3 == 0)
    code, manifest, told = cluster(mixed, os.path.join(where, "out-mixed"), "--form", "both")
    check("planted %s, mixed: exit 0, every rank there" % name,
          code == 0 and len(manifest["ranks"]) == truth(text)["ranks"], told)
    check_planted("%s, from mixed" % name, mixed, os.path.join(where, "out-mixed"))
    return where


def planted(temp):
    small = ("--steps", "2", "--comm-ops-per-step", "30", "--microbatches", "2")
    one_shape(temp, "8 ranks tp2 pp2", "--ranks", "8", "--tp", "2", "--pp", "2", *small)
    one_shape(temp, "8 ranks tp1 pp1", "--ranks", "8", "--tp", "1", "--pp", "1", *small)
    one_shape(temp, "8 ranks tp2 pp4 dp1", "--ranks", "8", "--tp", "2", "--pp", "4", *small)
    one_shape(temp, "4 ranks tp1 pp4, a rank a stage", "--ranks", "4", "--tp", "1", "--pp", "4", *small)
    one_shape(temp, "16 ranks without metadata", "--ranks", "16", "--tp", "2", "--pp", "2", "--no-metadata", *small)
    one_shape(temp, "16 ranks, no self links in p2p", "--ranks", "16", "--tp", "2", "--pp", "2",
              "--no-p2p-self-link", *small)
    one_shape(temp, "16 ranks, clocks 900 us apart", "--ranks", "16", "--tp", "4", "--pp", "2",
              "--clock-skew-us", "900", *small)
    one_shape(temp, "64 ranks tp8 pp2", "--ranks", "64", "--tp", "8", "--pp", "2", *small)
    one_merged(temp, "8 ranks merged", "--ranks", "8", "--tp", "2", "--pp", "2", *small)


def one_merged(temp, name, *options):
    """Both forms in one directory: the databases are read."""
    where = os.path.join(temp, name)
    generate(where, "--layout", "merged", "--truth", "full", *options)
    code, manifest, told = cluster(where, where + "-out", "--form", "both")
    check("planted %s: exit 0, the databases were read" % name,
          code == 0 and {rank["form"] for rank in manifest["ranks"]} == {"db"}, told)
    check_planted(name, where, where + "-out")
    return where


def sizes(temp, wanted):
    """Jobs of the wanted sizes in every shape and layout; for a person's patience, not for every build."""
    steps, ops = os.environ.get("RANKSCOPE_CLUSTER_OPS", "1x60").split("x")
    for size in wanted:
        def run(how, shape, *options):
            begun = time.monotonic()
            where = how(temp, "%d ranks %s%s" % (size, shape, "".join(" " + o.strip("-") for o in options)), "--ranks",
                        str(size), "--tp", shape.split()[0][2:], "--pp", shape.split()[1][2:], "--steps", steps,
                        "--comm-ops-per-step", ops, "--microbatches", "2", *options)
            for path in glob.glob(glob.escape(where) + "*"):
                shutil.rmtree(path)
            print("    %.0f s" % (time.monotonic() - begun), flush=True)
        wide, deep = {8: ("tp2 pp2", "tp1 pp4"), 64: ("tp8 pp2", "tp4 pp8"), 256: ("tp8 pp4", "tp4 pp16")}.get(
            size, ("tp8 pp8", "tp16 pp16"))
        run(one_shape, wide)
        run(one_shape, deep)
        run(one_shape, "tp8 pp1")
        run(one_shape, wide, "--no-metadata")
        run(one_shape, wide, "--no-p2p-self-link")
        run(one_shape, wide, "--clock-skew-us", "900")
        run(one_merged, wide)
        run(one_merged, deep, "--clock-skew-us", "900")


# ---- broken input ----------------------------------------------------------------------------------------

def state_of(manifest, rank):
    return next(r["state"] for r in manifest["ranks"] if r["rank"] == rank)


def others_complete(name, out, rank, form, parts=("ops", "links")):
    """Every value of the golden output that is not this rank's is there, and equal."""
    theirs = REFERENCE[form]
    if form == "db":
        for table_name, column in (("ClusterCommunicationTime", "rank_id"), ("ClusterCommunicationBandwidth", "rank_id"),
                                   ("ClusterCommunicationMatrix", "src_rank")):
            sql = "SELECT * FROM %s WHERE %s <> %d" % (table_name, column, rank)
            expected, found = set(table(theirs, sql)), set(table(out, sql))
            check("%s: %s of the others complete (%d rows)" % (name, table_name, len(expected)), expected == found,
                  sorted(expected ^ found, key=str)[:2])
        return
    expected = {cell: value for cell, value in leaves(load(theirs, DOCUMENTS[0])) if cell[3] != str(rank)}
    found = {cell: value for cell, value in leaves(load(out, DOCUMENTS[0])) if cell[3] != str(rank)}
    check("%s: operations of the others complete (%d values)" % (name, len(expected)), expected == found,
          sorted(set(expected) ^ set(found))[:2])
    is_other = lambda cell: not cell[3].startswith("%d-" % rank)
    expected = {cell: value for cell, value in leaves(load(theirs, DOCUMENTS[1])) if is_other(cell)}
    found = {cell: value for cell, value in leaves(load(out, DOCUMENTS[1])) if is_other(cell)}
    check("%s: links of the others complete (%d values)" % (name, len(expected)), expected == found,
          sorted(set(expected) ^ set(found))[:2])


def broken_case(temp, name, form, damage, rank=3):
    tree = os.path.join(temp, "broken " + name + form)
    link_tree(os.path.join(temp, form), tree)
    damage(tree, rank_dirs(tree))
    out = tree + "-out"
    code, manifest, told = cluster(tree, out)
    check("%s, %s: exit 1, state partial" % (name, form), code == 1 and manifest["state"] == "partial", (code, told))
    written = load(out, "rankscope_manifest.json")
    check("%s, %s: the manifest file says the same" % (name, form), written["ranks"] == manifest["ranks"])
    others_complete("%s, %s" % (name, form), out, rank, form)
    return out, manifest, told


def truncate(path, keep=0.6):
    path = own_copy(path)
    os.truncate(path, int(os.path.getsize(path) * keep))


def damage_file(name):
    return lambda tree, dirs: truncate(output_file(dirs[3], name))


def remove_rank(tree, dirs):
    shutil.rmtree(dirs[3])


def unfinish(tree, dirs):
    shutil.rmtree(os.path.join(dirs[3], "ASCEND_PROFILER_OUTPUT"))
    info = own_copy(os.path.join(dirs[3], "profiler_info_3.json"))
    document = json.load(open(info))
    del document["end_info"]
    json.dump(document, open(info, "w"))
    os.mkdir(os.path.join(dirs[3], "PROF_000001_20250615110640_ABC"))


def duplicate(tree, dirs):
    """An older result of rank 3 with other numbers: the newer one counts."""
    older = dirs[3].replace("20250615110640", "20250615110639")
    link_tree(dirs[3], older)
    for name in ("communication.json", "communication_matrix.json", "analysis.db"):
        if os.path.exists(output_file(older, name)):
            os.unlink(output_file(older, name))


def broken(temp):
    out, manifest, told = broken_case(temp, "truncated communication.json", "text", damage_file("communication.json"))
    check("truncated communication.json: rank 3 is partial and named with its file",
          state_of(manifest, 3) == "partial" and "communication.json" in told, told)
    times = [r for r in steps_csv(out) if r[1:3] == ["rank", "3"]]
    check("truncated communication.json: rank 3 keeps its links and step times",
          any(link.startswith("3-") for _, _, _, link, *_ in (c for c, _ in leaves(load(out, DOCUMENTS[1])))) and
          len(times) == 3)
    out, manifest, told = broken_case(temp, "truncated matrix", "text", lambda tree, dirs: truncate(
        output_file(dirs[3], "communication_matrix.json")))
    check("truncated matrix: rank 3 keeps its operations",
          any(cell[3] == "3" for cell, _ in leaves(load(out, DOCUMENTS[0]))))
    out, manifest, told = broken_case(temp, "truncated analysis.db", "db", damage_file("analysis.db"))
    check("truncated analysis.db: rank 3 is named", state_of(manifest, 3) == "failed" and "analysis.db" in told, told)
    for form in ("text", "db"):
        out, manifest, told = broken_case(temp, "rank missing", form, remove_rank)
        check("rank missing, %s: named" % form, state_of(manifest, 3) == "missing" and "rank 3 is missing" in told, told)
        out, manifest, told = broken_case(temp, "unfinished", form, unfinish)
        check("unfinished, %s: named" % form, state_of(manifest, 3) == "failed" and "not finished" in told, told)
        out, manifest, told = broken_case(temp, "duplicate", form, duplicate)
        check("duplicate, %s: told, the newer one read" % form,
              state_of(manifest, 3) == "whole" and "another result of rank 3" in told, told)
        theirs = REFERENCE[form]
        (compare_text if form == "text" else compare_db)(theirs, out)
    odd_names(temp)


def change_analysis(tree, sql):
    """SQL on rank 3's own copy of analysis.db."""
    con = sqlite3.connect(own_copy(output_file(rank_dirs(tree)[3], "analysis.db")))
    con.executescript(sql)
    con.commit()
    con.close()


def spoil_last_leaf(tree, name):
    """The last page of a table is not one any more."""
    path = own_copy(output_file(rank_dirs(tree)[3], "analysis.db"))
    con = sqlite3.connect(path)
    root = con.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    size = con.execute("PRAGMA page_size").fetchone()[0]
    con.close()
    with open(path, "r+b") as file:
        file.seek((root - 1) * size)
        head = file.read(12)
        assert head[0] == 5, "a table of several pages"
        file.seek((int.from_bytes(head[8:12], "big") - 1) * size)
        file.write(b"\xff" * size)


def not_to_be_copied(temp):
    """Ranks whose rows cannot simply be copied, each found out late: what was copied by then is not there twice, nor left behind."""
    moved = "CREATE TEMP TABLE m AS SELECT * FROM CommAnalyzerBandwidth WHERE rowid = 5; DELETE FROM CommAnalyzerBandwidth WHERE " \
            "rowid = 5; INSERT INTO CommAnalyzerBandwidth SELECT * FROM m;"
    floats = "ALTER TABLE CommAnalyzerTime RENAME TO t; CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, group_name TEXT, start_timestamp " \
             "REAL, elapse_time REAL, transit_time REAL, wait_time REAL, synchronization_time REAL, idle_time REAL, step TEXT, type TEXT);" \
             "INSERT INTO CommAnalyzerTime SELECT * FROM t; DROP TABLE t;"
    for name, sql in (("a row out of order", moved), ("floats without fraction", floats)):
        tree = os.path.join(temp, "uncopied " + name)
        link_tree(os.path.join(temp, "db"), tree)
        change_analysis(tree, sql)
        code, manifest, told = cluster(tree, tree + "-out")
        check("%s: exit 0" % name, code == 0, (code, told))
        compare_db(REFERENCE["db"], tree + "-out")
    for part in ("CommAnalyzerTime", "CommAnalyzerBandwidth"):
        out, manifest, told = broken_case(temp, "spoilt " + part, "db", lambda tree, dirs, part=part: spoil_last_leaf(tree, part))
        check("spoilt %s: rank 3 is named" % part, state_of(manifest, 3) != "whole" and "analysis.db" in told, told)
        for name in ("Time", "Bandwidth"):
            rows = table(out, "SELECT count(*) FROM ClusterCommunication%s WHERE rank_id = 3" % name)[0][0]
            check("spoilt %s: nothing of rank 3's operations is left in %s" % (part, name), rows == 0, rows)
    out, manifest, told = broken_case(temp, "spoilt CommAnalyzerMatrix", "db",
                                      lambda tree, dirs: spoil_last_leaf(tree, "CommAnalyzerMatrix"))
    rows = table(out, "SELECT count(*) FROM ClusterCommunicationTime WHERE rank_id = 3")[0][0]
    check("spoilt CommAnalyzerMatrix: rank 3 keeps its operations", rows > 100 and "analysis.db" in told, (rows, told))


def odd_names(temp):
    name = "od'd \"names\" %s; -- \u00e9"
    tree = os.path.join(temp, name)
    link_tree(os.path.join(temp, "text"), tree)
    path = own_copy(output_file(rank_dirs(tree)[3], "communication.json"))
    document = json.load(open(path))
    side = document["step1"]["collective"]
    key = next(k for k in side if "@" in k)
    odd = "hcom_\"all'Reduce\\__\u00e9\U0001f600\t" + "x" * 700 + "@" + key.split("@")[1]
    side[odd] = side.pop(key)
    json.dump(document, open(path, "w"))
    code, manifest, told = cluster(tree, tree + "-out", "--form", "both")
    check("odd names: exit 0", code == 0, told)
    found = [cell for cell, _ in leaves(load(tree + "-out", DOCUMENTS[0])) if cell[2] == odd]
    check("odd names: the operation is there under its name", found and {cell[3] for cell in found} == {"3"})
    rows = table(tree + "-out", "SELECT rank_id FROM ClusterCommunicationTime WHERE hccl_op_name = ?", odd.rsplit("@", 1)[0])
    check("odd names: in the database too", rows == [(3,)], rows)


# ---- where the vendor's tool is wrong ---------------------------------------------------------------------

def change_metadata(tree, change):
    """Edits distributed_args in both places where a rank keeps it."""
    for directory in rank_dirs(tree).values():
        path = own_copy(os.path.join(directory, "profiler_metadata.json"))
        document = json.load(open(path))
        change(document["distributed_args"])
        json.dump(document, open(path, "w"))
        for database in glob.glob(output_file(directory, "ascend_pytorch_profiler_*.db")):
            with sqlite3.connect(own_copy(database)) as db:
                db.execute("UPDATE META_DATA SET value = ? WHERE name = 'distributed_args'",
                           (json.dumps(document["distributed_args"]),))


def two_kinds(tree, group):
    """Rank 0 alone also sends in a collective group: two rank sets for one group."""
    with sqlite3.connect(own_copy(output_file(rank_dirs(tree)[0], "analysis.db"))) as db:
        for name in ("CommAnalyzerTime", "CommAnalyzerBandwidth"):
            row = list(db.execute("SELECT * FROM %s WHERE group_name = ? AND step = 'step1'" % name, (group,)).fetchone())
            row[0], row[-1] = "hcom_send__247_99_1", "p2p"
            db.execute("INSERT INTO %s VALUES (%s)" % (name, ",".join("?" * len(row))), row)


def defects(temp):
    small = ("--ranks", "8", "--tp", "2", "--pp", "2", "--steps", "1", "--comm-ops-per-step", "30", "--microbatches", "2")
    compat = ("--compat", "msprof-analyze")
    # links of send/receive without a local copy: the metadata names their ranks
    generate(os.path.join(temp, "noself"), "--no-p2p-self-link", *small)
    for form in ("text", "db"):
        tree, out = os.path.join(temp, "noself", form), os.path.join(temp, "noself-" + form)
        code, manifest, _ = cluster(tree, out, "--form", "db")
        links = "SELECT count(*) FROM ClusterCommunicationMatrix WHERE hccl_op_name = 'send-total'"
        ours = table(out, links)[0][0]
        code_compat, _, told = cluster(tree, out, "--form", "db", *compat)
        check("unmapped links, %s: kept by way of the metadata; dropped with --compat, and told" % form,
              code == 0 and ours > 0 and table(out, links)[0][0] == 0 and code_compat == 1 and "left out" in told,
              (code, ours, code_compat))
    # without metadata: stages from who sends to whom, no index instead of 0
    generate(os.path.join(temp, "nometa"), "--no-metadata", *small)
    tree, out = os.path.join(temp, "nometa", "db"), os.path.join(temp, "nometa-db")
    cluster(tree, out)
    stages = {r[0] for r in table(out, "SELECT \"index\" FROM ClusterStepTraceTime WHERE type = 'stage'")}
    index = set(table(out, "SELECT dp_index, pp_index, tp_index FROM ClusterStepTraceTime WHERE type = 'rank'"))
    check("no metadata: stages found, index unknown", stages == {"(0,1,2,3)", "(4,5,6,7)"} and index == {(None,) * 3},
          (stages, index))
    cluster(tree, out, *compat)
    stages = table(out, "SELECT count(*) FROM ClusterStepTraceTime WHERE type = 'stage'")
    index = set(table(out, "SELECT dp_index, pp_index, tp_index FROM ClusterStepTraceTime"))
    check("no metadata, --compat: no stages, index 0", stages == [(0,)] and index == {(0, 0, 0)}, (stages, index))
    # context parallelism: rank = ((pp * DP + dp) * CP + cp) * TP + tp
    generate(os.path.join(temp, "cp"), *small)
    for form in ("text", "db"):
        tree, out = os.path.join(temp, "cp", form), os.path.join(temp, "cp-" + form)
        change_metadata(tree, lambda args: args.update(context_parallel_size=2, data_parallel_size=1))
        cluster(tree, out, "--form", "both")
        places = {int(r[2]): tuple(map(int, r[12:15])) for r in steps_csv(out) if r[1] == "rank"}
        check("context parallel, %s: dp, pp, tp index" % form,
              places == {r: (0, r // 4, r % 2) for r in range(8)}, places)
        cluster(tree, out, "--form", "both", *compat)
        check("context parallel, %s, --compat: no index" % form,
              len(steps_csv(out)[0]) == 12 and
              set(table(out, "SELECT dp_index, pp_index, tp_index FROM ClusterStepTraceTime WHERE type = 'rank'")) == {(0, 0, 0)})
    # a group with both kinds and two rank sets: totals once
    generate(os.path.join(temp, "both"), "--no-metadata", *small)
    tree, out = os.path.join(temp, "both", "db"), os.path.join(temp, "both-db")
    group = next(g for g in truth(tree)["groups"] if g["pg_name"] == "tp" and 0 in g["global_ranks"])["group_name"]
    two_kinds(tree, group)
    total = "SELECT elapsed_time FROM ClusterCommunicationTime WHERE group_name = ? AND rank_id = 0 AND hccl_op_name %s"
    cluster(tree, out)
    once = sum(r[0] for r in table(out, total % "<> 'Total Op Info'", group))
    ours = table(out, total % "= 'Total Op Info'", group)[0][0]
    cluster(tree, out, *compat)
    theirs = table(out, total % "= 'Total Op Info'", group)[0][0]
    check("a group of two kinds: the total once; twice with --compat",
          abs(ours - once) < 1e-9 and abs(theirs - 2 * once) < 1e-9, (once, ours, theirs))
    # a missing rank keeps its groups' names
    tree, out = os.path.join(temp, "gone"), os.path.join(temp, "gone-out")
    link_tree(os.path.join(temp, "text"), tree)
    remove_rank(tree, rank_dirs(tree))
    cluster(tree, out)
    everyone = str(tuple(range(8)))
    check("rank missing: groups filed under all their ranks", everyone in load(out, DOCUMENTS[0]))
    kept = [cell for cell, _ in leaves(load(out, DOCUMENTS[1])) if cell[3].endswith("-3")]
    check("rank missing: links to it kept", len(kept) > 0)
    cluster(tree, out, *compat)
    check("rank missing, --compat: filed under those seen", str((0, 1, 2, 4, 5, 6, 7)) in load(out, DOCUMENTS[0]))


def requests(temp):
    for name, words, code in (("no path", [], 2), ("no such path", [os.path.join(temp, "nowhere")], 2),
                              ("an empty directory", [tempfile.mkdtemp(dir=temp)], 2),
                              ("an unknown mode", [os.path.join(temp, "text"), "-m", "everything"], 2)):
        done = subprocess.run([PROGRAM, "cluster", *words], capture_output=True, text=True)
        check("%s: exit %d and a sentence" % (name, code), done.returncode == code and done.stderr, done)
    for mode, there, gone in (("communication_time", DOCUMENTS[0], DOCUMENTS[1]),
                              ("communication_matrix", DOCUMENTS[1], DOCUMENTS[0])):
        out = os.path.join(temp, "mode-" + mode)
        code, _, told = cluster(os.path.join(temp, "text"), out, "-m", mode)
        names = os.listdir(os.path.join(out, OUTPUT))
        check("-m %s writes its own documents" % mode, code == 0 and there in names and gone not in names, (names, told))
    beside = os.path.join(temp, "beside")
    words = ["analyse", "--cluster", "--quiet", os.path.join(temp, "text")]
    done = subprocess.run([PROGRAM, *words, "-o", beside], capture_output=True, text=True)
    cluster(os.path.join(temp, "text"), os.path.join(temp, "alone"))
    check("analyse --cluster writes the same documents beside its own",
          done.returncode <= 1 and os.path.exists(os.path.join(beside, "report.json")) and
          all(open(os.path.join(beside, OUTPUT, name), "rb").read() ==
              open(os.path.join(temp, "alone", OUTPUT, name), "rb").read()
              for name in DOCUMENTS + ("cluster_step_trace_time.csv",)), done)
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
    check("analyse --cluster without --out: exit 2 and why", done.returncode == 2 and "--out" in done.stderr, done)
    one, many = os.path.join(temp, "jobs1"), os.path.join(temp, "jobs4")
    cluster(os.path.join(temp, "text"), one, "--form", "text", "--jobs", "1")
    cluster(os.path.join(temp, "text"), many, "--form", "text", "--jobs", "4")
    read = lambda out, name: open(os.path.join(out, OUTPUT, name), "rb").read()
    check("same input, same bytes, whatever --jobs",
          all(read(one, name) == read(many, name) for name in DOCUMENTS + ("cluster_step_trace_time.csv",)))


def mindspore(temp):
    """The other framework's directories: their names, their word for the operation, CANN's own database."""
    for form in ("text", "db"):
        tree = os.path.join(temp, "mindspore-" + form)
        link_tree(os.path.join(temp, form), tree)
        for rank, directory in rank_dirs(tree).items():
            matrix, database = output_file(directory, "communication_matrix.json"), output_file(directory, "analysis.db")
            if form == "text":
                text = open(own_copy(matrix)).read().replace('"Op Name"', '"op_name"')
                open(matrix, "w").write(text)
            else:
                os.rename(own_copy(database), output_file(directory, "communication_analyzer.db"))
                with sqlite3.connect(output_file(directory, "communication_analyzer.db")) as db:
                    db.execute("DROP TABLE StepTraceTime")
                    for name in ("CommAnalyzerTime", "CommAnalyzerBandwidth", "CommAnalyzerMatrix"):
                        db.execute("DELETE FROM %s WHERE step <> 'step1'" % name)
                        db.execute("ALTER TABLE %s DROP COLUMN step" % name)
                        db.execute("ALTER TABLE %s DROP COLUMN type" % name)
                os.rename(output_file(directory, "ascend_pytorch_profiler_%d.db" % rank),
                          output_file(directory, "ascend_mindspore_profiler_%d.db" % rank))
            os.rename(directory, directory.replace("_ascend_pt", "_ascend_ms"))
        out = tree + "-out"
        code, manifest, told = cluster(tree, out)
        check("mindspore %s: exit 0" % form, code == 0, told)
        if form == "text":
            compare_text(REFERENCE["text"], out)
            continue
        columns = "hccl_op_name, group_name, rank_id, elapsed_time, wait_time FROM ClusterCommunicationTime WHERE step = "
        theirs = set(table(REFERENCE["db"], "SELECT " + columns + "'step1'"))
        ours = set(table(out, "SELECT " + columns + "'step'"))
        check("mindspore db: the operations without a step (%d rows)" % len(theirs), theirs == ours,
              sorted(theirs ^ ours, key=str)[:2])
        kinds = "SELECT type, group_name FROM CommunicationGroupMapping ORDER BY 2"
        check("mindspore db: p2p told by the operation's name",
              table(out, kinds) == table(REFERENCE["db"], kinds))
    both = os.path.join(temp, "mindspore-both")
    link_tree(os.path.join(temp, "mindspore-text"), os.path.join(both, "ms"))
    link_tree(os.path.join(temp, "text"), os.path.join(both, "pt"))
    code, _, told = cluster(both, both + "-out")
    check("both frameworks at once: exit 2 and why", code == 2 and "MindSpore" in told, told)


def real(temp):
    """Two of eight ranks of a real job: what is there is complete, what is missing is told."""
    if not os.path.isdir(REAL):
        return
    for form in ("text", "db"):
        out = os.path.join(temp, "real-" + form)
        code, manifest, told = cluster(os.path.join(REAL, "level1-" + form), out, "--form", "both")
        check("real %s: exit 1, links to absent ranks are told" % form, code == 1 and "left out" in told, told)
        document = load(out, DOCUMENTS[0])
        (ranks, steps), = document.items()
        check("real %s: group of the two, one step, 4 operations" % form,
              ranks == "(0, 1)" and list(steps) == ["step50"] and len(steps["step50"]) == 5)
        if form == "text":
            with open(output_file(os.path.join(REAL, "level1-text/rank0_ascend_pt"), "communication.json")) as file:
                own = json.load(file)["step50"]["collective"]
            ours = {op: ranks["0"] for op, ranks in steps["step50"].items() if not op.startswith("Total")}
            del own["Total Op Info"]
            check("real text: every operation of rank 0 as the file has it", json.dumps(own) == json.dumps(ours))


def main():
    wanted = [int(word) for word in os.environ.get("RANKSCOPE_CLUSTER_RANKS", "").split()]
    with tempfile.TemporaryDirectory(prefix="rankscope-cluster-") as temp:
        if wanted:
            sizes(temp, wanted)
            print("FAILED: " + "; ".join(FAILED) if FAILED else "all passed")
            return 1 if FAILED else 0
        if ascend_inputs.has_shared():
            made(os.path.join(temp, "made"))
            golden(temp)
        else:
            made(temp)
        planted(temp)
        broken(temp)
        not_to_be_copied(temp)
        defects(temp)
        requests(temp)
        mindspore(temp)
        real(temp)
    print("FAILED: " + "; ".join(FAILED) if FAILED else "all passed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
