/* Looks, as a user without other processes, for what /proc shows of a job: snoop SECONDS. A process of a job is one whose
   command line has "marked" or "mpiexec" in it. Does not call MPI. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The user, and the hexadecimal digits of a secret. */
enum { USER = 61917, DIGITS = 64 };

static int has_secret(const char *text, long len)
{
    int digits = 0;
    for (long at = 0; at < len; at++) {
        digits = isxdigit((unsigned char)text[at]) ? digits + 1 : 0;
        if (digits == DIGITS)
            return 1;
    }
    return 0;
}

/* Files that hold secrets, or lead to memory that does. */
static const char *const closed[] = {"environ", "maps", "mem", "fd", "map_files", "auxv", "stack"};

/* Returns whether the process is one of a job. */
static int look(const char *pid)
{
    static char line[1 << 16];
    char path[300];
    snprintf(path, sizeof path, "/proc/%.20s/cmdline", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    long len = read(fd, line, sizeof line);
    close(fd);
    if (len <= 0 || (!memmem(line, len, "marked", 6) && !memmem(line, len, "mpiexec", 7)))
        return 0;
    if (has_secret(line, len))
        printf("a secret is on the command line of %s: %s\n", pid, line);
    for (size_t at = 0; at < sizeof closed / sizeof *closed; at++) {
        snprintf(path, sizeof path, "/proc/%.20s/%s", pid, closed[at]);
        char byte;
        DIR *folder = opendir(path);
        int file = folder ? -1 : open(path, O_RDONLY);
        if (folder || (file >= 0 && read(file, &byte, 1) == 1))
            printf("%s of %s can be read\n", closed[at], line);
        if (folder)
            closedir(folder);
        if (file >= 0)
            close(file);
    }
    return 1;
}

int main(int argc, char **argv)
{
    long seen = 0;
    if (argc != 2 || setgid(USER) || setuid(USER))
        return 2;
    for (time_t end = time(NULL) + atoi(argv[1]); time(NULL) < end;) {
        DIR *all = opendir("/proc");
        if (!all)
            return 3;
        for (struct dirent *one; (one = readdir(all));)
            if (isdigit((unsigned char)one->d_name[0]))
                seen += look(one->d_name);
        closedir(all);
    }
    printf("%s\n", seen > 20 ? "nothing else was found" : "too few processes were seen");
    return 0;
}
