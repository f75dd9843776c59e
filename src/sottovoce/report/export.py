"""The report in the form of others: an entry of OpenDP's registry, or a statement for NIST.

What the ledgers know is filled in; what only people know is marked `BLANK`. An entry is JSON, which
readers of YAML read too; its shape is that of github.com/opendp/deployments-registry-data.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sottovoce import __version__
from sottovoce.privacy.guarantee import Guarantee, rounded_up
from sottovoce.privacy.risk import in_words
from sottovoce.report.entries import rows
from sottovoce.report.render import Report
from sottovoce.report.stage import Stage

BLANK = "You must say"
_KINDS = {"train": "Machine learning model", "deid": "Dataset", "federate": "Summary statistics"}


class Form(StrEnum):
    REGISTRY = "registry"
    NIST = "nist"


def exported(report: Report, form: Form) -> dict[str, Any]:
    """The report in this form."""
    return registry_entry(report) if Form(form) == Form.REGISTRY else nist_statement(report)


def registry_entry(report: Report) -> dict[str, Any]:
    """An entry of the registry, of tier 3 as far as the ledgers know."""
    stages = [stage for stage in report.stages if not stage.reference]
    stated = _stated(report, stages)
    loss: dict[str, Any] = {"privacy_unit": BLANK, "privacy_unit_details": BLANK}
    variant = "Custom"
    if stated is not None and stated.holds:
        variant = "Approximate DP" if stated.delta else "Pure DP"
        loss = {
            "privacy_unit": str(stated.unit),
            "privacy_unit_details": f"{stated.relation} of one {stated.unit}",
            "privacy_parameters": {"epsilon": stated.epsilon, "delta": stated.delta},
            "privacy_parameters_details": in_words(stated),
        }
    verb = stages[0].verb if stages else ""
    return {
        "url_slug": "_".join(report.title.lower().split()) or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": report.title,
                "data_curators": [report.author or BLANK],
                "description": report.scope or BLANK,
                "intended_use": BLANK,
                "data_product_type": _KINDS.get(verb, "Summary statistics"),
                "data_product_region": BLANK,
                "publication_date": datetime.now(UTC).date().isoformat(),
            },
            "dp_variant": {
                "variant_name": variant,
                "data_domain": BLANK,
                "unprotected_quantities": _together(
                    each for s in stages for t in s.stated for each in t.guarantee.not_covered
                ),
            },
            "privacy_loss": loss,
            "deployment_model": {
                "model_name": "Federated" if verb == "federate" else "Central",
                "actors": BLANK,
                "release_type": "Many releases" if len(stages) > 1 else "One release",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "composition": report.judgement.total.way if report.judgement.total else BLANK,
                "post_processing": BLANK,
            },
            "implementation": {
                "mechanisms": _together(
                    f"{row.times:,} x {row.what}"
                    for stage in stages
                    for ledger in list(stage.ledgers.values())[-1:]
                    for row in rows(ledger)
                ),
                "justification": f"{report.policy.name}: {report.policy.about}",
                "preprocessing_and_hyperparameter_tuning": BLANK,
            },
        },
    }


def nist_statement(report: Report) -> dict[str, Any]:
    """A statement on what NIST SP 800-226 asks evaluators to look at."""
    stages = [stage for stage in report.stages if not stage.reference]
    stated = _stated(report, stages)
    return {
        "title": report.title,
        "decision": str(report.judgement.decision),
        "privacy parameters": None
        if stated is None
        else {
            "epsilon": rounded_up(stated.epsilon) if stated.holds else "none",
            "delta": stated.delta,
            "in words": in_words(stated),
        },
        "unit of privacy": BLANK if stated is None else str(stated.unit),
        "neighbouring datasets": BLANK if stated is None else str(stated.relation),
        "mechanisms": [
            {"release": stage.name, "executed": [f"{r.times:,} x {r.what}" for r in rows(ledger)]}
            for stage in stages
            for ledger in list(stage.ledgers.values())[-1:]
        ],
        "composition": report.judgement.total.way if report.judgement.total else BLANK,
        "assumptions": sorted(
            {a for s in stages for t in s.stated for a in t.guarantee.assumptions}
        ),
        "not covered": sorted(
            {a for s in stages for t in s.stated for a in t.guarantee.not_covered}
        ),
        "trust model": BLANK,
        "utility and bias": BLANK,
        "security and access control": BLANK,
        "data collection and exposure": BLANK,
        "side channels": BLANK,
        "software": f"sottovoce {__version__}",
        "findings": [finding.to_json() for finding in report.judgement.findings],
    }


def _stated(report: Report, stages: Sequence[Stage]) -> Guarantee | None:
    """The guarantee to one person over all stages, or else that of the only stage."""
    total = report.judgement.total
    if total is not None and total.guarantee is not None:
        return total.guarantee
    return stages[0].main.guarantee if len(stages) == 1 and stages[0].main else None


def _together(sentences: Any) -> str:
    return "; ".join(dict.fromkeys(sentences)) or BLANK
