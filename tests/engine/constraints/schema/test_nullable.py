from sureact.constraints.schema.nullable import with_null


def test_null_is_one_of_the_options_at_every_depth() -> None:
    schema = {"properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string", "nullable": False}}}
    assert with_null(schema) == {
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {"type": "string"}}
    }


def test_what_is_referred_to_stays_where_it_was() -> None:
    schema = {"$defs": {"d": {"type": "string"}}, "$ref": "#/$defs/d", "nullable": True}
    assert with_null(schema) == {
        "$defs": {"d": {"type": "string"}},
        "anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}],
    }


def test_a_property_of_that_name_is_no_keyword() -> None:
    schema = {"properties": {"nullable": {"type": "boolean"}}}
    assert with_null(schema) == schema
    assert with_null(True) is True
