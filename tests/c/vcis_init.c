/* MPI_Init costs the same time and memory whether 1 or 64 VCIs may be used later: processes of both
 * kinds in turn, of times the middle of how those of a turn compare, of memory the least of each.
 * ranks: 1
 * variants: single
 * alone: yes
 * timeout: 60
 */
#include "check.h"
#include <sys/wait.h>

/* A processor may be quicker for some turns, and other programs take it in others: where few don't show that both cost the
 * same, many decide. */
enum { FEW = 12, MANY = 100 };

/* Microseconds of processor time of MPI_Init, and KiB of memory after it. */
struct cost {
    long time, memory;
};

static long processor_time(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct cost child(const char *ceiling) {
    struct cost cost = {0, 0};
    int ends[2], status = -1;
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char line[200];
        setenv("WEFT_NUM_VCIS", ceiling, 1);
        long before = processor_time();
        int provided;
        OK(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided));
        cost.time = processor_time() - before;
        FILE *file = fopen("/proc/self/status", "r");
        CHECK(file);
        while (fgets(line, sizeof line, file)) {
            sscanf(line, "VmRSS: %ld", &cost.memory);
        }
        fclose(file);
        OK(MPI_Finalize());
        CHECK_EQ(write(ends[1], &cost, sizeof cost), sizeof cost);
        exit(0);
    }
    CHECK_EQ(read(ends[0], &cost, sizeof cost), sizeof cost);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    close(ends[0]);
    close(ends[1]);
    return cost;
}

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* The middle of so many. */
static double median(const double *ratios, int count) {
    double sorted[MANY];
    memcpy(sorted, ratios, (size_t)count * sizeof *ratios);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return sorted[count / 2];
}

static int are_equal(double ratio, const long *memory) {
    return ratio <= 1.1 && memory[1] * 20 <= memory[0] * 21;
}

int main(void) {
    const char *ceilings[] = {"1", "64"};
    long memory[2] = {1L << 40, 1L << 40};
    double ratios[MANY], ratio = 0;
    int rounds = FEW;
    for (int round = 0; round < rounds; round++) {
        long times[2];
        for (int turn = 0; turn < 2; turn++) {
            /* Whoever comes second finds caches as the first has left them. */
            int kind = (turn + round) % 2;
            struct cost cost = child(ceilings[kind]);
            times[kind] = cost.time;
            if (cost.memory < memory[kind])
                memory[kind] = cost.memory;
        }
        ratios[round] = (double)times[1] / (double)times[0];
        if (round == FEW - 1 && !are_equal(median(ratios, FEW), memory))
            rounds = MANY;
    }
    ratio = median(ratios, rounds);
    char text[200];
    snprintf(text, sizeof text, "64 VCIs: %.3f of the time of 1; 1: %ld KiB; 64: %ld KiB", ratio, memory[0], memory[1]);
    if (getenv("WEFT_TEST_FIGURES") || !are_equal(ratio, memory)) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK(are_equal(ratio, memory));
    return 0;
}
