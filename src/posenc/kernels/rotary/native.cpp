// Rotation of queries or keys in one pass over memory, for the processor that this file is compiled on.
//
//     (a, b) → (a·cos − b·sin, b·cos + a·sin)    for every pair of channels of every token and head
//
// Vectors are the compiler's own (GCC, Clang), as wide as the processor's registers. Compiled without contraction,
// so that every product and sum is rounded as plain operators round them. A block of tokens is turned in all
// heads while its tables are in cache. Results may go past the caches (stream), which saves reading their memory.
// Memory that no one has touched is asked for many pages at a time: a fault a page costs more than the rotation.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

extern "C" struct Job {
    int64_t batch, heads, tokens, pairs, rest;  // rest: channels behind the pairs, which pass
    int64_t x[3], y[3], table[3];               // strides in elements along batch, heads and tokens
    const void *cos, *sin;                      // tables, of type float64 beside float64 and else of float32
    int32_t type, half, stream, threads;        // type: 0 float32, 1 float64, 2 bfloat16, 3 float16
};

namespace {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
constexpr int64_t BLOCK = 64;  // tokens: with 128 channels 32 KB of tables, which stay in the first or second cache
constexpr int64_t FRESH_BLOCK = 512;      // tokens, where a block asks for the pages that it will fill
constexpr int64_t FRESH_BYTES = 8 << 20;  // of a result from which it is worth asking whether it was ever touched

template <class T, int N> struct Vector { typedef T type __attribute__((vector_size(N * sizeof(T)))); };
template <class T, int N> using vector = typename Vector<T, N>::type;

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define MASKS  // the processor reads and writes parts of a vector
uint64_t first_bytes(int64_t n) { return n >= 64 ? ~uint64_t{0} : n <= 0 ? 0 : (uint64_t{1} << n) - 1; }
#endif

template <class V, bool whole> V load(const void* at, int64_t bytes = sizeof(V)) {
#if defined(MASKS)
    if constexpr (!whole && sizeof(V) == 64) return (V)_mm512_maskz_loadu_epi8(first_bytes(bytes), at);
    if constexpr (!whole && sizeof(V) == 32) return (V)_mm256_maskz_loadu_epi8((uint32_t)first_bytes(bytes), at);
#endif
    V v{};
    std::memcpy(&v, at, whole ? sizeof v : std::clamp<int64_t>(bytes, 0, sizeof v));
    return v;
}

template <bool stream, bool whole, class V> void store(void* at, V v, int64_t bytes = sizeof(V)) {
    if constexpr (stream && whole) {
#if defined(__clang__)
        return __builtin_nontemporal_store(v, (V*)at);
#elif defined(__AVX512F__)
        if constexpr (sizeof v == 64) return _mm512_stream_si512((__m512i*)at, (__m512i)v);
        if constexpr (sizeof v == 32) return _mm256_stream_si256((__m256i*)at, (__m256i)v);
#elif defined(__AVX__)
        if constexpr (sizeof v == 32) return _mm256_stream_si256((__m256i*)at, (__m256i)v);
        if constexpr (sizeof v == 16) return _mm_stream_si128((__m128i*)at, (__m128i)v);
#endif
    }
#if defined(MASKS)
    if constexpr (!whole && sizeof v == 64) return _mm512_mask_storeu_epi8(at, first_bytes(bytes), (__m512i)v);
    if constexpr (!whole && sizeof v == 32)
        return _mm256_mask_storeu_epi8(at, (uint32_t)first_bytes(bytes), (__m256i)v);
#endif
    std::memcpy(at, &v, whole ? sizeof v : std::clamp<int64_t>(bytes, 0, sizeof v));
}

// Every second element of a and b together, from the first or the second one on.
template <int from, class V, int... i> V every_second(V a, V b, std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, (2 * i + from)...);
}

// Elements of a and b in turn: of their lower or upper halves.
template <int from, class V, int... i> V in_turn(V a, V b, std::integer_sequence<int, i...>) {
    constexpr int n = sizeof...(i);
    return __builtin_shufflevector(a, b, (from + i / 2 + (i % 2) * n)...);
}

// float32 and float64: computed as they are.
template <class T> struct Wide {
    using Element = T;
    using Work = T;
    static constexpr int N = BYTES / sizeof(T);
    using V = vector<T, N>;
    static constexpr auto order = std::make_integer_sequence<int, N>{};

    template <bool whole> static V get(const T* at, int64_t n) { return load<V, whole>(at, n * sizeof(T)); }
    template <bool stream, bool whole> static void put(T* at, V v, int64_t n) {
        store<stream, whole>(at, v, n * sizeof(T));
    }
    template <bool whole> static void get_pairs(const T* at, V& a, V& b, int64_t n) {
        int64_t bytes = 2 * n * sizeof(T);
        V low = load<V, whole>(at, bytes), high{};
        if (whole || 2 * n > N) high = load<V, whole>(at + N, bytes - sizeof(V));
        a = every_second<0>(low, high, order);
        b = every_second<1>(low, high, order);
    }
    template <bool stream, bool whole> static void put_pairs(T* at, V a, V b, int64_t n) {
        int64_t bytes = 2 * n * sizeof(T);
        store<stream, whole>(at, in_turn<0>(a, b, order), bytes);
        if (whole || 2 * n > N) store<stream, whole>(at + N, in_turn<N / 2>(a, b, order), bytes - sizeof(V));
    }
};

constexpr int N = BYTES / 4;
using Single = vector<float, N>;
using Bits = vector<uint32_t, N>;
using Short = vector<uint16_t, N>;

// The two types of 16 bits: computed in float32, rounded once, to nearest and even. A pair of neighbours is one
// word of 32 bits, taken apart with shifts. Traits: widened(bits in the low half), narrowed(to the low half).
template <class Traits> struct Narrow {
    using Element = uint16_t;
    using Work = float;
    static constexpr int N = ::N;
    using V = Single;

    template <bool whole> static V get(const uint16_t* at, int64_t n) {
        return Traits::widened(load<Short, whole>(at, 2 * n));
    }
    template <bool stream, bool whole> static void put(uint16_t* at, V v, int64_t n) {
        store<stream, whole>(at, Traits::narrowed(v), 2 * n);
    }
    template <bool whole> static void get_pairs(const uint16_t* at, V& a, V& b, int64_t n) {
        Traits::split(load<Bits, whole>(at, 4 * n), a, b);
    }
    template <bool stream, bool whole> static void put_pairs(uint16_t* at, V a, V b, int64_t n) {
        store<stream, whole>(at, Traits::joined(a, b), 4 * n);
    }
};

struct Bfloat16 {
    static Single widened(Short h) { return (Single)(__builtin_convertvector(h, Bits) << 16); }
    static void split(Bits word, Single& a, Single& b) {
        a = (Single)(word << 16);
        b = (Single)(word & 0xffff0000u);
    }
    // The upper half is the result. A NaN stays one: its quiet bit is set instead of a carry added. In integers,
    // since processors' own conversions (AVX512_BF16) take what is below 2^-126 for 0.
    static Bits rounded(Single x) {
        Bits bits = (Bits)x;
        return x != x ? bits | 0x400000u : bits + 0x7fff + ((bits >> 16) & 1);
    }
    static Short narrowed(Single x) { return __builtin_convertvector(rounded(x) >> 16, Short); }
    static Bits joined(Single a, Single b) { return (rounded(a) >> 16) | (rounded(b) & 0xffff0000u); }
};

struct Float16 {
#if defined(__AVX512F__)
    static Single widened(Short h) { return (Single)_mm512_cvtph_ps((__m256i)h); }
    static Short narrowed(Single x) { return (Short)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__F16C__)
    static Single widened(Short h) { return (Single)_mm256_cvtph_ps((__m128i)h); }
    static Short narrowed(Single x) { return (Short)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT); }
#else
    using Halves = vector<__fp16, N>;
    static Single widened(Short h) { return __builtin_convertvector((Halves)h, Single); }
    static Short narrowed(Single x) { return (Short)__builtin_convertvector(x, Halves); }
#endif
    static void split(Bits word, Single& a, Single& b) {
        a = widened(__builtin_convertvector(word & 0xffffu, Short));
        b = widened(__builtin_convertvector(word >> 16, Short));
    }
    static Bits joined(Single a, Single b) {
        return __builtin_convertvector(narrowed(a), Bits) | (__builtin_convertvector(narrowed(b), Bits) << 16);
    }
};

template <class K, bool half, bool stream, bool whole>
void turn_some(const typename K::Element* x, typename K::Element* y, const typename K::Work* cosines,
               const typename K::Work* sines, int64_t pairs, int64_t at, int64_t n) {
    using V = typename K::V;
    V cos = load<V, whole>(cosines + at, n * sizeof(typename K::Work));
    V sin = load<V, whole>(sines + at, n * sizeof(typename K::Work)), a, b;
    if constexpr (half) {
        a = K::template get<whole>(x + at, n);
        b = K::template get<whole>(x + pairs + at, n);
    } else {
        K::template get_pairs<whole>(x + 2 * at, a, b, n);
    }
    V left = a * cos - b * sin, right = b * cos + a * sin;
    if constexpr (half) {
        K::template put<stream, whole>(y + at, left, n);
        K::template put<stream, whole>(y + pairs + at, right, n);
    } else {
        K::template put_pairs<stream, whole>(y + 2 * at, left, right, n);
    }
}

#if defined(__linux__)
const uintptr_t PAGE = sysconf(_SC_PAGESIZE);

// Whether the page that this lies in was never touched.
bool is_fresh(const void* at) {
    unsigned char resident = 1;
    return mincore((void*)((uintptr_t)at / PAGE * PAGE), PAGE, &resident) == 0 && !(resident & 1);
}

// Asks for all pages of this memory at once. Before Linux 5.14 nothing happens, and each page faults when written.
void ask_for_pages(const void* from, const void* to) {
    constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which older headers lack
    uintptr_t first = (uintptr_t)from / PAGE * PAGE, last = ((uintptr_t)to + PAGE - 1) / PAGE * PAGE;
    madvise((void*)first, last - first, populate_write);
}
#else
bool is_fresh(const void*) { return false; }
void ask_for_pages(const void*, const void*) {}
#endif

template <class K, bool half, bool stream> struct Kernel {
    using Element = typename K::Element;
    using Work = typename K::Work;
    const Job& job;
    const Element* x;
    Element* y;
    const Work *cos, *sin;
    const int64_t channels = 2 * job.pairs + job.rest;
    const int64_t bytes = job.batch * job.heads * job.tokens * channels * sizeof(Element);
    const bool fresh =
        x != y && bytes >= FRESH_BYTES && is_fresh(result(job.batch / 2, job.heads / 2, job.tokens / 2));

    static int64_t offset(const int64_t (&strides)[3], int64_t b, int64_t h, int64_t t) {
        return b * strides[0] + h * strides[1] + t * strides[2];
    }
    Element* result(int64_t b, int64_t h, int64_t t) const { return y + offset(job.y, b, h, t); }

    // n rows of channels from (b, h, t) on, along heads (axis 1) or tokens (axis 2). What they step by are locals:
    // the compiler cannot know that no field of the job is written to.
    void rows(int64_t b, int64_t h, int64_t t, int axis, int64_t n) const {
        const int64_t pairs = job.pairs, rest = job.rest, table = offset(job.table, b, h, t);
        const int64_t next_x = job.x[axis], next_y = job.y[axis], next_table = job.table[axis];
        const Element* from = x + offset(job.x, b, h, t);
        const Work *cosines = cos + table, *sines = sin + table;
        Element* to = result(b, h, t);
        for (; n > 0; n--, from += next_x, to += next_y, cosines += next_table, sines += next_table) {
            int64_t at = 0;
            for (; at + K::N <= pairs; at += K::N)
                turn_some<K, half, stream, true>(from, to, cosines, sines, pairs, at, K::N);
            if (at < pairs) turn_some<K, half, false, false>(from, to, cosines, sines, pairs, at, pairs - at);
            if (rest && from != to) std::memcpy(to + 2 * pairs, from + 2 * pairs, rest * sizeof(Element));
        }
    }

    // Tokens of one row in all heads, in the order in which they lie in memory.
    void block(int64_t b, int64_t first, int64_t last) const {
        if (job.y[1] < job.y[2]) {
            if (fresh) ask_for_pages(result(b, 0, first), result(b, job.heads - 1, last - 1) + channels);
            for (int64_t t = first; t < last; t++) rows(b, 0, t, 1, job.heads);
        } else {
            for (int64_t h = 0; h < job.heads; h++) {
                if (fresh) ask_for_pages(result(b, h, first), result(b, h, last - 1) + channels);
                rows(b, h, first, 2, last - first);
            }
        }
    }

    void all() const {
        int64_t size = fresh ? std::clamp(job.tokens / job.threads, BLOCK, FRESH_BLOCK) : BLOCK;
        int64_t blocks = (job.tokens + size - 1) / size;
#if defined(_OPENMP)
#pragma omp parallel for num_threads(job.threads) if (job.threads > 1)
#endif
        for (int64_t i = 0; i < job.batch * blocks; i++) {
            int64_t first = i % blocks * size;
            block(i / blocks, first, std::min(job.tokens, first + size));
        }
#if defined(__x86_64__)
        if (stream) _mm_sfence();
#endif
    }
};

template <class K> void turn(const Job& job, const void* x, void* y) {
    auto go = [&](auto half, auto stream) {
        using E = typename K::Element;
        using W = typename K::Work;
        Kernel<K, half, stream>{job, (const E*)x, (E*)y, (const W*)job.cos, (const W*)job.sin}.all();
    };
    std::true_type yes;
    std::false_type no;
    if (job.half) return job.stream ? go(yes, yes) : go(yes, no);
    return job.stream ? go(no, yes) : go(no, no);
}

}  // namespace

// x and y may be the same; otherwise nothing of y may be still to be read. Streaming asks for rows of y that begin
// at multiples of 64 bytes, and whose halves do.
extern "C" void posenc_turn(const Job* job, const void* x, void* y) {
    switch (job->type) {
        case 0: return turn<Wide<float>>(*job, x, y);
        case 1: return turn<Wide<double>>(*job, x, y);
        case 2: return turn<Narrow<Bfloat16>>(*job, x, y);
        default: return turn<Narrow<Float16>>(*job, x, y);
    }
}

// Two calls in one, for steps so short that calling is what they cost.
extern "C" void posenc_turn_both(const Job* jobs, const void* q, void* q_y, const void* k, void* k_y) {
    posenc_turn(jobs, q, q_y);
    posenc_turn(jobs + 1, k, k_y);
}
