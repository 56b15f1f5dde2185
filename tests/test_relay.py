"""`Relay`: what goes through untouched, how it ends what an upstream left open, and what it never does."""

from __future__ import annotations

import asyncio
import itertools
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guarding import ITEM, delta, event, events_of
from relaying import BODY, EVENTS, FOUR, FRAMES, OPEN, RESPONSE, TERMINALS, Relayed, judged, names
from respevents._errors import LocalProtocolError
from respevents.failures import Cause, Failure, Policy
from respevents.relay import REPAIRS, Relay
from respevents.wire import encode_frame

STARTED = FRAMES[:4]


def cut(body, places):
    edges = [0, *sorted(places), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(edges) if b > a]


chunkings = st.lists(st.integers(1, len(BODY) - 1), max_size=12, unique=True)


# ---------------------------------------------------------------------------------------------- passing through


@given(chunkings)
def test_a_whole_stream_passes_byte_for_byte_and_chunk_by_chunk(places):
    chunks = cut(BODY, places)
    done = Relayed(chunks)
    assert all(out is chunk for out, chunk in zip(done.chunks, chunks, strict=True))
    assert done.ending == b""
    assert done.failures == [] == done.notices


@given(st.integers(0, len(BODY) - 1), st.integers(1, 40))
def test_a_stream_cut_anywhere_is_ended_whatever_was_sent_and_nothing_sent_is_changed(at, size):
    body = BODY[:at]
    done = Relayed([body[i : i + size] for i in range(0, at, size)])
    assert b"".join(done.chunks) == body
    assert done.body.startswith(body)
    kinds = names(done.body)
    assert sum(kind in TERMINALS for kind in kinds) == 1
    if done.failures:
        judged(done.body, torn=True)
        assert kinds[-2:] == ["error", "response.failed"]
        assert events_of(done.body)[-1][1]["response"]["error"]["code"] == "upstream_truncated"
        assert done.relay.failure.cause is Cause.UPSTREAM_TRUNCATED
    else:  # only the blank line of the last frame was missing
        assert kinds == [one["type"] for one in EVENTS]


def test_a_frame_goes_out_when_it_arrives_and_so_does_half_of_one():
    relay = Relay()
    for chunk in (FRAMES[0], FRAMES[1][:30], FRAMES[1][30:]):
        assert relay.feed(chunk) is chunk


def test_comments_blank_lines_crlf_a_byte_order_mark_and_unknown_events_pass():
    odd = b"\xef\xbb\xbf: ping\r\n\r\n" + BODY.replace(b"\n", b"\r\n") + b"\r\n:\r\n\r\n"
    odd = odd.replace(b"event: response.in_progress", b"id: 7\r\nretry: 10\r\nevent: response.in_progress")
    done = Relayed([odd])
    assert done.body == odd
    assert done.failures == []


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
def test_nothing_is_added_after_an_upstreams_own_terminal_event(kind):
    last = encode_frame(event(kind, 6, response={**RESPONSE, "status": kind.partition(".")[2]}))
    for tail in (b"", b"data: [DONE]\n\n", b": bye\n\n", b'data: {"type":"response.outp'):
        done = Relayed([*OPEN, last, tail] if tail else [*OPEN, last])
        assert done.ending == b""
        assert done.body == b"".join([*OPEN, last, tail])
        assert done.relay.terminal == kind
        assert Relayed([*OPEN, last, tail], end=OSError("reset")).ending == b""


def test_a_frame_is_not_forwarded_when_it_is_no_bytes():
    with pytest.raises(TypeError, match="Read the body as bytes"):
        Relay().feed("data: x\n\n")
    assert Relay().feed(bytearray(b": x\n\n")) == b": x\n\n"


# ---------------------------------------------------------------------------------------------- endings


def test_how_the_stream_stands_is_there_to_be_read():
    relay = Relay()
    assert (relay.response_id, relay.model, relay.created_at, relay.last_sequence_number) == (None, None, None, None)
    assert not relay.started
    for frame in FRAMES[:-1]:
        relay.feed(frame)
    relay.feed(FRAMES[-1][:20])
    assert (relay.response_id, relay.model, relay.created_at) == ("resp_announced", "announced-model", 1767225600)
    assert relay.last_sequence_number == 8
    assert relay.items_done == [ITEM]
    assert relay.open_frame and relay.started and not relay.ended
    relay.feed(FRAMES[-1][20:])
    assert relay.ended and relay.terminal == "response.completed" and not relay.open_frame


def test_an_upstream_that_stops_at_once_gives_the_four_frames_with_what_the_client_asked_for():
    done = Relayed([], id="resp_x", created_at=7, request={"temperature": 0.5, "metadata": {"k": "é"}})
    events = judged(done.body)
    assert names(done.body) == FOUR
    response = events[-1]["response"]
    assert (response["id"], response["model"], response["created_at"]) == ("resp_x", "asked-for", 7)
    assert (response["temperature"], response["metadata"]) == (0.5, {"k": "é"})


def test_the_items_that_were_done_stand_in_the_failed_snapshot():
    done = Relayed(OPEN)
    assert judged(done.body)[-1]["response"]["output"] == [ITEM]


@pytest.mark.parametrize("error", [OSError("reset by peer 10.0.0.7"), ValueError("bad chunk"), TimeoutError()])
def test_a_read_error_is_stream_failed_and_says_nothing_of_hosts(error):
    done = Relayed([*STARTED, FRAMES[4][:60]], end=error)
    events = judged(done.body, torn=True)
    assert events[-1]["response"]["error"]["code"] == "stream_failed"
    assert b"10.0.0.7" not in done.ending
    assert done.failures[0].exception is error
    assert done.relay.truncated_frame
    assert not done.relay.reraise


def test_an_error_that_blames_the_request_keeps_its_cause():
    text = "This model's maximum context length is 512 tokens. However, your messages resulted in 600 tokens."
    done = Relayed([], end=ValueError(text), engine="vllm")
    assert judged(done.body)[-1]["response"]["error"]["code"] == "context_length_exceeded"
    done = Relayed([], end=Failure(cause=Cause.OVERLOADED, message="busy"))
    assert judged(done.body)[-1]["response"]["error"]["code"] == "server_is_overloaded"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_a_hang_up_adds_nothing_and_is_reported(error):
    done = Relayed(STARTED, end=error)
    assert done.ending == b"" and done.relay.reraise
    assert [failure.cause for failure in done.failures] == [Cause.CLIENT_DISCONNECT]
    done = Relayed(STARTED, end=None)
    done.relay.hang_up()
    assert [failure.cause for failure in done.failures] == [Cause.CLIENT_DISCONNECT]
    done = Relayed(FRAMES, end=error)
    assert done.failures == []


def test_the_end_of_the_process_is_no_failure():
    done = Relayed(STARTED, end=KeyboardInterrupt())
    assert done.ending == b"" and done.failures == [] and done.relay.reraise


def test_the_policy_decides_on_order_shape_and_whether_the_fault_is_raised_again():
    done = Relayed(STARTED, end=OSError("gone"), policy=Policy.tensorrt_llm)
    assert done.relay.reraise
    _, error, failed = (*events_of(done.body)[-3:],)
    assert error[1]["code"] == "upstream_error" and "error" not in error[1]
    assert failed[1]["response"]["error"]["code"] == "server_error"
    assert names(Relayed(STARTED, policy=Policy(tail="failed")).body)[4:] == ["response.failed"]


def test_an_end_is_given_once_and_feeding_after_it_is_an_error():
    done = Relayed(STARTED)
    assert done.relay.close() == b"" == done.relay.fail(OSError("late"))
    assert [failure.cause for failure in done.failures] == [Cause.UPSTREAM_TRUNCATED, Cause.UPSTREAM_READ_ERROR]
    with pytest.raises(LocalProtocolError, match="closed"):
        done.relay.feed(b": x\n\n")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b'event: error\ndata: {"type":"error","code":"rate_limit_exceeded","message":"slow","param":null,"sequence_number":4}\n\n', "rate_limit_exceeded"),
        (b'event: error\ndata: {"error":{"message":"cut","type":"stream_error","code":"upstream_truncated"}}\n\n', "upstream_truncated"),
        (b'data: {"error":{"code":400,"type":"exceed_context_size_error","message":"the request exceeds the available context size","n_ctx":256}}\n\n', "context_length_exceeded"),
        (b'data: {"error":"something broke"}\n\n', "server_error"),
    ],
    ids=["flat", "tingly-box", "llama.cpp", "text"],
)  # fmt: skip
def test_an_error_the_upstream_told_in_any_shape_gets_its_response_failed_and_no_second_error(frame, code):
    done = Relayed([*STARTED, frame])
    assert names(done.ending) == ["response.failed"]
    (_, failed) = events_of(done.ending)[0]
    assert failed["response"]["error"]["code"] == code
    assert failed["response"]["id"] == "resp_announced"


def test_a_null_error_key_on_an_event_is_no_error():
    done = Relayed([*STARTED, b'data: {"error":null,"delta":"x"}\n\n'])
    assert names(done.ending) == ["error", "response.failed"]


def test_done_without_a_terminal_event_is_preceded_by_the_ending():
    """Client rule: the openai SDKs read no further than `[DONE]`, and take what they have for a success."""
    marker = b"data: [DONE]\n\n"
    done = Relayed([*STARTED, marker, b": late\n\n"])
    assert done.body.endswith(marker)
    assert names(b"".join(done.chunks[:5]).removesuffix(marker))[-2:] == ["error", "response.failed"]
    assert done.relay.cut_off
    done = Relayed([*STARTED[:3], STARTED[3] + marker])
    assert names(done.body.removesuffix(marker))[-1] == "response.failed"
    # Not when something follows it in the chunk, and not when part of it is out: then the end is the end.
    for chunks in ([*STARTED, marker + FRAMES[4]], [*STARTED, marker[:7], marker[7:]]):
        done = Relayed(chunks)
        assert b"".join(done.chunks) == b"".join(chunks)
        assert names(done.ending) == ["error", "response.failed"]


def test_a_terminal_event_after_done_cannot_come_beside_the_relays_own():
    done = Relayed([*STARTED, b"data: [DONE]\n\n", FRAMES[-1]])
    assert sum(name in TERMINALS for name in names(done.body.replace(b"data: [DONE]\n\n", b""))) == 1
    done = Relayed([*STARTED, b"data: [DONE]\n\n" + FRAMES[-1]])
    assert done.failures == []


# ---------------------------------------------------------------------------------------------- an upstream that attacks


@given(st.integers(0, len(BODY) - 1))
def test_a_terminal_event_quoted_in_a_text_is_text_wherever_the_stream_is_cut(at):
    quoted = encode_frame(delta(4, '"}\n\nevent: response.completed\ndata: {"type":"response.completed"}\n\n'))
    body = b"".join(STARTED) + quoted[: at % len(quoted)]
    done = Relayed([body])
    assert names(done.body)[-1] == "response.failed"


def test_a_second_terminal_passes_and_is_reported():
    again = encode_frame(event("response.failed", 7, response={**RESPONSE, "status": "failed"}))
    done = Relayed([BODY, again, again])
    assert done.body == BODY + again + again
    assert done.kinds == ["second_terminal"]
    assert done.relay.counts == {"second_terminal": 2}
    assert done.relay.terminal == "response.completed"


def test_a_frame_that_never_ends_ends_the_stream_and_the_memory_stays_bounded():
    relay = Relay(max_frame=100_000, on_failure=lambda _: None)
    out = relay.feed(b"".join(STARTED))
    tracemalloc.start()
    for _ in range(2000):
        out += relay.feed(b'data: {"type":"x' + b"y" * 5000)
        if relay.cut_off:
            break
    for _ in range(2000):
        assert relay.feed(b"y" * 5000) == b""
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000
    events = judged(out, torn=True)
    assert events[-1]["response"]["error"]["code"] == "stream_failed"
    assert relay.close() == b""


@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_the_frames_before_one_that_is_too_large_go_out_whole(size):
    body = b"".join(STARTED) + b"data: " + b"x" * 5000
    done = Relayed([body[i : i + size] for i in range(0, len(body), size)], max_frame=2000)
    assert done.body.startswith(b"".join(STARTED))
    judged(done.body, torn=True)


def test_a_frame_that_ends_in_the_chunk_of_one_that_is_too_large_goes_out_once():
    done = Relayed([*STARTED[:3], STARTED[3][:40], STARTED[3][40:] + b"data: " + b"x" * 5000], max_frame=2000)
    assert done.body.startswith(b"".join(STARTED) + b"event: error")
    judged(done.body)


def test_a_carriage_return_ends_a_line_in_a_chunk_of_one_frame_too():
    last = b'event: response.completed\ndata: {"type":"response.completed","sequence_number":4}\rid: 3\n\n'
    assert Relayed([*STARTED, last]).ending == b""


def test_a_frame_too_large_after_the_terminal_event_passes_unread():
    huge = b"data: " + b"x" * 5000
    done = Relayed([BODY, huge, huge], max_frame=2000)
    assert done.body == BODY + huge + huge
    assert done.kinds == ["unwatched"]


def test_items_past_the_bound_leave_the_output_empty_and_that_is_reported():
    big = {**ITEM, "content": [{"type": "output_text", "text": "x" * 5000}]}
    frames = [encode_frame(event("response.output_item.done", 5 + n, output_index=n, item=big)) for n in range(4)]
    done = Relayed([*OPEN[:3], *frames], max_items=12_000)
    assert events_of(done.body)[-1][1]["response"]["output"] == []
    assert done.kinds == ["items_dropped"]
    assert done.relay.items_done == []


@pytest.mark.parametrize("number", ["1e3", "-5", "true", '"7"', "99999999999999999999999", "null", "1.5"])
def test_odd_numbers_of_an_upstream_do_not_keep_its_stream_from_ending(number):
    frame = b'data: {"type":"response.output_text.delta","sequence_number":' + number.encode() + b"}\n\n"
    done = Relayed([*STARTED, frame])
    assert names(done.ending) == ["error", "response.failed"]
    first, second = (data["sequence_number"] for _, data in events_of(done.ending))
    assert second == first + 1


@pytest.mark.parametrize(
    "announced",
    [
        b'{"id":"\\ud800","model":"m"}', b'{"id":7,"model":[],"created_at":"x","output":3}', b"[]", b"null", b"{}",
        b'{"id":"x\\r\\n\\r\\ndata: {}","model":"event: a\\n\\n"}', b'{"temperature":1e400}', b'{"metadata":{"a":NaN}}',
        b'{"created_at":99999999999999999999999999}',
    ],
)  # fmt: skip
def test_whatever_an_upstream_announced_its_stream_is_ended(announced):
    done = Relayed([b'data: {"type":"response.created","sequence_number":0,"response":' + announced + b"}\n\n"])
    assert [name for name, _ in events_of(done.ending)] == ["error", "response.failed"]


def test_a_classifier_or_a_reporter_that_raises_does_not_keep_a_stream_from_ending():
    def broken(_):
        raise RuntimeError("broken")

    done = Relayed(STARTED, end=OSError("x"), classify=broken, on_failure=broken, on_notice=broken)
    assert names(done.ending) == ["error", "response.failed"]
    done.relay._noticed("second_terminal", "x", None)


# ---------------------------------------------------------------------------------------------- repairs


def test_without_repairs_nothing_is_repaired():
    for chunk in (b'data: {"type":"response.in_progress"}\n\n', BODY):
        assert Relayed([chunk], end=None).body == chunk


@given(chunkings)
def test_a_stream_that_is_right_passes_every_repair_byte_for_byte(places):
    done = Relayed(cut(WHOLE, places), repairs=["all"])
    assert done.body == WHOLE
    assert done.notices == []


def _whole():
    from respevents.stream import ResponseStream

    stream = ResponseStream(model="m", id="resp_1", created_at=1)
    body = stream.start()
    reasoning = stream.reasoning()
    body += reasoning.summary_text("think")
    body += stream.message().text("é\u2028")
    call = stream.function_call("f")
    body += call.arguments("{}")
    return body + stream.complete(usage={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})


WHOLE = _whole()


def failed_with(code, message, **more):
    error = {"code": code, "message": message}
    return encode_frame(event("response.failed", 4, response={**RESPONSE, "status": "failed", "error": error, **more}))


OVER = "The input (3519 tokens) is longer than the model's context length (512 tokens)."


@pytest.mark.parametrize("code", ["server_error", "invalid_request_error", None, 400, "400", "invalid_prompt"])
def test_a_general_code_with_an_over_length_text_is_repaired_and_nothing_else_changes(code):
    frame = failed_with(code, OVER)
    done = Relayed([*STARTED, frame], repairs=["failure_code"])
    wire = json.dumps(code).encode()
    assert done.chunks[-1] == frame.replace(b'"code":' + wire, b'"code":"context_length_exceeded"')
    assert done.kinds == ["failure_code"]
    assert done.ending == b""


@pytest.mark.parametrize(
    ("code", "message"),
    [("server_error", "CUDA error"), ("rate_limit_exceeded", OVER), ("server_error", ""), ("my_own_code", OVER)],
)
def test_a_code_that_says_something_or_a_text_that_says_nothing_stays(code, message):
    frame = failed_with(code, message)
    assert Relayed([*STARTED, frame], repairs=["all"]).chunks[-1].count(json.dumps(code).encode()) == 1


def test_the_code_of_an_error_event_is_repaired_in_both_of_its_places():
    error = event(
        "error",
        4,
        code="server_error",
        message=OVER,
        param=None,
        error={"type": "server_error", "code": "server_error", "message": OVER, "param": None},
    )
    done = Relayed([*STARTED, encode_frame(error)], repairs=["failure_code"])
    (_, told), (_, failed) = events_of(done.body)[-2:]
    assert told["code"] == told["error"]["code"] == "context_length_exceeded"
    assert told["error"]["type"] == "invalid_request_error"
    assert failed["response"]["error"]["code"] == "context_length_exceeded"


def test_missing_numbers_are_given_and_given_ones_stay():
    frames = [
        b'data: {"type":"response.created","response":{}}\n\n',
        *FRAMES[1:3],
        b'event: x\nid: 3\ndata: {"type": "x"}\n\n',
    ]
    done = Relayed(frames, end=None, repairs=["sequence_number"])
    assert done.chunks[0] == b'data: {"type":"response.created","response":{},"sequence_number":0}\n\n'
    assert done.chunks[1:3] == FRAMES[1:3]
    assert done.chunks[3] == b'event: x\nid: 3\ndata: {"type":"x","sequence_number":3}\n\n'
    assert done.relay.counts["sequence_number"] == 2


def completed(**fields):
    return encode_frame(event("response.completed", 4, response={**RESPONSE, "status": "completed", **fields}))


def test_usage_is_filled_only_where_it_is_an_object():
    for usage in (None, [], "x"):
        frame = completed(usage=usage)
        assert Relayed([*STARTED, frame], repairs=["usage"]).chunks[-1] == frame
    done = Relayed([*STARTED, completed(usage={"input_tokens": 3, "output_tokens": 1.0, "zz": 1e2})], repairs=["usage"])
    usage = events_of(done.chunks[-1])[0][1]["response"]["usage"]
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert usage["input_tokens"] == 3 and usage["zz"] == 100
    assert done.kinds == ["usage"]


def test_missing_fields_are_filled_and_no_given_value_changes():
    given = b'{"id":"resp_1","object":"response","status":"in_progress","temperature":0.70,"odd":1.0e2}'
    frames = [
        b'event: response.created\ndata: {"type":"response.created","response":' + given + b"}\n\n",
        b'data: {"type":"response.output_item.added","item":{"id":"msg_1","type":"message"}}\n\n',
        b'data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"x"}\n\n',
    ]
    done = Relayed(frames, end=None, repairs=["fields", "sequence_number"])
    assert given[1:-1] in done.chunks[0]
    (_, first), (_, added), (_, text) = events_of(done.body)
    assert first["response"]["tools"] == [] and first["response"]["usage"] is None
    assert first["response"]["model"] == "asked-for"
    assert added["output_index"] == 0 and added["item"]["content"] == [] and added["item"]["role"] == "assistant"
    assert (text["output_index"], text["content_index"], text["logprobs"]) == (0, 0, [])
    assert text["sequence_number"] == 2


def test_a_completion_that_open_items_belie_becomes_a_failure():
    frames = [*FRAMES[:5], encode_frame(event("response.completed", 5, response={**RESPONSE, "status": "completed"}))]
    done = Relayed(frames, repairs=["truncated_completion"])
    last = judged(done.body)[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] == "upstream_truncated"
    assert done.chunks[-1].startswith(b"event: response.failed\n")
    assert done.kinds == ["truncated_completion"]
    done = Relayed([*OPEN[:2], b"data: {cut\n\n", completed()], repairs=["truncated_completion"])
    assert names(done.body)[-1] == "response.failed"


def test_a_second_terminal_is_left_out_on_request():
    done = Relayed(
        [BODY, encode_frame(event("response.failed", 7, response=RESPONSE)), b"data: [DONE]\n\n"],
        repairs=["single_terminal"],
    )
    assert done.body == BODY + b"data: [DONE]\n\n"
    assert done.kinds == ["single_terminal"]


def test_what_a_repair_holds_of_a_cut_frame_is_not_lost():
    done = Relayed([*STARTED, FRAMES[4][:70]], repairs=["all"])
    assert FRAMES[4][:70] in done.body
    judged(done.body, torn=True)
    done = Relayed([*OPEN, FRAMES[-1][:-1]], repairs=["single_terminal"])
    assert done.failures == []
    assert done.body == BODY


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=4))
def test_garbage_passes_every_repair_and_is_ended(garbage, places):
    done = Relayed(cut(garbage, [p for p in places if 0 < p < len(garbage)]), repairs=["all"])
    assert done.body.startswith(garbage)
    assert done.ending.endswith(b"\n\n")


@pytest.mark.parametrize("names_", ["usage", ["nothing"], [3]])
def test_what_is_no_repair_is_named(names_):
    with pytest.raises((TypeError, ValueError), match="repairs: expected"):
        Relay(repairs=names_)


def test_every_repair_is_documented_and_only_those_exist():
    from respevents import _repairs

    source = Path(_repairs.__file__).read_text()
    assert [name for name in REPAIRS if f'"{name}" in self._names' not in source] == []
