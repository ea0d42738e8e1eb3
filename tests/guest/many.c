/* many ADDRESS PORT COUNT [HELD]: opens and closes so many connections of kernel TLS to an echo server. With the same keys both ways, what comes back
 * is the record that was sent. HELD of them stay open; each line of the standard input has all of these send and receive once more. */
#include <arpa/inet.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

static const char words[] = "what is sent comes back";

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void echo(int fd)
{
	char back[sizeof(words)] = "";

	if (send(fd, words, sizeof(words), 0) != sizeof(words))
		fail("send");
	if (recv(fd, back, sizeof(back), MSG_WAITALL) != sizeof(back))
		fail("recv");
	if (memcmp(words, back, sizeof(words)))
		fail("the bytes differ");
}

static int dial(const char *address, const char *port)
{
	struct tls12_crypto_info_aes_gcm_128 keys = {
		.info = { TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128 },
		.key = "sixteen bytes..", .salt = "abc", .iv = "1234567",
	};
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("connect");
	if (setsockopt(fd, SOL_TCP, TCP_ULP, "tls", sizeof("tls")))
		fail("TCP_ULP");
	if (setsockopt(fd, SOL_TLS, TLS_TX, &keys, sizeof(keys)) ||
	    setsockopt(fd, SOL_TLS, TLS_RX, &keys, sizeof(keys)))
		fail("keys");
	echo(fd);
	return fd;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[3]), held = argc > 4 ? atoi(argv[4]) : 0, at;
	int *fds = calloc(held + 1, sizeof(int));
	char line[64];

	for (at = 0; at < count; at++)
		close(dial(argv[1], argv[2]));
	for (at = 0; at < held; at++)
		fds[at] = dial(argv[1], argv[2]);
	printf("ready\n");
	fflush(stdout);
	while (held && fgets(line, sizeof(line), stdin)) {
		for (at = 0; at < held; at++)
			echo(fds[at]);
		printf("echoed\n");
		fflush(stdout);
	}
	return 0;
}
