/* Runs a program in a container that refuses system calls: `deny [EPERM|ENOSYS] CALL... -- PROGRAM ARGUMENT...`. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define CALL(name) {#name, SYS_##name}

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    CALL(clone3),           CALL(close_range),      CALL(futex_waitv),       CALL(kcmp),
    CALL(mbind),            CALL(membarrier),       CALL(memfd_create),      CALL(move_pages),
    CALL(openat2),          CALL(perf_event_open),  CALL(pidfd_open),        CALL(process_vm_readv),
    CALL(process_vm_writev), CALL(ptrace),          CALL(rseq),              CALL(sched_setaffinity),
    CALL(set_mempolicy),    CALL(statx),
};
enum { CALLS = sizeof calls / sizeof *calls };

int main(int argc, char **argv) {
    struct sock_filter filter[2 * CALLS + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    unsigned short length = 1;
    int code = EPERM, at = 1;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        if (strcmp(argv[at], "EPERM") == 0 || strcmp(argv[at], "ENOSYS") == 0) {
            code = argv[at][1] == 'P' ? EPERM : ENOSYS;
            continue;
        }
        int call = 0;
        while (call < CALLS && strcmp(calls[call].name, argv[at]) != 0)
            call++;
        if (call == CALLS || length >= 2 * CALLS) {
            fprintf(stderr, "deny: %s is not in its table, or there are too many\n", argv[at]);
            return 1;
        }
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[call].number, 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {length, filter};
    if (at + 1 >= argc || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("the filter of system calls");
        return 1;
    }
    execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 127;
}
