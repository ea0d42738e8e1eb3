/* A program on kernel TLS: writes on the socket by the function that it is told, found by its name. */
#define _GNU_SOURCE
#include <aio.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char text[4096];

static long through_aio(void *function, int fd, int is_list)
{
    static struct aiocb block;
    struct aiocb *list[1] = { &block };
    block.aio_fildes = fd;
    block.aio_buf = text;
    block.aio_nbytes = sizeof text;
    block.aio_lio_opcode = LIO_WRITE;
    int began = is_list ? ((int (*)(int, struct aiocb *const[], int, struct sigevent *))function)(LIO_WAIT, list, 1, NULL)
                        : ((int (*)(struct aiocb *))function)(&block);
    if (began != 0)
        return -1;
    while (aio_error(&block) == EINPROGRESS)
        usleep(1000);
    return aio_error(&block) ? -1 : aio_return(&block);
}

static long formatted(int is_checked, void *function, int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    long written = is_checked ? ((int (*)(int, int, const char *, va_list))function)(fd, 1, format, list)
                              : ((int (*)(int, const char *, va_list))function)(fd, format, list);
    va_end(list);
    return written;
}

static long call(const char *name, void *function, int fd)
{
    struct iovec part = { text, sizeof text };
    struct mmsghdr message = { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } };
    if (!strncmp(name, "aio_write", 9))
        return through_aio(function, fd, 0);
    if (!strncmp(name, "lio_listio", 10))
        return through_aio(function, fd, 1);
    if (!strncmp(name, "pwritev", 7) && strstr(name, "v2"))
        return ((ssize_t (*)(int, const struct iovec *, int, off_t, int))function)(fd, &part, 1, -1, 0);
    if (!strncmp(name, "pwritev", 7))
        return ((ssize_t (*)(int, const struct iovec *, int, off_t))function)(fd, &part, 1, 0);
    if (!strcmp(name, "writev"))
        return writev(fd, &part, 1);
    if (strstr(name, "sendmmsg"))
        return ((int (*)(int, struct mmsghdr *, unsigned, int))function)(fd, &message, 1, 0) == 1 ? message.msg_len : -1;
    if (strstr(name, "sendmsg"))
        return ((ssize_t (*)(int, const struct msghdr *, int))function)(fd, &message.msg_hdr, 0);
    if (strstr(name, "sendto"))
        return ((ssize_t (*)(int, const void *, size_t, int, const void *, socklen_t))function)(fd, text, sizeof text, 0, NULL, 0);
    if (strstr(name, "send") && !strstr(name, "file"))
        return ((ssize_t (*)(int, const void *, size_t, int))function)(fd, text, sizeof text, 0);
    if (strstr(name, "pwrite"))
        return ((ssize_t (*)(int, const void *, size_t, off_t))function)(fd, text, sizeof text, 0);
    if (!strcmp(name, "syscall"))
        return syscall(SYS_write, fd, text, sizeof text);
    if (strstr(name, "vdprintf"))
        return formatted(strstr(name, "chk") != NULL, function, fd, "%.*s", (int)sizeof text, text);
    if (!strcmp(name, "__dprintf_chk"))
        return ((int (*)(int, int, const char *, ...))function)(fd, 1, "%.*s", (int)sizeof text, text);
    if (strstr(name, "dprintf"))
        return ((int (*)(int, const char *, ...))function)(fd, "%.*s", (int)sizeof text, text);
    if (strstr(name, "write"))
        return ((ssize_t (*)(int, const void *, size_t))function)(fd, text, sizeof text);
    int file = memfd_create("text", 0), ends[2];
    if (write(file, text, sizeof text) < 0 || lseek(file, 0, SEEK_SET) < 0 || pipe(ends) != 0)
        return -1;
    if (strstr(name, "sendfile"))
        return ((ssize_t (*)(int, int, off_t *, size_t))function)(fd, file, NULL, sizeof text);
    if (strstr(name, "copy_file_range"))
        return ((ssize_t (*)(int, off_t *, int, off_t *, size_t, unsigned))function)(file, NULL, fd, NULL, sizeof text, 0);
    if (!strcmp(name, "vmsplice"))
        return vmsplice(fd, &part, 1, 0);
    if (!strcmp(name, "tee") || !strcmp(name, "splice")) {
        if (write(ends[1], text, sizeof text) < 0)
            return -1;
        if (!strcmp(name, "tee"))
            return tee(ends[0], fd, sizeof text, 0);
        return ((ssize_t (*)(int, off_t *, int, off_t *, size_t, unsigned))function)(ends[0], NULL, fd, NULL, sizeof text, 0);
    }
    return -2;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 64;
    const char *name = arguments[3];
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function) {
        printf("absent\n");
        return 0;
    }
    for (size_t at = 0; at < sizeof text; at++)
        text[at] = "not to be read on any wire! "[at % 28];
    struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(atoi(arguments[2])) };
    inet_pton(AF_INET, arguments[1], &peer.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    /* struct tls12_crypto_info_aes_gcm_128 of TLS 1.3. */
    unsigned char keys[40] = { 4, 3, 51, 0, 1, 2, 3, 4, 5, 6, 7, 8 };
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) || setsockopt(fd, IPPROTO_TCP, 31, "tls", 3) || setsockopt(fd, 282, 1, keys, sizeof keys)) {
        printf("no kernel TLS: %s\n", strerror(errno));
        return 1;
    }
    errno = 0;
    long written = call(name, function, fd);
    printf("%ld %s\n", written, written < 0 ? strerror(errno) : "written");
    fflush(stdout);
    usleep(50000);
    close(fd);
    return 0;
}
