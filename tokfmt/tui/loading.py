"""What loads behind a session: its tokenizer, then its documents. Results are handed to whoever asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple

from tokfmt.core.errors import TokfmtError
from tokfmt.tui.jobs import Job
from tokfmt.tui.opening import Opened, open_in_full
from tokfmt.tui.remembered import remember
from tokfmt.tui.session import Session
from tokfmt.tui.vocabulary import Vocabulary, load

Stage = Literal["tokenizer", "documents"]


class Result(NamedTuple):
    """What a stage came to: a Vocabulary, an Opened, or an error; None for mere progress."""

    session: Session
    stage: Stage
    outcome: object = None


class Loading:
    """Loads one session, one stage after the other.

    Args:
        session: Whose parts.
        post: Called on a worker's thread; must hand the result to the thread of the screen, which calls `take`.
    """

    def __init__(self, session: Session, post: Callable[[Result], object]) -> None:
        self.session, self._post = session, post
        self.job: Job | None = None
        self.stage: Stage | None = None

    def start(self, vocabulary: Vocabulary | None = None) -> None:
        """Begin with what was named and is not there; `vocabulary` is what another split is shown with."""
        if vocabulary is not None and self.session.vocabulary is None:
            self.take(Result(self.session, "tokenizer", vocabulary))
        elif self.session.choice is not None and self.session.vocabulary is None:
            self._begin("tokenizer")
        elif self.session.opened.pending and self.session.opened.starts:
            self._begin("documents")

    def start_documents(self) -> None:
        """Begin the second stage now, though it is long."""
        if self.stage is None and self.session.opened.pending:
            self._begin("documents")

    def cancel(self) -> bool:
        """Call off what is being loaded; False when nothing is."""
        if self.job is None:
            return False
        self.job.cancel()
        self.job = self.stage = None
        return True

    def take(self, result: Result) -> None:
        """Put a result into the session, and go on."""
        session, outcome, stage = self.session, result.outcome, result.stage
        self.job = self.stage = None
        if isinstance(outcome, Vocabulary):
            session.use(outcome)
            self._remember()
            if self._splits_otherwise(outcome):
                self._begin("documents")
                return
        elif isinstance(outcome, Opened):
            session.add(outcome)
        elif isinstance(outcome, Exception):
            why = _worded(outcome, stage)
            if stage == "documents":
                session.give_up(outcome, why)
            else:
                session.failure = why
        if stage == "tokenizer":
            session.choice = session.choice if isinstance(outcome, Vocabulary) else None
            self.start()

    def _remember(self) -> None:
        choice = self.session.choice
        if choice is not None and choice.source == "--tokenizer":
            name = os.path.abspath(choice.name) if os.path.exists(choice.name) else choice.name
            remember(self.session.path, tokenizer=name)

    def _splits_otherwise(self, vocabulary: Vocabulary) -> bool:
        """What was opened at once has another separator than the tokenizer that the user named."""
        opened, eos = self.session.opened, vocabulary.handle.eos_id
        named = self.session.choice is not None and self.session.choice.source == "--tokenizer"
        settled = opened.pending or self.session.request.eos is not None or eos is None
        return named and not settled and not self.session.of_text and opened.separator.eos_id != eos

    def _begin(self, stage: Stage) -> None:
        session, self.stage = self.session, stage
        choice = session.choice
        if stage == "tokenizer" and choice is not None:
            name, encoding = choice.name, session.of_text
            work: Callable[[Job], object] = lambda job: load(name, encoding=encoding)  # noqa: E731
        else:
            eos = session.vocabulary.handle.eos_id if session.vocabulary else None
            work = lambda job: open_in_full(session.request, session.opened.format, eos, job)  # noqa: E731
        self.job = Job(
            work,
            lambda outcome: self._post(Result(session, stage, outcome)),
            lambda: self._post(Result(session, stage)),
        )


def _worded(error: Exception, stage: Stage) -> str:
    if isinstance(error, TokfmtError):
        return str(error)
    return f"{stage}: unexpected {type(error).__name__}: {error}. This is a bug in tokfmt"
