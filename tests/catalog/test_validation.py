from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from planner.catalog.validation import validate
from planner.errors import InputError


class Base(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Fixed(Base):
    kind: Literal["fixed"] = "fixed"
    tokens: PositiveInt


class Uniform(Base):
    kind: Literal["uniform"] = "uniform"
    low_tokens: PositiveInt
    high_tokens: PositiveInt


class Memory(Base):
    bandwidth_gb_s: float | None = Field(default=None, gt=0)
    gb_sold: float


class Thing(Base):
    name: str = "x"
    vendor: Literal["nvidia", "amd"] = "amd"
    memory: Memory | None = None
    length: Annotated[Fixed | Uniform, Field(discriminator="kind")] | None = None
    parts: tuple[Memory, ...] = ()
    by_name: dict[str, Memory] = {}
    price: float | Fixed | None = None


@pytest.mark.parametrize(
    ("data", "field", "sentence"),
    [
        ({"nmae": "y"}, "f.yaml: nmae", "did you mean name"),
        ({"memory": {"gb_sold": 1, "bandwith_gb_s": 2}}, "f.yaml: memory.bandwith_gb_s", "bandwidth_gb_s"),
        ({"memory": {}}, "f.yaml: memory.gb_sold", "required"),
        ({"memory": {"gb_sold": 1, "bandwidth_gb_s": -1}}, "f.yaml: memory.bandwidth_gb_s", "greater than 0"),
        ({"vendor": "nvidai"}, "f.yaml: vendor", "did you mean nvidia"),
        ({"length": {"kind": "fixd", "tokens": 3}}, "f.yaml: length", "did you mean fixed"),
        ({"length": {"tokens": 3}}, "f.yaml: length", "kind"),
        ({"length": {"kind": "fixed", "tokns": 3}}, "f.yaml: length.tokns", "did you mean tokens"),
        ({"length": {"kind": "fixed", "tokens": 0}}, "f.yaml: length.tokens", "greater than 0"),
        ({"parts": [{"gb_sold": 1, "zz": 2}]}, "f.yaml: parts.0.zz", "allowed: bandwidth_gb_s, gb_sold"),
        ({"by_name": {"a": {"gb_sol": 1}}}, "f.yaml: by_name.a.gb_sol", "did you mean gb_sold"),
        ({"memory": 3}, "f.yaml: memory", "mapping"),
        ([], "f.yaml", "mapping"),
        ({"name": 3}, "f.yaml: name", "text"),
        ({"price": {"tokns": 3}}, "f.yaml: price.tokns", "did you mean tokens"),
    ],
)
def test_violation_names_the_field_and_what_is_allowed(data: object, field: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(Thing, data, "f.yaml")
    assert caught.value.field == field
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_valid_data_comes_back_as_the_schema() -> None:
    thing = validate(Thing, {"length": {"kind": "uniform", "low_tokens": 1, "high_tokens": 2}}, "f.yaml")
    assert isinstance(thing.length, Uniform)
