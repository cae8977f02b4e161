"""Order-blind: can attention tell order?"""

from posenc.workbench.lab import formulas
from posenc.workbench.lab.rooms.room import Room, Stage, Try

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
