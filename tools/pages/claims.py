"""The page of claims: every statement with its verdict."""

import json
from itertools import groupby

from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.claims.claim import Claim
from posenc.teaching.lessons.facts import LESSONS, teaching_claim

HEAD = """# Claims

Common statements about positional encodings, and the verdict on each. `posenc verify` runs them and exits with status 1 if a verdict
changes; `--only NAME` runs one, `--slow` adds those that train a model. The lab's `/claims` asks for your guess first. `make pages`
writes this page.
"""  # noqa: E501


def page() -> str:
    """The page in Markdown. It holds no measured digits, so that every machine writes the same."""
    parts = [HEAD]
    for module, group in groupby(CLAIMS.values(), key=lambda c: c.topic):
        parts.append(f"\n## {module}\n")
        parts += [_claim(c) for c in group]
    return "".join(parts)


def _claim(claim: Claim) -> str:
    slow = " Trains a model: `--slow`." if claim.slow else ""
    return (
        f'\n### {claim.name}\n\n"{claim.statement}"\n\n'
        f"**{claim.verdict.value.capitalize()}.** {claim.precise} ({claim.source}){slow}\n"
    )


def kept() -> str:
    """Every claim's verdict as JSON, for pages that do not run it; slow says that it trains a model."""
    claims = {
        claim.name: {
            "topic": claim.topic,
            "statement": claim.statement,
            "verdict": claim.verdict.value,
            "precise": claim.precise,
            "source": claim.source,
            "slow": claim.slow,
            "lessons": sorted({LESSONS.index(lesson) for lesson, _ in teaching_claim(claim.name)}),
        }
        for claim in CLAIMS.values()
    }
    return json.dumps(claims, indent=1, ensure_ascii=False) + "\n"
