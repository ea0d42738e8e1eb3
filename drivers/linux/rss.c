// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: how received packets are spread over the queues. */

#include <linux/ethtool.h>

#include "nic.h"

#define LONGSHORE_RSS_ENTRIES	ARRAY_SIZE(((struct longshore_rss_settings *)NULL)->table)
#define LONGSHORE_RSS_KEY_BYTES	sizeof_field(struct longshore_rss_settings, key)

#define LONGSHORE_RXH_ADDRESSES	(RXH_IP_SRC | RXH_IP_DST)
#define LONGSHORE_RXH_PORTS	(RXH_L4_B_0_1 | RXH_L4_B_2_3)

#define LONGSHORE_ALL_HASH_TYPES \
	(LONGSHORE_HASH_TYPE_IPV4 | LONGSHORE_HASH_TYPE_TCP_IPV4 | LONGSHORE_HASH_TYPE_UDP_IPV4 | \
	 LONGSHORE_HASH_TYPE_IPV6 | LONGSHORE_HASH_TYPE_TCP_IPV6 | LONGSHORE_HASH_TYPE_UDP_IPV6)

static_assert(LONGSHORE_RSS_ENTRIES >= 4 * LONGSHORE_MAX_QUEUES);

static bool longshore_has_rss(const struct longshore_nic *nic)
{
	return nic->limits.features & LONGSHORE_FEATURE_RSS;
}

/* Spreads evenly over all queues, unless the user has set something else. */
void longshore_rss_spread(struct longshore_nic *nic)
{
	u32 at;

	if (netif_is_rxfh_configured(nic->netdev))
		return;
	for (at = 0; at < LONGSHORE_RSS_ENTRIES; at++)
		nic->rss.table[at] = ethtool_rxfh_indir_default(at, nic->queue_count);
}

/* The key is the system's own, as of other drivers. */
int longshore_rss_init(struct longshore_nic *nic)
{
	if (!longshore_has_rss(nic))
		return 0;
	nic->rss_memory = dmam_alloc_coherent(&nic->pdev->dev, sizeof(*nic->rss_memory),
					      &nic->rss_dma, GFP_KERNEL);
	if (!nic->rss_memory)
		return -ENOMEM;
	nic->rss.types = LONGSHORE_ALL_HASH_TYPES;
	netdev_rss_key_fill(nic->rss.key, sizeof(nic->rss.key));
	longshore_rss_spread(nic);
	return 0;
}

/* A function that was set up spreads as the device likes, until it is told. With the RTNL lock. */
int longshore_rss_apply(struct longshore_nic *nic)
{
	struct longshore_set_rss slot = {
		.head = { .opcode = LONGSHORE_OPCODE_SET_RSS, .slices = 1 },
		.slices[0] = {
			.offset = nic->rss_dma,
			.len = sizeof(*nic->rss_memory),
			.region = LONGSHORE_REGION,
		},
	};
	u32 epoch;

	if (!longshore_has_rss(nic))
		return 0;
	*nic->rss_memory = nic->rss;
	return longshore_command(nic, &slot, sizeof(slot), &epoch);
}

/* A function that is down is told when it is set up. */
static int longshore_rss_change(struct longshore_nic *nic, const struct longshore_rss_settings *to)
{
	struct longshore_rss_settings before = nic->rss;
	int error;

	nic->rss = *to;
	error = nic->up ? longshore_rss_apply(nic) : 0;
	if (error)
		nic->rss = before;
	return error;
}

u32 longshore_get_rxfh_key_size(struct net_device *netdev)
{
	return longshore_has_rss(netdev_priv(netdev)) ? LONGSHORE_RSS_KEY_BYTES : 0;
}

u32 longshore_get_rxfh_indir_size(struct net_device *netdev)
{
	return longshore_has_rss(netdev_priv(netdev)) ? LONGSHORE_RSS_ENTRIES : 0;
}

/* What the device was told last, or is going to be told. Any user may ask: the device is not. */
int longshore_get_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *rxfh)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	const struct longshore_rss_settings *settings = &nic->rss;
	u32 at;

	if (!longshore_has_rss(nic))
		return -EOPNOTSUPP;
	rxfh->hfunc = ETH_RSS_HASH_TOP;
	if (rxfh->key)
		memcpy(rxfh->key, settings->key, sizeof(settings->key));
	for (at = 0; rxfh->indir && at < LONGSHORE_RSS_ENTRIES; at++)
		rxfh->indir[at] = settings->table[at];
	return 0;
}

int longshore_set_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *rxfh,
		       struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_rss_settings settings = nic->rss;
	u32 at;

	if (!longshore_has_rss(nic))
		return -EOPNOTSUPP;
	if (rxfh->hfunc != ETH_RSS_HASH_NO_CHANGE && rxfh->hfunc != ETH_RSS_HASH_TOP) {
		NL_SET_ERR_MSG(extack, "the hash is Toeplitz's");
		return -EOPNOTSUPP;
	}
	if (rxfh->key)
		memcpy(settings.key, rxfh->key, sizeof(settings.key));
	for (at = 0; rxfh->indir && at < LONGSHORE_RSS_ENTRIES; at++)
		settings.table[at] = rxfh->indir[at];
	return longshore_rss_change(nic, &settings);
}

/* The type of hash with ports of this kind of flow, or 0. */
static u32 longshore_type_with_ports(u32 flow_type)
{
	switch (flow_type) {
	case TCP_V4_FLOW:
		return LONGSHORE_HASH_TYPE_TCP_IPV4;
	case UDP_V4_FLOW:
		return LONGSHORE_HASH_TYPE_UDP_IPV4;
	case TCP_V6_FLOW:
		return LONGSHORE_HASH_TYPE_TCP_IPV6;
	case UDP_V6_FLOW:
		return LONGSHORE_HASH_TYPE_UDP_IPV6;
	default:
		return 0;
	}
}

#ifdef LONGSHORE_RXFH_FIELDS
int longshore_get_rxfh_fields(struct net_device *netdev, struct ethtool_rxfh_fields *fields)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	if (!longshore_has_rss(nic))
		return -EOPNOTSUPP;
	fields->data = LONGSHORE_RXH_ADDRESSES;
	if (nic->rss.types & longshore_type_with_ports(fields->flow_type))
		fields->data |= LONGSHORE_RXH_PORTS;
	return 0;
}

int longshore_set_rxfh_fields(struct net_device *netdev, const struct ethtool_rxfh_fields *fields,
			      struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct longshore_rss_settings settings = nic->rss;
	u32 type = longshore_type_with_ports(fields->flow_type);

	if (!longshore_has_rss(nic))
		return -EOPNOTSUPP;
	if (fields->data == (LONGSHORE_RXH_ADDRESSES | LONGSHORE_RXH_PORTS) && type) {
		settings.types |= type;
	} else if (fields->data == LONGSHORE_RXH_ADDRESSES) {
		settings.types &= ~type;
	} else {
		NL_SET_ERR_MSG(extack, "hashed are both addresses, of TCP and UDP both ports too");
		return -EOPNOTSUPP;
	}
	return longshore_rss_change(nic, &settings);
}

u32 longshore_get_rx_ring_count(struct net_device *netdev)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	return nic->queue_count;
}
#else
/* Older kernels ask in one function for the number of queues and the fields. */
int longshore_get_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info, u32 *rules)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	switch (info->cmd) {
	case ETHTOOL_GRXRINGS:
		info->data = nic->queue_count;
		return 0;
	case ETHTOOL_GRXFH:
		if (!longshore_has_rss(nic))
			return -EOPNOTSUPP;
		info->data = LONGSHORE_RXH_ADDRESSES;
		if (nic->rss.types & longshore_type_with_ports(info->flow_type))
			info->data |= LONGSHORE_RXH_PORTS;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}
#endif
