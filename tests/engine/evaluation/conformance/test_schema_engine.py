from sureact.evaluation.conformance.schema_engine import CompiledCase, Walk


class Bare(CompiledCase):
    def new_walk(self) -> Walk:
        raise NotImplementedError


def test_a_case_has_neither_guard_nor_judge_unless_its_engine_has() -> None:
    assert not Bare().is_guarded
    assert Bare().fault("anything") is None
