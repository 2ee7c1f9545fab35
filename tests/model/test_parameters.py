from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import Catalog
from planner.catalog.model_spec import ModelSpec
from planner.model.builder import tensors
from planner.model.parameters import count

# Recomputed from the published config keys and compared with exact checkpoint counts (Hugging Face safetensors metadata
# read in third-party files; the source of each stands in model_specs/<id>.yaml under published.exact_source).
# id, main, main + MTP + vision + repeated embeddings, active (billions) with and without embedding, exact, what that is
TABLE = [
    ("deepseek-r1-0528", 671_026_419_200, 684_489_845_504, "37.552", "36.626", 684_531_386_000, "with_duplicates"),
    ("deepseek-r1-distill-llama-70b", 70_553_706_496, 70_553_706_496, "70.554", "69.503", 70_553_706_496, "main"),
    ("deepseek-r1-distill-qwen-32b", 32_763_876_352, 32_763_876_352, "32.764", "31.985", 32_763_876_352, "main"),
    ("deepseek-r1", 671_026_419_200, 684_489_845_504, "37.552", "36.626", 684_489_845_504, "with_duplicates"),
    ("deepseek-v2-lite", 15_706_484_224, 15_706_484_224, "2.661", "2.451", 15_706_484_224, "main"),
    ("deepseek-v2.5", 235_741_434_880, 235_741_434_880, "21.376", "20.852", 235_741_434_880, "main"),
    ("deepseek-v2", 235_741_434_880, 235_741_434_880, "21.376", "20.852", 235_741_434_880, "main"),
    ("deepseek-v3-0324", 671_026_419_200, 684_489_845_504, "37.552", "36.626", 684_531_386_000, "with_duplicates"),
    ("deepseek-v3.1", 671_026_419_200, 684_489_845_504, "37.552", "36.626", 684_531_386_000, "with_duplicates"),
    ("deepseek-v3.2-exp", 671_877_944_064, 685_355_329_792, "38.404", "37.477", 685_396_921_376, "with_duplicates"),
    ("deepseek-v3.2", 671_877_944_064, 685_355_329_792, "38.404", "37.477", 685_355_329_792, "with_duplicates"),
    ("deepseek-v3", 671_026_419_200, 684_489_845_504, "37.552", "36.626", 684_531_386_000, "with_duplicates"),
    ("gemma-2-27b", 27_227_128_320, 27_227_128_320, "27.227", "27.227", 27_227_128_320, "main"),
    ("gemma-3-27b", 27_009_002_240, 27_432_062_576, "27.009", "27.009", 27_432_406_640, "total"),
    ("glm-4.5", 352_797_829_024, 358_337_791_296, "33.632", "32.856", 358_337_791_296, "with_duplicates"),
    ("glm-4.6", 352_797_829_024, 358_337_791_296, "33.632", "32.856", 356_785_898_816, "total"),
    ("gpt-oss-120b", 116_829_156_672, 116_829_156_672, "5.712", "5.133", 116_829_156_672, "main"),
    ("gpt-oss-20b", 20_914_757_184, 20_914_757_184, "4.187", "3.608", 20_914_757_184, "main"),
    ("kimi-k2.5", 1_026_408_232_448, 1_026_808_232_448, "32.862", "31.687", None, None),
    ("kimi-k2", 1_026_408_232_448, 1_026_408_232_448, "32.862", "31.687", 1_026_408_232_448, "main"),
    ("llama-3.1-405b", 405_853_388_800, 405_853_388_800, "405.853", "403.752", 405_853_388_800, "main"),
    ("llama-3.1-70b", 70_553_706_496, 70_553_706_496, "70.554", "69.503", 70_553_706_496, "main"),
    ("llama-3.1-8b", 8_030_261_248, 8_030_261_248, "8.030", "7.505", 8_030_261_248, "main"),
    ("llama-3.3-70b", 70_553_706_496, 70_553_706_496, "70.554", "69.503", 70_553_706_496, "main"),
    ("llama-4-maverick", 400_711_848_960, 401_583_781_376, "17.185", "16.150", 401_583_781_376, "total"),
    ("llama-4-scout", 107_769_861_120, 108_641_793_536, "17.173", "16.138", 108_641_793_536, "total"),
    ("minimax-m2", 228_689_764_864, 228_689_764_864, "11.031", "10.416", 228_689_764_864, "main"),
    ("mistral-large-2411", 122_610_069_504, 122_610_069_504, "122.610", "122.207", 122_610_069_504, "main"),
    ("mistral-small-24b", 23_572_403_200, 23_572_403_200, "23.572", "22.901", 23_572_403_200, "main"),
    ("mixtral-8x22b", 140_620_634_112, 140_620_634_112, "39.152", "38.955", 140_620_634_112, "main"),
    ("mixtral-8x7b", 46_702_792_704, 46_702_792_704, "12.880", "12.749", 46_702_792_704, "main"),
    ("phi-4", 14_659_507_200, 14_659_507_200, "14.660", "14.146", 14_659_507_200, "main"),
    ("qwen2.5-72b", 72_706_203_648, 72_706_203_648, "72.706", "71.460", 72_706_203_648, "main"),
    ("qwen2.5-7b", 7_615_616_512, 7_615_616_512, "7.616", "7.071", 7_615_616_512, "main"),
    ("qwen3-235b-a22b", 235_093_634_560, 235_093_634_560, "22.191", "21.568", 235_093_634_560, "main"),
    ("qwen3-30b-a3b", 30_532_122_624, 30_532_122_624, "3.353", "3.042", 30_532_122_624, "main"),
    ("qwen3-32b", 32_762_123_264, 32_762_123_264, "32.762", "31.984", 32_762_123_264, "main"),
    ("qwen3-8b", 8_190_735_360, 8_190_735_360, "8.191", "7.568", 8_190_735_360, "main"),
    ("qwen3-coder-480b-a35b", 480_154_875_392, 480_154_875_392, "35.475", "34.541", 480_154_875_392, "main"),
    ("qwen3-next-80b-a3b", 79_674_391_296, 81_324_862_720, "3.875", "3.564", 81_324_862_720, "total"),
]
TOLERANCE = 1e-4


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_published_parameter_counts_come_out(cat: Catalog, row: tuple) -> None:  # type: ignore[type-arg]
    id_, main, everything, active, active_without_embedding, exact, what = row
    counted = count(cat.model(id_))
    assert counted.main == pytest.approx(main, rel=TOLERANCE)
    # The table adds the repeated embedding for GLM-4.6 too, which its checkpoint does not have.
    if id_ != "glm-4.6":
        assert counted.with_duplicates == pytest.approx(everything, rel=TOLERANCE)
    assert f"{counted.active / 1e9:.3f}" == active
    assert f"{counted.active_without_embedding / 1e9:.3f}" == active_without_embedding
    if exact is not None:
        assert getattr(counted, what) == pytest.approx(exact, rel=TOLERANCE)


def test_specifications_record_the_exact_count_they_reproduce(cat: Catalog) -> None:
    exact = {row[0]: (row[5], row[6]) for row in TABLE if row[5] is not None}
    for id_, (value, what) in exact.items():
        published = cat.model(id_).published
        assert published is not None
        assert (published.exact_parameters, published.exact_counts) == (value, what), id_


def test_every_shipped_model_is_in_the_table_or_checked_apart(cat: Catalog) -> None:
    assert set(cat.model_ids()) == {row[0] for row in TABLE} | {"qwen3.5-397b-a17b"}


def test_qwen3_5_agrees_with_its_name(cat: Catalog) -> None:
    # Qwen3.5-397B-A17B: no exact count was read, only the name.
    counted = count(cat.model("qwen3.5-397b-a17b"))
    assert counted.main == pytest.approx(397e9, rel=0.01)
    assert counted.active == pytest.approx(17e9, rel=0.05)


def test_parts_add_up(cat: Catalog) -> None:
    for id_ in cat.model_ids():
        spec = cat.model(id_)
        counted = count(spec)
        assert counted.total == counted.main + counted.mtp + counted.vision
        assert counted.with_duplicates >= counted.total >= counted.main >= counted.active
        assert sum(t.parameters for t in tensors(spec)) == counted.with_duplicates
        assert (counted.mtp > 0) == (spec.mtp is not None)
        assert (counted.vision > 0) == (spec.vision is not None)


def test_deepseek_v3_mtp_block_is_told_apart(cat: Catalog) -> None:
    # 11.61B unique tensors in the block (README_WEIGHTS.md rounds to 11.5B without projection and norms).
    counted = count(cat.model("deepseek-v3"))
    assert counted.mtp == pytest.approx(11.61e9, rel=1e-3)
    assert counted.with_duplicates - counted.total == 2 * 129280 * 7168


def test_gemma_3_counts_the_rows_its_checkpoint_has(cat: Catalog) -> None:
    spec = cat.model("gemma-3-27b")
    assert spec.vocab_size == 262208
    assert count(spec).total == 27_432_406_640


@settings(max_examples=30, deadline=None)
@given(layers=st.integers(1, 200), model=st.sampled_from(["deepseek-v3.2", "qwen3-next-80b-a3b", "gemma-3-27b"]))
def test_parameters_are_linear_in_layers(cat: Catalog, layers: int, model: str) -> None:
    def with_layers(extra: int) -> ModelSpec:
        spec = cat.model(model)
        last = spec.layers[-1].model_copy(update={"count": extra})
        return spec.model_copy(update={"layers": (*spec.layers[:-1], last), "layer_pattern": ()})

    one, two, many = (count(with_layers(n)).main for n in (1, 2, layers))
    assert many == one + (layers - 1) * (two - one)
