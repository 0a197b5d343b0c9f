from sureact_kernels.triton.product_cases import AOT


def test_names_are_distinct_and_say_op_and_dtype() -> None:
    names = [case.name for case in AOT]
    assert len(set(names)) == len(names)
    for op in ("linear", "gated_linear"):
        for form in ("bfloat16", "float16", "float32", "int8", "int4 in groups of 32", "fp8"):
            assert any(name.startswith(f"{op} {form} [") for name in names)


def test_signatures_name_every_parameter_and_constants_every_constexpr() -> None:
    for case in AOT:
        assert list(case.signature) == case.kernel.arg_names
        assert {name for name, kind in case.signature.items() if kind == "constexpr"} == set(case.constexprs)
