from sureact.agent.language_model import LanguageModel, LanguageModelSession
from sureact.agent.scripted_model import ScriptedModel


def test_a_model_is_recognized_by_its_shape_alone():
    model: LanguageModel = ScriptedModel([])
    session: LanguageModelSession = model.session()
    assert session.append("ab") == len(session.token_ids) == 2
