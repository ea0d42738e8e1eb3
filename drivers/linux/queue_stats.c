// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: statistics by queue, over netlink. */

#include <net/netdev_queues.h>

#include "nic.h"

/* Adds what a queue has received. */
static void longshore_add_rx(const struct longshore_queue *queue,
			     struct netdev_queue_stats_rx *stats)
{
	const struct longshore_rx_stats *rx = &queue->rx_stats;
	u64 packets, bytes, no_memory, checked;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&rx->sync);
		packets = u64_stats_read(&rx->packets);
		bytes = u64_stats_read(&rx->bytes);
		no_memory = u64_stats_read(&rx->no_memory);
		checked = u64_stats_read(&rx->csum_unnecessary);
	} while (u64_stats_fetch_retry(&rx->sync, start));
	stats->packets += packets;
	stats->bytes += bytes;
	stats->alloc_fail += no_memory;
	stats->csum_unnecessary += checked;
}

/* Adds what a queue has sent. */
static void longshore_add_tx(const struct longshore_queue *queue,
			     struct netdev_queue_stats_tx *stats)
{
	const struct longshore_tx_stats *tx = &queue->tx_stats;
	u64 packets, bytes, segmented, stopped;
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&tx->sync);
		packets = u64_stats_read(&tx->packets);
		bytes = u64_stats_read(&tx->bytes);
		segmented = u64_stats_read(&tx->tso_packets);
		stopped = u64_stats_read(&tx->stopped);
	} while (u64_stats_fetch_retry(&tx->sync, start));
	stats->packets += packets;
	stats->bytes += bytes;
	stats->hw_gso_wire_packets += segmented;
	stats->stop += stopped;
}

static void longshore_no_rx(struct netdev_queue_stats_rx *stats)
{
	stats->packets = 0;
	stats->bytes = 0;
	stats->alloc_fail = 0;
	stats->csum_unnecessary = 0;
}

static void longshore_no_tx(struct netdev_queue_stats_tx *stats)
{
	stats->packets = 0;
	stats->bytes = 0;
	stats->hw_gso_wire_packets = 0;
	stats->stop = 0;
}

static void longshore_queue_stats_rx(struct net_device *netdev, int index,
				     struct netdev_queue_stats_rx *stats)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	longshore_no_rx(stats);
	longshore_add_rx(&nic->queues[index], stats);
}

static void longshore_queue_stats_tx(struct net_device *netdev, int index,
				     struct netdev_queue_stats_tx *stats)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	longshore_no_tx(stats);
	longshore_add_tx(&nic->queues[index], stats);
}

/* What queues have that are not in use now. */
static void longshore_base_stats(struct net_device *netdev, struct netdev_queue_stats_rx *rx,
				 struct netdev_queue_stats_tx *tx)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	u32 index;

	longshore_no_rx(rx);
	longshore_no_tx(tx);
	for (index = netdev->real_num_rx_queues; index < nic->limits.queues; index++)
		longshore_add_rx(&nic->queues[index], rx);
	for (index = netdev->real_num_tx_queues; index < nic->limits.queues; index++)
		longshore_add_tx(&nic->queues[index], tx);
}

const struct netdev_stat_ops longshore_stat_ops = {
	.get_queue_stats_rx	= longshore_queue_stats_rx,
	.get_queue_stats_tx	= longshore_queue_stats_tx,
	.get_base_stats		= longshore_base_stats,
};
