"""Text generation with llama.cpp inside the worker's process: many requests, one context, one decode step for all.

Between two steps it looks into the mailbox, admits who fits (a person before background work, which gives up its place
but not what it has read), and plans the next step. An interrupted step loses nothing: each sequence is taken up again
where the context's memory says it is.
"""

import heapq
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gaiad.models.child.generate_context import DECODED, FULL, GenerateContext
from gaiad.models.child.inbox import Mailbox, News
from gaiad.models.child.llama import ABORTED
from gaiad.models.child.sampling import FormFault, form_tokens, sampling_problem
from gaiad.models.child.sequences import Sequences
from gaiad.models.child.step_plan import StepBudget, plan_step
from gaiad.models.child.stream_state import StreamState
from gaiad.models.child.vocabulary import Untokenizable
from gaiad.models.supervision.protocol import PROTOCOL_VERSION, Failed, Finished, Generate, Load, Pong, Ready, Reply

_LONGEST_PIECE = 256  # characters; no vocabulary has longer tokens on average


class GenerateEngine:
    """One model, one context. `serve` runs on one thread; `interrupt` may be set from any."""

    def __init__(self, load: Load) -> None:
        self._context = GenerateContext(Path(load.path), load)
        form_tokens(self._context.vocabulary)  # a second for 150,000 tokens: now, not while somebody waits
        self.interrupt = self._context.interrupt
        self._sequences = Sequences(self._context.memory, self._context.numbers, self._context.cells)
        self._mailbox = Mailbox(self.interrupt)
        self._pace = StepBudget(self._context.chunk)
        self._parallel = load.sequences
        self._live: dict[int, StreamState] = {}
        self._waiting: list[StreamState] = []
        self._pings: list[int] = []
        self._arrivals = 0

    def describe(self) -> Ready:
        return Ready(
            version=PROTOCOL_VERSION,
            pid=os.getpid(),
            dimension=0,
            window=self._context.window,
            cells=self._context.cells,
            sequences=self._parallel,
            flash=self._context.flash,
        )

    def open_line(self, reply: Callable[[Reply], None]) -> Mailbox:
        """Where the reader thread puts requests; `reply` is how they are answered."""
        self._reply = reply
        return self._mailbox

    def serve(self) -> None:
        """Work until the mailbox closes."""
        while True:
            busy = bool(self._live or self._waiting or self._pings)
            news = self._mailbox.collect(wait=not busy)
            if news.closed:
                return
            self._take(news)
            self._beat()
            self._admit()
            if self._live:
                self._step()

    def close(self) -> None:
        for stream in [*self._live.values(), *self._waiting]:
            stream.close()
        self._context.close()

    # -- who is served

    def _take(self, news: News) -> None:
        self._pings += news.pings
        for request in news.requests:
            self._receive(request)
        for request_id in news.cancels:
            self._cancel(request_id)

    def _receive(self, request: Generate) -> None:
        problem = sampling_problem(request.seed, request.sampling) or self._hopeless(request)
        if not problem:
            problem = self._enter(request)
        if problem:
            self._reply(Failed(id=request.id, code="bad_input", reason=problem))

    def _enter(self, request: Generate) -> str:
        """Put it into the line; why it cannot be served, or ""."""
        self._arrivals += 1
        try:
            stream = StreamState(request, self._arrivals, self._context.vocabulary)
        except (FormFault, Untokenizable) as error:
            return str(error)
        problem = self._too_long(stream)
        if problem:
            stream.close()
        else:
            heapq.heappush(self._waiting, stream)
        return problem

    def _hopeless(self, request: Generate) -> str:
        """What can be said without reading the prompt: tokenising megabytes would keep everybody waiting."""
        if request.max_tokens < 1:
            return f"max_tokens is {request.max_tokens}; ask for 1 or more"
        size, limit = sum(len(segment.text) for segment in request.segments), self._context.window * _LONGEST_PIECE
        if size > limit:
            return (
                f"the prompt has {size} characters, a context of {self._context.window} tokens holds fewer; shorten it"
            )
        return ""

    def _too_long(self, stream: StreamState) -> str:
        limit = min(self._context.window, self._context.cells)
        if stream.room <= limit:
            return ""
        return (
            f"the prompt has {stream.prompt_tokens} tokens and {stream.request.max_tokens} more are asked for, "
            f"the context has room for {limit}; shorten the prompt or ask for at most "
            f"{max(0, limit - stream.prompt_tokens)} tokens"
        )

    def _cancel(self, request_id: int) -> None:
        waiting = [stream for stream in self._waiting if stream.id == request_id]
        if waiting:
            self._waiting = [stream for stream in self._waiting if stream.id != request_id]
            heapq.heapify(self._waiting)
            waiting[0].close()
        elif request_id in self._live:
            self._retire(self._live[request_id])
        else:
            return  # its last reply is already on its way
        where = "waiting" if waiting else "running"
        self._reply(Failed(id=request_id, code="cancelled", reason=f"cancelled while {where}"))

    def _admit(self) -> None:
        """Give places to the most urgent; background work leaves when a person finds none."""
        while self._waiting:
            stream = self._waiting[0]
            held = self._sequences.place(stream.tokens, stream.room) if len(self._live) < self._parallel else None
            if held is not None:
                heapq.heappop(self._waiting)
                stream.place(held)
                self._live[stream.id] = stream
            elif not self._displace(stream):
                return

    def _displace(self, stream: StreamState) -> bool:
        """Send the least urgent live request back to the line when `stream` is more urgent than it."""
        last = max(self._live.values())
        if last.rank[0] <= stream.rank[0]:
            return False
        self._unplace(last)
        heapq.heappush(self._waiting, last)
        return True

    def _unplace(self, stream: StreamState) -> None:
        assert stream.held is not None
        self._sequences.release(stream.held)
        stream.held = None
        del self._live[stream.id]

    def _retire(self, stream: StreamState) -> None:
        self._unplace(stream)
        stream.close()

    # -- the work

    def _beat(self) -> None:
        """Answer pings after one real token on the reserved sequence; an interrupted one is tried again."""
        if self._pings:
            status = self._context.beat()
            if status == DECODED:
                for ping_id in self._pings:
                    self._reply(Pong(id=ping_id))
            elif status != ABORTED:
                sys.stderr.write(f"a heartbeat's decode failed with {status}; the pings stay unanswered\n")
            if status != ABORTED:
                self._pings = []

    def _step(self) -> None:
        streams = list(self._live.values())
        wants = [stream.want() for stream in streams]
        counts = plan_step(wants, self._pace.lone_chunk, self._pace.shared_chunk)
        planned = [(stream, count) for stream, count in zip(streams, counts, strict=True) if count]
        self._mailbox.urgency = min(stream.rank[0] for stream, _ in planned)
        outputs = self._context.fill(planned)
        started = time.monotonic()
        status = self._context.decode()
        if status == DECODED:
            read = sum(count for count, want in zip(counts, wants, strict=True) if want.prefilling)
            self._pace.note(read, sum(counts) - read, time.monotonic() - started)
            self._harvest(planned, outputs)
        elif status == ABORTED:
            self._resume(planned)
        elif status != FULL or not self._sequences.forget_oldest():
            self._give_up(planned, status)

    def _harvest(self, planned: list[tuple[StreamState, int]], outputs: dict[int, int]) -> None:
        """Count what was evaluated, choose the next tokens, tell the callers."""
        for stream, count in planned:
            assert stream.held is not None
            start = stream.held.length
            self._sequences.extend(stream.held, stream.tokens[start : start + count])
        for stream, _ in planned:
            if stream.id in outputs:
                message = stream.advance(self._context.handle, outputs[stream.id])
                if isinstance(message, Finished | Failed):
                    self._retire(stream)
                if message is not None:
                    self._reply(message)

    def _resume(self, planned: list[tuple[StreamState, int]]) -> None:
        """After an interrupt: believe the memory, not the plan. The last token is read again for its logits."""
        for stream, _ in planned:
            held = stream.held
            assert held is not None
            real = self._context.memory.length(held.id)
            if real > held.length:
                self._sequences.extend(held, stream.tokens[held.length : real])
            self._sequences.shorten(held, min(real, len(stream.tokens) - 1))

    def _give_up(self, planned: list[tuple[StreamState, int]], status: int) -> None:
        for stream, _ in planned:
            assert stream.held is not None
            self._context.memory.truncate(stream.held.id, 0)
            stream.held.tokens.clear()
            stream.held.cells.clear()
            self._retire(stream)
            reason = f"llama.cpp answered {status} to a step of {len(planned)} sequences"
            self._reply(Failed(id=stream.id, code="engine", reason=reason))
