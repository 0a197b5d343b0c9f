"""What every request of a server shares: the engine, the settings, and whether it may be asked."""

from __future__ import annotations

import json
import logging
import re
import time
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING

from sureact.errors import ConfigError, SureactError
from sureact.sampling_params import SamplingParams
from sureact.server.admission import Admission
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.client_key import KeyFile, KeyLimits
from sureact.server.metrics import Metrics
from sureact.server.request_fields import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import Scope

    from sureact.agent.tool import Tool
    from sureact.async_engine import AsyncEngine
    from sureact.server.agent_model import SaltedModel
    from sureact.server.server_config import ServerConfig
    from sureact.tokens.vocabulary import Vocabulary

SALT_OF_KEY = "sureact.cache_salt"
"""Where a request's scope holds the salt of the key that it came with, if there are keys."""

_MAX_BRIEF_REQUESTS = 4

_logger = logging.getLogger(__name__)


class Serving:
    """A model that is served."""

    def __init__(self, engine: AsyncEngine, config: ServerConfig, tools: Mapping[str, Tool] | None = None) -> None:
        """Take what is served and how, and the tools that agents may call."""
        self.engine = engine
        self.config = config
        self.tools = tools or {}
        self.lm: SaltedModel = engine.engine
        """The model of agents."""
        self.created = int(time.time())
        self.is_ready = False
        """Whether the model is loaded and has decoded a token."""
        self.keys = None if config.api_keys is None else KeyFile(config.api_keys, _key_limits(config))
        self.admission = self._new_admission(config.max_running or engine.engine.config.max_running_requests)
        self.brief_admission = self._new_admission(_MAX_BRIEF_REQUESTS)
        """Of requests that decode nothing, which do not wait for those that do."""
        self.metrics = Metrics(self.model_name, engine.stats, lambda: self.admission.num_waiting)

    def _new_admission(self, max_running: int) -> Admission:
        config = self.config
        return Admission(
            max_running=max_running,
            max_queued=config.max_queued,
            queue_timeout_s=config.queue_timeout_s,
            request_timeout_s=config.request_timeout_s,
            max_agents=config.max_agents,
        )

    @cached_property
    def model_name(self) -> str:
        """Name that clients give the model. Of a file or folder only the last part: its path is nobody's business."""
        return self.config.served_model_name or re.split(r"[/\\]", self.engine.engine.name.rstrip("/\\"))[-1]

    @property
    def vocabulary(self) -> Vocabulary:
        """The model's token ids."""
        return self.engine.engine.vocabulary

    def check_model(self, name: str | None) -> None:
        """Refuse a request for another model.

        Raises:
            ApiError: there is none of that name.
        """
        if name not in (None, self.model_name):
            raise ApiError(
                f"There is no model {shown(name)}; this server has {self.model_name!r}.",
                status=HTTPStatus.NOT_FOUND,
                param="model",
                code="model_not_found",
            )

    def check_token_ids(self, token_ids: Sequence[int], param: str) -> None:
        """Refuse ids that the model does not have.

        Raises:
            ApiError: one of them is none.
        """
        try:
            self.engine.engine.encode(token_ids)
        except ConfigError as error:
            raise api_error_of(error, param=param) from error

    def cache_salt(self, scope: Scope, asked: str | None) -> str | None:
        """Return with whom a request shares cached beginnings: those of its key, and of what it asks for itself."""
        own = scope.get(SALT_OF_KEY)
        return None if own is None and asked is None else json.dumps([own, asked])

    def control_id(self, token: str) -> int | None:
        """Return the id of a control token, such as `<think>`; None if the tokenizer has none of that name."""
        if token.endswith(" "):  # which no prompt may end in
            return None
        ids = self.engine.engine.encode(token, parse_control_tokens=True)
        return ids[0] if len(ids) == 1 and ids[0] in self.vocabulary.control_ids else None

    async def warm_up(self) -> None:
        """Decode a token, so that the first request finds everything loaded; then the server is ready."""
        try:
            await self.engine.generate("\n", SamplingParams(max_tokens=1))
        except SureactError:
            _logger.exception("The model could not decode a token; the server stays unready")
            return
        self.is_ready = not self.admission.is_draining


def _key_limits(config: ServerConfig) -> KeyLimits:
    return KeyLimits(
        max_running=config.key_max_running,
        max_queued=config.key_max_queued,
        max_requests_per_minute=config.key_max_requests_per_minute,
    )
