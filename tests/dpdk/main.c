/* Runs one case against the first dmadev devices that DPDK finds: dma EAL-OPTIONS -- CASE */
#include "rig.h"

#include <rte_eal.h>

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"single", single}, {"batch", batch}, {"fill", fill}, {"wrap", wrap}, {"full", full}, {"two", two},
    {"refused", refused}, {"absent-source", absent_source}, {"refused-page", refused_page},
    {"list-fault", list_fault}, {"hardware-error", hardware_error},
};

int main(int argc, char **argv)
{
    const int taken = rte_eal_init(argc, argv);
    if (taken < 0 || taken + 1 >= argc) {
        printf("dma EAL-OPTIONS -- CASE\n");
        return 2;
    }
    CHECK(rte_dma_count_avail() > 0, "DPDK finds no device");
    for (unsigned n = 0; n < sizeof(CASES) / sizeof(*CASES); n++) {
        if (strcmp(argv[taken + 1], CASES[n].name) == 0) {
            CASES[n].run();
            printf("%s: ok\n", CASES[n].name);
            return 0;
        }
    }
    printf("no case is called %s\n", argv[taken + 1]);
    return 2;
}
