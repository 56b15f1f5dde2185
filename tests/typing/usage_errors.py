"""Must NOT type-check: each line marked E is an error for mypy and for pyright, and no other line is."""

from __future__ import annotations

import respevents
from respevents.events import ResponseTextDeltaEvent

event = ResponseTextDeltaEvent(content_index=0, delta="Hi", item_id="m", logprobs=[], output_index=0)

event.dleta  # E
event.delta = "frozen"  # E
ResponseTextDeltaEvent(0, "Hi", "m", [], 0)  # E
ResponseTextDeltaEvent(content_index="0", delta="Hi", item_id="m", logprobs=[], output_index=0)  # E
ResponseTextDeltaEvent(content_index=0, delta=None, item_id="m", logprobs=[], output_index=0)  # E
ResponseTextDeltaEvent(type="error", content_index=0, delta="", item_id="m", output_index=0)  # E
respevents.nothing  # E
respevents.decode_event(5)  # E
respevents.FrameDecoder().feed("text")  # E
