"""Request and response models that several endpoints share."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sottovoce.privacy.guarantee import Claim, Guarantee, Statement
from sottovoce.serve.problems import Problem, Rule
from sottovoce.serve.settings import MAX_CHARACTERS, MAX_CHARACTERS_IN_ALL, MAX_TEXTS

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning}
    for status, meaning in {
        400: "The body is not valid JSON.",
        401: "The token is missing or wrong.",
        408: "The body took too long to arrive.",
        413: "The body is too large, or the request needs too much memory.",
        415: "The body is not application/json.",
        421: "Unknown Host header.",
        422: "A field is invalid.",
        429: "Too many wrong tokens from this address.",
        500: "Internal error.",
        503: "The service is busy, or the model for this endpoint is not loaded.",
        504: "The time limit was reached.",
    }.items()
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses with these status codes."""
    return {status: ERROR_RESPONSES[status] for status in statuses}


class Body(BaseModel):
    """A strict body: no unknown fields, no type coercion, finite numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Texts(Body):
    """One text, or several."""

    text: Text | None = Field(None, description="One utterance.")
    texts: list[Text] | None = Field(
        None, description="Several utterances.", min_length=1, max_length=MAX_TEXTS
    )

    @model_validator(mode="after")
    def _either(self) -> "Texts":
        if (self.text is None) == (self.texts is None):
            raise Rule("needs exactly one of text and texts")
        if sum(map(len, self.every)) > MAX_CHARACTERS_IN_ALL:
            raise Rule(f"has more than {MAX_CHARACTERS_IN_ALL} characters in all")
        return self

    @property
    def every(self) -> list[str]:
        """All texts."""
        return [self.text] if self.text is not None else (self.texts or [])


Epsilon = Annotated[float | Literal["inf"], Field(description='A number, or "inf".')]


class RecipeGuarantee(BaseModel):
    """The guarantee."""

    epsilon: Epsilon
    delta: float
    unit: str = Field(description="token, utterance, user or example")
    relation: str = Field(description="replace-one or add-or-remove")
    accountant: str
    verdict: str = Field(description="holds or no-guarantee")
    reasons: list[str]
    assumptions: list[str]


class FullGuarantee(RecipeGuarantee):
    """The guarantee, with its notion, gaps and sentence."""

    notion: str = Field(description="dp or metric-dp")
    not_covered: list[str]
    sentence: str = Field(description="The guarantee in one sentence.")


class Claimed(BaseModel):
    """The claim of the publication of the recipe."""

    epsilon: Epsilon
    log10_epsilon: float | Literal["inf", "-inf"] | None
    delta: float
    how: str


class RecipeStatement(BaseModel):
    """Claim and guarantee."""

    claimed: Claimed
    guarantee: RecipeGuarantee
    effective_noise_multiplier: float | None


def recipe_statement(statement: Statement) -> dict[str, Any]:
    """The output of `sottovoce epsilon --json`."""
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
