"""What stands in for the controllers, the kubelet, the pods' network and the cluster's DNS: a loop that makes Deployments run as processes of this
machine, each with an address of its own, and says so as they would."""
import json
import pathlib
import signal
import subprocess
import threading
import time
import urllib.request

import pod_network
from cluster import APPLY, MERGE, Refused
from deployment import BINARY

SETTINGS = "kvist.io/settings"
PLACE = "/etc/kvist/"


class Pod:
    def __init__(self, folder, name, host, hosts, template):
        (container,) = template["spec"]["containers"]
        (file,) = [item["path"] for volume in template["spec"]["volumes"] if volume["name"] == "settings" for item in volume["downwardAPI"]["items"]]
        self.host = host
        self.ports = [{"name": each["name"], "port": each["containerPort"], "protocol": "TCP"} for each in container["ports"]]
        settings = pathlib.Path(folder) / f"{name}-{file}"
        # All addresses of a pod are its one address: here they are those of a whole machine.
        settings.write_text(template["metadata"]["annotations"][SETTINGS].replace("0.0.0.0", host))
        arguments = [str(settings) if each == PLACE + file else each for each in container["args"]]
        self.log = open(pathlib.Path(folder) / f"{name}.log", "ab")
        # Names of Services: a file of its own in the place of /etc/hosts.
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, BINARY, *arguments],
                                        stdout=self.log, stderr=self.log)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"http://{self.host}:8000/health", timeout=1).status == 200
        except OSError:
            return False

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        self.log.close()


class StandIns:
    """`paused`: nothing new is started. `started`: names of Deployments, in the order in which pods of theirs began."""

    def __init__(self, call, folder, namespace="default", first_host=20):
        self.call, self.folder, self.namespace = call, pathlib.Path(folder), namespace
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.addresses, self.pods, self.seen, self.started = {}, {}, {}, []
        self.next_host, self.paused, self.problem = first_host, False, None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            try:
                self.reconcile()
            except Exception as why:  # told by the test
                self.problem = why
            time.sleep(0.1)

    def reconcile(self):
        wanted = {each["metadata"]["name"]: each for each in
                  self.call("GET", f"/apis/apps/v1/namespaces/{self.namespace}/deployments")["items"]}
        for name in list(self.pods):
            uid = wanted[name]["metadata"]["uid"] if name in wanted else None
            if self.seen[name][0] != uid:
                self.pods.pop(name).end()
                self.publish(name, None)
        if self.paused:
            return
        for name, each in wanted.items():
            version = (each["metadata"]["uid"], each["metadata"]["generation"])
            if name not in self.pods or self.seen[name] != version:
                self.start(name, each, version)
        for name, pod in self.pods.items():
            ready = pod.is_ready()
            self.publish(name, pod if ready else None)
            self.say(name, self.seen[name][1], ready)

    def start(self, name, deployment, version):
        if name in self.pods:
            self.pods.pop(name).end()
        if name not in self.addresses:
            self.addresses[name] = f"{pod_network.PREFIX}.{self.next_host}"
            self.next_host += 1
            with open(self.hosts, "a") as file:
                file.write(f"{self.addresses[name]} {name}.{self.namespace}.svc\n")
        self.pods[name] = Pod(self.folder, name, self.addresses[name], self.hosts, deployment["spec"]["template"])
        self.seen[name] = version
        self.started.append(name)

    def say(self, name, generation, ready):
        status = {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": int(ready), "availableReplicas": int(ready)}
        try:
            self.call("PATCH", f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}/status", {"status": status}, MERGE)
        except Refused as why:
            if why.code != 404:
                raise

    def publish(self, name, pod):
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices/{name}-1"
        endpoints = [{"addresses": [pod.host], "conditions": {"ready": True, "serving": True, "terminating": False},
                      "targetRef": {"kind": "Pod", "name": name, "namespace": self.namespace}}] if pod else []
        ports = pod.ports if pod else []
        self.call("PATCH", f"{path}?fieldManager=endpoints&force=true", {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{name}-1", "namespace": self.namespace, "labels": {"kubernetes.io/service-name": name}},
            "ports": ports, "endpoints": endpoints}, APPLY)

    def stop(self):
        self.over.set()
        self.thread.join(30)
        for pod in self.pods.values():
            pod.end()
