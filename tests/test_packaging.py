"""What is installed is one package, whole, from the wheel and from the sdist, with the C extensions where there is a
compiler, also of a checkout without symbolic links. In a clean environment the wheel brings all that a command needs.

Two projects on PyPI own the names that our folders have at the top of the repository: `elasticsearch-curator` installs
`curator`, and `protocol` installs `protocol`. Installed beside them, no file may take the place of another.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

build = pytest.importorskip("build")
pytest.importorskip("build.env")
quiet_subprocess_runner = pytest.importorskip("pyproject_hooks").quiet_subprocess_runner

ROOT = Path(__file__).resolve().parents[1]
COMPILER = shutil.which((os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0])
RIVALS = ("elasticsearch-curator", "protocol")
INSTALL = ("--disable-pip-version-check", "install", "--quiet", "--no-compile")


def executed(command: Sequence[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    return subprocess.run(list(map(str, command)), cwd=folder, env=outside, capture_output=True, text=True, check=False)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = executed([sys.executable, *command], cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_checkout(folder: Path, *, links: bool) -> Path:
    """Copy what git tracks; a symbolic link becomes a file with its target in it where the system has no links."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target = (ROOT / name).readlink()
            place.symlink_to(target) if links else place.write_text(str(target))
        elif (ROOT / name).exists():
            place.write_bytes((ROOT / name).read_bytes())
    return folder


def no_index_answers(output: str) -> bool:
    return "No matching distribution" in output or "ConnectionError" in output


def build_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build from each kind of source.

    `direct/` gets the wheel of a checkout, `packed/` the sdist and the wheel made of it without a compiler, and `pure/`
    the wheel without extensions of a checkout without links.
    """
    checkout = copy_checkout(folder / "checkout", links=True)
    without_links = copy_checkout(folder / "without-links", links=False)
    try:
        with build.env.DefaultIsolatedEnv() as environment:
            environment.install(build.ProjectBuilder(checkout).build_system_requires)

            def make(what: Literal["sdist", "wheel"], source: Path, out: str) -> Path:
                builder = build.ProjectBuilder.from_isolated_env(environment, source, runner=quiet_subprocess_runner)
                return Path(builder.build(what, folder / out))

            make("wheel", checkout, "direct")
            (folder / "unpacked").mkdir()  # by tar: the safe way of Python's own came with 3.11.4
            subprocess.run(["tar", "xf", make("sdist", checkout, "packed"), "-C", folder / "unpacked"], check=True)
            (unpacked,) = (folder / "unpacked").iterdir()
            monkeypatch.setenv("CC", "there-is-no-compiler")
            make("wheel", unpacked, "packed")
            monkeypatch.setenv("PSEPHOS_PURE", "1")
            make("wheel", without_links, "pure")
            monkeypatch.delenv("PSEPHOS_PURE")
            monkeypatch.delenv("CC")
    except subprocess.CalledProcessError as error:
        if no_index_answers(os.fsdecode(error.output or b"")):
            pytest.skip("no package index answers, and setuptools comes from one")
        raise


def contents(wheel: Path) -> dict[str, bytes]:
    """What is no machine code, and no record of it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith((".so", "RECORD", "WHEEL"))]
        return {name: archive.read(name) for name in names}


def check_the_extensions_are_where_they_can_be(direct: Path, packed: Path, pure: Path) -> None:
    for extension in ("psephos/protocol/paillier/_ifma.abi3.so", "psephos/protocol/proofs/_field.abi3.so"):
        assert (extension in zipfile.ZipFile(direct).namelist()) == bool(COMPILER)
        assert extension not in zipfile.ZipFile(packed).namelist()
        assert extension not in zipfile.ZipFile(pure).namelist()
    assert "-cp311-abi3-" in direct.name
    assert pure.name.endswith("-py3-none-any.whl")


def check_the_wheel_holds_one_package_and_all_of_it(wheel: Path) -> None:
    names = set(contents(wheel))
    about = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    assert {name.split("/")[0] for name in names} == {"psephos", about}
    folders = ("psephos", "protocol", "parties", "curator")
    tracked = executed(["git", "ls-files", *folders], ROOT).stdout.split()
    files = [name for name in tracked if not (ROOT / name).is_symlink()]
    wanted = {name if name.startswith("psephos/") else f"psephos/{name}" for name in files}
    assert {name for name in names if name.startswith("psephos/")} == wanted


def install_beside_rivals(wheel: Path, site: Path) -> None:
    """Ours and the two others in one folder, all of them from their wheels."""
    pip = ("-m", "pip", *INSTALL, "--no-deps", "--target", site)
    try:
        run(*pip, wheel, *RIVALS, cwd=site.parent)
    except AssertionError as error:
        if "No matching distribution" in str(error):
            pytest.skip(f"the package index has not both of {', '.join(RIVALS)}")
        raise


def check_beside_its_rivals_every_file_is_its_owners(installed: Path) -> None:
    owners: dict[str, str] = {}
    for record in installed.glob("*.dist-info/RECORD"):
        for name, digest, _size in csv.reader(record.read_text().splitlines()):
            if not digest or name.startswith(".."):
                continue  # RECORD itself, and the scripts
            assert owners.setdefault(name, record.parent.name) == record.parent.name
            content_hash = hashlib.sha256((installed / name).read_bytes()).digest()
            assert base64.urlsafe_b64encode(content_hash).decode().rstrip("=") == digest.removeprefix("sha256=")
    assert {name.split("/")[0] for name in owners} >= {"psephos", "curator", "protocol"}
    assert len(set(owners.values())) == 3


def check_installed_it_is_found_and_works(installed: Path, folder: Path) -> None:
    """In a folder of somebody who has a `protocol.py` and a `curator` of his own."""
    (folder / "protocol.py").write_text("raise SystemExit('the wrong protocol was imported')")
    (folder / "curator.py").write_text("raise SystemExit('the wrong curator was imported')")
    program = (
        "import psephos, psephos.protocol.paillier.keys, psephos.curator.tally, psephos.parties.party, sys\n"
        "from psephos import setup_keys\n"
        "print(psephos.__file__)\n"
        "assert not {'protocol', 'curator', 'parties'} & sys.modules.keys()\n"
    )
    place = run("-c", program, cwd=folder, PYTHONPATH=str(installed)).strip()
    assert Path(place) == installed / "psephos" / "__init__.py"
    main = "from psephos.cli.main import main; main()"
    assert "psephos" in run("-c", main, "--version", cwd=folder, PYTHONPATH=str(installed))


def new_environment(folder: Path, *arguments: str | Path, **settings: str) -> Path:
    """Make an environment in which something is installed, and return its Python."""
    folder.parent.mkdir()
    run("-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    done = executed([sys.executable, "-m", "pip", "--python", python, *INSTALL, *arguments], folder, **settings)
    if no_index_answers(done.stderr):
        pytest.skip("no package index answers")
    assert done.returncode == 0, done.stderr
    return python


def check_commands_run(python: Path, folder: Path) -> str:
    """Run the installed command in a folder of its own, and return where the package is."""

    def output(*command: str | Path) -> str:
        done = executed(command, folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Traceback" not in output(python.parent / "psephos", "demo", "--output", python.parent / "demo")
    assert (python.parent / "demo" / "model.json").is_file()
    names = "psephos.protocol.paillier.keys, psephos.parties.party, psephos.curator.tally"
    return output(python, "-c", f"import psephos, {names}; print(psephos.__file__)").strip()


def check_a_clean_environment_runs_a_command(wheel: Path, folder: Path) -> None:
    """The wheel and what it depends on, from the index: no package of the tests is there by chance."""
    python = new_environment(folder / "venv", wheel)
    assert Path(check_commands_run(python, folder)).is_relative_to(folder / "venv")
    run("-m", "pip", "--python", python, "check", cwd=folder)


def check_a_checkout_without_links_is_installed_in_place(checkout: Path, folder: Path) -> None:
    """Dependencies are those of the tests' own environment, which the new one reads."""
    python = new_environment(folder / "venv", "--no-deps", "--editable", checkout, PSEPHOS_PURE="1")
    (site,) = (folder / "venv" / "lib").glob("*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    assert not (checkout / "psephos" / "protocol").is_symlink()
    assert Path(check_commands_run(python, folder)) == checkout / "psephos" / "__init__.py"


@pytest.mark.packaging
def test_the_built_package_installs_one_top_level_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, since building takes its time."""
    build_all(tmp_path, monkeypatch)
    direct, packed, pure = (next((tmp_path / name).glob("*.whl")) for name in ("direct", "packed", "pure"))
    check_the_wheel_holds_one_package_and_all_of_it(direct)
    assert contents(direct) == contents(packed) == contents(pure)
    check_the_extensions_are_where_they_can_be(direct, packed, pure)
    install_beside_rivals(direct, tmp_path / "site")
    check_beside_its_rivals_every_file_is_its_owners(tmp_path / "site")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    check_installed_it_is_found_and_works(tmp_path / "site", elsewhere)
    check_a_checkout_without_links_is_installed_in_place(tmp_path / "without-links", tmp_path / "in-place")
    check_a_clean_environment_runs_a_command(direct, tmp_path / "clean")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PUBLISHED = [*PROJECT["project"]["dependencies"]]
PUBLISHED += [line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra]


@pytest.mark.parametrize("requirement", PUBLISHED)
def test_a_published_requirement_is_a_lower_bound_alone(requirement: str) -> None:
    """An upper bound holds back what is installed beside Psephos; `make test-floors` tests the lower bounds."""
    assert re.fullmatch(r"[A-Za-z0-9-]+>=[0-9.]+", requirement)
    assert not requirement.startswith(("psephos", "dp-accounting"))  # the latter pins attrs below 24 and mpmath


def test_groups_of_the_development_name_no_package_of_ours() -> None:
    """By its name, somebody else's package would be installed from the index."""
    for name, group in PROJECT["dependency-groups"].items():
        assert not [line for line in group if str(line).startswith("psephos")], name


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
SOURCES = [
    str(path.relative_to(ROOT))
    for folder in ("psephos", "protocol", "parties", "curator")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("name", [*PAGES, *SOURCES])
def test_nothing_tells_a_user_to_install_psephos_by_its_name(name: str) -> None:
    """The name is not on the package index, so whoever registers it would be installed instead."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"install [^\n`&]*(?<![\w./-])['\"]?psephos(\[|['\"`\s]|$)", text)
