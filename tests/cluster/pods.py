"""Pods as a kubelet and an endpoint controller would report them: kvist's timed workers as their containers."""
import pathlib

import pod_network
from cluster import MERGE
from deployment import Process

SERVICE = "llm"
WORKER = """worker:
  name: {name}
  model: test-model
  block_size: 32
  kv_blocks: 4000
  max_batch_size: 64
  max_num_tokens: 2048
  time_scale: 20
  drain_timeout: 30 s
  http: {{host: {host}, port: {port}}}
  kv_events_port: {events}
  kv_replay_port: {replay}
  output_length: {{mean_tokens: 60, standard_deviation_tokens: 10}}
"""
PORTS = {"http": 18000, "kv-events": 15557, "kv-replay": 15558}


class Pods:
    """Pods of one Service. `endpoints`: pod -> conditions, as its one slice says. All have the same ports, on addresses of their own."""

    def __init__(self, cluster, folder, namespace="default", first_host=10):
        self.cluster, self.folder, self.namespace = cluster, pathlib.Path(folder), namespace
        self.processes, self.hosts, self.endpoints, self.roles = {}, {}, {}, {}
        self.next_host = first_host
        cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": namespace},
                       "spec": {"clusterIP": "None", "selector": {"app": SERVICE},
                                "ports": [{"name": name, "port": port} for name, port in PORTS.items()]}})

    def create(self, name, role="worker", ready=True):
        host = f"{pod_network.PREFIX}.{self.next_host}"
        self.next_host += 1
        self.cluster.apply({"apiVersion": "v1", "kind": "Pod",
                            "metadata": {"name": name, "namespace": self.namespace, "labels": {"app": SERVICE, "kvist.io/role": role},
                                         "annotations": {"kvist.io/model": "test-model"}},
                            "spec": {"containers": [{"name": "worker", "image": "kvist"}]}})
        config = WORKER.format(name=name, host=host, port=PORTS["http"], events=PORTS["kv-events"], replay=PORTS["kv-replay"])
        self.processes[name] = Process(self.folder, "worker", name, config)
        self.hosts[name], self.roles[name] = host, role
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self.cluster.call("PATCH", path, {"status": {"phase": "Running", "podIP": host, "conditions": [{"type": "Ready", "status": "True"}]}}, MERGE)
        self.endpoints[name] = {"ready": ready, "serving": ready, "terminating": False}

    def end(self, name):
        """The pod gets SIGTERM, as it does when its grace period begins, and is gone when it has ended."""
        self.processes.pop(name).stop()
        self.endpoints.pop(name, None)
        self.cluster.call("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{name}?gracePeriodSeconds=0")

    def publish(self):
        self.cluster.apply({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{SERVICE}-1", "namespace": self.namespace, "labels": {"kubernetes.io/service-name": SERVICE}},
            "ports": [{"name": name, "port": port, "protocol": "TCP"} for name, port in PORTS.items()],
            "endpoints": [{"addresses": [self.hosts[name]], "conditions": conditions,
                           "targetRef": {"kind": "Pod", "name": name, "namespace": self.namespace}}
                          for name, conditions in self.endpoints.items()]})

    def set(self, name, **conditions):
        self.endpoints[name].update(conditions)
        self.publish()

    def ready(self):
        """Those that are to be in the fleet."""
        return {name for name, of in self.endpoints.items() if of["ready"] and not of["terminating"] and self.roles[name] == "worker"}

    def stop(self):
        for name in list(self.processes):
            self.processes.pop(name).stop()
