#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Today's ClickHouse over HTTP: chdb is its engine as a Python module, without the server's ports; here are as much of them as an aggregator asks for.

    chdb_server.py FOLDER PLAIN_PORT SECURE_PORT      (FOLDER/tls.crt, tls.key, password; prints "ready VERSION")

What it answers is the engine's own: statements, types, RowBinary both ways, codes of errors. Of the server it has the two ports with TLS on one
of them, the user and the password in headers or in the address, the database and the settings of an address. It has no rights of users
and no answer while it thinks, and does one statement after the other.
"""
import http.server
import os
import ssl
import sys
import tempfile
import threading
import urllib.parse

from chdb import session

OURS = ("wait_end_of_query", "query", "database", "user", "password")  # words of an address that are no settings


class Engine:
    def __init__(self, folder):
        self.session, self.lock, self.folder = session.Session(os.path.join(folder, "data")), threading.Lock(), folder

    def run(self, database, settings, query, data):
        """(status, body)"""
        with self.lock, tempfile.NamedTemporaryFile(dir=self.folder) as file:
            try:
                self.session.query("USE " + (database or "default"))
                for name, value in settings.items():
                    self.session.query(f"SET {name} = '{value}'")
                if data and not query.endswith(" FORMAT RowBinary"):
                    query += " " + data.decode()
                elif data:  # the module takes text alone, and files
                    file.write(data)
                    file.flush()
                    head, form = query.rsplit(" FORMAT ", 1)
                    query = f"{head} FROM INFILE '{file.name}' FORMAT {form}"
                return 200, self.session.query(query, "TabSeparated").bytes()
            except Exception as error:  # pylint: disable=broad-except
                return 404 if "Code: 60." in str(error) or "Code: 81." in str(error) else 500, str(error).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine = password = None

    def body(self):
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def do_POST(self):
        words = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        body = self.body()
        password = self.headers.get("X-ClickHouse-Key") or words.get("password")
        if password != self.password:
            status, answer = 403, b"Code: 516. DB::Exception: profiler: Authentication failed. (AUTHENTICATION_FAILED)"
        else:
            settings = {name: value for name, value in words.items() if name not in OURS}
            query, data = (words["query"], body) if "query" in words else (body.decode(), b"")
            status, answer = self.engine.run(words.get("database"), settings, query, data)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context = None

    def finish_request(self, request, client_address):
        """In the connection's own thread, where a handshake holds nobody else up."""
        try:
            if self.context:
                request = self.context.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)
        except (OSError, ssl.SSLError):
            pass


def main():
    folder, plain, secure = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    Handler.engine = Engine(folder)
    with open(os.path.join(folder, "password"), encoding="utf-8") as file:
        Handler.password = file.read().rstrip("\n")
    servers = [Server(("127.0.0.1", port), Handler) for port in (plain, secure)]
    servers[1].context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    servers[1].context.load_cert_chain(os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key"))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", Handler.engine.run("", {}, "SELECT version()", b"")[1].decode().strip(), flush=True)
    threading.Event().wait()


main()
