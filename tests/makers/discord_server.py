"""Discord's gateway and REST as far as a bot uses them, on loopback, with the faults a test asks for.

Payloads are as Discord documents them (API v10). What happens while a bot is away is kept and sent when it resumes.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from aiohttp import WSMsgType, web

TOKEN = "stand-in.token.123"
BOT, SERVER, CHANNEL = "900000000000000001", "100000000000000001", "200000000000000001"
ALLOWED, STRANGER = "110000000000000001", "660000000000000001"
_HEARTBEAT_MS = 200
DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11


def user(number: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    return {
        "id": number,
        "username": name,
        "global_name": None,
        "discriminator": "0",
        "avatar": None,
        "bot": bot,
        "flags": 0,
        "public_flags": 0,
    }


def _channel(number: str, name: str, kind: int = 0, **more: Any) -> dict[str, Any]:
    plain = {"id": number, "type": kind, "guild_id": SERVER, "name": name, "position": 0, "permission_overwrites": []}
    return plain | {"topic": None, "nsfw": False, "parent_id": None, "last_message_id": None} | more


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Discord names no charset, and the library insists on it."""
    plain = {"Content-Type": "application/json"} | (headers or {})
    return web.Response(body=json.dumps(body).encode(), status=status, headers=plain)


@dataclass
class Fault:
    """One answer that goes wrong: `status` with `body`; `drop` closes the connection before or after doing it."""

    status: int = 0
    drop: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0


def rate_limited(seconds: float) -> Fault:
    """As Discord says it: 429 with the time to wait."""
    body = {"message": "You are being rate limited.", "retry_after": seconds, "global": False}
    return Fault(429, body=body, headers={"Via": "1.1 google", "Retry-After": str(seconds)})


class DiscordServer:
    """`messages` has what is in every channel, oldest first; `faults` are used up by the next messages posted.

    `sockets` counts connections, `identified` and `resumed` log-ins, `typing` the signs of writing, `posts` attempts.
    """

    def __init__(self) -> None:
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.threads: dict[str, dict[str, Any]] = {}
        self.faults: list[Fault] = []
        self.login_faults: list[Fault] = []
        self.thread_faults: list[Fault] = []
        self.posts: list[dict[str, Any]] = []
        self.typing: list[str] = []
        self.sockets = self.identified = self.resumed = self.beats = 0
        self.intents = 0
        self.refuse_close_code = 0
        self.forget_sessions = False
        self.is_silent = False
        self.every_s = 0.0
        self._nonces: dict[tuple[str, str], dict[str, Any]] = {}
        self._ids = itertools.count(5000)
        self._events: list[dict[str, Any]] = []
        self._sequence = 0
        self._sockets: list[web.WebSocketResponse] = []
        self._runner: web.AppRunner | None = None
        self.port = 0

    # -- its life

    async def start(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/api/users/@me", self._me)
        app.router.add_get("/api/oauth2/applications/@me", self._application)
        app.router.add_post("/api/channels/{channel}/messages", self._post)
        app.router.add_get("/api/channels/{channel}/messages", self._history)
        app.router.add_post("/api/channels/{channel}/messages/{message}/threads", self._thread)
        app.router.add_post("/api/channels/{channel}/typing", self._typing)
        app.router.add_get("/api/channels/{channel}", self._one_channel)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port or self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """As an outage: nothing answers any more; what was said stays."""
        await self.drop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def drop(self, code: int = 1012) -> None:
        """End every gateway connection."""
        for socket in [*self._sockets]:
            await socket.close(code=code)

    async def ask_to_reconnect(self) -> None:
        for socket in [*self._sockets]:
            await socket.send_json({"op": RECONNECT, "d": None, "s": None, "t": None})

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """discord.py talks to this server for the length of the block."""
        import yarl
        from discord.gateway import DiscordWebSocket
        from discord.http import Route

        gateway = yarl.URL(f"ws://127.0.0.1:{self.port}/gateway/")
        api = f"http://127.0.0.1:{self.port}/api"
        with mock.patch.object(DiscordWebSocket, "DEFAULT_GATEWAY", gateway), mock.patch.object(Route, "BASE", api):
            yield

    # -- what people do

    async def say(self, text: str, *, by: str = ALLOWED, channel: str = CHANNEL, **more: Any) -> str:
        """A person's message; its id."""
        message = self._message(channel, user(by, f"user{by}"), text) | {"guild_id": SERVER} | more
        self.messages.setdefault(channel, []).append(message)
        await self._dispatch("MESSAGE_CREATE", message)
        return str(message["id"])

    async def repeat(self, number: str) -> None:
        """Tell the bot of a message once more."""
        await self._dispatch(
            "MESSAGE_CREATE", next(m for all in self.messages.values() for m in all if m["id"] == number)
        )

    def texts(self, channel: str) -> list[str]:
        """What the bot said there."""
        return [one["content"] for one in self.messages.get(channel, []) if one["author"]["id"] == BOT]

    # -- the gateway

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets += 1
        if self.is_silent:
            await socket.receive()
            return socket
        await socket.send_json({"op": HELLO, "d": {"heartbeat_interval": _HEARTBEAT_MS}, "s": None, "t": None})
        try:
            async for frame in socket:
                if frame.type == WSMsgType.TEXT:
                    await self._received(socket, json.loads(frame.data))
        finally:
            if socket in self._sockets:
                self._sockets.remove(socket)
        return socket

    async def _received(self, socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        match message["op"]:
            case 1:
                self.beats += 1
                await socket.send_json({"op": ACK, "d": None, "s": None, "t": None})
            case 2:
                await self._identify(socket, message["d"])
            case 6:
                await self._resume(socket, message["d"])

    async def _identify(self, socket: web.WebSocketResponse, data: dict[str, Any]) -> None:
        if self.refuse_close_code or data["token"] != TOKEN:
            await socket.close(code=self.refuse_close_code or 4004)
            return
        self.identified += 1
        self.intents = data["intents"]
        self._events = []
        self._sockets.append(socket)
        ready = {
            "v": 10,
            "user": user(BOT, "gaiad", bot=True),
            "guilds": [{"id": SERVER, "unavailable": True}],
            "session_id": f"session{self.identified}",
            "resume_gateway_url": f"ws://127.0.0.1:{self.port}/gateway/",
            "application": {"id": BOT, "flags": 0},
        }
        await self._dispatch("READY", ready)
        await self._dispatch("GUILD_CREATE", self._guild())

    async def _resume(self, socket: web.WebSocketResponse, data: dict[str, Any]) -> None:
        if self.forget_sessions or data["session_id"] != f"session{self.identified}":
            await socket.send_json({"op": INVALID, "d": False, "s": None, "t": None})
            return
        self.resumed += 1
        for event in [event for event in self._events if event["s"] > data["seq"]]:
            await socket.send_json(event)
        self._sockets.append(socket)
        await self._dispatch("RESUMED", {})

    async def _dispatch(self, name: str, data: dict[str, Any]) -> None:
        self._sequence += 1
        event = {"op": DISPATCH, "t": name, "s": self._sequence, "d": data}
        self._events.append(event)
        for socket in [*self._sockets]:
            if not socket.closed:
                await socket.send_json(event)

    def _guild(self) -> dict[str, Any]:
        everyone = {"id": SERVER, "name": "@everyone", "permissions": "0", "position": 0, "color": 0, "hoist": False}
        return {
            "id": SERVER,
            "name": "The house",
            "owner_id": ALLOWED,
            "icon": None,
            "member_count": 3,
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "roles": [everyone | {"managed": False, "mentionable": False}],
            "emojis": [],
            "stickers": [],
            "features": [],
            "mfa_level": 0,
            "system_channel_id": None,
            "premium_tier": 0,
            "nsfw_level": 0,
            "preferred_locale": "en-US",
            "channels": [_channel(CHANNEL, "council"), _channel("201", "elsewhere")],
            "threads": [],
            "members": [],
            "presences": [],
            "voice_states": [],
        }

    # -- REST

    async def _me(self, request: web.Request) -> web.Response:
        if self.login_faults:
            return await self._wrong(self.login_faults.pop(0), request)
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return _json({"message": "401: Unauthorized", "code": 0}, status=401)
        return _json(user(BOT, "gaiad", bot=True))

    async def _application(self, request: web.Request) -> web.Response:
        about = {"id": BOT, "name": "gaiad", "icon": None, "description": "", "bot_public": False, "flags": 0}
        more = {"bot_require_code_grant": False, "owner": user(ALLOWED, "owner"), "verify_key": "0" * 64, "team": None}
        return _json(about | more)

    async def _post(self, request: web.Request) -> web.Response:
        channel, body = request.match_info["channel"], await request.json()
        self.posts.append(body | {"at": asyncio.get_running_loop().time()})
        fault = self.faults.pop(0) if self.faults else Fault()
        if fault.status or fault.drop == "before":
            return await self._wrong(fault, request)
        known = self._nonces.get((channel, body.get("nonce", "")))
        if known is None or not body.get("enforce_nonce"):
            known = self._message(channel, user(BOT, "gaiad", bot=True), body["content"])
            self.messages.setdefault(channel, []).append(known)
            if body.get("nonce"):
                self._nonces[channel, body["nonce"]] = known
            await self._dispatch("MESSAGE_CREATE", known | {"guild_id": SERVER})
        if fault.drop == "after" or fault.wait_s:
            return await self._wrong(fault, request)
        return _json(known, headers=self._bucket())

    def _bucket(self) -> dict[str, str]:
        """One message each `every_s`, when that is set."""
        if not self.every_s:
            return {}
        limit = {"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Bucket": "messages"}
        return limit | {"X-RateLimit-Reset-After": str(self.every_s)}

    async def _wrong(self, fault: Fault, request: web.Request) -> web.Response:
        if fault.wait_s:
            await asyncio.sleep(fault.wait_s)
        if fault.drop and request.transport is not None:
            request.transport.close()
        body = fault.body or {"message": f"{fault.status}: as told", "code": 0}
        return _json(body, status=fault.status or 500, headers=fault.headers)

    async def _history(self, request: web.Request) -> web.Response:
        after, limit = int(request.query.get("after", 0)), int(request.query.get("limit", 50))
        found = [one for one in self.messages.get(request.match_info["channel"], []) if int(one["id"]) > after]
        return _json(list(reversed(found[:limit])))  # the newest first, as Discord gives them

    async def _thread(self, request: web.Request) -> web.Response:
        if self.thread_faults:
            return await self._wrong(self.thread_faults.pop(0), request)
        number, body = request.match_info["message"], await request.json()
        thread = _channel(number, body["name"], 11, parent_id=request.match_info["channel"], owner_id=BOT)
        about = {"archived": False, "auto_archive_duration": 1440, "locked": False}
        thread |= {"thread_metadata": about | {"archive_timestamp": "2025-12-01T12:00:00+00:00"}}
        thread |= {"message_count": 0, "member_count": 1}
        self.threads[number] = thread
        await self._dispatch("THREAD_CREATE", thread | {"newly_created": True})
        return _json(thread, status=201)

    async def _typing(self, request: web.Request) -> web.Response:
        self.typing.append(request.match_info["channel"])
        return web.Response(status=204)

    async def _one_channel(self, request: web.Request) -> web.Response:
        found = self.threads.get(request.match_info["channel"])
        if found is None:
            return _json({"message": "Unknown Channel", "code": 10003}, status=404)
        return _json(found)

    def _message(self, channel: str, author: dict[str, Any], text: str) -> dict[str, Any]:
        return {
            "id": str(next(self._ids)),
            "channel_id": channel,
            "author": author,
            "content": text,
            "timestamp": "2025-12-01T12:00:00+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            "components": [],
        }
