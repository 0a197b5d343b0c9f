"""What lies in `deploy/`: files of formats whose programs are not here are read and held against the server."""

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sureact.cli.main import build_parser
from sureact.server.server_config import ServerConfig

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "sureact.service").read_text(encoding="utf-8")
COMPOSE: Any = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS: list[Any] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
BOARD: Any = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
POD: Any = next(each for each in MANIFESTS if each["kind"] == "Deployment")["spec"]["template"]["spec"]
(SERVER,) = POD["containers"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", CONTAINERFILE, flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line.strip()]


def serve_commands() -> dict[str, list[str]]:
    """How each file starts the server."""
    command = next(rest for name, rest in instructions() if name == "CMD" and "serve" in rest)
    exec_start = next(line for line in UNIT.splitlines() if line.startswith("ExecStart="))
    return {
        "Containerfile": json.loads(command),
        "sureact.service": exec_start.split()[1:],
        "kubernetes.yaml": SERVER["args"],
    }


@pytest.mark.parametrize("file", ["Containerfile", "sureact.service", "kubernetes.yaml"])
def test_the_server_is_started_with_options_that_it_has(file: str) -> None:
    options = build_parser().parse_args(serve_commands()[file])
    assert options.api_keys is not None
    assert options.host == ("127.0.0.1" if file == "sureact.service" else "0.0.0.0")
    assert options.port == 8000


def test_containers_are_built_in_stages_that_there_are() -> None:
    stages: list[str] = []
    for name, rest in instructions():
        if name == "FROM":
            source, _, stage = rest.partition(" AS ")
            assert source in stages or source == "${PYTHON_IMAGE}"
            stages.append(stage)
        if source := re.match(r"--from=(\S+)", rest):
            assert source.group(1) in stages
    assert {"cpu", "cuda", COMPOSE["services"]["sureact"]["build"]["target"].strip("${}").split(":-")[1]} <= set(stages)
    known = {"ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {name for name, _ in instructions()} <= known | {"ENTRYPOINT", "CMD"}


def test_containers_copy_what_there_is_and_what_is_let_in() -> None:
    let_in = (DEPLOY / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in let_in


def test_nothing_runs_as_root() -> None:
    assert ("USER", "10001:10001") in instructions()
    assert POD["securityContext"]["runAsUser"] == 10001
    assert POD["securityContext"]["runAsNonRoot"]
    assert "DynamicUser=yes" in UNIT


def test_whoever_stops_the_server_waits_for_its_last_requests() -> None:
    drain_s = ServerConfig().drain_timeout_s
    assert POD["terminationGracePeriodSeconds"] > drain_s
    assert int(COMPOSE["services"]["sureact"]["stop_grace_period"].removesuffix("s")) > drain_s
    stop = re.search(r"TimeoutStopSec=(\d+)", UNIT)
    assert stop is not None
    assert int(stop.group(1)) > drain_s


def test_kubernetes_asks_the_routes_that_tell() -> None:
    paths = {name: SERVER[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/ready", "liveness": "/health", "readiness": "/ready"}
    ports = {port["name"]: port["containerPort"] for port in SERVER["ports"]}
    assert all(SERVER[f"{name}Probe"]["httpGet"]["port"] in ports for name in paths)


def test_the_parts_of_the_manifest_name_each_other() -> None:
    by_kind = {each["kind"]: each for each in MANIFESTS}
    assert set(by_kind) == {"PersistentVolumeClaim", "Deployment", "Service", "NetworkPolicy"}
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Service"]["spec"]["selector"] == labels
    assert by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert {mount["name"] for mount in SERVER["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}
    (claim,) = [volume["persistentVolumeClaim"] for volume in POD["volumes"] if "persistentVolumeClaim" in volume]
    assert claim["claimName"] == by_kind["PersistentVolumeClaim"]["metadata"]["name"]
    keys = next(option for option in SERVER["args"] if option.startswith("--api-keys="))
    assert any(keys.removeprefix("--api-keys=").startswith(mount["mountPath"]) for mount in SERVER["volumeMounts"])


def test_compose_names_only_what_it_declares() -> None:
    for service in COMPOSE["services"].values():
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        assert {secret["source"] for secret in service.get("secrets", ())} <= set(COMPOSE["secrets"])
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_prometheus_asks_the_service_of_compose() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["sureact:8000"]
    assert job["authorization"]["credentials_file"] == "/run/secrets/metrics-key"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "sureact.service"
    unit.write_text(UNIT.replace("/opt/sureact/bin/sureact", shutil.which("true") or "/bin/true"))
    verdict = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verdict.returncode, verdict.stderr) == (0, "")


def test_the_board_asks_for_metrics_that_the_server_has() -> None:
    tree = ast.parse((ROOT / "engine/sureact/server/metrics.py").read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {text for text in texts if re.fullmatch(r"(vllm|sureact):\w+", text)}
    asked = set(re.findall(r"(?:vllm|sureact):\w+", json.dumps(BOARD)))
    assert asked
    for name in asked:
        assert {name, re.sub(r"(_total|_seconds_(bucket|sum|count))$", "", name)} & names, name


def test_the_panels_of_the_board_lie_side_by_side() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]]
    assert len(set(places)) == len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    for panel in BOARD["panels"]:
        assert panel["title"]
        assert all(target["expr"].count("(") == target["expr"].count(")") for target in panel["targets"])
        assert all("$model" in target["expr"] for target in panel["targets"])


def test_the_readme_tells_of_every_file() -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in DEPLOY.iterdir()} - {"README.md", "Containerfile.dockerignore"}
    assert [name for name in sorted(files) if f"`{name}`" not in readme] == []
