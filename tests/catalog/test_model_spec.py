from __future__ import annotations

from typing import Any

import pytest
import yaml

from planner.catalog import Catalog, ModelSpec
from planner.catalog.spec_yaml import spec_to_yaml
from planner.catalog.validation import validate
from planner.errors import InputError


def data(cat: Catalog, model: str = "deepseek-v3") -> dict[str, Any]:
    return yaml.safe_load(spec_to_yaml(cat.model(model)))


def test_yaml_round_trip(cat: Catalog) -> None:
    for id_ in cat.model_ids():
        spec = cat.model(id_)
        assert validate(ModelSpec, yaml.safe_load(spec_to_yaml(spec)), id_) == spec


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hiden_size": 3}, "did you mean hidden_size"),
        ({"hidden_size": 0}, "greater than 0"),
        ({"hidden_size": "7 K"}, "whole number"),
        ({"precision": {"attention": "bf16"}}, "'default'"),
        ({"layers": []}, "at least 1"),
        ({"layer_pattern": [0, 7]}, "layer_pattern"),
        ({"layer_pattern": [0, 1]}, "layer_pattern gives"),
        ({"layers": [{"count": 1, "attention": "mha", "feed_forward": "moe"}]}, "'mha'"),
        ({"layers": [{"count": 1, "attention": "mla", "feed_forward": "moo"}]}, "'moo'"),
        ({"mtp": {"blocks": 1, "attention": "x", "feed_forward": "moe"}}, "mtp.attention"),
    ],
)
def test_wrong_specifications_say_what_is_wrong(cat: Catalog, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=r"my\.yaml") as caught:
        validate(ModelSpec, data(cat) | change, "my.yaml")
    assert sentence in str(caught.value)


def test_typo_inside_an_attention_names_the_nearest_key(cat: Catalog) -> None:
    wrong = data(cat)
    wrong["attentions"]["mla"]["kv_lora_rnk"] = wrong["attentions"]["mla"].pop("kv_lora_rank")
    with pytest.raises(InputError) as caught:
        validate(ModelSpec, wrong, "my.yaml")
    assert "attentions.mla.kv_lora_rnk" in str(caught.value)
    assert "did you mean kv_lora_rank" in str(caught.value)


def test_unknown_attention_kind_lists_the_known(cat: Catalog) -> None:
    wrong = data(cat)
    wrong["attentions"]["mla"]["kind"] = "mamba"
    with pytest.raises(InputError, match="gqa, mla, linear"):
        validate(ModelSpec, wrong, "my.yaml")
