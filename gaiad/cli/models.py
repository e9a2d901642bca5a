"""`gaiad models`: which models there are, in the daemon and as files."""

import os
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

import click

from gaiad.base.errors import BadInput, GaiadError, Unavailable
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.models_pull import Watcher, pull
from gaiad.cli.output import plain, size, table
from gaiad.cli.progress import Bar

if TYPE_CHECKING:
    from gaiad.bench.model import ModelFigures
    from gaiad.models.gguf.gguf_info import GgufInfo
    from gaiad.wire.status import ModelChoices, ModelStatus, ModelUsed, ProbeReport

_ANSWER_SHOWN = 100


@click.command("bench", cls=Verb, example="gaiad models bench --json ~/models/qwen2.5-0.5b-q8_0.gguf")
@click.argument("path", type=click.Path(path_type=Path))
def bench(path: Path) -> None:
    """Measure how fast a GGUF reads and writes at 1, 2, 4 and 8 sequences.

    Runs the model in a worker like the daemon's and reports tokens per second. It takes about a minute; other work on
    the machine slows it down.
    """
    from gaiad.bench.model import measure_model

    try:
        found = measure_model(path)
    except (BadInput, Unavailable) as error:
        raise GaiadError(error.message) from error
    print_result(found, plain(_text(found)))


def _text(found: "ModelFigures") -> str:
    heads = ("sequences", "prefill", "decode")
    rows = [(str(rates.sequences), f"{rates.prefill:.1f}", f"{rates.decode:.1f}") for rates in found.rates]
    flash = "on" if found.flash_attention else "off"
    return f"{found.path}\ntokens per second, {found.threads} threads, flash attention {flash}\n\n{table(rows, heads)}"


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
    tried again.
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


@click.command("probe", cls=Verb, example="gaiad models probe prime --json | jq .duties")
@click.argument("name")
@click.option("--again", is_flag=True, help="Measure though the figures are known.")
def probe(name: str, again: bool) -> None:
    """Measure what a model can do, by short tasks that have right answers.

    NAME is a model's name or a role's. The council gives a model only the duties at which it is better than chance.
    Figures are kept by the hash of the file; a first run takes a minute or more.
    """
    with invocation().client() as client:
        found = client.probe_model(name, again)
    print_result(found, plain(probe_text(found)))


def probe_text(found: "ProbeReport") -> str:
    """A row a skill, then the duties and what is lacking for others."""
    rows = [
        (skill, f"{score.right} of {score.of}", f"{score.needed} needed", "" if score.right >= score.needed else "no")
        for skill, score in found.scores.items()
    ]
    duties = ", ".join(found.duties) or "none but to chat"
    heads = ("skill", "right", "", "")
    return "\n".join(
        [f"{found.model}, measured in {found.seconds:g} s", table(rows, heads), f"duties: {duties}", *found.lacks]
    )


def _show(models: "list[ModelStatus]") -> None:
    print_result([_row(model) for model in models], plain(models_text(models)))


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


@click.command(
    "use",
    cls=Verb,
    example="""
        gaiad models use ~/models/qwen2.5-7b-instruct-q4_k_m.gguf
        gaiad models use Llama-3.2-3B
        gaiad models use ollama:llama3.2 --role prime
        gaiad models use http://127.0.0.1:8080/v1
    """,
)
@click.argument("what")
@click.option("--role", default="", metavar="ROLE", help="prime, lite or codemind. Default: all three.")
def use(what: str, role: str) -> None:
    """Give a role another model, at once and for good.

    WHAT is the path of a GGUF, a name from `gaiad models catalogue` (it is fetched), a name of yours, ollama:NAME, or
    the base URL of a compatible server. The model is asked one question; when it answers, the choice is written to the
    home's config.toml.
    """
    with invocation().client() as client:
        found = client.use_model(_fetched(_whole(what)), role)
    print_result(found, plain(used_text(found)))


def used_text(found: "ModelUsed") -> str:
    answer = shorten(found.answer, _ANSWER_SHOWN, placeholder=" ...")
    said = f'; asked for the capital of France it said "{answer}"' if answer else ""
    first = f"{', '.join(found.roles)}: {found.name} ({found.kind}), {found.seconds:g} s{said}"
    return f"{first}\nwritten to {found.settings}"


def _whole(what: str) -> str:
    """A path from here on, if it is one."""
    path = Path(what).expanduser()
    return str(path.absolute()) if path.is_file() else what


def _fetched(what: str) -> str:
    """The file of a model from the catalogue, fetched when it is not there; anything else as it is."""
    from gaiad.models.catalogue import listed

    if "/" in what or (model := listed(what)) is None:
        return what
    from gaiad.models.pulling.pull import Wish, pull

    with Bar("") as bar:
        return pull(Wish(source=model.hub, name=model.name), os.environ, Watcher(bar)).path


@click.command(
    "catalogue", cls=Verb, example="gaiad models catalogue --json | jq -r '.models[] | select(.fits) | .name'"
)
def catalogue() -> None:
    """List well-known models that fit this machine, and model servers found here."""
    with invocation().client() as client:
        found = client.model_choices()
    print_result(found, plain(choices_text(found)))


def choices_text(found: "ModelChoices") -> str:
    rows = [
        (row.name, f"{row.megabytes:,} MB", f"{row.memory_mb:,} MB", "yes" if row.fits else "no", row.licence, row.hub)
        for row in found.models
    ]
    servers = [f"{one.kind} at {one.base_url}: {', '.join(one.models) or 'no models'}" for one in found.servers]
    heads = ("model", "file", "memory", "fits", "licence", "hub name")
    return "\n".join([table(rows, heads), *servers, "gaiad models use NAME takes one of them"])


@click.group(
    cls=VerbGroup,
    example="""
        gaiad models ls
        gaiad models info ~/models/qwen2.5-0.5b-q8_0.gguf
    """,
)
def models() -> None:
    """Look at models, load and unload them."""


for _verb in (ls, load, unload, pin, probe, use, catalogue, pull, bench):
    models.add_command(_verb)


@models.command("info", cls=Verb, example="gaiad models info --json model.gguf | jq .chat_template")
@click.argument("path", type=click.Path(path_type=Path))
def info(path: Path) -> None:
    """Show what a GGUF says of itself, without loading it. A damaged file exits 1."""
    from gaiad.models.gguf.gguf_info import read_info

    try:
        found = read_info(path)
    except BadInput as error:
        raise GaiadError(error.message) from error
    print_result(found, plain(_info_text(found)))


def _info_text(found: "GgufInfo") -> str:
    rows = (
        ("file", found.path),
        ("architecture", found.arch),
        ("name", found.name),
        ("parameters", f"{found.parameters:,}"),
        ("quantisation", found.quantization),
        ("context", f"{found.context:,} tokens"),
        ("vocabulary", f"{found.vocab:,} tokens"),
        ("chat template", "yes" if found.chat_template else "none"),
        ("memory", f"about {found.memory_bytes / 2**20:,.0f} MiB"),
        ("sha-256", found.fingerprint),
    )
    return "\n".join(f"{name:<14} {value}" for name, value in rows)
