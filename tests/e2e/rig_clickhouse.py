# SPDX-License-Identifier: Apache-2.0
"""A real ClickHouse server of a test's own (Debian's 18.16), with TLS and a password, and what cuts its answers off.

    server = rig_clickhouse.Server(folder)      found() says whether there is one
    server.words("database")                    --store and what belongs to it, for an aggregator

With RANKSCOPE_E2E_STORE=clickhouse the rigs of other tests (rig_native.py) give their aggregators one: shared_words().
With RANKSCOPE_CHDB=1 all of them have today's engine instead (chdb of PyPI, chdb_server.py), in the test's own Python or in RANKSCOPE_CHDB_VENV.
"""
import atexit
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

SEED = 20261125
SERVER = shutil.which("clickhouse-server", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
PASSWORD = "a password of this test"
CHDB_VERSION = "4.4.0"

CONFIG = """<?xml version="1.0"?>
<yandex>
 <logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
 <http_port>{plain}</http_port><https_port>{secure}</https_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
 <openSSL><server><certificateFile>{folder}/tls.crt</certificateFile><privateKeyFile>{folder}/tls.key</privateKeyFile>
  <verificationMode>{mode}</verificationMode>{client_ca}<loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>
 <path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><users_config>{folder}/users.xml</users_config>
 <default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>
</yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex>
 <profiles><default><max_memory_usage>1000000000</max_memory_usage></default>
  <writes><allow_ddl>0</allow_ddl></writes></profiles><quotas><default></default></quotas>
 <users><profiler><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>
  <quota>default</quota></profiler>
  <certified><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></certified>
  <writer><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>writes</profile><quota>default</quota>
   <allow_databases><database>given</database></allow_databases></writer></users>
</yandex>
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_today():
    return os.environ.get("RANKSCOPE_CHDB") == "1"


LACKS = (f"no chdb {CHDB_VERSION} here; RANKSCOPE_CHDB_INSTALL=1 fetches it (900 MB)" if is_today()
         else "no clickhouse-server here (apt-get install clickhouse-server)")


def find_chdb():
    """The Python that has it, or None. RANKSCOPE_CHDB_INSTALL=1: fetched, if it is not there yet."""
    venv = os.environ.get("RANKSCOPE_CHDB_VENV") or os.path.expanduser("~/.cache/rankscope/chdb-" + CHDB_VERSION)
    python, part = os.path.join(venv, "bin", "python3"), venv + ".part"
    if not os.path.exists(python) and os.environ.get("RANKSCOPE_CHDB_INSTALL") == "1":
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", part], check=True, timeout=120, stdout=sys.stderr)
            subprocess.run([os.path.join(part, "bin", "python3"), "-m", "pip", "install", "-q", "chdb==" + CHDB_VERSION], check=True, timeout=900,
                           stdout=sys.stderr)
            os.rename(part, venv)  # its python3 is a link, and finds its packages wherever it lies
        except (OSError, subprocess.SubprocessError) as error:
            print(f"chdb {CHDB_VERSION} cannot be installed here: {error}")
            shutil.rmtree(part, ignore_errors=True)
    return python if os.path.exists(python) else None


def found():
    return find_chdb() is not None if is_today() else SERVER is not None


class Server:
    def __init__(self, folder, client_ca=None):
        """client_ca: who certificates of clients are believed from; they need one then."""
        self.folder = folder
        self.plain, self.secure, tcp = free_port(), free_port(), free_port()
        self.ca = os.path.join(folder, "tls.crt")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", os.path.join(folder, "tls.key"), "-out",
                        self.ca, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"],
                       check=True, capture_output=True)
        for name, text in (("config.xml", CONFIG.format(
                               folder=folder, plain=self.plain, secure=self.secure, tcp=tcp, mode="strict" if client_ca else "none",
                               client_ca=f"<caConfig>{client_ca}</caConfig>" if client_ca else "")),
                           ("users.xml", USERS.format(password=PASSWORD))):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.password = os.path.join(folder, "password")
        with open(self.password, "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        os.chmod(self.password, 0o600)
        self.url = f"clickhouse://profiler@localhost:{self.secure}"
        self.store = ["--store-password", self.password, "--store-ca", self.ca]
        self.log = open(os.path.join(folder, "out"), "wb")
        self.start()

    def words(self, database, url=None):
        return ["--store", f"{url or self.url}/{database}", *self.store]

    def start(self):
        """Again, too, after stop(): the same ports and data."""
        if is_today():
            here = os.path.dirname(os.path.abspath(__file__))
            self.process = subprocess.Popen([find_chdb(), os.path.join(here, "chdb_server.py"), self.folder, str(self.plain), str(self.secure)],
                                            stdout=subprocess.PIPE, stderr=self.log, text=True)
            self.version = self.process.stdout.readline().split()[-1]
            return
        self.process = subprocess.Popen([SERVER, "--config-file=" + os.path.join(self.folder, "config.xml")], stdout=self.log,
                                        stderr=self.log)
        until = time.monotonic() + 60
        while True:
            try:
                if self.sql("SELECT 1") == "1\n":
                    break
            except (urllib.error.URLError, OSError):
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def sql(self, text, database="default"):
        """As somebody who asks the server by himself."""
        query = urllib.parse.urlencode({"user": "profiler", "password": PASSWORD, "database": database})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.plain}/?{query}", data=text.encode()) as answer:
            return answer.read().decode()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.stop()
        self.log.close()


class WithServer(unittest.TestCase):
    """A server for all tests of a class, in a folder of theirs."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="rs-clickhouse-")
        cls.server = Server(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        shutil.rmtree(cls.folder)


class Cutter:
    """Passes requests on, and cuts some off when all of the request was sent and nothing of the answer came."""

    def __init__(self, port, chance):
        self.port, self.chance, self.rng = port, chance, random.Random(SEED)
        self.cuts = 0
        self.left = 0  # cuts
        self.refused = None  # a capture whose rows are answered as a table with too many parts answers
        self.is_ill = False  # whatever it is asked, it fails
        self.refusals = 0
        self.inserts = self.inserts_reused = 0  # of all, those on a connection that was used before: libcurl repeats them by itself
        self.server = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(near,), daemon=True).start()

    def _talk(self, near):
        far = socket.create_connection(("127.0.0.1", self.port))
        other = threading.Thread(target=self._requests, args=(near, far), daemon=True)
        other.start()
        try:
            while data := far.recv(65536):  # something is answered: the request was done
                if self.left > 0 and self.rng.random() < self.chance:
                    self.left -= 1
                    self.cuts += 1
                    break
                near.sendall(data)
        except OSError:
            pass
        for end in (near, far):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        other.join()
        near.close()
        far.close()

    def _requests(self, near, far):
        try:
            is_used = False
            while data := near.recv(65536):
                if data.startswith(b"POST ") and b"INSERT" in data:
                    self.inserts += 1
                    self.inserts_reused += is_used
                is_used = True
                if self.is_ill or (self.refused and self.refused in data and b"INSERT" in data):
                    self.refusals += 1
                    text = b"Code: 252, e.displayText() = DB::Exception: Too many parts (300). Merges are slower than inserts"
                    near.sendall(b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
                    far.shutdown(socket.SHUT_RDWR)
                    return
                far.sendall(data)
        except OSError:
            pass

    def close(self):
        self.server.close()


shared = []
numbers = itertools.count(1)


def shared_words():
    """For an aggregator of any rig: a database of its own in one server, which goes when the process does. Nothing without
    RANKSCOPE_E2E_STORE."""
    if os.environ.get("RANKSCOPE_E2E_STORE", "sqlite") == "sqlite":
        return []
    if not found():
        print("skipped: " + LACKS)
        raise SystemExit(77)
    if not shared:
        folder = tempfile.mkdtemp(prefix="rs-clickhouse-")
        shared.append(Server(folder))
        atexit.register(lambda: (shared[0].close(), shutil.rmtree(folder)))
    return shared[0].words(f"rig{next(numbers)}")
