"""An asyncio loop on a thread of its own: clients, event proxies and bad workers of a case, beside the code that says what happens when."""
import asyncio
import threading


class Background:
    """Ends with close(); what still runs on it is cancelled then."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def start(self, coroutine):
        """A concurrent.futures.Future of the coroutine's result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def call(self, coroutine, seconds=100):
        return self.start(coroutine).result(seconds)

    def close(self):
        async def cancel():
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.call(cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
