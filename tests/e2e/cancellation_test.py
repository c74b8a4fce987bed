"""A client that disconnects frees its slot, in any phase, also through the gateway."""
import json
import socket
import threading

from deployment import DEADLINE_S, deployment, eventually, metrics, request, run


def open_stream(server, max_tokens, content="hello " * 600):
    """A raw connection with one streaming request in flight."""
    body = json.dumps({"model": "test-model", "stream": True, "max_tokens": max_tokens, "ignore_eos": True,
                       "messages": [{"role": "user", "content": content}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", server.ports["http"]), timeout=DEADLINE_S)
    connection.sendall(head.encode() + body)
    return connection


def read_until(connection, text):
    data = b""
    while text not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece


def leaving_while_decoding_frees_the_slot():
    for through_gateway in (True, False):
        with deployment(workers=1, time_scale=1) as (gateway, workers):
            connection = open_stream(gateway if through_gateway else workers[0], 5000)
            read_until(connection, b'"content"')
            eventually(lambda: metrics(workers[0])["vllm:num_requests_running"] == 1, "running")
            connection.close()
            eventually(lambda: metrics(workers[0])["vllm:num_requests_running"] == 0, "slot free")
            assert metrics(workers[0])["vllm:generation_tokens_total"] < 2500
            assert metrics(workers[0])["vllm:kv_cache_usage_perc"] == 0


def leaving_while_waiting_frees_the_place_in_the_queue():
    with deployment(workers=1, slots=1, time_scale=1) as (gateway, workers):
        running = open_stream(gateway, 5000)
        read_until(running, b'"content"')
        waiting = open_stream(gateway, 5000)
        eventually(lambda: metrics(workers[0])["vllm:num_requests_waiting"] == 1, "waiting")
        waiting.close()
        eventually(lambda: metrics(workers[0])["vllm:num_requests_waiting"] == 0, "queue empty")
        running.close()
        eventually(lambda: metrics(workers[0])["vllm:num_requests_running"] == 0, "slot free")


def leaving_before_the_first_token_frees_the_slot():
    with deployment(workers=1, time_scale=0.05) as (gateway, workers):  # twenty times slower: prefill takes seconds
        connection = open_stream(gateway, 100)
        eventually(lambda: metrics(workers[0])["vllm:num_requests_running"] == 1, "running")
        connection.close()
        eventually(lambda: metrics(workers[0])["vllm:num_requests_running"] == 0, "slot free")


def a_crowd_that_leaves_leaves_nothing_behind():
    with deployment(workers=2, slots=4, time_scale=2) as (gateway, workers):
        crowd = [open_stream(gateway, 4000, f"{i} " * 400) for i in range(24)]
        eventually(lambda: sum(metrics(w)["vllm:num_requests_running"] for w in workers) == 8, "all slots taken")
        closers = [threading.Thread(target=c.close) for c in crowd]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        eventually(lambda: all(metrics(w)["vllm:num_requests_running"] + metrics(w)["vllm:num_requests_waiting"] == 0
                               for w in workers), "workers idle")
        eventually(lambda: json.loads(request(gateway.admin + "/admin/status")[2])["in_flight"] == 0, "gateway idle")


run([
    leaving_while_decoding_frees_the_slot,
    leaving_while_waiting_frees_the_place_in_the_queue,
    leaving_before_the_first_token_frees_the_slot,
    a_crowd_that_leaves_leaves_nothing_behind,
])
