// The loops over rows for one type. rows.c includes this file four times, and defines before each:
//
//     TYPE     the suffix of the names
//     ELEMENT  the type of the numbers in memory
//     WORK     the type of the arithmetic
//     VECTOR   a register of WORK
//     LANES    the number of WORK in a register, as a literal
//
// It also defines WIDE if ELEMENT is WORK, or else the functions from, to, split and joined with this suffix; and
// BY_TWO if there is a function two with this suffix, which rotates half pairs in two registers at a time.

#define NAMED(name) JOIN(name##_, TYPE)

// Load and store consecutive numbers or pairs of neighbours: a whole register, or only n of them.
#if defined(WIDE)
INLINE VECTOR NAMED(get)(const ELEMENT* at, bool whole, int64_t n) {
    return (VECTOR)load(at, whole, n * (int64_t)sizeof(ELEMENT));
}
INLINE void NAMED(put)(ELEMENT* at, VECTOR v, bool stream, bool whole, int64_t n) {
    store(at, (Bits)v, stream, whole, n * (int64_t)sizeof(ELEMENT));
}
INLINE void NAMED(get_pairs)(const ELEMENT* at, VECTOR* a, VECTOR* b, bool whole, int64_t n) {
    VECTOR low = NAMED(get)(at, whole, 2 * n), high = {0};
    if (whole || 2 * n > LANES) high = NAMED(get)(at + LANES, whole, 2 * n - LANES);
    *a = SHUFFLED(low, high, JOIN(EVEN_, LANES));
    *b = SHUFFLED(low, high, JOIN(ODD_, LANES));
}
INLINE void NAMED(put_pairs)(ELEMENT* at, VECTOR a, VECTOR b, bool stream, bool whole, int64_t n) {
    NAMED(put)(at, SHUFFLED(a, b, JOIN(LOW_, LANES)), stream, whole, 2 * n);
    if (whole || 2 * n > LANES)
        NAMED(put)(at + LANES, SHUFFLED(a, b, JOIN(HIGH_, LANES)), stream, whole, 2 * n - LANES);
}
#else
INLINE VECTOR NAMED(get)(const ELEMENT* at, bool whole, int64_t n) {
    return JOIN(from_, TYPE)(load_short(at, whole, 2 * n));
}
INLINE void NAMED(put)(ELEMENT* at, VECTOR v, bool stream, bool whole, int64_t n) {
    store_short(at, JOIN(to_, TYPE)(v), stream, whole, 2 * n);
}
INLINE void NAMED(get_pairs)(const ELEMENT* at, VECTOR* a, VECTOR* b, bool whole, int64_t n) {
    NAMED(split)(load(at, whole, 4 * n), a, b);
}
INLINE void NAMED(put_pairs)(ELEMENT* at, VECTOR a, VECTOR b, bool stream, bool whole, int64_t n) {
    store(at, NAMED(joined)(a, b), stream, whole, 4 * n);
}
#endif

INLINE void NAMED(some)(const ELEMENT* x, ELEMENT* y, const WORK* cosines, const WORK* sines, int64_t pairs,
                        int64_t at, int64_t n, bool half, bool stream, bool whole) {
    VECTOR cos = (VECTOR)load(cosines + at, whole, n * (int64_t)sizeof(WORK));
    VECTOR sin = (VECTOR)load(sines + at, whole, n * (int64_t)sizeof(WORK)), a, b;
    if (half) {
        a = NAMED(get)(x + at, whole, n);
        b = NAMED(get)(x + pairs + at, whole, n);
    } else {
        NAMED(get_pairs)(x + 2 * at, &a, &b, whole, n);
    }
    VECTOR left = a * cos - b * sin, right = b * cos + a * sin;
    if (half) {
        NAMED(put)(y + at, left, stream, whole, n);
        NAMED(put)(y + pairs + at, right, stream, whole, n);
    } else {
        NAMED(put_pairs)(y + 2 * at, left, right, stream, whole, n);
    }
}

// Rotates n rows of channels. The stride between rows is the job's stride along the axis.
INLINE void NAMED(rows)(const struct Job* job, const ELEMENT* x, ELEMENT* y, const WORK* cos, const WORK* sin,
                        int64_t n, int axis, bool half, bool stream, bool ahead) {
    // Local copies, because the compiler cannot know that the fields of the job do not change.
    const int64_t pairs = job->pairs, rest = job->rest;
    const int64_t next_x = job->x[axis], next_y = job->y[axis], next_table = job->table[axis];
    for (; n > 0; n--, x += next_x, y += next_y, cos += next_table, sin += next_table) {
        if (ahead) ask_for((uintptr_t)x + AHEAD * next_x * sizeof(ELEMENT), 2 * pairs * sizeof(ELEMENT));
        int64_t at = 0;
#if defined(BY_TWO)
        for (; half && at + 2 * LANES <= pairs; at += 2 * LANES) NAMED(two)(x, y, cos, sin, pairs, at, stream);
#endif
        for (; at + LANES <= pairs; at += LANES)
            NAMED(some)(x, y, cos, sin, pairs, at, LANES, half, stream, true);
        if (at < pairs) NAMED(some)(x, y, cos, sin, pairs, at, pairs - at, half, false, false);
        if (rest && x != y) memcpy(y + 2 * pairs, x + 2 * pairs, rest * sizeof(ELEMENT));
    }
}

INLINE void NAMED(tokens)(const struct Call* call, int64_t b, int64_t first, int64_t last, bool half, bool stream) {
    const struct Job* job = call->job;
    const ELEMENT* x = (const ELEMENT*)call->x + b * job->x[0] + first * job->x[2];
    const WORK* cos = (const WORK*)call->cos + b * job->table[0] + first * job->table[2];
    const WORK* sin = (const WORK*)call->sin + b * job->table[0] + first * job->table[2];
    ELEMENT* y = (ELEMENT*)call->y + b * job->y[0] + first * job->y[2];
    const int64_t channels = 2 * job->pairs + job->rest;
    // The loops run in the order of the results in memory.
    if (job->y[1] < job->y[2]) {
        const ELEMENT* end = y + (last - first - 1) * job->y[2] + (job->heads - 1) * job->y[1] + channels;
        if (call->fresh) posenc_ask_for_pages(y, end);
        for (int64_t t = first; t < last; t++) {
            NAMED(rows)(job, x, y, cos, sin, job->heads, 1, half, stream, call->ahead);
            x += job->x[2], y += job->y[2], cos += job->table[2], sin += job->table[2];
        }
        return;
    }
    for (int64_t h = 0; h < job->heads; h++) {
        ELEMENT* to = y + h * job->y[1];
        if (call->fresh) posenc_ask_for_pages(to, to + (last - first - 1) * job->y[2] + channels);
        NAMED(rows)(job, x + h * job->x[1], to, cos + h * job->table[1], sin + h * job->table[1], last - first, 2,
                    half, stream, call->ahead);
    }
}

static void NAMED(block)(const struct Call* call, int64_t b, int64_t first, int64_t last) {
    if (call->job->half)
        call->stream ? NAMED(tokens)(call, b, first, last, true, true)
                     : NAMED(tokens)(call, b, first, last, true, false);
    else
        call->stream ? NAMED(tokens)(call, b, first, last, false, true)
                     : NAMED(tokens)(call, b, first, last, false, false);
}

#undef TYPE
#undef ELEMENT
#undef WORK
#undef VECTOR
#undef LANES
#undef WIDE
#undef BY_TWO
