"""The server of known times (paced_server.cc) as a process, and its own record of what it did."""
import dataclasses
import json
import pathlib
import statistics

import deployment
import peer


@dataclasses.dataclass
class Record:
    """The streams that ended: instants in seconds of the monotonic clock, times in milliseconds."""
    streams: int
    tokens: int
    first_arrival: float
    last_token: float
    ttft_p50: float
    ttft_p99: float
    tpot_p50: float


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * share // 100) - 1))] if ordered else float("nan")


class PacedServer:
    """Sends each answer's first token `first_ms` after its request, every other one `gap_ms` after the previous one."""

    def __init__(self, folder, first_ms, gap_ms):
        binary = deployment.BINARY.parent / "paced_server"
        assert binary.exists(), f"{binary} is not built: the target paced_server"
        self.process = peer.PeerProcess([binary, first_ms, gap_ms], pathlib.Path(folder) / "paced_server.log")
        self.process.await_ready(lambda: "ready http=" in self.process.tail(), 20)
        self.port = int(self.process.tail().split("http=")[1].split()[0])
        self.url = f"http://127.0.0.1:{self.port}"

    def reset(self):
        deployment.request(self.url + "/record/reset", {})

    def record(self, since=0.0, until=float("inf")):
        """The record of the streams that arrived in that interval."""
        streams = [s for s in deployment.get_json(self.url + "/record")["streams"] if since <= s[0] <= until]
        if not streams:
            return Record(0, 0, since, since, float("nan"), float("nan"), float("nan"))
        ttfts = [(first - arrived) * 1e3 for arrived, first, _, _, _ in streams]
        tpots = [(last - first) * 1e3 / (tokens - 1) for _, first, last, _, tokens in streams if tokens > 1]
        return Record(len(streams), sum(s[4] for s in streams), min(s[0] for s in streams), max(s[2] for s in streams),
                      statistics.median(ttfts), percentile(ttfts, 99), statistics.median(tpots) if tpots else float("nan"))

    def stop(self):
        self.process.stop()
