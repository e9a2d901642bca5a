from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.kinds import takeout
from gaiad.archive.importing.local_times import shown_time
from gaiad.base.ports import RequestContext

Put = Callable[[str, Any], Path]


def entry(title: str, answer: str, minute: int, **more: Any) -> dict[str, Any]:
    html = [{"html": answer}] if answer else []
    time = f"2026-03-14T19:{minute:02}:00.000Z"
    return {
        "header": "Gemini Apps",
        "title": title,
        "time": time,
        "products": ["Gemini Apps"],
        "safeHtmlItem": html,
        **more,
    }


async def test_an_entry_is_a_conversation_and_a_thread_is_joined_from_its_oldest(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    thread = [{"name": "Chat", "url": "https://gemini.google.com/app/0a1b2c3d4e5f"}]
    activity = [
        entry("Prompted And at night?", "<p>Use the <b>light</b>.</p>", 9, details=thread),
        entry("Prompted How do I find the harbour?", "<ul><li>Chart</li><li>Compass</li></ul>", 5, details=thread),
        entry("Prompted Tea?", "<p>Black &amp; strong.</p>", 1, attachedFiles=[{"name": "tea.txt"}]),
        entry("Gave feedback: Good response", "", 0),
    ]
    outcomes = await run_import(put("MyActivity.json", activity))
    assert [(each.conversation_id, each.user_messages, each.assistant_messages) for each in outcomes] == [
        (outcomes[0].conversation_id, 1, 1),
        ("0a1b2c3d4e5f", 2, 2),
    ]
    pages = (await archive.packet_detail(outcomes[1].packet_id, RequestContext())).pages
    assert [page.text for page in pages] == [
        "How do I find the harbour?",
        "- Chart\n- Compass",
        "And at night?",
        "Use the light.",
    ]
    assert pages[2].timestamp == "2026-03-14T19:09:00Z"
    tea = (await archive.packet_detail(outcomes[0].packet_id, RequestContext())).pages
    assert [page.text for page in tea] == ["Tea?\n\n[file: tea.txt]", "Black & strong."]


async def test_a_thread_beyond_all_measure_is_named_and_the_rest_is_read(
    run_import: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeout, "_THREAD_ENTRIES", 3)
    long, short = ([{"name": "Chat", "url": f"https://gemini.google.com/app/{name * 12}"}] for name in "ab")
    activity = [entry(f"Prompted {number}?", "<p>Yes.</p>", number, details=long) for number in range(5)]
    outcomes = await run_import(
        put("MyActivity.json", [*activity, entry("Prompted Why?", "<p>So.</p>", 1, details=short)])
    )
    assert [(each.outcome, each.conversation_id) for each in outcomes] == [("failed", ""), ("accepted", "b" * 12)]
    assert outcomes[0].reason == "conversation aaaaaaaaaaaa is longer than one conversation may be"


async def test_what_a_language_puts_before_every_prompt_is_taken_off(run_import: Any, put: Put) -> None:
    titles = ("Eingegebener Prompt: Wie tief?", "Eingegebener Prompt: Wo?", "Eingegebener Prompt: Warum nicht?")
    outcomes = await run_import(put("MeineAktivitäten.json", [entry(each, "<p>Ja.</p>", 1) for each in titles]))
    assert [each.title for each in outcomes] == ["Wie tief?", "Wo?", "Warum nicht?"]


async def test_entries_of_several_languages_and_the_newer_links_of_threads(run_import: Any, put: Put) -> None:
    url = "https://gemini.google.com/app/c/thread-0001"
    activity = [
        entry("Prompted And then?", "<p>Home.</p>", 9, titleUrl=f"{url}?hl=en"),
        entry("Prompted Where to?", "<p>Out.</p>", 8, titleUrl=url),
        entry("送信したメッセージ: これは何", "<p>船です。</p>", 7),
        entry("Eingegebener Prompt: Wie tief?", "<p>Drei Faden.</p>", 6),
    ]
    outcomes = await run_import(put("MyActivity.json", activity))
    found = [(each.title, each.user_messages) for each in outcomes]
    assert found == [("これは何", 1), ("Wie tief?", 1), ("Where to?", 2)]


async def test_the_html_form(archive: LocalArchive, run_import: Any, put: Put) -> None:
    cell = (
        '<div class="outer-cell mdl-cell"><div class="mdl-grid"><div class="header-cell mdl-cell">Gemini Apps</div>'
        '<div class="content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1">Prompted\u00a0{prompt}<br>'
        "Jul 11, 2026, 12:00:47\u202fPM MDT<br><p>{answer}</p></div>"
        '<div class="content-cell mdl-cell mdl-typography--caption">Products: Gemini Apps</div></div></div>'
    )
    cells = cell.format(prompt="Which &lt;rope&gt;?", answer="Hemp.") + cell.format(prompt="Why?", answer="It holds.")
    page = (
        f'<html><head><title>My Activity History</title></head><body><div class="mdl-grid">{cells}</div></body></html>'
    )
    outcomes = await run_import(put("MyActivity.html", page))
    assert [(each.title, each.first_message) for each in outcomes] == [
        ("Which <rope>?", "2026-07-11T18:00:47Z"),
        ("Why?", "2026-07-11T18:00:47Z"),
    ]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Jul 11, 2026, 12:00:47 PM MDT", "2026-07-11T18:00:47Z"),
        ("11.07.2026, 14:00:47 MESZ", "2026-07-11T12:00:47Z"),
        ("11 juil. 2026, 14:00:47 CEST", "2026-07-11T12:00:47Z"),
        ("2026/07/11 21:00:47 JST", "2026-07-11T12:00:47Z"),
        ("11 Jul 2026, 14:00:47 GMT+02:00", "2026-07-11T12:00:47Z"),
        ("11 Jul 2026, 14:00:47", "2026-07-11T13:00:47Z"),
        ("What is 12:30 in words?", ""),
        ("Jul 41, 2026, 12:00:47 PM", ""),
    ],
)
def test_times_as_they_are_shown(text: str, moment: str) -> None:
    assert shown_time(text, timezone(timedelta(hours=1))) == moment
    assert shown_time("", UTC) == ""


async def test_files_and_dates_in_the_html_of_any_language(archive: LocalArchive, run_import: Any, put: Put) -> None:
    cell = (
        '<div class="outer-cell mdl-cell"><div class="mdl-grid"><div class="header-cell mdl-cell">Gemini</div>'
        '<div class="content-cell mdl-cell mdl-typography--body-1">{}</div></div></div>'
    )
    shown = (
        'Prompted&nbsp;Read this<br>Attached 1 file.<br>- <a href="note%20one.txt">note.txt</a><br>'
        "18 Sept 2025, 12:01:52 CET<br><p>Done.</p>",
        "Prompted&nbsp;Meet at 10:30 on 5/3/2024?<br>Or later?<br>2024. 3. 5. 오후 3:20:10 KST<br><p>Later.</p>",
        "Created Gemini Canvas titled&nbsp;A thing<br>18 Sept 2025, 12:02:52 CET<br>",
    )
    page = f"<html><body>{''.join(map(cell.format, shown))}</body></html>"
    first, second = await run_import(put("MyActivity.html", page))
    assert [first.first_message, second.first_message] == ["2025-09-18T11:01:52Z", "2024-03-05T06:20:10Z"]
    texts = [
        [page.text for page in (await archive.packet_detail(each.packet_id, RequestContext())).pages]
        for each in (first, second)
    ]
    assert texts == [["Read this\n\n[file: note.txt]", "Done."], ["Meet at 10:30 on 5/3/2024?\nOr later?", "Later."]]
