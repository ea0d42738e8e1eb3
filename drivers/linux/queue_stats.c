// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: statistics of the interface, and by queue over netlink. */

#ifdef LONGSHORE_QUEUE_STATS
#include <net/netdev_queues.h>
#endif

#include "nic.h"

/* What queues have received. */
struct longshore_received {
	u64 packets;
	u64 bytes;
	u64 no_memory;
	u64 csum_unnecessary;
	u64 refused;
};

/* What queues have sent. */
struct longshore_sent {
	u64 packets;
	u64 bytes;
	u64 tso_packets;
	u64 stopped;
	u64 dropped;
};

static void longshore_add_received(const struct longshore_queue *queue,
				   struct longshore_received *sum)
{
	const struct longshore_rx_stats *rx = &queue->rx_stats;
	struct longshore_received one;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&rx->sync);
		one.packets = u64_stats_read(&rx->packets);
		one.bytes = u64_stats_read(&rx->bytes);
		one.no_memory = u64_stats_read(&rx->no_memory);
		one.csum_unnecessary = u64_stats_read(&rx->csum_unnecessary);
		one.refused = u64_stats_read(&rx->refused);
	} while (u64_stats_fetch_retry(&rx->sync, start));
	sum->packets += one.packets;
	sum->bytes += one.bytes;
	sum->no_memory += one.no_memory;
	sum->csum_unnecessary += one.csum_unnecessary;
	sum->refused += one.refused;
}

static void longshore_add_sent(const struct longshore_queue *queue, struct longshore_sent *sum)
{
	const struct longshore_tx_stats *tx = &queue->tx_stats;
	struct longshore_sent one;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&tx->sync);
		one.packets = u64_stats_read(&tx->packets);
		one.bytes = u64_stats_read(&tx->bytes);
		one.tso_packets = u64_stats_read(&tx->tso_packets);
		one.stopped = u64_stats_read(&tx->stopped);
		one.dropped = u64_stats_read(&tx->dropped);
	} while (u64_stats_fetch_retry(&tx->sync, start));
	sum->packets += one.packets;
	sum->bytes += one.bytes;
	sum->tso_packets += one.tso_packets;
	sum->stopped += one.stopped;
	sum->dropped += one.dropped;
}

void longshore_get_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_received received = {};
	struct longshore_sent sent = {};
	u32 index;

	for (index = 0; index < nic->limits.queues; index++) {
		longshore_add_received(&nic->queues[index], &received);
		longshore_add_sent(&nic->queues[index], &sent);
	}
	stats->rx_packets = received.packets;
	stats->rx_bytes = received.bytes;
	stats->rx_dropped = received.no_memory;
	stats->tx_packets = sent.packets;
	stats->tx_bytes = sent.bytes;
	stats->tx_dropped = sent.dropped;
	stats->tx_errors = received.refused;
}

#ifdef LONGSHORE_QUEUE_STATS
/* The units are those of the kernel's Documentation/netlink/specs/netdev.yaml. */
static void longshore_show_rx(const struct longshore_received *received,
			      struct netdev_queue_stats_rx *stats)
{
	stats->packets = received->packets;
	stats->bytes = received->bytes;
	stats->alloc_fail = received->no_memory;
	stats->csum_unnecessary = received->csum_unnecessary;
}

static void longshore_show_tx(const struct longshore_sent *sent,
			      struct netdev_queue_stats_tx *stats)
{
	stats->packets = sent->packets;
	stats->bytes = sent->bytes;
	stats->hw_gso_wire_packets = sent->tso_packets;
	stats->stop = sent->stopped;
}

static void longshore_queue_stats_rx(struct net_device *netdev, int index,
				     struct netdev_queue_stats_rx *stats)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_received received = {};

	longshore_add_received(&nic->queues[index], &received);
	longshore_show_rx(&received, stats);
}

static void longshore_queue_stats_tx(struct net_device *netdev, int index,
				     struct netdev_queue_stats_tx *stats)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_sent sent = {};

	longshore_add_sent(&nic->queues[index], &sent);
	longshore_show_tx(&sent, stats);
}

/* What queues have that are not in use now. */
static void longshore_base_stats(struct net_device *netdev, struct netdev_queue_stats_rx *rx,
				 struct netdev_queue_stats_tx *tx)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_received received = {};
	struct longshore_sent sent = {};
	u32 index;

	for (index = netdev->real_num_rx_queues; index < nic->limits.queues; index++)
		longshore_add_received(&nic->queues[index], &received);
	for (index = netdev->real_num_tx_queues; index < nic->limits.queues; index++)
		longshore_add_sent(&nic->queues[index], &sent);
	longshore_show_rx(&received, rx);
	longshore_show_tx(&sent, tx);
}

const struct netdev_stat_ops longshore_stat_ops = {
	.get_queue_stats_rx	= longshore_queue_stats_rx,
	.get_queue_stats_tx	= longshore_queue_stats_tx,
	.get_base_stats		= longshore_base_stats,
};
#endif
