"""Smoke test of an installed `respevents`: run it with that environment's Python, from outside the checkout.

usage: python -I smoke.py CHECKOUT
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path


def main(checkout: Path) -> None:
    import respevents

    home = Path(respevents.__file__).resolve()
    assert not home.is_relative_to(checkout.resolve()) or ".venv" in home.parts, (
        f"{home} is the checkout, not the wheel"
    )
    assert not Path.cwd().resolve().is_relative_to(checkout.resolve()), "run this outside the checkout"

    package = resources.files("respevents")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("_page.html").is_file()
    sets = sorted(folder.name for folder in (checkout / "schemas").iterdir() if folder.is_dir())
    assert sets, "the checkout has no schema set"
    for name in sets:
        for file in ("strict.json", "wire.json", "manifest.json"):
            shipped = package.joinpath("_schemas").joinpath(name).joinpath(file).read_bytes()
            assert shipped == (checkout / "schemas" / name / file).read_bytes(), f"{name}/{file} differs in the wheel"
    print("schemas in the wheel:", *sets)

    frame = (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","content_index":0,'
        b'"delta":"Hi","item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":4}\n\n'
    )
    decoder = respevents.FrameDecoder()
    (one,) = decoder.feed(frame)
    event = respevents.decode_event(one.data)
    assert type(event).__name__ == "ResponseTextDeltaEvent", type(event)
    assert respevents.encode_frame(event) == frame
    assert respevents.encode_frame(json.loads(one.data)) == frame
    stream = respevents.ResponseStream(model="m", id="resp_1", created_at=1767225600)
    body = stream.start() + stream.message().text("Hi") + stream.complete()
    kinds = [frame.event for frame in respevents.FrameDecoder().feed(body)]
    assert kinds[0] == "response.created", kinds
    assert kinds[-1] == "response.completed", kinds
    print("decode, encode and build:", len(kinds), "frames")

    command = Path(sys.executable).with_name("respevents")
    run = subprocess.run([command, "demo"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    for word in ("response.completed", "response.failed", "context_length_exceeded"):
        assert word in run.stdout, f"the demo shows no {word}"
    print("respevents demo:", len(run.stdout.splitlines()), "lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
