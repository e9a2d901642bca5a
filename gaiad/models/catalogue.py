"""Where a model can come from: a list of well-known ones, and servers on this machine that have some already."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import msgspec

from constants.load import load
from gaiad.base.errors import BadInput, Unavailable
from gaiad.wire.status import CatalogueModel, LocalServer

OLLAMA = "http://127.0.0.1:11434/v1"
USUAL = {"Ollama": OLLAMA, "llama-server": "http://127.0.0.1:8080/v1", "LM Studio": "http://127.0.0.1:1234/v1"}
_LOOK_S = 2.0
_BESIDE_WEIGHTS = 1.15  # context and buffers, as a share of the file
_PROCESS_MB = 300
_MOST_BYTES = 1 << 20


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model by its name here; `hub` is what `gaiad models pull` takes, `megabytes` the size of that file."""

    name: str
    hub: str
    megabytes: int
    licence: str


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: list[Listed]


def catalogue() -> list[Listed]:
    """The shipped list, smallest first."""
    return load("model_catalogue.toml", _Catalogue).models


def listed(name: str) -> Listed | None:
    """The model of this name, in any case."""
    return next((model for model in catalogue() if model.name.lower() == name.lower()), None)


def memory_mb(model: Listed) -> int:
    """About what it takes while it runs."""
    return round(model.megabytes * _BESIDE_WEIGHTS) + _PROCESS_MB


def rows(budget_bytes: int) -> list[CatalogueModel]:
    """The list, marked by what fits into the memory that models may take here."""
    return [
        CatalogueModel(
            name=model.name,
            hub=model.hub,
            megabytes=model.megabytes,
            memory_mb=memory_mb(model),
            licence=model.licence,
            fits=memory_mb(model) * 1_000_000 <= budget_bytes,
        )
        for model in catalogue()
    ]


def local_servers() -> list[LocalServer]:
    """Those that answer on their usual ports, with the models that they have. Waits: not for the event loop."""

    def look(kind: str) -> LocalServer | None:
        try:
            return LocalServer(kind=kind, base_url=USUAL[kind], models=models_of(USUAL[kind]))
        except (BadInput, Unavailable):
            return None

    with ThreadPoolExecutor(len(USUAL)) as pool:
        return [found for found in pool.map(look, USUAL) if found is not None]


def models_of(base_url: str) -> list[str]:
    """The models of an OpenAI-compatible server. Raises Unavailable when it does not answer, BadInput for nonsense."""
    address = f"{base_url.rstrip('/')}/models"
    try:
        with urllib.request.urlopen(address, timeout=_LOOK_S) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
        return [str(model["id"]) for model in found["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{address}: is not a list of models; give the base URL of a compatible server") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(f"{address}: no answer ({reason}); start the server, then try again", 5.0) from error
