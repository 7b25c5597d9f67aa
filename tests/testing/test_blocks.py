"""Blocks and test names of a task, read from its sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optest.testing import get_block, get_test_names, update_block

TWO = """\
before
// [EVOLVE_START] mine

int a;

// [EVOLVE_END]
between
/* [EVOLVE_START] */
int b;
int c;
/* [EVOLVE_END] */
after
"""


@pytest.fixture
def task(tmp_path):
    (tmp_path / "kernel.cpp").write_text(TWO)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "task.py").write_text(
        "# [REFERENCE_START]\nx = 1\n# [REFERENCE_END]\n"
        "# [USER_INSTRUCTIONS_START]\n# be quick\n# [USER_INSTRUCTIONS_END]\n"
    )
    return tmp_path


def test_blocks_are_found_by_file_in_order_without_blank_ends(task):
    assert get_block(task, "EVOLVE") == {"kernel.cpp": ["int a;\n", "int b;\nint c;\n"]}
    assert get_block(task, "REFERENCE") == {"deep/task.py": ["x = 1\n"]}
    assert get_block(task / "deep", "USER_INSTRUCTIONS") == {"task.py": ["# be quick\n"]}
    assert get_block(task / "kernel.cpp", "EVOLVE")["kernel.cpp"][0] == "int a;\n"


def test_an_empty_block_is_found(tmp_path):
    (tmp_path / "k.cu").write_text("// [EVOLVE_START]\n// [EVOLVE_END]\n")
    assert get_block(tmp_path, "EVOLVE") == {"k.cu": [""]}


def test_caches_hidden_folders_and_binaries_are_passed_over(task):
    for name in (".git", "__pycache__"):
        (task / name).mkdir()
        (task / name / "old.py").write_text("# [EVOLVE_START]\n")
    (task / "kernel.so").write_bytes(b"\xff[EVOLVE_START]")
    assert set(get_block(task, "EVOLVE")) == {"kernel.cpp"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[EVOLVE_START]\n\n[EVOLVE_START]\n[EVOLVE_END]\n", r":3: .* inside the block of line 1"),
        ("\n[EVOLVE_END]\n", r":2: \[EVOLVE_END\] without"),
        ("\n\n[EVOLVE_START]\n", r":3: \[EVOLVE_START\] without"),
        ("\n[EVOLVE_START] [EVOLVE_END]\n", ":2: .* on one line"),
        ("[EVOLVE_START]\r\nx\r\n[EVOLVE_END]\r\n[EVOLVE_END]\r\n", ":4: "),
        ("[EVOLVE_START]\nx\x0cy\u2028z\n[EVOLVE_END]\n[EVOLVE_END]\n", ":4: "),
    ],
    ids=["nested", "end alone", "start alone", "one line", "crlf", "no line ends of editors"],
)
def test_markers_that_do_not_pair_are_named_with_their_line(tmp_path, text, words):
    (tmp_path / "k.cpp").write_bytes(text.encode())
    with pytest.raises(ValueError, match=rf"k\.cpp{words}"):
        get_block(tmp_path, "EVOLVE")
    before = (tmp_path / "k.cpp").read_bytes()
    with pytest.raises(ValueError, match=rf"k\.cpp{words}"):
        update_block(tmp_path, "EVOLVE", "k.cpp", "y")
    assert (tmp_path / "k.cpp").read_bytes() == before


@pytest.mark.parametrize(("key", "where"), [("FOO", "."), ("", "."), ("EVOLVE", "missing")])
def test_an_unknown_key_and_a_missing_folder_are_value_errors(task, key, where):
    with pytest.raises(ValueError, match=r"expected one of EVOLVE|no such file or folder"):
        get_block(task / where, key)


def test_a_file_that_is_no_text_is_named(task):
    (task / "bad.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match=r"bad\.txt: cannot be read \(not UTF-8 text\)"):
        get_block(task, "EVOLVE")


@given(
    st.lists(st.text("ab \t/\u2028\x0c\n", max_size=30), min_size=1, max_size=4),
    st.text("xyz\n", max_size=20),
    st.data(),
)
def test_an_update_changes_one_block_and_nothing_else(tmp_path_factory, texts, new, data):
    folder = tmp_path_factory.mktemp("task")
    pieces = [f"head\n// [EVOLVE_START]\n{text}\n// [EVOLVE_END]\n" for text in texts]
    index = data.draw(st.integers(0, len(texts) - 1))
    (folder / "k.cpp").write_bytes("".join(pieces).encode())
    update_block(folder, "EVOLVE", "k.cpp", new, index)
    ended = new if not new or new.endswith("\n") else new + "\n"
    pieces[index] = f"head\n// [EVOLVE_START]\n{ended}// [EVOLVE_END]\n"
    assert (folder / "k.cpp").read_bytes() == "".join(pieces).encode()


def test_an_update_keeps_line_ends_and_the_files_mode(task):
    file = task / "run.sh"
    file.write_bytes(b"#!/bin/sh\r\n# [EVOLVE_START]\r\n# [EVOLVE_END]\r\n")
    file.chmod(0o755)
    update_block(task, "EVOLVE", "run.sh", "echo\r\n")
    assert file.read_bytes() == b"#!/bin/sh\r\n# [EVOLVE_START]\r\necho\r\n# [EVOLVE_END]\r\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert {path.name for path in task.iterdir()} == {"deep", "kernel.cpp", "run.sh"}


@pytest.mark.parametrize(
    ("path", "content", "index", "words"),
    [
        ("../other.cpp", "x", 0, "expected a file below"),
        ("/etc/hostname", "x", 0, "expected a file below"),
        ("kernel.cpp", "// [EVOLVE_END]\nint main();", 0, "a marker of its own"),
        ("kernel.cpp", "x", 2, "no EVOLVE block 2: it has 2"),
        ("kernel.cpp", "x", -1, "no EVOLVE block -1"),
        ("deep/task.py", "x", 0, "no EVOLVE block 0: it has 0"),
        ("gone.cpp", "x", 0, "cannot be read"),
    ],
)
def test_an_update_that_cannot_be_is_refused(task, path, content, index, words):
    with pytest.raises(ValueError, match=words):
        update_block(task, "EVOLVE", path, content, index)
    assert (task / "kernel.cpp").read_text() == TWO


NAMES = """
import a_runtime_that_is_not_here
import pytest
from pytest import mark

class TestOne(Base):
    def test_right(self): ...
    @pytest.mark.parametrize("n", [1])
    def test_also_right(self, n): ...
    @pytest.mark.performance
    def test_fast(self): ...
    @mark.performance()
    async def test_fast_too(self): ...
    def helper(self): ...

@pytest.mark.performance
class TestTwo:
    def test_all_fast(self): ...

class TestThree:
    pytestmark: list = [pytest.mark.slow, pytest.mark.performance]
    def test_fast_by_list(self): ...

class Other:
    def test_not_ours(self): ...

def test_outside(): ...
"""


def test_names_are_read_without_importing(tmp_path):
    (tmp_path / "task.py").write_text(NAMES)
    found = get_test_names(tmp_path)
    assert found["correctness_tests"] == ["TestOne::test_right", "TestOne::test_also_right"]
    assert found["profile_tests"] == [
        "TestOne::test_fast",
        "TestOne::test_fast_too",
        "TestTwo::test_all_fast",
        "TestThree::test_fast_by_list",
    ]
    assert sorted(found["all_tests"]) == sorted(found["correctness_tests"] + found["profile_tests"])
    (tmp_path / "other.py").write_text(
        "import pytest\npytestmark = pytest.mark.performance\n" + NAMES
    )
    assert not get_test_names(tmp_path / "other.py")["correctness_tests"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("def f(:\n", r"task\.py:1: no Python"), ("x = 1\0\n", "no Python"), (None, "cannot be read")],
)
def test_what_is_no_python_is_a_value_error_with_its_line(tmp_path, text, words):
    if text is not None:
        (tmp_path / "task.py").write_text(text)
    with pytest.raises(ValueError, match=words):
        get_test_names(tmp_path)
