"""What requests have in common: strict fields, and texts in bounds."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sottovoce.serve.problems import Problem, Rule
from sottovoce.serve.settings import LONGEST_TEXT, MOST_TEXTS

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning}
    for status, meaning in {
        400: "The body is not JSON.",
        401: "The token is missing.",
        408: "The body came too slowly.",
        413: "The body is too large.",
        421: "The service was called by another name.",
        422: "A field is not what it has to be.",
        500: "The service failed.",
        503: "The service is busy, or was started without what this needs.",
        504: "The time limit was reached.",
    }.items()
}


def refusals_of(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Those refusals that an endpoint without a body knows."""
    return {status: REFUSALS[status] for status in statuses}


class Body(BaseModel):
    """A body with the fields below and no others; numbers are numbers and finite."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Texts(Body):
    """One text, or several."""

    text: Text | None = Field(None, description="One utterance.")
    texts: list[Text] | None = Field(
        None, description="Several utterances.", min_length=1, max_length=MOST_TEXTS
    )

    @model_validator(mode="after")
    def _either(self) -> "Texts":
        if (self.text is None) == (self.texts is None):
            raise Rule("needs either text or texts, and not both")
        return self

    @property
    def every(self) -> list[str]:
        """The texts, however they came."""
        return [self.text] if self.text is not None else (self.texts or [])
