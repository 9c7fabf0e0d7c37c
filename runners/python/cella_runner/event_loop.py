"""Top-level await: one event loop for the session, so that tasks live on and continue whenever a later cell awaits."""

import asyncio

CANCEL_GRACE_SECONDS = 0.5


class EventLoop:
    def __init__(self):
        self._loop = None
        self.task = None  # the one that runs now

    def close(self):
        """Cancels what is left of the session's tasks, in the thread that ran them."""
        loop = self._loop
        if loop is None or loop.is_closed() or loop.is_running():
            return
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.call_later(CANCEL_GRACE_SECONDS, loop.stop)
            asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        loop.close()

    def run(self, coroutine):
        # An interrupt may have struck the very end of an earlier run, and left a loop that seems to run.
        asyncio._set_running_loop(None)
        if self._loop is None or self._loop.is_closed() or self._loop.is_running():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(coroutine)
        task.add_done_callback(lambda _: loop.stop())
        self.task = task
        try:
            # A stop that such an interrupt left behind is no reason to leave this task.
            while not task.done():
                loop.run_forever()
        except KeyboardInterrupt:
            # It may have struck the loop itself rather than the cell: the cell then still waits for its `finally`.
            if not task.done():
                task.cancel()
                loop.call_later(CANCEL_GRACE_SECONDS, loop.stop)
                loop.run_forever()
            if task.done() and not task.cancelled():
                task.exception()  # it is raised here: asyncio need not log it as well
            raise
        finally:
            self.task = None
        return task.result()
