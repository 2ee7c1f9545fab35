"""Hardware of a session's own: checked, laid over the catalogue, gone with the session."""

from pathlib import Path

import pytest

from planner.catalog import catalog
from planner.catalog.loader import CATALOG_VARIABLE
from planner.errors import InputError, UnsupportedArchitectureError
from planner.model.parameters import count
from planner.scenario.safe_yaml import dump_yaml
from planner.ui import overlay, own
from planner.ui.overlay import Overlay

NUMBERS = {
    "layers": 32,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "width": 14336,
    "vocab": 128256,
    "context": 131072,
    "experts": 64,
    "active": 8,
    "expert_width": 1536,
    "shared": 1,
    "dense_layers": 1,
    "q_rank": 1536,
    "kv_rank": 512,
}


@pytest.fixture
def entries(cat):
    return own.hardware(cat, own.defaults(cat, "h100-sxm") | {"id": "mine", "base": "h100-sxm"})


def test_entries_stand_beside_the_shipped_ones_and_go(entries):
    made = Overlay(entries)
    folder = made.catalog.user_dir
    assert folder is not None
    assert made.catalog.accelerator("mine").tflops_dense.bf16 == 989
    assert made.catalog.node("mine-8").gpus == 8
    assert "dgx-h100" in made.catalog.node_ids()
    assert made.catalog.version != catalog().version
    del made
    assert not folder.exists()


def test_the_operators_overlay_stays(entries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shipped = catalog()
    node = shipped.node("dgx-h100").model_dump(mode="json", exclude_none=True) | {"id": "house"}
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "house.yaml").write_text(dump_yaml(node))
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path))
    made = Overlay(entries)
    assert {"house", "mine-8"} <= set(made.catalog.node_ids())
    assert not (tmp_path / "nodes" / "mine-8.yaml").exists()


@pytest.mark.parametrize("id", ["", "../x", "A", "a b", "x" * 65, "/etc"])
def test_an_id_is_no_path(entries, id):
    with pytest.raises(InputError, match="id"):
        overlay.added({}, "accelerator", entries["accelerator"]["mine"] | {"id": id})


def test_a_node_needs_its_accelerator(entries):
    with pytest.raises(InputError, match="accelerator"):
        overlay.added({}, "node", entries["node"]["mine-8"])


def test_entries_are_bounded(entries):
    many = {"accelerator": {f"own{i}": entries["accelerator"]["mine"] for i in range(overlay.MAX_ENTRIES)}}
    with pytest.raises(InputError, match="at most"):
        overlay.checked(many | {"node": {"n": entries["node"]["mine-8"] | {"accelerator": "own1"}}}, "x")


def test_what_was_saved_comes_back(entries):
    assert own.from_yaml(dump_yaml(entries), {}) == (entries, None)
    one = dump_yaml(entries["accelerator"]["mine"])
    assert own.from_yaml(one, {})[0]["accelerator"]["mine"] == entries["accelerator"]["mine"]


@pytest.mark.parametrize("text", ["", "a: 1", "tflops_dense: 3\nid: x", "gpus: 8\naccelerator: nonesuch\nid: y", "- 1"])
def test_bad_yaml_is_one_sentence(text):
    with pytest.raises(InputError) as error:
        own.from_yaml(text, {})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("shape", "billions"), [("llama", 8.03), ("qwen3_moe", 41.1), ("deepseek_v3", 40.5)])
def test_a_model_by_its_numbers(shape, billions):
    spec = own.model(NUMBERS | {"id": "My Model", "shape": shape, "fp8": True})
    assert spec.id == "my-model"
    assert count(spec).total / 1e9 == pytest.approx(billions, rel=2e-3)
    assert spec.precision["attention"] == "fp8_block"


def test_a_refusal_is_explained():
    text = " ".join(own.refusal(UnsupportedArchitectureError(["model_type: nonesuch"], "not understood")))
    assert "deepseek_v3" in text
    assert own.refusal(UnsupportedArchitectureError(["hidden_size"], "must be at least 1, not 0")) == []


@pytest.mark.parametrize(("kind", "id"), [("accelerator", "h100-sxm"), ("node", "dgx-h100")])
def test_a_shipped_entry_is_not_replaced(cat, kind, id):
    """A plan that says h100-sxm is of the catalogue's."""
    entry = cat.accelerator(id) if kind == "accelerator" else cat.node(id)
    with pytest.raises(InputError, match="choose another"):
        overlay.added({}, kind, entry.model_dump(mode="json", exclude_none=True))


def test_a_generation_without_curves_is_refused(entries):
    with pytest.raises(InputError, match="arch"):
        overlay.added({}, "accelerator", entries["accelerator"]["mine"] | {"arch": "hoper"})


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"id": "My GPU"}, "Name"),
        ({"bandwidth_gb_s": None}, "Memory bandwidth, GB/s"),
        ({"bf16": None}, "bf16"),
        ({"usable_gib": 500.0}, "Usable capacity"),
        ({"domain": 16}, "Fast domain"),
    ],
)
def test_numbers_of_the_form_that_cannot_be(cat, values, field):
    with pytest.raises(InputError) as error:
        own.hardware(cat, own.defaults(cat, "h100-sxm") | {"id": "mine", "base": "h100-sxm"} | values)
    assert error.value.field.startswith(field)


def test_a_token_uses_at_most_all_experts():
    with pytest.raises(UnsupportedArchitectureError) as error:
        own.model(NUMBERS | {"id": "m", "shape": "qwen3_moe", "active": 65})
    assert error.value.keys == ("num_experts_per_tok",)


def test_usable_memory_follows_the_capacity_unless_it_is_given(cat):
    known = cat.accelerator("h100-sxm").memory
    values = own.defaults(cat, "h100-sxm") | {"id": "mine", "base": "h100-sxm", "memory_gb": 192.0}
    made = own.hardware(cat, values)["accelerator"]["mine"]["memory"]
    assert made["gib_usable"] == pytest.approx(192.0 * known.gib_usable / known.gb_sold)
    given = own.hardware(cat, values | {"usable_gib": 150.0})["accelerator"]["mine"]["memory"]
    assert given["gib_usable"] == 150.0
