"""Load and faults through uvicorn and the middleware on loopback, and a report of what every client saw.

    python tools/load_middleware.py --streams 2000

A server process runs an app that breaks its streams at random (raises, returns early, is cut inside a frame, cancelled
inside, sends bad JSON or a frame over the bound, answers over-length with 400); this process reads them, slowly some,
and hangs up in others. Checked: a stream that was read to its end has exactly one terminal event, the last, numbered
without a gap; one that was whole arrives byte for byte; nothing is left over (tasks, memory, sockets). Exit 1 when any
of it does not hold. Only addresses of this machine are used; the work and the time are bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gc
import json
import multiprocessing
import random
import resource
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection

    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

FAULTS = ("none", "none", "raise", "return", "cut", "cancel", "bad json", "huge", "over-length", "raise first", "stall")
CLIENTS = ("reads", "reads", "reads", "reads", "slow", "leaves")
MAX_FRAME = 256 * 1024
OVER = "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens."
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


def story(seed: int) -> list[bytes]:
    """The frames of one whole answer, the same for the same seed."""
    from respevents import ResponseStream

    made = random.Random(seed)  # noqa: S311 - a reproducible script, no secret
    stream = ResponseStream(model="m", id=f"resp_{seed}", created_at=1767225600, clock=lambda: 1767225601)
    frames = [stream.start()]
    text = stream.message(id=f"msg_{seed}").text
    frames += [
        text(made.choice(("word ", "é\u2028", "response.completed ", '"\n\n', "x" * 300)))
        for _ in range(made.randint(5, 40))
    ]
    frames.append(stream.complete(usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}))
    return frames


async def app(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The server: how it breaks is in the request."""
    del scope
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    request = json.loads(body)
    if request.get("stats"):
        await answer_stats(send)
        return
    fault, frames = request["fault"], story(request["seed"])
    made = random.Random(request["seed"] + 1)  # noqa: S311 - as above
    if fault == "over-length":
        error = json.dumps({"error": {"message": OVER, "type": "BadRequestError", "code": 400}}).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(error)).encode())]
        await send({"type": "http.response.start", "status": 400, "headers": head})
        await send({"type": "http.response.body", "body": error})
        return
    if fault == "raise first":
        raise ValueError(OVER)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    stop = made.randrange(len(frames)) if fault != "none" else -1
    for at, frame in enumerate(frames):
        await asyncio.sleep(0)
        if at == stop and fault != "stall":
            await broken(fault, frame, send)
            return
        if at == stop:
            await asyncio.sleep(made.uniform(0.1, 0.5))
        await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def broken(fault: str, frame: bytes, send: Send) -> None:
    """Break as told, in the place of a frame."""
    if fault == "raise":
        raise RuntimeError("the engine died at 10.0.0.7")
    if fault == "cancel":
        raise asyncio.CancelledError
    if fault == "cut":
        await send({"type": "http.response.body", "body": frame[: len(frame) // 2], "more_body": True})
    elif fault == "bad json":
        await send(
            {"type": "http.response.body", "body": b'event: x\ndata: {"type": "x", nonsense\n\n', "more_body": True}
        )
    elif fault == "huge":
        for _ in range(8):
            await send({"type": "http.response.body", "body": b"data: " + b"x" * 64 * 1024, "more_body": True})


async def answer_stats(send: Send) -> None:
    """How much this process holds."""
    for _ in range(3):
        await asyncio.sleep(0.05)
        gc.collect()
    data = json.dumps({"tasks": len(asyncio.all_tasks()), **held()}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": data})


def held() -> dict[str, int]:
    """Open files, and bytes of memory in use."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return {"sockets": len(list(Path("/proc/self/fd").iterdir())), "memory": pages * resource.getpagesize()}


def serve(ready: Connection) -> None:
    """The server process."""
    import uvicorn

    from respevents.asgi import ResponsesGuardMiddleware

    counts: collections.Counter[str] = collections.Counter()
    guarded = ResponsesGuardMiddleware(
        app,
        max_frame=MAX_FRAME,
        on_failure=lambda failure: counts.update([str(failure.cause)]),
        on_notice=lambda _: None,
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    ready.send(listener.getsockname()[1])
    config = uvicorn.Config(guarded, log_level="critical", lifespan="off", ws="none", backlog=4096)
    uvicorn.Server(config).run(sockets=[listener])
    ready.send(dict(counts))


async def ask(port: int, request: dict[str, Any], client: str, made: random.Random) -> tuple[str, bytes]:
    """One request: how the answer ended (whole, cut, left), and its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    data = json.dumps({"model": "m", "input": "hi", "stream": True, **request}).encode()
    writer.write(
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
        % (len(data), data)
    )
    body, ended = b"", "cut"
    try:
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        chunked = b"chunked" in head
        leave = made.randrange(1, 20) if client == "leaves" else -1
        while chunked:
            size = int(await reader.readline(), 16)
            part = (await reader.readexactly(size + 2))[:-2]
            body += part
            if size == 0:
                ended = "whole"
                break
            leave -= 1
            if leave == 0:
                return "left", body
            if client == "slow":
                await asyncio.sleep(made.uniform(0, 0.02))
        if not chunked:
            body, ended = await reader.read(), f"status {head[9:12].decode()}"
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        ended = "cut"
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return ended, body


def faults_of(body: bytes, whole: bytes, fault: str) -> list[str]:
    """What is wrong with a stream that a client read to its end."""
    from respevents import FrameDecoder

    if fault in {"none", "stall"}:
        return [] if body == whole else ["a whole stream was altered"]
    decoder, events = FrameDecoder(), []
    for frame in decoder.feed(body) + decoder.close():
        try:
            event = json.loads(frame.data) if frame.data else None
        except ValueError:
            continue  # what the server sent broken
        if event is not None:
            events.append(event)
    found = []
    kinds = [event["type"] for event in events]
    if sum(kind in TERMINAL for kind in kinds) != 1 or kinds[-1] not in TERMINAL:
        found.append(f"terminal events: {[kind for kind in kinds if kind in TERMINAL]}, the last is {kinds[-1:]}")
    if [event["sequence_number"] for event in events] != list(range(len(events))):
        found.append("the numbering has gaps")
    if b"10.0.0.7" in body:
        found.append("internals were told")
    return found


async def stats(port: int) -> dict[str, int]:
    """What the server holds now."""
    _, body = await ask(port, {"stats": True, "stream": False}, "reads", random.Random(0))  # noqa: S311 - as above
    told: dict[str, int] = json.loads(body)
    return told


async def load(port: int, streams: int, seed: int, at_once: int) -> int:
    """Run it and print the report; the number of things that do not hold."""
    made = random.Random(seed)  # noqa: S311 - as above
    gate = asyncio.Semaphore(at_once)
    seen: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []

    # Python 3.10 cannot tell whose cancellation it is: such a body is cut, which is honest and no finding.
    faults = [fault for fault in FAULTS if fault != "cancel" or sys.version_info >= (3, 11)]

    async def one(number: int) -> None:
        fault, client = made.choice(faults), made.choice(CLIENTS)
        own = random.Random(number)  # noqa: S311 - as above
        async with gate:
            ended, body = await asyncio.wait_for(ask(port, {"fault": fault, "seed": number}, client, own), 120)
        seen[f"{fault:<12} {client:<7} {ended}"] += 1
        if ended == "whole":
            wrong.extend(
                f"{fault}, {client}, {number}: {what}" for what in faults_of(body, b"".join(story(number)), fault)
            )
        elif ended != "left":
            wrong.append(f"{fault}, {client}, {number}: the body ended {ended}")

    await asyncio.gather(*(one(-1 - number) for number in range(min(200, streams))))  # caches and pools are warm
    before = await stats(port)
    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(streams)))
    first = time.perf_counter() - began
    middle = await stats(port)
    await asyncio.gather(*(one(number) for number in range(streams, 2 * streams)))
    after = await stats(port)

    for line, count in sorted(seen.items()):
        print(f"     {line:<34} {count:6}")
    print(f"     {streams} streams, up to {at_once} at once: {first:.1f} s, {streams / first:.0f} a second")
    print(f"     server before {before}, after one round {middle}, after two {after}")
    for what, allowed in (("tasks", 2), ("sockets", 4)):
        if after[what] > before[what] + allowed:
            wrong.append(f"{what} are left over: {before[what]}, then {after[what]}")
    # The first round may enlarge the process to its peak; the second must not.
    if after["memory"] > middle["memory"] * 1.1 + 16 * 1024 * 1024:
        wrong.append(f"memory grows: {middle['memory']} bytes, then {after['memory']}")
    for what in wrong[:20]:
        print("MISS", what)
    print(f"{'MISS' if wrong else 'ok  '} {len(wrong)} of {2 * streams} streams or counts are wrong")
    return len(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000, help="streams in each of two rounds (default: 2000)")
    parser.add_argument("--at-once", type=int, help="connections open at once (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65536, hard))
    at_once = min(chosen.at_once or chosen.streams, 10_000)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < at_once + 100:
        print(f"note: {soft} open files allow fewer connections at once")
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        wrong = asyncio.run(load(here.recv(), chosen.streams, chosen.seed, at_once))
    finally:
        server.terminate()
        server.join(10)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
