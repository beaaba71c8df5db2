"""The one thing that pyproject.toml cannot say yet: a C extension that may fail to build, for gmpy2 does the same."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "psephos.protocol.paillier._ifma",
            ["psephos/protocol/paillier/ifma.c"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for every later Python
)
