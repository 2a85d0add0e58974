"""Ask the API server as its administrator, without the half second of processor time that kubectl costs."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from functools import lru_cache
from typing import Any

from cluster.kube import layout

TIMEOUT = 10.0


def get(path: str) -> Any:
    """The object, or the text of what is no JSON; None while there is no answer or another than 200."""
    return call("GET", path)


def create(path: str, manifest: dict[str, Any]) -> Any:
    return call("POST", path, manifest)


def call(method: str, path: str, content: dict[str, Any] | None = None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(
        layout.API_URL + path, body, {"Content-Type": "application/json"}, method=method
    )
    try:
        credentials = _credentials(layout.KUBECONFIG.read_text())
        # No proxy of the environment stands between here and an address of this machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=credentials)
        )
        with opener.open(request, timeout=TIMEOUT) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as refused:
        refused.close()
        return None
    except (OSError, http.client.HTTPException):  # a server that is killed in the middle of an answer, too
        return None
    return json.loads(text) if text.startswith("{") else text


def answers(url: str) -> bool:
    """Whether a health page of a daemon says yes."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=TIMEOUT):
            return True
    except urllib.error.HTTPError as refused:
        refused.close()
        return False
    except OSError:
        return False


@lru_cache(maxsize=1)
def _credentials(kubeconfig: str) -> ssl.SSLContext:
    """Python reads certificates of clients from files only."""
    config = json.loads(kubeconfig)
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as file:
        file.write(
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
        )
        file.flush()
        context.load_cert_chain(file.name)
    return context
