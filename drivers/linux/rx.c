// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: reception, and what wakes a queue. */

#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/tcp.h>
#include <net/gro.h>
#include <net/ip6_checksum.h>
#include <net/tcp.h>

#include "nic.h"

/* How long a queue waits that has few buffers, until it asks for memory again. */
#define LONGSHORE_NO_MEMORY_USECS	2000

/* Gives the device a buffer that has memory. It is published with others. */
static void longshore_give(struct longshore_queue *queue, struct longshore_fill *fill,
			   struct longshore_rx_buffer *buffer)
{
	struct longshore_slice *slot = longshore_slot(&fill->ring, fill->ring.ours++);

	*slot = (struct longshore_slice){
		.offset = buffer->dma,
		.len = fill->room,
		.region = LONGSHORE_REGION,
	};
	hash_add(queue->given, &buffer->node, buffer->dma);
}

/* Gives the device what it has not. False if it has few now, for want of memory. */
static bool longshore_refill(struct longshore_queue *queue, struct longshore_fill *fill)
{
	u64 before = fill->ring.ours;

	while (fill->free_count) {
		struct longshore_rx_buffer *buffer = fill->free[fill->free_count - 1];

		if (!buffer->page) {
			buffer->page = page_pool_dev_alloc_pages(fill->pool);
			if (unlikely(!buffer->page))
				break;
			buffer->dma = page_pool_get_dma_addr(buffer->page) + fill->headroom;
		} else {
			dma_sync_single_for_device(&queue->nic->pdev->dev, buffer->dma,
						   fill->room, DMA_FROM_DEVICE);
		}
		fill->free_count--;
		longshore_give(queue, fill, buffer);
	}
	if (fill->ring.ours != before)
		longshore_publish(&fill->ring, LONGSHORE_RING_TAIL);
	return fill->free_count <= (fill->ring.mask + 1) / 2;
}

/* The buffer that a packet came in: the device has it no longer. */
static struct longshore_rx_buffer *longshore_take(struct longshore_queue *queue,
						  const struct longshore_slice *slice,
						  struct longshore_fill **fill)
{
	struct longshore_rx_buffer *buffer;

	hash_for_each_possible(queue->given, buffer, node, slice->offset) {
		if (buffer->dma != slice->offset)
			continue;
		*fill = compound_order(buffer->page) ? &queue->large : &queue->small;
		if (slice->len > (*fill)->room)
			return NULL;
		hash_del(&buffer->node);
		return buffer;
	}
	return NULL;
}

static void longshore_free(struct longshore_fill *fill, struct longshore_rx_buffer *buffer)
{
	fill->free[fill->free_count++] = buffer;
}

/* A packet of what is in @buffer; a short one is copied, of others the headers are. */
static struct sk_buff *longshore_build(struct longshore_queue *queue, struct longshore_fill *fill,
				       struct longshore_rx_buffer *buffer,
				       const struct longshore_frame *frame)
{
	u32 headers = clamp_t(u32, frame->header_len, ETH_HLEN, LONGSHORE_HEADER_BYTES);
	u32 linear = frame->len <= fill->copybreak ? frame->len : headers;
	const void *data = page_address(buffer->page) + frame->offset;
	u32 meta_len = frame->meta_len;
	struct sk_buff *skb;

	skb = napi_alloc_skb(&queue->napi, meta_len + max(linear, LONGSHORE_HEADER_BYTES));
	if (unlikely(!skb))
		return NULL;
	skb_put_data(skb, data - meta_len, meta_len + linear);
	if (meta_len) {
		skb_metadata_set(skb, meta_len);
		__skb_pull(skb, meta_len);
	}
	if (linear == frame->len)
		return skb;
	skb_add_rx_frag(skb, 0, buffer->page, frame->offset + linear, frame->len - linear,
			PAGE_SIZE << fill->order);
	skb_mark_for_recycle(skb);
	buffer->page = NULL;
	return skb;
}

/* The protocol behind the Ethernet header and up to two tags, and where its header begins. */
static __be16 longshore_find_network(struct sk_buff *skb)
{
	__be16 protocol = skb->protocol;
	u32 at;

	for (at = 0; eth_type_vlan(protocol) && at < 2 * VLAN_HLEN; at += VLAN_HLEN) {
		if (skb_headlen(skb) < at + VLAN_HLEN)
			return 0;
		protocol = ((struct vlan_hdr *)(skb->data + at))->h_vlan_encapsulated_proto;
	}
	skb_set_network_header(skb, at);
	return protocol;
}

/* Finds the TCP header in the linear part, and the checksum of the pseudo-header for it. */
static bool longshore_find_tcp(struct sk_buff *skb, __be16 *protocol, __sum16 *check)
{
	u32 at, len = sizeof(struct iphdr);

	*protocol = longshore_find_network(skb);
	at = skb_network_offset(skb);
	if (*protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ipv6 = ipv6_hdr(skb);

		len = at + sizeof(*ipv6);
		if (skb_headlen(skb) < len + sizeof(struct tcphdr) || ipv6->nexthdr != IPPROTO_TCP)
			return false;
		*check = ~tcp_v6_check(skb->len - len, &ipv6->saddr, &ipv6->daddr, 0);
	} else {
		const struct iphdr *ip = ip_hdr(skb);

		if (*protocol != htons(ETH_P_IP) || skb_headlen(skb) < at + len)
			return false;
		len = at + ip_hdrlen(skb);
		if (skb_headlen(skb) < len + sizeof(struct tcphdr) || ip->protocol != IPPROTO_TCP)
			return false;
		*check = ~tcp_v4_check(skb->len - len, ip->saddr, ip->daddr, 0);
	}
	skb_set_transport_header(skb, len);
	return true;
}

/*
 * A packet that the device has coalesced stands for several, whose sizes it does not tell. Who
 * forwards it has it cut again, so that its checksum is one that is yet to be made.
 */
static void longshore_coalesced(struct sk_buff *skb, const struct longshore_packet *packet)
{
	struct skb_shared_info *shared = skb_shinfo(skb);
	__be16 protocol;
	__sum16 check;

	if (unlikely(packet->header_len + (u64)packet->payload_len > skb->len + ETH_HLEN ||
		     packet->payload_len < packet->segments ||
		     !longshore_find_tcp(skb, &protocol, &check)))
		return;
	shared->gso_size = DIV_ROUND_UP(packet->payload_len, packet->segments);
	shared->gso_type = protocol == htons(ETH_P_IPV6) ? SKB_GSO_TCPV6 : SKB_GSO_TCPV4;
	tcp_hdr(skb)->check = check;
	NAPI_GRO_CB(skb)->count = packet->segments;
	tcp_gro_complete(skb);
}

/* Bytes of a packet that are not in its buffer. */
static u32 longshore_placed_bytes(const struct longshore_packet *packet)
{
	if (likely(!packet->placed))
		return 0;
	return packet->header_len + packet->payload_len - packet->buffer.len;
}

static void longshore_count_packet(struct longshore_queue *queue,
				   const struct longshore_packet *packet)
{
	struct longshore_rx_stats *stats = &queue->rx_stats;
	u32 segments = max_t(u32, packet->segments, 1);

	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->packets, segments);
	u64_stats_add(&stats->bytes, packet->buffer.len + longshore_placed_bytes(packet) +
		      (segments - 1) * packet->header_len);
	if (segments > 1) {
		u64_stats_inc(&stats->lro_packets);
		u64_stats_add(&stats->lro_bytes, packet->payload_len);
	}
	u64_stats_update_end(&stats->sync);
}

/* Payload that the device has replaced is plaintext, checked as far as its records have come. */
static void longshore_mark_decrypted(struct longshore_queue *queue, struct sk_buff *skb,
				     const struct longshore_packet *packet)
{
#ifdef CONFIG_TLS_DEVICE
	struct longshore_rx_stats *stats = &queue->rx_stats;
	bool decrypted = packet->flags & LONGSHORE_PACKET_REPLACED;
	__be16 protocol;
	__sum16 check;

	if (packet->context == LONGSHORE_NO_CONTEXT)
		return;
	if (packet->payload_len && longshore_find_tcp(skb, &protocol, &check))
		longshore_tls_received(queue, packet->context, ntohl(tcp_hdr(skb)->seq), decrypted);
	if (!decrypted)
		return;
	skb->decrypted = 1;
	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->tls_decrypted_packets, max_t(u32, packet->segments, 1));
	u64_stats_add(&stats->tls_decrypted_bytes, packet->payload_len);
	u64_stats_update_end(&stats->sync);
#endif
}

/*
 * All digests that end in a packet of NVMe/TCP are right. The stack keeps packets apart that differ
 * in this bit, which means nothing else to a socket without kernel TLS.
 */
static void longshore_mark_verified(struct longshore_queue *queue, struct sk_buff *skb,
				    const struct longshore_packet *packet)
{
	struct longshore_rx_stats *stats = &queue->rx_stats;
	bool verified = packet->flags & LONGSHORE_PACKET_LAYER_0;

#ifdef CONFIG_TLS_DEVICE
	skb->decrypted = verified;
#endif
	u64_stats_update_begin(&stats->sync);
	if (verified)
		u64_stats_add(&stats->nvme_verified_bytes, packet->payload_len);
	u64_stats_add(&stats->nvme_placed_bytes, longshore_placed_bytes(packet));
	u64_stats_update_end(&stats->sync);
}

/* Of what was not hashed the hash is 0. */
static void longshore_set_hash(struct sk_buff *skb, const struct longshore_packet *packet)
{
	u8 addresses = LONGSHORE_HASH_TYPE_IPV4 | LONGSHORE_HASH_TYPE_IPV6;

	if (packet->hash)
		skb_set_hash(skb, packet->hash, packet->hash_type & addresses ?
			     PKT_HASH_TYPE_L3 : PKT_HASH_TYPE_L4);
}

/* Gives a packet to the kernel. What a program of XDP has moved is none that can be cut again. */
static void longshore_pass(struct longshore_queue *queue, const struct longshore_packet *packet,
			   struct sk_buff *skb, bool copied, bool moved)
{
	struct net_device *netdev = queue->nic->netdev;
	struct longshore_rx_stats *stats = &queue->rx_stats;

	if (netdev->features & NETIF_F_RXCSUM && packet->flags & LONGSHORE_PACKET_CHECKSUM_OK)
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	u64_stats_update_begin(&stats->sync);
	/* One that is coalesced is marked once. */
	if (skb->ip_summed == CHECKSUM_UNNECESSARY)
		u64_stats_inc(&stats->csum_unnecessary);
	if (copied)
		u64_stats_inc(&stats->copied);
	u64_stats_update_end(&stats->sync);

	skb_record_rx_queue(skb, queue->index);
	skb->protocol = eth_type_trans(skb, netdev);
	if (netdev->features & NETIF_F_RXHASH)
		longshore_set_hash(skb, packet);
	if (packet->segments > 1 && packet->flags & LONGSHORE_PACKET_CHECKSUM_OK && !moved)
		longshore_coalesced(skb, packet);
	if (packet->context >= queue->nic->contexts && packet->context != LONGSHORE_NO_CONTEXT)
		longshore_mark_verified(queue, skb, packet);
	else
		longshore_mark_decrypted(queue, skb, packet);
	napi_gro_receive(&queue->napi, skb);
}

static void longshore_receive(struct longshore_queue *queue, const struct longshore_packet *packet)
{
	struct longshore_frame frame = {
		.len = packet->buffer.len,
		.header_len = packet->header_len,
	};
	struct longshore_rx_buffer *buffer;
	struct longshore_fill *fill;
	struct sk_buff *skb = NULL;
	bool moved;

	buffer = longshore_take(queue, &packet->buffer, &fill);
	if (unlikely(!buffer)) {
		longshore_count(&queue->rx_stats.sync, &queue->rx_stats.unknown_buffer);
		return;
	}
	if (likely(frame.len >= ETH_HLEN && frame.header_len <= frame.len)) {
		dma_sync_single_for_cpu(&queue->nic->pdev->dev, buffer->dma, frame.len,
					DMA_FROM_DEVICE);
		net_prefetch(page_address(buffer->page) + fill->headroom);
		frame.offset = fill->headroom;
		if (!packet->placed &&
		    !longshore_xdp_run(queue, fill, buffer, packet, &frame)) {
			longshore_count_packet(queue, packet);
			longshore_free(fill, buffer);
			return;
		}
		if (unlikely(packet->placed))
			skb = longshore_ddp_build(queue, packet, page_address(buffer->page) +
						  frame.offset);
		else
			skb = longshore_build(queue, fill, buffer, &frame);
	}
	longshore_free(fill, buffer);
	if (unlikely(!skb)) {
		longshore_count(&queue->rx_stats.sync, &queue->rx_stats.no_memory);
		return;
	}
	longshore_count_packet(queue, packet);
	moved = frame.offset != fill->headroom || frame.len != packet->buffer.len;
	longshore_pass(queue, packet, skb, buffer->page, moved);
}

static void longshore_event(struct longshore_queue *queue, const void *slot, int *packets)
{
	/* The device may write the slot again only when the index has passed it. */
	struct longshore_packet packet;

	memcpy(&packet, slot, sizeof(packet));
	switch (packet.opcode) {
	case LONGSHORE_OPCODE_PACKET:
		longshore_receive(queue, &packet);
		++*packets;
		break;
	case LONGSHORE_OPCODE_COMPLETION:
		longshore_tx_refused(queue, (const struct longshore_completion *)&packet);
		break;
	case LONGSHORE_OPCODE_RESYNC_REQUEST:
		if (packet.context >= queue->nic->contexts)
			longshore_ddp_resync(queue, (const void *)&packet);
		else
			longshore_tls_resync(queue, (const void *)&packet);
		break;
	case LONGSHORE_OPCODE_RESET:
		longshore_reset(queue->nic, "the NIC has reset the function");
		break;
	default:
		/* A descriptor that is not known is skipped. */
		break;
	}
}

/* Whether anything came after the device was told that this side sleeps. */
static bool longshore_sleep(struct longshore_queue *queue)
{
	WRITE_ONCE(*longshore_asleep(&queue->receive), 1);
	/* The device looks whether this side sleeps after it has moved an index. */
	mb();
	if (longshore_index(&queue->receive, LONGSHORE_RING_TAIL) == queue->receive.ours &&
	    !longshore_tx_waits(queue))
		return false;
	WRITE_ONCE(*longshore_asleep(&queue->receive), 0);
	return true;
}

static enum hrtimer_restart longshore_pause_over(struct hrtimer *timer)
{
	napi_schedule(&container_of(timer, struct longshore_queue, pause)->napi);
	return HRTIMER_NORESTART;
}

void longshore_init_pause(struct longshore_queue *queue)
{
#ifdef LONGSHORE_HRTIMER_SETUP
	hrtimer_setup(&queue->pause, longshore_pause_over, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(&queue->pause, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	queue->pause.function = longshore_pause_over;
#endif
}

/*
 * Has NAPI run again after a pause, if there was something to do, or when the device interrupts.
 * Without buffers it does not: so there is a pause then too, in which memory may be freed.
 */
static void longshore_wait(struct longshore_queue *queue, bool worked, bool enough)
{
	u32 usecs = READ_ONCE(queue->nic->rx_usecs);

	if (unlikely(!enough)) {
		usecs = max_t(u32, usecs, LONGSHORE_NO_MEMORY_USECS);
		worked = true;
	}
	if (worked && usecs)
		hrtimer_start(&queue->pause, ns_to_ktime(usecs * NSEC_PER_USEC),
			      HRTIMER_MODE_REL);
	else if (longshore_sleep(queue))
		napi_schedule(&queue->napi);
}

/* Whether the events that came with @sent have all been looked at. */
static bool longshore_has_heard(const struct longshore_queue *queue)
{
	return (s64)(queue->receive.ours - queue->heard) >= 0;
}

/*
 * Takes what has come, and gives the index up to which it has. What the device has to say of a
 * descriptor comes before it has done with it, and may wait behind packets for more than one poll:
 * it is those before @heard that are looked at before what was sent up to @sent is cleaned up.
 */
static u64 longshore_look(struct longshore_queue *queue)
{
	struct longshore_ring *ring = &queue->receive;
	bool again = longshore_has_heard(queue);
	u64 tail;

	if (again)
		queue->sent = longshore_index(&queue->send, LONGSHORE_RING_HEAD);
	tail = longshore_index(ring, LONGSHORE_RING_TAIL);
	if (unlikely(tail - ring->ours > ring->mask + 1))
		tail = ring->ours;
	if (again)
		queue->heard = tail;
	return tail;
}

int longshore_poll(struct napi_struct *napi, int budget)
{
	struct longshore_queue *queue = container_of(napi, struct longshore_queue, napi);
	struct longshore_ring *ring = &queue->receive;
	u64 tail, done = queue->tx_done;
	bool enough;
	int packets = 0;

	/* Who polls so may hold any lock, and does so to have packets sent. */
	if (unlikely(!budget)) {
		longshore_tx_clean(queue, longshore_index(&queue->send, LONGSHORE_RING_HEAD), 0);
		return 0;
	}
	tail = longshore_look(queue);
	while (ring->ours != tail && packets < budget) {
		longshore_event(queue, longshore_slot(ring, ring->ours), &packets);
		ring->ours++;
	}
	longshore_publish(ring, LONGSHORE_RING_HEAD);
	longshore_xdp_flush(queue);
	if (longshore_has_heard(queue))
		longshore_tx_clean(queue, queue->sent, budget);
	enough = longshore_refill(queue, &queue->small);
	enough &= longshore_refill(queue, &queue->large);

	if (ring->ours != tail || packets == budget)
		return budget;
	if (napi_complete_done(napi, packets))
		longshore_wait(queue, packets || queue->tx_done != done, enough);
	return packets;
}

static int longshore_fill_open(struct longshore_queue *queue, struct longshore_fill *fill,
			       u32 order)
{
	struct page_pool_params params = {
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
		.order = order,
		.pool_size = fill->ring.mask + 1,
		.nid = dev_to_node(&queue->nic->pdev->dev),
		.dev = &queue->nic->pdev->dev,
		.dma_dir = DMA_FROM_DEVICE,
		.offset = longshore_headroom(queue->nic, order),
		.max_len = longshore_room(queue->nic, order),
#ifdef LONGSHORE_PAGE_POOL_QUEUE
		.netdev = queue->nic->netdev,
		.napi = &queue->napi,
		.queue_idx = queue->index,
#endif
	};
	u32 at, entries = fill->ring.mask + 1;
	struct page_pool *pool;
	int error;

	fill->order = order;
	fill->headroom = params.offset;
	fill->room = params.max_len;
	fill->copybreak = order ? LONGSHORE_LARGE_COPYBREAK : LONGSHORE_SMALL_COPYBREAK;
	fill->free_count = 0;
	fill->buffers = kvcalloc(entries, sizeof(*fill->buffers), GFP_KERNEL);
	fill->free = kvcalloc(entries, sizeof(*fill->free), GFP_KERNEL);
	if (!fill->buffers || !fill->free)
		return -ENOMEM;
	pool = page_pool_create(&params);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	fill->pool = pool;
	error = xdp_rxq_info_reg(&fill->rxq, queue->nic->netdev, queue->index,
				 queue->napi.napi_id);
	if (!error)
		error = xdp_rxq_info_reg_mem_model(&fill->rxq, MEM_TYPE_PAGE_POOL, pool);
	if (error)
		return error;
	for (at = 0; at < entries; at++)
		longshore_free(fill, &fill->buffers[at]);
	return 0;
}

static void longshore_fill_close(struct longshore_fill *fill)
{
	u32 at;

	if (fill->pool) {
		for (at = 0; at <= fill->ring.mask; at++) {
			if (fill->buffers[at].page)
				page_pool_put_full_page(fill->pool, fill->buffers[at].page, false);
		}
		if (xdp_rxq_info_is_reg(&fill->rxq))
			xdp_rxq_info_unreg(&fill->rxq);
		page_pool_destroy(fill->pool);
		fill->pool = NULL;
	}
	kvfree(fill->buffers);
	kvfree(fill->free);
	fill->buffers = NULL;
	fill->free = NULL;
}

/* The device takes empty rings, which NAPI fills. longshore_rx_close() undoes this. */
int longshore_rx_open(struct longshore_queue *queue)
{
	int error;

	hash_init(queue->given);
	queue->sent = 0;
	queue->heard = 0;
	error = longshore_fill_open(queue, &queue->small, LONGSHORE_SMALL_ORDER);
	if (!error)
		error = longshore_fill_open(queue, &queue->large, LONGSHORE_LARGE_ORDER);
	return error;
}

/* The device has let go of all buffers. */
void longshore_rx_close(struct longshore_queue *queue)
{
	longshore_fill_close(&queue->small);
	longshore_fill_close(&queue->large);
}
