"""`make ui`: the pages of Prefect, of MLflow and of the models that there are, on this machine's loopback address,
until Ctrl-C."""

import contextlib
import os
import sys
import time
import urllib.parse
import webbrowser
from pathlib import Path
from typing import NoReturn

from bertcore.errors import without_password
from flows import prefect_api, server
from flows.deployment import POOL
from flows.environment import OWN_STORE, ROOT, STORE, project_environment, run_to_end
from tasks.experiment import VIEW, experiment_name

MLFLOW_PORT, MODELS_PORT = 5000, 8000


def main() -> int:
    server.end_as_by_ctrl_c()
    os.environ.update(project_environment())
    try:
        with contextlib.ExitStack() as stack:
            _show(stack)
    except server.LaunchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped what this command had started")
    return 0


def _show(stack: contextlib.ExitStack) -> NoReturn:
    environment = dict(os.environ)
    prefect = server.find_or_start(environment)
    stack.callback(lambda: prefect.stop())
    if prefect_api.get(f"{prefect.url}/work_pools/{POOL}") is None:  # without it, no run could be started on the page
        command = f"-m prefect --no-prompt work-pool create {POOL} --type process".split()
        run_to_end([sys.executable, *command], ROOT, {**environment, "PREFECT_API_URL": prefect.url})
    store = environment.get(STORE) or OWN_STORE
    pages = {"Prefect": prefect.page, "MLflow": runs_page(_start_mlflow(store, environment, stack))}
    if models := saved_models(ROOT):
        try:
            pages["Models"] = _start_models(models, environment, stack)
        except server.LaunchError as error:  # one bad model is no reason to show no runs
            print(f"no page of the models: {error}", file=sys.stderr)
    for name, page in pages.items():
        print(f"{name:8} {page}")
    print(f"\nThe prefect command finds this server with: export PREFECT_API_URL={prefect.url}")
    print("Ctrl-C ends what this command started.", flush=True)
    if sys.platform == "darwin" or environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        for page in pages.values():
            webbrowser.open(page)
    while True:
        time.sleep(2.0)
        # A server that another command had started ends with it; the pages stay.
        if prefect.service is None and not prefect_api.healthy(prefect.url):
            prefect = server.find_or_start(environment)
            print(f"Prefect  {prefect.page}", flush=True)


def _start_mlflow(store: str, environment: dict[str, str], stack: contextlib.ExitStack) -> str:
    """Start MLflow's pages on the runs in `store`; a tracking server's own address needs none.

    A password in `store` is neither shown nor a part of the command, which every user of the machine can read.
    """
    if store.startswith(("http://", "https://")):
        return without_password(store)
    port = server.free_port(MLFLOW_PORT)
    # By default MLflow answers to names that begin like private addresses; who owns such a name can have it lead here.
    hosts = f"127.0.0.1:{port},localhost:{port}"
    command = f"-m mlflow ui --host 127.0.0.1 --workers 1 --allowed-hosts {hosts}".split()
    # Its job runner, for evaluations with language models, would start eight processes more.
    own = {"MLFLOW_BACKEND_STORE_URI": store, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return _start("MLflow", command, port, environment | own, stack)


def runs_page(address: str) -> str:
    """The runs of this project on the pages of an MLflow server; all its experiments where there are none yet."""
    query = urllib.parse.urlencode({"experiment_name": experiment_name()})
    found = prefect_api.get_json(f"{address}/api/2.0/mlflow/experiments/get-by-name?{query}")
    place = f"experiments/{found['experiment']['experiment_id']}/runs" if found else "experiments"
    return f"{address}/#/{place}?{VIEW}"


def saved_models(root: Path) -> list[str]:
    """The models that the stages have left, the pre-trained one first."""
    places = [root / "models" / "pretrained", *sorted((root / "models" / "finetuned").glob("*"))]
    found = [place for place in places if (place / "config.json").is_file() and not place.name.startswith(".")]
    return [str(place.relative_to(root)) for place in found]


def _start_models(models: list[str], environment: dict[str, str], stack: contextlib.ExitStack) -> str:
    """Start the page on which the models can be asked."""
    command = ["-m", "bertcore", "serve", *models]
    return _start("models", command, server.free_port(MODELS_PORT), environment, stack)


def _start(name: str, command: list[str], port: int, environment: dict[str, str], stack: contextlib.ExitStack) -> str:
    """Start a server at `port`, until the `stack` ends; its page, once it answers."""
    service = server.start(name, [sys.executable, *command, "--port", str(port)], environment)
    stack.callback(service.stop)
    page = f"http://127.0.0.1:{port}"
    server.until(lambda: prefect_api.answers(f"{page}/health"), service, f"the page of {name}")
    return page


if __name__ == "__main__":
    sys.exit(main())
