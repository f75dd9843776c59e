"""The work behind the endpoints: from a valid request to its answer, without HTTP.

`Resources` holds what is loaded at startup. Threads of this process use it (`workers.Threads`), or
processes that can be killed (`processes.Processes`).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from sottovoce.serve.deidentify import DeidentifyRequest, Detectors, deidentified
from sottovoce.serve.epsilon import EpsilonRequest, epsilon_of
from sottovoce.serve.guard import GuardRequest, RestoreRequest, brought_back, guarded
from sottovoce.serve.limits import Deadline
from sottovoce.serve.parse import Predict, load_parser, parsed
from sottovoce.serve.requests import Texts
from sottovoce.serve.rescore import Rescorer, RescoreRequest, rescored
from sottovoce.serve.settings import Settings
from sottovoce.serve.workers import Answer, Verb


@dataclass(frozen=True)
class Loaded:
    """What is loaded, as /about says it."""

    detector: str
    parse: bool
    rescore: bool


class Resources:
    """The detectors, the model of a run and the language model of a service."""

    def __init__(self, settings: Settings, predict: Predict | None = None) -> None:
        if predict is None and settings.run is not None:
            predict = load_parser(settings.run)
        rescorer = None
        if settings.lm is not None:
            rescorer = Rescorer.load(settings.lm, settings.marginals, settings.weights)
        detectors = Detectors(settings.detector)
        self.loaded = Loaded(detectors.default.name, predict is not None, rescorer is not None)
        self._work: dict[Verb, Callable[[str, Deadline], Answer]] = {
            Verb.DEIDENTIFY: lambda body, deadline: deidentified(
                detectors, DeidentifyRequest.model_validate_json(body), deadline
            ),
            Verb.PARSE: lambda body, deadline: parsed(
                predict, Texts.model_validate_json(body), deadline
            ),
            Verb.RESCORE: lambda body, deadline: rescored(
                rescorer, RescoreRequest.model_validate_json(body), deadline
            ),
            Verb.EPSILON: lambda body, _: epsilon_of(EpsilonRequest.model_validate_json(body).root),
            Verb.GUARD: lambda body, deadline: guarded(
                detectors, GuardRequest.model_validate_json(body), deadline
            ),
            Verb.RESTORE: lambda body, deadline: brought_back(
                RestoreRequest.model_validate_json(body), deadline
            ),
        }

    def warm_up(self) -> None:
        """Load what the first request would load, so that forked processes have it."""
        for strategy in ("entity", "word"):
            body = json.dumps({"text": "call 555-0123", "strategy": strategy})
            self.answer(Verb.DEIDENTIFY, body, Deadline(60))

    def answer(self, verb: Verb, body: str, deadline: Deadline) -> Answer:
        """The answer to a request that was validated before; `body` is its JSON."""
        return self._work[verb](body, deadline)
