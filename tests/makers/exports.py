"""Conversations as chat programs export them, made up: small enough to read, with the forms that matter."""

from typing import Any

_MARCH_2024 = 1_709_510_400.0  # 4 March 2024


def chatgpt_node(
    name: str, parent: str | None, role: str, text: str, seconds: float | None = 0.0, **more: Any
) -> dict[str, Any]:
    """A node of a mapping, by default a text message to all, `seconds` after 4 March 2024."""
    content = more.pop("content", {"content_type": "text", "parts": [text]})
    message = {
        "id": name,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": None if seconds is None else _MARCH_2024 + seconds,
        "content": content,
        "recipient": "all",
        "metadata": {"model_slug": "gpt-9"} if role == "assistant" else {},
        **more,
    }
    return {"id": name, "parent": parent, "children": [], "message": message}


def chatgpt(*nodes: dict[str, Any], current: str | None = None, **fields: Any) -> dict[str, Any]:
    """A conversation of ChatGPT's export; without nodes, one question and its answer."""
    nodes = nodes or (
        chatgpt_node("q", "root", "user", "How deep is the harbour at low tide?"),
        chatgpt_node("a", "q", "assistant", "Four metres at the pier.", 5.0),
    )
    mapping = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    mapping |= {node["id"]: node for node in nodes}
    return {
        "title": "Harbour depth",
        "create_time": _MARCH_2024,
        "update_time": _MARCH_2024 + 60,
        "mapping": mapping,
        "current_node": current or nodes[-1]["id"],
        "conversation_id": "c-1",
        **fields,
    }
