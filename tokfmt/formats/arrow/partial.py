"""Read the row groups and record batches of damaged files that can still be decoded; see `Hints.allow_partial`.

An Arrow file that was cut still has its first batches. A Parquet file without its end is lost: only the footer holds
the byte offsets and the types of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tokfmt.core.reader import Damage
from tokfmt.errors import NO_DAMAGE, FormatError, TruncatedError
from tokfmt.files.place import Place
from tokfmt.files.shard_names import follows
from tokfmt.formats.arrow.container import ArrowContainer, Container, Group, open_containers
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import Variant


def readable_files(format_: Variant, files: Sequence[Place]) -> tuple[list[Container], list[Damage]]:
    """Open the files that can be opened, and report what is missing of the others or at the ends."""
    found, damage, failed = list[Container](), list[Damage](), list[FormatError]()
    for path in files:
        try:
            container = next(iter(open_containers(format_, [path], tail=True)))
        except NO_DAMAGE:
            raise
        except FormatError as error:
            failed.append(error)
            damage.append(Damage(error.sentence, unused=path.status().size if path.is_file() else 0))
            continue
        found.append(container)
        if isinstance(container, ArrowContainer) and not container.ended:
            missing = f"{printable(path)}: has no end marker: batches may be missing"
            what = missing if container.damage is None else container.damage.sentence
            damage.append(Damage(what, unused=max(0, container.file.size - container.end)))
        elif isinstance(container, ArrowContainer) and container.footer is not None:
            damage.append(Damage(container.footer.sentence, 0, 0))
    if not found:
        raise failed[0]
    return found, damage


def keep_following(files: Sequence[Place], containers: list[Container]) -> list[Damage]:
    """Remove the containers after a file that is missing or damaged, because rows continue from file to file.

    Returns:
        What was left out, or nothing.
    """
    opened, kept = {container.path: container for container in containers}, list[Container]()
    for before, path in zip([None, *files], files, strict=False):
        is_next = path in opened and (before is None or follows(before.name, path.name))
        if not is_next or (kept and isinstance(kept[-1], ArrowContainer) and not kept[-1].ended):
            break
        kept.append(opened[path])
    behind = containers[len(kept) :]
    if not kept:
        what = f"cannot be read, and the rows of {counted(len(behind), 'file')} after it may continue its last sequence"
        raise TruncatedError(files[0], what, remedy="Copy it again, or name the other files")
    containers[:] = kept
    if not behind:
        return []
    what = f"{counted(len(behind), 'file')} from {printable(behind[0].path.name)} on may begin inside a sequence"
    return [Damage(what, unused=sum(one.path.status().size for one in behind))]


def keep_readable(
    containers: Sequence[Container], decode: Callable[[Container, Group], object], *, first_only: bool
) -> list[Damage]:
    """Remove the groups that cannot be decoded from containers. Decodes every group.

    Args:
        first_only: Drop every group after the first damaged one, because rows continue from group to group.

    Returns:
        What was left out, in order.
    """
    damage, stopped = list[Damage](), ""
    for container in containers:
        kept = list[Group]()
        for group in container.groups:
            try:
                if not stopped:
                    decode(container, group)
                    kept.append(group)
                    continue
                damage.append(
                    Damage(f"{stopped} may continue in the {counted(group.rows, 'row')} after it", group.rows)
                )
            except NO_DAMAGE:
                raise
            except FormatError as error:
                damage.append(Damage(error.sentence, group.rows, None, group.size))
                stopped = f"{container.unit} {group.number:,} of {printable(container.path)}" if first_only else ""
        container.groups = kept
    return damage
