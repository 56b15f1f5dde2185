"""Every object under an event as a class: the response, its items, parts, tools and the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from respevents._generated import items as _items
from respevents._generated.items import *  # noqa: F403 - the generated module declares its names
from respevents._generated.tables import FIELDS
from respevents._objects import Object
from respevents._reading import from_mapping, shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from respevents._generated.items import ResponseOutputItem

__all__ = ["Object", "decode_item", *_items.__all__]  # noqa: PLE0604 - strings, from the generated module


def decode_item(value: Mapping[str, Any]) -> ResponseOutputItem:
    """The output item in a decoded mapping; an unknown type becomes `UnknownItem`, unknown keys go to `extra`."""
    kind = FIELDS["Response"]["output"][1]
    return cast("ResponseOutputItem", from_mapping(shape_of(kind, value), value))
