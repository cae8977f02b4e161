// The arguments of a kernel call, and the functions that are compiled for each instruction set.

#pragma once
#include <stdbool.h>
#include <stdint.h>

enum Type { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };

// The same structure as native.Job in kernels/native.py, which checks that the sizes agree before the first call.
struct Job {
    int64_t batch, heads, tokens, pairs, rest;  // rest: channels after the pairs, which are copied
    int64_t x[3], y[3], table[3];               // strides in elements along batch, heads and tokens
    int32_t type, half, threads;
};
_Static_assert(sizeof(struct Job) == 128, "change native.Job in kernels/native.py and this number together");

struct Call {
    const struct Job* job;
    const void* x;
    void* y;
    const void *cos, *sin;  // float64 if x is float64, else float32
    bool stream, fresh;     // whether stores bypass the caches; whether y's pages were never touched
    bool ahead;             // whether rows are prefetched
};

// Rotates tokens first to last (exclusive) of row b of the batch, in all heads.
typedef void Block(const struct Call* call, int64_t b, int64_t first, int64_t last);

Block posenc_block_baseline, posenc_block_avx2, posenc_block_avx512;

void posenc_ask_for_pages(const void* from, const void* to);
