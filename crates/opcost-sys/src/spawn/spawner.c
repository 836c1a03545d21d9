/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The spawner: a process that makes commands' processes, without a C library, with some 100 KiB of memory.
 *
 * execve(2) enters the peak of the memory that it replaces into the process's account (fs/exec.c,
 * exec_mmap). A command that a large process starts therefore never shows a peak below the large
 * process's. The spawner's children leave only the spawner's small memory behind. They are made with
 * CLONE_PARENT, so they are children of the process that started the spawner, which waits for them itself.
 *
 * Nothing wakes the spawner or that process while a command starts: a task that wakes up may take the command's
 * CPU from it, and the command's account counts that as a turn of another task. The child therefore uses the
 * spawner's memory without CLONE_VFORK; the next order comes when the child has ended or was never let go.
 *
 * Orders come one at a time over the socket SOCKET_FD, one message each:
 *   from outside: struct order, the CPU mask, then strings, each with its NUL: the program, the
 *     working directory if there is one, the arguments, the environment; attached are the files for
 *     standard streams (SCM_RIGHTS), in the streams' order;
 *   from the child: struct answer {its number, involuntary switches so far}; the child then waits for one byte
 *     from the pipe GO_FD and executes. If a step fails: struct answer {stage, errno}, before the child ends;
 *   from the spawner: struct answer {-errno, 0} if no child can be made.
 * spawner.rs has the other end.
 */
#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#define SOCKET_FD 3
#define GO_FD 4
#define ORDER_BYTES_MAX (128 * 1024)
#define STRINGS_MAX 4096
#define STACK_BYTES 16384

/* linux/sched.h, linux/prctl.h, linux/fcntl.h, linux/personality.h, asm-generic/errno.h */
#define CLONE_VM 0x100ul
#define CLONE_PARENT 0x8000ul
#define SIGNAL_CHILD 17ul
#define SIGNAL_KILL 9
#define PR_SET_PDEATHSIG 1
#define PR_SET_NAME 15
#define F_SETFD 2
#define FD_CLOEXEC 1
#define PERSONA_QUERY 0xffffffffl
#define ADDR_NO_RANDOMIZE 0x0040000l
/* linux/sched.h, asm-generic/resource.h */
#define SCHED_FIFO 1
#define RLIMIT_RTTIME 15
#define EINTR 4
#define ESRCH 3
/* linux/socket.h */
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define MSG_CMSG_CLOEXEC 0x40000000l

/* The numbers of the stages are those of `Stage::ALL` in error.rs. */
enum stage { PARENT_DEATH = 2, PROCESS_GROUP, DESCRIPTORS, CHDIR, AFFINITY, PERSONALITY, PRIORITY, SIGNALS, EXEC, NONE = -1 };

enum stream { AS_OURS, TO_NULL, OF_FILE };
#define STREAMS 3
enum aslr { INHERIT, FIXED, RANDOMISED };

struct order {
	uint32_t parent_pid;
	/* Standard input, output and error. */
	uint32_t streams[STREAMS];
	uint32_t aslr;
	uint32_t mask_bytes;
	uint32_t has_cwd;
	uint32_t own_session;
	/* 0: as ours; else real-time, with this limit of time without a pause. */
	uint32_t real_time_ms_max;
	uint32_t arguments;
	uint32_t variables;
};

struct answer {
	int32_t first;
	int32_t second;
};

static union {
	struct order order;
	char bytes[ORDER_BYTES_MAX];
} received;
static char *arguments[STRINGS_MAX + 1];
static char *variables[STRINGS_MAX + 1];
static char *program, *cwd;
/* Files that came with the order. */
static int files[STREAMS];
static uint32_t files_count;
/* The child's stack. */
static char stack[STACK_BYTES] __attribute__((aligned(16)));

#if defined(__x86_64__)
static long call(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;
	/* System V ABI, AMD64 supplement, A.2.1. */
	__asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return result;
}

static long make_child(unsigned long flags, char *top, void (*entry)(void))
{
	long result;
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	register void (*r9)(void) __asm__("r9") = entry;
	__asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tcall *%%r9\n\tud2\n1:"
			 : "=a"(result)
			 : "0"((long)__NR_clone), "D"(flags), "S"(top), "d"(0l), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall serve\n\tud2\n");
#elif defined(__aarch64__)
static long call(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

static long make_child(unsigned long flags, char *top, void (*entry)(void))
{
	register long x8 __asm__("x8") = __NR_clone;
	register unsigned long x0 __asm__("x0") = flags;
	register char *x1 __asm__("x1") = top;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;
	register void (*x9)(void) __asm__("x9") = entry;
	__asm__ volatile("svc 0\n\tcbnz x0, 1f\n\tmov x29, 0\n\tblr x9\n\tbrk 1\n1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9)
			 : "memory", "x30");
	return (long)x0;
}

__asm__(".globl _start\n_start:\n\tmov x29, 0\n\tmov x30, 0\n\tbl serve\n\tbrk 1\n");
#else
#error "no system calls for this architecture"
#endif

static void leave(long status)
{
	for (;;)
		call(__NR_exit_group, status, 0, 0, 0);
}

static void send_answer(int32_t first, int32_t second)
{
	struct answer answer = {first, second};
	/* If nobody reads the answer, the next read ends this process. */
	(void)call(__NR_write, SOCKET_FD, (long)&answer, sizeof answer, 0);
}

static long set_aslr(uint32_t aslr)
{
	long persona;

	if (aslr == INHERIT)
		return 0;
	persona = call(__NR_personality, PERSONA_QUERY, 0, 0, 0);
	if (persona < 0)
		return persona;
	persona = aslr == FIXED ? persona | ADDR_NO_RANDOMIZE : persona & ~ADDR_NO_RANDOMIZE;
	persona = call(__NR_personality, persona, 0, 0, 0);
	return persona < 0 ? persona : 0;
}

static long set_priority(uint32_t ms_max)
{
	/* struct rlimit in microseconds: SIGXCPU, and a second later SIGKILL; struct sched_param: the lowest priority. */
	uint64_t limits[2] = {(uint64_t)ms_max * 1000, ((uint64_t)ms_max + 1000) * 1000};
	int32_t lowest = 1;
	long error;

	if (ms_max == 0)
		return 0;
	error = call(__NR_prlimit64, 0, RLIMIT_RTTIME, (long)limits, 0);
	return error < 0 ? error : call(__NR_sched_setscheduler, 0, SCHED_FIFO, (long)&lowest, 0);
}

/* Prepares the surroundings of the program; returns the stage that failed. */
static enum stage prepare(long *error)
{
	const struct order *order = &received.order;

	*error = call(__NR_prctl, PR_SET_PDEATHSIG, SIGNAL_KILL, 0, 0);
	if (*error < 0)
		return PARENT_DEATH;
	/* If the parent died before the request, no signal will come, but this process has another parent. */
	if (call(__NR_getppid, 0, 0, 0, 0) != (long)order->parent_pid) {
		*error = -ESRCH;
		return PARENT_DEATH;
	}
	*error = call(order->own_session ? __NR_setsid : __NR_setpgid, 0, 0, 0, 0);
	if (*error < 0)
		return PROCESS_GROUP;
	/* The spawner's standard input is /dev/null, open for writing as well; it is replaced last. */
	for (int stream = STREAMS - 1, file = (int)files_count - 1; stream >= 0; stream--) {
		long from = order->streams[stream] == OF_FILE ? files[file--] : 0;

		if (order->streams[stream] == AS_OURS || from == stream)
			continue;
		if ((*error = call(__NR_dup3, from, stream, 0, 0)) < 0)
			return DESCRIPTORS;
	}
	if (order->has_cwd && (*error = call(__NR_chdir, (long)cwd, 0, 0, 0)) < 0)
		return CHDIR;
	if (order->mask_bytes) {
		*error = call(__NR_sched_setaffinity, 0, order->mask_bytes, (long)(received.bytes + sizeof *order), 0);
		if (*error < 0)
			return AFFINITY;
	}
	*error = set_aslr(order->aslr);
	if (*error < 0)
		return PERSONALITY;
	*error = set_priority(order->real_time_ms_max);
	return *error < 0 ? PRIORITY : NONE;
}

/* How often another task had this process's CPU. setsid(2) alone costs a turn: it moves the process to another group of the scheduler,
 * which then chooses anew who runs (kernel/sched/core.c, sched_move_task). */
static int32_t involuntary_switches(void)
{
	/* struct rusage ends with ru_nivcsw. */
	long usage[18];

	return call(__NR_getrusage, 0, (long)usage, 0, 0) < 0 ? 0 : (int32_t)usage[17];
}

static void child(void)
{
	char go;
	long error, got;
	enum stage stage = prepare(&error);

	send_answer((int32_t)call(__NR_getpid, 0, 0, 0, 0), involuntary_switches());
	/* The child reports a failure only after the byte, so that the process exists while counters are attached. */
	do
		got = call(__NR_read, GO_FD, (long)&go, 1, 0);
	while (got == -EINTR);
	if (got == 1) {
		if (stage == NONE) {
			error = call(__NR_execve, (long)program, (long)arguments, (long)variables, 0);
			stage = EXEC;
		}
		send_answer(stage, (int32_t)-error);
	}
	leave(127);
}

/* Returns the string that begins at `*at` and moves `*at` behind it; NULL if the string does not end in the message. */
static char *string(char **at, const char *end)
{
	char *start = *at;

	while (*at < end)
		if (*(*at)++ == 0)
			return start;
	return NULL;
}

static int strings(char **array, uint32_t count, char **at, const char *end)
{
	if (count > STRINGS_MAX)
		return 0;
	for (uint32_t index = 0; index < count; index++)
		if (!(array[index] = string(at, end)))
			return 0;
	array[count] = NULL;
	return 1;
}

/* The kernel's struct msghdr, iovec and cmsghdr on 64-bit architectures. */
struct message {
	void *name;
	uint64_t name_bytes;
	struct {
		void *base;
		uint64_t bytes;
	} *parts;
	uint64_t parts_count;
	void *control;
	uint64_t control_bytes;
	uint64_t flags;
};

/* Receives an order and the attached files; returns the number of bytes, or -errno. */
static long receive(void)
{
	struct {
		uint64_t bytes;
		int32_t level, type;
		int32_t files[STREAMS + 1];
	} control;
	__typeof__(*((struct message *)0)->parts) part = {received.bytes, sizeof received};
	struct message message = {NULL, 0, &part, 1, &control, sizeof control, 0};
	const uint64_t head_bytes = offsetof(__typeof__(control), files);
	long bytes = call(__NR_recvmsg, SOCKET_FD, (long)&message, MSG_CMSG_CLOEXEC, 0);

	files_count = 0;
	if (bytes > 0 && message.control_bytes >= head_bytes && control.level == SOL_SOCKET && control.type == SCM_RIGHTS)
		for (uint64_t at = head_bytes; at < control.bytes && files_count < STREAMS; at += sizeof(int32_t))
			files[files_count++] = control.files[(at - head_bytes) / sizeof(int32_t)];
	return bytes;
}

/* Sets the pointers to the parts of an order of `bytes`; returns whether the order is complete. */
static int understand(long bytes)
{
	const struct order *order = &received.order;
	char *at, *end = received.bytes + bytes;
	uint32_t wanted = 0;

	if (bytes < (long)sizeof *order)
		return 0;
	for (int stream = 0; stream < STREAMS; stream++)
		wanted += order->streams[stream] == OF_FILE;
	if (wanted != files_count)
		return 0;
	if (bytes < (long)sizeof *order || order->mask_bytes > (unsigned long)bytes - sizeof *order)
		return 0;
	at = received.bytes + sizeof *order + order->mask_bytes;
	program = string(&at, end);
	cwd = order->has_cwd ? string(&at, end) : NULL;
	return program && (cwd || !order->has_cwd) && strings(arguments, order->arguments, &at, end) &&
	       strings(variables, order->variables, &at, end);
}

__attribute__((used, noreturn)) void serve(void);
void serve(void)
{
	(void)call(__NR_prctl, PR_SET_NAME, (long)"opcost-spawner", 0, 0);
	(void)call(__NR_fcntl, SOCKET_FD, F_SETFD, FD_CLOEXEC, 0);
	(void)call(__NR_fcntl, GO_FD, F_SETFD, FD_CLOEXEC, 0);
	for (;;) {
		long made, bytes = receive();

		if (bytes == -EINTR)
			continue;
		if (bytes <= 0 || !understand(bytes))
			leave(1);
		made = make_child(CLONE_VM | CLONE_PARENT | SIGNAL_CHILD, stack + STACK_BYTES, child);
		/* A pipe ends when every process has closed it. The child has descriptors of its own, and reads files_count. */
		for (uint32_t file = 0; file < files_count; file++)
			(void)call(__NR_close, files[file], 0, 0, 0);
		if (made < 0)
			send_answer((int32_t)made, 0);
	}
	__builtin_unreachable();
}
