"""The cache of compiled libraries: what is built again, what is not, and by whom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from optest.errors import BuildError
from optest.native import build as building
from optest.native import compiler, library
from optest.native.build import Recipe, build

ROOT = Path(__file__).parents[2]
PLAIN = '#include "answer.h"\nextern "C" __attribute__((visibility("default"))) int answer() '
SOURCE = PLAIN + "{ return ANSWER; }\n"

pytestmark = pytest.mark.skipif(compiler.find(compiler.CXX) is None, reason="no C++ compiler")


@pytest.fixture
def recipe(tmp_path, monkeypatch) -> Recipe:
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(tmp_path / "cache"))
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    source = tmp_path / "answer.cpp"
    source.write_text(SOURCE)
    return Recipe("answer", (source,))


@pytest.fixture
def builds(monkeypatch) -> list[str]:
    """Labels of the builds that really took place."""
    seen: list[str] = []
    real = building._build_into

    def spy(folder, library, recipe):
        seen.append(recipe.name)
        real(folder, library, recipe)

    monkeypatch.setattr(building, "_build_into", spy)
    return seen


def test_the_second_call_finds_the_first_ones_library(recipe, builds):
    assert build(recipe) == build(recipe)
    assert builds == ["answer"]


def test_what_is_built_beside_starts_only_where_something_is_compiled(recipe, builds):
    at = []
    build(recipe, lambda: at.append(len(builds)))
    build(recipe, lambda: at.append(len(builds)))
    assert at == [0]


def test_what_every_run_asks_for_is_built_once_beside_the_first(monkeypatch):
    begin, asked = threading.Event(), []

    def slow(recipe):
        begin.wait(10)
        asked.append(recipe.label)
        if recipe.label == "csrc/harness.cpp":
            raise BuildError("refused")  # for who asks for it, not for the first

    monkeypatch.setattr(library, "build", slow)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    ahead = library._Ahead()
    ahead.start()
    ahead.start()
    assert not asked  # nobody waited
    begin.set()
    ahead.wait()
    assert asked == ["csrc/harness.cpp", "csrc/compare.cpp"]


def test_one_core_builds_nothing_beside(monkeypatch):
    monkeypatch.setattr(library, "build", lambda recipe: pytest.fail(f"{recipe.label} was built"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    ahead = library._Ahead()
    ahead.start()
    ahead.wait()


def test_a_changed_source_flag_compiler_or_torch_is_another_library(recipe, monkeypatch):
    keys = {recipe.key()}
    keys.add(Recipe("answer", recipe.sources, extra_cflags=("-DX",)).key())
    keys.add(Recipe("answer", recipe.sources, extra_ldflags=("-lm",)).key())
    recipe.sources[0].write_text(SOURCE + "// changed\n")
    keys.add(recipe.key())
    monkeypatch.setattr(compiler, "torch_version", lambda: "9.9.9")
    keys.add(recipe.key())
    words = compiler.Compiler(compiler.CXX, compiler.find(compiler.CXX).command, "version 99")
    monkeypatch.setattr(compiler, "find", lambda _kind: words)
    keys.add(recipe.key())
    assert len(keys) == 6


def test_a_changed_header_is_built_again(recipe, builds, tmp_path):
    build(recipe)
    (tmp_path / "answer.h").write_text("#define ANSWER 43\n")
    path = build(recipe)
    assert builds == ["answer", "answer"]
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).answer())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "43"


@pytest.mark.parametrize("damage", ["torn", "gone", "manifest"])
def test_a_damaged_cache_is_built_again(recipe, builds, damage):
    path = build(recipe)
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "gone":
        path.unlink()
    else:
        (path.parent / "manifest.json").write_text("[1]")
    assert build(recipe) == path
    assert builds == ["answer", "answer"]


def test_two_processes_build_once(recipe, tmp_path):
    """Both start with an empty cache; one must wait for the other and not build again."""
    code = textwrap.dedent(f"""
        from pathlib import Path
        from optest.native.build import Recipe, build
        build(Recipe("answer", (Path({str(recipe.sources[0])!r}),), ("-DSLOW",)))
    """)
    # A header so long that the first is still at it when the second arrives.
    many = "".join(f"inline int f{i}(int x) {{ return x + {i}; }}\n" for i in range(30_000))
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n" + many)
    running = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(2)
    ]
    words = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], words
    assert sum(text.count("building answer.cpp ... ") for text in words) == 1, words


def test_a_refusal_carries_the_compilers_words_and_the_command(recipe, tmp_path):
    recipe.sources[0].write_text("int answer() { return missing_name; }\n")
    with pytest.raises(BuildError) as caught:
        build(recipe)
    text = str(caught.value)
    assert "missing_name" in text
    assert "answer.cpp:1" in text
    assert f"command: {compiler.find(compiler.CXX).command[0]}" in text
    assert not list((tmp_path / "cache").rglob("*.so"))
    assert not list((tmp_path / "cache").rglob("build-*")), "scraps of the build were left"


def test_a_refusal_of_thousands_of_lines_is_cut(recipe):
    recipe.sources[0].write_text("".join(f"int v{i} = nothing{i};\n" for i in range(500)))
    with pytest.raises(BuildError, match=r"\d+ more lines") as caught:
        build(recipe)
    assert "nothing0" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 80


def test_progress_is_said_with_its_time(recipe, capsys):
    build(recipe)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("building answer.cpp ...")
    assert re.search(r"building answer\.cpp \.\.\. \d+\.\d s$", second)


def test_a_cache_that_cannot_be_written_names_the_setting(recipe, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(blocked / "cache"))
    with pytest.raises(BuildError, match="OPTEST_BUILD_DIR"):
        build(recipe)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("OPTEST_BUILD_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert building.cache_dir() == tmp_path / "optest"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert building.cache_dir() == tmp_path / "home/.cache/optest"
    monkeypatch.setenv("OPTEST_BUILD_DIR", str(tmp_path / "named"))
    assert building.cache_dir() == tmp_path / "named"


def test_the_compiler_that_cxx_names_is_taken(monkeypatch, tmp_path):
    wrapper = tmp_path / "my c++"
    real = compiler.find(compiler.CXX).command[0]
    wrapper.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{wrapper}' -DEXTRA")
    assert compiler.find(compiler.CXX).command == (str(wrapper), "-DEXTRA")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiler.find(compiler.CXX) is None
    with pytest.raises(BuildError, match="no-such-compiler"):
        compiler.require(compiler.CXX)
    assert os.environ["CXX"] == "no-such-compiler"
