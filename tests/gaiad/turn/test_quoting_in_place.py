"""What a role that only quotes says when it answers for one with a model."""

from types import SimpleNamespace

from gaiad.turn.answers import ONLY_QUOTES, quote


def said(stands_in_for: str | None) -> str:
    manifest = SimpleNamespace(total_tokens=7)
    stage = SimpleNamespace(
        task=SimpleNamespace(stands_in_for=stands_in_for),
        built=SimpleNamespace(manifest=manifest),
        model=SimpleNamespace(fingerprint="extractive:1"),
        reply=None,
    )
    text = quote(stage, SimpleNamespace(found=None, needed=False))  # type: ignore[arg-type]
    assert stage.reply.text == text
    return text


def test_a_role_with_a_model_that_is_away_is_not_called_unset() -> None:
    assert said("prime").startswith("The role prime gave no answer")
    assert said(None) == ONLY_QUOTES
