/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host of the NIC that answers ARP and ping: a driver as small as it gets, written from docs/device.md.
 *
 *     cc -std=c11 -Wall -Wextra -O2 -o echo echo.c
 *     longshore nic --host rings:/run/nic.sock … &
 *     ./echo /run/nic.sock 10.0.0.2
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../longshore.h"

enum {
    ENTRIES = 64,       /* of each ring */
    BUFFER = 2048,      /* bytes of a buffer */
    REGION = 1,         /* the only one */
    MEMORY = 2 * ENTRIES * BUFFER, /* buffers to receive into, then buffers to send from */
};

/* One side of a ring: what is ours of it, and what the other side has shown. */
struct ring {
    uint8_t *at;
    size_t slot;
    uint64_t ours;
};

static uint8_t *memory;
static uint8_t our_mac[6];
static uint8_t our_address[4];
static int nic_bell, host_bell;
static struct ring send_ring, receive_ring, small_ring;

static void fail(const char *what)
{
    fprintf(stderr, "echo: %s: %s\n", what, errno ? strerror(errno) : "not as the device is specified");
    exit(1);
}

/* ---- rings ---- */

static _Atomic uint64_t *word(const struct ring *ring, size_t offset)
{
    return (_Atomic uint64_t *)(void *)(ring->at + offset);
}

static size_t ring_bytes(size_t slot)
{
    size_t bytes = LONGSHORE_RING_SLOTS + ENTRIES * slot;
    return (bytes + LONGSHORE_LINE - 1) / LONGSHORE_LINE * LONGSHORE_LINE;
}

static void *slot_of(const struct ring *ring)
{
    return ring->at + LONGSHORE_RING_SLOTS + ring->ours % ENTRIES * ring->slot;
}

static int has_room(const struct ring *ring)
{
    uint64_t head = atomic_load_explicit(word(ring, LONGSHORE_RING_HEAD), memory_order_acquire);
    return ring->ours - head < ENTRIES;
}

static int has_come(const struct ring *ring)
{
    return atomic_load_explicit(word(ring, LONGSHORE_RING_TAIL), memory_order_acquire) != ring->ours;
}

static void publish(const struct ring *ring, size_t index)
{
    atomic_store_explicit(word(ring, index), ring->ours, memory_order_release);
}

/* Rings if the consumer of this ring sleeps. */
static void wake(const struct ring *ring)
{
    const uint64_t one = 1;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_exchange(word(ring, LONGSHORE_RING_ASLEEP), 0) && write(nic_bell, &one, sizeof one) < 0 && errno != EAGAIN)
        fail("the NIC's bell");
}

/* ---- messages ---- */

/* Sends a request, with a descriptor unless it is negative, and takes its answer, with up to two. */
static void ask(int connection, uint64_t request[16], int passed, uint64_t answer[4], int came[2])
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec out = {request, LONGSHORE_REQUEST_BYTES}, in = {answer, LONGSHORE_ANSWER_BYTES};
    struct msghdr message = {.msg_iov = &out, .msg_iovlen = 1};
    struct cmsghdr *header;

    request[0] = (uint64_t)LONGSHORE_MAGIC << 32 | LONGSHORE_VERSION;
    if (passed >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int));
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    if (sendmsg(connection, &message, MSG_NOSIGNAL) != LONGSHORE_REQUEST_BYTES)
        fail("a request");
    message = (struct msghdr){.msg_iov = &in, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    if (recvmsg(connection, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != LONGSHORE_ANSWER_BYTES)
        fail("an answer");
    header = CMSG_FIRSTHDR(&message);
    if (came && header && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(came, CMSG_DATA(header), 2 * sizeof(int));
    errno = 0;
    if (answer[0] >> 32 != LONGSHORE_MAGIC)
        fail("an answer");
    if (answer[1] == LONGSHORE_REFUSED_VERSION) {
        fprintf(stderr, "echo: the NIC's rings have version %u, this program's %u\n", (unsigned)answer[0], LONGSHORE_VERSION);
        exit(1);
    }
    if (answer[1] != 0) {
        fprintf(stderr, "echo: the NIC refused request %d: reason %d\n", (int)request[1], (int)answer[1]);
        exit(1);
    }
}

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t len = sizeof peer;
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
        fail(path);
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || (peer.uid != 0 && peer.uid != geteuid()))
        fail("the socket is neither root's nor this user's");
    return connection;
}

static uint64_t identity(int connection, uint64_t at)
{
    uint64_t request[16] = {0, LONGSHORE_REQUEST_IDENTIFY, at}, answer[4];
    ask(connection, request, -1, answer, NULL);
    return answer[2];
}

/* Memory that the NIC may map. */
static uint8_t *shared(size_t bytes, int *file)
{
    void *at;
    *file = memfd_create("echo", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*file < 0 || ftruncate(*file, (off_t)bytes) != 0 || fcntl(*file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        fail("memfd");
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

/* One queue: send, command, receive, small, large. */
static void set_up(int connection)
{
    const size_t slots[5] = {
        LONGSHORE_SEND_SLOT, LONGSHORE_SEND_SLOT, LONGSHORE_RECEIVE_SLOT, LONGSHORE_FILL_SLOT, LONGSHORE_FILL_SLOT,
    };
    uint64_t features[16] = {0, LONGSHORE_REQUEST_FEATURES, 0}; /* packets are enough */
    uint64_t request[16] = {0, LONGSHORE_REQUEST_SET_UP}, answer[4];
    uint64_t registration[16] = {0, LONGSHORE_REQUEST_REGISTER, REGION, 0, MEMORY, 1};
    struct ring rings[5];
    size_t bytes = 0;
    uint8_t *block;
    int file, bells[2] = {-1, -1};

    ask(connection, features, -1, answer, NULL);
    for (int ring = 0; ring < 5; ring++)
        bytes += ring_bytes(slots[ring]);
    block = shared(bytes, &file);
    for (int ring = 0; ring < 5; ring++) {
        rings[ring] = (struct ring){block, slots[ring], 0};
        block += ring_bytes(slots[ring]);
    }
    send_ring = rings[0];
    receive_ring = rings[2];
    small_ring = rings[3];

    request[LONGSHORE_SET_UP_QUEUES] = 1;
    request[LONGSHORE_SET_UP_SEND_ENTRIES] = ENTRIES;
    request[LONGSHORE_SET_UP_COMMAND_ENTRIES] = ENTRIES;
    request[LONGSHORE_SET_UP_RECEIVE_ENTRIES] = ENTRIES;
    request[LONGSHORE_SET_UP_SMALL_ENTRIES] = ENTRIES;
    request[LONGSHORE_SET_UP_LARGE_ENTRIES] = ENTRIES;
    request[LONGSHORE_SET_UP_SMALL_BYTES] = BUFFER;
    request[LONGSHORE_SET_UP_LARGE_BYTES] = BUFFER;
    ask(connection, request, file, answer, bells);
    if (bells[0] < 0)
        fail("the bells");
    host_bell = bells[0];
    nic_bell = bells[1];
    for (int byte = 0; byte < 6; byte++)
        our_mac[byte] = (uint8_t)(answer[2] >> (40 - 8 * byte));

    memory = shared(MEMORY, &file);
    ask(connection, registration, file, answer, NULL);
}

/* ---- packets ---- */

/* Gives the NIC an empty buffer. It is published with others. */
static void give(uint64_t offset)
{
    struct longshore_slice *slot = slot_of(&small_ring);
    *slot = (struct longshore_slice){.offset = offset, .len = BUFFER, .region = REGION};
    small_ring.ours++;
}

/* Sends a frame, unless the NIC has not done with as many as the ring has room for. */
static void transmit(const uint8_t *frame, uint32_t len)
{
    uint64_t offset = (ENTRIES + send_ring.ours % ENTRIES) * BUFFER;
    struct longshore_send *slot = slot_of(&send_ring);

    if (!has_room(&send_ring))
        return;
    memcpy(memory + offset, frame, len);
    memset(slot, 0, offsetof(struct longshore_send, header));
    slot->head.opcode = LONGSHORE_OPCODE_SEND;
    slot->head.header_len = 14;
    slot->head.slices = 1;
    slot->context = LONGSHORE_NO_CONTEXT;
    slot->payload_len = len - 14;
    slot->slices[0] = (struct longshore_slice){.offset = offset + 14, .len = len - 14, .region = REGION};
    memcpy(slot->header, frame, 14);
    send_ring.ours++;
    publish(&send_ring, LONGSHORE_RING_TAIL);
    wake(&send_ring);
}

static uint16_t checksum(const uint8_t *bytes, size_t len)
{
    uint32_t sum = 0;
    for (size_t at = 0; at < len; at++)
        sum += at % 2 ? bytes[at] : (uint32_t)bytes[at] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

/* Makes an answer of a frame, in place. Gives its length, or 0 if there is none. */
static uint32_t answer_to(uint8_t *frame, uint32_t len)
{
    static const uint8_t arp_request[8] = {0, 1, 8, 0, 6, 4, 0, 1};
    uint8_t *packet = frame + 14, address[4];
    uint32_t header, total;
    uint16_t sum;

    if (len >= 42 && frame[12] == 8 && frame[13] == 6 && !memcmp(packet, arp_request, 8) && !memcmp(packet + 24, our_address, 4)) {
        packet[7] = 2;
        memcpy(packet + 18, packet + 8, 10);
        memcpy(packet + 8, our_mac, 6);
        memcpy(packet + 14, our_address, 4);
        len = 42;
    } else if (len >= 42 && frame[12] == 8 && frame[13] == 0 && packet[0] >> 4 == 4) {
        header = (packet[0] & 15u) * 4;
        total = (uint32_t)packet[2] << 8 | packet[3];
        if (header < 20 || total < header + 8 || total > len - 14 || packet[9] != 1 || packet[header] != 8 || (packet[6] & 0x3f) || packet[7] ||
            memcmp(packet + 16, our_address, 4) != 0)
            return 0;
        memcpy(address, packet + 12, 4);
        memcpy(packet + 12, packet + 16, 4);
        memcpy(packet + 16, address, 4);
        packet[header] = 0;
        memset(packet + header + 2, 0, 2);
        sum = checksum(packet + header, total - header);
        memcpy(packet + header + 2, &sum, 2);
        len = 14 + total;
    } else {
        return 0;
    }
    memcpy(frame, frame + 6, 6);
    memcpy(frame + 6, our_mac, 6);
    return len;
}

static void handle(const void *slot)
{
    const struct longshore_packet *packet = slot;
    const struct longshore_completion *completion = slot;
    uint8_t frame[BUFFER];
    uint64_t offset = packet->buffer.offset;
    uint32_t len = packet->buffer.len;

    if (packet->opcode == LONGSHORE_OPCODE_COMPLETION)
        fprintf(stderr, "echo: the NIC refused descriptor %llu: error %d\n", (unsigned long long)completion->index, completion->error);
    if (packet->opcode != LONGSHORE_OPCODE_PACKET)
        return;
    if (len <= BUFFER && offset <= MEMORY - BUFFER) {
        memcpy(frame, memory + offset, len);
        len = answer_to(frame, len);
        if (len > 0)
            transmit(frame, len);
    }
    give(offset / BUFFER * BUFFER);
}

/* Sleeps until the NIC rings. */
static void await_bell(void)
{
    struct pollfd bell = {.fd = host_bell, .events = POLLIN};
    char rung[64];

    atomic_store(word(&receive_ring, LONGSHORE_RING_ASLEEP), 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (!has_come(&receive_ring)) {
        poll(&bell, 1, -1);
        if (bell.revents && read(host_bell, rung, sizeof rung) <= 0) {
            fprintf(stderr, "echo: the NIC has gone\n");
            exit(0);
        }
    }
    atomic_store(word(&receive_ring, LONGSHORE_RING_ASLEEP), 0);
}

int main(int count, char **arguments)
{
    int connection;

    if (count != 3 || inet_pton(AF_INET, arguments[2], our_address) != 1) {
        fprintf(stderr, "usage: echo SOCKET ADDRESS\n");
        return 2;
    }
    connection = dial(arguments[1]);
    printf("features %#llx, protocols %#llx, MTU %llu\n", (unsigned long long)identity(connection, LONGSHORE_IDENTITY_FEATURES),
           (unsigned long long)identity(connection, LONGSHORE_IDENTITY_PROTOCOLS), (unsigned long long)identity(connection, LONGSHORE_IDENTITY_MTU));
    set_up(connection);
    for (uint64_t buffer = 0; buffer < ENTRIES; buffer++)
        give(buffer * BUFFER);
    publish(&small_ring, LONGSHORE_RING_TAIL);
    printf("%s is at %02x:%02x:%02x:%02x:%02x:%02x\n", arguments[2], our_mac[0], our_mac[1], our_mac[2], our_mac[3], our_mac[4], our_mac[5]);
    fflush(stdout);
    for (;;) {
        while (has_come(&receive_ring)) {
            handle(slot_of(&receive_ring));
            receive_ring.ours++;
        }
        publish(&receive_ring, LONGSHORE_RING_HEAD);
        publish(&small_ring, LONGSHORE_RING_TAIL);
        await_bell();
    }
}
