"""Guarantees and claims as the service returns them: the JSON of the library, described."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from sottovoce.privacy.guarantee import Claim, Guarantee, Statement

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
