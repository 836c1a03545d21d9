/*
 * Four works: `works NAME N` does one of them N times. `… works NAME FEW MANY…` as the first process of a machine does each work
 * with both numbers of operations, between marks, and ends the machine. It mounts nothing and shares no code with opcost. Its
 * first work is done once more before all others, since it also starts what a kernel starts late.
 */
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __aarch64__
#define MARK() __asm__ volatile(".inst 0xd2e0201f" : : : "memory")
static void null(long times)
{
	__asm__ volatile("mov x8, #173\n1: svc #0\n subs %0, %0, #1\n b.ne 1b" : "+r"(times) : : "x0", "x8", "memory", "cc");
}
#else
#define MARK() __asm__ volatile("xchg %%bx,%%bx" : : : "memory")
static void null(long times)
{
	__asm__ volatile("1: mov $110,%%eax\n syscall\n dec %0\n jnz 1b" : "+r"(times) : : "rax", "rcx", "r11", "memory");
}
#endif

/* A byte goes to another process and back. */
static void pipes(long times)
{
	int there[2], back[2];
	char byte = 0;
	if (pipe(there) || pipe(back)) exit(3);
	if (!fork()) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1) write(back[1], &byte, 1);
		_exit(0);
	}
	while (times--) {
		write(there[1], &byte, 1);
		read(back[0], &byte, 1);
	}
	close(there[1]);
	wait(0);
}

static void maps(long times)
{
	while (times--) {
		char *pages = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pages[times % 16 * 4096] = 1;
		munmap(pages, 65536);
	}
}

static void forks(long times)
{
	while (times--) {
		if (!fork()) _exit(0);
		wait(0);
	}
}

static const struct work {
	const char *name;
	void (*run)(long times);
} works[] = {{"pipe", pipes}, {"mmap", maps}, {"fork", forks}, {"null", null}};

/* Deferred work of what came before comes to its end. */
static void settle(void)
{
	usleep(500000);
}

/* Does a work and tells how often it faulted. */
static int work(const char *name, const char *times)
{
	const struct work *work = works;
	struct rusage own, others;
	long before;
	while (strcmp(work->name, name)) work++;
	settle();
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &others);
	before = own.ru_minflt + others.ru_minflt;
	work->run(atol(times));
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &others);
	settle();
	printf("faults %ld\n", own.ru_minflt + others.ru_minflt - before);
	return 0;
}

static void marked(char *name, char *times)
{
	char *arguments[] = {"/init", name, times, 0}, *none[] = {0};
	pid_t child;
	MARK();
	child = fork();
	if (!child) _exit(execve("/init", arguments, none));
	waitpid(child, 0, 0);
	MARK();
}

/* Makes the kernel's random generator ready, as it is on a machine that has run for a while. */
static void seed(void)
{
	struct { int bits, bytes; char seed[32]; } pool = {256, 32, "a seed"};
	int random;
	mknod("/random", S_IFCHR | 0600, makedev(1, 8));
	random = open("/random", O_WRONLY);
	ioctl(random, RNDADDENTROPY, &pool);
	ioctl(random, RNDRESEEDCRNG);
	close(random);
}

int main(int count, char **arguments)
{
	int at;
	if (getpid() != 1) return work(arguments[1], arguments[2]);
	seed();
	/* Work that the kernel does once after its start comes to its end. */
	sleep(3);
	/* Options that the kernel does not know stand before. */
	for (at = 1; strcmp(arguments[at], "works");) at++;
	marked(arguments[at + 1], arguments[at + 2]);
	for (at++; at + 2 < count; at += 3) {
		marked(arguments[at], arguments[at + 1]);
		marked(arguments[at], arguments[at + 2]);
	}
	reboot(RB_AUTOBOOT);
	return 1;
}
