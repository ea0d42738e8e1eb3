// Preloaded before libktls by kernel_selftest.sh: what connects to this machine does so from $CONNECTING to $LISTENING, which are behind the
// NIC, instead of over the loopback interface.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
	char protocol[16];
	socklen_t protocol_len = sizeof(protocol);
	struct sockaddr_in here = { .sin_family = AF_INET }, there = here;

	// What has been connected before has a protocol above TCP.
	getsockopt(fd, IPPROTO_TCP, TCP_ULP, protocol, &protocol_len);
	if (to->sa_family != AF_INET || protocol_len > 0)
		return next(fd, to, len);
	there.sin_port = ((const struct sockaddr_in *)to)->sin_port;
	inet_pton(AF_INET, getenv("CONNECTING"), &here.sin_addr);
	inet_pton(AF_INET, getenv("LISTENING"), &there.sin_addr);
	bind(fd, (void *)&here, sizeof(here));
	return next(fd, (void *)&there, sizeof(there));
}
