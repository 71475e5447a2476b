"""ARCHITECTURE.md against the code: which crate knows which, and that modules are listed in reading order."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# Modules that use one listed below them, each with the reason why it stays so.
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    ("crates/lacus_tensor/src/lib.rs", "error", "dtype"): "errors name the dtype they are about",
    ("crates/lacus_tensor/src/lib.rs", "error", "shape"): "errors name the shape they are about",
    ("crates/lacus_history/src/lib.rs", "error", "merge_plan"): "an error carries the conflicts of a merge",
    ("crates/lacus_execute/src/lib.rs", "form", "sparse"): "a product's methods for sparse factors stand in a file of theirs",
    ("crates/lacus_threads/src/lib.rs", "pool", "team"): "a pool gives out teams, and a team asks its pool for workers",
    ("crates/lacus/src/lib.rs", "repository", "checkout"): "a repository opens checkouts, and a checkout knows its repository",
    ("crates/lacus_cli/src/commands/mod.rs", "cherry_pick", "merge"): "commands are listed by name; both report a merge",
    ("python/src/lib.rs", "history", "dataset"): "the handle of a history opens datasets, and a dataset has one",
}

# ---------------------------------------------------------------- crates


def described() -> dict[str, set[str]]:
    """The table of crates: each crate, and those of ours that it depends on."""
    text = (REPOSITORY / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE)
    names = {name.removeprefix("lacus_"): name for name, _ in rows}
    found = {}
    for name, cell in rows:
        known = [] if cell.strip() == "nothing of ours" else re.split(r",\s*", cell.strip())
        found[name] = {names.get(word, word) for word in known}
    return found


def manifests() -> list[dict[str, object]]:
    """What cargo says of our own crates."""
    if shutil.which("cargo") is None:
        pytest.skip("no cargo here")
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    found: list[dict[str, object]] = json.loads(done.stdout)["packages"]
    return found


def test_the_crates_know_whom_the_table_says() -> None:
    packages = manifests()
    ours = {package["name"] for package in packages}
    actual: dict[str, set[str]] = {}
    for package in packages:
        dependencies = package["dependencies"]
        assert isinstance(dependencies, list)
        actual[str(package["name"])] = {d["name"] for d in dependencies if d["name"] in ours and d["kind"] != "dev"}
    assert described() == actual


def test_nothing_but_tests_knows_the_test_world() -> None:
    assert [name for name, known in described().items() if "lacus_simulation" in known] == []


# ---------------------------------------------------------------- modules


def code_of(path: Path) -> str:
    """A file without comments, texts and tests."""
    text = path.read_text()
    # Characters first, so that '"' opens no text; lifetimes stay.
    text = re.sub(r"'(\\.[^']*|[^\\'])'", "' '", text)
    text = re.sub(r'//[^\n]*|/\*.*?\*/|r(#+)".*?"\1|r"[^"]*"|"(?:\\.|[^"\\])*"', " ", text, flags=re.DOTALL)
    # Tests stand at the foot of a file.
    return re.split(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ *\{", text)[0]


def modules_of(text: str) -> list[str]:
    """The modules that a `lib.rs` or `mod.rs` lists, in order."""
    text = re.sub(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+;", "", text)
    return re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", text, re.MULTILINE)


def paths_in(text: str) -> Iterator[list[str]]:
    """The paths of one `use`, or of the part of one in braces: each of the names it is made of."""
    depth, start = 0, 0
    for at, char in enumerate(text + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            part = text[start:at].strip()
            start = at + 1
            head, brace, rest = part.partition("{")
            names = re.findall(r"\w+", head.split(" as ")[0])
            if brace:
                for inner in paths_in(rest.rstrip().removesuffix("}")):
                    yield names + inner
            elif names:
                yield names


def uses_in(text: str, start: str) -> Iterator[list[str]]:
    """The paths after `start` (`crate::`, `super::`) in some code."""
    for match in re.finditer(rf"(?<![\w:]){start}", text):
        rest = text[match.end() :]
        if rest.startswith("{"):
            depth = 0
            for at, char in enumerate(rest):
                depth += (char == "{") - (char == "}")
                if depth == 0:
                    break
            yield from paths_in(rest[1:at])
        elif found := re.match(r"\w+(?:::\w+)*(?:::\{)?", rest):
            if not found[0].endswith("::{"):
                yield found[0].split("::")
                continue
            head = found[0].removesuffix("::{").split("::")
            depth, begin = 1, found.end()
            for at in range(begin, len(rest)):
                depth += (rest[at] == "{") - (rest[at] == "}")
                if depth == 0:
                    break
            for inner in paths_in(rest[begin:at]):
                yield head + inner


def exports_of(text: str, modules: list[str]) -> dict[str, str]:
    """Names that a list of modules hands on (`pub use error::IoError`): each with the module it is from."""
    found = {}
    for module in modules:
        for names in uses_in(text, f"{module}::"):
            found[names[-1]] = module
    return found


def files_of(directory: Path, module: str) -> list[Path]:
    """The files of a module: its own, and those of modules in it."""
    own = directory / f"{module}.rs"
    inner = sorted((directory / module).rglob("*.rs")) if (directory / module).is_dir() else []
    return [path for path in ([own] if own.exists() else []) + inner if path.name != "tests.rs"]


def violations(crate: Path) -> Iterator[tuple[str, str, str]]:
    """(list, module, module below it that it uses) for the list of the crate and those of its rooms."""
    source = crate / "src"
    for listing in [source / "lib.rs", *sorted(source.rglob("mod.rs"))]:
        if not listing.exists():
            continue
        directory = listing.parent
        room = list(directory.relative_to(source).parts)
        text = code_of(listing)
        modules = modules_of(text)
        exports = exports_of(text, modules)
        for place, module in enumerate(modules):
            used = set()
            for path in files_of(directory, module):
                code = code_of(path)
                for names in uses_in(code, "crate::"):
                    if names[: len(room)] == room and len(names) > len(room):
                        used.add(names[len(room)])
                # How many steps up lead from this file's module to the room.
                inside = path.relative_to(directory).with_suffix("").parts
                depth = len(inside) - (path.name == "mod.rs")
                for names in uses_in(code, "super::" * depth):
                    if names[0] != "super":
                        used.add(names[0])
            for name in sorted(used):
                target = exports.get(name, name)
                if target in modules[place + 1 :]:
                    yield (str(listing.relative_to(REPOSITORY)), module, target)


@pytest.mark.parametrize("crate", sorted(path.name for path in (REPOSITORY / "crates").iterdir()) + ["python"])
def test_modules_use_only_those_listed_above_them(crate: str) -> None:
    home = REPOSITORY / "python" if crate == "python" else REPOSITORY / "crates" / crate
    found = set(violations(home))
    below = {entry for entry in EXCEPTIONS if entry[0].startswith(str(home.relative_to(REPOSITORY)) + "/")}
    assert found - below == set(), "a module uses one that is listed below it"
    assert below - found == set(), "exceptions that are none any more"


def test_the_reader_of_modules_sees_what_it_should() -> None:
    """The guard itself: paths in all their forms, and nothing in comments, texts and tests."""
    text = "use crate::{a::{B, c::D}, e}; fn f() { crate::g::h(); super::i::j() } use crate::k::{L, m::N};"
    assert [names[0] for names in uses_in(text, "crate::")] == ["a", "a", "e", "g", "k", "k"]
    assert list(uses_in(text, "super::")) == [["i", "j"]]
    assert modules_of("mod a;\npub mod b;\npub(crate) mod c;\n#[cfg(test)]\nmod tests;\n") == ["a", "b", "c"]
    assert exports_of("pub use a::{B, c::D}; pub use e::F;", ["a", "e"]) == {"B": "a", "D": "a", "F": "e"}
