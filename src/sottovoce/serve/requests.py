"""What requests have in common: strict fields, and texts in bounds."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sottovoce.privacy.guarantee import Claim, Guarantee, Statement
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


Epsilon = Annotated[float | Literal["inf"], Field(description='A number, or "inf".')]


class RecipeGuarantee(BaseModel):
    """What is true."""

    epsilon: Epsilon
    delta: float
    unit: str = Field(description="token, utterance, user or example")
    relation: str = Field(description="replace-one or add-or-remove")
    accountant: str
    verdict: str = Field(description="holds or no-guarantee")
    reasons: list[str]
    assumptions: list[str]


class FullGuarantee(RecipeGuarantee):
    """What is true, what it rests on, and what it leaves out."""

    notion: str = Field(description="dp or metric-dp")
    not_covered: list[str]
    sentence: str = Field(description="The same in one sentence.")


class Claimed(BaseModel):
    """What the publication of the recipe says of it."""

    epsilon: Epsilon
    log10_epsilon: float | Literal["inf", "-inf"] | None
    delta: float
    how: str


class RecipeStatement(BaseModel):
    """Claimed beside true."""

    claimed: Claimed
    guarantee: RecipeGuarantee
    effective_noise_multiplier: float | None


def recipe_statement(statement: Statement) -> dict[str, Any]:
    """The JSON that `sottovoce epsilon --json` prints."""
    guarantee = statement.guarantee.to_json()
    return {
        "claimed": statement.claimed.to_json(),
        "guarantee": {name: guarantee[name] for name in RecipeGuarantee.model_fields},
        "effective_noise_multiplier": statement.effective_noise_multiplier,
    }


def full_guarantee(guarantee: Guarantee) -> dict[str, Any]:
    return guarantee.to_json() | {"sentence": str(guarantee)}


def claimed(claim: Claim | None) -> dict[str, Any] | None:
    return None if claim is None else claim.to_json()
