"""An independent subscriber decodes a worker's KV events and rebuilds exactly the content of its block pool."""
import json
import random
import tempfile
import threading

from deployment import Process, deployment, eventually, gateway_config, get_json, request, run
from pool_view import PoolView, Subscriber

SEED = 20261121


def truth(worker):
    """The pool's content by the worker itself: name -> copies."""
    return {int(name): copies for name, copies in get_json(worker.admin + "/debug/kv_blocks")["blocks"]}


def drive(worker, random_source, requests, words=900):
    """Parallel chats with shared starters, so that blocks are stored, hit, copied and evicted."""
    starters = [" ".join(random_source.choice("the river runs down to sea and back again".split()) for _ in range(words)) for _ in range(6)]

    answers = []

    def chat(content, seed):
        answers.append(request(worker.url + "/v1/chat/completions", {"model": "test-model", "max_tokens": 150, "seed": seed,
                                                                     "messages": [{"role": "user", "content": content}]}))

    threads = []
    for i in range(requests):
        content = random_source.choice(starters)[:random_source.randrange(200, 4000)]
        threads.append(threading.Thread(target=chat, args=(content, i)))
    for start in range(0, len(threads), 12):
        for thread in threads[start:start + 12]:
            thread.start()
        for thread in threads[start:start + 12]:
            thread.join()
    assert [status for status, _, _ in answers] == [200] * requests, answers


def rebuild(worker, subscriber, view):
    expected = truth(worker)

    def rebuilt():
        for frame in subscriber.live(100):
            view.apply(*frame)
        return view.findable() == expected

    eventually(rebuilt, "the events say what the pool holds")


def the_pool_is_rebuilt_exactly_under_eviction():
    print(f"seed {SEED}")
    source = random.Random(SEED)
    with deployment(workers=1, gateway=False, kv_blocks=700, time_scale=2000) as (_, workers):
        subscriber, view = Subscriber(workers[0]), PoolView()
        subscriber.join(workers[0], view)
        for _ in range(3):
            drive(workers[0], source, 36)
            rebuild(workers[0], subscriber, view)
        evictions = get_json(workers[0].admin + "/debug/kv_blocks")["evictions"]
        assert evictions > 100, f"the pool was too large to show removals: {evictions}"
        assert request(workers[0].admin + "/reset_prefix_cache", method="POST")[0] == 200
        rebuild(workers[0], subscriber, view)
        assert view.findable() == {}
        subscriber.close()


def late_subscribers_catch_up_by_replay():
    source = random.Random(SEED + 1)
    with deployment(workers=1, gateway=False, kv_blocks=700, time_scale=2000) as (_, workers):
        drive(workers[0], source, 24)
        subscriber, view = Subscriber(workers[0]), PoolView()
        for frame in subscriber.replay(0):
            view.apply(*frame)
        assert view.findable() == truth(workers[0]) != {}
        middle = view.expected_sequence // 2
        assert [sequence for sequence, _ in subscriber.replay(middle)] == list(range(middle, view.expected_sequence))
        subscriber.close()


def what_is_no_longer_buffered_is_replayed_as_what_it_left_in_the_cache():
    source = random.Random(SEED + 2)
    with deployment(workers=1, gateway=False, kv_blocks=700, time_scale=2000, kv_events_buffer=40) as (_, workers):
        for _ in range(3):
            drive(workers[0], source, 24)
            subscriber, view = Subscriber(workers[0]), PoolView()
            frames = subscriber.replay(0)
            assert len(frames) == 40 and frames[0][0] > 0, [number for number, _ in frames]
            view.expected_sequence = frames[0][0]
            for frame in frames:
                view.apply(*frame)
            assert view.findable() == truth(workers[0]) != {}
            subscriber.close()


def a_gateway_beside_an_old_worker_knows_its_whole_cache():
    source = random.Random(SEED + 3)
    with tempfile.TemporaryDirectory() as folder, deployment(workers=1, gateway=False, kv_blocks=700, time_scale=2000, kv_events_buffer=40) as (_, workers):
        for _ in range(2):
            drive(workers[0], source, 24)
            gateway = Process(folder, "gateway", "gateway", gateway_config(workers, "kv", patient=True))
            try:
                def known():
                    return get_json(gateway.admin + "/admin/status")["workers"][0]

                eventually(lambda: known()["index_exact"], "the index is exact")
                assert known()["indexed_blocks"] == len(truth(workers[0])), known()
                drive(workers[0], source, 12)
                eventually(lambda: known()["index_exact"] and known()["indexed_blocks"] == len(truth(workers[0])), "and stays so")
            finally:
                gateway.stop()


def the_tokens_are_those_of_the_prompt():
    with deployment(workers=1, gateway=False, time_scale=2000) as (_, workers):
        subscriber, view = Subscriber(workers[0]), PoolView()
        messages = [{"role": "user", "content": "A sentence of some length about nothing. " * 9}]
        status, _, text = request(workers[0].url + "/v1/chat/completions", {"model": "test-model", "max_tokens": 100, "messages": messages})
        assert status == 200, text
        answer = json.loads(text)["choices"][0]["message"]["content"]
        for frame in subscriber.replay(0):
            view.apply(*frame)
        conversation = messages + [{"role": "assistant", "content": answer}]
        tokens = json.loads(request(workers[0].url + "/tokenize", {"messages": conversation})[2])["tokens"]
        longest = max((view.prefix(name) for name in view.findable()), key=len)
        assert list(longest) == tokens[:len(longest)]
        prompt_tokens = json.loads(text)["usage"]["prompt_tokens"]
        assert len(longest) > prompt_tokens, "blocks of the answer are findable too"
        subscriber.close()


run([the_pool_is_rebuilt_exactly_under_eviction, late_subscribers_catch_up_by_replay,
     what_is_no_longer_buffered_is_replayed_as_what_it_left_in_the_cache, a_gateway_beside_an_old_worker_knows_its_whole_cache, the_tokens_are_those_of_the_prompt])
