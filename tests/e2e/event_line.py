"""A proxy between a worker's KV events and the gateway that forwards frames, or cuts, delays or reorders them."""
import random
import threading
import time

import zmq

REORDERED = 6  # frames that are reordered together


class EventLine:
    """Proxies the two sockets of one worker, on its own ports. `fault`: None, "cut", "delay" or "reorder"."""

    def __init__(self, events_port, replay_port, delay_s=2.0, seed=1):
        self.fault = None
        self.delay_s = delay_s
        self.random = random.Random(seed)
        self.context = zmq.Context()
        self.live_in = self._socket(zmq.SUB)
        self.live_in.setsockopt(zmq.SUBSCRIBE, b"")
        self.live_in.setsockopt(zmq.RECONNECT_IVL, 50)
        self.live_in.connect(f"tcp://127.0.0.1:{events_port}")
        self.live_out = self._socket(zmq.XPUB)
        self.events_port = self.live_out.bind_to_random_port("tcp://127.0.0.1")
        self.replay_in = self._socket(zmq.DEALER)
        self.replay_in.setsockopt(zmq.RECONNECT_IVL, 50)
        self.replay_in.connect(f"tcp://127.0.0.1:{replay_port}")
        self.replay_out = self._socket(zmq.ROUTER)
        self.replay_port = self.replay_out.bind_to_random_port("tcp://127.0.0.1")
        self.gateway = None   # who asked for a replay last
        self.held = []        # (when it may go, socket, frames), in the order they came
        self.shuffled = []
        self.over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _socket(self, kind):
        socket = self.context.socket(kind)
        socket.set_hwm(0)
        socket.setsockopt(zmq.LINGER, 0)
        return socket

    @property
    def ports(self):
        return {"kv_events": self.events_port, "kv_replay": self.replay_port}

    def _run(self):
        poller = zmq.Poller()
        for socket in (self.live_in, self.live_out, self.replay_in, self.replay_out):
            poller.register(socket, zmq.POLLIN)
        while not self.over:
            ready = dict(poller.poll(20))
            if self.live_out in ready:
                self.live_out.recv_multipart()  # subscriptions: everything is forwarded anyway
            if self.replay_out in ready:
                self.gateway, *request = self.replay_out.recv_multipart()
                if self.fault != "cut":
                    self.replay_in.send_multipart(request)
            if self.live_in in ready:
                self._live(self.live_in.recv_multipart())
            if self.replay_in in ready:
                frames = self.replay_in.recv_multipart()
                if self.fault != "cut" and self.gateway is not None:
                    self._hold(self.replay_out, [self.gateway, *frames])
            self._release()
        for socket in (self.live_in, self.live_out, self.replay_in, self.replay_out):
            socket.close()
        self.context.term()

    def _live(self, frames):
        if self.fault == "cut":
            return
        if self.fault == "reorder":
            self.shuffled.append(frames)
            if len(self.shuffled) == REORDERED:
                self.random.shuffle(self.shuffled)
                self._pass_shuffled_on()
        else:
            self._pass_shuffled_on()
            self._hold(self.live_out, frames)

    def _pass_shuffled_on(self):
        for frames in self.shuffled:
            self._hold(self.live_out, frames)
        self.shuffled = []

    def _hold(self, socket, frames):
        self.held.append((time.monotonic() + (self.delay_s if self.fault == "delay" else 0), socket, frames))

    def _release(self):
        """Sends the frames that are due. Frames held back for reordering are sent when the fault ends, so that they are late but
        not lost."""
        if self.fault != "reorder":
            self._pass_shuffled_on()
        now = time.monotonic()
        while self.held and self.held[0][0] <= now:
            _, socket, frames = self.held.pop(0)
            socket.send_multipart(frames)

    def close(self):
        self.over = True
        self.thread.join()
