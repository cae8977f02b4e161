"""The pages that the lessons' data make: the index by lesson, and every question with its answer."""

from posenc.teaching.lessons.card import DECK, KINDS, TOPICS, Card
from posenc.teaching.lessons.deck import answered
from posenc.teaching.lessons.facts import FACTS
from posenc.teaching.lessons.index import Entry, entry

WRITTEN_BY = "\n`make pages` writes this page.\n"

INDEX = """# By lesson

For whoever teaches or learns from the five lessons: each section, and where it is found here. A *page* explains, a
*claim* is a sentence that is run, an *exercise* is done; in the lab a section is looked at and touched. On the site
its stages are links; an address such as `/results` follows that of the lab, which `posenc lab` opens.
`posenc show NAME` draws a figure.
"""

QUESTIONS = """# Questions

Short answers to what is asked in lessons and interviews; numbers are computed by the library. ★ is easy, ★★ common,
★★★ hard; a question wants something recalled, derived, or weighed (a trade-off). Companies are those whose models
or papers it is about. The lab asks the same questions, one at a time, and says why a wrong choice is wrong;
`posenc lab --get /api/quiz` prints them.
"""

ASKED = "questions.md"
"""The page of questions."""
COLUMNS = "| section | page, question | claim | in the lab | exercise |\n| --- | --- | --- | --- | --- |\n"


LESSONS = range(5)
"""Numbers of the lessons, from 0."""
GROUPS = {
    "a-encoding": "Encodings",
    "a-property": "Properties and derivations",
    "story": "Properties and derivations",
    "a-widget": "To touch and to look at",
    "a-exercise": "Exercises",
    "quiz": "Quiz",
    "interview": "Interview questions",
    "models": "Models and reading",
    "reading": "Models and reading",
    "b": "Where lessons are wrong or disagree",
    "other": "Where lessons are wrong or disagree",
}
"""The part of a lesson that a row belongs to, by how the row's name begins."""


def index_page() -> str:
    """The index by lesson in Markdown."""
    parts = [INDEX, WRITTEN_BY]
    for number in LESSONS:
        parts.append(f"\n## Lesson {number} {{ #lesson-{number} }}\n")
        for words, entries in of_lesson(number).items():
            parts.append(f"\n### {words} {{ #lesson-{number}-{words.lower().replace(' ', '-')} }}\n\n{COLUMNS}")
            parts += [_row(entry) for entry in entries]
    return "".join(parts)


def of_lesson(number: int) -> dict[str, list[Entry]]:
    """The sections of a lesson by group, in the order of the groups."""
    taught = [fact for fact in FACTS if number in fact.lessons]
    by_group = {words: [entry(fact) for fact in taught if group(fact.row) == words] for words in GROUPS.values()}
    return {words: entries for words, entries in by_group.items() if entries}


def group(row: str) -> str:
    """The part of a lesson that a row belongs to; rows of no lesson have none."""
    for start, words in GROUPS.items():
        if row.startswith(f"{start}-") or row == start or (row[len(start) :].isdecimal() and row.startswith(start)):
            return words
    return ""


def _row(entry: Entry) -> str:
    asked = [f"[{_words(card.name)}?]({ASKED}#{card.name})" for card in entry.cards]
    pages = [page for page in entry.pages if page != ASKED or not asked]  # a question is on it, by its name
    drawn = [f"`posenc show {name}`" for name in entry.views]
    cells = (
        entry.what,
        ", ".join([*map(_page, pages), *asked]),
        ", ".join(_claim(name) for name in entry.claims),
        ", ".join([*(_stage(stage) for stage in entry.stages), *drawn]),
        ", ".join(_page(page) for page in entry.exercises),
    )
    return f"| {' | '.join(cell or '–' for cell in cells)} |\n"


def questions_page() -> str:
    """Every question with its answer in Markdown."""
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
    lessons = ", ".join(map(str, card.lessons))
    about = f"{KINDS[card.kind]} · lesson{'s' if len(card.lessons) > 1 else ''} {lessons}"
    return (
        f"\n### {card.prompt} {{ #{card.name} }}\n\n"
        f"{'★' * card.stars} {about} · {', '.join(card.companies)}\n\n"
        f"{answer}\n\n"
        f"Settled by {', '.join(_claim(name) for name in card.claims)}. In the lab: {_stage(card.stage)}\n"
    )


def _page(page: str) -> str:
    return f"[{_words(page.removesuffix('.md').rpartition('/')[2])}]({page})"


def _words(name: str) -> str:
    return name.removeprefix("interview-").replace("-", " ")


def _claim(name: str) -> str:
    return f"[{name}](claims.md#{name})"


def _stage(stage: str) -> str:
    """The address below the lab's."""
    room, _, name = stage.partition("/")
    return f"`/{room}#{name}`"
