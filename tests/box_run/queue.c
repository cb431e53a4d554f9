/* A program that submits to a work queue, as one for real devices does: queue CASE NODE. It knows nothing of any model; `$DSA_DEV_PATH/` at the start of NODE is what the variable says. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends the program with a line that names the place and the error. */
#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno));     \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

struct descriptor {
    uint32_t trusted;
    uint32_t flags_and_opcode;
    uint64_t record, from, to;
    uint32_t size;
    uint8_t rest[28];
} __attribute__((aligned(64)));

struct record {
    volatile uint8_t status;
    uint8_t rest[63];
} __attribute__((aligned(64)));

enum { NOOP = 0, BATCH = 1, MEMMOVE = 3, SUCCESS = 1, PAGE_FAULT = 3 };
#define RECORD_VALID 0x4u
#define RECORD_WANTED 0x8u

static struct descriptor operation(int opcode, struct record *record, const void *from, void *to, uint32_t size)
{
    record->status = 0;
    return (struct descriptor){
        .flags_and_opcode = RECORD_VALID | RECORD_WANTED | (uint32_t)opcode << 24,
        .record = (uint64_t)record,
        .from = (uint64_t)from,
        .to = (uint64_t)to,
        .size = size,
    };
}

static int wait_for(struct record *record)
{
    for (const time_t until = time(NULL) + 60; __atomic_load_n(&record->status, __ATOMIC_ACQUIRE) == 0;)
        CHECK(time(NULL) < until);
    return record->status;
}

static void movdir64b(void *portal, const struct descriptor *descriptor)
{
    __asm__ volatile(".byte 0x66, 0x0f, 0x38, 0xf8, 0x02" : : "a"(portal), "d"(descriptor) : "memory");
}

/* Whether the device says "retry". */
static bool enqcmd(void *portal, const struct descriptor *descriptor)
{
    bool retry;
    __asm__ volatile(".byte 0xf2, 0x0f, 0x38, 0xf8, 0x02" : "=@ccz"(retry) : "a"(portal), "d"(descriptor) : "memory");
    return retry;
}

/* Addresses that nobody has mapped, and that the compiler does not see through. */
static void *volatile nowhere = (void *)8;

static char from[4096] = "what is to be copied", to[4096];

static void by_write(int fd)
{
    struct record record;
    const struct descriptor descriptor = operation(MEMMOVE, &record, from, to, sizeof(from));
    memset(to, 0, sizeof(to));
    CHECK(write(fd, &descriptor, sizeof(descriptor)) == sizeof(descriptor));
    CHECK(wait_for(&record) == SUCCESS && memcmp(from, to, sizeof(from)) == 0);
}

static void *map(int fd)
{
    void *portal = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    CHECK(portal != MAP_FAILED);
    return portal;
}

static void by_portal(void *portal, int offset)
{
    struct record record;
    const struct descriptor descriptor = operation(MEMMOVE, &record, from, to, sizeof(from));
    memset(to, 0, sizeof(to));
    movdir64b((char *)portal + offset, &descriptor);
    CHECK(wait_for(&record) == SUCCESS && memcmp(from, to, sizeof(from)) == 0);
}

static int open_node(const char *node)
{
    return open(node, O_RDWR | O_CLOEXEC);
}

/* The file is closed after mmap, and all of the page's places take descriptors. */
static void portal(const char *node)
{
    int fd = open_node(node);
    CHECK(fd >= 0);
    void *page = map(fd);
    CHECK(close(fd) == 0);
    for (int offset = 0; offset < 4096; offset += 64)
        by_portal(page, offset);
    CHECK(munmap(page, 4096) == 0);
    /* Mapped, unmapped and opened again. */
    fd = open_node(node);
    CHECK(fd >= 0);
    page = map(fd);
    by_portal(page, 0);
}

static void shared(const char *node)
{
    const int fd = open_node(node), again = open_node(node);
    CHECK(fd >= 0 && again >= 0);
    void *page = map(fd);
    struct record record[200];
    for (int n = 0; n < 200; n++) {
        const struct descriptor descriptor = operation(NOOP, &record[n], NULL, NULL, 0);
        while (enqcmd((char *)page + 64 * (n % 64), &descriptor)) {
        }
    }
    for (int n = 0; n < 200; n++)
        CHECK(wait_for(&record[n]) == SUCCESS);
    by_write(again);
}

/* What the kernel's driver refuses, and how. */
static void rules(const char *node)
{
    const int fd = open_node(node);
    CHECK(fd >= 0);
    CHECK(open_node(node) == -1 && errno == EBUSY);
    struct record record[2];
    struct descriptor two[3] = {operation(MEMMOVE, &record[0], from, to, 8), operation(MEMMOVE, &record[1], from + 8, to + 8, 8)};
    char byte;
    CHECK(read(fd, &byte, 1) == -1 && errno == EINVAL);
    CHECK(write(fd, two, 63) == 0);
    CHECK(write(fd, nowhere, 64) == -1 && errno == EFAULT);
    CHECK(write(fd, two, 2 * 64 + 63) == 2 * 64);
    CHECK(wait_for(&record[0]) == SUCCESS && wait_for(&record[1]) == SUCCESS && memcmp(from, to, 16) == 0);
    struct descriptor bad = operation(BATCH, &record[0], two, NULL, 2);
    CHECK(write(fd, &bad, 64) == -1 && errno == EINVAL);
    bad = operation(NOOP, &record[0], NULL, NULL, 0);
    bad.record += 8;
    CHECK(write(fd, &bad, 64) == -1 && errno == EINVAL);
    /* What comes before the first that fails is told by the number. */
    two[0] = operation(MEMMOVE, &record[0], from, to, 8);
    two[1] = bad;
    CHECK(write(fd, two, 2 * 64) == 64 && wait_for(&record[0]) == SUCCESS);
    struct iovec pieces[2] = {{&two[0], 64}, {&two[2], 64}};
    two[0] = operation(NOOP, &record[0], NULL, NULL, 0);
    two[2] = operation(NOOP, &record[1], NULL, NULL, 0);
    CHECK(writev(fd, pieces, 2) == 128 && wait_for(&record[1]) == SUCCESS);
    CHECK(mmap(NULL, 8192, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
    /* A copy of the descriptor keeps the queue. */
    const int copy = dup(fd);
    CHECK(copy >= 0 && close(fd) == 0);
    by_write(copy);
    CHECK(open_node(node) == -1 && errno == EBUSY);
    CHECK(close(copy) == 0);
    const int again = open_node(node);
    CHECK(again >= 0);
    by_write(again);
    /* A number that was a queue's, closed without libc's knowing, and a file's now. */
    CHECK(syscall(3 /* close */, again) == 0);
    FILE *file = tmpfile();
    CHECK(file != NULL && write(fileno(file), "x", 1) == 1);
}

static void unprivileged(const char *node)
{
    const int fd = open_node(node);
    CHECK(fd >= 0);
    CHECK(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
    by_write(fd);
}

static sigjmp_buf back;
static volatile sig_atomic_t caught, interrupted;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    caught = info->si_addr == nowhere ? signal : -1;
    siglongjmp(back, 1);
}

static void *volatile page_of_handler;

static void on_user(int signal)
{
    (void)signal;
    by_portal(page_of_handler, 64);
    interrupted++;
}

static void *deaf(void *page)
{
    sigset_t all, old;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (int n = 0; n < 10; n++)
        by_portal(page, 64 * n);
    /* What it did block is blocked. */
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &old) == 0 && sigismember(&old, SIGTERM) == 1);
    return NULL;
}

/* A program that handles and blocks the signals by which a model hears of instructions, as it may on a machine with a device. */
static void signals(const char *node)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    sigfillset(&action.sa_mask);
    /* Before a queue is opened, and after. */
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    const int fd = open_node(node);
    CHECK(fd >= 0);
    void *page = map(fd);
    page_of_handler = page;
    by_portal(page, 0);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGILL, &action, NULL) == 0);
    for (int turn = 0; turn < 3; turn++) {
        by_portal(page, 128);
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)nowhere = 0;
        CHECK(caught == SIGSEGV);
        caught = 0;
    }
    /* Each is told of its own. */
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == on_fault && old.sa_flags & SA_SIGINFO);
    CHECK(sigismember(&old.sa_mask, SIGUSR2) == 1);
    CHECK(sigaction(SIGBUS, NULL, &old) == 0 && old.sa_sigaction == on_fault);
    CHECK((uintptr_t)signal(SIGILL, SIG_DFL) == (uintptr_t)on_fault);
    by_portal(page, 0);
    /* A handler that lets nothing interrupt it, and a thread. */
    struct sigaction user = {.sa_handler = on_user};
    sigfillset(&user.sa_mask);
    CHECK(sigaction(SIGUSR1, &user, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && interrupted == 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, deaf, page) == 0 && pthread_join(thread, NULL) == 0);
    /* And the default is the default. */
    const int child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
        *(volatile int *)nowhere = 0;
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

enum { THREADS = 4, EACH = 200 };

static void *submitter(void *page)
{
    static __thread char mine[2][256];
    for (int n = 0; n < EACH; n++) {
        struct record record;
        const struct descriptor descriptor = operation(MEMMOVE, &record, mine[0], mine[1], 256);
        memset(mine[0], n + 1, 256);
        movdir64b(page, &descriptor);
        CHECK(wait_for(&record) == SUCCESS && memcmp(mine[0], mine[1], 256) == 0);
    }
    return NULL;
}

static void many(const char *node)
{
    const int fd = open_node(node);
    CHECK(fd >= 0);
    void *page = map(fd);
    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_create(&threads[n], NULL, submitter, page) == 0);
    for (int n = 0; n < THREADS; n++)
        CHECK(pthread_join(threads[n], NULL) == 0);
}

/* A child cannot use what its parent opened; nor does it disturb it. */
static void forked(const char *node)
{
    const int fd = open_node(node);
    CHECK(fd >= 0);
    void *page = map(fd);
    by_portal(page, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct record record;
        const struct descriptor descriptor = operation(NOOP, &record, NULL, NULL, 0);
        CHECK(write(fd, &descriptor, 64) == -1 && errno == EPERM);
        CHECK(open_node(node) == -1 && errno == EBUSY);
        movdir64b(page, &descriptor);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    by_portal(page, 64);
    CHECK(close(fd) == 0 && munmap(page, 4096) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const int own = open_node(node);
        CHECK(own >= 0);
        by_portal(map(own), 0);
        by_write(own);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void busy(const char *node, char *self)
{
    const int fd = open_node(node);
    CHECK(fd >= 0);
    by_write(fd);
    const pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(self, self, "must-be-busy", node, NULL);
        _exit(9);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    by_write(fd);
}

static void faults(int fd)
{
    for (int n = 0; n < 100; n++) {
        struct record record;
        const struct descriptor descriptor = operation(MEMMOVE, &record, from, to, 64);
        CHECK(write(fd, &descriptor, 64) == 64);
        const int status = wait_for(&record) & 0x7f;
        CHECK(status == SUCCESS || status == PAGE_FAULT);
    }
}

int main(int argc, char **argv)
{
    static const char variable[] = "$DSA_DEV_PATH/";
    static char node[4096];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3)
        return 2;
    if (strncmp(argv[2], variable, sizeof(variable) - 1) == 0)
        snprintf(node, sizeof(node), "%s/%s", getenv("DSA_DEV_PATH"), argv[2] + sizeof(variable) - 1);
    else
        snprintf(node, sizeof(node), "%s", argv[2]);
    const char *name = argv[1];
    if (strcmp(name, "portal") == 0)
        portal(node);
    else if (strcmp(name, "shared") == 0)
        shared(node);
    else if (strcmp(name, "rules") == 0)
        rules(node);
    else if (strcmp(name, "unprivileged") == 0)
        unprivileged(node);
    else if (strcmp(name, "many") == 0)
        many(node);
    else if (strcmp(name, "signals") == 0)
        signals(node);
    else if (strcmp(name, "fork") == 0)
        forked(node);
    else if (strcmp(name, "busy") == 0)
        busy(node, argv[0]);
    else if (strcmp(name, "must-be-busy") == 0)
        return open_node(node) == -1 && errno == EBUSY ? 0 : 1;
    else {
        const int fd = open_node(node);
        CHECK(fd >= 0);
        if (strcmp(name, "write") == 0)
            by_write(fd);
        else if (strcmp(name, "faults") == 0)
            faults(fd);
        else if (strcmp(name, "hang") == 0) {
            by_write(fd);
            printf("waiting\n");
            for (;;)
                pause();
        } else if (strcmp(name, "crash") == 0) {
            for (int n = 0; n < 5; n++)
                by_write(fd);
            *(volatile int *)nowhere = 0;
        } else
            return 2;
    }
    printf("ok\n");
    return 0;
}
