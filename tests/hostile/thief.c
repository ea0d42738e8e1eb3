/* Looks at a socket until it may be bound to any port (Linux's repair mode says so by SO_REUSEADDR), and binds it to one that somebody else has. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* How it stands with the socket after so many looks: 1 it listens at the port, 0 nothing was had, 2 the moment came and the port was not had. */
int steal(int fd, int port, int looks)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    while (looks--) {
        int reuse = 0;
        socklen_t len = sizeof reuse;
        getsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, &len);
        if (reuse < 2)
            continue;
        connect(fd, &nowhere, sizeof nowhere);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0)
            return 1;
        return 2;
    }
    return 0;
}

/* The same without a look: the connection is given up, and whatever it may do then is tried. */
int steal_blindly(int fd, int port, int tries)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    while (tries--) {
        connect(fd, &nowhere, sizeof nowhere);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0)
            return 1;
    }
    return 0;
}
