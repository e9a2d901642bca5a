"""The README's tree is made from the files themselves; `python tests/test_readme_tree.py` writes it anew."""

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("gaiad", "council", "router", "prompts", "constants", "systemd")
TEXTS = {
    "Makefile": "set-up, run, test, lint, bench",
    "config.toml": "every setting with its default and unit",
    "pyproject.toml": "packaging, tools, and who may import whom",
    "requirements.lock": "exact versions with their hashes",
    ".ci/run": "what must pass before a change is kept",
    "CHANGELOG.md": "what changed",
    "systemd/gaiad.service": "user unit of the daemon",
    "systemd/gaiad.socket": "user unit of its socket",
}
# The first comment of a file of the page.
PAGE_COMMENT = re.compile(r"(?:^// |/\* |<!-- )(.+?)(?: \*/| -->|$)", re.MULTILINE)
PAGE_SUFFIXES = {".html", ".css", ".js", ".svg"}
COLUMN = 54
WIDTH = 110


def describe(path: Path) -> str:
    """The first sentence of a module's docstring, or of what a data file says of itself in its first comment."""
    name = path.relative_to(ROOT).as_posix()
    if name in TEXTS:
        return TEXTS[name]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix in PAGE_SUFFIXES and (comment := PAGE_COMMENT.search(text)):
        text = comment.group(1)
    else:
        text = " ".join(line.lstrip("#- ") for line in text.splitlines()[:3] if line.startswith(("#", "--")))
    sentence = re.split(r"(?<=[\w)`\"\]])\.(?:\s|$)", " ".join(text.split()), maxsplit=1)[0]
    return textwrap.shorten(sentence, WIDTH, placeholder=" ...")


def tree() -> str:
    """The block between the code fences."""
    lines = [f"{name:<{COLUMN}} {text}" for name, text in TEXTS.items() if "/" not in name or name.startswith(".")]
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix not in {".pyc", ".typed", ".xml", ".json", ".md"}:
                lines.append(f"{path.relative_to(ROOT).as_posix():<{COLUMN}} {describe(path)}")
    lines.append(f"{'gaiad/samples/':<{COLUMN}} packets to ask about, in five dialects")
    lines.append(f"{'prompts/text/':<{COLUMN}} one file per prompt")
    lines.append(f"{'tests/':<{COLUMN}} the same tree")
    return "\n".join(lines)


def test_the_tree_in_the_readme_is_the_tree() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tree() in readme, "run `python tests/test_readme_tree.py`, which writes the tree anew"


def test_every_file_says_what_it_is() -> None:
    silent = [line for line in tree().splitlines() if len(line.split(None, 1)) < 2]
    assert not silent


def main() -> None:
    """Write the tree into the README, between its heading and the next."""
    path = ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    block = f"## The tree\n\n```\n{tree()}\n```\n\n"
    start = readme.index("## The tree\n")
    end = readme.index("\n## ", start + 1) + 1
    path.write_text(readme[:start] + block + readme[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
