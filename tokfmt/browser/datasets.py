"""The screen of a catalog: the datasets below a folder or a bucket, of which Enter opens one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.data.catalog import COLUMNS, Catalog, Listed, record_of
from tokfmt.browser.data.cells import Cells, fitted
from tokfmt.browser.dialogs import Dialog, OneOf, Prompt
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.sequence_list import SIGNS
from tokfmt.browser.widgets.virtual_table import VirtualTable, kinds
from tokfmt.wording import counted, human_bytes, plural, printable, short

_MARKS = (("error", "✗"), ("warning", "▲"), ("info", "·"))
_LEAST = 24  # cells of names
_GAP = 2


class CatalogList(VirtualTable):
    """The list of datasets. Facts of those on the screen are read one after the other, and then each is checked."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds("name", "format", "number", "good", "warning", "error", "dim")
    BINDINGS = keys.CATALOG_LIST
    head = 1

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(id="catalog-list")
        self.catalog = catalog
        self._works = self.reads_all = False  # all datasets are found and read, not only those on the screen

    @property
    def count(self) -> int:
        return len(self.catalog.listed)

    @property
    def idle(self) -> bool:
        """Return whether nothing is searched, read or checked."""
        return not self._works

    def on_mount(self) -> None:
        self.point_at(self.catalog.cursor)

    def fetch(self) -> None:
        if self._works:
            return
        listed = self.catalog.listed
        shown = [*(listed[line] for line in self.seen), *(listed if self.reads_all else [])]
        ahead = len(listed) if self.reads_all else self.top + 2 * self.height - self.count  # the screen and a page
        work = self.catalog.next_work(shown, max(1, ahead) if self.reads_all else ahead)
        if work is not None:
            self._works = True
            self.loader.ask(work, lambda _: self._worked())
        elif self.reads_all:
            self.reads_all = False
            self.order(*self.catalog.by)

    def _worked(self) -> None:
        self._works = False
        self.point_at(self.cursor)
        super().moved()

    def read_all(self) -> None:
        """Read the facts of all datasets and check them, then order them again; the next call stops it."""
        self.reads_all = not self.reads_all
        self.fetch()
        super().moved()

    def order(self, name: str, falling: bool) -> None:
        """Order the list by a column, and go to the first dataset."""
        self.catalog.order(name, falling)
        self.point_at(0)
        self.moved()

    def sort(self, name: str) -> None:
        """Order the list by a column, or in the other direction if it is in that order."""
        before, falls = self.catalog.by
        self.order(name, not falls if name == before else not COLUMNS[name].rises)
        unknown = self.catalog.listed[self.catalog.known :]
        unread = sum(not one.looked or (name == "health" and one.severities is None) for one in unknown)
        if unread:
            self.notify(f"{counted(unread, 'dataset')} not read yet, at the end of the list. a reads all")
        elif unknown:
            self.notify(f"{counted(len(unknown), 'dataset')} without known {name}, at the end of the list")

    def moved(self) -> None:
        self.catalog.cursor = self.cursor
        super().moved()

    @property
    def listed(self) -> Listed | None:
        """Return the dataset under the cursor."""
        return self.catalog.listed[self.cursor] if self.count else None

    # drawing

    @property
    def nothing(self) -> tuple[str, str]:  # type: ignore[override]
        """Return why no dataset is listed."""
        named = f" named like {printable(self.catalog.words)}" if self.catalog.words else ""
        return f"  {'no' if self.catalog.whole else 'looking for'} datasets{named}", "dim"

    def headings(self) -> list[tuple[str, str]]:
        by, falling = self.catalog.by
        heads = {name: (name + (SIGNS[falling] if name == by else ""), "head") for name in COLUMNS}
        return [(name, text) for name, (text, _) in zip(self._columns(), self._aligned(heads), strict=True)]

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - `_columns` knows it
        one = self.catalog.listed[line]
        unknown = "-" if one.looked else "…"
        health, kind = health_of(one)
        cells = {"name": (printable(one.name), "name"), "health": (health, kind)}
        path = "" if one.facts is None else one.facts.path
        for name, column in COLUMNS.items():
            if name not in cells:
                kind = "format" if column.is_left else "number"
                value = column.value(one)
                words = unknown if value is None else column.words(value)
                cells[name] = words, "warning" if (path, name) in self.catalog.odd else kind
        return self._aligned(cells)

    def _columns(self) -> dict[str, int]:
        """Return the columns that fit beside the name, each with its width in cells."""
        room, kept = self.columns - _LEAST, set[str]()
        for name in sorted(COLUMNS, key=lambda name: COLUMNS[name].place):
            if room >= COLUMNS[name].width + _GAP * bool(kept):
                room -= (COLUMNS[name].width + _GAP) * bool(kept)
                kept.add(name)
        return {name: column.width or _LEAST + room for name, column in COLUMNS.items() if name in kept}

    def _aligned(self, cells: Mapping[str, tuple[str, str]]) -> Cells:
        """Return the text of each column that fits, as wide as the column."""
        found = []
        for name, width in self._columns().items():
            text, kind = cells[name]
            aligned = fitted(text, width) if COLUMNS[name].is_left else " " * (width - cell_len(text)) + text
            found.append((aligned if name == "name" else f"{'':{_GAP}}{aligned}", kind))
        return found


def health_of(one: Listed) -> tuple[str, str]:
    """Return the findings of a dataset in a few cells, and the kind of the words."""
    if one.severities is None:
        return "…", "dim"
    found = [f"{mark}{one.severities[name]:,}" for name, mark in _MARKS if one.severities.get(name)]
    worst = next((name for name, _ in _MARKS if one.severities.get(name)), "")
    return " ".join(found) or "✓", {"error": "error", "warning": "warning"}.get(worst, "good")


class Datasets(Dialog[None]):
    """The catalog on the whole screen, which can be left if a dataset is `opened`.

    `choose` opens a dataset, and calls the function that it gets when the dataset is on the screen below.
    """

    BINDINGS = keys.CATALOG

    def __init__(
        self,
        catalog: Catalog,
        choose: Callable[[Listed, Callable[[], None]], None],
        export: Callable[[Iterable[Mapping[str, object]], str, str], Awaitable[None]],
        *,
        opened: bool,
    ) -> None:
        super().__init__()
        self._catalog, self._choose, self._export, self._opened = catalog, choose, export, opened
        self._opening = ""

    @property
    def idle(self) -> bool:
        """Return whether the list is complete."""
        return not self._opening and all(one.idle for one in self.query(CatalogList))

    def compose(self) -> ComposeResult:
        yield Static("", id="catalog-title", markup=False)
        yield CatalogList(self._catalog)
        yield Static("", id="catalog-failure", markup=False)
        yield KeyBar()

    def ready(self) -> None:
        self.query_one(CatalogList).focus()
        self._say()

    @property
    def title_words(self) -> str:
        """Return the directory, the number of datasets, and what goes on."""
        catalog = self._catalog
        more = "" if catalog.whole else "+"
        words = [printable(catalog.directory), f"{len(catalog.found):,}{more} {plural('dataset', len(catalog.found))}"]
        tokens, size = catalog.total
        words += [f"{short(tokens)} tokens"] * bool(tokens) + [human_bytes(size)] * bool(size)
        if catalog.words:
            words.append(f"▼ {printable(catalog.words)}: {len(catalog.listed):,}")
        name, falling = catalog.by
        if name != "name" or falling:
            known = "" if catalog.known == len(catalog.listed) else f", {catalog.known:,} known"
            words.append(f"by {name} {SIGNS[falling]}{known}")
        if self.query_one(CatalogList).reads_all:
            done = sum(one.looked and one.severities is not None for one in catalog.listed)
            words.append(f"◌ {done:,} read, a stops")
        if catalog.others:
            words.append(f"{counted(catalog.others, 'other file')}")
        if catalog.failure:
            words.append(f"✗ {printable(catalog.failure)}")
        return " · ".join([*words, *([self._opening] if self._opening else [])])

    def _say(self) -> None:
        self.query_one("#catalog-title", Static).update(self.title_words)
        listed = self.query_one(CatalogList).listed
        failure = self.query_one("#catalog-failure", Static)
        failure.update(f"✗ {printable(listed.failure)}" if listed is not None and listed.failure else "")
        failure.display = listed is not None and bool(listed.failure)

    def on_virtual_table_moved(self) -> None:
        self._say()

    def on_virtual_table_chosen(self) -> None:
        listed = self.query_one(CatalogList).listed
        if listed is not None:
            self._opening = f"◌ opening {printable(listed.name)}"
            self._say()
            self._choose(listed, self._arrived)

    def _arrived(self) -> None:
        self._opening = ""
        if self.is_current:
            self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies. Back needs an open dataset."""
        return self._opened if action == "leave" else super().check_action(action, parameters)

    async def action_export(self) -> None:
        """Ask for a file, and write the datasets that are found so far."""
        listed, name = list(self._catalog.listed), self._catalog.directory.name
        await self._export(map(record_of, listed), counted(len(listed), "dataset"), f"{name}-datasets")

    async def action_filter(self) -> None:
        """Ask for a part of the names of the datasets to list, which are listed while the user types."""
        before = self._catalog.words

        def listed(words: str | None) -> None:
            self._catalog.filter(before if words is None else words)
            self.query_one(CatalogList).point_at(0)
            self._say()

        hint = "a part of the names of datasets; none lists all"
        await Prompt("List only", listed, hint, before, meanwhile=listed, empty=True).ask(self)

    def action_order(self) -> None:
        """Ask for the column that orders the list."""
        names = list(COLUMNS)

        def chosen(number: int | None) -> None:
            if number is not None:
                self.query_one(CatalogList).sort(names[number])

        at = names.index(self._catalog.by[0])
        self.app.push_screen(OneOf("Order by; the same again reverses", names, at), chosen)

    def action_read_all(self) -> None:
        self.query_one(CatalogList).read_all()
