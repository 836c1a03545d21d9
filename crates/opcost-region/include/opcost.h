/* Regions of your own program that opcost counts separately.
 *
 *     opcost_region_begin("parse");
 *     for (i = 0; i < 1000; i++) parse(text);
 *     opcost_region_end("parse", 1000);
 *
 * Run the program with `opcost measure --regions ./program`. The report has a row for each name. The row is
 * per operation if you pass a number of operations, and for all entries together if you pass 0.
 *
 * This header needs no library; it works with C99 and C++, gcc and clang. Without opcost a call is a load, a
 * comparison and a jump. A call keeps errno. Regions may nest and overlap. A name has at most 200 bytes and no
 * blanks. docs/regions.md of opcost says what counts.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef OPCOST_H
#define OPCOST_H

#if defined(__linux__) && !defined(OPCOST_NO_REGIONS)

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define OPCOST_SLOW_ static __attribute__((noinline, unused))

/* Whether and how opcost wants to be told about regions. */
enum opcost_region_mode_ {
    OPCOST_UNKNOWN_ = 0,
    OPCOST_ABSENT_ = 1,
    /* Instructions without effect that the emulator recognises. */
    OPCOST_MARKS_ = 2,
    /* A socket; opcost reads the counters at its other end. */
    OPCOST_SOCKET_ = 3
};

#if defined(__x86_64__)
/* A seven-byte NOP (Intel SDM volume 2, NOP); the displacement holds the meaning. */
#define OPCOST_MARK_(byte) \
    __asm__ volatile(".byte 0x0f, 0x1f, 0x80, " #byte ", 0x04, 0x63, 0x6f" ::: "memory")
#elif defined(__aarch64__)
/* movz xzr, #(0x400 | byte), lsl #48: it changes nothing (Arm ARM, C6.2, MOVZ). */
#define OPCOST_MARK_(byte) __asm__ volatile(".inst 0xd2e0801f | " #byte " << 5" ::: "memory")
#endif

static int opcost_region_known_ __attribute__((unused)) = OPCOST_UNKNOWN_;

OPCOST_SLOW_ int opcost_region_find_(void)
{
    const char *value = getenv("OPCOST_REGIONS");
    int mode = OPCOST_ABSENT_;
#if defined(OPCOST_MARK_)
    if (value && strcmp(value, "mark") == 0)
        mode = OPCOST_MARKS_;
#endif
    if (value && value[0] == '/')
        mode = OPCOST_SOCKET_;
    __atomic_store_n(&opcost_region_known_, mode, __ATOMIC_RELAXED);
    return mode;
}

static inline int opcost_region_how_(void)
{
    int mode = __atomic_load_n(&opcost_region_known_, __ATOMIC_RELAXED);
    return __builtin_expect(mode == OPCOST_UNKNOWN_, 0) ? opcost_region_find_() : mode;
}

#if defined(OPCOST_MARK_)
OPCOST_SLOW_ void opcost_region_digit_(unsigned digit)
{
    switch (digit & 15) {
    case 0: OPCOST_MARK_(0x00); break;
    case 1: OPCOST_MARK_(0x01); break;
    case 2: OPCOST_MARK_(0x02); break;
    case 3: OPCOST_MARK_(0x03); break;
    case 4: OPCOST_MARK_(0x04); break;
    case 5: OPCOST_MARK_(0x05); break;
    case 6: OPCOST_MARK_(0x06); break;
    case 7: OPCOST_MARK_(0x07); break;
    case 8: OPCOST_MARK_(0x08); break;
    case 9: OPCOST_MARK_(0x09); break;
    case 10: OPCOST_MARK_(0x0a); break;
    case 11: OPCOST_MARK_(0x0b); break;
    case 12: OPCOST_MARK_(0x0c); break;
    case 13: OPCOST_MARK_(0x0d); break;
    case 14: OPCOST_MARK_(0x0e); break;
    default: OPCOST_MARK_(0x0f); break;
    }
}

OPCOST_SLOW_ void opcost_region_name_(const char *name)
{
    for (; *name; name++) {
        opcost_region_digit_((unsigned char)*name);
        opcost_region_digit_((unsigned char)*name >> 4);
    }
}

OPCOST_SLOW_ void opcost_region_number_(unsigned long long number)
{
    for (; number; number >>= 4)
        opcost_region_digit_((unsigned)(number & 15));
}
#endif

/* Sends a message and waits until opcost has read the counters. */
OPCOST_SLOW_ void opcost_region_send_(char kind, const char *name, unsigned long long operations)
{
    struct sockaddr_un address;
    char message[288], digits[20], reply;
    size_t length = 0, count = 0, name_length = strlen(name);
    const char *path = getenv("OPCOST_REGIONS");
    int file, kept = errno;

    if (!path || strlen(path) >= sizeof address.sun_path)
        return;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, path);
    message[length++] = kind;
    do
        digits[count++] = (char)('0' + operations % 10);
    while (operations /= 10);
    while (count)
        message[length++] = digits[--count];
    message[length++] = ' ';
    /* opcost refuses a name that is too long, so its end does not matter. */
    if (name_length > 240)
        name_length = 240;
    memcpy(message + length, name, name_length);
    length += name_length;
    message[length++] = '\0';

    file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0) {
        if (connect(file, (struct sockaddr *)&address, sizeof address) == 0 &&
            send(file, message, length, MSG_NOSIGNAL) == (ssize_t)length) {
            while (read(file, &reply, 1) < 0 && errno == EINTR)
                ;
        }
        close(file);
    }
    errno = kept;
}

/* Begins a region. name: at most 200 bytes of UTF-8 without blanks. */
static inline void opcost_region_begin(const char *name)
{
    int mode = opcost_region_how_();
    if (__builtin_expect(mode == OPCOST_ABSENT_, 1))
        return;
    if (mode == OPCOST_SOCKET_) {
        opcost_region_send_('b', name, 0);
        return;
    }
#if defined(OPCOST_MARK_)
    OPCOST_MARK_(0x10);
    opcost_region_name_(name);
    OPCOST_MARK_(0x11);
#endif
}

/* Ends the region. operations: the number performed since the begin; 0 if operations have no number. */
static inline void opcost_region_end(const char *name, unsigned long long operations)
{
    int mode = opcost_region_how_();
    if (__builtin_expect(mode == OPCOST_ABSENT_, 1))
        return;
    if (mode == OPCOST_SOCKET_) {
        opcost_region_send_('e', name, operations);
        return;
    }
#if defined(OPCOST_MARK_)
    OPCOST_MARK_(0x20);
    opcost_region_name_(name);
    OPCOST_MARK_(0x21);
    opcost_region_number_(operations);
    OPCOST_MARK_(0x22);
#endif
}

/* Whether opcost counts regions of this program. */
static inline int opcost_region_is_counted(void)
{
    return opcost_region_how_() != OPCOST_ABSENT_;
}

#else

static inline void opcost_region_begin(const char *name) { (void)name; }
static inline void opcost_region_end(const char *name, unsigned long long operations)
{
    (void)name;
    (void)operations;
}
static inline int opcost_region_is_counted(void) { return 0; }

#endif
#endif
