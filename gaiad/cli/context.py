"""`gaiad context`: what agents keep in Context Memory: states, outputs, reviews, and what follows from them."""

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click

from gaiad.cli.command import Verb, VerbGroup, invocation, print_result, same_place, tenant_option
from gaiad.cli.output import counted, cut_line, plain, size, table

_LONGEST = 60
_ROUTES = {"state": "/context/state", "output": "/context/outputs", "review": "/context/reviews"}
_limit = click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
_agent = click.option("--agent", default="", metavar="NAME", help="Only of this agent.")


def ask(path: str, **given: Any) -> Any:
    """GET `path` with those of `given` that say something."""
    query = urlencode({name: str(value) for name, value in given.items() if value})
    with invocation().client() as client:
        return client.get(f"{path}?{query}")


@click.group(
    cls=VerbGroup,
    example="""
        gaiad context put state.json
        gaiad context state --type full
        gaiad context outputs --agent generation
        gaiad context feedback
    """,
)
def context() -> None:
    """Keep agents' states, outputs and reviews, with history."""


@context.command("put", cls=Verb, example="gaiad context put output.json")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@tenant_option
def put(file: Path, tenant: str) -> None:
    """Store a state, an output or a review from a JSON file.

    Which one it is follows from its keys: update_type, agent_type or iteration_number.
    """
    import msgspec

    try:
        body = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise click.BadParameter(f"{file} is not a JSON object ({error})") from error
    keys = {"update_type": "state", "agent_type": "output", "iteration_number": "review"}
    kinds = [kind for key, kind in keys.items() if key in body]
    if len(kinds) != 1:
        raise click.BadParameter(f"{file} is not a state, output or review: it needs one of {', '.join(keys)}")
    with invocation().client() as client:
        made = client.post(f"{_ROUTES[kinds[0]]}?{urlencode({'tenant': tenant})}", body)
    known = "stored before as" if made["duplicate"] else "stored as"
    version = f", version {made['version']}" if made["version"] else ""
    print_result(made, f"{known} {made['id']} in iteration {made['iteration']}{version}")


@context.command("state", cls=Verb, example="gaiad context state --type full --as-of 2025-12-01T12:00:00Z")
@click.option("--type", "kind", default="summary", show_default=True, type=click.Choice(("full", "partial", "summary")))
@click.option("--as-of", default="", metavar="TIME", help="The state as it was then (ISO 8601).")
@click.option("--since", default="", metavar="TIME", help="Only what is not older.")
@click.option("--until", default="", metavar="TIME", help="Only what is older.")
@click.option("--component", default="", metavar="LIST", help="With --type partial: which sections, commas between.")
@click.option("--hypothesis", default="", metavar="ID", help="Only this hypothesis.")
@_agent
@tenant_option
def state(kind: str, tenant: str, agent: str, hypothesis: str, **given: str) -> None:
    """Show the state of the system and its agents as JSON."""

    found = ask("/context/state", request_type=kind, tenant=tenant, agent_type=agent, hypothesis_id=hypothesis, **given)
    print_result(found, _indented(found))


@context.command("show", cls=Verb, example="gaiad context show RECORD")
@click.argument("record", metavar="ID")
@tenant_option
def show(record: str, tenant: str) -> None:
    """Show one stored record as it was sent."""
    found = ask(f"/context/records/{quote(record, safe='')}", tenant=tenant)
    print_result(found, _indented(found["record"]))


@context.command("outputs", cls=Verb, example="gaiad context outputs --agent generation --limit 5")
@_agent
@click.option("--task", default="", metavar="ID", help="Only of this task.")
@click.option("--hypothesis", default="", metavar="ID", help="Only those that name this hypothesis.")
@_limit
@tenant_option
def outputs(agent: str, task: str, hypothesis: str, limit: int, tenant: str) -> None:
    """List agents' outputs, newest first."""
    found = ask(_ROUTES["output"], agent_type=agent, task_id=task, hypothesis_id=hypothesis, limit=limit, tenant=tenant)
    print_result(found, _rows(found["outputs"]) or "no outputs; agents store them with POST /context/outputs")


@context.command("reviews", cls=Verb, example="gaiad context reviews --json | jq '.reviews[0].id'")
@_limit
@tenant_option
def reviews(limit: int, tenant: str) -> None:
    """List meta-reviews, newest first."""
    found = ask(_ROUTES["review"], limit=limit, tenant=tenant)
    print_result(found, _rows(found["reviews"]) or "no reviews; they are stored with POST /context/reviews")


@context.command("versions", cls=Verb, example="gaiad context versions agent:generation")
@click.argument("component", default="")
@_limit
@tenant_option
def versions(component: str, limit: int, tenant: str) -> None:
    """List the versions of a state: `system` or `agent:NAME`.

    Without a name, list what has versions.
    """
    found = ask("/context/versions", component=component, limit=limit, tenant=tenant)
    if not component:
        print_result(found, plain("\n".join(found["components"])) or "nothing has a state yet")
        return
    rows = [
        (str(one["version"]), one["timestamp"], one["record_id"], str(one["restored_from"] or ""))
        for one in found["versions"]
    ]
    print_result(found, table(rows, ("version", "time (UTC)", "record", "restored from")))


@context.command("rollback", cls=Verb, example="gaiad context rollback system 3")
@click.argument("component")
@click.argument("version", type=click.IntRange(1))
@tenant_option
def rollback(component: str, version: int, tenant: str) -> None:
    """Make an earlier version the current one. It becomes a new version; nothing is lost."""
    with invocation().client() as client:
        made = client.post("/context/rollback", {"component": component, "version": version, "tenant": tenant})
    print_result(made, f"{plain(component)} is at version {made['version']}, with the state of version {version}")


@context.command("checkpoints", cls=Verb, example="gaiad context checkpoints --make")
@click.option("--make", is_flag=True, help="Make one now, then list.")
@_limit
@tenant_option
def checkpoints(make: bool, limit: int, tenant: str) -> None:
    """List recovery points, newest first."""
    if make:
        with invocation().client() as client:
            client.post("/context/checkpoints", {"tenant": tenant})
    found = ask("/context/checkpoints", limit=min(limit, 100), tenant=tenant)
    rows = [
        (one["checkpoint_id"], one["created_at"], str(one["iteration"]), str(one["components"]), size(one["bytes"]),
         one["damaged"][0] if one["damaged"] else one["reason"])
        for one in found["checkpoints"]
    ]  # fmt: skip
    heads = ("checkpoint", "made (UTC)", "iteration", "states", "size", "why")
    print_result(found, table(rows, heads) if rows else "no checkpoint has been made yet")


@context.command("recovery", cls=Verb, example="gaiad context recovery | jq '.active_tasks'")
@click.argument("checkpoint", default="", metavar="[ID]")
@tenant_option
def recovery(checkpoint: str, tenant: str) -> None:
    """Show what to resume after a crash, as JSON.

    From the newest checkpoint that is whole, or the one named. Damaged ones are passed over and named.
    """
    found = ask("/context/recovery", checkpoint_id=checkpoint, tenant=tenant)
    print_result(found, _indented(found))


@context.command("restore", cls=Verb, example="gaiad context restore CHECKPOINT")
@click.argument("checkpoint", default="", metavar="[ID]")
@tenant_option
def restore(checkpoint: str, tenant: str) -> None:
    """Go back to a checkpoint's states; later ones are kept.

    Each becomes a new version. Before that a checkpoint of the present states is made.
    """
    with invocation().client() as client:
        found = client.post("/context/restore", {"checkpoint_id": checkpoint, "tenant": tenant})
    lines = [f"passed over {one['checkpoint_id']}: {one['problem']}" for one in found["passed_over"]]
    changed = (
        ", ".join(f"{name} (version {version})" for name, version in found["restored"].items()) or "nothing differed"
    )
    lines += [f"restored {found['checkpoint_id']}: {changed}", f"the states before are in {found['before']}"]
    print_result(found, plain("\n".join(lines)))


@context.command("export", cls=Verb, example="gaiad context export ~/context-2025-12")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@tenant_option
def export(directory: Path, tenant: str) -> None:
    """Write everything to a new folder, one JSON file a record."""
    _tree("/context/export", "exported to", directory, tenant)


@context.command("import", cls=Verb, example="gaiad context import ~/context-2025-12")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@tenant_option
def import_tree(directory: Path, tenant: str) -> None:
    """Read a folder that `gaiad context export` wrote.

    Records that are known already are left as they are. A folder of the same layout by another program is read too.
    """
    _tree("/context/import", "imported from", directory, tenant)


def _tree(path: str, what: str, directory: Path, tenant: str) -> None:
    with invocation().client() as client:
        found = client.post(path, {"directory": str(directory.absolute()), "tenant": tenant})
    kinds = ", ".join(counted(found[f"{kind}s"], kind) for kind in _ROUTES)
    known = f"; {found['known']} known before" if found["known"] else ""
    print_result(found, f"{what} {found['directory']}: {kinds}{known}")


@context.command("quota", cls=Verb, example="gaiad context quota")
@tenant_option
def quota(tenant: str) -> None:
    """Show how much Context Memory takes, and its quota."""
    found = ask("/context/quota", tenant=tenant)
    limit = f" of {size(found['quota_bytes'])} ({found['percent']:g} %)" if found["quota_bytes"] else ", no limit"
    print_result(found, f"{size(found['stored_bytes'])}{limit}; {size(found['json_bytes'])} of JSON")


@context.command("cleanup", cls=Verb, example="gaiad context cleanup --dry-run")
@click.option("--dry-run", is_flag=True, help="Only show what would be packed.")
@tenant_option
def cleanup(dry_run: bool, tenant: str) -> None:
    """Pack older iterations; they stay readable, nothing is deleted.

    Older are those whose newest record is older than context.active_days. The daemon does it every night.
    """
    with invocation().client() as client:
        found = client.post("/context/cleanup", {"dry_run": dry_run, "tenant": tenant})
    if dry_run:
        iterations, bodies = counted(found["iterations"], "old iteration"), counted(found["bodies"], "record")
        text = f"{iterations}; would pack {bodies}, {size(found['json_bytes'])}"
    else:
        text = f"started {found['job_id']}; gaiad jobs list{same_place()} shows when it has ended"
    print_result(found, text)


@context.command("feedback", cls=Verb, example="gaiad context feedback --agent generation")
@click.option("--iteration", default="latest", show_default=True, metavar="N", help="A number, or latest.")
@_agent
@click.option("--strike", type=int, metavar="NUMBER", help="Take this advice back for good.")
@tenant_option
def feedback(iteration: str, agent: str, strike: int | None, tenant: str) -> None:
    """Show what the last review advises, and what came of earlier advice."""
    if strike is not None:
        with invocation().client() as client:
            struck = client.post("/context/feedback/strike", {"number": strike, "tenant": tenant})
        print_result(struck, f"advice {strike} for {plain(struck['agent_type'])} is struck")
        return
    found = ask("/context/feedback", iteration=iteration, agent_type=agent, tenant=tenant)
    content = found["feedback_content"]
    parts = [
        ("for all", content["general_recommendations"]),
        *((f"for {name}", texts) for name, texts in content["agent_specific"].items()),
        ("next", content["priority_improvements"]),
    ]
    lines = [f"{plain(name)}: {plain(text)}" for name, texts in parts for text in texts]
    head = f"iteration {found['iteration']}, revision {found['revision']} ({found['review_id']})"
    lines += [_advice_line(one) for one in found["advice"]]
    print_result(found, "\n".join([head, *lines]) if found["iteration"] else "no review has been stored yet")


def _advice_line(one: dict[str, Any]) -> str:
    """Number, for whom, state, effect and text of a piece of advice."""
    effect = "not measured yet"
    if one["effect"] is not None:
        low, high = one["interval"]
        effect = f"{one['mean_before']:.2f} -> {one['mean_after']:.2f} ({low:+.2f} to {high:+.2f})"
    state = f"{one['state']}: {plain(one['why'])}" if one["why"] else one["state"]
    return f"{one['number']:>4}  {plain(one['agent_type'])} v{one['version']}  {state}  {effect}  {plain(one['text'])}"


@context.command("trends", cls=Verb, example="gaiad context trends --iterations 10 --agent evolution")
@click.option("--iterations", default=10, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@_agent
@tenant_option
def trends(iterations: int, agent: str, tenant: str) -> None:
    """Show patterns over iterations, and how effective agents and strategies are."""
    found = ask("/context/trends", iterations=iterations, agent_type=agent, tenant=tenant)
    if not found["iterations"]:
        print_result(found, "nothing has been stored yet")
        return
    totals = [
        (str(one["iteration"]), str(one["states"]), str(one["outputs"]), str(one["reviews"]), size(one["bytes"]))
        for one in found["iterations"]
    ]
    patterns = [(one["pattern"], one["direction"], str(sum(one["counts"].values()))) for one in found["patterns"]]
    effect = [
        (one["agent_type"], one["strategy"], str(one["outputs"]), f"{one['mean_confidence']:.2f}",
         f"{one['improvement']:+.3f}")
        for one in found["effectiveness"]
    ]  # fmt: skip
    tables = [
        table(totals, ("iteration", "states", "outputs", "reviews", "size")),
        table(patterns, ("pattern", "direction", "times")) if patterns else "",
        table(effect, ("agent", "strategy", "outputs", "confidence", "change")) if effect else "",
    ]
    print_result(found, "\n\n".join(text for text in tables if text))


@context.command("lineage", cls=Verb, example="gaiad context lineage HYPOTHESIS")
@click.argument("hypothesis", metavar="ID")
@tenant_option
def lineage(hypothesis: str, tenant: str) -> None:
    """Show which hypotheses one came from, and which came from it."""
    found = ask(f"/context/lineage/{quote(hypothesis, safe='')}", tenant=tenant)
    rows = [
        (f"{one['generation']:+d}", one["hypothesis_id"], ", ".join(one["parents"]), str(one["mentions"]))
        for one in found["line"]
    ]
    print_result(found, table(rows, ("generation", "hypothesis", "parents", "outputs")))


@context.command("similar", cls=Verb, example='gaiad context similar --text "few reviews, many hypotheses"')
@click.option("--state", "record", default="", metavar="ID", help="Like this state. Default: the current one.")
@click.option("--text", default="", metavar="WORDS", help="Like these words.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 100), help="How many.")
@tenant_option
def similar(record: str, text: str, limit: int, tenant: str) -> None:
    """Find earlier states like another."""
    found = ask("/context/similar", state=record, text=text, limit=limit, tenant=tenant)
    rows = [
        (f"{one['similarity']:.2f}", one["row"]["id"], cut_line(one["row"]["summary"], _LONGEST))
        for one in found["states"]
    ]
    print_result(found, table(rows, ("similar", "state", "about")) if rows else "no other state has been stored yet")


def _rows(found: list[dict[str, Any]]) -> str:
    rows = [
        (
            one["id"],
            str(one["iteration"]),
            one["timestamp"],
            one["agent_type"],
            one["task_id"],
            cut_line(one["summary"], _LONGEST),
        )
        for one in found
    ]
    return table(rows, ("record", "iteration", "time (UTC)", "agent", "task", "about")) if rows else ""


def _indented(value: Any) -> str:
    import msgspec

    return plain(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
