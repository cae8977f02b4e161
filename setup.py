"""Builds the wheel with the native kernel in it, for any Python 3; without a C compiler it is pure Python."""

import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from build_kernel import SOURCES, build

NAME = "posenc.kernels.rotary.native"


class Kernel(build_ext):
    """The library, which holds no module of Python: its name has no version of one."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"

    def build_extension(self, ext: Extension) -> None:
        try:
            build(Path(self.get_ext_fullpath(ext.name)))
        except (OSError, subprocess.CalledProcessError) as error:
            self.warn(
                f"the native kernel was not compiled ({error}); without it, posenc is slower but equally exact"
            )


class Wheel(bdist_wheel):
    """Serves every Python 3: of this platform with the library in it, of any without."""

    def get_tag(self) -> tuple[str, str, str]:
        library = self.get_finalized_command("build_ext").get_ext_fullpath(NAME)
        return "py3", "none", super().get_tag()[2] if Path(library).exists() else "any"


sources = [str(file.relative_to(Path(__file__).parent)) for file in sorted(SOURCES.glob("*.[ch]"))]
setup(
    cmdclass={"build_ext": Kernel, "bdist_wheel": Wheel},
    ext_modules=[Extension(NAME, sources, optional=True)],
)
