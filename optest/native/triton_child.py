"""The child process of ``triton_aot``: JSON requests on standard input, one answer a line."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer every request, in order; what triton prints goes to standard error."""
    for request in json.load(sys.stdin):
        with contextlib.redirect_stdout(sys.stderr):
            answer = _answer(request)
        print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol


def _answer(request: dict[str, Any]) -> dict[str, object]:
    try:
        return _compile(request)
    except Exception as error:  # noqa: BLE001 - reported to the parent, whatever triton raised
        return {"error": _words(error)}


def _words(error: BaseException) -> str:
    """An exception with its causes: triton wraps the one that says what is wrong."""
    words = f"{type(error).__name__}: {error}"
    return words if error.__cause__ is None else f"{words}\n{_words(error.__cause__)}"


def _compile(request: dict[str, Any]) -> dict[str, object]:
    import triton
    from triton.compiler import ASTSource

    kernel = _find(request["kernel"])
    signature, attrs = _signature(kernel, request["signature"], request["constexprs"])
    constexprs = {name: _constant(value) for name, value in request["constexprs"].items()}
    source = ASTSource(kernel, signature, constexprs, attrs)
    options = {name: request[name] for name in ("num_warps", "num_stages") if request[name]}
    made = triton.compile(source, target=_target(request["target"]), options=options)
    if request["keep"]:
        name = request["kernel"].rpartition(":")[2]
        _write(made.asm, Path(request["keep"]), name, stages=request["keep_stages"])
    return _facts(made)


def _write(asm: Any, folder: Path, name: str, *, stages: bool) -> None:  # noqa: ANN401
    folder.mkdir(parents=True, exist_ok=True)
    for stage, content in asm.items():
        if isinstance(content, bytes):
            (folder / f"{name}.{stage}").write_bytes(content)
        elif stages:
            (folder / f"{name}.{stage}").write_text(str(content))


def _find(reference: str) -> Any:  # noqa: ANN401 - a triton.JITFunction
    place, _, name = reference.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    return getattr(module, name)


def _signature(
    kernel: Any,  # noqa: ANN401
    given: dict[str, str],
    constexprs: dict[str, object],
) -> tuple[dict[str, str], dict[tuple[int], list[list[object]]]]:
    signature: dict[str, str] = {}
    attrs: dict[tuple[int], list[list[object]]] = {}
    names = list(kernel.arg_names)
    unknown = sorted({*given, *constexprs} - set(names))
    if unknown:
        raise ValueError(f"no arguments {', '.join(unknown)}; the kernel takes {', '.join(names)}")
    for index, name in enumerate(names):
        if name in constexprs:
            signature[name] = "constexpr"
            continue
        if name not in given:
            raise ValueError(f"argument {name} has neither a type nor a constexpr value")
        signature[name], _, multiple = given[name].partition(":")
        if multiple:
            attrs[(index,)] = [["tt.divisibility", int(multiple)]]
    return signature, attrs


def _constant(value: object) -> object:
    if not isinstance(value, str) or not value.startswith("tl."):
        return value
    import triton.language as tl

    return getattr(tl, value.removeprefix("tl."))


def _target(name: str) -> Any:  # noqa: ANN401 - a triton GPUTarget
    from triton.backends.compiler import GPUTarget

    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name.removeprefix("sm_").rstrip("a")), 32)
    return GPUTarget("hip", name, 64 if name.startswith("gfx9") else 32)


def _facts(made: Any) -> dict[str, object]:  # noqa: ANN401 - a triton CompiledKernel
    binary = made.asm.get("hsaco") or made.asm.get("cubin") or b""
    registers, spills = (
        _amd_registers(made.asm["amdgcn"]) if "amdgcn" in made.asm else _cuda_registers(binary)
    )
    return {
        "registers": registers,
        "spills": spills,
        "shared_bytes": int(made.metadata.shared),
        "code_bytes": len(binary),
    }


def _amd_registers(assembly: str) -> tuple[int | None, int | None]:
    """From the metadata that the assembler writes for the loader."""

    def count(key: str) -> int | None:
        found = re.search(rf"\.{key}:\s+(\d+)", assembly)
        return int(found[1]) if found else None

    return count("vgpr_count"), count("vgpr_spill_count")


def _cuda_registers(cubin: bytes) -> tuple[int | None, int | None]:
    """From cuobjdump, which triton brings."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not os.access(tool, os.X_OK):
        return None, None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(  # noqa: S603 - triton's own tool
            [str(tool), "-res-usage", file.name], capture_output=True, text=True, check=False
        )
    registers = re.search(r"REG:(\d+)", done.stdout)
    spilled = re.search(r"LOCAL:(\d+)", done.stdout)
    return (int(registers[1]) if registers else None), (int(spilled[1]) if spilled else None)


if __name__ == "__main__":
    main()
