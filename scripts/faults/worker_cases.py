"""Workers that die, stop and come back, under many streams."""
import contextlib
import pathlib
import signal
import tempfile
import time

from deployment import create_model, eventually
from fleet import check_answers, check_index, fleet, worker_config
from streams import NEW, median

CPU = """worker:
  name: {name}
  model: test-model
  tokenizer: {model}
  block_size: 32
  kv_blocks: 2000
  max_batch_size: 128
  max_num_tokens: 512
  cpu: {{model: {model}, threads: 1, memory: 1 GiB}}
"""


def await_begun(crowd, count):
    eventually(lambda: crowd.begun() >= count, f"{count} streams have begun")


def check_moves(case, deployed, least):
    """A begun answer that lost its worker moved; none was refused that, and no retry was missing."""
    case.least("answers that went on at another worker", deployed.metric("migrations_total"), least)
    case.equal("answers that could not go on", deployed.metric("migrations_refused_total"), 0)
    case.equal("retries not made for want of budget", deployed.metric("retries_over_budget_total"), 0)


def killed_before_the_first_byte(case, streams):
    with fleet(scales=(0.02, 1.0, 1.0)) as deployed:
        crowd = deployed.crowd(streams)
        wanted = streams // 10
        eventually(lambda: deployed.status()["worker-0"]["in_flight"] >= wanted and crowd.begun() >= wanted, "the load is distributed")
        deployed.signal(0, signal.SIGKILL)
        check_answers(case, crowd.answers())
        lost = deployed.metric("attempt_failures_total", worker="worker-0", reason="transport")
        moved = deployed.metric("migrations_total")
        case.least("requests that the dead worker had", lost, wanted)
        case.least("of those, begun anew elsewhere as nothing had been sent", lost - moved, 1)
        case.least("retries that cost no budget", deployed.metric("free_retries_total"), wanted)
        case.equal("retries not made for want of budget", deployed.metric("retries_over_budget_total"), 0)
        case.note("seconds until all were answered", crowd.seconds)


def killed_in_mid_stream(case, streams, max_tokens=240):
    with fleet() as deployed:
        crowd = deployed.crowd(streams, max_tokens)
        await_begun(crowd, streams)
        deployed.signal(0, signal.SIGKILL)
        check_answers(case, crowd.answers(), max_tokens)
        check_moves(case, deployed, streams // 10)
        deployed.start_again(0)
        eventually(lambda: deployed.status()["worker-0"]["state"] == "healthy", "taken back")
        check_index(case, deployed)


def computing_worker_killed_in_mid_stream(case, streams, max_tokens=120):
    """Tokens of a model that is computed: what is continued wrongly would say something else."""
    with tempfile.TemporaryDirectory() as folder:
        model = create_model(pathlib.Path(folder) / "model")
        configs = [CPU.format(name=f"worker-{i}", model=model) for i in range(3)]
        with fleet(configs=configs, tokenizer=model) as deployed:
            crowd = deployed.crowd(streams, max_tokens)
            eventually(lambda: sum(len(stream.data) > 1000 for stream in crowd.streams) >= streams // 4, "a quarter has begun")
            deployed.signal(0, signal.SIGKILL)
            check_answers(case, crowd.answers(), max_tokens, config=CPU.format(name="undisturbed", model=model))
            lost = deployed.metric("attempt_failures_total", worker="worker-0", reason="transport")
            case.least("requests that the dead worker had", lost, 1)
            check_moves(case, deployed, 1)


def restart_each(case, streams, how, max_tokens=400):
    with fleet() as deployed:
        crowd = deployed.crowd(streams, max_tokens)
        await_begun(crowd, streams)
        for i in range(len(deployed.workers)):
            if how == signal.SIGKILL:
                deployed.signal(i, how)
            else:
                deployed.workers[i].stop(how)
            deployed.start_again(i)
            eventually(lambda: deployed.status()[f"worker-{i}"]["state"] == "healthy", "taken back")
        check_answers(case, crowd.answers(), max_tokens)
        case.equal("answers that could not go on", deployed.metric("migrations_refused_total"), 0)
        case.note("moves", deployed.metric("migrations_total"))
        again = deployed.crowd(streams, first=NEW).answers()
        check_answers(case, again, first=NEW, when="afterwards: ")
        used = {answer.fields.get("x-kvist-worker") for answer in again}
        case.equal("workers that are used again", len(used), len(deployed.workers))
        check_index(case, deployed)


def restarted_with_another_model(case, streams):
    with fleet() as deployed:
        crowd = deployed.crowd(streams)
        await_begun(crowd, streams)
        deployed.signal(0, signal.SIGKILL)
        deployed.start_again(0, worker_config("worker-0", model="other-model"))
        eventually(lambda: deployed.status()["worker-0"]["state"] == "other_model", "found out")
        check_answers(case, crowd.answers())
        check_answers(case, deployed.crowd(streams).answers(), when="afterwards: ")
        case.equal("requests that the other model answered", deployed.finished(0), 0)
        case.equal("state of the worker", deployed.status()["worker-0"]["state"], "other_model")
        deployed.signal(0, signal.SIGKILL)
        deployed.start_again(0)
        eventually(lambda: deployed.status()["worker-0"]["state"] == "healthy", "with the right model again")
        # What is cached nowhere: the others have the prompts so far.
        check_answers(case, deployed.crowd(streams, first=NEW).answers(), first=NEW, when="with its model again: ")
        case.least("requests that it answers then", deployed.finished(0), 1)


@contextlib.contextmanager
def stopped(deployed, i):
    deployed.signal(i, signal.SIGSTOP)
    try:
        yield
    finally:
        deployed.signal(i, signal.SIGCONT)


def check_goes_on(case, deployed, streams):
    # One that was ejected before its health checks failed waits for a request that tries it out.
    eventually(lambda: deployed.status()["worker-0"]["state"] in ("healthy", "trial"), "goes on")
    check_answers(case, deployed.crowd(streams, first=NEW).answers(), first=NEW, when="afterwards: ")
    eventually(lambda: deployed.status()["worker-0"]["state"] == "healthy", "tried out")
    case.equal("its state afterwards", deployed.status()["worker-0"]["state"], "healthy")
    check_index(case, deployed)


def stopped_before_the_first_byte(case, streams):
    with fleet() as deployed:
        calm = deployed.crowd(streams)
        check_answers(case, calm.answers(), when="undisturbed: ")
        with stopped(deployed, 0):
            crowd = deployed.crowd(streams)
            check_answers(case, crowd.answers())
        lost = deployed.metric("attempt_failures_total", worker="worker-0", reason="silent")
        case.least("requests that left the silent worker", lost, 1)
        case.note("seconds to the slowest first token, undisturbed and with a stopped worker",
                  f"{calm.slowest_first():.1f} and {crowd.slowest_first():.1f}")
        check_goes_on(case, deployed, streams)


@contextlib.contextmanager
def in_mid_stream(case, streams):
    """(deployed, crowd) while each stream has begun; afterwards the fleet has to go on."""
    with fleet() as deployed:
        crowd = deployed.crowd(streams)
        await_begun(crowd, streams)
        yield deployed, crowd
        check_goes_on(case, deployed, streams)


def stopped_in_mid_stream(case, streams):
    with in_mid_stream(case, streams) as (deployed, crowd):
        with stopped(deployed, 0):
            check_answers(case, crowd.answers())
        check_moves(case, deployed, streams // 10)
        case.note("seconds until all were answered", crowd.seconds)


def stopped_for_a_second(case, streams):
    """No answer has to move, and none may be harmed."""
    with in_mid_stream(case, streams) as (deployed, crowd):
        with stopped(deployed, 0):
            time.sleep(1)
        check_answers(case, crowd.answers())
        case.note("moves", deployed.metric("migrations_total"))
        case.note("median seconds to the first token", median(stream.ttft for stream in crowd.streams))


CASES = {
    "killed-before-first-byte": ("A worker is killed before the first byte of its answers", killed_before_the_first_byte),
    "killed-mid-stream": ("A worker is killed in the middle of its answers, and started again", killed_in_mid_stream),
    "killed-computing": ("A worker that computes a model is killed in the middle of its answers", computing_worker_killed_in_mid_stream),
    "each-killed": ("Each of three workers is killed and started again, one after the other, under the same streams",
                    lambda case, streams: restart_each(case, streams, signal.SIGKILL)),
    "each-restarted": ("Each of three workers is asked to end and started again, one after the other, under the same streams",
                       lambda case, streams: restart_each(case, streams, signal.SIGTERM)),
    "other-model": ("A worker comes back with another model", restarted_with_another_model),
    "stopped-before-first-byte": ("A worker is stopped (SIGSTOP) before the requests come", stopped_before_the_first_byte),
    "stopped-mid-stream": ("A worker is stopped (SIGSTOP) in the middle of its answers", stopped_in_mid_stream),
    "stopped-one-second": ("A worker is stopped for a second and continued", stopped_for_a_second),
}
