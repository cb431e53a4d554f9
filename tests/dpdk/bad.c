/* What has to be told when something goes wrong: the specification's status, in DPDK's words for it. */
#include "rig.h"

static uint8_t from[8192], to[8192];

static enum rte_dma_status_code one(const void *source, void *destination, uint32_t size)
{
    enum rte_dma_status_code how;
    CHECK(copy(0, source, destination, size, RTE_DMA_OP_FLAG_SUBMIT) >= 0);
    wait_ended(0, 1, &how);
    return how;
}

/* Mistakes of software, on a device without faults, alone and among others in a batch. */
void refused(void)
{
    enum rte_dma_status_code how[4];
    start(0, RING);
    paint(from, sizeof(from), 1);
    /* Touched: a device finds no page that the process never used, and DPDK lets nothing block on faults. */
    memset(to, 1, sizeof(to));
    /* More than the queue's largest transfer (2 MiB): 0x13. */
    CHECK(one(from, to, (2 << 20) + 1) == RTE_DMA_STATUS_INVALID_LENGTH);
    CHECK(one(from, to, 0) == RTE_DMA_STATUS_INVALID_LENGTH);
    /* A source that nobody has mapped: 0x03. */
    CHECK(one(NULL, to, 64) == RTE_DMA_STATUS_PAGE_FAULT);
    /* A destination: 0x83, a write. DPDK compares the whole byte, so that it has no word for it. */
    CHECK(one(from, NULL, 64) == RTE_DMA_STATUS_ERROR_UNKNOWN);
    CHECK(one(from, to, 64) == RTE_DMA_STATUS_SUCCESSFUL && memcmp(from, to, 64) == 0, "a device goes on");

    memset(to, 0, sizeof(to));
    CHECK(copy(0, from, to, 100, 0) >= 0 && copy(0, NULL, to + 100, 100, 0) >= 0 && copy(0, from + 200, to + 200, 100, 0) >= 0);
    CHECK(rte_dma_submit(0, 0) == 0);
    wait_ended(0, 3, how);
    CHECK(how[0] == RTE_DMA_STATUS_SUCCESSFUL && how[1] == RTE_DMA_STATUS_PAGE_FAULT && how[2] == RTE_DMA_STATUS_SUCCESSFUL, "%d %d %d", how[0], how[1], how[2]);
    CHECK(memcmp(from, to, 100) == 0 && memcmp(from + 200, to + 200, 100) == 0 && to[100] == 0);

    /* Behind a fence nobody is served after a failure: abandoned, and told as not attempted. */
    memset(to, 0, sizeof(to));
    CHECK(copy(0, from, to, 100, 0) >= 0 && copy(0, NULL, to + 100, 100, 0) >= 0 && copy(0, from + 200, to + 200, 100, RTE_DMA_OP_FLAG_FENCE) >= 0);
    CHECK(rte_dma_submit(0, 0) == 0);
    wait_ended(0, 3, how);
    CHECK(how[0] == RTE_DMA_STATUS_SUCCESSFUL && how[1] == RTE_DMA_STATUS_PAGE_FAULT && how[2] == RTE_DMA_STATUS_NOT_ATTEMPTED, "%d %d %d", how[0], how[1], how[2]);
    CHECK(to[200] == 0, "done behind the fence");
}

/* With page_absent=1: every page that is first reached is absent. DPDK has no way to resume. */
void absent_source(void)
{
    start(0, RING);
    paint(from, sizeof(from), 1);
    CHECK(one(from, to, 64) == RTE_DMA_STATUS_PAGE_FAULT);
    CHECK(to[0] == 0, "written although the source was absent");
}

/* With page_refused=1: a source page that nobody brings, status 0x04, for which DPDK has no word. */
void refused_page(void)
{
    start(0, RING);
    CHECK(one(from, to, 64) == RTE_DMA_STATUS_ERROR_UNKNOWN);
}

/* With list_fault=1: the list of every batch is on a page that nobody brings, so that none of its jobs is begun. */
void list_fault(void)
{
    enum rte_dma_status_code how[3] = {RTE_DMA_STATUS_SUCCESSFUL, RTE_DMA_STATUS_SUCCESSFUL, RTE_DMA_STATUS_SUCCESSFUL};
    start(0, RING);
    paint(from, sizeof(from), 1);
    memset(to, 1, sizeof(to));
    for (int n = 0; n < 3; n++)
        CHECK(copy(0, from + n * 100, to + n * 100, 100, 0) >= 0);
    CHECK(rte_dma_submit(0, 0) == 0);
    wait_ended(0, 3, how);
    for (int n = 0; n < 3; n++)
        CHECK(how[n] != RTE_DMA_STATUS_SUCCESSFUL && to[n * 100] == 1, "%d: %d", n, how[n]);
}

/* With hardware_error=1: an operation ends half done with status 0x20, for which DPDK has no word. */
void hardware_error(void)
{
    start(0, RING);
    paint(from, sizeof(from), 1);
    memset(to, 1, sizeof(to));
    CHECK(one(from, to, 4096) == RTE_DMA_STATUS_ERROR_UNKNOWN);
}
