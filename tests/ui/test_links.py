"""A link carries a scenario there and back, and nothing else gets in."""

import base64
import json
import random
import string
import zlib

import pytest

from planner.errors import InputError
from planner.scenario.schema import Scenario
from planner.ui import gallery, links, overlay, own
from planner.ui.links import Linked, pack, unpack
from planner.ui.sidebar.session import address_of

BOMB = "1." + base64.urlsafe_b64encode(zlib.compress(b" " * (64 << 20))).decode().rstrip("=")


def packed(data: object) -> str:
    return "1." + base64.urlsafe_b64encode(zlib.compress(json.dumps(data).encode())).decode().rstrip("=")


@pytest.mark.parametrize("example", gallery.examples(), ids=lambda e: e.id)
def test_a_scenario_survives_the_address(example):
    text = pack(Linked(example.scenario, rank=3))
    assert len(text) < 1500
    assert unpack(text) == Linked(example.scenario, rank=3)


def test_hardware_of_ones_own_travels_where_it_is_used(cat, scenario):
    values = own.defaults(cat, "h100-sxm") | {"id": "mine", "base": "h100-sxm"}
    entries = own.hardware(cat, values)
    assert unpack(pack(Linked(scenario, entries))).entries == {}
    data = scenario.to_dict()
    data["hardware"]["candidates"] = [{"node": "mine-8"}]
    again = unpack(pack(Linked(type(scenario).from_dict(data), entries)))
    assert again.entries == entries == overlay.checked(entries, "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.",
        "1.!!!!",
        "1.AAAA",
        "2." + "A" * 40,
        "1." + "A" * (links.MAX_CHARACTERS + 1),
        BOMB,
        packed([]),
        packed({"scenario": 7}),
        packed({"scenario": {"schema": "planner.scenario/1", "model": "/etc/passwd.yaml"}}),
        packed({"scenario": json.loads("[" * 60 + "]" * 60)}),
        packed({"scenario": gallery.example(gallery.FIRST).scenario.to_dict(), "catalogue": {"file": {}}}),
    ],
)
def test_anything_else_is_one_sentence(text):
    with pytest.raises(InputError) as error:
        unpack(text)
    assert len(str(error.value)) < 600
    assert "\n" not in str(error.value)


def test_a_cut_off_link_says_so(scenario):
    with pytest.raises(InputError, match="cut off"):
        unpack(pack(Linked(scenario))[:-7])


def test_a_scenario_too_long_for_a_link_says_so(scenario):
    data = scenario.to_dict() | {"description": "".join(random.Random(7).choices(string.ascii_letters, k=9_900))}
    with pytest.raises(InputError, match="too long for a link"):
        pack(Linked(type(scenario).from_dict(data)))


def test_the_address_keeps_page_and_path():
    there = address_of("https://host/base/memory?s=old&x=1#part", "1.abc", "zh")
    assert there == "https://host/base/memory?s=1.abc&lang=zh"
    assert address_of("https://host/", "1.abc", "en") == "https://host/?s=1.abc"


def test_a_file_carries_ones_own_hardware(cat, scenario):
    entries = own.hardware(cat, own.defaults(cat, "h100-sxm") | {"id": "mine", "base": "h100-sxm"})
    data = scenario.to_dict() | {"hardware": {"candidates": [{"node": "mine-8"}]}}
    linked = Linked(Scenario.from_dict(data), entries)
    assert links.from_text(links.text(linked), "x.yaml") == linked
    assert links.text(Linked(scenario, entries)) == scenario.to_yaml()


def test_a_file_with_hardware_that_cannot_be_is_one_sentence(scenario):
    text = scenario.to_yaml() + "catalogue: {accelerator: {x: {vendor: nobody}}}\n"
    with pytest.raises(InputError, match="accelerator x"):
        links.from_text(text, "x.yaml")
