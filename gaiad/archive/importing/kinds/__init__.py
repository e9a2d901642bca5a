"""The kinds gaiad imports, the most particular first; a new kind is its file and its line here."""

from gaiad.archive.importing.kind import Kind
from gaiad.archive.importing.kinds.chatgpt import CHATGPT
from gaiad.archive.importing.kinds.claude_ai import CLAUDE_AI, CLAUDE_DESIGN, CLAUDE_MEMORY, CLAUDE_PROJECT
from gaiad.archive.importing.kinds.claude_code import CLAUDE_CODE
from gaiad.archive.importing.kinds.codex import CODEX
from gaiad.archive.importing.kinds.front_ends import AI_STUDIO, CHATBOT_UI, GROK, LIBRECHAT, OPEN_WEBUI
from gaiad.archive.importing.kinds.gemini_cli import GEMINI_CHECKPOINT, GEMINI_CLI, GEMINI_PROMPTS
from gaiad.archive.importing.kinds.llm_logs import LLM_LOGS
from gaiad.archive.importing.kinds.notes import NOTE
from gaiad.archive.importing.kinds.takeout import TAKEOUT
from gaiad.archive.importing.kinds.text_chats import AIDER, LLM_MARKDOWN, SPECSTORY
from gaiad.archive.importing.kinds.thoughtstream import THOUGHT_SEED, THOUGHTSTREAM
from gaiad.archive.importing.kinds.transcript import TRANSCRIPT

KINDS: tuple[Kind, ...] = (
    CHATGPT,
    CLAUDE_AI,
    CLAUDE_PROJECT,
    CLAUDE_MEMORY,
    CLAUDE_DESIGN,
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    GEMINI_CHECKPOINT,
    GEMINI_PROMPTS,
    THOUGHTSTREAM,
    THOUGHT_SEED,
    OPEN_WEBUI,
    LIBRECHAT,
    CHATBOT_UI,
    GROK,
    AI_STUDIO,
    TAKEOUT,
    LLM_LOGS,
    LLM_MARKDOWN,
    SPECSTORY,
    AIDER,
    TRANSCRIPT,
    NOTE,
)
