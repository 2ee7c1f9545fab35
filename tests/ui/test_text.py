"""Text from outside stays text."""

import pytest

from planner.ui import i18n
from planner.ui.text import label, listed, pair, plain, sentence, wrapped


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "![x](http://example.org/x.png)",
        "[link](http://example.org)",
        "$E=mc^2$",
        ":red[danger] :material/home:",
        "**bold** _under_ `code` # title",
    ],
)
def test_markdown_is_escaped(text):
    escaped = plain(text)
    for i, ch in enumerate(escaped):
        if ch in "<>[]()*_`#$:!":
            assert escaped[i - 1] == "\\"


def test_lines_are_joined():
    assert plain("a\n\n# b") == "a \\# b"


def test_labels_escape_html():
    assert label("<b>&</b>") == "&lt;b&gt;&amp;&lt;/b&gt;"
    assert wrapped("one two three", 7) == "one two<br>three"


def test_percentages_are_written_one_way_in_both_languages():
    text = "10.0% of prompt tokens are served from the prefix cache and not computed."
    assert sentence(text).startswith("10.0 % of prompt tokens")
    assert sentence("35%, not %d or a%20b") == "35 %, not %d or a%20b."
    i18n.use("zh")
    try:
        there = sentence(text)
    finally:
        i18n.use(i18n.DEFAULT)
    assert "10.0 %" in there
    assert "prompt tokens" not in there


def test_sentences_start_and_end():
    assert sentence("needs 95 of 71 GiB") == "Needs 95 of 71 GiB."
    assert sentence("hgx-h800 costs 2 USD") == "hgx-h800 costs 2 USD."
    assert sentence("vllm has no runs") == "vllm has no runs."
    assert sentence("Done.") == "Done."
    assert sentence("") == ""


def test_lists_and_pairs_take_the_marks_of_the_language():
    assert (listed(["a", "b"]), pair("a", "b")) == ("a, b", "a: b")
    i18n.use("zh")
    try:
        assert (listed(["a", "b"]), pair("a", "b")) == ("a、b", "a：b")
    finally:
        i18n.use(i18n.DEFAULT)
