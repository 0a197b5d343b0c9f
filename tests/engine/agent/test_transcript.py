from sureact.agent.transcript import Transcript


def test_pieces_join_to_the_text():
    assert Transcript().text == ""
    assert Transcript().extended(3, "abc").extended(5, "de").text == "abcde"


def test_a_longer_one_leaves_the_shorter_one_as_it_is():
    short = Transcript().extended(3, "abc")
    assert (short.extended(5, "de").text, short.text) == ("abcde", "abc")


def test_cutting_at_the_end_of_a_piece_leaves_the_pieces_before():
    whole = Transcript().extended(3, "abc").extended(5, "de")
    assert [whole.truncated(end).text for end in (0, 3, 5)] == ["", "abc", "abcde"]


def test_a_piece_that_is_cut_leaves_a_note():
    cut = Transcript().extended(3, "abc").extended(5, "de").truncated(4)
    assert cut.text == "abc[a part of this text was cut]"
    assert cut.extended(5, "x").truncated(4).text == cut.text
    assert cut.truncated(3).text == "abc"


def test_many_pieces_are_no_burden():
    transcript = Transcript()
    for index in range(20_000):
        transcript = transcript.extended(index + 1, "x")
    assert len(transcript.text) == 20_000
    del transcript
