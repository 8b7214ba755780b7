"""The process that draws one page. It lives in a process group of its own, so that all of it can be ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from typing import Any

from textual_serve.app_service import AppService

from tokfmt.tui.web.lifeline import NAME

GRACE = 1.5
"""Seconds to quit when asked to, then seconds after SIGTERM; what is left gets SIGKILL."""


class Child(AppService):
    """One running browser.

    Args:
        words: The command.
        channel: Of textual-serve: where to write, how to close, its downloads.
    """

    def __init__(self, words: Sequence[str], **channel: Any) -> None:
        super().__init__(" ".join(words), **channel)
        self._words = words
        self._line = -1
        self._starting, self._ending = asyncio.Lock(), False
        self._end: asyncio.Task[None] | None = None

    async def start(self, width: int, height: int) -> None:
        async with self._starting:
            if not self._ending:
                await super().start(width, height)

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        end, self._line = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={**self._build_environment(width, height), NAME: str(end)},
                start_new_session=True,
                pass_fds=(end,),
            )
        finally:
            os.close(end)
        self._process, self._stdin = process, process.stdin
        return process

    async def run(self) -> None:
        await super().run()
        await self.remote_close()  # a process that fell over has not said goodbye

    async def stop(self) -> None:
        """End the process, and everything it has started. Returns when nothing is left; may be called again."""
        self._ending = True
        self._end = self._end or asyncio.create_task(self._stopped())
        await asyncio.shield(self._end)

    async def _stopped(self) -> None:
        async with self._starting:
            pass
        process = self._process
        if process is None:
            return
        await self._download_manager.cancel_app_downloads(app_service_id=self.app_service_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.send_meta({"type": "quit"}), GRACE)
        if not await _ended(process):
            self._signal(process, signal.SIGTERM)
            await _ended(process)
        self._signal(process, signal.SIGKILL)  # the group: what is left of it
        await process.wait()
        os.close(self._line)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _signal(self, process: Process, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


async def _ended(process: Process) -> bool:
    """Wait for the process, for a while."""
    try:
        await asyncio.wait_for(process.wait(), GRACE)
    except TimeoutError:
        return False
    return True
