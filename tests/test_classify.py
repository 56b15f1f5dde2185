"""The classifier: its rules by their own examples, the traps, every envelope, exceptions, hostile text."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tomllib = pytest.importorskip("tomllib")

from conftest import shared_path
from respevents import (
    Cause,
    Failure,
    FinishReason,
    HTTPAnswer,
    RequestRejected,
    classifier,
    classify,
    guard_stream_sync,
)
from respevents._generated.rules import RULES
from respevents.classifier import engine_named, readable, row

FOLDER = Path(classifier.__file__).parent / "rules"
FILES = {file.stem: tomllib.loads(file.read_text("utf-8")) for file in sorted(FOLDER.glob("*.toml"))}
WORDED = [
    pytest.param(name, rule, example, id=f"{rule['id']}-{at}")
    for name, file in FILES.items()
    for rule in file["rule"]
    for at, example in enumerate(rule.get("examples", ()))
]
OVER = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."


def said(rule, text, engine):
    given = {"message": text}
    if rule.get("classes"):
        given["exception_class"] = rule["classes"][0]
    return row(given, engine=engine)


# ---- the rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("engine", "rule", "example"), WORDED)
def test_a_rule_is_hit_by_its_own_example_under_its_own_id(engine, rule, example):
    failure = said(rule, example, engine)
    assert (failure.rule, failure.cause) == (rule["id"], rule["cause"])


@pytest.mark.parametrize(("engine", "rule", "example"), WORDED)
def test_an_example_keeps_its_cause_without_the_engine(engine, rule, example):
    if not rule.get("own"):
        assert classify(example).cause == rule["cause"]


@pytest.mark.parametrize("engine", FILES)
def test_a_rule_is_not_hit_by_what_it_must_not_match(engine):
    for rule in FILES[engine]["rule"]:
        for text in rule.get("not", ()):
            assert said(rule, text, engine).rule != rule["id"], text


def test_every_code_class_and_status_of_a_rule_leads_to_it():
    for rule in RULES:
        for code in rule.codes:
            failure = row({"message": "zzz", "body": {"error": {"message": "zzz", "code": code}}}, engine=rule.engine)
            assert failure.rule == rule.id, code
        for status in rule.status:
            assert row({"message": "zzz", "http_status": status}, engine=rule.engine).rule == rule.id


@pytest.mark.parametrize("engine", FILES)
def test_no_two_rules_of_an_engine_claim_an_example_with_different_causes(engine):
    rules = [rule for rule in FILES[engine]["rule"] if rule.get("pattern") and not rule.get("weak")]
    patterns = [(rule, re.compile("(?<![a-z0-9_-])(?:" + readable(rule["pattern"]) + ")", re.I)) for rule in rules]
    for rule in rules:
        for example in rule["examples"]:
            text = " ".join(example.split())
            own = next(pattern for one, pattern in patterns if one is rule).search(text)
            for other, pattern in patterns:
                found = pattern.search(text)
                if (
                    found
                    and own
                    and other["cause"] != rule["cause"]
                    and bool(other.get("classes")) == bool(rule.get("classes"))
                ):
                    later = found.start() > own.start() or rules.index(other) > rules.index(rule)
                    assert later, (rule["id"], other["id"])


def test_every_engine_of_the_field_has_rules_and_every_rule_a_source():
    wanted = (
        "tensorrt_llm vllm sglang llama_cpp ollama lmdeploy tgi transformers mlx dynamo ray_serve litellm openrouter"
    )
    wanted += (
        " openai azure anthropic gemini bedrock mistral cohere xai groq deepseek together fireworks lm_studio generic"
    )
    assert set(wanted.split()) <= set(FILES)
    assert all(rule["source"] for file in FILES.values() for rule in file["rule"])
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("TensorRT-LLM disagg", "tensorrt_llm"), ("vllm>=0.18", "vllm"), ("llama.cpp (old)", "llama_cpp"), ("llama", None),
        ("azure openai / openai gpt-5", "azure"), ("vertex (claude)", "gemini"), ("a firm", None), (None, None),
        ("bedrock mantle (Responses)", "bedrock"), ("vllm-mlx", "mlx"), ("openrouter", "openrouter"),
    ],
)  # fmt: skip
def test_an_engine_is_known_by_its_names(name, engine):
    assert engine_named(name) == engine


# ---- the shared rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given_engine", "floor"), [(True, 0.98), (False, 0.95)])
def test_the_public_error_texts(given_engine, floor):
    with shared_path("engine_errors", "errors.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    wrong, dangerous = [], []
    for one in rows:
        known = {key: one.get(key) for key in ("exception_class", "http_status")}
        failure = row({"message": one["example_message"], **known}, engine=one["engine"] if given_engine else None)
        if failure.cause != one["cause"]:
            wrong.append((one["engine"], one["example_message"][:80], one["cause"], failure.cause.value))
            dangerous += wrong[-1:] if failure.cause is Cause.CONTEXT_LENGTH_EXCEEDED else []
    assert not dangerous
    assert 1 - len(wrong) / len(rows) >= floor, wrong


# ---- what must not change a cause -----------------------------------------------------------------------------------

AROUND = [
    "Request failed: {} (id=7)", "503: {}", "litellm.APIError: APIError: OpenrouterException - {}", "Error: {}",
    "{} (parameter=input, value=1)", "{} None", "[req-1] {}", "the gateway says: {}", "vendor error ({})",
    "Upstream error from x: {}",
]  # fmt: skip


@pytest.mark.parametrize(("engine", "rule", "example"), WORDED)
def test_wrapping_case_line_breaks_and_truncation_do_not_change_the_cause(engine, rule, example):
    if "(no body)" in example:
        pytest.skip("that answer is the whole text or another one")
    texts = [around.replace("{}", example) for around in AROUND]
    texts += [example.upper(), example.lower(), example.replace(" ", "\n"), example.replace(" ", "  \t")]
    texts += [(example + " and so on" * 600)[:4096]]
    if rule.get("weak"):
        texts = [
            text for text in texts if not text.startswith(("litellm", "503", "Upstream"))
        ]  # these say more than it
    for text in texts:
        assert said(rule, text, engine).cause == rule["cause"], text


FIELDS = [
    "Invalid user message={'role': 'user', 'content': [{'text': %r}]}",
    "The model '%s' does not exist.",
    "The model `%s` does not exist.",
    'Could not find model with id "%s".',
    "Invalid model name passed in model=%s. Call `/v1/models` to view available models for your key.",
    "Unknown input type: %s",
    "Unsupported parameter: '%s'.",
    "1 validation error for Request\nmessages.0\n  Input should be a valid string [input_value='%s', input_type=str]",
    '{"error":{"message":"Invalid request","type":"BadRequestError"},"input":"%s"}',
    '{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{"text":"%s"}}]}',
    '{"error":{"message":"Invalid value for \'%s\'","param":"%s"}}',
    "Loading lora %s failed: No adapter found",
    "tool '%s' failed",
]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "text",
    [OVER, "prompt is too long: 9001 tokens > 8192 maximum", "Your input exceeds the context window of this model."],
)
def test_what_a_client_typed_decides_nothing(field, text):
    for spliced in (text, text.replace("'", ""), text.upper()):
        whole = field.replace("%r", repr(spliced)).replace("%s", spliced.replace("'", "").replace('"', ""))
        for engine in (None, "vllm", "openai", "litellm"):
            assert classify(whole, engine=engine).cause is not Cause.CONTEXT_LENGTH_EXCEEDED


# ---- the traps ----------------------------------------------------------------------------------------------------

TRAPS = {
    "the batch limit of TensorRT-LLM": ("The sum of prompt length (50000.0), query length (0) should not exceed max_num_tokens (8192)", "prompt_too_long_for_batch"),
    "the output alone does not fit": ("'max_tokens' or 'max_completion_tokens' is too large: 90000. This model's maximum context length is 8192 tokens and your request has 20 input tokens (90000 > 8192 - 20).", "max_tokens_too_large"),
    "prompt and output do not fit": ("'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 8192 tokens and your request has 6000 input tokens (4000 > 8192 - 6000).", "context_length_exceeded"),
    "the prompt alone is too long as well": (EXCESS := "This model's maximum context length is 4096 tokens. However, you requested 15000 tokens (9000 in the messages, 6000 in the completion).", "context_length_exceeded"),
    "the completion alone does not fit": ("This model's maximum context length is 4096 tokens. However, you requested 9020 tokens (20 in the messages, 9000 in the completion).", "max_tokens_too_large"),
    "tokens per minute": ("Request too large for m on tokens per min (TPM): Limit 30000, Requested 90000. The input or output tokens must be reduced.", "rate_limited"),
    "tokens per minute, with good advice": ("This request would exceed your organization's rate limit of 30,000 input tokens per minute. Please reduce the prompt length", "rate_limited"),
    "a string": ("Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576", "invalid_request"),
    "a tool's name": ("Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64", "invalid_request"),
    "an image": ("messages.0.content.1.image: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", "invalid_image"),
    "bytes": ("413 Request Entity Too Large", "payload_too_large"),
    "a request of bytes": ("Lens request is too large", "payload_too_large"),
    "a policy": ("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "content_policy"),
    "over-length coded as invalid_prompt": ('{"error":{"code":"invalid_prompt","message":"prompt tokens (9001) exceed model maximum (8192)"}}', "context_length_exceeded"),
    "cancelled beside the words": ("maximum context length: context canceled", "cancelled"),
    "a limit that somebody set": ("web_search exceeded the maximum of 5 calls", "internal_error"),
    "credits": ("This request requires more credits, or fewer max_tokens. You requested up to 9000 tokens, but can only afford 16.", "quota"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), TRAPS.values(), ids=TRAPS)
def test_traps(text, cause):
    assert classify(text).cause == cause


@pytest.mark.parametrize("status", [200, 400, 404, 413, 422, 429, 500, 503])
def test_a_status_proves_nothing_against_a_text(status):
    assert classify(HTTPAnswer(status, {}, {"error": {"message": OVER}})).cause is Cause.CONTEXT_LENGTH_EXCEEDED
    assert classify(HTTPAnswer(status, {}, {"error": {"message": "zzz"}})).cause is not Cause.CONTEXT_LENGTH_EXCEEDED


def test_the_class_counts_at_tensorrt_llm_and_not_at_vllm():
    for engine, kind, cause in (
        ("tensorrt-llm", "RequestError", "context_length_exceeded"),
        ("tensorrt-llm", "ValueError", "internal_error"),
        ("tensorrt-llm", None, "context_length_exceeded"),
        ("vllm", "ValueError", "context_length_exceeded"),
        (None, "ValueError", "context_length_exceeded"),
    ):
        assert row({"message": OVER, "exception_class": kind}, engine=engine).cause == cause


# ---- envelopes ------------------------------------------------------------------------------------------------------

ENVELOPES = {
    "OpenAI": lambda text: {"error": {"message": text, "type": "x", "param": None, "code": None}},
    "flat": lambda text: {"object": "error", "message": text, "type": "BadRequest", "param": None, "code": 400},
    "FastAPI": lambda text: {"detail": text},
    "FastAPI object": lambda text: {"detail": {"message": text}},
    "FastAPI list": lambda text: {"detail": [{"loc": ["body", "x"], "msg": text, "type": "value_error"}]},
    "Anthropic": lambda text: {"type": "error", "error": {"type": "x", "message": text}, "request_id": "req_1"},
    "Google": lambda text: {"error": {"code": 400, "message": text, "status": "FAILED_PRECONDITION", "details": []}},
    "Google list": lambda text: [{"error": {"code": 400, "message": text, "status": "FAILED_PRECONDITION"}}],
    "Bedrock": lambda text: {"message": text},
    "Bedrock, old": lambda text: {"Message": text, "__type": "com.amazonaws#Exception"},
    "xAI": lambda text: {"code": "Client specified an invalid argument", "error": text},
    "TGI": lambda text: {"error": text, "error_type": "validation"},
    "Cohere": lambda text: {"id": "x", "message": text},
    "plain": lambda text: text,
    "OpenRouter": lambda text: {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps({"error": {"message": text}}), "provider_name": "p"}}},
    "quoted": lambda text: {"error": {"message": "litellm.X: OpenAIException - " + json.dumps({"error": {"message": text}})}},
    "repr": lambda text: "Error code: 400 - " + repr({"error": {"message": text, "code": None}}),
    "failed": lambda text: {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x", "message": text}}},
    "frame": lambda text: "event: error\ndata: " + json.dumps({"type": "error", "message": text}) + "\n\n",
    "status in front": lambda text: f"503: {text}",
}  # fmt: skip


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_every_example_is_classified_in_every_envelope(envelope):
    for name, file in FILES.items():
        for rule in file["rule"]:
            if rule.get("weak") or rule.get("classes") or "(no body)" in str(rule.get("examples")):
                continue
            for example in rule.get("examples", ()):
                body = ENVELOPES[envelope](example)
                for form in (body, body if isinstance(body, str) else json.dumps(body)):
                    failure = classify(HTTPAnswer(418, {}, form), engine=name)
                    assert failure.cause == rule["cause"], (rule["id"], form, failure.rule)
                    assert failure.details["body"] == form


def test_a_message_that_speaks_of_frames_is_no_frame():
    text = f"data: {{}}\n{OVER}"
    assert (
        classify(HTTPAnswer(400, {}, json.dumps({"error": {"message": text}}))).cause is Cause.CONTEXT_LENGTH_EXCEEDED
    )


def test_a_delay_is_read_from_headers_and_texts():
    for answer, seconds in (
        (HTTPAnswer(429, {"Retry-After": "7"}, {}), 7.0),
        (HTTPAnswer(429, {"retry-after-ms": "1500", "retry-after": "2"}, "x"), 1.5),
        (HTTPAnswer(429, {}, {"error": {"message": "Please try again in 11.054s."}}), 11.054),
        ("Rate limit reached. Please try again in 1m30s.", 90.0),
        ("Please try again in 350ms.", 0.35),
        ("retry after 30 seconds", 30.0),
        ("Rate limit exceeded, wait 2 minutes and 5 seconds", 125.0),
        ({"error": {"code": 429, "message": "x", "details": [{"retryDelay": "34s"}]}}, 34.0),
        ("Please try again later.", None),
        (HTTPAnswer(429, {"retry-after": "soon"}, {}), None),
        (HTTPAnswer(429, {"retry-after": "99999999999"}, {}), None),
    ):
        assert classify(answer).retry_after == seconds, answer
    from datetime import datetime, timedelta, timezone
    from email.utils import format_datetime

    date = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=60), usegmt=True)
    assert 50 < classify(HTTPAnswer(429, {"retry-after": date}, {})).retry_after <= 60


def test_numbers_of_tokens():
    for text, prompt, window in (
        (OVER, 9001, 8192),
        ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1196265, 1048575),
        ("Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens", 5958968, 256000),
        ("Your input exceeds the context window of this model.", None, None),
        (
            '{"error":{"type":"exceed_context_size_error","message":"zzz","n_prompt_tokens":9001,"n_ctx":8192}}',
            9001,
            8192,
        ),
    ):
        failure = classify(text)
        assert failure.cause is Cause.CONTEXT_LENGTH_EXCEEDED
        assert (failure.prompt_tokens, failure.context_window) == (prompt, window), text


# ---- exceptions -----------------------------------------------------------------------------------------------------


def exception(name="RequestError", module="tensorrt_llm.executor.utils", text=OVER, bases=(Exception,), **attributes):
    return type(name, bases, {"__module__": module, **attributes})(text)


def test_the_engine_is_told_by_the_module_of_the_class():
    failure = classify(exception())
    assert (failure.cause, failure.engine) == (Cause.CONTEXT_LENGTH_EXCEEDED, "tensorrt_llm")
    assert classify(exception("ValueError")).cause is Cause.INTERNAL_ERROR
    assert classify(ValueError(OVER), engine="tensorrt-llm").cause is Cause.INTERNAL_ERROR
    assert classify(ValueError(OVER)).cause is Cause.CONTEXT_LENGTH_EXCEEDED
    assert not {"vllm", "tensorrt_llm", "openai"} & {name.partition(".")[0] for name in sys.modules} - {"openai"}


def test_causes_contexts_and_groups_are_looked_at():
    try:
        try:
            raise ValueError(OVER)
        except ValueError as inner:
            raise RuntimeError("generation failed") from inner
    except RuntimeError as caught:
        failure = classify(caught)
        assert failure.exception is caught
    assert failure.cause is Cause.CONTEXT_LENGTH_EXCEEDED
    try:
        try:
            raise ValueError(OVER)
        except ValueError:
            raise RuntimeError("while handling")  # noqa: B904 - the context is what is tested
    except RuntimeError as caught:
        assert classify(caught).cause is Cause.CONTEXT_LENGTH_EXCEEDED
    try:
        try:
            raise ValueError(OVER)
        except ValueError:
            raise RuntimeError("on its own") from None
    except RuntimeError as caught:
        assert classify(caught).cause is Cause.INTERNAL_ERROR
    group = exception("Group", "x", "2 errors", exceptions=(KeyError("x"), ValueError(OVER)))
    assert classify(group).cause is Cause.CONTEXT_LENGTH_EXCEEDED
    loop = RuntimeError("a")
    loop.__cause__ = loop
    assert classify(loop).cause is Cause.INTERNAL_ERROR


def test_what_http_clients_hang_on_exceptions_is_read():
    response = type("Response", (), {"headers": {"Retry-After": "9"}, "status_code": 429})()
    error = exception(
        "RateLimitError", "openai", "x", body={"message": "slow", "code": "rate_limit_exceeded"}, response=response
    )
    failure = classify(error)
    assert (failure.cause, failure.retry_after, failure.engine) == (Cause.RATE_LIMITED, 9.0, "openai")
    error = exception("HTTPException", "starlette.exceptions", "400: no", status_code=400, detail=OVER)
    assert classify(error).cause is Cause.CONTEXT_LENGTH_EXCEEDED

    class Hostile(Exception):
        @property
        def body(self):
            raise RuntimeError("no body")

        def __str__(self):
            raise RuntimeError("no text")

    assert classify(Hostile()).cause is Cause.INTERNAL_ERROR


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
def test_a_hang_up(error):
    assert classify(error).cause is Cause.CLIENT_DISCONNECT


def test_a_rejection_of_ours_is_the_failure_it_carries():
    failure = Failure(cause=Cause.QUOTA, message="spent")
    assert classify(RequestRejected(failure)) is failure


def test_the_end_finish_reasons_and_events_with_a_null_error():
    assert classify(None).cause is Cause.UPSTREAM_TRUNCATED
    assert classify(FinishReason("abort")).cause is Cause.CANCELLED
    assert classify(FinishReason("error")).cause is Cause.ENGINE_ERROR
    assert classify(FinishReason("abort", "The request queue is full.")).cause is Cause.QUEUE_FULL
    for error in (None, {}, {"message": ""}):
        failure = classify({"type": "response.in_progress", "sequence_number": 3, "error": error})
        assert "response.in_progress" in failure.message, "the raw event is in the message"
    with pytest.raises(TypeError, match="expected an exception, a text"):
        classify(5)


# ---- safety -----------------------------------------------------------------------------------------------------------

SECRETS = [
    "/opt/secret/model.bin",
    "10.1.2.3:8443",
    "sk-verysecret123",
    "Traceback (most recent call last)",
    "hf_abcdef",
]


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(SECRETS), min_size=1),
    st.text(max_size=20),
    st.sampled_from([RuntimeError, ValueError, KeyError, OSError]),
)
def test_an_internal_failure_says_nothing(secrets, between, kind):
    failure = classify(kind(between.join(secrets)))
    assert failure.cause not in {Cause.CONTEXT_LENGTH_EXCEEDED}
    if failure.ending == "fault":
        assert not any(secret in failure.said() for secret in secrets)


@pytest.mark.parametrize(
    "text", ["x must be at least 1", "unsupported parameter: path /opt/secret", "invalid value: token"]
)
def test_a_bug_that_reads_like_a_rejection_is_not_shown(text):
    assert classify(ValueError(text)).said() == Failure(cause=Cause.INTERNAL_ERROR, message="").said()
    assert classify(ValueError(text), engine="vllm").cause is Cause.INVALID_REQUEST


@settings(max_examples=150)
@given(
    st.one_of(
        st.text(max_size=400),
        st.binary(max_size=400),
        st.recursive(
            st.none() | st.text(max_size=20) | st.integers(),
            lambda inner: (
                st.dictionaries(
                    st.sampled_from(["error", "message", "detail", "code", "response", "x"]), inner, max_size=3
                )
                | st.lists(inner, max_size=3)
            ),
            max_leaves=8,
        ).filter(lambda value: isinstance(value, dict)),
    )
)
def test_anything_is_classified(error):
    failure = classify(error)
    assert failure.cause is not Cause.CONTEXT_LENGTH_EXCEEDED
    failure.said().encode()


HOSTILE = [
    "'a ",
    '"a ',
    "'",
    "`",
    "\\",
    "1,",
    "<a ",
    "<style>",
    "{'a':",
    '{"message":"',
    "[{",
    "exceeds the ",
    "max_tokens ",
    "model '",
    "9,999,999 ",
    "tokens in the prompt ",
    "limit 1 tokens ",
]


def test_time_is_bounded_whatever_the_text():
    classify("warm")
    for piece in [
        *HOSTILE,
        *(rule["examples"][0] for file in FILES.values() for rule in file["rule"] if rule.get("examples")),
    ]:
        text = piece * (1_000_000 // len(piece) + 1)
        began = time.perf_counter()
        classify(text)
        assert time.perf_counter() - began < 5, piece  # quadratic ones take minutes


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.pattern], ids=lambda rule: rule.id)
def test_a_pattern_is_linear(rule):
    pattern = re.compile(readable(rule.pattern), re.IGNORECASE)
    example = next(one["examples"][0] for one in FILES[rule.engine]["rule"] if one["id"] == rule.id)
    head = example[: max(4, len(example) - 3)] + " "
    for text in (head * (20_000 // len(head)), "x" * 20_000, "1" * 20_000, " " * 20_000, "'" * 20_000):
        began = time.perf_counter()
        pattern.search(text)
        assert time.perf_counter() - began < 2


# ---- in the guard, and as a command -----------------------------------------------------------------------------------


def test_the_guard_classifies_by_itself():
    def engine(error):
        raise error
        yield b""

    for error, code in (
        (ValueError(OVER), b"context_length_exceeded"),
        (exception("ValueError"), b"server_error"),
        (exception("EngineDeadError", "vllm.v1.engine.exceptions", "gone"), b"server_error"),
        (RuntimeError("boom"), b"server_error"),
    ):
        body = b"".join(guard_stream_sync(engine(error), model="m", on_failure=lambda failure: None))
        assert body.count(b'"code":"' + code + b'"') == 3
        assert b"boom" not in body


def command(*arguments, given=None):
    run = subprocess.run(
        [sys.executable, "-m", "respevents.cli", *arguments], input=given, capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout, run.stderr


def test_the_command_classifies_a_text():
    code, out, _ = command("classify", OVER, "--engine", "trt-llm", "--exception", "a.b.ValueError", "--format", "json")
    assert (code, json.loads(out)["cause"]) == (0, "internal_error")
    code, out, _ = command("classify", "-", given="no such thing")
    assert (code, out.split()[:2]) == (0, ["cause", "internal_error"])
    assert command("classify")[0] == 2
    assert command("classify", "x", "--jsonl", "y")[0] == 2
    assert "no rules for the engine" in command("classify", "x", "--engine", "zzz")[2]


def test_the_command_classifies_rows(tmp_path):
    rows = [
        {"example_message": OVER, "engine": "tensorrt-llm", "exception_class": "ValueError"},
        {"message": "x", "http_status": 429},
        {"body": {"error": {"code": "insufficient_quota"}}},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    code, out, _ = command("classify", "--jsonl", str(file))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["cause"] for line in lines] == ["internal_error", "rate_limited", "quota"]
    assert set(lines[0]) >= {"cause", "code", "rule", "engine"}
    file.write_text('{"message": "x"}\nnot json\n[1]\n{}\n{"message": 5}\n{"message": "y"}\n')
    code, out, _ = command("classify", "--jsonl", str(file))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert [("error" in line, line.get("line")) for line in lines] == [
        (False, None), (True, 2), (True, 3), (True, 4), (True, 5), (False, None),
    ]  # fmt: skip
    assert command("classify", "--jsonl", str(tmp_path / "none"))[0] == 2


def test_the_command_lists_the_codes():
    code, out, _ = command("codes", "--format", "json")
    rows = {one["code"]: one for one in json.loads(out)}
    assert code == 0
    assert rows["context_length_exceeded"]["causes"] == ["context_length_exceeded"]
    assert rows["context_length_exceeded"]["codex"] == "context_window"
    table = command("codes")[1].splitlines()
    assert len(table) == len(rows) + 1
