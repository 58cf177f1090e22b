/* Runs a program on a kernel that lacks the system calls and flags that came after Linux 4.18, and rseq and statx, which
 * old containers refuse: a filter makes them fail with ENOSYS, an unknown advice of madvise with EINVAL. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first number that was given after Linux 4.18, on all processors: pidfd_send_signal. */
enum { FIRST_NEW = 424 };

#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define IF_IS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1)
#define IF_LEAST(value) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, value, 0, 1)
#define FAIL(code) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code))

int main(int argc, char **argv) {
    struct sock_filter filter[] = {
        FIELD(nr),
        IF_LEAST(FIRST_NEW),
        FAIL(ENOSYS),
        IF_IS(SYS_rseq),
        FAIL(ENOSYS),
        IF_IS(SYS_statx),
        FAIL(ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        FIELD(args[2]),
        /* MADV_COLD and all after it. */
        IF_LEAST(20),
        FAIL(EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("the filter of system calls");
        return 1;
    }
    /* The filter works. */
    if (syscall(FIRST_NEW, 0, 0, NULL, 0) != -1 || errno != ENOSYS) {
        fprintf(stderr, "system call %d is not refused\n", FIRST_NEW);
        return 1;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
