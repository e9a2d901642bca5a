"""`gaiad models`: which models there are, in the daemon and as files."""

import os
import re
import sys
import time
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

import click

from gaiad.base.errors import BadInput, GaiadError, Unavailable
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.output import counted, duration, one_line, plain, size, table, terminal_width
from gaiad.cli.progress import Bar

if TYPE_CHECKING:
    from gaiad.bench.model import ModelFigures
    from gaiad.models.gguf.gguf_info import GgufInfo
    from gaiad.models.pulling.pull import Pulled
    from gaiad.wire.status import ModelChoices, ModelStatus, ModelUsed, ProbeReport


_BAR_WIDTH = 24
_SHOW_EVERY_S = 0.1
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@click.command(
    cls=Verb,
    example="""
        gaiad models pull ~/Downloads/qwen.gguf --as qwen
        gaiad models pull https://example.org/qwen-q8_0.gguf --sha256 9f86d0...
        gaiad models pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q8_0
    """,
)
@click.argument("source")
@click.option("--as", "name", default="", metavar="NAME", help="The model's name here. Default: the file's own.")
@click.option("--sha256", default="", metavar="HEX", help="The expected hash; any other file is refused.")
@click.option("--file", default="", metavar="NAME", help="Which file of a hub name: a name, a pattern, or Q4_K_M.")
@click.option("--revision", default="", metavar="REV", help="Branch, tag or commit of a hub name. Default: main.")
@click.option(
    "--force", is_flag=True, help="Download again, and take the name of a file that exists; that one gets another name."
)
def pull(source: str, name: str, sha256: str, file: str, revision: str, force: bool) -> None:
    """Fetch a GGUF into your models folder: from a path, an address, or the hub.

    SOURCE is a path (linked or copied, never moved), an http(s) address, or a hub name: owner/repo, with :FILE or
    :Q4_K_M when it holds several models. An interrupted download continues where it stopped when the same command runs
    again. The folder is GAIAD_MODELS, else gaiad/models in your data directory; --home has no effect here.
    """
    from gaiad.models.pulling.pull import Wish, pull

    wish = Wish(source=source, name=name, sha256=sha256, file=file, revision=revision, force=force)
    with Bar("") as bar:
        pulled = pull(wish, os.environ, Watcher(bar))
    print_result(pulled, plain(pulled_text(pulled)))


def pulled_text(pulled: "Pulled") -> str:
    """What is here now, and how to use it."""
    new = [file.how for file in pulled.files if file.how != "present"]
    what = ", ".join(dict.fromkeys(new)) if new else "is already here; nothing was downloaded"
    parts = f" in {counted(len(pulled.files), 'file')}" if len(pulled.files) > 1 else ""
    lines = [
        f"{pulled.path}: {what}",
        *(f"{'sha-256':<10} {file.sha256}  {Path(file.path).name}" for file in pulled.files),
        f"{'size':<10} {size(pulled.bytes)}{parts}",
        "",
        "Use it now:",
        f"    gaiad serve --set roles.lite={_shell(pulled.path)}",
        "or for good, in config.toml:",
        *(f"    {line}" for line in settings_text(pulled.name, pulled.path).splitlines()),
    ]
    return "\n".join(lines)


def settings_text(name: str, path: str) -> str:
    """The lines of config.toml that make a model known under its name, and a role that uses it."""
    key = name if _BARE_KEY.fullmatch(name) else _toml(name)
    return f'[models.known.{key}]\nkind = "gguf"\npath = {_toml(path)}\n\n[roles]\nlite = {_toml(name)}'


def _toml(text: str) -> str:
    """A TOML string; JSON's escapes are TOML's too."""
    import json

    return json.dumps(text, ensure_ascii=False)


def _shell(text: str) -> str:
    import shlex

    return shlex.quote(text)


def bytes_text(label: str, done: int, total: int, came: int, elapsed_s: float) -> str:
    """One line: label, bar, sizes, bytes a second and the time left at that rate; `came` in `elapsed_s`."""
    rate = came / elapsed_s if elapsed_s > 0 else 0.0
    if total <= 0:
        return f"{label}: {size(done)}  {size(rate)}/s"
    filled = _BAR_WIDTH * min(done, total) // total
    left = f", {duration((total - done) / rate)} left" if rate and done < total else ""
    return f"{label} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {size(done)} of {size(total)}  {size(rate)}/s{left}"


class Watcher:
    """Lines on stderr, and between them, on a terminal, a bar of bytes; again for every label."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._label = ""
        self._first = 0
        self._since = self._next = 0.0

    def say(self, line: str) -> None:
        self._bar.clear()
        print(one_line(line), file=sys.stderr)

    def show(self, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        if label != self._label or done < self._first:
            self._label, self._first, self._since = label, done, now
        if now >= self._next:
            self._next = now + _SHOW_EVERY_S
            text = bytes_text(plain(label), done, total, done - self._first, now - self._since)
            self._bar.write(text[: terminal_width()])


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

    NAME is a model's name or a role's. Idle models are unloaded when memory is short; a failed one is tried again.
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
@click.option("--off", is_flag=True, help="Let it be unloaded again.")
def pin(name: str, off: bool) -> None:
    """Keep a model in memory whatever else is wanted, across restarts too."""
    with invocation().client() as client:
        _show(client.pin_model(name, not off))


@click.command("probe", cls=Verb, example="gaiad models probe prime --json | jq .duties")
@click.argument("name")
@click.option("--again", is_flag=True, help="Measure again even if figures exist.")
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
    """Give a role another model, now and from now on.

    WHAT is the path of a GGUF, a name from `gaiad models catalogue` or a hub name such as owner/repo:Q4_K_M (both are
    fetched), a name of yours, ollama:NAME, or the base URL of a compatible server. The model is asked one question;
    when it answers, the choice is written to the home's config.toml.
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
    """The file of a model from the catalogue or the hub, fetched when it is not there; anything else as it is."""
    from gaiad.models.catalogue import listed
    from gaiad.models.pulling.source import is_hub_name

    model = listed(what)
    if model is None and not is_hub_name(what):
        return what
    from gaiad.models.pulling.pull import Wish, pull

    wish = Wish(source=model.hub, name=model.name) if model else Wish(source=what)
    with Bar("") as bar:
        return pull(wish, os.environ, Watcher(bar)).path


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
    """Show a GGUF's metadata without loading it. A damaged file exits 1."""
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
