"""The rooms of the lab: each a question, a few sentences, a formula, and stages that are touched."""

from dataclasses import dataclass, field

from posenc.errors import UnknownName
from posenc.workbench.lab import formulas


@dataclass(frozen=True)
class Try:
    """Something to try: what to look for, and the state of the room that shows it."""

    words: str
    state: dict[str, str]


@dataclass(frozen=True)
class Stage:
    """One picture and its controls; ``question`` names what is asked of the library.

    ``picks`` are parameters that a click on a column (or row) of the picture sets, one after the other.
    """

    question: str
    heading: str
    words: str = ""
    tries: tuple[Try, ...] = ()
    picks: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    """Answers to choose from before the picture is shown."""


@dataclass(frozen=True)
class Room:
    """``name`` is its address and ``short`` its entry in the list of rooms."""

    name: str
    short: str
    title: str
    words: str
    formula: str
    stages: tuple[Stage, ...] = field(default=())


def find(name: str) -> Room:
    """The room at this address."""
    for room in ROOMS:
        if room.name == name:
            return room
    raise UnknownName("room", name[:40], [room.name for room in ROOMS])


ORDER = Room(
    "order",
    "Order-blind",
    "Can attention tell order?",
    "Attention mixes vectors by their content alone, so rearranged words give rearranged outputs and nothing "
    "else. Before you change anything, say what you expect. Then break it: any positions at all, or just the "
    "causal mask, tell the same words apart.",
    formulas.EQUIVARIANCE,
    (
        Stage(
            "shuffle",
            "Rearrange the words",
            "One attention layer with fixed random weights reads both sentences. The number compares its outputs "
            "word by word.",
            (
                Try("ALiBi without a mask cannot tell a sentence from its mirror image.", {"encoding": "alibi"}),
                Try(
                    "Give the layer RoPE: “cat” at the front is no longer “cat” at the end.", {"encoding": "rotary"}
                ),
                Try("No positions, only a causal mask: order leaks in.", {"causal": "1"}),
            ),
        ),
        Stage(
            "cat-sat",
            "Two words, step by step",
            "Q = K = V = X, no weights, scale 1/√4: small enough to check by hand.",
            (Try("Jump to the swap: compare with the frame before it.", {"step": "4"}),),
        ),
        Stage(
            "attention",
            "Where does each word look?",
            "Both “the” and both “cat” have one vector each. Without positions and mask their rows are equal.",
            (
                Try("ALiBi makes every word look near itself.", {"with": "alibi"}),
                Try("A mask hides the future from both.", {"masked": "1"}),
            ),
        ),
    ),
)

CLOCK = Room(
    "clock",
    "The clock",
    "How do sines name a position?",
    "Each pair of columns is the hand of a clock: the first turns once in 6.28 positions, the last hardly moves. "
    "Together their angles are a fingerprint of the position. Moving by k turns every hand by a fixed angle, so "
    "one matrix takes PE(p) to PE(p + k) wherever p is.",
    formulas.SINUSOIDS,
    (
        Stage(
            "heatmap",
            "Two positions, one number",
            "Click two positions, or focus the picture and use arrow keys and Enter.",
            (
                Try("Neighbours are alike.", {"first": "20", "second": "21"}),
                Try("Base 10: even the slowest hand comes round again.", {"base": "10", "length": "128"}),
                Try(
                    "All sines, then all cosines: the same table without stripes.",
                    {"order": "block", "width": "128", "length": "512"},
                ),
            ),
            picks=("first", "second"),
        ),
        Stage(
            "hands",
            "The hands at one position",
            "Slower hands are drawn shorter, as on a clock.",
            (
                Try(
                    "Position 44: the fastest hand has turned 7 times and points where it began.",
                    {"position": "44"},
                ),
                Try("One million: exact, with no rounding that grows.", {"position": "1000000"}),
            ),
        ),
        Stage(
            "fingerprint",
            "Added to a word",
            "PE(0) is 0, 1, 0, 1: the first position is not nothing.",
            (Try("The same word at position 5.", {"at": "5"}),),
        ),
        Stage(
            "waves",
            "Single columns are waves",
            "Both columns of a pair share one frequency; the last of 512 falls from 1 to 0.9999978 "
            "in 20 positions.",
            (
                Try("A sine and its cosine.", {"dimensions": "0,1"}),
                Try("Up to 1000 positions the slow ones wake.", {"dimensions": "100,200,300,511", "last": "1000"}),
            ),
        ),
        Stage(
            "similarity",
            "Every two positions",
            "Cosine of their codes. Every diagonal has one value: only the distance counts.",
            (Try("Width 8 repeats itself.", {"similar": "8", "square": "128"}),),
        ),
        Stage(
            "falloff",
            "Is nearer always more alike?",
            "Does the dot product of two codes fall with every step of distance?",
            (
                Try("Width 8: it rises again from 3 to 4.", {"dot": "8"}),
                Try("Width 512: from 43 to 44.", {"dot": "512"}),
            ),
            guesses=("It falls with every step", "It rises again somewhere"),
        ),
        Stage(
            "wavelengths",
            "How slow is the slowest?",
            "A popular figure, 2π · 10 000 = 62 832, is a limit that no table reaches: 60 611 at width 512.",
            (Try("Base 100: nothing is slower than 617 at width 512.", {"base": "100"}),),
        ),
        Stage(
            "shift",
            "One matrix moves every code",
            "Fitted by least squares from data, and written down from the angles.",
            (Try("Moving by nothing is the identity.", {"by": "0"}),),
        ),
    ),
)

TABLE = Room(
    "table",
    "The table",
    "What happens one past the last row?",
    "A learned encoding is a table with a row per position, added to the word's vector. Rows start random: "
    "whatever order they show, training put there. A table of 512 rows serves lengths up to 512; position 512 "
    "has no row.",
    formulas.TABLE,
    (
        Stage(
            "table",
            "Four frames",
            "",
            (
                Try("Rows are allocated: random numbers, no order.", {"step": "2"}),
                Try("Position 5 is looked up: row 5, whatever it holds.", {"step": "3"}),
                Try("Position 8 of 8 rows: one past the end.", {"step": "4"}),
            ),
        ),
        Stage(
            "lookup",
            "Look a position up",
            "The answer is the library's own words.",
            (
                Try("The last row still answers.", {"position": "7"}),
                Try("512 rows, position 512.", {"rows": "512", "position": "512"}),
                Try("Reuse the last row, knowingly.", {"position": "12", "past_end": "clamp"}),
            ),
        ),
        Stage(
            "rows",
            "Does a fresh table know order?",
            "A table before training, beside the sinusoidal one.",
            (Try("Few columns: strangers look alike by chance.", {"columns": "8"}),),
        ),
    ),
)

ROTATION = Room(
    "rotation",
    "The rotation",
    "Why does RoPE see only the offset?",
    "RoPE turns the query by its position and the key by its own. Turn both further by the same angle and their "
    "dot product cannot change: only n − m is left. Predict the score before you move them.",
    formulas.ROTATION,
    (
        Stage(
            "shift-both",
            "Move both",
            "Faint vectors are unrotated. The yellow one is k as q at position 0 would see it.",
            (
                Try("Move from (1, 3) to (3, 5): still −1.100.", {"m": "3"}),
                Try("Offset 8 is a whole turn: 1.700 again.", {"offset": "8"}),
                Try("A real model's fastest pair turns 1 rad a step, further than π/4.", {"turn": "radian"}),
            ),
        ),
        Stage(
            "every-pair",
            "Every pair at once",
            "A random q and k. The score is the sum over pairs.",
            (
                Try("A million positions on: every picture turns, the score stays.", {"start": "1000000"}),
                Try("Offset 0: nothing but content.", {"apart": "0"}),
            ),
        ),
        Stage(
            "pairings",
            "Two pairings of channels",
            "“Interleaved” pairs channels (2i, 2i + 1), “half” pairs (i, i + d/2). One vector, both ways.",
            (Try("Position 0 is the identity in both.", {"place": "0"}),),
        ),
        Stage(
            "score",
            "Does the score decay with distance?",
            "Two equal vectors, one moved away. Commit to an answer first.",
            (
                Try("Random q and k: no decay.", {"content": "random"}),
                Try("A key built to score most 300 back.", {"content": "peaked"}),
            ),
            guesses=("Yes, the further the lower", "No"),
        ),
        Stage(
            "spread",
            "Over many random contents",
            "200 random q and k: mean 0, and as wide at 1000 as at 1.",
        ),
        Stage(
            "phases",
            "How far out do angles hold?",
            "Public checkpoints compute angles in float32. Here they run beside the library's integer turns, "
            "judged by 50-digit arithmetic.",
            (
                Try("Position 4096: both look alike.", {"far": "4096"}),
                Try("Ten million: float32 points elsewhere.", {"far": "10000000"}),
                Try("The last position of all, 2³¹ − 1.", {"far": "2147483647"}),
            ),
        ),
    ),
)

BIAS = Room(
    "bias",
    "The bias",
    "How does ALiBi make far tokens fade?",
    "ALiBi takes an amount from each score that grows with distance, and each head takes its own. There is "
    "nothing to learn and nothing to run out of. What it cannot do is look far with a steep head.",
    formulas.BIAS,
    (
        Stage(
            "bias",
            "One map a head",
            "Blue is taken away. Both sides lose alike; the causal mask is a separate matter.",
            (
                Try("With a causal mask the future is empty, not free.", {"causal": "1"}),
                Try("One head alone: slope 1/256, hardly a penalty.", {"few": "1", "length": "32"}),
                Try("Eight heads: slopes 1/2 … 1/256.", {"few": "8", "length": "16"}),
            ),
        ),
        Stage(
            "slopes",
            "The slopes",
            "For 2ᵏ heads one geometric series. Any other count borrows from the next power of two.",
            (
                Try("12 heads: two series.", {"heads": "12"}),
                Try("112 heads, as in BLOOM.", {"heads": "112"}),
            ),
        ),
        Stage(
            "weights",
            "What softmax leaves",
            "All keys equally relevant, the last token looking back.",
            (Try("4096 keys: flat heads still see them.", {"context": "4096"}),),
        ),
    ),
)

EXTENSION = Room(
    "longer",
    "Further than trained",
    "How do you go further than trained?",
    "Slow pairs never complete a turn in training, so a longer text shows them angles that nothing was learnt for. "
    "Every method slows the clock, and they differ in whom they slow. Say which pairs you would leave alone, then "
    "look.",
    formulas.EXTENSION,
    (
        Stage(
            "schedule",
            "One method, pair by pair",
            "Fast pairs are at the left. The mark is where pairs stop completing a turn in training.",
            (
                Try("PI slows all alike: neighbours blur.", {"method": "linear"}),
                Try("NTK keeps the first pair and slows the last by the full factor.", {"method": "ntk"}),
                Try(
                    "Llama 3.1: factor 8 over 8192, base 500 000.",
                    {"method": "llama3", "factor": "8", "trained": "8192", "base": "500000"},
                ),
            ),
        ),
        Stage(
            "extension",
            "All methods at once",
            "Right: the largest angle in the longer text over the largest in training, for pairs that never completed "
            "a turn. Above 1 is unknown ground.",
            (
                Try("Factor 32: NTK leaves the trained range for most slow pairs.", {"factor": "32"}),
                Try("Base 500 000: twice as many pairs never turned.", {"base": "500000", "trained": "8192"}),
            ),
        ),
    ),
)

RESULTS = Room(
    "results",
    "Results",
    "Which encoding holds past its training length?",
    "The same small transformer, trained with each encoding on this machine and tested far past its training "
    "length. Bands are 95% intervals; a run that did not learn its task is thin and not ranked. The numbers are "
    "read from a study's ledger as it grows.",
    formulas.HOLDS,
    (
        Stage(
            "curves",
            "Past the trained length",
            "The vertical line is where training ended.",
            (
                Try("Is a sequence in order? Judged at once, over its whole length.", {}),
                Try("Python's own documentation: perplexity, byte by byte.", {"task": "language"}),
                Try("A needle in a sequence: does far content survive?", {"task": "needle"}),
            ),
        ),
        Stage(
            "positions",
            "Where in the text it breaks",
            "Loss of language modelling at every position of the longest windows.",
        ),
        Stage(
            "depths",
            "Where the needle can lie",
            "Share of right answers by the needle's depth and the sequence's length.",
        ),
    ),
)

ROOMS = (ORDER, CLOCK, TABLE, ROTATION, BIAS, EXTENSION, RESULTS)
