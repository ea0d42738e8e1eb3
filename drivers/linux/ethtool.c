// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: what ethtool shows and sets. */

#include <linux/ethtool.h>
#include <linux/log2.h>

#include "nic.h"

/* The longest pause between interrupts. */
#define LONGSHORE_MOST_USECS	10000

struct longshore_counter {
	const char *name;
	size_t offset;
};

#define TX_COUNTER(field)	{ #field, offsetof(struct longshore_tx_stats, field) }
#define RX_COUNTER(field)	{ #field, offsetof(struct longshore_rx_stats, field) }

static const struct longshore_counter longshore_tx_counters[] = {
	TX_COUNTER(packets),
	TX_COUNTER(bytes),
	TX_COUNTER(tso_packets),
	TX_COUNTER(doorbells),
	TX_COUNTER(stopped),
	TX_COUNTER(dropped),
	TX_COUNTER(xdp_xmit),
	TX_COUNTER(xdp_xmit_full),
};

static const struct longshore_counter longshore_rx_counters[] = {
	RX_COUNTER(packets),
	RX_COUNTER(bytes),
	RX_COUNTER(csum_unnecessary),
	RX_COUNTER(lro_packets),
	RX_COUNTER(lro_bytes),
	RX_COUNTER(copied),
	RX_COUNTER(no_memory),
	RX_COUNTER(unknown_buffer),
	RX_COUNTER(refused),
	RX_COUNTER(xdp_pass),
	RX_COUNTER(xdp_drop),
	RX_COUNTER(xdp_aborted),
	RX_COUNTER(xdp_tx),
	RX_COUNTER(xdp_tx_full),
	RX_COUNTER(xdp_redirect),
	RX_COUNTER(xdp_redirect_err),
	RX_COUNTER(xdp_held),
};

/* Summed up over the queues. */
static const struct longshore_counter longshore_tls_tx_counters[] = {
	TX_COUNTER(tls_encrypted_packets),
	TX_COUNTER(tls_encrypted_bytes),
	TX_COUNTER(tls_ooo),
	TX_COUNTER(tls_fallback),
	TX_COUNTER(tls_skip_no_sync_data),
	TX_COUNTER(tls_drop_no_sync_data),
};

static const struct longshore_counter longshore_tls_rx_counters[] = {
	RX_COUNTER(tls_decrypted_packets),
	RX_COUNTER(tls_decrypted_bytes),
	RX_COUNTER(tls_resync_req_start),
	RX_COUNTER(tls_resync_req_pkt),
	RX_COUNTER(nvme_placed_bytes),
	RX_COUNTER(nvme_verified_bytes),
	RX_COUNTER(nvme_resync_req),
};

static const char * const longshore_function_counters[] = {
	"resets", "tx_tls_ctx", "rx_tls_ctx", "rx_tls_resync_res_ok", "rx_tls_resync_res_retry",
};

#define LONGSHORE_SUMS	\
	(ARRAY_SIZE(longshore_tls_tx_counters) + ARRAY_SIZE(longshore_tls_rx_counters))
#define LONGSHORE_OF_FUNCTION	(ARRAY_SIZE(longshore_function_counters) + LONGSHORE_SUMS)
#define LONGSHORE_PER_QUEUE	\
	(ARRAY_SIZE(longshore_tx_counters) + ARRAY_SIZE(longshore_rx_counters))

static void longshore_get_drvinfo(struct net_device *netdev, struct ethtool_drvinfo *info)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	strscpy(info->driver, LONGSHORE_NAME, sizeof(info->driver));
	strscpy(info->bus_info, pci_name(nic->pdev), sizeof(info->bus_info));
	snprintf(info->fw_version, sizeof(info->fw_version), "%u", nic->limits.version);
}

static int longshore_get_sset_count(struct net_device *netdev, int set)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return LONGSHORE_OF_FUNCTION + nic->limits.queues * LONGSHORE_PER_QUEUE;
}

static void longshore_get_strings(struct net_device *netdev, u32 set, u8 *data)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	u32 index, at;

	if (set != ETH_SS_STATS)
		return;
	for (at = 0; at < ARRAY_SIZE(longshore_function_counters); at++)
		ethtool_puts(&data, longshore_function_counters[at]);
	for (at = 0; at < ARRAY_SIZE(longshore_tls_tx_counters); at++)
		ethtool_sprintf(&data, "tx_%s", longshore_tls_tx_counters[at].name);
	for (at = 0; at < ARRAY_SIZE(longshore_tls_rx_counters); at++)
		ethtool_sprintf(&data, "rx_%s", longshore_tls_rx_counters[at].name);
	for (index = 0; index < nic->limits.queues; index++) {
		for (at = 0; at < ARRAY_SIZE(longshore_tx_counters); at++)
			ethtool_sprintf(&data, "tx%u_%s", index, longshore_tx_counters[at].name);
		for (at = 0; at < ARRAY_SIZE(longshore_rx_counters); at++)
			ethtool_sprintf(&data, "rx%u_%s", index, longshore_rx_counters[at].name);
	}
}

static u64 *longshore_read(const void *stats, const struct u64_stats_sync *sync,
			   const struct longshore_counter *counters, u32 count, u64 *data)
{
	unsigned int start;
	u32 at;

	do {
		start = u64_stats_fetch_begin(sync);
		for (at = 0; at < count; at++)
			data[at] = u64_stats_read(stats + counters[at].offset);
	} while (u64_stats_fetch_retry(sync, start));
	return data + count;
}

static void longshore_get_ethtool_stats(struct net_device *netdev, struct ethtool_stats *stats,
					u64 *data)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	u64 one[LONGSHORE_SUMS];
	u32 index, at;

	*data++ = nic->resets;
	*data++ = atomic64_read(&nic->tls_tx_contexts);
	*data++ = atomic64_read(&nic->tls_rx_contexts);
	*data++ = atomic64_read(&nic->tls_resync_res_ok);
	*data++ = atomic64_read(&nic->tls_resync_res_retry);
	memset(data, 0, sizeof(one));
	for (index = 0; index < nic->limits.queues; index++) {
		const struct longshore_queue *queue = &nic->queues[index];
		u64 *more;

		more = longshore_read(&queue->tx_stats, &queue->tx_stats.sync,
				      longshore_tls_tx_counters,
				      ARRAY_SIZE(longshore_tls_tx_counters), one);
		longshore_read(&queue->rx_stats, &queue->rx_stats.sync, longshore_tls_rx_counters,
			       ARRAY_SIZE(longshore_tls_rx_counters), more);
		for (at = 0; at < LONGSHORE_SUMS; at++)
			data[at] += one[at];
	}
	data += LONGSHORE_SUMS;
	for (index = 0; index < nic->limits.queues; index++) {
		struct longshore_queue *queue = &nic->queues[index];

		data = longshore_read(&queue->tx_stats, &queue->tx_stats.sync,
				      longshore_tx_counters, ARRAY_SIZE(longshore_tx_counters),
				      data);
		data = longshore_read(&queue->rx_stats, &queue->rx_stats.sync,
				      longshore_rx_counters, ARRAY_SIZE(longshore_rx_counters),
				      data);
	}
}

static void longshore_get_ringparam(struct net_device *netdev, struct ethtool_ringparam *ring,
				    struct kernel_ethtool_ringparam *kernel_ring,
				    struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	ring->tx_max_pending = nic->limits.send_entries;
	ring->rx_max_pending = min(nic->limits.receive_entries, nic->limits.small_entries);
	ring->tx_pending = nic->send_entries;
	ring->rx_pending = nic->recv_entries;
}

static void longshore_new_rings(struct longshore_nic *nic, void *data)
{
	struct ethtool_ringparam *ring = data;

	swap(nic->send_entries, ring->tx_pending);
	swap(nic->recv_entries, ring->rx_pending);
}

static int longshore_set_ringparam(struct net_device *netdev, struct ethtool_ringparam *ring,
				   struct kernel_ethtool_ringparam *kernel_ring,
				   struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	if (ring->tx_pending < LONGSHORE_MIN_ENTRIES || ring->rx_pending < LONGSHORE_MIN_ENTRIES ||
	    !is_power_of_2(ring->tx_pending) || !is_power_of_2(ring->rx_pending)) {
		NL_SET_ERR_MSG(extack, "a ring has a power of two of slots, at least 64");
		return -EINVAL;
	}
	return longshore_restart(nic, longshore_new_rings, ring);
}

static int longshore_get_coalesce(struct net_device *netdev, struct ethtool_coalesce *coalesce,
				  struct kernel_ethtool_coalesce *kernel_coalesce,
				  struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	coalesce->rx_coalesce_usecs = nic->rx_usecs;
	return 0;
}

static int longshore_set_coalesce(struct net_device *netdev, struct ethtool_coalesce *coalesce,
				  struct kernel_ethtool_coalesce *kernel_coalesce,
				  struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	if (coalesce->rx_coalesce_usecs > LONGSHORE_MOST_USECS) {
		NL_SET_ERR_MSG(extack, "a pause is at most 10000 us");
		return -EINVAL;
	}
	WRITE_ONCE(nic->rx_usecs, coalesce->rx_coalesce_usecs);
	return 0;
}

static void longshore_get_channels(struct net_device *netdev, struct ethtool_channels *channels)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	channels->max_combined = nic->limits.queues;
	channels->combined_count = nic->queue_count;
}

static void longshore_new_channels(struct longshore_nic *nic, void *data)
{
	swap(nic->queue_count, *(u32 *)data);
	longshore_rss_spread(nic);
}

static int longshore_set_channels(struct net_device *netdev, struct ethtool_channels *channels)
{
	return longshore_restart(netdev_priv(netdev), longshore_new_channels,
				 &channels->combined_count);
}

static int longshore_get_link_ksettings(struct net_device *netdev,
					struct ethtool_link_ksettings *settings)
{
	ethtool_link_ksettings_zero_link_mode(settings, supported);
	settings->base.speed = SPEED_UNKNOWN;
	settings->base.duplex = DUPLEX_FULL;
	settings->base.port = PORT_OTHER;
	return 0;
}

const struct ethtool_ops longshore_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS,
	.get_drvinfo		= longshore_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_sset_count		= longshore_get_sset_count,
	.get_strings		= longshore_get_strings,
	.get_ethtool_stats	= longshore_get_ethtool_stats,
	.get_ringparam		= longshore_get_ringparam,
	.set_ringparam		= longshore_set_ringparam,
	.get_coalesce		= longshore_get_coalesce,
	.set_coalesce		= longshore_set_coalesce,
	.get_channels		= longshore_get_channels,
	.set_channels		= longshore_set_channels,
	.get_rxfh_key_size	= longshore_get_rxfh_key_size,
	.get_rxfh_indir_size	= longshore_get_rxfh_indir_size,
#ifdef LONGSHORE_RXFH_PARAM
	.get_rxfh		= longshore_get_rxfh,
	.set_rxfh		= longshore_set_rxfh,
#else
	.get_rxfh		= longshore_get_rxfh_parts,
	.set_rxfh		= longshore_set_rxfh_parts,
#endif
#ifdef LONGSHORE_RXFH_FIELDS
	.get_rxfh_fields	= longshore_get_rxfh_fields,
	.set_rxfh_fields	= longshore_set_rxfh_fields,
#else
	.set_rxnfc		= longshore_set_rxnfc,
#endif
#ifdef LONGSHORE_RX_RING_COUNT
	.get_rx_ring_count	= longshore_get_rx_ring_count,
#else
	.get_rxnfc		= longshore_get_rxnfc,
#endif
	.get_link_ksettings	= longshore_get_link_ksettings,
	.get_ts_info		= ethtool_op_get_ts_info,
};
