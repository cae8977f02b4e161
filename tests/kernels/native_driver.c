// Runs the kernel on records of its standard input, and writes what it rotated: for processors that are emulated.
//
// A record is the job, the sizes of x, y, cos and sin in bytes, and their bytes.

#include <stdio.h>
#include <stdlib.h>

#include "call.h"

int posenc_rotate(const struct Job* job, const void* x, void* y, const void* cos, const void* sin);

int main(void) {
    struct Job job;
    int64_t sizes[4];
    while (fread(&job, sizeof job, 1, stdin) == 1 && fread(sizes, sizeof sizes, 1, stdin) == 1) {
        void* tensors[4] = {NULL};
        for (int i = 0; i < 4; i++) {
            if (!sizes[i]) continue;
            tensors[i] = aligned_alloc(64, (sizes[i] + 63) / 64 * 64);
            if (!tensors[i] || fread(tensors[i], 1, sizes[i], stdin) != (size_t)sizes[i]) return 1;
        }
        if (posenc_rotate(&job, tensors[0], tensors[1], tensors[2], tensors[3])) return 1;
        if (fwrite(tensors[1], 1, sizes[1], stdout) != (size_t)sizes[1]) return 1;
        for (int i = 0; i < 4; i++) free(tensors[i]);
    }
    return 0;
}
