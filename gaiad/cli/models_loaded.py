"""`gaiad models ls, load, unload, pin`: which models the daemon has, and which of them are in memory."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, invocation
from gaiad.cli.output import plain, size, table, write_json

if TYPE_CHECKING:
    from gaiad.status_schemas import ModelStatus

_SHOWN = {"starting": "inactive"}


@click.command("ls", cls=Verb, example="gaiad models ls --json | jq -r '.[] | select(.state == \"failed\") | .reason'")
def ls() -> None:
    """List the models of the daemon, by role.

    `ready` ones answer; `sleeping` ones are unloaded and wake when they are asked; `inactive` ones load or cannot be
    reached; `failed` ones say why.
    """
    with invocation().client() as client:
        _show(client.models())


@click.command("load", cls=Verb, example="gaiad models load prime")
@click.argument("name")
def load(name: str) -> None:
    """Bring a model into memory and wait until it answers.

    NAME is a model's name or a role's. Idle models go to sleep when the memory is not enough for all; a failed one is
    tried anew.
    """
    with invocation().client() as client:
        _show(client.load_model(name))


@click.command("unload", cls=Verb, example="gaiad models unload qwen")
@click.argument("name")
def unload(name: str) -> None:
    """Take a model out of memory until it is asked for again."""
    with invocation().client() as client:
        _show(client.unload_model(name))


@click.command("pin", cls=Verb, example="gaiad models pin prime\ngaiad models pin --off prime")
@click.argument("name")
@click.option("--off", is_flag=True, help="No longer.")
def pin(name: str, off: bool) -> None:
    """Keep a model in memory whatever else is wanted; remembered over restarts."""
    with invocation().client() as client:
        _show(client.pin_model(name, not off))


def _show(models: "list[ModelStatus]") -> None:
    if invocation().as_json:
        write_json([_row(model) for model in models])
    else:
        click.echo(plain(models_text(models)))


def _row(model: "ModelStatus") -> dict[str, object]:
    from msgspec import structs

    return {**structs.asdict(model), "state": _SHOWN.get(model.state, model.state)}


def _busy(model: "ModelStatus") -> str:
    """Requests it is answering, of how many at once, and those in line."""
    shown = f"{model.running}/{model.slots}" if model.slots else ""
    return f"{shown} +{model.waiting}" if model.waiting else shown


def models_text(models: "list[ModelStatus]") -> str:
    """The table for people."""
    rows = [
        (
            model.role or "-",
            model.name or "-",
            model.kind,
            _SHOWN.get(model.state, model.state) + (", pinned" if model.pinned else ""),
            _busy(model),
            size(model.memory_bytes) if model.memory_bytes else "",
            model.reason or model.path_or_url,
        )
        for model in models
    ]
    return table(rows, ("role", "model", "kind", "state", "busy", "memory", "where or why")) if rows else "no models"
