"""The finding catalogue: every fault that the validator can name, with whom it breaks and how to mend it. Data only.

`clients` are those whose released versions were seen to stumble over it (scripted streams against real clients);
with `--client` such a finding is an error. Severities: `error` (a rule of the protocol is broken, or a client breaks),
`warning` (allowed or unclear, but somebody will be surprised), `info` (worth knowing).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["BY_NAME", "CLIENTS", "LIFECYCLE", "RULES", "Rule", "Severity"]

Severity = Literal["error", "warning", "info"]
Layer = Literal[
    "server", "framing", "json", "schema", "lifecycle", "ids", "sequence", "accumulation", "usage", "ending"
]

CLIENTS: Final = ("codex", "openai-python", "openai-node", "openai-go", "ai-sdk")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule."""

    id: str
    name: str
    layer: Layer
    severity: Severity | Literal["off"]
    """`off`: a rule of the other dialect alone."""
    why: str
    """What says so: the protocol, or what was seen."""
    breaks: str
    """Who stumbles, and how."""
    fix: str
    clients: tuple[str, ...] = ()
    strict: Severity | None = None
    """The severity under `--strict`, where it is another."""
    open_responses: Severity | Literal["off"] | None = None
    """The severity in the dialect `open-responses`, where it is another; `off`: no finding there."""


def _rule(
    number: int,
    name: str,
    severity: Severity | Literal["off"],
    why: str,
    breaks: str,
    fix: str,
    clients: str = "",
    strict: Severity | None = None,
    open_responses: Severity | Literal["off"] | None = None,
) -> Rule:
    layers: dict[int, Layer] = {
        0: "server", 1: "framing", 2: "json", 3: "schema", 4: "lifecycle", 5: "ids", 6: "sequence", 7: "accumulation",
        8: "usage", 9: "ending",
    }  # fmt: skip
    return Rule(
        id=f"RE{number:03}",
        name=name,
        layer=layers[number // 100],
        severity=severity,
        why=why,
        breaks=breaks,
        fix=fix,
        clients=tuple(clients.split()),
        strict=strict,
        open_responses=open_responses,
    )


_SSE = "WHATWG HTML, server-sent events"
_ALL = "codex openai-python openai-node openai-go ai-sdk"

_rules = (
    # ---- the server: what no stream alone shows, found by `respevents check`
    _rule(1, "answer-missing", "error", "Every request is answered.", "Clients wait, then raise and ask again.",
          "Answer every request, a failing one with an HTTP status.", _ALL),
    _rule(2, "answer-unfinished", "error", "A body ends with its last chunk, and in time.",
          "Every SDK raises, even after response.completed; Codex before 0.169 forgets the code of a failure.",
          "Close the body after the terminal event, on every path.", _ALL),
    _rule(3, "answer-refused", "error", "A plain request of the API is answered.", "The client shows the error.",
          "Take the request, or say in the error that it is not supported."),
    _rule(4, "not-streamed", "error", "stream: true is answered with text/event-stream.",
          "SDKs read JSON as a stream without events, and stay silent.", "Stream the answer, its failure too.", _ALL),
    _rule(5, "not-a-response", "error", "Without stream: true the answer is one response object as JSON.",
          "SDKs hand out an object without output.", "Send the response of the terminal event as the body."),
    _rule(6, "redirected", "error", "The API answers at the address it was asked at.",
          "A client that follows sends prompt and key elsewhere; one that does not has no answer.",
          "Answer at the address itself, with and without a slash at its end."),
    _rule(7, "request-failed", "error", "A plain request of the API does not fail.", "The client shows the error.",
          "Read its message and the server's log."),
    _rule(8, "error-envelope", "warning",
          "An HTTP error is {error: {message, type, param, code}}; code is a text or null.",
          "SDKs show the whole body as the message; Codex reads no code that is a number.",
          "Send `respevents.error_envelope(failure)`.", "codex"),
    _rule(9, "refused-as-fault", "error", "A request at fault is refused with a 4xx status, or a code that stops.",
          "Codex sends the request 30 times on a 5xx status, the SDKs 3 times.", "Check the request first: HTTP 400.",
          "codex"),
    _rule(10, "invalid-accepted", "warning", "A request that is none of the API's is refused.",
          "A client's mistake reads as an odd answer.", "Check the request against the API: HTTP 400."),
    _rule(11, "model-accepted", "info", "OpenAI answers an unknown model with 404; many servers have one model only.",
          "A misspelt model goes unnoticed.", "Nothing, if it is meant."),
    _rule(12, "model-not-told", "warning", "An unknown model is model_not_found, HTTP 404.",
          "Clients cannot tell it from another mistake.", "Send 404 with the code model_not_found."),
    _rule(13, "over-long-untold", "error", "An over-long prompt fails with the code context_length_exceeded: in the "
          "stream, or as HTTP 400 where nothing is streamed.",
          "Codex compacts the conversation on that code, and on no other.",
          "Send `rejected_stream(failure)`, or `error_envelope(failure)` where no stream is asked for; or put "
          "ResponsesGuardMiddleware in front.", "codex"),
    _rule(14, "over-long-before-stream", "warning", "A streamed over-long prompt fails in the stream.",
          "Codex before 0.169 takes the HTTP error for an invalid request and does not compact.",
          "Answer 200 with the failing stream: `rejected_stream(failure)`."),
    _rule(15, "over-long-shortened", "error", "truncation is disabled unless it is asked for.",
          "The model answers another question than the one that was asked, and nobody knows.",
          "Refuse the prompt with context_length_exceeded."),
    _rule(16, "tool-not-called", "error", 'tool_choice: "required" makes the model call a tool.',
          "Agents wait for a call that never comes.", "Constrain the output, or refuse the request as not supported."),
    _rule(17, "schema-ignored", "error", "What is asked for by a strict JSON schema fits it.",
          "Clients that parse it fail.", "Constrain the output, or refuse the request as not supported."),
    _rule(18, "length-untold", "error",
          "An answer cut at max_output_tokens is incomplete, with the reason max_output_tokens.",
          "A cut answer reads as a whole one.", 'End it with `stream.incomplete("max_output_tokens")`.'),
    _rule(19, "snapshot-differs", "warning", "Streamed or not, the response has the same fields.",
          "Clients that read one form miss fields of the other.", "Build both from one place."),
    _rule(20, "streams-mixed", "error", "Two answers share no id and no text.", "One user reads the other's answer.",
          "Keep the state of a stream in the stream.", _ALL),
    _rule(21, "server-lost", "error", "A client that hangs up is no fault of the server.",
          "One closed window takes the server away from everyone.", "Stop the generation, and nothing else."),
    _rule(22, "models-form", "warning", "GET /v1/models is {object: list, data: [{id, ...}]}.",
          "Clients show no models to choose from.", "Send that form, or no such address."),
    # ---- framing
    _rule(101, "empty-stream", "error", "A stream begins with response.created.", "Every client waits for nothing.",
          "Send response.created and response.in_progress first.", _ALL),
    _rule(102, "event-line-missing", "info", "OpenAI's servers send `event:` in every frame.",
          "Readers that dispatch on the event name; the SDKs read `type` in the data.",
          "Write `event: <type>` before the data.", strict="warning", open_responses="error"),
    _rule(103, "event-line-mismatch", "error",
          "The event name is the type of the event in every capture; Open Responses says MUST.",
          "EventSource readers call the wrong handler.", "Write the type of the event as its name.", "openai-go"),
    _rule(104, "data-before-event", "warning", "OpenAI writes `event:` first; Bedrock was seen to write it last.",
          "Readers that split on `event:`.", "Write `event:` before `data:`."),
    _rule(105, "done-marker", "info", "OpenAI sends no `[DONE]` on /v1/responses; OpenRouter and LiteLLM do.",
          "Readers that parse every data line as JSON.", "Leave it out; the terminal event ends the stream.",
          strict="warning", open_responses="off"),
    _rule(106, "done-marker-missing", "off", "Open Responses: the terminal frame MUST be `[DONE]`.",
          "Clients of that dialect wait for it.", "Send `data: [DONE]` last.", open_responses="error"),
    _rule(107, "line-ends", "info", "OpenAI writes LF; CRLF is legal.", "Byte comparisons.", "Write LF."),
    _rule(108, "bare-cr", "warning", f"{_SSE}: a lone CR ends a line.",
          "Codex up to 0.171 never sees the end of a frame.", "Write LF.", "codex openai-node"),
    _rule(109, "byte-order-mark", "warning", f"{_SSE}: one BOM is skipped.",
          "Codex loses the first event.", "Write no byte order mark.", "codex openai-python openai-node"),
    _rule(110, "blank-line-missing", "error", f"{_SSE}: a frame that no blank line ends is discarded.",
          "Codex and EventSource readers lose the last event, which is the terminal one.",
          "End every frame with a blank line, the last one too.", "codex openai-node"),
    _rule(111, "several-data-lines", "info", f"{_SSE}: they are joined with LF.", "Readers that take one line.",
          "Write the JSON in one line."),
    _rule(112, "no-event-stream", "error", "A line is none of `field: value`, a comment, or blank.",
          "Clients ignore it: an HTML page or JSON error reads as an empty stream.",
          "Answer errors before the stream with an HTTP status, and in it with events.", _ALL),
    _rule(113, "event-without-data", "error", f"{_SSE}: a frame without data is no event.",
          "openai-python raises on the empty data.", "Send the data with the event.", "openai-python openai-node"),
    _rule(114, "id-or-retry-line", "info", "OpenAI writes neither, and servers of Open Responses SHOULD NOT.",
          "EventSource readers reconnect by them.",
          "Leave `id:` and `retry:` out.", open_responses="warning"),
    _rule(115, "after-done-marker", "error", "`[DONE]` ends the stream.", "Clients have stopped reading.",
          "Send `[DONE]` last, and once."),
    # ---- JSON
    _rule(201, "not-json", "error", "The data of a frame is one JSON object.", "Clients raise, and the stream is lost.",
          "Write the event as JSON in one frame.", _ALL),
    _rule(202, "not-an-object", "error", "An event is a JSON object.", "Clients raise on `.type`.",
          "Send the event object itself.", _ALL),
    _rule(203, "duplicate-key", "error", "RFC 8259: readers differ on which one counts.",
          "Two clients see two values.", "Write each key once."),
    _rule(204, "not-a-number", "error", "RFC 8259 has no NaN and no Infinity.", "Codex and Go clients fail to parse.",
          "Leave the value out, or send null.", "codex openai-node openai-go ai-sdk"),
    _rule(205, "lone-surrogate", "error", "RFC 8259, 8.2: half a pair is no character.",
          "Codex fails to parse the frame.", "Hold half a pair back until the other half comes.", "codex openai-go"),
    _rule(206, "invalid-utf-8", "error", "An event stream is UTF-8.", "Codex ends the stream; others show U+FFFD.",
          "Cut text between characters.", "codex"),
    _rule(207, "too-deep", "error", "More levels than readers allow.", "Recursive parsers fail.",
          "Send structures of this depth as text."),
    _rule(208, "float-for-integer", "error", "The field is an integer; `11.0` passes JSON Schema.",
          "Codex and openai-go fail on usage counters and indexes that have a decimal point.",
          "Write integers without a decimal point.", "codex openai-go"),
    _rule(209, "number-out-of-range", "error", "Beyond what a double or a 64-bit integer holds.",
          "Readers round it, or fail.", "Send such a number as text."),
    # ---- schema
    _rule(301, "field-missing", "error", "Every server and SDK release of the set has the field.",
          "Clients read it without asking.", "Send the field."),
    _rule(302, "field-shape", "error", "The value has another type or form than the set gives it.",
          "Typed clients fail, untyped ones misread it.", "Send a value of that form."),
    _rule(303, "unknown-event", "info", "No schema set names the event type.", "Clients skip it.",
          "Nothing, if it is meant; an extension is named `slug:type`.", strict="error", open_responses="off"),
    _rule(304, "unknown-field", "info", "The schema names no such field.", "Clients ignore it.",
          "Nothing, if it is meant.", strict="error"),
    _rule(305, "unknown-item", "info", "No schema set names the item type.", "Clients drop the item without a word.",
          "Nothing, if it is meant; an extension is named `slug:type`.", strict="error", open_responses="off"),
    _rule(306, "type-missing", "error", "An event names its type in the data.", "No client knows what it is.",
          "Send `type` in every event; the `event:` line does not replace it.", _ALL),
    _rule(307, "extension-name", "off", "Open Responses: what is not of the specification MUST be named `slug:type`.",
          "Names of two implementors collide; its compliance tests fail on any other event.",
          "Name your own events and items with your slug, OpenAI's hosted tools too.", open_responses="error"),
    _rule(308, "item-status-missing", "off",
          "Open Responses: every item MUST have id, type and status; its schema has none for reasoning.",
          "Clients cannot tell whether an item is whole.",
          "Give every item a status, reasoning too.", open_responses="warning"),
    # ---- lifecycle: the machine's own rules
    _rule(401, "not-started", "error", "response.created comes first.", "Stream helpers raise.",
          "Send response.created and response.in_progress first.", "openai-python openai-node"),
    _rule(402, "response-order", "error", "created, (queued,) in_progress, then items, then one ending.",
          "Accumulators lose track.", "Send the events of the response in their order, each once."),
    _rule(403, "item-not-added", "error", "response.output_item.added comes before any event of the item.",
          "openai-python's accumulator raises IndexError.", "Send response.output_item.added first.",
          "openai-python openai-node"),
    _rule(404, "item-added-twice", "error", "An output index stands for one item.", "The first item is overwritten.",
          "Give each item the next output_index."),
    _rule(405, "item-done", "error", "Nothing of an item follows its response.output_item.done.",
          "Clients have closed the item.", "Send it before the item is done, and close an item once."),
    _rule(406, "item-type", "error", "The event belongs to items of another type.", "Accumulators raise or drop it.",
          "Send the events of the item's own type.", "openai-python"),
    _rule(407, "item-unfinished", "error", "An item is done when its parts and deltas are summed up.",
          "Clients that wait for the `done` event show nothing.", "Send the `done` events before the item is done."),
    _rule(408, "item-open", "error", "A response is completed or incomplete when all its items are done.",
          "A cut generation reads as a whole one; Codex drops the item.",
          "Close every item first, or end with response.failed.", "codex"),
    _rule(409, "part-order", "error", "A part is added, gets its text, is finished and closed.",
          "openai-python's accumulator raises IndexError on a part that was not added.",
          "Send the events of a part in their order.", "openai-python openai-node"),
    _rule(410, "part-open", "error", "One part of a kind is open at a time.", "Text lands in the wrong part.",
          "Close the part before the next one opens."),
    _rule(411, "part-kind", "error", "The event belongs to another kind of part.", "Text is lost or misplaced.",
          "Send the events of the part's own kind."),
    _rule(412, "index-order", "error", "Items and parts are numbered from 0 in the order they are added.",
          "Accumulators append, and then look up by number.", "Number them without gaps.", "openai-python openai-node"),
    _rule(413, "index-missing", "error", "An event says by its indexes what it belongs to.",
          "Clients cannot place it.", "Send output_index, content_index and the like as integers from 0.",
          "openai-python openai-node"),
    _rule(414, "after-error", "error", "Only response.failed follows an `error` event.", "Clients have raised.",
          "Send response.failed next and nothing else."),
    _rule(415, "audio-open", "error", "Audio is done before the response is.", "Players wait for more.",
          "Send the `done` events of the audio first."),
    _rule(418, "item-order", "error", "An item goes through the steps of its type.", "Accumulators lose track.",
          "Send the events of an item in their order."),
    _rule(419, "audio-order", "error", "Audio comes in deltas, and is done once.", "Players stop early.",
          "Send one `done` event after the deltas."),
    _rule(416, "after-terminal", "error", "The terminal event is the last one.", "Clients have stopped reading.",
          "Send nothing after the terminal event."),
    _rule(417, "second-terminal", "error", "A stream has one terminal event.",
          "Some clients take the first, some the last.", "End the stream once."),
    _rule(420, "content-part-missing", "off", "Open Responses: streamed content MUST be backed by a content part.",
          "Clients have no part to put the reasoning in.",
          "Send response.content_part.added before the text.", open_responses="error"),
    # ---- ids
    _rule(501, "response-id-changed", "error", "The id of a response is the same in every event.",
          "previous_response_id fails.", "Keep the id that response.created announced."),
    _rule(502, "item-id-mismatch", "error", "Events of an item carry the id it was added with.",
          "Clients that match by id lose the delta.", "Send the item's id with its output_index.",
          "ai-sdk openai-python"),
    _rule(503, "item-id-changed", "error", "An item keeps its id from added to done and into the final output.",
          "Clients show the item twice.", "Keep the id.", "ai-sdk"),
    _rule(504, "item-id-repeated", "error", "No two items have one id.", "One item overwrites the other.",
          "Give each item an id of its own.", "ai-sdk"),
    _rule(505, "id-missing", "error", "Responses and items are known by their id.", "Clients match by it.",
          "Give the response and every item an id."),
    _rule(506, "call-id-changed", "error", "A call keeps its call_id: the tool's answer names it.",
          "The model never sees the answer.", "Keep the call_id from added to done.", "codex"),
    _rule(507, "call-id-repeated", "error", "Two calls of a response have one call_id.",
          "One answer stands for both.", "Give each call an id of its own.", "codex"),
    _rule(508, "response-changed", "warning", "created_at and model stay as announced.", "Logs disagree.",
          "Keep them from response.created on."),
    _rule(509, "id-form", "info", "Ids of responses start with resp_ at OpenAI.",
          "Logs and routers that tell ids apart.",
          "Make ids of that form; chatcmpl- is another protocol's."),
    _rule(510, "time-unit", "error", "created_at and completed_at are seconds since 1970.",
          "Clients show a date in the far future.", "Send whole seconds, not milliseconds."),
    # ---- sequence
    _rule(601, "sequence-missing", "warning", "Every event has a sequence_number (since 2025-05-29).",
          "A cut stream cannot be resumed; SDK models require it.", "Number the events from 0.",
          open_responses="error"),
    _rule(602, "sequence-gap", "error", "Numbers rise by 1.", "Resuming clients believe that events were lost.",
          "Number the events as they are written."),
    _rule(603, "sequence-repeated", "error", "Numbers rise by 1.", "Resuming clients drop the event.",
          "Number the events as they are written, in one place."),
    _rule(604, "sequence-start", "error", "The first event has number 0.", "Resuming clients ask for what never was.",
          "Start at 0."),
    # ---- accumulation
    _rule(701, "text-mismatch", "error", "The whole text is the sum of its deltas.",
          "Clients that read deltas and clients that read the whole show different texts.",
          "Send in `done` what the deltas said."),
    _rule(702, "arguments-mismatch", "error", "The whole arguments are the sum of their deltas.",
          "Two tools are called, by two clients.", "Send in `done` what the deltas said."),
    _rule(703, "part-mismatch", "error", "The closed part has the text that was streamed.",
          "Clients show another text in the end.", "Close the part with its text."),
    _rule(704, "item-mismatch", "error", "The done item has what was streamed.",
          "Clients show another text in the end.",
          "Build the done item from what was sent."),
    _rule(705, "output-mismatch", "error", "The final output repeats the done items.",
          "Clients that read the final response see another answer.", "Build the output from the done items."),
    _rule(706, "output-empty", "warning", "The final output repeats the done items; the ChatGPT backend sends none.",
          "get_final_response() is empty.", "Send the items in the final response.", "openai-python openai-node"),
    _rule(707, "output-incomplete", "error", "The final output has every done item, in order.",
          "Clients that read the final response miss items.", "Build the output from the done items."),
    _rule(708, "deltas-missing", "warning", "The whole came without a delta before it; LM Studio sends calls so.",
          "Clients that show deltas show nothing until the end.", "Stream it, or accept that it comes at once."),
    _rule(709, "arguments-not-json", "warning", "Arguments of a function call are a JSON object as text.",
          "The client's tool call fails to parse.", "Send the arguments whole.", "ai-sdk openai-python"),
    _rule(710, "item-status", "warning", "A done item is completed, incomplete or failed.",
          "Clients show it as still running.", "Set the status when the item is done."),
    _rule(711, "arguments-rewritten", "warning", "The whole lacks a path that the deltas have: a recorder redacted it "
          "where it could find it.", "The capture is no evidence of what the server sent.",
          "Record the stream unredacted, or redact the deltas as well."),
    _rule(712, "replacement-characters", "warning", "Deltas of nothing but U+FFFD: a character was cut between tokens.",
          "The text shows question marks.", "Hold an incomplete tail back until the rest of the character comes."),
    _rule(713, "delta-empty", "info", "A delta has no text.", "Nobody; it costs a frame.", "Leave it out."),
    # ---- usage
    _rule(801, "usage-missing", "warning", "A completed response says its usage.", "Cost accounting reads 0.",
          "Send usage with response.completed."),
    _rule(802, "usage-total", "warning", "total_tokens is the sum of input and output.", "Accounting disagrees.",
          "Send the sum."),
    _rule(803, "usage-details", "warning", "input_tokens_details and output_tokens_details are integers (SDK 2.48 on).",
          "SDK models fail to validate; Codex fails on null.", "Send 0 where nothing is counted.", "codex openai-go"),
    _rule(804, "usage-names", "error", "Usage counts input_tokens, output_tokens and total_tokens.",
          "Clients read 0, or fail.", "Map the names of chat completions.", "codex openai-python"),
    _rule(805, "usage-early", "info", "Usage is null until the response ends.", "Accounting counts zeros.",
          "Send null before the end."),
    _rule(806, "usage-zero", "warning", "Text was streamed and no output token counted: a proxy whose upstream was cut "
          "completes so.", "A truncated answer reads as a whole one, and costs nothing.",
          "End a cut upstream with response.failed, code upstream_truncated."),
    # ---- ending
    _rule(901, "unterminated", "error", "A stream ends with response.completed, .incomplete or .failed.",
          "Eight frameworks take it for success; Codex sends the request 6 times.",
          "End every stream with one of the three, on every path.", _ALL),
    _rule(902, "error-alone", "error", "response.failed follows an `error` event.",
          "Codex sends the request 6 times, three frameworks stay silent.", "Send response.failed after it.", "codex"),
    _rule(903, "failed-without-error", "error", "response.failed says why: error.code and error.message.",
          "Codex sends the request 6 times.", "Fill response.error.", "codex"),
    _rule(904, "status-mismatch", "error", "The terminal response has the status of its event.",
          "Two clients see two endings.", "Set the status, or send the event of that status."),
    _rule(905, "incomplete-without-reason", "warning", "response.incomplete says why.",
          "Clients cannot tell a length stop from a filter.", "Fill incomplete_details.reason."),
    _rule(906, "unfinished-completed", "error", "A response with an unfinished item is not completed.",
          "A truncated answer reads as a whole one.", "End with response.incomplete."),
    _rule(907, "code-unknown", "info", "The failure catalogue has no such code.", "Clients take it for a server error.",
          "Use a code that clients act on: respevents codes."),
    _rule(908, "code-form", "error", "error.code is a string.", "Typed clients fail; Codex sends the request 6 times.",
          "Send the code as text.", "codex openai-go"),
    _rule(909, "code-contradicts-text", "warning", "The text names a cause that the code does not say.",
          "Codex compacts on context_length_exceeded and retries in vain on anything else.",
          "Send the code of the cause.", "codex"),
    _rule(910, "error-shape", "info", "OpenAI's servers nest the error; the API document has it flat.",
          "Readers of one shape.", 'Send both: error_shape="both".', open_responses="off"),
    _rule(911, "error-message-missing", "error", "An `error` event says what failed.",
          "openai-go aborts with an empty message.", "Send code and message.", "openai-go"),
    _rule(912, "error-key-in-event", "error", "Only `error` events have a top-level `error`.",
          "openai-go aborts the stream, even when it is null.", "Leave the key out.",
          "openai-go openai-python openai-node"),
    _rule(913, "incomplete-item-not-last", "off",
          "Open Responses: an incomplete item MUST be the last one, in a response that is incomplete.",
          "Clients go on from an item that is none.", "End with the incomplete item and response.incomplete.",
          open_responses="error"),
    _rule(914, "completed-with-error", "error", "A completed response has no error.", "Clients that read `error` fail.",
          "Send error: null, or response.failed."),
    _rule(917, "error-not-nested", "off", "Open Responses: an `error` event has its error under the key `error`.",
          "Readers of the dialect find no error.", 'Send {"type": "error", "error": {...}}.', open_responses="error"),
    _rule(918, "error-after-terminal", "off", "Open Responses: an error is followed by response.failed.",
          "Clients have stopped reading.", "Send the `error` event first.", open_responses="error"),
    _rule(919, "error-type", "off", "Open Responses names five types of error; its own example has OpenAI's.",
          "Clients that decide by the type whether to ask again.",
          "Send server_error, invalid_request, not_found, model_error or too_many_requests.", open_responses="info"),
    _rule(916, "internals-exposed", "warning", "An error message holds a traceback or a path of the server.",
          "Whoever reads it learns how the server is built.", "Say what the client can act on, and log the rest."),
    _rule(915, "completed-empty", "warning", "The response is completed and has no output item at all.",
          "An empty answer reads as a whole one; a cut or failed upstream often ends so.",
          "Send the items, or end with response.failed."),
)  # fmt: skip

RULES: Final = {rule.id: rule for rule in sorted(_rules, key=lambda rule: rule.id)}
"""Rule id -> rule, by number."""

BY_NAME: Final = {rule.name: rule for rule in _rules}

LIFECYCLE: Final = {
    slug: BY_NAME[slug]
    for slug in (
        "not-started", "response-order", "item-not-added", "item-added-twice", "item-done", "item-type",
        "item-unfinished", "item-open", "part-order", "part-open", "part-kind", "index-order", "index-missing",
        "item-order", "audio-order", "after-error", "audio-open", "after-terminal", "unterminated",
    )
}  # fmt: skip
"""A violation's rule -> the finding it is reported as."""
