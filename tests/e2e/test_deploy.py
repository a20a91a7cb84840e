#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes, as far as that can be tried without a cluster.

Every command line in them is one that this program understands: it is typed here, with the folders of the pods below one of our own. The
aggregator's init container makes its authority, twice (the second time it is there), the aggregator listens, a collector joins with an
invite for any node and goes on without it after a restart. Their schema is lint_kubernetes, where kubernetes-validate is installed.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import unittest_run

try:
    import yaml
except ImportError:
    print("skipped: there is no python3-yaml (tests/packages.txt)")
    sys.exit(77)

PROGRAM = os.path.abspath(os.environ.get("RANKSCOPE", "build/dev/rankscope"))
MANIFEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/kubernetes/rankscope.yaml")


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rs-kube-")
        os.symlink(PROGRAM, os.path.join(self.folder, "rankscope"))
        for name in ("data", "run", "certs", "spool", "invite", "tmp", "noderun"):
            os.mkdir(os.path.join(self.folder, name))
        with open(MANIFEST, encoding="utf-8") as file:
            documents = list(yaml.safe_load_all(file))
        self.of_kind = {document["kind"]: document for document in documents}
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
            process.wait(120)
            process.stdout.close()
        shutil.rmtree(self.folder)

    def pod(self, kind):
        return self.of_kind[kind]["spec"]["template"]["spec"]

    def here(self, text, places):
        """The text with the pod's folders and hosts replaced by ours."""
        for there, here in places:
            text = text.replace(there, here)
        return text

    def start(self, container, places, environment):
        words = [self.here(word, places) for word in container["args"]]
        own = {name["name"]: self.here(name["value"], places) for name in container["env"] if "value" in name}
        process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={"PATH": self.folder + ":" + os.environ["PATH"], "RANKSCOPE_CONFIG": "", **own,
                                        **environment})
        self.processes.append(process)
        return process

    def test_every_line_works_as_written(self):
        folder = self.folder
        server = [("/run/rankscope", folder + "/run"), ("/data", folder + "/data"), ("0.0.0.0:7070", "127.0.0.1:0"),
                  ("0.0.0.0:7071", "127.0.0.1:0")]
        pod = self.pod("StatefulSet")
        init = pod["initContainers"][0]
        for _ in range(2):
            done = subprocess.run([*init["command"], self.here(init["args"][0], server)], capture_output=True, text=True,
                                  check=False, env={"PATH": folder + ":" + os.environ["PATH"], "RANKSCOPE_CONFIG": ""})
            self.assertEqual(done.returncode, 0, done.stderr)
        shown = subprocess.run(["openssl", "x509", "-in", folder + "/data/certs/tls.crt", "-noout", "-ext", "subjectAltName"],
                               capture_output=True, text=True, check=True).stdout
        service = self.of_kind["Service"]["metadata"]
        collector = self.pod("DaemonSet")["containers"][0]
        for word in collector["args"]:
            for host in re.findall(r"=([a-z.-]+):\d+", word):
                self.assertIn("DNS:" + host, shown)  # under the name that nodes use, it can prove itself
                self.assertTrue(host.startswith(service["name"] + "." + service["namespace"]), host)
        aggregator = self.start(pod["containers"][0], server, {})
        lines = (line for line in iter(aggregator.stdout.readline, "") if " warn " not in line)  # it runs as root here
        said = [next(lines).split()[-1] for _ in range(3)]
        environment = {"PATH": folder + ":" + os.environ["PATH"], "RANKSCOPE_CONFIG": "",
                       "RANKSCOPE_RUNTIME_DIR": folder + "/run", "RANKSCOPE_DATA": folder + "/data"}
        for probe in ("readinessProbe", "livenessProbe"):
            command = pod["containers"][0][probe]["exec"]["command"]
            self.assertEqual(subprocess.run(command, env=environment, check=False, capture_output=True).returncode, 0)
        # what the head of the file tells the operator to type
        invite = subprocess.run([PROGRAM, "certs", "invite", "--any", "500", "--valid", "1h"], env=environment, check=True,
                                capture_output=True, text=True).stdout
        with open(folder + "/invite/invite", "w", encoding="ascii") as file:
            file.write(invite)
        host = "rankscope-aggregator.rankscope.svc"
        node = [("$(NODE_NAME)", "node-7"), ("/invite/", folder + "/invite/"), ("/etc/rankscope/certs", folder + "/certs"),
                ("/var/lib/rankscope/spool", folder + "/spool"), ("/run/rankscope", folder + "/noderun"),
                (host + ":7070", said[0]), (host + ":7071", said[2])]
        alone = {"KINETO_IPC_SOCKET_DIR": folder + "/tmp", "RANKSCOPE_TRACE_DIR": folder + "/tmp/traces"}
        for _ in range(2):
            collector_process = self.start(collector, node, alone)
            until = time.monotonic() + 60
            while "server.collectors                       1" not in subprocess.run(
                    [PROGRAM, "counters"], env=environment, check=True, capture_output=True, text=True).stdout:
                self.assertLess(time.monotonic(), until, "the collector never came")
                self.assertIsNone(collector_process.poll())
                time.sleep(0.1)
            os.path.exists(folder + "/invite/invite") and os.remove(folder + "/invite/invite")
            collector_process.terminate()
            self.assertEqual(collector_process.wait(120), 0)
        aggregator.terminate()
        self.assertEqual(aggregator.wait(120), 0)

    def test_ports_fit_together(self):
        ports = {port["port"] for port in self.of_kind["Service"]["spec"]["ports"]}
        allowed = {port["port"] for rule in self.of_kind["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
        container = {port["containerPort"] for port in self.pod("StatefulSet")["containers"][0]["ports"]}
        said = {int(number) for word in self.pod("StatefulSet")["containers"][0]["args"] for number in re.findall(r":(\d+)$", word)}
        asked = {int(number) for word in self.pod("DaemonSet")["containers"][0]["args"] for number in re.findall(r":(\d+)$", word)}
        self.assertEqual([ports, allowed, container, asked], [said] * 4)
        for kind in ("StatefulSet", "DaemonSet"):
            self.assertEqual(self.of_kind[kind]["spec"]["selector"]["matchLabels"],
                             self.of_kind[kind]["spec"]["template"]["metadata"]["labels"])


if __name__ == "__main__":
    unittest_run.main(verbosity=1)
