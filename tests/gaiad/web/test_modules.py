"""What the page's modules compute, run in the browser by themselves: passages, text, events of a turn, streams."""

import pytest
import pytest_asyncio

from tests.makers.browser import window

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGES = [
    {"page_id": "p1", "text": "The harbour has two lights. The lantern on the pier is lit at dusk.\nNobody tends it."},
    {"page_id": "p2", "text": "Mara hears it two days before. Naïve 😀 signs follow."},
]


@pytest_asyncio.fixture(loop_scope="module")
async def run(served, browser):
    """`await run(module, expression, argument)`: the expression sees what the module exports as `it`."""
    async with window(browser, served.origin) as made:
        await made.page.goto(served.link())

        async def evaluate(module, expression, argument=None):
            script = f"async (given) => {{ const it = await import('/web/{module}.js'); return {expression} }}"
            return await made.page.evaluate(script, argument)

        yield evaluate


async def found(run, passage):
    expression = (
        "(({ pages, passage }) => { const one = it.findPassage(pages, passage);"
        " return one && [one.page.page_id, one.page.text.slice(one.start, one.end), one.exact] })(given)"
    )
    return await run("passages", expression, {"pages": PAGES, "passage": passage})


async def test_words_are_found_through_marks_lines_and_quotes_and_each_citation_has_its_own(run):
    pages = [{"page_id": "p", "text": '## 1. **Two** lights\n- The "lantern" on the pier\n- `lit` at dusk'}]
    said = 'Mar 3: assistant: "1. Two lights\n- The "lantern" on the pier\n- lit at dusk"'
    expression = (
        "(({ pages, said }) => { const one = it.findPassage(pages, { said }); return [one.start, one.end] })(given)"
    )
    whole = [len("## 1. **"), len(pages[0]["text"])]  # numbers of lists are not compared
    assert await run("passages", expression, {"pages": pages, "said": f"{said} "}) == whole
    cited = [{"quote": "Quite another."}, {"quote": pages[0]["text"]}, {"quote": "Two **lights**"}]
    choose = "given.said.map((said) => given.cited.indexOf(it.citationOf(said, given.cited)))"
    asked = [said, f"{said} [Packet: p] user: “two lights”", "There is nothing like it in them"]
    assert await run("passages", choose, {"said": asked, "cited": cited}) == [1, 2, -1]


async def test_a_passage_is_found_by_its_characters_its_words_or_its_nearest_sentence(run):
    assert await found(run, {"page_id": "p2", "start": 31, "end": 44}) == ["p2", "Naïve 😀 signs", True]
    assert await found(run, {"said": 'It is "lit  at\ndusk" there '}) == ["p1", "lit at dusk", True]
    assert await found(run, {"said": "They say “the lantern on the pier” so "}) == [
        "p1",
        "The lantern on the pier",
        True,
    ]
    assert await found(run, {"said": "First. [Packet: x] Mara hears it two days before. "}) == [
        "p2", "Mara hears it two days before", True,
    ]  # fmt: skip
    assert await found(run, {"said": "At dusk somebody lights a lantern, on that pier "}) == [
        "p1", "The lantern on the pier is lit at dusk.", False,
    ]  # fmt: skip
    assert await found(run, {"said": "Quite another matter altogether, this "}) is None
    headline = {"said": "First discussed in ", "instead": {"page_id": "p2", "start": 31, "end": 44}}
    assert await found(run, headline) == ["p2", "Naïve 😀 signs", True]
    assert await found(run, None) is None


async def test_pages_of_a_message_are_read_as_one_and_what_they_share_once(run):
    def page(name, text, start, speaker="assistant"):
        return {
            "page_id": name,
            "text": text,
            "start": start,
            "end": start + len(text),
            "speaker": speaker,
            "section": "s",
        }

    pages = [
        page("a", "One. Two.", 0),
        page("b", "Two. Three.", 5),
        page("c", "Two. Three.", 30),
        page("d", "Three.", 35, "user"),
    ]
    expression = "it.joined(given).map(({ text, places }) => [text, [...places]])"
    assert await run("passages", expression, pages) == [
        ["One. Two. Three.", [["a", 0], ["b", 5]]],
        ["Two. Three.", [["c", 0]]],
        ["Three.", [["d", 0]]],
    ]


@pytest.mark.parametrize(
    ("text", "quote", "shown"),
    [
        (
            "## 1. **Two** lights\n- on the `pier`\n- at dusk\n",
            "## 1. **Two** lights\n- on the `pier`",
            ["1. ", "Two", " lights", "on the ", "pier"],
        ),
        ("- a\n- **bold** words here", "**bold** words", ["bold", " words"]),
        ("before\n```sh\nls -l\ncd x\n```\nafter", "```sh\nls -l\ncd x\n```", ["ls -l\ncd x"]),
        ("| a | b |\n|---|---|\n| 12 | 34 |", "| 12 | 34 |", ["12", "34"]),
        ("It took 12. May was cold - so cold.", "12. May was cold - so", ["12. May was cold - so"]),
        ("See https://example.org/a, it is there", "https://example.org/a", ["https://example.org/a"]),
        ("[a link](https://example.org/path) there", "example.org", []),
    ],
)
async def test_a_quote_is_marked_in_what_is_drawn_of_it(run, text, quote, shown):
    expression = """import('/web/rich_text.js').then(({ showText }) => {
      const [node, plain] = [document.createElement('div'), document.createElement('div')];
      const start = given.text.indexOf(given.quote);
      const draw = (words) => showText(node, words, () => {});
      const marked = it.drawMarked(node, given.text, { start, end: start + given.quote.length }, 'exact', draw);
      showText(plain, given.text, () => {});
      const words = [...node.querySelectorAll('mark')].map((mark) => mark.textContent);
      return [marked, words, node.textContent === plain.textContent];
    })"""
    given = {"text": text, "quote": quote}
    assert await run("marked_text", expression, given) == [bool(shown), shown, True]


async def test_text_becomes_blocks_and_code_keeps_its_marks(run):
    text = "# Head\n\nOne\ntwo\n\n- a\n- b\n\n1. x\n\n2. y\n> q\n```\n- no list [Packet: z]\n```\nend"
    kinds = await run("rich_text", "it.split(given).map((block) => [block.kind, block.lines.length])", text)
    assert kinds == [
        ["heading", 1], ["paragraph", 2], ["bullets", 2], ["numbers", 2], ["quote", 1], ["code", 1], ["paragraph", 1],
    ]  # fmt: skip


async def test_tables_and_links_are_elements_and_other_schemes_are_text(run):
    script = """(() => {
      const node = document.createElement('div');
      it.showText(node, given, () => {});
      return [node.querySelectorAll('td').length, node.querySelector('a').href, node.querySelectorAll('a').length];
    })()"""
    text = "| a | b |\n|---|---|\n| 1 | [x](https://example.org/y) |\n\n[z](javascript:alert(1))"
    assert await run("rich_text", script, text) == [2, "https://example.org/y", 1]


async def test_what_is_indented_below_an_item_is_a_list_or_a_table_of_its_own(run):
    script = """(() => {
      const node = document.createElement('div');
      it.showText(node, given, () => {});
      const count = (path) => node.querySelectorAll(path).length;
      return [node.children.length, ...[':scope > ul > li', 'li > ul > li', 'li td', 'li .cite'].map(count)];
    })()"""
    text = "- Ada:\n  - one\n  - two [Packet: p]\n- Bo:\n  | a | b |\n  |---|---|\n  | 1 | 2 |\n  [Packet: p]\n- end"
    assert await run("rich_text", script, text) == [1, 3, 2, 2, 2]


async def test_hits_of_a_conversation_stand_together(run):
    hits = [
        {"packet_id": "a", "session_id": ""},
        {"packet_id": "b", "session_id": "s"},
        {"packet_id": "a", "session_id": ""},
    ]
    groups = await run("archive", "it.together(given).map((group) => group.map((hit) => hit.packet_id))", hits)
    assert groups == [["a", "a"], ["b"]]


async def test_proposed_questions_are_about_what_has_a_title_of_its_own(run):
    def packet(topic, dialect="chatgpt"):
        return {"topic": topic, "dialect": dialect, "timestamp": "2024-03-04T00:00:00Z"}

    packets = [packet("README", "note"), packet("Give me the code that..."), packet("hi"), packet("Old ropes")]
    asked = await run("welcome", "it.questionsOn(given)", packets)
    assert asked == ["What is “Old ropes” about?", "Show me all conversations from March 2024."]


async def test_every_month_stands_in_the_timeline(run):
    months = await run("browse", "it.everyMonth(given)", ["2025-11", "2026-02"])
    assert months == ["2025-11", "2025-12", "2026-01", "2026-02"]


async def test_blocks_that_did_not_change_stay_the_same_elements(run):
    script = """(() => {
      const node = document.createElement('div');
      it.showText(node, 'One\\n\\nTwo', () => {});
      const first = node.firstChild;
      it.showText(node, 'One\\n\\nTwo and **more** [Packet: a b]\\n\\nThree', () => {});
      const mark = node.querySelector('.cite');
      return [node.firstChild === first, node.children.length, node.textContent, mark.dataset.packet];
    })()"""
    assert await run("rich_text", script) == [True, 3, "OneTwo and more 1Three", "a b"]


async def test_a_turn_is_the_sum_of_its_events(run):
    events = [
        ["turn", {"turn_id": "t", "session_id": "s"}],
        ["stage", {"stage": "act", "role": "prime", "why": ""}],
        ["delta", {"text": "One "}],
        ["retract", {"reason": "no"}],
        ["delta", {"text": "Two"}],
        ["block", {"marker": "VERIFY", "text": "v", "role": "codemind", "redactions": [{"kind": "email", "count": 2}]}],
        ["unheard_of", {}],
        ["error", {"code": "cancelled", "message": "m"}],
    ]
    expression = """((events) => { const turn = it.newTurn('m', { running: true });
      for (const [name, data] of events) it.apply(turn, name, data);
      return [turn.turnId, turn.answer, turn.struck, turn.steps.map((one) => one.kind), turn.running, turn.broken,
        turn.redactions]; })(given)"""
    assert await run("turn_model", expression, events) == [
        "t", "Two", {"text": "One ", "reason": "no"}, ["stage", "retract"], False, True,
        [{"kind": "email", "count": 2}],
    ]  # fmt: skip


async def test_events_are_read_however_the_bytes_are_cut(run):
    script = """(async () => {
      const text = 'id: 7\\nevent: delta\\r\\ndata: {"text":"nä 😀"}\\n\\n: alive\\n\\ndata: [1]\\n\\n';
      const bytes = new TextEncoder().encode(text);
      const all = [];
      for (const size of [1, 2, 3, 1000]) {
        const body = new ReadableStream({ start(controller) {
          for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
          controller.close();
        } });
        const found = [];
        for await (const event of it.eventsOf({ body })) found.push([event.id, event.name, JSON.stringify(event.data)]);
        all.push(JSON.stringify(found));
      }
      return [new Set(all).size, JSON.parse(all[0])];
    })()"""
    assert await run("stream", f"await {script}") == [1, [["7", "delta", '{"text":"nä 😀"}'], [None, "message", "[1]"]]]


async def test_an_argument_cannot_hide_what_it_is(run):
    script = "[given.map(it.visible)][0]"
    shown = await run("approvals", script, ["", " a ", "x\u202ey\n", "plain"])
    assert shown == ["∅", "␣a␣", "x\\u202ey⏎", "plain"]


async def test_turns_that_came_to_nothing_stand_between_those_that_memory_keeps(run):
    def record(turn_id, status, second, message="m"):
        at = f"2026-11-22T08:00:0{second}Z"
        return {
            "turn_id": turn_id,
            "session_id": "s",
            "status": status,
            "started_at": at,
            "message": message,
            "end_why": "why",
        }

    records = [
        record("t6", "RUNNING", 6), record("t5", "CUT_OFF", 5), record("t4", "SUCCESS", 4),
        record("t3", "CANCELLED", 3),
        record("t2", "CANCELLED", 2), record("t1", "FAILED", 1), record("t0", "CUT_OFF", 0, ""),
    ]  # fmt: skip
    turns = [{"turnId": name, "startedAt": f"2026-11-22T08:00:0{name[1]}Z"} for name in ("t2", "t4")]
    expression = (
        "it.withLost(given[0], given[1]).map((one) => [one.turnId, one.error?.message ?? '', one.broken ?? false])"
    )
    assert await run("turn_model", expression, [turns, records]) == [
        ["t1", "No answer came: why", True],
        ["t2", "", False],
        ["t3", "Stopped before its end: this answer is incomplete.", True],
        ["t4", "", False],
        ["t5", "gaiad ended before this answer was complete.", True],
    ]


async def test_a_turn_took_the_time_from_its_beginning_to_its_end(run):
    record = {"stages": [{"ms": 12}], "started_at": "2026-11-22T08:00:00Z", "ended_at": "2026-11-22T08:00:00.175Z"}
    assert await run("words", "it.tookMs(given)", record) == 175
    assert await run("words", "it.tookMs(given)", {**record, "ended_at": ""}) == 12


async def test_a_turn_from_the_log_tells_how_it_looked_back(run):
    record = {"blocks": [], "stages": [], "votes": [], "escalations": []}
    history = {"sought": True, "why": "asks what was said", "status": "PARTIAL", "packets": ["p1"], "research_id": "r1"}
    steps = "it.stepsOfRecord(given).map((step) => [step.kind, step.lines[0].text, step.lines[0].packets])"
    told = "asks what was said: PARTIAL; gaiad research show r1"
    assert await run("turn_model", steps, {**record, "history": history}) == [["search", told, ["p1"]]]
    vain = {**history, "status": "", "packets": [], "research_id": ""}
    assert await run("turn_model", steps, {**record, "history": vain}) == [
        ["search", "asks what was said: nothing of use", []]
    ]
    for absent in (None, {**history, "sought": False}):
        assert await run("turn_model", steps, {**record, "history": absent}) == []


async def test_hidden_characters_are_named_and_those_that_belong_to_a_script_or_picture_stay(run):
    async def parts(text):
        return [
            part if isinstance(part, str) else [part["sign"]]
            for part in await run("hidden_signs", "it.partsOf(given)", text)
        ]

    assert await parts("a\u202eb\u200b\u2066c\x1b") == ["a", ["U+202E"], "b", ["U+200B"], ["U+2066"], "c", ["U+001B"]]
    assert await parts("\u202e\u200dx") == [["U+202E"], ["U+200D"], "x"], "nothing hides behind a joiner"
    assert await parts("ignore\U000e0041") == ["ignore", ["U+E0041"]], "letters written in tags"
    for kept in (
        "one\n\ttwo",
        "می\u200cخواهم",
        "👩\u200d🚀",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ):
        assert await parts(kept) == [kept]
    assert await run("hidden_signs", "it.inPlain(given)", "a\u202e") == "a⟨U+202E⟩"


async def test_that_there_was_no_quorum_is_known_of_a_remembered_turn_from_the_turn_log(run):
    records = [{"turn_id": "a", "status": "SUCCESS", "reduced_quorum": True}, {"turn_id": "b", "status": "SUCCESS"}]
    expression = (
        "it.withLost(['a', 'b'].map((turnId) => it.newTurn('x', { turnId })), given).map((one) => one.reducedQuorum)"
    )
    assert await run("turn_model", expression, records) == [True, False]


async def test_a_conversation_is_listed_under_the_period_in_which_it_was_last_spoken(run):
    now = "new Date(2026, 2, 15, 10)"
    for moment, period in (
        ("2026, 2, 15, 0, 1", "Today"),
        ("2026, 2, 16, 9", "Today"),
        ("2026, 2, 14, 23, 59", "Yesterday"),
        ("2026, 2, 13, 12", "Previous 7 days"),
        ("2026, 2, 8, 12", "Previous 7 days"),
        ("2026, 2, 7, 12", "Previous 30 days"),
        ("2026, 0, 20, 12", "January 2026"),
    ):
        script = f"it.period(new Date({moment}).toISOString(), {now}.getTime())"
        assert await run("words", script, None) == period
