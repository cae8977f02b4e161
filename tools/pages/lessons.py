"""The pages generated from the lessons' data: the index by lesson, and all questions with answers."""

from posenc.teaching.lessons.card import DECK, TOPICS, Card
from posenc.teaching.lessons.deck import answered
from posenc.teaching.lessons.facts import LESSONS, Entry, Fact, of_section

WRITTEN_BY = "\n`make pages` writes this page.\n"

INDEX = """# By lesson

Entries link to pages, claims, stages of the lab (`posenc lab`) and exercises. *Disputed*
marks statements that are wrong or on which lessons disagree.
"""

QUESTIONS = """# Questions

Questions from lessons and interviews; ★ is easy, ★★★ is hard. The linked, tested claims support the answers.
`posenc lab` asks the same questions and explains each wrong choice.
"""

ASKED = "questions.md"
"""The address of the page of questions."""


def index_page() -> str:
    """Return the index by lesson in Markdown."""
    parts = [INDEX, WRITTEN_BY]
    for number, lesson in enumerate(LESSONS):
        parts.append(f"\n## {lesson.title} {{ #lesson-{number} }}\n")
        for section in lesson.sections:
            parts.append(f"\n### {section.title}\n\n")
            parts += [_row(fact, entry) for fact, entry in of_section(section)]
    return "".join(parts)


def _row(fact: Fact, entry: Entry) -> str:
    asked = [f"[{_words(card.name)}?]({ASKED}#{card.name})" for card in entry.cards]
    pages = [page for page in entry.pages if page != ASKED or not asked]  # already linked from the question
    what = f"**Disputed:** {fact.what}" if fact.errs else fact.what
    links = [
        *map(_page, pages),
        *asked,
        *(_claim(name) for name in entry.claims),
        *(_stage(stage) for stage in entry.stages),
        *map(_page, entry.exercises),
    ]
    return f"- {what} ({', '.join(links)})\n" if links else f"- {what}\n"


def questions_page() -> str:
    """Return every question with its answer in Markdown."""
    parts = [QUESTIONS, WRITTEN_BY, "\n## Interviews\n"]
    parts += [_question(card) for card in DECK if card.interview]
    for topic, words in TOPICS.items():
        parts.append(f"\n## Quick checks: {words}\n")
        parts += [_question(card) for card in DECK if card.topic == topic and not card.interview]
    return "".join(parts)


def _question(card: Card) -> str:
    right = next((option.words for option in card.options if option.right), "")
    answer = answered(card)
    if not answer.startswith(right):
        answer = f"{right}. {answer}"
    settled = ", ".join(_claim(name) for name in card.claims)
    return f"\n### {card.prompt} {{ #{card.name} }}\n\n{'★' * card.stars} {answer} ({settled})\n"


def _page(page: str) -> str:
    return f"[{_words(page.removesuffix('.md').rpartition('/')[2])}]({page})"


def _words(name: str) -> str:
    return name.removeprefix("interview-").replace("-", " ")


def _claim(name: str) -> str:
    return f"[{name}](claims.md#{name})"


def _stage(stage: str) -> str:
    """Return the address of a stage, relative to the lab's address."""
    room, _, name = stage.partition("/")
    return f"`/{room}#{name}`"
