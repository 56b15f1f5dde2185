"""The middleware in front of real servers over loopback: uvicorn, FastAPI apps after vLLM and SGLang, real clients."""

from __future__ import annotations

import http.client
import json
import logging
import socket

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")

from engine_apps import CREATED, ID, WORDS, sglang_app, vllm_app
from guarding import events_of
from relaying import FOUR, judged, names
from respevents._demo import serving
from respevents.asgi import ResponsesGuardMiddleware
from respevents.failures import Cause

pytestmark = pytest.mark.sdk

LONG = "word " * 600
TEXT = "".join(WORDS)


class Server:
    def __init__(self, app, **options):
        self.failures, self.notices = [], []
        self.inner = app
        self.app = ResponsesGuardMiddleware(
            app, on_failure=self.failures.append, on_notice=self.notices.append, **options
        )


def running(app, **options):
    @pytest.fixture(scope="module")
    def server():
        made = Server(app(), **options)
        with serving(made.app) as made.port, serving(made.inner) as made.bare_port:
            yield made

    return server


vllm = running(vllm_app, engine="vllm")
sglang = running(sglang_app, engine="sglang", repairs=["failure_code"])


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """uvicorn logs the exceptions of the servers without the middleware; those are the point here."""
    caplog.set_level(logging.CRITICAL, "uvicorn.error")


def said(prompt):
    return prompt if prompt in {"hi", LONG} else f"SCRIPT:{prompt}"


def post(port, prompt, *, stream=True, path="/v1/responses", **fields):
    """Status, headers and body over a socket; raises when the body is cut."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = json.dumps({"model": "tiny", "input": said(prompt), "stream": stream, **fields})
    link.request("POST", path, body, {"content-type": "application/json"})
    answer = link.getresponse()
    try:
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        link.close()


def client(port):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=20)


def raw(port, prompt, model="tiny"):
    with client(port) as made:
        return [event.type for event in made.responses.create(model=model, input=said(prompt), stream=True)]


def accumulated(port, prompt, model="tiny"):
    with client(port) as made, made.responses.stream(model=model, input=said(prompt)) as stream:
        return stream.get_final_response()


read = pytest.mark.parametrize("read", [raw, accumulated])


# ---------------------------------------------------------------------------------------------- vLLM 0.33


def test_a_good_stream_is_the_same_bytes_with_and_without_the_middleware(vllm, sglang):
    for server in (vllm, sglang):
        assert post(server.port, "hi")[2] == post(server.bare_port, "hi")[2]
        assert judged(post(server.port, "hi")[2])[-1]["type"] == "response.completed"
        assert accumulated(server.port, "hi").output_text == TEXT


def test_what_is_not_streamed_or_not_over_length_is_the_same_answer(vllm):
    for case in ({"prompt": "hi"}, {"prompt": LONG}):
        ours, theirs = (post(port, **case, stream=False) for port in (vllm.port, vllm.bare_port))
        assert (ours[0], ours[2]) == (theirs[0], theirs[2])
        assert ours[1].keys() == theirs[1].keys()
    assert post(vllm.port, "queue full")[0] == 503


@read
def test_vllms_400_for_an_over_long_prompt_is_a_failed_stream(vllm, read):
    status, headers, body = post(vllm.port, LONG, metadata={"é": "1"})
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert names(body) == FOUR
    response = judged(body)[-1]["response"]
    assert (response["model"], response["metadata"]) == ("tiny", {"é": "1"})
    assert response["error"]["message"].startswith("This model's maximum context length is 512 tokens.")
    with pytest.raises(openai.BadRequestError):
        read(vllm.bare_port, LONG)
    with pytest.raises(openai.APIError) as raised:
        read(vllm.port, LONG)
    assert raised.value.code == "context_length_exceeded"


@read
@pytest.mark.parametrize("prompt", ["pre", "mid", "generation error"])
def test_a_stream_that_vllm_cuts_is_ended(vllm, read, prompt):
    with pytest.raises(http.client.IncompleteRead) as cut:
        post(vllm.bare_port, prompt)
    vllm.failures.clear()
    status, headers, body = post(vllm.port, prompt)
    assert status == 200 and headers["transfer-encoding"] == "chunked"
    assert body.startswith(cut.value.partial)
    response = judged(body)[-1]["response"]
    assert (response["id"], response["created_at"]) == (ID, CREATED)
    assert response["error"]["code"] == "server_error"
    assert b"10.0.0.7" not in body and b"CUDA" not in body
    assert [type(failure.exception).__name__ for failure in vllm.failures] == [
        {"pre": "RuntimeError", "mid": "ValueError", "generation error": "ValidationError"}[prompt]
    ]
    with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):  # 3.57 wraps it, 2.48 does not
        read(vllm.bare_port, prompt)
    with pytest.raises(openai.APIError) as raised:
        read(vllm.port, prompt)
    assert raised.value.code == "server_error"


@read
def test_a_stream_that_just_stops_is_upstream_truncated(vllm, read):
    body = post(vllm.port, "return")[2]
    assert judged(body)[-1]["response"]["error"]["code"] == "upstream_truncated"
    with pytest.raises(openai.APIError) as raised:
        read(vllm.port, "return")
    assert raised.value.code == "upstream_truncated"


# ---------------------------------------------------------------------------------------------- SGLang 0.5.23


@read
def test_sglangs_over_long_prompt_carries_its_code(sglang, read):
    theirs, ours = (post(port, LONG)[2] for port in (sglang.bare_port, sglang.port))
    assert ours == theirs.replace(b'"code":"server_error"', b'"code":"context_length_exceeded"')
    assert judged(ours)[-1]["response"]["error"]["code"] == "context_length_exceeded"
    assert "failure_code" in {notice.kind for notice in sglang.notices}
    if read is accumulated:  # it takes nothing but response.completed, and says nothing of the code
        with pytest.raises(RuntimeError, match="completed"):
            read(sglang.port, LONG)
    else:
        assert read(sglang.port, LONG)[-1] == "response.failed"


@read
def test_sglangs_own_failure_stays_and_its_harmony_cut_is_ended(sglang, read):
    assert post(sglang.port, "mid")[2] == post(sglang.bare_port, "mid")[2]
    with pytest.raises(http.client.IncompleteRead):
        post(sglang.bare_port, "mid", model="harmony")
    body = post(sglang.port, "mid", model="harmony")[2]
    assert names(judged(body) and body)[-2:] == ["error", "response.failed"]
    with pytest.raises(openai.APIError) as raised:
        read(sglang.port, "mid", model="harmony")
    assert raised.value.code == "server_error"


# ---------------------------------------------------------------------------------------------- HTTP


def test_an_http_1_0_client_gets_the_ending_and_then_the_end_of_the_connection(vllm):
    body = json.dumps({"model": "tiny", "input": said("mid"), "stream": True}).encode()
    head = b"POST /v1/responses HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", vllm.port), timeout=20) as link:
        link.sendall(head + body)
        answer = b""
        while part := link.recv(65536):
            answer += part
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert b"200 OK" in head and b"chunked" not in head
    assert judged(rest)[-1]["type"] == "response.failed"


def test_a_connection_is_kept_for_the_next_request_after_a_stream_that_was_ended(vllm):
    link = http.client.HTTPConnection("127.0.0.1", vllm.port, timeout=20)
    for prompt, last in (("mid", "response.failed"), ("hi", "response.completed"), (LONG, "response.failed")):
        link.request("POST", "/v1/responses", json.dumps({"model": "m", "input": said(prompt), "stream": True}))
        assert judged(link.getresponse().read())[-1]["type"] == last
    link.close()


def test_a_request_sent_in_pieces_reaches_the_server_whole(vllm):
    body = json.dumps({"model": "tiny", "input": "hi", "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", vllm.port), timeout=20) as link:
        link.sendall(
            b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for byte in body:
            link.sendall(b"1\r\n%c\r\n" % byte)
        link.sendall(b"0\r\n\r\n")
        answer = b""
        while part := link.recv(65536):
            answer += part
    assert b"response.completed" in answer


def test_a_client_that_leaves_mid_stream_is_reported_and_nothing_else_happens(vllm):
    vllm.failures.clear()
    body = json.dumps({"model": "tiny", "input": "hi", "stream": True}).encode()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", vllm.port), timeout=20) as link:
            link.sendall(
                b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:-1]
            )
    assert post(vllm.port, "hi")[0] == 200
    assert {failure.cause for failure in vllm.failures} <= {Cause.CLIENT_DISCONNECT}


def test_starlettes_own_stack_takes_it_as_a_class_and_inside_a_mount():
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount

    inner = vllm_app()
    inner.add_middleware(ResponsesGuardMiddleware, on_failure=lambda _: None)
    outer = Starlette(
        routes=[Mount("/llm", app=inner)],
        middleware=[Middleware(ResponsesGuardMiddleware, on_failure=lambda _: None)],
    )
    with serving(outer) as port:
        for prompt in (LONG, "mid"):
            body = post(port, prompt, path="/llm/v1/responses")[2]
            assert judged(body)[-1]["type"] == "response.failed"
            assert len(events_of(body)) == len({data["sequence_number"] for _, data in events_of(body)})
