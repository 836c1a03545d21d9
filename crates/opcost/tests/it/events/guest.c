#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#define PAGE 4096
/* The sum of the numbers behind a name in a file of the kernel's; of all lines that begin with the name. */
static long counter(const char *path, const char *name) {
    static char text[1 << 16];
    int file = open(path, O_RDONLY);
    long length = 0, sum = 0;
    /* As many calls whatever the length. */
    for (int time = 0; time < 16; time++) {
        long more = read(file, text + length, sizeof text - 1 - length);
        if (more > 0) length += more;
    }
    close(file);
    text[length] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
        while (*line == ' ') line++;
        if (strncmp(line, name, strlen(name))) continue;
        for (char *at = strpbrk(line, " :"); at && *at;) {
            if (*at < '0' || *at > '9') { at++; continue; }
            sum += strtol(at, &at, 10);
        }
    }
    return sum;
}
static const char *const counters[][3] = {
    {"ctxt", "/proc/stat", "ctxt "}, {"pgalloc", "/proc/vmstat", "pgalloc_"}, {"pgfault", "/proc/vmstat", "pgfault "},
    {"timer", "/proc/softirqs", "TIMER:"}, {"hrtimer", "/proc/softirqs", "HRTIMER:"}, {"sched", "/proc/softirqs", "SCHED:"},
    {"rcu", "/proc/softirqs", "RCU:"}, {"tasklet", "/proc/softirqs", "TASKLET:"}, {"net-rx", "/proc/softirqs", "NET_RX:"},
};
enum { COUNTERS = sizeof counters / sizeof *counters };
int main(int count, char **words) {
    long rounds = atol(words[1]), bytes = atol(words[2]), before[COUNTERS];
    static char buffer[1 << 14];
    for (int at = 0; at < COUNTERS; at++) before[at] = counter(counters[at][1], counters[at][2]);
    int there[2], back[2], own[2], pair[2], queue = msgget(IPC_PRIVATE, 0600);
    if (count != 3 || queue < 0 || pipe(there) || pipe(back) || pipe(own) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    int packets = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own_port = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof own_port;
    if (bind(packets, (void *)&own_port, length) || getsockname(packets, (void *)&own_port, &length)) return 3;
    if (connect(packets, (void *)&own_port, length)) return 4;
    char *copied = mmap(0, rounds * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    char *shared = mmap(0, rounds * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) write(back[1], &byte, 1);
        _exit(0);
    }
    struct { long type; char text[1 << 13]; } *message = (void *)buffer;
    message->type = 1;
    for (long round = 0; round < rounds; round++) {
        write(there[1], "x", 1);
        read(back[0], buffer, 1);
        message->type = 1;
        write(own[1], buffer, 3000);
        read(own[0], buffer, 3000);
        write(pair[0], buffer, 700);
        read(pair[1], buffer, 700);
        write(packets, buffer, 500);
        read(packets, buffer, 500);
        message->type = 1;
        if (msgsnd(queue, message, bytes, 0) || msgrcv(queue, message, bytes, 0, 0) != bytes) return 2;
        char *fresh = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int page = 0; page < 4; page++) fresh[page * PAGE] = 1;
        munmap(fresh, 4 * PAGE);
        copied[round * PAGE] = 1;
        shared[round * PAGE] = 1;
        open("/nowhere", O_RDONLY);
        read(-1, buffer, 1);
    }
    for (int at = 0; at < COUNTERS; at++) printf("%s=%ld\n", counters[at][0], counter(counters[at][1], counters[at][2]) - before[at]);
    fflush(stdout);
    close(there[1]);
    msgctl(queue, IPC_RMID, 0);
    return waitpid(child, 0, 0) != child;
}
