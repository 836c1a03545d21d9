/* A clock that moves by a chosen step at each reading, for programs that choose a number of iterations by time.
 *
 * The library is loaded before a benchmark's program (ld.so(8), LD_PRELOAD). OPCOST_BENCH has its orders, divided by ';':
 *
 *     steps=FROM:NS/FROM:NS   from reading FROM on (the first is 1) the clock moves by NS at each reading
 *     first=N last=N          the readings of the window; with the last one the program ends
 *     period=N on=N off=N     in each period of readings from `first` on, callgrind collects from reading `on` to `off`
 *     named=1                 only readings by opcost_bench_time() are numbered, for frameworks that take a timer by its name
 *     out=FILE                the file that gets the number of readings and of threads
 *
 * Without orders the library does nothing. It allocates nothing and keeps errno.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STEPS_MAX 64
#define SECOND 1000000000ull
/* September 2020, for clocks that count from 1970. */
#define BEGINNING (1600000000ull * SECOND)

typedef unsigned long long u64;

static struct {
    u64 from, ns;
} steps[STEPS_MAX];
static u64 first, last, period = 1, on, off, readings, now, threads, named, others;
static int is_ordered, is_on, owner;
static char out[4096];

static u64 number(const char **text)
{
    u64 value = 0;
    while (**text >= '0' && **text <= '9')
        value = value * 10 + (u64)(*(*text)++ - '0');
    return value;
}

static const char *after(const char *text, const char *name)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 ? text + length : NULL;
}

__attribute__((constructor)) static void begin(void)
{
    static const struct {
        const char *name;
        u64 *value;
    } numbers[] = {
        { "first=", &first }, { "last=", &last }, { "period=", &period }, { "on=", &on }, { "off=", &off },
        { "named=", &named },
    };
    const char *text = getenv("OPCOST_BENCH"), *value;
    int saved = errno;

    if (!text)
        return;
    while (*text) {
        if ((value = after(text, "steps="))) {
            for (int i = 0; i < STEPS_MAX; i++) {
                steps[i].from = number(&value);
                value += *value == ':';
                steps[i].ns = number(&value);
                if (*value != '/')
                    break;
                value++;
            }
            text = value;
        } else if ((value = after(text, "out="))) {
            size_t length = strcspn(value, ";");
            if (length < sizeof out)
                memcpy(out, value, length);
            text = value;
        } else {
            for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
                if ((value = after(text, numbers[i].name)))
                    *numbers[i].value = number(&value);
        }
        text += strcspn(text, ";");
        text += *text == ';';
    }
    /* Programs that this one starts have the computer's clock. */
    unsetenv("OPCOST_BENCH");
    owner = (int)syscall(SYS_getpid);
    is_ordered = 1;
    errno = saved;
}

static char *digits(char *at, u64 value)
{
    char text[20];
    int length = 0;
    do
        text[length++] = (char)('0' + value % 10);
    while (value /= 10);
    while (length)
        *at++ = text[--length];
    return at;
}

static void report(void)
{
    char line[64], *at = line;
    int file;

    if (!out[0] || (int)syscall(SYS_getpid) != owner)
        return;
    file = (int)syscall(SYS_openat, AT_FDCWD, out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    at = digits(at, readings);
    *at++ = ' ';
    at = digits(at, threads);
    *at++ = '\n';
    syscall(SYS_write, file, line, at - line);
    syscall(SYS_close, file);
}

__attribute__((destructor)) static void end(void)
{
    int saved = errno;
    if (is_ordered)
        report();
    errno = saved;
}

/* Callgrind's request to begin or end collecting (callgrind.h, CALLGRIND_TOGGLE_COLLECT); it does nothing on a processor. */
static inline __attribute__((always_inline)) void toggle(void)
{
    volatile u64 words[6] = { 0x43540002, 0, 0, 0, 0, 0 };
    u64 answer = 0;
    is_on = !is_on;
    __asm__ volatile("rolq $3,%%rdi; rolq $13,%%rdi; rolq $61,%%rdi; rolq $51,%%rdi; xchgq %%rbx,%%rbx"
                     : "+d"(answer)
                     : "a"(&words[0])
                     : "cc", "memory");
}

/* Returns the time of this reading, in nanoseconds. */
static __attribute__((noinline)) u64 numbered(void)
{
    u64 place, step = steps[0].ns;

    if (is_on && (readings + 1 - first) % period == off)
        toggle();
    readings++;
    for (int i = 0; i < STEPS_MAX && steps[i].ns && steps[i].from <= readings; i++)
        step = steps[i].ns;
    now += step;
    if (readings >= first && readings <= last) {
        place = (readings - first) % period;
        if (readings == last) {
            if (is_on)
                toggle();
            report();
            syscall(SYS_exit_group, 0);
        }
        if (place == on && !is_on)
            toggle();
    }
    return now;
}

static inline u64 reading(void)
{
    return named ? (others += 10 * SECOND) : numbered();
}

/* A timer for Python, in seconds. */
double opcost_bench_time(void)
{
    return (double)numbered() / 1e9;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    u64 ns;

    if (!is_ordered)
        return (int)syscall(SYS_clock_gettime, clock, at);
    ns = reading() + (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI ? BEGINNING : SECOND);
    at->tv_sec = (time_t)(ns / SECOND);
    at->tv_nsec = (long)(ns % SECOND);
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    u64 ns;

    if (!is_ordered)
        return (int)syscall(SYS_gettimeofday, at, zone);
    ns = reading() + BEGINNING;
    at->tv_sec = (time_t)(ns / SECOND);
    at->tv_usec = (suseconds_t)(ns % SECOND / 1000);
    return 0;
}

time_t time(time_t *at)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (at)
        *at = found.tv_sec;
    return found.tv_sec;
}

int timespec_get(struct timespec *at, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

clock_t clock(void)
{
    struct timespec found;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &found);
    return (clock_t)(found.tv_sec * CLOCKS_PER_SEC + found.tv_nsec / (1000000000 / CLOCKS_PER_SEC));
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *),
                   void *restrict argument)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    return next ? next(thread, attributes, start, argument) : EAGAIN;
}
