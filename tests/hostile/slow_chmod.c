/* Loaded before a program: its chmod takes half a second, so that who waits for a moment in which a socket is open to all does not miss it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

int chmod(const char *path, mode_t mode)
{
    usleep(500000);
    return ((int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "chmod"))(path, mode);
}
