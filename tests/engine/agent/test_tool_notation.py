from sureact.agent.tool import Tool
from sureact.agent.tool_notation import arguments_notation, function_notation, signature_notation


def search(query: str, k: int = 5, tags: list[str] | None = None) -> str:
    """Search the archive.

    Args:
        query: words to look for
    """
    return query


def test_a_tool_reads_like_a_python_declaration():
    assert signature_notation(Tool(search)) == (
        "search(query: str, k: int = 5, tags: list[str] | None = null)\n"
        "    Search the archive.\n"
        "    query: words to look for"
    )


def test_a_tool_without_arguments_has_empty_parentheses():
    tool = Tool(lambda: 1, name="now", desc="")
    assert signature_notation(tool) == "now()"
    assert arguments_notation(tool) == ""


def test_chat_templates_get_an_openai_function():
    function = function_notation(Tool(search))
    assert function["type"] == "function"
    assert function["function"] == {
        "name": "search",
        "description": "Search the archive.",
        "parameters": Tool(search).parameters,
    }
