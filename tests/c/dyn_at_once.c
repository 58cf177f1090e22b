/* Threads of two jobs that connect at the same time, each pair by its own port, also while others disconnect the
 * communicators that have joined the jobs so far (MPI-4.1 sections 11.6, 11.9.4 and 11.10.4). A peer process is the
 * same in all these communicators (sections 7.3.1 and 7.4.1).
 * ranks: 1
 * variants: shm tcp
 * timeout: 60
 * stdout: all met
 */
#include "fails.h"

#include <pthread.h>
#include <sys/wait.h>

#define PAIRS 3
#define ROUNDS 20

static int is_server;
static char ports[PAIRS][MPI_MAX_PORT_NAME];
static MPI_Comm selves[PAIRS];

static MPI_Comm meet(int pair) {
    MPI_Comm other;
    if (is_server) {
        OK(MPI_Comm_accept(ports[pair], MPI_INFO_NULL, 0, selves[pair], &other));
    } else {
        OK(MPI_Comm_connect(ports[pair], MPI_INFO_NULL, 0, selves[pair], &other));
    }
    return other;
}

/* Exchanges messages of both sizes in both directions, received from MPI_ANY_SOURCE. */
static void talk(MPI_Comm other) {
    static const int sizes[] = {1, 100000};
    for (int i = 0; i < 2; i++) {
        int *out = malloc(sizes[i] * sizeof *out), *in = malloc(sizes[i] * sizeof *in);
        for (int j = 0; j < sizes[i]; j++) {
            out[j] = j;
        }
        MPI_Request sent;
        OK(MPI_Isend(out, sizes[i], MPI_INT, 0, i, other, &sent));
        OK(MPI_Recv(in, sizes[i], MPI_INT, MPI_ANY_SOURCE, i, other, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
        CHECK(memcmp(in, out, sizes[i] * sizeof *in) == 0);
        free(out);
        free(in);
    }
}

static void *meet_and_part(void *number) {
    MPI_Comm other = meet((int)(long)number);
    talk(other);
    OK(MPI_Comm_disconnect(&other));
    return NULL;
}

static void at_once(void) {
    pthread_t threads[PAIRS];
    for (long i = 0; i < PAIRS; i++) {
        CHECK(pthread_create(&threads[i], NULL, meet_and_part, (void *)i) == 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static MPI_Comm met[PAIRS];

static void *meet_only(void *number) {
    long i = (long)number;
    met[i] = meet((int)i);
    return NULL;
}

/* What threads have made at the same time is between the same two processes. */
static void know_each_other(void) {
    pthread_t threads[PAIRS];
    MPI_Group groups[PAIRS];
    for (long i = 0; i < PAIRS; i++) {
        CHECK(pthread_create(&threads[i], NULL, meet_only, (void *)i) == 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        OK(MPI_Comm_remote_group(met[i], &groups[i]));
    }
    for (int i = 1; i < PAIRS; i++) {
        int how, zero = 0, rank = -1;
        OK(MPI_Group_compare(groups[0], groups[i], &how));
        CHECK_EQ(how, MPI_IDENT);
        OK(MPI_Group_translate_ranks(groups[0], 1, &zero, groups[i], &rank));
        CHECK_EQ(rank, 0);
        OK(MPI_Comm_compare(met[0], met[i], &how));
        CHECK_EQ(how, MPI_CONGRUENT);
    }
    for (int i = 0; i < PAIRS; i++) {
        talk(met[i]);
        OK(MPI_Group_free(&groups[i]));
    }
    /* Those that are left go on when others have parted. */
    for (int i = 0; i < PAIRS; i++) {
        for (int j = i; j < PAIRS; j++) {
            talk(met[j]);
        }
        OK(MPI_Comm_disconnect(&met[i]));
    }
}

static void *part(void *comm) {
    OK(MPI_Comm_disconnect((MPI_Comm *)comm));
    return NULL;
}

/* One thread meets the others while another parts from them. */
static void turn_over(void) {
    MPI_Comm old = meet(0);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t parts;
        CHECK(pthread_create(&parts, NULL, part, &old) == 0);
        MPI_Comm new = meet(0);
        talk(new);
        CHECK(pthread_join(parts, NULL) == 0);
        old = new;
    }
    OK(MPI_Comm_disconnect(&old));
}

/* The server does both at once, the client one after the other. */
static void turn_over_by_one(void) {
    MPI_Comm old = meet(0);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t parts;
        if (is_server) {
            CHECK(pthread_create(&parts, NULL, part, &old) == 0);
            usleep(i * 100);
        }
        MPI_Comm new = meet(0);
        talk(new);
        if (is_server) {
            CHECK(pthread_join(parts, NULL) == 0);
        } else {
            OK(MPI_Comm_disconnect(&old));
        }
        old = new;
    }
    OK(MPI_Comm_disconnect(&old));
}

int main(int argc, char **argv) {
    int provided;
    is_server = argc == 1;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < PAIRS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_SELF, &selves[i]));
        if (is_server) {
            OK(MPI_Open_port(MPI_INFO_NULL, ports[i]));
        } else {
            strcpy(ports[i], argv[1 + i]);
        }
    }
    pid_t client = 0;
    if (is_server) {
        client = fork();
        if (client == 0) {
            /* Started without a launcher: a job of its own. */
            unsetenv("PMI_FD");
            unsetenv("PMI_RANK");
            unsetenv("PMI_SIZE");
            execl("/proc/self/exe", argv[0], ports[0], ports[1], ports[2], (char *)NULL);
            _exit(1);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        at_once();
        know_each_other();
    }
    turn_over();
    turn_over_by_one();
    for (int i = 0; i < PAIRS; i++) {
        OK(MPI_Comm_free(&selves[i]));
        if (is_server) {
            OK(MPI_Close_port(ports[i]));
        }
    }
    if (is_server) {
        int status = -1;
        CHECK_EQ(waitpid(client, &status, 0), client);
        CHECK_EQ(status, 0);
        printf("all met\n");
    }
    OK(MPI_Finalize());
    return 0;
}
