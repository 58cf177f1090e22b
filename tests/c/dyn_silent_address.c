/* MPI_Comm_connect tries a port's further addresses if the first belongs to another machine, as in private networks
 * with equal addresses, where a program accepts the connection and is silent, sends other data, or hangs up.
 * ranks: 2
 * variants: shm
 * env: WEFT_TCP_INTERFACE=lo
 * timeout: 60
 * stdout: connected
 */
#include "fails.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

static int listeners[3];

/* Of the three addresses the first accepts and says nothing, the second sends what is no challenge, the third hangs up. */
static void *answer(void *unused) {
    static const char nothing[1024];
    (void)unused;
    for (;;) {
        int second = accept(listeners[1], NULL, NULL);
        if (second < 0 || write(second, nothing, sizeof nothing) < 0) {
            return NULL;
        }
        int third = accept(listeners[2], NULL, NULL);
        if (third >= 0) {
            close(third);
        }
    }
}

static void listen_at(int number, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)number);
    listeners[number] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(setsockopt(listeners[number], SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(listeners[number], (struct sockaddr *)&at, sizeof at) == 0 && listen(listeners[number], 100) == 0);
}

int main(int argc, char **argv) {
    MPI_Comm inter;
    char name[MPI_MAX_PORT_NAME], wrong[MPI_MAX_PORT_NAME + 64], *address, *port;
    OK(MPI_Init(&argc, &argv));
    if (world_rank() == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, name));
        OK(MPI_Send(name, sizeof name, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
        /* Its process serves nobody for a while. */
        nap(3);
        OK(MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        OK(MPI_Close_port(name));
    } else {
        pthread_t thread;
        OK(MPI_Recv(name, sizeof name, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        /* The last two parts are the port and the addresses. */
        address = strrchr(name, '/');
        *address = 0;
        port = strrchr(name, '/');
        CHECK(strcmp(address + 1, "127.0.0.1") == 0);
        for (int i = 0; i < 3; i++) {
            listen_at(i, atoi(port + 1));
        }
        CHECK(pthread_create(&thread, NULL, answer, NULL) == 0);
        snprintf(wrong, sizeof wrong, "%s/127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.1", name);
        CHECK(strlen(wrong) < MPI_MAX_PORT_NAME);
        double began = MPI_Wtime();
        OK(MPI_Comm_connect(wrong, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        CHECK(MPI_Wtime() - began < 15);
        puts("connected");
    }
    OK(MPI_Barrier(inter));
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Finalize());
    return 0;
}
