// Rotation of rows of channels with one instruction set. This file is compiled once per instruction set; LEVEL is the
// suffix of the function's name.
//
//     (a, b) → (a·cos − b·sin, b·cos + a·sin)    for every pair of channels of every token and head
//
// The code uses vector extensions (GCC 12, Clang), with vectors as wide as the registers. Products and sums are not
// contracted to fused multiply-adds: each is rounded separately, as in plain operators, so all instruction sets give
// the same bits.

#include "call.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

// Shuffles of two registers. EVEN and ODD select every second number, starting with the first or the second. LOW and
// HIGH interleave the lower or upper halves.
#define EVEN_2 0, 2
#define ODD_2 1, 3
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define EVEN_8 EVEN_4, 8, 10, 12, 14
#define ODD_8 ODD_4, 9, 11, 13, 15
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 ODD_8, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

#if defined(__AVX512F__)
#define BYTES 64
#define SINGLES 16
#define DOUBLES 8
#elif defined(__AVX2__)
#define BYTES 32
#define SINGLES 8
#define DOUBLES 4
#else
#define BYTES 16
#define SINGLES 4
#define DOUBLES 2
#endif

typedef uint32_t Bits __attribute__((vector_size(BYTES)));
typedef float Single __attribute__((vector_size(BYTES)));
typedef double Double __attribute__((vector_size(BYTES)));
typedef uint16_t Short __attribute__((vector_size(BYTES / 2)));

enum { AHEAD = 16 };  // the prefetch distance in rows

// Prefetches memory that will be read soon. Hardware prefetchers do not detect a stream if rows are read in halves
// while other streams are written.
INLINE void ask_for(uintptr_t at, size_t bytes) {
    for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch((const void*)(at + line));
}

INLINE size_t within(int64_t bytes, int64_t most) { return bytes < 0 ? 0 : bytes > most ? most : bytes; }

#if defined(__AVX512F__)  // partial registers are read and written with a mask
INLINE uint64_t mask(int64_t bytes) { return bytes <= 0 ? 0 : ~(uint64_t)0 >> (64 - within(bytes, 64)); }
#endif

// Loads a whole register, or this number of bytes followed by zeros.
INLINE Bits load(const void* at, bool whole, int64_t bytes) {
    Bits v = {0};
    if (whole) {
        memcpy(&v, at, sizeof v);
        return v;
    }
#if defined(__AVX512F__)
    return (Bits)_mm512_maskz_loadu_epi8(mask(bytes), at);
#else
    memcpy(&v, at, within(bytes, sizeof v));
    return v;
#endif
}

INLINE Short load_short(const void* at, bool whole, int64_t bytes) {
    Short v = {0};
    if (whole) {
        memcpy(&v, at, sizeof v);
        return v;
    }
#if defined(__AVX512F__)
    return (Short)_mm256_maskz_loadu_epi8((uint32_t)mask(bytes), at);
#else
    memcpy(&v, at, within(bytes, sizeof v));
    return v;
#endif
}

INLINE void store(void* at, Bits v, bool stream, bool whole, int64_t bytes) {
#if defined(__AVX512F__)
    if (whole && stream) return _mm512_stream_si512((void*)at, (__m512i)v);
    if (!whole) return _mm512_mask_storeu_epi8(at, mask(bytes), (__m512i)v);
#elif defined(__AVX2__)
    if (whole && stream) return _mm256_stream_si256((__m256i*)at, (__m256i)v);
#elif defined(__x86_64__)
    if (whole && stream) return _mm_stream_si128((__m128i*)at, (__m128i)v);
#endif
    memcpy(at, &v, whole ? sizeof v : within(bytes, sizeof v));
}

INLINE void store_short(void* at, Short v, bool stream, bool whole, int64_t bytes) {
#if defined(__AVX512F__)
    if (whole && stream) return _mm256_stream_si256((__m256i*)at, (__m256i)v);
    if (!whole) return _mm256_mask_storeu_epi8(at, (uint32_t)mask(bytes), (__m256i)v);
#elif defined(__AVX2__)
    if (whole && stream) return _mm_stream_si128((__m128i*)at, (__m128i)v);
#elif defined(__x86_64__)
    if (whole && stream) return _mm_stream_si64((long long*)at, (long long)v);
#endif
    memcpy(at, &v, whole ? sizeof v : within(bytes, sizeof v));
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

#define TYPE float32
#define ELEMENT float
#define WORK float
#define VECTOR Single
#define LANES SINGLES
#define WIDE
#include "rows.h"

#define TYPE float64
#define ELEMENT double
#define WORK double
#define VECTOR Double
#define LANES DOUBLES
#define WIDE
#include "rows.h"

// The two 16-bit types: arithmetic is in float32, and results are rounded once, to nearest even. A pair of neighbours
// is one 32-bit word, which is split with shifts.
#if defined(__AVX2__) && !defined(__AVX512F__)  // GCC 12 compiles the versions below to several instructions each
INLINE Bits widened(Short h) { return (Bits)_mm256_cvtepu16_epi32((__m128i)h); }
INLINE Short narrowed(Bits word) {
    return (Short)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)word), _mm256_extracti128_si256((__m256i)word, 1));
}
INLINE Bits either(Bits mask, Bits yes, Bits no) {
    return (Bits)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)mask);
}
#else
INLINE Bits widened(Short h) { return __builtin_convertvector(h, Bits); }
INLINE Short narrowed(Bits word) { return __builtin_convertvector(word, Short); }
INLINE Bits either(Bits mask, Bits yes, Bits no) { return (mask & yes) | (~mask & no); }
#endif

INLINE Single from_bfloat16(Short h) { return (Single)(widened(h) << 16); }

// The upper 16 bits are the result. A NaN remains a NaN: its quiet bit is set, and it is not rounded. The code uses
// integers, because the processor's conversions (AVX512_BF16) treat numbers below 2^-126 as 0.
INLINE Bits rounded_number(Bits bits) { return bits + 0x7fffu + ((bits >> 16) & 1u); }
INLINE Bits rounded(Single x) {
    return either((Bits)(x != x), (Bits)x | 0x400000u, rounded_number((Bits)x));
}
INLINE Short to_bfloat16(Single x) { return narrowed(rounded(x) >> 16); }

INLINE void split_bfloat16(Bits word, Single* a, Single* b) {
    *a = (Single)(word << 16);
    *b = (Single)(word & 0xffff0000u);
}
INLINE Bits joined_bfloat16(Single a, Single b) { return (rounded(a) >> 16) | (rounded(b) & 0xffff0000u); }

#if defined(__AVX512F__)
INLINE Single from_float16(Short h) { return (Single)_mm512_cvtph_ps((__m256i)h); }
INLINE Short to_float16(Single x) { return (Short)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__F16C__)
INLINE Single from_float16(Short h) { return (Single)_mm256_cvtph_ps((__m128i)h); }
INLINE Short to_float16(Single x) { return (Short)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__aarch64__)
INLINE Single from_float16(Short h) { return (Single)vcvt_f32_f16((float16x4_t)h); }
INLINE Short to_float16(Single x) { return (Short)vcvt_f16_f32((float32x4_t)x); }
#else
// Conversions with integers: exponents are shifted by 112. Subnormal numbers are exact differences or sums of float32
// numbers.
INLINE Single from_float16(Short h) {
    Bits word = widened(h), size = (word & 0x7fffu) << 13, exponent = size & 0x0f800000u;
    Bits subnormal = (Bits)((Single)(size + (113u << 23)) - (Single)((Bits){0} + (113u << 23)));
    Bits value = either((Bits)(exponent == 0), subnormal, size + (112u << 23));
    value = either((Bits)(exponent == 0x0f800000u), size + (224u << 23), value);
    return (Single)(value | (word & 0x8000u) << 16);
}
INLINE Short to_float16(Single x) {
    Bits word = (Bits)x, size = word & 0x7fffffffu;
    Bits subnormal = (Bits)((Single)size + 0.5f) - (126u << 23);
    Bits value = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
    value = either((Bits)(size < (113u << 23)), subnormal, value);
    value = either((Bits)(size >= (143u << 23)), (Bits){0} + 0x7c00u, value);
    value = either((Bits)(size > (255u << 23)), (Bits){0} + 0x7e00u, value);
    return narrowed(value | (word >> 16 & 0x8000u));
}
#endif
INLINE void split_float16(Bits word, Single* a, Single* b) {
    *a = from_float16(narrowed(word & 0xffffu));
    *b = from_float16(narrowed(word >> 16));
}
INLINE Bits joined_float16(Single a, Single b) { return widened(to_float16(a)) | (widened(to_float16(b)) << 16); }

#if defined(__AVX2__) && !defined(__AVX512F__)
// Loads numbers 0 … 3 and 8 … 11, counted from the address: the order in which AVX2 unpacks and packs half registers.
INLINE Single apart(const float* at) {
    return (Single)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at)), _mm_loadu_ps(at + 8), 1);
}
INLINE Bits packed_bfloat16(Single low, Single high) {
    bool any_nan = _mm256_movemask_ps(_mm256_cmp_ps((__m256)low, (__m256)high, _CMP_UNORD_Q));
    Bits a = any_nan ? rounded(low) : rounded_number((Bits)low), b = any_nan ? rounded(high) : rounded_number((Bits)high);
    return (Bits)_mm256_packus_epi32((__m256i)(a >> 16), (__m256i)(b >> 16));
}
// Rotates half pairs, with two registers of each half at a time.
INLINE void two_bfloat16(const uint16_t* x, uint16_t* y, const float* cosines, const float* sines, int64_t pairs,
                         int64_t at, bool stream) {
    const __m256i zero = {0}, a = (__m256i)load(x + at, true, 0), b = (__m256i)load(x + pairs + at, true, 0);
    Single a0 = (Single)_mm256_unpacklo_epi16(zero, a), a1 = (Single)_mm256_unpackhi_epi16(zero, a);
    Single b0 = (Single)_mm256_unpacklo_epi16(zero, b), b1 = (Single)_mm256_unpackhi_epi16(zero, b);
    Single cos0 = apart(cosines + at), cos1 = apart(cosines + at + 4);
    Single sin0 = apart(sines + at), sin1 = apart(sines + at + 4);
    store(y + at, packed_bfloat16(a0 * cos0 - b0 * sin0, a1 * cos1 - b1 * sin1), stream, true, 0);
    store(y + pairs + at, packed_bfloat16(b0 * cos0 + a0 * sin0, b1 * cos1 + a1 * sin1), stream, true, 0);
}
#define BY_TWO
#endif

#define TYPE bfloat16
#define ELEMENT uint16_t
#define WORK float
#define VECTOR Single
#define LANES SINGLES
#include "rows.h"

#define TYPE float16
#define ELEMENT uint16_t
#define WORK float
#define VECTOR Single
#define LANES SINGLES
#include "rows.h"

void JOIN(posenc_block_, LEVEL)(const struct Call* call, int64_t b, int64_t first, int64_t last) {
    switch (call->job->type) {
        case FLOAT32: block_float32(call, b, first, last); break;
        case FLOAT64: block_float64(call, b, first, last); break;
        case BFLOAT16: block_bfloat16(call, b, first, last); break;
        default: block_float16(call, b, first, last);
    }
#if defined(__x86_64__)
    if (call->stream) _mm_sfence();
#endif
}
