"""The recipe for machines without a network: made with one, installed and served where there is no route."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVE = """
set -eu
ip link set lo up 2>/dev/null || true
"$1/install" "$2"
"$2/bin/sureact" serve --model "$3" --port 8123 &
server=$!
"$2/bin/python" - <<'PYTHON'
import json, time, urllib.error, urllib.request
def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("http://127.0.0.1:8123" + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)
try:
    urllib.request.urlopen("http://192.0.2.1", timeout=5)
    raise SystemExit("there is a network")
except urllib.error.URLError:
    pass
for _ in range(1200):
    try:
        if ask("/ready")["status"] == "ready":
            break
    except OSError:
        time.sleep(0.5)
text = ask("/v1/completions", {"prompt": "1 2 3 4", "max_tokens": 4})["choices"][0]["text"]
print("said", repr(text))
PYTHON
kill -TERM "$server"
wait "$server"
"""


def without_network(*command: str) -> list[str]:
    """A command in a namespace with a loopback interface that is up, and no other."""
    return ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", *command]


def skip_without_namespaces() -> None:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("unshare and ip are not installed")
    if subprocess.run(without_network("ip link set lo up"), capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no network namespaces")


def test_the_script_tells_what_it_does_when_it_is_told_nothing() -> None:
    told = subprocess.run([str(ROOT / "scripts/wheelhouse")], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "scripts/wheelhouse FOLDER" in told.stderr
    assert "set -euo" not in told.stderr.splitlines()[0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_a_server_runs_where_there_is_no_route(tmp_path: Path, tiny_folder: Path) -> None:
    """Packages come from the configured index, which this test needs; the install and the server have none."""
    skip_without_namespaces()
    house = tmp_path / "house"
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([str(ROOT / "scripts/wheelhouse"), str(house)], env=environment, check=True)
    environment |= {"SUREACT_HOME": str(tmp_path / "home"), "PYTHON": sys.executable}
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        environment.pop(name, None)
    command = without_network(SERVE, "sh", str(house), str(tmp_path / "venv"), str(tiny_folder))
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "said" in ran.stdout
