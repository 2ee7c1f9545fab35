"""What strangers hand in is bounded, parsed safely, and opens no file."""

import json

import pytest

from planner.errors import InputError
from planner.ui import links, upload
from tests.ui.sample_config import CONFIG


def test_a_scenario_round_trips(scenario):
    assert links.from_text(scenario.to_yaml(), "the file").scenario == scenario


def test_a_plan_brings_its_scenario(plan, scenario):
    assert links.from_text(plan.to_yaml(), "the file").scenario == scenario


@pytest.mark.parametrize("model", ["model.yaml", "../../etc/config.json", "/etc/passwd.yml"])
def test_a_model_path_is_refused(scenario, model):
    text = scenario.to_yaml().replace("model: deepseek-v3", f"model: {model}")
    with pytest.raises(InputError, match="opens no files"):
        links.from_text(text, "the file")


def test_a_length_file_is_refused(scenario):
    text = scenario.to_yaml().replace(
        "kind: fixed\n    tokens: 1211", "kind: empirical\n    file: /etc/passwd\n    column: x"
    )
    assert "passwd" in text
    with pytest.raises(InputError, match="output_tokens"):
        links.from_text(text, "the file")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        "a: [",
        "!!python/object/apply:os.system ['true']",
        "&a [*a]",
        "x: &a [1]\ny: [" + ", ".join(["*a"] * 10) + "]",
        "a" * (upload.MAX_UPLOAD_BYTES + 1),
        "[" * 200,
    ],
)
def test_bad_yaml_is_one_sentence(text):
    with pytest.raises(InputError) as error:
        links.from_text(text, "the file")
    assert len(str(error.value)) < 1500
    assert "\n" not in str(error.value)


def test_uploads_are_bounded_and_text():
    with pytest.raises(InputError, match="at most"):
        upload.decode(b"x" * (upload.MAX_UPLOAD_BYTES + 1), "the file")
    with pytest.raises(InputError, match="UTF-8"):
        upload.decode(b"\xff\xfe\x00", "the file")


def test_a_pasted_config_becomes_a_model():
    spec = upload.spec_from_config(json.dumps(CONFIG), " My Model! ")
    assert spec.id == "my-model"
    assert spec.hidden_size == 4096


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "paste"),
        ("{", "not JSON"),
        ("[" * 100_000, "levels|JSON"),
        ("[" * 30 + "]" * 30, "levels"),
        ("[]", "mapping"),
        ('{"model_type": "nonesuch"}', "nonesuch"),
    ],
)
def test_a_bad_config_says_what_is_wrong(text, says):
    with pytest.raises(InputError, match=says):
        upload.spec_from_config(text, "")


def test_a_plan_is_read_and_opens_no_file(plan):
    assert upload.plan_from_text(plan.to_yaml(), "the file") == plan
    text = plan.to_yaml().replace("model: deepseek-v3\n", "model: /etc/passwd.yaml\n", 1)
    with pytest.raises(InputError, match="opens no files"):
        upload.plan_from_text(text, "the file")
    with pytest.raises(InputError, match="a plan is needed"):
        upload.plan_from_text(plan.scenario.to_yaml(), "the file")
