"""Build the sdist and the wheel, and try the wheel in fresh environments: `python -m release.dist_test`.

    build     twice, from `git archive` of the commit, so that no untracked file gets in; the bytes are the same
    contents  the wheel has the package, the sample, the man pages; nothing else
    install   for each Python of --pythons: the wheel alone, then with each extra of --extras
    try       `tokfmt demo`, its commands, every example of --help, `browse --screenshot`, a conversion, completions

Only a package index and uv are needed. A Python that is not here is named and fails the run, unless --skip-missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
EXTRAS = ("arrow", "dask", "remote", "testing")
UV = os.environ.get("UV", "uv")


def run(*words: object, cwd: Path | None = None, code: int = 0, **environment: str) -> str:
    """Run a program; print what it printed and end if its exit code is another one."""
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode != code:
        sys.exit(
            f"$ {shlex.join(map(str, words))}\n{done.stdout}{done.stderr}exit code {done.returncode}, expected {code}"
        )
    return done.stdout + done.stderr


def archived(home: Path) -> Path:
    """Return a directory with the files of the commit, as a clean checkout has them."""
    packed = home / "commit.tar"
    run("git", "archive", "--output", packed, "HEAD", cwd=ROOT)
    with tarfile.open(packed) as archive:
        archive.extractall(home / "commit", filter="tar")
    return home / "commit"


def build(home: Path) -> tuple[Path, Path]:
    """Build twice and compare; return the sdist and the wheel in dist/."""
    source, digests = archived(home), list[dict[str, str]]()
    moment = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    for number in range(2):
        out = home / f"dist-{number}"
        run(UV, "build", "--quiet", "--out-dir", out, source, SOURCE_DATE_EPOCH=moment)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.glob("tokfmt-*")})
    if digests[0] != digests[1] or len(digests[0]) != 2:
        sys.exit(f"two builds differ: {digests}")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(home / "dist-1", DIST, ignore=shutil.ignore_patterns(".gitignore"))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    for path in (sdist, wheel):
        print(f"{path.name}: {path.stat().st_size:,} bytes, sha256 {digests[0][path.name][:16]}, twice the same")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """Compare the files of the wheel with those of the commit."""
    tracked = run("git", "ls-files", "tokfmt", ".github/release/share", cwd=ROOT).split()
    with zipfile.ZipFile(wheel) as archive:
        held = {info.filename: info for info in archive.infolist()}
        metadata = archive.read(next(name for name in held if name.endswith("/METADATA"))).decode()
    inside = {name for name in held if ".dist-info/" not in name and ".data/" not in name}
    shared = {re.sub(r"^[^/]*\.data/data/", ".github/release/", name) for name in held if ".data/data/" in name}
    if inside | shared != set(tracked):
        sys.exit(f"the wheel and the commit differ: {sorted((inside | shared) ^ set(tracked))}")
    if links := [name for name, info in held.items() if info.external_attr >> 28 == 0o12]:
        sys.exit(f"the wheel has links: {links}")
    if relative := re.findall(r"\]\((?!https?://|#)[^)]*\)", metadata):
        sys.exit(f"the description has links that break on a package index: {relative}")
    run(UV, "tool", "run", "--from", "twine>=6", "twine", "check", "--strict", sdist, wheel)
    print(f"{wheel.name}: {len(inside)} files of the package, {len(shared)} of share/")


def environment(home: Path, python: str, wheel: Path, extra: str) -> Path:
    """Return the directory of programs of a fresh environment with the wheel."""
    place = home / f"{python}-{extra or 'alone'}"
    run(UV, "venv", "--quiet", "--python", python, place)
    named = f"{wheel}[{extra}]" if extra else str(wheel)
    run(UV, "pip", "install", "--quiet", "--python", place / "bin" / "python", named)
    return place / "bin"


def sized(place: Path) -> str:
    """Return the size of what is installed."""
    files = (path for path in place.parent.rglob("*") if path.is_file() and not path.is_symlink())
    return f"{sum(path.stat().st_size for path in files) / 1e6:,.0f} MB"


def try_commands(programs: Path, home: Path) -> int:
    """Run `tokfmt demo`, what it tells to try, and every example of --help. Return the number of command lines."""
    tokfmt, count = programs / "tokfmt", 0
    told = run(tokfmt, "demo", "sample", cwd=home)
    for line in re.findall(r"^  (tokfmt .+)$", told, re.MULTILINE):
        run(tokfmt, *shlex.split(line)[1:], cwd=home / "sample", code=int(line.startswith("tokfmt check")))
        count += 1
    shutil.rmtree(home / "sample")
    run(tokfmt, "demo", "sample", cwd=home)
    names = re.findall(r"^  (\w+)  ", run(tokfmt, "--help").partition("Commands:")[2], re.MULTILINE)
    for name in names:
        for line in re.findall(r"^\s+(tokfmt .+)$", run(tokfmt, name, "--help"), re.MULTILINE):
            words = shlex.split(line.split(" > ")[0])[1:]
            finds = words[0] == "check" and "merged.pbin" in words and "--fix" not in words
            run(tokfmt, *words, cwd=home / "sample", code=int(finds))
            count += 1
    screenshot = home / "sample" / "browse.svg"
    run(tokfmt, "browse", "pack.pbin", "--screenshot", screenshot, cwd=home / "sample")
    if "<svg" not in screenshot.read_text():
        sys.exit("browse --screenshot wrote no picture")
    return count + 1


OF_EXTRAS = {
    "arrow": ("convert", "pack.pbin", "pack.parquet"),
    "dask": ("convert", "pack.pbin", "by-dask.pbin", "--executor", "dask"),
    "remote": ("info", "https://127.0.0.1:9/none.pbin"),
    "testing": ("--version",),
}
"""A command that each extra is for; that of `remote` fails, as no server answers."""


def main() -> None:
    """Build, compare, install and try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    parser.add_argument("--pythons", nargs="*", default=[here], help="versions of Python (default: this one)")
    parser.add_argument("--extras", nargs="*", default=EXTRAS, help="extras to try (default: all)")
    parser.add_argument("--skip-missing", action="store_true", help="leave out a Python that uv does not find")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tokfmt-dist-") as name:
        home = Path(name)
        sdist, wheel = build(home)
        check_contents(sdist, wheel)
        for python in given.pythons:
            found = subprocess.run([UV, "python", "find", python], capture_output=True, text=True, check=False)
            if found.returncode and given.skip_missing:
                print(f"Python {python}: not here, left out")
                continue
            programs = environment(home, python, wheel, "")
            (home / f"alone-{python}").mkdir()
            count = try_commands(programs, home / f"alone-{python}")
            print(f"Python {python}, the wheel alone, {sized(programs)}: {count} command lines")
            for extra in given.extras:
                programs, place = environment(home, python, wheel, extra), home / f"{extra}-{python}"
                run(programs / "tokfmt", "demo", place)
                run(programs / "tokfmt", *OF_EXTRAS[extra], cwd=place, code=3 if extra == "remote" else 0)
                print(f"Python {python}, tokfmt[{extra}], {sized(programs)}: {shlex.join(OF_EXTRAS[extra])}")
                shutil.rmtree(programs.parent)


if __name__ == "__main__":
    main()
