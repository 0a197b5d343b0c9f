from sureact.agent.docstring import parse_docstring

GOOGLE = """Search the archive
    and more.

    Second paragraph.

    Args:
        query (str): words to look for,
            in any order
        k: how many: at most 9

    Returns:
        hits: a list
    """
NUMPY = """Search the archive.

    Parameters
    ----------
    query : str
        words to look for
    k : int, optional
        how many

    Returns
    -------
    list
        hits
    """
REST = """Search the archive.

    :param query: words to look for,
        in any order
    :param int k: how many
    :returns: hits
    """


def test_google_sections_give_summary_and_params():
    parsed = parse_docstring(GOOGLE)
    assert parsed.summary == "Search the archive and more.\nSecond paragraph."
    assert parsed.params == {"query": "words to look for, in any order", "k": "how many: at most 9"}


def test_numpy_sections_give_summary_and_params():
    parsed = parse_docstring(NUMPY)
    assert parsed.summary == "Search the archive."
    assert parsed.params == {"query": "words to look for", "k": "how many"}


def test_rest_fields_give_summary_and_params():
    parsed = parse_docstring(REST)
    assert parsed.summary == "Search the archive."
    assert parsed.params == {"query": "words to look for, in any order", "k": "how many"}


def test_text_without_sections_is_summary():
    assert parse_docstring("Note: this is prose.").summary == "Note: this is prose."


def test_nothing_gives_nothing():
    assert parse_docstring(None).summary == ""
    assert parse_docstring("").params == {}


LONG_GOOGLE = """Do it.

    Args:
        a (Optional[dict(str, int)], optional): first
            thing

            second paragraph: of a
        *args: more
        **kwargs (Any): others
        b: a link, http://x: y
        c
            on its own line
        d (int) - with a dash

    Keyword Args:
        e (int): keyword

    Warning:
        Careful.

    Whatever:
        f: not a parameter
    """
LONG_NUMPY = """Do it.

    Parameters
    ----------
    x, y : int
        coordinates
    z : {'a', 'b'}, default: 'a'
        which

        second paragraph
    *args
        more

    Other Parameters
    ----------------
    f
        no type

    Warns
    -----
    g
        not a parameter
    """
LONG_REST = """Do it.

    :param str query: words
    :type query: str
    :parameter k: how many
    :arg int m: thing
        continued
    :argument \\*n: others
    :keyword o: option
    :returns: x
    :raises ValueError: if bad
    """


def test_a_long_google_docstring_is_read_whole():
    parsed = parse_docstring(LONG_GOOGLE)
    assert parsed.summary == "Do it."
    assert parsed.params == {
        "a": "first thing second paragraph: of a",
        "args": "more",
        "kwargs": "others",
        "b": "a link, http://x: y",
        "c": "on its own line",
        "d": "with a dash",
        "e": "keyword",
    }


def test_a_long_numpy_docstring_is_read_whole():
    assert parse_docstring(LONG_NUMPY).params == {
        "x": "coordinates",
        "y": "coordinates",
        "z": "which second paragraph",
        "args": "more",
        "f": "no type",
    }


def test_every_name_of_a_rest_field_is_read():
    parsed = parse_docstring(LONG_REST)
    assert parsed.params == {"query": "words", "k": "how many", "m": "thing continued", "n": "others", "o": "option"}


def test_items_may_stand_at_the_margin_and_after_tabs():
    assert parse_docstring("Do.\nArgs:\na: one\nb: two").params == {"a": "one", "b": "two"}
    assert parse_docstring("Do.\n\n\tArgs:\n\t\ta: one\r\n").params == {"a": "one"}
