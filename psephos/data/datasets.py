"""The data sets that the papers use, in the form in which their authors publish them, and two of scikit-learn's.

None is downloaded unless `download` is called. A file's rows and the SHA-256 of its content are checked, not those of
its archive, since archives have been re-packed. Labels are integers 0 .. K-1; arrays are read-only and not scaled.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from psephos.protocol.errors import DataError, DataSetMissingError, InvalidParameter

NAMES = ("breast-cancer", "digits", "adult", "har", "kdd99", "url", "synthetic")
"""Names that `load` accepts: two data sets of scikit-learn, four that are read from files, and a synthetic one."""

URL_FEATURES = 3_231_961


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """One classification problem.

    Attributes:
        name: name of the data set.
        X_train, y_train: training features, float64 (n, d); float32 for kdd99, CSR for url; and labels, int64 (n,).
        X_test, y_test: the published test split in the same form; None if none was published.
        classes: names of the K classes, in the order of the labels.
        source: the publication to cite.
        feature_names: names of the d features, or ().
    """

    name: str
    X_train: Any
    y_train: NDArray[np.int64]
    X_test: Any
    y_test: NDArray[np.int64] | None
    classes: tuple[str, ...]
    source: str
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        arrays: list[Any] = [self.X_train, self.y_train, self.X_test, self.y_test]
        for array in arrays:
            parts = (array.data, array.indices, array.indptr) if scipy.sparse.issparse(array) else (array,)
            for part in parts:
                if part is not None:
                    part.flags.writeable = False

    @property
    def features(self) -> int:
        """Number of features d, before any preprocessing."""
        return int(self.X_train.shape[1])


@dataclass(frozen=True)
class DataFile:
    """One file of a published data set: its name, rows, and the SHA-256 of its decompressed content."""

    name: str
    rows: int
    sha256: str


class _Files(NamedTuple):
    """The files of a data set: the name of its folder inside the data folder, their address, and their names."""

    folder: str
    home: str
    names: tuple[str, ...]


_HAR_ZIP = "UCI HAR Dataset.zip"
_HAR_MEMBERS = ("train/X_train.txt", "train/y_train.txt", "test/X_test.txt", "test/y_test.txt")
_SETS: Mapping[str, _Files] = {
    "adult": _Files("a9a", "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/", ("a9a", "a9a.t")),
    "har": _Files(
        "har",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00240/UCI%20HAR%20Dataset.zip",
        (_HAR_ZIP,),
    ),
    "kdd99": _Files(
        "kdd99", "http://kdd.ics.uci.edu/databases/kddcup99/", ("kddcup.data_10_percent.gz", "corrected.gz")
    ),
    "url": _Files("url", "http://www.sysnet.ucsd.edu/projects/url/url_svmlight.tar.gz", ("url_svmlight.tar.gz",)),
}

_DIGESTS = {
    "a9a": (32_561, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
    "a9a.t": (16_281, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    "kddcup.data_10_percent.gz": (494_021, "f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a"),
    "corrected.gz": (311_029, "547dfb9c0f0dc1d9944219ec79e851191faebaeb8acbfa1cd171c418397052a4"),
    "train/X_train.txt": (7352, "32c777e74ef81f9e8e3082230d14bdaad948626b8b3c0fbfc8d1bdcde995094b"),
    "train/y_train.txt": (7352, "415b3357e2e2d5e70a45c781947c6bdd80e0410a579d862eedcd6bbce3c694ef"),
    "test/X_test.txt": (2947, "12abbfa7391bfb94a8962510b8f5b494ba0d8af3cce16382d890f0341241d884"),
    "test/y_test.txt": (2947, "2a94cb53ca46b956c1b2aebd4a09a72badd8a8e9ea9cdfe9f31b3306a08666bb"),
}
PUBLISHED: Mapping[str, DataFile] = {name: DataFile(name, *known) for name, known in _DIGESTS.items()}
"""The files that `load` and `download` check, by name; those of HAR are the members of its archive."""


def load(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    published: Mapping[str, DataFile] = PUBLISHED,
    **parameters: int,
) -> Dataset:
    """Load a data set, one of `NAMES`; `parameters` are those of `make_synthetic`.

    `published` has rows and digest of each file, for another edition than that of `PUBLISHED`.

    Raises:
        InvalidParameter: the name is unknown.
        DataSetMissingError: files are missing; the message says where to put them and where they are published.
        DataError: a file is damaged or incomplete.
    """
    if parameters and name != "synthetic":
        raise InvalidParameter(f"only the synthetic data set takes parameters; {name!r} was given {sorted(parameters)}")
    if name == "synthetic":
        return make_synthetic(**parameters)
    if name in _BUNDLED:
        return _load_bundled(name)
    if name in _READ:
        return _READ[name](data_folder(data_dir), published)
    own = "; your own CSV file is read as docs/own-data.md shows"
    raise InvalidParameter(f"unknown data set {name!r}; known: {', '.join(NAMES)}{own}")


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the data sets: `data_dir`, else PSEPHOS_DATA, else the user's cache folder."""
    chosen = data_dir if data_dir is not None else os.environ.get("PSEPHOS_DATA") or None
    if chosen is None:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "psephos" / "data"
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        origin = "--data-dir" if data_dir is not None else "PSEPHOS_DATA"
        raise DataSetMissingError(f"the data folder {folder} ({origin}) is no folder; create it or name another one")
    return folder


# -- bundled with scikit-learn, and synthetic


_BUNDLED = {
    "breast-cancer": (
        "load_breast_cancer",
        "Wolberg, Street, Mangasarian, Breast Cancer Wisconsin (Diagnostic), UCI 1993",
    ),
    "digits": ("load_digits", "Alpaydin, Kaynak, Optical Recognition of Handwritten Digits, UCI 1998"),
}


def _load_bundled(name: str) -> Dataset:
    from sklearn import datasets

    loader, source = _BUNDLED[name]
    data = getattr(datasets, loader)()
    X, y = np.array(data.data, np.float64), np.array(data.target, np.int64)
    classes, features = (tuple(map(str, names)) for names in (data.target_names, data.feature_names))
    return Dataset(name, X, y, None, None, classes, source, features)


def make_synthetic(
    classes: int = 2, features: int = 20, samples: int = 2000, test: int = 1000, seed: int = 0
) -> Dataset:
    """Generate synthetic data: one spherical Gaussian cloud for each class, around a random centre.

    The centres lie 4 standard deviations from the origin in independent directions, so that classes overlap a little.
    Every class appears in the training and the test rows. The same arguments give the same data.
    """
    if classes < 2 or features < 1:
        raise InvalidParameter(f"synthetic data needs at least 2 classes and 1 feature; got {classes} and {features}")
    if samples < classes or test < classes:
        raise InvalidParameter(f"{samples} samples and {test} test samples cannot show all of {classes} classes")
    if seed < 0:
        raise InvalidParameter(f"a seed is a non-negative integer; got {seed}")
    generator = np.random.default_rng([seed, classes, features])
    centres = generator.normal(size=(classes, features))
    centres *= 4 / np.linalg.norm(centres, axis=1, keepdims=True)

    def draw(count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        y = generator.permutation(np.arange(count, dtype=np.int64) % classes)
        return centres[y] + generator.normal(size=(count, features)), y

    X_train, y_train = draw(samples)
    X_test, y_test = draw(test)
    names = tuple(f"class {k}" for k in range(classes))
    return Dataset("synthetic", X_train, y_train, X_test, y_test, names, "synthetic Gaussian clouds made by Psephos")


# -- published files

_HAR_CLASSES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")


def _find(name: str, folder: Path) -> list[Path]:
    """Return the paths of the files of a data set, each in the data set's folder below `folder` or in `folder`."""
    known = _SETS[name]
    below = folder / known.folder
    paths = [next((p for p in (below / f, folder / f) if p.is_file()), None) for f in known.names]
    missing = [f for f, path in zip(known.names, paths, strict=True) if path is None]
    if missing:
        call = f'from psephos.data.datasets import download; download("{name}")'
        automatic = f", or fetch them: python -c '{call}'" if name != "url" else ""
        raise DataSetMissingError(
            f"data set {name!r}: {', '.join(missing)} not found in {below} or {folder}; published at {known.home}; "
            f"put the files there, or name their folder by --data-dir or PSEPHOS_DATA{automatic}"
        )
    return [path for path in paths if path is not None]


def content_of(path: Path) -> bytes:
    """Return the content of a file, decompressed if its name ends in .gz; raises DataError if it cannot be read."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: decompression failed ({error}): it is damaged, fetch it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _check(file: DataFile, content: bytes, where: Path) -> bytes:
    """Return `content`; raises DataError if its number of rows or its digest is not the published one."""
    found = (content.count(b"\n"), hashlib.sha256(content).hexdigest())
    if found != (file.rows, file.sha256):
        raise DataError(
            f"{where}: {file.name} has {found[0]} complete rows and SHA-256 {found[1]}, and the published one "
            f"{file.rows} and {file.sha256}: it is damaged or half downloaded, fetch it again"
        )
    return content


def _load_adult(folder: Path, published: Mapping[str, DataFile]) -> Dataset:
    """Load UCI Adult as LIBSVM's a9a, with 123 binary features; label 1 is an income over 50K."""
    from sklearn.datasets import load_svmlight_file

    parts = []
    for name, path in zip(_SETS["adult"].names, _find("adult", folder), strict=True):
        # Feature 123 does not occur in the test file, so the width has to be given.
        X, y = load_svmlight_file(io.BytesIO(_check(published[name], content_of(path), path)), n_features=123)
        parts.append((X.toarray(), (y > 0).astype(np.int64)))
    source = "Kohavi and Becker, Adult, UCI 1996, in LIBSVM's form a9a"
    return Dataset("adult", *parts[0], *parts[1], ("<=50K", ">50K"), source)


def _load_har(folder: Path, published: Mapping[str, DataFile]) -> Dataset:
    """Load UCI Human Activity Recognition: 561 features in [-1, 1], 6 activities, other subjects in the test rows."""
    (path,) = _find("har", folder)
    members = _har_members(content_of(path), path, published)
    X_train, y_train, X_test, y_test = (np.loadtxt(io.BytesIO(member), ndmin=2) for member in members)
    labels = [y.ravel().astype(np.int64) - 1 for y in (y_train, y_test)]
    source = "Anguita, Ghio, Oneto, Parra, Reyes-Ortiz, ESANN 2013; not for commercial use"
    return Dataset("har", X_train, labels[0], X_test, labels[1], _HAR_CLASSES, source)


def _har_members(archive: bytes, where: Path, published: Mapping[str, DataFile]) -> Iterator[bytes]:
    """Yield the checked contents of `_HAR_MEMBERS`, from an archive that was read from `where`."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as zip_file:
            names = set(zip_file.namelist())
            if _HAR_ZIP in names:  # UCI now serves the authors' archive inside another one
                yield from _har_members(zip_file.read(_HAR_ZIP), where, published)
                return
            for name in _HAR_MEMBERS:
                member = "UCI HAR Dataset/" + name
                if member not in names:
                    raise DataError(f"{where}: the archive holds no {member}; it is not the published one")
                yield _check(published[name], zip_file.read(member), where)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{where}: not a readable zip archive ({error}), fetch it again") from error


# The 41 attributes of KDD-99, by position (kddcup.names). Seven are symbolic; four of those are 0/1 by definition.
_KDD_WORDS = [1, 2, 3]  # protocol_type, service, flag
_KDD_BINARY = [6, 11, 20, 21]  # land, logged_in, is_host_login, is_guest_login
_KDD_NUMERIC = [c for c in range(41) if c not in (*_KDD_WORDS, *_KDD_BINARY)]
_KDD_OTHER = "any other service"


def _load_kdd99(folder: Path, published: Mapping[str, DataFile]) -> Dataset:
    """Load KDD Cup 99, the 10 % file and the corrected test file: 123 features, label 0 normal, 1 attack."""
    # Hamm 2016 (6.2) has d = 123 "one-hot" features and does not say which: 34 numeric + 3 protocols + 67 services +
    # 11 flags + 4 pairs. The training file has 66 services; the 67th column means any other one, since a vocabulary
    # must not come from the test file. float32, since 805,050 dense rows take 792 MB in float64.
    import pandas as pd
    from sklearn.preprocessing import OneHotEncoder

    known: list[list[Any]] = []
    parts = []
    for name, path in zip(_SETS["kdd99"].names, _find("kdd99", folder), strict=True):
        text = io.BytesIO(_check(published[name], content_of(path), path))
        try:
            table = pd.read_csv(text, header=None, keep_default_na=False)
            known = known or [sorted(table[column].unique()) for column in _KDD_WORDS]
            protocols, services, flags = known
            table[2] = table[2].where(table[2].isin(services), _KDD_OTHER)
            categories = [protocols, [*services, _KDD_OTHER], flags, *[[0, 1]] * len(_KDD_BINARY)]
            encoder = OneHotEncoder(categories=categories, dtype=np.float32, sparse_output=False)
            symbols = encoder.fit_transform(table[_KDD_WORDS + _KDD_BINARY])
            X = np.concatenate([table[_KDD_NUMERIC].to_numpy(np.float32), symbols], axis=1)
        except ValueError as error:
            raise DataError(
                f"{path}: a row is damaged, or has a protocol or flag that no training row has: {error}"
            ) from None
        parts.append((X, np.asarray(table[41] != "normal.", np.int64)))
    source = "Stolfo, Fan, Lee, Prodromidis, Chan, KDD Cup 1999 Data, UCI"
    return Dataset("kdd99", *parts[0], *parts[1], ("normal", "attack"), source)


_URL_DAYS = 10
"""Days of training, and of testing after them (Hamm 2016, 6.3)."""


def _load_url(folder: Path, published: Mapping[str, DataFile]) -> Dataset:
    """Load 20 days of the malicious URL data (Ma et al. 2009), CSR (n, 3,231,961); label 1 is malicious.

    No digest of it has been published. It is therefore checked that every row is complete and in range, and the
    archive's own checksum.
    """
    (archive,) = _find("url", folder)
    texts = _from_archive(archive, {f"Day{day}.svm": day for day in range(2 * _URL_DAYS)})
    parts = [_url_part(range(start, start + _URL_DAYS), texts) for start in (0, _URL_DAYS)]
    source = "Ma, Saul, Savage, Voelker, Identifying Suspicious URLs, ICML 2009"
    return Dataset("url", *parts[0], *parts[1], ("benign", "malicious"), source)


def _from_archive(archive: Path, days: Mapping[str, int]) -> dict[int, bytes]:
    """Return the content of the file of each day; `days` by the name of the file."""
    texts: dict[int, bytes] = {}
    try:
        with gzip.open(archive) as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as stream:
                for member in stream:
                    day = days.get(Path(member.name).name)
                    file = stream.extractfile(member) if day is not None else None
                    if day is not None and file is not None:
                        texts[day] = file.read()
            while unpacked.read(1 << 20):  # read to the end, where gzip checks length and CRC
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{archive}: not a readable tar.gz ({error}); it is damaged or incomplete") from error
    if len(texts) < len(days):
        raise DataError(f"{archive}: the archive holds no {', '.join(n for n, d in days.items() if d not in texts)}")
    return texts


def _url_part(days: Sequence[int], texts: dict[int, bytes]) -> tuple[Any, NDArray[np.int64]]:
    """Return features, CSR (n, d), and labels, int64 (n,), of some days, whose texts are removed from `texts`."""
    from sklearn.datasets import load_svmlight_file

    rows, labels = [], []
    for day in days:
        text = texts.pop(day)
        if not text.endswith(b"\n"):
            raise DataError(f"Day{day}.svm ends in the middle of a row; it is half downloaded, fetch it again")
        try:
            X, y = load_svmlight_file(io.BytesIO(text), n_features=URL_FEATURES, zero_based=False)
        except ValueError as error:
            raise DataError(f"Day{day}.svm is damaged: {error}") from error
        if not np.isin(y, (-1, 1)).all():
            raise DataError(f"Day{day}.svm has a label other than +1 and -1")
        rows.append(X)
        labels.append((y > 0).astype(np.int64))
    return scipy.sparse.vstack(rows, format="csr"), np.concatenate(labels)


_READ: Mapping[str, Callable[[Path, Mapping[str, DataFile]], Dataset]] = {
    "adult": _load_adult,
    "har": _load_har,
    "kdd99": _load_kdd99,
    "url": _load_url,
}


# -- download


def download(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    homes: Mapping[str, str] | None = None,
    published: Mapping[str, DataFile] = PUBLISHED,
) -> Path:
    """Download the files of a data set into its folder below the data folder, which is returned.

    Files that are present and correct are not downloaded again. A file gets its name only after it has passed the
    checks of `load`, so a failed download leaves nothing behind.
    """
    if name not in _SETS or name == "url":
        raise InvalidParameter(
            f"only adult, har and kdd99 can be downloaded, not {name!r} (url, at {_SETS['url'].home}, has no published "
            "checksum: fetch it by hand)"
        )
    known = _SETS[name]
    folder = data_folder(data_dir) / known.folder
    folder.mkdir(parents=True, exist_ok=True)
    for file_name in known.names:
        target = folder / file_name
        if target.exists():
            try:
                _verify(file_name, target, published)
                continue
            except DataError:
                pass  # damaged: downloaded again below, and replaced only if the download passes the checks
        home = known.home if file_name == _HAR_ZIP else known.home + file_name
        address = (homes or {}).get(file_name, home)
        if not address.startswith(("http://", "https://")):
            raise InvalidParameter(f"{address!r} is not an http or https address")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
            path = Path(scratch) / file_name
            try:
                with urllib.request.urlopen(address, timeout=60) as answer, path.open("wb") as out:  # noqa: S310
                    shutil.copyfileobj(answer, out)
            except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
                raise DataSetMissingError(f"{address} failed ({error}): put the file at {target} by hand") from error
            except OSError as error:
                raise DataError(f"{target} cannot be written: {error.strerror}; nothing was left behind") from error
            _verify(file_name, path, published)
            path.replace(target)
    return folder


def _verify(file_name: str, path: Path, published: Mapping[str, DataFile]) -> None:
    if file_name == _HAR_ZIP:
        for _ in _har_members(content_of(path), path, published):
            pass
    else:
        _check(published[file_name], content_of(path), path)
