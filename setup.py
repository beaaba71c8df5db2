"""What pyproject.toml cannot say: where the packages are, and C extensions that may fail to build.

Four folders at the top are one package: `protocol` is `psephos.protocol`, and so on. The links in `psephos/` say the
same to tools that read a checkout without installing it (mypy, editors); nothing here needs them, because a checkout
on Windows has none. The extensions may fail because gmpy2 and numpy do the same; with the environment variable
PSEPHOS_PURE nothing is compiled, and the wheel is for every machine.
"""

import os

from setuptools import Extension, find_packages, setup

FOLDERS = ("protocol", "parties", "curator")
PURE = bool(os.environ.get("PSEPHOS_PURE"))
EXTENSIONS = [
    Extension(
        f"psephos.protocol.{folder}._{name}",
        [f"protocol/{folder}/{name}.c"],
        define_macros=[("Py_LIMITED_API", "0x030b0000")],
        py_limited_api=True,
        optional=True,
    )
    for folder, name in (("paillier", "ifma"), ("proofs", "field"))
]


def packages() -> list[str]:
    """Return the names of all packages, whether the links are there or not."""
    inside = find_packages(include=[pattern for folder in FOLDERS for pattern in (folder, f"{folder}.*")])
    linked = tuple(f"psephos.{folder}" for folder in FOLDERS)
    front = [name for name in find_packages(include=["psephos", "psephos.*"]) if not name.startswith(linked)]
    return front + [f"psephos.{name}" for name in inside]


setup(
    packages=packages(),
    package_dir={"psephos": "psephos"} | {f"psephos.{folder}": folder for folder in FOLDERS},
    ext_modules=[] if PURE else EXTENSIONS,
    options={} if PURE else {"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for every later Python
)
