/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface between host and NIC, as docs/device.md specifies it. A test of the project keeps this file as the code is.
 * Numbers are in the byte order of the machine, but for those of packed structs, which are little endian.
 */
#ifndef LONGSHORE_H
#define LONGSHORE_H

#ifdef __KERNEL__
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

/* A ring in the block: indices, then slots; each index and the slots begin a line of their own. */
#define LONGSHORE_LINE 128
#define LONGSHORE_RING_TAIL 0
#define LONGSHORE_RING_HEAD 128
#define LONGSHORE_RING_ASLEEP 256
#define LONGSHORE_RING_SLOTS 384
#define LONGSHORE_SEND_SLOT 192
#define LONGSHORE_RECEIVE_SLOT 64
#define LONGSHORE_FILL_SLOT 16

/* No context. */
#define LONGSHORE_NO_CONTEXT 0xffffffffu
/* Continuation slots that may follow a descriptor. */
#define LONGSHORE_MAX_CONTINUATIONS 3

/* Messages: what word 0 has in its upper half, and the version in its lower; bytes of a request and of an answer. */
#define LONGSHORE_MAGIC 0x6c6e7372u
#define LONGSHORE_REQUEST_BYTES 128
#define LONGSHORE_ANSWER_BYTES 32
#define LONGSHORE_VERSION 5
#define LONGSHORE_FEATURE_CONTEXTS 0x1u
#define LONGSHORE_FEATURE_RESOURCES 0x2u
#define LONGSHORE_FEATURE_LISTENERS 0x4u
#define LONGSHORE_FEATURE_TEARDOWNS 0x8u
#define LONGSHORE_FEATURE_SPLICES 0x10u
#define LONGSHORE_FEATURE_TOE 0x20u
#define LONGSHORE_FEATURE_MERGING 0x40u
#define LONGSHORE_FEATURE_RSS 0x80u
#define LONGSHORE_FEATURE_FILTER 0x100u

#define LONGSHORE_REQUEST_SET_UP 1
#define LONGSHORE_REQUEST_REGISTER 2
#define LONGSHORE_REQUEST_UNREGISTER 3
#define LONGSHORE_REQUEST_UNFINISHED 4
#define LONGSHORE_REQUEST_IDENTIFY 5
#define LONGSHORE_REQUEST_FEATURES 6

#define LONGSHORE_SET_UP_QUEUES 2
#define LONGSHORE_SET_UP_SEND_ENTRIES 3
#define LONGSHORE_SET_UP_COMMAND_ENTRIES 4
#define LONGSHORE_SET_UP_RECEIVE_ENTRIES 5
#define LONGSHORE_SET_UP_SMALL_ENTRIES 6
#define LONGSHORE_SET_UP_LARGE_ENTRIES 7
#define LONGSHORE_SET_UP_SMALL_BYTES 8
#define LONGSHORE_SET_UP_LARGE_BYTES 9
#define LONGSHORE_SET_UP_CONTEXTS 10
#define LONGSHORE_SET_UP_TAGS 11
#define LONGSHORE_SET_UP_CLOSING 12
#define LONGSHORE_SET_UP_PACKET_MEMORY 13
#define LONGSHORE_SET_UP_SPLICES 14
#define LONGSHORE_SET_UP_TOE_CONNECTIONS 15

#define LONGSHORE_IDENTITY_VERSION 0
#define LONGSHORE_IDENTITY_FEATURES 1
#define LONGSHORE_IDENTITY_PROTOCOLS 2
#define LONGSHORE_IDENTITY_MTU 3
#define LONGSHORE_IDENTITY_QUEUES 4
#define LONGSHORE_IDENTITY_SEND_ENTRIES 5
#define LONGSHORE_IDENTITY_COMMAND_ENTRIES 6
#define LONGSHORE_IDENTITY_RECEIVE_ENTRIES 7
#define LONGSHORE_IDENTITY_SMALL_ENTRIES 8
#define LONGSHORE_IDENTITY_LARGE_ENTRIES 9
#define LONGSHORE_IDENTITY_CONTEXTS 10
#define LONGSHORE_IDENTITY_TAGS 11
#define LONGSHORE_IDENTITY_CLOSING 12
#define LONGSHORE_IDENTITY_PACKET_MEMORY 13
#define LONGSHORE_IDENTITY_SPLICES 14
#define LONGSHORE_IDENTITY_TOE_CONNECTIONS 15
#define LONGSHORE_IDENTITY_LISTENERS 16
#define LONGSHORE_IDENTITY_RESOURCE_BYTES 17
#define LONGSHORE_IDENTITY_REGIONS 18
#define LONGSHORE_IDENTITY_FILES 19
#define LONGSHORE_IDENTITY_WRITABLE_BYTES 20
#define LONGSHORE_IDENTITY_MAPPED_BYTES 21

#define LONGSHORE_REFUSED_VERSION 1
#define LONGSHORE_REFUSED_BUSY 2
#define LONGSHORE_REFUSED_DRAINING 3
#define LONGSHORE_REFUSED_BAD_CONFIG 4
#define LONGSHORE_REFUSED_BAD_MEMORY 5
#define LONGSHORE_REFUSED_BAD_FILE 6
#define LONGSHORE_REFUSED_NOT_EMPTY 7
#define LONGSHORE_REFUSED_TOO_MANY 8
#define LONGSHORE_REFUSED_NO_ROOM 9
#define LONGSHORE_REFUSED_MEANINGLESS 10
#define LONGSHORE_REFUSED_FEATURES 11

/* What slots consist of. */

/* Registered memory that a descriptor names. */
struct longshore_slice {
    uint64_t offset; /* bytes from the region's start */
    uint32_t len; /* bytes */
    uint16_t region; /* number of the region */
    uint8_t reserved0[2];
};
_Static_assert(sizeof(struct longshore_slice) == 16, "size");
_Static_assert(offsetof(struct longshore_slice, offset) == 0, "offset");
_Static_assert(offsetof(struct longshore_slice, len) == 8, "len");
_Static_assert(offsetof(struct longshore_slice, region) == 12, "region");

/* Both ends of a flow, as packets of that direction carry them. */
struct longshore_flow {
    uint8_t src[16]; /* source address, an IPv4 one as `::ffff:a.b.c.d` */
    uint8_t dst[16]; /* destination address */
    uint16_t src_port; /* source port */
    uint16_t dst_port; /* destination port */
};
_Static_assert(sizeof(struct longshore_flow) == 36, "size");
_Static_assert(offsetof(struct longshore_flow, src) == 0, "src");
_Static_assert(offsetof(struct longshore_flow, dst) == 16, "dst");
_Static_assert(offsetof(struct longshore_flow, src_port) == 32, "src_port");
_Static_assert(offsetof(struct longshore_flow, dst_port) == 34, "dst_port");

/* A connection that the device runs. */
struct longshore_toe {
    uint32_t index; /* its place */
    uint32_t generation; /* which of those that have had the place */
};
_Static_assert(sizeof(struct longshore_toe) == 8, "size");
_Static_assert(offsetof(struct longshore_toe, index) == 0, "index");
_Static_assert(offsetof(struct longshore_toe, generation) == 4, "generation");

/* What every slot begins with. */
struct longshore_head {
    uint8_t opcode; /* which descriptor */
    uint8_t flags; /* by opcode */
    uint8_t header_len; /* `Send`: bytes of packet headers */
    uint8_t slices; /* slices in this slot */
    uint8_t continuations; /* slots behind it with further slices */
    uint8_t reserved0;
    uint16_t mss; /* `Send`: payload bytes per packet on the wire, or 0 */
};
_Static_assert(sizeof(struct longshore_head) == 8, "size");
_Static_assert(offsetof(struct longshore_head, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_head, flags) == 1, "flags");
_Static_assert(offsetof(struct longshore_head, header_len) == 2, "header_len");
_Static_assert(offsetof(struct longshore_head, slices) == 3, "slices");
_Static_assert(offsetof(struct longshore_head, continuations) == 4, "continuations");
_Static_assert(offsetof(struct longshore_head, mss) == 6, "mss");

/* One connection of a `Splice`. */
struct longshore_leg {
    struct longshore_flow flow; /* from the host to the peer */
    uint8_t peer_shift; /* shift of the windows that the peer announces */
    uint8_t own_shift; /* shift of the windows that the host announces */
    uint8_t options; /* 1 SACK, 2 timestamps, 4 ECN, 8 ECE owed */
    uint8_t hop_limit; /* TTL or hop limit */
    uint8_t hop[6]; /* the next hop's MAC address */
    uint16_t mss; /* most payload bytes of a packet to the peer */
    uint32_t snd_nxt; /* the next byte that is sent */
    uint32_t rcv_nxt; /* the next byte that is expected */
    uint32_t peer_window; /* the peer's window in bytes */
    uint8_t reserved0[4];
    uint32_t recent; /* the peer's latest timestamp */
    uint32_t value; /* the host's timestamp now */
};
_Static_assert(sizeof(struct longshore_leg) == 72, "size");
_Static_assert(offsetof(struct longshore_leg, flow) == 0, "flow");
_Static_assert(offsetof(struct longshore_leg, peer_shift) == 36, "peer_shift");
_Static_assert(offsetof(struct longshore_leg, own_shift) == 37, "own_shift");
_Static_assert(offsetof(struct longshore_leg, options) == 38, "options");
_Static_assert(offsetof(struct longshore_leg, hop_limit) == 39, "hop_limit");
_Static_assert(offsetof(struct longshore_leg, hop) == 40, "hop");
_Static_assert(offsetof(struct longshore_leg, mss) == 46, "mss");
_Static_assert(offsetof(struct longshore_leg, snd_nxt) == 48, "snd_nxt");
_Static_assert(offsetof(struct longshore_leg, rcv_nxt) == 52, "rcv_nxt");
_Static_assert(offsetof(struct longshore_leg, peer_window) == 56, "peer_window");
_Static_assert(offsetof(struct longshore_leg, recent) == 64, "recent");
_Static_assert(offsetof(struct longshore_leg, value) == 68, "value");

/* Slots of the send and command ring. */

/* A packet, or a TCP segment that is cut. */
#define LONGSHORE_OPCODE_SEND 1
#define LONGSHORE_SEND_CHECKSUM 1
#define LONGSHORE_SEND_MUTABLE_SOURCE 2
struct longshore_send {
    struct longshore_head head;
    uint32_t context; /* transmit context, or none */
    uint32_t payload_len; /* bytes of all slices */
    struct longshore_slice slices[3]; /* the payload */
    uint8_t header[128]; /* Ethernet, IP and TCP headers */
};
_Static_assert(sizeof(struct longshore_send) == 192, "size");
_Static_assert(offsetof(struct longshore_send, head) == 0, "head");
_Static_assert(offsetof(struct longshore_send, context) == 8, "context");
_Static_assert(offsetof(struct longshore_send, payload_len) == 12, "payload_len");
_Static_assert(offsetof(struct longshore_send, slices) == 16, "slices");
_Static_assert(offsetof(struct longshore_send, header) == 64, "header");

/* Further slices of the descriptor before it. */
#define LONGSHORE_OPCODE_CONTINUATION 2
struct longshore_continuation {
    struct longshore_head head;
    uint8_t reserved0[8];
    struct longshore_slice slices[11]; /* further slices */
};
_Static_assert(sizeof(struct longshore_continuation) == 192, "size");
_Static_assert(offsetof(struct longshore_continuation, head) == 0, "head");
_Static_assert(offsetof(struct longshore_continuation, slices) == 16, "slices");

/* Makes a context. */
#define LONGSHORE_OPCODE_CREATE_CONTEXT 3
#define LONGSHORE_CREATE_CONTEXT_RECEIVE 1
#define LONGSHORE_CREATE_CONTEXT_V6 2
struct longshore_create_context {
    struct longshore_head head;
    uint32_t context; /* a free id below the quota */
    uint32_t tcpsn; /* first byte of the next message */
    struct longshore_flow flow;
    uint8_t protocols[4]; /* the outermost first, then zeros */
    uint8_t parameters[136]; /* those of each protocol, without a gap */
};
_Static_assert(sizeof(struct longshore_create_context) == 192, "size");
_Static_assert(offsetof(struct longshore_create_context, head) == 0, "head");
_Static_assert(offsetof(struct longshore_create_context, context) == 8, "context");
_Static_assert(offsetof(struct longshore_create_context, tcpsn) == 12, "tcpsn");
_Static_assert(offsetof(struct longshore_create_context, flow) == 16, "flow");
_Static_assert(offsetof(struct longshore_create_context, protocols) == 52, "protocols");
_Static_assert(offsetof(struct longshore_create_context, parameters) == 56, "parameters");

/* Destroys a context. */
#define LONGSHORE_OPCODE_DESTROY_CONTEXT 4
struct longshore_destroy_context {
    struct longshore_head head;
    uint32_t context;
    uint8_t reserved0[52];
};
_Static_assert(sizeof(struct longshore_destroy_context) == 64, "size");
_Static_assert(offsetof(struct longshore_destroy_context, head) == 0, "head");
_Static_assert(offsetof(struct longshore_destroy_context, context) == 8, "context");

/* Brings a transmit context to where the next `Send` begins. */
#define LONGSHORE_OPCODE_RECOVER_CONTEXT 5
#define LONGSHORE_RECOVER_CONTEXT_VERIFY_WHOLE 1
#define LONGSHORE_RECOVER_CONTEXT_VERIFY_FRONTIER 2
#define LONGSHORE_RECOVER_CONTEXT_INNER 4
#define LONGSHORE_RECOVER_CONTEXT_TOE 8
struct longshore_recover_context {
    struct longshore_head head;
    uint32_t context;
    uint32_t len; /* bytes of the message */
    uint64_t index; /* number of the message */
    uint32_t start; /* first byte of the message */
    uint32_t resume; /* where the next `Send` begins */
    struct longshore_slice slices[8]; /* the message up to there, or further */
    struct longshore_toe toe; /* the connection that waits */
    uint8_t reserved0[8];
    uint64_t inner_index; /* number of the inner message */
    uint32_t inner_len; /* its bytes */
    uint32_t inner_offset; /* which of its bytes the outer message's content begins with */
};
_Static_assert(sizeof(struct longshore_recover_context) == 192, "size");
_Static_assert(offsetof(struct longshore_recover_context, head) == 0, "head");
_Static_assert(offsetof(struct longshore_recover_context, context) == 8, "context");
_Static_assert(offsetof(struct longshore_recover_context, len) == 12, "len");
_Static_assert(offsetof(struct longshore_recover_context, index) == 16, "index");
_Static_assert(offsetof(struct longshore_recover_context, start) == 24, "start");
_Static_assert(offsetof(struct longshore_recover_context, resume) == 28, "resume");
_Static_assert(offsetof(struct longshore_recover_context, slices) == 32, "slices");
_Static_assert(offsetof(struct longshore_recover_context, toe) == 160, "toe");
_Static_assert(offsetof(struct longshore_recover_context, inner_index) == 176, "inner_index");
_Static_assert(offsetof(struct longshore_recover_context, inner_len) == 184, "inner_len");
_Static_assert(offsetof(struct longshore_recover_context, inner_offset) == 188, "inner_offset");

/* Maps a tag to a buffer. */
#define LONGSHORE_OPCODE_ADD_RR_STATE 6
struct longshore_add_rr_state {
    struct longshore_head head;
    uint32_t context;
    uint16_t tag;
    uint8_t reserved0[2];
    struct longshore_slice slices[11]; /* the buffer */
};
_Static_assert(sizeof(struct longshore_add_rr_state) == 192, "size");
_Static_assert(offsetof(struct longshore_add_rr_state, head) == 0, "head");
_Static_assert(offsetof(struct longshore_add_rr_state, context) == 8, "context");
_Static_assert(offsetof(struct longshore_add_rr_state, tag) == 12, "tag");
_Static_assert(offsetof(struct longshore_add_rr_state, slices) == 16, "slices");

/* Unmaps a tag. */
#define LONGSHORE_OPCODE_DEL_RR_STATE 7
struct longshore_del_rr_state {
    struct longshore_head head;
    uint32_t context;
    uint16_t tag;
    uint8_t reserved0[50];
};
_Static_assert(sizeof(struct longshore_del_rr_state) == 64, "size");
_Static_assert(offsetof(struct longshore_del_rr_state, head) == 0, "head");
_Static_assert(offsetof(struct longshore_del_rr_state, context) == 8, "context");
_Static_assert(offsetof(struct longshore_del_rr_state, tag) == 12, "tag");

/* Answers a `ResyncRequest`. */
#define LONGSHORE_OPCODE_RESYNC_RESPONSE 8
#define LONGSHORE_RESYNC_RESPONSE_CONFIRMED 1
struct longshore_resync_response {
    struct longshore_head head;
    uint32_t context;
    uint32_t tcpsn; /* as asked */
    uint64_t index; /* number of the message that begins there */
    uint32_t offset; /* as asked */
    uint8_t layer; /* as asked */
    uint8_t reserved0[35];
};
_Static_assert(sizeof(struct longshore_resync_response) == 64, "size");
_Static_assert(offsetof(struct longshore_resync_response, head) == 0, "head");
_Static_assert(offsetof(struct longshore_resync_response, context) == 8, "context");
_Static_assert(offsetof(struct longshore_resync_response, tcpsn) == 12, "tcpsn");
_Static_assert(offsetof(struct longshore_resync_response, index) == 16, "index");
_Static_assert(offsetof(struct longshore_resync_response, offset) == 24, "offset");
_Static_assert(offsetof(struct longshore_resync_response, layer) == 28, "layer");

/* Has the device answer SYNs. */
#define LONGSHORE_OPCODE_INSTALL_LISTENER 9
#define LONGSHORE_INSTALL_LISTENER_V6 1
#define LONGSHORE_INSTALL_LISTENER_WINDOW_SCALE 2
#define LONGSHORE_INSTALL_LISTENER_SACK 4
#define LONGSHORE_INSTALL_LISTENER_DEFER 8
struct longshore_install_listener {
    struct longshore_head head;
    uint16_t rule;
    uint8_t reserved0[2];
    uint32_t backlog; /* connections that may wait */
    uint8_t address[16]; /* unspecified for all of the family */
    uint16_t port;
    uint16_t mss; /* of the SYN-ACK */
    uint16_t window; /* of the SYN-ACK */
    uint8_t window_shift; /* of the SYN-ACK */
    uint8_t hop_limit; /* of the SYN-ACK */
    uint8_t reserved1[24];
};
_Static_assert(sizeof(struct longshore_install_listener) == 64, "size");
_Static_assert(offsetof(struct longshore_install_listener, head) == 0, "head");
_Static_assert(offsetof(struct longshore_install_listener, rule) == 8, "rule");
_Static_assert(offsetof(struct longshore_install_listener, backlog) == 12, "backlog");
_Static_assert(offsetof(struct longshore_install_listener, address) == 16, "address");
_Static_assert(offsetof(struct longshore_install_listener, port) == 32, "port");
_Static_assert(offsetof(struct longshore_install_listener, mss) == 34, "mss");
_Static_assert(offsetof(struct longshore_install_listener, window) == 36, "window");
_Static_assert(offsetof(struct longshore_install_listener, window_shift) == 38, "window_shift");
_Static_assert(offsetof(struct longshore_install_listener, hop_limit) == 39, "hop_limit");

/* Takes a rule away. */
#define LONGSHORE_OPCODE_REMOVE_LISTENER 10
struct longshore_remove_listener {
    struct longshore_head head;
    uint16_t rule;
    uint8_t reserved0[54];
};
_Static_assert(sizeof(struct longshore_remove_listener) == 64, "size");
_Static_assert(offsetof(struct longshore_remove_listener, head) == 0, "head");
_Static_assert(offsetof(struct longshore_remove_listener, rule) == 8, "rule");

/* Connections of a rule wait no longer. */
#define LONGSHORE_OPCODE_LISTENER_CREDIT 11
struct longshore_listener_credit {
    struct longshore_head head;
    uint16_t rule;
    uint8_t reserved0[2];
    uint32_t credits; /* how many */
    uint8_t reserved1[48];
};
_Static_assert(sizeof(struct longshore_listener_credit) == 64, "size");
_Static_assert(offsetof(struct longshore_listener_credit, head) == 0, "head");
_Static_assert(offsetof(struct longshore_listener_credit, rule) == 8, "rule");
_Static_assert(offsetof(struct longshore_listener_credit, credits) == 12, "credits");

/* Hands over a connection that the application has closed. */
#define LONGSHORE_OPCODE_TEARDOWN 12
#define LONGSHORE_TEARDOWN_V6 1
#define LONGSHORE_TEARDOWN_PEER_CLOSED 2
#define LONGSHORE_TEARDOWN_TIMESTAMPS 4
struct longshore_teardown {
    struct longshore_head head;
    uint32_t ticket; /* a refusal repeats it */
    uint32_t payload_len; /* bytes of all slices */
    struct longshore_flow flow; /* from the host to the peer */
    uint16_t window; /* own window, as in a header */
    uint8_t peer_shift; /* shift of the windows that the peer announces */
    uint8_t retransmits; /* time-outs since anything was acknowledged */
    uint8_t hop[6]; /* the next hop's MAC address */
    uint8_t hop_limit; /* TTL or hop limit */
    uint8_t reserved0;
    uint32_t snd_una; /* first byte of the payload */
    uint32_t snd_nxt; /* first byte that was never sent */
    uint32_t rcv_nxt; /* the next byte that is expected */
    uint32_t peer_window; /* the peer's window in bytes */
    uint32_t recent; /* the peer's latest timestamp */
    uint32_t value; /* the host's timestamp now */
    uint32_t rto_us; /* retransmission time-out in µs */
    uint32_t time_wait_ms; /* how long TIME-WAIT lasts */
    uint32_t fin_wait2_ms; /* how long FIN-WAIT-2 may last */
    uint16_t mss; /* payload bytes per packet */
    uint8_t own_shift; /* shift of the windows that the host announces */
    uint8_t reserved1[25];
    struct longshore_slice slices[4]; /* what is not acknowledged */
};
_Static_assert(sizeof(struct longshore_teardown) == 192, "size");
_Static_assert(offsetof(struct longshore_teardown, head) == 0, "head");
_Static_assert(offsetof(struct longshore_teardown, ticket) == 8, "ticket");
_Static_assert(offsetof(struct longshore_teardown, payload_len) == 12, "payload_len");
_Static_assert(offsetof(struct longshore_teardown, flow) == 16, "flow");
_Static_assert(offsetof(struct longshore_teardown, window) == 52, "window");
_Static_assert(offsetof(struct longshore_teardown, peer_shift) == 54, "peer_shift");
_Static_assert(offsetof(struct longshore_teardown, retransmits) == 55, "retransmits");
_Static_assert(offsetof(struct longshore_teardown, hop) == 56, "hop");
_Static_assert(offsetof(struct longshore_teardown, hop_limit) == 62, "hop_limit");
_Static_assert(offsetof(struct longshore_teardown, snd_una) == 64, "snd_una");
_Static_assert(offsetof(struct longshore_teardown, snd_nxt) == 68, "snd_nxt");
_Static_assert(offsetof(struct longshore_teardown, rcv_nxt) == 72, "rcv_nxt");
_Static_assert(offsetof(struct longshore_teardown, peer_window) == 76, "peer_window");
_Static_assert(offsetof(struct longshore_teardown, recent) == 80, "recent");
_Static_assert(offsetof(struct longshore_teardown, value) == 84, "value");
_Static_assert(offsetof(struct longshore_teardown, rto_us) == 88, "rto_us");
_Static_assert(offsetof(struct longshore_teardown, time_wait_ms) == 92, "time_wait_ms");
_Static_assert(offsetof(struct longshore_teardown, fin_wait2_ms) == 96, "fin_wait2_ms");
_Static_assert(offsetof(struct longshore_teardown, mss) == 100, "mss");
_Static_assert(offsetof(struct longshore_teardown, own_shift) == 102, "own_shift");
_Static_assert(offsetof(struct longshore_teardown, slices) == 128, "slices");

/* Joins two connections. */
#define LONGSHORE_OPCODE_SPLICE 13
#define LONGSHORE_SPLICE_A_V6 1
#define LONGSHORE_SPLICE_B_V6 2
struct longshore_splice {
    struct longshore_head head;
    uint32_t splice; /* a free number */
    uint32_t idle_ms; /* longest time without a packet, or 0 */
    struct longshore_leg legs[2]; /* legs A and B */
    uint32_t own_window[2]; /* windows last announced on A and B, in bytes */
    uint16_t own_mss[2]; /* most payload bytes of a packet from A's and B's peer */
    uint8_t reserved0[20];
};
_Static_assert(sizeof(struct longshore_splice) == 192, "size");
_Static_assert(offsetof(struct longshore_splice, head) == 0, "head");
_Static_assert(offsetof(struct longshore_splice, splice) == 8, "splice");
_Static_assert(offsetof(struct longshore_splice, idle_ms) == 12, "idle_ms");
_Static_assert(offsetof(struct longshore_splice, legs) == 16, "legs");
_Static_assert(offsetof(struct longshore_splice, own_window) == 160, "own_window");
_Static_assert(offsetof(struct longshore_splice, own_mss) == 168, "own_mss");

/* Takes a splice back. */
#define LONGSHORE_OPCODE_UNSPLICE 14
struct longshore_unsplice {
    struct longshore_head head;
    uint32_t splice;
    uint8_t reserved0[52];
};
_Static_assert(sizeof(struct longshore_unsplice) == 64, "size");
_Static_assert(offsetof(struct longshore_unsplice, head) == 0, "head");
_Static_assert(offsetof(struct longshore_unsplice, splice) == 8, "splice");

/* A received frame that the device takes back. */
#define LONGSHORE_OPCODE_REINJECT 15
struct longshore_reinject {
    struct longshore_head head;
    uint16_t gso_size; /* payload bytes of each packet that it stands for, or 0 */
    uint8_t reserved0[6];
    struct longshore_slice slices[1]; /* the frame */
    uint8_t reserved1[32];
};
_Static_assert(sizeof(struct longshore_reinject) == 64, "size");
_Static_assert(offsetof(struct longshore_reinject, head) == 0, "head");
_Static_assert(offsetof(struct longshore_reinject, gso_size) == 8, "gso_size");
_Static_assert(offsetof(struct longshore_reinject, slices) == 16, "slices");

/* Has a flow's packets held. */
#define LONGSHORE_OPCODE_TOE_BEGIN 16
#define LONGSHORE_TOE_BEGIN_V6 1
struct longshore_toe_begin {
    struct longshore_head head;
    struct longshore_toe toe;
    struct longshore_flow flow; /* from the host to the peer */
    uint8_t reserved0[12];
};
_Static_assert(sizeof(struct longshore_toe_begin) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_begin, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_begin, toe) == 8, "toe");
_Static_assert(offsetof(struct longshore_toe_begin, flow) == 16, "flow");

/* Has the device run a connection. */
#define LONGSHORE_OPCODE_TOE_OFFER 17
#define LONGSHORE_TOE_OFFER_V6 1
struct longshore_toe_offer {
    struct longshore_head head;
    struct longshore_toe toe;
    struct longshore_flow flow; /* from the host to the peer */
    uint8_t reserved0[4];
    uint8_t hop[6]; /* the next hop's MAC address */
    uint8_t hop_limit; /* TTL or hop limit */
    uint8_t reserved1;
    struct longshore_slice slices[1]; /* the control block */
};
_Static_assert(sizeof(struct longshore_toe_offer) == 80, "size");
_Static_assert(offsetof(struct longshore_toe_offer, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_offer, toe) == 8, "toe");
_Static_assert(offsetof(struct longshore_toe_offer, flow) == 16, "flow");
_Static_assert(offsetof(struct longshore_toe_offer, hop) == 56, "hop");
_Static_assert(offsetof(struct longshore_toe_offer, hop_limit) == 62, "hop_limit");
_Static_assert(offsetof(struct longshore_toe_offer, slices) == 64, "slices");

/* Gives up what was begun. */
#define LONGSHORE_OPCODE_TOE_CANCEL 18
struct longshore_toe_cancel {
    struct longshore_head head;
    struct longshore_toe toe;
    uint8_t reserved0[48];
};
_Static_assert(sizeof(struct longshore_toe_cancel) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_cancel, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_cancel, toe) == 8, "toe");

/* Takes a connection back. */
#define LONGSHORE_OPCODE_TOE_RESTORE 19
struct longshore_toe_restore {
    struct longshore_head head;
    struct longshore_toe toe;
    uint8_t reserved0[48];
};
_Static_assert(sizeof(struct longshore_toe_restore) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_restore, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_restore, toe) == 8, "toe");

/* Data to send. */
#define LONGSHORE_OPCODE_TOE_SEND 20
#define LONGSHORE_TOE_SEND_MUTABLE_SOURCE 2
struct longshore_toe_send {
    struct longshore_head head;
    struct longshore_toe toe;
    uint32_t seq; /* position of the first byte */
    uint32_t bytes; /* bytes of all slices */
    uint32_t context; /* transmit context, or none */
    uint8_t reserved0[4];
    struct longshore_slice slices[9]; /* the data */
    uint8_t reserved1[16];
};
_Static_assert(sizeof(struct longshore_toe_send) == 192, "size");
_Static_assert(offsetof(struct longshore_toe_send, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_send, toe) == 8, "toe");
_Static_assert(offsetof(struct longshore_toe_send, seq) == 16, "seq");
_Static_assert(offsetof(struct longshore_toe_send, bytes) == 20, "bytes");
_Static_assert(offsetof(struct longshore_toe_send, context) == 24, "context");
_Static_assert(offsetof(struct longshore_toe_send, slices) == 32, "slices");

/* The application has read. */
#define LONGSHORE_OPCODE_TOE_CONSUMED 21
struct longshore_toe_consumed {
    struct longshore_head head;
    struct longshore_toe toe;
    uint32_t bytes; /* how many bytes more */
    uint8_t reserved0[44];
};
_Static_assert(sizeof(struct longshore_toe_consumed) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_consumed, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_consumed, toe) == 8, "toe");
_Static_assert(offsetof(struct longshore_toe_consumed, bytes) == 16, "bytes");

/* Sends FIN behind what is queued. */
#define LONGSHORE_OPCODE_TOE_CLOSE 22
struct longshore_toe_close {
    struct longshore_head head;
    struct longshore_toe toe;
    uint8_t reserved0[48];
};
_Static_assert(sizeof(struct longshore_toe_close) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_close, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_close, toe) == 8, "toe");

/* Resets a connection. */
#define LONGSHORE_OPCODE_TOE_ABORT 23
struct longshore_toe_abort {
    struct longshore_head head;
    struct longshore_toe toe;
    uint8_t reserved0[48];
};
_Static_assert(sizeof(struct longshore_toe_abort) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_abort, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_abort, toe) == 8, "toe");

/* The application reads no more. */
#define LONGSHORE_OPCODE_TOE_DETACH 24
struct longshore_toe_detach {
    struct longshore_head head;
    struct longshore_toe toe;
    uint8_t reserved0[48];
};
_Static_assert(sizeof(struct longshore_toe_detach) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_detach, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_detach, toe) == 8, "toe");

/* Sets an option. */
#define LONGSHORE_OPCODE_TOE_OPTION 25
struct longshore_toe_option {
    struct longshore_head head;
    struct longshore_toe toe;
    uint32_t option; /* 1 `TCP_NODELAY`, 2 `TCP_CORK` */
    uint32_t value; /* 0 or 1 */
    uint8_t reserved0[40];
};
_Static_assert(sizeof(struct longshore_toe_option) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_option, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_option, toe) == 8, "toe");
_Static_assert(offsetof(struct longshore_toe_option, option) == 16, "option");
_Static_assert(offsetof(struct longshore_toe_option, value) == 20, "value");

/* A context is where it was asked to be. */
#define LONGSHORE_OPCODE_TOE_RESUME 26
struct longshore_toe_resume {
    struct longshore_head head;
    struct longshore_toe toe;
    uint32_t context;
    uint32_t tcpsn; /* where it is now */
    uint32_t len; /* bytes that this is good for, or 0 */
    uint8_t reserved0[36];
};
_Static_assert(sizeof(struct longshore_toe_resume) == 64, "size");
_Static_assert(offsetof(struct longshore_toe_resume, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_resume, toe) == 8, "toe");
_Static_assert(offsetof(struct longshore_toe_resume, context) == 16, "context");
_Static_assert(offsetof(struct longshore_toe_resume, tcpsn) == 20, "tcpsn");
_Static_assert(offsetof(struct longshore_toe_resume, len) == 24, "len");

/* Makes what contexts of a protocol share. */
#define LONGSHORE_OPCODE_LOAD_RESOURCE 27
struct longshore_load_resource {
    struct longshore_head head;
    uint16_t resource; /* a free number */
    uint8_t reserved0[2];
    uint8_t protocol;
    uint8_t reserved1[3];
    struct longshore_slice slices[1]; /* what it is made of */
    uint8_t reserved2[32];
};
_Static_assert(sizeof(struct longshore_load_resource) == 64, "size");
_Static_assert(offsetof(struct longshore_load_resource, head) == 0, "head");
_Static_assert(offsetof(struct longshore_load_resource, resource) == 8, "resource");
_Static_assert(offsetof(struct longshore_load_resource, protocol) == 12, "protocol");
_Static_assert(offsetof(struct longshore_load_resource, slices) == 16, "slices");

/* Gives a resource up. */
#define LONGSHORE_OPCODE_UNLOAD_RESOURCE 28
struct longshore_unload_resource {
    struct longshore_head head;
    uint16_t resource;
    uint8_t reserved0[54];
};
_Static_assert(sizeof(struct longshore_unload_resource) == 64, "size");
_Static_assert(offsetof(struct longshore_unload_resource, head) == 0, "head");
_Static_assert(offsetof(struct longshore_unload_resource, resource) == 8, "resource");

/* Has the device tell where a splice stands. */
#define LONGSHORE_OPCODE_QUERY_SPLICE 29
struct longshore_query_splice {
    struct longshore_head head;
    uint32_t splice;
    uint8_t reserved0[52];
};
_Static_assert(sizeof(struct longshore_query_splice) == 64, "size");
_Static_assert(offsetof(struct longshore_query_splice, head) == 0, "head");
_Static_assert(offsetof(struct longshore_query_splice, splice) == 8, "splice");

/* Sets how received packets are hashed and spread. */
#define LONGSHORE_OPCODE_SET_RSS 30
struct longshore_set_rss {
    struct longshore_head head;
    uint8_t reserved0[8];
    struct longshore_slice slices[1]; /* the `RssSettings` */
    uint8_t reserved1[32];
};
_Static_assert(sizeof(struct longshore_set_rss) == 64, "size");
_Static_assert(offsetof(struct longshore_set_rss, head) == 0, "head");
_Static_assert(offsetof(struct longshore_set_rss, slices) == 16, "slices");

/* Has the device write how they are. */
#define LONGSHORE_OPCODE_QUERY_RSS 31
struct longshore_query_rss {
    struct longshore_head head;
    uint8_t reserved0[8];
    struct longshore_slice slices[1]; /* where the `RssSettings` go */
    uint8_t reserved1[32];
};
_Static_assert(sizeof(struct longshore_query_rss) == 64, "size");
_Static_assert(offsetof(struct longshore_query_rss, head) == 0, "head");
_Static_assert(offsetof(struct longshore_query_rss, slices) == 16, "slices");

/* Sets which multicast frames the function receives. */
#define LONGSHORE_OPCODE_SET_FILTER 32
#define LONGSHORE_SET_FILTER_ALL_MULTICAST 1
struct longshore_set_filter {
    struct longshore_head head;
    uint32_t count; /* how many groups */
    uint8_t reserved0[4];
    uint8_t addresses[168]; /* of 6 bytes each, then zeros */
    uint8_t reserved1[8];
};
_Static_assert(sizeof(struct longshore_set_filter) == 192, "size");
_Static_assert(offsetof(struct longshore_set_filter, head) == 0, "head");
_Static_assert(offsetof(struct longshore_set_filter, count) == 8, "count");
_Static_assert(offsetof(struct longshore_set_filter, addresses) == 16, "addresses");

/* Slots of the receive ring. */

/* Something that a protocol has to say of a byte. */
struct longshore_note {
    uint32_t at; /* byte of the packet's payload */
    uint32_t code; /* by protocol */
    uint64_t value; /* by code */
};
_Static_assert(sizeof(struct longshore_note) == 16, "size");
_Static_assert(offsetof(struct longshore_note, at) == 0, "at");
_Static_assert(offsetof(struct longshore_note, code) == 4, "code");
_Static_assert(offsetof(struct longshore_note, value) == 8, "value");

/* A received packet. */
#define LONGSHORE_OPCODE_PACKET 1
#define LONGSHORE_PACKET_CHECKSUM_OK 1
#define LONGSHORE_PACKET_LAYER_0 8
#define LONGSHORE_PACKET_LAYER_1 16
#define LONGSHORE_PACKET_LAYER_2 32
#define LONGSHORE_PACKET_LAYER_3 64
#define LONGSHORE_PACKET_REPLACED 128
struct longshore_packet {
    uint8_t opcode;
    uint8_t flags;
    uint16_t header_len; /* bytes of Ethernet, IP and TCP headers; 0 if it is not TCP */
    uint16_t segments; /* packets that were on the wire */
    uint16_t placed; /* so many `Placed` follow */
    uint32_t context; /* receive context, or none */
    uint32_t payload_len; /* bytes of TCP payload, those that were placed included */
    struct longshore_slice buffer; /* where it is */
    uint32_t hash; /* hash of its flow */
    uint8_t notes; /* so many notes follow */
    uint8_t hash_type; /* what the hash covers: one of the types of `RssSettings`, or 0 */
    uint8_t reserved0[26];
};
_Static_assert(sizeof(struct longshore_packet) == 64, "size");
_Static_assert(offsetof(struct longshore_packet, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_packet, flags) == 1, "flags");
_Static_assert(offsetof(struct longshore_packet, header_len) == 2, "header_len");
_Static_assert(offsetof(struct longshore_packet, segments) == 4, "segments");
_Static_assert(offsetof(struct longshore_packet, placed) == 6, "placed");
_Static_assert(offsetof(struct longshore_packet, context) == 8, "context");
_Static_assert(offsetof(struct longshore_packet, payload_len) == 12, "payload_len");
_Static_assert(offsetof(struct longshore_packet, buffer) == 16, "buffer");
_Static_assert(offsetof(struct longshore_packet, hash) == 32, "hash");
_Static_assert(offsetof(struct longshore_packet, notes) == 36, "notes");
_Static_assert(offsetof(struct longshore_packet, hash_type) == 37, "hash_type");

/* Does a message begin there? */
#define LONGSHORE_OPCODE_RESYNC_REQUEST 2
struct longshore_resync_request {
    uint8_t opcode;
    uint8_t reserved0[7];
    uint32_t context;
    uint32_t tcpsn; /* first byte of a message of the outermost protocol */
    uint32_t offset; /* byte of that message's content */
    uint8_t layer; /* which protocol asks */
    uint8_t reserved1[43];
};
_Static_assert(sizeof(struct longshore_resync_request) == 64, "size");
_Static_assert(offsetof(struct longshore_resync_request, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_resync_request, context) == 8, "context");
_Static_assert(offsetof(struct longshore_resync_request, tcpsn) == 12, "tcpsn");
_Static_assert(offsetof(struct longshore_resync_request, offset) == 16, "offset");
_Static_assert(offsetof(struct longshore_resync_request, layer) == 20, "layer");

/* A descriptor was refused. */
#define LONGSHORE_OPCODE_COMPLETION 3
struct longshore_completion {
    uint8_t opcode;
    uint8_t error;
    uint8_t reserved0[6];
    uint32_t context;
    uint32_t tcpsn;
    uint64_t index; /* of the descriptor's first slot in the send ring */
    uint8_t reserved1[40];
};
_Static_assert(sizeof(struct longshore_completion) == 64, "size");
_Static_assert(offsetof(struct longshore_completion, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_completion, error) == 1, "error");
_Static_assert(offsetof(struct longshore_completion, context) == 8, "context");
_Static_assert(offsetof(struct longshore_completion, tcpsn) == 12, "tcpsn");
_Static_assert(offsetof(struct longshore_completion, index) == 16, "index");

/* Payload that the device wrote to a mapped buffer. */
#define LONGSHORE_OPCODE_PLACED 4
struct longshore_placed {
    uint8_t opcode;
    uint8_t reserved0[7];
    uint16_t tag;
    uint8_t reserved1[2];
    uint32_t at; /* its first byte in the packet's payload */
    struct longshore_slice slice; /* where it is */
    uint8_t reserved2[32];
};
_Static_assert(sizeof(struct longshore_placed) == 64, "size");
_Static_assert(offsetof(struct longshore_placed, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_placed, tag) == 8, "tag");
_Static_assert(offsetof(struct longshore_placed, at) == 12, "at");
_Static_assert(offsetof(struct longshore_placed, slice) == 16, "slice");

/* The packet behind it opens a connection. */
#define LONGSHORE_OPCODE_ESTABLISHED 5
#define LONGSHORE_ESTABLISHED_WINDOW_SCALE 1
#define LONGSHORE_ESTABLISHED_SACK 2
struct longshore_established {
    uint8_t opcode;
    uint8_t flags;
    uint8_t window_shift; /* the peer's */
    uint8_t reserved0;
    uint16_t mss; /* the peer's */
    uint8_t reserved1[2];
    uint16_t rule;
    uint8_t reserved2[2];
    uint32_t timestamp; /* own timestamp now */
    uint8_t reserved3[48];
};
_Static_assert(sizeof(struct longshore_established) == 64, "size");
_Static_assert(offsetof(struct longshore_established, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_established, flags) == 1, "flags");
_Static_assert(offsetof(struct longshore_established, window_shift) == 2, "window_shift");
_Static_assert(offsetof(struct longshore_established, mss) == 4, "mss");
_Static_assert(offsetof(struct longshore_established, rule) == 8, "rule");
_Static_assert(offsetof(struct longshore_established, timestamp) == 12, "timestamp");

/* Room that the function still has. */
#define LONGSHORE_OPCODE_ACCEL_ROOM 6
struct longshore_accel_room {
    uint8_t opcode;
    uint8_t reserved0[7];
    uint32_t closing; /* teardowns */
    uint32_t splices;
    uint64_t packet_memory; /* bytes */
    uint8_t reserved1[40];
};
_Static_assert(sizeof(struct longshore_accel_room) == 64, "size");
_Static_assert(offsetof(struct longshore_accel_room, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_accel_room, closing) == 8, "closing");
_Static_assert(offsetof(struct longshore_accel_room, splices) == 12, "splices");
_Static_assert(offsetof(struct longshore_accel_room, packet_memory) == 16, "packet_memory");

/* A splice has ended. */
#define LONGSHORE_OPCODE_SPLICE_ENDED 7
struct longshore_splice_ended {
    uint8_t opcode;
    uint8_t reason;
    uint8_t reserved0[6];
    uint32_t splice;
    uint8_t reserved1[4];
    uint64_t bytes[2]; /* from A's and B's peer */
    uint64_t packets[2]; /* from A's and B's peer */
    uint8_t reserved2[16];
};
_Static_assert(sizeof(struct longshore_splice_ended) == 64, "size");
_Static_assert(offsetof(struct longshore_splice_ended, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_splice_ended, reason) == 1, "reason");
_Static_assert(offsetof(struct longshore_splice_ended, splice) == 8, "splice");
_Static_assert(offsetof(struct longshore_splice_ended, bytes) == 16, "bytes");
_Static_assert(offsetof(struct longshore_splice_ended, packets) == 32, "packets");

/* Where a leg stands: as the device leaves it, or asked by `QuerySplice`. */
#define LONGSHORE_OPCODE_SPLICE_STATE 8
#define LONGSHORE_SPLICE_STATE_LEG_B 1
#define LONGSHORE_SPLICE_STATE_FIN_SENT 2
#define LONGSHORE_SPLICE_STATE_FIN_RECEIVED 4
#define LONGSHORE_SPLICE_STATE_TIMESTAMPS 8
#define LONGSHORE_SPLICE_STATE_PROBED 16
#define LONGSHORE_SPLICE_STATE_ECN_ECHO 32
struct longshore_splice_state {
    uint8_t opcode;
    uint8_t flags;
    uint8_t reserved0[6];
    uint32_t splice;
    uint32_t peer_window; /* the peer's window in bytes */
    uint32_t snd_una;
    uint32_t snd_nxt;
    uint32_t rcv_nxt;
    uint32_t own_window; /* own window in bytes */
    uint32_t recent; /* the peer's latest timestamp */
    uint32_t value; /* own timestamp now */
    uint64_t forwarded; /* payload bytes forwarded to the peer */
    uint8_t reserved1[16];
};
_Static_assert(sizeof(struct longshore_splice_state) == 64, "size");
_Static_assert(offsetof(struct longshore_splice_state, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_splice_state, flags) == 1, "flags");
_Static_assert(offsetof(struct longshore_splice_state, splice) == 8, "splice");
_Static_assert(offsetof(struct longshore_splice_state, peer_window) == 12, "peer_window");
_Static_assert(offsetof(struct longshore_splice_state, snd_una) == 16, "snd_una");
_Static_assert(offsetof(struct longshore_splice_state, snd_nxt) == 20, "snd_nxt");
_Static_assert(offsetof(struct longshore_splice_state, rcv_nxt) == 24, "rcv_nxt");
_Static_assert(offsetof(struct longshore_splice_state, own_window) == 28, "own_window");
_Static_assert(offsetof(struct longshore_splice_state, recent) == 32, "recent");
_Static_assert(offsetof(struct longshore_splice_state, value) == 36, "value");
_Static_assert(offsetof(struct longshore_splice_state, forwarded) == 40, "forwarded");

/* What every event of a connection that the device runs begins with, and all of some. */
#define LONGSHORE_OPCODE_TOE_HEAD 9
struct longshore_toe_head {
    uint8_t opcode;
    uint8_t kind; /* which event */
    uint8_t reason; /* by kind */
    uint8_t detail; /* by kind */
    uint8_t flags; /* by kind */
    uint8_t reserved0[3];
    struct longshore_toe toe;
};
_Static_assert(sizeof(struct longshore_toe_head) == 16, "size");
_Static_assert(offsetof(struct longshore_toe_head, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_toe_head, kind) == 1, "kind");
_Static_assert(offsetof(struct longshore_toe_head, reason) == 2, "reason");
_Static_assert(offsetof(struct longshore_toe_head, detail) == 3, "detail");
_Static_assert(offsetof(struct longshore_toe_head, flags) == 4, "flags");
_Static_assert(offsetof(struct longshore_toe_head, toe) == 8, "toe");

/* TCP has taken a part of the packet behind it. */
struct longshore_toe_delivered {
    struct longshore_toe_head head;
    uint32_t seq; /* position of the first byte taken */
    uint32_t skip; /* payload bytes before it */
    uint32_t len; /* bytes taken */
    uint32_t rcv_nxt;
    uint32_t snd_una;
    uint32_t flight; /* bytes that may be under way */
};
_Static_assert(sizeof(struct longshore_toe_delivered) == 40, "size");
_Static_assert(offsetof(struct longshore_toe_delivered, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_delivered, seq) == 16, "seq");
_Static_assert(offsetof(struct longshore_toe_delivered, skip) == 20, "skip");
_Static_assert(offsetof(struct longshore_toe_delivered, len) == 24, "len");
_Static_assert(offsetof(struct longshore_toe_delivered, rcv_nxt) == 28, "rcv_nxt");
_Static_assert(offsetof(struct longshore_toe_delivered, snd_una) == 32, "snd_una");
_Static_assert(offsetof(struct longshore_toe_delivered, flight) == 36, "flight");

/* The peer has acknowledged more. */
struct longshore_toe_acked {
    struct longshore_toe_head head;
    uint32_t snd_una;
    uint32_t flight; /* bytes that may be under way */
};
_Static_assert(sizeof(struct longshore_toe_acked) == 24, "size");
_Static_assert(offsetof(struct longshore_toe_acked, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_acked, snd_una) == 16, "snd_una");
_Static_assert(offsetof(struct longshore_toe_acked, flight) == 20, "flight");

/* The peer sends no more. */
struct longshore_toe_peer_fin {
    struct longshore_toe_head head;
    uint32_t rcv_nxt; /* position behind the FIN */
    uint8_t reserved0[4];
};
_Static_assert(sizeof(struct longshore_toe_peer_fin) == 24, "size");
_Static_assert(offsetof(struct longshore_toe_peer_fin, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_peer_fin, rcv_nxt) == 16, "rcv_nxt");

/* A connection has ended. */
#define LONGSHORE_TOE_CLOSED_TIME_WAIT 1
#define LONGSHORE_TOE_CLOSED_TIMESTAMPS 2
struct longshore_toe_closed {
    struct longshore_toe_head head;
    uint32_t snd_nxt;
    uint32_t rcv_nxt;
    uint32_t rcv_wnd; /* receive window in bytes */
    uint32_t window; /* receive window as in a header */
    uint32_t recent; /* the peer's latest timestamp */
    uint32_t value; /* own timestamp now */
};
_Static_assert(sizeof(struct longshore_toe_closed) == 40, "size");
_Static_assert(offsetof(struct longshore_toe_closed, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_closed, snd_nxt) == 16, "snd_nxt");
_Static_assert(offsetof(struct longshore_toe_closed, rcv_nxt) == 20, "rcv_nxt");
_Static_assert(offsetof(struct longshore_toe_closed, rcv_wnd) == 24, "rcv_wnd");
_Static_assert(offsetof(struct longshore_toe_closed, window) == 28, "window");
_Static_assert(offsetof(struct longshore_toe_closed, recent) == 32, "recent");
_Static_assert(offsetof(struct longshore_toe_closed, value) == 36, "value");

/* A connection is the host's again. */
struct longshore_toe_restored {
    struct longshore_toe_head head;
    uint32_t context; /* that could not transform, or none */
    uint8_t reserved0[4];
};
_Static_assert(sizeof(struct longshore_toe_restored) == 24, "size");
_Static_assert(offsetof(struct longshore_toe_restored, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_restored, context) == 16, "context");

/* A context is not where the next segment begins. */
struct longshore_toe_recover {
    struct longshore_toe_head head;
    uint32_t context;
    uint32_t tcpsn; /* where the next segment begins */
    uint32_t sent; /* end of what was sent once */
    uint8_t reserved0[4];
};
_Static_assert(sizeof(struct longshore_toe_recover) == 32, "size");
_Static_assert(offsetof(struct longshore_toe_recover, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_recover, context) == 16, "context");
_Static_assert(offsetof(struct longshore_toe_recover, tcpsn) == 20, "tcpsn");
_Static_assert(offsetof(struct longshore_toe_recover, sent) == 24, "sent");

/* Connections that the device runs, for all functions together. */
struct longshore_toe_room {
    struct longshore_toe_head head;
    uint32_t soft_limit; /* most of them */
    uint32_t active; /* those that there are */
};
_Static_assert(sizeof(struct longshore_toe_room) == 24, "size");
_Static_assert(offsetof(struct longshore_toe_room, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_room, soft_limit) == 16, "soft_limit");
_Static_assert(offsetof(struct longshore_toe_room, active) == 20, "active");

/* A descriptor of the command ring was refused. */
struct longshore_toe_command_failed {
    struct longshore_toe_head head;
    uint64_t index; /* of the descriptor's first slot in the command ring */
    uint32_t context;
    uint32_t tcpsn;
};
_Static_assert(sizeof(struct longshore_toe_command_failed) == 32, "size");
_Static_assert(offsetof(struct longshore_toe_command_failed, head) == 0, "head");
_Static_assert(offsetof(struct longshore_toe_command_failed, index) == 16, "index");
_Static_assert(offsetof(struct longshore_toe_command_failed, context) == 24, "context");
_Static_assert(offsetof(struct longshore_toe_command_failed, tcpsn) == 28, "tcpsn");

/* The function was reset. */
#define LONGSHORE_OPCODE_RESET 10
struct longshore_reset {
    uint8_t opcode;
    uint8_t reserved0[7];
    uint32_t epoch; /* resets so far */
    uint8_t reserved1[52];
};
_Static_assert(sizeof(struct longshore_reset) == 64, "size");
_Static_assert(offsetof(struct longshore_reset, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_reset, epoch) == 8, "epoch");

/* What the innermost protocol has to say of a packet. */
#define LONGSHORE_OPCODE_NOTES 11
struct longshore_notes {
    uint8_t opcode;
    uint8_t count; /* how many */
    uint8_t reserved0[6];
    struct longshore_note notes[3];
    uint8_t reserved1[8];
};
_Static_assert(sizeof(struct longshore_notes) == 64, "size");
_Static_assert(offsetof(struct longshore_notes, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_notes, count) == 1, "count");
_Static_assert(offsetof(struct longshore_notes, notes) == 8, "notes");

/* What became of a `LoadResource`. */
#define LONGSHORE_OPCODE_RESOURCE 12
struct longshore_resource {
    uint8_t opcode;
    uint8_t error; /* 0 when it is there */
    uint8_t reserved0[6];
    uint16_t resource;
    uint8_t reserved1[54];
};
_Static_assert(sizeof(struct longshore_resource) == 64, "size");
_Static_assert(offsetof(struct longshore_resource, opcode) == 0, "opcode");
_Static_assert(offsetof(struct longshore_resource, error) == 1, "error");
_Static_assert(offsetof(struct longshore_resource, resource) == 8, "resource");

/* What commands name in memory. */

/* How received packets are hashed and spread over queues. */
struct longshore_rss_settings {
    uint32_t types; /* types of hash that are made: bits of `hash_type` */
    uint8_t reserved0[4];
    uint8_t key[40]; /* of the Toeplitz hash */
    uint16_t table[128]; /* queues, by the lowest bits of the hash */
};
_Static_assert(sizeof(struct longshore_rss_settings) == 304, "size");
_Static_assert(offsetof(struct longshore_rss_settings, types) == 0, "types");
_Static_assert(offsetof(struct longshore_rss_settings, key) == 8, "key");
_Static_assert(offsetof(struct longshore_rss_settings, table) == 48, "table");

/* Bytes that came out of order. */
struct longshore_image_range {
    uint32_t start; /* position of the first */
    uint32_t end; /* position behind the last */
};
_Static_assert(sizeof(struct longshore_image_range) == 8, "size");
_Static_assert(offsetof(struct longshore_image_range, start) == 0, "start");
_Static_assert(offsetof(struct longshore_image_range, end) == 4, "end");

/* A control block, little endian and without padding; times of 8 bytes are in ns. */
struct longshore_tcb_bytes {
    uint32_t version; /* `TCB` and the version */
    uint32_t flags;
    uint8_t state; /* 3 ESTABLISHED, 4 FIN-WAIT-1, 5 FIN-WAIT-2, 6 CLOSE-WAIT, 7 CLOSING, 8 LAST-ACK */
    uint8_t held_count; /* how many of `held` there are */
    uint8_t peer_shift; /* shift of the windows that the peer announces */
    uint8_t own_shift; /* shift of the windows that the host announces */
    uint16_t src_port;
    uint16_t dst_port;
    uint16_t window; /* own window as in a header */
    uint16_t mss;
    uint16_t adv_mss; /* MSS that was announced */
    uint32_t snd_una;
    uint32_t snd_nxt;
    uint32_t write_seq; /* end of the queue */
    uint32_t snd_wnd;
    uint32_t snd_wnd_max; /* largest `snd_wnd` */
    uint32_t rcv_nxt;
    uint32_t unread; /* bytes that the application has not read */
    uint32_t rcv_edge; /* right edge of the window */
    uint32_t rcv_buffer; /* bytes of the receive buffer */
    uint32_t fin_at; /* position of the peer's FIN */
    uint32_t ssthresh;
    uint32_t cwnd;
    uint32_t recent; /* the peer's latest timestamp */
    uint32_t value; /* own timestamp */
    uint64_t recent_age; /* age of the peer's */
    uint64_t srtt;
    uint64_t rttvar;
    uint64_t rto;
    uint64_t linger; /* what is left of FIN-WAIT-2 */
    uint64_t timers[4]; /* what is left of the timers of retransmission, tail loss probe, persist and keep-alive; 2^64 − 1: not set */
    uint8_t backoff;
    uint8_t tries; /* retransmissions since anything was acknowledged */
    uint8_t probes; /* keep-alive probes without an answer */
    uint8_t reserved0;
    uint64_t progress_age; /* time since the last progress */
    uint64_t heard_age; /* time since the peer was last heard */
    struct longshore_image_range held[16]; /* ranges received out of order */
    uint16_t config_mss; /* MSS of the settings */
    uint8_t congestion; /* 1 NewReno, 2 CUBIC */
    uint8_t initial_window; /* segments */
    uint8_t syn_retries;
    uint8_t retries;
    uint8_t keep_alive_probes;
    uint8_t orphan_retries; /* retransmissions of an orphan */
    uint32_t rcv_buf;
    uint32_t rcv_buf_max;
    uint32_t snd_buf;
    uint32_t tso_max; /* most payload bytes of one descriptor */
    uint32_t keep_alive_idle_ms;
    uint32_t keep_alive_interval_ms;
    uint32_t delayed_ack_ms;
    uint32_t user_timeout_ms;
    uint32_t time_wait_ms;
    uint32_t fin_wait2_ms;
    uint64_t min_rto;
    uint32_t orphan_timeout_ms; /* how long an orphan may wait for its peer; 0 for 60 s and 8 retransmissions */
    uint8_t reserved1[154];
} __attribute__((packed));
_Static_assert(sizeof(struct longshore_tcb_bytes) == 512, "size");
_Static_assert(offsetof(struct longshore_tcb_bytes, version) == 0, "version");
_Static_assert(offsetof(struct longshore_tcb_bytes, flags) == 4, "flags");
_Static_assert(offsetof(struct longshore_tcb_bytes, state) == 8, "state");
_Static_assert(offsetof(struct longshore_tcb_bytes, held_count) == 9, "held_count");
_Static_assert(offsetof(struct longshore_tcb_bytes, peer_shift) == 10, "peer_shift");
_Static_assert(offsetof(struct longshore_tcb_bytes, own_shift) == 11, "own_shift");
_Static_assert(offsetof(struct longshore_tcb_bytes, src_port) == 12, "src_port");
_Static_assert(offsetof(struct longshore_tcb_bytes, dst_port) == 14, "dst_port");
_Static_assert(offsetof(struct longshore_tcb_bytes, window) == 16, "window");
_Static_assert(offsetof(struct longshore_tcb_bytes, mss) == 18, "mss");
_Static_assert(offsetof(struct longshore_tcb_bytes, adv_mss) == 20, "adv_mss");
_Static_assert(offsetof(struct longshore_tcb_bytes, snd_una) == 22, "snd_una");
_Static_assert(offsetof(struct longshore_tcb_bytes, snd_nxt) == 26, "snd_nxt");
_Static_assert(offsetof(struct longshore_tcb_bytes, write_seq) == 30, "write_seq");
_Static_assert(offsetof(struct longshore_tcb_bytes, snd_wnd) == 34, "snd_wnd");
_Static_assert(offsetof(struct longshore_tcb_bytes, snd_wnd_max) == 38, "snd_wnd_max");
_Static_assert(offsetof(struct longshore_tcb_bytes, rcv_nxt) == 42, "rcv_nxt");
_Static_assert(offsetof(struct longshore_tcb_bytes, unread) == 46, "unread");
_Static_assert(offsetof(struct longshore_tcb_bytes, rcv_edge) == 50, "rcv_edge");
_Static_assert(offsetof(struct longshore_tcb_bytes, rcv_buffer) == 54, "rcv_buffer");
_Static_assert(offsetof(struct longshore_tcb_bytes, fin_at) == 58, "fin_at");
_Static_assert(offsetof(struct longshore_tcb_bytes, ssthresh) == 62, "ssthresh");
_Static_assert(offsetof(struct longshore_tcb_bytes, cwnd) == 66, "cwnd");
_Static_assert(offsetof(struct longshore_tcb_bytes, recent) == 70, "recent");
_Static_assert(offsetof(struct longshore_tcb_bytes, value) == 74, "value");
_Static_assert(offsetof(struct longshore_tcb_bytes, recent_age) == 78, "recent_age");
_Static_assert(offsetof(struct longshore_tcb_bytes, srtt) == 86, "srtt");
_Static_assert(offsetof(struct longshore_tcb_bytes, rttvar) == 94, "rttvar");
_Static_assert(offsetof(struct longshore_tcb_bytes, rto) == 102, "rto");
_Static_assert(offsetof(struct longshore_tcb_bytes, linger) == 110, "linger");
_Static_assert(offsetof(struct longshore_tcb_bytes, timers) == 118, "timers");
_Static_assert(offsetof(struct longshore_tcb_bytes, backoff) == 150, "backoff");
_Static_assert(offsetof(struct longshore_tcb_bytes, tries) == 151, "tries");
_Static_assert(offsetof(struct longshore_tcb_bytes, probes) == 152, "probes");
_Static_assert(offsetof(struct longshore_tcb_bytes, progress_age) == 154, "progress_age");
_Static_assert(offsetof(struct longshore_tcb_bytes, heard_age) == 162, "heard_age");
_Static_assert(offsetof(struct longshore_tcb_bytes, held) == 170, "held");
_Static_assert(offsetof(struct longshore_tcb_bytes, config_mss) == 298, "config_mss");
_Static_assert(offsetof(struct longshore_tcb_bytes, congestion) == 300, "congestion");
_Static_assert(offsetof(struct longshore_tcb_bytes, initial_window) == 301, "initial_window");
_Static_assert(offsetof(struct longshore_tcb_bytes, syn_retries) == 302, "syn_retries");
_Static_assert(offsetof(struct longshore_tcb_bytes, retries) == 303, "retries");
_Static_assert(offsetof(struct longshore_tcb_bytes, keep_alive_probes) == 304, "keep_alive_probes");
_Static_assert(offsetof(struct longshore_tcb_bytes, orphan_retries) == 305, "orphan_retries");
_Static_assert(offsetof(struct longshore_tcb_bytes, rcv_buf) == 306, "rcv_buf");
_Static_assert(offsetof(struct longshore_tcb_bytes, rcv_buf_max) == 310, "rcv_buf_max");
_Static_assert(offsetof(struct longshore_tcb_bytes, snd_buf) == 314, "snd_buf");
_Static_assert(offsetof(struct longshore_tcb_bytes, tso_max) == 318, "tso_max");
_Static_assert(offsetof(struct longshore_tcb_bytes, keep_alive_idle_ms) == 322, "keep_alive_idle_ms");
_Static_assert(offsetof(struct longshore_tcb_bytes, keep_alive_interval_ms) == 326, "keep_alive_interval_ms");
_Static_assert(offsetof(struct longshore_tcb_bytes, delayed_ack_ms) == 330, "delayed_ack_ms");
_Static_assert(offsetof(struct longshore_tcb_bytes, user_timeout_ms) == 334, "user_timeout_ms");
_Static_assert(offsetof(struct longshore_tcb_bytes, time_wait_ms) == 338, "time_wait_ms");
_Static_assert(offsetof(struct longshore_tcb_bytes, fin_wait2_ms) == 342, "fin_wait2_ms");
_Static_assert(offsetof(struct longshore_tcb_bytes, min_rto) == 346, "min_rto");
_Static_assert(offsetof(struct longshore_tcb_bytes, orphan_timeout_ms) == 354, "orphan_timeout_ms");

#define LONGSHORE_HASH_TYPE_IPV4 1
#define LONGSHORE_HASH_TYPE_TCP_IPV4 2
#define LONGSHORE_HASH_TYPE_UDP_IPV4 4
#define LONGSHORE_HASH_TYPE_IPV6 8
#define LONGSHORE_HASH_TYPE_TCP_IPV6 16
#define LONGSHORE_HASH_TYPE_UDP_IPV6 32

#define LONGSHORE_PROTOCOL_TLS 1
#define LONGSHORE_PROTOCOL_NVME_TCP 2
#define LONGSHORE_PROTOCOL_NBD 3
#define LONGSHORE_PROTOCOL_ISCSI 4
#define LONGSHORE_PROTOCOL_PATTERN 5
#define LONGSHORE_PROTOCOL_HTTP 6

#define LONGSHORE_ERROR_BAD_OPCODE 1
#define LONGSHORE_ERROR_BAD_LENGTH 2
#define LONGSHORE_ERROR_BAD_PARAMETERS 3
#define LONGSHORE_ERROR_UNSUPPORTED 4
#define LONGSHORE_ERROR_BAD_MEMORY 5
#define LONGSHORE_ERROR_READ_ONLY_MEMORY 6
#define LONGSHORE_ERROR_BAD_HEADER 7
#define LONGSHORE_ERROR_TOO_LARGE 8
#define LONGSHORE_ERROR_NO_CONTEXT 9
#define LONGSHORE_ERROR_CONTEXT_EXISTS 10
#define LONGSHORE_ERROR_OVER_QUOTA 11
#define LONGSHORE_ERROR_WRONG_FLOW 12
#define LONGSHORE_ERROR_OUT_OF_SEQUENCE 13
#define LONGSHORE_ERROR_NOT_AHEADER 14
#define LONGSHORE_ERROR_BAD_MESSAGE 15
#define LONGSHORE_ERROR_SOURCE_CHANGED 16
#define LONGSHORE_ERROR_SOURCE_FAULTED 17
#define LONGSHORE_ERROR_UNVERIFIED 18
#define LONGSHORE_ERROR_TAG_MAPPED 19
#define LONGSHORE_ERROR_TAG_NOT_MAPPED 20
#define LONGSHORE_ERROR_LISTENER_EXISTS 21
#define LONGSHORE_ERROR_NO_LISTENER 22
#define LONGSHORE_ERROR_TABLE_FULL 23
#define LONGSHORE_ERROR_NO_PACKET_MEMORY 24
#define LONGSHORE_ERROR_FLOW_EXISTS 25
#define LONGSHORE_ERROR_SPLICE_EXISTS 26
#define LONGSHORE_ERROR_NO_SPLICE 27
#define LONGSHORE_ERROR_SPLICE_MSS 28
#define LONGSHORE_ERROR_SPLICE_OPTIONS 29
#define LONGSHORE_ERROR_SPLICE_FAMILIES 30
#define LONGSHORE_ERROR_RESOURCE_EXISTS 31
#define LONGSHORE_ERROR_NO_RESOURCE 32

#define LONGSHORE_SPLICE_END_FINISHED 1
#define LONGSHORE_SPLICE_END_RESET_BY_A 2
#define LONGSHORE_SPLICE_END_RESET_BY_B 3
#define LONGSHORE_SPLICE_END_IDLE 4
#define LONGSHORE_SPLICE_END_TAKEN_BACK 5

#define LONGSHORE_TOE_EVENT_READY 1
#define LONGSHORE_TOE_EVENT_REFUSED 2
#define LONGSHORE_TOE_EVENT_ACCEPTED 3
#define LONGSHORE_TOE_EVENT_DELIVERED 4
#define LONGSHORE_TOE_EVENT_ACKED 5
#define LONGSHORE_TOE_EVENT_PEER_FIN 6
#define LONGSHORE_TOE_EVENT_CLOSED 7
#define LONGSHORE_TOE_EVENT_RESTORED 8
#define LONGSHORE_TOE_EVENT_RECOVER 9
#define LONGSHORE_TOE_EVENT_ROOM 10
#define LONGSHORE_TOE_EVENT_COMMAND_FAILED 11

#define LONGSHORE_TOE_REFUSED_UNSUPPORTED 1
#define LONGSHORE_TOE_REFUSED_HARD_LIMIT 2
#define LONGSHORE_TOE_REFUSED_SOFT_LIMIT 3
#define LONGSHORE_TOE_REFUSED_QUOTA 4
#define LONGSHORE_TOE_REFUSED_IN_USE 5
#define LONGSHORE_TOE_REFUSED_FLOW_OWNED 6
#define LONGSHORE_TOE_REFUSED_NOT_HELD 7
#define LONGSHORE_TOE_REFUSED_BAD_MEMORY 8
#define LONGSHORE_TOE_REFUSED_TCB 9
#define LONGSHORE_TOE_REFUSED_NO_ROOM 10

#define LONGSHORE_TOE_CLOSED_GRACEFUL 1
#define LONGSHORE_TOE_CLOSED_RESET 2
#define LONGSHORE_TOE_CLOSED_REFUSED 3
#define LONGSHORE_TOE_CLOSED_TIMED_OUT 4
#define LONGSHORE_TOE_CLOSED_ABORTED 5

#define LONGSHORE_TOE_RESTORED_ASKED 1
#define LONGSHORE_TOE_RESTORED_LOAD 2
#define LONGSHORE_TOE_RESTORED_TRANSMIT 3

#define LONGSHORE_TCB_FIELD_VERSION 0
#define LONGSHORE_TCB_FIELD_FLAGS 1
#define LONGSHORE_TCB_FIELD_STATE 2
#define LONGSHORE_TCB_FIELD_SRC_PORT 3
#define LONGSHORE_TCB_FIELD_DST_PORT 4
#define LONGSHORE_TCB_FIELD_SND_UNA 5
#define LONGSHORE_TCB_FIELD_SND_NXT 6
#define LONGSHORE_TCB_FIELD_WRITE_SEQ 7
#define LONGSHORE_TCB_FIELD_FIN_QUEUED 8
#define LONGSHORE_TCB_FIELD_SND_WND 9
#define LONGSHORE_TCB_FIELD_SND_WND_MAX 10
#define LONGSHORE_TCB_FIELD_UNREAD 11
#define LONGSHORE_TCB_FIELD_RCV_EDGE 12
#define LONGSHORE_TCB_FIELD_RCV_BUFFER 13
#define LONGSHORE_TCB_FIELD_FIN_TAKEN 14
#define LONGSHORE_TCB_FIELD_FIN_AT 15
#define LONGSHORE_TCB_FIELD_HELD 16
#define LONGSHORE_TCB_FIELD_MSS 17
#define LONGSHORE_TCB_FIELD_ADV_MSS 18
#define LONGSHORE_TCB_FIELD_SHIFTS 19
#define LONGSHORE_TCB_FIELD_CWND 20
#define LONGSHORE_TCB_FIELD_LINGER 21
#define LONGSHORE_TCB_FIELD_TIMER_SNAPSHOT 22
#define LONGSHORE_TCB_FIELD_CONGESTION 23
#define LONGSHORE_TCB_FIELD_RCV_BUF_MAX 24

#endif
