/* What the cases share: devices started, jobs waited for, words for what went wrong. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_dmadev.h>

/* Jobs of a ring; what DPDK takes at least is 64. */
#define RING 64

/* Ends the program with a line that names the place and what was found there. */
#define CHECK(condition, ...)                                          \
    do {                                                               \
        if (!(condition)) {                                            \
            printf("%s:%d: %s:", __FILE__, __LINE__, #condition);      \
            printf(" " __VA_ARGS__);                                   \
            printf("\n");                                              \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* Starts a device with a ring of that many jobs. */
void start(int16_t device, uint16_t ring);

/* Waits until that many jobs are done, all of them well; the last one's index. A device that does not answer within seconds ends the program. */
uint16_t wait_done(int16_t device, uint16_t jobs);

/* Waits until that many jobs have ended, well or not, and says how. */
void wait_ended(int16_t device, uint16_t jobs, enum rte_dma_status_code *how);

/* Bytes that differ from run to run of the same buffer, and from place to place. */
void paint(uint8_t *bytes, size_t size, uint32_t seed);

int copy(int16_t device, const void *from, void *to, uint32_t size, uint64_t flags);

/* The cases; each ends the program if something is wrong. */
void single(void);
void batch(void);
void fill(void);
void wrap(void);
void full(void);
void two(void);
void refused(void);
void absent_source(void);
void refused_page(void);
void list_fault(void);
void hardware_error(void);
