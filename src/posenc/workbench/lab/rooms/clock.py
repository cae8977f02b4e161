"""The clock: how do sines name a position?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

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
            "fill",
            "Row by row",
            "Twelve positions, eight dimensions: small enough to check with a calculator.",
            (Try("Row 1: sin 1, cos 1, sin 0.1, cos 0.1 …", {"step": "3"}),),
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
            "sums",
            "Can the sum be taken apart?",
            "A word and a position are added once and travel as one vector. One linear reading looks for each of "
            "them in the sum.",
            (
                Try("Width 8: every word overlaps every position.", {"sum": "8"}),
                Try("Width 512: words are all found; neighbours still look alike.", {"sum": "512"}),
            ),
        ),
        Stage(
            "counter",
            "A binary counter",
            "Bit 0 flips at every step, bit 1 at every second. Hands do the same without jumping.",
            (
                Try(
                    "The ladder of base 10 000: each hand ten times slower than the one before.", {"ladder": "real"}
                ),
                Try("Eight bits, 256 positions.", {"bits": "8", "count": "256"}),
            ),
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
