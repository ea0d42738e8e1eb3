// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: packets of kernel TLS that the device encrypts. */

#include <linux/tcp.h>

#include "nic.h"
#include "tls_context.h"

/* What to do with a packet that does not begin where its context is. */
enum longshore_tls_recovery {
	LONGSHORE_TLS_RECOVERED,	/* The context is brought there. */
	LONGSHORE_TLS_PLAIN,		/* It is of before the first record. */
	LONGSHORE_TLS_NO_RECORD,	/* Its record is not known any more. */
};

/* The part of a record before @bytes, with references to its pages. */
static u32 longshore_tls_prefix(const struct tls_record_info *record, u32 bytes,
				struct longshore_tx_part *parts)
{
	u32 at;

	for (at = 0; bytes && at < record->num_frags; at++) {
		const skb_frag_t *frag = &record->frags[at];

		parts[at].page = skb_frag_page(frag);
		parts[at].offset = skb_frag_off(frag);
		parts[at].len = min_t(u32, bytes, skb_frag_size(frag));
		get_page(parts[at].page);
		bytes -= parts[at].len;
	}
	return at;
}

/* Finds the record of @sequence, and has the device read it up to there. */
static enum longshore_tls_recovery longshore_tls_recover(struct longshore_queue *queue,
							 const struct longshore_tls *tls,
							 struct tls_offload_context_tx *context,
							 u32 sequence)
{
	struct longshore_tx_part parts[MAX_SKB_FRAGS];
	struct longshore_recover_context recover = {
		.head.opcode = LONGSHORE_OPCODE_RECOVER_CONTEXT,
		.context = tls->id,
		.resume = sequence,
	};
	struct tls_record_info *record;
	unsigned long flags;
	u64 index = 0;
	u32 count;

	spin_lock_irqsave(&context->lock, flags);
	record = tls_get_record(context, sequence, &index);
	if (!record || tls_record_is_start_marker(record)) {
		spin_unlock_irqrestore(&context->lock, flags);
		return record ? LONGSHORE_TLS_PLAIN : LONGSHORE_TLS_NO_RECORD;
	}
	recover.len = record->len;
	recover.index = index;
	recover.start = tls_record_start_seq(record);
	count = longshore_tls_prefix(record, sequence - recover.start, parts);
	spin_unlock_irqrestore(&context->lock, flags);

	if (longshore_tx_recover(queue, &recover, parts, count))
		return LONGSHORE_TLS_NO_RECORD;
	return LONGSHORE_TLS_RECOVERED;
}

static void longshore_tls_count(struct longshore_queue *queue, struct sk_buff *skb, u32 payload)
{
	struct longshore_tx_stats *stats = &queue->tx_stats;
	u32 packets = max_t(u32, skb_shinfo(skb)->gso_segs, 1);

	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->tls_encrypted_packets, packets);
	u64_stats_add(&stats->tls_encrypted_bytes, payload);
	u64_stats_update_end(&stats->sync);
}

/*
 * Has the kernel encrypt a packet. The kernel takes for granted that the device makes the checksum
 * then. One that was made already follows what has changed: the pseudo-header that the kernel puts
 * in its place has neither the right length, nor the addresses of IPv6 with a routing header.
 */
static struct sk_buff *longshore_tls_encrypt(struct longshore_queue *queue, struct sk_buff *skb)
{
	bool made = skb->ip_summed != CHECKSUM_PARTIAL;
	__sum16 check = tcp_hdr(skb)->check;
	u32 at = skb_tcp_all_headers(skb);
	__wsum plain = 0;

	longshore_count(&queue->tx_stats.sync, &queue->tx_stats.tls_fallback);
	if (made)
		plain = skb_checksum(skb, at, skb->len - at, 0);
	skb = tls_encrypt_skb(skb);
	if (!skb || !made || skb->ip_summed != CHECKSUM_PARTIAL)
		return skb;
	csum_replace_by_diff(&check, csum_sub(skb_checksum(skb, at, skb->len - at, 0), plain));
	tcp_hdr(skb)->check = check;
	skb->ip_summed = CHECKSUM_NONE;
	return skb;
}

/*
 * Whether the packet has come straight from its socket. For a device that it has come by the kernel
 * has encrypted it, and twice is plaintext; but not for a bond.
 */
static bool longshore_tls_is_straight(const struct sk_buff *skb, const struct net_device *netdev)
{
	const struct dst_entry *dst = skb_dst(skb);

	return dst && (dst->dev == netdev || netif_is_bond_master(dst->dev));
}

/* Whether kernel TLS knows the record that a packet of @sk begins in: it has encrypted no other. */
static bool longshore_tls_has_record(const struct sock *sk, u32 sequence)
{
	struct tls_offload_context_tx *context;
	struct tls_record_info *record;
	unsigned long flags;
	bool known;
	u64 index;

	/* Pairs with kernel TLS, which sets it behind the context. */
	if (!sk_fullsock(sk) || smp_load_acquire(&sk->sk_destruct) != tls_device_sk_destruct ||
	    tls_get_ctx(sk)->tx_conf != TLS_HW)
		return false;
	context = tls_offload_ctx_tx(tls_get_ctx(sk));
	spin_lock_irqsave(&context->lock, flags);
	record = tls_get_record(context, sequence, &index);
	known = record && !tls_record_is_start_marker(record);
	spin_unlock_irqrestore(&context->lock, flags);
	return known;
}

/**
 * longshore_tls_is_plaintext() - whether a packet of no offloaded socket was to be encrypted
 * @skb: the packet
 *
 * Generic XDP may send back what the device has decrypted; it has no socket then. A packet may have
 * waited since its socket's context was taken from the device. What the kernel has encrypted in the
 * device's place is marked too, but is a copy in one piece, and of a record of today's key; without
 * scatter-gather the others are in one piece too.
 */
bool longshore_tls_is_plaintext(const struct sk_buff *skb)
{
	if (likely(!skb_is_decrypted(skb)))
		return false;
	return !skb->sk || skb_is_nonlinear(skb) ||
	       !longshore_tls_has_record(skb->sk, ntohl(tcp_hdr(skb)->seq));
}

/**
 * longshore_tls_xmit() - has the device encrypt a packet of kernel TLS
 * @queue: the packet's, whose lock is held
 * @skb: the packet
 * @id: the context that it is to be sent with
 *
 * A socket whose route leads here may have its context in another function, or another driver:
 * kernel TLS has encrypted its packets then (tls_validate_xmit_skb()).
 *
 * Return: the packet, another one that the kernel has encrypted, or %NULL if it was dropped.
 */
struct sk_buff *longshore_tls_xmit(struct longshore_queue *queue, struct sk_buff *skb, u32 *id)
{
	struct tls_context *context = tls_get_ctx(skb->sk);
	const struct net_device *owner = rcu_dereference_bh(context->netdev);
	struct longshore_tx_stats *stats = &queue->tx_stats;
	u32 sequence = ntohl(tcp_hdr(skb)->seq);
	u32 payload = skb->len - skb_tcp_all_headers(skb);
	struct longshore_tls *tls;

	if (!payload || (owner && owner != queue->nic->netdev))
		return skb;
	/* Without an owner its interface goes down, and the kernel encrypts what is sent again. */
	if (unlikely(!owner || !longshore_tls_is_straight(skb, owner))) {
		dev_kfree_skb_any(skb);
		return NULL;
	}
	tls = longshore_tls_state(context, TLS_OFFLOAD_CTX_DIR_TX)->tls;
	if (unlikely(tls->epoch != READ_ONCE(queue->nic->epoch) || READ_ONCE(tls->useless) ||
		     skb->ip_summed != CHECKSUM_PARTIAL))
		return longshore_tls_encrypt(queue, skb);
	if (unlikely(sequence != tls->next || READ_ONCE(tls->lost))) {
		longshore_count(&stats->sync, &stats->tls_ooo);
		WRITE_ONCE(tls->lost, false);
		switch (longshore_tls_recover(queue, tls, tls_offload_ctx_tx(context), sequence)) {
		case LONGSHORE_TLS_RECOVERED:
			break;
		case LONGSHORE_TLS_PLAIN:
			longshore_count(&stats->sync, &stats->tls_skip_no_sync_data);
			if (likely(!skb_is_decrypted(skb)))
				return skb;
			/* It goes on behind where the first record begins. */
			fallthrough;
		case LONGSHORE_TLS_NO_RECORD:
			longshore_count(&stats->sync, &stats->tls_drop_no_sync_data);
			dev_kfree_skb_any(skb);
			return NULL;
		}
	}
	tls->next = sequence + payload;
	*id = tls->id;
	longshore_tls_count(queue, skb, payload);
	return skb;
}
