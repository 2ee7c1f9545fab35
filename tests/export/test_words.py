"""Nothing that a user types reaches a shell, or Kubernetes' own variables, unquoted."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.words import HEAD, comment, dns_name, model_argument, plain, pod_word, shell_command, shell_word

ANY = st.text(st.characters(codec="utf-8"), max_size=60)


@given(st.lists(ANY, min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_the_shell_hands_words_on_as_they_are(words: list[str]) -> None:
    script = shell_command(["printf", "%s\\0", *words], [])
    out = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    assert out.decode().split("\0")[:-1] == [plain(w) for w in words]


@given(ANY)
def test_comments_stay_comments(text: str) -> None:
    lines = comment(text)
    assert all(line.startswith("#") for line in lines)
    assert all("\n" not in line and "\r" not in line for line in lines)


@given(ANY)
def test_names_are_kubernetes_names(text: str) -> None:
    name = dns_name(text)
    assert 1 <= len(name) <= 40
    assert name[0].isascii()
    assert name[0].isalpha()
    assert name[-1].isalnum()
    assert all(c.isascii() and (c.isalnum() or c == "-") and c == c.lower() for c in name)


def test_variables_are_the_only_thing_filled_in() -> None:
    assert shell_word(HEAD) == '"${HEAD}"'
    assert pod_word(HEAD) == "$(LWS_LEADER_ADDRESS)"
    assert pod_word("a$(HF_TOKEN)b") == "a$$(HF_TOKEN)b"


@pytest.mark.parametrize("text", ["--trust-remote-code", "-x"])
def test_a_model_is_never_a_flag(text: str) -> None:
    assert model_argument(text) == f"./{text}"
