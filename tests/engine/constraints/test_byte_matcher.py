from sureact.constraints.byte_matcher import can_follow_long_text, grammar_error, has_text, matches_grammar


def test_a_text_matches_as_a_whole_and_in_any_script() -> None:
    grammar = 'start: "é" | "ab"\n'
    assert matches_grammar(grammar, "é")
    assert matches_grammar(grammar, "ab")
    assert not matches_grammar(grammar, "a")
    assert not matches_grammar(grammar, "abc")
    assert not matches_grammar(grammar, "\ud800")


def test_a_grammar_is_refused_with_a_reason_or_fine() -> None:
    assert grammar_error('start: "a"\n') == ""
    assert "missing" in grammar_error("start: missing\n")
    assert not matches_grammar("start: missing\n", "a")


def test_a_pattern_that_explodes_when_backtracked_is_judged_at_once() -> None:
    assert not matches_grammar("start: /(a+)+b/\n", "a" * 5000)


def test_a_grammar_without_any_text_is_told_apart() -> None:
    assert has_text('start: "a"?\n')
    assert has_text("start: missing\n")
    assert not has_text('start: start "b"\n')


def test_a_long_text_is_followed_unless_its_lexer_runs_out_of_fuel() -> None:
    assert can_follow_long_text('start: "a"\n')
    assert can_follow_long_text("start: /a*/\n")
    assert can_follow_long_text("start: missing\n")
    assert not can_follow_long_text("start: /(a{1,100}){1,100}/\n")
