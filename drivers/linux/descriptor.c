// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: descriptors that it posts, and the memory that they name. */

#include <net/ipv6.h>

#include "nic.h"

#define LONGSHORE_SLICES(type) \
	(sizeof_field(struct type, slices) / sizeof(struct longshore_slice))
/* Slices of the slots behind the first. */
#define LONGSHORE_MORE_SLICES \
	(LONGSHORE_MAX_CONTINUATIONS * LONGSHORE_SLICES(longshore_continuation))

static_assert(LONGSHORE_SLICES(longshore_send) + LONGSHORE_MORE_SLICES >= LONGSHORE_TX_PARTS);
static_assert(LONGSHORE_SLICES(longshore_recover_context) + LONGSHORE_MORE_SLICES >= MAX_SKB_FRAGS);

/* Lets go of the memory of a descriptor. */
void longshore_unmap(struct device *dev, struct longshore_tx_buffer *buffer)
{
	u32 at;

	for (at = 0; at < buffer->count; at++) {
		struct longshore_tx_part *part = &buffer->parts[at];

		if (at == 0 && buffer->linear)
			dma_unmap_single(dev, part->dma, part->len, DMA_TO_DEVICE);
		else
			dma_unmap_page(dev, part->dma, part->len, DMA_TO_DEVICE);
		if (part->page)
			put_page(part->page);
	}
	buffer->count = 0;
}

static bool longshore_map_page(struct device *dev, struct longshore_tx_buffer *buffer,
			       struct page *page, u32 offset, u32 len)
{
	struct longshore_tx_part *part = &buffer->parts[buffer->count];

	part->page = NULL;
	part->len = len;
	part->dma = dma_map_page(dev, page, offset, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, part->dma))
		return false;
	buffer->count++;
	return true;
}

/* Maps @len bytes, if any, as the first part. */
static bool longshore_map_linear(struct device *dev, struct longshore_tx_buffer *buffer,
				 void *data, u32 len)
{
	struct longshore_tx_part *part = buffer->parts;

	buffer->count = 0;
	buffer->linear = len;
	if (!len)
		return true;
	part->page = NULL;
	part->len = len;
	part->dma = dma_map_single(dev, data, len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, part->dma))
		return false;
	buffer->count = 1;
	return true;
}

/* Maps what lies behind the first @header_len bytes. */
bool longshore_map(struct device *dev, struct longshore_tx_buffer *buffer,
		   struct sk_buff *skb, u32 header_len)
{
	u32 headlen = skb_headlen(skb);
	u32 frag;

	if (!longshore_map_linear(dev, buffer, skb->data + header_len,
				  headlen > header_len ? headlen - header_len : 0))
		return false;
	for (frag = 0; frag < skb_shinfo(skb)->nr_frags; frag++) {
		const skb_frag_t *from = &skb_shinfo(skb)->frags[frag];

		if (!longshore_map_page(dev, buffer, skb_frag_page(from), skb_frag_off(from),
					skb_frag_size(from))) {
			longshore_unmap(dev, buffer);
			return false;
		}
	}
	return true;
}

/* Puts up to @room parts into slices, from number @at on, and gives how many. */
static u32 longshore_put_slices(struct longshore_slice *slices, u32 room,
				const struct longshore_tx_buffer *buffer, u32 at)
{
	u32 put;

	for (put = 0; put < room && at + put < buffer->count; put++)
		slices[put] = (struct longshore_slice){
			.offset = buffer->parts[at + put].dma,
			.len = buffer->parts[at + put].len,
			.region = LONGSHORE_REGION,
		};
	return put;
}

/* Puts the parts from number @at on behind the slot of a descriptor, and completes its head. */
static void longshore_put_rest(struct longshore_queue *queue, struct longshore_head *head,
			       struct longshore_tx_buffer *buffer, u32 at)
{
	head->slices = at;
	for (buffer->slots = 1; at < buffer->count; buffer->slots++) {
		struct longshore_continuation *more;

		more = longshore_slot(&queue->send, queue->send.ours + buffer->slots);
		memset(more, 0, sizeof(*more));
		more->head.opcode = LONGSHORE_OPCODE_CONTINUATION;
		more->head.slices = longshore_put_slices(more->slices, ARRAY_SIZE(more->slices),
							 buffer, at);
		at += more->head.slices;
	}
	head->continuations = buffer->slots - 1;
	queue->send.ours += buffer->slots;
}

/* The next descriptor's place. */
struct longshore_tx_buffer *longshore_next(struct longshore_queue *queue)
{
	struct longshore_tx_buffer *buffer = &queue->tx[queue->send.ours & queue->send.mask];

	buffer->skb = NULL;
	buffer->frame = NULL;
	buffer->wait = NULL;
	buffer->bytes = 0;
	buffer->count = 0;
	buffer->linear = false;
	return buffer;
}

/* Begins a packet whose first @header_len bytes are at @data, and the others in the parts. */
static struct longshore_send *longshore_begin_send(struct longshore_queue *queue, const void *data,
						   u32 header_len, u32 len)
{
	struct longshore_send *send = longshore_slot(&queue->send, queue->send.ours);

	memset(send, 0, offsetof(struct longshore_send, header));
	send->head.opcode = LONGSHORE_OPCODE_SEND;
	send->head.header_len = header_len;
	send->payload_len = len - header_len;
	memcpy(send->header, data, header_len);
	return send;
}

/* Completes what longshore_begin_send() has begun. */
static void longshore_end_send(struct longshore_queue *queue, struct longshore_send *send,
			       struct longshore_tx_buffer *buffer)
{
	longshore_put_rest(queue, &send->head, buffer,
			   longshore_put_slices(send->slices, ARRAY_SIZE(send->slices), buffer, 0));
}

void longshore_put_packet(struct longshore_queue *queue, struct longshore_tx_buffer *buffer,
			  const struct sk_buff *skb, u32 header_len, u32 context)
{
	struct longshore_send *send;

	send = longshore_begin_send(queue, skb->data, header_len, skb->len);
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		send->head.flags = LONGSHORE_SEND_CHECKSUM;
	if (skb_is_gso(skb))
		send->head.mss = skb_shinfo(skb)->gso_size;
	send->context = context;
	longshore_end_send(queue, send, buffer);
}

/* Puts a packet of XDP on the ring, for which there is room. False if it can't be mapped. */
bool longshore_put_frame(struct longshore_queue *queue, struct xdp_frame *frame)
{
	u32 header_len = min_t(u32, frame->len, sizeof_field(struct longshore_send, header));
	struct longshore_tx_buffer *buffer = longshore_next(queue);
	struct longshore_send *send;

	if (!longshore_map_linear(&queue->nic->pdev->dev, buffer, frame->data + header_len,
				  frame->len - header_len))
		return false;
	buffer->frame = frame;
	send = longshore_begin_send(queue, frame->data, header_len, frame->len);
	send->context = LONGSHORE_NO_CONTEXT;
	longshore_end_send(queue, send, buffer);
	return true;
}

/**
 * longshore_tx_recover() - brings a context to where the packet after this begins
 * @queue: the packet's, whose lock is held
 * @recover: the descriptor without its slices
 * @parts: the pages of the record before the packet, each with a reference that is the callee's
 * @count: how many
 *
 * Return: 0, or -ENOMEM.
 */
int longshore_tx_recover(struct longshore_queue *queue, struct longshore_recover_context *recover,
			 const struct longshore_tx_part *parts, u32 count)
{
	struct device *dev = &queue->nic->pdev->dev;
	struct longshore_tx_buffer *buffer = longshore_next(queue);
	struct longshore_recover_context *slot;
	u32 at;

	for (at = 0; at < count; at++) {
		if (!longshore_map_page(dev, buffer, parts[at].page, parts[at].offset,
					parts[at].len))
			break;
		buffer->parts[at].page = parts[at].page;
	}
	if (at < count) {
		for (; at < count; at++)
			put_page(parts[at].page);
		longshore_unmap(dev, buffer);
		return -ENOMEM;
	}
	slot = longshore_slot(&queue->send, queue->send.ours);
	*slot = *recover;
	longshore_put_rest(queue, &slot->head, buffer,
			   longshore_put_slices(slot->slices, ARRAY_SIZE(slot->slices), buffer, 0));
	return 0;
}

static void longshore_put_address(u8 *to, const struct in6_addr *address)
{
	memcpy(to, address, sizeof(*address));
}

/* The flow as packets of its direction have it; an IPv4 address is mapped into an IPv6 one. */
void longshore_put_flow(struct longshore_create_context *create, const struct sock *sk,
			bool receive)
{
	struct longshore_flow *flow = &create->flow;
	const struct inet_sock *inet = inet_sk(sk);
	struct in6_addr ours, theirs;

	ipv6_addr_set_v4mapped(inet->inet_saddr, &ours);
	ipv6_addr_set_v4mapped(inet->inet_daddr, &theirs);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		create->head.flags |= LONGSHORE_CREATE_CONTEXT_V6;
		ours = inet6_sk(sk)->saddr;
		theirs = sk->sk_v6_daddr;
	}
#endif
	longshore_put_address(receive ? flow->dst : flow->src, &ours);
	longshore_put_address(receive ? flow->src : flow->dst, &theirs);
	flow->src_port = ntohs(receive ? inet->inet_dport : inet->inet_sport);
	flow->dst_port = ntohs(receive ? inet->inet_sport : inet->inet_dport);
}
