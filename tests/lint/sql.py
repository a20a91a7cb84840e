#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQL stands in the store and the model only, and named reads are SQL that SQLite and ClickHouse both speak.

1. Outside aggregator/store, aggregator/model and the ascend wing no file calls sqlite3_* or holds a statement. Files that
   still do are listed in STILL with the reason; one that does not any more has to leave the list.
2. aggregator/model/reads.def: SELECT, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, UNION ALL, JOIN, IN, CASE, and the functions
   coalesce, count, sum, min, max. Not: WITH, windows, division, LIKE and functions of texts, other joins, parameters
   without a name, a second JOIN in one SELECT; every read says its order. (unit_aggregator_store_clickhouse_test asks both engines.)

The rules are tried on statements that break them first; exit 1 on any finding.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("aggregator/store/", "aggregator/model/", "ascend/")
STILL = {
}
STATEMENT = re.compile(
    r'"\s*(?:SELECT\s+\w|INSERT\s+(?:OR\s+\w+\s+)?INTO\s|CREATE\s+(?:TABLE|INDEX|VIEW)\s|DELETE\s+FROM\s|'
    r'UPDATE\s+\w+\s+SET\s|PRAGMA\s|ATTACH\s)')
CALL = re.compile(r"\bsqlite3_\w+\s*\(|#\s*include\s*<sqlite3\.h>|\bstruct\s+sqlite3")
FUNCTIONS = {"coalesce", "count", "sum", "min", "max"}
WORDS_BEFORE_A_PARENTHESIS = {"in", "from", "and", "or", "not", "on", "as", "when", "then", "else", "select", "where", "by"}


def read_problems(sql):
    """What is wrong with the SQL of a read."""
    text = re.sub(r"'[^']*'", "''", sql)
    lower = text.lower()
    found = []
    for pattern, what in (
            (r"\bwith\b", "WITH"), (r"\bover\b", "a window"), (r"/", "division"), (r"%", "remainder"),
            (r"\|\|", "joined texts"), (r"\blike\b|\bglob\b|\bregexp\b", "matching of texts"),
            (r"\bleft\b|\bright\b|\bfull\b|\bcross\b|\bnatural\b", "a join that is not on equalities"),
            (r"\?", "a parameter without a name"), (r"\bnulls\s+(?:first|last)\b", "ordered NULLs"),
            (r"\binsert\b|\bupdate\b|\bdelete\b|\bcreate\b|\bdrop\b|\bpragma\b|\battach\b", "more than reading"),
            (r"\brecursive\b|\bexists\b", "a correlated subquery"), (r";", "more than one statement"),
            (r"\bunion\b(?!\s+all\b)", "UNION without ALL")):
        if re.search(pattern, lower):
            found.append(what)
    for name in re.findall(r"\b([a-z_]\w*)\s*\(", lower):
        if name not in FUNCTIONS | WORDS_BEFORE_A_PARENTHESIS:
            found.append(f"function {name}")
    joins = [0]  # of each SELECT that is open; a subquery stands in parentheses
    for word in re.findall(r"[()]|\b(?:join|union)\b", lower):
        if word == "(":
            joins.append(0)
        elif word == ")" and len(joins) > 1:
            joins.pop()
        elif word == "union":
            joins[-1] = 0
        elif word == "join":
            joins[-1] += 1
            if joins[-1] == 2:
                found.append("a second join in one SELECT")
    if not lower.startswith("select "):
        found.append("no SELECT")
    if "order by" not in lower:
        found.append("no order")
    return found


def reads(text):
    """(name, SQL or None) of each R() of reads.def."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for match in re.finditer(r"\bR\(\s*\w+\s*,\s*(\w+)\s*,\s*(NULL|(?:\"(?:[^\"\\]|\\.)*\"\s*)+)\s*,", text):
        sql = match.group(2)
        yield match.group(1), None if sql.strip() in ("NULL", '""') else "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sql))


def rules_hold():
    bad = {
        "WITH x AS (SELECT 1) SELECT * FROM x ORDER BY a": "WITH",
        "SELECT a, row_number() OVER (ORDER BY a) FROM t ORDER BY a": "a window",
        "SELECT a / b FROM t ORDER BY a": "division",
        "SELECT substr(a, 1) FROM t ORDER BY a": "function substr",
        "SELECT a FROM t": "no order",
        "SELECT a FROM t LEFT JOIN u ON u.a = t.a ORDER BY a": "a join that is not on equalities",
        "SELECT a FROM t JOIN u ON u.a = t.a JOIN v ON v.a = t.a ORDER BY a": "a second join in one SELECT",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) ORDER BY a": "a correlated subquery",
        "SELECT a FROM t WHERE a = ? ORDER BY a": "a parameter without a name",
        "DELETE FROM t": "more than reading",
    }
    wrong = [f"{sql}: not refused as {what}" for sql, what in bad.items() if what not in read_problems(sql)]
    good = "SELECT a, sum(b) AS c FROM t WHERE a IN (SELECT a FROM u WHERE d = 'x/y') GROUP BY a ORDER BY a"
    wrong += [f"{good}: refused as {what}" for what in read_problems(good)]
    for line in ('run(db, "SELECT a FROM t");', 'sqlite3_step(statement);', 'x = "INSERT OR FAIL INTO t";'):
        if not (STATEMENT.search(line) or CALL.search(line)):
            wrong.append(f"{line}: not seen")
    return wrong


def main():
    problems = rules_hold()
    seen = 0
    for folder in ("common", "collector", "aggregator", "ascend", "cli"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix not in (".c", ".h", ".def") or name.startswith(ROOMS):
                continue
            seen += 1
            lines = [number for number, line in enumerate(path.read_text().splitlines(), 1)
                     if STATEMENT.search(line) or CALL.search(line)]
            if lines and name not in STILL:
                problems.append(f"{name}:{lines[0]}: SQL outside the store and the model")
            if not lines and name in STILL:
                problems.append(f"{name}: no SQL any more: take it off the list in tests/lint/sql.py")
    for name in STILL:
        if not (ROOT / name).exists():
            problems.append(f"{name}: gone: take it off the list in tests/lint/sql.py")
    count = 0
    for name, sql in reads((ROOT / "aggregator/model/reads.def").read_text()):
        count += 1
        for what in read_problems(sql) if sql else ():
            problems.append(f"reads.def: {name}: {what}")
    if count < 10:
        problems.append(f"reads.def: only {count} reads were found")
    for problem in problems:
        print(problem)
    print(f"sql: {seen} files outside the rooms, {count} reads, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
