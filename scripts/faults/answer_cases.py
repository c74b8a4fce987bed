"""A worker beside two good ones that looks well and answers badly."""
from bad_worker import ANSWERS, BadWorker
from fleet import check_answers, fleet, one
from streams import NEW, greedy

TOKENS = 60
# Of the second crowd, what may still try the bad worker: a fair share would be a third.
TRIALS = 0.1
SINGLE = 40
SLOW = ("nothing at all", "slow head", "slow body")


def begin(deployed, kind):
    """The bad worker has to be known before the gateway starts: it is added by a restart of the gateway."""
    bad = BadWorker(deployed.background, kind)
    deployed.others.append(bad)
    deployed.gateway.stop()
    deployed.start_gateway()
    return bad


def bad_answer(kind):
    def case_of(case, streams):
        with fleet(scales=(1.0, 1.0)) as deployed:
            bad = begin(deployed, kind)
            crowd = deployed.crowd(streams, TOKENS)
            check_answers(case, crowd.answers(), TOKENS)
            case.least("requests that tried the bad worker", bad.posts, 1)
            # Connections that all break at once are one event, which may be the network's. So there is time for some more.
            if kind not in SLOW:
                single = [one(deployed, greedy(2 * NEW + i, 1), f"single-{i}") for i in range(SINGLE)]
                check_answers(case, single, 1, 2 * NEW, when="one after the other: ")
            tried = bad.posts
            # Other prompts: what the good workers have cached would stay with them anyway.
            check_answers(case, deployed.crowd(streams, TOKENS, first=NEW).answers(), TOKENS, NEW, when="the next ones: ")
            case.most("of the next ones, those that tried it", bad.posts - tried, int(TRIALS * streams))
            state = deployed.status()["bad"]
            reasons = ", ".join(f"{reason} {count}" for reason, count in state["failures"].items() if count)
            case.note("its state", state["state"])
            case.note("its failures", reasons or "none")
            case.note("ejections", state["ejection"]["times"])
            case.note("seconds until the first ones were answered", crowd.seconds)

    return case_of


def broken_off(case, streams):
    """The stream of a foreign engine cannot go on elsewhere: its clients are told, and it gets no more of them."""
    with fleet(scales=(1.0, 1.0)) as deployed:
        bad = begin(deployed, "broken off in mid-stream")
        answers = deployed.crowd(streams, TOKENS).answers()
        broken = [answer for answer in answers if not answer.whole]
        case.least("requests that tried the bad worker", bad.posts, 1)
        case.equal("answers that are whole, or were begun by the bad worker", len(answers) - len(broken) + bad.posts, len(answers))
        case.equal("broken answers of which the client was told", sum(answer.told for answer in broken), len(broken))
        case.equal("counted as impossible to move", deployed.metric("migrations_refused_total", reason="engine"), len(broken))
        tried = bad.posts
        again = deployed.crowd(streams, TOKENS, first=NEW).answers()
        case.most("of the next ones, those that tried it", bad.posts - tried, int(TRIALS * streams))
        case.equal("of the next ones, whole", sum(answer.whole for answer in again), streams - (bad.posts - tried))


CASES = {f"answers-{kind.replace(' ', '-').lower()}": (f"A worker answers with: {kind}", bad_answer(kind))
         for kind in ANSWERS if kind != "broken off in mid-stream"}
CASES["answers-broken-off"] = ("A worker of another engine breaks its streams off", broken_off)
