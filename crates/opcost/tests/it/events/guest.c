#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/kd.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
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
/* The kernel's own counters: the numbers of a file, or the hits of a tracepoint since it was opened. */
static const struct { const char *name, *file, *line, *filter; } counters[] = {
    {"ctxt", "/proc/stat", "ctxt "}, {"pgalloc", "/proc/vmstat", "pgalloc_"}, {"pgfault", "/proc/vmstat", "pgfault "},
    {"timer", "/proc/softirqs", "TIMER:"}, {"hrtimer", "/proc/softirqs", "HRTIMER:"}, {"sched", "/proc/softirqs", "SCHED:"},
    {"rcu", "/proc/softirqs", "RCU:"}, {"tasklet", "/proc/softirqs", "TASKLET:"}, {"net-rx", "/proc/softirqs", "NET_RX:"},
    {"net-tx", "/proc/softirqs", "NET_TX:"}, {"hi", "/proc/softirqs", "HI:"}, {"block", "/proc/softirqs", "BLOCK:"},
    {"waking", "sched/sched_waking"}, {"wakeup_new", "sched/sched_wakeup_new"}, {"migrate", "sched/sched_migrate_task"},
    {"page_alloc", "kmem/mm_page_alloc"}, {"kfree", "kmem/kfree"}, {"cache_free", "kmem/kmem_cache_free"},
    {"work_queued", "workqueue/workqueue_queue_work"}, {"work_run", "workqueue/workqueue_execute_start"},
    {"semaphore", "lock/contention_begin", 0, "flags == 2 || flags == 4"}, {"mutex", "lock/contention_begin", 0, "flags == 32"}, {"tlb", "tlb/tlb_flush", 0, "reason != 0"}, {"bio", "block/block_bio_queue"},
    {"spin", "lock/contention_begin", 0, "flags == 1"}, {"reschedule", "/proc/interrupts", "RES:"},
    {"call", "/proc/interrupts", "CAL:"}, {"shootdown", "/proc/interrupts", "TLB:"},
};
enum { COUNTERS = sizeof counters / sizeof *counters };
static int tracepoints[COUNTERS][2];
static long counted(int at) {
    long sum = 0, hits;
    if (counters[at].line) return counter(counters[at].file, counters[at].line);
    for (int cpu = 0; cpu < 2; cpu++)
        if (tracepoints[at][cpu] > 0 && read(tracepoints[at][cpu], &hits, sizeof hits) > 0) sum += hits;
    return sum;
}
static void open_tracepoints(void) {
    mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, 0);
    for (int at = 0; at < COUNTERS; at++) {
        char path[99], number[20] = "";
        sprintf(path, "/sys/kernel/tracing/events/%s/id", counters[at].file);
        int file = counters[at].line ? -1 : open(path, O_RDONLY);
        if (file < 0 || read(file, number, sizeof number - 1) < 1) continue;
        close(file);
        struct perf_event_attr asked = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof asked, .config = atol(number)};
        for (int cpu = 0; cpu < 2; cpu++) {
            int opened = tracepoints[at][cpu] = syscall(SYS_perf_event_open, &asked, -1, cpu, -1, 0);
            if (opened > 0 && counters[at].filter) ioctl(opened, PERF_EVENT_IOC_SET_FILTER, counters[at].filter);
        }
    }
}
/* Takes so many spin locks twice, and mutexes and reader-writer semaphores once. The page fault takes two spin locks of page tables,
   with the flush's, and only tries its semaphore. */
static void take_locks(long times) {
    unsigned long number = 1;
    int events = eventfd(0, 0), shared = open("/proc/self/exe", O_RDONLY);
    dup(shared);
    volatile char *empty = mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (; times > 0; times--) {
        write(events, &number, sizeof number);
        read(events, &number, sizeof number);
        lseek(shared, 0, SEEK_SET);
        madvise((void *)empty, PAGE, MADV_DONTNEED);
        (void)empty[0];
    }
}
/* Flushes pages, faults them in, closes files and writes to a RAM disk. */
static void flush_and_write(const char *own, long times) {
    static char __attribute__((aligned(PAGE))) direct[2 * PAGE];
    char *page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    volatile char *code = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, open(own, O_RDONLY), 0);
    int disk = open("/dev/ram1", O_RDWR | O_DIRECT);
    code[0];
    if (disk >= 0) pwrite(disk, direct, sizeof direct, 0);
    for (; times > 0; times--) {
        madvise(page, PAGE, MADV_DONTNEED);
        page[0] = 1;
        madvise((void *)code, PAGE, MADV_DONTNEED);
        code[0];
        close(open("/dev/null", O_RDONLY));
        if (disk >= 0) pwrite(disk, direct, sizeof direct, 0);
    }
}
/* Writes lines to a terminal that two tasks read: each line is a work item, and one reader waits for the other one's mutex. A
   console's lamps are set by a tasklet. */
static void share_terminal(long times) {
    mkdir("/dev/pts", 0755);
    mount("devpts", "/dev/pts", "devpts", 0, 0);
    int done[2], unlocked = 0, console = open("/dev/tty0", O_RDWR | O_NOCTTY), terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    char text[8];
    if (pipe(done) || ioctl(terminal, TIOCSPTLCK, &unlocked)) exit(5);
    int other = ioctl(terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    struct termios how;
    if (other < 0 || tcgetattr(other, &how)) exit(6);
    how.c_lflag &= ~ECHO;
    tcsetattr(other, TCSANOW, &how);
    pid_t readers[2];
    for (int at = 0; at < 2; at++)
        if ((readers[at] = fork()) == 0)
            for (;;) {
                read(other, text, sizeof text);
                write(done[1], "", 1);
            }
    usleep(20000);
    for (; times > 0; times--) {
        ioctl(console, KDSETLED, 0);
        write(terminal, "\n", 1);
        read(done[0], text, 1);
        usleep(1000);
    }
    for (int at = 0; at < 2; at++) {
        kill(readers[at], SIGKILL);
        waitpid(readers[at], 0, 0);
    }
}
/* Two tasks write to one file; the first waits for its page within the lock until the second waits, too. */
static int file, go[2][2], done[2];
static char *late;
static void *write_when_told(void *which) {
    char byte;
    while (read(go[(long)which][0], &byte, 1) == 1) {
        pwrite(file, which ? "" : late, 1, 0);
        write(done[1], "", 1);
    }
    return 0;
}
static void write_together(long times) {
    write(open("/proc/sys/vm/unprivileged_userfaultfd", O_WRONLY), "1", 1);
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api version = {UFFD_API};
    late = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register those = {{(long)late, PAGE}, UFFDIO_REGISTER_MODE_MISSING};
    if (faults < 0) return;
    if (ioctl(faults, UFFDIO_API, &version) || ioctl(faults, UFFDIO_REGISTER, &those)) exit(7);
    file = open("/tmp/together", O_RDWR | O_CREAT, 0600);
    pthread_t threads[2];
    pipe(done);
    for (long which = 0; which < 2; which++) {
        pipe(go[which]);
        pthread_create(&threads[which], 0, write_when_told, (void *)which);
    }
    for (; times > 0; times--) {
        char what[sizeof(struct uffd_msg)];
        write(go[0][1], "", 1);
        read(faults, what, sizeof what);
        write(go[1][1], "", 1);
        usleep(1000);
        struct uffdio_zeropage page = {{(long)late, PAGE}};
        ioctl(faults, UFFDIO_ZEROPAGE, &page);
        read(done[0], what, 1);
        read(done[0], what, 1);
        madvise(late, PAGE, MADV_DONTNEED);
    }
    for (int which = 0; which < 2; which++) {
        close(go[which][1]);
        pthread_join(threads[which], 0);
    }
}
/* Sends by TCP, also at a pace, which timers keep. Before, the loopback device gets a queue if the kernel has such. */
static void send_by_tcp(long bytes) {
    static char text[1 << 16];
    int rate = 1 << 20, weight = open("/proc/sys/net/core/dev_weight", O_WRONLY), link = socket(AF_NETLINK, SOCK_RAW, 0);
    struct {
        struct nlmsghdr head;
        struct tcmsg body;
        struct rtattr kind;
        char name[8];
        struct rtattr options;
        struct tc_fifo_qopt limit;
    } asked = {{sizeof asked, RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE}, {.tcm_ifindex = 1, .tcm_handle = 1 << 16, .tcm_parent = TC_H_ROOT}, {4 + 6, TCA_KIND}, "bfifo", {8, TCA_OPTIONS}, {60000}};
    write(weight, "1", 1);
    write(link, &asked, sizeof asked);
    int listener = socket(AF_INET, SOCK_STREAM, 0), sender = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in port = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof port;
    if (bind(listener, (void *)&port, length) || listen(listener, 1) || getsockname(listener, (void *)&port, &length)) exit(8);
    if (connect(sender, (void *)&port, length)) exit(9);
    int receiver = accept(listener, 0, 0);
    for (int pace = 0; pace < 2; pace++) {
        for (long sent = 0; sent < bytes; sent += 8000) {
            write(sender, text, 8000);
            if (!pace && (sent / 8000) % 8 != 7) continue;
            for (long rest = pace ? 8000 : 64000; rest > 0;) rest -= read(receiver, text, sizeof text);
        }
        setsockopt(sender, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    }
}
/* Moves between two CPUs, and flushes a page while another task of the same memory runs on the other CPU and takes the same lock. */
static void stay(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one)) exit(10);
}
static int fought, stopped;
static void *fight(void *unused) {
    unsigned long number = 1;
    stay(1);
    while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) write(fought, &number, sizeof number);
    return 0;
}
static void use_two_cpus(long times) {
    unsigned long number = 1;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
    for (long time = 0; time < times; time++) {
        stay(1);
        stay(0);
    }
    fought = eventfd(0, EFD_SEMAPHORE);
    char *page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t other;
    pthread_create(&other, 0, fight, 0);
    usleep(20000);
    for (long time = 0; time < times; time++) {
        page[0] = 1;
        madvise(page, PAGE, MADV_DONTNEED);
        for (int again = 0; again < 100; again++) write(fought, &number, sizeof number);
    }
    stopped = 1;
    pthread_join(other, 0);
}
int main(int count, char **words) {
    if (count != 5) return 1;
    long rounds = atol(words[1]), bytes = atol(words[2]), more = atol(words[3]), locks = atol(words[4]), before[COUNTERS];
    static char buffer[1 << 14];
    /* What needs or changes the whole machine is for guests alone. */
    if (more) open_tracepoints();
    for (int at = 0; at < COUNTERS; at++) before[at] = counted(at);
    int there[2], back[2], own[2], pair[2], queue = msgget(IPC_PRIVATE, 0600);
    if (queue < 0 || pipe(there) || pipe(back) || pipe(own) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
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
    take_locks(locks);
    if (more) {
        flush_and_write(words[0], more);
        share_terminal(more);
        write_together(more);
        send_by_tcp(more / 8 * 64000);
        use_two_cpus(more);
    }
    usleep(50000); /* RCU runs what it got. */
    for (int at = 0; at < COUNTERS; at++) printf("%s=%ld\n", counters[at].name, counted(at) - before[at]);
    fflush(stdout);
    close(there[1]);
    msgctl(queue, IPC_RMID, 0);
    return waitpid(child, 0, 0) != child;
}
