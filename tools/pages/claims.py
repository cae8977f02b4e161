"""The page of claims, with every statement and its verdict."""

import json
from itertools import groupby

from posenc.teaching.claims.catalogue import CLAIMS
from posenc.teaching.claims.claim import Claim
from posenc.teaching.lessons.facts import LESSONS, of_section

HEAD = """# Claims

This page lists statements about positional encodings, most from [lessons](lessons.md), with verdicts.
`posenc verify` tests them and exits with status 1 if a verdict changes. `--only NAME` tests one statement; `--slow`
also runs tests that train a model.
*Holds conditionally*: true only under the conditions given.
`make pages` writes this page.
"""


def page() -> str:
    """Return the page in Markdown, without measured digits, so that every machine writes the same page."""
    parts = [HEAD]
    for module, group in groupby(CLAIMS.values(), key=lambda c: c.topic):
        parts.append(f"\n## {module}\n")
        parts += [_claim(c) for c in group]
    return "".join(parts)


def _claim(claim: Claim) -> str:
    slow = " Needs `--slow`." if claim.slow else ""
    verdict = claim.verdict.value.replace("when", "conditionally").capitalize()
    return f'\n### {claim.name}\n\n"{claim.statement}"\n\n**{verdict}.** {claim.precise} ({claim.source}){slow}\n'


def kept() -> str:
    """Return every claim with its verdict as JSON, for pages that do not run claims; slow claims train a model."""
    claims = {
        claim.name: {
            "topic": claim.topic,
            "statement": claim.statement,
            "verdict": claim.verdict.value,
            "precise": claim.precise,
            "source": claim.source,
            "slow": claim.slow,
            "lessons": [
                number
                for number, lesson in enumerate(LESSONS)
                if any(claim.name in entry.claims for part in lesson.sections for _, entry in of_section(part))
            ],
        }
        for claim in CLAIMS.values()
    }
    return json.dumps(claims, indent=1, ensure_ascii=False) + "\n"
