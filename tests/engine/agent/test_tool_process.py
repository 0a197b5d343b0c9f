import os
import subprocess
import sys

import pytest

from sureact.agent.tool_process import import_path, start_tool_process


@pytest.mark.skipif(sys.platform == "win32", reason="there are no sessions there")
def test_a_process_runs_a_module_in_the_session_of_the_program_and_in_a_group_of_its_own():
    process = start_tool_process("sureact.agent.isolated_worker", SUREACT_OF_A_TEST="1")
    assert isinstance(process, subprocess.Popen)
    assert (os.getsid(process.pid), os.getpgid(process.pid)) == (os.getsid(0), process.pid)
    process.communicate()
    assert process.returncode == 0


def test_modules_are_looked_for_where_this_process_finds_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", ["", "/somewhere"])
    assert import_path() == [os.getcwd(), "/somewhere"]
