"""``TestBase``: what a task's test class derives from; it knows how to build the task's kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from optest import arch
from optest.errors import OptestError, UsageError
from optest.testing import extension
from optest.testing.extension import Extension, Sources


class TestBase:
    """Base of a task's tests; override ``build`` where the kernel is compiled.

    ::

        class TestRelu(TestBase):
            def build(self, gpu_arch):
                here = Path(__file__).parent
                return self.compile_torch_extension("relu_kernel", "relu.cpp", here, gpu_arch)

            def test_correctness(self, kernel, data): ...

            @pytest.mark.performance
            def test_benchmark(self, kernel, device, data, measure_runtime_torch): ...

        if __name__ == "__main__":
            TestRelu.main()
    """

    def build(self, gpu_arch: str, **buildtime_params: Any) -> list[str]:  # noqa: ANN401, ARG002
        """Build the kernel; nothing to do unless a task overrides it.

        Args:
            gpu_arch: arch to build for, as ``get_machine_gpu_arch`` names it.
            buildtime_params: the task's own.

        Returns:
            Paths of what the tests need, inside the task's folder.
        """
        return []

    def build_reference(self, gpu_arch: str, **buildtime_params: Any) -> list[str]:  # noqa: ANN401, ARG002
        """Build the reference; nothing to do unless a task overrides it. As ``build``."""
        return []

    @staticmethod
    def validate() -> None:
        """Raise where something that the task needs is missing; called before it is built."""

    @staticmethod
    def get_machine_gpu_arch() -> str:
        """Arch of this machine's device: ``gfx942``, ``sm_90``, and ``cpu`` where there is none."""
        return str(arch.get_gfx_runtime())

    @staticmethod
    def compile_torch_extension(  # noqa: PLR0913, PLR0917 - upstream's signature, two words more
        extension_name: str,
        src: Sources,
        output_dir: str | Path,
        gpu_arch: str,
        timeout: float = 120,
        backend: str = "torch",
        spirv_translator_options: str | None = None,
        backend_compile_options: str | None = None,
        *,
        extra_cflags: tuple[str, ...] = (),
        extra_ldflags: tuple[str, ...] = (),
    ) -> list[str]:
        """Compile sources to ``<output_dir>/<extension_name>.so``, a module that can be imported.

        A source defines a module (``PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)``) or registers
        operators (``STABLE_TORCH_LIBRARY(<extension_name>, m)``, which builds in seconds); the
        module's attributes are then its operators. The build runs in a process of its own and is
        cached by content, flags, compiler and torch. No ninja is needed.

        Args:
            extension_name: the module's name.
            src: a .cpp, .cu or .hip file, or several; a relative path is of the working folder,
                else of ``output_dir``.
            output_dir: folder of the module; made where it is missing.
            gpu_arch: arch to build device code for: ``cpu``, ``gfx942``, ``sm_90``, ``9.0``, or
                several separated by blanks.
            timeout: seconds; the compilers are ended after that.
            backend: only ``torch``.
            spirv_translator_options: of the backend ``icpx``, which optest does not have.
            backend_compile_options: the same.
            extra_cflags: added to every compile command.
            extra_ldflags: added to the link command.

        Returns:
            The path of the module, in a list.

        Raises:
            ValueError: an argument that cannot be; the message names it.
            RuntimeError: (``BuildError``) no compiler, the compiler's refusal in its own words and
                with the command, a module that compiled and cannot be imported, or a time-out.
        """
        extension.check_name(extension_name)
        if backend != "torch" or spirv_translator_options or backend_compile_options:
            raise UsageError(
                f"backend={backend!r}: optest builds with C++, CUDA and HIP compilers "
                '(backend="torch"); SYCL sources and their options have no compiler here'
            )
        if not timeout > 0:
            raise UsageError(f"timeout={timeout!r}: expected a positive number of seconds")
        folder = Path(output_dir)
        sources = extension.find_sources(src, folder)
        made = extension.build(
            Extension(
                extension_name,
                sources,
                folder,
                gpu_arch,
                timeout,
                tuple(extra_cflags),
                tuple(extra_ldflags),
            )
        )
        return [made.as_posix()]

    @staticmethod
    def load_extension(extension_name: str, output_dir: str | Path) -> ModuleType:
        """Import what ``compile_torch_extension`` built, wherever the import path leads.

        Raises:
            RuntimeError: (``BuildError``) it was not built yet, or it cannot be imported.
        """
        return extension.load(extension_name, Path(output_dir))

    @classmethod
    def main(cls) -> None:
        """``python task.py``: validate the task, build its kernel for this machine, print where.

        Raises:
            SystemExit: with status 1 and the reason on standard error, where that fails.
        """
        try:
            cls.validate()
            made = cls().build(cls.get_machine_gpu_arch())
        except OptestError as error:
            print(error, file=sys.stderr)  # noqa: T201 - a script's last words
            raise SystemExit(1) from None
        for path in made:
            print(path)  # noqa: T201 - a script's result


CustomTest = TestBase  # its name in older tasks
