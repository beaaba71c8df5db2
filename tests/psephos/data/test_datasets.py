"""Data sets: what is read is what was published, and anything else is refused with the check that failed.

The published files are not in the repository. Small files of the same form stand in for them, with their own
checksums; where PSEPHOS_DATA names a folder with the real ones, those are read too.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.data import datasets
from psephos.data.datasets import NAMES, PUBLISHED, DataFile, Dataset, data_folder, make_synthetic
from psephos.protocol.errors import DataError, DataSetMissingError, InvalidParameter

A9A = b"-1 3:1 11:1 \n+1 5:1 123:1 \n-1 1:1 \n"
A9A_TEST = b"+1 2:1 \n-1 7:1 \n"
HAR = {
    "train/X_train.txt": b"  1.5e-001 -2.0e-001\n  3.0e-001  4.0e-001\n",
    "train/y_train.txt": b"5\n1\n",
    "test/X_test.txt": b" -1.0e+000  1.0e+000\n",
    "test/y_test.txt": b"6\n",
}
DAY = b"-1 4:0.5 3231961:1\n+1 1:2\n"


def kdd_row(service: str, label: str, *, protocol: str = "tcp", duration: int = 0, host_login: int = 0) -> bytes:
    fields = [str(duration), protocol, service, "SF", "181", "5450", *["0"] * 35]
    fields[20] = str(host_login)
    return (",".join([*fields, label]) + "\n").encode()


KDD = kdd_row("http", "normal.", duration=7) + kdd_row("smtp", "smurf.", protocol="udp") * 3
KDD_TEST = kdd_row("icmp", "xlock.", host_login=1) + kdd_row("smtp", "normal.", protocol="udp")
CONTENT = {"a9a": A9A, "a9a.t": A9A_TEST, "kddcup.data_10_percent.gz": KDD, "corrected.gz": KDD_TEST, **HAR}


def expected(**contents: bytes) -> dict[str, DataFile]:
    """What is to be expected of files with these contents (names as in CONTENT), in place of the published ones."""
    return {
        name: replace(file, rows=text.count(b"\n"), sha256=hashlib.sha256(text).hexdigest())
        for name, file in PUBLISHED.items()
        for text in [{**CONTENT, **contents}[name]]
    }


def load(name: str, *places: Any, published: Mapping[str, DataFile] | None = None, **parameters: int) -> Dataset:
    return datasets.load(name, *places, published=published or expected(), **parameters)


def download(name: str, *places: Any) -> Path:
    return datasets.download(name, *places, published=expected())


def har_archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr("UCI HAR Dataset/" + name, content)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a stand-in for each published file."""
    files = {
        "a9a/a9a": A9A,
        "a9a/a9a.t": A9A_TEST,
        "har/UCI HAR Dataset.zip": har_archive(HAR),
        "kdd99/kddcup.data_10_percent.gz": gzip.compress(KDD, mtime=0),
        "kdd99/corrected.gz": gzip.compress(KDD_TEST, mtime=0),
        "url/url_svmlight.tar.gz": url_archive(Day10=b"+1 2:1\n"),
    }
    monkeypatch.delenv("PSEPHOS_DATA", raising=False)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


# -- what is always there


def test_synthetic_data_has_the_requested_shape() -> None:
    data = load("synthetic", classes=4, features=7, samples=50, test=9, seed=3)
    assert data.X_train.shape == (50, 7)
    assert data.X_test.shape == (9, 7)
    assert data.y_test is not None
    assert set(data.y_train) == set(data.y_test) == {0, 1, 2, 3}
    again = make_synthetic(4, 7, 50, 9, 3)
    assert np.array_equal(data.X_train, again.X_train)
    assert not np.array_equal(data.X_train, make_synthetic(4, 7, 50, 9, 4).X_train)
    assert "synthetic" in data.source


# -- published files, small


def test_adult_files_are_read(folder: Path) -> None:
    data = load("adult", folder)
    assert data.X_train.shape == (3, 123)
    assert data.X_test.shape == (2, 123)  # feature 123 does not occur in the test file
    assert data.y_train.tolist() == [0, 1, 0]
    assert data.X_train[1, 122] == 1
    assert data.X_train.sum() == 5


def test_har_archive_is_read(folder: Path) -> None:
    data = load("har", folder)
    assert data.X_train.tolist() == [[0.15, -0.2], [0.3, 0.4]]
    assert data.y_train.tolist() == [4, 0]
    assert data.y_test is not None
    assert data.y_test.tolist() == [5]
    assert data.classes[5] == "LAYING"


def test_kdd99_takes_its_categories_from_the_training_file(folder: Path) -> None:
    data = load("kdd99", folder)
    # 34 numeric, tcp/udp, http/smtp/unseen, SF, four pairs
    assert data.features == 34 + 2 + 3 + 1 + 8
    assert data.y_train.tolist() == [0, 1, 1, 1]
    assert data.y_test is not None
    assert data.y_test.tolist() == [1, 0]
    assert data.X_train.dtype == np.float32
    assert data.X_train[0, :3].tolist() == [7, 181, 5450]
    assert data.X_train[:2, 34:36].tolist() == [[1, 0], [0, 1]]
    assert data.X_train[:2, 36:39].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert data.X_test[0, 36:39].tolist() == [0, 0, 1]  # icmp
    assert data.X_test[0, 40:].tolist() == [1, 0, 1, 0, 0, 1, 1, 0]  # is_host_login is 1
    assert np.array_equal(data.X_train[1], data.X_train[3])


@pytest.mark.parametrize(
    "text", [kdd_row("http", "normal.", protocol="sctp"), KDD_TEST + b"1,2\n", KDD_TEST + KDD_TEST.replace(b".", b",1")]
)
def test_kdd99_refuses_unknown_protocols_and_damaged_rows(folder: Path, text: bytes) -> None:
    (folder / "kdd99" / "corrected.gz").write_bytes(gzip.compress(text))
    with pytest.raises(DataError):
        load("kdd99", folder, published=expected(**{"corrected.gz": text}))


def url_archive(**changed: bytes) -> bytes:
    """The authors' archive, of small days, some of them changed or (empty) left out."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in {"FeatureTypes": b"1\n", **{f"Day{day}": DAY for day in range(21)}, **changed}.items():
            info = tarfile.TarInfo(f"url_svmlight/{name}.svm")
            info.size = len(text)
            if text:
                archive.addfile(info, io.BytesIO(text))
    return out.getvalue()


def test_url_archive_is_read(folder: Path) -> None:
    data = load("url", folder)
    assert data.X_train.shape == (20, 3_231_961)
    assert data.y_train.tolist() == [0, 1] * 10
    assert data.X_train[0, 3] == 0.5
    assert data.X_train[0, 3_231_960] == 1
    assert data.X_test.shape == (19, 3_231_961)
    assert data.y_test is not None
    assert data.y_test.tolist() == [1] + [0, 1] * 9


def test_incomplete_url_archives_are_refused(folder: Path) -> None:
    path = folder / "url" / "url_svmlight.tar.gz"
    for damaged, named in ((path.read_bytes()[:-20], "damaged"), (url_archive(Day4=b""), r"Day4\.svm")):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=named):
            load("url", folder)


@pytest.mark.parametrize("text", [DAY[:-1], b"+1 0:1\n", b"+2 1:1\n", b"+1 3231962:1\n", b"+1 x\n"])
def test_damaged_url_files_are_refused(folder: Path, text: bytes) -> None:
    (folder / "url" / "url_svmlight.tar.gz").write_bytes(url_archive(Day15=text))
    with pytest.raises(DataError, match="Day15"):
        load("url", folder)


# -- damage


def flip(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old) >= 1
    return content.replace(old, new, 1)


# -- where files are looked for


def test_the_given_folder_precedes_the_environment(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.setenv("PSEPHOS_DATA", str(folder))
    assert data_folder() == folder
    assert len(load("adult").y_train) == 3
    with pytest.raises(DataSetMissingError):
        load("adult", empty)
    monkeypatch.setenv("PSEPHOS_DATA", str(empty / "typo"))
    with pytest.raises(DataSetMissingError, match="PSEPHOS_DATA"):
        load("adult")
    monkeypatch.delenv("PSEPHOS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(empty))
    assert data_folder() == empty / "psephos" / "data"
    with pytest.raises(DataSetMissingError):
        load("adult")


# -- download, from a server on this machine


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_download(folder: Path, server: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("target")
    homes = {
        "a9a": f"{server}/a9a/a9a",
        "a9a.t": f"{server}/a9a/a9a.t",
        "UCI HAR Dataset.zip": f"{server}/har/UCI%20HAR%20Dataset.zip",
        "corrected.gz": f"{server}/kdd99/corrected.gz",
        "kddcup.data_10_percent.gz": f"{server}/kdd99/kddcup.data_10_percent.gz",
    }
    for name in ("adult", "har", "kdd99"):
        download(name, target, homes)
        assert len(load(name, target).y_train) == len(load(name, folder).y_train)
    assert download("adult", target, {"a9a": "http://127.0.0.1:9/", "a9a.t": "http://127.0.0.1:9/"}) == target / "a9a"


def test_a_broken_download_leaves_nothing_behind(
    folder: Path, server: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("target")
    (folder / "a9a" / "a9a").write_bytes(A9A[:-8])
    homes = {"a9a": f"{server}/a9a/a9a", "a9a.t": f"{server}/a9a/a9a.t"}
    with pytest.raises(DataError, match="rows"):
        download("adult", target, homes)
    assert list((target / "a9a").iterdir()) == []
    with pytest.raises(DataSetMissingError, match="by hand"):
        download("adult", target, {"a9a": f"{server}/absent"})
    (target / "a9a" / "a9a").write_bytes(b"damaged\n")
    (folder / "a9a" / "a9a").write_bytes(A9A)
    download("adult", target, homes)
    assert (target / "a9a" / "a9a").read_bytes() == A9A


# -- the real files, where they are


HAR_FILE = "har/UCI HAR Dataset.zip"


@pytest.mark.parametrize(
    ("file", "damaged"),
    [
        ("a9a/a9a", A9A[:-5]),
        ("a9a/a9a.t", A9A_TEST.replace(b"7:1", b"8:1", 1)),
        ("kdd99/kddcup.data_10_percent.gz", gzip.compress(KDD, mtime=0)[:-9]),
        ("kdd99/corrected.gz", gzip.compress(KDD_TEST[:-4], mtime=0)),
        ("kdd99/corrected.gz", b"<html>"),
        ("kdd99/corrected.gz", gzip.compress(KDD_TEST.replace(b"xlock", b"ylock"), mtime=0)),
        (HAR_FILE, har_archive(HAR)[:-30]),
        (HAR_FILE, har_archive({})),
        (HAR_FILE, har_archive({**HAR, "train/y_train.txt": b"5\n2\n"})),
        (HAR_FILE, har_archive({**HAR, "test/X_test.txt": b""})),
    ],
)
def test_damaged_files_are_refused_by_name(folder: Path, file: str, damaged: bytes) -> None:
    name = {"a9a": "adult"}.get(file.split("/")[0], file.split("/")[0])
    load(name, folder)
    (folder / file).write_bytes(damaged)
    with pytest.raises(DataError, match=Path(file).name):
        load(name, folder)


@pytest.mark.parametrize("name", ["adult", "har", "kdd99", "url"])
def test_missing_files_say_where_to_put_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataSetMissingError, match=str(tmp_path)):
        load(name, tmp_path)


def test_other_names_parameters_and_addresses_are_refused(tmp_path: Path) -> None:
    for wrong in (lambda: load("iris"), lambda: load("digits", classes=3), lambda: download("digits", tmp_path)):
        with pytest.raises(InvalidParameter):
            wrong()
    for name, homes in (("adult", {"a9a": "file:///etc/passwd"}), ("url", {})):
        with pytest.raises(InvalidParameter):
            download(name, tmp_path, homes)
    assert {"breast-cancer", "digits", "adult", "har", "kdd99", "url", "synthetic"} == set(NAMES)


def test_bundled_data_sets_have_no_test_rows() -> None:
    for name, shape, classes in (("breast-cancer", (569, 30), 2), ("digits", (1797, 64), 10)):
        data = load(name)
        assert (data.X_train.shape, data.X_test, data.y_test, len(data.classes)) == (shape, None, None, classes)
        assert set(data.y_train) == set(range(classes))
