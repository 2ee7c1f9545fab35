from __future__ import annotations

import json
from pathlib import Path

import pytest
from hf_configs import LLAMA

from planner.catalog import Catalog, catalog, load_model
from planner.catalog.loader import CATALOG_VARIABLE, data_root
from planner.errors import InputError, UnknownNameError


def shipped(kind: str, name: str) -> str:
    return (data_root() / kind / f"{name}.yaml").read_text()


def test_everything_shipped_is_valid(cat: Catalog) -> None:
    assert len(cat.model_ids()) == 41
    assert len(cat.accelerator_ids()) == 39
    assert len(cat.node_ids()) == 21
    for id_ in cat.model_ids():
        assert cat.model(id_).id == id_
    for id_ in cat.accelerator_ids():
        assert cat.accelerator(id_).id == id_
    for id_ in cat.node_ids():
        assert cat.node(id_).accelerator in cat.accelerator_ids()
    assert cat.prices().rental("h100-sxm") is not None


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [("model", "deepseek-v33", "deepseek-v3"), ("accelerator", "h100sxm", "h100-sxm"), ("node", "dgx-h10", "dgx-h100")],
)
def test_unknown_names_suggest_the_nearest(cat: Catalog, kind: str, wrong: str, right: str) -> None:
    with pytest.raises(UnknownNameError, match=right):
        getattr(cat, kind)(wrong)


def test_user_folder_replaces_and_adds(tmp_path: Path) -> None:
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "hardware_db" / "nodes").mkdir(parents=True)
    text = shipped("hardware_db/accelerators", "h100-sxm")
    (tmp_path / "accelerators" / "h100-sxm.yaml").write_text(text.replace("tdp: 700", "tdp: 650"))
    node = shipped("hardware_db/nodes", "dgx-h100").replace("id: dgx-h100", "id: my-h100")
    (tmp_path / "hardware_db" / "nodes" / "my-h100.yaml").write_text(node)
    mine = catalog(tmp_path)
    assert mine.accelerator("h100-sxm").power_w.tdp == 650
    assert catalog().accelerator("h100-sxm").power_w.tdp == 700
    assert mine.node("my-h100").gpus == 8
    assert "my-h100" not in catalog().node_ids()
    assert mine.version != catalog().version
    assert mine.describe("node", "my-h100")["origin"] == "user"
    assert mine.describe("node", "dgx-h100")["origin"] == "shipped"


def test_overlay_by_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    spec = shipped("model_specs", "llama-3.1-8b").replace("id: llama-3.1-8b", "id: my-llama")
    (tmp_path / "models" / "my-llama.yaml").write_text(spec)
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path))
    assert "my-llama" in catalog().model_ids()
    assert load_model("my-llama").hidden_size == 4096
    monkeypatch.setenv(CATALOG_VARIABLE, "")
    assert "my-llama" not in catalog().model_ids()


def test_missing_user_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=CATALOG_VARIABLE):
        catalog(tmp_path / "nowhere")


def test_a_typo_in_a_users_file_names_file_key_and_nearest(tmp_path: Path) -> None:
    (tmp_path / "accelerators").mkdir()
    text = shipped("hardware_db/accelerators", "l4").replace("bandwidth_gb_s", "bandwith_gb_s")
    (tmp_path / "accelerators" / "l4.yaml").write_text(text)
    with pytest.raises(InputError) as caught:
        catalog(tmp_path).accelerator("l4")
    message = str(caught.value)
    assert "accelerators/l4.yaml: memory.bandwith_gb_s" in message
    assert "did you mean bandwidth_gb_s" in message


def test_file_name_and_id_agree(tmp_path: Path) -> None:
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "other.yaml").write_text(shipped("hardware_db/accelerators", "l4"))
    with pytest.raises(InputError, match="other"):
        catalog(tmp_path).accelerator("other")


def test_node_of_an_unknown_accelerator_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    node = shipped("hardware_db/nodes", "dgx-h100").replace("accelerator: h100-sxm", "accelerator: h100-sxn")
    (tmp_path / "nodes" / "dgx-h100.yaml").write_text(node)
    with pytest.raises(UnknownNameError, match="h100-sxm"):
        catalog(tmp_path).node("dgx-h100")


def test_load_model_by_every_kind_of_reference(tmp_path: Path) -> None:
    by_id = load_model("llama-3.1-8b")
    assert load_model("meta-llama/Llama-3.1-8B-Instruct") == by_id
    assert load_model("META-LLAMA/llama-3.1-8b-instruct") == by_id
    path = tmp_path / "spec.yaml"
    path.write_text(shipped("model_specs", "llama-3.1-8b"))
    assert load_model(path) == by_id
    folder = tmp_path / "tiny-llama"
    folder.mkdir()
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "vocab_size": 100,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    assert load_model(folder / "config.json").id == "tiny-llama"
    with pytest.raises(UnknownNameError, match="did you mean"):
        load_model("llama-3.1-8")
    with pytest.raises(UnknownNameError, match="Instruct"):
        load_model("meta-llama/Llama-3.1-8B")


def test_description_spells_out_the_cited_sources(cat: Catalog) -> None:
    described = cat.describe("accelerator", "h800-sxm")
    assert described["entry"]["memory"]["usable_status"] == "assumed"
    assert "DEEPEP" in described["cited_sources"]
    with pytest.raises(UnknownNameError):
        cat.describe("rack", "x")  # type: ignore[arg-type]


def test_engines_are_known_by_their_parts(cat: Catalog) -> None:
    assert "vllm" in cat.engine_names()
    assert set(cat.engine("vllm")) <= {"memory", "layout", "scheduler"}
    with pytest.raises(UnknownNameError, match="vllm"):
        cat.engine("vlm")


def test_catalogue_is_read_once(cat: Catalog) -> None:
    assert catalog() is cat
    assert cat.model("deepseek-v3") is cat.model("deepseek-v3")
    assert len(cat.version) == 12


@pytest.mark.parametrize(
    ("file", "id", "hf_id"),
    [
        ("Qwen__Qwen3-14B.json", "qwen3-14b", "Qwen/Qwen3-14B"),
        ("Qwen--Qwen3-14B_config.json", "qwen3-14b", "Qwen/Qwen3-14B"),
        ("models--Qwen--Qwen3-14B/snapshots/abc/config.json", "qwen3-14b", "Qwen/Qwen3-14B"),
        ("My_Model/config.json", "my-model", None),
        ("own.json", "own", None),
    ],
)
def test_a_files_name_says_whose_config_it_is(tmp_path: Path, file: str, id: str, hf_id: str | None) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(LLAMA), encoding="utf-8-sig")
    spec = load_model(path)
    assert (spec.id, spec.hf_id) == (id, hf_id)


def test_broken_files_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n  "model_type" "qwen3"\n}')
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert caught.value.given == '"model_type" "qwen3"'
    assert "line 2, column 16" in caught.value.allowed
    spec = tmp_path / "spec.yaml"
    spec.write_text("a: 1\nb: [1\nc: 2\n")
    with pytest.raises(InputError) as caught:
        load_model(spec)
    assert caught.value.given == "c: 2"


@pytest.mark.parametrize("config", [{"hidden_size": 4}, {"model_type": "llama", "hidden_size": 4}])
def test_errors_of_a_configuration_name_its_file(config: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"own\.json") as caught:
        load_model(path)
    assert "config.json" not in str(caught.value)
