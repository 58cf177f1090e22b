/* MPI_Init costs the same time and memory whether 1 or 64 VCIs may be used later: processes of both
 * kinds in turn, the least of each.
 * ranks: 1
 * variants: single
 * alone: yes
 * timeout: 60
 */
#include "check.h"
#include <sys/wait.h>

/* Other programs make a round longer, never shorter: where few rounds don't show that both cost the same, many decide. */
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

static int are_equal(const struct cost *least) {
    return least[1].time * 10 <= least[0].time * 11 && least[1].memory * 20 <= least[0].memory * 21;
}

int main(void) {
    const char *ceilings[] = {"1", "64"};
    struct cost least[2] = {{1L << 40, 1L << 40}, {1L << 40, 1L << 40}};
    int rounds = FEW;
    for (int round = 0; round < rounds; round++) {
        for (int kind = 0; kind < 2; kind++) {
            struct cost cost = child(ceilings[kind]);
            if (cost.time < least[kind].time) {
                least[kind].time = cost.time;
            }
            if (cost.memory < least[kind].memory) {
                least[kind].memory = cost.memory;
            }
        }
        if (round == FEW - 1 && !are_equal(least)) {
            rounds = MANY;
        }
    }
    char text[200];
    snprintf(text, sizeof text, "1 VCI: %ld us, %ld KiB; 64: %ld us, %ld KiB", least[0].time,
             least[0].memory, least[1].time, least[1].memory);
    if (getenv("WEFT_TEST_FIGURES") || !are_equal(least)) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK(are_equal(least));
    return 0;
}
