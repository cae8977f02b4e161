// Rotation of queries or keys in one pass over memory: chooses the instruction set, and divides the work into blocks
// and over threads.
//
// A block of tokens is rotated in all heads while its tables are in the cache. Results that would not stay in the
// last-level cache are written with stores that bypass all caches, so the memory is not read before it is written.
// Memory that was never touched is requested many pages at a time, because one page fault per page takes longer than
// the rotation.

#include "call.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define EXPORT __attribute__((visibility("default")))

enum { BLOCK = 64 };                // tokens; with 128 channels, the tables are 32 KB and stay in the cache
enum { FRESH_BLOCK = 512 };         // tokens, if a block requests the pages that it will fill
enum { FRESH_BYTES = 8 << 20 };     // from this size of the result, check whether its pages were ever touched
enum { FAR_BYTES = 2 << 20 };       // from this size of the result, prefetch rows
enum { LINE = 64 };                 // streaming stores must start at multiples of this number of bytes
enum { UNKNOWN_CACHE = 32 << 20 };  // the assumed size of the last-level cache if the system does not report it
enum { MOST_THREADS = 256 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// The instruction sets, from the slowest to the fastest. All give the same bits.
static const char* const NAMES[] = {"baseline", "avx2", "avx512"};
#if defined(__x86_64__)
static Block* const BLOCKS[] = {posenc_block_baseline, posenc_block_avx2, posenc_block_avx512};

static int best(void) {
    unsigned a, b, c, d, states, upper;
    const unsigned needed = bit_OSXSAVE | bit_AVX | bit_F16C, wide = bit_AVX512F | bit_AVX512BW | bit_AVX512VL;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & needed) != needed) return 0;
    __asm__("xgetbv" : "=a"(states), "=d"(upper) : "c"(0));  // the registers that the operating system saves
    if ((states & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
    return (states & 0xe6) == 0xe6 && (b & wide) == wide ? 2 : 1;
}
#else
static Block* const BLOCKS[] = {posenc_block_baseline};
static int best(void) { return 0; }
#endif

static int level;
static int64_t last_cache;

// Returns the size in bytes of the last-level cache, as the system reports it.
static int64_t cache_size(void) {
#if defined(_SC_LEVEL3_CACHE_SIZE)
    for (int name = 0; name < 2; name++) {
        long size = sysconf(name ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
        if (size > 0) return size;
    }
#endif
    for (char index = '3'; index >= '2'; index--) {
        char path[] = "/sys/devices/system/cpu/cpu0/cache/index?/size";
        path[sizeof path - sizeof "?/size"] = index;
        FILE* file = fopen(path, "r");
        long kilobytes = 0;
        if (!file) continue;
        int fields = fscanf(file, "%ldK", &kilobytes);
        fclose(file);
        if (fields == 1 && kilobytes > 0) return kilobytes << 10;
    }
    return UNKNOWN_CACHE;
}

#if defined(__linux__)
static uintptr_t page_size;

static bool is_fresh(const void* at) {
    unsigned char resident = 1;
    return mincore((void*)((uintptr_t)at / page_size * page_size), page_size, &resident) == 0 && !(resident & 1);
}

// Requests all pages of this memory at once. Before Linux 5.14, this does nothing, and each page faults when it is
// first written.
void posenc_ask_for_pages(const void* from, const void* to) {
    enum { POPULATE_WRITE = 23 };  // MADV_POPULATE_WRITE, which older headers lack
    uintptr_t first = (uintptr_t)from / page_size * page_size;
    uintptr_t last = ((uintptr_t)to + page_size - 1) / page_size * page_size;
    madvise((void*)first, last - first, POPULATE_WRITE);
}
#else
static bool is_fresh(const void* at) { return false; }
void posenc_ask_for_pages(const void* from, const void* to) {}
#endif

// A pool of threads that wait for work. Threads are created when they are needed. A forked child process inherits
// none of them and creates its own.
static struct {
    pthread_mutex_t in_use, lock;
    pthread_cond_t work, done;
    int workers, wanted, running;  // wanted: how many more workers may join the call
    unsigned calls;
    const struct Call* call;
    int64_t size, blocks;  // tokens per block, and blocks per row of the batch
    atomic_llong next;
} pool = {.in_use = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static void forget_workers(void) {
    pthread_mutex_t free = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    pool.in_use = pool.lock = free;
    pool.work = pool.done = fresh;
    pool.workers = pool.wanted = pool.running = 0;
}

static void rotate_block(const struct Call* call, int64_t i, int64_t size, int64_t blocks) {
    int64_t first = i % blocks * size;
    BLOCKS[level](call, i / blocks, first, least(call->job->tokens, first + size));
}

static void rotate_some(void) {
    int64_t all = pool.call->job->batch * pool.blocks;
    for (int64_t i; (i = atomic_fetch_add(&pool.next, 1)) < all;) rotate_block(pool.call, i, pool.size, pool.blocks);
}

static void* worker(void* nothing) {
    pthread_mutex_lock(&pool.lock);
    for (unsigned answered = 0;;) {
        while (!pool.wanted || answered == pool.calls) pthread_cond_wait(&pool.work, &pool.lock);
        answered = pool.calls;
        pool.wanted--, pool.running++;
        pthread_mutex_unlock(&pool.lock);
        rotate_some();
        pthread_mutex_lock(&pool.lock);
        if (!--pool.running) pthread_cond_signal(&pool.done);
    }
    return nothing;
}

// Creates the wanted number of workers, or as many as the system allows. Workers block all signals, so that the
// program's own threads handle them.
static void make_workers(int wanted) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t thread; pool.workers < wanted; pool.workers++) {
        if (pthread_create(&thread, NULL, worker, NULL)) break;
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void rotate(const struct Call* call, int64_t size) {
    int64_t blocks = (call->job->tokens + size - 1) / size, all = call->job->batch * blocks;
    int helpers = (int)least(least(call->job->threads, all), MOST_THREADS) - 1;
    // A caller that arrives while the pool is in use does its work alone.
    if (helpers < 1 || pthread_mutex_trylock(&pool.in_use)) {
        for (int64_t i = 0; i < all; i++) rotate_block(call, i, size, blocks);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    make_workers(helpers);
    pool.call = call, pool.size = size, pool.blocks = blocks, pool.wanted = helpers, pool.calls++;
    atomic_store(&pool.next, 0);
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    rotate_some();
    pthread_mutex_lock(&pool.lock);
    pool.wanted = 0;
    while (pool.running) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.in_use);
}

__attribute__((constructor)) static void start(void) {
    level = best();
    last_cache = cache_size();
#if defined(__linux__)
    page_size = sysconf(_SC_PAGESIZE);
#endif
    pthread_atfork(NULL, NULL, forget_workers);
}

// Returns the name of the instruction set in use.
EXPORT const char* posenc_level(void) { return NAMES[level]; }

// Switches to the instruction set with this index and returns 0; returns 1 if this processor does not support it.
EXPORT int posenc_use_level(int wanted) {
    if (wanted < 0 || wanted > best()) return 1;
    level = wanted;
    return 0;
}

// Sets the assumed size of the last-level cache, and returns the previous value.
EXPORT int64_t posenc_use_cache(int64_t bytes) {
    int64_t before = last_cache;
    last_cache = bytes;
    return before;
}

// Returns the hash of the sources from which this library was compiled.
EXPORT const char* posenc_source(void) { return SOURCE; }

// Returns the size of a Job in bytes, which the caller compares with the size of its own structure.
EXPORT int posenc_job_size(void) { return sizeof(struct Job); }

// Rotates x into y. y may be x itself; if not, y must not overlap memory that is still to be read. Returns 1 without
// touching memory if a size is invalid or an address is missing, and 0 otherwise.
EXPORT int posenc_rotate(const struct Job* job, const void* x, void* y, const void* cos, const void* sin) {
    static const int64_t SIZES[] = {4, 8, 2, 2};
    if (job->batch < 0 || job->heads < 0 || job->tokens < 0 || job->pairs < 0 || job->rest < 0) return 1;
    if (job->type < FLOAT32 || job->type > FLOAT16 || !x || !y || (job->pairs && !(cos && sin))) return 1;
    const int64_t size = SIZES[job->type], channels = 2 * job->pairs + job->rest;
    const int64_t bytes = job->batch * job->heads * job->tokens * channels * size;
    bool lines = (uintptr_t)y % LINE == 0 && (!job->half || job->pairs * size % LINE == 0);
    for (int i = 0; i < 3; i++) lines = lines && job->y[i] * size % LINE == 0;
    struct Call call = {job, x, y, cos, sin};
    call.stream = lines && x != y && 2 * bytes > last_cache;
    call.ahead = bytes >= FAR_BYTES;
    if (x != y && bytes >= FRESH_BYTES) {
        int64_t middle = job->batch / 2 * job->y[0] + job->heads / 2 * job->y[1] + job->tokens / 2 * job->y[2];
        call.fresh = is_fresh((char*)y + middle * size);
    }
    rotate(&call, call.fresh ? most(BLOCK, least(FRESH_BLOCK, job->tokens / most(1, job->threads))) : BLOCK);
    return 0;
}

// Rotates queries and keys in one call, for decoding steps, in which the overhead of a call dominates.
EXPORT int posenc_rotate_both(const struct Job* jobs, const void* const* tables, const void* q, void* q_y,
                              const void* k, void* k_y) {
    return posenc_rotate(jobs, q, q_y, tables[0], tables[1]) | posenc_rotate(jobs + 1, k, k_y, tables[2], tables[3]);
}
