"""Where in a registry file a value stands, which text is refused, and TOML faults with their line."""

import pytest

from prompts.registry_files import RegistryProblem, line_of, read_source, text_fault, texts_in

TEXT = '''# comment
[pirate]
tone = "salty"
style_notes = """
tone = "not here"
[nor_here]
"""
constraints = [
  "one",
  "two",
]
"scope" = "session"

[[pirate.roleplay_layers]]
name = "mate"
[[pirate.roleplay_layers]]
name = "parrot"
text = "squawk"

[other]
layer.name = "x"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("pirate",), 2),
        (("pirate", "tone"), 3),
        (("pirate", "style_notes"), 4),
        (("pirate", "constraints", "1"), 8),
        (("pirate", "scope"), 12),
        (("pirate", "missing"), 2),
        (("pirate", "roleplay_layers", "0", "name"), 15),
        (("pirate", "roleplay_layers", "1", "text"), 18),
        (("pirate", "roleplay_layers", "1", "missing"), 16),
        (("other", "layer", "name"), 21),
        (("nor_here",), 0),
    ],
)
def test_a_path_has_the_line_it_is_written_on(path: tuple[str, ...], line: int) -> None:
    assert line_of(TEXT, path) == line


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"[a]\nb = \n", 2), (b"[a]\nb = 1\nb = 2\n", 3), (b'[a]\nb = """\n\n', 4), (b"[a]\n[a]\n", 2), (b"\n\n\xc3(", 3)],
)
def test_what_is_no_toml_names_its_line(data: bytes, line: int) -> None:
    problem = read_source("x.toml", data)
    assert isinstance(problem, RegistryProblem)
    assert problem.line == line, problem
    assert str(problem).startswith(f"x.toml:{line}: is not ")


@pytest.mark.parametrize("text", ["snarky\u2011warm", "naïve\tcafé\n", "👩\u200d🍳 cooks", "می\u200cخواهم"])
def test_ordinary_text_passes(text: str) -> None:
    assert text_fault(text) == ""


@pytest.mark.parametrize("character", ["\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\x00", "\x1b", "\u2028"])
def test_text_that_hides_is_refused_with_place_and_code(character: str) -> None:
    assert f"U+{ord(character):04X} at place 3" in text_fault(f"ab{character}c")


def test_blank_text_is_refused() -> None:
    assert "is blank" in text_fault(" \n")


def test_every_text_has_its_path() -> None:
    value = {"a": "x", "b": [{"c": "y"}, 3], "d": ("z",)}
    assert list(texts_in(value)) == [(("a",), "x"), (("b", "0", "c"), "y"), (("d", "0"), "z")]
