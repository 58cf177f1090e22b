/* Listens to all packets of a network namespace: capture FILE WORD. Counts packets, and those with WORD in their data,
   until FILE is removed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static char packet[1 << 17];
    long packets = 0, found = 0;
    int size = 1 << 26, fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
    if (argc != 3 || fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0) {
        perror("capture");
        return 1;
    }
    FILE *sign = fopen(argv[1], "w");
    if (!sign || fclose(sign) != 0)
        return 2;
    struct pollfd ready = {fd, POLLIN, 0};
    while (poll(&ready, 1, 50) > 0 || access(argv[1], F_OK) == 0) {
        ssize_t length = recv(fd, packet, sizeof packet, MSG_DONTWAIT);
        if (length <= 0)
            continue;
        packets++;
        found += memmem(packet, (size_t)length, argv[2], strlen(argv[2])) != NULL;
    }
    printf("%s, %s\n", packets > 20 ? "many packets" : "few packets", found ? "read" : "not read");
    return 0;
}
