"""An Executor without a sandbox: notes what it is asked to run, and does what a test tells it to."""

from gaiad.wire.governance import Execution


class StandInShell:
    """`ran` has (argv, work) in order; `does` is called with the work folder, `output` is what comes of it."""

    def __init__(self, refusal=""):
        self.refusal, self.ran = refusal, []
        self.does = lambda work: None
        self.output, self.status, self.stopped = "done", 0, ""

    async def run(self, argv, work, call):
        self.ran.append((list(argv), work))
        self.does(work)
        return Execution(
            exit_status=None if self.stopped else self.status,
            stopped=self.stopped,
            output=self.output,
            output_bytes=len(self.output),
            took_ms=1.0,
        )

    def use_config(self, config):
        pass
