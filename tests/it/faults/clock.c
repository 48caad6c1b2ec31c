// Lets a process see another time than the true one: the seconds in a file are added to it, see clock.rs. The monotonic
// clock is not touched, as when a machine's clock is set.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *seconds;

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("KUBECTL_FLINK_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    if (found == MAP_FAILED) {
        abort();
    }
    close(file);
    seconds = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) {
        now->tv_sec += *seconds;
    }
    return failed;
}
