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
