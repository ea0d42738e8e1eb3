// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: programs of XDP. */

#include <linux/bpf.h>
#include <linux/bpf_trace.h>
#include <linux/filter.h>
#include <linux/if_vlan.h>

#include "nic.h"

/*
 * Bytes before a packet in a large buffer. They are fewer than in a small one, and none are left
 * for what is behind a packet: the largest that a peer's kernel merges is to fit.
 */
#define LONGSHORE_LARGE_HEADROOM	192
/* Bytes of a small buffer that are not for a packet: those before it, and skb_shared_info. */
#define LONGSHORE_XDP_OVERHEAD \
	(XDP_PACKET_HEADROOM + SKB_DATA_ALIGN(sizeof(struct skb_shared_info)))
/* The packet of the largest MTU has a small buffer, with two VLAN tags. */
#define LONGSHORE_XDP_MTU \
	((PAGE_SIZE << LONGSHORE_SMALL_ORDER) - LONGSHORE_XDP_OVERHEAD - ETH_HLEN - 2 * VLAN_HLEN)

/* ---- buffers ---- */

/* Bytes of a buffer before a packet. */
u32 longshore_headroom(const struct longshore_nic *nic, u32 order)
{
	if (!nic->xdp)
		return 0;
	return order ? LONGSHORE_LARGE_HEADROOM : XDP_PACKET_HEADROOM;
}

/* Bytes of a buffer for a packet. */
u32 longshore_room(const struct longshore_nic *nic, u32 order)
{
	u32 bytes = PAGE_SIZE << order;

	if (!nic->xdp)
		return bytes;
	return bytes - (order ? LONGSHORE_LARGE_HEADROOM : LONGSHORE_XDP_OVERHEAD);
}

/* ---- sending; under the lock of the queue ---- */

/* Puts a packet on the ring. The kernel's packets always find some room there. */
static bool longshore_xdp_put(struct longshore_queue *queue, struct xdp_frame *frame)
{
	struct longshore_tx_stats *stats = &queue->tx_stats;

	/* Pairs with longshore_mark_up(): there are rings. */
	if (unlikely(!smp_load_acquire(&queue->nic->up) || xdp_frame_has_frags(frame) ||
		     longshore_tx_room(queue) < LONGSHORE_TX_ROOM ||
		     !longshore_put_frame(queue, frame)))
		return false;
	txq_trans_cond_update(longshore_txq(queue));
	u64_stats_update_begin(&stats->sync);
	u64_stats_inc(&stats->packets);
	u64_stats_add(&stats->bytes, frame->len);
	u64_stats_update_end(&stats->sync);
	return true;
}

static bool longshore_xdp_send_back(struct longshore_queue *queue, struct xdp_buff *xdp)
{
	struct xdp_frame *frame = xdp_convert_buff_to_frame(xdp);
	struct netdev_queue *txq = longshore_txq(queue);
	bool sent;

	if (unlikely(!frame))
		return false;
	__netif_tx_lock(txq, smp_processor_id());
	sent = longshore_xdp_put(queue, frame);
	__netif_tx_unlock(txq);
	return sent;
}

/**
 * longshore_xdp_xmit() - sends packets that programs of other devices have redirected to this one
 * @netdev: the device
 * @count: how many
 * @frames: the packets
 * @flags: whether the NIC is to hear of them now
 *
 * NAPI and RCU protect it: the rings stay while it runs.
 *
 * Return: how many were sent, the others are the caller's; or a negative error.
 */
int longshore_xdp_xmit(struct net_device *netdev, int count, struct xdp_frame **frames, u32 flags)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	u32 cpu = smp_processor_id();
	struct longshore_queue *queue = &nic->queues[cpu % READ_ONCE(nic->queue_count)];
	struct longshore_tx_stats *stats = &queue->tx_stats;
	struct netdev_queue *txq = longshore_txq(queue);
	int sent = 0;

	if (unlikely(flags & ~XDP_XMIT_FLAGS_MASK))
		return -EINVAL;
	__netif_tx_lock(txq, cpu);
	while (sent < count && longshore_xdp_put(queue, frames[sent]))
		sent++;
	if (sent && flags & XDP_XMIT_FLUSH && READ_ONCE(nic->up))
		longshore_tx_publish(queue);
	u64_stats_update_begin(&stats->sync);
	u64_stats_add(&stats->xdp_xmit, sent);
	u64_stats_add(&stats->xdp_xmit_full, count - sent);
	u64_stats_update_end(&stats->sync);
	__netif_tx_unlock(txq);
	return sent;
}

/* ---- running a program ---- */

/*
 * Whether a packet may go elsewhere than to this kernel's own stack. Not what the NIC has
 * decrypted: it would be plaintext on a wire. Nor several packets that have come as one, whose
 * headers are no packet's.
 */
static bool longshore_xdp_may_leave(const struct longshore_nic *nic,
				    const struct longshore_packet *packet,
				    const struct xdp_buff *xdp)
{
	return !(packet->flags & LONGSHORE_PACKET_REPLACED) && packet->segments <= 1 &&
	       xdp->data_end - xdp->data <= nic->limits.mtu + VLAN_ETH_HLEN &&
	       xdp->data_end <= xdp_data_hard_end(xdp);
}

/* Has a packet go where the program says. If it does, its page is no longer the queue's. */
static bool longshore_xdp_leave(struct longshore_queue *queue, struct bpf_prog *program, u32 act,
				const struct longshore_packet *packet, struct xdp_buff *xdp)
{
	struct longshore_rx_stats *stats = &queue->rx_stats;
	struct net_device *netdev = queue->nic->netdev;

	if (unlikely(!longshore_xdp_may_leave(queue->nic, packet, xdp))) {
		trace_xdp_exception(netdev, program, act);
		longshore_count(&stats->sync, &stats->xdp_held);
		return false;
	}
	if (act == XDP_REDIRECT) {
		/* The kernel traces the error. */
		if (unlikely(xdp_do_redirect(netdev, xdp, program))) {
			longshore_count(&stats->sync, &stats->xdp_redirect_err);
			return false;
		}
		queue->xdp_redirected = true;
		longshore_count(&stats->sync, &stats->xdp_redirect);
		return true;
	}
	if (unlikely(!longshore_xdp_send_back(queue, xdp))) {
		trace_xdp_exception(netdev, program, act);
		longshore_count(&stats->sync, &stats->xdp_tx_full);
		return false;
	}
	queue->xdp_sent = true;
	longshore_count(&stats->sync, &stats->xdp_tx);
	return true;
}

/* Where the packet is that the program has passed: its headers end where they did before. */
static void longshore_xdp_update(struct longshore_frame *frame, const struct xdp_buff *xdp)
{
	u32 headers_end = frame->offset + frame->header_len;

	frame->offset = xdp->data - xdp->data_hard_start;
	frame->len = xdp->data_end - xdp->data;
	frame->header_len = headers_end > frame->offset ? headers_end - frame->offset : 0;
	frame->meta_len = xdp->data - xdp->data_meta;
}

/**
 * longshore_xdp_run() - has the program, if there is one, decide on a packet
 * @queue: the packet's
 * @fill: where its buffer is from
 * @buffer: its buffer, which is without memory afterwards if the packet goes elsewhere
 * @packet: what the device says of it
 * @frame: where it is; changed to where it is afterwards
 *
 * Return: whether it goes to the kernel's stack.
 */
bool longshore_xdp_run(struct longshore_queue *queue, struct longshore_fill *fill,
		       struct longshore_rx_buffer *buffer, const struct longshore_packet *packet,
		       struct longshore_frame *frame)
{
	struct bpf_prog *program = rcu_dereference_bh(queue->nic->program);
	struct longshore_rx_stats *stats = &queue->rx_stats;
	struct xdp_buff xdp;
	u32 act;

	if (!program)
		return true;
	xdp_init_buff(&xdp, PAGE_SIZE << fill->order, &fill->rxq);
	xdp_prepare_buff(&xdp, page_address(buffer->page), frame->offset, frame->len, true);
	act = bpf_prog_run_xdp(program, &xdp);
	switch (act) {
	case XDP_PASS:
		longshore_xdp_update(frame, &xdp);
		longshore_count(&stats->sync, &stats->xdp_pass);
		return true;
	case XDP_TX:
	case XDP_REDIRECT:
		if (longshore_xdp_leave(queue, program, act, packet, &xdp))
			buffer->page = NULL;
		break;
	case XDP_DROP:
		longshore_count(&stats->sync, &stats->xdp_drop);
		break;
	default:
		bpf_warn_invalid_xdp_action(queue->nic->netdev, program, act);
		fallthrough;
	case XDP_ABORTED:
		trace_xdp_exception(queue->nic->netdev, program, act);
		longshore_count(&stats->sync, &stats->xdp_aborted);
		break;
	}
	return false;
}

/* At the end of a poll: packets that programs have sent go on their way. */
void longshore_xdp_flush(struct longshore_queue *queue)
{
	struct netdev_queue *txq = longshore_txq(queue);

	if (queue->xdp_redirected) {
		queue->xdp_redirected = false;
		xdp_do_flush();
	}
	if (queue->xdp_sent) {
		queue->xdp_sent = false;
		__netif_tx_lock(txq, smp_processor_id());
		longshore_tx_publish(queue);
		__netif_tx_unlock(txq);
	}
}

/* ---- attaching a program ---- */

static void longshore_new_xdp(struct longshore_nic *nic, void *data)
{
	struct net_device *netdev = nic->netdev;

	swap(nic->xdp, *(bool *)data);
	/* Here too, so that the function is set up once only. */
	if (nic->xdp)
		netdev->features &= ~NETIF_F_LRO;
	else
		netdev->features |= netdev->wanted_features & NETIF_F_LRO;
	netdev->max_mtu = nic->limits.mtu;
	if (nic->xdp)
		netdev->max_mtu = min_t(u32, netdev->max_mtu, LONGSHORE_XDP_MTU);
}

/* Sets the function up with buffers for a program, or without. */
static int longshore_xdp_lay_out(struct longshore_nic *nic, bool xdp)
{
	int error;

	if (nic->xdp == xdp)
		return 0;
	error = longshore_restart(nic, longshore_new_xdp, &xdp);
	netdev_change_features(nic->netdev);
	return error;
}

/* A program that takes the place of another one does so between two packets. */
static int longshore_xdp_attach(struct longshore_nic *nic, struct bpf_prog *program,
				struct netlink_ext_ack *extack)
{
	struct bpf_prog *before;
	int error;

	if (program && nic->netdev->mtu > LONGSHORE_XDP_MTU) {
		NL_SET_ERR_MSG(extack, "the MTU is more than a buffer of one page has room for");
		return -EINVAL;
	}
	if (program) {
		error = longshore_xdp_lay_out(nic, true);
		if (error) {
			NL_SET_ERR_MSG(extack, "the function could not be set up for XDP");
			return error;
		}
	}
	before = rcu_replace_pointer(nic->program, program, lockdep_rtnl_is_held());
	if (before)
		bpf_prog_put(before);
	/* Without a program the other buffers do as well, if there is no memory for new ones. */
	if (!program && longshore_xdp_lay_out(nic, false))
		netdev_warn(nic->netdev, "buffers stay as for XDP, without LRO, MTU at most %u\n",
			    nic->netdev->max_mtu);
	return 0;
}

int longshore_bpf(struct net_device *netdev, struct netdev_bpf *bpf)
{
	switch (bpf->command) {
	case XDP_SETUP_PROG:
		return longshore_xdp_attach(netdev_priv(netdev), bpf->prog, bpf->extack);
	default:
		return -EINVAL;
	}
}
