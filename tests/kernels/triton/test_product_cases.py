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


def test_products_with_a_bias_are_compiled_too() -> None:
    biased = [case for case in AOT if case.constexprs["HAS_BIAS"]]
    assert {case.kernel for case in biased} == {case.kernel for case in AOT}
    assert {case.signature["bias_ptr"] for case in biased} == {"*bf16", "*fp32"}
    assert all(case.name.rpartition("] ")[2].startswith("with bias") for case in biased)
