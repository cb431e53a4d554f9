/* What has to work on a device without faults. */
#include "rig.h"

#define SIZE_MAX_HERE (1 << 20)
static uint8_t from[SIZE_MAX_HERE + 64], to[SIZE_MAX_HERE + 64];

/* One job at a time, of every awkward size and alignment; bytes beside it stay. */
void single(void)
{
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 65537, SIZE_MAX_HERE};
    start(0, RING);
    uint16_t job = 0;
    for (unsigned n = 0; n < sizeof(sizes) / sizeof(*sizes); n++) {
        for (unsigned shift = 0; shift < 3; shift++) {
            paint(from, sizeof(from), n);
            memset(to, 0xee, sizeof(to));
            CHECK(copy(0, from + shift, to + 7 * shift, sizes[n], RTE_DMA_OP_FLAG_SUBMIT) == job);
            CHECK(wait_done(0, 1) == job);
            CHECK(memcmp(from + shift, to + 7 * shift, sizes[n]) == 0, "size %u shift %u", sizes[n], shift);
            CHECK(to[7 * shift + sizes[n]] == 0xee && (shift == 0 || to[7 * shift - 1] == 0xee), "size %u: beside it", sizes[n]);
            job++;
        }
    }
}

/* Batches of every size up to the largest, doorbell apart from the jobs. */
void batch(void)
{
    enum { EACH = 700 };
    start(0, RING);
    for (unsigned jobs = 2; jobs <= 32; jobs++) {
        paint(from, sizeof(from), jobs);
        memset(to, 0, sizeof(to));
        for (unsigned n = 0; n < jobs; n++)
            CHECK(copy(0, from + n * EACH, to + (jobs - 1 - n) * EACH, EACH, 0) >= 0, "job %u of %u", n, jobs);
        CHECK(rte_dma_submit(0, 0) == 0);
        wait_done(0, jobs);
        for (unsigned n = 0; n < jobs; n++)
            CHECK(memcmp(from + n * EACH, to + (jobs - 1 - n) * EACH, EACH) == 0, "job %u of %u", n, jobs);
    }
    /* The second job reads what the first one wrote: with a fence it has to. */
    memset(to, 0, sizeof(to));
    CHECK(copy(0, from, to, EACH, 0) >= 0);
    CHECK(copy(0, to, to + EACH, EACH, RTE_DMA_OP_FLAG_FENCE) >= 0);
    CHECK(rte_dma_submit(0, 0) == 0);
    wait_done(0, 2);
    CHECK(memcmp(from, to + EACH, EACH) == 0, "behind the fence");
}

/* A pattern that begins at its first byte wherever the memory does. */
void fill(void)
{
    static const uint64_t pattern = 0x8877665544332211;
    start(0, RING);
    for (unsigned shift = 0; shift < 9; shift++) {
        for (uint32_t size = 1; size < 5000; size = size * 3 + 1) {
            memset(to, 0xee, size + 64);
            CHECK(rte_dma_fill(0, 0, pattern, (rte_iova_t)(to + shift), size, RTE_DMA_OP_FLAG_SUBMIT) >= 0);
            wait_done(0, 1);
            for (uint32_t n = 0; n < size; n++)
                CHECK(to[shift + n] == ((const uint8_t *)&pattern)[n % 8], "byte %u of %u at %u", n, size, shift);
            CHECK(to[shift + size] == 0xee);
        }
    }
}

/* Through the end of the ring, and of the numbers of jobs, in batches that do not divide either. */
void wrap(void)
{
    enum { JOBS = 70000, AT_A_TIME = 27, EACH = 16 };
    start(0, RING);
    unsigned submitted = 0;
    while (submitted < JOBS) {
        unsigned jobs = 1 + submitted % AT_A_TIME;
        paint(from, AT_A_TIME * EACH, submitted);
        memset(to, 0, AT_A_TIME * EACH);
        for (unsigned n = 0; n < jobs; n++) {
            int job = copy(0, from + n * EACH, to + n * EACH, EACH, n + 1 == jobs ? RTE_DMA_OP_FLAG_SUBMIT : 0);
            CHECK(job == (uint16_t)(submitted + n), "%d is not job %u", job, submitted + n);
        }
        submitted += jobs;
        CHECK(wait_done(0, jobs) == (uint16_t)(submitted - 1));
        CHECK(memcmp(from, to, jobs * EACH) == 0, "before job %u", submitted);
    }
}

/* As many as there is room for, as jobs and as batches; what is too much is refused, and what was not is done. */
void full(void)
{
    enum { EACH = 64 };
    start(0, RING);
    for (unsigned turn = 0; turn < 20; turn++) {
        const bool apart = turn % 2;
        unsigned jobs = 0;
        paint(from, 2 * RING * EACH, turn);
        memset(to, 0, 2 * RING * EACH);
        for (;;) {
            /* A batch may have 32 jobs; or every job is a batch of its own. */
            const uint64_t flags = apart || jobs % 32 == 31 ? RTE_DMA_OP_FLAG_SUBMIT : 0;
            int job = copy(0, from + jobs * EACH, to + jobs * EACH, EACH, flags);
            if (job == -ENOSPC)
                break;
            CHECK(job >= 0, "%d", job);
            jobs++;
            CHECK(jobs < 2 * RING, "a ring of %u jobs takes %u", RING, jobs);
        }
        CHECK(jobs >= (apart ? 32 : RING - 1), "full after %u jobs", jobs);
        CHECK(rte_dma_submit(0, 0) == 0);
        wait_done(0, jobs);
        CHECK(memcmp(from, to, jobs * EACH) == 0, "turn %u", turn);
        CHECK(rte_dma_burst_capacity(0, 0) > 0);
    }
    struct rte_dma_stats stats;
    CHECK(rte_dma_stats_get(0, 0, &stats) == 0);
    CHECK(stats.errors == 0 && stats.submitted == stats.completed, "%lu submitted, %lu completed", stats.submitted, stats.completed);
}

/* Two devices at once, each with what the other has not. */
void two(void)
{
    enum { TURNS = 200, JOBS = 8, EACH = 1000 };
    CHECK(rte_dma_count_avail() == 2, "%u devices", rte_dma_count_avail());
    start(0, RING);
    start(1, RING);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        paint(from, 2 * JOBS * EACH, turn);
        memset(to, 0, 2 * JOBS * EACH);
        for (unsigned n = 0; n < 2 * JOBS; n++)
            CHECK(copy(n % 2, from + n * EACH, to + n * EACH, EACH, 0) >= 0);
        CHECK(rte_dma_submit(0, 0) == 0 && rte_dma_submit(1, 0) == 0);
        wait_done(1, JOBS);
        wait_done(0, JOBS);
        CHECK(memcmp(from, to, 2 * JOBS * EACH) == 0, "turn %u", turn);
    }
}
