"""A server for one test, with settings of its own."""
import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager

# A hang guard. Metrics of a minute come when it is over.
PATIENCE = 300


def until(found):
    """Waits until something is found."""
    deadline = time.monotonic() + PATIENCE
    while True:
        result = found()
        if result:
            return result
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.2)


@contextmanager
def own_server(folder, *arguments):
    """Serves the data below a folder, and gives the connection string."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    ports = [argument for service in ("blob", "queue", "table") for argument in (f"--{service}-port", "0")]
    # Settings of the environment are for the shared server.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TAVOLA_")}
    process = subprocess.Popen(
        [os.environ["TAVOLA_BIN"], "serve", "--data", str(folder / "data"), "--ready-file", str(ready)]
        + ["--console-port", "off", *ports, *arguments],
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    try:
        until(ready.exists)
        yield connection_string(json.loads(ready.read_text(encoding="utf-8")))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def connection_string(ready):
    name = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    parts = [f"{service.capitalize()}Endpoint={ready[service]}" for service in ("blob", "queue", "table")]
    return f"DefaultEndpointsProtocol=http;AccountName={name};AccountKey={key};" + ";".join(parts)
