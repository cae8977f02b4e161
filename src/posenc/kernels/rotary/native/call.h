// What one call of the kernel reads, and what every instruction set offers.

#pragma once
#include <stdbool.h>
#include <stdint.h>

enum Type { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };

// The fields of the same structure in kernels/native.py, which asks for its size before the first call.
struct Job {
    int64_t batch, heads, tokens, pairs, rest;  // rest: channels behind the pairs, which pass
    int64_t x[3], y[3], table[3];               // strides in elements along batch, heads and tokens
    int32_t type, half, threads;
};
_Static_assert(sizeof(struct Job) == 128, "change native.Job in kernels/native.py with it, and this number");

struct Call {
    const struct Job* job;
    const void* x;
    void* y;
    const void *cos, *sin;  // float64 beside float64, else float32
    bool stream, fresh;     // whether results go past the caches; whether y's pages were never touched
    bool ahead;             // whether rows are asked for before they are read
};

// Rotates tokens first to last (excluded) of row b of the batch, in all heads.
typedef void Block(const struct Call* call, int64_t b, int64_t first, int64_t last);

Block posenc_block_baseline, posenc_block_avx2, posenc_block_avx512;

void posenc_ask_for_pages(const void* from, const void* to);
