"""Files that others may have written: read whole, and no pipe, no device, nor too much of anything."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from krill.storage.input_file import json_bytes, open_regular, read_input, read_json


def test_a_file_is_read_whole(tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"one": [1, 2]}')
    assert read_input(tmp_path / "a.json") == b'{"one": [1, 2]}'
    assert read_input(tmp_path / "a.json", most=15) == b'{"one": [1, 2]}'
    assert read_json(tmp_path / "a.json") == {"one": [1, 2]}
    with open_regular(tmp_path / "a.json") as file:
        assert file.read(3) == b'{"o'


def test_a_file_that_says_no_size_is_read_to_its_end():
    assert read_input("/proc/self/status").startswith(b"Name:")
    with pytest.raises(OSError, match="more than 8 bytes"):
        read_input("/proc/self/status", most=8)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_input(tmp_path / "pipe")


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused(place):
    with pytest.raises(OSError, match="not a regular file"):
        read_input(place)


def test_a_folder_a_loop_of_links_and_nothing_are_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name, error in (("", IsADirectoryError), ("loop", OSError), ("absent", FileNotFoundError)):
        with pytest.raises(error):
            open_regular(tmp_path / name)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 10**12)
    with pytest.raises(OSError, match="1,000,000,000,000 bytes, and at most 32,000,000 are read"):
        read_json(tmp_path / "large")


@pytest.mark.parametrize(
    "made",
    [
        "b'[' + b','.join(b'%d' % (10**9 + each) for each in range(300_000)) + b']'",
        "b'[' + b'[],' * 300_000 + b'1]'",
        """b'[' + b'{"a": 1},' * 200_000 + b'1]'""",
        """b'[' + b','.join(b'"abc%d"' % each for each in range(300_000)) + b']'""",
        """b'{' + b','.join(b'"k%d": 1' % each for each in range(300_000)) + b'}'""",
        """('["' + 'a' * 5_000_000 + chr(0x1f600) + '"]').encode()""",
        """b'["' + b'a' * 5_000_000 + rb'\\ud83d\\ude00' + b'"]'""",
    ],
)
def test_what_json_takes_is_told_before_it_is_read(made):
    script = """
        import orjson
        from krill.budget import peak_bytes, resident_bytes
        from krill.storage.input_file import json_bytes
        content = MADE
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew
        before = resident_bytes()
        found = orjson.loads(content)
        print(peak_bytes() - before, json_bytes(content) - len(content))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script).replace("MADE", made)],
        capture_output=True,
        check=True,
    )
    taken, told = map(int, done.stdout.split())
    assert taken <= told <= 4 * taken


def test_an_empty_text_has_a_figure_too():
    assert json_bytes(b"") > 0
