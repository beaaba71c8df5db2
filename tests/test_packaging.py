"""What is installed is one package, whole, from the wheel and from the sdist, and it is nobody's rival.

The wheel made from the checkout has the C extension where there is a compiler; the sdist's is made without one, and
works as well.

Two projects on PyPI own the names that our folders have at the top of the repository: `elasticsearch-curator` installs
`curator`, and `protocol` installs `protocol`. Installed beside them, no file may take the place of another.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Literal

import pytest

build = pytest.importorskip("build")
pytest.importorskip("build.env")
quiet_subprocess_runner = pytest.importorskip("pyproject_hooks").quiet_subprocess_runner

ROOT = Path(__file__).resolve().parents[1]
COMPILER = shutil.which((os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0])
RIVALS = ("elasticsearch-curator", "protocol")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env={**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_both(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`direct/`: the wheel of a checkout. `packed/`: the sdist, and the wheel made of it by whom has no compiler."""
    checkout = folder / "checkout"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        place = checkout / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            place.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).exists():
            place.write_bytes((ROOT / name).read_bytes())
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
    except subprocess.CalledProcessError as error:
        if b"No matching distribution" in (error.output or b"") or b"ConnectionError" in (error.output or b""):
            pytest.skip("no package index answers, and setuptools comes from one")
        raise


def contents(wheel: Path) -> dict[str, bytes]:
    """What is no machine code, and no record of it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith((".so", "RECORD"))}


def check_the_extension_is_where_it_can_be(direct: Path, packed: Path) -> None:
    extension = "psephos/protocol/paillier/_ifma.abi3.so"
    assert (extension in zipfile.ZipFile(direct).namelist()) == bool(COMPILER)
    assert extension not in zipfile.ZipFile(packed).namelist()


def check_the_wheel_holds_one_package_and_all_of_it(wheel: Path) -> None:
    names = set(contents(wheel))
    assert {name.split("/")[0] for name in names} == {
        "psephos",
        "-".join(wheel.name.split("-")[:2]) + ".dist-info",
    }
    tracked = subprocess.run(
        ["git", "ls-files", "psephos", "protocol", "parties", "curator"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    files = [name for name in tracked if not (ROOT / name).is_symlink()]
    wanted = {name if name.startswith("psephos/") else f"psephos/{name}" for name in files}
    assert {name for name in names if name.startswith("psephos/")} == wanted


def install_beside_rivals(wheel: Path, site: Path) -> None:
    """Ours and the two others in one folder, all of them from their wheels."""
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--target", site)
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
            found = hashlib.sha256((installed / name).read_bytes()).digest()
            assert base64.urlsafe_b64encode(found).decode().rstrip("=") == digest.removeprefix("sha256=")
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


@pytest.mark.packaging
def test_what_is_built_is_one_package_and_nobodys_rival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, since building takes its time."""
    build_both(tmp_path, monkeypatch)
    (direct,), (packed,) = (tmp_path / "direct").glob("*.whl"), (tmp_path / "packed").glob("*.whl")
    check_the_wheel_holds_one_package_and_all_of_it(direct)
    assert contents(direct) == contents(packed)
    check_the_extension_is_where_it_can_be(direct, packed)
    install_beside_rivals(direct, tmp_path / "site")
    check_beside_its_rivals_every_file_is_its_owners(tmp_path / "site")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    check_installed_it_is_found_and_works(tmp_path / "site", elsewhere)


def test_the_type_checker_sees_each_module_once() -> None:
    modulefinder = pytest.importorskip("mypy.modulefinder")
    paths = modulefinder.SearchPaths((str(ROOT),), (), (), ())
    found = modulefinder.FindModuleCache(paths, None, None).find_modules_recursive("psephos")
    real = [os.path.realpath(source.path) for source in found]
    assert len(real) == len(set(real)) > 100
    assert all(source.module.split(".")[0] == "psephos" for source in found)
