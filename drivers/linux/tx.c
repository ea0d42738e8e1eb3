// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: transmission. */

#include <linux/delay.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/netdev_queues.h>
#include <net/tls.h>

#include "nic.h"

/* How long the device may take for a command. */
#define LONGSHORE_PATIENCE	(10 * HZ)
/* How often a command looks for room on the ring, and the milliseconds between. */
#define LONGSHORE_TRIES		50
#define LONGSHORE_TRY_AGAIN	20

u32 longshore_tx_room(const struct longshore_queue *queue)
{
	const struct longshore_ring *ring = &queue->send;

	/* What NAPI has not cleaned up is not free, though the device has done with it. */
	return ring->mask + 1 - (u32)(ring->ours - smp_load_acquire(&queue->tx_done));
}

/* ---- what the device can do for a packet ---- */

/*
 * The protocol behind an Ethernet header that has at most one tag, of 802.1Q, or 0. A tag beside
 * the packet is put into it by the kernel before it is sent.
 */
static __be16 longshore_protocol(const struct sk_buff *skb)
{
	const struct vlan_ethhdr *tagged = (const struct vlan_ethhdr *)skb->data;
	u32 l3 = skb_network_offset(skb);

	if (skb_vlan_tag_present(skb) && skb->vlan_proto != htons(ETH_P_8021Q))
		return 0;
	if (l3 == ETH_HLEN)
		return skb->protocol;
	if (l3 != VLAN_ETH_HLEN || skb->protocol != htons(ETH_P_8021Q) ||
	    skb_vlan_tag_present(skb))
		return 0;
	return tagged->h_vlan_encapsulated_proto;
}

/* The headers of a TCP packet if the device can make its checksum, or 0. */
static u32 longshore_tcp_headers(const struct sk_buff *skb)
{
	u32 l3 = skb_network_offset(skb), l4 = skb_transport_offset(skb), len, tag;

	switch (longshore_protocol(skb)) {
	case htons(ETH_P_IP):
		if (ip_hdr(skb)->protocol != IPPROTO_TCP || l4 != l3 + ip_hdrlen(skb))
			return 0;
		break;
	case htons(ETH_P_IPV6):
		if (ipv6_hdr(skb)->nexthdr != IPPROTO_TCP || l4 != l3 + sizeof(struct ipv6hdr))
			return 0;
		break;
	default:
		return 0;
	}
	len = l4 + tcp_hdrlen(skb);
	tag = skb_vlan_tag_present(skb) ? VLAN_HLEN : 0;
	return len + tag <= sizeof_field(struct longshore_send, header) ? len : 0;
}

/* Checksums and segmentation are for TCP in IPv4, or in IPv6 without extension headers. */
netdev_features_t longshore_features_check(struct sk_buff *skb, struct net_device *netdev,
					   netdev_features_t features)
{
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return features;
	if (skb->encapsulation || skb->csum_offset != offsetof(struct tcphdr, check) ||
	    !longshore_tcp_headers(skb))
		return features & ~(NETIF_F_CSUM_MASK | NETIF_F_GSO_MASK);
	if (tcp_hdr(skb)->urg)
		return features & ~NETIF_F_GSO_MASK;
	return features;
}

/* Publishes what was written, and rings if the device sleeps. The queue's lock is held. */
void longshore_tx_publish(struct longshore_queue *queue)
{
	/* NAPI believes no index beyond this. */
	WRITE_ONCE(queue->tx_published, queue->send.ours);
	longshore_publish(&queue->send, LONGSHORE_RING_TAIL);
	/* The device looks at the index once more after it has said that it sleeps. */
	mb();
	if (READ_ONCE(*longshore_asleep(&queue->send)) &&
	    xchg(longshore_asleep(&queue->send), 0)) {
		longshore_hw_ring(queue->nic, queue->index);
		longshore_count(&queue->tx_stats.sync, &queue->tx_stats.doorbells);
	}
}

/* One of the two that know of it, the caller and the ring, does so no longer. */
static void longshore_put_wait(struct longshore_tx_wait *wait)
{
	if (refcount_dec_and_test(&wait->users))
		kfree(wait);
}

/* Puts a command on the ring. Who waits for it is told when it is done. */
static int longshore_put_command(struct longshore_nic *nic, const void *slot, size_t bytes,
				 struct longshore_tx_wait *wait, u32 *epoch)
{
	struct longshore_queue *queue = &nic->queues[0];
	struct netdev_queue *txq = longshore_txq(queue);
	struct longshore_tx_buffer *buffer;
	int error = 0;
	size_t len;

	__netif_tx_lock_bh(txq);
	if (!nic->up) {
		error = -ENETDOWN;
	} else if (longshore_tx_room(queue) < LONGSHORE_TX_SLOTS) {
		error = -EBUSY;
	} else {
		*epoch = nic->epoch;
		buffer = longshore_next(queue);
		buffer->wait = wait;
		if (wait)
			refcount_inc(&wait->users);
		buffer->slots = DIV_ROUND_UP(bytes, LONGSHORE_SEND_SLOT);
		for (; bytes; bytes -= len, slot += len) {
			len = min_t(size_t, bytes, LONGSHORE_SEND_SLOT);
			memcpy(longshore_slot(&queue->send, queue->send.ours++), slot, len);
		}
		longshore_tx_publish(queue);
	}
	__netif_tx_unlock_bh(txq);
	return error;
}

/* The same when the ring is full, which it is not for long. May sleep. */
static int longshore_put_command_soon(struct longshore_nic *nic, const void *slot, size_t bytes,
				      struct longshore_tx_wait *wait, u32 *epoch)
{
	int error, tries;

	for (tries = 0; tries < LONGSHORE_TRIES; tries++) {
		if (tries)
			msleep(LONGSHORE_TRY_AGAIN);
		error = longshore_put_command(nic, slot, bytes, wait, epoch);
		if (error != -EBUSY)
			break;
	}
	return error;
}

/**
 * longshore_command() - has the device carry out a command of one slot, and waits for it
 * @nic: the function
 * @slot: the command
 * @bytes: its bytes
 * @epoch: which rings it was put on
 *
 * A device that does not answer is set up anew. That needs the RTNL lock, whose owner may wait
 * for a lock that our caller holds: so this does not wait for it.
 *
 * Return: 0, or a negative error when the device refused it (-EIO), does not answer (-ETIMEDOUT),
 * has no room for it for a second (-EBUSY), or is not there (-ENETDOWN).
 */
int longshore_command(struct longshore_nic *nic, const void *slot, size_t bytes, u32 *epoch)
{
	struct longshore_tx_wait *wait = kzalloc(sizeof(*wait), GFP_KERNEL);
	int error;

	if (!wait)
		return -ENOMEM;
	init_completion(&wait->done);
	refcount_set(&wait->users, 1);
	error = longshore_put_command_soon(nic, slot, bytes, wait, epoch);
	if (!error && !wait_for_completion_timeout(&wait->done, LONGSHORE_PATIENCE)) {
		longshore_reset(nic, "a command is not answered");
		error = -ETIMEDOUT;
	} else if (!error) {
		error = wait->error;
	}
	longshore_put_wait(wait);
	return error;
}

/* The same for who may not sleep, and is not told what becomes of it. */
int longshore_post(struct longshore_nic *nic, const void *slot, size_t bytes)
{
	u32 epoch;

	return longshore_put_command(nic, slot, bytes, NULL, &epoch);
}

/* The end of what is on a queue's ring, published or not. */
static u64 longshore_tx_end(struct longshore_queue *queue)
{
	struct netdev_queue *txq = longshore_txq(queue);
	u64 end;

	__netif_tx_lock_bh(txq);
	end = queue->send.ours;
	__netif_tx_unlock_bh(txq);
	return end;
}

/* Whether the device has read all before @end. Rings are freed only when RCU readers have gone. */
static bool longshore_tx_is_read(const struct longshore_queue *queue, u32 epoch, u64 end)
{
	bool read = true;

	rcu_read_lock();
	/* Pairs with longshore_mark_up(): who sees this sees the rings too. */
	if (smp_load_acquire(&queue->nic->up) && READ_ONCE(queue->nic->epoch) == epoch)
		read = (s64)(longshore_index(&queue->send, LONGSHORE_RING_HEAD) - end) >= 0;
	rcu_read_unlock();
	return read;
}

/**
 * longshore_tx_drain() - waits until the device has done with all packets that it has now
 * @nic: the function
 *
 * Between queues there is no order: what is on one may be read behind commands of the first.
 *
 * Return: whether it has. A function that was set up anew has no packets of before.
 */
bool longshore_tx_drain(struct longshore_nic *nic)
{
	unsigned long until = jiffies + LONGSHORE_PATIENCE;
	u32 epoch = READ_ONCE(nic->epoch);
	u32 index;

	for (index = 0; index < READ_ONCE(nic->queue_count); index++) {
		struct longshore_queue *queue = &nic->queues[index];
		u64 end = longshore_tx_end(queue);

		while (!longshore_tx_is_read(queue, epoch, end)) {
			if (time_after(jiffies, until))
				return false;
			usleep_range(100, 500);
		}
	}
	return true;
}

static void longshore_count_sent(struct longshore_queue *queue, const struct sk_buff *skb,
				 u32 header_len)
{
	struct longshore_tx_stats *stats = &queue->tx_stats;
	u32 packets = skb_is_gso(skb) ? skb_shinfo(skb)->gso_segs : 1;

	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->packets, packets);
	u64_stats_add(&stats->bytes, skb->len + (packets - 1) * header_len);
	if (packets > 1)
		u64_stats_add(&stats->tso_packets, packets);
	u64_stats_update_end(&stats->sync);
}

/* Puts a packet on the ring. False if it is to be dropped. */
static bool longshore_tx_put(struct longshore_queue *queue, struct sk_buff *skb, u32 context)
{
	struct longshore_tx_buffer *buffer = longshore_next(queue);
	u32 header_len;

	if (skb->ip_summed == CHECKSUM_PARTIAL)
		header_len = longshore_tcp_headers(skb);
	else
		header_len = min_t(u32, skb->len, sizeof_field(struct longshore_send, header));
	if (unlikely(header_len < ETH_HLEN || !pskb_may_pull(skb, header_len)))
		return false;
	if (unlikely(!longshore_map(&queue->nic->pdev->dev, buffer, skb, header_len)))
		return false;
	buffer->skb = skb;
	buffer->bytes = skb->len;
	longshore_put_packet(queue, buffer, skb, header_len, context);
	longshore_count_sent(queue, skb, header_len);
	skb_tx_timestamp(skb);
	return true;
}

netdev_tx_t longshore_start_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_queue *queue = &nic->queues[skb_get_queue_mapping(skb)];
	struct netdev_queue *txq = longshore_txq(queue);
	u32 context = LONGSHORE_NO_CONTEXT, bytes = 0;

	/* There are no rings, or not for long. */
	if (unlikely(!nic->up)) {
		dev_kfree_skb_any(skb);
		longshore_count(&queue->tx_stats.sync, &queue->tx_stats.dropped);
		return NETDEV_TX_OK;
	}
	/* The queue is stopped before it comes to this, but commands take room too. */
	if (unlikely(longshore_tx_room(queue) < LONGSHORE_TX_SLOTS) &&
	    !netif_txq_try_stop(txq, longshore_tx_room(queue), LONGSHORE_TX_ROOM))
		return NETDEV_TX_BUSY;
	if (tls_is_skb_tx_device_offloaded(skb)) {
		skb = longshore_tls_xmit(queue, skb, &context);
	} else if (unlikely(longshore_tls_is_plaintext(skb))) {
		dev_kfree_skb_any(skb);
		skb = NULL;
	}
	if (likely(skb && longshore_tx_put(queue, skb, context))) {
		/* Byte queue limits know of it before the device does. */
		bytes = skb->len;
	} else {
		dev_kfree_skb_any(skb);
		longshore_count(&queue->tx_stats.sync, &queue->tx_stats.dropped);
	}
	if (!netif_txq_maybe_stop(txq, longshore_tx_room(queue), LONGSHORE_TX_SLOTS,
				  LONGSHORE_TX_ROOM))
		longshore_count(&queue->tx_stats.sync, &queue->tx_stats.stopped);
	/* Packets before one that was dropped may wait for it. */
	if (__netdev_tx_sent_queue(txq, bytes, netdev_xmit_more()))
		longshore_tx_publish(queue);
	return NETDEV_TX_OK;
}

/* Whether the device has done with packets that were not cleaned up. */
bool longshore_tx_waits(const struct longshore_queue *queue)
{
	return longshore_index(&queue->send, LONGSHORE_RING_HEAD) != queue->tx_done;
}

static void longshore_tx_free(struct device *dev, struct longshore_tx_buffer *buffer, int budget)
{
	longshore_unmap(dev, buffer);
	if (buffer->skb)
		napi_consume_skb(buffer->skb, budget);
	if (buffer->frame)
		xdp_return_frame(buffer->frame);
	if (buffer->wait) {
		complete(&buffer->wait->done);
		longshore_put_wait(buffer->wait);
	}
	buffer->slots = 0;
}

/* Wakes a queue that was stopped, when packets or commands have left room. */
static void longshore_tx_wake(struct longshore_queue *queue)
{
	struct netdev_queue *txq = longshore_txq(queue);

	/* Pairs with the barrier of netif_txq_try_stop(): one side sees what the other wrote. */
	smp_mb();
	if (netif_tx_queue_stopped(txq) && longshore_tx_room(queue) >= LONGSHORE_TX_ROOM)
		netif_tx_wake_queue(txq);
}

/* The device has done with a command. */
static void longshore_tx_told(struct longshore_queue *queue, u64 at)
{
	const struct longshore_del_rr_state *slot = longshore_slot(&queue->send, at);

	if (slot->head.opcode == LONGSHORE_OPCODE_DEL_RR_STATE)
		longshore_ddp_left(queue->nic, slot->context, slot->tag);
}

/*
 * Frees what the device has done with, up to @head. Without a budget, that is all that is done:
 * a command waits until it is known whether it was refused, and a packet of XDP until its pages
 * can go back to their pool.
 */
void longshore_tx_clean(struct longshore_queue *queue, u64 head, int budget)
{
	struct device *dev = &queue->nic->pdev->dev;
	u64 done = queue->tx_done;
	u32 packets = 0, bytes = 0;

	/* An index that goes beyond what was published is the device's fault. */
	if (unlikely(head - done > READ_ONCE(queue->tx_published) - done))
		return;
	while (done != head) {
		struct longshore_tx_buffer *buffer = &queue->tx[done & queue->send.mask];

		if (unlikely(!buffer->slots || head - done < buffer->slots))
			break;
		if (unlikely(!budget && !buffer->skb))
			break;
		if (unlikely(!buffer->skb))
			longshore_tx_told(queue, done);
		packets += !!buffer->skb;
		bytes += buffer->bytes;
		done += buffer->slots;
		longshore_tx_free(dev, buffer, budget);
	}
	/* Pairs with longshore_tx_room(): what was freed is not looked at any more. */
	smp_store_release(&queue->tx_done, done);
	/* The ring of commands is that of the first queue. */
	if (unlikely(!queue->index && READ_ONCE(queue->nic->tls_owes)) && budget &&
	    longshore_tx_room(queue) >= LONGSHORE_TX_SLOTS)
		longshore_tls_answer_owed(queue->nic);
	if (packets)
		netdev_tx_completed_queue(longshore_txq(queue), packets, bytes);
	longshore_tx_wake(queue);
}

/* A descriptor was refused: its packet did not leave. Its slots come back as others do. */
void longshore_tx_refused(struct longshore_queue *queue,
			  const struct longshore_completion *completion)
{
	struct longshore_tx_buffer *buffer = &queue->tx[completion->index & queue->send.mask];
	const struct longshore_head *head = longshore_slot(&queue->send, completion->index);
	u64 published = READ_ONCE(queue->tx_published);
	bool ours = completion->index - queue->tx_done < published - queue->tx_done &&
		    buffer->slots;

	longshore_count(&queue->rx_stats.sync, &queue->rx_stats.refused);
	if (ours && buffer->wait)
		buffer->wait->error = -EIO;
	if (ours && head->opcode == LONGSHORE_OPCODE_SET_RSS)
		netdev_warn(queue->nic->netdev, "packets are spread as before: error %u\n",
			    completion->error);
	if (ours && head->opcode == LONGSHORE_OPCODE_SET_FILTER)
		netdev_warn(queue->nic->netdev, "multicast comes as before: error %u\n",
			    completion->error);
	if (completion->context != LONGSHORE_NO_CONTEXT)
		longshore_tls_refused(queue->nic, completion->context, completion->error);
	if (net_ratelimit())
		netdev_dbg(queue->nic->netdev, "queue %u: descriptor %llu refused, error %u\n",
			   queue->index, (unsigned long long)completion->index,
			   completion->error);
}

int longshore_tx_open(struct longshore_queue *queue)
{
	queue->tx = kvcalloc(queue->nic->send_entries, sizeof(*queue->tx), GFP_KERNEL);
	queue->tx_done = 0;
	queue->tx_published = 0;
	return queue->tx ? 0 : -ENOMEM;
}

/* Frees all packets: the device has let go of them. */
void longshore_tx_close(struct longshore_queue *queue)
{
	u32 at;

	if (!queue->tx)
		return;
	for (at = 0; at <= queue->send.mask; at++) {
		struct longshore_tx_buffer *buffer = &queue->tx[at];

		if (!buffer->slots)
			continue;
		if (buffer->wait)
			buffer->wait->error = -ENETDOWN;
		longshore_tx_free(&queue->nic->pdev->dev, buffer, 0);
	}
	netdev_tx_reset_queue(longshore_txq(queue));
	kvfree(queue->tx);
	queue->tx = NULL;
}
