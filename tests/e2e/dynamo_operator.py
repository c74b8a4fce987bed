"""A sweep on a graph of Dynamo, and what stands in for its operator: a loop that makes a graph run as kvist processes and says so in its status."""
import pathlib
import threading
import time

from deployment import Process

PATH = "/apis/nvidia.com/v1beta1/namespaces/default/dynamographdeployments/"
MERGE = "application/merge-patch+json"

# A sweep of the published experiment in small; `more`: further lines of its target.
MODEL = "Llama-70B-FP8"
SWEEP = """name: dynamo
deployment:
  workers:
    count: 4
    model: {model}
    block_size: 32
    max_batch_size: 64
    max_num_tokens: 16384
    max_model_len: 16384
    profile: {{gpu: h100, model: llama-3.1-70b-fp8, engine: trtllm, tensor_parallel: 2, memory_fraction: 0.85, memory_meaning: of_total}}
target:
  url: http://127.0.0.1:{port}
  model: {model}
  dynamo:
    name: llama-70b
    kubeconfig: {kubeconfig}
    ready_timeout: 60 s
    warm_up_requests: 3{more}
workload:
  seed: 11
  turns_min: 2
  turns_max: 3
  starters: 4
  starter_tokens_min: 1500
  starter_tokens_max: 2000
  follow_up_tokens_min: 20
  follow_up_tokens_max: 60
  max_tokens: 40
  target_rps: 100
method: {{warmup: 300 ms, snapshots: 1, snapshot_interval: 1500 ms, window: 1500 ms, drain_timeout: 20 s, repetitions: 2}}
modes: [round_robin, kv]
levels: [2, 4]
"""
GRAPH = """
    graph: {backend: trtllm, image: "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.4.0", model_path: /models/Llama-3.1-70B-FP8}"""

WORKER = """worker:
  name: {name}
  model: {model}
  block_size: 32
  kv_blocks: 4000
  max_batch_size: 64
  time_scale: 50
  drain_timeout: 1 s
"""
GATEWAY = """gateway:
  model: {model}
  mode: {mode}
  block_size: 32
  drain_timeout: 1 s
  http: {{host: 127.0.0.1, port: {port}}}
  admin: {{host: 127.0.0.1, port: 0}}
  workers:
"""


class Operator:
    """Reconciles one graph: workers once, and a frontend for each generation. `modes`: what the frontends were started with."""

    def __init__(self, call, folder, name, port, model):
        """`call`: (method, path, body, content type) -> object; raises what has a `code` where the API server refuses."""
        self.call, self.folder, self.port, self.model = call, pathlib.Path(folder), port, model
        self.path = PATH + name
        self.modes, self.workers, self.frontend, self.problem = [], [], None, None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.reconcile, daemon=True)
        self.thread.start()

    def reconcile(self):
        seen = 0
        while not self.over.is_set():
            try:
                graph = self.call("GET", self.path)
                if graph["metadata"]["generation"] != seen:
                    seen = graph["metadata"]["generation"]
                    self.roll_out(graph)
            except Exception as why:
                if getattr(why, "code", None) != 404:
                    self.problem = why
            time.sleep(0.1)

    def roll_out(self, graph):
        generation = graph["metadata"]["generation"]
        components = {each["name"]: each for each in graph["spec"]["components"]}
        (container,) = components["Frontend"]["podTemplate"]["spec"]["containers"]
        mode = next(each["value"] for each in container["env"] if each["name"] == "DYN_ROUTER_MODE")
        # As the operator does: the condition of the generation before is there still, for a moment.
        time.sleep(0.5)
        self.say(generation, "False", "updating")
        while len(self.workers) < components.get("Worker", {}).get("replicas", 2):
            name = f"dynamo-{len(self.workers)}"
            self.workers.append(Process(self.folder, "worker", name, WORKER.format(name=name, model=self.model)))
        if self.frontend:
            self.frontend.stop()  # one replica: there is an outage
        config = GATEWAY.format(model=self.model, mode=mode.replace("-", "_"), port=self.port)
        for worker in self.workers:
            config += f"    - {{name: {worker.name}, url: '{worker.url}', kv_events: 'tcp://127.0.0.1:{worker.ports['kv_events']}'}}\n"
        self.frontend = Process(self.folder, "gateway", f"frontend-{generation}", config)
        self.modes.append(mode)
        self.say(generation, "True", "all_resources_are_ready")

    def say(self, generation, ready, reason):
        status = {"observedGeneration": generation, "state": "successful" if ready == "True" else "pending",
                  "conditions": [{"type": "Ready", "status": ready, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        self.call("PATCH", self.path + "/status", {"status": status}, MERGE)

    def stop(self):
        self.over.set()
        self.thread.join(30)
        for process in [self.frontend, *self.workers]:
            if process:
                process.stop()
