"""`/v1/models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving


async def answer_models(serving: Serving, exchange: Exchange) -> None:
    """List the models, of which there is one."""
    await exchange.send_json({"object": "list", "data": [_model(serving)]})


async def answer_model(serving: Serving, exchange: Exchange) -> None:
    """Describe one model.

    Raises:
        ApiError: there is none of that name.
    """
    serving.check_model(exchange.scope["path_params"]["model"])
    await exchange.send_json(_model(serving))


def _model(serving: Serving) -> dict[str, Any]:
    return {
        "id": serving.model_name,
        "object": "model",
        "created": serving.created,
        "owned_by": "sureact",
        "max_model_len": serving.engine.engine.context_len,
    }
