#include "rig.h"

#include <time.h>

#include <rte_pause.h>

void start(int16_t device, uint16_t ring)
{
    const struct rte_dma_conf conf = {.nb_vchans = 1};
    const struct rte_dma_vchan_conf vchan = {.direction = RTE_DMA_DIR_MEM_TO_MEM, .nb_desc = ring};
    struct rte_dma_info info;
    CHECK(rte_dma_info_get(device, &info) == 0);
    CHECK(strstr(info.dev_name, "wq") != NULL, "%s is no DSA queue", info.dev_name);
    CHECK(rte_dma_configure(device, &conf) == 0);
    CHECK(rte_dma_vchan_setup(device, 0, &vchan) == 0);
    CHECK(rte_dma_start(device) == 0);
}

/* Generous: the machine may be busy with a hundred other things. */
#define SECONDS_MAX 300

static time_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec;
}

uint16_t wait_done(int16_t device, uint16_t jobs)
{
    const time_t until = now() + SECONDS_MAX;
    uint16_t done = 0, last = 0;
    while (done < jobs) {
        bool has_error = false;
        done += rte_dma_completed(device, 0, jobs - done, &last, &has_error);
        CHECK(!has_error, "job %u of device %d failed", last + 1, device);
        CHECK(now() < until, "%u of %u jobs after %d s", done, jobs, SECONDS_MAX);
        rte_pause();
    }
    return last;
}

void wait_ended(int16_t device, uint16_t jobs, enum rte_dma_status_code *how)
{
    const time_t until = now() + SECONDS_MAX;
    uint16_t ended = 0, last = 0;
    while (ended < jobs) {
        ended += rte_dma_completed_status(device, 0, jobs - ended, &last, how + ended);
        CHECK(now() < until, "%u of %u jobs after %d s", ended, jobs, SECONDS_MAX);
        rte_pause();
    }
}

void paint(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t n = 0; n < size; n++) {
        seed = seed * 1664525 + 1013904223;
        bytes[n] = seed >> 24;
    }
}

int copy(int16_t device, const void *from, void *to, uint32_t size, uint64_t flags)
{
    return rte_dma_copy(device, 0, (rte_iova_t)from, (rte_iova_t)to, size, flags);
}
