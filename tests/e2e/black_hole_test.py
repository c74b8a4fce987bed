"""A worker that fails fast or says nothing gets no more requests, and no client notices: another model after a restart, 401, 404, 500
and garbage as fast answers, a stopped process, a killed process."""
import concurrent.futures
import contextlib
import http.client
import json
import resource
import signal
import tempfile

from deployment import WORKER, Process, eventually, get_json, request, run
from fake_worker import GOOD, FakeWorker

PORTS = "  http: {{host: 127.0.0.1, port: {http}}}\n  kv_events_port: {kv_events}\n  kv_replay_port: {kv_replay}\n"


def chat(gateway, number=0, headers=None, **fields):
    body = {"model": "test-model", "messages": [{"role": "user", "content": f"hello {number} " * 50}], "max_tokens": 20, **fields}
    return request(gateway.url + "/v1/chat/completions", body, headers=headers)


def status(gateway):
    return {worker["name"]: worker for worker in get_json(gateway.admin + "/admin/status")["workers"]}


def metric(gateway, name, **labels):
    """Sum over the samples that have these labels."""
    total = 0.0
    for line in request(gateway.admin + "/metrics")[2].splitlines():
        if line.startswith((name + "{", name + " ")) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def config_of(workers, mode="least_loaded", **settings):
    lines = ["gateway:", "  model: test-model", f"  mode: {mode}", "  block_size: 32", "  pass_client_keys: true", *[f"  {k}: {v}" for k, v in settings.items()],
             "  workers:"]
    for worker in workers:
        lines += [f"    - name: {worker.name}", f"      url: {worker.url}"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def before(workers, **settings):
    """A gateway before these workers, all of which are healthy."""
    with tempfile.TemporaryDirectory() as folder:
        gateway = Process(folder, "gateway", "gateway", config_of(workers, **settings))
        try:
            eventually(lambda: all(w["healthy"] for w in status(gateway).values()), "workers healthy")
            yield gateway
        finally:
            gateway.stop()


@contextlib.contextmanager
def real_workers(count, time_scale=100.0):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started = []
        for i in range(count):
            config = WORKER.format(name=f"worker-{i}", kv_blocks=2000, slots=64, time_scale=time_scale)
            started.append(Process(folder, "worker", f"worker-{i}", config))
            stack.callback(lambda worker=started[-1]: worker.stop())
        yield folder, started


def embed(gateway, number=0, headers=None):
    return request(gateway.url + "/v1/embeddings", {"model": "test-model", "input": f"hello {number}"}, headers=headers)


def one_bad_answer(answer, reason, requests=60, key=None, headers=None, bad_key=None, ask=chat):
    """One of three workers fails every request at once, and so looks idle. No client may notice."""
    with contextlib.ExitStack() as stack:
        workers = [FakeWorker("bad", answer, key=bad_key)] + [FakeWorker(name, key=key) for name in ("good-0", "good-1")]
        for worker in workers:
            stack.callback(worker.close)
        gateway = stack.enter_context(before(workers))
        for i in range(requests):
            code, head, text = ask(gateway, i, headers=headers)
            assert code == 200 and head["x-kvist-worker"].startswith("good"), (i, code, text)
        bad = status(gateway)["bad"]
        assert bad["failures"][reason] == workers[0].posts, (bad, workers[0].posts)
        # Five in a row eject it. Ejections of 5 s, 10 s, ... let few more through, however slow this machine is.
        assert bad["ejection"]["times"] >= 1 and bad["ejection"]["reason"] == reason, bad
        assert workers[0].posts <= 4 + bad["ejection"]["times"], (workers[0].posts, bad)
        assert metric(gateway, "kvist_gateway_attempt_failures_total", worker="bad", reason=reason) == bad["failures"][reason]
        assert metric(gateway, "kvist_gateway_worker_ejections_total", worker="bad") >= 1
        # Once it is well, one request brings it back.
        workers[0].answer, workers[0].key = GOOD, None
        eventually(lambda: chat(gateway, headers=headers)[1]["x-kvist-worker"] and status(gateway)["bad"]["state"] == "healthy", "back")


def a_worker_that_answers_500_is_ejected():
    one_bad_answer((500, "application/json", '{"error":{"message":"broken"}}'), "server_error")


def a_worker_that_answers_404_for_the_model_is_ejected():
    one_bad_answer((404, "application/json", '{"error":{"message":"no such model","code":404}}'), "wrong_model")


def a_worker_with_another_key_is_ejected():
    one_bad_answer(None, "unauthorized", bad_key="Bearer other", key="Bearer right", headers={"Authorization": "Bearer right"})


def a_worker_that_answers_with_a_web_page_is_ejected():
    one_bad_answer((200, "text/html", "<html>welcome</html>"), "garbage")


def a_worker_that_redirects_is_ejected():
    one_bad_answer((302, "text/html", "log in first"), "garbage")


def a_bad_worker_is_ejected_for_embeddings_too():
    one_bad_answer(None, "unauthorized", bad_key="Bearer other", key="Bearer right", headers={"Authorization": "Bearer right"}, ask=embed)
    one_bad_answer((302, "text/html", "log in first"), "garbage", ask=embed)


def a_wrong_key_is_the_clients_fault():
    with contextlib.ExitStack() as stack:
        workers = [FakeWorker(f"good-{i}", key="Bearer right") for i in range(3)]
        for worker in workers:
            stack.callback(worker.close)
        gateway = stack.enter_context(before(workers))
        for i in range(40):
            code, _, text = chat(gateway, i, headers={"Authorization": "Bearer wrong"})
            assert (code, json.loads(text)) == (401, {"error": "Unauthorized"}), (code, text)
        assert all(w["state"] == "healthy" and w["ejection"]["times"] == 0 for w in status(gateway).values())
        assert chat(gateway, headers={"Authorization": "Bearer right"})[0] == 200


def a_clients_error_is_passed_on_unchanged_by_the_first_worker():
    with contextlib.ExitStack() as stack:
        answer = (422, "application/json", '{"error" : "in its own words"}')
        workers = [FakeWorker(f"worker-{i}", answer) for i in range(2)]
        for worker in workers:
            stack.callback(worker.close)
        gateway = stack.enter_context(before(workers))
        for i in range(10):
            code, _, text = chat(gateway, i)
            assert (code, text) == (422, answer[2]), (code, text)
        assert sum(worker.posts for worker in workers) == 10
        assert all(w["state"] == "healthy" for w in status(gateway).values())


def a_worker_restarted_with_another_model_gets_nothing():
    with real_workers(3) as (folder, workers), before(workers) as gateway:
        ports = workers[0].ports
        workers[0].process.send_signal(signal.SIGKILL)
        workers[0].process.wait()
        config = WORKER.format(name="worker-0", kv_blocks=2000, slots=64, time_scale=100.0).replace("test-model", "other-model")

        def restart():
            workers[0] = Process(folder, "worker", "worker-0", config + PORTS.format(**ports))
            return True

        # A port that another process took for a connection meanwhile is soon free again.
        eventually(restart, "started again on its ports")
        try:
            for i in range(40):
                code, head, text = chat(gateway, i)
                assert code == 200 and head["x-kvist-worker"] != "worker-0", (i, code, text)
            eventually(lambda: status(gateway)["worker-0"]["state"] == "other_model", "found out")
            worker = status(gateway)["worker-0"]
            assert worker["model"]["match"] == "other" and worker["model"]["served"] == "other-model", worker
            assert metric(gateway, "kvist_gateway_worker_state", worker="worker-0", state="other_model") == 1
        finally:
            workers[0].stop()


def a_stopped_worker_costs_no_request():
    """Before the first byte, streamed or not: what waits at the stopped worker goes elsewhere."""
    with real_workers(2) as (_, workers), before(workers, mode="round_robin", connect_timeout="60 s") as gateway:
        for i in range(4):
            assert chat(gateway, i)[0] == 200
        workers[0].process.send_signal(signal.SIGSTOP)
        try:
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda i: chat(gateway, i, stream=i % 2 == 0), range(16)))
            assert [code for code, _, _ in answers] == [200] * 16
            assert {head["x-kvist-worker"] for _, head, _ in answers} == {"worker-1"}
            assert all("[DONE]" in text for i, (_, _, text) in enumerate(answers) if i % 2 == 0)
            left = metric(gateway, "kvist_gateway_attempt_failures_total", worker="worker-0", reason="silent")
            assert 1 <= left <= 16, left
            assert metric(gateway, "kvist_gateway_free_retries_total") == left, "a worker just found dead costs nothing"
            assert status(gateway)["worker-0"]["state"] == "stalled"
            decisions = get_json(gateway.admin + "/admin/decisions?limit=100")["decisions"]
            assert any(d["after"].get("failure", "").startswith("silent: ") for d in decisions)
        finally:
            workers[0].process.send_signal(signal.SIGCONT)
        eventually(lambda: status(gateway)["worker-0"]["state"] == "healthy", "goes on")


def a_killed_worker_of_three_costs_no_request():
    with real_workers(3, time_scale=5.0) as (_, workers), before(workers, mode="round_robin") as gateway:
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            answers = [pool.submit(chat, gateway, i, max_tokens=200, ignore_eos=True) for i in range(200)]
            eventually(lambda: status(gateway)["worker-0"]["in_flight"] >= 20, "the load runs")
            workers[0].process.send_signal(signal.SIGKILL)
            workers[0].process.wait()
            codes = [answer.result()[0] for answer in answers]
        assert codes == [200] * 200, [code for code in codes if code != 200]
        assert metric(gateway, "kvist_gateway_retries_over_budget_total") == 0
        assert metric(gateway, "kvist_gateway_attempt_failures_total", worker="worker-0", reason="transport") >= 20
        assert metric(gateway, "kvist_gateway_free_retries_total") >= 20


def a_gateway_without_descriptors_blames_no_worker():
    """No new socket for a while: the gateway says so itself, and its workers are as well as before."""
    with contextlib.ExitStack() as stack:
        workers = [FakeWorker(f"worker-{i}", keeps=False) for i in range(2)]
        for worker in workers:
            stack.callback(worker.close)
        gateway = stack.enter_context(before(workers, threads=1, health_interval="100 ms", silence_timeout="60 s"))
        # Both are kept: no new one can be accepted either.
        for_clients, for_operators = (http.client.HTTPConnection("127.0.0.1", gateway.ports[name], timeout=100) for name in ("http", "admin"))
        for connection in (for_clients, for_operators):
            stack.callback(connection.close)

        def ask(path, body=None):
            connection = for_clients if body else for_operators
            connection.request("POST" if body else "GET", path, body and json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

        body = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}]}
        assert ask("/v1/chat/completions", body)[0] == 200 and ask("/admin/status")[0] == 200
        limits = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (0, limits[1]))
        for _ in range(6):
            code, head, text = ask("/v1/chat/completions", body)
            assert code == 503 and head["Retry-After"] and "the gateway has no socket left" in text, (code, text)
        for worker in json.loads(ask("/admin/status")[2])["workers"]:
            assert worker["state"] == "healthy" and worker["ejection"]["times"] == 0 and sum(worker["failures"].values()) == 0, worker
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, limits)
        assert ask("/v1/chat/completions", body)[0] == 200
        assert metric(gateway, "kvist_gateway_local_exhaustions_total") == 6 * 5, "each request tried four times more"
        assert metric(gateway, "kvist_gateway_requests_total", outcome="exhausted") == 6


def a_stream_that_stands_still_is_broken_off():
    with real_workers(1, time_scale=1.0) as (_, workers), before(workers, stream_idle_timeout="500 ms", connect_timeout="60 s") as gateway:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(stream_until_broken, gateway)
            eventually(lambda: status(gateway)["worker-0"]["output_tokens"] > 3, "it streams")
            workers[0].process.send_signal(signal.SIGSTOP)
            try:
                text = answer.result()
            finally:
                workers[0].process.send_signal(signal.SIGCONT)
        assert b"stood still for too long" in text and b"[DONE]" not in text, text[-300:]
        assert metric(gateway, "kvist_gateway_idle_streams_total") == 1


def stream_until_broken(gateway):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=100)
    body = {"model": "test-model", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4000, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    try:
        return connection.getresponse().read()
    except http.client.IncompleteRead as error:
        return error.partial


if __name__ == "__main__":
    run([a_worker_that_answers_500_is_ejected, a_worker_that_answers_404_for_the_model_is_ejected,
         a_worker_with_another_key_is_ejected, a_worker_that_answers_with_a_web_page_is_ejected, a_worker_that_redirects_is_ejected,
         a_bad_worker_is_ejected_for_embeddings_too, a_wrong_key_is_the_clients_fault, a_clients_error_is_passed_on_unchanged_by_the_first_worker,
         a_worker_restarted_with_another_model_gets_nothing, a_stopped_worker_costs_no_request,
         a_killed_worker_of_three_costs_no_request, a_gateway_without_descriptors_blames_no_worker,
         a_stream_that_stands_still_is_broken_off])
