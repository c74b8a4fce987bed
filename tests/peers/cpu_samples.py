"""CPU time of a process and its descendants, sampled while it runs, so that the cost of any interval can be computed afterwards: a
load generator's start takes many times the CPU time of its load."""
import bisect
import threading
import time


class CpuSamples:
    """Samples from its start until `stop()`; instants are those of the monotonic clock."""

    def __init__(self, process, period_s=0.25):
        self._process, self._period = process, period_s
        self._instants, self._seconds = [], []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self):
        while not self._ended.is_set():
            now, used = time.monotonic(), self._process.cpu_seconds()
            # The CPU time of ended children disappears; the sum must never fall.
            self._instants.append(now)
            self._seconds.append(max(used, self._seconds[-1] if self._seconds else 0.0))
            self._ended.wait(self._period)

    def stop(self):
        self._ended.set()
        self._thread.join()

    def at(self, instant):
        """CPU seconds used until then, interpolated between two samples."""
        i = bisect.bisect_left(self._instants, instant)
        if i == 0:
            return self._seconds[0] if self._seconds else 0.0
        if i == len(self._instants):
            return self._seconds[-1]
        begin, end = self._instants[i - 1], self._instants[i]
        share = (instant - begin) / (end - begin) if end > begin else 0.0
        return self._seconds[i - 1] + share * (self._seconds[i] - self._seconds[i - 1])

    def between(self, begin, end):
        return self.at(end) - self.at(begin)
