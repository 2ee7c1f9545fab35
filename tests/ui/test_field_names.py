"""Refusals speak of the form's fields by the names that stand there."""

import pytest

from planner.errors import InputError
from planner.scenario.schema import Scenario
from planner.ui import i18n, state
from planner.ui.field_names import field_label, option_labels, recovery_labels, with_labels
from planner.ui.sections import errors

NODES = ["hgx-h800"]


@pytest.fixture
def chinese():
    i18n.use("zh")
    yield
    i18n.use(i18n.DEFAULT)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("slo.tpot_ms", "slo.tpot_ms.limit"),
        ("slo.completion_rate", "completion_percent"),
        ("workload.arrival.rate_rps", "arrival.rate"),
        ("workload.daily_profile.peak_to_mean", "day.peak_to_mean"),
        ("workload.prefix_hit_rate", "hit_percent"),
        ("hardware.candidates.0.max_nodes", "max_nodes.hgx-h800"),
        ("hardware.candidates.0.gpus", "gpus.hgx-h800"),
        ("hardware.max_gpus_per_worker", "max_gpus_per_worker"),
        ("reliability.spare_nodes", "spare_nodes"),
        ("reliability.failures", "failures"),
        ("reliability.gpus_per_rack", "reliability.gpus_per_rack"),
        ("engine.options.max_num_seqs", "option.max_num_seqs"),
        ("engine.options.expert_skew", "option.expert_skew"),
        ("reliability.detection_s", "reliability.detection_s"),
    ],
)
def test_a_name_is_that_of_the_field(app, path, key):
    assert app.number_input(key=f"{state.PREFIX}{key}").label == field_label(path, NODES)


def test_the_other_engine_options_and_times_have_names(app):
    for name in option_labels():
        assert field_label(f"engine.options.{name}") == option_labels()[name]
    for name in recovery_labels():
        assert app.number_input(key=f"{state.PREFIX}reliability.{name}").label == field_label(f"reliability.{name}")


def test_further_errors_are_named_alike():
    text = "must be at least 0.001 (and 2 more errors: workload.arrival.cv, slo.ttft_ms.p99)"
    assert with_labels(text) == (
        "must be at least 0.001 (and 2 more errors: “Variation of the gaps”, “TTFT, ms at p99”)"
    )
    assert with_labels("must be above mean_tokens = 3,000, not 20.5") == "must be above “mean” = 3,000, not 20.5"


def test_in_chinese_the_names_are_chinese(chinese):
    refused = InputError("scenario: workload.arrival.cv", 0.0, "must be greater than 0")
    text = errors.message(refused, NODES)
    assert text.startswith("**到达间隔的变异系数**")
    tail = "p95_tokens of a lognormal must be above its mean 4383 and at most 16954 (3.868 times the mean)"
    both = errors.message(InputError("workload.input_tokens", {"kind": "lognormal"}, tail), NODES)
    assert "lognormal" not in both
    assert "tokens" not in both


def test_what_the_form_has_no_field_for_and_files_keep_their_keys():
    assert field_label("workload.priority_classes.0.share") is None
    error = InputError("scenario: slo.tbt_ms.p99", 0.0, "must be at least 0.001")
    assert errors.message(error, NODES).startswith("**TBT, ms at p99**")
    assert errors.message(error).replace("\\", "").startswith("**slo.tbt_ms.p99**")


def test_every_key_exists_in_the_schema(scenario):
    """A key that is renamed would leave a name behind that no refusal finds."""
    from planner.ui.field_names import _known

    unknown = []
    for path in _known():
        place: object = Scenario
        for part in path.split("."):
            place = _below(place, part)
        if place is None:
            unknown.append(path)
    assert unknown == []


def _below(place: object, part: str) -> object | None:
    """The type of a key, through unions and optional ones."""
    from typing import get_args

    from pydantic import BaseModel

    if place is None:
        return None
    if isinstance(place, type) and issubclass(place, BaseModel):
        for name, info in place.model_fields.items():
            if part in (name, info.alias):
                return info.annotation if info.annotation is not None else object
        return None
    found = [_below(arg, part) for arg in get_args(place)]
    return next((f for f in found if f is not None), None)
